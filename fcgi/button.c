/*
 * button.c: POST and GET /button/{kind}, and GET /button/jobs/{id}, for
 * scripts.
 */


#include "button.h"
#include "il_enc.h"
#include "il_href.h"
#include "il_key.h"
#include "look.h"
#include "park.h"
#include "route.h"
#include "server.h"
#include "submit.h"


typedef struct {
    il_read_t   read;              /* first */
    il_req_t   *r;
} il_button_read_t;


void
il_button_refuse(il_req_t *r)
{
    il_req_problem(r, IL_P_TICKET_INVALID,
                   "The ticket is missing or not valid.");
}


/* ------------------------------------------------------------- the request */


static int
il_button_known(const il_req_t *r, const il_ticket_claims_t *c)
{
    return il_str_eq(il_req_param(r, "INTERLOCK_VERIFIED"),
                     il_cstr("ticket"))
           && il_str_eq(il_req_param(r, "INTERLOCK_TENANT"), c->tenant)
           && il_str_eq(il_req_param(r, "INTERLOCK_KIND"), c->kind)
           && il_str_eq(il_req_param(r, "INTERLOCK_WORK_KEY"), c->work_key);
}


void
il_button_auth(il_req_t *r, void (*next)(il_req_t *r))
{
    char        *fields, *claims;
    size_t       cap;
    il_str_t     body;
    il_press_t  *press;

    body = il_buf_str(&r->body);

    /* no more than is needed: a request that waits keeps it */

    cap = body.len > IL_BUTTON_BODY_MAX ? 0 : body.len;

    press = il_pool_get(&r->pool, sizeof(il_press_t));
    fields = il_pool_get(&r->pool, cap + 1);

    if (press == NULL || fields == NULL) {
        il_req_internal(r);
        return;
    }

    r->press = press;

    il_button_read(&press->in, il_req_sig_header, r, body, fields, cap);

    cap = press->in.ticket.len > IL_TOKEN_MAX ? 0 : press->in.ticket.len;

    claims = il_pool_get(&r->pool, cap + 1);
    if (claims == NULL) {
        il_req_internal(r);
        return;
    }

    if (press->in.page) {
        r->tell = il_button_page_problem;
    }

    if (press->in.ticket.data == NULL
        || il_keys_verify_ticket(&press->claims, claims, cap,
                                 press->in.ticket, il_wall_ms() / 1000)
           != 0
        || !il_button_known(r, &press->claims))
    {
        il_button_refuse(r);
        return;
    }

    il_auth_tenant(r, press->claims.tenant, next, il_button_refuse);
}


/* ---------------------------------------------------------------- pressing */


/* 0, or -1 and a problem was answered. */

static int
il_button_key(il_req_t *r)
{
    char        *key;
    size_t       len;
    il_press_t  *press = il_press(r);

    if (press->in.problem != IL_P_NONE) {
        il_req_problem(r, press->in.problem, press->in.detail);
        return -1;
    }

    if (press->in.key.data == NULL) {
        il_req_problem(r, IL_P_IDEMPOTENCY_KEY_MISSING, "A press of a button "
                       "needs an Idempotency-Key, the same one for every try "
                       "of that press.");
        return -1;
    }

    key = il_pool_get(&r->pool, IL_IDEM_MAX);
    if (key == NULL) {
        il_req_internal(r);
        return -1;
    }

    if (il_idem_parse(press->in.key, key, &len) != 0) {
        il_req_problem(r, IL_P_IDEMPOTENCY_KEY_INVALID, "The idempotency key "
                       "is longer than 255 characters, or not well-formed.");
        return -1;
    }

    press->idem = il_str(key, len);

    return 0;
}


static void
il_button_post_go(il_req_t *r)
{
    il_press_t   *press = il_press(r);
    il_submit_t  *s;

    if (!il_str_eq(r->args[0], press->claims.kind)) {
        il_button_refuse(r);
        return;
    }

    if (il_button_key(r) != 0) {
        return;
    }

    if (press->in.page) {
        il_button_page_post(r);
        return;
    }

    s = il_submit_new(r);

    if (s != NULL) {
        il_submit_press(s, press->idem, &press->claims, press->in.fresh);
        il_submit_queue(s);
    }
}


void
il_button_post(il_req_t *r)
{
    il_button_auth(r, il_button_post_go);
}


/* ----------------------------------------------------------------- looking */


il_str_t
il_button_text(il_req_t *r, il_str_t doc, const char *pointer)
{
    char             *out;
    size_t            n;
    il_json_value_t   v;

    if (il_json_find(doc, il_cstr(pointer), &v) != IL_JSON_OK
        || v.type != IL_JSON_STRING)
    {
        return il_str(NULL, 0);
    }

    out = il_pool_get(&r->pool, v.raw.len + 1);

    if (out == NULL || il_json_unescape(v.raw, out, v.raw.len, &n) != 0) {
        return il_str(NULL, 0);
    }

    return il_str(out, n);
}


