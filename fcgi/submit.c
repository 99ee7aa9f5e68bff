/*
 * submit.c: submissions, from webhooks and from the API, and their lane.
 *
 * Each gets a request id before its first try; run again under it, a call
 * whose COMMIT was lost finds its own answer.
 */

#include "body.h"
#include "il_enc.h"
#include "il_key.h"
#include "route.h"
#include "server.h"
#include "submit.h"


#define IL_PRIORITY_MAX      100
#define IL_VERSION_MAX       999999999999999999LL     /* 18 digits */
#define IL_TEXT_MAX          1024
#define IL_CONTENT_TYPE_MAX  255
#define IL_HEADERS_MAX       (64 << 10)


static il_submit_t *
il_submit_new(il_req_t *r)
{
    il_submit_t  *s;

    s = il_pool_get(&r->pool, sizeof(il_submit_t));
    if (s == NULL) {
        il_req_internal(r);
        return NULL;
    }

    r->op = s;

    il_uuid7(s->request_id, (uint64_t) il_wall_ms());
    s->version = -1;
    s->priority = INT64_MIN;
    s->run_after = INT64_MIN;
    s->deadline = INT64_MIN;

    return s;
}


static void
il_submit_fingerprint(il_req_t *r, il_submit_t *s)
{
    il_fp_t  fp;

    il_fp_init(&fp, il_req_param(r, "REQUEST_METHOD"), s->source, r->uri);
    il_fp_update(&fp, r->body.data, r->body.len);
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


static void
il_submit_queue(il_req_t *r)
{
    il_submit_t  *s = r->op;

    s->traceparent = il_submit_traceparent(r);
    il_submit_fingerprint(r, s);

    r->item.bytes = r->body.len + s->headers.len + 512;
    il_req_lane(r, &il_srv.submit);
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


/* The edge says what the request is; here it is only checked for form. */

static void
il_submit_ingress_go(il_req_t *r)
{
    il_str_t      idem, type;
    il_key_rc_e   rc;
    il_submit_t  *s;

    s = il_submit_new(r);
    if (s == NULL) {
        return;
    }

    s->source = il_req_param(r, "INTERLOCK_SOURCE");
    s->kind = il_req_param(r, "INTERLOCK_KIND");
    s->work_key = il_req_param(r, "INTERLOCK_WORK_KEY");

    if (!il_name_valid(s->source) || !il_name_valid(s->kind)) {
        il_submit_ingress_missing(r);
        return;
    }

    rc = il_key_check(s->work_key);
    if (rc != IL_KEY_OK) {
        il_req_problem(r, rc == IL_KEY_INCOMPLETE ? IL_P_WORK_KEY_INCOMPLETE
                                                  : IL_P_WORK_KEY_INVALID,
                       il_key_strerror(rc));
        return;
    }

    idem = il_req_param(r, "INTERLOCK_IDEMPOTENCY_KEY");

    if (idem.len > 0) {
        if (idem.len > IL_IDEM_MAX || !il_utf8_valid(idem)
            || il_has_control(idem))
        {
            il_req_problem(r, IL_P_IDEMPOTENCY_KEY_INVALID, "The idempotency "
                           "key is too long or has characters that are not "
                           "allowed.");
            return;
        }

        s->idem = idem;
    }

    s->mismatch = il_req_param(r, "INTERLOCK_MISMATCH");

    if (!il_str_eq(s->mismatch, il_cstr("first"))) {
        s->mismatch = il_cstr("reject");
    }

    type = il_req_param(r, "CONTENT_TYPE");

    if (type.len > 0 && type.len <= IL_CONTENT_TYPE_MAX
        && il_utf8_valid(type) && !il_has_control(type))
    {
        s->content_type = type;
    }

    s->payload = il_buf_str(&r->body);

    s->headers = il_submit_headers(r);
    if (s->headers.data == NULL) {
        il_req_internal(r);
        return;
    }

    il_submit_queue(r);
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


void
il_submit_ingress(il_req_t *r)
{
    if (il_req_param(r, "INTERLOCK_TENANT").len == 0
        || il_req_param(r, "INTERLOCK_SOURCE").len == 0
        || il_req_param(r, "INTERLOCK_KIND").len == 0
        || il_req_param(r, "INTERLOCK_WORK_KEY").len == 0)
    {
        il_submit_ingress_missing(r);
        return;
    }

    if (il_req_param(r, "INTERLOCK_VERIFIED").len == 0) {
        il_auth_token(r, IL_ROLE_SUBMIT, il_submit_ingress_token);
        return;
    }

    il_auth_tenant(r, il_req_param(r, "INTERLOCK_TENANT"),
                   il_submit_ingress_go, il_submit_ingress_missing);
}


void
il_submit_ingress_head(il_req_t *r)
{
    r->status = 200;
    r->type = "text/plain";
    il_req_done(r);
}


/* --------------------------------------------------------------------- API */


/* A work key as a string, taken as it stands, or as its parts. */

static int
il_submit_key(il_req_t *r, const il_field_t *f, il_str_t *out)
{
    char             *key;
    size_t            n, pos, len;
    il_str_t          name, parts[IL_KEY_PARTS_MAX];
    il_field_t        part;
    il_key_rc_e       rc;
    il_json_value_t   value;

    if (!f->seen) {
        il_req_problem(r, IL_P_WORK_KEY_INCOMPLETE,
                       "Field \"work_key\" is missing.");
        return -1;
    }

    if (f->value.type == IL_JSON_STRING) {
        if (il_body_string(r, f, IL_KEY_MAX * 2, out) != 0) {
            return -1;
        }

        rc = il_key_check(*out);

    } else {
        n = 0;
        pos = 0;

        while (il_json_next(f->value, &pos, &name, &value)) {

            if (value.type != IL_JSON_STRING || n == IL_KEY_PARTS_MAX) {
                il_body_invalid(r, f->name, n == IL_KEY_PARTS_MAX
                                ? "has too many parts"
                                : "must have strings for its parts");
                return -1;
            }

            part = *f;
            part.value = value;

            if (il_body_string(r, &part, IL_KEY_MAX * 2, &parts[n]) != 0) {
                return -1;
            }

            n++;
        }

        key = il_pool_get(&r->pool, IL_KEY_MAX + 1);
        if (key == NULL) {
            il_req_internal(r);
            return -1;
        }

        rc = il_key_build(key, IL_KEY_MAX, &len, parts, n);
        *out = il_str(key, rc == IL_KEY_OK ? len : 0);
    }

    if (rc != IL_KEY_OK) {
        il_req_problem(r, rc == IL_KEY_INCOMPLETE ? IL_P_WORK_KEY_INCOMPLETE
                                                  : IL_P_WORK_KEY_INVALID,
                       il_key_strerror(rc));
        return -1;
    }

    return 0;
}


static int
il_submit_idempotency(il_req_t *r, il_submit_t *s)
{
    char    **p, *key;
    size_t    n, len;

    static const char  name[] = "HTTP_IDEMPOTENCY_KEY=";

    n = 0;

    for (p = il_fcgx_params(r->conn->fcgi); *p != NULL; p++) {
        if (strncmp(*p, name, sizeof(name) - 1) == 0) {
            n++;
        }
    }

    if (n == 0) {
        return 0;
    }

    key = il_pool_get(&r->pool, IL_IDEM_MAX);
    if (key == NULL) {
        il_req_internal(r);
        return -1;
    }

    if (n > 1
        || il_idem_parse(il_req_param(r, "HTTP_IDEMPOTENCY_KEY"), key, &len)
           != 0)
    {
        il_req_problem(r, IL_P_IDEMPOTENCY_KEY_INVALID, n > 1
                       ? "The Idempotency-Key header is there twice."
                       : "The Idempotency-Key header is empty, longer than "
                         "255 characters, or not well-formed.");
        return -1;
    }

    s->idem = il_str(key, len);

    return 0;
}


enum {
    IL_F_KIND, IL_F_WORK_KEY, IL_F_VERSION, IL_F_PAYLOAD, IL_F_PRIORITY,
    IL_F_RUN_AFTER, IL_F_DEADLINE, IL_F_FRESH, IL_F_REQUESTED_BY,
    IL_F_REASON, IL_F_MAX
};


static const il_field_t  il_submit_fields[IL_F_MAX] = {
    [IL_F_KIND] = { .name = "kind", .types = IL_T_STRING },
    [IL_F_WORK_KEY] = { .name = "work_key",
                        .types = IL_T_STRING | IL_T_ARRAY },
    [IL_F_VERSION] = { .name = "version", .types = IL_T_NUMBER },
    [IL_F_PAYLOAD] = { .name = "payload", .types = IL_T_ANY },
    [IL_F_PRIORITY] = { .name = "priority", .types = IL_T_NUMBER },
    [IL_F_RUN_AFTER] = { .name = "run_after", .types = IL_T_STRING },
    [IL_F_DEADLINE] = { .name = "deadline", .types = IL_T_STRING },
    [IL_F_FRESH] = { .name = "fresh", .types = IL_T_BOOL },
    [IL_F_REQUESTED_BY] = { .name = "requested_by", .types = IL_T_STRING },
    [IL_F_REASON] = { .name = "reason", .types = IL_T_STRING }
};


void
il_submit_job(il_req_t *r)
{
    il_field_t    f[IL_F_MAX];
    il_submit_t  *s;

    s = il_submit_new(r);
    if (s == NULL) {
        return;
    }

    memcpy(f, il_submit_fields, sizeof(f));

    s->source = il_cstr("api");
    s->mismatch = il_cstr("reject");

    if (il_submit_idempotency(r, s) != 0
        || il_body_fields(r, f, IL_F_MAX, 0) != 0
        || il_body_string(r, &f[IL_F_KIND], IL_TEXT_MAX, &s->kind) != 0)
    {
        return;
    }

    if (!il_name_valid(s->kind)) {
        il_body_invalid(r, "kind", s->kind.data == NULL ? "is missing"
                        : "must be the name of a kind");
        return;
    }

    if (il_submit_key(r, &f[IL_F_WORK_KEY], &s->work_key) != 0
        || il_body_int(r, &f[IL_F_VERSION], 0, IL_VERSION_MAX, &s->version)
           != 0
        || il_body_int(r, &f[IL_F_PRIORITY], -IL_PRIORITY_MAX,
                       IL_PRIORITY_MAX, &s->priority) != 0
        || il_body_time(r, &f[IL_F_RUN_AFTER], &s->run_after) != 0
        || il_body_time(r, &f[IL_F_DEADLINE], &s->deadline) != 0
        || il_body_string(r, &f[IL_F_REQUESTED_BY], IL_TEXT_MAX,
                          &s->requested_by) != 0
        || il_body_string(r, &f[IL_F_REASON], IL_TEXT_MAX, &s->reason) != 0)
    {
        return;
    }

    s->fresh = il_body_true(&f[IL_F_FRESH]);

    if (f[IL_F_PAYLOAD].seen) {
        s->payload = f[IL_F_PAYLOAD].value.raw;
        s->content_type = il_cstr("application/json");
    }

    il_submit_queue(r);
}


/* -------------------------------------------------------------- the lane */


static void
il_submit_put(il_db_args_t *a, il_item_t *item)
{
    il_req_t     *r = (il_req_t *) item;
    il_submit_t  *s = r->op;

    il_db_put_int(a, 0, r->who.tenant);
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

    if (s->run_after != INT64_MIN) {
        il_db_put_time(a, 14, s->run_after);

    } else {
        il_db_put_null(a, 14);
    }

    if (s->deadline != INT64_MIN) {
        il_db_put_time(a, 15, s->deadline);

    } else {
        il_db_put_null(a, 15);
    }

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
    .fail = il_req_fail_item
};
