/*
 * req.c: reading a request, writing its answer.
 */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "edge.h"
#include "il_out.h"
#include "il_time.h"
#include "log.h"
#include "metrics.h"
#include "req.h"
#include "route.h"
#include "server.h"
#include "work.h"


/* Longer answers are written by workers, whoever has them ready: a lane's
 * thread must not wait for a slow peer.  Shorter ones fit into the socket's
 * buffer, because a connection has one request at a time. */
#define IL_REQ_SHORT  65536

#define IL_REQ_PROBLEM_CAP  8192


static size_t  il_req_n;


size_t
il_req_inflight(void)
{
    return __atomic_load_n(&il_req_n, __ATOMIC_ACQUIRE);
}


void
il_req_count(int by)
{
    (void) __atomic_add_fetch(&il_req_n, (size_t) (ssize_t) by,
                              __ATOMIC_ACQ_REL);
}


il_str_t
il_req_param(const il_req_t *r, const char *name)
{
    return il_fcgx_param(r->conn->fcgi, name);
}


il_str_t
il_req_sig_header(void *ctx, const char *lowcase_name, size_t *count)
{
    char      **p, c;
    size_t      i, n;
    il_req_t   *r = ctx;
    il_str_t    value;

    n = strlen(lowcase_name);
    value = il_str(NULL, 0);
    *count = 0;

    for (p = il_fcgx_params(r->conn->fcgi); *p != NULL; p++) {

        if (strncmp(*p, "HTTP_", 5) != 0) {
            continue;
        }

        for (i = 0; i < n; i++) {
            c = lowcase_name[i];
            c = c == '-' ? '_' : (char) toupper((unsigned char) c);

            if ((*p)[5 + i] != c) {
                break;
            }
        }

        if (i == n && (*p)[5 + n] == '=') {
            value = il_cstr(*p + 5 + n + 1);
            (*count)++;
        }
    }

    return value;
}


static void
il_req_free(il_req_t *r)
{
    il_buf_free(&r->body);
    il_buf_free(&r->head);
    il_buf_free(&r->out);
    il_db_result_free(r->res);
    il_pool_free(&r->pool);
    free(r);
}


void
il_req_settle(il_req_t *r)
{
    il_buf_free(&r->body);
    il_fcgx_settle(r->conn->fcgi);
}


/* --------------------------------------------------------------- reading */


static il_method_e
il_req_method(il_str_t s)
{
    size_t  i;

    static const struct {
        il_str_t     name;
        il_method_e  method;
    } methods[] = {
        { il_string("GET"), IL_M_GET },
        { il_string("HEAD"), IL_M_HEAD },
        { il_string("POST"), IL_M_POST },
        { il_string("PUT"), IL_M_PUT },
        { il_string("DELETE"), IL_M_DELETE }
    };

    for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (il_str_eq(s, methods[i].name)) {
            return methods[i].method;
        }
    }

    return IL_M_OTHER;
}


/* What is left of a body is read, or the peer, still writing it, would miss
 * the answer.  The number of bytes, or -1. */

static int64_t
il_req_discard(il_req_t *r)
{
    int      n;
    char     scratch[16384];
    int64_t  total;

    for (total = 0; /* void */ ; total += n) {
        n = il_fcgx_read(r->conn->fcgi, scratch, sizeof(scratch));

        if (n <= 0) {
            return n < 0 ? -1 : total;
        }
    }
}


/* 0; 1 if a problem was answered; -1 if the peer is gone. */

static int
il_req_read(il_req_t *r)
{
    int       n;
    char     *p;
    int64_t   length, more;
    il_str_t  s;

    length = 0;
    s = il_req_param(r, "CONTENT_LENGTH");

    if (s.len > 0 && il_digits_parse(s, 12, &length) != 0) {
        if (il_req_discard(r) < 0) {
            return -1;
        }

        il_req_problem(r, IL_P_BAD_REQUEST, "Content-Length is not a number.");
        return 1;
    }

    if (length > il_srv.conf.max_body) {
        if (il_req_discard(r) < 0) {
            return -1;
        }

        il_req_problem(r, IL_P_BODY_TOO_LARGE, "The body is larger than this "
                       "server takes.");
        return 1;
    }

    /* with room for a NUL, so that a body is never a NULL pointer */

    p = il_buf_room(&r->body, (size_t) length + 1);
    if (p == NULL) {
        if (il_req_discard(r) < 0) {
            return -1;
        }

        il_req_unavailable(r);
        return 1;
    }

    while (r->body.len < (size_t) length) {
        n = il_fcgx_read(r->conn->fcgi, r->body.data + r->body.len,
                         (size_t) length - r->body.len);
        if (n < 0) {
            return -1;
        }

        if (n == 0) {
            break;
        }

        r->body.len += (size_t) n;
    }

    r->body.data[r->body.len] = '\0';

    more = il_req_discard(r);
    if (more < 0) {
        return -1;
    }

    if (more > 0 || r->body.len != (size_t) length) {
        il_req_problem(r, IL_P_BAD_REQUEST, "The body is not as long as its "
                       "Content-Length says.");
        return 1;
    }

    return 0;
}


