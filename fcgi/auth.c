/*
 * auth.c: who asks.
 *
 * A revoked token is refused at the latest when its entry of the cache ends.
 */

#include <strings.h>

#include "auth_cache.h"
#include "il_hash.h"
#include "req.h"
#include "server.h"
#include "work.h"


#define IL_AUTH_KNOWN    5000
#define IL_AUTH_UNKNOWN  1000
#define IL_AUTH_TENANT   60000


typedef struct {
    il_read_t     read;
    uint8_t       digest[32];
    il_str_t      name;
    il_req_t     *r;
} il_auth_read_t;


static il_cache_t  il_tokens = IL_CACHE_EMPTY;
static il_cache_t  il_tenants = IL_CACHE_EMPTY;


static unsigned
il_auth_role(il_str_t s)
{
    size_t  i;

    static const struct {
        il_str_t  name;
        unsigned  role;
    } roles[] = {
        { il_string("submit"), IL_ROLE_SUBMIT },
        { il_string("worker"), IL_ROLE_WORKER },
        { il_string("operator"), IL_ROLE_OPERATOR },
        { il_string("auditor"), IL_ROLE_AUDITOR }
    };

    for (i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (il_str_eq(s, roles[i].name)) {
            return roles[i].role;
        }
    }

    return 0;
}


static void
il_auth_copy(char *out, il_str_t s)
{
    size_t  n;

    n = s.len > IL_NAME_MAX ? IL_NAME_MAX : s.len;

    if (n > 0) {
        memcpy(out, s.data, n);
    }

    out[n] = '\0';
}


il_str_t
il_auth_bearer(const il_req_t *r)
{
    il_str_t  s;

    s = il_req_param(r, "HTTP_AUTHORIZATION");

    if (s.len <= 7 || strncasecmp(s.data, "Bearer ", 7) != 0) {
        return il_str(NULL, 0);
    }

    return il_str(s.data + 7, s.len - 7);
}


/* ----------------------------------------------------------------- tokens */


static void
il_auth_decide(il_req_t *r, int known)
{
    if (known <= 0) {
        il_req_problem(r, IL_P_TOKEN_INVALID,
                       "The API token is missing or not valid.");
        return;
    }

    if (!(r->who.role & r->roles)) {
        il_req_problem(r, IL_P_FORBIDDEN,
                       "The role of this API token may not do that.");
        return;
    }

    r->next(r);
}


static void
il_auth_known(il_req_t *r)
{
    il_auth_decide(r, 1);
}


static void
il_auth_unknown(il_req_t *r)
{
    il_auth_decide(r, 0);
}


static void
il_auth_put_digest(il_read_t *read, il_db_args_t *args)
{
    il_auth_read_t  *a = (il_auth_read_t *) read;

    il_db_put_bytes(args, 0, il_str((const char *) a->digest, 32));
}


int
il_auth_identity(const il_db_result_t *res, il_identity_t *who)
{
    int64_t  tenant;

    memset(who, 0, sizeof(*who));

    if (il_db_rows(res) == 0
        || il_db_cell_int(res, 0, il_db_column(res, "tenant"), &tenant) != 0
        || il_db_cell_int(res, 0, il_db_column(res, "token_id"),
                          &who->token_id)
           != 0)
    {
        return -1;
    }

    who->tenant = (int32_t) tenant;
    who->role = il_auth_role(il_db_cell(res, 0, il_db_column(res, "role")));
    il_auth_copy(who->tenant_name,
                 il_db_cell(res, 0, il_db_column(res, "tenant_name")));
    il_auth_copy(who->token_name,
                 il_db_cell(res, 0, il_db_column(res, "token_name")));

    return 0;
}


static void
il_auth_found(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_req_t        *r;
    il_identity_t    who;
    il_auth_read_t  *a = (il_auth_read_t *) read;

    r = a->r;

    if (res == NULL) {
        il_req_fail_item(&r->item, p);
        return;
    }

    if (il_auth_identity(res, &who) != 0) {
        il_cache_put(&il_tokens, a->digest, NULL, IL_AUTH_UNKNOWN);
        r->step = il_auth_unknown;
        il_work_step(r);
        return;
    }

    il_cache_put(&il_tokens, a->digest, &who, IL_AUTH_KNOWN);

    r->who = who;
    r->step = il_auth_known;
    il_work_step(r);
}


