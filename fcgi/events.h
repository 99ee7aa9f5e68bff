/*
 * events.h: GET /v1/events, server-sent events of job changes.
 *
 * A stream is a request whose answer does not end.  It holds no thread: one
 * thread for all of them asks the database what has changed
 * (interlock.events_since), once a tenant, when a hint says that something
 * may have or else once a second, and writes without waiting.  A reader that
 * does not keep up gets nothing more until its socket has room, and then what
 * has changed since: the newest state of each job, however many there were.
 *
 * The stream's format is the HTML standard's, section 9.2 (Server-sent
 * events).
 */

#ifndef IL_EVENTS_H
#define IL_EVENTS_H

#include "buf.h"
#include "conf.h"
#include "loop.h"

/* Starts the thread.  0 or -1. */
int il_events_start(const il_conf_t *conf) IL_MUST_CHECK;

/* Ends it; before it the streams end (il_events_tick). */
void il_events_stop(void);

/* A job may have changed, here or elsewhere.  Any thread; costs nothing while
 * there is no stream. */
void il_events_hint(void);

/* A session has ended in this process: streams of sessions or tokens that are
 * no longer good get nothing more from the next round on, instead of within
 * four seconds.  Any thread. */
void il_events_look(void);

/* Event thread: the peer of a watched connection is gone; nothing happens if
 * it is no stream's. */
void il_events_hangup(il_conn_t *conn);

/* Event thread: when draining, every stream ends. */
void il_events_tick(int draining);

/* Its gauges, for /metrics. */
void il_events_gauges(il_buf_t *out);

#endif /* IL_EVENTS_H */
