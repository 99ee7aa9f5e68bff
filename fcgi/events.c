/*
 * events.c: event streams, from the request to their end, and the one thread
 * that serves them all.
 *
 * A worker hands a stream over to `coming` and never sees it again; the lists
 * are the thread's own.  The event thread only says that a peer is gone.  Who
 * ends a stream takes it from its connection first, under the lock, so that
 * nobody says so of one that was freed.
 */

#include <errno.h>
#include <stdlib.h>

#include "events_int.h"
#include "metrics.h"


#define IL_EVENTS_ALIVE    4000     /* tokens are looked at so often */
#define IL_EVENTS_RETRY    50       /* full sockets are tried so often */
#define IL_EVENTS_AWAY     500      /* and so is a lost database */
#define IL_EVENTS_SPARE    64       /* may come beyond events_max, to be dealt
                                       with by the thread */


typedef struct {
    pthread_t         thread;
    int               started;
    const il_conf_t  *conf;

    pthread_mutex_t   lock;
    pthread_cond_t    wake;
    il_stream_t      *coming;       /* under lock */
    size_t            n;            /* under lock; read without it */
    int               gone;         /* under lock: some peer is */
    int               look;         /* under lock: some session has ended */
    int               stop;         /* under lock */
    int               hinted;       /* atomic */
    int               draining;     /* atomic */

    il_link_t         link;
    il_feed_t        *feeds;
    int64_t           alive;        /* tokens are looked at again */
} il_events_t;


static il_events_t  il_events = {
    .lock = PTHREAD_MUTEX_INITIALIZER
};


/* -------------------------------------------------------- from all threads */


void
il_events_hint(void)
{
    if (__atomic_load_n(&il_events.n, __ATOMIC_RELAXED) == 0
        || __atomic_exchange_n(&il_events.hinted, 1, __ATOMIC_RELAXED))
    {
        return;
    }

    (void) pthread_mutex_lock(&il_events.lock);
    (void) pthread_cond_signal(&il_events.wake);
    (void) pthread_mutex_unlock(&il_events.lock);
}


void
il_events_look(void)
{
    if (__atomic_load_n(&il_events.n, __ATOMIC_RELAXED) == 0) {
        return;
    }

    (void) pthread_mutex_lock(&il_events.lock);
    il_events.look = 1;
    (void) pthread_cond_signal(&il_events.wake);
    (void) pthread_mutex_unlock(&il_events.lock);
}


void
il_events_hangup(il_conn_t *conn)
{
    il_stream_t  *s;

    (void) pthread_mutex_lock(&il_events.lock);

    s = conn->stream;

    if (s != NULL) {
        s->gone = 1;
        il_events.gone = 1;
        (void) pthread_cond_signal(&il_events.wake);
    }

    (void) pthread_mutex_unlock(&il_events.lock);
}


void
il_events_tick(int draining)
{
    if (!draining || __atomic_exchange_n(&il_events.draining, 1,
                                         __ATOMIC_RELAXED))
    {
        return;
    }

    (void) pthread_mutex_lock(&il_events.lock);
    (void) pthread_cond_signal(&il_events.wake);
    (void) pthread_mutex_unlock(&il_events.lock);
}


void
il_events_gauges(il_buf_t *out)
{
    il_metrics_gauge(out, "event_streams", "Event streams that are open.",
                     (double) __atomic_load_n(&il_events.n,
                                              __ATOMIC_RELAXED));
}


int
il_events_join(il_stream_t *s)
{
    int         rc;
    il_conn_t  *conn = s->r->conn;

    rc = -1;

    (void) pthread_mutex_lock(&il_events.lock);

    if (il_events.started && !il_events.stop && !il_loop_draining()
        && il_events.n
           < (size_t) il_events.conf->events_max + IL_EVENTS_SPARE)
    {
        rc = 0;
        __atomic_store_n(&il_events.n, il_events.n + 1, __ATOMIC_RELAXED);

        s->next = il_events.coming;
        il_events.coming = s;
        conn->stream = s;

        /* with the lock held: its end needs it first, and that message then
         * comes behind this one */

        il_loop_watch(conn);
        (void) pthread_cond_signal(&il_events.wake);
    }

    (void) pthread_mutex_unlock(&il_events.lock);

    return rc;
}


