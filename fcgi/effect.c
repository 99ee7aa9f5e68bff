/*
 * effect.c: POST /v1/effects and POST /v1/effects/{id}/outcome, and the two
 * lanes of begins and outcomes.
 */

#include "body.h"
#include "effect.h"
#include "il_enc.h"
#include "il_hash.h"
#include "metrics.h"
#include "park.h"
#include "route.h"
#include "server.h"


#define IL_DIGEST_TEXT_MAX  255


const uint8_t *
il_effect_uuid(il_req_t *r, il_str_t text)
{
    uint8_t  *id;

    id = il_pool_get(&r->pool, IL_UUID_BYTES);

    return id != NULL && il_uuid_parse(id, text) == 0 ? id : NULL;
}


void
il_effect_begin(il_req_t *r)
{
    r->item.bytes = 1024;
    il_req_lane(r, &il_srv.begin);
}


void
il_effect_outcome(il_req_t *r)
{
    il_effect_t  *e = r->op;

    r->item.bytes = e->response.len + e->detail.len + 512;
    il_req_lane(r, &il_srv.outcome);
}


/* --------------------------------------------------------- the worker's way */


/* The name as the problem that it is, not as a field. */

static int
il_effect_name(il_req_t *r, const il_field_t *f, il_str_t *name)
{
    if (f->seen && f->value.type == IL_JSON_STRING
        && il_body_string(r, f, IL_EFFECT_NAME_MAX * 6, name) != 0)
    {
        return -1;
    }

    if (name->len == 0 || name->len > IL_EFFECT_NAME_MAX
        || il_has_control(*name))
    {
        il_req_problem(r, IL_P_EFFECT_NAME_INVALID, "\"name\" is a string of "
                       "1 to 256 bytes without control characters.");
        return -1;
    }

    return 0;
}


static int
il_effect_begin_read(il_req_t *r, il_effect_t *e, il_field_t *f)
{
    uint8_t   *digest;
    il_str_t   text, compensates, call;

    if (il_effect_name(r, &f[0], &e->name) != 0
        || il_body_string(r, &f[1], IL_NAME_MAX, &e->kind) != 0
        || il_body_string(r, &f[2], IL_EFFECT_TARGET_MAX, &e->target) != 0
        || il_body_string(r, &f[3], IL_DIGEST_TEXT_MAX, &text) != 0
        || il_body_string(r, &f[4], IL_UUID_TEXT, &compensates) != 0
        || il_body_string(r, &f[5], IL_UUID_TEXT, &call) != 0)
    {
        return -1;
    }

    if (e->kind.data == NULL) {
        il_body_invalid(r, "kind", "is required");
        return -1;
    }

    if (!il_name_valid(e->kind)) {
        il_req_problem(r, IL_P_EFFECT_KIND_UNKNOWN,
                       "There is no such effect kind.");
        return -1;
    }

    if (text.data != NULL) {
        digest = il_pool_get(&r->pool, IL_FP_BYTES);
        if (digest == NULL) {
            il_req_internal(r);
            return -1;
        }

        il_digest(digest, text);
        e->digest = il_str((const char *) digest, IL_FP_BYTES);
    }

    if (compensates.data != NULL) {
        e->compensates = il_effect_uuid(r, compensates);

        if (e->compensates == NULL) {
            il_req_problem(r, IL_P_COMPENSATES_UNKNOWN,
                           "\"compensates\" is not the id of an effect.");
            return -1;
        }
    }

    if (call.data != NULL) {
        e->call = il_effect_uuid(r, call);

        if (e->call == NULL) {
            il_body_invalid(r, "call", "is not a UUID");
            return -1;
        }

        e->named = 1;
        return 0;
    }

    /* so that a lost COMMIT is not taken for somebody else's begin */

    il_uuid7(e->own_call, (uint64_t) il_wall_ms());
    e->call = e->own_call;

    return 0;
}


