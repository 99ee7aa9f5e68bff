
/*
 * Copyright (C) the interlock authors
 */


/*
 * What the edge answered alone is told to the backend: a line for each such
 * request (the format is that of the file interlock_audit), to interlockd's
 * datagram socket.
 *
 * Lines are gathered while one round of the event loop lasts, and leave at its
 * end in one datagram: a single request's at once, those of a flood by the
 * dozen.  Nobody waits for the socket.  If it is full the lines stay for a
 * while; what does not fit then is lost, as is all that is sent while nobody
 * listens.  The numbers in the lines show it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "il_out.h"

#include "ngx_http_interlock_module.h"


/* fcgi/edge_line.h: the longest datagram that interlockd reads */
#define NGX_HTTP_INTERLOCK_RECORD_SIZE   32768

/* milliseconds: when a full socket is tried again, and for how long; the
 * backend takes for lost what comes five seconds late */
#define NGX_HTTP_INTERLOCK_RECORD_AGAIN  5
#define NGX_HTTP_INTERLOCK_RECORD_KEEP   1000

/* what lies in the socket counts to its sender */
#define NGX_HTTP_INTERLOCK_RECORD_SNDBUF (1024 * 1024)


/* one socket; each worker process has its own copy of this */

struct ngx_http_interlock_record_s {
    ngx_str_t            path;
    struct sockaddr_un   addr;
    socklen_t            addr_len;
    ngx_socket_t         fd;
    ngx_event_t          event;         /* posted, or a timer */
    ngx_connection_t     connection;    /* event's data, for the debug log */
    ngx_msec_t           since;         /* when the first line came */
    ngx_uint_t           failed;        /* and that was logged */
    size_t               used;
    char                *lines;         /* ..._RECORD_SIZE bytes */
};


static ngx_http_interlock_record_t *ngx_http_interlock_record_get(
    ngx_conf_t *cf, ngx_str_t *path);
static void ngx_http_interlock_record_line(il_out_t *o,
    ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx);
static void ngx_http_interlock_record_fp(il_out_t *o, ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
static ngx_int_t ngx_http_interlock_record_open(
    ngx_http_interlock_record_t *rec);
static void ngx_http_interlock_record_handler(ngx_event_t *ev);
static void ngx_http_interlock_record_send(ngx_http_interlock_record_t *rec);
static void ngx_http_interlock_record_lost(ngx_http_interlock_record_t *rec,
    ngx_err_t err, const char *call);
static void ngx_http_interlock_record_cleanup(void *data);


/* interlock_audit unix:path | off */

char *
ngx_http_interlock_record_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t  *value, path;

    if (ilcf->record != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {
        ilcf->record = NULL;
        return NGX_CONF_OK;
    }

    if (value[1].len <= 5 || ngx_strncmp(value[1].data, "unix:", 5) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"interlock_audit\": it "
                           "is \"unix:\" and a path, or \"off\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    path.data = value[1].data + 5;
    path.len = value[1].len - 5;

    if (ngx_conf_full_name(cf->cycle, &path, 0) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (path.len >= sizeof(((struct sockaddr_un *) 0)->sun_path)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the path \"%V\" in \"interlock_audit\" is too "
                           "long for a socket", &path);
        return NGX_CONF_ERROR;
    }

    ilcf->record = ngx_http_interlock_record_get(cf, &path);

    return ilcf->record ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* that of the path, which many locations may have */

static ngx_http_interlock_record_t *
ngx_http_interlock_record_get(ngx_conf_t *cf, ngx_str_t *path)
{
    ngx_uint_t                        i;
    ngx_pool_cleanup_t               *cln;
    ngx_http_interlock_record_t      *rec, **recs;
    ngx_http_interlock_main_conf_t   *imcf;

    imcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_interlock_module);

    recs = imcf->records.elts;

    for (i = 0; i < imcf->records.nelts; i++) {
        if (recs[i]->path.len == path->len
            && ngx_memcmp(recs[i]->path.data, path->data, path->len) == 0)
        {
            return recs[i];
        }
    }

    recs = ngx_array_push(&imcf->records);
    rec = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_record_t));
    cln = ngx_pool_cleanup_add(cf->pool, 0);

    if (recs == NULL || rec == NULL || cln == NULL) {
        return NULL;
    }

    *recs = rec;

    rec->lines = ngx_pnalloc(cf->pool, NGX_HTTP_INTERLOCK_RECORD_SIZE);
    if (rec->lines == NULL) {
        return NULL;
    }

    rec->path = *path;
    rec->fd = (ngx_socket_t) -1;

    rec->addr.sun_family = AF_UNIX;
    ngx_memcpy(rec->addr.sun_path, path->data, path->len);
    rec->addr_len = (socklen_t) (offsetof(struct sockaddr_un, sun_path)
                                 + path->len + 1);

    rec->connection.fd = (ngx_socket_t) -1;
    rec->connection.data = rec;

    rec->event.handler = ngx_http_interlock_record_handler;
    rec->event.data = &rec->connection;
    rec->event.log = &cf->cycle->new_log;
    rec->event.cancelable = 1;

    cln->handler = ngx_http_interlock_record_cleanup;
    cln->data = rec;

    return rec;
}


