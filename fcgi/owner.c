/*
 * owner.c: owner tokens say who calls; the database says whether he still
 * may.
 */

#include "il_token.h"
#include "metrics.h"
#include "owner.h"
#include "server.h"


static void
il_owner_invalid(il_req_t *r)
{
    il_req_problem(r, IL_P_OWNER_TOKEN_INVALID,
                   "The owner token is missing or not valid.");
}


void
il_owner_auth(il_req_t *r, size_t size, void (*next)(il_req_t *r))
{
    il_str_t     token, tenant;
    il_seen_t    who;
    il_owner_t  *o;

    token = r->sub != NULL ? r->sub->token : il_auth_bearer(r);

    if (token.data == NULL
        || il_keys_verify(&who, token, il_wall_ms() / 1000) != 0)
    {
        il_owner_invalid(r);
        return;
    }

    o = il_pool_get(&r->pool, size);
    if (o == NULL) {
        il_req_internal(r);
        return;
    }

    r->op = o;
    tenant = il_cstr(who.tenant);

    /* whoever sends several has shown whose they are: of nobody else */

    if (r->sub != NULL
        && !il_str_eq(tenant, il_cstr(r->who.tenant_name)))
    {
        il_owner_invalid(r);
        return;
    }

    memcpy(o->job_id, who.job_id, IL_UUID_BYTES);
    memcpy(o->attempt_id, who.attempt_id, IL_UUID_BYTES);
    o->fence = who.fence;

    o->tenant = il_pool_dup(&r->pool, tenant);
    o->kind = il_pool_dup(&r->pool, il_cstr(who.kind));

    if (o->tenant.data == NULL || o->kind.data == NULL) {
        il_req_internal(r);
        return;
    }

    if (r->sub != NULL) {
        next(r);
        return;
    }

    il_auth_tenant(r, o->tenant, next, il_owner_invalid);
}


void
il_owner_refuse(il_req_t *r, il_str_t outcome, il_str_t kind,
    const char *call)
{
    il_problem_e  p;

    static const struct {
        il_problem_e  p;
        const char   *detail;
    } refusals[] = {
        { IL_P_LEASE_LOST,
          "This attempt has ended: another owner may run the job." },
        { IL_P_FENCE_STALE,
          "A later owner has taken over this work key." },
        { IL_P_JOB_CANCELED, "The job was asked to end." },
        { IL_P_LEASE_EXPIRED, "The lease has expired." },
        { IL_P_NONE, "" }
    };

    size_t  i;

    p = il_problem_find(outcome);

    il_metric_add_str(IL_MT_FENCE_REFUSALS, 1, kind, il_cstr(call),
                      il_str("", 0));
    il_metric_add_str(IL_MT_ACQUISITION_FAILED, 1, kind,
                      il_cstr("fence_lost"), il_str("", 0));

    for (i = 0; refusals[i].p != IL_P_NONE; i++) {
        if (refusals[i].p == p) {
            il_req_problem(r, p, refusals[i].detail);
            return;
        }
    }

    il_req_internal(r);
}