static void
il_effect_begin_go(il_req_t *r)
{
    il_effect_t  *e = r->op;
    il_field_t    f[] = {
        { .name = "name", .types = IL_T_ANY },
        { .name = "kind", .types = IL_T_STRING },
        { .name = "target", .types = IL_T_STRING },
        { .name = "request_digest", .types = IL_T_STRING },
        { .name = "compensates", .types = IL_T_STRING },
        { .name = "call", .types = IL_T_STRING }
    };

    if (il_body_fields(r, f, 6, 0) == 0 && il_effect_begin_read(r, e, f) == 0)
    {
        il_effect_begin(r);
    }
}


void
il_effect_post(il_req_t *r)
{
    il_owner_auth(r, sizeof(il_effect_t), il_effect_begin_go);
}


static void
il_effect_outcome_go(il_req_t *r)
{
    il_effect_t  *e = r->op;
    il_str_t      send;
    il_field_t    f[] = {
        { .name = "send_id", .types = IL_T_STRING },
        { .name = "state", .types = IL_T_STRING },
        { .name = "provider_ref", .types = IL_T_STRING },
        { .name = "detail", .types = IL_T_STRING },
        { .name = "response", .types = IL_T_ANY }
    };

    e->status = -1;

    if (il_body_fields(r, f, 5, 0) != 0
        || il_body_string(r, &f[0], IL_UUID_TEXT, &send) != 0
        || il_body_string(r, &f[1], 64, &e->state) != 0
        || il_body_string(r, &f[2], IL_EFFECT_REF_MAX, &e->ref) != 0
        || il_body_string(r, &f[3], IL_EFFECT_DETAIL_MAX, &e->detail) != 0)
    {
        return;
    }

    if (send.data == NULL) {
        il_body_invalid(r, "send_id", "is required");
        return;
    }

    if (e->state.data == NULL
        || (!il_str_eq(e->state, il_cstr("confirmed"))
            && !il_str_eq(e->state, il_cstr("failed"))
            && !il_str_eq(e->state, il_cstr("unknown"))))
    {
        il_body_invalid(r, "state",
                        "must be one of confirmed, failed, unknown");
        return;
    }

    e->effect = il_effect_uuid(r, r->args[0]);
    e->send = il_effect_uuid(r, send);

    if (e->effect == NULL) {
        il_req_problem(r, IL_P_NOT_FOUND, "There is no such effect.");
        return;
    }

    if (e->send == NULL) {
        il_req_problem(r, IL_P_SEND_UNKNOWN,
                       "\"send_id\" names no send of this effect.");
        return;
    }

    if (f[4].seen && f[4].value.raw.len <= IL_EFFECT_RESPONSE_MAX) {
        e->response = f[4].value.raw;
        e->type = il_cstr("application/json");
    }

    il_effect_outcome(r);
}


void
il_effect_outcome_post(il_req_t *r)
{
    il_owner_auth(r, sizeof(il_effect_t), il_effect_outcome_go);
}


/* ------------------------------------------------------------------ answers */


static void
il_effect_refuse(il_req_t *r, const il_db_result_t *res, size_t row)
{
    il_str_t       outcome, detail;
    il_effect_t   *e = r->op;
    il_problem_e   p;

    outcome = il_db_cell(res, row, il_db_column(res, "outcome"));
    detail = il_db_cell(res, row, il_db_column(res, "detail"));
    p = il_problem_find(outcome);

    switch (p) {

    case IL_P_LEASE_LOST:
    case IL_P_FENCE_STALE:
    case IL_P_JOB_CANCELED:
    case IL_P_LEASE_EXPIRED:
        il_owner_refuse(r, outcome, e->owner.kind, "effect");
        return;

    case IL_P_LEASE_TOO_SHORT:
        detail = il_cstr("Less of the lease remains than the time that a "
                         "send may take: renew it first.");
        break;

    case IL_P_NOT_FOUND:
        detail = il_cstr("There is no such effect.");
        break;

    case IL_P_NONE:
        il_req_internal(r);
        return;

    default:
        break;
    }

    il_req_problem_more(r, p, detail, il_str(NULL, 0));
}


