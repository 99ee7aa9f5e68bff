/*
 * park.c: the table of requests that wait.
 *
 * Two hashes (kinds, jobs) and one timer wheel under one lock.  Functions
 * that wake somebody unlink under the lock, collect, and call afterwards.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "park.h"


#define IL_PARK_KIND_SLOTS  1024
#define IL_PARK_JOB_SLOTS   4096
#define IL_PARK_WHEEL       512
#define IL_PARK_TICK        100


/* `credit`: hints that found nobody parked, for those who were on their way.
 * They look once more before they park. */

struct il_pkind_s {
    il_pkind_t  *next;
    int32_t      tenant;
    char         name[IL_NAME_MAX + 1];
    il_pnode_t  *first;
    il_pnode_t  *last;
    size_t       members;           /* waiters that joined */
    size_t       parked;
    size_t       credit;
    int64_t      next_at;           /* wall clock, or 0 */
};


static struct {
    pthread_mutex_t    lock;
    pthread_cond_t     due;
    int                stop;
    size_t             max;
    size_t             members;
    size_t             parked;
    il_pkind_t        *kinds[IL_PARK_KIND_SLOTS];
    il_waiter_t       *jobs[IL_PARK_JOB_SLOTS];
    il_waiter_t       *wheel[IL_PARK_WHEEL];
    int64_t            turned;      /* the wheel's time, in ticks */
} il_pt = {
    .lock = PTHREAD_MUTEX_INITIALIZER
};


int
il_park_init(const il_conf_t *conf)
{
    pthread_condattr_t  attr;

    il_pt.max = (size_t) conf->parked_max;
    il_pt.turned = il_now_ms() / IL_PARK_TICK;

    if (pthread_condattr_init(&attr) != 0
        || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0
        || pthread_cond_init(&il_pt.due, &attr) != 0)
    {
        return -1;
    }

    (void) pthread_condattr_destroy(&attr);

    return 0;
}


void
il_park_free(void)
{
    size_t       i;
    il_pkind_t  *k;

    for (i = 0; i < IL_PARK_KIND_SLOTS; i++) {
        while (il_pt.kinds[i] != NULL) {
            k = il_pt.kinds[i];
            il_pt.kinds[i] = k->next;
            free(k);
        }
    }

    (void) pthread_cond_destroy(&il_pt.due);
}


size_t
il_park_count(void)
{
    size_t  n;

    (void) pthread_mutex_lock(&il_pt.lock);
    n = il_pt.parked;
    (void) pthread_mutex_unlock(&il_pt.lock);

    return n;
}


/* ---------------------------------------------------------- kinds and jobs */


static il_pkind_t **
il_park_kind_slot(int32_t tenant, il_str_t name)
{
    size_t    i;
    uint32_t  h;

    h = 2166136261u ^ (uint32_t) tenant;

    for (i = 0; i < name.len; i++) {
        h = (h ^ (unsigned char) name.data[i]) * 16777619u;
    }

    return &il_pt.kinds[h % IL_PARK_KIND_SLOTS];
}


static il_pkind_t *
il_park_kind(int32_t tenant, il_str_t name, int make)
{
    il_pkind_t  *k, **slot;

    slot = il_park_kind_slot(tenant, name);

    for (k = *slot; k != NULL; k = k->next) {
        if (k->tenant == tenant && il_str_eq(il_cstr(k->name), name)) {
            return k;
        }
    }

    if (!make || name.len > IL_NAME_MAX) {
        return NULL;
    }

    k = calloc(1, sizeof(il_pkind_t));
    if (k == NULL) {
        return NULL;
    }

    k->tenant = tenant;
    memcpy(k->name, name.data, name.len);
    k->next = *slot;
    *slot = k;

    return k;
}


static void
il_park_kind_drop(il_pkind_t *k)
{
    il_pkind_t  **p;

    if (--k->members > 0) {
        return;
    }

    p = il_park_kind_slot(k->tenant, il_cstr(k->name));

    while (*p != k) {
        p = &(*p)->next;
    }

    *p = k->next;
    free(k);
}


static il_waiter_t **
il_park_job_slot(const uint8_t id[IL_UUID_BYTES])
{
    /* the tail of a UUIDv7 is random */

    return &il_pt.jobs[((size_t) id[14] << 8 | id[15]) % IL_PARK_JOB_SLOTS];
}


static void
il_park_list(il_pnode_t *node)
{
    il_pkind_t  *k = node->kind;

    node->next = NULL;
    node->prev = k->last;

    if (k->last != NULL) {
        k->last->next = node;

    } else {
        k->first = node;
    }

    k->last = node;
    k->parked++;
    node->listed = 1;
}


