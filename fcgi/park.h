/*
 * park.h: requests that wait, without a thread.
 *
 * Claims wait by (tenant, kind), job look-ups by job.  Hints wake them: of
 * this process, and of others by notify.h; what those miss is found by a slow
 * poll.  A hint is no promise: whoever wakes asks the database, and waits
 * again if it was wrong.
 * One lock guards the table; it is never held while anything is written.
 */

#ifndef IL_PARK_H
#define IL_PARK_H

#include "il_key.h"
#include "il_uuid.h"
#include "req.h"

#define IL_PARK_KINDS_MAX  32

typedef struct il_waiter_s  il_waiter_t;
typedef struct il_pkind_s   il_pkind_t;

typedef struct {
    il_waiter_t  *waiter;
    il_pkind_t   *kind;
    void         *prev;             /* il_pnode_t of the kind's list */
    void         *next;
    int           listed;
} il_pnode_t;

typedef enum {
    IL_WAIT_AWAY = 0,               /* in a lane, or with a worker */
    IL_WAIT_PARKED
} il_wait_state_e;

struct il_waiter_s {
    il_req_t         *r;
    il_wait_state_e   state;
    int               job;          /* waits for a job, not for kinds */
    int64_t           deadline;     /* il_now_ms() */
    int64_t           looked;       /* when it was parked last */
    il_waiter_t      *tprev;        /* timer wheel */
    il_waiter_t      *tnext;
    size_t            slot;

    /* called without the lock, by whoever wakes it; owns r */
    void            (*wake)(il_req_t *r);       /* look again */
    void            (*expire)(il_req_t *r);     /* time is up, or the end */

    uint8_t           job_id[IL_UUID_BYTES];
    il_waiter_t      *jprev;
    il_waiter_t      *jnext;
    int               hinted;

    il_pnode_t       *nodes;        /* nkinds of them */
    size_t            nkinds;
    il_pkind_t       *woken;        /* the kind that a hint was about */
};

typedef struct {
    int32_t  tenant;
    char     kind[IL_NAME_MAX + 1];
} il_park_pair_t;


int  il_park_init(const il_conf_t *conf) IL_MUST_CHECK;
void il_park_free(void);

/* Registers a waiter before its first look, so that no hint is missed in
 * between.  kinds are names; tenant that of r->who.  0, or -1: no room. */
int il_park_join_kinds(il_waiter_t *w, const il_str_t *kinds, size_t n)
    IL_MUST_CHECK;
int il_park_join_job(il_waiter_t *w, const uint8_t job_id[IL_UUID_BYTES])
    IL_MUST_CHECK;

/* The opposite; before the request is answered. */
void il_park_leave(il_waiter_t *w);

/* Parks; or, if a hint came meanwhile, calls wake, or, if time is up, calls
 * expire.  r belongs to the table afterwards. */
void il_park(il_waiter_t *w);

/* For each name of a text[] cell: a job of that kind became runnable by a call
 * of this process.  Wakes a claim here; if none waits, the other interlockds
 * are told. */
void il_park_hint_kinds(int32_t tenant, il_str_t kinds);

/* The same for one kind. */
void il_park_hint(int32_t tenant, il_str_t kind);

/* Another interlockd says so of n jobs: wakes at most so many claims; 0: when
 * the next one is due may have changed. */
void il_park_told(int32_t tenant, il_str_t kind, size_t n);

/* A job of that kind was claimed: with it the next one's time may be set. */
void il_park_claimed(int32_t tenant, il_str_t kind);

/* A woken claim has work of other kinds than that it was woken for: its hint
 * goes to the next.  `kinds` are those that it has got. */
void il_park_pass_on(il_waiter_t *w, const il_str_t *kinds, size_t n);

/* A job of that kind will be runnable at that time (wall clock, ms), by a
 * call of this process. */
void il_park_hint_at(int32_t tenant, il_str_t kind, int64_t at);

/* A job has ended: wakes who waits for it here. */
void il_park_ended(const uint8_t job_id[IL_UUID_BYTES]);

/* All those of a uuid[] cell have, by a call of this process: the others are
 * told. */
void il_park_ended_jobs(il_str_t jobs);

/* Event thread: the peer of a watched connection is gone. */
void il_park_hangup(il_conn_t *conn);

/* Event thread: ends waits whose time is up; all of them when draining. */
void il_park_tick(int64_t now, int all);

/* For the poll: the pairs that have parked claims (at most max), and what it
 * found; ready jobs wake claims, next is when to ask again (0: unknown). */
size_t il_park_pairs(il_park_pair_t *pairs, size_t max);
void il_park_found(const il_park_pair_t *pair, size_t ready, int64_t next);

/* Sleeps until it is time for the poll: in at most ms, or when the next known
 * retry is due, or when il_park_look (then 1) or il_park_stop (then -1) was
 * called. */
int il_park_sleep(int64_t ms);
void il_park_look(void);
void il_park_stop(void);

/* Looks again for every job wait that has waited for ms. */
void il_park_relook(int64_t ms);

/* Waiters that are parked. */
size_t il_park_count(void);

#endif /* IL_PARK_H */
