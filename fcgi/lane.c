/*
 * lane.c: queues, natural batches, second tries.
 */

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "events.h"
#include "lane.h"
#include "log.h"
#include "metrics.h"


/* Tries of one batch; before it the deadline ends most. */
#define IL_LANE_TRIES       100
#define IL_LANE_BUSY_TRIES  3

/* A batch ends at so many bytes of bodies, a queue at so many. */
#define IL_LANE_BATCH_BYTES  (8 << 20)
#define IL_LANE_QUEUE_BYTES  (256 << 20)

/* A row is hot if more than so many items of a lane are about it; they are
 * counted in so many slots, a power of 2. */
#define IL_LANE_HOT          16
#define IL_LANE_SLOTS        4096

/* How long an item waits for a database that is away before it is told so;
 * long enough for a restart of the server. */
#define IL_LANE_PATIENCE     2000


static int  il_lane_hurried;


void
il_lane_hurry(void)
{
    __atomic_store_n(&il_lane_hurried, 1, __ATOMIC_RELAXED);
}


/* Counts an item in or out: how many of the lane are in its slot then. */

static uint32_t
il_lane_count(il_lane_t *lane, const il_item_t *item, int by)
{
    if (item->about == 0) {
        return 0;
    }

    return __atomic_add_fetch(&lane->about[item->about
                                           & (IL_LANE_SLOTS - 1)],
                              (uint32_t) by, __ATOMIC_ACQ_REL);
}


static void
il_lane_count_all(il_lane_t *lane, const il_item_t *first, int by)
{
    for ( /* void */ ; first != NULL; first = first->next) {
        (void) il_lane_count(lane, first, by);
    }
}


/* The lane that these items belong into, in which they are counted then: all
 * in one, because their order counts. */

static il_lane_t *
il_lane_choose(il_lane_t *lane, il_item_t *first)
{
    int               hot;
    const il_item_t  *item;

    hot = 0;

    for (item = first; item != NULL; item = item->next) {
        if (il_lane_count(lane, item, 1) > IL_LANE_HOT
            || (lane->slow != NULL && il_lane_count(lane->slow, item, 0) > 0))
        {
            hot = 1;
        }
    }

    if (!hot || lane->slow == NULL) {
        return lane;
    }

    il_lane_count_all(lane, first, -1);
    il_lane_count_all(lane->slow, first, 1);

    return lane->slow;
}


int
il_lane_put_all(il_lane_t *lane, il_item_t *first, size_t n)
{
    size_t      bytes;
    int64_t     now;
    il_item_t  *item, *last;

    bytes = 0;
    last = first;
    now = il_now_ms();

    for (item = first; item != NULL; item = item->next) {
        item->since = now;
        item->tries = 0;
        bytes += item->bytes;
        last = item;
    }

    lane = il_lane_choose(lane, first);

    (void) pthread_mutex_lock(&lane->lock);

    if (lane->stop
        || (lane->count > 0
            && (lane->count + n > (size_t) lane->conf->queue_max
                || lane->bytes + bytes > IL_LANE_QUEUE_BYTES)))
    {
        (void) pthread_mutex_unlock(&lane->lock);
        il_lane_count_all(lane, first, -1);
        return -1;
    }

    *lane->tail = first;
    lane->tail = &last->next;
    lane->count += n;
    lane->bytes += bytes;

    (void) pthread_cond_signal(&lane->ready);
    (void) pthread_mutex_unlock(&lane->lock);

    return 0;
}


int
il_lane_put(il_lane_t *lane, il_item_t *item)
{
    item->next = NULL;

    return il_lane_put_all(lane, item, 1);
}


/* What is under way already is never refused for want of room. */

static void
il_lane_push(il_lane_t *lane, il_item_t *item)
{
    item->next = NULL;
    item->tries = 0;
    (void) il_lane_count(lane, item, 1);

    (void) pthread_mutex_lock(&lane->lock);

    *lane->tail = item;
    lane->tail = &item->next;
    lane->count++;
    lane->bytes += item->bytes;

    (void) pthread_cond_signal(&lane->ready);
    (void) pthread_mutex_unlock(&lane->lock);
}


void
il_lane_busy(il_lane_t *lane, il_item_t *item)
{
    item->busy++;

    if (item->busy >= IL_LANE_BUSY_TRIES && lane->slow != NULL) {
        lane = lane->slow;
    }

    il_lane_push(lane, item);
}


