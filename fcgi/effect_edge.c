/*
 * effect_edge.c: calls of nginx's fencing proxy.
 *
 * The call is a JSON object in the parameter INTERLOCK_EFFECT.  Clients can
 * only send HTTP_ parameters, so it is the edge's own, and so are the owner's
 * claims in it: the edge has verified the token.  The provider's answer is
 * the body.
 *
 * A begin is answered with `Interlock-Effect-Decision: send` if the call may
 * be made; anything else goes to the worker as it is.
 */

#include <stdio.h>

#include "doc.h"
#include "effect.h"
#include "il_enc.h"
#include "il_hash.h"
#include "il_time.h"
#include "route.h"
#include "server.h"


#define IL_EDGE_TYPE_MAX  255


/* A string of the call, in the pool; data NULL if there is none. */

static il_str_t
il_edge_text(il_req_t *r, il_str_t json, const char *pointer)
{
    char             *out;
    size_t            len;
    il_json_value_t   v;

    if (il_json_lookup(json, il_cstr(pointer), &v) != IL_JSON_OK
        || v.type != IL_JSON_STRING)
    {
        return il_str(NULL, 0);
    }

    out = il_pool_get(&r->pool, v.raw.len + 1);

    if (out == NULL || il_json_unescape(v.raw, out, v.raw.len, &len) != 0) {
        return il_str(NULL, 0);
    }

    return il_str(out, len);
}


static int64_t
il_edge_number(il_str_t json, const char *pointer)
{
    int64_t          n;
    il_json_value_t  v;

    if (il_json_lookup(json, il_cstr(pointer), &v) != IL_JSON_OK
        || v.type != IL_JSON_NUMBER || il_digits_parse(v.raw, 18, &n) != 0)
    {
        return -1;
    }

    return n;
}


static void
il_edge_invalid(il_req_t *r)
{
    il_req_problem(r, IL_P_BAD_REQUEST,
                   "The edge's call about an effect is not valid.");
}


static void
il_edge_no_tenant(il_req_t *r)
{
    il_req_problem(r, IL_P_OWNER_TOKEN_INVALID,
                   "The owner token is missing or not valid.");
}


static int
il_edge_begin(il_req_t *r, il_effect_t *e, il_str_t json)
{
    uint8_t   *digest;
    il_str_t   text;

    e->name = il_edge_text(r, json, "/name");
    e->kind = il_edge_text(r, json, "/kind");
    e->target = il_edge_text(r, json, "/target");
    e->call = il_effect_uuid(r, il_edge_text(r, json, "/send"));
    e->named = 1;

    text = il_edge_text(r, json, "/digest");
    digest = il_pool_get(&r->pool, IL_FP_BYTES);

    if (e->name.data == NULL || e->call == NULL || digest == NULL
        || il_hex_decode(digest, IL_FP_BYTES, text) != 0)
    {
        il_edge_invalid(r);
        return -1;
    }

    e->digest = il_str((const char *) digest, IL_FP_BYTES);

    if (!il_name_valid(e->kind)) {
        il_req_problem(r, IL_P_EFFECT_KIND_UNKNOWN,
                       "What the location gives is no name of an effect "
                       "kind.");
        return -1;
    }

    text = il_edge_text(r, json, "/compensates");

    if (text.data != NULL) {
        e->compensates = il_effect_uuid(r, text);

        if (e->compensates == NULL) {
            il_req_problem(r, IL_P_COMPENSATES_UNKNOWN,
                           "Interlock-Compensates is not the id of an "
                           "effect.");
            return -1;
        }
    }

    return 0;
}


/* Providers name what they made by its "id".  That of an error's body names
 * the error, or the request, and is no reference. */

