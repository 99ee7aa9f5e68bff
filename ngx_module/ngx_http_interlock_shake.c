
/*
 * Copyright (C) the interlock authors
 */


/*
 * Handshakes: what providers ask of an address before they send events to it.
 * They make no job and nothing is remembered of them.  What is answered says
 * common/il_shake.c.
 *
 * And providers' own answers: where one wants a delivery acknowledged in its
 * own way, the backend's 2xx gets that form here, after it was settled.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


static ngx_int_t ngx_http_interlock_shake_head(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_shake_options(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_shake_header(ngx_http_request_t *r,
    const char *name, il_str_t *value);
static ngx_int_t ngx_http_interlock_shake_answer(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_shake_rc_e rc,
    il_shake_answer_t *answer);
static ngx_int_t ngx_http_interlock_taken_body(ngx_http_request_t *r,
    ngx_chain_t *in);


static ngx_http_output_body_filter_pt  ngx_http_next_body_filter;


/* a worker process has one thread, and most requests are no handshake: the
 * answer to one is large, and would be cleared on the stack for each of them */

static il_shake_answer_t  ngx_http_interlock_shake_room;


ngx_int_t
ngx_http_interlock_shake_arg(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify, ngx_str_t *name, ngx_str_t *value)
{
    il_str_t         text;
    ngx_str_t        file, token;
    const char      *wrong;
    il_shake_arg_e   arg;

    arg = il_shake_arg(verify->sig.scheme, ngx_http_interlock_str(name),
                       &wrong);

    if (arg == IL_SHAKE_ARG_NONE) {
        return NGX_DECLINED;
    }

    text = ngx_http_interlock_str(value);

    if (wrong == NULL && arg == IL_SHAKE_ARG_VERIFY_TOKEN) {

        if (value->len == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"verify_token=\" in "
                               "\"interlock_verify\": it names a file");
            return NGX_ERROR;
        }

        if (ngx_http_interlock_read_file(cf, "verify_token", value, &file)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        token.len = file.len;
        token.data = ngx_pnalloc(cf->pool, file.len);

        if (token.data) {
            ngx_memcpy(token.data, file.data, file.len);
            text = ngx_http_interlock_str(&token);
        }

        ngx_http_interlock_free_file(&file);

        if (token.data == NULL) {
            return NGX_ERROR;
        }
    }

    if (wrong == NULL) {
        wrong = il_shake_conf_set(&verify->shake, arg, text);
    }

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V=%V\" in "
                           "\"interlock_verify\": %s", name, value, wrong);
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_interlock_shake_conf(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify)
{
    if (verify->shake.allowed_rate.len && verify->shake.allowed_origin.len == 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"allowed_rate=%*s\" has no meaning in "
                           "\"interlock_verify\" without \"allowed_origin=\"",
                           verify->shake.allowed_rate.len,
                           verify->shake.allowed_rate.data);
        return NGX_ERROR;
    }

    if (!il_shake_taken(verify->sig.scheme, &verify->taken)) {
        verify->taken.status = 0;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_interlock_shake_start(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    il_shake_rc_e                 rc;
    il_shake_answer_t            *answer;
    ngx_http_interlock_verify_t  *verify;

    if (ngx_http_interlock_is_ticket(ctx->lcf)) {
        return ngx_http_interlock_ticket_start(r, ctx);
    }

    if (r->method == NGX_HTTP_HEAD) {
        return ngx_http_interlock_shake_head(r, ctx);
    }

    verify = ctx->lcf->verify;

    if (verify == NULL) {
        return NGX_OK;
    }

    if (r->method == NGX_HTTP_OPTIONS) {
        return ngx_http_interlock_shake_options(r, ctx);
    }

    if (r->method == NGX_HTTP_GET) {
        answer = &ngx_http_interlock_shake_room;

        rc = il_shake_get(&verify->shake, &verify->sig,
                          ngx_http_interlock_str(&r->args), answer);

        return ngx_http_interlock_shake_answer(r, ctx, rc, answer);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_interlock_shake_verified(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    il_shake_rc_e       rc;
    il_shake_answer_t  *answer;

    if (r->method != NGX_HTTP_POST || ctx->lcf->verify->ticket) {
        return NGX_OK;
    }

    answer = &ngx_http_interlock_shake_room;

    rc = il_shake_post(&ctx->lcf->verify->sig, ctx->content, answer);

    return ngx_http_interlock_shake_answer(r, ctx, rc, answer);
}


/* HEAD is how some providers test an address */

static ngx_int_t
ngx_http_interlock_shake_head(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    if (ctx->lcf->dry_run) {
        return ngx_http_interlock_dry(r, ctx, NGX_HTTP_OK,
                                      "the request is HEAD");
    }

    ctx->state = NGX_HTTP_INTERLOCK_ANSWERED;
    ngx_http_interlock_count(ctx, NGX_HTTP_INTERLOCK_HEAD);

    return ngx_http_interlock_reply_empty(r);
}


/* CloudEvents: may that sender deliver here, and how often? */

static ngx_int_t
ngx_http_interlock_shake_options(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    ngx_int_t          i, n;
    il_str_t           origin, rate, allowed, granted;
    ngx_str_t          values[3];
    il_shake_rc_e      rc;
    il_shake_answer_t  answer;

    static const char  *names[] = {
        "Allow", "WebHook-Allowed-Origin", "WebHook-Allowed-Rate"
    };

    if (ngx_http_interlock_shake_header(r, "webhook_request_origin", &origin)
        != NGX_OK
        || ngx_http_interlock_shake_header(r, "webhook_request_rate", &rate)
           != NGX_OK)
    {
        rc = ctx->lcf->verify->shake.allowed_origin.len ? IL_SHAKE_REFUSED
                                                        : IL_SHAKE_NONE;

        return ngx_http_interlock_shake_answer(r, ctx, rc, NULL);
    }

    rc = il_shake_options(&ctx->lcf->verify->shake, origin, rate, &allowed,
                          &granted);

    if (rc == IL_SHAKE_ANSWER && !ctx->lcf->dry_run) {

        ngx_str_set(&values[0], "POST");
        values[1].data = (u_char *) allowed.data;
        values[1].len = allowed.len;
        values[2].data = (u_char *) granted.data;
        values[2].len = granted.len;

        n = granted.len ? 3 : 2;

        for (i = 0; i < n; i++) {
            if (ngx_http_interlock_add_header(r, names[i], &values[i])
                != NGX_OK)
            {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }
        }
    }

    answer.status = NGX_HTTP_OK;
    answer.type = NULL;
    answer.len = 0;

    return ngx_http_interlock_shake_answer(r, ctx, rc, &answer);
}


/* a header that may be missing, but is not to be there twice; the name is
 * lower case with "_" for "-" */

static ngx_int_t
ngx_http_interlock_shake_header(ngx_http_request_t *r, const char *name,
    il_str_t *value)
{
    ngx_str_t                   s;
    ngx_http_variable_value_t   v;

    s.data = (u_char *) name;
    s.len = ngx_strlen(name);

    *value = il_str(NULL, 0);

    /* nginx says of one that is missing only that it was not found */

    ngx_memzero(&v, sizeof(ngx_http_variable_value_t));

    if (ngx_http_interlock_header_count(r, &s) > 1) {
        return NGX_ERROR;
    }

    if (ngx_http_variable_unknown_header(&v, &s, &r->headers_in.headers.part,
                                         0)
        == NGX_OK
        && v.valid)
    {
        *value = il_str((char *) v.data, v.len);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_shake_answer(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_shake_rc_e rc,
    il_shake_answer_t *answer)
{
    if (rc == IL_SHAKE_NONE) {
        return NGX_OK;
    }

    if (rc == IL_SHAKE_REFUSED) {
        return ngx_http_interlock_reject(r, ctx, IL_P_FORBIDDEN,
                           il_cstr("The handshake is not one for this "
                                   "location."));
    }

    ngx_str_set(&ctx->decision, "handshake");

    if (ctx->lcf->dry_run) {
        return ngx_http_interlock_dry(r, ctx, (ngx_uint_t) answer->status,
                                      "the request is a handshake");
    }

    ctx->state = NGX_HTTP_INTERLOCK_ANSWERED;
    ngx_http_interlock_count(ctx, NGX_HTTP_INTERLOCK_HANDSHAKE);

    return ngx_http_interlock_send(r, (ngx_uint_t) answer->status,
                                   answer->type, (u_char *) answer->body,
                                   answer->len);
}


il_shake_taken_t *
ngx_http_interlock_own(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx)
{
    size_t             len;
    ngx_str_t         *type;
    il_shake_taken_t  *taken;

    static const char  form[] = "application/x-www-form-urlencoded";

    if (ctx->lcf->verify == NULL || ctx->lcf->verify->taken.status == 0) {
        return NULL;
    }

    taken = &ctx->lcf->verify->taken;

    if (!taken->forms) {
        return taken;
    }

    if (r->headers_in.content_type == NULL) {
        return NULL;
    }

    type = &r->headers_in.content_type->value;
    len = sizeof(form) - 1;

    if (type->len < len
        || ngx_strncasecmp(type->data, (u_char *) form, len) != 0
        || (type->len > len && type->data[len] != ';'
            && type->data[len] != ' '))
    {
        return NULL;
    }

    return taken;
}


/* the status of an answer that is given again */

ngx_uint_t
ngx_http_interlock_taken_status(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    il_shake_taken_t  *taken;

    taken = ngx_http_interlock_own(r, ctx);

    return taken ? (ngx_uint_t) taken->status
                 : 200 + (ngx_uint_t) ctx->answer.code;
}


void
ngx_http_interlock_taken(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx)
{
    ngx_uint_t         status;
    il_shake_taken_t  *taken;

    if (ctx->lcf->dry_run || !ctx->verified) {
        return;
    }

    taken = ngx_http_interlock_own(r, ctx);

    if (taken == NULL) {
        return;
    }

    status = r->upstream->headers_in.status_n;

    if (status < 200 || status > 299 || r->headers_out.status != status) {
        return;
    }

    r->headers_out.status = (ngx_uint_t) taken->status;
    ngx_str_null(&r->headers_out.status_line);

    if (taken->keep) {
        return;
    }

    ngx_http_clear_content_length(r);
    ngx_http_clear_accept_ranges(r);

    r->headers_out.content_length_n = (off_t) taken->body.len;

    r->headers_out.content_type.data = (u_char *) taken->type;
    r->headers_out.content_type.len = taken->type ? ngx_strlen(taken->type)
                                                  : 0;
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;
    ngx_str_null(&r->headers_out.charset);

    ctx->taking = 1;
}


void
ngx_http_interlock_taken_filter_init(void)
{
    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_interlock_taken_body;
}


/*
 * The backend's body is read to its end and dropped.  Only then the
 * provider's own follows: an answer that breaks off is none.
 */

static ngx_int_t
ngx_http_interlock_taken_body(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_buf_t                 *b;
    ngx_uint_t                 last;
    ngx_chain_t               *cl, out;
    il_shake_taken_t          *taken;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = (r == r->main && in)
          ? ngx_http_get_module_ctx(r, ngx_http_interlock_module) : NULL;

    if (ctx == NULL || !ctx->taking) {
        return ngx_http_next_body_filter(r, in);
    }

    last = 0;

    for (cl = in; cl; cl = cl->next) {
        b = cl->buf;
        last |= b->last_buf;

        b->pos = b->last;
        b->file_pos = b->file_last;
    }

    if (!last) {
        return NGX_OK;
    }

    ctx->taking = 0;

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    taken = &ctx->lcf->verify->taken;

    if (taken->body.len) {
        b->pos = (u_char *) taken->body.data;
        b->last = b->pos + taken->body.len;
        b->memory = 1;
    }

    b->last_buf = 1;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_next_body_filter(r, &out);
}
