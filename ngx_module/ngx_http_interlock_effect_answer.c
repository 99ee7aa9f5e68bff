
/*
 * Copyright (C) the interlock authors
 */


/*
 * What the worker gets: the answer that a subrequest caught, or a problem.
 * The effect's id and state go along whenever they are known.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


#define NGX_HTTP_INTERLOCK_EFFECT_CAP  2048


static ngx_int_t ngx_http_interlock_effect_nobody(ngx_http_request_t *r);
static void ngx_http_interlock_effect_take(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call);
static void ngx_http_interlock_effect_strip(ngx_http_request_t *r,
    ngx_uint_t all);
static ngx_int_t ngx_http_interlock_effect_say(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e);
static ngx_buf_t *ngx_http_interlock_effect_buf(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call);


ngx_int_t
ngx_http_interlock_effect_relay(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_http_interlock_call_t *call)
{
    ngx_int_t    rc;
    ngx_chain_t  out;

    e->state = NGX_HTTP_INTERLOCK_EFFECT_ANSWERED;

    if (e->gone) {
        return ngx_http_interlock_effect_nobody(r);
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    out.buf = ngx_http_interlock_effect_buf(r, call);
    out.next = NULL;

    if (out.buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_interlock_effect_take(r, call);

    /* only the provider could forge what is said here */

    ngx_http_interlock_effect_strip(r, call == &e->send);

    if (call == &e->send && ngx_http_interlock_effect_say(r, e) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_OK && !r->header_only) {
        rc = ngx_http_output_filter(r, &out);
    }

    ngx_http_finalize_request(r, rc);

    return NGX_DONE;
}


/* the end that the connection's error would have been */

static ngx_int_t
ngx_http_interlock_effect_nobody(ngx_http_request_t *r)
{
    r->connection->error = 1;

    ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);

    return NGX_DONE;
}


/* the subrequest's header becomes the main request's */

static void
ngx_http_interlock_effect_take(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call)
{
    ngx_http_headers_out_t  *h;

    h = &call->request->headers_out;

    r->err_status = 0;
    r->headers_out = *h;

    if (h->headers.last == &h->headers.part) {
        r->headers_out.headers.last = &r->headers_out.headers.part;
    }

    if (h->trailers.last == &h->trailers.part) {
        r->headers_out.trailers.last = &r->headers_out.trailers.part;
    }

    /* the answer to HEAD says how long it would be */

    if (r->method != NGX_HTTP_HEAD) {
        ngx_http_clear_content_length(r);
        r->headers_out.content_length_n = call->size;
    }

    /* it goes out as it came: not as 206 or 304 */

    ngx_http_clear_accept_ranges(r);
    r->allow_ranges = 0;
    r->disable_not_modified = 1;
}


/* takes out Interlock-Effect-Decision, or all that begins with Interlock- */

static void
ngx_http_interlock_effect_strip(ngx_http_request_t *r, ngx_uint_t all)
{
    size_t            len;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    static u_char  name[] = "Interlock-Effect-Decision";

    len = all ? sizeof("Interlock-") - 1 : sizeof(name) - 1;

    part = &r->headers_out.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len >= len
            && ngx_strncasecmp(h[i].key.data, name, len) == 0)
        {
            h[i].hash = 0;
        }
    }
}


static ngx_int_t
ngx_http_interlock_effect_say(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e)
{
    if (e->id.len
        && ngx_http_interlock_add_header(r, "Interlock-Effect-Id", &e->id)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (e->outcome.len
        && ngx_http_interlock_add_header(r, "Interlock-Effect-State",
                                         &e->outcome)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_buf_t *
ngx_http_interlock_effect_buf(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call)
{
    ngx_buf_t  *b;

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NULL;
    }

    if (call->file) {
        b->file = &call->file->file;
        b->file_last = call->size;
        b->in_file = 1;

    } else if (call->len) {
        b->pos = call->data;
        b->last = call->data + call->len;
        b->memory = 1;
    }

    b->last_buf = 1;
    b->last_in_chain = 1;

    return b;
}


ngx_int_t
ngx_http_interlock_effect_problem(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, il_problem_e problem, const char *detail)
{
    size_t      len;
    u_char     *p;
    u_char      extra[256];
    ngx_int_t   status;
    ngx_str_t   value;

    static char  text[NGX_HTTP_INTERLOCK_EFFECT_CAP];

    e->state = NGX_HTTP_INTERLOCK_EFFECT_ANSWERED;

    if (e->gone) {
        return ngx_http_interlock_effect_nobody(r);
    }

    status = il_problem_status(problem);
    p = extra;

    if (e->id.len) {
        p = ngx_snprintf(p, sizeof(extra), "\"effect_id\":\"%V\"", &e->id);

        if (e->outcome.len) {
            p = ngx_snprintf(p, extra + sizeof(extra) - p,
                             ",\"state\":\"%V\"", &e->outcome);
        }
    }

    len = il_problem_build(text, sizeof(text), problem, il_cstr(detail),
                           il_str((char *) extra, p - extra));

    if (len == 0 || ngx_http_interlock_effect_say(r, e) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (status == NGX_HTTP_SERVICE_UNAVAILABLE) {
        ngx_str_set(&value, "1");

        if (ngx_http_interlock_add_header(r, "Retry-After", &value) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    return ngx_http_interlock_send(r, (ngx_uint_t) status,
                                   "application/problem+json",
                                   (u_char *) text, len);
}
