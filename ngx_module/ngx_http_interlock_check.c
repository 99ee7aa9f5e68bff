
/*
 * Copyright (C) the interlock authors
 */


/*
 * What is checked of a location with a gate once all of its directives are
 * known: what it needs, and what stands beside it that does not go with it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_define.h"
#include "ngx_http_interlock_module.h"


static char *ngx_http_interlock_check_signed(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf);
static char *ngx_http_interlock_check_underscore(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf);
static ngx_int_t ngx_http_interlock_unsigned_member(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf, ngx_str_t *member);
static void ngx_http_interlock_check_rewrite(ngx_conf_t *cf);
static const char *ngx_http_interlock_leads_away(ngx_array_t *codes);
static char *ngx_http_interlock_check_upstream(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf);


char *
ngx_http_interlock_check(ngx_conf_t *cf, ngx_http_interlock_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t       *clcf;
    ngx_http_interlock_zone_t      *zone;
    ngx_http_interlock_location_t  *loc;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->shm_zone) {
        zone = conf->shm_zone->data;

        if ((conf->idem || ngx_http_interlock_is_ticket(conf))
            && (conf->tenant == NULL || conf->source == NULL))
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%s\" in location "
                               "\"%V\" needs \"%s\"",
                               conf->idem ? "interlock_idempotency_key"
                                          : "interlock", &clcf->name,
                               conf->tenant == NULL ? "interlock_tenant"
                                                    : "interlock_source");
            return NGX_CONF_ERROR;
        }

        loc = ngx_array_push(&zone->locations);
        if (loc == NULL) {
            return NGX_CONF_ERROR;
        }

        loc->label = clcf->name;
        loc->counters = &conf->counters;
    }

    if (ngx_http_interlock_is_ticket(conf)
        && ngx_http_interlock_ticket_check(cf, conf) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (conf->verify && conf->idem
        && ngx_http_interlock_check_signed(cf, conf) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (conf->verify
        && ngx_http_interlock_check_underscore(cf, conf) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_interlock_check_rewrite(cf);

    return ngx_http_interlock_check_upstream(cf, conf);
}


/* nginx itself would say that a zone has no size, and not where */

char *
ngx_http_interlock_check_zone(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf)
{
    ngx_conf_file_t           *saved, file;
    ngx_http_core_loc_conf_t  *clcf;

    if (conf->shm_zone == NULL || conf->shm_zone->data) {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* which may have been written far from the location */

    saved = ngx_http_interlock_at(cf, &conf->zone_place, &file);

    if (clcf->name.len) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown zone \"%V\" in \"interlock\" of location "
                           "\"%V\": there is no \"interlock_zone\" of that "
                           "name", &conf->shm_zone->shm.name, &clcf->name);

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown zone \"%V\" in \"interlock\": there is no "
                           "\"interlock_zone\" of that name",
                           &conf->shm_zone->shm.name);
    }

    cf->conf_file = saved;

    return NGX_CONF_ERROR;
}


/*
 * Where a signature does not cover the body, whoever has seen one request can
 * change the rest of it.  A key that changes with that would let him make any
 * number of jobs.
 */

static char *
ngx_http_interlock_check_signed(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf)
{
    ngx_int_t                  rc;
    ngx_str_t                  member;
    il_sig_covers_e            covers;
    ngx_http_core_loc_conf_t  *clcf;

    covers = il_sig_conf_covers(&conf->verify->sig);

    if (covers == IL_SIG_COVERS_BODY) {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->idem_mode == NGX_HTTP_INTERLOCK_IDEM_BODY) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_idempotency_key\" in location \"%V\" "
                           "must not be that of the \"body\": the signature "
                           "of \"interlock_verify %V\" does not cover its "
                           "bytes", &clcf->name, &conf->verified);
        return NGX_CONF_ERROR;
    }

    if (covers == IL_SIG_COVERS_FIELDS) {
        return NGX_CONF_OK;
    }

    rc = ngx_http_interlock_unsigned_member(cf, conf, &member);

    if (rc == NGX_OK) {
        return NGX_CONF_OK;
    }

    if (rc == NGX_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_idempotency_key %V\" in location "
                           "\"%V\": the signature of \"interlock_verify %V\" "
                           "does not cover \"%V\"", &conf->idem->value,
                           &clcf->name, &conf->verified, &member);
    }

    return NGX_CONF_ERROR;
}


