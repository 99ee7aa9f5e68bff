
/*
 * Copyright (C) the interlock authors
 */


/*
 * What the module and the backend say to each other about effects.  A call is
 * a JSON object in the FastCGI parameter INTERLOCK_EFFECT, which no client can
 * set; the provider's answer goes along as the request's body, as it is.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"

#include "il_out.h"


#define NGX_HTTP_INTERLOCK_TELL_CAP     32768
#define NGX_HTTP_INTERLOCK_TARGET       1024
#define NGX_HTTP_INTERLOCK_KEY_HEADER   "Idempotency-Key"


static void ngx_http_interlock_tell_owner(il_out_t *o, const char *call,
    ngx_http_interlock_effect_t *e);
static void ngx_http_interlock_tell_text(il_out_t *o, const char *name,
    ngx_str_t *value);
static void ngx_http_interlock_tell_uuid(il_out_t *o, const char *name,
    const uint8_t *id);
static void ngx_http_interlock_tell_target(il_out_t *o,
    ngx_http_request_t *r);
static ngx_int_t ngx_http_interlock_tell_end(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, il_out_t *o);
static void ngx_http_interlock_digest(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, char *hex);
static ngx_int_t ngx_http_interlock_hear(ngx_http_request_t *r, il_str_t json,
    const char *pointer, ngx_str_t *value);
static ngx_uint_t ngx_http_interlock_header_name(ngx_str_t *name);


/* a worker process has one thread */

static char  ngx_http_interlock_tell_buffer[NGX_HTTP_INTERLOCK_TELL_CAP];


ngx_int_t
ngx_http_interlock_effect_tell_begin(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    char                          hex[IL_FP_BYTES * 2 + 1];
    il_out_t                      o;
    ngx_str_t                     digest;
    ngx_time_t                   *tp;
    ngx_http_interlock_effect_t  *e;

    e = ctx->effect;

    /* this one request's own: a begin of another one is another begin */

    tp = ngx_timeofday();
    il_uuid7(e->request_id, (uint64_t) tp->sec * 1000 + tp->msec);

    ngx_http_interlock_digest(r, ctx, hex);
    digest.data = (u_char *) hex;
    digest.len = IL_FP_BYTES * 2;

    il_out_init(&o, ngx_http_interlock_tell_buffer,
                sizeof(ngx_http_interlock_tell_buffer));

    ngx_http_interlock_tell_owner(&o, "begin", e);
    ngx_http_interlock_tell_uuid(&o, "send", e->request_id);
    ngx_http_interlock_tell_text(&o, "name", &e->name);
    ngx_http_interlock_tell_text(&o, "kind", &e->kind);
    ngx_http_interlock_tell_text(&o, "digest", &digest);
    ngx_http_interlock_tell_text(&o, "compensates", &e->compensates);
    ngx_http_interlock_tell_target(&o, r);

    return ngx_http_interlock_tell_end(r, e, &o);
}


ngx_int_t
ngx_http_interlock_effect_tell_outcome(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    char                          text[64];
    il_out_t                      o;
    ngx_str_t                     s;
    ngx_http_request_t           *sr;
    ngx_http_interlock_effect_t  *e;

    e = ctx->effect;

    il_out_init(&o, ngx_http_interlock_tell_buffer,
                sizeof(ngx_http_interlock_tell_buffer));

    ngx_http_interlock_tell_owner(&o, "outcome", e);
    ngx_http_interlock_tell_text(&o, "effect", &e->id);
    ngx_http_interlock_tell_text(&o, "send", &e->send_id);

    if (e->failure) {
        s.data = (u_char *) e->failure;
        s.len = ngx_strlen(e->failure);
        ngx_http_interlock_tell_text(&o, "failure", &s);

    } else {
        sr = e->send.request;

        s.data = (u_char *) text;
        s.len = ngx_snprintf(s.data, sizeof(text),
                             ",\"status\":%ui,\"whole\":%s", e->send.status,
                             (e->send.file
                              || ngx_http_interlock_call_answer(&e->send,
                                                         "Content-Encoding"))
                             ? "false" : "true")
                - s.data;
        il_out_put(&o, ngx_http_interlock_str(&s));

        ngx_http_interlock_tell_text(&o, "type",
                                     &sr->headers_out.content_type);
    }

    if (e->map.len) {
        il_out_text(&o, ",\"map\":");
        il_out_put(&o, ngx_http_interlock_str(&e->map));
    }

    return ngx_http_interlock_tell_end(r, e, &o);
}


