
/*
 * Copyright (C) the interlock authors
 */


/*
 * The request body as one contiguous piece, however nginx kept it: signatures
 * and JSON are read from exactly the bytes that came.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


static ngx_int_t ngx_http_interlock_body_read(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_body_map(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_buf_t *buf);
static ngx_int_t ngx_http_interlock_body_copy(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, size_t len);


ngx_int_t
ngx_http_interlock_body(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx)
{
    if (ctx->body_read) {

        /* an internal redirect from a location that inflated it, perhaps */

        ctx->content = ctx->body;
        return NGX_OK;
    }

    ctx->body_read = 1;
    ctx->body = il_str(NULL, 0);

    if (ngx_http_interlock_body_read(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->content = ctx->body;

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_body_read(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    size_t        len;
    ngx_buf_t    *buf;
    ngx_uint_t    n;
    ngx_chain_t  *cl;

    if (r->request_body == NULL || r->request_body->bufs == NULL) {
        return NGX_OK;
    }

    buf = NULL;
    len = 0;
    n = 0;

    for (cl = r->request_body->bufs; cl; cl = cl->next) {
        if (ngx_buf_size(cl->buf) > 0) {
            buf = cl->buf;
            len += (size_t) ngx_buf_size(buf);
            n++;
        }
    }

    if (n == 0) {
        return NGX_OK;
    }

    if (n == 1) {
        if (buf->in_file) {
            return ngx_http_interlock_body_map(r, ctx, buf);
        }

        ctx->body = il_str((char *) buf->pos, len);
        return NGX_OK;
    }

    return ngx_http_interlock_body_copy(r, ctx, len);
}


/*
 * The temporary file is nginx's own: nobody shortens it while the request
 * lives, and r->preserve_body keeps it until then.
 */

static ngx_int_t
ngx_http_interlock_body_map(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_buf_t *buf)
{
    void    *map;
    off_t    start;
    size_t   skip, len;

    len = (size_t) (buf->file_last - buf->file_pos);
    skip = (size_t) (buf->file_pos % (off_t) ngx_pagesize);
    start = buf->file_pos - (off_t) skip;

    map = mmap(NULL, len + skip, PROT_READ, MAP_PRIVATE, buf->file->fd,
               start);

    if (map == MAP_FAILED) {
        ngx_log_error(NGX_LOG_CRIT, r->connection->log, ngx_errno,
                      "mmap(%uz) of request body \"%V\" failed",
                      len + skip, &buf->file->name);
        return NGX_ERROR;
    }

    ctx->map = map;
    ctx->map_len = len + skip;
    ctx->body = il_str((char *) map + skip, len);

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_body_copy(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, size_t len)
{
    u_char       *p, *start;
    size_t        size;
    ssize_t       n;
    ngx_buf_t    *buf;
    ngx_chain_t  *cl;

    start = ngx_pnalloc(r->pool, len);
    if (start == NULL) {
        return NGX_ERROR;
    }

    p = start;

    for (cl = r->request_body->bufs; cl; cl = cl->next) {

        buf = cl->buf;
        size = (size_t) ngx_buf_size(buf);

        if (size == 0) {
            continue;
        }

        if (!buf->in_file) {
            p = ngx_cpymem(p, buf->pos, size);
            continue;
        }

        n = ngx_read_file(buf->file, p, size, buf->file_pos);

        if (n == NGX_ERROR || (size_t) n != size) {
            ngx_log_error(NGX_LOG_CRIT, r->connection->log, 0,
                          ngx_read_file_n " read only %z of %uz from \"%V\"",
                          n, size, &buf->file->name);
            return NGX_ERROR;
        }

        p += size;
    }

    ctx->body = il_str((char *) start, len);

    return NGX_OK;
}
