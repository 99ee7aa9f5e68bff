/*
 * loop.h: the event thread and the connections.
 *
 * One thread waits in epoll for new connections, for the next request on
 * idle ones and for hang-ups of parked ones.  All that belongs to epoll, and
 * the end of every connection, happens in that thread; others hand
 * connections back to it.
 */

#ifndef IL_LOOP_H
#define IL_LOOP_H

#include "conf.h"
#include "fcgx.h"

typedef struct il_conn_s  il_conn_t;
typedef struct il_req_s   il_req_t;

typedef enum {
    IL_CONN_BUSY = 0,         /* somebody else has it */
    IL_CONN_IDLE,             /* armed for the next request */
    IL_CONN_WATCHED           /* armed for a hang-up */
} il_conn_state_e;

struct il_conn_s {
    il_fcgx_t        *fcgi;
    il_req_t         *req;          /* of the thread that has it */
    int               fd;
    il_conn_state_e   state;        /* the event thread's, or of whoever arms
                                       it for the next request */
    int               told;         /* of the thread that has it: it was
                                       handed back to be watched */
    int               message;      /* under the loop's lock */
    il_conn_t        *queued;       /* messages, under the loop's lock */
    il_conn_t        *task;         /* the workers' queue, under its lock */
    il_conn_t        *prev;
    il_conn_t        *next;
    void             *parked;       /* the park table's, under its lock */
    void             *stream;       /* events.c's, under its lock */
};


/* Opens the listening socket and makes the rest.  0, or -1 with a message. */
int il_loop_init(const il_conf_t *conf, char *err, size_t cap) IL_MUST_CHECK;

/* Runs until a signal has ended it and what was in flight is answered.
 * 0: all of it; 1: the drain timeout came first. */
int il_loop_run(void) IL_MUST_CHECK;

/* Closes and frees every connection; after the other threads have ended. */
void il_loop_stop(void);

/* 1 once a signal has asked for the end.  Any thread. */
int il_loop_draining(void);

/* Hand a connection back, from any thread; it must not be touched after:
 * for the next request, for its end, or while its request is parked or an
 * event stream (then il_park_hangup or il_events_hangup is called for it). */
void il_loop_rearm(il_conn_t *conn);
void il_loop_close(il_conn_t *conn);
void il_loop_watch(il_conn_t *conn);

#endif /* IL_LOOP_H */
