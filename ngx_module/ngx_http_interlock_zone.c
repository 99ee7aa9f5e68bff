
/*
 * Copyright (C) the interlock authors
 */


/*
 * The zone: entries by 128-bit hash, in flight or done.
 *
 * Memory.  At first start nearly all of the zone is taken from the slab
 * allocator in one piece and cut into nodes of 128 bytes; a free list and a
 * bump pointer hand them out.  Counters stay in the slab allocator, because
 * they must outlive everything else.
 *
 * Crash safety.  A worker may be killed at any instruction, with the lock
 * held; the master process then releases the lock by force.  Each change is
 * bracketed by the dirty flag.  Who takes the lock and finds the flag set
 * cannot know how far the dead worker came, so it forgets every entry, which
 * takes constant time here: the tree, the queues, the free list and the bump
 * pointer start anew, and no node is looked at.  Forgetting is always safe:
 * the backend decides, the zone only saves it work.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <sodium.h>

#include "ngx_http_interlock_zone.h"


#define NGX_HTTP_INTERLOCK_MAGIC     0x696c7a6f6e650001

#define NGX_HTTP_INTERLOCK_S_FLIGHT  1
#define NGX_HTTP_INTERLOCK_S_DONE    2

/* how many of the oldest entries are looked at for an expired one */
#define NGX_HTTP_INTERLOCK_SCAN      32


/*
 * One entry.  The first fields are those of ngx_rbtree_node_t up to its
 * colour; ours follow where its padding would be.  Times are in tenths of a
 * second of ngx_current_msec, which is monotonic and the same in all workers;
 * 32 bits of them wrap after 13 years, so signed differences do.
 */

typedef struct {
    ngx_rbtree_key_t                key;        /* first half of the hash */
    ngx_rbtree_node_t              *left;
    ngx_rbtree_node_t              *right;
    ngx_rbtree_node_t              *parent;
    u_char                          color;
    u_char                          state;
    u_char                          generation; /* done: of the epoch */
    u_char                          code;
    u_char                          decision;
    u_char                          status;
    u_char                          reason;
    u_char                          has;
    ngx_queue_t                     queue;
    u_char                          rest[IL_ENTRY_BYTES - 8];
    u_char                          check[NGX_HTTP_INTERLOCK_CHECK_BYTES];
    uint32_t                        expires;
    union {
        uint64_t                    owner;      /* in flight */
        u_char                      ids[3][IL_UUID_BYTES];  /* done */
    } u;
} ngx_http_interlock_node_t;


_Static_assert(sizeof(ngx_http_interlock_node_t) == 128,
               "an entry is 128 bytes");


struct ngx_http_interlock_zone_sh_s {
    uint64_t                        magic;
    size_t                          node_size;
    volatile ngx_uint_t             dirty;      /* a change is under way */

    u_char                          key[IL_ENTRY_KEY];

    /* everything down to "counters" is protected by shpool->mutex */

    ngx_rbtree_t                    rbtree;
    ngx_rbtree_node_t               sentinel;
    ngx_queue_t                     flight;     /* newest first, by claim */
    ngx_queue_t                     done;       /* newest first, by answer */
    ngx_queue_t                     free;
    ngx_http_interlock_node_t      *nodes;
    ngx_uint_t                      capacity;
    ngx_uint_t                      used;       /* bump pointer */

    uint64_t                        owner;      /* last one handed out */
    u_char                          generation;
    size_t                          epoch_len;
    u_char                          epoch[NGX_HTTP_INTERLOCK_EPOCH_MAX];

    ngx_uint_t                      nflight;
    ngx_uint_t                      ndone;
    ngx_uint_t                      nstale;     /* done, of older epochs */
    uint64_t                        evicted;
    uint64_t                        expired;
    uint64_t                        no_room;
    uint64_t                        rebuilt;
    uint64_t                        epochs;

    ngx_http_interlock_counters_t  *counters;
};


