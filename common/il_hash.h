/*
 * il_hash.h: fingerprints (BLAKE2b, RFC 7693) and keyed entry hashes
 * (SipHash-2-4 with 128 bits, Aumasson and Bernstein, 2012), both over
 * length-prefixed parts.
 */

#ifndef IL_HASH_H
#define IL_HASH_H

#include <sodium.h>

#include "il_str.h"

#pragma GCC visibility push(hidden)

/* sodium_init() is called once per process before anything here. */

#define IL_FP_BYTES      32
#define IL_ENTRY_BYTES   16
#define IL_ENTRY_KEY     16

/* The fingerprint of a request: method, source, URI (as sent, with its
 * query), and the raw body, which may come in any number of pieces.  Tells a
 * repeat from a reused key.  The state is aligned to 64 bytes: on the stack
 * and in static storage the compiler sees to it, a pool or heap must be asked
 * for it (ngx_pmemalign(), aligned_alloc()). */
typedef struct {
    crypto_generichash_state  state;
} il_fp_t;

void il_fp_init(il_fp_t *fp, il_str_t method, il_str_t source, il_str_t uri);
void il_fp_update(il_fp_t *fp, const void *data, size_t len);
void il_fp_final(il_fp_t *fp, uint8_t out[IL_FP_BYTES]);

/* 128-bit hash over n length-prefixed parts, under a secret key that is
 * random per start: no collision can be built from outside, as long as the
 * hashes themselves are not shown to anybody.  Several times as fast as
 * BLAKE2b for the few hundred bytes that a request has. */
void il_entry_hash(uint8_t out[IL_ENTRY_BYTES],
    const uint8_t key[IL_ENTRY_KEY], const il_str_t *parts, size_t n);

/* BLAKE2b-256 over tenant and work key: what names a work between backend and
 * edge, in constant size, in lower case hex.  No secret: it keeps nothing
 * hidden from who knows both. */
#define IL_WORK_BYTES    32

void il_work_hash(uint8_t out[IL_WORK_BYTES], il_str_t tenant,
    il_str_t work_key);

/* BLAKE2b-256 of one string: how API tokens are stored. */
void il_digest(uint8_t out[32], il_str_t s);

#pragma GCC visibility pop

#endif /* IL_HASH_H */
