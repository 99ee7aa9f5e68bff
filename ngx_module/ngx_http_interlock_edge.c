
/*
 * Copyright (C) the interlock authors
 */


/*
 * How far zones have counted what the edge answered alone.
 *
 * That is to be told even if the zone is there no more: a reload may have
 * given it another size or name while the backend was away, and workers of
 * the cycle before may still count in it.  So the numbers stand in memory of
 * their own, which reloads keep, and what is left of a zone is told along with
 * the others for some days.  When nginx ends they go to a file beside its pid
 * file, from which the next one has them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


/* no zone=name:size can have a ":" in its name */
#define NGX_HTTP_INTERLOCK_EDGE_NAME   "interlock:edge"

#define NGX_HTTP_INTERLOCK_EDGE_PAGES  8
#define NGX_HTTP_INTERLOCK_EDGE_GONE   8    /* zones that are told of still */
#define NGX_HTTP_INTERLOCK_EDGE_SLOTS  (NGX_HTTP_INTERLOCK_ZONES_MAX          \
                                        + NGX_HTTP_INTERLOCK_EDGE_GONE)

/* the backend settles what it has not heard of for a week (and would count it
 * again then) */
#define NGX_HTTP_INTERLOCK_EDGE_DAYS   (6 * 86400)

#define NGX_HTTP_INTERLOCK_EDGE_LINE   (2 * NGX_HTTP_INTERLOCK_ZONE_ID        \
                                        + 2 * NGX_INT64_LEN + sizeof("  \n"))
#define NGX_HTTP_INTERLOCK_EDGE_FILE   (NGX_HTTP_INTERLOCK_EDGE_SLOTS         \
                                        * NGX_HTTP_INTERLOCK_EDGE_LINE)


typedef struct {
    ngx_atomic_t    answered;   /* the last number */
    time_t          gone;       /* when its zone was there last; 0: it is */
    ngx_uint_t      used;
    u_char          id[NGX_HTTP_INTERLOCK_ZONE_ID];
} ngx_http_interlock_edge_slot_t;


/* Only the master process changes it, but for the numbers. */

typedef struct {
    ngx_uint_t                      loaded;
    ngx_http_interlock_edge_slot_t  slots[NGX_HTTP_INTERLOCK_EDGE_SLOTS];
} ngx_http_interlock_edge_sh_t;


struct ngx_http_interlock_edge_s {
    ngx_http_interlock_edge_sh_t   *sh;
};


static ngx_int_t ngx_http_interlock_edge_init(ngx_shm_zone_t *shm_zone,
    void *data);
static ngx_http_interlock_edge_slot_t *ngx_http_interlock_edge_find(
    ngx_http_interlock_edge_sh_t *sh, const u_char *id);
static ngx_http_interlock_edge_slot_t *ngx_http_interlock_edge_free(
    ngx_http_interlock_edge_sh_t *sh);
static ngx_int_t ngx_http_interlock_edge_told(
    ngx_http_interlock_edge_slot_t *slot);
static void ngx_http_interlock_edge_retire(ngx_http_interlock_edge_sh_t *sh,
    ngx_http_interlock_main_conf_t *imcf);
static u_char *ngx_http_interlock_edge_path(ngx_cycle_t *cycle,
    const char *suffix, ngx_pool_t *pool);
static void ngx_http_interlock_edge_load(ngx_http_interlock_edge_sh_t *sh,
    ngx_cycle_t *cycle);
static void ngx_http_interlock_edge_line(ngx_http_interlock_edge_sh_t *sh,
    u_char *p, u_char *last);
static ngx_int_t ngx_http_interlock_edge_write(ngx_cycle_t *cycle,
    u_char *buf, size_t len, u_char *name, u_char *temp);


