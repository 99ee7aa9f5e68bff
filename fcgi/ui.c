/*
 * ui.c: the door of the pages: whoever is in gets index.html, anybody else
 * the login page; logout; who is in.
 */

#include <stdio.h>
#include <strings.h>

#include <sodium.h>

#include "origin.h"
#include "route.h"
#include "server.h"
#include "session.h"
#include "ui.h"


#define IL_UI_NEXT_MAX   2048


/* --------------------------------------------------------------- where to */


/* 1 if the segment is "." or "..", however it is written: browsers take
 * "%2e" for a dot. */

static int
il_ui_dots(il_str_t s)
{
    size_t  i, n;

    for (i = 0, n = 0; i < s.len; n++) {
        if (s.data[i] == '.') {
            i++;

        } else if (s.len - i >= 3
                   && strncasecmp(s.data + i, "%2e", 3) == 0)
        {
            i += 3;

        } else {
            return 0;
        }
    }

    return n == 1 || n == 2;
}


int
il_ui_next_valid(il_str_t s)
{
    size_t  i, start;

    static const il_str_t  home = il_string(IL_UI_HOME);

    if (s.len < home.len || s.len > IL_UI_NEXT_MAX
        || memcmp(s.data, home.data, home.len) != 0)
    {
        return 0;
    }

    for (i = home.len, start = i; i <= s.len; i++) {

        if (i == s.len || s.data[i] == '/' || s.data[i] == '?'
            || s.data[i] == '#')
        {
            if (il_ui_dots(il_str(s.data + start, i - start))) {
                return 0;
            }

            if (i == s.len || s.data[i] != '/') {
                break;
            }

            start = i + 1;
        }
    }

    for (i = 0; i < s.len; i++) {
        if (s.data[i] <= ' ' || s.data[i] >= 0x7f || s.data[i] == '\\'
            || s.data[i] == '"' || s.data[i] == '<' || s.data[i] == '>')
        {
            return 0;
        }
    }

    return 1;
}


il_str_t
il_ui_next(il_req_t *r)
{
    il_str_t  next;

    next = il_route_query(r, "next");
    if (next.data == NULL || next.len > 3 * IL_UI_NEXT_MAX) {
        return il_cstr(IL_UI_HOME);
    }

    next = il_route_decode(r, next);

    return next.data != NULL && il_ui_next_valid(next) ? next
                                                       : il_cstr(IL_UI_HOME);
}


void
il_ui_go(il_req_t *r, int status, il_str_t where)
{
    il_req_header(r, "Location", where);
    r->status = status;
    r->type = "text/plain";
    il_req_done(r);
}


int
il_ui_is_json(const il_req_t *r)
{
    il_str_t  type;

    type = il_req_param(r, "CONTENT_TYPE");

    return type.len >= 16 && memcmp(type.data, "application/json", 16) == 0;
}


/* ----------------------------------------------------------------- words */


void
il_ui_away(il_req_t *r)
{
    il_req_file(r, IL_UI_FILES "said/away");
}


void
il_ui_refuse(il_req_t *r, int json, il_problem_e p, const char *said,
    const char *detail)
{
    char  uri[64];

    if (json) {
        il_req_problem(r, p, detail);
        return;
    }

    (void) snprintf(uri, sizeof(uri), "%ssaid/%s", IL_UI_FILES, said);
    il_req_file(r, uri);
}


void
il_ui_refuse_origin(il_req_t *r, int json)
{
    il_ui_refuse(r, json, IL_P_CROSS_ORIGIN, "origin",
                 "Only a page of this site may log in and out.");
}


/* ----------------------------------------------------------------- cookies */


void
il_ui_cookie(il_req_t *r, const char *value, int64_t seconds, int secure)
{
    char  line[256];

    (void) snprintf(line, sizeof(line), "%s=%s; Path=/; Max-Age=%lld; "
                    "HttpOnly; SameSite=Strict%s", IL_SESSION_COOKIE, value,
                    (long long) seconds, secure ? "; Secure" : "");

    il_req_header(r, "Set-Cookie", il_cstr(line));
    sodium_memzero(line, sizeof(line));
}


int
il_ui_secure(const il_req_t *r)
{
    il_str_t  origin;

    origin = il_req_param(r, "HTTP_ORIGIN");

    return origin.len > 8 && memcmp(origin.data, "https://", 8) == 0;
}


void
il_ui_session_doc(il_buf_t *b, const il_db_result_t *res)
{
    size_t   i;
    int64_t  at;

    static const struct {
        const char  *name;
        const char  *column;
        int          time;
    } members[] = {
        { "tenant", "tenant_name", 0 },
        { "role", "role", 0 },
        { "token_name", "token_name", 0 },
        { "idle_end", "idle_end", 1 },
        { "absolute_end", "absolute_end", 1 }
    };

    for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        il_buf_puts(b, i == 0 ? "{\"" : ",\"");
        il_buf_puts(b, members[i].name);
        il_buf_puts(b, "\":");

        if (!members[i].time) {
            il_buf_json_null(b, il_db_cell(res, 0,
                                  il_db_column(res, members[i].column)));

        } else if (il_db_cell_time(res, 0,
                                   il_db_column(res, members[i].column), &at)
                   == 0)
        {
            il_buf_time(b, at);

        } else {
            il_buf_puts(b, "null");
        }
    }

    il_buf_puts(b, "}");
}


/* ------------------------------------------------------------------ logout */


