/*
 * check.c: the threads that look things up.
 *
 * Each has a connection of its own and at most one look-up under way.  The
 * first one asks the database once a second what is due; while there is
 * something, it wakes the next.  What was taken and never answered (this
 * process died) is due again when its time is over.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "log.h"
#include "metrics.h"
#include "park.h"
#include "server.h"


#define IL_CHECK_POLL_MS  1000


typedef struct {
    int32_t   tenant;
    uint8_t   id[IL_UUID_BYTES];
    int32_t   try;
    il_str_t  subject;
    il_str_t  spec;
    il_str_t  vars;
} il_check_t;


static struct {
    pthread_mutex_t  lock;
    pthread_cond_t   wake;
    int              stop;
    size_t           hints;         /* for threads that sleep */
    size_t           max;           /* of threads; as they start */
    pthread_t       *threads;
    size_t           n;             /* that were started; main()'s */
} il_checks = {
    .lock = PTHREAD_MUTEX_INITIALIZER
};


int
il_check_stopping(void)
{
    return __atomic_load_n(&il_checks.stop, __ATOMIC_RELAXED);
}


void
il_check_hint(void)
{
    (void) pthread_mutex_lock(&il_checks.lock);

    if (il_checks.hints < il_checks.max) {
        il_checks.hints++;
    }

    (void) pthread_cond_signal(&il_checks.wake);
    (void) pthread_mutex_unlock(&il_checks.lock);
}


/* Until a hint, or, for the first thread, until it is time to ask.  -1 when
 * it is time to end. */

static int
il_check_sleep(int first)
{
    int              rc, stop;
    int64_t          until;
    struct timespec  ts;

    until = il_now_ms() + IL_CHECK_POLL_MS;
    ts.tv_sec = until / 1000;
    ts.tv_nsec = (until % 1000) * 1000000;

    (void) pthread_mutex_lock(&il_checks.lock);

    rc = 0;

    while (!il_checks.stop && il_checks.hints == 0 && rc != ETIMEDOUT) {
        rc = first ? pthread_cond_timedwait(&il_checks.wake, &il_checks.lock,
                                            &ts)
                   : pthread_cond_wait(&il_checks.wake, &il_checks.lock);
    }

    if (il_checks.hints > 0) {
        il_checks.hints--;
    }

    stop = il_checks.stop;

    (void) pthread_mutex_unlock(&il_checks.lock);

    return stop ? -1 : 0;
}


static void
il_check_look(const il_check_t *check, il_lookup_verdict_t *v,
    il_check_call_t *call)
{
    il_str_t  body;

    memset(v, 0, sizeof(*v));
    memset(call, 0, sizeof(*call));

    if (il_check_build(&il_srv.conf, check->spec, check->vars, call) != 0
        || il_check_http(&il_srv.conf, call) != 0)
    {
        (void) snprintf(v->detail, sizeof(v->detail), "%s", call->why);
        return;
    }

    body = il_str(call->answer, call->answer_len);

    il_lookup_judge(check->spec, call->status, call->head ? NULL : &body, v);
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
il_check_one(il_link_t *link, il_check_call_t *call)
{
    int                  taken;
    il_check_t           check;
    il_db_args_t         args;
    il_db_rc_e           rc;
    il_db_result_t      *res;
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
        il_check_hint();
        il_check_look(&check, &v, call);

        if (!il_check_stopping()) {
            il_check_answer(link, &check, &v);
        }

        il_check_call_free(call);
    }

    il_db_result_free(res);

    return taken;
}


static void *
il_check_main(void *arg)
{
    int               first;
    il_link_t         link;
    il_check_call_t  *call;

    first = (arg != NULL);

    call = malloc(sizeof(il_check_call_t));
    if (call == NULL) {
        il_log(IL_LOG_ERROR, "look-ups: out of memory");
        return NULL;
    }

    il_link_init(&link, &il_srv.conf, "interlockd check");

    while (il_check_sleep(first) == 0) {
        while (!il_check_stopping() && il_link_up(&link) == 0
               && il_check_one(&link, call))
        {
            /* void */
        }
    }

    il_link_close(&link);
    free(call);

    return NULL;
}


int
il_check_start(void)
{
    size_t              n;
    pthread_condattr_t  attr;

    n = (size_t) il_srv.conf.check_threads;

    if (n == 0) {
        return 0;
    }

    if (il_check_http_init() != 0
        || pthread_condattr_init(&attr) != 0
        || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0
        || pthread_cond_init(&il_checks.wake, &attr) != 0)
    {
        return -1;
    }

    (void) pthread_condattr_destroy(&attr);

    il_checks.max = n;
    il_checks.threads = calloc(n, sizeof(pthread_t));
    if (il_checks.threads == NULL) {
        return -1;
    }

    while (il_checks.n < n) {
        if (pthread_create(&il_checks.threads[il_checks.n], NULL,
                           il_check_main, il_checks.n == 0 ? &il_checks : NULL)
            != 0)
        {
            return -1;
        }

        il_checks.n++;
    }

    return 0;
}


void
il_check_stop(void)
{
    size_t  i;

    if (il_checks.threads == NULL) {
        return;
    }

    (void) pthread_mutex_lock(&il_checks.lock);
    __atomic_store_n(&il_checks.stop, 1, __ATOMIC_RELAXED);
    (void) pthread_cond_broadcast(&il_checks.wake);
    (void) pthread_mutex_unlock(&il_checks.lock);

    for (i = 0; i < il_checks.n; i++) {
        (void) pthread_join(il_checks.threads[i], NULL);
    }

    free(il_checks.threads);
    il_check_http_free();
}