static ngx_int_t ngx_http_interlock_zone_create(
    ngx_http_interlock_zone_t *zone);
static ngx_int_t ngx_http_interlock_zone_add_counters(
    ngx_http_interlock_zone_t *zone);
static void ngx_http_interlock_zone_lock(ngx_http_interlock_zone_t *zone);
static void ngx_http_interlock_zone_unlock(ngx_http_interlock_zone_t *zone);
static void ngx_http_interlock_zone_begin(ngx_http_interlock_zone_sh_t *sh);
static void ngx_http_interlock_zone_end(ngx_http_interlock_zone_sh_t *sh);
static void ngx_http_interlock_zone_forget(ngx_http_interlock_zone_sh_t *sh);
static void ngx_http_interlock_rbtree_insert_value(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static ngx_http_interlock_node_t *ngx_http_interlock_zone_lookup(
    ngx_http_interlock_zone_sh_t *sh, ngx_http_interlock_id_t *id);
static ngx_uint_t ngx_http_interlock_node_live(
    ngx_http_interlock_zone_sh_t *sh, ngx_http_interlock_node_t *node);
static ngx_http_interlock_claim_e ngx_http_interlock_node_judge(
    ngx_http_interlock_node_t *node, ngx_http_interlock_id_t *id,
    ngx_http_interlock_answer_t *answer);
static void ngx_http_interlock_node_remove(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node);
static void ngx_http_interlock_zone_expire(ngx_http_interlock_zone_sh_t *sh);
static ngx_http_interlock_node_t *ngx_http_interlock_node_alloc(
    ngx_http_interlock_zone_sh_t *sh);
static ngx_uint_t ngx_http_interlock_zone_set_epoch(
    ngx_http_interlock_zone_sh_t *sh, ngx_str_t *epoch);


#define ngx_http_interlock_now()                                              \
    ((uint32_t) ((uint64_t) ngx_current_msec / 100))


ngx_int_t
ngx_http_interlock_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_http_interlock_zone_t  *ozone = data;

    ngx_http_interlock_zone_t  *zone;

    zone = shm_zone->data;
    zone->shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (ozone) {
        zone->sh = ozone->sh;

    } else if (shm_zone->shm.exists) {
        zone->sh = zone->shpool->data;

    } else if (ngx_http_interlock_zone_create(zone) != NGX_OK) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "zone \"%V\" in \"interlock_zone\" is too small",
                      &shm_zone->shm.name);
        return NGX_ERROR;
    }

    if (zone->sh->magic != NGX_HTTP_INTERLOCK_MAGIC
        || zone->sh->node_size != sizeof(ngx_http_interlock_node_t))
    {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "zone \"%V\" in \"interlock_zone\" was made by another "
                      "version of the module; restart nginx, or give the "
                      "zone another name", &shm_zone->shm.name);
        return NGX_ERROR;
    }

    return ngx_http_interlock_zone_add_counters(zone);
}


