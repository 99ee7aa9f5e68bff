/*
 * pause.c: what stands still until a named person resumes it: the claims of a
 * kind, the requests of a source.
 */

#include "doc.h"
#include "il_key.h"
#include "route.h"
#include "server.h"
#include "who.h"


static void
il_pause_put(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_who_t  *who = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, d->text);
    il_who_put_call(args, 2, d->r, who);
}


static void
il_pause(il_req_t *r, const char *sql, il_problem_e none, const char *missing)
{
    il_doc_t    *d;
    il_who_t    *who;
    il_field_t   in[] = { IL_WHO_FIELDS };

    who = il_pool_get(&r->pool, sizeof(il_who_t));
    if (who == NULL) {
        il_req_internal(r);
        return;
    }

    if (il_who_read(r, who, in, 2, 0) != 0 || il_who_demand(r, who) != 0) {
        return;
    }

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, none, missing);
        return;
    }

    d = il_doc_new(r, sql, "ITTTLTU", il_pause_put, il_doc_problem_done);
    if (d != NULL) {
        d->more = who;
        il_doc_queue(d);
    }
}


void
il_pause_kind(il_req_t *r)
{
    il_pause(r, "select * from interlock.pause("
             "$1, 'kind', $2, $3, $4, $5, $6, $7)",
             IL_P_KIND_UNKNOWN, "There is no such kind.");
}


void
il_pause_kind_resume(il_req_t *r)
{
    il_pause(r, "select * from interlock.resume("
             "$1, 'kind', $2, $3, $4, $5, $6, $7)",
             IL_P_KIND_UNKNOWN, "There is no such kind.");
}


void
il_pause_source(il_req_t *r)
{
    il_pause(r, "select * from interlock.pause("
             "$1, 'source', $2, $3, $4, $5, $6, $7)",
             IL_P_FIELD_INVALID, "This is not the name of a source.");
}


void
il_pause_source_resume(il_req_t *r)
{
    il_pause(r, "select * from interlock.resume("
             "$1, 'source', $2, $3, $4, $5, $6, $7)",
             IL_P_FIELD_INVALID, "This is not the name of a source.");
}


void
il_pause_sources(il_req_t *r)
{
    il_doc_t  *d;

    d = il_doc_new(r, "select * from interlock.source_list($1)", "I",
                   il_doc_put_tenant, il_doc_list_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}
