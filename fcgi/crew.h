/*
 * crew.h: threads that take what is due from the database, one thing each at
 * a time, so that no more than so many are under way.
 *
 * The first one asks once a second what is due; while there is something, it
 * wakes the next.  What was taken and never answered (this process died) is
 * due again when its time is over.
 */

#ifndef IL_CREW_H
#define IL_CREW_H

#include <pthread.h>

#include "lane.h"

typedef struct il_crew_s  il_crew_t;

struct il_crew_s {
    const char       *app;          /* of its connections */
    size_t            room;         /* bytes that each thread has for one() */

    /* Takes one thing and deals with it.  1, or 0: nothing is due. */
    int             (*one)(il_crew_t *crew, il_link_t *link, void *room);

    pthread_mutex_t   lock;         /* PTHREAD_MUTEX_INITIALIZER */
    pthread_cond_t    wake;
    int               stop;
    size_t            hints;        /* for threads that sleep */
    size_t            max;          /* of threads; as they start */
    pthread_t        *threads;
    size_t            n;            /* that were started; main()'s */
};

/* Starts n threads (none: nothing is done).  0 or -1. */
int il_crew_start(il_crew_t *crew, size_t n) IL_MUST_CHECK;

/* Has them give up what is under way, and waits for them. */
void il_crew_stop(il_crew_t *crew);

/* There may be something due: look now.  Any thread. */
void il_crew_hint(il_crew_t *crew);

/* 1 once il_crew_stop has begun. */
int il_crew_stopping(const il_crew_t *crew);

#endif /* IL_CREW_H */
