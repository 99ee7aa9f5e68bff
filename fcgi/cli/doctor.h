/*
 * doctor.h: what the checks of `interlock doctor` share.
 */

#ifndef IL_CLI_DOCTOR_H
#define IL_CLI_DOCTOR_H

#include "cli.h"

typedef enum {
    IL_DOCTOR_OK = 0,
    IL_DOCTOR_SKIP,                 /* not looked at */
    IL_DOCTOR_WARN,
    IL_DOCTOR_FAIL,
    IL_DOCTOR_LEVELS
} il_doctor_level_e;

typedef struct {
    int       json;
    unsigned  count[IL_DOCTOR_LEVELS];
    il_buf_t  items;                /* JSON, joined by commas */
} il_doctor_t;

/* One line; advice is shown unless level is ok, and may be NULL. */
void il_doctor_say(il_doctor_t *d, il_doctor_level_e level, const char *check,
    const char *advice, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

void il_doctor_clock(il_doctor_t *d, const char *whose, int64_t off_ms);


/* doctor_files.c; a directory NULL is skipped */

void il_doctor_keys(il_doctor_t *d, const char *dir);
void il_doctor_private(il_doctor_t *d, const char *check, const char *dir);


/* doctor_sources.c */

/* Files of that directory that are named as a scheme is: does nginx take
 * them?  A directory NULL is skipped. */
void il_doctor_sources(il_doctor_t *d, const char *dir);


/* doctor_http.c */

/* Server, edge, and whether the server knows the tokens of that directory
 * (or of --token-file, if tokens is NULL). */
void il_doctor_http(il_doctor_t *d, const il_common_t *c, const char *tokens,
    const char *status_path);


/* doctor_kind.c */

/* What is undecided about a kind.  0, or an exit code with the message
 * written: it could not be looked at. */
int il_doctor_kind(il_doctor_t *d, const il_common_t *c, const char *kind);

#endif /* IL_CLI_DOCTOR_H */
