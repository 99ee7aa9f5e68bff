/*
 * il_time.h: RFC 3339 in UTC, and the strict number parser for timestamps
 * that come in headers.
 */

#ifndef IL_TIME_H
#define IL_TIME_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_RFC3339_CAP  32

/* "2026-07-24T09:00:00.123Z" (always three digits) and a NUL; the length, or
 * 0 if cap is too small or the year is not within 0000 to 9999. */
size_t il_rfc3339_format(char *out, size_t cap, int64_t unix_ms);

/* Any RFC 3339 time with an offset, years 0000 to 9999 in UTC; what is finer
 * than a millisecond is cut off.  0 or -1. */
int il_rfc3339_parse(il_str_t s, int64_t *unix_ms) IL_MUST_CHECK;

/* ^[0-9]{1,max_digits}$ (max_digits <= 18): no sign, space, hex.  0 or -1. */
int il_digits_parse(il_str_t s, size_t max_digits, int64_t *value)
    IL_MUST_CHECK;

#pragma GCC visibility pop

#endif /* IL_TIME_H */
