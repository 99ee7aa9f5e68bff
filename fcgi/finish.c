/*
 * finish.c: complete, fail and release, and their lane.
 *
 * A digest of the content goes along: the same call again gets the first
 * answer, another one does not.
 */

#include <sodium.h>

#include "body.h"
#include "hold.h"
#include "il_answer.h"
#include "il_href.h"
#include "metrics.h"
#include "owner.h"
#include "park.h"
#include "route.h"
#include "server.h"


#define IL_ERROR_MAX    (64 << 10)
#define IL_MESSAGE_MAX  4096
#define IL_URL_MAX      2048
#define IL_COUNT_MAX    999999999999999999LL
#define IL_AFTER_MAX    (400 * 86400)


typedef struct {
    il_owner_t   owner;
    const char  *call;
    uint8_t      digest[32];
    il_str_t     result;          /* JSON; data NULL: none; so below */
    il_str_t     result_url;
    il_str_t     error;
    il_str_t     user_message;
    il_str_t     log_url;
    int64_t      processed;       /* -1: none; so below */
    int64_t      failed;
    int64_t      retry_after;
    int          retryable;
} il_finish_t;


static void
il_finish_hash(crypto_generichash_state *st, il_str_t s)
{
    size_t   i;
    uint8_t  head[9];

    /* none and empty differ */

    head[0] = (s.data != NULL);

    for (i = 0; i < 8; i++) {
        head[1 + i] = (uint8_t) ((uint64_t) s.len >> (8 * i));
    }

    (void) crypto_generichash_update(st, head, sizeof(head));
    (void) crypto_generichash_update(st, (const uint8_t *) s.data, s.len);
}


static void
il_finish_number(crypto_generichash_state *st, int64_t v)
{
    il_finish_hash(st, il_str((const char *) &v, sizeof(v)));
}


static void
il_finish_queue(il_req_t *r)
{
    il_finish_t               *f = r->op;
    crypto_generichash_state   st;

    (void) crypto_generichash_init(&st, NULL, 0, sizeof(f->digest));

    il_finish_hash(&st, il_cstr(f->call));
    il_finish_hash(&st, f->result);
    il_finish_hash(&st, f->result_url);
    il_finish_hash(&st, f->error);
    il_finish_hash(&st, f->user_message);
    il_finish_hash(&st, f->log_url);
    il_finish_number(&st, f->processed);
    il_finish_number(&st, f->failed);
    il_finish_number(&st, f->retry_after);
    il_finish_number(&st, f->retryable);

    (void) crypto_generichash_final(&st, f->digest, sizeof(f->digest));

    r->item.bytes = f->result.len + f->error.len + 512;
    il_req_lane(r, &il_srv.finish);
}


/* People will follow it: it must not run anything when they do.  0, or -1 and
 * a problem was answered. */

static int
il_finish_url(il_req_t *r, const il_field_t *f, il_str_t *url)
{
    if (il_body_string(r, f, IL_URL_MAX, url) != 0) {
        return -1;
    }

    if (url->data != NULL && url->len != 0 && !il_href_safe(*url)) {
        il_body_invalid(r, f->name, "must be a URL of http or https, or a "
                        "relative one, without blanks");
        return -1;
    }

    return 0;
}


static il_finish_t *
il_finish_op(il_req_t *r, const char *call)
{
    il_finish_t  *f = r->op;

    f->call = call;
    f->processed = -1;
    f->failed = -1;
    f->retry_after = -1;
    f->retryable = 1;

    return f;
}


