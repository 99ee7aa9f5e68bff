/*
 * submit_deal.c: from the rows of interlock.submit() to answers.
 *
 * Waiting claims are told first, so that a job is on its way to a worker
 * while its submission is being answered.
 */

#include <stdio.h>

#include "il_answer.h"
#include "il_enc.h"
#include "log.h"
#include "metrics.h"
#include "park.h"
#include "server.h"
#include "submit.h"


/* Numbers of the result's columns. */

typedef struct {
    int  ord;
    int  outcome;
    int  code;
    int  decision;
    int  policy;
    int  reason;
    int  problem;
    int  detail;
    int  job_id;
    int  status;
    int  kind;
    int  work_key;
    int  active;
    int  superseded;
    int  result_url;
    int  retry_after;
    int  done_for;
    int  hold;
    int  replayed;
    int  runnable;
    int  wake;
    int  ended;
} il_submit_cols_t;


static void
il_submit_columns(il_submit_cols_t *c, const il_db_result_t *res)
{
    c->ord = il_db_column(res, "ord");
    c->outcome = il_db_column(res, "outcome");
    c->code = il_db_column(res, "code");
    c->decision = il_db_column(res, "decision");
    c->policy = il_db_column(res, "policy");
    c->reason = il_db_column(res, "reason");
    c->problem = il_db_column(res, "problem");
    c->detail = il_db_column(res, "detail");
    c->job_id = il_db_column(res, "job_id");
    c->status = il_db_column(res, "status");
    c->kind = il_db_column(res, "kind");
    c->work_key = il_db_column(res, "work_key");
    c->active = il_db_column(res, "active_job_id");
    c->superseded = il_db_column(res, "superseded_job_id");
    c->result_url = il_db_column(res, "result_url");
    c->retry_after = il_db_column(res, "retry_after");
    c->done_for = il_db_column(res, "done_for");
    c->hold = il_db_column(res, "hold");
    c->replayed = il_db_column(res, "replayed");
    c->runnable = il_db_column(res, "runnable");
    c->wake = il_db_column(res, "wake_kinds");
    c->ended = il_db_column(res, "ended_jobs");
}


static void
il_submit_hint(il_submit_t *s, const il_db_result_t *res, size_t row,
    const il_submit_cols_t *c)
{
    il_park_hint_kinds(s->r->who.tenant, il_db_cell(res, row, c->wake));

    if (s->run_after != INT64_MIN) {
        il_park_hint_at(s->r->who.tenant, s->kind, s->run_after);
    }

    il_park_ended_jobs(il_db_cell(res, row, c->ended));
}


static void
il_submit_count(il_submit_t *s, const il_db_result_t *res, size_t row,
    const il_submit_cols_t *c)
{
    il_str_t  decision, none;

    none = il_str("", 0);
    decision = il_db_cell(res, row, c->decision);

    if (decision.data == NULL) {
        return;     /* not a request: kind-unknown and the like */
    }

    if (il_db_cell_bool(res, row, c->replayed)) {
        il_metric_add_str(IL_MT_REQUESTS, 1, s->kind, s->source,
                          il_cstr("duplicate"));
        return;
    }

    il_metric_add_str(IL_MT_REQUESTS, 1, s->kind, s->source, decision);

    if (il_str_eq(il_db_cell(res, row, c->problem),
                  il_problem_name(IL_P_IDEMPOTENCY_KEY_REUSED)))
    {
        return;
    }

    il_metric_add_str(IL_MT_OVERLAP_ATTEMPT, 1, s->kind,
                      il_db_cell(res, row, c->policy), decision);

    if (il_str_eq(decision, il_decision_name(IL_D_REJECTED))) {
        il_metric_add_str(IL_MT_ACQUISITION_FAILED, 1, s->kind,
                          il_cstr("queue_full"), none);

    } else if (il_str_eq(decision, il_decision_name(IL_D_SKIPPED))
               && il_db_cell(res, row, c->active).data != NULL)
    {
        il_metric_add_str(IL_MT_ACQUISITION_FAILED, 1, s->kind,
                          il_cstr("key_busy"), none);

    } else if (il_str_eq(decision, il_decision_name(IL_D_ACCEPTED))
               && !il_db_cell_bool(res, row, c->runnable)
               && s->run_after == INT64_MIN && s->item.tries == 0)
    {
        /* free by its key, due, and may not start: a limit is full */
        il_metric_add_str(IL_MT_ACQUISITION_FAILED, 1, s->kind,
                          il_cstr("limit_full"), none);
    }
}