static il_str_t
il_edge_ref(il_req_t *r, il_str_t response)
{
    char             *out;
    size_t            len;
    il_str_t          ref;
    il_json_value_t   v;

    if (il_json_find(response, il_cstr("/id"), &v) != IL_JSON_OK
        || (v.type != IL_JSON_STRING && v.type != IL_JSON_NUMBER))
    {
        return il_str(NULL, 0);
    }

    out = il_pool_get(&r->pool, v.raw.len + 1);

    if (out == NULL || il_json_scalar(&v, out, v.raw.len, &len) != 0) {
        return il_str(NULL, 0);
    }

    ref = il_str(out, len);

    return len > 0 && len <= IL_EFFECT_REF_MAX && !il_has_control(ref)
           ? ref : il_str(NULL, 0);
}


static int
il_edge_outcome(il_req_t *r, il_effect_t *e, il_str_t json)
{
    il_str_t         failure, map;
    il_json_value_t  v;

    e->effect = il_effect_uuid(r, il_edge_text(r, json, "/effect"));
    e->send = il_effect_uuid(r, il_edge_text(r, json, "/send"));
    e->status = il_edge_number(json, "/status");
    e->type = il_edge_text(r, json, "/type");
    failure = il_edge_text(r, json, "/failure");

    if (e->effect == NULL || e->send == NULL
        || (e->status < 0) == (failure.data == NULL))
    {
        il_edge_invalid(r);
        return -1;
    }

    map = il_str(NULL, 0);

    if (il_json_lookup(json, il_cstr("/map"), &v) == IL_JSON_OK) {
        map = v.raw;
    }

    e->state = il_effect_judge(map, e->status, failure);
    e->detail = failure;

    if (e->type.len > IL_EDGE_TYPE_MAX || il_has_control(e->type)) {
        e->type = il_str(NULL, 0);
    }

    if (il_json_lookup(json, il_cstr("/whole"), &v) == IL_JSON_OK
        && v.type == IL_JSON_TRUE && r->body.len <= IL_EFFECT_RESPONSE_MAX)
    {
        e->response = r->body.len == 0 ? il_str("", 0)
                                       : il_buf_str(&r->body);

        if (e->status >= 200 && e->status < 300) {
            e->ref = il_edge_ref(r, e->response);
        }
    }

    return 0;
}


static void
il_edge_go(il_req_t *r)
{
    il_str_t      json, call;
    il_effect_t  *e = r->op;

    json = il_req_param(r, "INTERLOCK_EFFECT");
    call = il_edge_text(r, json, "/call");

    if (il_str_eq(call, il_cstr("begin"))) {

        if (il_edge_begin(r, e, json) == 0) {
            il_effect_begin(r);
        }

        return;
    }

    if (il_str_eq(call, il_cstr("outcome"))) {

        if (il_edge_outcome(r, e, json) == 0) {
            il_effect_outcome(r);
        }

        return;
    }

    il_edge_invalid(r);
}


void
il_effect_edge(il_req_t *r)
{
    il_str_t      json;
    il_effect_t  *e;

    json = il_req_param(r, "INTERLOCK_EFFECT");

    if (json.len == 0) {
        il_req_problem(r, IL_P_NOT_FOUND, "There is nothing at this path.");
        return;
    }

    e = il_pool_get(&r->pool, sizeof(il_effect_t));
    if (e == NULL) {
        il_req_internal(r);
        return;
    }

    r->op = e;
    e->edge = 1;
    e->status = -1;

    if (il_json_check(json) != IL_JSON_OK
        || il_uuid_parse(e->owner.job_id, il_edge_text(r, json, "/job")) != 0
        || il_uuid_parse(e->owner.attempt_id,
                         il_edge_text(r, json, "/attempt"))
           != 0)
    {
        il_edge_invalid(r);
        return;
    }

    e->owner.fence = il_edge_number(json, "/fence");
    e->owner.kind = il_edge_text(r, json, "/job_kind");
    e->owner.tenant = il_edge_text(r, json, "/tenant");

    if (!il_name_valid(e->owner.tenant)) {
        il_edge_no_tenant(r);
        return;
    }

    il_auth_tenant(r, e->owner.tenant, il_edge_go, il_edge_no_tenant);
}


/* ------------------------------------------------------------------ answers */


