
/*
 * Copyright (C) the interlock authors
 */


/*
 * Entries of a zone: a table by hash, and four queues: in flight by claim,
 * done by answer, held by grant, free.  Nothing here takes the lock.
 *
 * Requests and work keys share the table: their hashes are made of different
 * numbers of parts, so that none is both.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_interlock_entry.h"


/* how many of the oldest entries are looked at for an expired one */

#define NGX_HTTP_INTERLOCK_SCAN  32

/* for how long the end of a job is remembered: its submission's answer is on
 * its way through this nginx, if anywhere; milliseconds */

#define NGX_HTTP_INTERLOCK_OVER  1000

/* work keys have at most this part of the entries: they come as fast as
 * answers do, and would take the place of those, which live longer */

#define NGX_HTTP_INTERLOCK_HELD_PART  8


static ngx_http_interlock_node_t *ngx_http_interlock_entry_bucket(
    ngx_http_interlock_zone_sh_t *sh, uint64_t key);
static ngx_http_interlock_node_t *ngx_http_interlock_entry_grow(
    ngx_http_interlock_zone_sh_t *sh);
static void ngx_http_interlock_entry_link(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node);
static void ngx_http_interlock_entry_unlink(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node);
static ngx_http_interlock_node_t *ngx_http_interlock_entry_alloc(
    ngx_http_interlock_zone_sh_t *sh, ngx_uint_t spare);
static ngx_http_interlock_node_t *ngx_http_interlock_entry_victim(
    ngx_http_interlock_zone_sh_t *sh);
static ngx_http_interlock_node_t *ngx_http_interlock_entry_new(
    ngx_http_interlock_zone_sh_t *sh, ngx_http_interlock_id_t *id,
    ngx_uint_t state, ngx_uint_t spare, ngx_msec_t ms);
static void ngx_http_interlock_entry_add_held(
    ngx_http_interlock_zone_sh_t *sh, ngx_http_interlock_node_t *node);
static void ngx_http_interlock_entry_sweep(ngx_http_interlock_zone_sh_t *sh,
    ngx_queue_t *queue);


void
ngx_http_interlock_entry_forget(ngx_http_interlock_zone_sh_t *sh)
{
    ngx_queue_init(&sh->flight);
    ngx_queue_init(&sh->done);
    ngx_queue_init(&sh->held);
    ngx_queue_init(&sh->free);

    sh->used = 0;
    sh->mask = 0;
    sh->nflight = 0;
    sh->ndone = 0;
    sh->nstale = 0;
    sh->nheld = 0;
}


/* The bucket of a hash, if any node is used.  Nobody outside can choose it, so
 * they fill evenly. */

static ngx_http_interlock_node_t *
ngx_http_interlock_entry_bucket(ngx_http_interlock_zone_sh_t *sh,
    uint64_t key)
{
    uint32_t  n;

    n = (uint32_t) key & sh->mask;

    /* those of the upper half that are not there yet are in the lower one */

    return &sh->nodes[n < sh->used ? n : n & (sh->mask >> 1)];
}


/* Takes a node that was never used, and with it one more bucket: it gets its
 * part of those that are in the one of the lower half. */

static ngx_http_interlock_node_t *
ngx_http_interlock_entry_grow(ngx_http_interlock_zone_sh_t *sh)
{
    uint32_t                   *p;
    ngx_http_interlock_node_t  *node, *bucket;

    bucket = &sh->nodes[sh->used];
    bucket->bucket = 0;

    if (sh->used > sh->mask) {
        sh->mask = sh->mask << 1 | 1;
    }

    p = &sh->nodes[sh->used & (sh->mask >> 1)].bucket;

    sh->used++;

    while (*p) {
        node = &sh->nodes[*p - 1];

        if (ngx_http_interlock_entry_bucket(sh, node->key) != bucket) {
            p = &node->next;
            continue;
        }

        *p = node->next;
        node->next = bucket->bucket;
        bucket->bucket = (uint32_t) (node - sh->nodes) + 1;
    }

    return bucket;
}


void
ngx_http_interlock_entry_prefetch(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_id_t *id)
{
    uint64_t  key;

    ngx_memcpy(&key, id->hash, 8);

    __builtin_prefetch(ngx_http_interlock_entry_bucket(sh, key));
}


