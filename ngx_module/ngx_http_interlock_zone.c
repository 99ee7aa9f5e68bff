
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
 * takes constant time here: the table, the queues, the free list and the bump
 * pointer start anew, and no node is looked at.  Forgetting is always safe:
 * the backend decides, the zone only saves it work.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <sodium.h>

#include "ngx_http_interlock_entry.h"


#define NGX_HTTP_INTERLOCK_MAGIC  0x696c7a6f6e650004


static ngx_int_t ngx_http_interlock_zone_create(
    ngx_http_interlock_zone_t *zone);
static ngx_int_t ngx_http_interlock_zone_add_counters(
    ngx_http_interlock_zone_t *zone);
static void ngx_http_interlock_zone_lock(ngx_http_interlock_zone_t *zone);
static void ngx_http_interlock_zone_unlock(ngx_http_interlock_zone_t *zone);
static void ngx_http_interlock_zone_begin(ngx_http_interlock_zone_sh_t *sh);
static void ngx_http_interlock_zone_end(ngx_http_interlock_zone_sh_t *sh);


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

    shpool->log_ctx = sh->log_ctx;

    ngx_snprintf(shpool->log_ctx, sizeof(sh->log_ctx) - 1,
                 " in interlock zone \"%V\"", &zone->shm_zone->shm.name);

    /* an eighth, 2 to 16 pages, is left for the counters of locations: there
     * is room for four on a page */

    pages = shpool->pfree;
    pages -= ngx_min(ngx_max(pages / 8, 2), 16);

    sh->nodes = ngx_slab_alloc(shpool, pages * ngx_pagesize);
    if (sh->nodes == NULL) {
        return NGX_ERROR;
    }

    /* nodes have numbers of 32 bits */

    sh->capacity = ngx_min(pages * ngx_pagesize
                           / sizeof(ngx_http_interlock_node_t), UINT32_MAX);

    randombytes_buf(sh->key, IL_ENTRY_KEY);
    randombytes_buf(sh->id, NGX_HTTP_INTERLOCK_ZONE_ID);

    ngx_http_interlock_entry_forget(sh);

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


void
ngx_http_interlock_zone_expect(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *id)
{
    ngx_http_interlock_entry_prefetch(zone->sh, id);
}


ngx_http_interlock_claim_e
ngx_http_interlock_zone_look(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *id, ngx_http_interlock_answer_t *answer)
{
    ngx_http_interlock_node_t   *node;
    ngx_http_interlock_claim_e   rc;

    ngx_http_interlock_zone_lock(zone);

    node = ngx_http_interlock_entry_lookup(zone->sh, id);

    if (node && ngx_http_interlock_entry_live(zone->sh, node)) {
        rc = ngx_http_interlock_entry_judge(node, id, answer);

    } else {
        rc = NGX_HTTP_INTERLOCK_CLAIM_NONE;
    }

    ngx_http_interlock_zone_unlock(zone);

    return rc;
}


ngx_http_interlock_claim_e
ngx_http_interlock_zone_claim(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *id, ngx_http_interlock_id_t *work, time_t limit,
    uint64_t *owner, ngx_http_interlock_answer_t *answer)
{
    time_t                         seconds;
    ngx_http_interlock_node_t     *node, *held;
    ngx_http_interlock_claim_e     rc;
    ngx_http_interlock_zone_sh_t  *sh;

    sh = zone->sh;
    seconds = 0;

    ngx_http_interlock_zone_lock(zone);

    node = id ? ngx_http_interlock_entry_lookup(sh, id) : NULL;

    if (node && ngx_http_interlock_entry_live(sh, node)) {
        rc = ngx_http_interlock_entry_judge(node, id, answer);
        ngx_http_interlock_zone_unlock(zone);
        return rc;
    }

    held = work ? ngx_http_interlock_entry_lookup(sh, work) : NULL;

    if (held
        && !ngx_http_interlock_entry_held(sh, held, work, answer, &seconds))
    {
        held = NULL;
    }

    seconds = ngx_min(seconds, limit);

    if (id == NULL || (held && seconds <= 0)) {
        ngx_http_interlock_zone_unlock(zone);
        return held ? NGX_HTTP_INTERLOCK_CLAIM_HELD
                    : NGX_HTTP_INTERLOCK_CLAIM_NONE;
    }

    ngx_http_interlock_zone_begin(sh);

    if (node) {
        if (node->state == NGX_HTTP_INTERLOCK_S_FLIGHT) {
            sh->expired++;
        }

        ngx_http_interlock_entry_remove(sh, node);
    }

    ngx_http_interlock_entry_expire(sh);

    node = ngx_http_interlock_entry_add(sh, id, zone->in_flight);

    if (held) {

        /* no room: the answer holds, though its own key is not remembered */

        if (node) {
            ngx_http_interlock_entry_done(sh, node, answer, seconds);
        }

        rc = NGX_HTTP_INTERLOCK_CLAIM_HELD;

    } else if (node == NULL) {
        sh->no_room++;
        rc = NGX_HTTP_INTERLOCK_CLAIM_NO_ROOM;

    } else {
        *owner = node->u.owner;
        rc = NGX_HTTP_INTERLOCK_CLAIM_OWNER;
    }

    ngx_http_interlock_zone_end(sh);
    ngx_http_interlock_zone_unlock(zone);

    return rc;
}


