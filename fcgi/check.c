/*
 * check.c: the threads that look things up.
 */

#include <stdio.h>

#include "check.h"
#include "crew.h"
#include "log.h"
#include "metrics.h"
#include "park.h"
#include "server.h"


typedef struct {
    int32_t   tenant;
    uint8_t   id[IL_UUID_BYTES];
    int32_t   try;
    il_str_t  subject;
    il_str_t  spec;
    il_str_t  vars;
} il_check_t;


static int il_check_one(il_crew_t *crew, il_link_t *link, void *room);


static il_crew_t  il_checks = {
    .app = "interlockd check",
    .room = sizeof(il_check_call_t),
    .one = il_check_one,
    .lock = PTHREAD_MUTEX_INITIALIZER
};


int
il_check_stopping(void)
{
    return il_crew_stopping(&il_checks);
}


static void
il_check_look(const il_check_t *check, il_lookup_verdict_t *v,
    il_check_call_t *call)
{
    il_str_t       body;
    il_outcall_t  *out = &call->out;
    il_outrules_t  rules;

    memset(v, 0, sizeof(*v));
    memset(call, 0, sizeof(*call));
    il_check_rules(&il_srv.conf, &rules);

    if (il_check_build(&il_srv.conf, check->spec, check->vars, call) != 0
        || il_outcall(&rules, out) != 0)
    {
        (void) snprintf(v->detail, sizeof(v->detail), "%s", out->why);
        return;
    }

    body = il_str(out->answer, out->answer_len);

    il_lookup_judge(check->spec, out->status, out->head ? NULL : &body, v);
}


static void
il_check_told(const il_check_t *check, const il_lookup_verdict_t *v,
    const il_db_result_t *res)
{
    il_str_t  outcome;

    outcome = il_db_cell(res, 0, il_db_column(res, "outcome"));

    il_metric_add_str(IL_MT_CHECKS, 1, check->subject,
                      il_cstr(il_lookup_name(v->answer)), outcome);
    il_park_hint_kinds(check->tenant,
                       il_db_cell(res, 0, il_db_column(res, "wake_kinds")));
    il_park_ended_jobs(il_db_cell(res, 0, il_db_column(res, "ended_jobs")));

    il_log(IL_LOG_INFO, "look-up of a %.*s: %s (%s), %.*s",
           (int) check->subject.len, check->subject.data,
           il_lookup_name(v->answer), v->detail,
           (int) outcome.len, outcome.len != 0 ? outcome.data : "");
}


/* An answer that cannot be stored is no answer: it is looked up again. */

static void
il_check_answer(il_link_t *link, const il_check_t *check,
    const il_lookup_verdict_t *v)
{
    unsigned         tries;
    il_db_rc_e       rc;
    il_db_args_t     args;
    il_db_result_t  *res;

    for (tries = 0; tries < 5; tries++) {
        if (il_link_up(link) != 0) {
            return;
        }

        il_db_args_init(&args, "iuitttt");
        il_db_put_int(&args, 0, check->tenant);
        il_db_put_uuid(&args, 1, check->id);
        il_db_put_int(&args, 2, check->try);
        il_db_put_text(&args, 3, il_cstr(il_lookup_name(v->answer)));
        il_db_put_text(&args, 4, il_cstr(v->detail));
        il_db_put_text(&args, 5, il_str(v->ref_len ? v->ref : NULL,
                                        v->ref_len));
        il_db_put_text(&args, 6, v->result.len ? v->result : il_str(NULL, 0));

        rc = il_link_call(link, "select * from interlock.checks_answer($1, "
                          "$2, $3, $4, $5, $6, $7)", &args, &res);
        il_db_args_free(&args);

        if (rc == IL_DB_OK) {
            il_check_told(check, v, res);
            il_db_result_free(res);
            return;
        }

        if (rc == IL_DB_UNEXPECTED || il_check_stopping()) {
            return;
        }
    }
}


static int
il_check_row(const il_db_result_t *res, il_check_t *check)
{
    int64_t  tenant, try;

    if (il_db_rows(res) != 1
        || il_db_cell_int(res, 0, il_db_column(res, "tenant"), &tenant) != 0
        || il_db_cell_int(res, 0, il_db_column(res, "try"), &try) != 0
        || il_db_cell_uuid(res, 0, il_db_column(res, "check_id"), check->id)
           != 0)
    {
        return -1;
    }

    check->tenant = (int32_t) tenant;
    check->try = (int32_t) try;
    check->subject = il_db_cell(res, 0, il_db_column(res, "subject"));
    check->spec = il_db_cell(res, 0, il_db_column(res, "spec"));
    check->vars = il_db_cell(res, 0, il_db_column(res, "vars"));

    return 0;
}


/* Takes one and looks it up.  1, or 0: nothing is due. */

static int
il_check_one(il_crew_t *crew, il_link_t *link, void *room)
{
    int                  taken;
    il_check_t           check;
    il_db_args_t         args;
    il_db_rc_e           rc;
    il_db_result_t      *res;
    il_check_call_t     *call = room;
    il_lookup_verdict_t  v;

    il_db_args_init(&args, "I");
    il_db_put_int(&args, 0, 1);

    rc = il_link_call(link, "select * from interlock.checks_take($1)", &args,
                      &res);
    il_db_args_free(&args);

    if (rc != IL_DB_OK) {
        return 0;
    }

    taken = (il_check_row(res, &check) == 0);

    if (taken) {
        il_crew_hint(crew);
        il_check_look(&check, &v, call);

        if (!il_check_stopping()) {
            il_check_answer(link, &check, &v);
        }

        il_outcall_free(&call->out);
    }

    il_db_result_free(res);

    return taken;
}


int
il_check_start(void)
{
    return il_crew_start(&il_checks, (size_t) il_srv.conf.check_threads);
}


void
il_check_stop(void)
{
    il_crew_stop(&il_checks);
}