ngx_http_interlock_node_t *
ngx_http_interlock_entry_lookup(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_id_t *id)
{
    uint32_t                    n;
    uint64_t                    key;
    ngx_http_interlock_node_t  *node;

    if (sh->used == 0) {
        return NULL;
    }

    ngx_memcpy(&key, id->hash, 8);

    node = ngx_http_interlock_entry_bucket(sh, key);

    for (n = node->bucket; n; n = node->next) {

        node = &sh->nodes[n - 1];

        if (node->key == key
            && ngx_memcmp(node->rest, id->hash + 8, sizeof(node->rest)) == 0)
        {
            return node;
        }
    }

    return NULL;
}


static void
ngx_http_interlock_entry_link(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node)
{
    ngx_http_interlock_node_t  *bucket;

    bucket = ngx_http_interlock_entry_bucket(sh, node->key);

    node->next = bucket->bucket;
    bucket->bucket = (uint32_t) (node - sh->nodes) + 1;
}


static void
ngx_http_interlock_entry_unlink(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node)
{
    uint32_t  n, *p;

    n = (uint32_t) (node - sh->nodes) + 1;
    p = &ngx_http_interlock_entry_bucket(sh, node->key)->bucket;

    while (*p != n) {
        p = &sh->nodes[*p - 1].next;
    }

    *p = node->next;
}


ngx_uint_t
ngx_http_interlock_entry_live(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node)
{
    if ((int32_t) (node->expires - ngx_http_interlock_now()) <= 0) {
        return 0;
    }

    return node->state == NGX_HTTP_INTERLOCK_S_FLIGHT
           || node->state == NGX_HTTP_INTERLOCK_S_OVER
           || node->generation == sh->generation;
}


ngx_http_interlock_claim_e
ngx_http_interlock_entry_judge(ngx_http_interlock_node_t *node,
    ngx_http_interlock_id_t *id, ngx_http_interlock_answer_t *answer)
{
    if (ngx_memcmp(node->check, id->check, sizeof(node->check)) != 0) {
        return NGX_HTTP_INTERLOCK_CLAIM_MISMATCH;
    }

    if (node->state == NGX_HTTP_INTERLOCK_S_FLIGHT) {
        return NGX_HTTP_INTERLOCK_CLAIM_BUSY;
    }

    answer->code = node->code;
    answer->decision = node->decision;
    answer->status = node->status;
    answer->reason = node->reason;
    answer->has = node->has;
    ngx_memcpy(answer->ids, node->u.ids, sizeof(answer->ids));

    return NGX_HTTP_INTERLOCK_CLAIM_DONE;
}


ngx_http_interlock_node_t *
ngx_http_interlock_entry_add(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_id_t *id, ngx_msec_t in_flight)
{
    ngx_http_interlock_node_t  *node;

    node = ngx_http_interlock_entry_new(sh, id, NGX_HTTP_INTERLOCK_S_FLIGHT, 0,
                                        in_flight);

    if (node == NULL) {
        return NULL;
    }

    node->u.owner = ++sh->owner;

    ngx_queue_insert_head(&sh->flight, &node->queue);
    sh->nflight++;

    return node;
}


/* an entry in the table, and in no queue yet */

static ngx_http_interlock_node_t *
ngx_http_interlock_entry_new(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_id_t *id, ngx_uint_t state, ngx_uint_t spare,
    ngx_msec_t ms)
{
    ngx_http_interlock_node_t  *node;

    node = ngx_http_interlock_entry_alloc(sh, spare);

    if (node == NULL) {
        return NULL;
    }

    ngx_memzero(&node->next, sizeof(ngx_http_interlock_node_t)
                             - offsetof(ngx_http_interlock_node_t, next));

    ngx_memcpy(&node->key, id->hash, 8);
    ngx_memcpy(node->rest, id->hash + 8, sizeof(node->rest));
    ngx_memcpy(node->check, id->check, sizeof(node->check));

    node->state = (u_char) state;
    node->generation = sh->generation;
    node->expires = ngx_http_interlock_now() + (uint32_t) ((ms + 99) / 100);

    ngx_http_interlock_entry_link(sh, node);

    return node;
}


