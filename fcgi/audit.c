/*
 * audit.c: what became of a work key, in order, and what a kind's numbers
 * advise.
 */

#include "doc.h"
#include "il_key.h"
#include "query.h"
#include "route.h"


#define IL_CURSOR_TIME   18        /* digits */
#define IL_CURSOR_PLACE  80
#define IL_RECOVERY_MAX  86400


typedef struct {
    il_str_t  cursor;              /* data NULL: none */
    int64_t   limit;
} il_audit_t;


static void
il_audit_put(il_read_t *read, il_db_args_t *args)
{
    il_doc_t    *d = (il_doc_t *) read;
    il_audit_t  *a = d->more;

    il_doc_put(read, args);
    il_db_put_int(args, 2, (int32_t) a->limit);
    il_db_put_text(args, 3, a->cursor);
}


static size_t
il_audit_digits(il_str_t s, size_t at)
{
    size_t  n;

    for (n = 0; at + n < s.len && s.data[at + n] >= '0'
                && s.data[at + n] <= '9'; n++)
    {
        /* void */
    }

    return n;
}


/* A time in microseconds, a sort of entry, and what orders those of one time,
 * as the database gave it: "1790000000000000.1.0198a000-…". */

static int
il_audit_cursor(il_str_t s)
{
    char    c;
    size_t  i, n;

    i = s.len > 0 && s.data[0] == '-';

    n = il_audit_digits(s, i);
    i += n;

    if (n < 1 || n > IL_CURSOR_TIME || s.len - i < 4
        || s.data[i] != '.' || il_audit_digits(s, i + 1) != 1
        || s.data[i + 2] != '.' || s.len - i - 3 > IL_CURSOR_PLACE)
    {
        return -1;
    }

    for (i += 3; i < s.len; i++) {
        c = s.data[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.'
              || c == '-'))
        {
            return -1;
        }
    }

    return 0;
}


void
il_audit_get(il_req_t *r)
{
    il_doc_t    *d;
    il_audit_t  *a;
    il_query_t   q[] = {
        { .name = "work_key" }, { .name = "limit" }, { .name = "cursor" }
    };

    if (il_query_read(r, q, 3) != 0) {
        return;
    }

    if (q[0].value.data == NULL) {
        il_query_invalid(r, "work_key", "is missing");
        return;
    }

    /* as a work key of a path */

    r->args[0] = q[0].value;

    if (il_doc_key(r) != 0) {
        return;
    }

    a = il_pool_get(&r->pool, sizeof(il_audit_t));
    if (a == NULL) {
        il_req_internal(r);
        return;
    }

    a->limit = IL_DOC_LIMIT;
    a->cursor = q[2].value;

    if (il_query_int(r, &q[1], 1, IL_DOC_LIMIT_MAX, &a->limit) != 0) {
        return;
    }

    if (a->cursor.data != NULL && il_audit_cursor(a->cursor) != 0) {
        il_query_invalid(r, "cursor", "is not one that this list gave");
        return;
    }

    d = il_doc_new(r, "select * from interlock.audit($1, $2, $3, $4)",
                   "ITIT", il_audit_put, il_doc_done);
    if (d != NULL) {
        d->more = a;
        il_doc_queue(d);
    }
}


/* ------------------------------------------------------------------ advice */


void
il_audit_advice(il_req_t *r)
{
    int64_t      recovery;
    il_doc_t    *d;
    il_query_t   q[] = { { .name = "recovery" } };

    recovery = -1;

    if (il_query_read(r, q, 1) != 0
        || il_query_int(r, &q[0], 1, IL_RECOVERY_MAX, &recovery) != 0)
    {
        return;
    }

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_KIND_UNKNOWN, "There is no such kind.");
        return;
    }

    d = il_doc_new(r, "select * from interlock.kind_advice($1, $2, $3)",
                   "ITI", il_doc_put_number, il_doc_done);
    if (d != NULL) {
        d->number = recovery;
        d->missing = "There is no such kind.";
        il_doc_queue(d);
    }
}
