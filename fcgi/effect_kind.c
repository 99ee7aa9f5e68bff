/*
 * effect_kind.c: effect kinds: what is known of the providers that effects go
 * to.
 */

#include "doc.h"
#include "il_key.h"
#include "route.h"


static const char  il_effect_kind_missing[] = "There is no such effect kind.";


void
il_effect_kind_list(il_req_t *r)
{
    il_doc_t  *d;

    d = il_doc_new(r, "select * from interlock.effect_kind_list($1)", "I",
                   il_doc_put_tenant, il_doc_list_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


void
il_effect_kind_get(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_EFFECT_KIND_UNKNOWN, il_effect_kind_missing);
        return;
    }

    d = il_doc_new(r, "select * from interlock.effect_kind_get($1, $2)", "IT",
                   il_doc_put, il_doc_done);
    if (d != NULL) {
        d->missing = il_effect_kind_missing;
        d->none = IL_P_EFFECT_KIND_UNKNOWN;
        il_doc_queue(d);
    }
}


void
il_effect_kind_put(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_FIELD_INVALID, "An effect kind's name has 1 "
                       "to 64 of a-z, 0-9, \".\", \"_\", \"-\".");
        return;
    }

    if (il_doc_object(r, "An effect kind") != 0
        || il_doc_lookup(r, "lookup") != 0)
    {
        return;
    }

    d = il_doc_new(r, "select * from interlock.effect_kind_put($1, $2, $3)",
                   "ITT", il_doc_put_body, il_doc_problem_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


void
il_effect_kind_delete(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_EFFECT_KIND_UNKNOWN, il_effect_kind_missing);
        return;
    }

    d = il_doc_new(r, "select * from interlock.effect_kind_delete($1, $2)",
                   "IT", il_doc_put, il_doc_deleted_done);
    if (d != NULL) {
        d->missing = il_effect_kind_missing;
        d->none = IL_P_EFFECT_KIND_UNKNOWN;
        il_doc_queue(d);
    }
}