void
ngx_http_interlock_record(ngx_http_request_t *r, ngx_http_interlock_ctx_t *ctx)
{
    il_out_t                      o;
    ngx_http_interlock_record_t  *rec;

    rec = ctx->lcf->record;

    if (rec == NULL) {
        return;
    }

    il_out_init(&o, rec->lines, NGX_HTTP_INTERLOCK_RECORD_SIZE);
    o.len = rec->used;

    ngx_http_interlock_record_line(&o, r, ctx);

    if (o.failed && rec->used) {
        ngx_http_interlock_record_send(rec);

        il_out_init(&o, rec->lines, NGX_HTTP_INTERLOCK_RECORD_SIZE);
        o.len = rec->used;

        ngx_http_interlock_record_line(&o, r, ctx);
    }

    if (o.failed) {
        ngx_http_interlock_record_lost(rec, 0, "no room for a line");
        return;
    }

    if (rec->used == 0) {
        rec->since = ngx_current_msec;
    }

    rec->used = il_out_len(&o);

    ngx_post_event(&rec->event, &ngx_posted_events);
}


static void
ngx_http_interlock_record_line(il_out_t *o, ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    char          hex[2 * NGX_HTTP_INTERLOCK_ZONE_ID + 1];
    char          compact[IL_ANSWER_COMPACT_CAP];
    u_char        text[NGX_INT64_LEN + NGX_TIME_T_LEN + sizeof(".000")], *p;
    ngx_time_t   *tp;
    il_answer_t   answer;

    if (o->len) {
        il_out_lit(o, "\n");
    }

    il_hex_encode(hex, ngx_http_interlock_zone_id(ctx->lcf->shm_zone->data),
                  NGX_HTTP_INTERLOCK_ZONE_ID);

    il_out_lit(o, "{\"zone\":\"");
    il_out_put(o, il_str(hex, sizeof(hex) - 1));

    p = ngx_sprintf(text, "%uL", ctx->number);

    il_out_lit(o, "\",\"seq\":\"");
    il_out_put(o, il_str((char *) text, p - text));

    tp = ngx_timeofday();
    p = ngx_sprintf(text, "%T.%03M", tp->sec, tp->msec);

    il_out_lit(o, "\",\"at\":\"");
    il_out_put(o, il_str((char *) text, p - text));

    /* names have nothing to be escaped */

    il_out_lit(o, "\",\"tenant\":\"");
    il_out_put(o, ngx_http_interlock_str(&ctx->tenant));
    il_out_lit(o, "\",\"source\":\"");
    il_out_put(o, ngx_http_interlock_str(&ctx->source));
    il_out_lit(o, "\",\"kind\":\"");
    il_out_put(o, ngx_http_interlock_str(&ctx->kind));
    il_out_lit(o, "\",\"work_key\":\"");
    il_out_json(o, ngx_http_interlock_str(&ctx->work_key));
    il_out_lit(o, "\",\"key\":\"");
    il_out_json(o, ngx_http_interlock_str(&ctx->idem));

    il_out_lit(o, "\",\"fingerprint\":\"");
    ngx_http_interlock_record_fp(o, r, ctx);

    il_out_lit(o, "\",\"decision\":\"");
    il_out_put(o, ngx_http_interlock_str(&ctx->decision));

    ngx_http_interlock_unpack(&ctx->answer, &answer);

    il_out_lit(o, "\",\"answer\":\"");
    il_out_put(o, il_str(compact,
                         il_answer_compact(compact, sizeof(compact), &answer,
                                           200 + (int) ctx->answer.code)));
    il_out_lit(o, "\"}");
}


