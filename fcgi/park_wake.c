/*
 * park_wake.c: who wakes, and why.
 *
 * Functions that wake somebody unlink under the lock, collect, and call
 * afterwards; `tnext` of the timer wheel is then free to chain them.
 */

#include <errno.h>

#include "events.h"
#include "notify.h"
#include "park_int.h"


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


/* Longest waiting first; with the lock held.  *n is then how many are left
 * over, for nobody was parked. */

static il_waiter_t *
il_park_take(il_pkind_t *k, size_t *n)
{
    il_waiter_t  *w, *list, **tail;

    list = NULL;
    tail = &list;

    while (*n > 0 && k->first != NULL) {
        w = k->first->waiter;
        il_park_unpark(w);
        w->woken = k;
        w->tnext = NULL;
        *tail = w;
        tail = &w->tnext;
        (*n)--;
    }

    /* what is left is for those who are on their way */

    if (*n > 0) {
        k->credit += *n;

        if (k->credit > k->members - k->parked) {
            k->credit = k->members - k->parked;
        }
    }

    return list;
}


void
il_park_soon(il_pkind_t *k)
{
    int64_t  at;

    if (k->parked == 0) {
        return;
    }

    at = il_wall_ms() + IL_PARK_SOON;

    if (k->next_at == 0 || at < k->next_at) {
        k->next_at = at;
        (void) pthread_cond_signal(&il_pt.due);
    }
}


void
il_park_claimed(int32_t tenant, il_str_t kind)
{
    il_pkind_t  *k;

    (void) pthread_mutex_lock(&il_pt.lock);

    k = il_park_kind(tenant, kind, 0);
    if (k != NULL) {
        il_park_soon(k);
    }

    (void) pthread_mutex_unlock(&il_pt.lock);
}


/* Wakes at most n claims.  How many hints were left over. */

static size_t
il_park_wake_kind(int32_t tenant, il_str_t kind, size_t n)
{
    il_pkind_t   *k;
    il_waiter_t  *list;

    list = NULL;

    (void) pthread_mutex_lock(&il_pt.lock);

    k = il_park_kind(tenant, kind, 0);
    if (k != NULL) {
        list = il_park_take(k, &n);
        il_park_soon(k);
    }

    (void) pthread_mutex_unlock(&il_pt.lock);

    il_park_wake_all(list, 0);

    return n;
}


void
il_park_hint(int32_t tenant, il_str_t kind)
{
    if (il_park_wake_kind(tenant, kind, 1) > 0) {
        il_notify_kind(tenant, kind, 1);
    }
}


void
il_park_told(int32_t tenant, il_str_t kind, size_t n)
{
    il_events_hint();
    (void) il_park_wake_kind(tenant, kind, n);
}


void
il_park_hint_kinds(int32_t tenant, il_str_t kinds)
{
    size_t    pos;
    il_str_t  name;

    pos = 0;

    while (il_db_name_next(kinds, &pos, &name)) {
        il_park_hint(tenant, name);
    }
}


void
il_park_pass_on(il_waiter_t *w, const il_str_t *kinds, size_t n)
{
    size_t       i;
    il_pkind_t  *k = w->woken;

    if (k == NULL) {
        return;
    }

    /* w is still a member of it: it stays */

    for (i = 0; i < n; i++) {
        if (il_str_eq(il_cstr(k->name), kinds[i])) {
            return;
        }
    }

    w->woken = NULL;
    il_park_hint(k->tenant, il_cstr(k->name));
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

    il_notify_kind(tenant, kind, 0);
}


void
il_park_ended(const uint8_t job_id[IL_UUID_BYTES])
{
    il_waiter_t  *w, *list;

    list = NULL;

    il_events_hint();

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
il_park_ended_jobs(il_str_t jobs)
{
    size_t   pos;
    uint8_t  id[IL_UUID_BYTES];

    pos = 0;

    while (il_db_uuid_next(jobs, &pos, id)) {
        il_park_ended(id);
        il_notify_ended(id);
    }
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
    size_t        away;
    il_pkind_t   *k;
    il_waiter_t  *list;

    list = NULL;

    (void) pthread_mutex_lock(&il_pt.lock);

    k = il_park_kind(pair->tenant, il_cstr(pair->kind), 0);

    if (k != NULL) {
        if (next != 0 && (k->next_at == 0 || next < k->next_at)) {
            k->next_at = next;
        }

        /*
         * Some of it is for those who are on their way, and who were there
         * before.  Never a credit: it may have been claimed since.
         */

        away = k->members - k->parked;
        ready = ready > away ? ready - away : 0;

        ready = ready < k->parked ? ready : k->parked;
        list = il_park_take(k, &ready);
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
    int              rc;
    int64_t          until, left, now;
    struct timespec  ts;

    until = il_now_ms() + ms;

    (void) pthread_mutex_lock(&il_pt.lock);

    for ( ;; ) {
        now = il_now_ms();
        left = until - now;

        if (left <= 0 || il_pt.stop || il_pt.look) {
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

    rc = il_pt.stop ? -1 : il_pt.look;
    il_pt.look = 0;

    (void) pthread_mutex_unlock(&il_pt.lock);

    return rc;
}


void
il_park_look(void)
{
    (void) pthread_mutex_lock(&il_pt.lock);
    il_pt.look = 1;
    (void) pthread_cond_broadcast(&il_pt.due);
    (void) pthread_mutex_unlock(&il_pt.lock);
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
