
/*
 * Copyright (C) the interlock authors
 */


/*
 * The module's tables: directives, contexts, creating and merging of
 * configurations, and what is checked once all of it is known.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <sodium.h>

#include "ngx_http_interlock_define.h"
#include "ngx_http_interlock_effect.h"


static void *ngx_http_interlock_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_interlock_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_interlock_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static char *ngx_http_interlock_merge(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *prev, ngx_http_interlock_loc_conf_t *conf);
static ngx_int_t ngx_http_interlock_merge_headers(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf);
static void ngx_http_interlock_no_gate(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf);
static ngx_int_t ngx_http_interlock_init(ngx_conf_t *cf);


static ngx_command_t  ngx_http_interlock_commands[] = {

    { ngx_string("interlock_zone"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      ngx_http_interlock_zone,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock"),
      NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_dry_run"),
      NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_interlock_loc_conf_t, dry_run),
      NULL },

    { ngx_string("interlock_tenant"),
      NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock_name,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_interlock_loc_conf_t, tenant),
      NULL },

    { ngx_string("interlock_source"),
      NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock_name,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_interlock_loc_conf_t, source),
      NULL },

    { ngx_string("interlock_kind"),
      NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock_name,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_interlock_loc_conf_t, kind),
      NULL },

    { ngx_string("interlock_verify"),
      NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_interlock_verify,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_work_key"),
      NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_interlock_work_key,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_idempotency_key"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE12,
      ngx_http_interlock_idempotency_key,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_json"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE2,
      ngx_http_interlock_json,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_split"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock_split,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_form"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE2,
      ngx_http_interlock_form,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_business_date"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE2
      |NGX_CONF_TAKE3|NGX_CONF_TAKE4,
      ngx_http_interlock_business_date,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_mismatch"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock_mismatch,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_wait"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock_wait_time,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_keys"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock_effect_keys,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_effect"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE12,
      ngx_http_interlock_effect,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_effect_uri"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock_effect_uri,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_audit"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_interlock_record_conf,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("interlock_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS|NGX_CONF_TAKE1,
      ngx_http_interlock_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_interlock_module_ctx = {
    ngx_http_interlock_add_variables,      /* preconfiguration */
    ngx_http_interlock_init,               /* postconfiguration */

    ngx_http_interlock_create_main_conf,   /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_interlock_create_loc_conf,    /* create location configuration */
    ngx_http_interlock_merge_loc_conf      /* merge location configuration */
};


ngx_module_t  ngx_http_interlock_module = {
    NGX_MODULE_V1,
    &ngx_http_interlock_module_ctx,        /* module context */
    ngx_http_interlock_commands,           /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_interlock_edge_begin,         /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    ngx_http_interlock_edge_end,           /* exit master */
    NGX_MODULE_V1_PADDING
};


static void *
ngx_http_interlock_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_interlock_main_conf_t  *imcf;

    if (sodium_init() == -1) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "sodium_init() failed");
        return NULL;
    }

    imcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_main_conf_t));
    if (imcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&imcf->body, cf->pool, 8, sizeof(ngx_int_t)) != NGX_OK
        || ngx_array_init(&imcf->keys, cf->pool, 8, sizeof(ngx_int_t))
           != NGX_OK
        || ngx_array_init(&imcf->answer, cf->pool, 8, sizeof(ngx_int_t))
           != NGX_OK
        || ngx_array_init(&imcf->records, cf->pool, 2,
                          sizeof(ngx_http_interlock_record_t *))
           != NGX_OK
        || ngx_array_init(&imcf->used, cf->pool, 16,
                          sizeof(ngx_http_interlock_used_t))
           != NGX_OK)
    {
        return NULL;
    }

    imcf->zones = ngx_array_create(cf->pool, 2, sizeof(ngx_shm_zone_t *));
    if (imcf->zones == NULL
        || ngx_http_interlock_edge_add(cf, imcf) != NGX_OK)
    {
        return NULL;
    }

    return imcf;
}


