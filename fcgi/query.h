/*
 * query.h: the query of a path, parameter by parameter.
 *
 * A handler lists the parameters it knows; anything else is refused, and so
 * is one that is there twice.  An empty one counts as not there.
 */

#ifndef IL_QUERY_H
#define IL_QUERY_H

#include "req.h"

typedef struct {
    const char  *name;
    il_str_t     value;             /* decoded, in the pool; data NULL: none */
} il_query_t;

/* All that follow: 0; or -1, and then a problem was answered and r is gone. */

int il_query_read(il_req_t *r, il_query_t *params, size_t n) IL_MUST_CHECK;

/* A whole number within bounds; *out is left alone if not there. */
int il_query_int(il_req_t *r, const il_query_t *q, int64_t min, int64_t max,
    int64_t *out) IL_MUST_CHECK;

/* RFC 3339; "+" stays "+". */
int il_query_time(il_req_t *r, const il_query_t *q, int64_t *unix_ms)
    IL_MUST_CHECK;

/* Answers 400 field-invalid: the parameter's name, then what is wrong. */
void il_query_invalid(il_req_t *r, const char *name, const char *what);

#endif /* IL_QUERY_H */