static void
ngx_http_interlock_tell_owner(il_out_t *o, const char *call,
    ngx_http_interlock_effect_t *e)
{
    char       text[NGX_INT64_LEN + 16];
    ngx_str_t  s;

    il_out_text(o, "{\"call\":\"");
    il_out_text(o, call);
    il_out_text(o, "\",\"tenant\":\"");
    il_out_json(o, e->claims.tenant);
    il_out_text(o, "\",\"job_kind\":\"");
    il_out_json(o, e->claims.kind);
    il_out_text(o, "\"");

    ngx_http_interlock_tell_uuid(o, "job", e->claims.job_id);
    ngx_http_interlock_tell_uuid(o, "attempt", e->claims.attempt_id);

    s.data = (u_char *) text;
    s.len = ngx_snprintf(s.data, sizeof(text), ",\"fence\":%L",
                         e->claims.fence)
            - s.data;
    il_out_put(o, ngx_http_interlock_str(&s));
}


static void
ngx_http_interlock_tell_text(il_out_t *o, const char *name, ngx_str_t *value)
{
    if (value->len == 0) {
        return;
    }

    il_out_text(o, ",\"");
    il_out_text(o, name);
    il_out_text(o, "\":\"");
    il_out_json(o, ngx_http_interlock_str(value));
    il_out_text(o, "\"");
}


static void
ngx_http_interlock_tell_uuid(il_out_t *o, const char *name, const uint8_t *id)
{
    char       text[IL_UUID_TEXT + 1];
    ngx_str_t  value;

    il_uuid_format(text, id);

    value.data = (u_char *) text;
    value.len = IL_UUID_TEXT;

    ngx_http_interlock_tell_text(o, name, &value);
}


/* for people: method and path, without the query, which may hold secrets */

static void
ngx_http_interlock_tell_target(il_out_t *o, ngx_http_request_t *r)
{
    u_char     *p;
    ngx_str_t   path;

    path = r->unparsed_uri;

    p = ngx_strlchr(path.data, path.data + path.len, '?');
    if (p) {
        path.len = p - path.data;
    }

    path.len = ngx_min(path.len, NGX_HTTP_INTERLOCK_TARGET);

    il_out_text(o, ",\"target\":\"");
    il_out_json(o, ngx_http_interlock_str(&r->method_name));
    il_out_text(o, " ");
    il_out_json(o, ngx_http_interlock_str(&path));
    il_out_text(o, "\"");
}


static ngx_int_t
ngx_http_interlock_tell_end(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, il_out_t *o)
{
    size_t  len;

    il_out_text(o, "}");

    len = il_out_len(o);

    if (len == 0) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "interlock: a call about an effect is too long");
        return NGX_ERROR;
    }

    e->what.data = ngx_pnalloc(r->pool, len);
    if (e->what.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(e->what.data, o->data, len);
    e->what.len = len;

    return NGX_OK;
}


/*
 * Method, URI and body of the call: the same effect with another content is
 * refused.  The URI is the worker's; the location makes the provider's of it,
 * each of its own.
 */

static void
ngx_http_interlock_digest(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, char *hex)
{
    il_fp_t  fp;
    uint8_t  out[IL_FP_BYTES];

    il_fp_init(&fp, ngx_http_interlock_str(&r->method_name),
               il_cstr("egress"), ngx_http_interlock_str(&r->unparsed_uri));
    il_fp_update(&fp, ctx->body.data, ctx->body.len);
    il_fp_final(&fp, out);

    il_hex_encode(hex, out, IL_FP_BYTES);
}