static void
il_submit_member(il_buf_t *b, const char *name, il_str_t value)
{
    if (value.data == NULL) {
        return;
    }

    il_buf_puts(b, b->len == 0 ? "\"" : ",\"");
    il_buf_puts(b, name);
    il_buf_puts(b, "\":");
    il_buf_json(b, value);
}


/* A refusal.  Those that are requests carry their decision too. */

static void
il_submit_refuse(il_submit_t *s, const il_db_result_t *res, size_t row,
    const il_submit_cols_t *c)
{
    char          seconds[24];
    int64_t       after;
    il_buf_t      extra;
    il_req_t     *r = s->r;
    il_str_t      decision;
    il_problem_e  p;

    p = il_problem_find(il_db_cell(res, row, c->problem));

    if (p == IL_P_NONE) {
        il_log(IL_LOG_ERROR, "submit: the database names a problem that is "
               "not known here");
        il_submit_fail(&s->item, IL_P_INTERNAL);
        return;
    }

    memset(&extra, 0, sizeof(extra));
    decision = il_db_cell(res, row, c->decision);

    if (decision.data != NULL) {
        if (s->batch == NULL) {
            il_req_header(r, "Interlock-Decision", decision);
        }

        il_submit_member(&extra, "decision", decision);
        il_submit_member(&extra, "reason", il_db_cell(res, row, c->reason));
        il_submit_member(&extra, "kind", il_db_cell(res, row, c->kind));
        il_submit_member(&extra, "work_key",
                         il_db_cell(res, row, c->work_key));
        il_submit_member(&extra, "active_job_id",
                         il_db_cell(res, row, c->active));
    }

    if (il_db_cell_int(res, row, c->retry_after, &after) == 0 && after >= 0) {
        (void) snprintf(seconds, sizeof(seconds), "%lld", (long long) after);

        if (s->batch == NULL) {
            il_req_header(r, "Retry-After", il_cstr(seconds));

        } else {
            s->retry_after = after;
            il_buf_puts(&extra, extra.len == 0 ? "\"retry_after\":"
                                               : ",\"retry_after\":");
            il_buf_puts(&extra, seconds);
        }
    }

    if (extra.failed) {
        il_buf_free(&extra);
    }

    if (s->batch == NULL) {
        il_req_problem_more(r, p, il_db_cell(res, row, c->detail),
                            il_buf_str(&extra));

    } else {
        s->problem = p;
        s->code = il_problem_status(p);
        s->decision = il_decision_find(decision);
        il_req_problem_text(&s->out, p, il_db_cell(res, row, c->detail),
                            il_buf_str(&extra));
        il_batch_done(s);
    }

    il_buf_free(&extra);
}


