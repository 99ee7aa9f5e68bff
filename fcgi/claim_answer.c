/*
 * claim_answer.c: leases as JSON, with their owner tokens.
 */

#include <stdlib.h>
#include <strings.h>

#include "claim.h"
#include "il_enc.h"
#include "il_json.h"
#include "log.h"
#include "metrics.h"
#include "server.h"


typedef struct {
    int  attempt_id;
    int  job_id;
    int  attempt;
    int  kind;
    int  work_key;
    int  fence;
    int  expires_at;
    int  remaining_ms;
    int  lease_seconds;
    int  token_exp;
    int  payload;
    int  content_type;
    int  headers;
    int  traceparent;
    int  waited_ms;
    int  step;
    int  checkpoint;
    int  earlier;
    int  effects;
} il_claim_cols_t;


/* Leases that nobody has: to be handed back, by the read lane. */

typedef struct {
    il_read_t   read;
    int32_t     tenant;
    size_t      n;
    uint8_t     attempts[][IL_UUID_BYTES];
} il_unclaim_t;


static void
il_claim_columns(il_claim_cols_t *c, const il_db_result_t *res)
{
    c->attempt_id = il_db_column(res, "attempt_id");
    c->job_id = il_db_column(res, "job_id");
    c->attempt = il_db_column(res, "attempt");
    c->kind = il_db_column(res, "kind");
    c->work_key = il_db_column(res, "work_key");
    c->fence = il_db_column(res, "fence");
    c->expires_at = il_db_column(res, "expires_at");
    c->remaining_ms = il_db_column(res, "remaining_ms");
    c->lease_seconds = il_db_column(res, "lease_seconds");
    c->token_exp = il_db_column(res, "token_exp");
    c->payload = il_db_column(res, "payload");
    c->content_type = il_db_column(res, "content_type");
    c->headers = il_db_column(res, "headers");
    c->traceparent = il_db_column(res, "traceparent");
    c->waited_ms = il_db_column(res, "waited_ms");
    c->step = il_db_column(res, "step");
    c->checkpoint = il_db_column(res, "checkpoint");
    c->earlier = il_db_column(res, "earlier");
    c->effects = il_db_column(res, "effects");
}


/* ------------------------------------------------------------- handing back */


static void
il_unclaim_put(il_read_t *read, il_db_args_t *args)
{
    size_t         i;
    il_unclaim_t  *u = (il_unclaim_t *) read;

    for (i = 0; i < u->n; i++) {
        il_db_put_int(args, 0, u->tenant);
        il_db_put_uuid(args, 1, u->attempts[i]);
    }
}


static void
il_unclaim_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    int            kind, ok, wake;
    size_t         row;
    il_str_t       name;
    il_unclaim_t  *u = (il_unclaim_t *) read;

    (void) p;

    if (res == NULL) {
        /* their ends will free them */
        il_log(IL_LOG_WARN, "claim: %zu leases could not be handed back",
               u->n);
        free(u);
        return;
    }

    kind = il_db_column(res, "kind");
    ok = il_db_column(res, "ok");
    wake = il_db_column(res, "wake_kinds");

    for (row = 0; row < il_db_rows(res); row++) {
        if (il_db_cell_bool(res, row, ok)) {
            name = il_db_cell(res, row, kind);
            il_metric_add_str(IL_MT_CLAIMS_HANDED_BACK, 1, name,
                              il_str("", 0), il_str("", 0));
            il_park_hint_kinds(u->tenant, il_db_cell(res, row, wake));
        }
    }

    free(u);
}


static void
il_claim_lost(il_req_t *r)
{
    size_t         i;
    il_claim_t    *c = r->op;
    il_unclaim_t  *u;

    u = calloc(1, sizeof(il_unclaim_t) + c->count * IL_UUID_BYTES);
    if (u == NULL) {
        il_log(IL_LOG_ERROR, "claim: out of memory");
        return;
    }

    u->tenant = r->who.tenant;
    u->read.sql = "select * from interlock.unclaim($1, $2)";
    u->read.signature = "iu";
    u->read.put = il_unclaim_put;
    u->read.done = il_unclaim_done;

    for (i = 0; i < c->count; i++) {
        if (il_db_cell_uuid(r->res, c->first + i,
                            il_db_column(r->res, "attempt_id"),
                            u->attempts[u->n])
            == 0)
        {
            u->n++;
        }
    }

    if (il_lane_put(&il_srv.read, &u->read.item) != 0) {
        il_log(IL_LOG_WARN, "claim: %zu leases could not be handed back",
               u->n);
        free(u);
    }
}


/* ---------------------------------------------------------------- answering */


static int
il_claim_is_json(il_str_t type)
{
    size_t  n;

    for (n = 0; n < type.len && type.data[n] != ';' && type.data[n] != ' ';
         n++)
    {
        /* void */
    }

    type.len = n;

    return (n == 16 && strncasecmp(type.data, "application/json", 16) == 0)
           || (n > 5 && strncasecmp(type.data + n - 5, "+json", 5) == 0);
}


/* JSON goes in as it was stored, byte for byte; else base64. */

static void
il_claim_payload(il_buf_t *b, il_str_t cell, il_str_t type)
{
    char      *text;
    size_t     n, len, at;
    uint8_t   *raw;

    if (cell.data == NULL) {
        il_buf_puts(b, ",\"payload\":null");
        return;
    }

    n = il_db_bytes_len(cell);

    raw = malloc(n + 1);
    if (raw == NULL || il_db_bytes_decode(cell, raw) != 0) {
        free(raw);
        b->failed = 1;
        return;
    }

    if (il_claim_is_json(type)
        && il_json_check(il_str((char *) raw, n)) == IL_JSON_OK)
    {
        il_buf_puts(b, ",\"payload\":");
        il_buf_add(b, il_str((char *) raw, n));
        free(raw);
        return;
    }

    il_buf_puts(b, ",\"payload_base64\":\"");
    at = b->len;

    text = il_buf_room(b, il_b64_encoded_cap(n));
    if (text != NULL && n > 0) {
        len = il_b64_encode(text, il_b64_encoded_cap(n), raw, n, IL_B64_STD);
        b->len = at + len;

        if (len == 0) {
            b->failed = 1;
        }
    }

    il_buf_puts(b, "\"");
    free(raw);
}