static void
il_park_unlist(il_pnode_t *node)
{
    il_pkind_t  *k = node->kind;
    il_pnode_t  *prev = node->prev, *next = node->next;

    if (!node->listed) {
        return;
    }

    if (prev != NULL) {
        prev->next = next;

    } else {
        k->first = next;
    }

    if (next != NULL) {
        next->prev = prev;

    } else {
        k->last = prev;
    }

    k->parked--;
    node->listed = 0;
}


static void
il_park_timer_add(il_waiter_t *w)
{
    int64_t  at;

    at = w->deadline / IL_PARK_TICK + 1;

    if (at <= il_pt.turned) {
        at = il_pt.turned + 1;
    }

    if (at > il_pt.turned + IL_PARK_WHEEL - 1) {
        at = il_pt.turned + IL_PARK_WHEEL - 1;
    }

    w->slot = (size_t) at % IL_PARK_WHEEL;
    w->tprev = NULL;
    w->tnext = il_pt.wheel[w->slot];

    if (w->tnext != NULL) {
        w->tnext->tprev = w;
    }

    il_pt.wheel[w->slot] = w;
}


static void
il_park_timer_del(il_waiter_t *w)
{
    if (w->tprev != NULL) {
        w->tprev->tnext = w->tnext;

    } else {
        il_pt.wheel[w->slot] = w->tnext;
    }

    if (w->tnext != NULL) {
        w->tnext->tprev = w->tprev;
    }
}


/* Takes a parked waiter out of every list: it is the caller's now. */

static void
il_park_unpark(il_waiter_t *w)
{
    size_t  i;

    for (i = 0; i < w->nkinds; i++) {
        il_park_unlist(&w->nodes[i]);
    }

    il_park_timer_del(w);

    w->state = IL_WAIT_AWAY;
    w->r->conn->parked = NULL;
    il_pt.parked--;
}


/* ------------------------------------------------------- joining, leaving */


int
il_park_join_kinds(il_waiter_t *w, const il_str_t *kinds, size_t n)
{
    size_t  i;

    w->nodes = il_pool_get(&w->r->pool, n * sizeof(il_pnode_t));
    if (w->nodes == NULL) {
        return -1;
    }

    (void) pthread_mutex_lock(&il_pt.lock);

    if (il_pt.members >= il_pt.max) {
        (void) pthread_mutex_unlock(&il_pt.lock);
        return -1;
    }

    for (i = 0; i < n; i++) {
        w->nodes[i].waiter = w;
        w->nodes[i].kind = il_park_kind(w->r->who.tenant, kinds[i], 1);

        if (w->nodes[i].kind == NULL) {
            while (i > 0) {
                il_park_kind_drop(w->nodes[--i].kind);
            }

            (void) pthread_mutex_unlock(&il_pt.lock);
            return -1;
        }

        w->nodes[i].kind->members++;
    }

    w->nkinds = n;
    il_pt.members++;

    (void) pthread_mutex_unlock(&il_pt.lock);

    return 0;
}


int
il_park_join_job(il_waiter_t *w, const uint8_t job_id[IL_UUID_BYTES])
{
    il_waiter_t  **slot;

    memcpy(w->job_id, job_id, IL_UUID_BYTES);

    (void) pthread_mutex_lock(&il_pt.lock);

    if (il_pt.members >= il_pt.max) {
        (void) pthread_mutex_unlock(&il_pt.lock);
        return -1;
    }

    slot = il_park_job_slot(job_id);

    w->job = 1;
    w->jprev = NULL;
    w->jnext = *slot;

    if (w->jnext != NULL) {
        w->jnext->jprev = w;
    }

    *slot = w;
    il_pt.members++;

    (void) pthread_mutex_unlock(&il_pt.lock);

    return 0;
}


void
il_park_leave(il_waiter_t *w)
{
    size_t  i;

    (void) pthread_mutex_lock(&il_pt.lock);

    if (w->job) {
        if (w->jprev != NULL) {
            w->jprev->jnext = w->jnext;

        } else {
            *il_park_job_slot(w->job_id) = w->jnext;
        }

        if (w->jnext != NULL) {
            w->jnext->jprev = w->jprev;
        }
    }

    for (i = 0; i < w->nkinds; i++) {
        il_park_kind_drop(w->nodes[i].kind);
    }

    il_pt.members--;

    (void) pthread_mutex_unlock(&il_pt.lock);
}


/* 1 if a hint came while the waiter was away. */