static void *
ngx_http_interlock_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_interlock_loc_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_loc_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->tenant = NULL;
     *     conf->source = NULL;
     *     conf->kind = NULL;
     *     conf->idem = NULL;
     *     conf->idem_mode = 0;
     *     conf->idem_headers = NULL;
     *     conf->work_headers = NULL;
     *     conf->status = 0;
     *     conf->effect_uri = { 0, NULL };
     *     conf->keys = NULL;
     *     conf->counters = NULL;
     *     conf->place = { { 0, NULL }, 0 };
     *     conf->zone_place = { { 0, NULL }, 0 };
     *     conf->verified = { 0, NULL };
     *     conf->zone_here = 0;
     *     conf->gate = 0;
     *     conf->provider = 0;
     */

    conf->shm_zone = NGX_CONF_UNSET_PTR;
    conf->verify = NGX_CONF_UNSET_PTR;
    conf->work_key = NGX_CONF_UNSET_PTR;
    conf->json = NGX_CONF_UNSET_PTR;
    conf->split = NGX_CONF_UNSET_PTR;
    conf->form = NGX_CONF_UNSET_PTR;
    conf->date = NGX_CONF_UNSET_PTR;
    conf->mismatch = NGX_CONF_UNSET_UINT;
    conf->wait = NGX_CONF_UNSET_MSEC;
    conf->dry_run = NGX_CONF_UNSET;
    conf->effect = NGX_CONF_UNSET_PTR;
    conf->record = NGX_CONF_UNSET_PTR;

    return conf;
}


/*
 * Locations are merged when the end of "http" was read, and that is the line
 * that nginx would name: it is told the place of the directive instead.
 */

static char *
ngx_http_interlock_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_interlock_loc_conf_t *prev = parent;
    ngx_http_interlock_loc_conf_t *conf = child;

    char             *rc;
    ngx_conf_file_t  *saved, file;

    if (conf->place.line == 0) {
        conf->place = prev->place;
    }

    if (conf->zone_place.line == 0) {
        conf->zone_place = prev->zone_place;
    }

    saved = ngx_http_interlock_at(cf, &conf->place, &file);

    rc = ngx_http_interlock_merge(cf, prev, conf);

    cf->conf_file = saved;

    return rc;
}


