
/*
 * Copyright (C) the interlock authors
 */


/*
 * The fencing proxy's clock: pauses between two tries, and the ends of calls
 * that take too long.  One timer is enough: a request pauses, or has one call
 * under way.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


#define NGX_HTTP_INTERLOCK_PAUSE_FIRST  50
#define NGX_HTTP_INTERLOCK_PAUSE_MAX    1000


static void ngx_http_interlock_effect_arm(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_event_handler_pt handler,
    ngx_msec_t time);
static void ngx_http_interlock_effect_wake(ngx_event_t *ev);
static void ngx_http_interlock_effect_over(ngx_event_t *ev);


ngx_msec_t
ngx_http_interlock_effect_left(ngx_msec_t since, ngx_msec_t time)
{
    ngx_msec_t  gone;

    gone = ngx_current_msec - since;

    return gone < time ? time - gone : 0;
}


ngx_int_t
ngx_http_interlock_effect_pause(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e)
{
    ngx_msec_t  pause;

    pause = NGX_HTTP_INTERLOCK_PAUSE_FIRST << ngx_min(e->tries - 1, 5);

    e->state = NGX_HTTP_INTERLOCK_EFFECT_PAUSE;

    ngx_http_interlock_effect_arm(r, e, ngx_http_interlock_effect_wake,
                                 ngx_min(pause, NGX_HTTP_INTERLOCK_PAUSE_MAX));

    return NGX_AGAIN;
}


void
ngx_http_interlock_effect_limit(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_msec_t time)
{
    ngx_http_interlock_effect_arm(r, e, ngx_http_interlock_effect_over, time);
}


static void
ngx_http_interlock_effect_arm(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_event_handler_pt handler,
    ngx_msec_t time)
{
    if (e->timer.timer_set) {
        ngx_del_timer(&e->timer);
    }

    e->timer.handler = handler;
    e->timer.data = r;
    e->timer.log = r->connection->log;

    ngx_add_timer(&e->timer, time);
}


static void
ngx_http_interlock_effect_wake(ngx_event_t *ev)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = ev->data;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    r->write_event_handler(r);

    ngx_http_run_posted_requests(c);
}


/* the time of the call that is under way is over */

static void
ngx_http_interlock_effect_over(ngx_event_t *ev)
{
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_interlock_ctx_t  *ctx;

    r = ev->data;
    c = r->connection;
    ctx = ngx_http_interlock_get_ctx(r);

    ngx_http_set_log_request(c->log, r);

    ngx_http_interlock_call_end(ctx->effect->call);

    ngx_http_run_posted_requests(c);
}


void
ngx_http_interlock_effect_cleanup(ngx_http_interlock_ctx_t *ctx)
{
    if (ctx->effect->timer.timer_set) {
        ngx_del_timer(&ctx->effect->timer);
    }
}
