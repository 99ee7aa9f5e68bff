/*
 * backoff.h: the clock of a lease, and waiting that grows with jitter.
 */

#ifndef IL_CLI_BACKOFF_H
#define IL_CLI_BACKOFF_H

#include <stdint.h>

/* Milliseconds of CLOCK_BOOTTIME: goes on while the machine is suspended,
 * and never jumps with the wall clock. */
int64_t il_boottime_ms(void);

typedef struct {
    int64_t  base;                  /* ms */
    int64_t  cap;                   /* ms */
    int64_t  next;                  /* upper bound of the next wait, ms */
} il_backoff_t;

void il_backoff_init(il_backoff_t *b, int64_t base_ms, int64_t cap_ms);
void il_backoff_reset(il_backoff_t *b);

/* The next wait in ms: random between half the bound and the bound, so that
 * clients cut off together do not come back together, and never 0, so that
 * there is no busy loop.  retry_after in seconds (-1: not said) is a floor,
 * up to the cap. */
int64_t il_backoff_next(il_backoff_t *b, int64_t retry_after);

/* Sleeps for the next wait, at most max_ms. */
void il_backoff_sleep(il_backoff_t *b, int64_t retry_after, int64_t max_ms);

#endif /* IL_CLI_BACKOFF_H */
