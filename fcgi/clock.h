/*
 * clock.h: the clocks; interlockd and `interlock` both have it.
 */

#ifndef IL_CLOCK_H
#define IL_CLOCK_H

#include <stdint.h>

/* Milliseconds that never go back, and those of the wall.  Any thread. */
int64_t il_now_ms(void);
int64_t il_wall_ms(void);

#endif /* IL_CLOCK_H */
