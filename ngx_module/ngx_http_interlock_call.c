
/*
 * Copyright (C) the interlock authors
 */


/*
 * Subrequests whose answers are caught: the filters take header and body of
 * such a request and pass nothing on, so that nothing reaches the client
 * before the main request says so.
 *
 * A body that ended properly ends with a buffer marked as the last one; one
 * that was cut off does not, and that is how the two are told apart.  However
 * a subrequest ends, its handler says NGX_OK to nginx: an error page in its
 * place would be an answer that nobody gave.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


#define NGX_HTTP_INTERLOCK_BODY_FIRST  2048


static ngx_int_t ngx_http_interlock_call_start(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_call_t *call,
    ngx_str_t *uri, ngx_str_t *args, ngx_uint_t flags);
static ngx_int_t ngx_http_interlock_call_done(ngx_http_request_t *r,
    void *data, ngx_int_t rc);
static ngx_int_t ngx_http_interlock_call_none(ngx_http_request_t *r);
static void ngx_http_interlock_call_reset(ngx_connection_t *c);
static void ngx_http_interlock_call_list(ngx_list_t *to, ngx_list_t *from);
static ngx_int_t ngx_http_interlock_call_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_interlock_call_memory(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call, u_char *data, size_t len);
static ngx_int_t ngx_http_interlock_call_file(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call, u_char *data, size_t len);


static ngx_http_output_body_filter_pt  ngx_http_next_body_filter;


void
ngx_http_interlock_call_filter_init(void)
{
    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_interlock_call_body_filter;
}


/* POST to interlock_effect_uri; what is asked is in $interlock_effect_call */