ngx_http_interlock_node_t *
ngx_http_interlock_entry_hold(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_id_t *work, ngx_http_interlock_answer_t *answer,
    ngx_msec_t ms, time_t seconds)
{
    ngx_http_interlock_node_t  *node;

    node = ngx_http_interlock_entry_lookup(sh, work);

    if (node) {

        if (node->state == NGX_HTTP_INTERLOCK_S_OVER
            && ngx_http_interlock_entry_live(sh, node)
            && ngx_memcmp(node->u.held.ids[0], answer->ids[0], IL_UUID_BYTES)
               == 0)
        {
            return NULL;
        }

        ngx_http_interlock_entry_remove(sh, node);
    }

    node = ngx_http_interlock_entry_new(sh, work, NGX_HTTP_INTERLOCK_S_HELD, 0,
                                        ms);

    if (node == NULL) {
        return NULL;
    }

    node->code = answer->code;
    node->decision = answer->decision;
    node->status = answer->status;
    node->reason = answer->reason;
    node->has = answer->has;
    node->u.held.done = (uint32_t) seconds;
    ngx_memcpy(node->u.held.ids, answer->ids, sizeof(node->u.held.ids));

    ngx_http_interlock_entry_add_held(sh, node);

    return node;
}


static void
ngx_http_interlock_entry_add_held(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node)
{
    ngx_queue_t  *q;

    if (sh->nheld >= sh->capacity / NGX_HTTP_INTERLOCK_HELD_PART
        && !ngx_queue_empty(&sh->held))
    {
        q = ngx_queue_last(&sh->held);

        ngx_http_interlock_entry_remove(sh,
                        ngx_queue_data(q, ngx_http_interlock_node_t, queue));
    }

    ngx_queue_insert_head(&sh->held, &node->queue);
    sh->nheld++;
}


ngx_http_interlock_node_t *
ngx_http_interlock_entry_over(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_id_t *work, u_char *job)
{
    ngx_http_interlock_node_t  *node;

    node = ngx_http_interlock_entry_lookup(sh, work);

    if (node) {

        /* a later job's: this one yielded to it before */

        if (node->state == NGX_HTTP_INTERLOCK_S_HELD
            && ngx_memcmp(node->u.held.ids[0], job, IL_UUID_BYTES) != 0
            && ngx_memcmp(node->u.held.ids[1], job, IL_UUID_BYTES) != 0)
        {
            return node;
        }

        ngx_http_interlock_entry_remove(sh, node);
    }

    node = ngx_http_interlock_entry_new(sh, work, NGX_HTTP_INTERLOCK_S_OVER, 1,
                                        NGX_HTTP_INTERLOCK_OVER);

    if (node == NULL) {
        return NULL;
    }

    ngx_memcpy(node->u.held.ids[0], job, IL_UUID_BYTES);

    ngx_http_interlock_entry_add_held(sh, node);

    return node;
}


ngx_uint_t
ngx_http_interlock_entry_held(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node, ngx_http_interlock_id_t *work,
    ngx_http_interlock_answer_t *answer, time_t *seconds)
{
    if (node->state != NGX_HTTP_INTERLOCK_S_HELD
        || !ngx_http_interlock_entry_live(sh, node)
        || ngx_memcmp(node->check, work->check, sizeof(node->check)) != 0)
    {
        return 0;
    }

    answer->code = node->code;
    answer->decision = node->decision;
    answer->status = node->status;
    answer->reason = node->reason;
    answer->has = node->has;
    ngx_memcpy(answer->ids, node->u.held.ids, sizeof(node->u.held.ids));
    ngx_memzero(answer->ids[2], IL_UUID_BYTES);

    *seconds = (time_t) node->u.held.done;

    return 1;
}


void
ngx_http_interlock_entry_done(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node, ngx_http_interlock_answer_t *answer,
    time_t seconds)
{
    ngx_queue_remove(&node->queue);
    sh->nflight--;

    node->state = NGX_HTTP_INTERLOCK_S_DONE;
    node->generation = sh->generation;
    node->code = answer->code;
    node->decision = answer->decision;
    node->status = answer->status;
    node->reason = answer->reason;
    node->has = answer->has;
    node->expires = ngx_http_interlock_now() + (uint32_t) seconds * 10;
    ngx_memcpy(node->u.ids, answer->ids, sizeof(node->u.ids));

    ngx_queue_insert_head(&sh->done, &node->queue);
    sh->ndone++;
}