static int
il_park_hinted(il_waiter_t *w)
{
    int     hinted;
    size_t  i;

    hinted = w->hinted;
    w->hinted = 0;

    for (i = 0; i < w->nkinds; i++) {
        if (w->nodes[i].kind->credit > 0) {
            w->nodes[i].kind->credit--;
            return 1;
        }
    }

    return hinted;
}


void
il_park(il_waiter_t *w)
{
    size_t      i;
    int64_t     now;
    il_conn_t  *conn;

    now = il_now_ms();
    conn = w->r->conn;

    if (now >= w->deadline || il_loop_draining()) {
        w->expire(w->r);
        return;
    }

    (void) pthread_mutex_lock(&il_pt.lock);

    if (il_park_hinted(w)) {
        (void) pthread_mutex_unlock(&il_pt.lock);
        w->wake(w->r);
        return;
    }

    for (i = 0; i < w->nkinds; i++) {
        il_park_list(&w->nodes[i]);
    }

    il_park_timer_add(w);

    w->state = IL_WAIT_PARKED;
    w->looked = now;
    conn->parked = w;
    il_pt.parked++;

    /* with the lock held: whoever ends the request needs it first, and its
     * message then comes behind this one */

    il_loop_watch(conn);

    (void) pthread_mutex_unlock(&il_pt.lock);
}


/* ------------------------------------------------------------------ waking
 *
 * `next` of the timer wheel is free to chain those that were unlinked. */


static void
il_park_wake_all(il_waiter_t *list, int expire)
{
    il_waiter_t  *next;

    for ( /* void */ ; list != NULL; list = next) {
        next = list->tnext;

        if (expire) {
            list->expire(list->r);

        } else {
            list->wake(list->r);
        }
    }
}


/* Longest waiting first; with the lock held. */

static il_waiter_t *
il_park_take(il_pkind_t *k, size_t n)
{
    il_waiter_t  *w, *list, **tail;

    list = NULL;
    tail = &list;

    while (n > 0 && k->first != NULL) {
        w = k->first->waiter;
        il_park_unpark(w);
        w->tnext = NULL;
        *tail = w;
        tail = &w->tnext;
        n--;
    }

    /* what is left is for those who are on their way */

    if (n > 0) {
        k->credit += n;

        if (k->credit > k->members - k->parked) {
            k->credit = k->members - k->parked;
        }
    }

    return list;
}


void
il_park_hint(int32_t tenant, il_str_t kind, size_t n)
{
    il_pkind_t   *k;
    il_waiter_t  *list;

    list = NULL;

    (void) pthread_mutex_lock(&il_pt.lock);

    k = il_park_kind(tenant, kind, 0);
    if (k != NULL) {
        list = il_park_take(k, n);
    }

    (void) pthread_mutex_unlock(&il_pt.lock);

    il_park_wake_all(list, 0);
}


void
il_park_hint_at(int32_t tenant, il_str_t kind, int64_t at)
{
    il_pkind_t  *k;

    (void) pthread_mutex_lock(&il_pt.lock);

    k = il_park_kind(tenant, kind, 0);

    if (k != NULL && (k->next_at == 0 || at < k->next_at)) {
        k->next_at = at;
        (void) pthread_cond_signal(&il_pt.due);
    }

    (void) pthread_mutex_unlock(&il_pt.lock);
}


void
il_park_ended(const uint8_t job_id[IL_UUID_BYTES])
{
    il_waiter_t  *w, *list;

    list = NULL;

    (void) pthread_mutex_lock(&il_pt.lock);

    for (w = *il_park_job_slot(job_id); w != NULL; w = w->jnext) {
        if (memcmp(w->job_id, job_id, IL_UUID_BYTES) != 0) {
            continue;
        }

        if (w->state == IL_WAIT_PARKED) {
            il_park_unpark(w);
            w->tnext = list;
            list = w;

        } else {
            w->hinted = 1;
        }
    }

    (void) pthread_mutex_unlock(&il_pt.lock);

    il_park_wake_all(list, 0);
}


void
il_park_hangup(il_conn_t *conn)
{
    il_req_t     *r;
    il_waiter_t  *w;

    r = NULL;

    (void) pthread_mutex_lock(&il_pt.lock);

    w = conn->parked;
    if (w != NULL) {
        il_park_unpark(w);
        r = w->r;
    }

    (void) pthread_mutex_unlock(&il_pt.lock);

    if (r != NULL) {
        il_park_leave(w);
        il_req_abort(r);
    }
}


