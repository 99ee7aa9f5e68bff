
/*
 * Copyright (C) the interlock authors
 */


/*
 * Variables with a business date: the local date, in a time zone, of a time
 * that the request names or at which it came.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "il_tz.h"

#include "ngx_http_interlock_define.h"
#include "ngx_http_interlock_module.h"


#define NGX_HTTP_INTERLOCK_ZONEINFO  "/usr/share/zoneinfo/"


typedef struct {
    ngx_int_t                  index;       /* of the variable; must be first */
    il_tz_t                   *tz;
    int32_t                    cutoff;      /* seconds since midnight */
    ngx_http_complex_value_t  *from;        /* NULL: when the request came */
    il_str_t                   unreadable;  /* detail of the problem */
} ngx_http_interlock_date_t;


static ngx_int_t ngx_http_interlock_date_args(ngx_conf_t *cf,
    ngx_http_interlock_date_t *date);
static ngx_int_t ngx_http_interlock_date_from(ngx_conf_t *cf,
    ngx_http_interlock_date_t *date, ngx_str_t *value);
static ngx_int_t ngx_http_interlock_date_cutoff(ngx_str_t *value,
    int32_t *cutoff);
static il_tz_t *ngx_http_interlock_date_zone(ngx_conf_t *cf,
    ngx_str_t *zone);
static ssize_t ngx_http_interlock_date_file(ngx_conf_t *cf, ngx_str_t *zone,
    u_char *name, u_char *buf);
static ngx_int_t ngx_http_interlock_date_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


/* interlock_business_date $variable zone [from=value] [cutoff=HH:MM] */

char *
ngx_http_interlock_business_date(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    u_char                     *p, *detail;
    ngx_str_t                  *value;
    ngx_http_interlock_date_t  *date;

    value = cf->args->elts;

    date = ngx_http_interlock_define(cf, cmd, &ilcf->date,
                                     sizeof(ngx_http_interlock_date_t),
                                     ngx_http_interlock_date_variable);
    if (date == NULL) {
        return NGX_CONF_ERROR;
    }

    date->tz = ngx_http_interlock_date_zone(cf, &value[2]);
    if (date->tz == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_interlock_date_args(cf, date) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    detail = ngx_pnalloc(cf->pool, sizeof("the time that  is of is missing, "
                                          "or neither RFC 3339 nor a number "
                                          "of seconds or milliseconds") - 1
                                   + value[1].len);
    if (detail == NULL) {
        return NGX_CONF_ERROR;
    }

    p = ngx_sprintf(detail, "the time that %V is of is missing, or neither "
                            "RFC 3339 nor a number of seconds or "
                            "milliseconds", &value[1]);

    date->unreadable = il_str((char *) detail, p - detail);

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_interlock_date_args(ngx_conf_t *cf, ngx_http_interlock_date_t *date)
{
    ngx_int_t    rc;
    ngx_str_t   *value, s;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = 3; i < cf->args->nelts; i++) {

        if (ngx_http_interlock_check_once(cf, i) != NGX_OK) {
            return NGX_ERROR;
        }

        rc = NGX_DECLINED;

        if (ngx_strncmp(value[i].data, "from=", 5) == 0) {

            s.data = value[i].data + 5;
            s.len = value[i].len - 5;

            rc = ngx_http_interlock_date_from(cf, date, &s);

        } else if (ngx_strncmp(value[i].data, "cutoff=", 7) == 0) {

            s.data = value[i].data + 7;
            s.len = value[i].len - 7;

            rc = ngx_http_interlock_date_cutoff(&s, &date->cutoff);
        }

        switch (rc) {

        case NGX_OK:
            break;

        case NGX_DECLINED:
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in "
                               "\"interlock_business_date\": it is "
                               "\"from=value\", with a variable, or "
                               "\"cutoff=HH:MM\"",
                               &value[i]);
            return NGX_ERROR;

        default: /* NGX_ERROR */
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_date_from(ngx_conf_t *cf, ngx_http_interlock_date_t *date,
    ngx_str_t *value)
{
    /* without one all requests would have the same date */

    if (ngx_http_script_variables_count(value) == 0) {
        return NGX_DECLINED;
    }

    date->from = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (date->from == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_interlock_compile(cf, value, date->from);
}


static ngx_int_t
ngx_http_interlock_date_cutoff(ngx_str_t *value, int32_t *cutoff)
{
    int64_t   hour, minute;
    il_str_t  s;

    if (value->len != 5 || value->data[2] != ':') {
        return NGX_DECLINED;
    }

    s = ngx_http_interlock_str(value);

    if (il_digits_parse(il_str(s.data, 2), 2, &hour) != 0 || hour > 23
        || il_digits_parse(il_str(s.data + 3, 2), 2, &minute) != 0
        || minute > 59)
    {
        return NGX_DECLINED;
    }

    *cutoff = (int32_t) (hour * 3600 + minute * 60);

    return NGX_OK;
}


/* the zone, with the bytes of its file in the configuration's pool */

static il_tz_t *
ngx_http_interlock_date_zone(ngx_conf_t *cf, ngx_str_t *zone)
{
    u_char       name[sizeof(NGX_HTTP_INTERLOCK_ZONEINFO) + IL_TZ_NAME_MAX];
    u_char      *buf, *bytes;
    ssize_t      n;
    il_tz_t     *tz;
    const char  *why;

    if (!il_tz_name_valid(ngx_http_interlock_str(zone))) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid time zone \"%V\" in "
                           "\"interlock_business_date\": it has a name like "
                           "\"Asia/Seoul\" or \"UTC\"", zone);
        return NULL;
    }

    tz = ngx_palloc(cf->pool, sizeof(il_tz_t));
    if (tz == NULL) {
        return NULL;
    }

    buf = ngx_alloc(IL_TZ_FILE_MAX + 1, cf->log);
    if (buf == NULL) {
        return NULL;
    }

    bytes = NULL;
    n = ngx_http_interlock_date_file(cf, zone, name, buf);

    if (n >= 0) {
        bytes = ngx_pnalloc(cf->pool, n + 1);

        if (bytes) {
            ngx_memcpy(bytes, buf, n);
        }
    }

    ngx_free(buf);

    if (bytes == NULL) {
        return NULL;
    }

    why = il_tz_parse(tz, il_str((char *) bytes, n));

    if (why != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "time zone \"%V\" in \"interlock_business_date\": "
                           "\"%s\" %s", zone, name, why);
        return NULL;
    }

    return tz;
}


/* reads the file of a zone into buf; its length, or -1 */

static ssize_t
ngx_http_interlock_date_file(ngx_conf_t *cf, ngx_str_t *zone, u_char *name,
    u_char *buf)
{
    ssize_t          n;
    ngx_fd_t         fd;
    ngx_file_info_t  fi;

    (void) ngx_sprintf(name, NGX_HTTP_INTERLOCK_ZONEINFO "%V%Z", zone);

    fd = ngx_open_file(name, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK, NGX_FILE_OPEN,
                       0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "unknown time zone \"%V\" in "
                           "\"interlock_business_date\": " ngx_open_file_n
                           " \"%s\" failed", zone, name);
        return -1;
    }

    n = -1;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR || !ngx_is_file(&fi)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown time zone \"%V\" in "
                           "\"interlock_business_date\": \"%s\" is not a "
                           "regular file", zone, name);

    } else {
        n = ngx_read_fd(fd, buf, IL_TZ_FILE_MAX + 1);

        if (n == -1) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                               "can not read time zone \"%V\" in "
                               "\"interlock_business_date\": " ngx_read_fd_n
                               " \"%s\" failed", zone, name);
        }
    }

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%s\" failed", name);
    }

    return n;
}


