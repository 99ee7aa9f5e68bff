/*
 * schedule.c: schedules, what became of their slots, and running one date or
 * a range of them by hand.
 */

#include <stdlib.h>

#include "buf.h"
#include "doc.h"
#include "il_enc.h"
#include "il_time.h"
#include "il_key.h"
#include "query.h"
#include "route.h"
#include "schedule.h"
#include "server.h"
#include "who.h"


#define IL_SUBJECT_MAX  128         /* bytes */
#define IL_CURSOR_MAX   200         /* behind its time */


static const char  il_schedule_missing[] = "There is no such schedule.";


typedef struct {
    il_who_t   who;
    il_str_t   date;                /* the only one, or the first; so below */
    il_str_t   to;
    il_str_t  *subjects;            /* NULL: all */
    size_t     n;
    uint8_t    plan_id[IL_UUID_BYTES];
    il_str_t   cursor;
} il_schedule_t;


/* A schedule's name that is none: there is no such schedule. */

int
il_schedule_named(il_req_t *r)
{
    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_NOT_FOUND, il_schedule_missing);
        return -1;
    }

    return 0;
}


/* A document about the schedule in the path; or NULL, and it was answered. */

static il_doc_t *
il_schedule_doc(il_req_t *r, const char *sql, const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p))
{
    il_doc_t  *d;

    if (il_schedule_named(r) != 0) {
        return NULL;
    }

    d = il_doc_more(r, sql, signature, put, done, sizeof(il_schedule_t));
    if (d != NULL) {
        d->missing = il_schedule_missing;
    }

    return d;
}


