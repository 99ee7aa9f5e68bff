
/*
 * Copyright (C) the interlock authors
 */


/*
 * Tickets of web pages: "interlock_verify ticket [origin=...]".
 *
 * A ticket says who may ask for what: tenant, kind, work key and user.  So the
 * request needs no interlock_work_key, and its idempotency key is where
 * il_button.h says.  Everything that a page of another site could do is
 * decided here, too: whether it may (the origin), and what the browser is to
 * be told so that it lets the page see the answer (CORS, as in the Fetch
 * standard, section 3.2).  No cookie plays a part, so no answer allows
 * credentials.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "il_origin.h"
#include "il_page.h"

#include "ngx_http_interlock_effect.h"


/* for how long a browser may remember a preflight, in seconds */

#define NGX_HTTP_INTERLOCK_PREFLIGHT  "600"


static ngx_int_t ngx_http_interlock_ticket_read(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_uint_t ngx_http_interlock_ticket_origin(ngx_http_request_t *r,
    ngx_http_interlock_ticket_conf_t *conf);
static ngx_int_t ngx_http_interlock_ticket_preflight(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_ticket_dup(ngx_http_request_t *r,
    ngx_str_t *out, il_str_t s);
static il_problem_e ngx_http_interlock_ticket_idem(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);
static ngx_int_t ngx_http_interlock_ticket_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


static ngx_http_variable_t  ngx_http_interlock_ticket_vars[] = {

    { ngx_string("interlock_ticket_user"), NULL,
      ngx_http_interlock_ticket_variable, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static il_str_t  ngx_http_interlock_ticket_invalid =
    il_string("The ticket is missing or not valid.");


ngx_int_t
ngx_http_interlock_ticket_add_variables(ngx_conf_t *cf)
{
    ngx_http_interlock_main_conf_t  *imcf;

    imcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_interlock_module);

    return ngx_http_interlock_add_table(cf, ngx_http_interlock_ticket_vars,
                                        &imcf->keys);
}


ngx_uint_t
ngx_http_interlock_is_ticket(ngx_http_interlock_loc_conf_t *ilcf)
{
    return ilcf->verify && ilcf->verify != NGX_CONF_UNSET_PTR
           && ilcf->verify->ticket;
}


/* interlock_verify ticket [origin=https://a.example,https://b.example] */

char *
ngx_http_interlock_ticket_conf(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *ilcf, ngx_http_interlock_verify_t *verify)
{
    il_str_t                           bad;
    ngx_str_t                         *value;
    ngx_uint_t                         i;
    const char                        *wrong;
    ngx_http_interlock_ticket_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_ticket_conf_t));
    if (conf == NULL) {
        return NGX_CONF_ERROR;
    }

    verify->ticket = conf;
    value = cf->args->elts;

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_http_interlock_check_once(cf, i) != NGX_OK) {
            return NGX_CONF_ERROR;
        }

        if (value[i].len < 7
            || ngx_strncmp(value[i].data, "origin=", 7) != 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in "
                               "\"interlock_verify ticket\": it has only "
                               "\"origin=\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        conf->origins.data = value[i].data + 7;
        conf->origins.len = value[i].len - 7;

        wrong = il_origins_check(ngx_http_interlock_str(&conf->origins), &bad);

        if (wrong) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in "
                               "\"interlock_verify ticket\": \"%*s\" %s",
                               &value[i], bad.len, bad.data, wrong);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


char *
ngx_http_interlock_ticket_check(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf)
{
    const char                *name;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->keys == NULL || conf->tenant == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_verify ticket\" in location \"%V\" "
                           "needs \"%s\"", &clcf->name,
                           conf->keys == NULL ? "interlock_keys"
                                              : "interlock_tenant");
        return NGX_CONF_ERROR;
    }

    /* interlockd calls it so, and the edge's own records must match */

    if (conf->shm_zone && conf->source
        && (conf->source->value.len != sizeof("button") - 1
            || ngx_strncmp(conf->source->value.data, "button",
                           sizeof("button") - 1)
               != 0))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_source %V\" in location \"%V\" does "
                           "not go with \"interlock_verify ticket\": it is "
                           "\"button\"", &conf->source->value,
                           &clcf->name);
        return NGX_CONF_ERROR;
    }

    name = conf->work_key ? "interlock_work_key"
           : conf->idem ? "interlock_idempotency_key"
           : conf->split ? "interlock_split" : NULL;

    if (name) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%s\" in location \"%V\" does not go with "
                           "\"interlock_verify ticket\": the ticket names the "
                           "work, and the page its request", name,
                           &clcf->name);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_interlock_ticket_start(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    if (r->method == NGX_HTTP_OPTIONS) {
        return ngx_http_interlock_ticket_preflight(r, ctx);
    }

    if (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD|NGX_HTTP_POST)) {
        return NGX_OK;
    }

    return ngx_http_interlock_reject(r, ctx, IL_P_METHOD_NOT_ALLOWED,
                          il_cstr("A button knows GET, POST and OPTIONS."));
}