static il_auth_read_t *
il_auth_read(il_req_t *r, const char *sql, const char *signature)
{
    il_auth_read_t  *a;

    a = il_pool_get(&r->pool, sizeof(il_auth_read_t));
    if (a == NULL) {
        il_req_internal(r);
        return NULL;
    }

    a->r = r;
    a->read.sql = sql;
    a->read.signature = signature;

    return a;
}


void
il_auth_token(il_req_t *r, unsigned roles, void (*next)(il_req_t *r))
{
    int              known;
    uint8_t          digest[32];
    il_str_t         token;
    il_auth_read_t  *a;

    r->roles = roles;
    r->next = next;

    token = il_auth_bearer(r);
    if (token.data == NULL) {
        il_auth_decide(r, 0);
        return;
    }

    il_digest(digest, token);

    known = il_cache_get(&il_tokens, digest, &r->who);
    if (known >= 0) {
        il_auth_decide(r, known);
        return;
    }

    a = il_auth_read(r, "select * from interlock.token_find($1)", "Y");
    if (a == NULL) {
        return;
    }

    memcpy(a->digest, digest, 32);
    a->read.put = il_auth_put_digest;
    a->read.done = il_auth_found;

    if (il_lane_put(&il_srv.read, &a->read.item) != 0) {
        il_req_unavailable(r);
    }
}


/* ---------------------------------------------------------------- tenants */


static void
il_auth_put_name(il_read_t *read, il_db_args_t *args)
{
    il_auth_read_t  *a = (il_auth_read_t *) read;

    il_db_put_text(args, 0, a->name);
}


static void
il_auth_tenant_next(il_req_t *r)
{
    r->next(r);
}


static void
il_auth_tenant_missing(il_req_t *r)
{
    r->missing(r);
}


static void
il_auth_tenant_found(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    int64_t          tenant;
    il_req_t        *r;
    il_auth_read_t  *a = (il_auth_read_t *) read;

    r = a->r;

    if (res == NULL) {
        il_req_fail_item(&r->item, p);
        return;
    }

    memset(&r->who, 0, sizeof(r->who));

    if (il_db_rows(res) == 0
        || il_db_cell_int(res, 0, il_db_column(res, "tenant"), &tenant) != 0)
    {
        il_cache_put(&il_tenants, a->digest, NULL, IL_AUTH_UNKNOWN);
        r->step = il_auth_tenant_missing;

    } else {
        r->who.tenant = (int32_t) tenant;
        il_auth_copy(r->who.tenant_name, a->name);
        il_cache_put(&il_tenants, a->digest, &r->who, IL_AUTH_TENANT);
        r->step = il_auth_tenant_next;
    }

    il_work_step(r);
}


void
il_auth_tenant(il_req_t *r, il_str_t name, void (*next)(il_req_t *r),
    void (*missing)(il_req_t *r))
{
    int              known;
    uint8_t          digest[32];
    il_auth_read_t  *a;

    r->next = next;
    r->missing = missing;

    if (name.len == 0 || !il_name_valid(name)) {
        missing(r);
        return;
    }

    il_digest(digest, name);

    known = il_cache_get(&il_tenants, digest, &r->who);
    if (known >= 0) {
        if (known) {
            next(r);

        } else {
            missing(r);
        }

        return;
    }

    a = il_auth_read(r, "select * from interlock.tenant_find($1)", "T");
    if (a == NULL) {
        return;
    }

    memcpy(a->digest, digest, 32);
    a->name = name;
    a->read.put = il_auth_put_name;
    a->read.done = il_auth_tenant_found;

    if (il_lane_put(&il_srv.read, &a->read.item) != 0) {
        il_req_unavailable(r);
    }
}
