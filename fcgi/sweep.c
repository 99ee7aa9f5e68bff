/*
 * sweep.c: three threads beside the requests.
 *
 * The sweeper recovers expired leases, ends jobs that waited too long, lets
 * go of what waits for a limit that has room, hands look-ups to workers,
 * prunes, and asks whether the server may still be trusted.  The scheduler
 * fires the slots of schedules, looks for gaps and for what alerts are about,
 * and samples the queues: of these there may be very many at once, and no
 * lease waits for them.  The poller finds what became runnable without a hint
 * of this process: retries that are due, jobs of other interlockds.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "log.h"
#include "metrics.h"
#include "park.h"
#include "seal.h"
#include "server.h"


#define IL_RECOVER_LIMIT  200
#define IL_EXPIRE_LIMIT   500
#define IL_LIMITS_LIMIT   2000
#define IL_CHECKS_LIMIT   200
#define IL_EFFECTS_LIMIT  200
#define IL_ALERTS_LIMIT   500
#define IL_SLOTS_LIMIT    500
#define IL_GAPS_LIMIT     500
#define IL_SERIES_LIMIT   5000
#define IL_PASSES_MAX     20
#define IL_SLOT_PASSES    4
#define IL_SLOTS_JUST_MS  20
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
    pthread_t        scheduler;
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


/* What each of these sweeps calls, and how it is told. */

typedef struct {
    const char   *sql;
    int32_t       limit;           /* rows, or works, of a pass */
    size_t        full;            /* rows of a pass that may not be the last */
    const char   *notice;          /* behind the number; NULL: not told */
    il_metric_e   metric;          /* by kind, or IL_MT_MAX */
    const char   *count;           /* the number is the sum of this column;
                                      NULL: that of the rows */
} il_sweep_t;


static const il_sweep_t  il_sweeps[] = {
    { "select * from interlock.recover($1)", IL_RECOVER_LIMIT,
      IL_RECOVER_LIMIT, "attempts recovered: their lease had ended",
      IL_MT_STALE_RECOVERY, NULL },
    { "select * from interlock.expire($1)", IL_EXPIRE_LIMIT,
      IL_EXPIRE_LIMIT,
      "jobs expired: they had waited for longer than max_wait",
      IL_MT_JOBS_EXPIRED, NULL },
    { "select * from interlock.limits_sweep($1)", IL_LIMITS_LIMIT, 1,
      NULL, IL_MT_MAX, NULL },
    { "select * from interlock.effects_overdue($1)", IL_EFFECTS_LIMIT,
      IL_EFFECTS_LIMIT, "effects became unknown, or a human's",
      IL_MT_MAX, NULL },
    { "select * from interlock.effects_evidence($1)", IL_EFFECTS_LIMIT,
      IL_EFFECTS_LIMIT, "effects were told by webhooks", IL_MT_MAX, NULL },
    { "select * from interlock.checks_hand_out($1)", IL_CHECKS_LIMIT,
      IL_CHECKS_LIMIT, NULL, IL_MT_MAX, NULL },
    { "select * from interlock.checks_unanswered($1)", IL_CHECKS_LIMIT,
      IL_CHECKS_LIMIT, "look-ups that no worker answered", IL_MT_MAX, NULL }
};


/* Those of the scheduler. */

static const il_sweep_t  il_slot_sweeps[] = {
    { "select * from interlock.schedule_scan($1)", IL_SLOTS_LIMIT, SIZE_MAX,
      NULL, IL_MT_MAX, NULL },
    { "select * from interlock.gap_scan($1)", IL_GAPS_LIMIT, SIZE_MAX,
      "gaps opened: slots whose work is not done after its grace time",
      IL_MT_MAX, "opened" },
    { "select * from interlock.alert_scan($1)", IL_ALERTS_LIMIT, SIZE_MAX,
      "events for alerts", IL_MT_MAX, "events" },
    { "select * from interlock.series_sweep($1)", IL_SERIES_LIMIT, SIZE_MAX,
      NULL, IL_MT_MAX, NULL }
};


#define IL_SWEEPS       (sizeof(il_sweeps) / sizeof(il_sweeps[0]))
#define IL_SLOT_SWEEPS  (sizeof(il_slot_sweeps) / sizeof(il_slot_sweeps[0]))


/* Tells whom it concerns; 1 if a row says that there is more to do. */

static int
il_sweep_told(const il_sweep_t *sweep, const il_db_result_t *res)
{
    int      kind, wake, tenant, ended, blocked, more, again;
    size_t   row;
    int64_t  t, ms;

    kind = il_db_column(res, "kind");
    wake = il_db_column(res, "wake_kinds");
    tenant = il_db_column(res, "tenant");
    ended = il_db_column(res, "ended_jobs");
    blocked = il_db_column(res, "blocked_ms");
    more = il_db_column(res, "more");
    again = 0;

    for (row = 0; row < il_db_rows(res); row++) {

        if (sweep->metric != IL_MT_MAX) {
            il_metric_add_str(sweep->metric, 1, il_db_cell(res, row, kind),
                              il_str("", 0), il_str("", 0));
        }

        if (il_db_cell_int(res, row, tenant, &t) == 0) {
            il_park_hint_kinds((int32_t) t, il_db_cell(res, row, wake));
        }

        if (il_db_cell_int(res, row, blocked, &ms) == 0) {
            il_metric_observe_str(IL_MT_LOCK_WAIT, (double) ms / 1000,
                                  il_db_cell(res, row, kind), il_str("", 0),
                                  il_str("", 0));
        }

        il_park_ended_jobs(il_db_cell(res, row, ended));
        again |= il_db_cell_bool(res, row, more);
    }

    return again;
}


