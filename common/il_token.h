/*
 * il_token.h: owner tokens, PASETO v4.public (Ed25519).
 * Sources: paseto-spec docs/01-Protocol-Versions/Version4.md, PAE in
 * docs/01-Protocol-Versions/Common.md; PASERK k4.public, k4.pid.
 */

#ifndef IL_TOKEN_H
#define IL_TOKEN_H

#include "il_key.h"
#include "il_str.h"
#include "il_uuid.h"

#pragma GCC visibility push(hidden)

/* Encoded token, bytes: room for the longest claims even if each character
 * of the work key needs an escape; fits into an 8k header line. */
#define IL_TOKEN_MAX       7168
#define IL_TOKEN_KEYS_MAX  8
#define IL_WORKER_MAX      255     /* bytes of a worker's name */
#define IL_PASERK_PID      51      /* "k4.pid." + 44 */
#define IL_PASERK_PUBLIC   53      /* "k4.public." + 43 */

/* Signs msg; out gets a NUL behind.  0, or -1 if cap is too small, the token
 * would be longer than IL_TOKEN_MAX, or implicit is longer than 1024. */
int il_paseto_sign(char *out, size_t cap, size_t *outlen, il_str_t msg,
    il_str_t footer, il_str_t implicit, const uint8_t sk[64]) IL_MUST_CHECK;

/* Verifies and hands out message and footer (msg_cap and footer_cap: token.len
 * is enough).  0, or -1 for anything that is not exactly a valid token. */
int il_paseto_verify(char *msg, size_t msg_cap, size_t *msglen, char *footer,
    size_t footer_cap, size_t *footerlen, il_str_t token, il_str_t implicit,
    const uint8_t pk[32]) IL_MUST_CHECK;

/* The footer, unverified: only to choose a key.  0 or -1. */
int il_paseto_footer(char *footer, size_t cap, size_t *len, il_str_t token)
    IL_MUST_CHECK;

typedef struct {
    uint8_t  pk[32];
    uint8_t  sk[64];
    int      can_sign;
    char     pid[IL_PASERK_PID + 1];
    char     paserk[IL_PASERK_PUBLIC + 1];
} il_token_key_t;

/* keys[0] signs; all verify (the token's key id says which).  Read-only after loading. */
typedef struct {
    il_token_key_t  keys[IL_TOKEN_KEYS_MAX];
    size_t          n;
} il_token_keys_t;

/* Makes a key from a 32-byte Ed25519 seed, and from a public key. */
void il_token_key_from_seed(il_token_key_t *key, const uint8_t seed[32]);
void il_token_key_from_public(il_token_key_t *key, const uint8_t pk[32]);

/* Reads PASERK "k4.public…", without white space around.  0 or -1. */
int il_paserk_public_parse(uint8_t pk[32], il_str_t s) IL_MUST_CHECK;

/* The claims of INTERFACE "Owner token claims".  Text fields are slices of
 * the buffer given to il_owner_verify. */
typedef struct {
    uint8_t   job_id[IL_UUID_BYTES];
    uint8_t   attempt_id[IL_UUID_BYTES];
    il_str_t  tenant;
    il_str_t  kind;
    il_str_t  work_key;
    il_str_t  worker;
    int64_t   fence;
    int64_t   iat;                 /* Unix seconds; RFC 3339 in the token */
    int64_t   exp;
} il_owner_claims_t;

/* 0, or -1: cap too small (IL_TOKEN_MAX + 1 is always enough), a key that
 * cannot sign, or claims that il_owner_verify would refuse. */
int il_owner_issue(char *out, size_t cap, size_t *outlen,
    const il_owner_claims_t *claims, const il_token_key_t *key)
    IL_MUST_CHECK;

/* Verifies signature, footer key id, issuer, end, and the form of each
 * claim.  buf holds what claims points into (IL_TOKEN_MAX bytes).  0 or -1;
 * the reason is never told.  Uses about 32 kB of stack. */
int il_owner_verify(il_owner_claims_t *claims, char *buf, size_t cap,
    il_str_t token, const il_token_keys_t *keys, int64_t now) IL_MUST_CHECK;

/*
 * Tokens that were verified, so that the next request with one costs a hash
 * and no signature.  What is remembered are digests under a key of this
 * process; claims and the end are read from the token each time.  When the
 * keys change it must be begun anew.  One thread at a time.
 */
#define IL_SEEN_DIGEST  32
#define IL_SEEN_SETS    256
#define IL_SEEN_WAYS    4

typedef struct {
    uint8_t  digests[IL_SEEN_WAYS][IL_SEEN_DIGEST];
    uint8_t  next;
} il_seen_set_t;

typedef struct {
    uint8_t        key[32];
    il_seen_set_t  sets[IL_SEEN_SETS];
} il_token_seen_t;

void il_token_seen_init(il_token_seen_t *seen);

/* il_owner_verify() with such a memory, or NULL. */
int il_owner_verify_seen(il_owner_claims_t *claims, char *buf, size_t cap,
    il_str_t token, const il_token_keys_t *keys, il_token_seen_t *seen,
    int64_t now) IL_MUST_CHECK;

#pragma GCC visibility pop

#endif /* IL_TOKEN_H */
