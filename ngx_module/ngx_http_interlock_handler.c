
/*
 * Copyright (C) the interlock authors
 */


/*
 * What happens to a request, in order:
 *
 *     the body is read                        ngx_http_interlock_start()
 *     the signature is verified over it       ngx_http_interlock_decide()
 *     names, keys, fingerprint are computed
 *     the zone is asked                       ngx_http_interlock_ask()
 *         answered before:  the same answer again
 *         in flight:        wait, then ask again
 *         unknown:          claim it, and let the content handler run
 *     the backend's answer settles the claim  ngx_http_interlock_filter.c
 *
 * Nothing is remembered of a request before its signature was verified.  The
 * handler decides once: after an internal redirect it never claims again.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


/* how often a waiting request looks again, in milliseconds: doubling */

#define NGX_HTTP_INTERLOCK_WAIT_FIRST  2
#define NGX_HTTP_INTERLOCK_WAIT_MAX    50

#define NGX_HTTP_INTERLOCK_SAFE                                               \
    (NGX_HTTP_GET|NGX_HTTP_HEAD|NGX_HTTP_OPTIONS|NGX_HTTP_TRACE)


static ngx_int_t ngx_http_interlock_start(ngx_http_request_t *r,
    ngx_http_interlock_loc_conf_t *ilcf);
