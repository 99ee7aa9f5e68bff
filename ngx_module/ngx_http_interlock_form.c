
/*
 * Copyright (C) the interlock authors
 */


/*
 * Variables with the fields of a form (application/x-www-form-urlencoded).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "il_form.h"

#include "ngx_http_interlock_define.h"
#include "ngx_http_interlock_module.h"


typedef struct {
    ngx_int_t   index;      /* of the variable; must be first */
    ngx_str_t   name;       /* of the field, decoded */
} ngx_http_interlock_form_t;


static ngx_int_t ngx_http_interlock_form_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static void ngx_http_interlock_form_problem(ngx_http_interlock_ctx_t *ctx,
    il_form_rc_e rc);


/* interlock_form $variable name */

char *
ngx_http_interlock_form(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t                  *value;
    ngx_http_interlock_form_t  *form;

    value = cf->args->elts;

    if (value[2].len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "empty name of a field \"%V\" in "
                           "\"interlock_form\"", &value[2]);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_script_variables_count(&value[2])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "variable in the name of a field \"%V\" in "
                           "\"interlock_form\": it is taken as it stands",
                           &value[2]);
        return NGX_CONF_ERROR;
    }

    form = ngx_http_interlock_define(cf, cmd, &ilcf->form,
                                     sizeof(ngx_http_interlock_form_t),
                                     ngx_http_interlock_form_variable);
    if (form == NULL) {
        return NGX_CONF_ERROR;
    }

    form->name = value[2];

    return NGX_CONF_OK;
}


/* data is the variable's index; the field is that of the location */

static ngx_int_t
ngx_http_interlock_form_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                     *p;
    size_t                      len;
    il_str_t                    raw;
    il_form_rc_e                rc;
    ngx_http_interlock_ctx_t   *ctx;
    ngx_http_interlock_form_t  *form;

    ctx = ngx_http_interlock_get_ctx(r);

    v->valid = 0;
    v->not_found = 1;
    v->no_cacheable = (ctx == NULL || !ctx->body_ready);

    if (v->no_cacheable) {
        return NGX_OK;
    }

    form = ngx_http_interlock_defined(ctx->lcf->form, data);

    if (form == NULL) {
        return NGX_OK;
    }

    rc = il_form_find(ctx->content, ngx_http_interlock_str(&form->name), &raw);

    if (rc != IL_FORM_OK) {
        ngx_http_interlock_form_problem(ctx, rc);
        return NGX_OK;
    }

    if (raw.len == 0 || raw.len > NGX_HTTP_INTERLOCK_VALUE_MAX) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, raw.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    /* il_form_find() has looked at every escape */

    if (il_form_decode(raw, (char *) p, raw.len, &len) != 0) {
        return NGX_ERROR;
    }

    v->data = p;
    v->len = len;
    v->valid = 1;
    v->not_found = 0;

    return NGX_OK;
}


static void
ngx_http_interlock_form_problem(ngx_http_interlock_ctx_t *ctx,
    il_form_rc_e rc)
{
    il_str_t  detail;

    switch (rc) {

    case IL_FORM_MALFORMED:
        detail = il_cstr("the body is not a valid form: a \"%\" is without "
                         "its two digits");
        break;

    case IL_FORM_TOO_MANY:
        detail = il_cstr("the form has too many fields");
        break;

    case IL_FORM_DUPLICATE:
        detail = il_cstr("a field that is part of a key occurs twice in the "
                         "form");
        break;

    default: /* IL_FORM_MISSING: a key will see that it is empty */
        return;
    }

    if (ctx->value_problem == IL_P_NONE) {
        ctx->value_problem = IL_P_FORM_INVALID;
        ctx->value_detail = detail;
    }
}