/* nginx drops such headers unless it is told not to: nothing would ever be
 * verified */

static char *
ngx_http_interlock_check_underscore(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf)
{
    il_str_t                   name;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_core_srv_conf_t  *cscf;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    if (cscf->underscores_in_headers || !cscf->ignore_invalid_headers
        || !il_sig_conf_underscore(&conf->verify->sig, &name))
    {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "header \"%*s\" in \"interlock_verify\" of location "
                       "\"%V\" needs \"underscores_in_headers on\": nginx "
                       "drops it otherwise", name.len, name.data,
                       &clcf->name);

    return NGX_CONF_ERROR;
}


/* NGX_DECLINED if the key has a header, an argument of the URL, or a member of
 * the body that is not signed; of other variables it is not known where they come from */

static ngx_int_t
ngx_http_interlock_unsigned_member(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf, ngx_str_t *member)
{
    u_char                     *p, *last;
    ngx_int_t                   index;
    ngx_str_t                   name, lower;
    ngx_http_interlock_json_t  *json;

    p = conf->idem->value.data;
    last = p + conf->idem->value.len;

    while (ngx_http_interlock_next_variable(&p, last, &name)) {

        lower.len = name.len;
        lower.data = ngx_pnalloc(cf->temp_pool, name.len);
        if (lower.data == NULL) {
            return NGX_ERROR;
        }

        ngx_strlow(lower.data, name.data, name.len);

        if ((lower.len > 5 && ngx_strncmp(lower.data, "http_", 5) == 0)
            || (lower.len > 4 && ngx_strncmp(lower.data, "arg_", 4) == 0))
        {
            *member = lower;
            return NGX_DECLINED;
        }

        index = ngx_http_get_variable_index(cf, &lower);
        if (index == NGX_ERROR) {
            return NGX_ERROR;
        }

        json = ngx_http_interlock_defined(conf->json, (uintptr_t) index);

        if (json && !il_sig_conf_covers_member(&conf->verify->sig,
                                   ngx_http_interlock_str(&json->pointer)))
        {
            *member = json->pointer;
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/*
 * "return" and "rewrite" work before this module does.  The rewrite module's
 * configuration of a location begins with the array of its codes, which are
 * of public types and in pieces of the size of a pointer.
 */

static void
ngx_http_interlock_check_rewrite(ngx_conf_t *cf)
{
    const char                *what;
    ngx_uint_t                 m;
    ngx_array_t               *codes;
    ngx_module_t              *module;
    ngx_http_conf_ctx_t       *ctx;
    ngx_http_core_loc_conf_t  *clcf;

    ctx = cf->ctx;
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* the codes of "if" are those of the location around it */

    if (clcf->noname) {
        return;
    }

    for (m = 0; cf->cycle->modules[m]; m++) {
        module = cf->cycle->modules[m];

        if (module->type != NGX_HTTP_MODULE
            || ngx_strcmp(module->name, "ngx_http_rewrite_module") != 0)
        {
            continue;
        }

        codes = *(ngx_array_t **) ctx->loc_conf[module->ctx_index];

        what = codes ? ngx_http_interlock_leads_away(codes) : NULL;

        if (what) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "\"%s\" in location \"%V\" comes before "
                               "interlock: a request that it answers or leads "
                               "away is neither verified nor deduplicated",
                               what, &clcf->name);
        }

        return;
    }
}


/* the directive that may take every request away, or NULL; what stands in an
 * "if" is for some of them and meant */

static const char *
ngx_http_interlock_leads_away(ngx_array_t *codes)
{
    u_char                        *p, *last, *end;
    ngx_http_script_code_pt        code;
    ngx_http_script_if_code_t     *cond;
#if (NGX_PCRE)
    ngx_http_script_regex_code_t  *regex;
#endif

    p = codes->elts;
    last = p + codes->nelts;
    end = p;

    for ( /* void */ ;
         (size_t) (last - p) >= sizeof(uintptr_t);
         p += sizeof(uintptr_t))
    {
        code = *(ngx_http_script_code_pt *) p;

        if (code == ngx_http_script_if_code
            && (size_t) (last - p) >= sizeof(ngx_http_script_if_code_t))
        {
            cond = (ngx_http_script_if_code_t *) p;
            end = ngx_max(end, p + cond->next);
        }

        if (p < end) {
            continue;
        }

        if (code == ngx_http_script_return_code) {
            return "return";
        }

#if (NGX_PCRE)

        if (code == ngx_http_script_regex_start_code
            && (size_t) (last - p) >= sizeof(ngx_http_script_regex_code_t))
        {
            regex = (ngx_http_script_regex_code_t *) p;

            if (regex->uri && !regex->break_cycle) {
                return "rewrite";
            }
        }

#endif

    }

    return NULL;
}


/*
 * The location's own upstream module.  nginx has no interface for this, but
 * in all four modules the location's configuration begins with the upstream's
 * (ngx_http_upstream_conf_t), and they are merged before ours because filters
 * come behind them in the list of modules.
 */

static char *
ngx_http_interlock_check_upstream(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf)
{
    ngx_uint_t                  i, m;
    ngx_module_t               *module;
    ngx_http_conf_ctx_t        *ctx;
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_upstream_conf_t   *ucf;
    ngx_http_interlock_zone_t  *zone;

    static struct {
        const char  *module;
        const char  *prefix;
    } upstreams[] = {
        { "ngx_http_fastcgi_module", "fastcgi" },
        { "ngx_http_proxy_module", "proxy" },
        { "ngx_http_scgi_module", "scgi" },
        { "ngx_http_uwsgi_module", "uwsgi" }
    };

    ctx = cf->ctx;
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    for (m = 0; cf->cycle->modules[m]; m++) {
        module = cf->cycle->modules[m];

        if (module->type != NGX_HTTP_MODULE) {
            continue;
        }

        for (i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
            if (ngx_strcmp(module->name, upstreams[i].module) == 0) {
                break;
            }
        }

        if (i == sizeof(upstreams) / sizeof(upstreams[0])) {
            continue;
        }

        ucf = ctx->loc_conf[module->ctx_index];

        /*
         * A client that goes away must not take the request from the backend:
         * its answer settles the entry, and a retry must find that.
         */

        ucf->ignore_client_abort = 1;

        if (clcf->handler == NULL || ucf->upstream == NULL) {
            continue;
        }

        if (conf->split && ngx_strcmp(upstreams[i].prefix, "fastcgi") != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"interlock_split\" in location \"%V\" "
                               "needs \"fastcgi_pass\" to interlockd",
                               &clcf->name);
            return NGX_CONF_ERROR;
        }

        if (conf->verify && il_sig_scheme_backend(conf->verify->sig.scheme)
            && ngx_strcmp(upstreams[i].prefix, "fastcgi") != 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"interlock_verify %V\" in location \"%V\" "
                               "needs \"fastcgi_pass\" to interlockd, which "
                               "verifies this scheme",
                               &conf->verified, &clcf->name);
            return NGX_CONF_ERROR;
        }

        if (ucf->request_buffering == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%s_request_buffering off\" can not be used "
                               "in location \"%V\": interlock reads the "
                               "whole body before it decides",
                               upstreams[i].prefix, &clcf->name);
            return NGX_CONF_ERROR;
        }

        if (conf->shm_zone == NULL
            || (conf->idem == NULL && !ngx_http_interlock_is_ticket(conf)))
        {
            continue;
        }

        zone = conf->shm_zone->data;

        if (ucf->read_timeout != NGX_CONF_UNSET_MSEC
            && ucf->read_timeout >= zone->in_flight)
        {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "\"%s_read_timeout\" of location \"%V\" is "
                               "not below \"in_flight=\" of zone \"%V\": a "
                               "repeat may reach the backend while the "
                               "first is still there",
                               upstreams[i].prefix, &clcf->name,
                               &conf->shm_zone->shm.name);
        }
    }

    return NGX_CONF_OK;
}