static void
il_submit_answer(il_answer_t *a, const il_db_result_t *res, size_t row,
    const il_submit_cols_t *c)
{
    il_str_t  url;

    memset(a, 0, sizeof(*a));

    a->decision = il_decision_find(il_db_cell(res, row, c->decision));
    a->status = il_status_find(il_db_cell(res, row, c->status));
    a->reason = il_reason_find(il_db_cell(res, row, c->reason));
    a->kind = il_db_cell(res, row, c->kind);
    a->work_key = il_db_cell(res, row, c->work_key);

    if (a->reason == IL_R_NONE && il_db_cell(res, row, c->reason).len > 0) {
        il_log(IL_LOG_ERROR, "submit: the database names a reason that is "
               "not known here");
    }

    if (il_db_cell_uuid(res, row, c->job_id, a->job_id) == 0) {
        a->has |= IL_ANSWER_HAS_JOB;
    }

    if (il_db_cell_uuid(res, row, c->active, a->active_job_id) == 0) {
        a->has |= IL_ANSWER_HAS_ACTIVE;
    }

    if (il_db_cell_uuid(res, row, c->superseded, a->superseded_job_id) == 0) {
        a->has |= IL_ANSWER_HAS_SUPERSEDED;
    }

    /* empty: there is a result, and its address is ours */

    url = il_db_cell(res, row, c->result_url);
    if (url.data != NULL) {
        a->has |= IL_ANSWER_HAS_RESULT;
        a->result_url = url;
    }
}


/* What the edge may remember, and for how long. */

static void
il_submit_edge(il_req_t *r, const il_link_t *link, const il_db_result_t *res,
    size_t row, const il_submit_cols_t *c, const il_answer_t *a, int code)
{
    char     compact[IL_ANSWER_COMPACT_CAP], number[24];
    size_t   n;
    int64_t  done_for, hold;

    if (link->epoch[0] != '\0') {
        il_req_header(r, "Interlock-Epoch", il_cstr(link->epoch));
    }

    if (il_db_cell_int(res, row, c->done_for, &done_for) != 0) {
        done_for = 0;
    }

    if (il_db_cell_int(res, row, c->hold, &hold) != 0) {
        hold = 0;
    }

    if (done_for <= 0 && hold <= 0) {
        return;
    }

    n = il_answer_compact(compact, sizeof(compact), a, code);
    if (n == 0) {
        return;     /* it has a worker's own address in it */
    }

    il_req_header(r, "Interlock-Answer", il_str(compact, n));

    if (done_for > 0) {
        (void) snprintf(number, sizeof(number), "%lld", (long long) done_for);
        il_req_header(r, "Interlock-Done-For", il_cstr(number));
    }

    if (hold > 0) {
        (void) snprintf(number, sizeof(number), "%lld", (long long) hold);
        il_req_header(r, "Interlock-Hold", il_cstr(number));
    }
}


static void
il_submit_body(il_buf_t *out, const il_answer_t *a)
{
    char    *p;
    size_t   n, cap;

    cap = IL_ANSWER_CAP + il_json_escaped_cap(a->result_url.len);
    p = il_buf_room(out, cap);

    if (p != NULL) {
        n = il_answer_build(p, cap, a);
        out->len += n;

        if (n == 0) {
            out->failed = 1;
        }
    }
}


/* As the body of a single one, and what stands in its head there. */

static void
il_submit_respond_row(il_submit_t *s, const il_answer_t *a, int code,
    int replayed)
{
    il_buf_t  text;

    s->code = code;
    s->replayed = replayed;
    s->decision = replayed ? IL_D_DUPLICATE : a->decision;

    memset(&text, 0, sizeof(text));
    il_submit_body(&text, a);

    if (text.failed || text.len == 0) {
        s->out.failed = 1;

    } else {
        il_buf_add(&s->out, il_str(text.data, text.len - 1));
        il_buf_puts(&s->out, ",\"code\":");
        il_buf_int(&s->out, code);
        il_buf_puts(&s->out, replayed ? ",\"replayed\":true}" : "}");
    }

    il_buf_free(&text);
    il_batch_done(s);
}


