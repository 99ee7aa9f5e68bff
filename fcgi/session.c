/*
 * session.c: from a cookie to an identity.
 */

#include <sodium.h>

#include "auth_cache.h"
#include "events.h"
#include "il_enc.h"
#include "il_hash.h"
#include "origin.h"
#include "server.h"
#include "session.h"
#include "work.h"


#define IL_SESSION_KNOWN    5000
#define IL_SESSION_UNKNOWN  1000

/* Longer than any answer of the database may be under way. */
#define IL_SESSION_OVER     600000


typedef struct {
    il_read_t     read;
    uint8_t       digest[32];
    il_req_t     *r;
    void        (*away)(il_req_t *r);
} il_session_read_t;


static il_cache_t  il_sessions = IL_CACHE_EMPTY;


/* ----------------------------------------------------------------- cookies */


/* Takes the next pair of a Cookie header (RFC 6265, section 4.2.1).  1 if it
 * is of our name; 0 if not; -1 at the end. */

static int
il_session_next(il_str_t *rest, il_str_t *value)
{
    size_t       n;
    il_str_t     pair;
    const char  *end;

    static const char  name[] = IL_SESSION_COOKIE "=";

    if (rest->len == 0) {
        return -1;
    }

    end = memchr(rest->data, ';', rest->len);
    n = end == NULL ? rest->len : (size_t) (end - rest->data);
    pair = il_str_trim(il_str(rest->data, n));
    n = end == NULL ? n : n + 1;
    *rest = il_str(rest->data + n, rest->len - n);

    if (pair.len < sizeof(name) - 1
        || memcmp(pair.data, name, sizeof(name) - 1) != 0)
    {
        return 0;
    }

    *value = il_str(pair.data + sizeof(name) - 1,
                    pair.len - (sizeof(name) - 1));

    return 1;
}


int
il_session_cookie(const il_req_t *r, uint8_t digest[32])
{
    int       rc, found;
    size_t    n;
    uint8_t   id[32];
    il_str_t  rest, value, first;

    found = 0;
    value = il_str(NULL, 0);
    first = value;
    rest = il_req_param(r, "HTTP_COOKIE");

    for ( ;; ) {
        rc = il_session_next(&rest, &value);
        if (rc < 0) {
            break;
        }

        if (rc > 0 && found && !il_str_eq(value, first)) {
            return -1;
        }

        if (rc > 0) {
            found = 1;
            first = value;
        }
    }

    if (!found) {
        return 0;
    }

    /* only the one way to write it, or a session had several digests */

    if (first.len != IL_SESSION_TEXT
        || il_b64_decode(id, sizeof(id), &n, first, IL_B64_URL_NOPAD) != 0
        || n != sizeof(id))
    {
        return -1;
    }

    sodium_memzero(id, sizeof(id));
    il_digest(digest, first);

    return 1;
}


void
il_session_new(char text[IL_SESSION_TEXT + 1], uint8_t digest[32])
{
    uint8_t  id[32];

    randombytes_buf(id, sizeof(id));
    (void) il_b64_encode(text, IL_SESSION_TEXT + 1, id, sizeof(id),
                         IL_B64_URL_NOPAD);
    sodium_memzero(id, sizeof(id));
    il_digest(digest, il_str(text, IL_SESSION_TEXT));
}


void
il_session_over(const uint8_t digest[32])
{
    il_cache_over(&il_sessions, digest, IL_SESSION_OVER);
    il_events_look();
}


/* -------------------------------------------------------------------- find */


static void
il_session_put(il_read_t *read, il_db_args_t *args)
{
    il_session_read_t  *s = (il_session_read_t *) read;

    il_db_put_bytes(args, 0, il_str((const char *) s->digest, 32));
    il_db_put_big(args, 1, il_srv.conf.session_idle);
    il_db_put_bool(args, 2, 1);
}


static void
il_session_next_step(il_req_t *r)
{
    r->next(r);
}


static void
il_session_missing_step(il_req_t *r)
{
    r->missing(r);
}


