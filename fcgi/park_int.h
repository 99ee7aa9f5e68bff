/*
 * park_int.h: the park table's inside, for park.c and park_wake.c.  All of it
 * is under il_pt.lock.
 */

#ifndef IL_PARK_INT_H
#define IL_PARK_INT_H

#include <pthread.h>

#include "park.h"


#define IL_PARK_KIND_SLOTS  1024
#define IL_PARK_JOB_SLOTS   4096
#define IL_PARK_WHEEL       512
#define IL_PARK_TICK        100
#define IL_PARK_SOON        20


/* `credit`: hints that found nobody parked, for those who were on their way.
 * They look once more before they park. */

struct il_pkind_s {
    il_pkind_t  *next;
    int32_t      tenant;
    char         name[IL_NAME_MAX + 1];
    il_pnode_t  *first;
    il_pnode_t  *last;
    size_t       members;           /* waiters that joined */
    size_t       parked;
    size_t       credit;
    int64_t      next_at;           /* wall clock, or 0 */
};


typedef struct {
    pthread_mutex_t    lock;
    pthread_cond_t     due;
    int                stop;
    int                look;          /* everything is to be looked at */
    size_t             max;
    size_t             members;
    size_t             parked;
    il_pkind_t        *kinds[IL_PARK_KIND_SLOTS];
    il_waiter_t       *jobs[IL_PARK_JOB_SLOTS];
    il_waiter_t       *wheel[IL_PARK_WHEEL];
    int64_t            turned;      /* the wheel's time, in ticks */
} il_park_table_t;

extern il_park_table_t  il_pt;

/* The kind's entry; made if need be, or NULL. */
il_pkind_t *il_park_kind(int32_t tenant, il_str_t name, int make);

/* The chain of waiters that this job is in. */
il_waiter_t **il_park_job_slot(const uint8_t id[IL_UUID_BYTES]);

/* Has the poll look at the kind shortly, if anybody waits for it: what made us
 * look may have come for several, or for a time that only the database knows.
 * With the lock held. */
void il_park_soon(il_pkind_t *k);

/* Takes a parked waiter out of every list: it is the caller's now. */
void il_park_unpark(il_waiter_t *w);

#endif /* IL_PARK_INT_H */
