
/*
 * Copyright (C) the interlock authors
 */


#ifndef _NGX_HTTP_INTERLOCK_ZONE_H_INCLUDED_
#define _NGX_HTTP_INTERLOCK_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "il_hash.h"
#include "il_problem.h"
#include "il_uuid.h"


/*
 * The shared memory of the edge.  Everything behind this header happens under
 * one lock, in ngx_http_interlock_zone.c; no other file takes it.
 */


#define NGX_HTTP_INTERLOCK_CHECK_BYTES  IL_ENTRY_BYTES
#define NGX_HTTP_INTERLOCK_EPOCH_MAX    32
#define NGX_HTTP_INTERLOCK_LABEL_MAX    128

#define NGX_HTTP_INTERLOCK_ZONES_MAX    32  /* in one configuration */
#define NGX_HTTP_INTERLOCK_ZONE_ID      16  /* bytes; random per memory */
#define NGX_HTTP_INTERLOCK_RING         32  /* refusals that are shown */
#define NGX_HTTP_INTERLOCK_ADDR_MAX     46  /* an address as text, no port */


/* what became of a request at the edge: each request counts once */

typedef enum {
    NGX_HTTP_INTERLOCK_FORWARDED = 0,   /* claimed, sent to the backend */
    NGX_HTTP_INTERLOCK_UNKEYED,         /* sent on, nothing to remember by */
    NGX_HTTP_INTERLOCK_MISMATCH,        /* sent on, key known, other content */
    NGX_HTTP_INTERLOCK_NO_ROOM,         /* sent on, the zone is full */
    NGX_HTTP_INTERLOCK_DRY_RUN,         /* sent on, would have been answered */
    NGX_HTTP_INTERLOCK_SPLIT,           /* sent on, of several elements */
    NGX_HTTP_INTERLOCK_DUPLICATE,       /* answered from the zone */
    NGX_HTTP_INTERLOCK_COALESCED,       /* the same, by its work key */
    NGX_HTTP_INTERLOCK_IN_PROGRESS,     /* 409 or 503 after the wait */
    NGX_HTTP_INTERLOCK_REJECTED,        /* 400 or 401 */
    NGX_HTTP_INTERLOCK_HEAD,            /* HEAD answered with 200 */
    NGX_HTTP_INTERLOCK_HANDSHAKE,       /* a provider's, answered here */
    NGX_HTTP_INTERLOCK_UNFINISHED,      /* ended before it was decided */
    NGX_HTTP_INTERLOCK_OUTCOMES
} ngx_http_interlock_outcome_e;


/*
 * Counters of one location, in shared memory; they are added to without the
 * lock and never removed, so that they keep growing over reloads.
 */

typedef struct ngx_http_interlock_counters_s  ngx_http_interlock_counters_t;

struct ngx_http_interlock_counters_s {
    ngx_http_interlock_counters_t  *next;
    ngx_atomic_t                    requests;
    ngx_atomic_t                    waited;     /* duplicates that waited */
    ngx_atomic_t                    stored;     /* answers remembered */
    ngx_atomic_t                    outcomes[NGX_HTTP_INTERLOCK_OUTCOMES];
    ngx_atomic_t                    rejected[IL_P_MAX];
    size_t                          len;
    u_char                          label[NGX_HTTP_INTERLOCK_LABEL_MAX];
};


/*
 * One request that was refused here: for the status page, so that somebody
 * who sets a provider up sees why it is turned away.  It has nothing of the
 * request itself, which nobody vouches for: no key, no header, no body.
 */

typedef struct {
    ngx_http_interlock_counters_t  *counters;   /* its label; or NULL */
    time_t                          time;       /* seconds since the epoch */
    u_char                          problem;    /* il_problem_e */
    u_char                          addr_len;
    u_char                          addr[NGX_HTTP_INTERLOCK_ADDR_MAX];
} ngx_http_interlock_refusal_t;


/* the identity of a request: which entry, and whether it is the same one */

typedef struct {
    u_char                          hash[IL_ENTRY_BYTES];
    u_char                          check[NGX_HTTP_INTERLOCK_CHECK_BYTES];
} ngx_http_interlock_id_t;


/* what is kept of a 2xx answer: enough for il_answer_build() */

typedef struct {
    u_char                          code;       /* HTTP code - 200 */
    u_char                          decision;   /* il_decision_e */
    u_char                          status;     /* il_status_e */
    u_char                          reason;     /* il_reason_e */
    u_char                          has;        /* IL_ANSWER_HAS_... */
    u_char                          ids[3][IL_UUID_BYTES];
} ngx_http_interlock_answer_t;


typedef enum {
    NGX_HTTP_INTERLOCK_CLAIM_OWNER = 0, /* new entry, *owner is set */
    NGX_HTTP_INTERLOCK_CLAIM_BUSY,      /* in flight, same content */
    NGX_HTTP_INTERLOCK_CLAIM_DONE,      /* *answer is set */
    NGX_HTTP_INTERLOCK_CLAIM_HELD,      /* *answer is set: its work's */
    NGX_HTTP_INTERLOCK_CLAIM_NONE,      /* no id, and no work is held */
    NGX_HTTP_INTERLOCK_CLAIM_MISMATCH,  /* live entry, other content */
    NGX_HTTP_INTERLOCK_CLAIM_NO_ROOM
} ngx_http_interlock_claim_e;


typedef struct ngx_http_interlock_zone_sh_s  ngx_http_interlock_zone_sh_t;

/* process-local view of a zone, one per configuration cycle */

