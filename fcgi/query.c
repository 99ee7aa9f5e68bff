/*
 * query.c: the query of a path, parameter by parameter.
 */

#include <stdio.h>

#include "il_enc.h"
#include "il_time.h"
#include "query.h"
#include "route.h"


#define IL_QUERY_DETAIL  256


void
il_query_invalid(il_req_t *r, const char *name, const char *what)
{
    char  detail[IL_QUERY_DETAIL];

    (void) snprintf(detail, sizeof(detail), "Query parameter \"%s\" %s.",
                    name, what);
    il_req_problem(r, IL_P_FIELD_INVALID, detail);
}


static void
il_query_unknown(il_req_t *r, il_str_t name)
{
    char  detail[IL_QUERY_DETAIL];

    if (name.data == NULL || name.len > 64 || il_has_control(name)) {
        (void) snprintf(detail, sizeof(detail), "The query has a parameter "
                        "that is not known here.");

    } else {
        (void) snprintf(detail, sizeof(detail), "Query parameter \"%.*s\" is "
                        "not known here.", (int) name.len, name.data);
    }

    il_req_problem(r, IL_P_UNKNOWN_FIELD, detail);
}


/* One "name=value", or "name". */

static int
il_query_part(il_req_t *r, il_str_t part, il_query_t *params, size_t n)
{
    size_t       i;
    il_str_t     name, value;
    const char  *eq;

    eq = memchr(part.data, '=', part.len);
    name = il_str(part.data, eq == NULL ? part.len
                                        : (size_t) (eq - part.data));
    value = eq == NULL ? il_str("", 0)
                       : il_str(eq + 1, part.len - name.len - 1);

    name = il_route_decode(r, name);

    for (i = 0; i < n; i++) {
        if (name.data != NULL && il_str_eq(name, il_cstr(params[i].name))) {
            break;
        }
    }

    if (i == n) {
        il_query_unknown(r, name);
        return -1;
    }

    if (params[i].value.data != NULL) {
        il_query_invalid(r, params[i].name, "is there twice");
        return -1;
    }

    if (value.len == 0) {
        return 0;
    }

    params[i].value = il_route_decode(r, value);

    if (params[i].value.data == NULL) {
        il_query_invalid(r, params[i].name,
                         "is not percent-encoded UTF-8");
        return -1;
    }

    return 0;
}


int
il_query_read(il_req_t *r, il_query_t *params, size_t n)
{
    il_str_t     rest, part;
    const char  *amp;

    rest = r->query;

    while (rest.len > 0) {
        amp = memchr(rest.data, '&', rest.len);
        part = il_str(rest.data, amp == NULL ? rest.len
                                             : (size_t) (amp - rest.data));

        if (part.len > 0 && il_query_part(r, part, params, n) != 0) {
            return -1;
        }

        if (amp == NULL) {
            break;
        }

        rest = il_str(amp + 1, rest.len - part.len - 1);
    }

    return 0;
}


int
il_query_int(il_req_t *r, const il_query_t *q, int64_t min, int64_t max,
    int64_t *out)
{
    char     what[96];
    int64_t  v;

    if (q->value.data == NULL) {
        return 0;
    }

    if (il_digits_parse(q->value, 18, &v) != 0 || v < min || v > max) {
        (void) snprintf(what, sizeof(what),
                        "must be a whole number from %lld to %lld",
                        (long long) min, (long long) max);
        il_query_invalid(r, q->name, what);
        return -1;
    }

    *out = v;

    return 0;
}


int
il_query_time(il_req_t *r, const il_query_t *q, int64_t *unix_ms)
{
    if (q->value.data == NULL) {
        return 0;
    }

    if (il_rfc3339_parse(q->value, unix_ms) != 0) {
        il_query_invalid(r, q->name, "must be a time like "
                         "2026-07-24T09:00:00Z");
        return -1;
    }

    return 0;
}
