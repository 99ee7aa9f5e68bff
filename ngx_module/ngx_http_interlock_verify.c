
/*
 * Copyright (C) the interlock authors
 */


/*
 * Signatures: the directive, the secret file, and the way from a request to
 * il_sig_verify().  Schemes themselves live in common/.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


static char *ngx_http_interlock_verify_arg(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify, ngx_str_t *value, ngx_str_t *secret);
static ngx_int_t ngx_http_interlock_read_secret(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify, ngx_str_t *file);
static void ngx_http_interlock_verify_cleanup(void *data);
static void *ngx_http_interlock_alloc(void *ctx, size_t size);


/* interlock_verify scheme secret=file [url=public-url] [name=value ...] */

char *
ngx_http_interlock_verify(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    char                          err[IL_SIG_ERR_CAP], *rc;
    ngx_str_t                    *value, secret;
    ngx_uint_t                    i;
    ngx_pool_cleanup_t           *cln;
    ngx_http_interlock_verify_t  *verify;

    if (ilcf->verify != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    ngx_http_interlock_place(cf, &ilcf->place);

    value = cf->args->elts;

    verify = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_verify_t));
    if (verify == NULL) {
        return NGX_CONF_ERROR;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_CONF_ERROR;
    }

    cln->handler = ngx_http_interlock_verify_cleanup;
    cln->data = verify;

    if (value[1].len == 6 && ngx_strncmp(value[1].data, "ticket", 6) == 0) {
        ilcf->verify = verify;
        return ngx_http_interlock_ticket_conf(cf, ilcf, verify);
    }

    err[0] = '\0';

    if (il_sig_conf_init(&verify->sig, ngx_http_interlock_str(&value[1]), err,
                         sizeof(err))
        != 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid scheme in \"interlock_verify\": %s", err);
        return NGX_CONF_ERROR;
    }

    ngx_str_null(&secret);

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_http_interlock_check_once(cf, i) != NGX_OK) {
            return NGX_CONF_ERROR;
        }

        rc = ngx_http_interlock_verify_arg(cf, verify, &value[i], &secret);
        if (rc != NGX_CONF_OK) {
            return rc;
        }
    }

    if (secret.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_verify %V\" must have the \"secret\" "
                           "parameter", &value[1]);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_interlock_read_secret(cf, verify, &secret) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (il_sig_conf_done(&verify->sig, err, sizeof(err)) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "incomplete \"interlock_verify %V\": %s",
                           &value[1], err);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_interlock_backend_init(cf, verify) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_interlock_shake_conf(cf, verify) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    ilcf->verify = verify;

    return ngx_http_interlock_url_check(cf, verify);
}