static void
il_edge_headers(il_req_t *r, const il_db_result_t *res, size_t row)
{
    il_req_header(r, "Interlock-Effect-Id",
                  il_db_cell(res, row, il_db_column(res, "effect_id")));
    il_req_header(r, "Interlock-Effect-State",
                  il_db_cell(res, row, il_db_column(res, "state")));
}


static void
il_edge_send(il_req_t *r, const il_db_result_t *res, size_t row)
{
    size_t     i;
    il_buf_t  *b;
    il_str_t   map;

    static const char *const  members[] = {
        "effect_id", "send_id", "idempotency_key", "key_header", "deadline_ms"
    };

    il_req_header(r, "Interlock-Effect-Decision", il_cstr("send"));
    b = il_req_json(r, 200);

    for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        il_buf_puts(b, i == 0 ? "{\"" : ",\"");
        il_buf_puts(b, members[i]);
        il_buf_puts(b, "\":");
        il_buf_json_null(b, il_db_cell(res, row,
                                       il_db_column(res, members[i])));
    }

    map = il_db_cell(res, row, il_db_column(res, "outcome_map"));

    if (map.data != NULL) {
        il_buf_puts(b, ",\"outcome_map\":");
        il_buf_add(b, map);
    }

    il_buf_puts(b, "}");
    il_req_done(r);
}


static void
il_edge_unsettled(il_req_t *r, const il_db_result_t *res, size_t row,
    il_problem_e p, const char *detail)
{
    il_buf_t  more;

    memset(&more, 0, sizeof(more));

    il_buf_puts(&more, "\"effect_id\":");
    il_buf_json(&more, il_db_cell(res, row, il_db_column(res, "effect_id")));
    il_buf_puts(&more, ",\"state\":");
    il_buf_json(&more, il_db_cell(res, row, il_db_column(res, "state")));
    il_buf_puts(&more, ",\"decision\":");
    il_buf_json(&more, il_db_cell(res, row, il_db_column(res, "decision")));

    if (more.failed) {
        il_buf_free(&more);
        il_req_internal(r);
        return;
    }

    il_req_header(r, "Retry-After", il_cstr("1"));
    il_req_problem_more(r, p, il_cstr(detail), il_buf_str(&more));
    il_buf_free(&more);
}


static void
il_edge_put_get(il_read_t *read, il_db_args_t *args)
{
    il_doc_t     *d = (il_doc_t *) read;
    il_effect_t  *e = d->r->op;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_uuid(args, 1, e->effect);
}


/* Nothing was stored (it was too long, or a human has settled it): what is
 * known of the effect instead, with the provider's status if there is one. */

static void
il_edge_object(il_req_t *r, const il_db_result_t *res, size_t row,
    int status)
{
    uint8_t      *id;
    il_doc_t     *d;
    il_effect_t  *e = r->op;

    id = il_pool_get(&r->pool, IL_UUID_BYTES);

    if (id == NULL
        || il_db_cell_uuid(res, row, il_db_column(res, "effect_id"), id) != 0)
    {
        il_req_internal(r);
        return;
    }

    e->effect = id;

    d = il_doc_new(r, "select * from interlock.effect_get($1, $2)", "IU",
                   il_edge_put_get, il_doc_done);
    if (d != NULL) {
        d->status = status;
        d->missing = "There is no such effect.";
        il_doc_queue(d);
    }
}


static void
il_edge_replay(il_req_t *r, const il_db_result_t *res, size_t row)
{
    char      *bytes;
    size_t     len;
    int64_t    status;
    il_str_t   cell, type;

    il_req_header(r, "Interlock-Effect-Replayed", il_cstr("true"));

    if (il_db_cell_int(res, row, il_db_column(res, "response_status"),
                       &status) != 0
        || status < 200 || status > 599)
    {
        status = 200;
    }

    cell = il_db_cell(res, row, il_db_column(res, "response"));

    if (cell.data == NULL) {
        il_edge_object(r, res, row, (int) status);
        return;
    }

    type = il_db_cell(res, row, il_db_column(res, "response_type"));
    type = il_pool_dup(&r->pool, type.len == 0
                       ? il_cstr("application/octet-stream") : type);
    len = il_db_bytes_len(cell);
    bytes = il_buf_room(&r->out, len);

    if (type.data == NULL || bytes == NULL
        || il_db_bytes_decode(cell, (uint8_t *) bytes) != 0)
    {
        il_req_internal(r);
        return;
    }

    r->out.len += len;
    r->status = (int) status;
    r->type = type.data;
    il_req_done(r);
}


