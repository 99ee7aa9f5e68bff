/*
 * req.h: one request, from its head to its answer.
 *
 * A request is owned by one thread at a time and handed on: worker → lane →
 * (park table) → lane or worker → il_req_done, after which it is gone.
 * Whoever has the answer finishes it, whatever thread that is.
 */

#ifndef IL_REQ_H
#define IL_REQ_H

#include "auth.h"
#include "buf.h"
#include "il_hash.h"
#include "il_json.h"
#include "il_problem.h"
#include "lane.h"
#include "loop.h"

typedef struct il_route_s  il_route_t;
typedef struct il_sub_s    il_sub_t;

typedef enum {
    IL_M_OTHER = 0, IL_M_GET, IL_M_HEAD, IL_M_POST, IL_M_PUT, IL_M_DELETE
} il_method_e;

#define IL_REQ_ARGS  2

/* Bytes of what tells the edge that a work key's job has ended (hold.h). */
#define IL_HOLD_ENDED  (2 * IL_WORK_BYTES + 1 + IL_UUID_TEXT)

struct il_req_s {
    il_item_t          item;          /* first: lanes queue it */
    il_conn_t         *conn;
    void             (*step)(il_req_t *r);     /* what a worker runs next */

    il_method_e        method;
    il_str_t           uri;           /* raw, with its query */
    il_str_t           path;          /* raw */
    il_str_t           query;         /* raw, without "?" */
    const il_route_t  *route;
    il_str_t           args[IL_REQ_ARGS];      /* decoded path parameters */
    void             (*next)(il_req_t *r);     /* after authentication */
    void             (*missing)(il_req_t *r);
    unsigned           roles;

    il_buf_t           body;
    il_identity_t      who;           /* tenant and role, when known */

    int                status;
    const char        *type;          /* Content-Type of the answer */
    int                file;          /* nginx answers, with a file */
    il_buf_t           head;          /* further header lines */
    il_buf_t           out;

    il_buf_t          *part;          /* while a part of the body is read for
                                         itself: where a problem of it goes,
                                         and does not end the request */

    il_sub_t          *sub;           /* it is one of several calls in a
                                         request's body; or NULL */

    void              *press;         /* of a button, in pool; or NULL */

    /* tells a problem in its own way, in r->out and r->type; or NULL */
    void             (*tell)(il_req_t *r, il_problem_e p);

    void              *op;            /* the handler's own, in pool */
    void             (*lost)(il_req_t *r);     /* the answer could not be
                                                  written; may be NULL */
    il_db_result_t    *res;           /* released with the request */
    il_pool_t          pool;
};

/*
 * One of several calls of owners in the body of one request, each handled as
 * if it had come alone: its fields are those of an object, its token is one
 * of them, and what would queue or answer it tells whoever has them all.  Its
 * conn is NULL.
 */
struct il_sub_s {
    il_json_value_t   object;
    il_str_t          token;          /* data NULL: none */
    int               replayed;       /* the answer is the first one again */
    il_str_t          ended;          /* what would be in Interlock-Work-Done,
                                         in `text`; data NULL: nothing */
    char              text[IL_HOLD_ENDED];

    void            (*queue)(il_req_t *r, il_lane_t *lane);

    /* r->status and r->out are its answer; the last of it, any thread */
    void            (*done)(il_req_t *r);
};

struct il_route_s {
    il_method_e   method;
    const char   *pattern;            /* "{}" is a parameter */
    unsigned      access;             /* IL_ACCESS_… and roles */
    void        (*handler)(il_req_t *r);
};

/* Who may call a route, beside IL_ROLE_… of auth.h. */
#define IL_ACCESS_NONE     0x100
#define IL_ACCESS_OWNER    0x200      /* the handler verifies it */
#define IL_ACCESS_INGRESS  0x400      /* the edge verified it, or a token */
#define IL_ACCESS_EDGE     0x800      /* the edge itself; the handler looks */
#define IL_ACCESS_TICKET   0x1000     /* the handler verifies it */


/* Takes one request from a connection that is readable: reads, routes,
 * authenticates, runs the handler.  A worker's thread. */
void il_req_begin(il_conn_t *conn);

/* A header of the request, or any FastCGI parameter; data NULL if none. */
il_str_t il_req_param(const il_req_t *r, const char *name);

/* The same as common/ asks for headers (il_sig_header_pt), with ctx an
 * il_req_t: HTTP_X_NAME is x-name.  The last one, and how many there are. */
il_str_t il_req_sig_header(void *ctx, const char *lowcase_name,
    size_t *count);

/* Adds a header line to the answer.  Values are ours, never raw input. */
void il_req_header(il_req_t *r, const char *name, il_str_t value);

/* Says that the answer is the first one again. */
void il_req_replayed(il_req_t *r);

/* The answer is JSON; its text goes to the returned buffer. */
il_buf_t *il_req_json(il_req_t *r, int status);

/* Has nginx answer instead, from an internal location of its configuration,
 * with the headers given so far that nginx lets through (Set-Cookie).  Ends
 * the request. */
void il_req_file(il_req_t *r, const char *uri);

/* Answers and ends the request.  Any thread; a long answer is written by a
 * worker.  r is gone afterwards. */
void il_req_done(il_req_t *r);

/* Adds the object of a problem to b; extra is JSON members, or empty. */
void il_req_problem_text(il_buf_t *b, il_problem_e p, il_str_t detail,
    il_str_t extra);

/* Answers with a problem, and ends the request; with r->part set it only adds
 * the problem there. */
void il_req_problem(il_req_t *r, il_problem_e p, const char *detail);
void il_req_problem_more(il_req_t *r, il_problem_e p, il_str_t detail,
    il_str_t extra);

/* A 503 with Retry-After, and a 500. */
void il_req_unavailable(il_req_t *r);
void il_req_internal(il_req_t *r);

/* Ends a request whose peer is gone, without an answer. */
void il_req_abort(il_req_t *r);

/* Frees the request's own memory that a parked one does not need. */
void il_req_settle(il_req_t *r);

/* Queues r for a lane; a full queue answers 503.  r is gone afterwards. */
void il_req_lane(il_req_t *r, il_lane_t *lane);

/* ops->fail of lanes whose items are requests. */
void il_req_fail_item(il_item_t *item, il_problem_e p);

/* Deals out a result whose rows name items by `ord`, at most one row each:
 * hint (may be NULL) for every row first, then answer; missing for those
 * without a row. */
void il_req_deal(const il_db_result_t *res, il_item_t **items, size_t n,
    void (*answer)(il_req_t *r, const il_db_result_t *res, size_t row),
    void (*missing)(il_req_t *r),
    void (*hint)(il_req_t *r, const il_db_result_t *res, size_t row));

/* Requests that have begun and not ended; il_req_count adds to it. */
size_t il_req_inflight(void);
void il_req_count(int by);


/* ------------------------------------------------------------------ reads
 *
 * One call for one request, by the read lane. */

typedef struct il_read_s  il_read_t;

struct il_read_s {
    il_item_t     item;               /* first */
    const char   *sql;
    const char   *signature;
    void        (*put)(il_read_t *read, il_db_args_t *args);

    /* res is NULL if it failed, and p says how; free nothing of res. */
    void        (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p);

    void         *ctx;
};

extern const il_lane_ops_t  il_read_ops;

#endif /* IL_REQ_H */