/*
 * data is the variable's index; the zone is that of the location.  "Now" is
 * when the request began, so that a request has one date, also if it goes on
 * past midnight.
 */

static ngx_int_t
ngx_http_interlock_date_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                         *p;
    int64_t                         ms;
    ngx_str_t                       from;
    ngx_http_interlock_ctx_t       *ctx;
    ngx_http_interlock_date_t      *date;
    ngx_http_interlock_loc_conf_t  *ilcf;

    ctx = ngx_http_interlock_get_ctx(r);

    v->valid = 0;
    v->not_found = 1;
    v->no_cacheable = (ctx == NULL || !ctx->body_ready);

    if (ctx) {
        ilcf = ctx->lcf;

    } else {
        ilcf = ngx_http_get_module_loc_conf(r, ngx_http_interlock_module);
    }

    date = ngx_http_interlock_defined(ilcf->date, data);

    if (date == NULL) {
        return NGX_OK;
    }

    ms = (int64_t) r->start_sec * 1000;

    if (date->from) {

        if (ngx_http_complex_value(r, date->from, &from) != NGX_OK) {
            return NGX_ERROR;
        }

        if (il_instant_parse(ngx_http_interlock_str(&from), &ms) != 0) {
            goto unreadable;
        }
    }

    p = ngx_pnalloc(r->pool, IL_DATE_CAP);
    if (p == NULL) {
        return NGX_ERROR;
    }

    /* towards earlier, before 1970 too */

    v->len = il_tz_business_date(date->tz,
                                 (ms >= 0 ? ms : ms - 999) / 1000,
                                 date->cutoff, (char *) p, IL_DATE_CAP);

    if (v->len == 0) {
        goto unreadable;
    }

    v->data = p;
    v->valid = 1;
    v->not_found = 0;

    return NGX_OK;

unreadable:

    if (ctx && ctx->value_problem == IL_P_NONE) {
        ctx->value_problem = IL_P_DATE_INVALID;
        ctx->value_detail = date->unreadable;
    }

    return NGX_OK;
}
