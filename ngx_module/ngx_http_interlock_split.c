
/*
 * Copyright (C) the interlock authors
 */


/*
 * A body whose elements are requests of their own.  The keys are computed for
 * each element as if it were the whole body; what the backend gets is the list
 * of them (il_split.h) and then the body, in one request, because there is one
 * answer.  The zone has no part in this: a repeat may be new in part.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"

#include "il_split.h"


#define ngx_http_interlock_detail(d, text)                                    \
    *(d) = il_str(text, sizeof(text) - 1)


/* While elements are looked at: what is to be put back between them. */

typedef struct {
    ngx_http_variable_value_t      *variables;
    size_t                          size;
    il_str_t                        content;
    ngx_str_t                       tenant;
    ngx_str_t                       source;
    il_problem_e                    problem;    /* the first one */
    il_str_t                        detail;
} ngx_http_interlock_split_t;


static il_problem_e ngx_http_interlock_split_array(
    ngx_http_interlock_ctx_t *ctx, il_json_value_t *array, ngx_uint_t *n,
    il_str_t *detail);
static ngx_int_t ngx_http_interlock_split_begin(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_split_t *st);
static void ngx_http_interlock_split_reset(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_split_t *st);
static il_problem_e ngx_http_interlock_split_keys(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_split_t *st,
    il_str_t *detail);
static il_problem_e ngx_http_interlock_split_element(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_split_t *st,
    ngx_uint_t i, il_split_t *e);
static ngx_int_t ngx_http_interlock_split_send(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_split_t *e, ngx_uint_t n);
static ngx_int_t ngx_http_interlock_split_push(ngx_http_request_t *r,
    ngx_chain_t **ll, const char *data, size_t len);


/* interlock_split /pointer */

char *
ngx_http_interlock_split(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t  *value;

    if (ilcf->split != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_interlock_check_pointer(cf, &value[1]) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    ngx_http_interlock_place(cf, &ilcf->place);

    ilcf->split = ngx_palloc(cf->pool, sizeof(ngx_str_t));
    if (ilcf->split == NULL) {
        return NGX_CONF_ERROR;
    }

    *ilcf->split = value[1];

    return NGX_CONF_OK;
}


char *
ngx_http_interlock_split_merge(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *prev, ngx_http_interlock_loc_conf_t *conf)
{
    ngx_uint_t                 i;
    ngx_http_core_loc_conf_t  *clcf;

    struct {
        const char  *name;
        ngx_uint_t   given;
    } needs[] = {
        { "interlock_tenant", conf->tenant != NULL },
        { "interlock_source", conf->source != NULL },
        { "interlock_kind", conf->kind != NULL },
        { "interlock_work_key", conf->work_key != NULL },
        { "interlock_idempotency_key", conf->idem != NULL }
    };

    ngx_conf_merge_ptr_value(conf->split, prev->split, NULL);

    if (conf->split == NULL) {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    for (i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        if (!needs[i].given) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"interlock_split\" in location \"%V\" needs "
                               "\"%s\"", &clcf->name, needs[i].name);
            return NGX_CONF_ERROR;
        }
    }

    /* a header is the same for all elements, so all but the first would be
     * taken for repeats of it */

    if (conf->idem_headers
        && conf->idem_headers->nelts
           == ngx_http_script_variables_count(&conf->idem->value))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_idempotency_key %V\" in location "
                           "\"%V\" is the same for all elements of "
                           "\"interlock_split\": take it from the element",
                           &conf->idem->value, &clcf->name);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


il_problem_e
ngx_http_interlock_split_request(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail)
{
    size_t                       pos;
    il_str_t                     name, none;
    ngx_uint_t                   i, n;
    il_split_t                  *e;
    il_problem_e                 problem;
    il_json_value_t              array, value;
    ngx_http_interlock_split_t   st;

    problem = ngx_http_interlock_split_array(ctx, &array, &n, detail);
    if (problem != IL_P_NONE) {
        return problem;
    }

    e = ngx_palloc(r->pool, (n + 1) * sizeof(il_split_t));

    if (e == NULL || ngx_http_interlock_split_begin(r, ctx, &st) != NGX_OK) {
        return IL_P_INTERNAL;
    }

    ngx_memzero(e, (n + 1) * sizeof(il_split_t));

    if (n == 0) {

        /* the backend is told of none, and whose they are not */

        ctx->content = il_str("null", 4);
        problem = ngx_http_interlock_split_keys(r, ctx, &st, &none);

        ngx_http_interlock_split_reset(r, ctx, &st);
    }

    pos = 0;

    for (i = 0; i < n && il_json_next(array, &pos, &name, &value); i++) {

        e[i].offset = (size_t) (value.raw.data - st.content.data);
        e[i].length = value.raw.len;

        ctx->content = value.raw;

        problem = ngx_http_interlock_split_element(r, ctx, &st, i, &e[i]);

        ngx_http_interlock_split_reset(r, ctx, &st);

        if (problem == IL_P_INTERNAL) {
            break;
        }
    }

    ctx->content = st.content;
    ctx->tenant = st.tenant;
    ctx->source = st.source;

    if (problem == IL_P_INTERNAL) {
        return problem;
    }

    /* nobody's: the backend could not even say what is wrong with each */

    if (st.tenant.len == 0) {
        *detail = st.detail;
        return st.problem;
    }

    if (ngx_http_interlock_split_send(r, ctx, e, n) != NGX_OK) {
        return IL_P_INTERNAL;
    }

    ngx_http_interlock_fingerprint(r, ctx);

    return IL_P_NONE;
}