/* what a browser asks before it lets a page of another origin ask */

static ngx_int_t
ngx_http_interlock_ticket_preflight(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    size_t      origins;
    il_str_t    origin;
    ngx_str_t   value;
    ngx_uint_t  i;

    static const struct {
        const char  *name;
        ngx_str_t    value;
    } headers[] = {
        { "Access-Control-Allow-Methods", ngx_string("GET, POST") },
        { "Access-Control-Allow-Headers",
          ngx_string("Interlock-Ticket, Idempotency-Key, Interlock-Fresh, "
                     "Content-Type, Prefer") },
        { "Access-Control-Max-Age", ngx_string(NGX_HTTP_INTERLOCK_PREFLIGHT) }
    };

    origin = ngx_http_interlock_header(r, "origin", &origins);

    if (origins > 1
        || (origins == 1
            && !il_origin_listed(ngx_http_interlock_str(
                                      &ctx->lcf->verify->ticket->origins),
                                 origin)
            && !ngx_http_interlock_ticket_origin(r,
                                                 ctx->lcf->verify->ticket)))
    {
        return ngx_http_interlock_reject(r, ctx, IL_P_CROSS_ORIGIN,
                       il_cstr("Pages of this origin may not ask here."));
    }

    ngx_str_set(&ctx->decision, "handshake");

    if (ctx->lcf->dry_run) {
        return ngx_http_interlock_dry(r, ctx, NGX_HTTP_NO_CONTENT,
                                      "the request is a preflight");
    }

    ctx->state = NGX_HTTP_INTERLOCK_ANSWERED;
    ngx_http_interlock_count(ctx, NGX_HTTP_INTERLOCK_HANDSHAKE);

    ngx_str_set(&value, "GET, HEAD, POST, OPTIONS");

    if (ngx_http_interlock_add_header(r, "Allow", &value) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    for (i = 0;
         origins == 1 && i < sizeof(headers) / sizeof(headers[0]);
         i++)
    {
        value = headers[i].value;

        if (ngx_http_interlock_add_header(r, headers[i].name, &value)
            != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    return ngx_http_interlock_send(r, NGX_HTTP_NO_CONTENT, NULL, NULL, 0);
}


/* of nginx itself it is known whether the browser spoke TLS with it; where
 * another proxy does that, Sec-Fetch-Site or origin= say what is the site */

static ngx_uint_t
ngx_http_interlock_ticket_origin(ngx_http_request_t *r,
    ngx_http_interlock_ticket_conf_t *conf)
{
    il_origin_t  o;

    ngx_memzero(&o, sizeof(il_origin_t));

    o.scheme = il_cstr("http");

#if (NGX_HTTP_SSL)
    if (r->connection->ssl) {
        o.scheme = il_cstr("https");
    }
#endif

    if (r->headers_in.host) {
        o.host = ngx_http_interlock_str(&r->headers_in.host->value);
    }

    o.allowed = ngx_http_interlock_str(&conf->origins);
    o.origin = ngx_http_interlock_header(r, "origin", &o.origins);
    o.site = ngx_http_interlock_header(r, "sec-fetch-site", &o.sites);

    return (ngx_uint_t) il_origin_ok(&o);
}


static ngx_int_t
ngx_http_interlock_ticket_read(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    char  *buf;

    if (ctx->ticket) {
        return NGX_OK;
    }

    buf = ngx_pnalloc(r->pool, ngx_min(ctx->content.len, IL_BUTTON_BODY_MAX)
                               + 1);

    ctx->ticket = ngx_pcalloc(r->pool, sizeof(ngx_http_interlock_ticket_t));

    if (buf == NULL || ctx->ticket == NULL) {
        ctx->ticket = NULL;
        return NGX_ERROR;
    }

    il_button_read(&ctx->ticket->in, ngx_http_interlock_header, r,
                   ctx->content, buf, ctx->content.len);

    return NGX_OK;
}


il_problem_e
ngx_http_interlock_ticket_verify(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail)
{
    char                         *buf;
    size_t                        cap;
    ngx_http_interlock_ticket_t  *t;

    if (ngx_http_interlock_ticket_read(r, ctx) != NGX_OK) {
        return IL_P_INTERNAL;
    }

    t = ctx->ticket;

    if (r->method == NGX_HTTP_POST
        && !ngx_http_interlock_ticket_origin(r, ctx->lcf->verify->ticket))
    {
        *detail = il_cstr("Pages of this origin may not ask here.");
        return IL_P_CROSS_ORIGIN;
    }

    cap = ngx_min(t->in.ticket.len, IL_TOKEN_MAX);

    buf = ngx_pnalloc(r->pool, cap + 1);
    if (buf == NULL) {
        return IL_P_INTERNAL;
    }

    if (t->in.ticket.len == 0
        || ngx_http_interlock_keys_ticket(r, ctx->lcf->keys, t->in.ticket,
                                          &t->claims, buf, cap)
           != NGX_OK)
    {
        *detail = ngx_http_interlock_ticket_invalid;
        return IL_P_TICKET_INVALID;
    }

    t->user.data = (u_char *) t->claims.user.data;
    t->user.len = t->claims.user.len;

    return IL_P_NONE;
}


static ngx_int_t
ngx_http_interlock_ticket_dup(ngx_http_request_t *r, ngx_str_t *out,
    il_str_t s)
{
    out->data = ngx_pnalloc(r->pool, s.len);
    if (out->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(out->data, s.data, s.len);
    out->len = s.len;

    return NGX_OK;
}


il_problem_e
ngx_http_interlock_ticket_keys(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail)
{
    ngx_http_interlock_ticket_t  *t;

    t = ctx->ticket;

    /* the same words as for a forged one */

    if (!il_str_eq(t->claims.tenant, ngx_http_interlock_str(&ctx->tenant))
        || (ctx->lcf->kind
            && !il_str_eq(t->claims.kind, ngx_http_interlock_str(&ctx->kind))))
    {
        ctx->verified = 0;
        *detail = ngx_http_interlock_ticket_invalid;
        return IL_P_TICKET_INVALID;
    }

    if (ngx_http_interlock_ticket_dup(r, &ctx->kind, t->claims.kind) != NGX_OK
        || ngx_http_interlock_ticket_dup(r, &ctx->work_key,
                                         t->claims.work_key)
           != NGX_OK)
    {
        return IL_P_INTERNAL;
    }

    /* only a press has a key of its own */

    if (r->method != NGX_HTTP_POST || ctx->lcf->shm_zone == NULL) {
        return IL_P_NONE;
    }

    il_button_fp(ctx->fp, t->claims.kind, t->claims.work_key, t->claims.user,
                 t->in.fresh);
    ctx->fp_known = 1;

    return ngx_http_interlock_ticket_idem(r, ctx, detail);
}


static il_problem_e
ngx_http_interlock_ticket_idem(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail)
{
    char                          key[IL_IDEM_MAX];
    size_t                        len;
    ngx_http_interlock_ticket_t  *t;

    t = ctx->ticket;

    if (t->in.problem != IL_P_NONE) {
        *detail = il_cstr(t->in.detail);
        return t->in.problem;
    }

    if (t->in.key.len == 0) {
        *detail = il_cstr("A press of a button needs an Idempotency-Key, the "
                          "same one for every try of that press.");
        return IL_P_IDEMPOTENCY_KEY_MISSING;
    }

    if (il_idem_parse(t->in.key, key, &len) != 0) {
        *detail = il_cstr("The idempotency key is longer than 255 "
                          "characters, or not well-formed.");
        return IL_P_IDEMPOTENCY_KEY_INVALID;
    }

    return ngx_http_interlock_ticket_dup(r, &ctx->idem, il_str(key, len))
           == NGX_OK ? IL_P_NONE : IL_P_INTERNAL;
}


ngx_uint_t
ngx_http_interlock_ticket_passes(ngx_http_interlock_ctx_t *ctx)
{
    return ctx->ticket && (ctx->ticket->in.page || ctx->idem.len == 0);
}


/*
 * Also for answers of nginx's own (413) that came before there was a context:
 * a browser that is not told the origin hides the status from the page.
 */

ngx_int_t
ngx_http_interlock_ticket_headers(ngx_http_request_t *r)
{
    size_t                             count;
    il_str_t                           origin;
    ngx_str_t                          value;
    ngx_http_interlock_ctx_t          *ctx;
    ngx_http_interlock_loc_conf_t     *ilcf;
    ngx_http_interlock_ticket_conf_t  *conf;

    ctx = ngx_http_interlock_get_ctx(r);
    ilcf = ctx ? ctx->lcf
               : ngx_http_get_module_loc_conf(r, ngx_http_interlock_module);

    if (!ngx_http_interlock_is_ticket(ilcf)) {
        return NGX_OK;
    }

    conf = ilcf->verify->ticket;

    if (conf->origins.len == 0) {
        return NGX_OK;
    }

    /* whatever the origin is: a cache must not mix the answers up */

    ngx_str_set(&value, "Origin");

    if (ngx_http_interlock_add_header(r, "Vary", &value) != NGX_OK) {
        return NGX_ERROR;
    }

    origin = ngx_http_interlock_header(r, "origin", &count);

    if (count != 1
        || !il_origin_listed(ngx_http_interlock_str(&conf->origins), origin))
    {
        return NGX_OK;
    }

    value.data = (u_char *) origin.data;
    value.len = origin.len;

    if (ngx_http_interlock_add_header(r, "Access-Control-Allow-Origin",
                                      &value)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_str_set(&value, "Interlock-Decision, Idempotency-Replayed, "
                        "Retry-After, Location");

    return ngx_http_interlock_add_header(r, "Access-Control-Expose-Headers",
                                         &value);
}


ngx_int_t
ngx_http_interlock_ticket_problem(ngx_http_request_t *r, il_problem_e problem,
    ngx_uint_t retry_after)
{
    char                      *buf, room[IL_PAGE_ROOM];
    size_t                     cap, len;
    il_page_t                  page;
    ngx_str_t                  value;
    ngx_uint_t                 i;
    ngx_http_interlock_ctx_t  *ctx;

    static const struct {
        const char  *name;
        const char  *value;
    } headers[] = {
        { "Content-Security-Policy", il_page_csp },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", IL_PAGE_REFERRER }
    };

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL || ctx->ticket == NULL || !ctx->ticket->in.page) {
        return NGX_DECLINED;
    }

    ngx_memzero(&page, sizeof(il_page_t));
    il_page_problem(&page, problem, (int64_t) retry_after, room);

    cap = il_page_cap(&page);

    buf = ngx_pnalloc(r->pool, cap);
    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    len = il_page_build(buf, cap, &page);

    for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        value.data = (u_char *) headers[i].value;
        value.len = ngx_strlen(value.data);

        if (ngx_http_interlock_add_header(r, headers[i].name, &value)
            != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    return ngx_http_interlock_send(r, (ngx_uint_t) il_problem_status(problem),
                                   IL_PAGE_TYPE, (u_char *) buf, len);
}


static ngx_int_t
ngx_http_interlock_ticket_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_interlock_ctx_t  *ctx;

    ctx = (r == r->main) ? ngx_http_interlock_get_ctx(r) : NULL;

    if (ctx == NULL || !ctx->keyed) {
        ngx_http_interlock_set_value(v, NULL, 0);
        return NGX_OK;
    }

    ngx_http_interlock_set_value(v, ctx->ticket ? &ctx->ticket->user : NULL,
                                 1);

    return NGX_OK;
}