static void
il_finish_complete_go(il_req_t *r)
{
    il_finish_t  *f = il_finish_op(r, "complete");
    il_field_t    in[] = {
        { .name = "result", .types = IL_T_ANY },
        { .name = "result_url", .types = IL_T_STRING },
        { .name = "counts", .types = IL_T_OBJECT }
    };
    il_field_t    counts[] = {
        { .name = "processed", .types = IL_T_NUMBER },
        { .name = "failed", .types = IL_T_NUMBER }
    };

    if (il_body_fields(r, in, 3, 1) != 0
        || il_finish_url(r, &in[1], &f->result_url) != 0
        || (in[2].seen
            && il_body_object(r, in[2].value, "counts", counts, 2) != 0)
        || il_body_int(r, &counts[0], 0, IL_COUNT_MAX, &f->processed) != 0
        || il_body_int(r, &counts[1], 0, IL_COUNT_MAX, &f->failed) != 0)
    {
        return;
    }

    if (f->result_url.data != NULL && f->result_url.len == 0) {
        il_body_invalid(r, "result_url", "is empty");
        return;
    }

    if (in[0].seen) {
        f->result = in[0].value.raw;
    }

    il_finish_queue(r);
}


static void
il_finish_fail_go(il_req_t *r)
{
    il_finish_t  *f = il_finish_op(r, "fail");
    il_field_t    in[] = {
        { .name = "error", .types = IL_T_STRING },
        { .name = "retryable", .types = IL_T_BOOL },
        { .name = "user_message", .types = IL_T_STRING },
        { .name = "log_url", .types = IL_T_STRING },
        { .name = "retry_after", .types = IL_T_NUMBER }
    };

    if (il_body_fields(r, in, 5, 1) != 0
        || il_body_string(r, &in[0], IL_ERROR_MAX, &f->error) != 0
        || il_body_string(r, &in[2], IL_MESSAGE_MAX, &f->user_message) != 0
        || il_finish_url(r, &in[3], &f->log_url) != 0
        || il_body_int(r, &in[4], 0, IL_AFTER_MAX, &f->retry_after) != 0)
    {
        return;
    }

    f->retryable = !in[1].seen || il_body_true(&in[1]);

    il_finish_queue(r);
}


static void
il_finish_release_go(il_req_t *r)
{
    (void) il_finish_op(r, "release");

    if (il_body_fields(r, NULL, 0, 1) != 0) {
        return;
    }

    il_finish_queue(r);
}


void
il_finish_complete(il_req_t *r)
{
    il_owner_auth(r, sizeof(il_finish_t), il_finish_complete_go);
}


void
il_finish_fail(il_req_t *r)
{
    il_owner_auth(r, sizeof(il_finish_t), il_finish_fail_go);
}


void
il_finish_release(il_req_t *r)
{
    il_owner_auth(r, sizeof(il_finish_t), il_finish_release_go);
}


/* -------------------------------------------------------------- the lane */


static void
il_finish_put_count(il_db_args_t *a, size_t i, int64_t v)
{
    if (v < 0) {
        il_db_put_null(a, i);
        return;
    }

    il_db_put_big(a, i, v);
}


static void
il_finish_put(il_db_args_t *a, il_item_t *item)
{
    il_req_t     *r = (il_req_t *) item;
    il_finish_t  *f = r->op;

    il_db_put_int(a, 0, r->who.tenant);
    il_db_put_uuid(a, 1, f->owner.job_id);
    il_db_put_uuid(a, 2, f->owner.attempt_id);
    il_db_put_big(a, 3, f->owner.fence);
    il_db_put_text(a, 4, il_cstr(f->call));
    il_db_put_bytes(a, 5, il_str((const char *) f->digest, 32));
    il_db_put_text(a, 6, f->result);
    il_db_put_text(a, 7, f->result_url);
    il_finish_put_count(a, 8, f->processed);
    il_finish_put_count(a, 9, f->failed);
    il_db_put_text(a, 10, f->error);
    il_db_put_bool(a, 11, f->retryable);
    il_db_put_text(a, 12, f->user_message);
    il_db_put_text(a, 13, f->log_url);

    if (f->retry_after < 0) {
        il_db_put_null(a, 14);

    } else {
        il_db_put_int(a, 14, (int32_t) f->retry_after);
    }
}