static void
il_req_split(il_req_t *r)
{
    const char  *q;

    r->uri = il_req_param(r, "REQUEST_URI");
    r->path = r->uri;

    q = r->uri.len == 0 ? NULL : memchr(r->uri.data, '?', r->uri.len);
    if (q != NULL) {
        r->path.len = (size_t) (q - r->uri.data);
        r->query = il_str(q + 1, r->uri.len - r->path.len - 1);
    }
}


void
il_req_begin(il_conn_t *conn)
{
    int        rc;
    il_req_t  *r;

    r = malloc(sizeof(il_req_t));

    if (r == NULL || il_fcgx_accept(conn->fcgi) != 0) {
        free(r);
        il_loop_close(conn);
        il_req_count(-1);
        return;
    }

    memset(r, 0, sizeof(*r));
    r->conn = conn;
    conn->req = r;

    il_edge_counts(il_req_param(r, "INTERLOCK_EDGE"));

    r->method = il_req_method(il_req_param(r, "REQUEST_METHOD"));
    il_req_split(r);

    rc = il_req_read(r);
    if (rc < 0) {
        il_req_abort(r);
        return;
    }

    if (rc == 0) {
        il_route(r);
    }
}


/* --------------------------------------------------------------- writing */


void
il_req_header(il_req_t *r, const char *name, il_str_t value)
{
    il_buf_puts(&r->head, name);
    il_buf_puts(&r->head, ": ");
    il_buf_add(&r->head, value);
    il_buf_puts(&r->head, "\r\n");
}


void
il_req_replayed(il_req_t *r)
{
    if (r->sub != NULL) {
        r->sub->replayed = 1;
        return;
    }

    il_req_header(r, "Idempotency-Replayed", il_cstr("true"));
}


il_buf_t *
il_req_json(il_req_t *r, int status)
{
    r->status = status;
    r->type = "application/json";

    return &r->out;
}


static const char *
il_req_reason(int status)
{
    switch (status) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 302: return "Found";
    case 303: return "See Other";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 413: return "Payload Too Large";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default:  return "Answer";
    }
}


static void
il_req_end(il_req_t *r, int rc)
{
    il_conn_t  *conn = r->conn;

    if (rc < 0 && r->lost != NULL) {
        r->lost(r);
    }

    conn->req = NULL;
    il_req_free(r);

    if (rc > 0) {
        il_loop_rearm(conn);

    } else {
        il_loop_close(conn);
    }

    il_req_count(-1);
}


static void
il_req_head_number(il_out_t *o, size_t v)
{
    char    digits[24];
    size_t  i;

    i = sizeof(digits);

    do {
        digits[--i] = (char) ('0' + v % 10);
        v /= 10;
    } while (v > 0);

    il_out_put(o, il_str(digits + i, sizeof(digits) - i));
}


/* What every answer has; without printf, which would be half of its cost. */

static void
il_req_head(const il_req_t *r, il_out_t *o)
{
    il_out_text(o, "Status: ");
    il_req_head_number(o, (size_t) r->status);
    il_out_text(o, " ");
    il_out_text(o, il_req_reason(r->status));
    il_out_text(o, r->file ? "\r\n" : "\r\nCache-Control: no-store\r\n");

    if (r->status != 204) {
        il_out_text(o, "Content-Type: ");
        il_out_text(o, r->type);
        il_out_text(o, "\r\nContent-Length: ");
        il_req_head_number(o, r->out.len);
        il_out_text(o, "\r\n");
    }
}


static void
il_req_send(il_req_t *r)
{
    int       rc;
    char      head[512];
    size_t    n;
    il_out_t  o;
    il_str_t  parts[4];

    static const char  broken[] =
        "Status: 500 Internal Server Error\r\n"
        "Content-Type: application/problem+json\r\n\r\n"
        "{\"type\":\"" IL_PROBLEM_TYPE "internal\","
        "\"title\":\"Internal error\",\"status\":500}";

    il_out_init(&o, head, sizeof(head));
    il_req_head(r, &o);
    n = il_out_len(&o);

    parts[0] = il_str(head, n);
    parts[1] = il_buf_str(&r->head);
    parts[2] = il_cstr("\r\n");
    parts[3] = r->method == IL_M_HEAD ? il_str(NULL, 0) : il_buf_str(&r->out);

    if (n == 0 || r->head.failed || r->out.failed) {
        il_log(IL_LOG_ERROR, "an answer could not be built: out of memory");
        parts[0] = il_cstr(broken);
        rc = il_fcgx_finish(r->conn->fcgi, parts, 1);
        rc = rc < 0 || r->lost == NULL ? rc : -1;

    } else {
        rc = il_fcgx_finish(r->conn->fcgi, parts, 4);
    }

    il_req_end(r, rc);
}