typedef struct {
    il_read_t    read;
    il_req_t    *r;
    uint8_t      digest[32];
} il_ui_logout_t;


static void
il_ui_logout_put(il_read_t *read, il_db_args_t *args)
{
    il_ui_logout_t  *l = (il_ui_logout_t *) read;

    il_db_put_bytes(args, 0, il_str((const char *) l->digest, 32));
}


static void
il_ui_out(il_req_t *r)
{
    il_ui_cookie(r, "", 0, il_ui_secure(r));
    il_ui_go(r, 303, il_cstr(IL_UI_LOGIN));
}


static void
il_ui_logout_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_ui_logout_t  *l = (il_ui_logout_t *) read;

    (void) p;

    if (res == NULL) {
        il_ui_away(l->r);
        return;
    }

    il_session_over(l->digest);
    il_ui_out(l->r);
}


void
il_ui_logout(il_req_t *r)
{
    il_ui_logout_t  *l;

    if (!il_origin_same(r)) {
        il_ui_refuse_origin(r, il_ui_is_json(r));
        return;
    }

    l = il_pool_get(&r->pool, sizeof(il_ui_logout_t));
    if (l == NULL) {
        il_req_internal(r);
        return;
    }

    if (il_session_cookie(r, l->digest) != 1) {
        il_ui_out(r);
        return;
    }

    l->r = r;
    l->read.sql = "select interlock.session_end($1)";
    l->read.signature = "Y";
    l->read.put = il_ui_logout_put;
    l->read.done = il_ui_logout_done;

    if (il_lane_put(&il_srv.read, &l->read.item) != 0) {
        il_ui_away(r);
    }
}


/* ---------------------------------------------------------------- sessions */


static void
il_ui_session_put(il_read_t *read, il_db_args_t *args)
{
    il_ui_logout_t  *l = (il_ui_logout_t *) read;

    il_db_put_bytes(args, 0, il_str((const char *) l->digest, 32));
    il_db_put_big(args, 1, il_srv.conf.session_idle);

    /* to ask how long it lasts does not make it last longer */

    il_db_put_bool(args, 2, 0);
}


static void
il_ui_session_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_ui_logout_t  *l = (il_ui_logout_t *) read;
    il_req_t        *r = l->r;

    if (res == NULL) {
        il_req_fail_item(&r->item, p);
        return;
    }

    if (il_db_rows(res) == 0) {
        il_req_problem(r, IL_P_TOKEN_INVALID, "Nobody is logged in.");
        return;
    }

    il_ui_session_doc(il_req_json(r, 200), res);
    il_req_done(r);
}


void
il_ui_session(il_req_t *r)
{
    il_ui_logout_t  *l;

    if (!il_origin_may_read(r)) {
        il_req_problem(r, IL_P_CROSS_ORIGIN, "A page of another site may not "
                       "use the session of this one.");
        return;
    }

    l = il_pool_get(&r->pool, sizeof(il_ui_logout_t));
    if (l == NULL) {
        il_req_internal(r);
        return;
    }

    if (il_session_cookie(r, l->digest) != 1) {
        il_req_problem(r, IL_P_TOKEN_INVALID, "Nobody is logged in.");
        return;
    }

    l->r = r;
    l->read.sql = "select * from interlock.session_find($1, $2, $3)";
    l->read.signature = "YLB";
    l->read.put = il_ui_session_put;
    l->read.done = il_ui_session_done;

    if (il_lane_put(&il_srv.read, &l->read.item) != 0) {
        il_req_unavailable(r);
    }
}


/* ------------------------------------------------------------------- pages */


static void
il_ui_index(il_req_t *r)
{
    il_req_file(r, IL_UI_FILES "index");
}


/* To the login page, which leads back here.  What a query needs escaped is
 * escaped once more. */

static void
il_ui_to_login(il_req_t *r)
{
    char       hex[3];
    size_t     i;
    uint8_t    c;
    il_buf_t   b;

    static const char  safe[] = "/-._~:@!$'()*,;=?"
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, IL_UI_LOGIN);

    if (il_ui_next_valid(r->uri) && !il_str_eq(r->uri, il_cstr(IL_UI_HOME))) {
        il_buf_puts(&b, "?next=");

        for (i = 0; i < r->uri.len; i++) {
            c = (uint8_t) r->uri.data[i];

            if (strchr(safe, c) != NULL) {
                il_buf_add(&b, il_str(r->uri.data + i, 1));
                continue;
            }

            (void) snprintf(hex, sizeof(hex), "%02X", c);
            il_buf_puts(&b, "%");
            il_buf_puts(&b, hex);
        }
    }

    if (b.failed) {
        il_buf_free(&b);
        il_req_internal(r);
        return;
    }

    /* A link of another site's led here, and so the browser kept the cookie
     * back (SameSite=Strict), which there may well be.  It does not if this
     * page itself leads on. */

    if (il_origin_cross_site(r)) {
        il_buf_puts(&r->head, "Refresh: 0; url=");
        il_buf_add(&r->head, il_buf_str(&b));
        il_buf_puts(&r->head, "\r\n");
        r->status = 200;
        r->type = "text/html; charset=utf-8";
        il_buf_free(&b);
        il_req_done(r);
        return;
    }

    il_req_header(r, "Location", il_buf_str(&b));
    il_buf_free(&b);
    r->status = 302;
    r->type = "text/plain";
    il_req_done(r);
}


void
il_ui_page(il_req_t *r)
{
    il_session_find(r, il_ui_index, il_ui_to_login, il_ui_away);
}
