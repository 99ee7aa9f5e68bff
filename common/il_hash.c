/*
 * il_hash.c: fingerprints and keyed entry hashes.
 *
 * Each part is preceded by its length in eight bytes, little end first.
 * Only the body of a fingerprint has no length before it, because it arrives
 * in pieces; being the last part it cannot run into another one.
 */

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


void
il_entry_hash(uint8_t out[IL_ENTRY_BYTES], const uint8_t key[IL_ENTRY_KEY],
    const il_str_t *parts, size_t n)
{
    size_t                    i;
    crypto_generichash_state  state;

    (void) crypto_generichash_init(&state, key, IL_ENTRY_KEY, IL_ENTRY_BYTES);

    /* The number of parts too: a list never equals its own beginning. */

    il_hash_length(&state, n);

    for (i = 0; i < n; i++) {
        il_hash_part(&state, parts[i]);
    }

    (void) crypto_generichash_final(&state, out, IL_ENTRY_BYTES);

    sodium_memzero(&state, sizeof(state));
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