ngx_int_t
ngx_http_interlock_zone_hold(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *work, ngx_http_interlock_answer_t *answer,
    ngx_msec_t ms, time_t seconds)
{
    ngx_http_interlock_node_t     *node;
    ngx_http_interlock_zone_sh_t  *sh;

    sh = zone->sh;

    ngx_http_interlock_zone_lock(zone);

    node = ngx_http_interlock_entry_lookup(sh, work);

    if (ms == 0 && node == NULL) {
        ngx_http_interlock_zone_unlock(zone);
        return NGX_OK;
    }

    ngx_http_interlock_zone_begin(sh);

    if (ms) {
        node = ngx_http_interlock_entry_hold(sh, work, answer, ms, seconds);

    } else if (node->state == NGX_HTTP_INTERLOCK_S_HELD) {
        ngx_http_interlock_entry_remove(sh, node);
    }

    ngx_http_interlock_zone_end(sh);
    ngx_http_interlock_zone_unlock(zone);

    return node ? NGX_OK : NGX_DECLINED;
}


void
ngx_http_interlock_zone_over(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *work, u_char *job)
{
    ngx_http_interlock_zone_sh_t  *sh;

    sh = zone->sh;

    ngx_http_interlock_zone_lock(zone);
    ngx_http_interlock_zone_begin(sh);

    ngx_http_interlock_entry_expire(sh);
    (void) ngx_http_interlock_entry_over(sh, work, job);

    ngx_http_interlock_zone_end(sh);
    ngx_http_interlock_zone_unlock(zone);
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

    if (epoch && epoch->len) {
        ngx_http_interlock_entry_epoch(sh, epoch);
    }

    if (owner == 0) {
        goto done;
    }

    node = ngx_http_interlock_entry_lookup(sh, id);

    if (node == NULL
        || node->state != NGX_HTTP_INTERLOCK_S_FLIGHT
        || node->u.owner != owner)
    {
        goto done;
    }

    if (answer == NULL || seconds <= 0) {
        ngx_http_interlock_entry_remove(sh, node);
        goto done;
    }

    ngx_http_interlock_entry_done(sh, node, answer, seconds);

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
    stat->held = sh->nheld;
    stat->free = sh->capacity - sh->nflight - sh->ndone - sh->nheld;
    stat->evicted = sh->evicted;
    stat->expired = sh->expired;
    stat->no_room = sh->no_room;
    stat->rebuilt = sh->rebuilt;
    stat->epochs = sh->epochs;
    stat->answered = *zone->answered;
    ngx_memcpy(stat->id, sh->id, NGX_HTTP_INTERLOCK_ZONE_ID);
    stat->epoch_len = sh->epoch_len;
    ngx_memcpy(stat->epoch, sh->epoch, sh->epoch_len);
    stat->counters = sh->counters;

    ngx_http_interlock_zone_unlock(zone);

    stat->free_pages = stat->free
                       / (ngx_pagesize / sizeof(ngx_http_interlock_node_t));
    stat->free_bytes = stat->free * sizeof(ngx_http_interlock_node_t);
}


uint64_t
ngx_http_interlock_zone_number(ngx_http_interlock_zone_t *zone)
{
    return (uint64_t) ngx_atomic_fetch_add(zone->answered, 1) + 1;
}


const u_char *
ngx_http_interlock_zone_id(ngx_http_interlock_zone_t *zone)
{
    return zone->sh->id;
}


void
ngx_http_interlock_zone_refused(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_counters_t *counters, il_problem_e problem,
    ngx_str_t *addr)
{
    ngx_http_interlock_zone_sh_t  *sh;
    ngx_http_interlock_refusal_t  *refusal;

    sh = zone->sh;

    ngx_http_interlock_zone_lock(zone);

    refusal = &sh->refusals[sh->nrefusals % NGX_HTTP_INTERLOCK_RING];

    refusal->counters = counters;
    refusal->time = ngx_time();
    refusal->problem = (u_char) problem;
    refusal->addr_len = (u_char) ngx_min(addr->len,
                                         NGX_HTTP_INTERLOCK_ADDR_MAX);
    ngx_memcpy(refusal->addr, addr->data, refusal->addr_len);

    sh->nrefusals++;

    ngx_http_interlock_zone_unlock(zone);
}


ngx_uint_t
ngx_http_interlock_zone_refusals(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_refusal_t *refusals)
{
    ngx_uint_t                     i, n;
    ngx_http_interlock_zone_sh_t  *sh;

    sh = zone->sh;

    ngx_http_interlock_zone_lock(zone);

    n = (ngx_uint_t) ngx_min(sh->nrefusals, NGX_HTTP_INTERLOCK_RING);

    for (i = 0; i < n; i++) {
        refusals[i] = sh->refusals[(sh->nrefusals - 1 - i)
                                   % NGX_HTTP_INTERLOCK_RING];
    }

    ngx_http_interlock_zone_unlock(zone);

    return n;
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

        ngx_http_interlock_entry_forget(sh);
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
        ngx_memset(sh->nodes, 0xa5, 4 * sizeof(ngx_http_interlock_node_t));
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
