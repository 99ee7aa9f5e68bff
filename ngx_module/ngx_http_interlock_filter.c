
/*
 * Copyright (C) the interlock authors
 */


/*
 * The header filter: takes the backend's words to the edge out of the answer,
 * and settles the claim by them.
 *
 * done only if all of this holds: the request still is in the location that
 * claimed, the upstream itself said 2xx (an error page may turn a 500 into a
 * 200), and it sent an answer that can be rebuilt and a time to keep it.
 * Anything else ends the claim, so that a repeat reaches the backend again.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


#define NGX_HTTP_INTERLOCK_H_ANSWER    0
#define NGX_HTTP_INTERLOCK_H_DONE_FOR  1
#define NGX_HTTP_INTERLOCK_H_EPOCH     2
#define NGX_HTTP_INTERLOCK_H_HOLD      3
#define NGX_HTTP_INTERLOCK_H_WORK_DONE 4
#define NGX_HTTP_INTERLOCK_H_DECISION  5
#define NGX_HTTP_INTERLOCK_H_MAX       6


static ngx_int_t ngx_http_interlock_header_filter(ngx_http_request_t *r);
static void ngx_http_interlock_take_headers(ngx_http_request_t *r,
    ngx_str_t *values);
static void ngx_http_interlock_settle(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_str_t *values);
static time_t ngx_http_interlock_done_for(ngx_http_interlock_ctx_t *ctx,
    ngx_str_t *value);
static ngx_int_t ngx_http_interlock_parse(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_str_t *value);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


/* the last one stays in the answer */

static ngx_str_t  ngx_http_interlock_headers[] = {
    ngx_string("Interlock-Answer"),
    ngx_string("Interlock-Done-For"),
    ngx_string("Interlock-Epoch"),
    ngx_string("Interlock-Hold"),
    ngx_string("Interlock-Work-Done"),
    ngx_string("Interlock-Decision")
};


void
ngx_http_interlock_filter_init(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_interlock_header_filter;
}


static ngx_int_t
ngx_http_interlock_header_filter(ngx_http_request_t *r)
{
    ngx_str_t                        values[NGX_HTTP_INTERLOCK_H_MAX];
    ngx_http_interlock_ctx_t        *ctx;
    ngx_http_interlock_call_t       *call;
    ngx_http_interlock_main_conf_t  *imcf;

    if (r != r->main) {
        call = ngx_http_interlock_call_of(r);

        return call ? ngx_http_interlock_call_header(r, call)
                    : ngx_http_next_header_filter(r);
    }

    if (ngx_http_interlock_ticket_headers(r) != NGX_OK) {
        return NGX_ERROR;
    }

    imcf = ngx_http_get_module_main_conf(r, ngx_http_interlock_module);

    if (imcf->zones->nelts == 0) {
        return ngx_http_next_header_filter(r);
    }

    if (r->upstream) {
        ngx_http_interlock_take_headers(r, values);

        if (values[NGX_HTTP_INTERLOCK_H_WORK_DONE].len) {
            ngx_http_interlock_work_done(r, imcf,
                                    &values[NGX_HTTP_INTERLOCK_H_WORK_DONE]);
        }
    }

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL) {
        return ngx_http_next_header_filter(r);
    }

    if (ctx->redirected) {
        ngx_http_interlock_release(ctx);

    } else if (ctx->state == NGX_HTTP_INTERLOCK_PASSED) {

        if (r->upstream) {
            ngx_http_interlock_settle(r, ctx, values);
            ngx_http_interlock_taken(r, ctx);

        } else {
            ngx_http_interlock_release(ctx);
        }
    }

    ngx_http_interlock_forget_variables(r, &imcf->answer);

    return ngx_http_next_header_filter(r);
}


static void
ngx_http_interlock_take_headers(ngx_http_request_t *r, ngx_str_t *values)
{
    ngx_str_t        *name;
    ngx_uint_t        i, k;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    ngx_memzero(values, NGX_HTTP_INTERLOCK_H_MAX * sizeof(ngx_str_t));

    part = &r->headers_out.headers.part;
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

        if (h[i].hash == 0
            || h[i].key.len < sizeof("Interlock-") - 1
            || (h[i].key.data[0] != 'I' && h[i].key.data[0] != 'i'))
        {
            continue;
        }

        for (k = 0; k < NGX_HTTP_INTERLOCK_H_MAX; k++) {

            name = &ngx_http_interlock_headers[k];

            if (h[i].key.len != name->len
                || ngx_strncasecmp(h[i].key.data, name->data, name->len) != 0)
            {
                continue;
            }

            values[k] = h[i].value;

            if (k != NGX_HTTP_INTERLOCK_H_DECISION) {
                h[i].hash = 0;
            }

            break;
        }
    }
}