/* where the elements are, and how many: at most IL_SPLIT_MAX */

static il_problem_e
ngx_http_interlock_split_array(ngx_http_interlock_ctx_t *ctx,
    il_json_value_t *array, ngx_uint_t *n, il_str_t *detail)
{
    size_t           pos;
    il_str_t         name;
    il_json_value_t  value;

    switch (il_json_find(ctx->content, ngx_http_interlock_str(ctx->lcf->split),
                         array))
    {
    case IL_JSON_OK:
        break;

    case IL_JSON_TOO_DEEP:
        ngx_http_interlock_detail(detail, "the JSON body is nested too deep");
        return IL_P_JSON_INVALID;

    case IL_JSON_DUPLICATE:
        ngx_http_interlock_detail(detail,
            "a member on the way to the elements occurs twice in the body");
        return IL_P_JSON_INVALID;

    case IL_JSON_MISSING:
        array->type = IL_JSON_NULL;
        break;

    default:
        ngx_http_interlock_detail(detail, "the body is not valid JSON");
        return IL_P_JSON_INVALID;
    }

    if (array->type != IL_JSON_ARRAY) {
        ngx_http_interlock_detail(detail,
            "the body has no list of elements where this source has it");
        return IL_P_FIELD_INVALID;
    }

    pos = 0;

    for (*n = 0; il_json_next(*array, &pos, &name, &value); (*n)++) {
        if (*n == IL_SPLIT_MAX) {
            ngx_http_interlock_detail(detail,
                "the body has more than 10000 elements");
            return IL_P_BODY_TOO_LARGE;
        }
    }

    return IL_P_NONE;
}


/*
 * Variables keep their values for as long as the request lives, and some (of
 * a map, for example) are made of ours without our knowing.  So what is known
 * now is kept, and put back after each element: what was asked for of one
 * element is asked for again of the next.
 */

static ngx_int_t
ngx_http_interlock_split_begin(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_split_t *st)
{
    ngx_http_core_main_conf_t  *cmcf;

    ngx_memzero(st, sizeof(ngx_http_interlock_split_t));

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    st->content = ctx->content;
    st->size = cmcf->variables.nelts * sizeof(ngx_http_variable_value_t);

    st->variables = ngx_palloc(r->pool, st->size);
    if (st->variables == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(st->variables, r->variables, st->size);

    return NGX_OK;
}


static void
ngx_http_interlock_split_reset(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_split_t *st)
{
    ngx_memcpy(r->variables, st->variables, st->size);

    ngx_str_null(&ctx->tenant);
    ngx_str_null(&ctx->source);
    ngx_str_null(&ctx->kind);
    ngx_str_null(&ctx->work_key);
    ngx_str_null(&ctx->idem);
}


/* The keys of what is in ctx->content; and tenant and source of the whole, as
 * soon as there are any.  All elements have the same. */

static il_problem_e
ngx_http_interlock_split_keys(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_split_t *st,
    il_str_t *detail)
{
    il_str_t      tenant, source;
    il_problem_e  problem;

    problem = ngx_http_interlock_keys(r, ctx, detail);

    if (problem != IL_P_NONE && st->problem == IL_P_NONE) {
        st->problem = problem;
        st->detail = *detail;
    }

    tenant = ngx_http_interlock_str(&ctx->tenant);
    source = ngx_http_interlock_str(&ctx->source);

    if (st->tenant.len == 0 && il_name_valid(tenant) && il_name_valid(source))
    {
        st->tenant = ctx->tenant;
        st->source = ctx->source;
    }

    if (problem == IL_P_NONE
        && (!il_str_eq(tenant, ngx_http_interlock_str(&st->tenant))
            || !il_str_eq(source, ngx_http_interlock_str(&st->source))))
    {
        ngx_http_interlock_detail(detail,
            "the element is of another tenant or source than the first");
        return IL_P_FIELD_INVALID;
    }

    return problem;
}


/* what is wrong with one is the backend's to answer, beside the others */

static il_problem_e
ngx_http_interlock_split_element(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_split_t *st,
    ngx_uint_t i, il_split_t *e)
{
    il_str_t      detail;
    il_problem_e  problem;

    detail = il_str(NULL, 0);
    problem = ngx_http_interlock_split_keys(r, ctx, st, &detail);

    if (problem == IL_P_INTERNAL) {
        return problem;
    }

    if (problem != IL_P_NONE) {
        e->problem = il_problem_name(problem);
        e->detail = detail;

        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "interlock: element %ui: %*s: %*s", i,
                      e->problem.len, e->problem.data,
                      detail.len, detail.data);
        return problem;
    }

    e->kind = ngx_http_interlock_str(&ctx->kind);
    e->work_key = ngx_http_interlock_str(&ctx->work_key);
    e->idem = ngx_http_interlock_str(&ctx->idem);

    return IL_P_NONE;
}


