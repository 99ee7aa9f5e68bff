
/*
 * Copyright (C) the interlock authors
 */


/*
 * What happens to a worker's request in a location with interlock_effect, in
 * order.  The handler runs in its phase again and again: nginx wakes the main
 * request when a subrequest of it has ended.
 *
 * The client's connection has no part in this: whether the worker is still
 * there is seen when the answer is written, after the outcome was recorded.
 * (HTTP/2 says earlier that it is not: see ngx_http_interlock_call_done().)
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


/* the backend is away: a begin is tried again for some seconds, a record,
 * which nobody else can make, for ten, with all the time that its tries take */

#define NGX_HTTP_INTERLOCK_BEGIN_TIME    3000
#define NGX_HTTP_INTERLOCK_RECORD_TIME   10000
#define NGX_HTTP_INTERLOCK_RECORD_LEAST  50

/* a call ends this long before its send deadline, for what is between this
 * clock and the database's, and the way of the last byte */

#define NGX_HTTP_INTERLOCK_MARGIN        250


static ngx_int_t ngx_http_interlock_effect_start(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_loc_conf_t *ilcf);
static void ngx_http_interlock_effect_body(ngx_http_request_t *r);
static ngx_uint_t ngx_http_interlock_effect_header(ngx_http_request_t *r,
    const char *name, ngx_str_t *value);