static void
il_sweep_notice(const il_sweep_t *sweep, const il_db_result_t *res)
{
    int      col;
    size_t   row;
    int64_t  n, sum;

    if (sweep->notice == NULL) {
        return;
    }

    sum = (int64_t) il_db_rows(res);

    if (sweep->count != NULL) {
        col = il_db_column(res, sweep->count);
        sum = 0;

        for (row = 0; row < il_db_rows(res); row++) {
            if (il_db_cell_int(res, row, col, &n) == 0) {
                sum += n;
            }
        }
    }

    if (sum > 0) {
        il_log(IL_LOG_NOTICE, "%lld %s", (long long) sum, sweep->notice);
    }
}


/* One bounded pass after the other, while they are full; after so many it is
 * the next sweep's turn.  A pass that takes too long is tried again with half
 * of it: *limit is how much of it is tried now.  1 if there is more to do. */

static int
il_sweep_passes(il_link_t *link, const il_sweep_t *sweep, unsigned passes,
    int32_t *limit)
{
    int              more;
    unsigned         pass;
    il_db_args_t     args;
    il_db_rc_e       rc;
    il_db_result_t  *res;

    more = 0;

    for (pass = 0; pass < passes; pass++) {
        il_db_args_init(&args, "I");
        il_db_put_int(&args, 0, *limit);

        rc = il_link_call(link, sweep->sql, &args, &res);
        il_db_args_free(&args);

        if (rc != IL_DB_OK) {
            *limit = *limit > 1 ? *limit / 2 : 1;
            return 0;
        }

        *limit = *limit < sweep->limit / 2 ? *limit * 2 : sweep->limit;

        more = il_sweep_told(sweep, res) || il_db_rows(res) >= sweep->full;
        il_sweep_notice(sweep, res);
        il_db_result_free(res);

        if (!more || il_sweep_stopping()) {
            break;
        }
    }

    return more;
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


static int
il_sweep_linked(const il_link_t *link)
{
    return link->db != NULL && il_db_is_open(link->db);
}


/* Each sweep of a table, so many passes of it.  1 if one has more to do. */

static int
il_sweep_table(il_link_t *link, const il_sweep_t *sweeps, size_t n,
    unsigned passes, int32_t *limits)
{
    int     more;
    size_t  i;

    for (i = 0, more = 0; i < n; i++) {
        if (limits[i] == 0) {
            limits[i] = sweeps[i].limit;
        }

        if (il_sweep_linked(link)
            && il_sweep_passes(link, &sweeps[i], passes, &limits[i]))
        {
            more = 1;
        }
    }

    return more;
}


static void *
il_sweep_main(void *arg)
{
    int32_t    limits[IL_SWEEPS] = { 0 };
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

        (void) il_sweep_table(&link, il_sweeps, IL_SWEEPS, IL_PASSES_MAX,
                              limits);

        if (il_sweep_linked(&link)) {
            il_seal(&link);
        }

        if (il_sweep_linked(&link) && now - pruned >= IL_PRUNE_MS) {
            pruned = now;
            il_sweep_prune(&link);
        }

    } while (il_sweep_sleep(il_srv.conf.recover_interval) == 0);

    il_link_close(&link);

    return NULL;
}


/* ----------------------------------------------------------- the scheduler */


/* In how many ms a slot is due; -1: none is, or it is not known. */

static int64_t
il_slots_due(il_link_t *link)
{
    int64_t          ms;
    il_db_result_t  *res;

    if (!il_sweep_linked(link)
        || il_link_call(link, "select * from interlock.schedule_due()", NULL,
                        &res) != IL_DB_OK)
    {
        return -1;
    }

    if (il_db_cell_int(res, 0, 0, &ms) != 0) {
        ms = -1;
    }

    il_db_result_free(res);

    return ms;
}


/* Until the next turn.  A slot that has just become due may have been missed
 * by the last one.  -1 when it is time to end. */

static int
il_slots_wait(il_link_t *link, int more)
{
    int64_t  due;

    if (more) {
        return il_sweep_stopping() ? -1 : 0;
    }

    due = il_slots_due(link);

    if (due == 0) {
        due = IL_SLOTS_JUST_MS;
    }

    if (due < 0 || due > il_srv.conf.recover_interval) {
        due = il_srv.conf.recover_interval;
    }

    return il_sweep_sleep(due);
}


/* A few passes of each in turn, so that none keeps the others waiting, until
 * nothing is left to do; then at the next slot's time, or once an interval. */

static void *
il_slots_main(void *arg)
{
    int        more;
    int32_t    limits[IL_SLOT_SWEEPS] = { 0 };
    il_link_t  link;

    (void) arg;

    il_link_init(&link, &il_srv.conf, "interlockd slots");

    do {
        more = 0;

        if (il_link_up(&link) != 0) {
            continue;
        }

        more = il_sweep_table(&link, il_slot_sweeps, IL_SLOT_SWEEPS,
                              IL_SLOT_PASSES, limits);

    } while (il_slots_wait(&link, more) == 0);

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
    int              rc;
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

    while ((rc = il_park_sleep(IL_POLL_MS)) >= 0) {

        il_park_relook(rc > 0 ? 0 : IL_POLL_MS);

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

    if (pthread_create(&il_sweep.scheduler, NULL, il_slots_main, NULL) != 0) {
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
    (void) pthread_join(il_sweep.scheduler, NULL);
    (void) pthread_join(il_sweep.poller, NULL);
    (void) pthread_cond_destroy(&il_sweep.wake);
}