void
il_effect_edge_begun(il_req_t *r, const il_db_result_t *res, size_t row)
{
    il_str_t  decision;

    il_edge_headers(r, res, row);
    decision = il_db_cell(res, row, il_db_column(res, "decision"));

    if (il_str_eq(decision, il_cstr("send"))) {
        il_edge_send(r, res, row);

    } else if (il_str_eq(decision, il_cstr("already_confirmed"))) {
        il_edge_replay(r, res, row);

    } else if (il_str_eq(decision, il_cstr("in_progress"))) {
        il_edge_unsettled(r, res, row, IL_P_EFFECT_IN_PROGRESS,
                          "A send of this effect is under way.");

    } else {
        il_edge_unsettled(r, res, row, IL_P_EFFECT_UNSETTLED,
                          "Whether this effect happened is not known yet. It "
                          "is not sent again until that is settled.");
    }
}


void
il_effect_edge_told(il_req_t *r, const il_db_result_t *res, size_t row)
{
    il_buf_t  *b;

    il_edge_headers(r, res, row);

    b = il_req_json(r, 200);
    il_buf_puts(b, "{\"effect_id\":");
    il_buf_json(b, il_db_cell(res, row, il_db_column(res, "effect_id")));
    il_buf_puts(b, ",\"state\":");
    il_buf_json(b, il_db_cell(res, row, il_db_column(res, "state")));
    il_buf_puts(b, "}");
    il_req_done(r);
}


/* ------------------------------------------------------------- the judgement */


/* What the map says of a word: the text, or data NULL. */

static il_str_t
il_edge_mapped(il_str_t map, const char *word)
{
    char             pointer[32];
    il_str_t         said;
    il_json_value_t  v;

    (void) snprintf(pointer, sizeof(pointer), "/%s", word);

    if (map.data == NULL
        || il_json_find(map, il_cstr(pointer), &v) != IL_JSON_OK
        || v.type != IL_JSON_STRING || v.raw.len < 2)
    {
        return il_str(NULL, 0);
    }

    said = il_str(v.raw.data + 1, v.raw.len - 2);

    /* it failed, and may be tried again: the status tells the worker */

    return il_str_eq(said, il_cstr("retry")) ? il_cstr("failed") : said;
}


il_str_t
il_effect_judge(il_str_t map, int64_t status, il_str_t failure)
{
    char      word[32];
    il_str_t  said;

    if (failure.data != NULL) {

        /* the time was up before the call was made: it was not made */

        if (il_str_eq(failure, il_cstr("late"))) {
            return il_cstr("failed");
        }

        (void) snprintf(word, sizeof(word), "%.*s", (int) failure.len,
                        failure.data);
        said = il_edge_mapped(map, word);

        return said.data != NULL ? said : il_cstr("unknown");
    }

    (void) snprintf(word, sizeof(word), "%d", (int) status);
    said = il_edge_mapped(map, word);

    if (said.data == NULL) {
        (void) snprintf(word, sizeof(word), "%dxx", (int) status / 100);
        said = il_edge_mapped(map, word);
    }

    if (said.data != NULL) {
        return said;
    }

    switch (status) {

    case 202:
        return il_cstr("unknown");

    case 400: case 401: case 403: case 404: case 405: case 408: case 422:
    case 429:
        return il_cstr("failed");

    default:
        return il_cstr(status >= 200 && status < 300 ? "confirmed"
                                                     : "unknown");
    }
}