static ngx_int_t ngx_http_interlock_effect_owner(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_http_interlock_keys_t *keys);
static const char *ngx_http_interlock_effect_named(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e);
static ngx_int_t ngx_http_interlock_effect_begin(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_effect_ask(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_effect_begun(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_effect_sent(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_effect_record(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_effect_recorded(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_effect_done(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e);


ngx_int_t
ngx_http_interlock_effect_handler(ngx_http_request_t *r,
    ngx_http_interlock_loc_conf_t *ilcf)
{
    ngx_http_interlock_ctx_t     *ctx;
    ngx_http_interlock_effect_t  *e;

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL || ctx->effect == NULL) {
        return ngx_http_interlock_effect_start(r, ctx, ilcf);
    }

    /* an error page led to a location like this: an effect is begun once */

    if (ctx->redirected || ctx->lcf != ilcf) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    e = ctx->effect;

    switch (e->state) {

    case NGX_HTTP_INTERLOCK_EFFECT_READ:
        return ngx_http_interlock_effect_begin(r, ctx);

    case NGX_HTTP_INTERLOCK_EFFECT_BEGIN:
        return e->begin.done ? ngx_http_interlock_effect_begun(r, ctx)
                             : NGX_AGAIN;

    case NGX_HTTP_INTERLOCK_EFFECT_SEND:
        return e->send.done ? ngx_http_interlock_effect_sent(r, ctx)
                            : NGX_AGAIN;

    case NGX_HTTP_INTERLOCK_EFFECT_RECORD:
        return e->record.done ? ngx_http_interlock_effect_recorded(r, ctx)
                              : NGX_AGAIN;

    case NGX_HTTP_INTERLOCK_EFFECT_PAUSE:
        if (e->timer.timer_set) {
            return NGX_AGAIN;
        }

        return e->sent ? ngx_http_interlock_effect_record(r, ctx)
                       : ngx_http_interlock_effect_ask(r, ctx);

    default: /* READING, ANSWERED */
        return NGX_DONE;
    }
}


/* who asks; nothing is read for a stranger */

static ngx_int_t
ngx_http_interlock_effect_start(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_loc_conf_t *ilcf)
{
    ngx_int_t                     rc;
    ngx_http_interlock_effect_t  *e;

    if (r->content_handler == NULL) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "interlock: a location with \"interlock_effect\" has "
                      "no \"proxy_pass\"");
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ctx == NULL) {
        ctx = ngx_http_interlock_create_ctx(r, ilcf);
        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

    } else {
        ngx_http_interlock_release(ctx);
        ctx->redirected = 0;
        ctx->lcf = ilcf;
        ngx_http_set_ctx(r, ctx, ngx_http_interlock_module);
    }

    e = ngx_pcalloc(r->pool, sizeof(ngx_http_interlock_effect_t));
    if (e == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    e->conf = ilcf->effect;
    ctx->effect = e;

    rc = ngx_http_interlock_effect_owner(r, e, ilcf->keys);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DECLINED) {
        return ngx_http_interlock_effect_problem(r, e,
                                       IL_P_OWNER_TOKEN_INVALID,
                                       "The header Interlock-Owner-Token is "
                                       "missing or not valid.");
    }

    rc = ngx_http_read_client_request_body(r, ngx_http_interlock_effect_body);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


static void
ngx_http_interlock_effect_body(ngx_http_request_t *r)
{
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_interlock_module);

    ctx->effect->state = NGX_HTTP_INTERLOCK_EFFECT_READ;

    r->preserve_body = 1;
    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}


/* how often a request header occurs; value is the first one's */

static ngx_uint_t
ngx_http_interlock_effect_header(ngx_http_request_t *r, const char *name,
    ngx_str_t *value)
{
    size_t            len;
    ngx_uint_t        i, n;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    n = 0;
    len = ngx_strlen(name);
    part = &r->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return n;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len == len
            && ngx_strncasecmp(h[i].key.data, (u_char *) name, len) == 0)
        {
            if (n++ == 0) {
                *value = h[i].value;
            }
        }
    }
}


static ngx_int_t
ngx_http_interlock_effect_owner(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_http_interlock_keys_t *keys)
{
    if (ngx_http_interlock_effect_header(r, "Interlock-Owner-Token",
                                         &e->token)
        != 1
        || e->token.len == 0 || e->token.len > IL_TOKEN_MAX)
    {
        return NGX_DECLINED;
    }

    e->buf = ngx_palloc(r->pool, IL_TOKEN_MAX + 1);
    if (e->buf == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_interlock_keys_verify(r, keys, &e->token, &e->claims,
                                          e->buf, IL_TOKEN_MAX + 1);
}


/* NULL, or what is wrong with the effect's name */

static const char *
ngx_http_interlock_effect_named(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e)
{
    il_str_t     name;
    ngx_str_t   *header;
    ngx_uint_t   i;

    if (ngx_http_complex_value(r, e->conf->name, &e->name) != NGX_OK
        || (e->conf->kind
            && ngx_http_complex_value(r, e->conf->kind, &e->kind) != NGX_OK))
    {
        return "The effect's name can not be worked out.";
    }

    if (e->conf->kind == NULL) {
        e->kind = e->name;
    }

    if (e->conf->headers) {
        header = e->conf->headers->elts;

        for (i = 0; i < e->conf->headers->nelts; i++) {
            if (ngx_http_interlock_header_count(r, &header[i]) > 1) {
                return "The header that names the effect occurs twice.";
            }
        }
    }

    name = ngx_http_interlock_str(&e->name);

    if (name.len == 0) {
        return "The effect has no name.";
    }

    if (name.len > NGX_HTTP_INTERLOCK_EFFECT_NAME) {
        return "The effect's name has more than 256 bytes.";
    }

    if (!il_utf8_valid(name) || il_has_control(name)) {
        return "The effect's name has control characters, or is not UTF-8.";
    }

    if (ngx_http_interlock_effect_header(r, "Interlock-Compensates",
                                         &e->compensates)
        > 1)
    {
        return "The header Interlock-Compensates occurs twice.";
    }

    return NULL;
}


static ngx_int_t
ngx_http_interlock_effect_begin(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    const char                      *trouble;
    ngx_http_interlock_effect_t     *e;
    ngx_http_interlock_main_conf_t  *imcf;

    e = ctx->effect;

    if (ngx_http_interlock_body(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* the name may come from the body */

    imcf = ngx_http_get_module_main_conf(r, ngx_http_interlock_module);
    ngx_http_interlock_forget_variables(r, &imcf->body);

    ctx->body_ready = 1;

    trouble = ngx_http_interlock_effect_named(r, e);

    if (trouble) {
        return ngx_http_interlock_effect_problem(r, e,
                                            IL_P_EFFECT_NAME_INVALID, trouble);
    }

    e->first = ngx_current_msec;

    if (ngx_http_interlock_effect_tell_begin(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_interlock_effect_ask(r, ctx);
}


/* the same begin, however often: it has an id of its own */

static ngx_int_t
ngx_http_interlock_effect_ask(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    ngx_str_t                     none;
    ngx_http_interlock_effect_t  *e;

    e = ctx->effect;

    ngx_str_null(&none);

    e->state = NGX_HTTP_INTERLOCK_EFFECT_BEGIN;
    e->begun = ngx_current_msec;
    e->tries++;

    if (ngx_http_interlock_call_backend(r, ctx, &e->begin, &none) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_interlock_effect_begun(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    ngx_int_t                        rc;
    ngx_msec_t                       left;
    ngx_http_interlock_effect_t     *e;
    ngx_http_interlock_main_conf_t  *imcf;

    e = ctx->effect;

    /* what the backend did before it went away is not known: a begin of its
     * own would find this one in progress */

    if ((e->begin.status == 0 || e->begin.status >= 500)
        && ngx_current_msec - e->first < NGX_HTTP_INTERLOCK_BEGIN_TIME)
    {
        return ngx_http_interlock_effect_pause(r, e);
    }

    e->tries = 0;

    rc = ngx_http_interlock_effect_hear_begin(r, e);

    imcf = ngx_http_get_module_main_conf(r, ngx_http_interlock_module);
    ngx_http_interlock_forget_variables(r, &imcf->answer);

    switch (rc) {

    case NGX_OK:
        break;

    case NGX_DECLINED:

        /* it is not to be sent: the backend's answer is the worker's */

        return ngx_http_interlock_effect_relay(r, e, &e->begin);

    default:
        return ngx_http_interlock_effect_problem(r, e, IL_P_UNAVAILABLE,
                                  "The effect could not be begun. Nothing was "
                                  "sent; try again shortly.");
    }

    /*
     * Time may have passed since the begin was asked for: beyond the send
     * deadline others take this effect for one with an unknown end, and may
     * send it again.  So nothing of it leaves later: whatever the provider
     * reads or says meanwhile, the call is ended then.
     */

    left = 0;

    if (e->deadline) {
        left = e->deadline - ngx_min(e->deadline / 20,
                                     NGX_HTTP_INTERLOCK_MARGIN);
        left = ngx_http_interlock_effect_left(e->begun, left);
    }

    if (e->deadline && left == 0) {
        e->late = 1;
        e->failure = "late";
        e->ended = ngx_current_msec;

        return ngx_http_interlock_effect_record(r, ctx);
    }

    e->state = NGX_HTTP_INTERLOCK_EFFECT_SEND;

    if (ngx_http_interlock_call_provider(r, ctx, &e->send) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (left) {
        ngx_http_interlock_effect_limit(r, e, left);
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_interlock_effect_sent(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    ngx_http_upstream_t          *u;
    ngx_http_interlock_effect_t  *e;

    e = ctx->effect;
    u = e->send.request->upstream;

    ngx_http_interlock_effect_cleanup(ctx);

    /* for $upstream_status and its kin in the access log */

    r->upstream_states = e->send.request->upstream_states;

    /* an interim answer (100, 103) is none: the final one was never seen */

    if (e->send.complete
        && e->send.status >= NGX_HTTP_OK && e->send.status < 600)
    {
        e->failure = NULL;

    } else if (u == NULL || (!u->request_sent && e->send.status == 0)) {
        e->failure = "connect";

    } else if (e->send.over) {
        e->failure = "timeout";

    } else if (e->send.status) {
        e->failure = "truncated";

    } else if (e->send.rc == NGX_HTTP_GATEWAY_TIME_OUT) {
        e->failure = "timeout";

    } else {
        e->failure = "reset";
    }

    e->ended = ngx_current_msec;

    return ngx_http_interlock_effect_record(r, ctx);
}


static ngx_int_t
ngx_http_interlock_effect_record(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    ngx_str_t                     body;
    ngx_msec_t                    left;
    ngx_http_interlock_effect_t  *e;

    e = ctx->effect;

    ngx_str_null(&body);

    if (e->failure == NULL && e->send.file == NULL) {
        body.data = e->send.data;
        body.len = e->send.len;
    }

    if (ngx_http_interlock_effect_tell_outcome(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    e->state = NGX_HTTP_INTERLOCK_EFFECT_RECORD;
    e->sent = 1;
    e->tries++;

    if (ngx_http_interlock_call_backend(r, ctx, &e->record, &body) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* (a backend that hangs is waited for no longer than one that is away) */

    left = ngx_http_interlock_effect_left(e->ended,
                                          NGX_HTTP_INTERLOCK_RECORD_TIME);

    ngx_http_interlock_effect_limit(r, e,
                                    ngx_max(left,
                                            NGX_HTTP_INTERLOCK_RECORD_LEAST));

    return NGX_AGAIN;
}


/*
 * The worker hears of success only if it is on record.  What could not be
 * recorded is found later as a send without an outcome.
 */

static ngx_int_t
ngx_http_interlock_effect_recorded(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    ngx_str_t                       *state;
    ngx_http_interlock_effect_t     *e;
    ngx_http_interlock_main_conf_t  *imcf;

    e = ctx->effect;

    ngx_http_interlock_effect_cleanup(ctx);

    if (e->record.status == NGX_HTTP_OK && e->record.complete) {

        state = ngx_http_interlock_call_answer(&e->record,
                                               "Interlock-Effect-State");
        if (state) {
            e->outcome = *state;
        }

        imcf = ngx_http_get_module_main_conf(r, ngx_http_interlock_module);
        ngx_http_interlock_forget_variables(r, &imcf->answer);

        return ngx_http_interlock_effect_done(r, e);
    }

    if ((e->record.status == 0 || e->record.status >= 500)
        && ngx_http_interlock_effect_left(e->ended,
                                          NGX_HTTP_INTERLOCK_RECORD_TIME))
    {
        return ngx_http_interlock_effect_pause(r, e);
    }

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "interlock: the outcome of effect %V was not recorded "
                  "after %ui tries, the last one ended with %ui",
                  &e->id, e->tries, e->record.status);

    ngx_str_null(&e->outcome);

    return ngx_http_interlock_effect_problem(r, e, IL_P_OUTCOME_UNRECORDED,
                               "The provider was called, but its answer could "
                               "not be recorded. The effect will be looked "
                               "into; do not send it otherwise.");
}


/* the outcome is on record: the worker gets what the provider said */

static ngx_int_t
ngx_http_interlock_effect_done(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e)
{
    if (e->late) {
        return ngx_http_interlock_effect_problem(r, e, IL_P_UNAVAILABLE,
                                 "The time for sending was over before the "
                                 "call was made. Nothing was sent; try again "
                                 "shortly.");
    }

    if (e->failure == NULL) {
        return ngx_http_interlock_effect_relay(r, e, &e->send);
    }

    if (ngx_strcmp(e->failure, "timeout") == 0) {
        return ngx_http_interlock_effect_problem(r, e, IL_P_PROVIDER_TIMEOUT,
                                        "The provider did not answer in time. "
                                        "Whether it acted is not known.");
    }

    if (ngx_strcmp(e->failure, "connect") == 0) {
        return ngx_http_interlock_effect_problem(r, e, IL_P_PROVIDER_FAILED,
                                        "There is no connection to the "
                                        "provider.");
    }

    return ngx_http_interlock_effect_problem(r, e, IL_P_PROVIDER_FAILED,
                                      "The connection to the provider ended "
                                      "before its whole answer was there. "
                                      "Whether it acted is not known.");
}
