/*
 * il_mac.c: HMAC over SHA-256 (OpenSSL or libsodium), SHA-512 (libsodium) and
 * SHA-1 (RFC 3174).
 */

#include "il_mac.h"


static uint32_t
il_rotl(uint32_t x, unsigned n)
{
    return (x << n) | (x >> (32 - n));
}


static void
il_sha1_block(il_sha1_t *s, const uint8_t *p)
{
    size_t    i;
    uint32_t  w[80], a, b, c, d, e, f, k, t;

    for (i = 0; i < 16; i++) {
        w[i] = (uint32_t) p[4 * i] << 24 | (uint32_t) p[4 * i + 1] << 16
               | (uint32_t) p[4 * i + 2] << 8 | (uint32_t) p[4 * i + 3];
    }

    for (i = 16; i < 80; i++) {
        w[i] = il_rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }

    a = s->h[0];
    b = s->h[1];
    c = s->h[2];
    d = s->h[3];
    e = s->h[4];

    for (i = 0; i < 80; i++) {

        if (i < 20) {
            f = (b & c) | (~b & d);
            k = 0x5a827999;

        } else if (i < 40) {
            f = b ^ c ^ d;
            k = 0x6ed9eba1;

        } else if (i < 60) {
            f = (b & c) | (b & d) | (c & d);
            k = 0x8f1bbcdc;

        } else {
            f = b ^ c ^ d;
            k = 0xca62c1d6;
        }

        t = il_rotl(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = il_rotl(b, 30);
        b = a;
        a = t;
    }

    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
    s->h[4] += e;
}


void
il_sha1_init(il_sha1_t *s)
{
    s->h[0] = 0x67452301;
    s->h[1] = 0xefcdab89;
    s->h[2] = 0x98badcfe;
    s->h[3] = 0x10325476;
    s->h[4] = 0xc3d2e1f0;
    s->total = 0;
}


void
il_sha1_update(il_sha1_t *s, const uint8_t *data, size_t len)
{
    size_t  used, n;

    used = (size_t) (s->total % sizeof(s->block));
    s->total += len;

    if (used != 0) {
        n = sizeof(s->block) - used;
        n = len < n ? len : n;

        memcpy(s->block + used, data, n);
        data += n;
        len -= n;

        if (used + n < sizeof(s->block)) {
            return;
        }

        il_sha1_block(s, s->block);
    }

    while (len >= sizeof(s->block)) {
        il_sha1_block(s, data);
        data += sizeof(s->block);
        len -= sizeof(s->block);
    }

    if (len != 0) {
        memcpy(s->block, data, len);
    }
}


void
il_sha1_final(il_sha1_t *s, uint8_t out[20])
{
    size_t    i, used;
    uint8_t   pad[64 + 8];
    uint64_t  bits;

    bits = s->total * 8;
    used = (size_t) (s->total % 64);

    /* One bit, zeros up to 56 modulo 64, and the length in bits. */

    memset(pad, 0, sizeof(pad));
    pad[0] = 0x80;
    used = used < 56 ? 56 - used : 120 - used;

    for (i = 0; i < 8; i++) {
        pad[used + i] = (uint8_t) (bits >> (8 * (7 - i)) & 0xff);
    }

    il_sha1_update(s, pad, used + 8);

    for (i = 0; i < 20; i++) {
        out[i] = (uint8_t) (s->h[i / 4] >> (8 * (3 - i % 4)) & 0xff);
    }
}


static void
il_hmac_sha1_init(il_hmac_sha1_t *m, const uint8_t *key, size_t keylen)
{
    size_t   i;
    uint8_t  block[64];

    memset(block, 0, sizeof(block));

    if (keylen > sizeof(block)) {
        il_sha1_init(&m->inner);
        il_sha1_update(&m->inner, key, keylen);
        il_sha1_final(&m->inner, block);

    } else if (keylen != 0) {
        memcpy(block, key, keylen);
    }

    for (i = 0; i < sizeof(block); i++) {
        block[i] ^= 0x36;
    }

    il_sha1_init(&m->inner);
    il_sha1_update(&m->inner, block, sizeof(block));

    for (i = 0; i < sizeof(block); i++) {
        block[i] ^= 0x36 ^ 0x5c;
    }

    il_sha1_init(&m->outer);
    il_sha1_update(&m->outer, block, sizeof(block));

    sodium_memzero(block, sizeof(block));
}


#if (IL_HAVE_OPENSSL)

/*
 * The calls that OpenSSL 3 advises against in favour of EVP allocate nothing
 * and copy by assignment; an EVP_MD_CTX costs more than the hash of a small
 * body.  They always answer 1.
 */

void
il_mac_key(il_mac_key_t *k, const uint8_t *key, size_t keylen)
{
    size_t   i;
    uint8_t  block[SHA256_CBLOCK];

    memset(block, 0, sizeof(block));

    if (keylen > sizeof(block)) {
        (void) SHA256_Init(&k->inner);
        (void) SHA256_Update(&k->inner, key, keylen);
        (void) SHA256_Final(block, &k->inner);

    } else if (keylen != 0) {
        memcpy(block, key, keylen);
    }

    for (i = 0; i < sizeof(block); i++) {
        block[i] ^= 0x36;
    }

    (void) SHA256_Init(&k->inner);
    (void) SHA256_Update(&k->inner, block, sizeof(block));

    for (i = 0; i < sizeof(block); i++) {
        block[i] ^= 0x36 ^ 0x5c;
    }

    (void) SHA256_Init(&k->outer);
    (void) SHA256_Update(&k->outer, block, sizeof(block));

    sodium_memzero(block, sizeof(block));
}


static void
il_sha256_update(il_mac_key_t *m, const uint8_t *data, size_t len)
{
    (void) SHA256_Update(&m->inner, data, len);
}


static void
il_sha256_final(il_mac_key_t *m, uint8_t *out)
{
    uint8_t  inner[SHA256_DIGEST_LENGTH];

    (void) SHA256_Final(inner, &m->inner);
    (void) SHA256_Update(&m->outer, inner, sizeof(inner));
    (void) SHA256_Final(out, &m->outer);
}

#else /* !IL_HAVE_OPENSSL */

void
il_mac_key(il_mac_key_t *k, const uint8_t *key, size_t keylen)
{
    (void) crypto_auth_hmacsha256_init(&k->state, key, keylen);
}


static void
il_sha256_update(il_mac_key_t *m, const uint8_t *data, size_t len)
{
    (void) crypto_auth_hmacsha256_update(&m->state, data, len);
}


static void
il_sha256_final(il_mac_key_t *m, uint8_t *out)
{
    (void) crypto_auth_hmacsha256_final(&m->state, out);
}

#endif


void
il_mac_begin(il_mac_t *m, const il_mac_key_t *k)
{
    m->alg = IL_SIG_SHA256;
    m->u.sha256 = *k;
}


size_t
il_mac_len(il_sig_alg_e alg)
{
    switch (alg) {
    case IL_SIG_SHA256:
        return crypto_auth_hmacsha256_BYTES;
    case IL_SIG_SHA512:
        return crypto_auth_hmacsha512_BYTES;
    case IL_SIG_SHA1:
        return 20;
    }

    return 0;
}


void
il_mac_init(il_mac_t *m, il_sig_alg_e alg, const uint8_t *key, size_t keylen)
{
    m->alg = alg;

    switch (alg) {
    case IL_SIG_SHA256:
        il_mac_key(&m->u.sha256, key, keylen);
        break;
    case IL_SIG_SHA512:
        (void) crypto_auth_hmacsha512_init(&m->u.sha512, key, keylen);
        break;
    case IL_SIG_SHA1:
        il_hmac_sha1_init(&m->u.sha1, key, keylen);
        break;
    }
}


void
il_mac_update(il_mac_t *m, il_str_t data)
{
    const uint8_t  *p;

    if (data.len == 0) {
        return;
    }

    p = (const uint8_t *) data.data;

    switch (m->alg) {
    case IL_SIG_SHA256:
        il_sha256_update(&m->u.sha256, p, data.len);
        break;
    case IL_SIG_SHA512:
        (void) crypto_auth_hmacsha512_update(&m->u.sha512, p, data.len);
        break;
    case IL_SIG_SHA1:
        il_sha1_update(&m->u.sha1.inner, p, data.len);
        break;
    }
}


void
il_mac_final(il_mac_t *m, uint8_t out[IL_MAC_MAX])
{
    uint8_t  inner[20];

    switch (m->alg) {
    case IL_SIG_SHA256:
        il_sha256_final(&m->u.sha256, out);
        break;
    case IL_SIG_SHA512:
        (void) crypto_auth_hmacsha512_final(&m->u.sha512, out);
        break;
    case IL_SIG_SHA1:
        il_sha1_final(&m->u.sha1.inner, inner);
        il_sha1_update(&m->u.sha1.outer, inner, sizeof(inner));
        il_sha1_final(&m->u.sha1.outer, out);
        break;
    }

    sodium_memzero(m, sizeof(*m));
}
