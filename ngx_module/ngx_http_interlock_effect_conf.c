
/*
 * Copyright (C) the interlock authors
 */


/*
 * Directives of the fencing proxy, and what its locations must look like.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


static char *ngx_http_interlock_effect_upstream(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf);


/* interlock_effect name=value [kind=value] */

char *
ngx_http_interlock_effect(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t                         *value, s;
    ngx_uint_t                         i;
    ngx_http_complex_value_t         **cv;
    ngx_http_interlock_effect_conf_t  *effect;

    if (ilcf->effect != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0 && cf->args->nelts == 2) {
        ilcf->effect = NULL;
        return NGX_CONF_OK;
    }

    ngx_http_interlock_place(cf, &ilcf->place);

    effect = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_effect_conf_t));
    if (effect == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_http_interlock_check_once(cf, i) != NGX_OK) {
            return NGX_CONF_ERROR;
        }

        if (ngx_strncmp(value[i].data, "name=", 5) == 0) {
            cv = &effect->name;

        } else if (ngx_strncmp(value[i].data, "kind=", 5) == 0) {
            cv = &effect->kind;

        } else {
            cv = NULL;
        }

        s.data = value[i].data + 5;
        s.len = value[i].len - 5;

        if (cv == NULL || value[i].len == 5) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in "
                               "\"interlock_effect\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        if (cv == &effect->kind
            && ngx_http_script_variables_count(&s) == 0
            && !il_name_valid(ngx_http_interlock_str(&s)))
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid kind \"%V\" in \"interlock_effect\": "
                               "a name has only a-z, 0-9, \".\", \"_\" and "
                               "\"-\", and at most %d of them", &s,
                               IL_NAME_MAX);
            return NGX_CONF_ERROR;
        }

        *cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
        if (*cv == NULL) {
            return NGX_CONF_ERROR;
        }

        if (ngx_http_interlock_compile(cf, &s, *cv) != NGX_OK
            || (cv == &effect->name
                && ngx_http_interlock_find_headers(cf, &s, &effect->headers)
                   != NGX_OK))
        {
            return NGX_CONF_ERROR;
        }
    }

    if (effect->name == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_effect\" must have the \"name\" "
                           "parameter");
        return NGX_CONF_ERROR;
    }

    ilcf->effect = effect;

    return NGX_CONF_OK;
}


/* interlock_effect_uri /uri */

char *
ngx_http_interlock_effect_uri(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t  *value;

    if (ilcf->effect_uri.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len < 2 || value[1].data[0] != '/') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid URI \"%V\" in \"interlock_effect_uri\": "
                           "it is a path that names an internal location",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    ilcf->effect_uri = value[1];

    return NGX_CONF_OK;
}


char *
ngx_http_interlock_effect_merge(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *prev, ngx_http_interlock_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    ngx_conf_merge_ptr_value(conf->effect, prev->effect, NULL);
    ngx_conf_merge_str_value(conf->effect_uri, prev->effect_uri, "");

    if (conf->keys == NULL) {
        conf->keys = prev->keys;
    }

    if (conf->effect == NULL) {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->verify || conf->work_key || conf->idem) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "location \"%V\" has \"interlock_effect\", for "
                           "calls of workers, and directives for requests "
                           "from outside", &clcf->name);
        return NGX_CONF_ERROR;
    }

    if (conf->effect_uri.len == 0 || conf->keys == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_effect\" in location \"%V\" needs "
                           "\"%s\"", &clcf->name,
                           conf->keys ? "interlock_effect_uri"
                                      : "interlock_keys");
        return NGX_CONF_ERROR;
    }

    return ngx_http_interlock_effect_upstream(cf, clcf);
}


/*
 * The proxy's settings that would undo what this is for.  Some have only one
 * right value, which is set; what somebody must have meant is refused.  (How
 * they are found: see ngx_http_interlock_check_upstream().)
 */

static char *
ngx_http_interlock_effect_upstream(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf)
{
    ngx_uint_t                 m;
    const char                *wrong;
    ngx_module_t              *module;
    ngx_http_conf_ctx_t       *ctx;
    ngx_http_upstream_conf_t  *ucf;

    ctx = cf->ctx;
    wrong = NULL;

    for (m = 0; cf->cycle->modules[m]; m++) {
        module = cf->cycle->modules[m];

        if (module->type != NGX_HTTP_MODULE
            || (ngx_strcmp(module->name, "ngx_http_proxy_module") != 0
                && ngx_strcmp(module->name, "ngx_http_fastcgi_module") != 0
                && ngx_strcmp(module->name, "ngx_http_scgi_module") != 0
                && ngx_strcmp(module->name, "ngx_http_uwsgi_module") != 0))
        {
            continue;
        }

        ucf = ctx->loc_conf[module->ctx_index];

        if (ngx_strcmp(module->name, "ngx_http_proxy_module") != 0) {
            if (clcf->handler && ucf->upstream) {
                wrong = "another handler than \"proxy_pass\"";
            }

            continue;
        }

        /* sent once, whatever becomes of the worker meanwhile; and what the
         * provider says is taken as it stands */

        ucf->ignore_client_abort = 1;
        ucf->next_upstream = NGX_CONF_BITMASK_SET|NGX_HTTP_UPSTREAM_FT_OFF;
        ucf->intercept_errors = 0;
        ucf->ignore_headers |= NGX_HTTP_UPSTREAM_IGN_XA_REDIRECT
                               |NGX_HTTP_UPSTREAM_IGN_XA_EXPIRES
                               |NGX_HTTP_UPSTREAM_IGN_XA_LIMIT_RATE
                               |NGX_HTTP_UPSTREAM_IGN_XA_BUFFERING
                               |NGX_HTTP_UPSTREAM_IGN_XA_CHARSET;

        if (clcf->handler == NULL) {
            continue;
        }

        if (ucf->request_buffering == 0) {
            wrong = "\"proxy_request_buffering off\"";

        } else if (ucf->store) {
            wrong = "\"proxy_store\"";

#if (NGX_HTTP_CACHE)
        } else if (ucf->cache) {
            wrong = "\"proxy_cache\"";
#endif
        }
    }

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "location \"%V\" has \"interlock_effect\" and %s",
                           &clcf->name, wrong);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}