size_t
il_lane_depth(il_lane_t *lane)
{
    size_t  n;

    (void) pthread_mutex_lock(&lane->lock);
    n = lane->count;
    (void) pthread_mutex_unlock(&lane->lock);

    return n;
}


/* The next batch: everything that waits, up to the bounds.  0 at the end. */

static size_t
il_lane_take(il_lane_t *lane, il_item_t **items, size_t max)
{
    size_t      n, bytes;
    il_item_t  *item;

    n = 0;
    bytes = 0;

    (void) pthread_mutex_lock(&lane->lock);

    while (lane->head == NULL && !lane->stop) {
        (void) pthread_cond_wait(&lane->ready, &lane->lock);
    }

    while (n < max && lane->head != NULL) {
        item = lane->head;

        if (n > 0 && bytes + item->bytes > IL_LANE_BATCH_BYTES) {
            break;
        }

        lane->head = item->next;
        lane->count--;
        lane->bytes -= item->bytes;

        bytes += item->bytes;
        items[n++] = item;
    }

    if (lane->head == NULL) {
        lane->tail = &lane->head;

    } else if (lane->nthreads > 1) {
        (void) pthread_cond_signal(&lane->ready);
    }

    (void) pthread_mutex_unlock(&lane->lock);

    return n;
}


static void
il_lane_fail(il_lane_t *lane, il_item_t **items, size_t n, il_problem_e p)
{
    size_t  i;

    il_log(IL_LOG_WARN, "%s: gave up %zu calls, the first after %u tries in "
           "%lld ms", lane->ops->name, n, items[0]->tries,
           (long long) (il_now_ms() - items[0]->since));

    for (i = 0; i < n; i++) {
        (void) il_lane_count(lane, items[i], -1);
        lane->ops->fail(items[i], p);
    }
}


static void
il_lane_pause(int64_t ms)
{
    struct timespec  ts;

    ts.tv_sec = ms / 1000;
    ts.tv_nsec = (ms % 1000) * 1000000;

    (void) nanosleep(&ts, NULL);
}


/* When the item that waits longest was queued. */

static int64_t
il_lane_oldest(il_item_t **items, size_t n)
{
    size_t   i;
    int64_t  oldest;

    oldest = items[0]->since;

    for (i = 1; i < n; i++) {
        if (items[i]->since < oldest) {
            oldest = items[i]->since;
        }
    }

    return oldest;
}


/* Waits for the link as long as these items may wait.  0 or -1. */

static int
il_lane_link(il_lane_t *lane, il_link_t *link, il_item_t **items, size_t n)
{
    size_t   i;
    int64_t  now, patience, oldest, left;

    for ( ;; ) {
        if (il_link_up(link) == 0) {
            return 0;
        }

        now = il_now_ms();
        oldest = il_lane_oldest(items, n);
        patience = IL_LANE_PATIENCE;

        for (i = 0; i < n; i++) {
            if (items[i]->tries > 0 && !lane->ops->reads) {
                /* it may be committed: worth finding out */
                patience = lane->conf->db_deadline;
            }
        }

        /* known to be away for long: nobody needs to wait to be told */

        if (patience == IL_LANE_PATIENCE && link->since != 0
            && link->since < oldest)
        {
            oldest = link->since;
        }

        if ((now - oldest >= patience && !lane->ops->patient)
            || __atomic_load_n(&il_lane_hurried, __ATOMIC_RELAXED))
        {
            return -1;
        }

        left = link->next - now;
        il_lane_pause(left < 1 ? 1 : left);
    }
}


