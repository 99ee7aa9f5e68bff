
/*
 * Copyright (C) the interlock authors
 */


/*
 * Variables.  A value is computed once and then stays: fastcgi_param reads a
 * variable twice, first for its length, so one that changed in between would
 * overflow nginx's buffer.  A value asked for before it can be known is not
 * cached, and is forgotten where it becomes known.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_define.h"
#include "ngx_http_interlock_effect.h"


static ngx_http_interlock_ctx_t *ngx_http_interlock_own_ctx(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_interlock_key_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_fp_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_verified_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_secret_header_variable(
    ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_mismatch_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_answer_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_reason_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_effect_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_call_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


/* What a request is known as is that of the main request, never of a copy of
 * it or a question about it: a subrequest has none of it, and so is asked anew. */

static ngx_http_variable_t  ngx_http_interlock_vars[] = {

    { ngx_string("interlock_tenant"), NULL, ngx_http_interlock_key_variable,
      offsetof(ngx_http_interlock_ctx_t, tenant),
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_source"), NULL, ngx_http_interlock_key_variable,
      offsetof(ngx_http_interlock_ctx_t, source),
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_kind"), NULL, ngx_http_interlock_key_variable,
      offsetof(ngx_http_interlock_ctx_t, kind),
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_work_key"), NULL, ngx_http_interlock_key_variable,
      offsetof(ngx_http_interlock_ctx_t, work_key),
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_idempotency_key"), NULL,
      ngx_http_interlock_key_variable,
      offsetof(ngx_http_interlock_ctx_t, idem),
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_fingerprint"), NULL,
      ngx_http_interlock_fp_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_verified"), NULL,
      ngx_http_interlock_verified_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_mismatch"), NULL,
      ngx_http_interlock_mismatch_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_secret_header"), NULL,
      ngx_http_interlock_secret_header_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_split"), NULL,
      ngx_http_interlock_split_variable, 0, 0, 0 },

    { ngx_string("interlock_content_length"), NULL,
      ngx_http_interlock_split_variable, 1, 0, 0 },

    /* for interlock_effect_params: each subrequest has its own */

    { ngx_string("interlock_effect_call"), NULL,
      ngx_http_interlock_call_variable, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("interlock_effect_length"), NULL,
      ngx_http_interlock_call_variable, 1, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_http_variable_t  ngx_http_interlock_answer_vars[] = {

    { ngx_string("interlock_decision"), NULL,
      ngx_http_interlock_answer_variable,
      offsetof(ngx_http_interlock_ctx_t, decision), 0, 0 },

    { ngx_string("interlock_job_id"), NULL,
      ngx_http_interlock_answer_variable,
      offsetof(ngx_http_interlock_ctx_t, job_id), 0, 0 },

    { ngx_string("interlock_reject_reason"), NULL,
      ngx_http_interlock_reason_variable, 0, 0, 0 },

    { ngx_string("interlock_effect_id"), NULL,
      ngx_http_interlock_effect_variable,
      offsetof(ngx_http_interlock_effect_t, id), 0, 0 },

    { ngx_string("interlock_effect_state"), NULL,
      ngx_http_interlock_effect_variable,
      offsetof(ngx_http_interlock_effect_t, outcome), 0, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_interlock_add_variables(ngx_conf_t *cf)
{
    ngx_http_interlock_main_conf_t  *imcf;

    imcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_interlock_module);

    if (ngx_http_interlock_add_table(cf, ngx_http_interlock_vars, &imcf->keys)
        != NGX_OK
        || ngx_http_interlock_add_table(cf, ngx_http_interlock_answer_vars,
                                        &imcf->answer)
           != NGX_OK
        || ngx_http_interlock_backend_add_variables(cf) != NGX_OK
        || ngx_http_interlock_ticket_add_variables(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_interlock_add_audit_variables(cf);
}


ngx_int_t
ngx_http_interlock_add_table(ngx_conf_t *cf, ngx_http_variable_t *table,
    ngx_array_t *indices)
{
    ngx_int_t            *index;
    ngx_http_variable_t  *var, *v;

    for (v = table; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;

        if (indices == NULL) {
            continue;
        }

        index = ngx_array_push(indices);
        if (index == NULL) {
            return NGX_ERROR;
        }

        *index = ngx_http_get_variable_index(cf, &v->name);
        if (*index == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_http_interlock_forget_variables(ngx_http_request_t *r,
    ngx_array_t *indices)
{
    ngx_int_t   *index;
    ngx_uint_t   i;

    index = indices->elts;

    for (i = 0; i < indices->nelts; i++) {
        r->variables[index[i]].valid = 0;
        r->variables[index[i]].not_found = 0;
    }
}


void
ngx_http_interlock_set_value(ngx_http_variable_value_t *v, ngx_str_t *value,
    ngx_uint_t known)
{
    if (value == NULL || value->len == 0) {
        v->valid = 0;
        v->not_found = 1;
        v->no_cacheable = known ? 0 : 1;
        return;
    }

    v->data = value->data;
    v->len = value->len;
    v->valid = 1;
    v->no_cacheable = known ? 0 : 1;
    v->not_found = 0;
}


static ngx_http_interlock_ctx_t *
ngx_http_interlock_own_ctx(ngx_http_request_t *r)
{
    return (r == r->main) ? ngx_http_interlock_get_ctx(r) : NULL;
}


static ngx_int_t
ngx_http_interlock_key_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_own_ctx(r);

    if (ctx == NULL || !ctx->body_ready) {
        ngx_http_interlock_set_value(v, NULL, 0);
        return NGX_OK;
    }

    ngx_http_interlock_set_value(v, (ngx_str_t *) ((char *) ctx + data),
                                 ctx->keyed);
    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_fp_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                  value;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_own_ctx(r);

    if (ctx == NULL || !ctx->keyed) {
        ngx_http_interlock_set_value(v, NULL, 0);
        return NGX_OK;
    }

    ngx_http_interlock_fingerprint(r, ctx);

    value.data = ngx_pnalloc(r->pool, 2 * IL_FP_BYTES);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    value.len = ngx_hex_dump(value.data, ctx->fp, IL_FP_BYTES) - value.data;

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_verified_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_own_ctx(r);

    if (ctx == NULL || !ctx->verified) {
        ngx_http_interlock_set_value(v, NULL, ctx && ctx->keyed);
        return NGX_OK;
    }

    ngx_http_interlock_set_value(v, &ctx->lcf->verified, 1);

    return NGX_OK;
}


/* the header that carries a secret itself, not a signature made with it: the
 * backend must not keep it */

static ngx_int_t
ngx_http_interlock_secret_header_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                  value;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_own_ctx(r);

    if (ctx == NULL || !ctx->verified
        || !il_sig_scheme_sends_secret(ctx->lcf->verify->sig.scheme))
    {
        ngx_http_interlock_set_value(v, NULL, ctx && ctx->keyed);
        return NGX_OK;
    }

    value.data = (u_char *) ctx->lcf->verify->sig.header;
    value.len = ngx_strlen(value.data);

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_mismatch_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                  value;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_own_ctx(r);

    if (ctx == NULL || !ctx->keyed) {
        ngx_http_interlock_set_value(v, NULL, 0);
        return NGX_OK;
    }

    if (ctx->lcf->on_mismatch == NGX_HTTP_INTERLOCK_FIRST) {
        ngx_str_set(&value, "first");

    } else {
        ngx_str_set(&value, "reject");
    }

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_answer_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL) {
        ngx_http_interlock_set_value(v, NULL, 0);
        return NGX_OK;
    }

    ngx_http_interlock_set_value(v, (ngx_str_t *) ((char *) ctx + data), 0);

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_reason_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    il_str_t                   name;
    ngx_str_t                  value;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL || ctx->problem == IL_P_NONE) {
        ngx_http_interlock_set_value(v, NULL, 0);
        return NGX_OK;
    }

    name = il_problem_name(ctx->problem);
    value.data = (u_char *) name.data;
    value.len = name.len;

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_effect_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                 *value;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_get_ctx(r);
    value = NULL;

    if (ctx && ctx->effect) {
        value = (ngx_str_t *) ((char *) ctx->effect + data);
    }

    ngx_http_interlock_set_value(v, value, 0);

    return NGX_OK;
}


/* data: 0 what is asked of the backend, 1 the length of what goes along; for
 * the subrequest itself and nobody else */

static ngx_int_t
ngx_http_interlock_call_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                     value;
    ngx_http_interlock_ctx_t     *ctx;
    ngx_http_interlock_call_t    *call;
    ngx_http_interlock_effect_t  *e;

    ngx_http_interlock_set_value(v, NULL, 0);

    call = (r == r->main) ? NULL : ngx_http_interlock_call_of(r);

    if (call == NULL) {
        return NGX_OK;
    }

    ctx = ngx_http_get_module_ctx(r->main, ngx_http_interlock_module);
    e = ctx->effect;

    if (call == &e->send) {
        return NGX_OK;
    }

    if (data == 0) {
        ngx_http_interlock_set_value(v, &e->what, 0);
        return NGX_OK;
    }

    value.data = ngx_pnalloc(r->pool, NGX_OFF_T_LEN);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    value.len = ngx_sprintf(value.data, "%O", r->headers_in.content_length_n)
                - value.data;

    ngx_http_interlock_set_value(v, &value, 0);

    return NGX_OK;
}


/* data is the variable's index; the pointer is that of the location */

ngx_int_t
ngx_http_interlock_json_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    size_t                      len;
    ngx_str_t                   value;
    il_json_rc_e                rc;
    il_json_value_t             found;
    ngx_http_interlock_ctx_t   *ctx;
    ngx_http_interlock_json_t  *json;

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL || !ctx->body_ready) {
        ngx_http_interlock_set_value(v, NULL, 0);
        return NGX_OK;
    }

    ngx_http_interlock_set_value(v, NULL, 1);

    /* where the body is split, pointers are those of one element, and this
     * is not the time of any */

    if (ctx->lcf->split && ctx->keyed) {
        return NGX_OK;
    }

    json = ngx_http_interlock_defined(ctx->lcf->json, data);

    if (json == NULL) {
        return NGX_OK;
    }

    rc = il_json_find(ctx->content, ngx_http_interlock_str(&json->pointer),
                      &found);

    if (rc != IL_JSON_OK) {
        if (rc != IL_JSON_MISSING) {
            ctx->json_rc = rc;
        }

        return NGX_OK;
    }

    if (found.raw.len > NGX_HTTP_INTERLOCK_VALUE_MAX) {
        return NGX_OK;
    }

    value.data = ngx_pnalloc(r->pool, found.raw.len);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    if (il_json_scalar(&found, (char *) value.data, found.raw.len, &len)
        != 0)
    {
        return NGX_OK;
    }

    value.len = len;

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}
