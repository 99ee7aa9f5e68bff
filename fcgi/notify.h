/*
 * notify.h: what this interlockd tells the others of the same database, and
 * hears from them.
 *
 * A thread with a connection of its own sends (interlock.wake_send, at most
 * once a millisecond) and listens.  Messages are hints: that jobs of a kind
 * became runnable, that jobs have ended.  What gets lost is found by a look
 * at everything once the connection is back, and by the slow poll.
 */

#ifndef IL_NOTIFY_H
#define IL_NOTIFY_H

#include "buf.h"
#include "il_uuid.h"

/* Starts the thread.  0 or -1. */
int il_notify_start(void) IL_MUST_CHECK;

/* Sends what is left, and ends it; nobody may tell anything afterwards. */
void il_notify_stop(void);

/* n jobs of that kind became runnable, more than wait for it here; 0: look
 * when the next one is due.  Any thread; costs nothing while there is no
 * other interlockd. */
void il_notify_kind(int32_t tenant, il_str_t kind, size_t n);

/* A job has ended.  As above. */
void il_notify_ended(const uint8_t job_id[IL_UUID_BYTES]);

/* Its gauges, for /metrics. */
void il_notify_gauges(il_buf_t *out);

#endif /* IL_NOTIFY_H */
