/*
 * clock.c: see clock.h.
 */

#include <stdlib.h>
#include <time.h>

#include "clock.h"


static int64_t
il_clock_ms(clockid_t id)
{
    struct timespec  ts;

    if (clock_gettime(id, &ts) != 0) {
        abort();    /* cannot happen with these clocks */
    }

    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}


int64_t
il_now_ms(void)
{
    return il_clock_ms(CLOCK_MONOTONIC);
}


int64_t
il_wall_ms(void)
{
    return il_clock_ms(CLOCK_REALTIME);
}