static void
il_lane_run(il_lane_t *lane, il_link_t *link, il_item_t **items, size_t n)
{
    size_t           i, half;
    unsigned         try;
    il_db_rc_e       rc;
    il_db_result_t  *res;

    for (try = 1; try <= IL_LANE_TRIES; try++) {

        if (il_lane_link(lane, link, items, n) != 0) {
            il_lane_fail(lane, items, n, IL_P_UNAVAILABLE);
            return;
        }

        res = NULL;
        rc = lane->ops->call(lane, link, items, n, &res);

        if (rc == IL_DB_OK) {
            il_metric_observe(IL_MT_BATCH_SIZE, (double) n, lane->ops->name,
                              "", "");

            for (i = 0; i < n; i++) {
                (void) il_lane_count(lane, items[i], -1);
            }

            lane->ops->deal(lane, link, res, items, n);
            il_db_result_free(res);

            if (!lane->ops->reads) {
                il_events_hint();
            }

            return;
        }

        if (rc == IL_DB_UNEXPECTED) {
            if (n == 1) {
                il_lane_fail(lane, items, n, IL_P_INTERNAL);
                return;
            }

            half = n / 2;
            il_lane_run(lane, link, items, half);
            il_lane_run(lane, link, items + half, n - half);
            return;
        }

        for (i = 0; i < n; i++) {
            items[i]->tries++;
        }

        if (__atomic_load_n(&il_lane_hurried, __ATOMIC_RELAXED)
            || (il_now_ms() - il_lane_oldest(items, n)
                >= lane->conf->db_deadline && !lane->ops->patient))
        {
            break;
        }

        if (try > 1 || rc == IL_DB_RETRY) {
            il_lane_pause(1 + il_random(10 << (try < 5 ? try : 5)));
        }
    }

    il_lane_fail(lane, items, n, IL_P_UNAVAILABLE);
}


static void *
il_lane_main(void *arg)
{
    size_t       n, max;
    il_lane_t   *lane = arg;
    il_item_t  **items;
    il_link_t    link;

    il_link_init(&link, lane->conf, lane->ops->app);

    max = lane->ops->single ? 1 : (size_t) lane->conf->batch_max;

    items = calloc(max, sizeof(il_item_t *));
    if (items == NULL) {
        il_log(IL_LOG_ERROR, "%s: out of memory", lane->ops->name);
        abort();
    }

    /* the first request does not wait for a connection */

    (void) il_link_up(&link);

    for ( ;; ) {
        n = il_lane_take(lane, items, max);
        if (n == 0) {
            break;
        }

        il_lane_run(lane, &link, items, n);
    }

    il_link_close(&link);
    free(items);

    return NULL;
}


int
il_lane_start(il_lane_t *lane, const il_lane_ops_t *ops,
    const il_conf_t *conf, size_t n)
{
    size_t  i;

    lane->ops = ops;
    lane->conf = conf;
    lane->tail = &lane->head;

    if (pthread_mutex_init(&lane->lock, NULL) != 0
        || pthread_cond_init(&lane->ready, NULL) != 0)
    {
        return -1;
    }

    lane->threads = calloc(n, sizeof(pthread_t));
    lane->about = calloc(IL_LANE_SLOTS, sizeof(uint32_t));

    if (lane->threads == NULL || lane->about == NULL) {
        return -1;
    }

    lane->nthreads = n;

    for (i = 0; i < n; i++) {
        if (pthread_create(&lane->threads[i], NULL, il_lane_main, lane) != 0)
        {
            lane->nthreads = i;
            return -1;
        }
    }

    return 0;
}


void
il_lane_stop(il_lane_t *lane)
{
    size_t  i;

    if (lane->threads == NULL) {
        return;
    }

    (void) pthread_mutex_lock(&lane->lock);
    lane->stop = 1;
    (void) pthread_cond_broadcast(&lane->ready);
    (void) pthread_mutex_unlock(&lane->lock);

    for (i = 0; i < lane->nthreads; i++) {
        (void) pthread_join(lane->threads[i], NULL);
    }

    free(lane->threads);
    free(lane->about);
    lane->threads = NULL;

    (void) pthread_cond_destroy(&lane->ready);
    (void) pthread_mutex_destroy(&lane->lock);
}


il_db_rc_e
il_lane_call_rows(il_link_t *link, const char *sql, const char *signature,
    void (*put)(il_db_args_t *args, il_item_t *item),
    void (*put_last)(il_db_args_t *args, const il_lane_t *lane),
    const il_lane_t *lane, il_item_t **items, size_t n, il_db_result_t **res)
{
    size_t        i;
    il_db_rc_e    rc;
    il_db_args_t  args;

    il_db_args_init(&args, signature);

    for (i = 0; i < n; i++) {
        put(&args, items[i]);
    }

    if (put_last != NULL) {
        put_last(&args, lane);
    }

    rc = il_link_call(link, sql, &args, res);

    il_db_args_free(&args);

    return rc;
}


il_item_t *
il_lane_row_item(const il_db_result_t *res, size_t row, int col,
    il_item_t **items, size_t n)
{
    int64_t  ord;

    if (il_db_cell_int(res, row, col, &ord) != 0 || ord < 1
        || (uint64_t) ord > n)
    {
        return NULL;
    }

    return items[ord - 1];
}
