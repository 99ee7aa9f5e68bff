/*
 * submit_split.c: POST /in/{source} where the edge splits the body: each
 * element is a submission of its own in the lane, with its own bytes as the
 * payload and its own keys.
 *
 * There is one answer, and it is 2xx only when every element is durable.  If
 * one is not, its sender sends all of them again, and the keys of those that
 * are stored make them repeats; so what can be stored is, whatever is wrong
 * with another element.
 */

#include <stdio.h>

#include "il_split.h"
#include "il_time.h"
#include "route.h"
#include "submit.h"


int
il_submit_is_split(const il_req_t *r)
{
    return il_req_param(r, "INTERLOCK_SPLIT").len > 0;
}


/* The list before the body; data NULL if it can not be there. */

static il_str_t
il_split_list(const il_req_t *r)
{
    int64_t  n;

    if (il_digits_parse(il_req_param(r, "INTERLOCK_SPLIT"), 10, &n) != 0
        || n > (int64_t) r->body.len)
    {
        return il_str(NULL, 0);
    }

    return il_str(r->body.data, (size_t) n);
}


il_str_t
il_submit_raw(const il_req_t *r)
{
    il_str_t  list;

    if (!il_submit_is_split(r)) {
        return il_buf_str(&r->body);
    }

    list = il_split_list(r);

    if (list.data == NULL) {
        return il_str(NULL, 0);
    }

    return il_str(r->body.data + list.len, r->body.len - list.len);
}


/* ------------------------------------------------------------- the answer */


/* Which of two rows the whole answer is about: a failure that ends by itself
 * before one that does not, so that all are sent again. */

static int
il_split_rank(const il_submit_t *s)
{
    if (s->code == 503) {
        return 4;
    }

    if (s->code >= 500) {
        return 3;
    }

    if (s->code == 429) {
        return 2;
    }

    return s->problem != IL_P_NONE;
}


static void
il_split_refuse(il_batch_t *b, const il_submit_t *worst, size_t failed,
    int64_t retry_after)
{
    int            n;
    char           detail[128], seconds[24];
    il_req_t      *r = b->r;
    il_buf_t       extra;
    il_problem_e   p;

    p = worst->problem;

    n = snprintf(detail, sizeof(detail), "Of %zu elements %zu could not be "
                 "stored; send all of them again.", b->n, failed);

    if (retry_after > 0) {
        (void) snprintf(seconds, sizeof(seconds), "%lld",
                        (long long) retry_after);
        il_req_header(r, "Retry-After", il_cstr(seconds));
    }

    memset(&extra, 0, sizeof(extra));
    il_buf_puts(&extra, "\"items\":[");
    il_batch_items(b, &extra);
    il_buf_puts(&extra, "]");

    if (extra.failed) {
        il_buf_free(&extra);
    }

    il_req_problem_more(r, p, il_str(detail, n > 0 ? (size_t) n : 0),
                        il_buf_str(&extra));
    il_buf_free(&extra);
}


static void
il_split_answer(il_batch_t *b)
{
    int             code;
    size_t          i, failed;
    int64_t         retry_after;
    il_req_t       *r = b->r;
    il_buf_t       *out;
    il_submit_t    *s, *worst;
    il_decision_e   decision;

    code = 200;
    failed = 0;
    retry_after = 0;
    worst = NULL;
    decision = b->n > 0 ? b->rows[0].decision : IL_D_NONE;

    for (i = 0; i < b->n; i++) {
        s = &b->rows[i];

        if (s->code == 202) {
            code = 202;
        }

        if (s->decision != decision) {
            decision = IL_D_NONE;
        }

        if (s->problem == IL_P_NONE) {
            continue;
        }

        failed++;

        if (s->retry_after > retry_after) {
            retry_after = s->retry_after;
        }

        if (worst == NULL || il_split_rank(s) > il_split_rank(worst)) {
            worst = s;
        }
    }

    if (decision != IL_D_NONE) {
        il_req_header(r, "Interlock-Decision", il_decision_name(decision));
    }

    if (worst != NULL) {
        il_split_refuse(b, worst, failed, retry_after);
        return;
    }

    if (decision == IL_D_DUPLICATE) {
        il_req_header(r, "Idempotency-Replayed", il_cstr("true"));
    }

    out = il_req_json(r, code);
    il_buf_puts(out, "{\"items\":[");
    il_batch_items(b, out);
    il_buf_puts(out, "]}");
    il_req_done(r);
}


/* ------------------------------------------------------------ the request */


static void
il_split_bad(il_submit_t *s, il_problem_e p, il_str_t detail)
{
    s->problem = p;
    s->code = il_problem_status(p);
    il_req_problem_text(&s->out, p, detail, il_str(NULL, 0));
}


/* 0, or -1 if the row has its answer. */

static int
il_split_row(il_submit_t *s, const il_split_t *e, il_str_t raw,
    const il_submit_t *like)
{
    const char    *detail;
    il_problem_e   p;

    if (e->problem.len > 0) {
        p = il_problem_find(e->problem);
        il_split_bad(s, p == IL_P_NONE ? IL_P_BAD_REQUEST : p, e->detail);
        return -1;
    }

    s->source = like->source;
    s->content_type = like->content_type;
    s->headers = like->headers;
    s->mismatch = like->mismatch;
    s->kind = e->kind;
    s->work_key = e->work_key;

    if (e->idem.len > 0) {
        s->idem = e->idem;
    }

    p = il_submit_check(s, &detail);
    if (p != IL_P_NONE) {
        il_split_bad(s, p, il_cstr(detail));
        return -1;
    }

    s->payload = il_str(raw.data + e->offset, e->length);
    il_submit_ready(s, s->payload);

    return 0;
}


static void
il_split_broken(il_req_t *r)
{
    il_req_problem(r, IL_P_BAD_REQUEST, "What the edge says of the elements "
                   "of this body does not fit it.");
}


/* 1 if the list has as many elements as it says, each inside the body. */

static int
il_split_valid(il_str_t list, il_str_t raw, size_t n)
{
    int         rc;
    size_t      i, pos;
    il_split_t  e;

    pos = IL_SPLIT_HEAD;

    for (i = 0; (rc = il_split_next(list, &pos, raw.len, &e)) == 1; i++) {
        /* void */
    }

    return rc == 0 && i == n;
}


void
il_submit_split(il_req_t *r)
{
    int          n;
    size_t       i, pos;
    il_str_t     list, raw;
    il_batch_t  *b;
    il_split_t   e;
    il_submit_t  like;

    list = il_split_list(r);
    n = list.data == NULL ? -1 : il_split_count(list);
    raw = il_submit_raw(r);

    if (n < 0 || !il_split_valid(list, raw, (size_t) n)) {
        il_split_broken(r);
        return;
    }

    memset(&like, 0, sizeof(like));
    like.r = r;
    like.source = il_req_param(r, "INTERLOCK_SOURCE");

    if (il_submit_about_request(&like) != 0) {
        il_req_internal(r);
        return;
    }

    b = il_batch_new(r, (size_t) n, il_split_answer);
    if (b == NULL) {
        return;
    }

    pos = IL_SPLIT_HEAD;

    for (i = 0; il_split_next(list, &pos, raw.len, &e) == 1; i++) {
        if (il_split_row(&b->rows[i], &e, raw, &like) == 0) {
            il_batch_add(b, &b->rows[i]);
        }
    }

    il_batch_go(b);
}
