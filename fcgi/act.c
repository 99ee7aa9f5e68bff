/*
 * act.c: what an operator does to jobs and works: cancel, revoke, decide,
 * redrive, publish.  Who, and why, is stored by the database in the same transaction.
 */

#include "buf.h"
#include "doc.h"
#include "hold.h"
#include "il_json.h"
#include "il_uuid.h"
#include "route.h"
#include "server.h"
#include "who.h"


#define IL_REDRIVE_STEP  500        /* jobs in one transaction */


typedef struct {
    il_who_t  who;
    uint8_t   job_id[IL_UUID_BYTES];
    uint8_t   plan_id[IL_UUID_BYTES];
    int64_t   revision;
    il_str_t  action;
    il_str_t  assignee;            /* data NULL: none */
    il_str_t  filter;              /* JSON */
} il_act_t;


static il_doc_t *
il_act_new(il_req_t *r, il_act_t **a, const char *sql, const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p))
{
    il_doc_t  *d;

    d = il_doc_more(r, sql, signature, put, done, sizeof(il_act_t));
    if (d == NULL) {
        return NULL;
    }

    *a = d->more;

    return d;
}


/* The last five arguments of every action. */

static void
il_act_put_who(il_doc_t *d, il_db_args_t *args)
{
    il_act_t  *a = d->more;

    il_who_put_call(args, args->n - 5, d->r, &a->who);
}


/* ------------------------------------------------------------------ cancel */


static void
il_act_put_cancel(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_act_t  *a = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_uuid(args, 1, a->job_id);
    il_act_put_who(d, args);
}


/* A job that is to end answers for nobody's request any more. */

static void
il_act_cancel_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_doc_t         *d = (il_doc_t *) read;
    size_t            len;
    char              key[IL_KEY_MAX];
    il_str_t          doc;
    il_json_value_t   value;

    if (res != NULL && il_db_rows(res) != 0) {
        doc = il_db_cell(res, 0, il_db_column(res, "doc"));

        if (doc.data != NULL
            && il_json_find(doc, il_cstr("/work_key"), &value) == IL_JSON_OK
            && il_json_scalar(&value, key, sizeof(key), &len) == 0)
        {
            il_hold_ended(d->r, il_str(key, len), d->r->args[0]);
        }
    }

    il_doc_problem_done(read, res, p);
}


void
il_act_cancel(il_req_t *r)
{
    il_act_t    *a;
    il_doc_t    *d;
    il_field_t   in[] = {
        IL_WHO_FIELDS
    };

    d = il_act_new(r, &a, "select * from interlock.job_cancel("
                   "$1, $2, $3, $4, $5, $6, $7)", "IUTTLTU",
                   il_act_put_cancel, il_act_cancel_done);

    if (d == NULL || il_who_read(r, &a->who, in, 2, 1) != 0) {
        return;
    }

    if (il_uuid_parse(a->job_id, r->args[0]) != 0) {
        il_req_problem(r, IL_P_NOT_FOUND, "There is no such job.");
        return;
    }

    d->status = 202;
    d->missing = "There is no such job.";
    il_doc_queue(d);
}


/* ------------------------------------------------------------------ revoke */


/* The job's owner is over, so answers for nobody's request either. */

void
il_act_revoke(il_req_t *r)
{
    il_act_t    *a;
    il_doc_t    *d;
    il_field_t   in[] = {
        IL_WHO_FIELDS
    };

    d = il_act_new(r, &a, "select * from interlock.job_revoke("
                   "$1, $2, $3, $4, $5, $6, $7)", "IUTTLTU",
                   il_act_put_cancel, il_act_cancel_done);

    if (d == NULL || il_who_read(r, &a->who, in, 2, 0) != 0
        || il_who_demand(r, &a->who) != 0)
    {
        return;
    }

    if (il_uuid_parse(a->job_id, r->args[0]) != 0) {
        il_req_problem(r, IL_P_NOT_FOUND, "There is no such job.");
        return;
    }

    d->missing = "There is no such job.";
    il_doc_queue(d);
}


/* ------------------------------------------------------------------ decide */


static int
il_act_known(il_str_t action)
{
    size_t  i;

    static const char *const  actions[] = {
        "retry", "succeed", "fail", "release"
    };

    for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (il_str_eq(action, il_cstr(actions[i]))) {
            return 1;
        }
    }

    return 0;
}


static void
il_act_put_decide(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_act_t  *a = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_uuid(args, 1, a->job_id);
    il_db_put_text(args, 2, a->action);
    il_db_put_text(args, 3, a->assignee);
    il_act_put_who(d, args);
}