int
il_button_may(il_req_t *r, il_str_t doc)
{
    il_press_t  *press = il_press(r);

    return il_str_eq(il_button_text(r, doc, "/kind"), press->claims.kind)
           && il_str_eq(il_button_text(r, doc, "/work_key"),
                        press->claims.work_key);
}


il_str_t
il_button_result(il_req_t *r, il_str_t doc)
{
    il_str_t  url;

    url = il_button_text(r, doc, "/result_url");

    return il_href_public(url) ? url : il_str(NULL, 0);
}


/* Only what is listed here leaves: a new member of a job does not by itself. */

static void
il_button_view_of(il_req_t *r, il_buf_t *b, il_str_t doc)
{
    size_t           i;
    il_json_value_t  v;

    static const char *const  members[] = {
        "job_id", "status", "decision", "progress", "user_message",
        "retry_at", "created_at", "started_at", "finished_at",
        "superseded_by"
    };

    if (doc.data == NULL) {
        il_buf_puts(b, "null");
        return;
    }

    for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        char  pointer[32] = "/";

        (void) strncat(pointer, members[i], sizeof(pointer) - 2);

        il_buf_puts(b, i == 0 ? "{\"" : ",\"");
        il_buf_puts(b, members[i]);
        il_buf_puts(b, "\":");

        if (il_json_find(doc, il_cstr(pointer), &v) == IL_JSON_OK) {
            il_buf_add(b, v.raw);

        } else {
            il_buf_puts(b, "null");
        }
    }

    il_buf_puts(b, ",\"result_url\":");
    il_buf_json_null(b, il_button_result(r, doc));
    il_buf_puts(b, "}");
}


static void
il_button_show(il_req_t *r, il_str_t doc)
{
    il_button_view_of(r, il_req_json(r, 200), doc);
    il_req_done(r);
}


/* There may be many pages, and they must not take the places of workers that
 * wait: when half of all are taken, a page is told at once how it stands. */

static int64_t
il_button_wait(const il_req_t *r)
{
    if (il_park_count() >= (size_t) il_srv.conf.parked_max / 2) {
        return 0;
    }

    return il_press(r)->in.page ? IL_BUTTON_PAGE_WAIT : il_look_prefer(r);
}


void
il_button_look(il_req_t *r, const uint8_t job_id[IL_UUID_BYTES])
{
    static const il_look_view_t  view = { il_button_may, il_button_show };
    static const il_look_view_t  page = { il_button_may,
                                          il_button_page_job };

    il_look_start(r, job_id, il_button_wait(r),
                  il_press(r)->in.page ? &page : &view);
}


static void
il_button_job_go(il_req_t *r)
{
    uint8_t  job_id[IL_UUID_BYTES];

    if (il_uuid_parse(job_id, r->args[0]) != 0) {
        il_req_problem(r, IL_P_NOT_FOUND, "There is no such job.");
        return;
    }

    il_button_look(r, job_id);
}


void
il_button_job(il_req_t *r)
{
    il_button_auth(r, il_button_job_go);
}


/* --------------------------------------------------------------- a reload */


static void
il_button_put(il_read_t *read, il_db_args_t *args)
{
    il_button_read_t  *b = (il_button_read_t *) read;
    il_press_t        *press = il_press(b->r);

    il_db_put_int(args, 0, b->r->who.tenant);
    il_db_put_text(args, 1, press->claims.kind);
    il_db_put_text(args, 2, press->claims.work_key);
}


static void
il_button_found(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_buf_t          *out;
    il_req_t          *r;
    il_press_t        *press;
    il_button_read_t  *b = (il_button_read_t *) read;

    r = b->r;
    press = il_press(r);

    if (res == NULL) {
        il_req_fail_item(&r->item, p);
        return;
    }

    out = il_req_json(r, 200);
    il_buf_puts(out, "{\"kind\":");
    il_buf_json(out, press->claims.kind);
    il_buf_puts(out, ",\"work_key\":");
    il_buf_json(out, press->claims.work_key);
    il_buf_puts(out, ",\"active\":");
    il_button_view_of(r, out, il_db_cell(res, 0,
                                         il_db_column(res, "active")));
    il_buf_puts(out, ",\"last\":");
    il_button_view_of(r, out, il_db_cell(res, 0, il_db_column(res, "last")));
    il_buf_puts(out, "}");
    il_req_done(r);
}


static void
il_button_get_go(il_req_t *r)
{
    il_button_read_t  *b;

    if (!il_str_eq(r->args[0], il_press(r)->claims.kind)) {
        il_button_refuse(r);
        return;
    }

    b = il_pool_get(&r->pool, sizeof(il_button_read_t));
    if (b == NULL) {
        il_req_internal(r);
        return;
    }

    b->r = r;
    b->read.sql = "select * from interlock.button_work($1, $2, $3)";
    b->read.signature = "ITT";
    b->read.put = il_button_put;
    b->read.done = il_button_found;

    if (il_lane_put(&il_srv.read, &b->read.item) != 0) {
        il_req_unavailable(r);
    }
}


void
il_button_get(il_req_t *r)
{
    il_button_auth(r, il_button_get_go);
}
