
/*
 * Copyright (C) the interlock authors
 */


/*
 * The public URL, for schemes that sign it.  It is the one that the sender
 * used: what follows the host is taken as it was sent, never decoded, merged
 * or sorted.  A port that goes without saying is the scheme's business.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


static ngx_uint_t ngx_http_interlock_url_begins(ngx_str_t *url);
static ngx_uint_t ngx_http_interlock_url_is_base(ngx_str_t *url);
static ngx_int_t ngx_http_interlock_url_join(ngx_http_request_t *r,
    ngx_str_t *base, il_str_t *url);


/* url=public-url of interlock_verify */

char *
ngx_http_interlock_url_arg(ngx_conf_t *cf, ngx_http_interlock_verify_t *verify,
    ngx_str_t *value)
{
    if (!ngx_http_interlock_url_begins(value)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"url=%V\" in "
                           "\"interlock_verify\": it begins with \"http://\" "
                           "or \"https://\" and a host", value);
        return NGX_CONF_ERROR;
    }

    verify->url = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (verify->url == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_interlock_compile(cf, value, verify->url) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* as a URL does, or with a variable, of which nothing is known yet */

static ngx_uint_t
ngx_http_interlock_url_begins(ngx_str_t *url)
{
    u_char  c;
    size_t  n;

    if (url->len && url->data[0] == '$') {
        return 1;
    }

    if (ngx_strncmp(url->data, "http://", 7) == 0) {
        n = 7;

    } else if (ngx_strncmp(url->data, "https://", 8) == 0) {
        n = 8;

    } else {
        return 0;
    }

    c = url->data[n];

    return url->len > n && c != '/' && c != '?' && c != '#' && c != ':';
}


/* once all parameters are known */

char *
ngx_http_interlock_url_check(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify)
{
    il_str_t  name;

    if (il_sig_scheme_url(verify->sig.scheme)) {
        verify->need_url = 1;
    }

    if (verify->url && !verify->need_url) {

        name = il_sig_scheme_name(verify->sig.scheme);

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"url=%V\" has no meaning in \"interlock_verify "
                           "%*s\": it does not sign the URL",
                           &verify->url->value, name.len, name.data);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_interlock_url(ngx_http_request_t *r,
    ngx_http_interlock_verify_t *verify, il_str_t *url)
{
    u_char     *p;
    ngx_str_t   value, scheme, host;

    if (!verify->need_url) {
        return NGX_OK;
    }

    if (verify->url) {
        if (ngx_http_complex_value(r, verify->url, &value) != NGX_OK) {
            return NGX_ERROR;
        }

        if (ngx_http_interlock_url_is_base(&value)) {
            return ngx_http_interlock_url_join(r, &value, url);
        }

        *url = ngx_http_interlock_str(&value);
        return NGX_OK;
    }

    ngx_str_set(&scheme, "http://");

#if (NGX_HTTP_SSL)
    if (r->connection->ssl) {
        ngx_str_set(&scheme, "https://");
    }
#endif

    if (r->headers_in.host) {
        host = r->headers_in.host->value;

    } else {
        host = r->headers_in.server;
    }

    value.len = scheme.len + host.len;
    value.data = ngx_pnalloc(r->pool, value.len);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(value.data, scheme.data, scheme.len);
    ngx_memcpy(p, host.data, host.len);

    return ngx_http_interlock_url_join(r, &value, url);
}


/* a scheme and a host, perhaps with a port, and nothing behind them */

static ngx_uint_t
ngx_http_interlock_url_is_base(ngx_str_t *url)
{
    u_char  *p, *last;

    p = ngx_strnstr(url->data, "://", url->len);

    if (p == NULL) {
        return 0;
    }

    last = url->data + url->len;

    for (p += 3; p < last; p++) {
        if (*p == '/' || *p == '?') {
            return 0;
        }
    }

    return 1;
}


static ngx_int_t
ngx_http_interlock_url_join(ngx_http_request_t *r, ngx_str_t *base,
    il_str_t *url)
{
    u_char  *p;
    size_t   len;

    len = base->len + r->unparsed_uri.len;

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(ngx_cpymem(p, base->data, base->len), r->unparsed_uri.data,
               r->unparsed_uri.len);

    *url = il_str((char *) p, len);

    return NGX_OK;
}
