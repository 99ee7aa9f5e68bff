
/*
 * Copyright (C) the interlock authors
 */


/*
 * Answers of the edge itself.  They are sent from a phase, so they finalize
 * the request and return NGX_DONE: the result of the filters must not come
 * back to the phase engine, which would take NGX_OK for "go on".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


#define NGX_HTTP_INTERLOCK_PROBLEM_CAP  2048


/* a worker process has one thread: bodies are built here, then copied to
 * memory of just their size */

static char  ngx_http_interlock_buffer[IL_ANSWER_CAP];


ngx_int_t
ngx_http_interlock_reply_problem(ngx_http_request_t *r, il_problem_e problem,
    il_str_t detail, ngx_uint_t retry_after)
{
    size_t     len;
    ngx_int_t  rc;
    ngx_str_t  value;

    rc = ngx_http_interlock_ticket_problem(r, problem, retry_after);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    len = il_problem_build(ngx_http_interlock_buffer,
                           NGX_HTTP_INTERLOCK_PROBLEM_CAP, problem, detail,
                           il_str(NULL, 0));

    if (len == 0) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (retry_after) {
        value.data = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
        if (value.data == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        value.len = ngx_sprintf(value.data, "%ui", retry_after) - value.data;

        if (ngx_http_interlock_add_header(r, "Retry-After", &value) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    return ngx_http_interlock_send(r, (ngx_uint_t) il_problem_status(problem),
                                   "application/problem+json",
                                   (u_char *) ngx_http_interlock_buffer, len);
}


void
ngx_http_interlock_unpack(ngx_http_interlock_answer_t *packed,
    il_answer_t *answer)
{
    ngx_memzero(answer, sizeof(il_answer_t));

    answer->decision = (il_decision_e) packed->decision;
    answer->status = (il_status_e) packed->status;
    answer->reason = (il_reason_e) packed->reason;
    answer->has = packed->has;
    ngx_memcpy(answer->job_id, packed->ids[0], IL_UUID_BYTES);
    ngx_memcpy(answer->active_job_id, packed->ids[1], IL_UUID_BYTES);
    ngx_memcpy(answer->superseded_job_id, packed->ids[2], IL_UUID_BYTES);
}


/* the first answer again, as the backend would give it */

ngx_int_t
ngx_http_interlock_reply_answer(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    char               id[IL_UUID_TEXT + 1];
    size_t             len;
    ngx_str_t          value;
    il_str_t           jobs;
    ngx_uint_t         status;
    il_answer_t        answer;
    il_shake_taken_t  *taken;

    ngx_http_interlock_unpack(&ctx->answer, &answer);

    answer.kind = ngx_http_interlock_str(&ctx->kind);
    answer.work_key = ngx_http_interlock_str(&ctx->work_key);
    answer.button = (ctx->ticket != NULL);

    len = il_answer_build(ngx_http_interlock_buffer,
                          sizeof(ngx_http_interlock_buffer), &answer);

    if (len == 0) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    status = 200 + (ngx_uint_t) ctx->answer.code;

    if (ngx_http_interlock_add_header(r, "Interlock-Decision", &ctx->decision)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_str_set(&value, "true");

    if (!ctx->coalesced
        && ngx_http_interlock_add_header(r, "Idempotency-Replayed", &value)
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (answer.has & IL_ANSWER_HAS_JOB) {

        il_uuid_format(id, answer.job_id);

        jobs = il_cstr(answer.button ? IL_ANSWER_BUTTON_JOBS
                                     : IL_ANSWER_JOBS);

        value.len = jobs.len + IL_UUID_TEXT;
        value.data = ngx_pnalloc(r->pool, value.len);
        if (value.data == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ngx_memcpy(ngx_cpymem(value.data, jobs.data, jobs.len), id,
                   IL_UUID_TEXT);

        ctx->job_id.data = value.data + jobs.len;
        ctx->job_id.len = IL_UUID_TEXT;

        /*
         * r->headers_out.location stays NULL, as with an upstream's relative
         * Location: nginx would make an absolute one of it.
         */

        if (status == NGX_HTTP_ACCEPTED
            && ngx_http_interlock_add_header(r, "Location", &value) != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    taken = ngx_http_interlock_own(r, ctx);

    if (taken && !taken->keep) {
        return ngx_http_interlock_send(r, (ngx_uint_t) taken->status,
                                       taken->type,
                                       (u_char *) taken->body.data,
                                       taken->body.len);
    }

    return ngx_http_interlock_send(r, ngx_http_interlock_taken_status(r, ctx),
                                   "application/json",
                                   (u_char *) ngx_http_interlock_buffer, len);
}


/* 200 and nothing else: for HEAD */

ngx_int_t
ngx_http_interlock_reply_empty(ngx_http_request_t *r)
{
    return ngx_http_interlock_send(r, NGX_HTTP_OK, NULL, NULL, 0);
}


ngx_int_t
ngx_http_interlock_add_header(ngx_http_request_t *r, const char *name,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);
    h->value = *value;
    h->lowcase_key = NULL;

    return NGX_OK;
}


ngx_int_t
ngx_http_interlock_send(ngx_http_request_t *r, ngx_uint_t status,
    const char *type, u_char *body, size_t len)
{
    ngx_int_t     rc;
    ngx_str_t     value;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    /* a body that is still on its way must not become the next request */

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (len) {
        b->pos = ngx_pnalloc(r->pool, len);
        if (b->pos == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        b->last = ngx_cpymem(b->pos, body, len);
        b->memory = 1;
    }

    b->last_buf = 1;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    /* an error page that led here must not lend its code to our answer */

    r->err_status = 0;

    r->headers_out.status = status;
    r->headers_out.content_length_n = (off_t) len;
    r->headers_out.last_modified_time = -1;

    if (type) {
        r->headers_out.content_type.data = (u_char *) type;
        r->headers_out.content_type.len = ngx_strlen(type);
        r->headers_out.content_type_len = r->headers_out.content_type.len;
        r->headers_out.content_type_lowcase = NULL;

        /* as the backend says: an answer here is for this request only */

        ngx_str_set(&value, "no-store");

        if (ngx_http_interlock_add_header(r, "Cache-Control", &value) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    ngx_http_clear_last_modified(r);
    ngx_http_clear_accept_ranges(r);

    rc = ngx_http_send_header(r);

    if (rc == NGX_OK && !r->header_only) {
        rc = ngx_http_output_filter(r, &out);
    }

    ngx_http_finalize_request(r, rc);

    return NGX_DONE;
}
