/*
 * gap.c: slots whose work is not done, and what people decide about them.
 */

#include "doc.h"
#include "il_key.h"
#include "query.h"
#include "route.h"
#include "schedule.h"
#include "server.h"
#include "who.h"


static const char  il_gap_missing[] = "There is no such gap.";


typedef struct {
    il_who_t   who;
    uint8_t    id[IL_UUID_BYTES];
    il_str_t   schedule;            /* data NULL: any; so below */
    il_str_t   state;
    il_str_t   cursor;
} il_gap_t;


static il_doc_t *
il_gap_doc(il_req_t *r, const char *sql, const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p))
{
    il_doc_t  *d;

    d = il_doc_more(r, sql, signature, put, done, sizeof(il_gap_t));
    if (d != NULL) {
        d->missing = il_gap_missing;
    }

    return d;
}


static void
il_gap_put_list(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_gap_t  *g = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, g->schedule);
    il_db_put_text(args, 2, g->state);
    il_db_put_int(args, 3, (int32_t) d->number + 1);
    il_db_put_text(args, 4, g->cursor);
}


static int
il_gap_is_state(il_str_t s)
{
    size_t  i;

    static const char *const  states[] = {
        "open", "approved", "dismissed", "closed"
    };

    for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (il_str_eq(s, il_cstr(states[i]))) {
            return 1;
        }
    }

    return 0;
}


void
il_gap_list(il_req_t *r)
{
    il_doc_t    *d;
    il_gap_t    *g;
    il_query_t   q[] = {
        { .name = "schedule" }, { .name = "state" }, { .name = "limit" },
        { .name = "cursor" }
    };

    d = il_gap_doc(r, "select * from interlock.gaps_list($1, $2, $3, $4, $5)",
                   "ITTIT", il_gap_put_list, il_doc_page_done);
    if (d == NULL) {
        return;
    }

    g = d->more;
    d->number = IL_DOC_LIMIT;

    if (il_query_read(r, q, 4) != 0
        || il_query_int(r, &q[2], 1, IL_DOC_LIMIT_MAX, &d->number) != 0
        || il_schedule_cursor(r, &q[3]) != 0)
    {
        return;
    }

    g->schedule = q[0].value;
    g->state = q[1].value;
    g->cursor = q[3].value;

    if (g->schedule.data != NULL && !il_name_valid(g->schedule)) {
        il_query_invalid(r, "schedule", "must be the name of a schedule");
        return;
    }

    if (g->state.data != NULL && !il_gap_is_state(g->state)) {
        il_query_invalid(r, "state", "must be one of open, approved, "
                         "dismissed, closed");
        return;
    }

    il_doc_queue(d);
}


static void
il_gap_put_act(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_gap_t  *g = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_uuid(args, 1, g->id);
    il_who_put_call(args, 2, d->r, &g->who);
}


static void
il_gap_act(il_req_t *r, const char *sql)
{
    il_doc_t    *d;
    il_gap_t    *g;
    il_field_t   in[] = { IL_WHO_FIELDS };

    d = il_gap_doc(r, sql, "IUTTLTU", il_gap_put_act, il_doc_problem_done);
    if (d == NULL) {
        return;
    }

    g = d->more;

    if (il_who_read(r, &g->who, in, 2, 0) != 0
        || il_who_demand(r, &g->who) != 0)
    {
        return;
    }

    if (il_uuid_parse(g->id, r->args[0]) != 0) {
        il_req_problem(r, IL_P_NOT_FOUND, il_gap_missing);
        return;
    }

    il_doc_queue(d);
}


void
il_gap_approve(il_req_t *r)
{
    il_gap_act(r, "select * from interlock.gap_approve("
               "$1, $2, $3, $4, $5, $6, $7)");
}


void
il_gap_dismiss(il_req_t *r)
{
    il_gap_act(r, "select * from interlock.gap_dismiss("
               "$1, $2, $3, $4, $5, $6, $7)");
}