ngx_int_t
ngx_http_interlock_call_backend(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_call_t *call,
    ngx_str_t *body)
{
    ngx_buf_t                *b;
    ngx_list_t                headers;
    ngx_http_request_t       *sr;
    ngx_http_request_body_t  *rb;

    ngx_memzero(call, sizeof(ngx_http_interlock_call_t));

    rb = ngx_pcalloc(r->pool, sizeof(ngx_http_request_body_t));
    if (rb == NULL
        || ngx_list_init(&headers, r->pool, 1, sizeof(ngx_table_elt_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (body->len) {
        b = ngx_calloc_buf(r->pool);
        rb->bufs = ngx_alloc_chain_link(r->pool);

        if (b == NULL || rb->bufs == NULL) {
            return NGX_ERROR;
        }

        b->pos = body->data;
        b->last = body->data + body->len;
        b->start = b->pos;
        b->end = b->last;
        b->memory = 1;
        b->last_buf = 1;

        rb->bufs->buf = b;
        rb->bufs->next = NULL;
    }

    if (ngx_http_interlock_call_start(r, ctx, call, &ctx->lcf->effect_uri,
                                      NULL, 0)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    sr = call->request;

    /* nothing of the worker's goes along: neither headers nor body */

    ngx_memzero(&sr->headers_in, sizeof(ngx_http_headers_in_t));
    ngx_http_interlock_call_list(&sr->headers_in.headers, &headers);

    sr->headers_in.server = r->headers_in.server;
    sr->headers_in.content_length_n = (off_t) body->len;
    sr->headers_in.keep_alive_n = -1;

    sr->request_body = rb;
    sr->method = NGX_HTTP_POST;
    ngx_str_set(&sr->method_name, "POST");

    return NGX_OK;
}


/* the worker's request, from this phase on, with other headers */

ngx_int_t
ngx_http_interlock_call_provider(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_call_t *call)
{
    ngx_list_t           headers;
    ngx_http_request_t  *sr;

    ngx_memzero(call, sizeof(ngx_http_interlock_call_t));

    call->spool = 1;

    if (ngx_http_interlock_effect_headers(r, ctx->effect, &headers) != NGX_OK
        || ngx_http_interlock_call_start(r, ctx, call, &r->uri, &r->args,
                                         NGX_HTTP_SUBREQUEST_CLONE)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    sr = call->request;

    ngx_http_interlock_call_list(&sr->headers_in.headers, &headers);

    /* a provider that switched protocols would have the client's connection */

    sr->headers_in.upgrade = NULL;

    return NGX_OK;
}


/* a list of one part has its last part within itself */

static void
ngx_http_interlock_call_list(ngx_list_t *to, ngx_list_t *from)
{
    *to = *from;

    if (from->last == &from->part) {
        to->last = &to->part;
    }
}


static ngx_int_t
ngx_http_interlock_call_start(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_call_t *call,
    ngx_str_t *uri, ngx_str_t *args, ngx_uint_t flags)
{
    ngx_http_post_subrequest_t  *ps;

    ps = ngx_palloc(r->pool, sizeof(ngx_http_post_subrequest_t));
    if (ps == NULL) {
        return NGX_ERROR;
    }

    ps->handler = ngx_http_interlock_call_done;
    ps->data = call;

    ctx->effect->call = call;

    return ngx_http_subrequest(r, uri, args, &call->request, ps,
                               flags|NGX_HTTP_SUBREQUEST_WAITED);
}


/*
 * May be called twice: a finalized request may be finalized again.
 *
 * An HTTP/2 stream that its client gave up has an error, for which nginx would
 * now end the main request, too.  It has to go on until the outcome is on
 * record; then it ends with that error.
 */

static ngx_int_t
ngx_http_interlock_call_done(ngx_http_request_t *r, void *data, ngx_int_t rc)
{
    ngx_http_interlock_call_t *call = data;

    ngx_http_interlock_ctx_t  *ctx;

    if (!call->done) {
        call->done = 1;
        call->rc = rc;

        ngx_log_debug4(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "interlock call ended: %i status: %ui length: %O "
                       "complete: %d", rc, call->status, call->size,
                       call->complete);
    }

    ctx = ngx_http_get_module_ctx(r->main, ngx_http_interlock_module);

    if (r->connection->error && ctx && ctx->effect) {
        r->connection->error = 0;
        ctx->effect->gone = 1;
    }

    return NGX_OK;
}


/*
 * What nginx does when a timer of the upstream connection expires, at whatever
 * stage it is: its handlers look for "timedout" first.  While the request is
 * sent or the connection made the one for writing does; else that one does
 * nothing, and the one for reading does.  They are called without the event,
 * because behind that the main request would go on, and may be freed.
 */

void
ngx_http_interlock_call_end(ngx_http_interlock_call_t *call)
{
    ngx_connection_t     *c;
    ngx_http_request_t   *sr;
    ngx_resolver_ctx_t   *name;
    ngx_http_upstream_t  *u;

    if (call->done) {
        return;
    }

    call->over = 1;

    sr = call->request;
    u = sr->upstream;

    if (u == NULL) {

        /* some phase holds it still; when it goes on, it goes nowhere */

        sr->content_handler = ngx_http_interlock_call_none;
        return;
    }

    u->peer.tries = 0;
    c = u->peer.connection;

    if (c == NULL) {

        name = u->resolved ? u->resolved->ctx : NULL;

        if (name) {
            name->state = NGX_RESOLVE_TIMEDOUT;
            name->async = 0;
            name->handler(name);
        }

        return;
    }

    ngx_http_interlock_call_reset(c);

    c->write->timedout = 1;
    c->read->timedout = 1;
    c->read->delayed = 0;

    u->write_event_handler(sr, u);

    if (!call->done) {
        u->read_event_handler(sr, u);
    }
}


static ngx_int_t
ngx_http_interlock_call_none(ngx_http_request_t *r)
{
    return NGX_HTTP_GATEWAY_TIME_OUT;
}


/* What the kernel has taken but not sent yet would go out after the close. */

static void
ngx_http_interlock_call_reset(ngx_connection_t *c)
{
    struct linger  linger;

    linger.l_onoff = 1;
    linger.l_linger = 0;

    if (setsockopt(c->fd, SOL_SOCKET, SO_LINGER, (const void *) &linger,
                   sizeof(struct linger))
        == -1)
    {
        ngx_log_error(NGX_LOG_ALERT, c->log, ngx_socket_errno,
                      "setsockopt(SO_LINGER) failed");
    }
}


ngx_http_interlock_call_t *
ngx_http_interlock_call_of(ngx_http_request_t *r)
{
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r->main, ngx_http_interlock_module);

    if (ctx == NULL || ctx->effect == NULL || ctx->effect->call == NULL
        || ctx->effect->call->request != r)
    {
        return NULL;
    }

    return ctx->effect->call;
}


/*
 * The backend's location is another one than the proxy's, and is found only
 * when the call is made.  A worker that goes away must not end the recording
 * of what it did, and an error of the backend is to be seen as it is.  The
 * configuration of this process is set to what it should have been.
 */

void
ngx_http_interlock_call_settings(ngx_http_request_t *r)
{
    ngx_http_upstream_conf_t        *ucf;
    ngx_http_interlock_main_conf_t  *imcf;

    imcf = ngx_http_get_module_main_conf(r, ngx_http_interlock_module);

    if (imcf->fastcgi) {
        ucf = r->loc_conf[imcf->fastcgi->ctx_index];
        ucf->ignore_client_abort = 1;
        ucf->intercept_errors = 0;
    }
}


ngx_int_t
ngx_http_interlock_call_header(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call)
{
    /* what the upstream said, not what something made of it */

    call->status = r->upstream ? r->upstream->headers_in.status_n
                               : r->headers_out.status;

    /* bodies are copied from memory */

    r->filter_need_in_memory = 1;

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_call_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    size_t                      len;
    ngx_buf_t                  *b;
    ngx_int_t                   rc;
    ngx_chain_t                *cl;
    ngx_http_interlock_call_t  *call;

    if (r == r->main) {
        return ngx_http_next_body_filter(r, in);
    }

    call = ngx_http_interlock_call_of(r);

    if (call == NULL) {
        return ngx_http_next_body_filter(r, in);
    }

    for (cl = in; cl; cl = cl->next) {

        b = cl->buf;
        len = ngx_buf_in_memory(b) ? (size_t) (b->last - b->pos) : 0;

        if (len) {
            rc = (call->size + (off_t) len <= NGX_HTTP_INTERLOCK_ANSWER_MAX)
                 ? ngx_http_interlock_call_memory(r, call, b->pos, len)
                 : ngx_http_interlock_call_file(r, call, b->pos, len);

            if (rc != NGX_OK) {
                return NGX_ERROR;
            }

            call->size += (off_t) len;
        }

        b->pos = b->last;
        b->file_pos = b->file_last;

        if (b->last_buf || b->last_in_chain) {
            call->complete = 1;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_call_memory(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call, u_char *data, size_t len)
{
    size_t   cap;
    u_char  *p;

    if (len > call->cap - call->len) {

        cap = ngx_max(call->cap * 2, NGX_HTTP_INTERLOCK_BODY_FIRST);
        cap = ngx_max(cap, call->len + len);
        cap = ngx_min(cap, NGX_HTTP_INTERLOCK_ANSWER_MAX);

        p = ngx_palloc(r->pool, cap);
        if (p == NULL) {
            return NGX_ERROR;
        }

        if (call->len) {
            ngx_memcpy(p, call->data, call->len);
            (void) ngx_pfree(r->pool, call->data);
        }

        call->data = p;
        call->cap = cap;
    }

    ngx_memcpy(call->data + call->len, data, len);
    call->len += len;

    return NGX_OK;
}


/* a long answer: all of it goes to a file that has no name */

static ngx_int_t
ngx_http_interlock_call_file(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call, u_char *data, size_t len)
{
    off_t             max;
    ssize_t           n;
    ngx_buf_t         b[2];
    ngx_chain_t       out[2], *first;
    ngx_temp_file_t  *tf;

    max = (r->upstream && r->upstream->conf->max_temp_file_size)
          ? (off_t) r->upstream->conf->max_temp_file_size
          : NGX_MAX_OFF_T_VALUE;

    if (!call->spool || r->upstream == NULL || call->size > max) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "interlock: the answer is too long");
        call->too_long = 1;
        return NGX_ERROR;
    }

    ngx_memzero(b, sizeof(b));

    b[1].pos = data;
    b[1].last = data + len;
    b[1].memory = 1;
    out[1].buf = &b[1];
    out[1].next = NULL;
    first = &out[1];

    tf = call->file;

    if (tf == NULL) {

        tf = ngx_pcalloc(r->pool, sizeof(ngx_temp_file_t));
        if (tf == NULL) {
            return NGX_ERROR;
        }

        tf->file.fd = NGX_INVALID_FILE;
        tf->file.log = r->connection->log;
        tf->path = r->upstream->conf->temp_path;
        tf->pool = r->pool;
        tf->log_level = NGX_LOG_INFO;
        tf->warn = "a provider's answer is held in a temporary file";

        call->file = tf;

        if (call->len) {
            b[0].pos = call->data;
            b[0].last = call->data + call->len;
            b[0].memory = 1;
            out[0].buf = &b[0];
            out[0].next = &out[1];
            first = &out[0];
        }
    }

    n = ngx_write_chain_to_temp_file(tf, first);

    if (n == NGX_ERROR) {
        return NGX_ERROR;
    }

    tf->offset += n;

    return NGX_OK;
}


ngx_str_t *
ngx_http_interlock_call_answer(ngx_http_interlock_call_t *call,
    const char *name)
{
    size_t            len;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    len = ngx_strlen(name);
    part = &call->request->headers_out.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return NULL;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].hash && h[i].key.len == len
            && ngx_strncasecmp(h[i].key.data, (u_char *) name, len) == 0)
        {
            return &h[i].value;
        }
    }
}