static ngx_int_t
ngx_http_interlock_zone_create(ngx_http_interlock_zone_t *zone)
{
    size_t                         len;
    ngx_uint_t                     pages;
    ngx_slab_pool_t               *shpool;
    ngx_http_interlock_zone_sh_t  *sh;

    shpool = zone->shpool;

    /* a failed allocation is counted and answered for, not logged */
    shpool->log_nomem = 0;

    sh = ngx_slab_calloc(shpool, sizeof(ngx_http_interlock_zone_sh_t));
    if (sh == NULL) {
        return NGX_ERROR;
    }

    shpool->data = sh;

    len = sizeof(" in interlock zone \"\"") + zone->shm_zone->shm.name.len;

    shpool->log_ctx = ngx_slab_alloc(shpool, len);
    if (shpool->log_ctx == NULL) {
        return NGX_ERROR;
    }

    ngx_sprintf(shpool->log_ctx, " in interlock zone \"%V\"%Z",
                &zone->shm_zone->shm.name);

    /* an eighth, at most 16 pages, is left for the counters of locations */

    pages = shpool->pfree;
    pages -= ngx_min(ngx_max(pages / 8, 1), 16);

    sh->nodes = ngx_slab_alloc(shpool, pages * ngx_pagesize);
    if (sh->nodes == NULL) {
        return NGX_ERROR;
    }

    sh->capacity = pages * ngx_pagesize / sizeof(ngx_http_interlock_node_t);

    randombytes_buf(sh->key, IL_ENTRY_KEY);

    ngx_http_interlock_zone_forget(sh);

    sh->node_size = sizeof(ngx_http_interlock_node_t);
    sh->magic = NGX_HTTP_INTERLOCK_MAGIC;

    zone->sh = sh;

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_zone_add_counters(ngx_http_interlock_zone_t *zone)
{
    size_t                          len;
    ngx_uint_t                      i;
    ngx_http_interlock_counters_t  *c, **last;
    ngx_http_interlock_location_t  *loc;

    /*
     * Workers of the cycle before may walk the list for a status page
     * meanwhile: a block is complete before it is linked.  Only the master
     * process adds to the list.
     */

    loc = zone->locations.elts;

    for (i = 0; i < zone->locations.nelts; i++) {

        len = ngx_min(loc[i].label.len, NGX_HTTP_INTERLOCK_LABEL_MAX);

        for (last = &zone->sh->counters; *last; last = &(*last)->next) {
            if ((*last)->len == len
                && ngx_memcmp((*last)->label, loc[i].label.data, len) == 0)
            {
                break;
            }
        }

        if (*last == NULL) {
            c = ngx_slab_calloc(zone->shpool,
                                sizeof(ngx_http_interlock_counters_t));
            if (c == NULL) {
                ngx_log_error(NGX_LOG_WARN, zone->shm_zone->shm.log, 0,
                              "zone \"%V\" in \"interlock_zone\" has no room "
                              "for the counters of location \"%V\"",
                              &zone->shm_zone->shm.name, &loc[i].label);
                continue;
            }

            c->len = len;
            ngx_memcpy(c->label, loc[i].label.data, len);

            ngx_memory_barrier();

            *last = c;
        }

        *loc[i].counters = *last;
    }

    return NGX_OK;
}


const u_char *
ngx_http_interlock_zone_key(ngx_http_interlock_zone_t *zone)
{
    return zone->sh->key;
}


ngx_http_interlock_claim_e
ngx_http_interlock_zone_claim(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *id, uint64_t *owner,
    ngx_http_interlock_answer_t *answer)
{
    ngx_http_interlock_node_t     *node;
    ngx_http_interlock_claim_e     rc;
    ngx_http_interlock_zone_sh_t  *sh;

    sh = zone->sh;

    ngx_http_interlock_zone_lock(zone);

    node = ngx_http_interlock_zone_lookup(sh, id);

    if (node && ngx_http_interlock_node_live(sh, node)) {
        rc = ngx_http_interlock_node_judge(node, id, answer);
        ngx_http_interlock_zone_unlock(zone);
        return rc;
    }

    ngx_http_interlock_zone_begin(sh);

    if (node) {
        if (node->state == NGX_HTTP_INTERLOCK_S_FLIGHT) {
            sh->expired++;
        }

        ngx_http_interlock_node_remove(sh, node);
    }

    ngx_http_interlock_zone_expire(sh);

    node = ngx_http_interlock_node_alloc(sh);

    if (node == NULL) {
        sh->no_room++;
        rc = NGX_HTTP_INTERLOCK_CLAIM_NO_ROOM;

    } else {
        ngx_memzero(node, sizeof(ngx_http_interlock_node_t));

        ngx_memcpy(&node->key, id->hash, 8);
        ngx_memcpy(node->rest, id->hash + 8, sizeof(node->rest));
        ngx_memcpy(node->check, id->check, sizeof(node->check));

        node->state = NGX_HTTP_INTERLOCK_S_FLIGHT;
        node->expires = ngx_http_interlock_now()
                        + (uint32_t) ((zone->in_flight + 99) / 100);
        node->u.owner = ++sh->owner;

        ngx_rbtree_insert(&sh->rbtree, (ngx_rbtree_node_t *) node);
        ngx_queue_insert_head(&sh->flight, &node->queue);
        sh->nflight++;

        *owner = node->u.owner;
        rc = NGX_HTTP_INTERLOCK_CLAIM_OWNER;
    }

    ngx_http_interlock_zone_end(sh);
    ngx_http_interlock_zone_unlock(zone);

    return rc;
}


ngx_http_interlock_claim_e
ngx_http_interlock_zone_peek(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *id, ngx_http_interlock_answer_t *answer)
{
    ngx_http_interlock_node_t   *node;
    ngx_http_interlock_claim_e   rc;

    rc = NGX_HTTP_INTERLOCK_CLAIM_OWNER;

    ngx_http_interlock_zone_lock(zone);

    node = ngx_http_interlock_zone_lookup(zone->sh, id);

    if (node && ngx_http_interlock_node_live(zone->sh, node)) {
        rc = ngx_http_interlock_node_judge(node, id, answer);
    }

    ngx_http_interlock_zone_unlock(zone);

    return rc;
}


ngx_int_t
ngx_http_interlock_zone_settle(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *id, uint64_t owner,
    ngx_http_interlock_answer_t *answer, time_t seconds, ngx_str_t *epoch)
{
    ngx_int_t                      rc;
    ngx_http_interlock_node_t     *node;
    ngx_http_interlock_zone_sh_t  *sh;

    rc = NGX_DECLINED;
    sh = zone->sh;

    ngx_http_interlock_zone_lock(zone);
    ngx_http_interlock_zone_begin(sh);

    if (epoch && epoch->len && ngx_http_interlock_zone_set_epoch(sh, epoch)) {
        goto done;
    }

    if (owner == 0) {
        goto done;
    }

    node = ngx_http_interlock_zone_lookup(sh, id);

    if (node == NULL
        || node->state != NGX_HTTP_INTERLOCK_S_FLIGHT
        || node->u.owner != owner)
    {
        goto done;
    }

    if (answer == NULL || seconds <= 0) {
        ngx_http_interlock_node_remove(sh, node);
        goto done;
    }

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

    rc = NGX_OK;

done:

    ngx_http_interlock_zone_end(sh);
    ngx_http_interlock_zone_unlock(zone);

    return rc;
}


void
ngx_http_interlock_zone_stat(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_zone_stat_t *stat)
{
    ngx_http_interlock_zone_sh_t  *sh;

    sh = zone->sh;

    ngx_http_interlock_zone_lock(zone);

    stat->capacity = sh->capacity;
    stat->in_flight = sh->nflight;
    stat->done = sh->ndone - sh->nstale;
    stat->free = sh->capacity - sh->nflight - sh->ndone;
    stat->evicted = sh->evicted;
    stat->expired = sh->expired;
    stat->no_room = sh->no_room;
    stat->rebuilt = sh->rebuilt;
    stat->epochs = sh->epochs;
    stat->epoch_len = sh->epoch_len;
    ngx_memcpy(stat->epoch, sh->epoch, sh->epoch_len);
    stat->counters = sh->counters;

    ngx_http_interlock_zone_unlock(zone);

    stat->free_pages = stat->free
                       / (ngx_pagesize / sizeof(ngx_http_interlock_node_t));
}


static void
ngx_http_interlock_zone_lock(ngx_http_interlock_zone_t *zone)
{
    ngx_http_interlock_zone_sh_t  *sh;

    sh = zone->sh;

    ngx_shmtx_lock(&zone->shpool->mutex);

    if (sh->dirty) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "interlock zone \"%V\" was left in the middle of a "
                      "change; its entries are forgotten",
                      &zone->shm_zone->shm.name);

        ngx_http_interlock_zone_forget(sh);
        sh->rebuilt++;

        ngx_http_interlock_zone_end(sh);
    }
}