/* ------------------------------------------------------------------- lists */


int
il_events_draining(void)
{
    return __atomic_load_n(&il_events.draining, __ATOMIC_RELAXED);
}


static il_feed_t *
il_events_feed(int32_t tenant)
{
    il_feed_t  *f;

    for (f = il_events.feeds; f != NULL; f = f->next) {
        if (f->tenant == tenant) {
            return f;
        }
    }

    f = calloc(1, sizeof(il_feed_t));
    if (f == NULL) {
        return NULL;
    }

    f->tenant = tenant;
    f->pace = IL_EVENTS_PACE;
    f->next = il_events.feeds;

    if (f->next != NULL) {
        f->next->prev = f;
    }

    il_events.feeds = f;

    return f;
}


/* The feed of a tenant without streams is gone. */

static void
il_events_drop(il_feed_t *f)
{
    if (f->n > 0) {
        return;
    }

    if (f->prev != NULL) {
        f->prev->next = f->next;

    } else {
        il_events.feeds = f->next;
    }

    if (f->next != NULL) {
        f->next->prev = f->prev;
    }

    free(f->cursor);
    free(f);
}


static void
il_events_unlink(il_stream_t *s)
{
    il_feed_t  *f = s->feed;

    if (f == NULL) {
        return;
    }

    if (s->prev != NULL) {
        s->prev->next = s->next;

    } else {
        f->streams = s->next;
    }

    if (s->next != NULL) {
        s->next->prev = s->prev;
    }

    f->n--;
    il_events_drop(f);
}


/* s is gone afterwards, and its feed, if it was the last one's. */

static void
il_events_end(il_stream_t *s)
{
    int        begun;
    il_req_t  *r = s->r;

    (void) pthread_mutex_lock(&il_events.lock);

    r->conn->stream = NULL;
    __atomic_store_n(&il_events.n, il_events.n - 1, __ATOMIC_RELAXED);

    if (s->gone) {
        s->ended = "gone";
    }

    (void) pthread_mutex_unlock(&il_events.lock);

    il_events_unlink(s);

    begun = (s->state != IL_STREAM_NEW);
    il_metric_add(IL_MT_STREAMS, 1, s->ended, "", "");

    if (begun && strcmp(s->ended, "gone") != 0) {
        il_stream_close(s);
    }

    il_buf_free(&s->pend);
    free(s->cursor);

    if (begun || s->gone) {
        il_req_abort(r);

    } else {
        il_req_unavailable(r);
    }
}


/* All places are taken: one of the tenant that has most of them makes room for
 * a tenant that has fewer, so that nobody keeps everybody else out.  0; or -1:
 * it is this tenant that has them. */

static int
il_events_make_room(const il_feed_t *newcomer)
{
    il_feed_t  *f, *most;

    most = NULL;

    for (f = il_events.feeds; f != NULL; f = f->next) {
        if (f != newcomer && (most == NULL || f->n > most->n)) {
            most = f;
        }
    }

    if (most == NULL || most->n <= newcomer->n + 1) {
        return -1;
    }

    /* the newest: who has watched for long goes on */

    most->streams->ended = "full";
    il_events_end(most->streams);

    return 0;
}


/* Those that have come are their feeds' now. */

