/*
 * il_token_int.h: what il_token.c and il_ticket.c share.
 */

#ifndef IL_TOKEN_INT_H
#define IL_TOKEN_INT_H

#include "il_out.h"
#include "il_token.h"

#pragma GCC visibility push(hidden)

#define IL_FOOTER_CAP  (sizeof("{\"kid\":\"\"}") + IL_PASERK_PID)

/* The footer that names a key: its length, or 0. */
size_t il_token_footer(char out[IL_FOOTER_CAP], const il_token_key_t *key);

/* Each adds ,"name":value to an object that has a member already. */
void il_claim_text(il_out_t *o, const char *name, il_str_t value);
void il_claim_uuid(il_out_t *o, const char *name, const uint8_t *id);
void il_claim_time(il_out_t *o, const char *name, int64_t seconds);
void il_claim_number(il_out_t *o, const char *name, int64_t value);

/* Reads claims of a verified token; text goes to buf and stays there. */
typedef struct {
    il_str_t   json;
    char      *buf;
    size_t     cap;
    size_t     used;
} il_claims_t;

/* The value at a JSON pointer: 0, or -1 if it is missing or of another
 * form. */
int il_claims_text(il_claims_t *r, const char *pointer, il_str_t *text)
    IL_MUST_CHECK;
int il_claims_uuid(il_claims_t *r, const char *pointer, uint8_t *id)
    IL_MUST_CHECK;
int il_claims_time(il_claims_t *r, const char *pointer, int64_t *seconds)
    IL_MUST_CHECK;
int il_claims_number(il_claims_t *r, const char *pointer, int64_t *value)
    IL_MUST_CHECK;

/* The message of a token, unverified: of one that was verified before.  0 or
 * -1. */
int il_paseto_message(char *msg, size_t cap, size_t *len, il_str_t token)
    IL_MUST_CHECK;

/* Verifies a token whose footer is that of one of the keys; *json is then its
 * message, in msg.  seen may be NULL.  0 or -1. */
int il_token_open(char msg[IL_TOKEN_MAX], il_str_t *json, il_str_t token,
    il_str_t implicit, const il_token_keys_t *keys, il_token_seen_t *seen)
    IL_MUST_CHECK;

#pragma GCC visibility pop

#endif /* IL_TOKEN_INT_H */
