/*
 * log.h: one line an event, to a file or to standard error.
 */

#ifndef IL_LOG_H
#define IL_LOG_H

#include "il_str.h"

typedef enum {
    IL_LOG_ERROR = 0,
    IL_LOG_WARN,
    IL_LOG_NOTICE,
    IL_LOG_INFO,
    IL_LOG_DEBUG
} il_log_level_e;

/* Opens the log; path NULL, "" or "stderr" is standard error.  0 or -1 with
 * errno.  Before it, lines of level notice and above go to standard error. */
int il_log_open(const char *path, il_log_level_e level) IL_MUST_CHECK;

/* Opens the same path again (after rotation).  Safe beside il_log. */
void il_log_reopen(void);

/* Writes one line; control characters come out as "?".  Any thread.  Longer
 * than 2 KB is cut. */
void il_log(il_log_level_e level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The level of that name (error, warn, notice, info, debug), or -1. */
int il_log_level_find(const char *name);

#endif /* IL_LOG_H */
