/*
 * inbox.c: what waits for a person, and who looks after it.
 */

#include "doc.h"
#include "il_key.h"
#include "query.h"
#include "route.h"
#include "schedule.h"
#include "server.h"
#include "who.h"


static const char  il_inbox_missing[] = "There is nothing of that id.";


typedef struct {
    il_who_t   who;
    il_str_t   assignee;            /* data NULL: any, or nobody; so below */
    il_str_t   what;
    il_str_t   state;
    il_str_t   kind;
    il_str_t   cursor;
    int64_t    due;                 /* INT64_MIN: none */
} il_inbox_t;


static void
il_inbox_put_list(il_read_t *read, il_db_args_t *args)
{
    il_doc_t    *d = (il_doc_t *) read;
    il_inbox_t  *b = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, b->assignee);
    il_db_put_text(args, 2, b->what);
    il_db_put_text(args, 3, b->state);
    il_db_put_text(args, 4, b->kind);
    il_db_put_int(args, 5, (int32_t) d->number + 1);
    il_db_put_text(args, 6, b->cursor);
}


/* 1 if s is not there, or one of words. */

static int
il_inbox_is(il_str_t s, const char *const *words)
{
    if (s.data == NULL) {
        return 1;
    }

    for ( /* void */ ; *words != NULL; words++) {
        if (il_str_eq(s, il_cstr(*words))) {
            return 1;
        }
    }

    return 0;
}


static int
il_inbox_filters(il_req_t *r, const il_inbox_t *b)
{
    static const char *const  whats[] = {
        "job", "effect", "gap", "slot", "kind_paused", "source_paused",
        "schedule", "queue", NULL
    };
    static const char *const  states[] = {
        "held", "parked", "failed", "needs_human", "unknown", "missing",
        "approval", "kind_paused", "source_paused", "skips", "queue_age", NULL
    };

    if (!il_inbox_is(b->what, whats)) {
        il_query_invalid(r, "what", "must be one of job, effect, gap, slot, "
                         "kind_paused, source_paused, schedule, queue");
        return -1;
    }

    if (!il_inbox_is(b->state, states)) {
        il_query_invalid(r, "state", "must be one of held, parked, failed, "
                         "needs_human, unknown, missing, approval, "
                         "kind_paused, source_paused, skips, queue_age");
        return -1;
    }

    if (b->kind.data != NULL && !il_name_valid(b->kind)) {
        il_query_invalid(r, "kind", "must be the name of a kind");
        return -1;
    }

    return 0;
}


void
il_inbox_list(il_req_t *r)
{
    il_doc_t    *d;
    il_inbox_t  *b;
    il_query_t   q[] = {
        { .name = "assignee" }, { .name = "what" }, { .name = "state" },
        { .name = "kind" }, { .name = "limit" }, { .name = "cursor" }
    };

    d = il_doc_more(r, "select * from interlock.inbox_list("
                    "$1, $2, $3, $4, $5, $6, $7)", "ITTTTIT", il_inbox_put_list,
                    il_doc_page_done, sizeof(il_inbox_t));
    if (d == NULL) {
        return;
    }

    b = d->more;
    d->number = IL_DOC_LIMIT;

    if (il_query_read(r, q, 6) != 0
        || il_query_int(r, &q[4], 1, IL_DOC_LIMIT_MAX, &d->number) != 0
        || il_schedule_cursor(r, &q[5]) != 0)
    {
        return;
    }

    b->assignee = q[0].value;
    b->what = q[1].value;
    b->state = q[2].value;
    b->kind = q[3].value;
    b->cursor = q[5].value;

    if (il_inbox_filters(r, b) != 0) {
        return;
    }

    il_doc_queue(d);
}


static void
il_inbox_put_assign(il_read_t *read, il_db_args_t *args)
{
    il_doc_t    *d = (il_doc_t *) read;
    il_inbox_t  *b = d->more;

    il_doc_put(read, args);
    il_db_put_text(args, 2, b->assignee);
    il_db_put_time(args, 3, b->due);
    il_who_put_call(args, 4, d->r, &b->who);
}


void
il_inbox_assign(il_req_t *r)
{
    il_doc_t    *d;
    il_inbox_t  *b;
    il_field_t   in[] = {
        IL_WHO_FIELDS,
        { .name = "assignee", .types = IL_T_STRING },
        { .name = "due", .types = IL_T_STRING }
    };

    d = il_doc_more(r, "select * from interlock.inbox_assign("
                    "$1, $2, $3, $4, $5, $6, $7, $8, $9)", "ITTZTTLTU",
                    il_inbox_put_assign, il_doc_problem_done,
                    sizeof(il_inbox_t));
    if (d == NULL) {
        return;
    }

    b = d->more;
    b->due = INT64_MIN;

    if (il_who_read(r, &b->who, in, 4, 0) != 0
        || il_body_string(r, &in[2], IL_WHO_MAX, &b->assignee) != 0
        || il_body_time(r, &in[3], &b->due) != 0)
    {
        return;
    }

    if (b->who.requested_by.len == 0) {
        il_body_invalid(r, "requested_by", "is missing");
        return;
    }

    d->missing = il_inbox_missing;
    il_doc_queue(d);
}


static void
il_inbox_put_dismiss(il_read_t *read, il_db_args_t *args)
{
    il_doc_t    *d = (il_doc_t *) read;
    il_inbox_t  *b = d->more;

    il_doc_put(read, args);
    il_who_put_call(args, 2, d->r, &b->who);
}


void
il_inbox_dismiss(il_req_t *r)
{
    il_doc_t    *d;
    il_inbox_t  *b;
    il_field_t   in[] = { IL_WHO_FIELDS };

    d = il_doc_more(r, "select * from interlock.inbox_dismiss("
                    "$1, $2, $3, $4, $5, $6, $7)", "ITTTLTU",
                    il_inbox_put_dismiss, il_doc_problem_done,
                    sizeof(il_inbox_t));
    if (d == NULL) {
        return;
    }

    b = d->more;

    if (il_who_read(r, &b->who, in, 2, 0) != 0
        || il_who_demand(r, &b->who) != 0)
    {
        return;
    }

    d->missing = il_inbox_missing;
    il_doc_queue(d);
}
