/*
 * schedule.h: what the handlers about schedules share.
 */

#ifndef IL_SCHEDULE_H
#define IL_SCHEDULE_H

#include "query.h"

#define IL_SCHEDULE_STEP  200       /* works in one transaction */

/* The first path parameter is the name of a schedule.  0, or -1 and it was
 * answered. */
int il_schedule_named(il_req_t *r) IL_MUST_CHECK;

/* 1 for a date like 2026-07-24. */
int il_schedule_is_date(il_str_t s);

/* A cursor of slots or gaps: a time (digits), a dot, the place within it.  0,
 * or -1 and it was answered. */
int il_schedule_cursor(il_req_t *r, const il_query_t *q) IL_MUST_CHECK;

#endif /* IL_SCHEDULE_H */
