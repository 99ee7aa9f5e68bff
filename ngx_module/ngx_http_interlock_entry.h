
/*
 * Copyright (C) the interlock authors
 */


#ifndef _NGX_HTTP_INTERLOCK_ENTRY_H_INCLUDED_
#define _NGX_HTTP_INTERLOCK_ENTRY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_interlock_zone.h"


/*
 * The inside of a zone, for ngx_http_interlock_zone.c alone: it holds the
 * lock, and has raised the dirty flag before whatever changes something.
 */


#define NGX_HTTP_INTERLOCK_S_FLIGHT  1
#define NGX_HTTP_INTERLOCK_S_DONE    2
#define NGX_HTTP_INTERLOCK_S_HELD    3   /* a work key: its job is active */
#define NGX_HTTP_INTERLOCK_S_OVER    4   /* a work key: that job ended */


/*
 * One entry, in two lines of the processor's cache: what a look-up reads, and
 * what it finds.  Times are in tenths of a second of ngx_current_msec, which
 * is monotonic and the same in all workers; 32 bits of them wrap after 13
 * years, so signed differences do.
 *
 * Nodes are numbered from 1; 0 is none.  The first field is not the entry's:
 * the n-th node is the n-th bucket of a hash table, too, which so is as large
 * as the part of the zone that was ever used, and grows with it, a bucket at
 * a time (linear hashing: Litwin, 1980).
 */

typedef struct {
    uint32_t                        bucket;     /* its first entry */
    uint32_t                        next;       /* in this entry's bucket */
    uint64_t                        key;        /* first half of the hash */
    u_char                          rest[IL_ENTRY_BYTES - 8];
    u_char                          check[NGX_HTTP_INTERLOCK_CHECK_BYTES];
    u_char                          state;
    u_char                          generation; /* done: of the epoch */
    u_char                          code;
    u_char                          decision;
    u_char                          status;
    u_char                          reason;
    u_char                          has;
    uint32_t                        expires;
    ngx_queue_t                     queue;
    union {
        uint64_t                    owner;      /* in flight */
        u_char                      ids[3][IL_UUID_BYTES];  /* done */
        struct {
            u_char                  ids[2][IL_UUID_BYTES];
            uint32_t                done;       /* seconds, for the repeat */
        } held;                                 /* held, over: ids[0] only */
    } u;
    u_char                          spare[8];
} ngx_http_interlock_node_t;


_Static_assert(sizeof(ngx_http_interlock_node_t) == 128,
               "an entry is 128 bytes");


struct ngx_http_interlock_zone_sh_s {
    uint64_t                        magic;
    size_t                          node_size;
    volatile ngx_uint_t             dirty;      /* a change is under way */

    u_char                          key[IL_ENTRY_KEY];
    u_char                          id[NGX_HTTP_INTERLOCK_ZONE_ID];

    /*
     * The last refusals; nrefusals counts all of them.  Protected by
     * shpool->mutex, but not by the dirty flag: a slot that a dying worker
     * left half written shows a wrong line once, and is no reason to forget
     * entries.
     */

    ngx_http_interlock_refusal_t    refusals[NGX_HTTP_INTERLOCK_RING];
    uint64_t                        nrefusals;

    u_char                          log_ctx[NGX_HTTP_INTERLOCK_LABEL_MAX];

    /* everything down to "counters" is protected by shpool->mutex */

    uint32_t                        mask;       /* as many buckets as are
                                                 * used, rounded up to a power
                                                 * of two, minus one */
    ngx_queue_t                     flight;     /* newest first, by claim */
    ngx_queue_t                     done;       /* newest first, by answer */
    ngx_queue_t                     held;       /* newest first; and over */
    ngx_queue_t                     free;
    ngx_http_interlock_node_t      *nodes;
    ngx_uint_t                      capacity;
    ngx_uint_t                      used;       /* bump pointer */

