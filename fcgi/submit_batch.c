/*
 * submit_batch.c: POST /v1/jobs:batch.
 *
 * Each row is a submission of its own in the lane, beside those of other
 * requests, with its own decision and its own failure; they are queued
 * together and in order.  The last row that has its answer answers the
 * request, whatever thread that is.
 */

#include <stdio.h>

#include "route.h"
#include "server.h"
#include "submit.h"


#define IL_BATCH_ROWS  500


struct il_batch_s {
    il_req_t     *r;
    il_submit_t  *rows;
    size_t        n;
    size_t        left;            /* rows without an answer; atomic */
};


static void
il_batch_free(il_batch_t *b)
{
    size_t  i;

    for (i = 0; i < b->n; i++) {
        il_buf_free(&b->rows[i].out);
    }
}


static void
il_batch_answer(il_batch_t *b)
{
    size_t     i;
    il_req_t  *r = b->r;
    il_buf_t  *out;

    out = il_req_json(r, 200);
    il_buf_puts(out, "{\"items\":[");

    for (i = 0; i < b->n; i++) {
        il_buf_puts(out, i == 0 ? "" : ",");
        il_buf_add(out, il_buf_str(&b->rows[i].out));

        if (b->rows[i].out.failed) {
            out->failed = 1;
        }
    }

    il_buf_puts(out, "]}");
    il_batch_free(b);
    il_req_done(r);
}


void
il_batch_done(il_submit_t *s)
{
    il_batch_t  *b = s->batch;

    if (__atomic_sub_fetch(&b->left, 1, __ATOMIC_ACQ_REL) == 0) {
        il_batch_answer(b);
    }
}


/* 0; or -1, and what was wrong with it is its answer. */

static int
il_batch_row(il_req_t *r, il_json_value_t value, size_t i, il_submit_t *s)
{
    int         rc;
    char        in[32];
    il_field_t  f[IL_F_MAX + 1];

    memcpy(f, il_submit_fields, sizeof(il_submit_fields));
    memset(&f[IL_F_MAX], 0, sizeof(f[IL_F_MAX]));
    f[IL_F_MAX].name = "idempotency_key";
    f[IL_F_MAX].types = IL_T_STRING;

    (void) snprintf(in, sizeof(in), "jobs[%zu]", i);

    r->part = &s->out;
    rc = -1;

    if (value.type != IL_JSON_OBJECT) {
        il_body_invalid(r, in, "must be an object");

    } else if (il_body_object(r, value, in, f, IL_F_MAX + 1) == 0
               && il_submit_idem(r, &f[IL_F_MAX], s) == 0
               && il_submit_read(r, f, il_str(NULL, 0), s) == 0)
    {
        rc = 0;
    }

    r->part = NULL;

    return rc;
}


/* How many rows there are; -1 if too many. */

static int64_t
il_batch_count(il_json_value_t jobs)
{
    size_t           n, pos;
    il_str_t         name;
    il_json_value_t  value;

    n = 0;
    pos = 0;

    while (il_json_next(jobs, &pos, &name, &value)) {
        if (++n > IL_BATCH_ROWS) {
            return -1;
        }
    }

    return (int64_t) n;
}


static void
il_batch_queue(il_batch_t *b, il_json_value_t jobs)
{
    size_t            i, n, pos;
    il_req_t         *r = b->r;
    il_str_t          name;
    il_item_t        *first, **tail;
    il_submit_t      *s;
    il_json_value_t   value;

    n = 0;
    pos = 0;
    first = NULL;
    tail = &first;

    for (i = 0; il_json_next(jobs, &pos, &name, &value); i++) {
        s = &b->rows[i];
        il_submit_init(s, r);
        s->batch = b;

        if (il_batch_row(r, value, i, s) != 0) {
            continue;
        }

        il_submit_ready(s, value.raw);

        *tail = &s->item;
        tail = &s->item.next;
        n++;
    }

    if (n == 0) {
        il_batch_answer(b);
        return;
    }

    b->left = n;

    if (il_lane_put_all(&il_srv.submit, first, n) != 0) {
        il_batch_free(b);
        il_req_unavailable(r);
    }
}


void
il_submit_jobs(il_req_t *r)
{
    int64_t      n;
    il_field_t   in = { .name = "jobs", .types = IL_T_ARRAY };
    il_batch_t  *b;

    if (il_req_param(r, "HTTP_IDEMPOTENCY_KEY").data != NULL) {
        il_req_problem(r, IL_P_IDEMPOTENCY_KEY_INVALID, "Of a batch, each job "
                       "has its own \"idempotency_key\"; the header is for "
                       "one.");
        return;
    }

    if (il_body_fields(r, &in, 1, 0) != 0) {
        return;
    }

    if (!in.seen) {
        il_body_invalid(r, in.name, "is missing");
        return;
    }

    n = il_batch_count(in.value);

    if (n < 0) {
        il_body_invalid(r, in.name, "has more than 500 jobs");
        return;
    }

    b = il_pool_get(&r->pool, sizeof(il_batch_t));

    if (b != NULL) {
        b->r = r;
        b->n = (size_t) n;
        b->rows = il_pool_get(&r->pool, (size_t) (n + 1)
                                        * sizeof(il_submit_t));
    }

    if (b == NULL || b->rows == NULL) {
        il_req_internal(r);
        return;
    }

    il_batch_queue(b, in.value);
}