static void
ngx_http_interlock_zone_unlock(ngx_http_interlock_zone_t *zone)
{
    ngx_shmtx_unlock(&zone->shpool->mutex);
}


static void
ngx_http_interlock_zone_begin(ngx_http_interlock_zone_sh_t *sh)
{
    sh->dirty = 1;
    ngx_memory_barrier();

#if (NGX_HTTP_INTERLOCK_FAULTS)
    {
    static ngx_uint_t   n;
    static ngx_int_t    limit = -1;

    char               *value;

    /* a worker that dies in its n-th change, half way */

    if (limit == -1) {
        value = getenv("INTERLOCK_FAULT_ZONE");
        limit = value ? ngx_atoi((u_char *) value, ngx_strlen(value)) : 0;
    }

    if (limit > 0 && ++n == (ngx_uint_t) limit) {
        ngx_memset(&sh->rbtree.root, 0xa5, sizeof(sh->rbtree.root));
        ngx_memset(&sh->flight, 0xa5, sizeof(sh->flight));
        ngx_memset(&sh->free, 0xa5, sizeof(sh->free));
        (void) raise(SIGKILL);
    }
    }
#endif
}


static void
ngx_http_interlock_zone_end(ngx_http_interlock_zone_sh_t *sh)
{
    ngx_memory_barrier();
    sh->dirty = 0;
}