ngx_int_t
ngx_http_interlock_edge_add(ngx_conf_t *cf,
    ngx_http_interlock_main_conf_t *imcf)
{
    ngx_str_t                   name;
    ngx_shm_zone_t             *shm_zone;
    ngx_http_interlock_edge_t  *edge;

    ngx_str_set(&name, NGX_HTTP_INTERLOCK_EDGE_NAME);

    shm_zone = ngx_shared_memory_add(cf, &name,
                                     NGX_HTTP_INTERLOCK_EDGE_PAGES
                                     * ngx_pagesize,
                                     &ngx_http_interlock_module);
    if (shm_zone == NULL) {
        return NGX_ERROR;
    }

    edge = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_edge_t));
    if (edge == NULL) {
        return NGX_ERROR;
    }

    shm_zone->init = ngx_http_interlock_edge_init;
    shm_zone->data = edge;

    imcf->edge = edge;

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_edge_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_http_interlock_edge_t  *oedge = data;

    ngx_slab_pool_t            *shpool;
    ngx_http_interlock_edge_t  *edge;

    edge = shm_zone->data;
    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (oedge) {
        edge->sh = oedge->sh;
        return NGX_OK;
    }

    if (shm_zone->shm.exists) {
        edge->sh = shpool->data;
        return NGX_OK;
    }

    edge->sh = ngx_slab_calloc(shpool, sizeof(ngx_http_interlock_edge_sh_t));
    if (edge->sh == NULL) {
        return NGX_ERROR;
    }

    shpool->data = edge->sh;

    return NGX_OK;
}


/* In the master process, when all zones have their memory and before there
 * are workers of this cycle. */

ngx_int_t
ngx_http_interlock_edge_begin(ngx_cycle_t *cycle)
{
    ngx_uint_t                       i;
    ngx_shm_zone_t                 **zp;
    ngx_http_interlock_zone_t       *zone;
    ngx_http_interlock_edge_sh_t    *sh;
    ngx_http_interlock_main_conf_t  *imcf;
    ngx_http_interlock_edge_slot_t  *slot;

    imcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_interlock_module);
    if (imcf == NULL) {
        return NGX_OK;
    }

    sh = imcf->edge->sh;

    if (!sh->loaded) {
        ngx_http_interlock_edge_load(sh, cycle);
        sh->loaded = 1;
    }

    ngx_http_interlock_edge_retire(sh, imcf);

    zp = imcf->zones->elts;

    for (i = 0; i < imcf->zones->nelts; i++) {

        zone = zp[i]->data;
        slot = ngx_http_interlock_edge_find(sh,
                                            ngx_http_interlock_zone_id(zone));

        if (slot == NULL) {
            slot = ngx_http_interlock_edge_free(sh);

            slot->answered = 0;
            ngx_memcpy(slot->id, ngx_http_interlock_zone_id(zone),
                       NGX_HTTP_INTERLOCK_ZONE_ID);
            ngx_memory_barrier();
            slot->used = 1;
        }

        slot->gone = 0;
        zone->answered = &slot->answered;
    }

    return NGX_OK;
}


static ngx_http_interlock_edge_slot_t *
ngx_http_interlock_edge_find(ngx_http_interlock_edge_sh_t *sh,
    const u_char *id)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_INTERLOCK_EDGE_SLOTS; i++) {
        if (sh->slots[i].used
            && ngx_memcmp(sh->slots[i].id, id, NGX_HTTP_INTERLOCK_ZONE_ID)
               == 0)
        {
            return &sh->slots[i];
        }
    }

    return NULL;
}


/* One that is free, or else that of the zone that has been gone for longest;
 * there is one, because not all slots can be those of zones that are there. */

static ngx_http_interlock_edge_slot_t *
ngx_http_interlock_edge_free(ngx_http_interlock_edge_sh_t *sh)
{
    ngx_uint_t                       i;
    ngx_http_interlock_edge_slot_t  *slot, *oldest;

    oldest = NULL;

    for (i = 0; i < NGX_HTTP_INTERLOCK_EDGE_SLOTS; i++) {
        slot = &sh->slots[i];

        if (!slot->used) {
            return slot;
        }

        if (slot->gone && (oldest == NULL || slot->gone < oldest->gone)) {
            oldest = slot;
        }
    }

    oldest->used = 0;

    return oldest;
}


/* Notes which zones are there no more. */