void
il_act_decide(il_req_t *r)
{
    il_act_t    *a;
    il_doc_t    *d;
    il_field_t   in[] = {
        IL_WHO_FIELDS,
        { .name = "action", .types = IL_T_STRING },
        { .name = "assignee", .types = IL_T_STRING }
    };

    d = il_act_new(r, &a, "select * from interlock.job_decide("
                   "$1, $2, $3, $4, $5, $6, $7, $8, $9)", "IUTTTTLTU",
                   il_act_put_decide, il_doc_problem_done);

    if (d == NULL || il_who_read(r, &a->who, in, 4, 0) != 0
        || il_body_string(r, &in[2], IL_WHO_MAX, &a->action) != 0
        || il_body_string(r, &in[3], IL_WHO_MAX, &a->assignee) != 0)
    {
        return;
    }

    if (!il_act_known(a->action)) {
        il_body_invalid(r, "action", "must be one of retry, succeed, fail, "
                        "release");
        return;
    }

    if (il_who_demand(r, &a->who) != 0) {
        return;
    }

    if (il_uuid_parse(a->job_id, r->args[0]) != 0) {
        il_req_problem(r, IL_P_NOT_FOUND, "There is no such job.");
        return;
    }

    d->missing = "There is no such job.";
    il_doc_queue(d);
}


/* ----------------------------------------------------------------- redrive
 *
 * What a step of a plan did stays done; the same call again goes on where one
 * was cut off. */


static void
il_act_put_plan(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_act_t  *a = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, a->filter);
    il_who_put(args, 2, d->r, &a->who);
}


static void
il_act_put_redrive(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_act_t  *a = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_uuid(args, 1, a->plan_id);
    il_who_put(args, 2, d->r, &a->who);
    il_db_put_int(args, 6, IL_REDRIVE_STEP);
    il_db_put_text(args, 7, a->filter);
}


void
il_act_redrive(il_req_t *r)
{
    il_act_t    *a;
    il_doc_t    *d;
    il_str_t     plan;
    il_field_t   in[] = {
        IL_WHO_FIELDS,
        { .name = "filter", .types = IL_T_OBJECT },
        { .name = "plan_id", .types = IL_T_STRING }
    };

    d = il_act_new(r, &a, "select * from interlock.redrive_plan("
                   "$1, $2, $3, $4, $5, $6)", "ITTTLT", il_act_put_plan,
                   il_doc_problem_done);

    if (d == NULL || il_who_read(r, &a->who, in, 4, 0) != 0
        || il_body_string(r, &in[3], IL_WHO_MAX, &plan) != 0)
    {
        return;
    }

    d->missing = "There is no such plan.";

    if (in[2].seen) {
        a->filter = in[2].value.raw;

        if (memmem(a->filter.data, a->filter.len, "\\u0000", 6) != NULL) {
            il_body_invalid(r, "filter", "has a NUL character");
            return;
        }
    }

    if (plan.data != NULL) {
        d->read.sql = "select * from interlock.redrive("
                      "$1, $2, $3, $4, $5, $6, $7, $8)";
        d->read.signature = "IUTTLTIT";
        d->read.put = il_act_put_redrive;
        d->read.done = il_doc_again_done;

        if (il_who_demand(r, &a->who) != 0) {
            return;
        }

        if (il_uuid_parse(a->plan_id, plan) != 0) {
            il_req_problem(r, IL_P_NOT_FOUND, d->missing);
            return;
        }

    } else if (!in[2].seen) {
        il_body_invalid(r, "filter", "is missing");
        return;
    }

    il_doc_queue(d);
}


/* ----------------------------------------------------------------- publish */


static void
il_act_put_publish(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_act_t  *a = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, d->text);
    il_db_put_int(args, 2, (int32_t) a->revision);
    il_act_put_who(d, args);
}


void
il_act_publish(il_req_t *r)
{
    il_act_t    *a;
    il_doc_t    *d;
    il_field_t   in[] = {
        IL_WHO_FIELDS,
        { .name = "revision", .types = IL_T_NUMBER }
    };

    if (il_doc_key(r) != 0) {
        return;
    }

    d = il_act_new(r, &a, "select * from interlock.work_publish("
                   "$1, $2, $3, $4, $5, $6, $7, $8)", "ITITTLTU",
                   il_act_put_publish, il_doc_problem_done);

    if (d == NULL || il_who_read(r, &a->who, in, 3, 0) != 0
        || il_body_int(r, &in[2], 1, INT32_MAX, &a->revision) != 0)
    {
        return;
    }

    if (!in[2].seen) {
        il_body_invalid(r, in[2].name, "is missing");
        return;
    }

    d->missing = "There is no such result.";
    il_doc_queue(d);
}
