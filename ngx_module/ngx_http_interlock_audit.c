
/*
 * Copyright (C) the interlock authors
 */


/*
 * Variables for an access log of what the edge answered alone (see the file
 * interlock_audit).  A request that was answered alone has a number, so that
 * one that was lost on the way shows.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


static ngx_int_t ngx_http_interlock_audit_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_zone_id_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_seq_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_compact_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_interlock_edge_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_http_interlock_ctx_t *ngx_http_interlock_alone_ctx(
    ngx_http_request_t *r, ngx_http_variable_value_t *v);


static ngx_http_variable_t  ngx_http_interlock_audit_vars[] = {

    { ngx_string("interlock_audit"), NULL,
      ngx_http_interlock_audit_variable, 0, 0, 0 },

    { ngx_string("interlock_zone_id"), NULL,
      ngx_http_interlock_zone_id_variable, 0, 0, 0 },

    { ngx_string("interlock_edge_seq"), NULL,
      ngx_http_interlock_seq_variable, 0, 0, 0 },

    { ngx_string("interlock_answer"), NULL,
      ngx_http_interlock_compact_variable, 0, 0, 0 },

    /* for interlock_params */

    { ngx_string("interlock_edge"), NULL,
      ngx_http_interlock_edge_variable, 0, 0, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_interlock_add_audit_variables(ngx_conf_t *cf)
{
    return ngx_http_interlock_add_table(cf, ngx_http_interlock_audit_vars,
                                        NULL);
}


/* The request's state if it was answered alone; else NULL, and the variable
 * has no value, which may change: it is not cached. */

static ngx_http_interlock_ctx_t *
ngx_http_interlock_alone_ctx(ngx_http_request_t *r,
    ngx_http_variable_value_t *v)
{
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL || ctx->number == 0) {
        ngx_http_interlock_set_value(v, NULL, 0);
        return NULL;
    }

    return ctx;
}


/* 1 for a request that is to be told of */

static ngx_int_t
ngx_http_interlock_audit_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t  value;

    if (ngx_http_interlock_alone_ctx(r, v)) {
        ngx_str_set(&value, "1");
        ngx_http_interlock_set_value(v, &value, 1);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_zone_id_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                    *id;
    ngx_str_t                  value;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_alone_ctx(r, v);
    if (ctx == NULL) {
        return NGX_OK;
    }

    value.data = ngx_pnalloc(r->pool, 2 * NGX_HTTP_INTERLOCK_ZONE_ID);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    id = (u_char *) ngx_http_interlock_zone_id(ctx->lcf->shm_zone->data);

    value.len = ngx_hex_dump(value.data, id, NGX_HTTP_INTERLOCK_ZONE_ID)
                - value.data;

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_seq_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                  value;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_alone_ctx(r, v);
    if (ctx == NULL) {
        return NGX_OK;
    }

    value.data = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    value.len = ngx_snprintf(value.data, NGX_INT64_LEN, "%uL", ctx->number)
                - value.data;

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}


/* The answer in il_answer.h's compact form. */

static ngx_int_t
ngx_http_interlock_compact_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                  value;
    il_answer_t                answer;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_alone_ctx(r, v);
    if (ctx == NULL) {
        return NGX_OK;
    }

    value.data = ngx_pnalloc(r->pool, IL_ANSWER_COMPACT_CAP);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    ngx_http_interlock_unpack(&ctx->answer, &answer);

    value.len = il_answer_compact((char *) value.data, IL_ANSWER_COMPACT_CAP,
                                  &answer, 200 + (int) ctx->answer.code);

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}


/* How far each zone has counted, "ID:NUMBER,...": told with every request, so
 * that the loss of the last lines shows without another one to come.  It grows
 * meanwhile, and so is computed once for a request. */

static ngx_int_t
ngx_http_interlock_edge_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t  value;

    if (ngx_http_interlock_edge_value(r, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_interlock_set_value(v, &value, 1);

    return NGX_OK;
}
