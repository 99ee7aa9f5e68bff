/*
 * il_time.h: RFC 3339 in UTC, dates of the Gregorian calendar, and the strict
 * number parser for timestamps that come in headers.
 */

#ifndef IL_TIME_H
#define IL_TIME_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_DAY_SECONDS  86400

/* 0000-01-01T00:00:00Z and 10000-01-01T00:00:00Z, Unix seconds. */
#define IL_TIME_FIRST   (-62167219200LL)
#define IL_TIME_END     253402300800LL

#define IL_RFC3339_CAP  32
#define IL_DATE_CAP     11

typedef struct {
    int64_t  year;
    int64_t  month;       /* 1 to 12 */
    int64_t  day;         /* 1 to 31 */
} il_date_t;

/* Days since 1970-01-01, and back; years -2 to 10001. */
int64_t il_date_to_days(const il_date_t *d);
void il_date_from_days(int64_t days, il_date_t *d);

int il_date_is_leap(int64_t year);
int64_t il_date_month_days(int64_t year, int64_t month);

/* "2026-07-24" and a NUL; the length, or 0 if cap is too small or the year is
 * not within 0000 to 9999. */
size_t il_date_format(char *out, size_t cap, const il_date_t *d);

/* "2026-07-24T09:00:00.123Z" (always three digits) and a NUL; the length, or
 * 0 if cap is too small or the year is not within 0000 to 9999. */
size_t il_rfc3339_format(char *out, size_t cap, int64_t unix_ms);

/* Any RFC 3339 time with an offset, years 0000 to 9999 in UTC; what is finer
 * than a millisecond is cut off.  0 or -1. */
int il_rfc3339_parse(il_str_t s, int64_t *unix_ms) IL_MUST_CHECK;

/* RFC 3339, or a number: Unix seconds, or milliseconds if it has 12 digits or
 * more.  The same years.  0 or -1. */
int il_instant_parse(il_str_t s, int64_t *unix_ms) IL_MUST_CHECK;

/* ^[0-9]{1,max_digits}$ (max_digits <= 18): no sign, space, hex.  0 or -1. */
int il_digits_parse(il_str_t s, size_t max_digits, int64_t *value)
    IL_MUST_CHECK;

#pragma GCC visibility pop

#endif /* IL_TIME_H */
