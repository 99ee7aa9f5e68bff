
/*
 * Copyright (C) the interlock authors
 */


/*
 * The headers of the call to the provider: the worker's, as far as they are
 * for the provider, and the effect's key.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


static ngx_uint_t ngx_http_interlock_headers_keep(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_http_interlock_effect_t *e);
static ngx_uint_t ngx_http_interlock_headers_hop(ngx_http_request_t *r,
    ngx_str_t *name);
static ngx_uint_t ngx_http_interlock_headers_lists(ngx_str_t *value,
    ngx_str_t *name);


/* Interlock-Owner-Token and its kin; Proxy-Authorization and its */

static ngx_str_t  ngx_http_interlock_headers_prefixes[] = {
    ngx_string("Interlock-"),
    ngx_string("Proxy-"),
    ngx_null_string
};

/* for one connection (RFC 9110, section 7.6.1); and the wish for a compressed
 * answer, because answers are kept as they come */

static ngx_str_t  ngx_http_interlock_headers_dropped[] = {
    ngx_string("Accept-Encoding"),
    ngx_string("Connection"),
    ngx_string("HTTP2-Settings"),
    ngx_string("Keep-Alive"),
    ngx_string("TE"),
    ngx_string("Trailer"),
    ngx_string("Transfer-Encoding"),
    ngx_string("Upgrade"),
    ngx_null_string
};


ngx_int_t
ngx_http_interlock_effect_headers(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_list_t *headers)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h, *copy;

    if (ngx_list_init(headers, r->pool, 20, sizeof(ngx_table_elt_t)) != NGX_OK)
    {
        return NGX_ERROR;
    }

    part = &r->headers_in.headers.part;
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

        if (!ngx_http_interlock_headers_keep(r, &h[i], e)) {
            continue;
        }

        copy = ngx_list_push(headers);
        if (copy == NULL) {
            return NGX_ERROR;
        }

        *copy = h[i];
    }

    if (e->key.len) {

        copy = ngx_list_push(headers);
        if (copy == NULL) {
            return NGX_ERROR;
        }

        copy->hash = 1;
        copy->key = e->key_header;
        copy->value = e->key;
        copy->lowcase_key = ngx_pnalloc(r->pool, e->key_header.len);
        if (copy->lowcase_key == NULL) {
            return NGX_ERROR;
        }

        ngx_strlow(copy->lowcase_key, e->key_header.data, e->key_header.len);
    }

    return NGX_OK;
}


/*
 * Not for the provider: all that is interlock's, the owner token wherever it
 * is, another key than the effect's, and what is for this connection alone.
 */

static ngx_uint_t
ngx_http_interlock_headers_keep(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_http_interlock_effect_t *e)
{
    ngx_str_t  *name;

    for (name = ngx_http_interlock_headers_prefixes; name->len; name++) {
        if (h->key.len >= name->len
            && ngx_strncasecmp(h->key.data, name->data, name->len) == 0)
        {
            return 0;
        }
    }

    if (e->key.len && h->key.len == e->key_header.len
        && ngx_strncasecmp(h->key.data, e->key_header.data, h->key.len) == 0)
    {
        return 0;
    }

    return !ngx_http_interlock_headers_hop(r, &h->key)
           && memmem(h->value.data, h->value.len, e->token.data, e->token.len)
              == NULL;
}


static ngx_uint_t
ngx_http_interlock_headers_hop(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_str_t        *dropped;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (dropped = ngx_http_interlock_headers_dropped;
         dropped->len;
         dropped++)
    {
        if (name->len == dropped->len
            && ngx_strncasecmp(name->data, dropped->data, name->len) == 0)
        {
            return 1;
        }
    }

    part = &r->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return 0;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len == sizeof("Connection") - 1
            && ngx_strncasecmp(h[i].key.data, (u_char *) "Connection",
                               sizeof("Connection") - 1)
               == 0
            && ngx_http_interlock_headers_lists(&h[i].value, name))
        {
            return 1;
        }
    }
}


/* 1 if a list of names, separated by commas, has this one */

static ngx_uint_t
ngx_http_interlock_headers_lists(ngx_str_t *value, ngx_str_t *name)
{
    u_char  *p, *q, *end, *last;

    last = value->data + value->len;

    for (p = value->data; p < last; p = end + 1) {

        end = ngx_strlchr(p, last, ',');
        if (end == NULL) {
            end = last;
        }

        while (p < end && (*p == ' ' || *p == '\t')) {
            p++;
        }

        for (q = end; q > p && (q[-1] == ' ' || q[-1] == '\t'); q--) {
            /* void */
        }

        if ((size_t) (q - p) == name->len
            && ngx_strncasecmp(p, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}