/*
 * A duplicate's fingerprint is that of the request that it repeats, which the
 * database has: it need not be computed here.  Unless that one was itself
 * another content under a known key.
 */

static void
ngx_http_interlock_record_fp(il_out_t *o, ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx)
{
    char  hex[2 * IL_FP_BYTES + 1];

    if (!ctx->coalesced && ctx->answer.reason != IL_R_MISMATCH_RECORDED) {
        return;
    }

    ngx_http_interlock_fingerprint(r, ctx);

    il_hex_encode(hex, ctx->fp, IL_FP_BYTES);
    il_out_put(o, il_str(hex, sizeof(hex) - 1));
}


/* in a worker process, when it has something to tell for the first time */

static ngx_int_t
ngx_http_interlock_record_open(ngx_http_interlock_record_t *rec)
{
    int  size;

    if (rec->fd != (ngx_socket_t) -1) {
        return NGX_OK;
    }

    rec->fd = socket(AF_UNIX, SOCK_DGRAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);

    if (rec->fd == (ngx_socket_t) -1) {
        return NGX_ERROR;
    }

    size = NGX_HTTP_INTERLOCK_RECORD_SNDBUF;

    if (setsockopt(rec->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size))
        == -1)
    {
        ngx_log_error(NGX_LOG_ALERT, rec->event.log, ngx_socket_errno,
                      "setsockopt(SO_SNDBUF) of \"interlock_audit\" failed, "
                      "ignored");
    }

    return NGX_OK;
}


static void
ngx_http_interlock_record_handler(ngx_event_t *ev)
{
    ngx_connection_t             *c;
    ngx_http_interlock_record_t  *rec;

    c = ev->data;
    rec = c->data;

    ev->timedout = 0;

    ngx_http_interlock_record_send(rec);
}


static void
ngx_http_interlock_record_send(ngx_http_interlock_record_t *rec)
{
    ssize_t    n;
    ngx_err_t  err;

    /* to find a socket full costs as much as to send: not before its time */

    if (rec->used == 0 || rec->event.timer_set) {
        return;
    }

    if (ngx_http_interlock_record_open(rec) != NGX_OK) {
        ngx_http_interlock_record_lost(rec, ngx_socket_errno, "socket()");
        rec->used = 0;
        return;
    }

    n = sendto(rec->fd, rec->lines, rec->used, MSG_DONTWAIT|MSG_NOSIGNAL,
               (struct sockaddr *) &rec->addr, rec->addr_len);

    if (n == (ssize_t) rec->used) {
        rec->used = 0;

        if (rec->failed) {
            rec->failed = 0;
            ngx_log_error(NGX_LOG_NOTICE, rec->event.log, 0,
                          "interlock: \"%V\" takes what was answered alone "
                          "again", &rec->path);
        }

        return;
    }

    err = ngx_socket_errno;

    if ((err == NGX_EAGAIN || err == ENOBUFS)
        && ngx_current_msec - rec->since < NGX_HTTP_INTERLOCK_RECORD_KEEP)
    {
        ngx_add_timer(&rec->event, NGX_HTTP_INTERLOCK_RECORD_AGAIN);
        return;
    }

    ngx_http_interlock_record_lost(rec, err, "sendto()");

    rec->used = 0;
}


/* said once, until it works again */

static void
ngx_http_interlock_record_lost(ngx_http_interlock_record_t *rec,
    ngx_err_t err, const char *call)
{
    if (rec->failed) {
        return;
    }

    rec->failed = 1;

    ngx_log_error(NGX_LOG_ERR, rec->event.log, err,
                  "interlock: what was answered alone could not be told to "
                  "\"%V\": %s", &rec->path, call);
}


/* with the configuration, in every process: what is left goes now or never */

static void
ngx_http_interlock_record_cleanup(void *data)
{
    ngx_http_interlock_record_t *rec = data;

    rec->event.log = ngx_cycle->log;
    rec->failed = 1;

    if (rec->event.timer_set) {
        ngx_del_timer(&rec->event);
    }

    ngx_http_interlock_record_send(rec);

    if (rec->event.timer_set) {
        ngx_del_timer(&rec->event);
    }

    if (rec->event.posted) {
        ngx_delete_posted_event(&rec->event);
    }

    if (rec->fd != (ngx_socket_t) -1 && ngx_close_socket(rec->fd) == -1) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_socket_errno,
                      "close() of \"interlock_audit\" failed");
    }
}
