/*
 * auth.h: API tokens and tenants, remembered for a short while.
 *
 * Only digests are kept.  Caches are bounded and lock by themselves; what
 * they do not know the read lane asks the database.
 */

#ifndef IL_AUTH_H
#define IL_AUTH_H

#include "db.h"
#include "il_key.h"
#include "il_str.h"

typedef struct il_req_s  il_req_t;

#define IL_ROLE_SUBMIT    0x01
#define IL_ROLE_WORKER    0x02
#define IL_ROLE_OPERATOR  0x04
#define IL_ROLE_AUDITOR   0x08
#define IL_ROLE_ANY       0x0f

typedef struct {
    int32_t   tenant;
    unsigned  role;                         /* 0: a tenant without a token */
    int64_t   token_id;
    char      tenant_name[IL_NAME_MAX + 1];
    char      token_name[IL_NAME_MAX + 1];
} il_identity_t;

/* Authenticates by `Authorization: Bearer`, then calls next(r) with r->who
 * set, at once or from a worker later; or answers 401, 403, 503.  roles is a
 * mask of those that may. */
void il_auth_token(il_req_t *r, unsigned roles, void (*next)(il_req_t *r));

/* Finds a tenant by name, sets r->who, then calls next(r); or missing(r) if
 * there is none; or answers 503.  The name must outlive the request. */
void il_auth_tenant(il_req_t *r, il_str_t name, void (*next)(il_req_t *r),
    void (*missing)(il_req_t *r));

/* Fills *who from a result's first row (columns tenant, tenant_name, token_id,
 * token_name, role).  0, or -1 if there is none. */
int il_auth_identity(const il_db_result_t *res, il_identity_t *who)
    IL_MUST_CHECK;

/* The text behind "Bearer ", or data NULL. */
il_str_t il_auth_bearer(const il_req_t *r);

#endif /* IL_AUTH_H */
