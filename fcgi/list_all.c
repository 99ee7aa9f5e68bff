/*
 * list_all.c: what operators look through: GET /v1/requests, /v1/works,
 * /v1/leases, /v1/actions.
 */

#include "il_answer.h"
#include "il_enc.h"
#include "il_key.h"
#include "list.h"
#include "route.h"


#define IL_LIST_NAME_MAX  1024     /* bytes of a person's or worker's name */


/* 0 if s is one of these, or is not there. */

static int
il_list_one_of(il_req_t *r, const il_query_t *q, const char *const *names,
    size_t n, const char *must, il_str_t *s)
{
    size_t  i;

    *s = q->value;

    if (s->data == NULL) {
        return 0;
    }

    for (i = 0; i < n; i++) {
        if (il_str_eq(*s, il_cstr(names[i]))) {
            return 0;
        }
    }

    il_query_invalid(r, q->name, must);

    return -1;
}


/* ---------------------------------------------------------------- requests */


enum {
    IL_QR_SOURCE, IL_QR_DECISION, IL_QR_KIND, IL_QR_WORK_KEY, IL_QR_IDEM,
    IL_QR_SINCE, IL_QR_UNTIL, IL_QR_LIMIT, IL_QR_CURSOR, IL_QR_MAX
};


static void
il_list_put_requests(il_read_t *read, il_db_args_t *args)
{
    il_doc_t   *d = (il_doc_t *) read;
    il_list_t  *l = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, l->source);
    il_db_put_text(args, 2, l->decision);
    il_db_put_text(args, 3, l->kind);
    il_db_put_text(args, 4, l->work_key);
    il_db_put_text(args, 5, l->idem);
    il_db_put_time(args, 6, l->since);
    il_db_put_time(args, 7, l->until);
    il_db_put_int(args, 8, (int32_t) l->limit);
    il_db_put_text(args, 9, l->cursor);
}


static int
il_list_decision(il_req_t *r, const il_query_t *q, il_list_t *l)
{
    static const char *const  decisions[] = {
        "accepted", "buffered", "replaced", "duplicate", "skipped",
        "completed", "parked", "rejected"
    };

    return il_list_one_of(r, q, decisions,
                          sizeof(decisions) / sizeof(decisions[0]),
                          "must be one of accepted, buffered, replaced, "
                          "duplicate, skipped, completed, parked, rejected",
                          &l->decision);
}


void
il_list_requests(il_req_t *r)
{
    il_doc_t    *d;
    il_list_t   *l;
    il_query_t   q[IL_QR_MAX] = {
        [IL_QR_SOURCE] = { .name = "source" },
        [IL_QR_DECISION] = { .name = "decision" },
        [IL_QR_KIND] = { .name = "kind" },
        [IL_QR_WORK_KEY] = { .name = "work_key" },
        [IL_QR_IDEM] = { .name = "idempotency_key" },
        [IL_QR_SINCE] = { .name = "since" },
        [IL_QR_UNTIL] = { .name = "until" },
        [IL_QR_LIMIT] = { .name = "limit" },
        [IL_QR_CURSOR] = { .name = "cursor" }
    };

    d = il_list_new(r, &l, "select * from interlock.requests_list("
                    "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                    "ITTTTTZZIT", il_list_put_requests, il_list_done);

    if (d == NULL
        || il_query_read(r, q, IL_QR_MAX) != 0
        || il_list_limit(r, &q[IL_QR_LIMIT], l) != 0
        || il_list_id_cursor(r, &q[IL_QR_CURSOR], l) != 0
        || il_list_name(r, &q[IL_QR_SOURCE], "source", &l->source) != 0
        || il_list_decision(r, &q[IL_QR_DECISION], l) != 0
        || il_list_name(r, &q[IL_QR_KIND], "kind", &l->kind) != 0
        || il_list_work_key(r, &q[IL_QR_WORK_KEY], l) != 0
        || il_list_text(r, &q[IL_QR_IDEM], IL_LIST_NAME_MAX, &l->idem) != 0
        || il_query_time(r, &q[IL_QR_SINCE], &l->since) != 0
        || il_query_time(r, &q[IL_QR_UNTIL], &l->until) != 0)
    {
        return;
    }

    il_doc_queue(d);
}


/* ------------------------------------------------------------------- works */


static void
il_list_put_works(il_read_t *read, il_db_args_t *args)
{
    il_doc_t   *d = (il_doc_t *) read;
    il_list_t  *l = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, l->prefix);
    il_db_put_text(args, 2, l->kind);
    il_db_put_text(args, 3, l->state);
    il_db_put_int(args, 4, (int32_t) l->limit);
    il_db_put_text(args, 5, l->cursor);
}