static il_db_rc_e
il_finish_call(il_lane_t *lane, il_link_t *link, il_item_t **items, size_t n,
    il_db_result_t **res)
{
    return il_lane_call_rows(link, "select * from interlock.finish("
                             "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, "
                             "$12, $13, $14, $15)", "iuultyttlltbtti",
                             il_finish_put, NULL, lane, items, n, res);
}


static void
il_finish_hint(il_req_t *r, const il_db_result_t *res, size_t row)
{
    int64_t   at, ms;
    il_str_t  kind;

    kind = il_db_cell(res, row, il_db_column(res, "kind"));

    il_park_hint_kinds(r->who.tenant,
                       il_db_cell(res, row, il_db_column(res, "wake_kinds")));

    if (il_db_cell_int(res, row, il_db_column(res, "blocked_ms"), &ms) == 0) {
        il_metric_observe_str(IL_MT_LOCK_WAIT, (double) ms / 1000, kind,
                              il_str("", 0), il_str("", 0));
    }

    if (il_db_cell_time(res, row, il_db_column(res, "retry_at"), &at) == 0) {
        il_park_hint_at(r->who.tenant, kind, at);
    }

    il_park_ended_jobs(il_db_cell(res, row,
                                  il_db_column(res, "ended_jobs")));
}


static void
il_finish_answer(il_req_t *r, const il_db_result_t *res, size_t row)
{
    int64_t       ms, at;
    il_str_t      outcome, kind, job, key, status, revision;
    il_buf_t     *b;
    il_finish_t  *f = r->op;

    outcome = il_db_cell(res, row, il_db_column(res, "outcome"));
    kind = il_db_cell(res, row, il_db_column(res, "kind"));

    if (!il_str_eq(outcome, il_cstr("ok"))) {
        il_owner_refuse(r, outcome, kind, f->call);
        return;
    }

    job = il_db_cell(res, row, il_db_column(res, "job_id"));
    key = il_db_cell(res, row, il_db_column(res, "work_key"));
    status = il_db_cell(res, row, il_db_column(res, "status"));

    b = il_req_json(r, 200);
    il_buf_puts(b, "{\"job_id\":");
    il_buf_json(b, job);
    il_buf_puts(b, ",\"status\":");
    il_buf_json(b, status);
    il_buf_puts(b, ",\"kind\":");
    il_buf_json(b, kind);
    il_buf_puts(b, ",\"work_key\":");
    il_buf_json(b, key);

    if (il_status_final(il_status_find(status))) {
        il_hold_ended(r, key, job);
    }

    revision = il_db_cell(res, row, il_db_column(res, "revision"));
    if (revision.data != NULL) {
        il_buf_puts(b, ",\"revision\":");
        il_buf_add(b, revision);
    }

    if (il_db_cell_time(res, row, il_db_column(res, "retry_at"), &at) == 0) {
        il_buf_puts(b, ",\"retry_at\":");
        il_buf_time(b, at);
    }

    il_buf_puts(b, "}");

    if (il_db_cell_bool(res, row, il_db_column(res, "replayed"))) {
        if (r->item.tries == 0) {
            il_req_replayed(r);
        }

    } else if (il_db_cell_int(res, row, il_db_column(res, "run_ms"), &ms)
               == 0)
    {
        il_metric_observe_str(IL_MT_JOB_DURATION, (double) ms / 1000, kind,
                              il_str("", 0), il_str("", 0));
    }

    il_req_done(r);
}


static void
il_finish_deal(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n)
{
    (void) lane;
    (void) link;

    il_req_deal(res, items, n, il_finish_answer, il_req_internal,
                il_finish_hint);
}


const il_lane_ops_t  il_finish_ops = {
    .name = "finish",
    .app = "interlockd finish",
    .call = il_finish_call,
    .deal = il_finish_deal,
    .fail = il_req_fail_item
};
