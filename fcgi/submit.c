/*
 * submit.c: what all submissions have in common, those from webhooks, and the
 * lane.
 *
 * Each gets a request id before its first try; run again under it, a call
 * whose COMMIT was lost finds its own answer.
 */

#include "il_button.h"
#include "il_enc.h"
#include "il_key.h"
#include "ingress_pk.h"
#include "route.h"
#include "server.h"
#include "submit.h"


#define IL_CONTENT_TYPE_MAX  255
#define IL_HEADERS_MAX       (64 << 10)


void
il_submit_init(il_submit_t *s, il_req_t *r)
{
    s->r = r;

    il_uuid7(s->request_id, (uint64_t) il_wall_ms());
    s->version = -1;
    s->priority = INT64_MIN;
    s->run_after = INT64_MIN;
    s->deadline = INT64_MIN;
}


il_submit_t *
il_submit_new(il_req_t *r)
{
    il_submit_t  *s;

    s = il_pool_get(&r->pool, sizeof(il_submit_t));
    if (s == NULL) {
        il_req_internal(r);
        return NULL;
    }

    r->op = s;
    il_submit_init(s, r);

    return s;
}


static void
il_submit_fingerprint(il_submit_t *s, il_str_t body)
{
    il_fp_t  fp;

    if (s->button) {
        il_button_fp(s->fingerprint, s->kind, s->work_key, s->requested_by,
                     s->fresh);
        return;
    }

    il_fp_init(&fp, il_req_param(s->r, "REQUEST_METHOD"), s->source,
               s->r->uri);
    il_fp_update(&fp, body.data, body.len);
    il_fp_final(&fp, s->fingerprint);
}


/* 55 characters of lower-case hex and dashes (W3C Trace Context); anything
 * else is dropped, as that says. */

static il_str_t
il_submit_traceparent(const il_req_t *r)
{
    size_t    i;
    il_str_t  s;

    s = il_req_param(r, "HTTP_TRACEPARENT");

    if (s.len != 55) {
        return il_str(NULL, 0);
    }

    for (i = 0; i < s.len; i++) {
        if (!((s.data[i] >= '0' && s.data[i] <= '9')
              || (s.data[i] >= 'a' && s.data[i] <= 'f')
              || s.data[i] == '-'))
        {
            return il_str(NULL, 0);
        }
    }

    return s;
}


/* What it needs is the row of its work key (FNV-1a). */

static void
il_submit_about(il_submit_t *s)
{
    size_t    i;
    uint32_t  h;

    h = 2166136261u ^ (uint32_t) s->r->who.tenant;

    for (i = 0; i < s->work_key.len; i++) {
        h = (h ^ (unsigned char) s->work_key.data[i]) * 16777619u;
    }

    s->item.about = h == 0 ? 1 : h;
}


void
il_submit_ready(il_submit_t *s, il_str_t body)
{
    s->traceparent = il_submit_traceparent(s->r);
    il_submit_fingerprint(s, body);
    il_submit_about(s);

    s->item.bytes = body.len + s->headers.len + 512;
}


void
il_submit_press(il_submit_t *s, il_str_t idem,
    const il_ticket_claims_t *claims, int fresh)
{
    s->button = 1;
    s->source = il_cstr("button");
    s->mismatch = il_cstr("reject");
    s->idem = idem;
    s->kind = claims->kind;
    s->work_key = claims->work_key;
    s->requested_by = claims->user;
    s->fresh = fresh;
}


void
il_submit_queue(il_submit_t *s)
{
    il_req_t  *r = s->r;

    il_submit_ready(s, il_buf_str(&r->body));

    if (il_lane_put(&il_srv.submit, &s->item) != 0) {
        il_req_unavailable(r);
    }
}


/* ---------------------------------------------------------------- webhooks */


/* Credentials are not kept; signatures may be, they prove what was sent. */

static int
il_submit_keeps(const il_req_t *r, il_str_t name)
{
    size_t  i;

    static const il_str_t  dropped[] = {
        il_string("authorization"),
        il_string("proxy-authorization"),
        il_string("cookie"),
        il_string("proxy"),
        il_string("interlock-owner-token"),
        il_string("interlock-ticket"),
        il_string("x-api-key"),
        il_string("x-auth-token"),
        il_string("x-gitlab-token")
    };

    if (il_str_eq(name, il_req_param(r, "INTERLOCK_SECRET_HEADER"))) {
        return 0;
    }

    /* of the whole: an element is neither as long nor encoded */

    if (il_submit_is_split(r)
        && (il_str_eq(name, il_cstr("content-length"))
            || il_str_eq(name, il_cstr("content-encoding"))))
    {
        return 0;
    }

    for (i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++) {
        if (il_str_eq(name, dropped[i])) {
            return 0;
        }
    }

    return 1;
}