/* The list goes before the body: what it came as, or what that inflated to,
 * of which the elements are. */

static ngx_int_t
ngx_http_interlock_split_send(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_split_t *e, ngx_uint_t n)
{
    char         *list, *p;
    size_t        len, size;
    ngx_uint_t    i;
    ngx_chain_t  *chain, **ll;

    if (r->request_body == NULL) {
        return NGX_ERROR;
    }

    len = IL_SPLIT_HEAD;

    for (i = 0; i < n; i++) {
        size = il_split_size(&e[i]);

        if (size == 0) {
            return NGX_ERROR;
        }

        len += size;
    }

    list = ngx_pnalloc(r->pool, len);
    if (list == NULL) {
        return NGX_ERROR;
    }

    il_split_head(list, n);
    p = list + IL_SPLIT_HEAD;

    for (i = 0; i < n; i++) {
        p += il_split_put(p, &e[i]);
    }

    ll = &chain;

    if (ngx_http_interlock_split_push(r, &chain, list, len) != NGX_OK) {
        return NGX_ERROR;
    }

    ll = &chain->next;

    if (ctx->content.data == ctx->body.data) {
        *ll = r->request_body->bufs;

    } else if (ngx_http_interlock_split_push(r, ll, ctx->content.data,
                                             ctx->content.len)
               != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->split_list = len;
    ctx->split_bufs = r->request_body->bufs;
    ctx->split_size = len + ctx->content.len;

    r->request_body->bufs = chain;

    return NGX_OK;
}


static ngx_int_t
ngx_http_interlock_split_push(ngx_http_request_t *r, ngx_chain_t **ll,
    const char *data, size_t len)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    cl = ngx_alloc_chain_link(r->pool);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->memory = 1;
    b->pos = (u_char *) data;
    b->last = b->pos + len;
    b->start = b->pos;
    b->end = b->last;

    cl->buf = b;
    cl->next = NULL;
    *ll = cl;

    return NGX_OK;
}


/* An internal redirect leads to somebody who knows nothing of a list. */

void
ngx_http_interlock_split_undo(ngx_http_request_t *r)
{
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_get_ctx(r);

    if (ctx == NULL || ctx->split_list == 0) {
        return;
    }

    r->request_body->bufs = ctx->split_bufs;

    ctx->split_list = 0;
    ctx->split_size = 0;
}


/* for interlock_params; data: 0 the length of the list, if there is one, 1
 * that of all that goes to the backend */

ngx_int_t
ngx_http_interlock_split_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    off_t                      len;
    ngx_http_interlock_ctx_t  *ctx;

    ctx = ngx_http_interlock_get_ctx(r);

    v->valid = 0;
    v->not_found = 1;
    v->no_cacheable = 1;

    if (ctx && ctx->split_list) {
        len = (off_t) (data ? ctx->split_size : ctx->split_list);

    } else if (data && r->headers_in.content_length_n >= 0) {
        len = r->headers_in.content_length_n;

    } else {
        return NGX_OK;
    }

    v->data = ngx_pnalloc(r->pool, NGX_OFF_T_LEN);
    if (v->data == NULL) {
        return NGX_ERROR;
    }

    v->len = ngx_sprintf(v->data, "%O", len) - v->data;
    v->valid = 1;
    v->not_found = 0;

    return NGX_OK;
}
