/*
 * il_hash.c: fingerprints and keyed entry hashes.
 *
 * Each part is preceded by its length in eight bytes, little end first; or, in
 * entry hashes, in one byte where it is below 255.
 * Only the body of a fingerprint has no length before it, because it arrives
 * in pieces; being the last part it cannot run into another one.
 */

#include <endian.h>

#include "il_hash.h"


static void
il_hash_length(crypto_generichash_state *state, size_t len)
{
    uint8_t   le[8];
    uint64_t  n;
    size_t    i;

    n = len;

    for (i = 0; i < sizeof(le); i++) {
        le[i] = (uint8_t) (n & 0xff);
        n >>= 8;
    }

    (void) crypto_generichash_update(state, le, sizeof(le));
}


static void
il_hash_part(crypto_generichash_state *state, il_str_t part)
{
    il_hash_length(state, part.len);

    if (part.len != 0) {
        (void) crypto_generichash_update(state,
                                         (const unsigned char *) part.data,
                                         part.len);
    }
}


/*
 * The generichash calls fail only for lengths out of bounds; ours are
 * constants within them.
 */

void
il_fp_init(il_fp_t *fp, il_str_t method, il_str_t source, il_str_t uri)
{
    (void) crypto_generichash_init(&fp->state, NULL, 0, IL_FP_BYTES);

    il_hash_part(&fp->state, method);
    il_hash_part(&fp->state, source);
    il_hash_part(&fp->state, uri);
}


void
il_fp_update(il_fp_t *fp, const void *data, size_t len)
{
    if (len != 0) {
        (void) crypto_generichash_update(&fp->state, data, len);
    }
}


void
il_fp_final(il_fp_t *fp, uint8_t out[IL_FP_BYTES])
{
    (void) crypto_generichash_final(&fp->state, out, IL_FP_BYTES);
}


/*
 * SipHash-2-4.  Bytes are gathered in `tail`, little end first, until there
 * are eight; `len` counts them all, though only its last byte is used.
 */

typedef struct {
    uint64_t  v0, v1, v2, v3;
    uint64_t  tail;
    size_t    len;
} il_sip_t;


static inline uint64_t
il_sip_rotl(uint64_t x, unsigned n)
{
    return (x << n) | (x >> (64 - n));
}


static inline uint64_t
il_sip_load(const uint8_t *p)
{
    uint64_t  w;

    memcpy(&w, p, sizeof(w));

    return le64toh(w);
}


static inline void
il_sip_round(il_sip_t *s)
{
    s->v0 += s->v1;
    s->v1 = il_sip_rotl(s->v1, 13) ^ s->v0;
    s->v0 = il_sip_rotl(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = il_sip_rotl(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = il_sip_rotl(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = il_sip_rotl(s->v1, 17) ^ s->v2;
    s->v2 = il_sip_rotl(s->v2, 32);
}


static inline void
il_sip_word(il_sip_t *s, uint64_t w)
{
    s->v3 ^= w;
    il_sip_round(s);
    il_sip_round(s);
    s->v0 ^= w;
}


/* The first n bytes of w, 1 to 8 of them, the others being 0; wherever in a
 * word the bytes before them ended. */

static inline void
il_sip_bytes(il_sip_t *s, uint64_t w, unsigned n)
{
    unsigned  used;

    used = (unsigned) (s->len % 8);
    s->len += n;

    s->tail |= w << 8 * used;

    if (used + n >= 8) {
        il_sip_word(s, s->tail);
        s->tail = used == 0 ? 0 : w >> 8 * (8 - used);
    }
}


/* A length: one byte if it is below 255, else that and eight. */

static inline void
il_sip_length(il_sip_t *s, size_t len)
{
    if (len < 0xff) {
        il_sip_bytes(s, len, 1);
        return;
    }

    il_sip_bytes(s, 0xff, 1);
    il_sip_bytes(s, len, 8);
}


/* The last n bytes of len, 1 to 7, before p. */

static inline uint64_t
il_sip_last(const uint8_t *p, size_t n, size_t len)
{
    uint64_t  w;

    if (len >= 8) {
        return il_sip_load(p - 8) >> 8 * (8 - n);
    }

    for (w = 0; n > 0; n--) {
        w = w << 8 | *--p;
    }

    return w;
}


/* The bytes at p, eight at a time, as often as there are; how many of n are
 * left. */

static inline size_t
il_sip_eights(il_sip_t *s, const uint8_t *p, size_t n)
{
    uint64_t  w;
    unsigned  bits;

    bits = 8 * (unsigned) (s->len % 8);
    s->len += n - n % 8;

    if (bits == 0) {
        for ( /* void */ ; n >= 8; n -= 8, p += 8) {
            il_sip_word(s, il_sip_load(p));
        }

        return n;
    }

    for ( /* void */ ; n >= 8; n -= 8, p += 8) {
        w = il_sip_load(p);
        il_sip_word(s, s->tail | w << bits);
        s->tail = w >> (64 - bits);
    }

    return n;
}


static inline void
il_sip_part(il_sip_t *s, il_str_t part)
{
    size_t          n;
    const uint8_t  *p;

    p = (const uint8_t *) part.data;

    il_sip_length(s, part.len);

    n = il_sip_eights(s, p, part.len);

    if (n > 0) {
        il_sip_bytes(s, il_sip_last(p + part.len, n, part.len), (unsigned) n);
    }
}


/* Eight bytes of the result. */

static inline void
il_sip_final(uint8_t *out, il_sip_t *s)
{
    uint64_t  w;

    il_sip_round(s);
    il_sip_round(s);
    il_sip_round(s);
    il_sip_round(s);

    w = htole64(s->v0 ^ s->v1 ^ s->v2 ^ s->v3);
    memcpy(out, &w, sizeof(w));
}


void
il_entry_hash(uint8_t out[IL_ENTRY_BYTES], const uint8_t key[IL_ENTRY_KEY],
    const il_str_t *parts, size_t n)
{
    size_t    i;
    uint64_t  k0, k1;
    il_sip_t  s;

    k0 = il_sip_load(key);
    k1 = il_sip_load(key + 8);

    /* 0xee tells 128 bits from 64 */

    s.v0 = k0 ^ 0x736f6d6570736575;
    s.v1 = k1 ^ 0x646f72616e646f6d ^ 0xee;
    s.v2 = k0 ^ 0x6c7967656e657261;
    s.v3 = k1 ^ 0x7465646279746573;
    s.tail = 0;
    s.len = 0;

    /* The number of parts too: a list never equals its own beginning. */

    il_sip_length(&s, n);

    for (i = 0; i < n; i++) {
        il_sip_part(&s, parts[i]);
    }

    il_sip_word(&s, s.tail | (uint64_t) s.len << 56);

    s.v2 ^= 0xee;
    il_sip_final(out, &s);

    s.v1 ^= 0xdd;
    il_sip_final(out + 8, &s);
}


void
il_work_hash(uint8_t out[IL_WORK_BYTES], il_str_t tenant, il_str_t work_key)
{
    crypto_generichash_state  state;

    (void) crypto_generichash_init(&state, NULL, 0, IL_WORK_BYTES);

    il_hash_part(&state, tenant);
    il_hash_part(&state, work_key);

    (void) crypto_generichash_final(&state, out, IL_WORK_BYTES);
}


void
il_digest(uint8_t out[32], il_str_t s)
{
    (void) crypto_generichash(out, 32, (const unsigned char *) s.data, s.len,
                              NULL, 0);
}