    uint64_t                        owner;      /* last one handed out */
    u_char                          generation;
    size_t                          epoch_len;
    u_char                          epoch[NGX_HTTP_INTERLOCK_EPOCH_MAX];

    ngx_uint_t                      nflight;
    ngx_uint_t                      ndone;
    ngx_uint_t                      nstale;     /* done, of older epochs */
    ngx_uint_t                      nheld;
    uint64_t                        evicted;
    uint64_t                        expired;
    uint64_t                        no_room;
    uint64_t                        rebuilt;
    uint64_t                        epochs;

    ngx_http_interlock_counters_t  *counters;
};


#define ngx_http_interlock_now()                                              \
    ((uint32_t) ((uint64_t) ngx_current_msec / 100))


#pragma GCC visibility push(hidden)

/* Makes everything free, in constant time: no node is touched. */
void ngx_http_interlock_entry_forget(ngx_http_interlock_zone_sh_t *sh);

/* The entry of this hash, or NULL; it may be expired. */
ngx_http_interlock_node_t *ngx_http_interlock_entry_lookup(
    ngx_http_interlock_zone_sh_t *sh, ngx_http_interlock_id_t *id);

/* Has the memory that a look-up reads first brought near.  The lock need not
 * be held: nothing is read of it, and a wrong place does no harm. */
void ngx_http_interlock_entry_prefetch(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_id_t *id);

/* 1 unless it is expired or, if it has an answer, of an epoch that is over. */
ngx_uint_t ngx_http_interlock_entry_live(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node);

/* What a live entry says to this request: BUSY, DONE or MISMATCH. */
ngx_http_interlock_claim_e ngx_http_interlock_entry_judge(
    ngx_http_interlock_node_t *node, ngx_http_interlock_id_t *id,
    ngx_http_interlock_answer_t *answer);

/* A new entry in flight, with an owner of its own; NULL if there is no room,
 * that is if everything is in flight. */
ngx_http_interlock_node_t *ngx_http_interlock_entry_add(
    ngx_http_interlock_zone_sh_t *sh, ngx_http_interlock_id_t *id,
    ngx_msec_t in_flight);

/* The entry of a work key, in place of the one that was there: its answer is
 * given to repeats for ms milliseconds, and kept for their own keys for so
 * many seconds.  NULL if there is no room. */
ngx_http_interlock_node_t *ngx_http_interlock_entry_hold(
    ngx_http_interlock_zone_sh_t *sh, ngx_http_interlock_id_t *work,
    ngx_http_interlock_answer_t *answer, ngx_msec_t ms, time_t seconds);

/* The entry of a work key, in place of the one that was there: this job must
 * not be held any more, should its own answer come later than its end.  Takes
 * nothing from what is in use; NULL if nothing is free. */
ngx_http_interlock_node_t *ngx_http_interlock_entry_over(
    ngx_http_interlock_zone_sh_t *sh, ngx_http_interlock_id_t *work,
    u_char *job);

/* What an entry of a work key says to this request: 1 and *answer if it is
 * held with the same content, else 0. */
ngx_uint_t ngx_http_interlock_entry_held(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node, ngx_http_interlock_id_t *work,
    ngx_http_interlock_answer_t *answer, time_t *seconds);

/* From in flight to done. */
void ngx_http_interlock_entry_done(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node, ngx_http_interlock_answer_t *answer,
    time_t seconds);

void ngx_http_interlock_entry_remove(ngx_http_interlock_zone_sh_t *sh,
    ngx_http_interlock_node_t *node);

/* Removes expired entries, at most two of each queue: the work per claim
 * stays bounded. */
void ngx_http_interlock_entry_expire(ngx_http_interlock_zone_sh_t *sh);

/* Notes the epoch; if it changed, no done entry is live any more. */
void ngx_http_interlock_entry_epoch(ngx_http_interlock_zone_sh_t *sh,
    ngx_str_t *epoch);

#pragma GCC visibility pop


#endif /* _NGX_HTTP_INTERLOCK_ENTRY_H_INCLUDED_ */