/* It must not outlive its end here, nor go unseen by the database for so long
 * that it ends while it is in use. */

static int64_t
il_session_keep(int64_t left)
{
    int64_t  ms;

    ms = il_srv.conf.session_idle / 30;
    ms = ms < IL_SESSION_KNOWN ? ms : IL_SESSION_KNOWN;

    return left < ms ? left : ms;
}


static void
il_session_found(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    int64_t             left;
    il_req_t           *r;
    il_identity_t       who;
    il_session_read_t  *s = (il_session_read_t *) read;

    (void) p;
    r = s->r;

    if (res == NULL) {
        r->step = s->away;
        il_work_step(r);
        return;
    }

    if (il_auth_identity(res, &who) != 0
        || il_db_cell_int(res, 0, il_db_column(res, "left_ms"), &left) != 0)
    {
        il_cache_put(&il_sessions, s->digest, NULL, IL_SESSION_UNKNOWN);
        r->step = il_session_missing_step;
        il_work_step(r);
        return;
    }

    il_cache_put(&il_sessions, s->digest, &who, il_session_keep(left));

    r->who = who;
    r->step = il_session_next_step;
    il_work_step(r);
}


void
il_session_find(il_req_t *r, void (*next)(il_req_t *r),
    void (*missing)(il_req_t *r), void (*away)(il_req_t *r))
{
    int                 known;
    uint8_t             digest[32];
    il_session_read_t  *s;

    r->next = next;
    r->missing = missing;

    if (il_session_cookie(r, digest) != 1) {
        missing(r);
        return;
    }

    known = il_cache_get(&il_sessions, digest, &r->who);
    if (known >= 0) {
        if (known) {
            next(r);

        } else {
            missing(r);
        }

        return;
    }

    s = il_pool_get(&r->pool, sizeof(il_session_read_t));
    if (s == NULL) {
        il_req_internal(r);
        return;
    }

    s->r = r;
    s->away = away;
    memcpy(s->digest, digest, 32);
    s->read.sql = "select * from interlock.session_find($1, $2, $3)";
    s->read.signature = "YLB";
    s->read.put = il_session_put;
    s->read.done = il_session_found;

    if (il_lane_put(&il_srv.read, &s->read.item) != 0) {
        away(r);
    }
}


/* -------------------------------------------------------------------- auth */


typedef struct {
    void  (*next)(il_req_t *r);
} il_session_auth_t;


static void
il_session_ended(il_req_t *r)
{
    il_req_problem(r, IL_P_TOKEN_INVALID, "The session has ended; log in "
                   "again.");
}


static void
il_session_role(il_req_t *r)
{
    il_session_auth_t  *a = r->op;

    if (!(r->who.role & r->roles)) {
        il_req_problem(r, IL_P_FORBIDDEN,
                       "The role of this session may not do that.");
        return;
    }

    r->op = NULL;
    a->next(r);
}


void
il_session_auth(il_req_t *r, unsigned roles, void (*next)(il_req_t *r))
{
    il_session_auth_t  *a;

    if (r->method == IL_M_GET || r->method == IL_M_HEAD) {
        if (!il_origin_may_read(r)) {
            il_req_problem(r, IL_P_CROSS_ORIGIN, "A page of another site may "
                           "not use the session of this one.");
            return;
        }

    } else if (!il_origin_same(r)
               || !il_str_eq(il_req_param(r, "HTTP_INTERLOCK_UI"),
                             il_cstr("1")))
    {
        il_req_problem(r, IL_P_CROSS_ORIGIN, "With a session, what changes "
                       "something must come from a page of this site: with "
                       "its Origin, and Interlock-UI: 1.");
        return;
    }

    a = il_pool_get(&r->pool, sizeof(il_session_auth_t));
    if (a == NULL) {
        il_req_internal(r);
        return;
    }

    a->next = next;
    r->op = a;
    r->roles = roles;
    il_session_find(r, il_session_role, il_session_ended, il_req_unavailable);
}
