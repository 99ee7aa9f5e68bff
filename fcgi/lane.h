/*
 * lane.h: the way to the database.
 *
 * A lane is a queue with one thread and one connection, or a few.  While a
 * call is under way the next batch gathers: there is no timer.  A batch is
 * one SQL call and one commit; its answers are dealt out by the lane's ops.
 *
 *   refused with an unexpected error   run again in halves, until the one bad
 *                                      item is alone and gets a 500
 *   deadlock, timeout, lost connection run again whole, under the same ids,
 *                                      a bounded number of times, then 503
 *   busy                               the next batch; after three times a
 *                                      lane of its own that waits
 *
 * To that lane goes, too, what is about a row that many items here are about
 * already: a hot row has its own transactions, and the batches of all others
 * stay short.  While that lane has some about a row, all about it follow, so
 * that their order is kept.
 *
 * Everything about an item happens in a lane's thread after il_lane_put has
 * taken it, until ops->deal or ops->fail hands it on.
 */

#ifndef IL_LANE_H
#define IL_LANE_H

#include <pthread.h>

#include "conf.h"
#include "db.h"
#include "il_problem.h"

typedef struct il_item_s  il_item_t;
typedef struct il_lane_s  il_lane_t;
typedef struct il_link_s  il_link_t;

struct il_item_s {
    il_item_t  *next;
    int64_t     since;          /* il_now_ms() of il_lane_put */
    size_t      bytes;          /* set before il_lane_put; bounds a batch */
    unsigned    tries;          /* calls whose outcome is not known */
    unsigned    busy;           /* times found busy */
    uint32_t    about;          /* hash of the row that it needs; 0: none */
};

typedef struct {
    const char   *name;
    const char   *app;          /* application_name of its connections */

    /* Runs the call over n items. */
    il_db_rc_e  (*call)(il_lane_t *lane, il_link_t *link, il_item_t **items,
                        size_t n, il_db_result_t **res);

    /* Hands every one of the n items on: answered, or il_lane_busy. */
    void        (*deal)(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
                        il_item_t **items, size_t n);

    /* One item could not be done: IL_P_INTERNAL or IL_P_UNAVAILABLE. */
    void        (*fail)(il_item_t *item, il_problem_e p);

    int           single;       /* one item a call */
    int           reads;        /* an unknown outcome does not matter */
    int           patient;      /* nobody waits for the answer: however long
                                   the database is away, items stay */
} il_lane_ops_t;

struct il_lane_s {
    const il_lane_ops_t  *ops;
    const il_conf_t      *conf;
    il_lane_t            *slow;     /* where busy items go, or NULL */
    int                   waits;    /* this is such a lane */

    pthread_mutex_t       lock;
    pthread_cond_t        ready;
    il_item_t            *head;
    il_item_t           **tail;
    size_t                count;
    size_t                bytes;
    int                   stop;
    uint32_t             *about;    /* items here, by hash; atomic */

    pthread_t            *threads;
    size_t                nthreads;
};


/* ------------------------------------------------------------------ links
 *
 * A link is one connection that is opened again when it is lost, with
 * backoff, and that is used only after ready() has said that this server
 * keeps what it acknowledges. */

#define IL_EPOCH_MAX  32

struct il_link_s {
    const il_conf_t  *conf;
    const char       *app;
    il_db_t          *db;
    char              epoch[IL_EPOCH_MAX + 1];
    int64_t           next;         /* not before: il_now_ms() */
    int64_t           tried;        /* the last attempt */
    unsigned          doubts;       /* those that it has looked into */
    int64_t           since;        /* down since, or 0 */
    int64_t           backoff;
    char              why[IL_DB_ERR_CAP];
};

void il_link_init(il_link_t *link, const il_conf_t *conf, const char *app);

/* Connects if need be and if it is time.  0, or -1: link->why. */
int il_link_up(il_link_t *link);

/* Asks ready() again; closes the link if it may not be used.  0 or -1. */
int il_link_check(il_link_t *link) IL_MUST_CHECK;

void il_link_close(il_link_t *link);

/* il_db_call with the configured deadline; logs what failed. */
il_db_rc_e il_link_call(il_link_t *link, const char *sql, il_db_args_t *args,
    il_db_result_t **res) IL_MUST_CHECK;

/* 1 if the latest attempt of any link to reach the database succeeded. */
int il_link_state(void);

/* Why ready() refused this server, if that is why there is no link; or "".
 * Returns out. */
const char *il_link_refusal(char *out, size_t cap);


/* ------------------------------------------------------------------ lanes */

/* Starts n threads.  0 or -1. */
int il_lane_start(il_lane_t *lane, const il_lane_ops_t *ops,
    const il_conf_t *conf, size_t n) IL_MUST_CHECK;

/* Queues an item.  0, or -1 if the queue is full: the item is the caller's. */
int il_lane_put(il_lane_t *lane, il_item_t *item) IL_MUST_CHECK;

/* The same for n > 0 items, chained by `next`: all of them, in their order,
 * or none. */
int il_lane_put_all(il_lane_t *lane, il_item_t *first, size_t n)
    IL_MUST_CHECK;

/* From ops->deal only: the item's row was locked by somebody else. */
void il_lane_busy(il_lane_t *lane, il_item_t *item);

/* Items that wait, for the metrics. */
size_t il_lane_depth(il_lane_t *lane);

/* From now on nothing is tried again.  Any thread. */
void il_lane_hurry(void);

/* Fails what is queued, ends the threads and waits for them. */
void il_lane_stop(il_lane_t *lane);

/* Puts the array arguments of a call that has one signature letter a column:
 * helper of ops->call. */
il_db_rc_e il_lane_call_rows(il_link_t *link, const char *sql,
    const char *signature, void (*put)(il_db_args_t *args, il_item_t *item),
    void (*put_last)(il_db_args_t *args, const il_lane_t *lane),
    const il_lane_t *lane, il_item_t **items, size_t n, il_db_result_t **res)
    IL_MUST_CHECK;

/* The item that a row's `ord` names, or NULL; column by il_db_column. */
il_item_t *il_lane_row_item(const il_db_result_t *res, size_t row, int col,
    il_item_t **items, size_t n);

#endif /* IL_LANE_H */
