/*
 * sweep.c: two threads beside the requests.
 *
 * The sweeper recovers expired leases, prunes, and asks whether the server
 * may still be trusted.  The poller finds what became runnable without a hint
 * of this process: retries that are due, jobs of other interlockds.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "log.h"
#include "metrics.h"
#include "park.h"
#include "server.h"


#define IL_RECOVER_LIMIT  200
#define IL_PRUNE_LIMIT    1000
#define IL_PRUNE_MS       60000
#define IL_CHECK_MS       5000
#define IL_POLL_MS        1000
#define IL_POLL_PAIRS     2000


static struct {
    pthread_mutex_t  lock;
    pthread_cond_t   wake;
    int              stop;
    int              started;
    pthread_t        sweeper;
    pthread_t        poller;
} il_sweep = {
    .lock = PTHREAD_MUTEX_INITIALIZER
};


/* Sleeps; -1 when it is time to end. */

static int
il_sweep_sleep(int64_t ms)
{
    int              stop;
    int64_t          until;
    struct timespec  ts;

    until = il_now_ms() + ms;
    ts.tv_sec = until / 1000;
    ts.tv_nsec = (until % 1000) * 1000000;

    (void) pthread_mutex_lock(&il_sweep.lock);

    while (!il_sweep.stop
           && pthread_cond_timedwait(&il_sweep.wake, &il_sweep.lock, &ts)
              != ETIMEDOUT)
    {
        /* void */
    }

    stop = il_sweep.stop;

    (void) pthread_mutex_unlock(&il_sweep.lock);

    return stop ? -1 : 0;
}


static int
il_sweep_stopping(void)
{
    int  stop;

    (void) pthread_mutex_lock(&il_sweep.lock);
    stop = il_sweep.stop;
    (void) pthread_mutex_unlock(&il_sweep.lock);

    return stop;
}


static void
il_sweep_recovered(const il_db_result_t *res)
{
    int       kind, runnable, tenant, ended;
    size_t    row, pos;
    uint8_t   id[IL_UUID_BYTES];
    int64_t   t, ms;
    il_str_t  name, list;

    kind = il_db_column(res, "kind");
    runnable = il_db_column(res, "runnable_kind");
    tenant = il_db_column(res, "tenant");
    ended = il_db_column(res, "ended_jobs");

    for (row = 0; row < il_db_rows(res); row++) {

        il_metric_add_str(IL_MT_STALE_RECOVERY, 1,
                          il_db_cell(res, row, kind), il_str("", 0),
                          il_str("", 0));

        name = il_db_cell(res, row, runnable);

        if (name.data != NULL
            && il_db_cell_int(res, row, tenant, &t) == 0)
        {
            il_park_hint((int32_t) t, name, 1);
        }

        if (il_db_cell_int(res, row, il_db_column(res, "blocked_ms"), &ms)
            == 0)
        {
            il_metric_observe_str(IL_MT_LOCK_WAIT, (double) ms / 1000,
                                  il_db_cell(res, row, kind), il_str("", 0),
                                  il_str("", 0));
        }

        pos = 0;
        list = il_db_cell(res, row, ended);

        while (il_db_uuid_next(list, &pos, id)) {
            il_park_ended(id);
        }
    }
}


/* One bounded pass after the other, while they are full. */

static void
il_sweep_recover(il_link_t *link)
{
    size_t           rows;
    il_db_args_t     args;
    il_db_rc_e       rc;
    il_db_result_t  *res;

    do {
        il_db_args_init(&args, "I");
        il_db_put_int(&args, 0, IL_RECOVER_LIMIT);

        rc = il_link_call(link, "select * from interlock.recover($1)", &args,
                          &res);
        il_db_args_free(&args);

        if (rc != IL_DB_OK) {
            return;
        }

        rows = il_db_rows(res);
        il_sweep_recovered(res);
        il_db_result_free(res);

        if (rows > 0) {
            il_log(IL_LOG_NOTICE, "recovered %zu attempts whose lease had "
                   "ended", rows);
        }

    } while (rows >= IL_RECOVER_LIMIT && !il_sweep_stopping());
}


static void
il_sweep_prune(il_link_t *link)
{
    int64_t          n;
    il_db_args_t     args;
    il_db_rc_e       rc;
    il_db_result_t  *res;

    do {
        il_db_args_init(&args, "I");
        il_db_put_int(&args, 0, IL_PRUNE_LIMIT);

        rc = il_link_call(link, "select interlock.prune($1)", &args, &res);
        il_db_args_free(&args);

        if (rc != IL_DB_OK) {
            return;
        }

        if (il_db_cell_int(res, 0, 0, &n) != 0) {
            n = 0;
        }

        il_db_result_free(res);

    } while (n >= IL_PRUNE_LIMIT && !il_sweep_stopping());
}