static void
ngx_http_interlock_edge_retire(ngx_http_interlock_edge_sh_t *sh,
    ngx_http_interlock_main_conf_t *imcf)
{
    ngx_uint_t                        i, k;
    ngx_shm_zone_t                  **zp;
    ngx_http_interlock_edge_slot_t   *slot;

    zp = imcf->zones->elts;

    for (i = 0; i < NGX_HTTP_INTERLOCK_EDGE_SLOTS; i++) {
        slot = &sh->slots[i];

        if (!slot->used || slot->gone) {
            continue;
        }

        for (k = 0; k < imcf->zones->nelts; k++) {
            if (ngx_memcmp(ngx_http_interlock_zone_id(zp[k]->data), slot->id,
                           NGX_HTTP_INTERLOCK_ZONE_ID)
                == 0)
            {
                break;
            }
        }

        if (k == imcf->zones->nelts) {
            slot->gone = ngx_time();
        }
    }
}


/* 1 if there is something to tell */

static ngx_int_t
ngx_http_interlock_edge_told(ngx_http_interlock_edge_slot_t *slot)
{
    return slot->used && slot->answered
           && (slot->gone == 0
               || ngx_time() - slot->gone < NGX_HTTP_INTERLOCK_EDGE_DAYS);
}


/* for $interlock_edge: "ID:NUMBER,..." */

ngx_int_t
ngx_http_interlock_edge_value(ngx_http_request_t *r, ngx_str_t *value)
{
    u_char                          *p;
    ngx_uint_t                       i;
    ngx_http_interlock_edge_sh_t    *sh;
    ngx_http_interlock_edge_slot_t  *slot;
    ngx_http_interlock_main_conf_t  *imcf;

    imcf = ngx_http_get_module_main_conf(r, ngx_http_interlock_module);
    sh = imcf->edge->sh;

    value->data = ngx_pnalloc(r->pool, NGX_HTTP_INTERLOCK_EDGE_FILE);
    if (value->data == NULL) {
        return NGX_ERROR;
    }

    p = value->data;

    for (i = 0; i < NGX_HTTP_INTERLOCK_EDGE_SLOTS; i++) {
        slot = &sh->slots[i];

        if (!ngx_http_interlock_edge_told(slot)) {
            continue;
        }

        if (p != value->data) {
            *p++ = ',';
        }

        p = ngx_hex_dump(p, slot->id, NGX_HTTP_INTERLOCK_ZONE_ID);
        p = ngx_sprintf(p, ":%uL", (uint64_t) slot->answered);
    }

    value->len = p - value->data;

    return NGX_OK;
}


/* ----------------------------------------------------------------- the file */


static u_char *
ngx_http_interlock_edge_path(ngx_cycle_t *cycle, const char *suffix,
    ngx_pool_t *pool)
{
    u_char           *name;
    size_t            len;
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    len = ccf->pid.len + ngx_strlen(suffix) + 1;

    name = ngx_pnalloc(pool, len);
    if (name) {
        *ngx_snprintf(name, len - 1, "%V%s", &ccf->pid, suffix) = '\0';
    }

    return name;
}


/* What the nginx before this one has left, if anything.  It may be that of
 * long ago, or be damaged: then there is less to tell. */

static void
ngx_http_interlock_edge_load(ngx_http_interlock_edge_sh_t *sh,
    ngx_cycle_t *cycle)
{
    u_char    *buf, *name, *p, *end, *last;
    ssize_t    n;
    ngx_fd_t   fd;

    name = ngx_http_interlock_edge_path(cycle, ".interlock", cycle->pool);
    buf = ngx_pnalloc(cycle->pool, NGX_HTTP_INTERLOCK_EDGE_FILE);

    if (name == NULL || buf == NULL) {
        return;
    }

    fd = ngx_open_file(name, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        if (ngx_errno != NGX_ENOENT) {
            ngx_log_error(NGX_LOG_WARN, cycle->log, ngx_errno,
                          "interlock: the last numbers of zones in \"%s\" "
                          "can not be read", name);
        }

        return;
    }

    n = ngx_read_fd(fd, buf, NGX_HTTP_INTERLOCK_EDGE_FILE);

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      ngx_close_file_n " \"%s\" failed", name);
    }

    last = buf + ngx_max(n, 0);

    for (p = buf; p < last; p = end + 1) {
        end = ngx_strlchr(p, last, '\n');

        if (end == NULL) {
            return;
        }

        ngx_http_interlock_edge_line(sh, p, end);
    }
}


/* one zone: its id, the last number, when it was there last */

