/*
 * ui_login.c: an API token for a session.
 */

#include <stdio.h>

#include <sodium.h>

#include "body.h"
#include "il_form.h"
#include "il_hash.h"
#include "log.h"
#include "origin.h"
#include "route.h"
#include "server.h"
#include "session.h"
#include "tries.h"
#include "ui.h"


#define IL_UI_TOKEN_MAX  512


typedef struct {
    il_read_t    read;
    il_req_t    *r;
    int          json;             /* asked by a program */
    int          secure;           /* by https */
    int          had;              /* a session before this one */
    char         text[IL_SESSION_TEXT + 1];
    uint8_t      token[32];        /* digests */
    uint8_t      digest[32];
    uint8_t      old[32];
} il_ui_login_t;


static void
il_ui_refuse_token(il_req_t *r, int json)
{
    il_ui_refuse(r, json, IL_P_TOKEN_INVALID, "token",
                 "The API token is missing or not valid.");
}


static void
il_ui_login_put(il_read_t *read, il_db_args_t *args)
{
    il_ui_login_t  *l = (il_ui_login_t *) read;

    il_db_put_bytes(args, 0, il_str((const char *) l->token, 32));
    il_db_put_bytes(args, 1, il_str((const char *) l->digest, 32));
    il_db_put_bytes(args, 2, l->had ? il_str((const char *) l->old, 32)
                                    : il_str(NULL, 0));
    il_db_put_big(args, 3, il_srv.conf.session_idle);
    il_db_put_big(args, 4, il_srv.conf.session_max);
}


static void
il_ui_login_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_str_t        outcome, address;
    il_identity_t   who;
    il_ui_login_t  *l = (il_ui_login_t *) read;
    il_req_t       *r = l->r;

    (void) p;
    address = il_req_param(r, "REMOTE_ADDR");

    if (res == NULL || il_db_rows(res) == 0) {
        il_tries_give(address);

        if (l->json) {
            il_req_unavailable(r);
            return;
        }

        il_ui_away(r);
        return;
    }

    outcome = il_db_cell(res, 0, il_db_column(res, "outcome"));

    if (il_str_eq(outcome, il_cstr("unknown"))) {
        il_ui_refuse_token(r, l->json);
        return;
    }

    il_tries_give(address);

    if (!il_str_eq(outcome, il_cstr("ok"))
        || il_auth_identity(res, &who) != 0)
    {
        il_ui_refuse(r, l->json, IL_P_FORBIDDEN, "role",
                     "The pages are for API tokens of the roles operator and "
                     "auditor.");
        return;
    }

    il_log(IL_LOG_NOTICE, "login of token %lld (%s) from %.*s",
           (long long) who.token_id, who.tenant_name,
           (int) (address.len < 64 ? address.len : 64),
           address.len == 0 ? "" : address.data);

    if (l->had) {
        il_session_over(l->old);
    }

    il_ui_cookie(r, l->text, il_srv.conf.session_max / 1000, l->secure);
    sodium_memzero(l->text, sizeof(l->text));

    if (l->json) {
        il_ui_session_doc(il_req_json(r, 200), res);
        il_req_done(r);
        return;
    }

    il_ui_go(r, 303, il_ui_next(r));
}


/* The token in the body, in the pool; data is NULL, and then the request was
 * answered. */

static il_str_t
il_ui_login_token(il_req_t *r, int json)
{
    char        *out;
    size_t       n;
    il_str_t     token;
    il_field_t   fields[] = { { .name = "token", .types = IL_T_STRING } };

    if (json) {
        if (il_body_fields(r, fields, 1, 0) != 0
            || il_body_string(r, &fields[0], IL_UI_TOKEN_MAX, &token) != 0)
        {
            return il_str(NULL, 0);
        }

        if (token.len == 0) {
            il_ui_refuse_token(r, json);
            return il_str(NULL, 0);
        }

        return token;
    }

    out = NULL;
    n = 0;

    if (il_form_find(il_buf_str(&r->body), il_cstr("token"), &token)
        == IL_FORM_OK
        && token.len <= 3 * IL_UI_TOKEN_MAX)
    {
        out = il_pool_get(&r->pool, token.len + 1);

        if (out != NULL
            && il_form_decode(token, out, token.len + 1, &n) != 0)
        {
            n = 0;
        }
    }

    /* as it was copied out of a file, with its newline */

    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == '\r')) {
        n--;
    }

    token = il_str_trim(il_str(out, n));

    if (token.len == 0) {
        il_ui_refuse_token(r, json);
        return il_str(NULL, 0);
    }

    return token;
}


void
il_ui_login(il_req_t *r)
{
    int             json;
    char            seconds[24];
    int64_t         wait;
    il_str_t        token;
    il_ui_login_t  *l;

    json = il_ui_is_json(r);

    if (!il_origin_same(r)) {
        il_ui_refuse_origin(r, json);
        return;
    }

    wait = il_tries_take(il_req_param(r, "REMOTE_ADDR"));

    if (wait > 0) {
        (void) snprintf(seconds, sizeof(seconds), "%lld", (long long) wait);
        il_req_header(r, "Retry-After", il_cstr(seconds));
        il_ui_refuse(r, json, IL_P_TOO_MANY_ATTEMPTS, "busy",
                     "There were too many failed attempts from this address; "
                     "wait a little.");
        return;
    }

    token = il_ui_login_token(r, json);
    if (token.data == NULL) {
        return;
    }

    l = il_pool_get(&r->pool, sizeof(il_ui_login_t));
    if (l == NULL) {
        il_req_internal(r);
        return;
    }

    l->r = r;
    l->json = json;
    l->secure = il_ui_secure(r);
    l->had = (il_session_cookie(r, l->old) == 1);
    il_digest(l->token, token);
    il_session_new(l->text, l->digest);

    l->read.sql = "select * from interlock.session_begin($1, $2, $3, $4, $5)";
    l->read.signature = "YYYLL";
    l->read.put = il_ui_login_put;
    l->read.done = il_ui_login_done;

    if (il_lane_put(&il_srv.read, &l->read.item) != 0) {
        il_ui_login_done(&l->read, NULL, IL_P_UNAVAILABLE);
    }
}


static void
il_ui_in(il_req_t *r)
{
    il_ui_go(r, 302, il_ui_next(r));
}


static void
il_ui_login_show(il_req_t *r)
{
    il_req_file(r, IL_UI_FILES "login");
}


void
il_ui_login_page(il_req_t *r)
{
    il_session_find(r, il_ui_in, il_ui_login_show, il_ui_away);
}