static void *
il_sweep_main(void *arg)
{
    int64_t    now, checked, pruned;
    il_link_t  link;

    (void) arg;

    il_link_init(&link, &il_srv.conf, "interlockd sweep");
    checked = il_now_ms();
    pruned = 0;

    do {
        if (il_link_up(&link) != 0) {
            continue;
        }

        now = il_now_ms();

        if (now - checked >= IL_CHECK_MS) {
            checked = now;

            if (il_link_check(&link) != 0) {
                continue;
            }
        }

        il_sweep_recover(&link);

        if (link.db != NULL && il_db_is_open(link.db)
            && now - pruned >= IL_PRUNE_MS)
        {
            pruned = now;
            il_sweep_prune(&link);
        }

    } while (il_sweep_sleep(il_srv.conf.recover_interval) == 0);

    il_link_close(&link);

    return NULL;
}


/* -------------------------------------------------------------- the poller */


static void
il_sweep_poll(il_link_t *link, il_park_pair_t *pairs, size_t n)
{
    int              ord, ready, next;
    size_t           i, row;
    int64_t          o, count, at;
    il_db_rc_e       rc;
    il_db_args_t     args;
    il_db_result_t  *res;

    il_db_args_init(&args, "it");

    for (i = 0; i < n; i++) {
        il_db_put_int(&args, 0, pairs[i].tenant);
        il_db_put_text(&args, 1, il_cstr(pairs[i].kind));
    }

    rc = il_link_call(link, "select * from interlock.runnable($1, $2)", &args,
                      &res);
    il_db_args_free(&args);

    if (rc != IL_DB_OK) {
        return;
    }

    ord = il_db_column(res, "ord");
    ready = il_db_column(res, "ready");
    next = il_db_column(res, "next_at");

    for (row = 0; row < il_db_rows(res); row++) {
        if (il_db_cell_int(res, row, ord, &o) != 0 || o < 1
            || (uint64_t) o > n
            || il_db_cell_int(res, row, ready, &count) != 0 || count < 0)
        {
            continue;
        }

        if (il_db_cell_time(res, row, next, &at) != 0) {
            at = 0;
        }

        il_park_found(&pairs[o - 1], (size_t) count, at);
    }

    il_db_result_free(res);
}


static void *
il_poll_main(void *arg)
{
    size_t           n;
    il_link_t        link;
    il_park_pair_t  *pairs;

    (void) arg;

    il_link_init(&link, &il_srv.conf, "interlockd poll");

    pairs = calloc(IL_POLL_PAIRS, sizeof(il_park_pair_t));
    if (pairs == NULL) {
        il_log(IL_LOG_ERROR, "poll: out of memory");
        abort();
    }

    while (il_park_sleep(IL_POLL_MS) == 0) {

        il_park_relook(IL_POLL_MS);

        n = il_park_pairs(pairs, IL_POLL_PAIRS);

        if (n > 0 && il_link_up(&link) == 0) {
            il_sweep_poll(&link, pairs, n);
        }
    }

    free(pairs);
    il_link_close(&link);

    return NULL;
}


int
il_sweep_start(void)
{
    pthread_condattr_t  attr;

    if (pthread_condattr_init(&attr) != 0
        || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0
        || pthread_cond_init(&il_sweep.wake, &attr) != 0)
    {
        return -1;
    }

    (void) pthread_condattr_destroy(&attr);

    if (pthread_create(&il_sweep.sweeper, NULL, il_sweep_main, NULL) != 0) {
        return -1;
    }

    if (pthread_create(&il_sweep.poller, NULL, il_poll_main, NULL) != 0) {
        return -1;
    }

    il_sweep.started = 1;

    return 0;
}


void
il_sweep_stop(void)
{
    if (!il_sweep.started) {
        return;
    }

    (void) pthread_mutex_lock(&il_sweep.lock);
    il_sweep.stop = 1;
    (void) pthread_cond_broadcast(&il_sweep.wake);
    (void) pthread_mutex_unlock(&il_sweep.lock);

    il_park_stop();

    (void) pthread_join(il_sweep.sweeper, NULL);
    (void) pthread_join(il_sweep.poller, NULL);
    (void) pthread_cond_destroy(&il_sweep.wake);
}
