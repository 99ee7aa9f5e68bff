/*
 * events_int.h: the inside of events*.c.  All of it belongs
 * to the events' thread, but for what is said to be under its lock.
 */

#ifndef IL_EVENTS_INT_H
#define IL_EVENTS_INT_H

#include <pthread.h>

#include "db.h"
#include "events.h"
#include "lane.h"
#include "req.h"


#define IL_EVENTS_BEAT  15000       /* ms without anything written */
#define IL_EVENTS_PACE  100         /* ms between two polls of a tenant */
#define IL_EVENTS_POLL  1000        /* and without a hint */


typedef struct il_stream_s  il_stream_t;
typedef struct il_feed_s    il_feed_t;

typedef enum {
    IL_STREAM_NEW = 0,              /* nothing was written yet */
    IL_STREAM_LIVE,                 /* stands where its feed does */
    IL_STREAM_BEHIND                /* goes on from a cursor of its own */
} il_stream_state_e;

struct il_stream_s {
    il_req_t           *r;
    il_stream_t        *next;       /* of its feed, or of those that come */
    il_stream_t        *prev;
    il_feed_t          *feed;
    il_stream_state_e   state;
    const char         *ended;      /* why it is to end, or NULL */
    int                 gone;       /* under the lock: the peer is */
    size_t              ord;        /* in the call about tokens */

    il_str_t            kind;       /* filters; data NULL: any */
    il_str_t            work_key;
    il_str_t            job;

    int                 by_session;
    uint8_t             session[32];        /* its digest */

    char               *cursor;     /* malloc'ed; NULL: none of its own */
    int                 untold;     /* its feed went on without a word */

    il_buf_t            pend;       /* records that the socket had no room
                                       for, from `sent` on */
    size_t              sent;
    int64_t             stuck;      /* since when */
    int64_t             beat;       /* the next one */
};

/* One tenant's. */

struct il_feed_s {
    il_feed_t          *next;
    il_feed_t          *prev;
    int32_t             tenant;
    il_stream_t        *streams;
    size_t              n;
    char               *cursor;     /* malloc'ed; NULL: not asked yet */
    int                 hinted;
    int                 more;       /* there is more to be had at once */
    int64_t             polled;
    int64_t             pace;       /* ms between two polls, when hinted */
};

/* What one call of events_since said. */

typedef struct {
    il_db_result_t     *res;
    size_t              rows;       /* that are jobs */
    int                 reset;
    int                 more;
    il_str_t            cursor;     /* where it goes on; of res */
    int                 col_cursor;
    int                 col_job;
    int                 col_kind;
    int                 col_key;
    int                 col_doc;
} il_news_t;


/* events.c */

/* From a worker: the stream is the thread's.  0; or -1: there is no room, or
 * no time. */
int il_events_join(il_stream_t *s) IL_MUST_CHECK;

/* Calls each(s, arg) for every stream; it may not end it. */
void il_events_each(void (*each)(il_stream_t *s, void *arg), void *arg);

/* 1 once all streams are to end. */
int il_events_draining(void);


/* events_call.c; each: 0, or -1: the database said nothing. */

/* When a feed is to be polled: ms, as il_now_ms() counts. */
int64_t il_feed_due(const il_feed_t *f);

/* A feed goes on, and with it all that stand where it stood. */
int il_feed_poll(il_feed_t *f, il_link_t *link) IL_MUST_CHECK;

/* Those that come without a cursor begin where their feed stands; the others,
 * and those that fell behind, get a page each. */
int il_feed_serve(il_feed_t *f, il_link_t *link) IL_MUST_CHECK;

/* Whose token or session is no longer good gets nothing more. */
int il_events_tokens(il_link_t *link) IL_MUST_CHECK;


/* events_write.c: none of these waits, or ends a stream: a peer that is gone
 * sets s->ended. */

/* The head, and the first words; s->state is the caller's to set. */
void il_stream_start(il_stream_t *s, il_str_t cursor);

/* Writes those of the news that s wants.  Afterwards s is LIVE, if news go as
 * far as `live` says that its feed does; else BEHIND. */
void il_stream_news(il_stream_t *s, const il_news_t *news, int live);

/* Writes that nothing is known of what has changed until the cursor. */
void il_stream_reset(il_stream_t *s, il_str_t cursor);

/* Writes what is left over; then a heartbeat, if it is time. */
void il_stream_flush(il_stream_t *s, int64_t now);

/* Writes the end, if there is room for it. */
void il_stream_close(il_stream_t *s);

/* Takes a copy of where s goes on; out of memory ends it. */
void il_stream_at(il_stream_t *s, il_str_t cursor);

#endif /* IL_EVENTS_INT_H */
