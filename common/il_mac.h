/*
 * il_mac.h: HMAC (RFC 2104) over SHA-256, SHA-512 and SHA-1 behind one
 * streaming interface, with keys of any length.
 *
 * libsodium has no SHA-1.  It is here for providers that sign with nothing
 * else; HMAC-SHA1 does not need the hash to be free of collisions.
 */

#ifndef IL_MAC_H
#define IL_MAC_H

#include "il_mac_key.h"
#include "il_sig.h"

#pragma GCC visibility push(hidden)

#define IL_MAC_MAX  64         /* bytes of the longest result */

typedef struct {
    uint32_t  h[5];
    uint64_t  total;           /* bytes so far */
    uint8_t   block[64];
} il_sha1_t;

void il_sha1_init(il_sha1_t *s);
void il_sha1_update(il_sha1_t *s, const uint8_t *data, size_t len);
void il_sha1_final(il_sha1_t *s, uint8_t out[20]);

typedef struct {
    il_sha1_t  inner;
    il_sha1_t  outer;
} il_hmac_sha1_t;

typedef struct {
    il_sig_alg_e  alg;

    union {
        il_mac_key_t                  sha256;
        crypto_auth_hmacsha512_state  sha512;
        il_hmac_sha1_t                sha1;
    } u;
} il_mac_t;

/* Bytes of a result: 32, 64, 20. */
size_t il_mac_len(il_sig_alg_e alg);

/* key may be NULL only if keylen is 0; data may be NULL only if len is 0. */
void il_mac_init(il_mac_t *m, il_sig_alg_e alg, const uint8_t *key,
    size_t keylen);
void il_mac_update(il_mac_t *m, il_str_t data);

/* The same as il_mac_init() with IL_SIG_SHA256, in two steps: the first once
 * a key. */
void il_mac_key(il_mac_key_t *k, const uint8_t *key, size_t keylen);
void il_mac_begin(il_mac_t *m, const il_mac_key_t *k);

/* Writes il_mac_len() bytes and wipes the state. */
void il_mac_final(il_mac_t *m, uint8_t out[IL_MAC_MAX]);

#pragma GCC visibility pop

#endif /* IL_MAC_H */