void
ngx_http_interlock_entry_remove(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node)
{
    switch (node->state) {

    case NGX_HTTP_INTERLOCK_S_FLIGHT:
        sh->nflight--;
        break;

    case NGX_HTTP_INTERLOCK_S_DONE:
        sh->ndone--;

        if (node->generation != sh->generation) {
            sh->nstale--;
        }

        break;

    default: /* HELD, OVER */
        sh->nheld--;
    }

    ngx_queue_remove(&node->queue);
    ngx_http_interlock_entry_unlink(sh, node);
    ngx_queue_insert_head(&sh->free, &node->queue);
}


void
ngx_http_interlock_entry_expire(ngx_http_interlock_zone_sh_t *sh)
{
    ngx_http_interlock_entry_sweep(sh, &sh->flight);
    ngx_http_interlock_entry_sweep(sh, &sh->done);
    ngx_http_interlock_entry_sweep(sh, &sh->held);
}


static void
ngx_http_interlock_entry_sweep(ngx_http_interlock_zone_sh_t *sh,
    ngx_queue_t *queue)
{
    ngx_uint_t                  i;
    ngx_queue_t                *q;
    ngx_http_interlock_node_t  *node;

    for (i = 0; i < 2 && !ngx_queue_empty(queue); i++) {
        q = ngx_queue_last(queue);
        node = ngx_queue_data(q, ngx_http_interlock_node_t, queue);

        if (ngx_http_interlock_entry_live(sh, node)) {
            break;
        }

        if (node->state == NGX_HTTP_INTERLOCK_S_FLIGHT) {
            sh->expired++;
        }

        ngx_http_interlock_entry_remove(sh, node);
    }
}


/* a node that is free or, unless only a spare one is asked for, made free */

static ngx_http_interlock_node_t *
ngx_http_interlock_entry_alloc(ngx_http_interlock_zone_sh_t *sh,
    ngx_uint_t spare)
{
    ngx_queue_t                *q;
    ngx_http_interlock_node_t  *node;

    if (ngx_queue_empty(&sh->free)) {

        if (sh->used < sh->capacity) {
            return ngx_http_interlock_entry_grow(sh);
        }

        node = spare ? NULL : ngx_http_interlock_entry_victim(sh);

        if (node == NULL) {
            return NULL;
        }

        ngx_http_interlock_entry_remove(sh, node);
    }

    q = ngx_queue_head(&sh->free);
    ngx_queue_remove(q);

    return ngx_queue_data(q, ngx_http_interlock_node_t, queue);
}


/*
 * What is given up for room: an expired answer among the oldest ones; else the
 * oldest answer; else the work key that was held first.  Entries in flight
 * never: their requests are with the backend now.
 */

static ngx_http_interlock_node_t *
ngx_http_interlock_entry_victim(ngx_http_interlock_zone_sh_t *sh)
{
    ngx_uint_t                  i;
    ngx_queue_t                *q;
    ngx_http_interlock_node_t  *node;

    if (ngx_queue_empty(&sh->done)) {

        if (ngx_queue_empty(&sh->held)) {
            return NULL;
        }

        q = ngx_queue_last(&sh->held);

        return ngx_queue_data(q, ngx_http_interlock_node_t, queue);
    }

    q = ngx_queue_last(&sh->done);

    for (i = 0;
         i < NGX_HTTP_INTERLOCK_SCAN && q != ngx_queue_sentinel(&sh->done);
         i++)
    {
        node = ngx_queue_data(q, ngx_http_interlock_node_t, queue);

        if (!ngx_http_interlock_entry_live(sh, node)) {
            return node;
        }

        q = ngx_queue_prev(q);
    }

    q = ngx_queue_last(&sh->done);
    sh->evicted++;

    return ngx_queue_data(q, ngx_http_interlock_node_t, queue);
}


void
ngx_http_interlock_entry_epoch(ngx_http_interlock_zone_sh_t *sh,
    ngx_str_t *epoch)
{
    if (epoch->len > NGX_HTTP_INTERLOCK_EPOCH_MAX
        || (epoch->len == sh->epoch_len
            && ngx_memcmp(epoch->data, sh->epoch, epoch->len) == 0))
    {
        return;
    }

    if (sh->epoch_len) {
        sh->epochs++;
        sh->generation++;
        sh->nstale = sh->ndone;

        if (sh->generation == 0) {

            /* it wrapped: an old entry could look like a new one */

            ngx_http_interlock_entry_forget(sh);
        }
    }

    sh->epoch_len = epoch->len;
    ngx_memcpy(sh->epoch, epoch->data, epoch->len);
}