/*
 * NGX_OK: it may be sent; NGX_DECLINED: it may not, and there is an answer
 * that says so; NGX_ERROR: nothing is known.
 */

ngx_int_t
ngx_http_interlock_effect_hear_begin(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e)
{
    il_str_t                    json;
    ngx_int_t                   ms;
    ngx_str_t                  *h, text;
    il_json_value_t             map;
    ngx_http_interlock_call_t  *call;

    call = &e->begin;

    if (call->status == 0 || !call->complete) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "interlock: no answer of the backend when effect \"%V\" "
                      "was to begin: %i", &e->name, call->rc);
        return NGX_ERROR;
    }

    h = ngx_http_interlock_call_answer(call, "Interlock-Effect-Id");
    if (h) {
        e->id = *h;
    }

    h = ngx_http_interlock_call_answer(call, "Interlock-Effect-State");
    if (h) {
        e->outcome = *h;
    }

    h = ngx_http_interlock_call_answer(call, "Interlock-Effect-Decision");

    if (h == NULL || h->len != 4 || ngx_strncmp(h->data, "send", 4) != 0) {
        return NGX_DECLINED;
    }

    json = il_str((char *) call->data, call->len);

    if (call->status != NGX_HTTP_OK
        || il_json_check(json) != IL_JSON_OK
        || ngx_http_interlock_hear(r, json, "/effect_id", &e->id) != NGX_OK
        || ngx_http_interlock_hear(r, json, "/send_id", &e->send_id) != NGX_OK
        || ngx_http_interlock_hear(r, json, "/idempotency_key", &e->key)
           == NGX_ERROR
        || ngx_http_interlock_hear(r, json, "/key_header", &e->key_header)
           == NGX_ERROR
        || ngx_http_interlock_hear(r, json, "/deadline_ms", &text)
           == NGX_ERROR)
    {
        goto invalid;
    }

    if (text.len) {
        ms = ngx_atoi(text.data, text.len);
        if (ms == NGX_ERROR) {
            goto invalid;
        }

        e->deadline = (ngx_msec_t) ms;
    }

    if (il_json_lookup(json, il_cstr("/outcome_map"), &map) == IL_JSON_OK
        && map.type == IL_JSON_OBJECT)
    {
        e->map.data = (u_char *) map.raw.data;
        e->map.len = map.raw.len;
    }

    if (e->key_header.len == 0) {
        ngx_str_set(&e->key_header, NGX_HTTP_INTERLOCK_KEY_HEADER);
    }

    if (ngx_http_interlock_header_name(&e->key_header)
        && !il_has_control(ngx_http_interlock_str(&e->key)))
    {
        return NGX_OK;
    }

invalid:

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "interlock: the backend's answer to the begin of effect "
                  "\"%V\" is not valid", &e->name);
    return NGX_ERROR;
}


/* NGX_DECLINED: it is null, or not there */

static ngx_int_t
ngx_http_interlock_hear(ngx_http_request_t *r, il_str_t json,
    const char *pointer, ngx_str_t *value)
{
    il_json_value_t  v;

    ngx_str_null(value);

    if (il_json_lookup(json, il_cstr(pointer), &v) != IL_JSON_OK
        || v.type == IL_JSON_NULL)
    {
        return NGX_DECLINED;
    }

    value->data = ngx_pnalloc(r->pool, v.raw.len);
    if (value->data == NULL) {
        return NGX_ERROR;
    }

    if (il_json_scalar(&v, (char *) value->data, v.raw.len, &value->len) != 0) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_interlock_header_name(ngx_str_t *name)
{
    u_char      ch;
    ngx_uint_t  i;

    for (i = 0; i < name->len; i++) {
        ch = name->data[i];

        if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')
              || (ch >= '0' && ch <= '9') || ch == '-' || ch == '_'))
        {
            return 0;
        }
    }

    return name->len > 0;
}