typedef struct {
    ngx_http_interlock_zone_sh_t   *sh;
    ngx_slab_pool_t                *shpool;
    ngx_shm_zone_t                 *shm_zone;
    ngx_atomic_t                   *answered;   /* alone: the last number;
                                                 * of ..._edge.c's memory */
    ngx_log_t                      *log;
    time_t                          done;       /* seconds */
    ngx_msec_t                      in_flight;
    ngx_array_t                     locations;  /* of ..._location_t */
} ngx_http_interlock_zone_t;


/* a location that counts in the zone; *counters is set by zone init */

typedef struct {
    ngx_str_t                       label;
    ngx_http_interlock_counters_t **counters;
} ngx_http_interlock_location_t;


/* a copy of the zone's own numbers */

typedef struct {
    ngx_uint_t                      capacity;   /* entries */
    ngx_uint_t                      in_flight;
    ngx_uint_t                      done;
    ngx_uint_t                      held;       /* work keys */
    ngx_uint_t                      free;       /* entries */
    ngx_uint_t                      free_pages; /* worth of free entries */
    ngx_uint_t                      free_bytes; /* of free entries */
    uint64_t                        evicted;    /* done, for want of room */
    uint64_t                        expired;    /* in flight, by time */
    uint64_t                        no_room;
    uint64_t                        rebuilt;
    uint64_t                        epochs;     /* changes of epoch */
    uint64_t                        answered;   /* alone: the last number */
    size_t                          epoch_len;
    u_char                          epoch[NGX_HTTP_INTERLOCK_EPOCH_MAX];
    u_char                          id[NGX_HTTP_INTERLOCK_ZONE_ID];
    ngx_http_interlock_counters_t  *counters;   /* list, in shared memory */
} ngx_http_interlock_zone_stat_t;


#pragma GCC visibility push(hidden)

/* The zone's init callback: makes the memory, or takes over that of the cycle
 * before.  Runs in the master process. */
ngx_int_t ngx_http_interlock_zone_init(ngx_shm_zone_t *shm_zone, void *data);

/* The random key of the zone's hashes (IL_ENTRY_KEY bytes); it never changes
 * while the memory lives, so it is read without the lock. */
const u_char *ngx_http_interlock_zone_key(ngx_http_interlock_zone_t *zone);

/* A request of this hash will be looked up soon; its check need not be known
 * yet.  No lock. */
void ngx_http_interlock_zone_expect(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *id);

/*
 * Looks the request up and changes nothing: DONE (*answer is set), BUSY or
 * MISMATCH, or NONE if there is no live entry.
 */
ngx_http_interlock_claim_e ngx_http_interlock_zone_look(
    ngx_http_interlock_zone_t *zone, ngx_http_interlock_id_t *id,
    ngx_http_interlock_answer_t *answer);

/*
 * Looks the request up, and makes an entry in flight if there is none.  If
 * its work is held, it is answered with that instead, and its own entry is
 * done at once, for as long as the hold says and at most limit seconds.
 * Either of id and work may be NULL.
 */
ngx_http_interlock_claim_e ngx_http_interlock_zone_claim(
    ngx_http_interlock_zone_t *zone, ngx_http_interlock_id_t *id,
    ngx_http_interlock_id_t *work, time_t limit, uint64_t *owner,
    ngx_http_interlock_answer_t *answer);

/*
 * Repeats of this work with this content get that answer for so many
 * milliseconds; it is kept for their own keys for so many seconds (0: not at
 * all).  With ms 0, nobody does any more.  NGX_DECLINED if there is no room,
 * or the job is known to have ended.
 */
ngx_int_t ngx_http_interlock_zone_hold(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *work, ngx_http_interlock_answer_t *answer,
    ngx_msec_t ms, time_t seconds);

/* A job of this work ended (IL_UUID_BYTES): it is nobody's answer any more,
 * even if its submission's own answer is still on its way.  work->check is
 * not looked at. */
void ngx_http_interlock_zone_over(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *work, u_char *job);

/*
 * Ends a claim.  With an answer the entry becomes done for that many seconds,
 * without one it is removed.  Nothing happens if the entry is not the owner's
 * any more (it expired, and perhaps somebody else has it).  An epoch that
 * differs from the one seen last first invalidates every done entry; owner 0
 * only states the epoch.  NGX_OK if the answer was remembered, else
 * NGX_DECLINED.
 */
ngx_int_t ngx_http_interlock_zone_settle(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_id_t *id, uint64_t owner,
    ngx_http_interlock_answer_t *answer, time_t seconds, ngx_str_t *epoch);

void ngx_http_interlock_zone_stat(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_zone_stat_t *stat);

/*
 * The number of a request that the edge answers alone: 1, 2, 3 and so on
 * without a gap, per zone, over reloads and crashes of workers.  Taken once
 * for each such request, when it is decided; who finds a number missing knows
 * that a request is.  No lock.
 */
uint64_t ngx_http_interlock_zone_number(ngx_http_interlock_zone_t *zone);

/* NGX_HTTP_INTERLOCK_ZONE_ID random bytes that name this memory: numbers are
 * of one memory only.  They never change while it lives; no lock. */
const u_char *ngx_http_interlock_zone_id(ngx_http_interlock_zone_t *zone);

/* Notes a refusal; the oldest is forgotten.  addr is copied, and cut if it is
 * too long; counters may be NULL. */
void ngx_http_interlock_zone_refused(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_counters_t *counters, il_problem_e problem,
    ngx_str_t *addr);

/* Copies the last refusals, newest first, to an array that has room for
 * NGX_HTTP_INTERLOCK_RING; how many there are. */
ngx_uint_t ngx_http_interlock_zone_refusals(ngx_http_interlock_zone_t *zone,
    ngx_http_interlock_refusal_t *refusals);

#pragma GCC visibility pop


#endif /* _NGX_HTTP_INTERLOCK_ZONE_H_INCLUDED_ */
