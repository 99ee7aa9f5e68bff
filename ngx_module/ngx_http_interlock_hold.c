
/*
 * Copyright (C) the interlock authors
 */


/*
 * Work keys that are held: somebody presses a button twice, or two browsers
 * do, each press with an idempotency key of its own.  The backend would skip
 * the second one; where it says so (Interlock-Hold, milliseconds), it is
 * answered here with the job of the first.
 *
 * The entry is found by tenant and work key, and good for the same content,
 * asked by the same one: the fingerprint, the kind and the credentials must be
 * equal.  Anything else reaches the backend.  What the backend answers for the
 * work key later replaces the entry, and the end of the job removes it
 * (Interlock-Work-Done, in the answer to whoever ended it).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


/* what DESIGN allows at most, whatever the backend says; milliseconds */

#define NGX_HTTP_INTERLOCK_HOLD_MAX  2000


static void ngx_http_interlock_work_hash(ngx_http_interlock_zone_t *zone,
    u_char *hash, u_char *work);
static void ngx_http_interlock_one_done(ngx_http_request_t *r,
    ngx_http_interlock_main_conf_t *imcf, ngx_str_t *value);
static void ngx_http_interlock_held_answer(ngx_http_interlock_answer_t *first,
    ngx_http_interlock_answer_t *repeat);


ngx_int_t
ngx_http_interlock_work_identity(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    u_char                      work[IL_WORK_BYTES];
    il_str_t                    parts[NGX_HTTP_INTERLOCK_PARTS];
    ngx_uint_t                  n;
    ngx_http_interlock_zone_t  *zone;

    if (ctx->holdable || ctx->tenant.len == 0 || ctx->kind.len == 0
        || ctx->work_key.len == 0)
    {
        return NGX_OK;
    }

    zone = ctx->lcf->shm_zone->data;

    il_work_hash(work, ngx_http_interlock_str(&ctx->tenant),
                 ngx_http_interlock_str(&ctx->work_key));

    ngx_http_interlock_work_hash(zone, ctx->work.hash, work);

    n = ngx_http_interlock_what(r, ctx, parts);

    parts[n++] = ngx_http_interlock_str(&ctx->kind);

    if (ngx_http_interlock_who(r, ctx, &parts[n]) != NGX_OK) {
        return NGX_ERROR;
    }

    il_entry_hash(ctx->work.check, ngx_http_interlock_zone_key(zone), parts,
                  n + NGX_HTTP_INTERLOCK_WHO);

    ctx->holdable = 1;

    return NGX_OK;
}


static void
ngx_http_interlock_work_hash(ngx_http_interlock_zone_t *zone, u_char *hash,
    u_char *work)
{
    il_str_t  part;

    part = il_str((char *) work, IL_WORK_BYTES);

    il_entry_hash(hash, ngx_http_interlock_zone_key(zone), &part, 1);
}


/*
 * What the backend's answer to a submission means for its work key.  answer
 * is NULL if it is none that can be given again.
 */

void
ngx_http_interlock_hold(ngx_http_interlock_ctx_t *ctx, ngx_str_t *value,
    ngx_http_interlock_answer_t *answer, time_t seconds)
{
    ngx_int_t                     ms;
    ngx_http_interlock_zone_t    *zone;
    ngx_http_interlock_answer_t   repeat;

    if (!ctx->holdable) {
        return;
    }

    zone = ctx->lcf->shm_zone->data;

    ms = value->len ? ngx_atoi(value->data, value->len) : 0;

    if (ms > 0 && answer && (answer->has & IL_ANSWER_HAS_JOB)) {

        ngx_http_interlock_held_answer(answer, &repeat);

        (void) ngx_http_interlock_zone_hold(zone, &ctx->work, &repeat,
                    (ngx_msec_t) ngx_min(ms, NGX_HTTP_INTERLOCK_HOLD_MAX),
                    seconds);
        return;
    }

    switch (il_decision_find(ngx_http_interlock_str(&ctx->decision))) {

    case IL_D_ACCEPTED:
    case IL_D_BUFFERED:
    case IL_D_REPLACED:

        /* another job, of whose repeats the backend wants to hear */

        (void) ngx_http_interlock_zone_hold(zone, &ctx->work, NULL, 0, 0);
        break;

    default:
        break;
    }
}


/* what the backend would say to the same work again */

static void
ngx_http_interlock_held_answer(ngx_http_interlock_answer_t *first,
    ngx_http_interlock_answer_t *repeat)
{
    *repeat = *first;

    if (first->decision == IL_D_SKIPPED) {
        return;
    }

    repeat->code = (u_char) (il_decision_code(IL_D_SKIPPED) - 200);
    repeat->decision = IL_D_SKIPPED;
    repeat->reason = IL_R_SAME_WORK;

    if (!(first->has & IL_ANSWER_HAS_ACTIVE)) {
        ngx_memcpy(repeat->ids[1], first->ids[0], IL_UUID_BYTES);
    }

    repeat->has = IL_ANSWER_HAS_JOB|IL_ANSWER_HAS_ACTIVE;
}


/*
 * The value of Interlock-Work-Done: the work's hash in hex, ";", the job; with
 * commas between, if one request ended several.
 */

void
ngx_http_interlock_work_done(ngx_http_request_t *r,
    ngx_http_interlock_main_conf_t *imcf, ngx_str_t *value)
{
    u_char     *p, *last, *comma;
    ngx_str_t   one;

    last = value->data + value->len;

    for (p = value->data; p < last; p = comma + 1) {
        comma = ngx_strlchr(p, last, ',');

        if (comma == NULL) {
            comma = last;
        }

        one.data = p;
        one.len = comma - p;

        ngx_http_interlock_one_done(r, imcf, &one);
    }
}


static void
ngx_http_interlock_one_done(ngx_http_request_t *r,
    ngx_http_interlock_main_conf_t *imcf, ngx_str_t *value)
{
    u_char                    job[IL_UUID_BYTES], work[IL_WORK_BYTES];
    ngx_uint_t                i;
    ngx_shm_zone_t          **zp;
    ngx_http_interlock_id_t   id;

    if (value->len != 2 * IL_WORK_BYTES + 1 + IL_UUID_TEXT
        || value->data[2 * IL_WORK_BYTES] != ';'
        || il_hex_decode(work, sizeof(work),
                         il_str((char *) value->data, 2 * IL_WORK_BYTES)) != 0
        || il_uuid_parse(job, il_str((char *) value->data
                                     + 2 * IL_WORK_BYTES + 1, IL_UUID_TEXT))
           != 0)
    {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "interlock: upstream sent an invalid header "
                      "\"Interlock-Work-Done: %V\"", value);
        return;
    }

    ngx_memzero(&id, sizeof(ngx_http_interlock_id_t));

    /* the worker's location need not be one that deduplicates */

    zp = imcf->zones->elts;

    for (i = 0; i < imcf->zones->nelts; i++) {
        ngx_http_interlock_work_hash(zp[i]->data, id.hash, work);
        ngx_http_interlock_zone_over(zp[i]->data, &id, job);
    }
}