static void
il_events_adopt(il_stream_t *s)
{
    il_feed_t    *f;
    il_stream_t  *next;

    for ( /* void */ ; s != NULL; s = next) {
        next = s->next;
        s->next = NULL;

        f = il_events_feed(s->r->who.tenant);

        if (f == NULL) {
            s->ended = "memory";
            il_events_end(s);
            continue;
        }

        if (__atomic_load_n(&il_events.n, __ATOMIC_RELAXED)
            > (size_t) il_events.conf->events_max
            && il_events_make_room(f) != 0)
        {
            s->ended = "full";
            il_events_end(s);
            il_events_drop(f);
            continue;
        }

        s->feed = f;
        s->next = f->streams;

        if (s->next != NULL) {
            s->next->prev = s;
        }

        f->streams = s;
        f->n++;
    }
}


void
il_events_each(void (*each)(il_stream_t *s, void *arg), void *arg)
{
    il_feed_t    *f;
    il_stream_t  *s;

    for (f = il_events.feeds; f != NULL; f = f->next) {
        for (s = f->streams; s != NULL; s = s->next) {
            each(s, arg);
        }
    }
}


static void
il_events_reap(void)
{
    il_feed_t    *f, *fnext;
    il_stream_t  *s, *next;

    for (f = il_events.feeds; f != NULL; f = fnext) {
        fnext = f->next;

        for (s = f->streams; s != NULL; s = next) {
            next = s->next;

            if (s->ended != NULL) {
                il_events_end(s);
            }
        }
    }
}


static void
il_events_all(il_stream_t *s, void *arg)
{
    if (s->ended == NULL) {
        s->ended = arg;
    }
}


/* Under the lock. */

static void
il_events_gone(il_stream_t *s, void *arg)
{
    (void) arg;

    if (s->gone) {
        s->ended = "gone";
    }
}


/* -------------------------------------------------------------- the thread */


/* Passes a hint on to the feeds.  While none of them is due it stays, and
 * those who give one need not wake anybody: 1. */

static int
il_events_notice(int64_t now)
{
    int         due;
    il_feed_t  *f;

    if (!__atomic_load_n(&il_events.hinted, __ATOMIC_RELAXED)) {
        return 0;
    }

    due = 0;

    for (f = il_events.feeds; f != NULL; f = f->next) {
        f->hinted = 1;
        due |= il_feed_due(f) <= now;
    }

    if (due) {
        __atomic_store_n(&il_events.hinted, 0, __ATOMIC_RELAXED);
    }

    return !due;
}


/* 0; or -1: the database cannot be asked now. */

static int
il_events_database(int64_t now)
{
    il_feed_t  *f;

    if (il_link_up(&il_events.link) != 0) {
        return -1;
    }

    /* before anything is told to whom it is no business of any more */

    if (now >= il_events.alive) {
        if (il_events_tokens(&il_events.link) != 0) {
            return -1;
        }

        il_events.alive = now + IL_EVENTS_ALIVE;
    }

    for (f = il_events.feeds; f != NULL; f = f->next) {
        if ((il_feed_due(f) <= now && il_feed_poll(f, &il_events.link) != 0)
            || il_feed_serve(f, &il_events.link) != 0)
        {
            return -1;
        }
    }

    return 0;
}


static void
il_events_flush(il_stream_t *s, void *arg)
{
    int64_t  *now = arg;

    if (s->state != IL_STREAM_NEW && s->ended == NULL) {
        il_stream_flush(s, *now);
    }
}


/* Nothing was begun yet, and the database is away: 503. */

static void
il_events_refuse(il_stream_t *s, void *arg)
{
    (void) arg;

    if (s->state == IL_STREAM_NEW && s->ended == NULL) {
        s->ended = "database";
    }
}


static void
il_events_soonest(il_stream_t *s, void *arg)
{
    int64_t  at, *until = arg;

    if (s->pend.len > 0) {
        at = il_now_ms() + IL_EVENTS_RETRY;

    } else if (s->state == IL_STREAM_LIVE) {
        at = s->beat;

    } else {
        at = 0;
    }

    if (at < *until) {
        *until = at;
    }
}


/* Until when there is nothing to do by itself. */