static void
il_submit_respond(il_submit_t *s, const il_link_t *link,
    const il_db_result_t *res, size_t row, const il_submit_cols_t *c)
{
    char          id[IL_UUID_TEXT + 1];
    char          location[sizeof(IL_ANSWER_BUTTON_JOBS) + IL_UUID_TEXT];
    int64_t       code;
    il_req_t     *r = s->r;
    il_answer_t   a;

    il_submit_answer(&a, res, row, c);
    a.button = s->button;

    if (a.decision == IL_D_NONE
        || il_db_cell_int(res, row, c->code, &code) != 0)
    {
        il_log(IL_LOG_ERROR, "submit: an answer of the database is not "
               "understood");
        il_submit_fail(&s->item, IL_P_INTERNAL);
        return;
    }

    if (s->batch != NULL) {
        il_submit_respond_row(s, &a, (int) code,
                              il_db_cell_bool(res, row, c->replayed));
        return;
    }

    il_submit_body(il_req_json(r, (int) code), &a);

    if (il_db_cell_bool(res, row, c->replayed)) {
        il_req_header(r, "Interlock-Decision",
                      il_decision_name(IL_D_DUPLICATE));
        il_req_header(r, "Idempotency-Replayed", il_cstr("true"));

    } else {
        il_req_header(r, "Interlock-Decision", il_decision_name(a.decision));
    }

    if (code == 202 && (a.has & IL_ANSWER_HAS_JOB)) {
        il_uuid_format(id, a.job_id);
        (void) snprintf(location, sizeof(location), "%s%s",
                        a.button ? IL_ANSWER_BUTTON_JOBS : IL_ANSWER_JOBS,
                        id);
        il_req_header(r, "Location", il_cstr(location));
    }

    il_submit_edge(r, link, res, row, c, &a, (int) code);
    il_req_done(r);
}


static void
il_submit_row(il_lane_t *lane, il_link_t *link, il_submit_t *s,
    const il_db_result_t *res, size_t row, const il_submit_cols_t *c)
{
    il_str_t  outcome;

    outcome = il_db_cell(res, row, c->outcome);

    if (il_str_eq(outcome, il_cstr("busy"))) {
        il_lane_busy(lane, &s->item);
        return;
    }

    il_submit_count(s, res, row, c);

    if (il_str_eq(outcome, il_cstr("ok"))) {
        il_submit_respond(s, link, res, row, c);
        return;
    }

    il_submit_refuse(s, res, row, c);
}


void
il_submit_fail(il_item_t *item, il_problem_e p)
{
    il_submit_t  *s = (il_submit_t *) item;

    if (s->batch == NULL) {
        il_req_fail_item(&s->r->item, p);
        return;
    }

    s->problem = p;
    s->code = il_problem_status(p);
    il_req_problem_text(&s->out, p, il_cstr(p == IL_P_UNAVAILABLE
                        ? "This job could not be stored now. Send it again."
                        : "This job could not be stored; the server's log "
                          "says why."),
                        il_str(NULL, 0));
    il_batch_done(s);
}


void
il_submit_deal(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n)
{
    size_t             row, rows, i;
    int64_t            ord;
    uint8_t            dealt[IL_CONF_BATCH_MAX];
    il_item_t         *item;
    il_submit_cols_t   c;

    memset(dealt, 0, sizeof(dealt));
    il_submit_columns(&c, res);
    rows = il_db_rows(res);

    for (row = 0; row < rows; row++) {
        item = il_lane_row_item(res, row, c.ord, items, n);
        if (item != NULL) {
            il_submit_hint((il_submit_t *) item, res, row, &c);
        }
    }

    for (row = 0; row < rows; row++) {
        item = il_lane_row_item(res, row, c.ord, items, n);

        if (item == NULL || il_db_cell_int(res, row, c.ord, &ord) != 0
            || dealt[ord - 1])
        {
            continue;
        }

        dealt[ord - 1] = 1;
        il_submit_row(lane, link, (il_submit_t *) item, res, row, &c);
    }

    for (i = 0; i < n; i++) {
        if (!dealt[i]) {
            il_log(IL_LOG_ERROR, "submit: the database left out an answer");
            il_submit_fail(items[i], IL_P_INTERNAL);
        }
    }
}
