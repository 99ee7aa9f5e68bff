/*
 * seen.h: owner tokens that are known to be good, and what they say: they
 * were signed in this process, or verified here before.  So a token costs a
 * hash instead of a signature's verification.
 *
 * They go by a digest under a key of this process; each ends when its token
 * does, and all of them when the signing keys change.  How many there are is
 * bounded: one that is no longer here is verified again.  Any thread; it
 * locks by itself.
 */

#ifndef IL_SEEN_H
#define IL_SEEN_H

#include "il_token.h"

typedef struct {
    uint8_t   job_id[IL_UUID_BYTES];
    uint8_t   attempt_id[IL_UUID_BYTES];
    int64_t   fence;
    int64_t   exp;                     /* Unix seconds */
    char      tenant[IL_NAME_MAX + 1];
    char      kind[IL_NAME_MAX + 1];
} il_seen_t;

/* Before threads start, once. */
void il_seen_init(void);

/* 0 and *who, or -1: not here, or over at `now` (Unix seconds). */
int il_seen_get(il_seen_t *who, il_str_t token, int64_t now) IL_MUST_CHECK;

/* The token is good by the keys that there are, and says this.  Whoever calls
 * it keeps those keys from being changed meanwhile. */
void il_seen_put(il_str_t token, const il_owner_claims_t *claims);

/* From now on none is known. */
void il_seen_forget(void);

/* What of the claims is remembered; their names have been checked. */
void il_seen_of(il_seen_t *who, const il_owner_claims_t *claims);

#endif /* IL_SEEN_H */