static int64_t
il_events_until(int64_t now, int away)
{
    int64_t     until, due;
    il_feed_t  *f;

    if (away) {
        return now + IL_EVENTS_AWAY;
    }

    until = now + IL_EVENTS_POLL;

    for (f = il_events.feeds; f != NULL; f = f->next) {
        due = il_feed_due(f);
        until = due < until ? due : until;
    }

    il_events_each(il_events_soonest, &until);

    return until;
}


/* Sleeps until then, or until somebody has something to say; for as long as
 * it takes if there is no stream.  `noticed`: that something has changed is
 * known already.  Takes over who has come.  -1: the end. */

static int
il_events_sleep(int64_t until, int noticed, il_stream_t **coming)
{
    int               stop;
    il_stream_t      *s;
    struct timespec   ts;

    ts.tv_sec = until / 1000;
    ts.tv_nsec = (until % 1000) * 1000000;

    (void) pthread_mutex_lock(&il_events.lock);

    while (!il_events.stop && il_events.coming == NULL && !il_events.gone
           && !il_events.look
           && !(il_events.feeds != NULL && il_events_draining())
           && (noticed
               || !__atomic_load_n(&il_events.hinted, __ATOMIC_RELAXED)))
    {
        if (il_events.feeds == NULL) {
            (void) pthread_cond_wait(&il_events.wake, &il_events.lock);

        } else if (pthread_cond_timedwait(&il_events.wake, &il_events.lock,
                                          &ts)
                   == ETIMEDOUT)
        {
            break;
        }
    }

    *coming = il_events.coming;
    il_events.coming = NULL;

    if (il_events.gone) {
        il_events.gone = 0;
        il_events_each(il_events_gone, NULL);

        for (s = *coming; s != NULL; s = s->next) {
            il_events_gone(s, NULL);
        }
    }

    if (il_events.look) {
        il_events.look = 0;
        il_events.alive = 0;
    }

    stop = il_events.stop;

    (void) pthread_mutex_unlock(&il_events.lock);

    return stop ? -1 : 0;
}


static void *
il_events_main(void *arg)
{
    int           rc, away, noticed;
    int64_t       now;
    il_stream_t  *coming;

    (void) arg;

    away = 0;
    noticed = 0;

    do {
        rc = il_events_sleep(il_events_until(il_now_ms(), away), noticed,
                             &coming);
        il_events_adopt(coming);

        if (rc != 0 || il_events_draining()) {
            il_events_each(il_events_all, (void *) (uintptr_t) "server");
        }

        il_events_reap();

        if (il_events.feeds == NULL) {
            away = 0;
            continue;
        }

        now = il_now_ms();
        noticed = il_events_notice(now);
        away = (il_events_database(now) != 0);

        if (away) {
            il_events_each(il_events_refuse, NULL);
        }

        now = il_now_ms();
        il_events_each(il_events_flush, &now);
        il_events_reap();

    } while (rc == 0);

    il_link_close(&il_events.link);

    return NULL;
}


int
il_events_start(const il_conf_t *conf)
{
    pthread_condattr_t  attr;

    il_events.conf = conf;
    il_link_init(&il_events.link, conf, "interlockd events");

    if (pthread_condattr_init(&attr) != 0
        || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0
        || pthread_cond_init(&il_events.wake, &attr) != 0
        || pthread_create(&il_events.thread, NULL, il_events_main, NULL) != 0)
    {
        return -1;
    }

    (void) pthread_condattr_destroy(&attr);
    il_events.started = 1;

    return 0;
}


void
il_events_stop(void)
{
    if (!il_events.started) {
        return;
    }

    (void) pthread_mutex_lock(&il_events.lock);
    il_events.stop = 1;
    (void) pthread_cond_signal(&il_events.wake);
    (void) pthread_mutex_unlock(&il_events.lock);

    (void) pthread_join(il_events.thread, NULL);
    il_events.started = 0;
}
