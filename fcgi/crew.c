/*
 * crew.c: threads that take what is due from the database.
 */

#include <errno.h>
#include <stdlib.h>

#include "buf.h"
#include "crew.h"
#include "log.h"
#include "server.h"


#define IL_CREW_POLL_MS  1000


/* The first one is told so. */

typedef struct {
    il_crew_t  *crew;
    int         first;
} il_crew_seat_t;


int
il_crew_stopping(const il_crew_t *crew)
{
    return __atomic_load_n(&crew->stop, __ATOMIC_RELAXED);
}


void
il_crew_hint(il_crew_t *crew)
{
    (void) pthread_mutex_lock(&crew->lock);

    if (crew->hints < crew->max) {
        crew->hints++;
    }

    (void) pthread_cond_signal(&crew->wake);
    (void) pthread_mutex_unlock(&crew->lock);
}


/* Until a hint, or, for the first thread, until it is time to ask.  -1 when
 * it is time to end. */

static int
il_crew_sleep(il_crew_t *crew, int first)
{
    int              rc, stop;
    int64_t          until;
    struct timespec  ts;

    until = il_now_ms() + IL_CREW_POLL_MS;
    ts.tv_sec = until / 1000;
    ts.tv_nsec = (until % 1000) * 1000000;

    (void) pthread_mutex_lock(&crew->lock);

    rc = 0;

    while (!crew->stop && crew->hints == 0 && rc != ETIMEDOUT) {
        rc = first ? pthread_cond_timedwait(&crew->wake, &crew->lock, &ts)
                   : pthread_cond_wait(&crew->wake, &crew->lock);
    }

    if (crew->hints > 0) {
        crew->hints--;
    }

    stop = crew->stop;

    (void) pthread_mutex_unlock(&crew->lock);

    return stop ? -1 : 0;
}


static void *
il_crew_main(void *arg)
{
    int              first;
    void            *room;
    il_link_t        link;
    il_crew_t       *crew;
    il_crew_seat_t  *seat = arg;

    crew = seat->crew;
    first = seat->first;
    free(seat);

    room = malloc(crew->room);
    if (room == NULL) {
        il_log(IL_LOG_ERROR, "%s: out of memory", crew->app);
        return NULL;
    }

    il_link_init(&link, &il_srv.conf, crew->app);

    while (il_crew_sleep(crew, first) == 0) {
        while (!il_crew_stopping(crew) && il_link_up(&link) == 0
               && crew->one(crew, &link, room))
        {
            /* void */
        }
    }

    il_link_close(&link);
    free(room);

    return NULL;
}


int
il_crew_start(il_crew_t *crew, size_t n)
{
    il_crew_seat_t      *seat;
    pthread_condattr_t   attr;

    if (n == 0) {
        return 0;
    }

    if (pthread_condattr_init(&attr) != 0
        || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0
        || pthread_cond_init(&crew->wake, &attr) != 0)
    {
        return -1;
    }

    (void) pthread_condattr_destroy(&attr);

    crew->max = n;
    crew->threads = calloc(n, sizeof(pthread_t));
    if (crew->threads == NULL) {
        return -1;
    }

    while (crew->n < n) {
        seat = malloc(sizeof(il_crew_seat_t));
        if (seat == NULL) {
            return -1;
        }

        seat->crew = crew;
        seat->first = (crew->n == 0);

        if (pthread_create(&crew->threads[crew->n], NULL, il_crew_main, seat)
            != 0)
        {
            free(seat);
            return -1;
        }

        crew->n++;
    }

    return 0;
}


void
il_crew_stop(il_crew_t *crew)
{
    size_t  i;

    if (crew->threads == NULL) {
        return;
    }

    (void) pthread_mutex_lock(&crew->lock);
    __atomic_store_n(&crew->stop, 1, __ATOMIC_RELAXED);
    (void) pthread_cond_broadcast(&crew->wake);
    (void) pthread_mutex_unlock(&crew->lock);

    for (i = 0; i < crew->n; i++) {
        (void) pthread_join(crew->threads[i], NULL);
    }

    free(crew->threads);
    crew->threads = NULL;
}
