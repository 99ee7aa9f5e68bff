/*
 * backoff.c: the clock of a lease, and waiting that grows with jitter.
 */

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "backoff.h"
#include "cli.h"


int64_t
il_boottime_ms(void)
{
    struct timespec  ts;

    if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0) {

        /* cannot happen on Linux; going on with no clock would be unsafe */

        il_err("cannot read CLOCK_BOOTTIME");
        _exit(EX_OSERR);
    }

    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}


void
il_backoff_init(il_backoff_t *b, int64_t base_ms, int64_t cap_ms)
{
    b->base = base_ms;
    b->cap = cap_ms;
    b->next = base_ms;
}


void
il_backoff_reset(il_backoff_t *b)
{
    b->next = b->base;
}


int64_t
il_backoff_next(il_backoff_t *b, int64_t retry_after)
{
    int64_t  ms, floor_ms;

    ms = b->next / 2;
    ms += (int64_t) randombytes_uniform((uint32_t) (b->next - ms) + 1);

    b->next = (b->next * 2 > b->cap) ? b->cap : b->next * 2;

    if (retry_after > 0) {
        floor_ms = retry_after > b->cap / 1000 ? b->cap : retry_after * 1000;
        ms += floor_ms;
    }

    return ms < 1 ? 1 : ms;
}


void
il_backoff_sleep(il_backoff_t *b, int64_t retry_after, int64_t max_ms)
{
    int64_t          ms;
    struct timespec  ts;

    ms = il_backoff_next(b, retry_after);

    if (ms > max_ms) {
        ms = max_ms;
    }

    if (ms <= 0) {
        return;
    }

    ts.tv_sec = (time_t) (ms / 1000);
    ts.tv_nsec = (long) (ms % 1000) * 1000000;

    while (nanosleep(&ts, &ts) != 0 && errno == EINTR) { /* void */ }
}