/* "name":value, or nothing if it is null. */

static void
il_effect_member(il_buf_t *b, const char *name, il_str_t value)
{
    if (value.data == NULL) {
        return;
    }

    il_buf_puts(b, ",\"");
    il_buf_puts(b, name);
    il_buf_puts(b, "\":");
    il_buf_json(b, value);
}


/* What the provider said the first time: as JSON if that is what it is. */

static void
il_effect_response(il_req_t *r, il_buf_t *b, const il_db_result_t *res,
    size_t row)
{
    char      *text;
    size_t     len, cap;
    uint8_t   *bytes;
    il_str_t   cell;

    cell = il_db_cell(res, row, il_db_column(res, "response"));

    if (cell.data == NULL) {
        return;
    }

    len = il_db_bytes_len(cell);
    bytes = il_pool_get(&r->pool, len + 1);

    if (bytes == NULL || il_db_bytes_decode(cell, bytes) != 0) {
        b->failed = 1;
        return;
    }

    if (il_json_check(il_str((const char *) bytes, len)) == IL_JSON_OK) {
        il_buf_puts(b, ",\"response\":");
        il_buf_add(b, il_str((const char *) bytes, len));
        return;
    }

    cap = il_b64_encoded_cap(len);
    text = il_pool_get(&r->pool, cap);

    if (text == NULL) {
        b->failed = 1;
        return;
    }

    len = il_b64_encode(text, cap, bytes, len, IL_B64_STD);
    il_effect_member(b, "response_base64", il_str(text, len));
}


static void
il_effect_begun(il_req_t *r, const il_db_result_t *res, size_t row)
{
    size_t        i;
    il_buf_t     *b;
    il_str_t      status;
    il_effect_t  *e = r->op;

    static const char *const  members[] = {
        "send_id", "state", "decision", "idempotency_key", "key_header",
        "provider_ref", "job_id", "work_key", "response_type"
    };

    if (!il_str_eq(il_db_cell(res, row, il_db_column(res, "outcome")),
                   il_cstr("ok")))
    {
        il_effect_refuse(r, res, row);
        return;
    }

    if (e->edge) {
        il_effect_edge_begun(r, res, row);
        return;
    }

    b = il_req_json(r, 200);
    il_buf_puts(b, "{\"effect_id\":");
    il_buf_json(b, il_db_cell(res, row, il_db_column(res, "effect_id")));

    for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        il_effect_member(b, members[i],
                         il_db_cell(res, row, il_db_column(res, members[i])));
    }

    status = il_db_cell(res, row, il_db_column(res, "deadline_ms"));
    if (status.data != NULL) {
        il_buf_puts(b, ",\"deadline_ms\":");
        il_buf_add(b, status);
    }

    status = il_db_cell(res, row, il_db_column(res, "response_status"));
    if (status.data != NULL) {
        il_buf_puts(b, ",\"response_status\":");
        il_buf_add(b, status);
    }

    il_effect_response(r, b, res, row);
    il_buf_puts(b, "}");
    il_req_done(r);
}


static void
il_effect_told(il_req_t *r, const il_db_result_t *res, size_t row)
{
    il_buf_t     *b;
    il_effect_t  *e = r->op;

    if (!il_str_eq(il_db_cell(res, row, il_db_column(res, "outcome")),
                   il_cstr("ok")))
    {
        il_effect_refuse(r, res, row);
        return;
    }

    if (e->edge) {
        il_effect_edge_told(r, res, row);
        return;
    }

    if (r->item.tries == 0
        && il_db_cell_bool(res, row, il_db_column(res, "replayed")))
    {
        il_req_header(r, "Idempotency-Replayed", il_cstr("true"));
    }

    b = il_req_json(r, 200);
    il_buf_puts(b, "{\"effect_id\":");
    il_buf_json(b, il_db_cell(res, row, il_db_column(res, "effect_id")));
    il_effect_member(b, "state",
                     il_db_cell(res, row, il_db_column(res, "state")));
    il_buf_puts(b, "}");
    il_req_done(r);
}