/* What a member is if the database says nothing of it. */

static void
il_claim_member(il_buf_t *b, const char *name, il_str_t json,
    const char *none)
{
    il_buf_puts(b, name);

    if (json.data == NULL) {
        il_buf_puts(b, none);

    } else {
        il_buf_add(b, json);
    }
}


/* What earlier attempts left: where to go on, and what not to do again. */

static void
il_claim_history(il_buf_t *b, const il_db_result_t *res, size_t row,
    const il_claim_cols_t *col)
{
    il_buf_puts(b, ",\"step\":");
    il_buf_json_null(b, il_db_cell(res, row, col->step));

    il_claim_member(b, ",\"checkpoint\":",
                    il_db_cell(res, row, col->checkpoint), "null");
    il_claim_member(b, ",\"attempts\":", il_db_cell(res, row, col->earlier),
                    "[]");
    il_claim_member(b, ",\"effects\":", il_db_cell(res, row, col->effects),
                    "[]");
}


static int
il_claim_token(il_req_t *r, const il_db_result_t *res, size_t row,
    const il_claim_cols_t *col, char *token, size_t *len)
{
    int64_t             exp;
    il_claim_t         *c = r->op;
    il_owner_claims_t   claims;

    memset(&claims, 0, sizeof(claims));

    if (il_db_cell_uuid(res, row, col->job_id, claims.job_id) != 0
        || il_db_cell_uuid(res, row, col->attempt_id, claims.attempt_id) != 0
        || il_db_cell_int(res, row, col->fence, &claims.fence) != 0
        || il_db_cell_time(res, row, col->token_exp, &exp) != 0)
    {
        return -1;
    }

    claims.tenant = il_cstr(r->who.tenant_name);
    claims.kind = il_db_cell(res, row, col->kind);
    claims.work_key = il_db_cell(res, row, col->work_key);
    claims.worker = c->worker;
    claims.iat = il_wall_ms() / 1000;
    claims.exp = exp / 1000;

    return il_keys_issue(token, IL_TOKEN_MAX, len, &claims);
}


static void
il_claim_lease(il_req_t *r, il_buf_t *b, const il_db_result_t *res,
    size_t row, const il_claim_cols_t *col)
{
    char      token[IL_TOKEN_MAX];
    size_t    len;
    int64_t   expires, waited;
    il_str_t  kind, headers;

    if (il_claim_token(r, res, row, col, token, &len) != 0
        || il_db_cell_time(res, row, col->expires_at, &expires) != 0)
    {
        il_log(IL_LOG_ERROR, "claim: a lease could not be written");
        b->failed = 1;
        return;
    }

    kind = il_db_cell(res, row, col->kind);

    il_buf_puts(b, "{\"job_id\":");
    il_buf_json(b, il_db_cell(res, row, col->job_id));
    il_buf_puts(b, ",\"attempt\":");
    il_buf_add(b, il_db_cell(res, row, col->attempt));
    il_buf_puts(b, ",\"kind\":");
    il_buf_json(b, kind);
    il_buf_puts(b, ",\"work_key\":");
    il_buf_json(b, il_db_cell(res, row, col->work_key));
    il_buf_puts(b, ",\"fence\":");
    il_buf_add(b, il_db_cell(res, row, col->fence));
    il_buf_puts(b, ",\"owner_token\":");
    il_buf_json(b, il_str(token, len));
    il_buf_puts(b, ",\"expires_at\":");
    il_buf_time(b, expires);
    il_buf_puts(b, ",\"remaining_ms\":");
    il_buf_add(b, il_db_cell(res, row, col->remaining_ms));
    il_buf_puts(b, ",\"lease_seconds\":");
    il_buf_add(b, il_db_cell(res, row, col->lease_seconds));

    il_claim_payload(b, il_db_cell(res, row, col->payload),
                     il_db_cell(res, row, col->content_type));

    il_buf_puts(b, ",\"content_type\":");
    il_buf_json_null(b, il_db_cell(res, row, col->content_type));

    headers = il_db_cell(res, row, col->headers);
    il_buf_puts(b, ",\"headers\":");
    il_buf_add(b, headers.data == NULL ? il_cstr("null") : headers);

    il_buf_puts(b, ",\"traceparent\":");
    il_buf_json_null(b, il_db_cell(res, row, col->traceparent));

    il_claim_history(b, res, row, col);
    il_buf_puts(b, "}");

    if (il_db_cell_int(res, row, col->waited_ms, &waited) == 0) {
        il_metric_observe_str(IL_MT_CLAIM_LATENCY, (double) waited / 1000,
                              kind, il_str("", 0), il_str("", 0));
    }
}


void
il_claim_answer(il_req_t *r)
{
    size_t            i;
    il_buf_t         *b;
    il_claim_t       *c = r->op;
    il_claim_cols_t   col;

    il_claim_columns(&col, r->res);

    b = il_req_json(r, 200);
    il_buf_puts(b, "{\"leases\":[");

    for (i = 0; i < c->count; i++) {
        il_buf_puts(b, i == 0 ? "" : ",");
        il_claim_lease(r, b, r->res, c->first + i, &col);
    }

    il_buf_puts(b, "]}");

    r->lost = il_claim_lost;
    il_req_done(r);
}