/* HTTP_X_GITHUB_EVENT → "x-github-event".  data NULL if memory is short. */

static il_str_t
il_submit_headers(il_req_t *r)
{
    char      **p, name[128];
    size_t      i, n;
    il_buf_t    b;
    il_str_t    value, copy;

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, "{");

    for (p = il_fcgx_params(r->conn->fcgi); *p != NULL; p++) {

        if (strncmp(*p, "HTTP_", 5) != 0) {
            continue;
        }

        n = strcspn(*p + 5, "=");
        if (n == 0 || n >= sizeof(name) || (*p)[5 + n] != '=') {
            continue;
        }

        for (i = 0; i < n; i++) {
            name[i] = (*p)[5 + i];

            if (name[i] >= 'A' && name[i] <= 'Z') {
                name[i] = (char) (name[i] + 32);

            } else if (name[i] == '_') {
                name[i] = '-';
            }
        }

        value = il_cstr(*p + 5 + n + 1);

        if (!il_submit_keeps(r, il_str(name, n))
            || b.len + value.len > IL_HEADERS_MAX)
        {
            continue;
        }

        il_buf_puts(&b, b.len == 1 ? "" : ",");
        il_buf_json(&b, il_str(name, n));
        il_buf_puts(&b, ":");
        il_buf_json(&b, value);
    }

    il_buf_puts(&b, "}");

    copy = b.failed ? il_str(NULL, 0) : il_pool_dup(&r->pool, il_buf_str(&b));
    il_buf_free(&b);

    return copy;
}


static void
il_submit_ingress_missing(il_req_t *r)
{
    il_req_problem(r, IL_P_NOT_FOUND, "There is no source at this path.");
}


il_problem_e
il_submit_check(const il_submit_t *s, const char **detail)
{
    il_key_rc_e  rc;

    /* "check" is the source of interlock's own jobs */

    if (!il_name_valid(s->source) || !il_name_valid(s->kind)
        || il_str_eq(s->source, il_cstr("check")))
    {
        *detail = "There is no source at this path.";
        return IL_P_NOT_FOUND;
    }

    rc = il_key_check(s->work_key);
    if (rc != IL_KEY_OK) {
        *detail = il_key_strerror(rc);
        return rc == IL_KEY_INCOMPLETE ? IL_P_WORK_KEY_INCOMPLETE
                                       : IL_P_WORK_KEY_INVALID;
    }

    if (s->idem.len > IL_IDEM_MAX || !il_utf8_valid(s->idem)
        || il_has_control(s->idem))
    {
        *detail = "The idempotency key is too long or has characters that "
                  "are not allowed.";
        return IL_P_IDEMPOTENCY_KEY_INVALID;
    }

    return IL_P_NONE;
}


int
il_submit_about_request(il_submit_t *s)
{
    il_str_t   type;
    il_req_t  *r = s->r;

    type = il_req_param(r, "CONTENT_TYPE");

    if (type.len > 0 && type.len <= IL_CONTENT_TYPE_MAX
        && il_utf8_valid(type) && !il_has_control(type))
    {
        s->content_type = type;
    }

    s->mismatch = il_req_param(r, "INTERLOCK_MISMATCH");

    if (!il_str_eq(s->mismatch, il_cstr("first"))) {
        s->mismatch = il_cstr("reject");
    }

    s->headers = il_submit_headers(r);

    return s->headers.data == NULL ? -1 : 0;
}


/* The edge says what the request is; here it is only checked for form. */

static void
il_submit_ingress_go(il_req_t *r)
{
    il_str_t       idem;
    const char    *detail;
    il_submit_t   *s;
    il_problem_e   p;

    if (il_submit_is_split(r)) {
        il_submit_split(r);
        return;
    }

    s = il_submit_new(r);
    if (s == NULL) {
        return;
    }

    s->source = il_req_param(r, "INTERLOCK_SOURCE");
    s->kind = il_req_param(r, "INTERLOCK_KIND");
    s->work_key = il_req_param(r, "INTERLOCK_WORK_KEY");

    idem = il_req_param(r, "INTERLOCK_IDEMPOTENCY_KEY");
    if (idem.len > 0) {
        s->idem = idem;
    }

    p = il_submit_check(s, &detail);
    if (p != IL_P_NONE) {
        il_req_problem(r, p, detail);
        return;
    }

    s->payload = il_buf_str(&r->body);

    if (il_submit_about_request(s) != 0) {
        il_req_internal(r);
        return;
    }

    il_submit_queue(s);
}


