
/*
 * Copyright (C) the interlock authors
 */


/*
 * The request's own state: it lives as long as the request, and gives up what
 * the request claimed, however that ends.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


static void ngx_http_interlock_cleanup(void *data);


void
ngx_http_interlock_release(ngx_http_interlock_ctx_t *ctx)
{
    ngx_http_interlock_zone_t  *zone;

    if (ctx->owner == 0) {
        return;
    }

    zone = ctx->lcf->shm_zone->data;

    (void) ngx_http_interlock_zone_settle(zone, &ctx->id, ctx->owner, NULL, 0,
                                          NULL);
    ctx->owner = 0;
}


ngx_http_interlock_ctx_t *
ngx_http_interlock_create_ctx(ngx_http_request_t *r,
    ngx_http_interlock_loc_conf_t *ilcf)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_interlock_ctx_t  *ctx;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_interlock_ctx_t));
    if (cln == NULL) {
        return NULL;
    }

    ctx = cln->data;
    ngx_memzero(ctx, sizeof(ngx_http_interlock_ctx_t));

    cln->handler = ngx_http_interlock_cleanup;

    ctx->request = r;
    ctx->lcf = ilcf;

    ngx_http_set_ctx(r, ctx, ngx_http_interlock_module);

    return ctx;
}


ngx_http_interlock_ctx_t *
ngx_http_interlock_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_interlock_ctx_t  *ctx;

    r = r->main;

    ctx = ngx_http_get_module_ctx(r, ngx_http_interlock_module);

    if (ctx == NULL && (r->internal || r->filter_finalize)) {

        /* an internal redirect zeroed r->ctx; the cleanup remains */

        for (cln = r->pool->cleanup; cln; cln = cln->next) {
            if (cln->handler == ngx_http_interlock_cleanup) {
                ctx = cln->data;
                ctx->redirected = 1;
                break;
            }
        }
    }

    return ctx;
}


/* runs however the request ends, and whatever nginx did to it */

static void
ngx_http_interlock_cleanup(void *data)
{
    ngx_http_interlock_ctx_t *ctx = data;

    ngx_http_interlock_release(ctx);
    ngx_http_interlock_count(ctx, NGX_HTTP_INTERLOCK_UNFINISHED);

    if (ctx->effect) {
        ngx_http_interlock_effect_cleanup(ctx);
    }

    if (ctx->map && munmap(ctx->map, ctx->map_len) == -1) {
        ngx_log_error(NGX_LOG_ALERT, ctx->request->connection->log, ngx_errno,
                      "munmap(%uz) of a request body failed", ctx->map_len);
    }
}