void
il_park_tick(int64_t now, int all)
{
    size_t        i;
    int64_t       tick;
    il_waiter_t  *w, *next, *list;

    list = NULL;
    tick = now / IL_PARK_TICK;

    (void) pthread_mutex_lock(&il_pt.lock);

    if (all && il_pt.parked > 0) {
        il_pt.turned = tick - IL_PARK_WHEEL;
    }

    if (tick - il_pt.turned > IL_PARK_WHEEL) {
        il_pt.turned = tick - IL_PARK_WHEEL;
    }

    while (il_pt.turned < tick) {
        il_pt.turned++;
        i = (size_t) il_pt.turned % IL_PARK_WHEEL;

        for (w = il_pt.wheel[i]; w != NULL; w = next) {
            next = w->tnext;

            if (all || w->deadline <= now) {
                il_park_unpark(w);
                w->tnext = list;
                list = w;
            }
        }
    }

    (void) pthread_mutex_unlock(&il_pt.lock);

    il_park_wake_all(list, 1);
}


/* ---------------------------------------------------------------- the poll */


size_t
il_park_pairs(il_park_pair_t *pairs, size_t max)
{
    size_t       i, n;
    il_pkind_t  *k;

    n = 0;

    (void) pthread_mutex_lock(&il_pt.lock);

    for (i = 0; i < IL_PARK_KIND_SLOTS && n < max; i++) {
        for (k = il_pt.kinds[i]; k != NULL && n < max; k = k->next) {
            if (k->parked > 0) {
                pairs[n].tenant = k->tenant;
                memcpy(pairs[n].kind, k->name, sizeof(k->name));
                n++;

                /* what comes meanwhile is set again by a hint */
                k->next_at = 0;
            }
        }
    }

    (void) pthread_mutex_unlock(&il_pt.lock);

    return n;
}


void
il_park_found(const il_park_pair_t *pair, size_t ready, int64_t next)
{
    il_pkind_t   *k;
    il_waiter_t  *list;

    list = NULL;

    (void) pthread_mutex_lock(&il_pt.lock);

    k = il_park_kind(pair->tenant, il_cstr(pair->kind), 0);

    if (k != NULL) {
        if (next != 0 && (k->next_at == 0 || next < k->next_at)) {
            k->next_at = next;
        }

        /* never a credit: it may have been claimed since */

        list = il_park_take(k, ready < k->parked ? ready : k->parked);
    }

    (void) pthread_mutex_unlock(&il_pt.lock);

    il_park_wake_all(list, 0);
}


/* The soonest known retry, in ms from now; with the lock held. */

static int64_t
il_park_soonest(int64_t ms)
{
    size_t       i;
    int64_t      wall, left;
    il_pkind_t  *k;

    wall = il_wall_ms();

    for (i = 0; i < IL_PARK_KIND_SLOTS; i++) {
        for (k = il_pt.kinds[i]; k != NULL; k = k->next) {
            if (k->parked == 0 || k->next_at == 0) {
                continue;
            }

            left = k->next_at - wall;

            if (left < ms) {
                ms = left;
            }
        }
    }

    /* clocks differ: one that is due already is asked for at this pace */

    return ms < 10 ? 10 : ms;
}


int
il_park_sleep(int64_t ms)
{
    int              stop;
    int64_t          until, left, now;
    struct timespec  ts;

    until = il_now_ms() + ms;

    (void) pthread_mutex_lock(&il_pt.lock);

    for ( ;; ) {
        now = il_now_ms();
        left = until - now;

        if (left <= 0 || il_pt.stop) {
            break;
        }

        left = il_park_soonest(left);

        ts.tv_sec = (now + left) / 1000;
        ts.tv_nsec = ((now + left) % 1000) * 1000000;

        if (pthread_cond_timedwait(&il_pt.due, &il_pt.lock, &ts) == ETIMEDOUT)
        {
            break;
        }
    }

    stop = il_pt.stop;

    (void) pthread_mutex_unlock(&il_pt.lock);

    return stop ? -1 : 0;
}


void
il_park_stop(void)
{
    (void) pthread_mutex_lock(&il_pt.lock);
    il_pt.stop = 1;
    (void) pthread_cond_broadcast(&il_pt.due);
    (void) pthread_mutex_unlock(&il_pt.lock);
}


void
il_park_relook(int64_t ms)
{
    size_t        i;
    int64_t       now;
    il_waiter_t  *w, *list;

    now = il_now_ms();

    for (i = 0; i < IL_PARK_JOB_SLOTS; i++) {
        list = NULL;

        (void) pthread_mutex_lock(&il_pt.lock);

        for (w = il_pt.jobs[i]; w != NULL; w = w->jnext) {
            if (w->state == IL_WAIT_PARKED && now - w->looked >= ms) {
                il_park_unpark(w);
                w->tnext = list;
                list = w;
            }
        }

        (void) pthread_mutex_unlock(&il_pt.lock);

        il_park_wake_all(list, 0);
    }
}
