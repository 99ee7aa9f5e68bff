/*
 * il_ticket.h: tickets, with which a web page may press one button: PASETO
 * v4.public (see il_token.h), signed by the keys of owner tokens, but with an
 * implicit assertion of their own, so that neither is ever taken for the
 * other.  Claims: iss "interlock", aud "button", tenant, kind, work_key,
 * user, iat, exp, jti.
 */

#ifndef IL_TICKET_H
#define IL_TICKET_H

#include "il_token.h"

#pragma GCC visibility push(hidden)

#define IL_TICKET_USER_MAX     255      /* bytes */
#define IL_TICKET_SECONDS      900      /* how long one is good by itself, */
#define IL_TICKET_SECONDS_MAX  86400    /* and at most */

/* Text fields are slices of the buffer given to il_ticket_verify. */
typedef struct {
    uint8_t   id[IL_UUID_BYTES];
    il_str_t  tenant;
    il_str_t  kind;
    il_str_t  work_key;
    il_str_t  user;
    int64_t   iat;                      /* Unix seconds */
    int64_t   exp;
} il_ticket_claims_t;

/* 1 if it can be a user: 1 to IL_TICKET_USER_MAX bytes of UTF-8 without
 * control characters. */
int il_ticket_user_valid(il_str_t user);

/* 0, or -1: cap too small (IL_TOKEN_MAX + 1 is always enough), a key that
 * cannot sign, or claims that il_ticket_verify would refuse. */
int il_ticket_issue(char *out, size_t cap, size_t *outlen,
    const il_ticket_claims_t *claims, const il_token_key_t *key)
    IL_MUST_CHECK;

/* Verifies signature, key id, issuer, audience, end, and the form of each
 * claim.  buf holds what claims points into (token.len bytes are enough); seen
 * may be NULL.  0 or -1; the reason is never told.  Uses about 32 kB of stack. */
int il_ticket_verify(il_ticket_claims_t *claims, char *buf, size_t cap,
    il_str_t token, const il_token_keys_t *keys, il_token_seen_t *seen,
    int64_t now) IL_MUST_CHECK;

#pragma GCC visibility pop

#endif /* IL_TICKET_H */
