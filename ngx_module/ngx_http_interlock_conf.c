
/*
 * Copyright (C) the interlock authors
 */


/*
 * Directives.  Each error names the directive and the value; nginx adds file
 * and line.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_define.h"
#include "ngx_http_interlock_module.h"


static ngx_int_t ngx_http_interlock_zone_name(ngx_conf_t *cf,
    ngx_str_t *value, ngx_str_t *name, ssize_t *size);
static char *ngx_http_interlock_zone_add(ngx_conf_t *cf,
    ngx_http_interlock_main_conf_t *imcf, ngx_str_t *name, ssize_t size,
    ngx_int_t done, ngx_int_t in_flight);
static void ngx_http_interlock_check_size(ngx_conf_t *cf, ngx_str_t *name,
    ssize_t size);


/* interlock_zone zone=name:size [done=time] [in_flight=time] */

char *
ngx_http_interlock_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ssize_t      size;
    ngx_int_t    in_flight, done;
    ngx_str_t   *value, name, s;
    ngx_uint_t   i;

    value = cf->args->elts;

    size = 0;
    name.len = 0;
    done = 24 * 60 * 60;
    in_flight = 60 * 1000;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_http_interlock_check_once(cf, i) != NGX_OK) {
            return NGX_CONF_ERROR;
        }

        if (ngx_strncmp(value[i].data, "zone=", 5) == 0) {

            if (ngx_http_interlock_zone_name(cf, &value[i], &name, &size)
                != NGX_OK)
            {
                return NGX_CONF_ERROR;
            }

            continue;
        }

        if (ngx_strncmp(value[i].data, "done=", 5) == 0) {

            s.data = value[i].data + 5;
            s.len = value[i].len - 5;

            done = ngx_parse_time(&s, 1);

            if (done == NGX_ERROR || done == 0 || done > 366 * 86400) {
                goto invalid;
            }

            continue;
        }

        if (ngx_strncmp(value[i].data, "in_flight=", 10) == 0) {

            s.data = value[i].data + 10;
            s.len = value[i].len - 10;

            in_flight = ngx_parse_time(&s, 0);

            if (in_flight == NGX_ERROR || in_flight == 0
                || in_flight > 86400 * 1000)
            {
                goto invalid;
            }

            continue;
        }

    invalid:

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"interlock_zone\"",
                           &value[i]);
        return NGX_CONF_ERROR;
    }

    if (name.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_zone\" must have the \"zone\" "
                           "parameter");
        return NGX_CONF_ERROR;
    }

    return ngx_http_interlock_zone_add(cf, conf, &name, size, done, in_flight);
}


/* name:size of a zone= parameter */

static ngx_int_t
ngx_http_interlock_zone_name(ngx_conf_t *cf, ngx_str_t *value, ngx_str_t *name,
    ssize_t *size)
{
    u_char     *p;
    ngx_str_t   s;

    name->data = value->data + 5;

    p = (u_char *) ngx_strchr(name->data, ':');

    if (p == NULL || p == name->data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid zone size \"%V\" in \"interlock_zone\": "
                           "it is given as \"zone=name:size\"", value);
        return NGX_ERROR;
    }

    name->len = p - name->data;

    s.data = p + 1;
    s.len = value->data + value->len - s.data;

    *size = ngx_parse_size(&s);

    if (*size == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid zone size \"%V\" in \"interlock_zone\"",
                           value);
        return NGX_ERROR;
    }

    if (*size < (ssize_t) (8 * ngx_pagesize)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "zone \"%V\" in \"interlock_zone\" is too small: "
                           "at least %uzk", value,
                           (size_t) (8 * ngx_pagesize / 1024));
        return NGX_ERROR;
    }

    return NGX_OK;
}


