/*
 * work.h: the pool of worker threads.
 */

#ifndef IL_WORK_H
#define IL_WORK_H

#include "loop.h"

/* Starts n workers; 0 or -1. */
int il_work_start(size_t n) IL_MUST_CHECK;

/* Ends them; what is queued is run first. */
void il_work_stop(void);

/* A connection has a request to be read (il_req_begin).  Event thread. */
void il_work_begin(il_conn_t *conn);

/* The same at once, in this thread: its request has come whole. */
void il_work_now(il_conn_t *conn);

/* Has a worker run r->step.  Any thread. */
void il_work_step(il_req_t *r);

/* 1 in a worker's thread. */
int il_work_is_worker(void);

#endif /* IL_WORK_H */
