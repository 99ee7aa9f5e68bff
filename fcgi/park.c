/*
 * park.c: the table of requests that wait: two hashes (kinds, jobs) and one
 * timer wheel under one lock.
 */

#include <stdlib.h>

#include "park_int.h"


il_park_table_t  il_pt = {
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


il_pkind_t *
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


il_waiter_t **
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

void
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
            w->woken = w->nodes[i].kind;
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

    w->woken = NULL;

    if (il_park_hinted(w)) {
        (void) pthread_mutex_unlock(&il_pt.lock);
        w->wake(w->r);
        return;
    }

    for (i = 0; i < w->nkinds; i++) {
        il_park_list(&w->nodes[i]);
        il_park_soon(w->nodes[i].kind);
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