/* constant time: no node is touched, all of them are free again */

static void
ngx_http_interlock_zone_forget(ngx_http_interlock_zone_sh_t *sh)
{
    ngx_rbtree_init(&sh->rbtree, &sh->sentinel,
                    ngx_http_interlock_rbtree_insert_value);
    ngx_queue_init(&sh->flight);
    ngx_queue_init(&sh->done);
    ngx_queue_init(&sh->free);

    sh->used = 0;
    sh->nflight = 0;
    sh->ndone = 0;
    sh->nstale = 0;
}


static void
ngx_http_interlock_rbtree_insert_value(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t          **p;
    ngx_http_interlock_node_t   *n, *t;

    n = (ngx_http_interlock_node_t *) node;

    for ( ;; ) {

        if (node->key < temp->key) {
            p = &temp->left;

        } else if (node->key > temp->key) {
            p = &temp->right;

        } else {
            t = (ngx_http_interlock_node_t *) temp;

            p = (ngx_memcmp(n->rest, t->rest, sizeof(n->rest)) < 0)
                ? &temp->left : &temp->right;
        }

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


static ngx_http_interlock_node_t *
ngx_http_interlock_zone_lookup(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_id_t *id)
{
    ngx_int_t                   rc;
    ngx_rbtree_key_t            key;
    ngx_rbtree_node_t          *node, *sentinel;
    ngx_http_interlock_node_t  *n;

    ngx_memcpy(&key, id->hash, 8);

    node = sh->rbtree.root;
    sentinel = sh->rbtree.sentinel;

    while (node != sentinel) {

        if (key < node->key) {
            node = node->left;
            continue;
        }

        if (key > node->key) {
            node = node->right;
            continue;
        }

        n = (ngx_http_interlock_node_t *) node;

        rc = ngx_memcmp(id->hash + 8, n->rest, sizeof(n->rest));

        if (rc == 0) {
            return n;
        }

        node = (rc < 0) ? node->left : node->right;
    }

    return NULL;
}


static ngx_uint_t
ngx_http_interlock_node_live(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node)
{
    if ((int32_t) (node->expires - ngx_http_interlock_now()) <= 0) {
        return 0;
    }

    return node->state == NGX_HTTP_INTERLOCK_S_FLIGHT
           || node->generation == sh->generation;
}


static ngx_http_interlock_claim_e
ngx_http_interlock_node_judge(ngx_http_interlock_node_t *node,
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


static void
ngx_http_interlock_node_remove(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node)
{
    if (node->state == NGX_HTTP_INTERLOCK_S_FLIGHT) {
        sh->nflight--;

    } else {
        sh->ndone--;

        if (node->generation != sh->generation) {
            sh->nstale--;
        }
    }

    ngx_queue_remove(&node->queue);
    ngx_rbtree_delete(&sh->rbtree, (ngx_rbtree_node_t *) node);
    ngx_queue_insert_head(&sh->free, &node->queue);
}


/* at most two of each queue per claim, so that the work stays bounded */

static void
ngx_http_interlock_zone_expire(ngx_http_interlock_zone_sh_t *sh)
{
    ngx_uint_t                  i;
    ngx_queue_t                *q;
    ngx_http_interlock_node_t  *node;

    for (i = 0; i < 2 && !ngx_queue_empty(&sh->flight); i++) {
        q = ngx_queue_last(&sh->flight);
        node = ngx_queue_data(q, ngx_http_interlock_node_t, queue);

        if (ngx_http_interlock_node_live(sh, node)) {
            break;
        }

        sh->expired++;
        ngx_http_interlock_node_remove(sh, node);
    }

    for (i = 0; i < 2 && !ngx_queue_empty(&sh->done); i++) {
        q = ngx_queue_last(&sh->done);
        node = ngx_queue_data(q, ngx_http_interlock_node_t, queue);

        if (ngx_http_interlock_node_live(sh, node)) {
            break;
        }

        ngx_http_interlock_node_remove(sh, node);
    }
}


/*
 * A free node; else that of an expired answer among the oldest ones; else that
 * of the oldest answer.  Entries in flight are never given up: their requests
 * are with the backend now.
 */

static ngx_http_interlock_node_t *
ngx_http_interlock_node_alloc(ngx_http_interlock_zone_sh_t *sh)
{
    ngx_uint_t                  i;
    ngx_queue_t                *q;
    ngx_http_interlock_node_t  *node;

    if (ngx_queue_empty(&sh->free)) {

        if (sh->used < sh->capacity) {
            return &sh->nodes[sh->used++];
        }

        if (ngx_queue_empty(&sh->done)) {
            return NULL;
        }

        q = ngx_queue_last(&sh->done);

        for (i = 0;
             i < NGX_HTTP_INTERLOCK_SCAN && q != ngx_queue_sentinel(&sh->done);
             i++)
        {
            node = ngx_queue_data(q, ngx_http_interlock_node_t, queue);

            if (!ngx_http_interlock_node_live(sh, node)) {
                goto found;
            }

            q = ngx_queue_prev(q);
        }

        q = ngx_queue_last(&sh->done);
        node = ngx_queue_data(q, ngx_http_interlock_node_t, queue);
        sh->evicted++;

    found:

        ngx_http_interlock_node_remove(sh, node);
    }

    q = ngx_queue_head(&sh->free);
    ngx_queue_remove(q);

    return ngx_queue_data(q, ngx_http_interlock_node_t, queue);
}


/* 1 if the whole zone was forgotten */

static ngx_uint_t
ngx_http_interlock_zone_set_epoch(ngx_http_interlock_zone_sh_t *sh,
    ngx_str_t *epoch)
{
    if (epoch->len > NGX_HTTP_INTERLOCK_EPOCH_MAX
        || (epoch->len == sh->epoch_len
            && ngx_memcmp(epoch->data, sh->epoch, epoch->len) == 0))
    {
        return 0;
    }

    if (sh->epoch_len) {
        sh->epochs++;
        sh->generation++;
        sh->nstale = sh->ndone;
    }

    sh->epoch_len = epoch->len;
    ngx_memcpy(sh->epoch, epoch->data, epoch->len);

    if (sh->generation == 0 && sh->epochs) {

        /* the generation wrapped: an old entry could look like a new one */

        ngx_http_interlock_zone_forget(sh);
        return 1;
    }

    return 0;
}
