/*
 * owner.h: calls of those who own a lease.
 */

#ifndef IL_OWNER_H
#define IL_OWNER_H

#include "il_uuid.h"
#include "req.h"

/* Who calls; the first member of what such a request has in r->op. */
typedef struct {
    uint8_t   job_id[IL_UUID_BYTES];
    uint8_t   attempt_id[IL_UUID_BYTES];
    int64_t   fence;
    il_str_t  tenant;
    il_str_t  kind;                /* of the job */
} il_owner_t;

/* Verifies the bearer token, fills r->op (of size bytes, an il_owner_t
 * first), finds the tenant, then calls next(r); or answers 401. */
void il_owner_auth(il_req_t *r, size_t size, void (*next)(il_req_t *r));

/* Answers the refusal that the database named; counts it. */
void il_owner_refuse(il_req_t *r, il_str_t outcome, il_str_t kind,
    const char *call);

#endif /* IL_OWNER_H */