static int
il_list_work_state(il_req_t *r, const il_query_t *q, il_list_t *l)
{
    static const char *const  states[] = {
        "idle", "queued", "running", "checking", "held", "parked"
    };

    return il_list_one_of(r, q, states, sizeof(states) / sizeof(states[0]),
                          "must be one of idle, queued, running, checking, "
                          "held, parked", &l->state);
}


void
il_list_works(il_req_t *r)
{
    il_doc_t    *d;
    il_list_t   *l;
    il_query_t   q[] = {
        { .name = "prefix" }, { .name = "kind" }, { .name = "state" },
        { .name = "limit" }, { .name = "cursor" }
    };

    d = il_list_new(r, &l, "select * from interlock.works_list("
                    "$1, $2, $3, $4, $5, $6)", "ITTTIT", il_list_put_works,
                    il_list_key_done);

    if (d == NULL
        || il_query_read(r, q, 5) != 0
        || il_list_text(r, &q[0], IL_KEY_MAX, &l->prefix) != 0
        || il_list_name(r, &q[1], "kind", &l->kind) != 0
        || il_list_work_state(r, &q[2], l) != 0
        || il_list_limit(r, &q[3], l) != 0
        || il_list_key_cursor(r, &q[4], l) != 0)
    {
        return;
    }

    il_doc_queue(d);
}


/* ------------------------------------------------------------------ leases */


static void
il_list_put_leases(il_read_t *read, il_db_args_t *args)
{
    il_doc_t   *d = (il_doc_t *) read;
    il_list_t  *l = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, l->kind);
    il_db_put_text(args, 2, l->worker);
    il_db_put_int(args, 3, (int32_t) l->limit);
    il_db_put_text(args, 4, l->cursor);
}


void
il_list_leases(il_req_t *r)
{
    il_doc_t    *d;
    il_list_t   *l;
    il_query_t   q[] = {
        { .name = "kind" }, { .name = "worker" }, { .name = "limit" },
        { .name = "cursor" }
    };

    d = il_list_new(r, &l, "select * from interlock.leases_list("
                    "$1, $2, $3, $4, $5)", "ITTIT", il_list_put_leases,
                    il_list_done);

    if (d == NULL
        || il_query_read(r, q, 4) != 0
        || il_list_name(r, &q[0], "kind", &l->kind) != 0
        || il_list_text(r, &q[1], IL_LIST_NAME_MAX, &l->worker) != 0
        || il_list_limit(r, &q[2], l) != 0
        || il_list_id_cursor(r, &q[3], l) != 0)
    {
        return;
    }

    il_doc_queue(d);
}


/* ----------------------------------------------------------------- actions */


static void
il_list_put_actions(il_read_t *read, il_db_args_t *args)
{
    il_doc_t   *d = (il_doc_t *) read;
    il_list_t  *l = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, l->what);
    il_db_put_text(args, 2, l->by);
    il_db_put_time(args, 3, l->since);
    il_db_put_time(args, 4, l->until);
    il_db_put_int(args, 5, (int32_t) l->limit);
    il_db_put_text(args, 6, l->cursor);
}


void
il_list_actions(il_req_t *r)
{
    il_doc_t    *d;
    il_list_t   *l;
    il_query_t   q[] = {
        { .name = "what" }, { .name = "by" }, { .name = "since" },
        { .name = "until" }, { .name = "limit" }, { .name = "cursor" }
    };

    d = il_list_new(r, &l, "select * from interlock.actions_list("
                    "$1, $2, $3, $4, $5, $6, $7)", "ITTZZIT",
                    il_list_put_actions, il_list_done);

    if (d == NULL
        || il_query_read(r, q, 6) != 0
        || il_list_text(r, &q[0], IL_LIST_NAME_MAX, &l->what) != 0
        || il_list_text(r, &q[1], IL_LIST_NAME_MAX, &l->by) != 0
        || il_query_time(r, &q[2], &l->since) != 0
        || il_query_time(r, &q[3], &l->until) != 0
        || il_list_limit(r, &q[4], l) != 0
        || il_list_number_cursor(r, &q[5], l) != 0)
    {
        return;
    }

    il_doc_queue(d);
}