static char *
ngx_http_interlock_verify_arg(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify, ngx_str_t *value, ngx_str_t *secret)
{
    char        err[IL_SIG_ERR_CAP];
    u_char     *p;
    ngx_int_t   rc;
    ngx_str_t   name, arg;

    p = (u_char *) ngx_strchr(value->data, '=');

    if (p == NULL || p == value->data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"interlock_verify\"",
                           value);
        return NGX_CONF_ERROR;
    }

    name.data = value->data;
    name.len = p - value->data;
    arg.data = p + 1;
    arg.len = value->data + value->len - arg.data;

    if (name.len == 6 && ngx_strncmp(name.data, "secret", 6) == 0) {
        *secret = arg;
        return NGX_CONF_OK;
    }

    if (name.len == 3 && ngx_strncmp(name.data, "url", 3) == 0) {
        return ngx_http_interlock_url_arg(cf, verify, &arg);
    }

    rc = ngx_http_interlock_shake_arg(cf, verify, &name, &arg);

    if (rc == NGX_DECLINED) {
        rc = ngx_http_interlock_content_arg(cf, verify, &name, &arg);
    }

    if (rc != NGX_DECLINED) {
        return rc == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    err[0] = '\0';

    if (il_sig_conf_arg(&verify->sig, ngx_http_interlock_str(&name),
                        ngx_http_interlock_str(&arg), err, sizeof(err))
        != 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"interlock_verify\""
                           ": %s", value, err);
        return NGX_CONF_ERROR;
    }

    if (name.len == 6 && ngx_strncmp(name.data, "signed", 6) == 0
        && ngx_strstr(arg.data, "{url}") != NULL)
    {
        verify->need_url = 1;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_interlock_read_secret(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify, ngx_str_t *file)
{
    int        rc;
    char       err[IL_SIG_ERR_CAP];
    ngx_str_t  text;

    if (ngx_http_interlock_read_file(cf, "secret", file, &text) != NGX_OK) {
        return NGX_ERROR;
    }

    err[0] = '\0';

    rc = il_sig_conf_secrets(&verify->sig, ngx_http_interlock_str(&text), err,
                             sizeof(err));

    ngx_http_interlock_free_file(&text);

    if (rc != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid secret file \"%V\" in "
                           "\"interlock_verify\": %s", file, err);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_http_interlock_verify_cleanup(void *data)
{
    ngx_http_interlock_verify_t  *verify = data;

    il_sig_conf_wipe(&verify->sig);
}


il_problem_e
ngx_http_interlock_verify_request(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail)
{
    il_sig_rc_e                   rc;
    il_sig_why_e                  why;
    il_problem_e                  problem;
    il_sig_request_t              req;
    ngx_http_interlock_verify_t  *verify;

    verify = ctx->lcf->verify;

    if (verify->ticket) {
        return ngx_http_interlock_ticket_verify(r, ctx, detail);
    }

    if (verify->gunzip) {
        problem = ngx_http_interlock_content(r, ctx, detail);

        if (problem != IL_P_NONE) {
            return problem;
        }
    }

    ngx_memzero(&req, sizeof(il_sig_request_t));

    req.header = ngx_http_interlock_header;
    req.alloc = ngx_http_interlock_alloc;
    req.ctx = r;
    req.method = ngx_http_interlock_str(&r->method_name);
    req.body = ctx->content;
    req.now = (int64_t) ngx_time();

    if (ngx_http_interlock_url(r, verify, &req.url) != NGX_OK) {
        return IL_P_INTERNAL;
    }

    why = IL_SIG_WHY_OK;

    rc = il_sig_verify(&verify->sig, &req, &why);

    if (rc == IL_SIG_OK) {
        return IL_P_NONE;
    }

    /* the same words whatever was wrong: no hint for a forger */

    if (rc == IL_SIG_TIMESTAMP) {
        problem = IL_P_TIMESTAMP_OUT_OF_RANGE;
        *detail = il_cstr("The signed time is too far from now.");

    } else {
        problem = IL_P_SIGNATURE_INVALID;
        *detail = il_cstr("The request is not signed with a secret of this "
                          "source.");
    }

    /* the reason is for the operator; the client is told nothing more */

    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  "interlock: %s: %s, scheme \"%V\"",
                  il_problem_name(problem).data, il_sig_strwhy(why),
                  &ctx->lcf->verified);

    return problem;
}


/* il_sig_header_pt; nginx 1.22 keeps repeated headers as they came */

il_str_t
ngx_http_interlock_header(void *ctx, const char *lowcase_name, size_t *count)
{
    ngx_http_request_t *r = ctx;

    size_t            len;
    il_str_t          value;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    len = ngx_strlen(lowcase_name);
    value = il_str(NULL, 0);
    *count = 0;

    part = &r->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len == len
            && ngx_strncasecmp(h[i].key.data, (u_char *) lowcase_name, len)
               == 0)
        {
            value = ngx_http_interlock_str(&h[i].value);
            (*count)++;
        }
    }

    return value;
}


/* il_sig_alloc_pt */

static void *
ngx_http_interlock_alloc(void *ctx, size_t size)
{
    ngx_http_request_t *r = ctx;

    return ngx_palloc(r->pool, size);
}


ngx_uint_t
ngx_http_interlock_header_count(ngx_http_request_t *r, ngx_str_t *name)
{
    u_char            ch;
    ngx_uint_t        i, k, n;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    n = 0;

    part = &r->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len != name->len) {
            continue;
        }

        for (k = 0; k < name->len; k++) {
            ch = ngx_tolower(h[i].key.data[k]);

            if (ch == '-') {
                ch = '_';
            }

            if (ch != name->data[k]) {
                break;
            }
        }

        if (k == name->len) {
            n++;
        }
    }

    return n;
}