static char *
ngx_http_interlock_zone_add(ngx_conf_t *cf,
    ngx_http_interlock_main_conf_t *imcf, ngx_str_t *name, ssize_t size,
    ngx_int_t done, ngx_int_t in_flight)
{
    ngx_shm_zone_t             *shm_zone, **zp;
    ngx_http_interlock_zone_t  *zone;

    if (imcf->zones->nelts == NGX_HTTP_INTERLOCK_ZONES_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "too many zones in \"interlock_zone\" with "
                           "\"%V\": at most %d", name,
                           NGX_HTTP_INTERLOCK_ZONES_MAX);
        return NGX_CONF_ERROR;
    }

    shm_zone = ngx_shared_memory_add(cf, name, size,
                                     &ngx_http_interlock_module);
    if (shm_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    if (shm_zone->data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate zone \"%V\" in \"interlock_zone\"",
                           name);
        return NGX_CONF_ERROR;
    }

    zone = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_zone_t));
    if (zone == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_array_init(&zone->locations, cf->pool, 8,
                       sizeof(ngx_http_interlock_location_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    zone->shm_zone = shm_zone;
    zone->done = done;
    zone->in_flight = (ngx_msec_t) in_flight;

    shm_zone->init = ngx_http_interlock_zone_init;
    shm_zone->data = zone;

    zp = ngx_array_push(imcf->zones);
    if (zp == NULL) {
        return NGX_CONF_ERROR;
    }

    *zp = shm_zone;

    ngx_http_interlock_check_size(cf, name, size);

    return NGX_CONF_OK;
}


/* nginx gives a zone of another size new memory and says nothing: say it */

static void
ngx_http_interlock_check_size(ngx_conf_t *cf, ngx_str_t *name, ssize_t size)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_shm_zone_t   *shm_zone;

    if (cf->cycle->old_cycle == NULL) {
        return;
    }

    part = &cf->cycle->old_cycle->shared_memory.part;
    shm_zone = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return;
            }

            part = part->next;
            shm_zone = part->elts;
            i = 0;
        }

        if (shm_zone[i].tag == &ngx_http_interlock_module
            && shm_zone[i].shm.name.len == name->len
            && ngx_strncmp(shm_zone[i].shm.name.data, name->data, name->len)
               == 0
            && shm_zone[i].shm.size != (size_t) size)
        {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "the size of zone \"%V\" in "
                               "\"interlock_zone\" changed from %uz: its "
                               "entries are forgotten", name,
                               shm_zone[i].shm.size);
            return;
        }
    }
}


/* interlock zone=name | off */

char *
ngx_http_interlock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t  *value, name;

    if (ilcf->shm_zone != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    ngx_http_interlock_place(cf, &ilcf->zone_place);

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        ilcf->shm_zone = NULL;
        return NGX_CONF_OK;
    }

    /* a name ends at ":", as that of a zone does */

    if (ngx_strncmp(value[1].data, "zone=", 5) != 0 || value[1].len == 5
        || ngx_strchr(value[1].data, ':') != NULL)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"interlock\": it "
                           "is \"zone=name\" or \"off\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    name.data = value[1].data + 5;
    name.len = value[1].len - 5;

    ilcf->shm_zone = ngx_shared_memory_add(cf, &name, 0,
                                           &ngx_http_interlock_module);
    if (ilcf->shm_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    ilcf->zone_here = 1;

    return NGX_CONF_OK;
}


/* interlock_tenant, interlock_source, interlock_kind */

