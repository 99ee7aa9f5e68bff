
/*
 * Copyright (C) the interlock authors
 */


/*
 * What the directives that define variables have in common.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_define.h"
#include "ngx_http_interlock_module.h"


static ngx_int_t ngx_http_interlock_define_prefix(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_str_t *name);
static ngx_int_t ngx_http_interlock_define_variable(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_str_t *name, ngx_http_get_variable_pt handler);


void *
ngx_http_interlock_define(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_array_t **defs, size_t size, ngx_http_get_variable_pt handler)
{
    void       *def;
    ngx_int_t   index;
    ngx_str_t  *value, name;

    value = cf->args->elts;

    if (value[1].len < 2 || value[1].data[0] != '$') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid variable name \"%V\" in \"%V\"",
                           &value[1], &cmd->name);
        return NULL;
    }

    name.data = value[1].data + 1;
    name.len = value[1].len - 1;

    if (ngx_http_interlock_define_prefix(cf, cmd, &name) != NGX_OK) {
        return NULL;
    }

    index = ngx_http_interlock_define_variable(cf, cmd, &name, handler);
    if (index == NGX_ERROR) {
        return NULL;
    }

    if (*defs == NGX_CONF_UNSET_PTR) {
        *defs = ngx_array_create(cf->pool, 4, size);
        if (*defs == NULL) {
            return NULL;
        }
    }

    if (ngx_http_interlock_defined(*defs, (uintptr_t) index) != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate variable \"%V\" in \"%V\"",
                           &value[1], &cmd->name);
        return NULL;
    }

    def = ngx_array_push(*defs);
    if (def == NULL) {
        return NULL;
    }

    ngx_memzero(def, size);
    *(ngx_int_t *) def = index;

    return def;
}


/* $http_... and the like are of nginx's own, though nobody has defined them:
 * a header of that name would be out of sight */

static ngx_int_t
ngx_http_interlock_define_prefix(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *name)
{
    ngx_uint_t                  i;
    ngx_http_variable_t        *v;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    v = cmcf->prefix_variables.elts;

    for (i = 0; i < cmcf->prefix_variables.nelts; i++) {

        if (name->len >= v[i].name.len
            && ngx_strncasecmp(name->data, v[i].name.data, v[i].name.len) == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "variable \"$%V\" in \"%V\" can not be "
                               "defined: those that begin with \"$%V\" are "
                               "nginx's own", name, &cmd->name, &v[i].name);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* the variable, which may have been defined at another place before */

static ngx_int_t
ngx_http_interlock_define_variable(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *name, ngx_http_get_variable_pt handler)
{
    ngx_int_t                        index, *ip;
    ngx_http_variable_t             *var;
    ngx_http_interlock_main_conf_t  *imcf;

    var = ngx_http_add_variable(cf, name, NGX_HTTP_VAR_CHANGEABLE);
    if (var == NULL) {
        return NGX_ERROR;
    }

    index = ngx_http_get_variable_index(cf, name);
    if (index == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (var->get_handler == handler) {
        return index;
    }

    if (var->get_handler != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "variable \"$%V\" in \"%V\" is already defined "
                           "otherwise", name, &cmd->name);
        return NGX_ERROR;
    }

    var->get_handler = handler;
    var->data = (uintptr_t) index;

    imcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_interlock_module);

    ip = ngx_array_push(&imcf->body);
    if (ip == NULL) {
        return NGX_ERROR;
    }

    *ip = index;

    return index;
}


void *
ngx_http_interlock_defined(ngx_array_t *defs, uintptr_t index)
{
    u_char      *def;
    ngx_uint_t   i;

    if (defs == NULL) {
        return NULL;
    }

    def = defs->elts;

    for (i = 0; i < defs->nelts; i++) {
        if ((uintptr_t) *(ngx_int_t *) (void *) def == index) {
            return def;
        }

        def += defs->size;
    }

    return NULL;
}


ngx_int_t
ngx_http_interlock_merge_defined(ngx_array_t **prev, ngx_array_t **conf)
{
    void        *def;
    u_char      *inherited;
    ngx_uint_t   i;

    if (*prev == NGX_CONF_UNSET_PTR) {
        *prev = NULL;
    }

    if (*conf == NGX_CONF_UNSET_PTR) {
        *conf = *prev;
        return NGX_OK;
    }

    if (*prev == NULL) {
        return NGX_OK;
    }

    inherited = (*prev)->elts;

    for (i = 0; i < (*prev)->nelts; i++) {

        if (ngx_http_interlock_defined(*conf,
                            (uintptr_t) *(ngx_int_t *) (void *) inherited)
            == NULL)
        {
            def = ngx_array_push(*conf);
            if (def == NULL) {
                return NGX_ERROR;
            }

            ngx_memcpy(def, inherited, (*prev)->size);
        }

        inherited += (*prev)->size;
    }

    return NGX_OK;
}
