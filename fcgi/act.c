/*
 * act.c: what an operator does to a job or a work: cancel, publish.  Who (the
 * token, and the name given), and why, is stored by the database in the same
 * transaction, under an id that the call gets before its first try: after a
 * lost COMMIT the second try finds what the first one did.
 */

#include "body.h"
#include "buf.h"
#include "doc.h"
#include "il_uuid.h"
#include "route.h"
#include "server.h"


#define IL_TEXT_MAX  1024


typedef struct {
    uint8_t   call[IL_UUID_BYTES];
    uint8_t   job_id[IL_UUID_BYTES];
    int64_t   revision;
    il_str_t  requested_by;        /* data NULL: none; so below */
    il_str_t  reason;
} il_act_t;


static il_doc_t *
il_act_new(il_req_t *r, il_act_t **a, const char *sql, const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p))
{
    il_doc_t  *d;

    d = il_doc_new(r, sql, signature, put, done);
    if (d == NULL) {
        return NULL;
    }

    *a = il_pool_get(&r->pool, sizeof(il_act_t));
    if (*a == NULL) {
        il_req_internal(r);
        return NULL;
    }

    il_uuid7((*a)->call, (uint64_t) il_wall_ms());
    d->more = *a;

    return d;
}


/* requested_by and reason, and what else the action has. */

static int
il_act_read(il_req_t *r, il_act_t *a, il_field_t *in, size_t n, int empty)
{
    if (il_body_fields(r, in, n, empty) != 0
        || il_body_string(r, &in[0], IL_TEXT_MAX, &a->requested_by) != 0
        || il_body_string(r, &in[1], IL_TEXT_MAX, &a->reason) != 0)
    {
        return -1;
    }

    return 0;
}


/* The last five arguments of every action. */

static void
il_act_put_who(il_doc_t *d, il_db_args_t *args)
{
    il_act_t  *a = d->more;

    il_db_put_text(args, args->n - 5, a->requested_by);
    il_db_put_text(args, args->n - 4, a->reason);
    il_db_put_big(args, args->n - 3, d->r->who.token_id);
    il_db_put_text(args, args->n - 2, il_cstr(d->r->who.token_name));
    il_db_put_uuid(args, args->n - 1, a->call);
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


void
il_act_cancel(il_req_t *r)
{
    il_act_t    *a;
    il_doc_t    *d;
    il_field_t   in[] = {
        { .name = "requested_by", .types = IL_T_STRING },
        { .name = "reason", .types = IL_T_STRING }
    };

    d = il_act_new(r, &a, "select * from interlock.job_cancel("
                   "$1, $2, $3, $4, $5, $6, $7)", "IUTTLTU",
                   il_act_put_cancel, il_doc_problem_done);

    if (d == NULL || il_act_read(r, a, in, 2, 1) != 0) {
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
        { .name = "requested_by", .types = IL_T_STRING },
        { .name = "reason", .types = IL_T_STRING },
        { .name = "revision", .types = IL_T_NUMBER }
    };

    if (il_doc_key(r) != 0) {
        return;
    }

    d = il_act_new(r, &a, "select * from interlock.work_publish("
                   "$1, $2, $3, $4, $5, $6, $7, $8)", "ITITTLTU",
                   il_act_put_publish, il_doc_problem_done);

    if (d == NULL || il_act_read(r, a, in, 3, 0) != 0
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