static void ngx_http_interlock_body_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_interlock_redirected(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_loc_conf_t *ilcf);
static ngx_int_t ngx_http_interlock_decide(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_ask(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_wait(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static void ngx_http_interlock_wait_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_interlock_busy(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_duplicate(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static void ngx_http_interlock_alone(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_outcome_e outcome);


ngx_int_t
ngx_http_interlock_handler(ngx_http_request_t *r)
{
    ngx_http_interlock_ctx_t       *ctx;
    ngx_http_interlock_loc_conf_t  *ilcf;

    if (r != r->main) {

        if (ngx_http_interlock_call_of(r)) {
            ngx_http_interlock_call_settings(r);
        }

        return NGX_DECLINED;
    }

    if (r->internal) {
        ngx_http_interlock_split_undo(r);
    }

    ilcf = ngx_http_get_module_loc_conf(r, ngx_http_interlock_module);

    if (ilcf->effect) {
        return ngx_http_interlock_effect_handler(r, ilcf);
    }

    if (!ilcf->gate) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL) {
        return ngx_http_interlock_start(r, ilcf);
    }

    if (ctx->redirected || ctx->lcf != ilcf) {
        return ngx_http_interlock_redirected(r, ctx, ilcf);
    }

    switch (ctx->state) {

    case NGX_HTTP_INTERLOCK_READ:
        return ngx_http_interlock_decide(r, ctx);

    case NGX_HTTP_INTERLOCK_WAITING:
        return ngx_http_interlock_ask(r, ctx);

    case NGX_HTTP_INTERLOCK_PASSED:
        return NGX_DECLINED;

    default: /* READING, ANSWERED */
        return NGX_DONE;
    }
}


static ngx_int_t
ngx_http_interlock_start(ngx_http_request_t *r,
    ngx_http_interlock_loc_conf_t *ilcf)
{
    ngx_int_t                  rc;
    ngx_http_interlock_ctx_t  *ctx;

    /*
     * Where nothing is verified, reading is not our business: only requests
     * that ask for work are deduplicated.  HEAD is how some providers test
     * an address.
     */

    if (ilcf->verify == NULL
        && r->method != NGX_HTTP_HEAD
        && (r->method & NGX_HTTP_INTERLOCK_SAFE))
    {
        return NGX_DECLINED;
    }

    ctx = ngx_http_interlock_create_ctx(r, ilcf);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ilcf->counters) {
        (void) ngx_atomic_fetch_add(&ilcf->counters->requests, 1);
    }

    rc = ngx_http_interlock_shake_start(r, ctx);

    if (rc != NGX_OK) {
        return rc;
    }

    rc = ngx_http_read_client_request_body(r, ngx_http_interlock_body_handler);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    /* drops the reference that the reading took; r may be gone now */

    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


static void
ngx_http_interlock_body_handler(ngx_http_request_t *r)
{
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_interlock_module);

    ctx->state = NGX_HTTP_INTERLOCK_READ;

    /* the temporary file stays until the request ends: it may be mapped */

    r->preserve_body = 1;

    /* reading left an empty handler here; without this a body that did not
     * come in one piece hangs as soon as anything else waits */

    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}


/*
 * An error page, X-Accel-Redirect or try_files brought the request to another
 * location.  What it claimed is given up: an answer made here says nothing of
 * the one that was asked for.  If this location is a gate of its own, its
 * rules hold, but nothing is claimed.
 */

static ngx_int_t
ngx_http_interlock_redirected(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_loc_conf_t *ilcf)
{
    ngx_http_interlock_release(ctx);

    ctx->redirected = 1;
    ngx_http_set_ctx(r, ctx, ngx_http_interlock_module);

    if (ctx->lcf == ilcf && ctx->state == NGX_HTTP_INTERLOCK_PASSED) {
        return NGX_DECLINED;
    }

    if (ctx->state == NGX_HTTP_INTERLOCK_READING) {

        /* the body never came in full: it can not be judged */

        return ngx_http_interlock_reply_problem(r, IL_P_BAD_REQUEST,
                                           il_cstr("the body is incomplete"),
                                           0);
    }

    ctx->lcf = ilcf;
    ctx->keyed = 0;
    ctx->body_ready = 0;
    ctx->verified = 0;
    ctx->fp_known = 0;
    ctx->ticket = NULL;

    ngx_str_null(&ctx->tenant);
    ngx_str_null(&ctx->source);
    ngx_str_null(&ctx->kind);
    ngx_str_null(&ctx->work_key);
    ngx_str_null(&ctx->idem);

    return ngx_http_interlock_decide(r, ctx);
}


static ngx_int_t
ngx_http_interlock_decide(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx)
{
    il_str_t                         detail;
    ngx_int_t                        rc;
    il_problem_e                     problem;
    ngx_http_interlock_main_conf_t  *imcf;

    if (ngx_http_interlock_body(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    detail = il_str(NULL, 0);

    if (ctx->lcf->verify && !ngx_http_interlock_backend(ctx)) {
        problem = ngx_http_interlock_verify_request(r, ctx, &detail);

        if (problem != IL_P_NONE) {
            return ngx_http_interlock_reject(r, ctx, problem, detail);
        }

        ctx->verified = 1;

        rc = ngx_http_interlock_shake_verified(r, ctx);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    /* what was asked of our variables before now was too early */

    imcf = ngx_http_get_module_main_conf(r, ngx_http_interlock_module);
    ngx_http_interlock_forget_variables(r, &imcf->body);
    ngx_http_interlock_forget_variables(r, &imcf->keys);

    ctx->body_ready = 1;

    problem = ctx->lcf->split
              ? ngx_http_interlock_split_request(r, ctx, &detail)
              : ngx_http_interlock_keys(r, ctx, &detail);

    ngx_http_interlock_forget_variables(r, &imcf->keys);

    if (ngx_http_interlock_backend(ctx)) {

        if (ngx_http_interlock_backend_problem(r, ctx, problem, detail)
            != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ctx->keyed = 1;

        return ngx_http_interlock_pass(ctx, ctx->lcf->split
                                            ? NGX_HTTP_INTERLOCK_SPLIT
                                            : NGX_HTTP_INTERLOCK_UNKEYED);
    }

    if (problem != IL_P_NONE) {
        return ngx_http_interlock_reject(r, ctx, problem, detail);
    }

    ctx->keyed = 1;

    if (ctx->lcf->split) {
        return ngx_http_interlock_pass(ctx, NGX_HTTP_INTERLOCK_SPLIT);
    }

    if (ctx->lcf->shm_zone == NULL || ctx->redirected
        || ngx_http_interlock_ticket_passes(ctx))
    {
        return ngx_http_interlock_pass(ctx, NGX_HTTP_INTERLOCK_UNKEYED);
    }

    if (ngx_http_interlock_identity(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx->wait_end = ngx_current_msec + ctx->lcf->wait;
    ctx->wait_step = NGX_HTTP_INTERLOCK_WAIT_FIRST;

    return ngx_http_interlock_ask(r, ctx);
}


static ngx_int_t
ngx_http_interlock_ask(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx)
{
    ngx_http_interlock_zone_t   *zone;
    ngx_http_interlock_claim_e   claim;

    zone = ctx->lcf->shm_zone->data;

    claim = ctx->idem.len
            ? ngx_http_interlock_zone_look(zone, &ctx->id, &ctx->answer)
            : NGX_HTTP_INTERLOCK_CLAIM_NONE;

    if (claim == NGX_HTTP_INTERLOCK_CLAIM_DONE && !ctx->lcf->dry_run) {
        return ngx_http_interlock_duplicate(r, ctx);
    }

    /* whatever is not a repeat may be the same work again */

    if (ngx_http_interlock_work_identity(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (claim == NGX_HTTP_INTERLOCK_CLAIM_NONE) {
        claim = ngx_http_interlock_zone_claim(zone,
                                          ctx->idem.len ? &ctx->id : NULL,
                                          ctx->holdable ? &ctx->work : NULL,
                                          ngx_http_interlock_done_limit(ctx),
                                          &ctx->owner, &ctx->answer);
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "interlock claim: %d owner: %uL", claim, ctx->owner);

    switch (claim) {

    case NGX_HTTP_INTERLOCK_CLAIM_OWNER:
        return ngx_http_interlock_pass(ctx, NGX_HTTP_INTERLOCK_FORWARDED);

    case NGX_HTTP_INTERLOCK_CLAIM_DONE:
        return ngx_http_interlock_duplicate(r, ctx);

    case NGX_HTTP_INTERLOCK_CLAIM_HELD:
        ctx->coalesced = 1;
        return ngx_http_interlock_duplicate(r, ctx);

    case NGX_HTTP_INTERLOCK_CLAIM_NONE:
        return ngx_http_interlock_pass(ctx, NGX_HTTP_INTERLOCK_UNKEYED);

    case NGX_HTTP_INTERLOCK_CLAIM_BUSY:
        return ngx_http_interlock_wait(r, ctx);

    case NGX_HTTP_INTERLOCK_CLAIM_MISMATCH:

        /* another request under a known key: only the backend may say what
         * that means, and the entry is not this request's to touch */

        return ngx_http_interlock_pass(ctx, NGX_HTTP_INTERLOCK_MISMATCH);

    default: /* NO_ROOM */
        return ngx_http_interlock_pass(ctx, NGX_HTTP_INTERLOCK_NO_ROOM);
    }
}


/*
 * Waits on the connection's write timer, as limit_req does; a client that
 * goes away ends the waiting.
 */

static ngx_int_t
ngx_http_interlock_wait(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx)
{
    ngx_msec_t      left;
    ngx_msec_int_t  ms;

    if (ctx->lcf->dry_run) {
        return ngx_http_interlock_dry(r, ctx, ctx->lcf->provider
                                      ? NGX_HTTP_SERVICE_UNAVAILABLE
                                      : NGX_HTTP_CONFLICT,
                                      "the request is in progress");
    }

    ms = (ngx_msec_int_t) (ctx->wait_end - ngx_current_msec);

    if (ms <= 0) {
        return ngx_http_interlock_busy(r, ctx);
    }

    left = (ngx_msec_t) ms;

    if (!ctx->waited) {
        ctx->waited = 1;

        if (ctx->lcf->counters) {
            (void) ngx_atomic_fetch_add(&ctx->lcf->counters->waited, 1);
        }
    }

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx->state = NGX_HTTP_INTERLOCK_WAITING;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_interlock_wait_handler;

    r->connection->write->delayed = 1;
    ngx_add_timer(r->connection->write, ngx_min(ctx->wait_step, left));

    ctx->wait_step = ngx_min(ctx->wait_step * 2, NGX_HTTP_INTERLOCK_WAIT_MAX);

    return NGX_AGAIN;
}


static void
ngx_http_interlock_wait_handler(ngx_http_request_t *r)
{
    ngx_event_t  *wev;

    wev = r->connection->write;

    if (wev->delayed) {

        if (ngx_handle_write_event(wev, 0) != NGX_OK) {
            ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        }

        return;
    }

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
}


/* never a 2xx before the first one is committed */

static ngx_int_t
ngx_http_interlock_busy(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx)
{
    il_problem_e  problem;

    /* some providers give up on 4xx, all of them try again on 503 */

    problem = ctx->lcf->provider ? IL_P_REQUEST_IN_PROGRESS_503
                                 : IL_P_REQUEST_IN_PROGRESS;

    ctx->state = NGX_HTTP_INTERLOCK_ANSWERED;
    ctx->problem = problem;
    ngx_str_set(&ctx->decision, "rejected");

    /* it is to come again, and is decided then: nothing to put on record */

    ngx_http_interlock_count(ctx, NGX_HTTP_INTERLOCK_IN_PROGRESS);

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "interlock: request-in-progress after %M ms",
                  ctx->lcf->wait);

    return ngx_http_interlock_reply_problem(r, problem,
                il_cstr("the same request is being worked on; try again"), 1);
}


/* of the request, by its key, or of its work, by the work key */

static ngx_int_t
ngx_http_interlock_duplicate(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    if (ctx->coalesced) {
        ngx_str_set(&ctx->decision, "skipped");

    } else {
        ngx_str_set(&ctx->decision, "duplicate");
    }

    if (ctx->lcf->dry_run) {
        return ngx_http_interlock_dry(r, ctx,
                                      ngx_http_interlock_taken_status(r, ctx),
                                      ctx->coalesced
                                      ? "the request is skipped, its work is "
                                        "under way"
                                      : "the request is a duplicate");
    }

    ctx->state = NGX_HTTP_INTERLOCK_ANSWERED;
    ngx_http_interlock_alone(r, ctx, ctx->coalesced
                                     ? NGX_HTTP_INTERLOCK_COALESCED
                                     : NGX_HTTP_INTERLOCK_DUPLICATE);

    return ngx_http_interlock_reply_answer(r, ctx);
}


ngx_int_t
ngx_http_interlock_reject(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    il_problem_e problem, il_str_t detail)
{
    il_str_t  name;

    if (problem == IL_P_INTERNAL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    name = il_problem_name(problem);

    ctx->problem = problem;
    ngx_str_set(&ctx->decision, "rejected");

    /* signatures have told their reason before */

    if (detail.len && il_problem_status(problem) != NGX_HTTP_UNAUTHORIZED) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "interlock: %*s: %*s", name.len, name.data,
                      detail.len, detail.data);
    }

    if (ctx->lcf->dry_run) {
        return ngx_http_interlock_dry(r, ctx,
                                      (ngx_uint_t) il_problem_status(problem),
                                      name.data);
    }

    ctx->state = NGX_HTTP_INTERLOCK_ANSWERED;

    if (ctx->lcf->counters) {
        (void) ngx_atomic_fetch_add(&ctx->lcf->counters->rejected[problem], 1);
    }

    if (ctx->lcf->shm_zone) {
        ngx_http_interlock_zone_refused(ctx->lcf->shm_zone->data,
                                        ctx->lcf->counters, problem,
                                        &r->connection->addr_text);
    }

    ngx_http_interlock_count(ctx, NGX_HTTP_INTERLOCK_REJECTED);

    return ngx_http_interlock_reply_problem(r, problem, detail, 0);
}


/* a dry run lets the request pass; the log has what would have been said */

ngx_int_t
ngx_http_interlock_dry(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    ngx_uint_t status, const char *what)
{
    ctx->dry = 1;

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "interlock: dry run, %s: %ui would have been answered", what,
                  status);

    return ngx_http_interlock_pass(ctx, NGX_HTTP_INTERLOCK_DRY_RUN);
}


ngx_int_t
ngx_http_interlock_pass(ngx_http_interlock_ctx_t *ctx,
    ngx_http_interlock_outcome_e outcome)
{
    ctx->state = NGX_HTTP_INTERLOCK_PASSED;

    ngx_http_interlock_count(ctx, outcome);

    return NGX_DECLINED;
}


void
ngx_http_interlock_count(ngx_http_interlock_ctx_t *ctx,
    ngx_http_interlock_outcome_e outcome)
{
    if (ctx->counted) {
        return;
    }

    ctx->counted = 1;

    if (ctx->lcf->counters) {
        (void) ngx_atomic_fetch_add(&ctx->lcf->counters->outcomes[outcome], 1);
    }
}


/* the backend never hears of this request: what it does not see is numbered,
 * so that a gap in what it is told later shows */

static void
ngx_http_interlock_alone(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    ngx_http_interlock_outcome_e outcome)
{
    ctx->number = ngx_http_interlock_zone_number(ctx->lcf->shm_zone->data);

    ngx_http_interlock_record(r, ctx);

    ngx_http_interlock_count(ctx, outcome);
}