/* ---------------------------------------------------------------- the lanes */


static void
il_effect_put_begin(il_db_args_t *a, il_item_t *item)
{
    il_req_t     *r = (il_req_t *) item;
    il_effect_t  *e = r->op;

    il_db_put_int(a, 0, r->who.tenant);
    il_db_put_uuid(a, 1, e->owner.job_id);
    il_db_put_uuid(a, 2, e->owner.attempt_id);
    il_db_put_big(a, 3, e->owner.fence);
    il_db_put_text(a, 4, e->name);
    il_db_put_text(a, 5, e->kind);
    il_db_put_text(a, 6, e->target);
    il_db_put_bytes(a, 7, e->digest);
    il_db_put_uuid(a, 8, e->compensates);
    il_db_put_uuid(a, 9, e->call);
    il_db_put_bool(a, 10, e->named);
}


static il_db_rc_e
il_effect_call_begin(il_lane_t *lane, il_link_t *link, il_item_t **items,
    size_t n, il_db_result_t **res)
{
    return il_lane_call_rows(link, "select * from interlock.effect_begin("
                             "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, "
                             "$11)", "iuultttyuub", il_effect_put_begin, NULL, lane,
                             items, n, res);
}


static void
il_effect_deal_begin(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n)
{
    (void) lane;
    (void) link;

    il_req_deal(res, items, n, il_effect_begun, il_req_internal, NULL);
}


static void
il_effect_put_outcome(il_db_args_t *a, il_item_t *item)
{
    il_req_t     *r = (il_req_t *) item;
    il_effect_t  *e = r->op;

    il_db_put_int(a, 0, r->who.tenant);
    il_db_put_uuid(a, 1, e->owner.attempt_id);
    il_db_put_uuid(a, 2, e->effect);
    il_db_put_uuid(a, 3, e->send);
    il_db_put_text(a, 4, e->state);
    il_db_put_text(a, 5, e->ref);
    il_db_put_text(a, 6, e->detail);

    if (e->status < 0) {
        il_db_put_null(a, 7);

    } else {
        il_db_put_int(a, 7, (int32_t) e->status);
    }

    il_db_put_text(a, 8, e->type);
    il_db_put_bytes(a, 9, e->response);
}


static il_db_rc_e
il_effect_call_outcome(il_lane_t *lane, il_link_t *link, il_item_t **items,
    size_t n, il_db_result_t **res)
{
    return il_lane_call_rows(link, "select * from interlock.effect_outcome("
                             "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                             "iuuutttity", il_effect_put_outcome, NULL, lane,
                             items, n, res);
}


static void
il_effect_hint(il_req_t *r, const il_db_result_t *res, size_t row)
{
    il_park_hint_kinds(r->who.tenant,
                       il_db_cell(res, row, il_db_column(res, "wake_kinds")));
    il_park_ended_jobs(il_db_cell(res, row,
                                  il_db_column(res, "ended_jobs")));
}


static void
il_effect_deal_outcome(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n)
{
    (void) lane;
    (void) link;

    il_req_deal(res, items, n, il_effect_told, il_req_internal,
                il_effect_hint);
}


const il_lane_ops_t  il_begin_ops = {
    .name = "begin",
    .app = "interlockd begin",
    .call = il_effect_call_begin,
    .deal = il_effect_deal_begin,
    .fail = il_req_fail_item
};


const il_lane_ops_t  il_outcome_ops = {
    .name = "outcome",
    .app = "interlockd outcome",
    .call = il_effect_call_outcome,
    .deal = il_effect_deal_outcome,
    .fail = il_req_fail_item
};
