/*
 * submit_batch.c: several submissions in one request, and POST /v1/jobs:batch.
 *
 * Each row is a submission of its own in the lane, beside those of other
 * requests, with its own decision and its own failure; they are queued
 * together and in order.
 */

#include <stdio.h>

#include "route.h"
#include "server.h"
#include "submit.h"


#define IL_BATCH_ROWS  500


il_batch_t *
il_batch_new(il_req_t *r, size_t n, void (*answer)(il_batch_t *b))
{
    size_t       i;
    il_batch_t  *b;

    b = il_pool_get(&r->pool, sizeof(il_batch_t));

    if (b != NULL) {
        b->rows = il_pool_get(&r->pool, (n + 1) * sizeof(il_submit_t));
    }

    if (b == NULL || b->rows == NULL) {
        il_req_internal(r);
        return NULL;
    }

    b->r = r;
    b->n = n;
    b->answer = answer;
    b->tail = &b->first;

    for (i = 0; i < n; i++) {
        il_submit_init(&b->rows[i], r);
        b->rows[i].batch = b;
    }

    return b;
}


void
il_batch_add(il_batch_t *b, il_submit_t *s)
{
    *b->tail = &s->item;
    b->tail = &s->item.next;
    b->queued++;
}


static void
il_batch_free(il_batch_t *b)
{
    size_t  i;

    for (i = 0; i < b->n; i++) {
        il_buf_free(&b->rows[i].out);
    }
}


void
il_batch_go(il_batch_t *b)
{
    il_req_t  *r = b->r;

    if (b->queued == 0) {
        b->answer(b);
        return;
    }

    b->left = b->queued;

    if (il_lane_put_all(&il_srv.submit, b->first, b->queued) != 0) {
        il_batch_free(b);
        il_req_unavailable(r);
    }
}


void
il_batch_done(il_submit_t *s)
{
    il_batch_t  *b = s->batch;

    if (__atomic_sub_fetch(&b->left, 1, __ATOMIC_ACQ_REL) == 0) {
        b->answer(b);
    }
}


void
il_batch_items(il_batch_t *b, il_buf_t *out)
{
    size_t  i;

    for (i = 0; i < b->n; i++) {
        il_buf_puts(out, i == 0 ? "" : ",");
        il_buf_add(out, il_buf_str(&b->rows[i].out));

        if (b->rows[i].out.failed) {
            out->failed = 1;
        }
    }

    il_batch_free(b);
}


static void
il_batch_answer(il_batch_t *b)
{
    il_req_t  *r = b->r;
    il_buf_t  *out;

    out = il_req_json(r, 200);
    il_buf_puts(out, "{\"items\":[");
    il_batch_items(b, out);
    il_buf_puts(out, "]}");
    il_req_done(r);
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
il_batch_read(il_batch_t *b, il_json_value_t jobs)
{
    size_t            i, pos;
    il_str_t          name;
    il_submit_t      *s;
    il_json_value_t   value;

    pos = 0;

    for (i = 0; il_json_next(jobs, &pos, &name, &value); i++) {
        s = &b->rows[i];

        if (il_batch_row(b->r, value, i, s) == 0) {
            il_submit_ready(s, value.raw);
            il_batch_add(b, s);
        }
    }

    il_batch_go(b);
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

    b = il_batch_new(r, (size_t) n, il_batch_answer);
    if (b != NULL) {
        il_batch_read(b, in.value);
    }
}