static void
ngx_http_interlock_settle(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    ngx_str_t *values)
{
    time_t                      seconds;
    ngx_int_t                   rc, parsed;
    ngx_uint_t                  status;
    ngx_http_interlock_zone_t  *zone;

    if (!ctx->dry) {
        ctx->decision = values[NGX_HTTP_INTERLOCK_H_DECISION];
    }

    status = r->upstream->headers_in.status_n;
    seconds = 0;
    parsed = NGX_DECLINED;

    if (status >= 200 && status < 300 && r->headers_out.status == status) {

        parsed = ngx_http_interlock_parse(r, ctx,
                                      &values[NGX_HTTP_INTERLOCK_H_ANSWER]);

        if (parsed == NGX_OK) {
            seconds = ngx_http_interlock_done_for(ctx,
                                      &values[NGX_HTTP_INTERLOCK_H_DONE_FOR]);
        }
    }

    if (ctx->lcf->shm_zone == NULL) {
        return;
    }

    zone = ctx->lcf->shm_zone->data;

    if (ctx->owner == 0 && values[NGX_HTTP_INTERLOCK_H_EPOCH].len == 0) {
        goto hold;
    }

    rc = ngx_http_interlock_zone_settle(zone, &ctx->id, ctx->owner,
                                        &ctx->answer, seconds,
                                        &values[NGX_HTTP_INTERLOCK_H_EPOCH]);
    ctx->owner = 0;

    if (rc == NGX_OK && ctx->lcf->counters) {
        (void) ngx_atomic_fetch_add(&ctx->lcf->counters->stored, 1);
    }

hold:

    /* after the epoch: a new one ends what was held before */

    ngx_http_interlock_hold(ctx, &values[NGX_HTTP_INTERLOCK_H_HOLD],
                            parsed == NGX_OK ? &ctx->answer : NULL, seconds);
}


/* the smallest of what the backend grants, the zone, and 60 s if unverified */

static time_t
ngx_http_interlock_done_for(ngx_http_interlock_ctx_t *ctx, ngx_str_t *value)
{
    time_t  seconds;

    if (ctx->lcf->shm_zone == NULL || value->len == 0) {
        return 0;
    }

    seconds = ngx_atotm(value->data, value->len);

    if (seconds <= 0) {
        return 0;
    }

    return ngx_min(seconds, ngx_http_interlock_done_limit(ctx));
}


time_t
ngx_http_interlock_done_limit(ngx_http_interlock_ctx_t *ctx)
{
    ngx_http_interlock_zone_t  *zone;

    zone = ctx->lcf->shm_zone->data;

    if (ctx->lcf->verify == NULL) {
        return ngx_min(zone->done, NGX_HTTP_INTERLOCK_UNVERIFIED_DONE);
    }

    return zone->done;
}


static ngx_int_t
ngx_http_interlock_parse(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    ngx_str_t *value)
{
    int          code;
    char         id[IL_UUID_TEXT + 1];
    il_answer_t  answer;

    if (value->len == 0) {
        return NGX_DECLINED;
    }

    if (il_answer_parse(ngx_http_interlock_str(value), &answer, &code) != 0
        || code < 200 || code > 299
        || (ngx_uint_t) code != r->upstream->headers_in.status_n)
    {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "interlock: upstream sent an invalid header "
                      "\"Interlock-Answer: %V\"", value);
        return NGX_DECLINED;
    }

    ctx->answer.code = (u_char) (code - 200);
    ctx->answer.decision = (u_char) answer.decision;
    ctx->answer.status = (u_char) answer.status;
    ctx->answer.reason = (u_char) answer.reason;
    ctx->answer.has = (u_char) answer.has;
    ngx_memcpy(ctx->answer.ids[0], answer.job_id, IL_UUID_BYTES);
    ngx_memcpy(ctx->answer.ids[1], answer.active_job_id, IL_UUID_BYTES);
    ngx_memcpy(ctx->answer.ids[2], answer.superseded_job_id, IL_UUID_BYTES);

    if ((answer.has & IL_ANSWER_HAS_JOB) && ctx->job_id.len == 0) {

        ctx->job_id.data = ngx_pnalloc(r->pool, IL_UUID_TEXT);
        if (ctx->job_id.data == NULL) {
            return NGX_ERROR;
        }

        il_uuid_format(id, answer.job_id);
        ngx_memcpy(ctx->job_id.data, id, IL_UUID_TEXT);
        ctx->job_id.len = IL_UUID_TEXT;
    }

    return NGX_OK;
}