char *
ngx_http_interlock_name(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    ngx_str_t                  *value;
    ngx_http_complex_value_t  **cv;

    cv = (ngx_http_complex_value_t **) (p + cmd->offset);

    if (*cv != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_script_variables_count(&value[1]) == 0
        && !il_name_valid(ngx_http_interlock_str(&value[1])))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\": a name has only "
                           "a-z, 0-9, \".\", \"_\" and \"-\", and at most "
                           "%d of them", &value[1], &cmd->name, IL_NAME_MAX);
        return NGX_CONF_ERROR;
    }

    *cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (*cv == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_interlock_compile(cf, &value[1], *cv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* interlock_work_key part ... */

char *
ngx_http_interlock_work_key(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t                 *value;
    ngx_uint_t                 i, n;
    ngx_http_complex_value_t  *cv;

    if (ilcf->work_key != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    ngx_http_interlock_place(cf, &ilcf->place);

    value = cf->args->elts;
    n = 0;

    if (cf->args->nelts - 1 > IL_KEY_PARTS_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "too many parts in \"interlock_work_key\": at "
                           "most %d", IL_KEY_PARTS_MAX);
        return NGX_CONF_ERROR;
    }

    ilcf->work_key = ngx_array_create(cf->pool, cf->args->nelts - 1,
                                      sizeof(ngx_http_complex_value_t));
    if (ilcf->work_key == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (value[i].len == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "empty part \"%V\" in \"interlock_work_key\"",
                               &value[i]);
            return NGX_CONF_ERROR;
        }

        cv = ngx_array_push(ilcf->work_key);
        if (cv == NULL) {
            return NGX_CONF_ERROR;
        }

        n += ngx_http_script_variables_count(&value[i]);

        if (ngx_http_interlock_find_headers(cf, &value[i],
                                            &ilcf->work_headers)
            != NGX_OK
            || ngx_http_interlock_compile(cf, &value[i], cv) != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    if (n == 0 && ngx_strcmp(value[1].data, "global") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no variable in \"interlock_work_key\" beginning "
                           "with \"%V\": all requests would be the same "
                           "work; if this is meant, make \"global\" its "
                           "first part", &value[1]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* interlock_idempotency_key value [required | optional | body] */

char *
ngx_http_interlock_idempotency_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t  *value;

    if (ilcf->idem != NULL) {
        return "is duplicate";
    }

    ngx_http_interlock_place(cf, &ilcf->place);

    value = cf->args->elts;

    ilcf->idem_mode = NGX_HTTP_INTERLOCK_IDEM_REQUIRED;

    if (cf->args->nelts == 3) {

        if (ngx_strcmp(value[2].data, "required") == 0) {
            /* void */

        } else if (ngx_strcmp(value[2].data, "optional") == 0) {
            ilcf->idem_mode = NGX_HTTP_INTERLOCK_IDEM_OPTIONAL;

        } else if (ngx_strcmp(value[2].data, "body") == 0) {
            ilcf->idem_mode = NGX_HTTP_INTERLOCK_IDEM_BODY;

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in "
                               "\"interlock_idempotency_key\": it is "
                               "\"required\", \"optional\" or \"body\"",
                               &value[2]);
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_script_variables_count(&value[1]) == 0
        && (value[1].len
            || ilcf->idem_mode != NGX_HTTP_INTERLOCK_IDEM_BODY))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no variable in \"interlock_idempotency_key "
                           "%V\": all requests would be the same one",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    ilcf->idem = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (ilcf->idem == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_interlock_find_headers(cf, &value[1], &ilcf->idem_headers)
        != NGX_OK
        || ngx_http_interlock_compile(cf, &value[1], ilcf->idem) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* interlock_json $variable /pointer */

char *
ngx_http_interlock_json(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t                  *value;
    ngx_http_interlock_json_t  *json;

    value = cf->args->elts;

    if (ngx_http_interlock_check_pointer(cf, &value[2]) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    json = ngx_http_interlock_define(cf, cmd, &ilcf->json,
                                     sizeof(ngx_http_interlock_json_t),
                                     ngx_http_interlock_json_variable);
    if (json == NULL) {
        return NGX_CONF_ERROR;
    }

    json->pointer = value[2];

    return NGX_CONF_OK;
}


/* interlock_mismatch reject | first */

char *
ngx_http_interlock_mismatch(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t  *value;

    if (ilcf->mismatch != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "reject") == 0) {
        ilcf->mismatch = NGX_HTTP_INTERLOCK_REJECT;

    } else if (ngx_strcmp(value[1].data, "first") == 0) {
        ilcf->mismatch = NGX_HTTP_INTERLOCK_FIRST;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"interlock_mismatch\": "
                           "it is \"reject\" or \"first\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* interlock_wait time */

char *
ngx_http_interlock_wait_time(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_int_t   ms;
    ngx_str_t  *value;

    if (ilcf->wait != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ms = ngx_parse_time(&value[1], 0);

    if (ms == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"interlock_wait\": it "
                           "is a time like \"500ms\" or \"2s\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    ilcf->wait = (ngx_msec_t) ms;

    return NGX_CONF_OK;
}