void
il_schedule_list(il_req_t *r)
{
    il_doc_t  *d;

    d = il_doc_new(r, "select * from interlock.schedule_list($1)", "I",
                   il_doc_put_tenant, il_doc_list_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


void
il_schedule_get(il_req_t *r)
{
    il_doc_t  *d;

    d = il_schedule_doc(r, "select * from interlock.schedule_get($1, $2)",
                        "IT", il_doc_put, il_doc_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


void
il_schedule_put(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_FIELD_INVALID, "A schedule's name has 1 to 64 "
                       "of a-z, 0-9, \".\", \"_\", \"-\".");
        return;
    }

    if (il_doc_object(r, "A schedule") != 0) {
        return;
    }

    d = il_schedule_doc(r, "select * from interlock.schedule_put($1, $2, $3)",
                        "ITT", il_doc_put_body, il_doc_problem_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


void
il_schedule_delete(il_req_t *r)
{
    il_doc_t  *d;

    d = il_schedule_doc(r, "select * from interlock.schedule_delete($1, $2)",
                        "IT", il_doc_put, il_doc_problem_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


/* ------------------------------------------------------------ pause, resume */


static void
il_schedule_put_pause(il_read_t *read, il_db_args_t *args)
{
    il_doc_t       *d = (il_doc_t *) read;
    il_schedule_t  *s = d->more;

    il_doc_put(read, args);
    il_who_put(args, 2, d->r, &s->who);
    il_db_put_uuid(args, 6, s->who.call);
}


static void
il_schedule_set(il_req_t *r, const char *sql)
{
    il_doc_t       *d;
    il_field_t      in[] = { IL_WHO_FIELDS };
    il_schedule_t  *s;

    d = il_schedule_doc(r, sql, "ITTTLTU", il_schedule_put_pause,
                        il_doc_problem_done);
    if (d == NULL) {
        return;
    }

    s = d->more;

    if (il_who_read(r, &s->who, in, 2, 0) == 0
        && il_who_demand(r, &s->who) == 0)
    {
        il_doc_queue(d);
    }
}


void
il_schedule_pause(il_req_t *r)
{
    il_schedule_set(r, "select * from interlock.schedule_pause("
                    "$1, $2, $3, $4, $5, $6, $7)");
}


void
il_schedule_resume(il_req_t *r)
{
    il_schedule_set(r, "select * from interlock.schedule_resume("
                    "$1, $2, $3, $4, $5, $6, $7)");
}


/* ------------------------------------------------------------------- slots */


int
il_schedule_is_date(il_str_t s)
{
    char      text[sizeof("2026-07-24T00:00:00Z")];
    int64_t   ms;

    if (s.len != 10) {
        return 0;
    }

    memcpy(text, s.data, 10);
    memcpy(text + 10, "T00:00:00Z", 11);

    /* there is no year 0 in the database */

    return memcmp(text, "0000", 4) != 0
           && il_rfc3339_parse(il_cstr(text), &ms) == 0;
}


static int
il_schedule_query_date(il_req_t *r, const il_query_t *q, il_str_t *date)
{
    *date = q->value;

    if (date->data != NULL && !il_schedule_is_date(*date)) {
        il_query_invalid(r, q->name, "must be a date like 2026-07-24");
        return -1;
    }

    return 0;
}


/* Dates of this form have the order of their text. */

static int
il_schedule_query_range(il_req_t *r, const il_query_t *from,
    const il_query_t *to, il_schedule_t *s)
{
    if (il_schedule_query_date(r, from, &s->date) != 0
        || il_schedule_query_date(r, to, &s->to) != 0)
    {
        return -1;
    }

    if (s->date.data != NULL && s->to.data != NULL
        && memcmp(s->to.data, s->date.data, s->to.len) < 0)
    {
        il_query_invalid(r, to->name, "is before \"from\"");
        return -1;
    }

    return 0;
}


int
il_schedule_cursor(il_req_t *r, const il_query_t *q)
{
    size_t    n;
    int64_t   at;
    il_str_t  s;

    s = q->value;

    if (s.data == NULL) {
        return 0;
    }

    for (n = 0; n < s.len && s.data[n] != '.'; n++) { /* void */ }

    if (n == s.len || s.len - n > IL_CURSOR_MAX || il_has_control(s)
        || il_digits_parse(il_str(s.data, n), 17, &at) != 0)
    {
        il_query_invalid(r, q->name, "is not one that this list gave");
        return -1;
    }

    return 0;
}


static void
il_schedule_put_slots(il_read_t *read, il_db_args_t *args)
{
    il_doc_t       *d = (il_doc_t *) read;
    il_schedule_t  *s = d->more;

    il_doc_put(read, args);
    il_db_put_text(args, 2, s->date);
    il_db_put_text(args, 3, s->to);
    il_db_put_int(args, 4, (int32_t) d->number + 1);
    il_db_put_text(args, 5, s->cursor);
}


void
il_schedule_slots(il_req_t *r)
{
    il_doc_t       *d;
    il_query_t      q[] = {
        { .name = "from" }, { .name = "to" }, { .name = "limit" },
        { .name = "cursor" }
    };
    il_schedule_t  *s;

    d = il_schedule_doc(r, "select * from interlock.schedule_slots("
                        "$1, $2, $3::date, $4::date, $5, $6)", "ITTTIT",
                        il_schedule_put_slots, il_doc_page_done);
    if (d == NULL) {
        return;
    }

    s = d->more;
    d->number = IL_DOC_LIMIT;

    if (il_query_read(r, q, 4) != 0
        || il_schedule_query_range(r, &q[0], &q[1], s) != 0
        || il_query_int(r, &q[2], 1, IL_DOC_LIMIT_MAX, &d->number) != 0
        || il_schedule_cursor(r, &q[3]) != 0)
    {
        return;
    }

    s->cursor = q[3].value;
    il_doc_queue(d);
}


static void
il_schedule_put_days(il_read_t *read, il_db_args_t *args)
{
    il_doc_t       *d = (il_doc_t *) read;
    il_schedule_t  *s = d->more;

    il_doc_put(read, args);
    il_db_put_text(args, 2, s->date);
    il_db_put_text(args, 3, s->to);
}


/* A first row with a problem, or every row: the dates of a range are few. */

static void
il_schedule_days_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    if (res != NULL && il_db_rows(res) > 0
        && il_db_cell(res, 0, il_db_column(res, "problem")).data != NULL)
    {
        il_doc_problem_done(read, res, p);
        return;
    }

    il_doc_list_done(read, res, p);
}


void
il_schedule_days(il_req_t *r)
{
    il_doc_t       *d;
    il_query_t      q[] = {
        { .name = "from" }, { .name = "to" }
    };
    il_schedule_t  *s;

    d = il_schedule_doc(r, "select * from interlock.schedule_days("
                        "$1, $2, $3::date, $4::date)", "ITTT",
                        il_schedule_put_days, il_schedule_days_done);
    if (d == NULL) {
        return;
    }

    s = d->more;

    if (il_query_read(r, q, 2) != 0
        || il_schedule_query_range(r, &q[0], &q[1], s) != 0)
    {
        return;
    }

    il_doc_queue(d);
}


/* ----------------------------------------------------------- run, backfill */


static int
il_schedule_body_date(il_req_t *r, const il_field_t *f, il_str_t *date)
{
    if (!f->seen) {
        il_body_invalid(r, f->name, "is missing");
        return -1;
    }

    if (il_body_string(r, f, 64, date) != 0) {
        return -1;
    }

    if (!il_schedule_is_date(*date)) {
        il_body_invalid(r, f->name, "must be a date like 2026-07-24");
        return -1;
    }

    return 0;
}


/* An array of strings. */

static int
il_schedule_subjects(il_req_t *r, const il_field_t *f, il_schedule_t *s)
{
    size_t           pos, n;
    il_str_t         name;
    il_field_t       one;
    il_json_value_t  v;

    if (!f->seen) {
        return 0;
    }

    for (pos = 0, n = 0; il_json_next(f->value, &pos, &name, &v); n++) {
        if (v.type != IL_JSON_STRING) {
            il_body_invalid(r, f->name, "must be an array of strings");
            return -1;
        }
    }

    if (n == 0) {
        il_body_invalid(r, f->name, "is empty; without it all are meant");
        return -1;
    }

    s->subjects = il_pool_get(&r->pool, n * sizeof(il_str_t));
    if (s->subjects == NULL) {
        il_req_internal(r);
        return -1;
    }

    one = *f;

    for (pos = 0; il_json_next(f->value, &pos, &name, &one.value); s->n++) {
        if (il_body_string(r, &one, IL_SUBJECT_MAX, &s->subjects[s->n])
            != 0)
        {
            return -1;
        }
    }

    return 0;
}


static void
il_schedule_put_subjects(const il_schedule_t *s, il_db_args_t *args, size_t i)
{
    size_t  n;

    for (n = 0; n < s->n; n++) {
        il_db_put_text(args, i, s->subjects[n]);
    }
}


/* With subjects, or all of them: then there is no argument for them. */

static void
il_schedule_put_run(il_read_t *read, il_db_args_t *args)
{
    size_t          i;
    il_doc_t       *d = (il_doc_t *) read;
    il_schedule_t  *s = d->more;

    i = 3;
    il_doc_put(read, args);
    il_db_put_text(args, 2, s->date);

    if (s->subjects != NULL) {
        il_schedule_put_subjects(s, args, i++);
    }

    il_who_put_call(args, i, d->r, &s->who);
    il_db_put_int(args, i + 5, IL_SCHEDULE_STEP);
}


void
il_schedule_run(il_req_t *r)
{
    il_doc_t       *d;
    il_field_t      in[] = {
        IL_WHO_FIELDS,
        { .name = "date", .types = IL_T_STRING },
        { .name = "subjects", .types = IL_T_ARRAY }
    };
    il_schedule_t  *s;

    d = il_schedule_doc(r, "select * from interlock.schedule_run("
                        "$1, $2, $3::date, null, $4, $5, $6, $7, $8, $9)",
                        "ITTTTLTUI", il_schedule_put_run, il_doc_again_done);
    if (d == NULL) {
        return;
    }

    s = d->more;

    if (il_who_read(r, &s->who, in, 4, 0) != 0
        || il_schedule_body_date(r, &in[2], &s->date) != 0
        || il_schedule_subjects(r, &in[3], s) != 0
        || il_who_demand(r, &s->who) != 0)
    {
        return;
    }

    if (s->subjects != NULL) {
        d->read.sql = "select * from interlock.schedule_run("
                      "$1, $2, $3::date, $4, $5, $6, $7, $8, $9, $10)";
        d->read.signature = "ITTtTTLTUI";
    }

    il_doc_queue(d);
}


static void
il_schedule_put_plan(il_read_t *read, il_db_args_t *args)
{
    size_t          i;
    il_doc_t       *d = (il_doc_t *) read;
    il_schedule_t  *s = d->more;

    i = 4;
    il_doc_put(read, args);
    il_db_put_text(args, 2, s->date);
    il_db_put_text(args, 3, s->to);

    if (s->subjects != NULL) {
        il_schedule_put_subjects(s, args, i++);
    }

    il_who_put(args, i, d->r, &s->who);
}


static void
il_schedule_put_backfill(il_read_t *read, il_db_args_t *args)
{
    il_doc_t       *d = (il_doc_t *) read;
    il_schedule_t  *s = d->more;

    il_doc_put(read, args);
    il_db_put_uuid(args, 2, s->plan_id);
    il_who_put(args, 3, d->r, &s->who);
    il_db_put_int(args, 7, IL_SCHEDULE_STEP);
}


/* Acts on a plan, which has its range already. */

static void
il_schedule_act(il_doc_t *d, const il_field_t *in, il_str_t plan)
{
    il_req_t       *r = d->r;
    il_schedule_t  *s = d->more;

    if (in[2].seen || in[3].seen || in[4].seen) {
        il_body_invalid(r, in[2].seen ? "from" : in[3].seen ? "to"
                        : "subjects", "is that of the plan already");
        return;
    }

    if (il_who_demand(r, &s->who) != 0) {
        return;
    }

    d->missing = "There is no such plan.";

    if (il_uuid_parse(s->plan_id, plan) != 0) {
        il_req_problem(r, IL_P_NOT_FOUND, d->missing);
        return;
    }

    d->read.sql = "select * from interlock.schedule_backfill("
                  "$1, $2, $3, $4, $5, $6, $7, $8)";
    d->read.signature = "ITUTTLTI";
    d->read.put = il_schedule_put_backfill;
    d->read.done = il_doc_again_done;
    il_doc_queue(d);
}


void
il_schedule_backfill(il_req_t *r)
{
    il_str_t        plan;
    il_doc_t       *d;
    il_field_t      in[] = {
        IL_WHO_FIELDS,
        { .name = "from", .types = IL_T_STRING },
        { .name = "to", .types = IL_T_STRING },
        { .name = "subjects", .types = IL_T_ARRAY },
        { .name = "plan_id", .types = IL_T_STRING }
    };
    il_schedule_t  *s;

    d = il_schedule_doc(r, "select * from interlock.schedule_backfill_plan("
                        "$1, $2, $3::date, $4::date, null, $5, $6, $7, $8)",
                        "ITTTTTLT", il_schedule_put_plan,
                        il_doc_problem_done);
    if (d == NULL) {
        return;
    }

    s = d->more;

    if (il_who_read(r, &s->who, in, 6, 0) != 0
        || il_body_string(r, &in[5], 64, &plan) != 0)
    {
        return;
    }

    if (plan.data != NULL) {
        il_schedule_act(d, in, plan);
        return;
    }

    if (il_schedule_body_date(r, &in[2], &s->date) != 0
        || il_schedule_body_date(r, &in[3], &s->to) != 0
        || il_schedule_subjects(r, &in[4], s) != 0)
    {
        return;
    }

    if (s->subjects != NULL) {
        d->read.sql = "select * from interlock.schedule_backfill_plan("
                      "$1, $2, $3::date, $4::date, $5, $6, $7, $8, $9)";
        d->read.signature = "ITTTtTTLT";
    }

    il_doc_queue(d);
}
