/*
 * limit.c: limits, which kinds name.
 */

#include "doc.h"
#include "il_enc.h"
#include "route.h"
#include "server.h"


#define IL_LIMIT_NAME_MAX  255


static const char  il_limit_missing[] = "There is no such limit.";


void
il_limit_list(il_req_t *r)
{
    il_doc_t  *d;

    d = il_doc_new(r, "select * from interlock.limit_list($1)", "I",
                   il_doc_put_tenant, il_doc_list_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


/* No name of a limit: there is none of that name. */

static int
il_limit_named(il_req_t *r)
{
    return r->args[0].len <= IL_LIMIT_NAME_MAX && !il_has_control(r->args[0]);
}


void
il_limit_get(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_limit_named(r)) {
        il_req_problem(r, IL_P_NOT_FOUND, il_limit_missing);
        return;
    }

    d = il_doc_new(r, "select * from interlock.limit_get($1, $2)", "IT",
                   il_doc_put, il_doc_done);
    if (d != NULL) {
        d->missing = il_limit_missing;
        il_doc_queue(d);
    }
}


void
il_limit_put(il_req_t *r)
{
    il_doc_t  *d;

    if (il_doc_object(r, "A limit") != 0) {
        return;
    }

    if (!il_limit_named(r)) {
        il_req_problem(r, IL_P_FIELD_INVALID, "A limit's name has at most "
                       "255 bytes, and no control characters.");
        return;
    }

    d = il_doc_new(r, "select * from interlock.limit_put($1, $2, $3)", "ITT",
                   il_doc_put_body, il_doc_problem_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


void
il_limit_delete(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_limit_named(r)) {
        il_req_problem(r, IL_P_NOT_FOUND, il_limit_missing);
        return;
    }

    d = il_doc_new(r, "select * from interlock.limit_delete($1, $2)", "IT",
                   il_doc_put, il_doc_deleted_done);
    if (d != NULL) {
        d->missing = il_limit_missing;
        il_doc_queue(d);
    }
}
