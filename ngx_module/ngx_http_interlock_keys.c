
/*
 * Copyright (C) the interlock authors
 */


/*
 * Names and keys of a request.  A part that is missing is a problem, never an
 * empty string: two requests without a key are not the same request.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


#define ngx_http_interlock_detail(d, text)                                    \
    *(d) = il_str(text, sizeof(text) - 1)


/* a worker process has one thread: keys are built here, then copied to memory
 * of just their size */

static char  ngx_http_interlock_key_buffer[ngx_max(IL_KEY_MAX, IL_IDEM_MAX)];


static il_problem_e ngx_http_interlock_value(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_complex_value_t *cv,
    ngx_str_t *value, il_str_t *detail);
static il_problem_e ngx_http_interlock_names(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);
static il_problem_e ngx_http_interlock_build_work_key(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);
static il_problem_e ngx_http_interlock_idem(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);
static il_problem_e ngx_http_interlock_idem_body(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_uint_t ngx_http_interlock_repeated(ngx_http_request_t *r,
    ngx_array_t *headers);
static ngx_int_t ngx_http_interlock_cookie(ngx_http_request_t *r,
    il_str_t *cookie);


il_problem_e
ngx_http_interlock_keys(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    il_str_t *detail)
{
    il_str_t      idem_detail;
    il_problem_e  problem, idem_problem;

    ctx->json_rc = IL_JSON_OK;
    ctx->value_problem = IL_P_NONE;

    problem = ngx_http_interlock_names(r, ctx, detail);
    if (problem != IL_P_NONE) {
        return problem;
    }

    if (ctx->ticket) {
        return ngx_http_interlock_ticket_keys(r, ctx, detail);
    }

    /*
     * The idempotency key comes first, so that it may be a part of the work
     * key: a request that is work of its own.  What is wrong with it is said
     * first, too; where both are made of one header that is what is missing.
     */

    idem_problem = IL_P_NONE;
    idem_detail = il_str(NULL, 0);

    if (ctx->lcf->idem) {
        idem_problem = ngx_http_interlock_idem(r, ctx, &idem_detail);
    }

    if (ctx->lcf->work_key) {
        problem = ngx_http_interlock_build_work_key(r, ctx, detail);
    }

    if (idem_problem != IL_P_NONE) {
        *detail = idem_detail;
        return idem_problem;
    }

    if (problem != IL_P_NONE) {
        return problem;
    }

    return IL_P_NONE;
}


/* a value; if a variable in it met a bad body, that is the problem */

static il_problem_e
ngx_http_interlock_value(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    ngx_http_complex_value_t *cv, ngx_str_t *value, il_str_t *detail)
{
    if (cv->lengths == NULL) {
        *value = cv->value;
        return IL_P_NONE;
    }

    if (ngx_http_complex_value(r, cv, value) != NGX_OK) {
        return IL_P_INTERNAL;
    }

    switch (ctx->json_rc) {

    case IL_JSON_MALFORMED:
        ngx_http_interlock_detail(detail, "the body is not valid JSON");
        return IL_P_JSON_INVALID;

    case IL_JSON_TOO_DEEP:
        ngx_http_interlock_detail(detail, "the JSON body is nested too deep");
        return IL_P_JSON_INVALID;

    case IL_JSON_DUPLICATE:
        ngx_http_interlock_detail(detail,
            "a member that is part of a key occurs twice in the JSON body");
        return IL_P_JSON_INVALID;

    default:
        break;
    }

    if (ctx->value_problem != IL_P_NONE) {
        *detail = ctx->value_detail;
    }

    return ctx->value_problem;
}


static il_problem_e
ngx_http_interlock_names(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    il_str_t *detail)
{
    ngx_uint_t     i;
    il_problem_e   problem;

    struct {
        ngx_http_complex_value_t  *cv;
        ngx_str_t                 *value;
        il_str_t                   detail;
    } names[] = {
        { ctx->lcf->tenant, &ctx->tenant,
          il_string("the tenant is missing or not a valid name") },
        { ctx->lcf->source, &ctx->source,
          il_string("the source is missing or not a valid name") },
        { ctx->lcf->kind, &ctx->kind,
          il_string("the kind is missing or not a valid name") }
    };

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {

        if (names[i].cv == NULL) {
            continue;
        }

        problem = ngx_http_interlock_value(r, ctx, names[i].cv,
                                           names[i].value, detail);
        if (problem != IL_P_NONE) {
            return problem;
        }

        /* literal values were checked when the configuration was read */

        if (names[i].cv->lengths
            && !il_name_valid(ngx_http_interlock_str(names[i].value)))
        {
            *detail = names[i].detail;
            return IL_P_FIELD_INVALID;
        }
    }

    return IL_P_NONE;
}


static il_problem_e
ngx_http_interlock_build_work_key(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail)
{
    char                      *key;
    size_t                     len;
    il_str_t                   parts[IL_KEY_PARTS_MAX];
    ngx_str_t                  value;
    ngx_uint_t                 i;
    il_key_rc_e                rc;
    il_problem_e               problem;
    ngx_http_complex_value_t  *cv;

    if (ngx_http_interlock_repeated(r, ctx->lcf->work_headers_only)) {
        ngx_http_interlock_detail(detail,
            "a header that is part of the work key occurs twice");
        return IL_P_WORK_KEY_INVALID;
    }

    cv = ctx->lcf->work_key->elts;

    for (i = 0; i < ctx->lcf->work_key->nelts; i++) {
        problem = ngx_http_interlock_value(r, ctx, &cv[i], &value, detail);
        if (problem != IL_P_NONE) {
            return problem;
        }

        parts[i] = ngx_http_interlock_str(&value);
    }

    key = ngx_http_interlock_key_buffer;

    rc = il_key_build(key, IL_KEY_MAX, &len, parts, i);

    if (rc != IL_KEY_OK) {
        *detail = il_cstr(il_key_strerror(rc));
        return rc == IL_KEY_INCOMPLETE ? IL_P_WORK_KEY_INCOMPLETE
                                       : IL_P_WORK_KEY_INVALID;
    }

    ctx->work_key.data = ngx_pnalloc(r->pool, len);
    if (ctx->work_key.data == NULL) {
        return IL_P_INTERNAL;
    }

    ngx_memcpy(ctx->work_key.data, key, len);
    ctx->work_key.len = len;

    return IL_P_NONE;
}


static il_problem_e
ngx_http_interlock_idem(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    il_str_t *detail)
{
    char         *key;
    size_t        len;
    ngx_str_t     value;
    il_problem_e  problem;

    if (ngx_http_interlock_repeated(r, ctx->lcf->idem_headers)) {
        ngx_http_interlock_detail(detail,
            "a header that is part of the idempotency key occurs twice");
        return IL_P_IDEMPOTENCY_KEY_INVALID;
    }

    problem = ngx_http_interlock_value(r, ctx, ctx->lcf->idem, &value, detail);
    if (problem != IL_P_NONE) {
        return problem;
    }

    if (value.len == 0) {

        if (ctx->lcf->idem_mode == NGX_HTTP_INTERLOCK_IDEM_OPTIONAL) {
            return IL_P_NONE;
        }

        if (ctx->lcf->idem_mode == NGX_HTTP_INTERLOCK_IDEM_BODY) {
            return ngx_http_interlock_idem_body(r, ctx);
        }

        ngx_http_interlock_detail(detail,
            "this location needs an idempotency key");
        return IL_P_IDEMPOTENCY_KEY_MISSING;
    }

    key = ngx_http_interlock_key_buffer;

    if (il_idem_parse(ngx_http_interlock_str(&value), key, &len) != 0) {
        ngx_http_interlock_detail(detail,
            "the idempotency key is too long, or not plain text, or its "
            "quotation is broken");
        return IL_P_IDEMPOTENCY_KEY_INVALID;
    }

    ctx->idem.data = ngx_pnalloc(r->pool, len);
    if (ctx->idem.data == NULL) {
        return IL_P_INTERNAL;
    }

    ngx_memcpy(ctx->idem.data, key, len);
    ctx->idem.len = len;

    return IL_P_NONE;
}


static il_problem_e
ngx_http_interlock_idem_body(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    uint8_t  digest[32];

    ctx->idem.data = ngx_pnalloc(r->pool, 2 * sizeof(digest));
    if (ctx->idem.data == NULL) {
        return IL_P_INTERNAL;
    }

    il_digest(digest, ctx->lcf->split ? ctx->content : ctx->body);

    ctx->idem.len = ngx_hex_dump(ctx->idem.data, digest, sizeof(digest))
                    - ctx->idem.data;

    return IL_P_NONE;
}


static ngx_uint_t
ngx_http_interlock_repeated(ngx_http_request_t *r, ngx_array_t *headers)
{
    ngx_str_t   *name;
    ngx_uint_t   i;

    if (headers == NULL) {
        return 0;
    }

    name = headers->elts;

    for (i = 0; i < headers->nelts; i++) {
        if (ngx_http_interlock_header_count(r, &name[i]) > 1) {
            return 1;
        }
    }

    return 0;
}


void
ngx_http_interlock_fingerprint(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    il_fp_t  fp;

    if (ctx->fp_known) {
        return;
    }

    ctx->fp_known = 1;

    il_fp_init(&fp, ngx_http_interlock_str(&r->method_name),
               ngx_http_interlock_str(&ctx->source),
               ngx_http_interlock_str(&r->unparsed_uri));

    if (ctx->body.len) {
        il_fp_update(&fp, ctx->body.data, ctx->body.len);
    }

    il_fp_final(&fp, ctx->fp);
}


/*
 * Which entry of the zone.  The scheme keeps entries of verified and other
 * locations apart; without a scheme the credentials do, because only the
 * backend can tell whether they are good.
 */

ngx_int_t
ngx_http_interlock_identity(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    il_str_t       parts[NGX_HTTP_INTERLOCK_PARTS];
    ngx_uint_t     n;
    const u_char  *key;

    if (ctx->idem.len == 0) {
        return NGX_OK;
    }

    key = ngx_http_interlock_zone_key(ctx->lcf->shm_zone->data);

    parts[0] = ngx_http_interlock_str(&ctx->tenant);
    parts[1] = ngx_http_interlock_str(&ctx->source);
    parts[2] = ngx_http_interlock_str(&ctx->idem);

    if (ngx_http_interlock_who(r, ctx, &parts[3]) != NGX_OK) {
        return NGX_ERROR;
    }

    il_entry_hash(ctx->id.hash, key, parts, 3 + NGX_HTTP_INTERLOCK_WHO);

    ngx_http_interlock_zone_expect(ctx->lcf->shm_zone->data, &ctx->id);

    n = ngx_http_interlock_what(r, ctx, parts);

    parts[n++] = ngx_http_interlock_str(&ctx->kind);
    parts[n++] = ngx_http_interlock_str(&ctx->work_key);

    /* no hash of something else has as many parts */

    parts[n++] = il_str(NULL, 0);

    il_entry_hash(ctx->id.check, key, parts, n);

    return NGX_OK;
}


/*
 * What the fingerprint is made of goes into the zone's own hashes as it is:
 * they never leave this machine, so they need not be those that everybody can
 * compute, which takes several times as long.
 */

ngx_uint_t
ngx_http_interlock_what(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    il_str_t *parts)
{
    if (ctx->ticket) {

        /* what a press is are not the bytes of the request */

        parts[0] = il_str((char *) ctx->fp, IL_FP_BYTES);

        return 1;
    }

    parts[0] = ngx_http_interlock_str(&r->method_name);
    parts[1] = ngx_http_interlock_str(&ctx->source);
    parts[2] = ngx_http_interlock_str(&r->unparsed_uri);
    parts[3] = ctx->body;

    return NGX_HTTP_INTERLOCK_WHAT;
}


ngx_int_t
ngx_http_interlock_who(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx,
    il_str_t *who)
{
    who[0] = ngx_http_interlock_str(&ctx->lcf->verified);
    who[1] = il_str(NULL, 0);
    who[2] = il_str(NULL, 0);

    if (ctx->lcf->verify) {
        return NGX_OK;
    }

    if (r->headers_in.authorization) {
        who[1] = ngx_http_interlock_str(&r->headers_in.authorization->value);
    }

    return ngx_http_interlock_cookie(r, &who[2]);
}


static ngx_int_t
ngx_http_interlock_cookie(ngx_http_request_t *r, il_str_t *cookie)
{
    u_char            *p, *start;
    size_t             len;
    ngx_uint_t         i;
    ngx_table_elt_t  **h;

    h = r->headers_in.cookies.elts;

    if (r->headers_in.cookies.nelts == 0) {
        return NGX_OK;
    }

    if (r->headers_in.cookies.nelts == 1) {
        *cookie = ngx_http_interlock_str(&h[0]->value);
        return NGX_OK;
    }

    len = 0;

    for (i = 0; i < r->headers_in.cookies.nelts; i++) {
        len += h[i]->value.len + 2;
    }

    start = ngx_pnalloc(r->pool, len);
    if (start == NULL) {
        return NGX_ERROR;
    }

    p = start;

    for (i = 0; i < r->headers_in.cookies.nelts; i++) {
        p = ngx_cpymem(p, h[i]->value.data, h[i]->value.len);
        *p++ = CR;
        *p++ = LF;
    }

    *cookie = il_str((char *) start, len);

    return NGX_OK;
}