static void
ngx_http_interlock_edge_line(ngx_http_interlock_edge_sh_t *sh, u_char *p,
    u_char *last)
{
    time_t                           gone;
    u_char                          *s, id[NGX_HTTP_INTERLOCK_ZONE_ID];
    ngx_int_t                        byte;
    ngx_uint_t                       i;
    ngx_atomic_int_t                 answered;
    ngx_http_interlock_edge_slot_t  *slot;

    if (last - p <= 2 * NGX_HTTP_INTERLOCK_ZONE_ID + 1) {
        return;
    }

    for (i = 0; i < NGX_HTTP_INTERLOCK_ZONE_ID; i++) {
        byte = ngx_hextoi(p, 2);

        if (byte == NGX_ERROR) {
            return;
        }

        id[i] = (u_char) byte;
        p += 2;
    }

    if (*p++ != ' ') {
        return;
    }

    s = ngx_strlchr(p, last, ' ');

    if (s == NULL) {
        return;
    }

    answered = ngx_atoi(p, s - p);
    gone = ngx_atotm(s + 1, last - s - 1);

    if (answered <= 0 || gone <= 0 || gone > ngx_time()
        || ngx_time() - gone >= NGX_HTTP_INTERLOCK_EDGE_DAYS
        || ngx_http_interlock_edge_find(sh, id))
    {
        return;
    }

    slot = ngx_http_interlock_edge_free(sh);

    ngx_memcpy(slot->id, id, NGX_HTTP_INTERLOCK_ZONE_ID);
    slot->answered = (ngx_atomic_uint_t) answered;
    slot->gone = gone;
    slot->used = 1;
}


/* In the master process, when its workers have ended. */

void
ngx_http_interlock_edge_end(ngx_cycle_t *cycle)
{
    u_char                          *buf, *p, *name, *temp;
    ngx_uint_t                       i;
    ngx_http_interlock_edge_sh_t    *sh;
    ngx_http_interlock_main_conf_t  *imcf;
    ngx_http_interlock_edge_slot_t  *slot;

    imcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_interlock_module);
    if (imcf == NULL) {
        return;
    }

    sh = imcf->edge->sh;

    /* another one may have ended meanwhile, whose binary this one replaced */

    ngx_http_interlock_edge_load(sh, cycle);

    buf = ngx_pnalloc(cycle->pool, NGX_HTTP_INTERLOCK_EDGE_FILE);
    name = ngx_http_interlock_edge_path(cycle, ".interlock", cycle->pool);
    temp = ngx_http_interlock_edge_path(cycle, ".interlock.tmp", cycle->pool);

    if (buf == NULL || name == NULL || temp == NULL) {
        return;
    }

    p = buf;

    for (i = 0; i < NGX_HTTP_INTERLOCK_EDGE_SLOTS; i++) {
        slot = &sh->slots[i];

        if (ngx_http_interlock_edge_told(slot)) {
            p = ngx_hex_dump(p, slot->id, NGX_HTTP_INTERLOCK_ZONE_ID);
            p = ngx_sprintf(p, " %uL %T\n", (uint64_t) slot->answered,
                            slot->gone ? slot->gone : ngx_time());
        }
    }

    if (p != buf
        && ngx_http_interlock_edge_write(cycle, buf, p - buf, name, temp)
           != NGX_OK)
    {
        ngx_log_error(NGX_LOG_ERR, cycle->log, ngx_errno,
                      "interlock: the last numbers of zones can not be "
                      "written to \"%s\"", name);
    }
}


static ngx_int_t
ngx_http_interlock_edge_write(ngx_cycle_t *cycle, u_char *buf, size_t len,
    u_char *name, u_char *temp)
{
    ssize_t   n;
    ngx_fd_t  fd;

    fd = ngx_open_file(temp, NGX_FILE_WRONLY|O_NOFOLLOW,
                       NGX_FILE_TRUNCATE, 0600);

    if (fd == NGX_INVALID_FILE) {
        return NGX_ERROR;
    }

    n = ngx_write_fd(fd, buf, len);

    if (ngx_close_file(fd) == NGX_FILE_ERROR || n != (ssize_t) len
        || ngx_rename_file(temp, name) == NGX_FILE_ERROR)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}