static char *
ngx_http_interlock_merge(ngx_conf_t *cf, ngx_http_interlock_loc_conf_t *prev,
    ngx_http_interlock_loc_conf_t *conf)
{
    char        *rc;
    il_str_t     name;
    ngx_uint_t   mismatch;

    ngx_conf_merge_ptr_value(conf->shm_zone, prev->shm_zone, NULL);
    ngx_conf_merge_ptr_value(conf->verify, prev->verify, NULL);
    ngx_conf_merge_ptr_value(conf->record, prev->record, NULL);
    ngx_conf_merge_msec_value(conf->wait, prev->wait, 2000);
    ngx_conf_merge_value(conf->dry_run, prev->dry_run, 0);

    if (ngx_http_interlock_check_zone(cf, conf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (conf->work_key == NGX_CONF_UNSET_PTR) {
        ngx_conf_merge_ptr_value(conf->work_key, prev->work_key, NULL);
        conf->work_headers = prev->work_headers;
    }

    if (conf->tenant == NULL) {
        conf->tenant = prev->tenant;
    }

    if (conf->source == NULL) {
        conf->source = prev->source;
    }

    if (conf->kind == NULL) {
        conf->kind = prev->kind;
    }

    if (conf->idem == NULL) {
        conf->idem = prev->idem;
        conf->idem_mode = prev->idem_mode;
        conf->idem_headers = prev->idem_headers;
    }

    if (ngx_http_interlock_merge_headers(cf, conf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_interlock_merge_defined(&prev->json, &conf->json) != NGX_OK
        || ngx_http_interlock_merge_defined(&prev->form, &conf->form)
           != NGX_OK
        || ngx_http_interlock_merge_defined(&prev->date, &conf->date)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    rc = ngx_http_interlock_split_merge(cf, prev, conf);
    if (rc != NGX_CONF_OK) {
        return rc;
    }

    rc = ngx_http_interlock_effect_merge(cf, prev, conf);
    if (rc != NGX_CONF_OK) {
        return rc;
    }

    mismatch = NGX_HTTP_INTERLOCK_REJECT;

    if (ngx_http_interlock_is_ticket(conf)) {
        ngx_str_set(&conf->verified, "ticket");

    } else if (conf->verify) {
        name = il_sig_scheme_name(conf->verify->sig.scheme);
        conf->verified.data = (u_char *) name.data;
        conf->verified.len = name.len;

        if (il_sig_scheme_is_provider(conf->verify->sig.scheme)) {
            conf->provider = 1;
            mismatch = NGX_HTTP_INTERLOCK_FIRST;
        }
    }

    /* the default goes by each location's own scheme: what is inherited is
     * only what was written */

    ngx_conf_merge_uint_value(conf->mismatch, prev->mismatch,
                              NGX_CONF_UNSET_UINT);
    conf->on_mismatch = (conf->mismatch == NGX_CONF_UNSET_UINT)
                        ? mismatch : conf->mismatch;

    if (conf->verify == NULL && conf->work_key == NULL && conf->idem == NULL) {
        ngx_http_interlock_no_gate(cf, conf);
        return NGX_CONF_OK;
    }

    conf->gate = 1;

    return ngx_http_interlock_check(cf, conf);
}


/* A header that is a part of both keys need not be counted twice for each
 * request: if it is repeated, that is the idempotency key's problem. */

static ngx_int_t
ngx_http_interlock_merge_headers(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf)
{
    ngx_str_t   *idem, *work, *only;
    ngx_uint_t   i, k;

    conf->work_headers_only = conf->work_headers;

    if (conf->work_headers == NULL || conf->idem == NULL
        || conf->idem_headers == NULL)
    {
        return NGX_OK;
    }

    conf->work_headers_only = ngx_array_create(cf->pool,
                                               conf->work_headers->nelts,
                                               sizeof(ngx_str_t));
    if (conf->work_headers_only == NULL) {
        return NGX_ERROR;
    }

    idem = conf->idem_headers->elts;
    work = conf->work_headers->elts;

    for (i = 0; i < conf->work_headers->nelts; i++) {

        for (k = 0; k < conf->idem_headers->nelts; k++) {
            if (idem[k].len == work[i].len
                && ngx_memcmp(idem[k].data, work[i].data, work[i].len) == 0)
            {
                break;
            }
        }

        if (k < conf->idem_headers->nelts) {
            continue;
        }

        only = ngx_array_push(conf->work_headers_only);
        if (only == NULL) {
            return NGX_ERROR;
        }

        *only = work[i];
    }

    return NGX_OK;
}


static void
ngx_http_interlock_no_gate(ngx_conf_t *cf, ngx_http_interlock_loc_conf_t *conf)
{
    ngx_conf_file_t           *saved, file;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (!conf->zone_here || conf->shm_zone == NULL || clcf->handler == NULL) {
        return;
    }

    saved = ngx_http_interlock_at(cf, &conf->zone_place, &file);

    ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                       "\"interlock\" has no effect in a location without "
                       "\"interlock_idempotency_key\"");

    cf->conf_file = saved;
}


static ngx_int_t
ngx_http_interlock_init(ngx_conf_t *cf)
{
    ngx_uint_t                       m;
    ngx_http_handler_pt             *h;
    ngx_http_core_main_conf_t       *cmcf;
    ngx_http_interlock_main_conf_t  *imcf;

    if (ngx_http_interlock_check_variables(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    /*
     * PRECONTENT: behind limits and access rules, so that a refused request
     * is never read nor remembered, and "satisfy any" can not override us.
     */

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_interlock_handler;

    ngx_http_interlock_filter_init();
    ngx_http_interlock_call_filter_init();
    ngx_http_interlock_taken_filter_init();

    imcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_interlock_module);

    for (m = 0; cf->cycle->modules[m]; m++) {
        if (ngx_strcmp(cf->cycle->modules[m]->name, "ngx_http_fastcgi_module")
            == 0)
        {
            imcf->fastcgi = cf->cycle->modules[m];
        }
    }

    return NGX_OK;
}
