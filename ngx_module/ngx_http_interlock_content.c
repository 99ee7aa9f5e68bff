
/*
 * Copyright (C) the interlock authors
 */


/*
 * What is read of a body that came with a Content-Encoding.  Some senders sign
 * the compressed bytes, some those that they inflate to; "content=gunzip" of
 * interlock_verify is for the latter.  What is stored, and what the fingerprint
 * is of, are the bytes that came.
 *
 * All of this is done for anybody, before the signature is known to be good:
 * it is bounded before anything is inflated.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "il_gunzip.h"

#include "ngx_http_interlock_module.h"


/* where client_max_body_size sets no limit */
#define NGX_HTTP_INTERLOCK_INFLATED_MAX    (32 * 1024 * 1024)

/* beyond so much no body inflates to more than so many times its size */
#define NGX_HTTP_INTERLOCK_INFLATED_FREE   (1024 * 1024)
#define NGX_HTTP_INTERLOCK_INFLATED_RATIO  100


static ngx_int_t ngx_http_interlock_gzipped(ngx_http_request_t *r);
static il_problem_e ngx_http_interlock_gunzip(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);
static il_problem_e ngx_http_interlock_no_gzip(il_gunzip_rc_e rc,
    il_str_t *detail);


ngx_int_t
ngx_http_interlock_content_arg(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify, ngx_str_t *name, ngx_str_t *arg)
{
    if (name->len != 7 || ngx_strncmp(name->data, "content", 7) != 0) {
        return NGX_DECLINED;
    }

    if (ngx_strcmp(arg->data, "raw") == 0) {
        verify->gunzip = 0;
        return NGX_OK;
    }

    if (ngx_strcmp(arg->data, "gunzip") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"content=%V\" in "
                           "\"interlock_verify\": it is \"content=raw\" or "
                           "\"content=gunzip\"", arg);
        return NGX_ERROR;
    }

    if (il_sig_scheme_backend(verify->sig.scheme)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"content=gunzip\" in "
                           "\"interlock_verify\": this scheme is verified "
                           "by interlockd, over the body as it came");
        return NGX_ERROR;
    }

    verify->gunzip = 1;

    return NGX_OK;
}


il_problem_e
ngx_http_interlock_content(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail)
{
    switch (ngx_http_interlock_gzipped(r)) {

    case NGX_OK:
        return ngx_http_interlock_gunzip(r, ctx, detail);

    case NGX_DECLINED:
        return IL_P_NONE;

    default: /* NGX_ERROR */
        *detail = il_cstr("the body may have the Content-Encoding gzip, once, "
                          "and no other");
        return IL_P_ENCODING_UNSUPPORTED;
    }
}


/* NGX_OK: yes, NGX_DECLINED: no, NGX_ERROR: encoded in another way */

static ngx_int_t
ngx_http_interlock_gzipped(ngx_http_request_t *r)
{
    size_t     count;
    il_str_t   value;
    ngx_str_t  encoding;

    value = il_str_trim(ngx_http_interlock_header(r, "content-encoding",
                                                  &count));
    if (count > 1) {
        return NGX_ERROR;
    }

    encoding.data = (u_char *) value.data;
    encoding.len = value.len;

    if (encoding.len == 0
        || (encoding.len == 8
            && ngx_strncasecmp(encoding.data, (u_char *) "identity", 8) == 0))
    {
        return NGX_DECLINED;
    }

    /* RFC 9110, section 8.4.1.3: both names mean the same */

    if ((encoding.len == 4
         && ngx_strncasecmp(encoding.data, (u_char *) "gzip", 4) == 0)
        || (encoding.len == 6
            && ngx_strncasecmp(encoding.data, (u_char *) "x-gzip", 6) == 0))
    {
        return NGX_OK;
    }

    return NGX_ERROR;
}


static il_problem_e
ngx_http_interlock_gunzip(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    il_str_t *detail)
{
    off_t                      max;
    u_char                    *p;
    size_t                     size;
    il_gunzip_rc_e             rc;
    ngx_http_core_loc_conf_t  *clcf;

    if (il_gunzip_size(ctx->body, &size) != 0) {
        return ngx_http_interlock_no_gzip(IL_GUNZIP_MALFORMED, detail);
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    max = clcf->client_max_body_size ? clcf->client_max_body_size
                                     : NGX_HTTP_INTERLOCK_INFLATED_MAX;

    max = ngx_min(max, ngx_max(NGX_HTTP_INTERLOCK_INFLATED_FREE,
                    (off_t) (ctx->body.len + 1)
                    * NGX_HTTP_INTERLOCK_INFLATED_RATIO - 1));

    if ((off_t) size > max) {

        /* the size of a body that was cut off is any bytes of it */

        rc = il_gunzip_exceeds(ctx->body, (size_t) max);

        if (rc == IL_GUNZIP_OK) {
            *detail = il_cstr("the body inflates to more than is allowed");
            return IL_P_BODY_TOO_LARGE;
        }

        return ngx_http_interlock_no_gzip(rc, detail);
    }

    p = ngx_pnalloc(r->pool, size ? size : 1);
    if (p == NULL) {
        return IL_P_INTERNAL;
    }

    rc = il_gunzip(ctx->body, (char *) p, size);

    if (rc != IL_GUNZIP_OK) {
        return ngx_http_interlock_no_gzip(rc, detail);
    }

    ctx->content = il_str((char *) p, size);

    return IL_P_NONE;
}


static il_problem_e
ngx_http_interlock_no_gzip(il_gunzip_rc_e rc, il_str_t *detail)
{
    if (rc == IL_GUNZIP_NO_MEMORY) {
        return IL_P_INTERNAL;
    }

    *detail = il_cstr("the body is not valid gzip data");

    return IL_P_BAD_REQUEST;
}