static void
il_submit_ingress_token(il_req_t *r)
{
    /* the token's tenant must be that of the source */

    if (!il_str_eq(il_cstr(r->who.tenant_name),
                   il_req_param(r, "INTERLOCK_TENANT")))
    {
        il_req_problem(r, IL_P_FORBIDDEN,
                       "This API token belongs to another tenant.");
        return;
    }

    il_submit_ingress_go(r);
}


/* 1 if the edge says what it is. */

static int
il_submit_ingress_known(const il_req_t *r)
{
    return il_req_param(r, "INTERLOCK_TENANT").len != 0
           && il_req_param(r, "INTERLOCK_SOURCE").len != 0
           && (il_submit_is_split(r)
               || (il_req_param(r, "INTERLOCK_KIND").len != 0
                   && il_req_param(r, "INTERLOCK_WORK_KEY").len != 0));
}


/* Its sender is known, by the edge or by il_ingress_pk(). */

static void
il_submit_ingress_verified(il_req_t *r)
{
    if (!il_submit_ingress_known(r)) {
        il_submit_ingress_missing(r);
        return;
    }

    il_auth_tenant(r, il_req_param(r, "INTERLOCK_TENANT"),
                   il_submit_ingress_go, il_submit_ingress_missing);
}


void
il_submit_ingress(il_req_t *r)
{
    if (il_ingress_pk_wanted(r)) {
        il_ingress_pk(r, il_submit_ingress_verified);
        return;
    }

    if (!il_submit_ingress_known(r)) {
        il_submit_ingress_missing(r);
        return;
    }

    if (il_req_param(r, "INTERLOCK_VERIFIED").len == 0) {
        il_auth_token(r, IL_ROLE_SUBMIT, il_submit_ingress_token);
        return;
    }

    il_submit_ingress_verified(r);
}


void
il_submit_ingress_head(il_req_t *r)
{
    r->status = 200;
    r->type = "text/plain";
    il_req_done(r);
}


/* -------------------------------------------------------------- the lane */


static void
il_submit_put(il_db_args_t *a, il_item_t *item)
{
    il_submit_t  *s = (il_submit_t *) item;

    il_db_put_int(a, 0, s->r->who.tenant);
    il_db_put_uuid(a, 1, s->request_id);
    il_db_put_text(a, 2, s->source);
    il_db_put_text(a, 3, s->idem);
    il_db_put_bytes(a, 4, il_str((const char *) s->fingerprint,
                                 IL_FP_BYTES));
    il_db_put_text(a, 5, s->mismatch);
    il_db_put_text(a, 6, s->kind);
    il_db_put_text(a, 7, s->work_key);

    if (s->version >= 0) {
        il_db_put_big(a, 8, s->version);

    } else {
        il_db_put_null(a, 8);
    }

    il_db_put_bytes(a, 9, s->payload);
    il_db_put_text(a, 10, s->content_type);
    il_db_put_text(a, 11, s->headers);
    il_db_put_text(a, 12, s->traceparent);

    if (s->priority != INT64_MIN) {
        il_db_put_int(a, 13, (int32_t) s->priority);

    } else {
        il_db_put_null(a, 13);
    }

    il_db_put_time(a, 14, s->run_after);
    il_db_put_time(a, 15, s->deadline);
    il_db_put_bool(a, 16, s->fresh);
    il_db_put_text(a, 17, s->requested_by);
    il_db_put_text(a, 18, s->reason);
}


static void
il_submit_put_last(il_db_args_t *a, const il_lane_t *lane)
{
    il_db_put_bool(a, 19, lane->waits);
}


static il_db_rc_e
il_submit_call(il_lane_t *lane, il_link_t *link, il_item_t **items, size_t n,
    il_db_result_t **res)
{
    return il_lane_call_rows(link, "select * from interlock.submit("
                             "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, "
                             "$12, $13, $14, $15, $16, $17, $18, $19, $20)",
                             "iuttyttt" "lyttti" "zzbtt" "B",
                             il_submit_put, il_submit_put_last, lane, items,
                             n, res);
}


const il_lane_ops_t  il_submit_ops = {
    .name = "submit",
    .app = "interlockd submit",
    .call = il_submit_call,
    .deal = il_submit_deal,
    .fail = il_submit_fail
};
