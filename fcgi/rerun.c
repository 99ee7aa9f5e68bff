/*
 * rerun.c: what running work again would do, and running it again by whoever
 * has seen that: of one work key, or of a date of a schedule.
 */

#include "doc.h"
#include "il_enc.h"
#include "il_time.h"
#include "route.h"
#include "schedule.h"
#include "server.h"
#include "who.h"


#define IL_IMPACT_MAX  256          /* bytes of an impact_id */


typedef struct {
    il_who_t   who;
    il_str_t   impact;
    il_str_t   only;
    il_str_t   payload;             /* JSON; data NULL: as it was */
} il_rerun_t;


/* Both, and what was seen. */

static int
il_rerun_read(il_req_t *r, il_rerun_t *a, il_field_t *in, size_t n)
{
    if (il_who_read(r, &a->who, in, n, 0) != 0
        || il_body_string(r, &in[2], IL_IMPACT_MAX, &a->impact) != 0)
    {
        return -1;
    }

    if (a->impact.data == NULL) {
        il_body_invalid(r, "impact_id", "is missing: look at the impact "
                        "first");
        return -1;
    }

    return il_who_demand(r, &a->who);
}


/* -------------------------------------------------------------- a work key */


void
il_work_impact(il_req_t *r)
{
    il_doc_t  *d;

    if (il_doc_key(r) != 0) {
        return;
    }

    d = il_doc_new(r, "select * from interlock.work_impact($1, $2)", "IT",
                   il_doc_put, il_doc_problem_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


static void
il_work_put_rerun(il_read_t *read, il_db_args_t *args)
{
    il_doc_t    *d = (il_doc_t *) read;
    il_rerun_t  *a = d->more;

    il_doc_put(read, args);
    il_db_put_text(args, 2, a->impact);
    il_db_put_text(args, 3, a->payload);
    il_who_put_call(args, 4, d->r, &a->who);
}


/* As after a submission, the job is at Location. */

static void
il_work_rerun_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    char              url[512];
    size_t            len;
    il_doc_t         *d = (il_doc_t *) read;
    il_str_t          doc;
    il_json_value_t   v;

    if (res != NULL && il_db_rows(res) > 0) {
        doc = il_db_cell(res, 0, il_db_column(res, "doc"));

        if (doc.data != NULL
            && il_json_find(doc, il_cstr("/status_url"), &v) == IL_JSON_OK
            && il_json_scalar(&v, url, sizeof(url), &len) == 0
            && !il_has_control(il_str(url, len)))
        {
            il_req_header(d->r, "Location", il_str(url, len));
        }
    }

    il_doc_problem_done(read, res, p);
}


void
il_work_rerun(il_req_t *r)
{
    il_doc_t    *d;
    il_rerun_t  *a;
    il_field_t   in[] = {
        IL_WHO_FIELDS,
        { .name = "impact_id", .types = IL_T_STRING },
        { .name = "payload", .types = IL_T_ANY }
    };

    if (il_doc_key(r) != 0) {
        return;
    }

    d = il_doc_more(r, "select * from interlock.work_rerun("
                    "$1, $2, $3, $4, $5, $6, $7, $8, $9)", "ITTTTTLTU",
                    il_work_put_rerun, il_work_rerun_done,
                    sizeof(il_rerun_t));
    if (d == NULL) {
        return;
    }

    a = d->more;

    if (il_rerun_read(r, a, in, 4) != 0) {
        return;
    }

    if (in[3].seen) {
        a->payload = in[3].value.raw;
    }

    d->status = 202;
    il_doc_queue(d);
}


/* ------------------------------------------------------ a date of a schedule */


/* A business date, or a slot's own time. */

static int
il_slot_when(il_req_t *r)
{
    int64_t  ms;

    if (il_schedule_named(r) != 0) {
        return -1;
    }

    if (!il_schedule_is_date(r->args[1])
        && il_rfc3339_parse(r->args[1], &ms) != 0)
    {
        il_req_problem(r, IL_P_FIELD_INVALID, "A slot is named by its "
                       "business date, like 2026-07-24, or by its time, like "
                       "2026-07-24T00:00:00Z.");
        return -1;
    }

    return 0;
}


static void
il_slot_put_impact(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;

    il_doc_put(read, args);
    il_db_put_text(args, 2, d->r->args[1]);
}


void
il_slot_impact(il_req_t *r)
{
    il_doc_t  *d;

    if (il_slot_when(r) != 0) {
        return;
    }

    d = il_doc_new(r, "select * from interlock.slot_impact($1, $2, $3)",
                   "ITT", il_slot_put_impact, il_doc_problem_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


static void
il_slot_put_rerun(il_read_t *read, il_db_args_t *args)
{
    il_doc_t    *d = (il_doc_t *) read;
    il_rerun_t  *a = d->more;

    il_slot_put_impact(read, args);
    il_db_put_text(args, 3, a->only);
    il_db_put_text(args, 4, a->impact);
    il_who_put_call(args, 5, d->r, &a->who);
    il_db_put_int(args, 10, IL_SCHEDULE_STEP);
}


void
il_slot_rerun(il_req_t *r)
{
    il_doc_t    *d;
    il_rerun_t  *a;
    il_field_t   in[] = {
        IL_WHO_FIELDS,
        { .name = "impact_id", .types = IL_T_STRING },
        { .name = "only", .types = IL_T_STRING }
    };

    if (il_slot_when(r) != 0) {
        return;
    }

    d = il_doc_more(r, "select * from interlock.slot_rerun("
                    "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                    "ITTTTTTLTUI", il_slot_put_rerun, il_doc_again_done,
                    sizeof(il_rerun_t));
    if (d == NULL) {
        return;
    }

    a = d->more;

    if (il_rerun_read(r, a, in, 4) != 0
        || il_body_string(r, &in[3], 64, &a->only) != 0)
    {
        return;
    }

    if (!il_str_eq(a->only, il_cstr("failed"))
        && !il_str_eq(a->only, il_cstr("missing"))
        && !il_str_eq(a->only, il_cstr("all")))
    {
        il_body_invalid(r, "only", "must be one of failed, missing, all");
        return;
    }

    il_doc_queue(d);
}
