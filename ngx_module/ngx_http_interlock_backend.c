
/*
 * Copyright (C) the interlock authors
 */


/*
 * Schemes whose signatures interlockd verifies, because they need OpenSSL or
 * a certificate from elsewhere.  The edge hands such a request on with what
 * there is to verify it by, and remembers nothing of it: nobody knows yet who
 * sent it.  For the same reason what is wrong with its keys is told by
 * interlockd, and only to those who sign.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


typedef enum {
    NGX_HTTP_INTERLOCK_BACKEND_SCHEME = 0,
    NGX_HTTP_INTERLOCK_BACKEND_KEY,
    NGX_HTTP_INTERLOCK_BACKEND_ARGS,
    NGX_HTTP_INTERLOCK_BACKEND_PROBLEM
} ngx_http_interlock_backend_e;


static ngx_int_t ngx_http_interlock_backend_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


/* for interlock_params */

static ngx_http_variable_t  ngx_http_interlock_backend_vars[] = {

    { ngx_string("interlock_verify"), NULL,
      ngx_http_interlock_backend_variable,
      NGX_HTTP_INTERLOCK_BACKEND_SCHEME, 0, 0 },

    { ngx_string("interlock_verify_key"), NULL,
      ngx_http_interlock_backend_variable,
      NGX_HTTP_INTERLOCK_BACKEND_KEY, 0, 0 },

    { ngx_string("interlock_verify_args"), NULL,
      ngx_http_interlock_backend_variable,
      NGX_HTTP_INTERLOCK_BACKEND_ARGS, 0, 0 },

    { ngx_string("interlock_verify_problem"), NULL,
      ngx_http_interlock_backend_variable,
      NGX_HTTP_INTERLOCK_BACKEND_PROBLEM, 0, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_interlock_backend_add_variables(ngx_conf_t *cf)
{
    ngx_http_interlock_main_conf_t  *imcf;

    imcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_interlock_module);

    return ngx_http_interlock_add_table(cf, ngx_http_interlock_backend_vars,
                                        &imcf->keys);
}


/*
 * What interlockd is told of the directive: the file's lines, which are no
 * secrets but public keys and names, and the tolerance.
 */

ngx_int_t
ngx_http_interlock_backend_init(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify)
{
    size_t          len;
    u_char         *p;
    ngx_uint_t      i;
    il_sig_conf_t  *sig;

    sig = &verify->sig;

    if (!il_sig_scheme_backend(sig->scheme)) {
        return NGX_OK;
    }

    len = 0;

    for (i = 0; i < sig->nsecrets; i++) {
        len += sig->secrets[i].len + 1;
    }

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    verify->key.data = p;

    for (i = 0; i < sig->nsecrets; i++) {
        p = ngx_cpymem(p, sig->secrets[i].data, sig->secrets[i].len);
        *p++ = LF;
    }

    verify->key.len = p - verify->key.data;

    p = ngx_pnalloc(cf->pool, sizeof("tolerance=") - 1 + NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    verify->args.data = p;
    verify->args.len = ngx_sprintf(p, "tolerance=%L", (int64_t) sig->tolerance)
                       - p;

    return NGX_OK;
}


ngx_uint_t
ngx_http_interlock_backend(ngx_http_interlock_ctx_t *ctx)
{
    return ctx->lcf->verify
           && il_sig_scheme_backend(ctx->lcf->verify->sig.scheme);
}


/* "name detail" */

ngx_int_t
ngx_http_interlock_backend_problem(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_problem_e problem, il_str_t detail)
{
    u_char    *p;
    il_str_t   name;

    if (problem == IL_P_NONE) {
        return NGX_OK;
    }

    if (problem == IL_P_INTERNAL) {
        return NGX_ERROR;
    }

    name = il_problem_name(problem);

    p = ngx_pnalloc(r->pool, name.len + 1 + detail.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ctx->backend_problem.data = p;

    p = ngx_cpymem(p, name.data, name.len);
    *p++ = ' ';

    if (detail.len) {
        p = ngx_cpymem(p, detail.data, detail.len);
    }

    ctx->backend_problem.len = p - ctx->backend_problem.data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_backend_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                  value;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL || !ctx->keyed) {
        ngx_http_interlock_set_value(v, NULL, 0);
        return NGX_OK;
    }

    ngx_str_null(&value);

    if (ngx_http_interlock_backend(ctx)) {

        switch (data) {

        case NGX_HTTP_INTERLOCK_BACKEND_SCHEME:
            value = ctx->lcf->verified;
            break;

        case NGX_HTTP_INTERLOCK_BACKEND_KEY:
            value = ctx->lcf->verify->key;
            break;

        case NGX_HTTP_INTERLOCK_BACKEND_ARGS:
            value = ctx->lcf->verify->args;
            break;

        default: /* NGX_HTTP_INTERLOCK_BACKEND_PROBLEM */
            value = ctx->backend_problem;
            break;
        }
    }

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}
