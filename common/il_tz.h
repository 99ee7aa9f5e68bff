/*
 * il_tz.h: time zones, from the bytes of a TZif file (RFC 8536).
 *
 * Only the way from an instant to local time is there: it has one answer,
 * whatever the clocks do.  What the C library has for it goes by one global
 * zone (TZ) and is not for a server that knows several.
 */

#ifndef IL_TZ_H
#define IL_TZ_H

#include "il_time.h"

#pragma GCC visibility push(hidden)

#define IL_TZ_FILE_MAX  65536       /* bytes; the largest of tzdata has 4 k */
#define IL_TZ_NAME_MAX  64

/* A day of each year, and the local time of a change on it. */
typedef struct {
    char     form;                  /* 'J', 'M' or, for day 0 to 365, 'D' */
    int      month, week;           /* of 'M' */
    int      day;
    int32_t  time;                  /* seconds, from -167 h to 167 h */
} il_tz_rule_t;

/* What a file says; times, which and types are slices of its bytes.  For
 * il_tz.c only. */
typedef struct {
    const uint8_t  *times;          /* of changes, big endian */
    const uint8_t  *which;          /* type after each change, a byte each */
    const uint8_t  *types;          /* offset, DST, name: 6 bytes each */
    size_t          ntimes;
    size_t          ntypes;
    size_t          width;          /* of a time, 8 or (version 1) 4 */

    /* after the last change */
    int             footer;         /* the rule below holds */
    int             dst;            /* there are two offsets */
    int32_t         offset[2];      /* standard, DST; seconds east of UTC */
    il_tz_rule_t    rule[2];        /* when DST begins, when it ends */
} il_tz_t;

typedef struct {
    il_date_t  date;
    int32_t    seconds;             /* since local midnight by the clock */
    int32_t    offset;              /* seconds east of UTC */
} il_tz_local_t;

/* 1 if name could be a zone's ("Asia/Seoul"): parts of letters, digits, "_",
 * "+" and "-" with "/" between them, so that it is a relative path that leads
 * nowhere else. */
int il_tz_name_valid(il_str_t name);

/* Reads a TZif file of version 1 to 4.  The bytes stay the caller's and must
 * outlive tz.  NULL, or what is wrong with it, as the end of an English
 * sentence ("is not a time zone file"); files that count leap seconds
 * ("right/...") are refused, since Unix time does not. */
const char *il_tz_parse(il_tz_t *tz, il_str_t bytes) IL_MUST_CHECK;

/* Seconds east of UTC at an instant (Unix seconds, years 0000 to 9999). */
int32_t il_tz_offset(const il_tz_t *tz, int64_t at);

/* What the clock on the wall shows.  0, or -1 if the year, there or in UTC,
 * is not within 0000 to 9999. */
int il_tz_local(const il_tz_t *tz, int64_t at, il_tz_local_t *local)
    IL_MUST_CHECK;

/* The local date as il_date_format() writes it, or the day before if the
 * clock shows less than cutoff (seconds since midnight).  The length, or 0 as
 * il_tz_local and il_date_format. */
size_t il_tz_business_date(const il_tz_t *tz, int64_t at, int32_t cutoff,
    char *out, size_t cap);

#pragma GCC visibility pop

#endif /* IL_TZ_H */