void
il_req_done(il_req_t *r)
{
    char      code[8];
    il_out_t  o;

    if (r->sub != NULL) {
        r->sub->done(r);
        return;
    }

    il_out_init(&o, code, sizeof(code));
    il_req_head_number(&o, (size_t) r->status);
    il_metric_add_str(IL_MT_HTTP_REQUESTS, 1,
                      il_cstr(r->route == NULL ? "-" : r->route->pattern),
                      il_str(code, il_out_len(&o)), il_str("", 0));

    if (r->out.len > IL_REQ_SHORT && !il_work_is_worker()) {
        r->step = il_req_send;
        il_work_step(r);
        return;
    }

    il_req_send(r);
}


void
il_req_file(il_req_t *r, const char *uri)
{
    il_req_header(r, "X-Accel-Redirect", il_cstr(uri));
    r->status = 200;
    r->type = "text/html";
    r->out.len = 0;
    r->file = 1;
    il_req_done(r);
}


void
il_req_problem_text(il_buf_t *b, il_problem_e p, il_str_t detail,
    il_str_t extra)
{
    char    *out;
    size_t   n, cap;

    cap = IL_REQ_PROBLEM_CAP + detail.len * 6 + extra.len;

    out = il_buf_room(b, cap);
    if (out == NULL) {
        return;
    }

    n = il_problem_build(out, cap, p, detail, extra);

    if (n == 0) {
        b->failed = 1;
    }

    b->len += n;
}


void
il_req_problem_more(il_req_t *r, il_problem_e p, il_str_t detail,
    il_str_t extra)
{
    if (r->part != NULL) {
        il_req_problem_text(r->part, p, detail, extra);
        return;
    }

    r->status = il_problem_status(p);
    r->type = "application/problem+json";
    r->out.len = 0;

    /* a handler may know better when it is worth another try */

    if (r->sub != NULL) {
        /* it has no head */

    } else if (r->status == 503
        && (r->head.len == 0
            || memmem(r->head.data, r->head.len, "Retry-After:", 12) == NULL))
    {
        il_req_header(r, "Retry-After", il_cstr("1"));

    } else if (r->status == 401) {
        il_req_header(r, "WWW-Authenticate", il_cstr("Bearer"));
    }

    if (r->tell != NULL) {
        r->tell(r, p);

    } else {
        il_req_problem_text(&r->out, p, detail, extra);
    }

    il_req_done(r);
}


void
il_req_problem(il_req_t *r, il_problem_e p, const char *detail)
{
    il_req_problem_more(r, p, il_cstr(detail), il_str(NULL, 0));
}


void
il_req_unavailable(il_req_t *r)
{
    il_req_problem(r, IL_P_UNAVAILABLE, il_link_state()
                   ? "The server is busy. Try again shortly."
                   : "The database cannot be reached. Try again shortly.");
}


void
il_req_internal(il_req_t *r)
{
    il_req_problem(r, IL_P_INTERNAL, "The request could not be carried out; "
                   "the server's log says why.");
}


void
il_req_abort(il_req_t *r)
{
    il_fcgx_abort(r->conn->fcgi);
    il_req_end(r, 0);
}


void
il_req_fail_item(il_item_t *item, il_problem_e p)
{
    il_req_t  *r = (il_req_t *) item;

    if (p == IL_P_UNAVAILABLE) {
        il_req_unavailable(r);
        return;
    }

    il_req_internal(r);
}


void
il_req_lane(il_req_t *r, il_lane_t *lane)
{
    if (r->sub != NULL) {
        r->sub->queue(r, lane);
        return;
    }

    if (il_lane_put(lane, &r->item) != 0) {
        il_req_unavailable(r);
    }
}


void
il_req_deal(const il_db_result_t *res, il_item_t **items, size_t n,
    void (*answer)(il_req_t *r, const il_db_result_t *res, size_t row),
    void (*missing)(il_req_t *r),
    void (*hint)(il_req_t *r, const il_db_result_t *res, size_t row))
{
    int         col;
    size_t      row, rows, i;
    uint8_t     dealt[IL_CONF_BATCH_MAX];
    int64_t     ord;
    il_item_t  *item;

    memset(dealt, 0, sizeof(dealt));
    col = il_db_column(res, "ord");
    rows = il_db_rows(res);

    for (row = 0; row < rows && hint != NULL; row++) {
        item = il_lane_row_item(res, row, col, items, n);
        if (item != NULL) {
            hint((il_req_t *) item, res, row);
        }
    }

    for (row = 0; row < rows; row++) {
        item = il_lane_row_item(res, row, col, items, n);

        if (item == NULL || il_db_cell_int(res, row, col, &ord) != 0
            || dealt[ord - 1])
        {
            continue;
        }

        dealt[ord - 1] = 1;
        answer((il_req_t *) item, res, row);
    }

    for (i = 0; i < n; i++) {
        if (!dealt[i]) {
            missing((il_req_t *) items[i]);
        }
    }
}
