/*
 * db_types.c: arguments in PostgreSQL's binary form, built column by column,
 * and cells of its text form, read by type.  Nothing here knows libpq.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"
#include "il_enc.h"
#include "il_time.h"


/* 2000-01-01T00:00:00Z, where PostgreSQL's timestamps start */
#define IL_DB_EPOCH_MS  946684800000LL


typedef struct {
    char      letter;
    unsigned  oid;
    unsigned  array_oid;
} il_db_type_t;


/* server/catalog/pg_type.dat of PostgreSQL 15; these never change */

static const il_db_type_t  il_db_types[] = {
    { 'i',   23, 1007 },
    { 'l',   20, 1016 },
    { 't',   25, 1009 },
    { 'y',   17, 1001 },
    { 'u', 2950, 2951 },
    { 'b',   16, 1000 },
    { 'z', 1184, 1185 },
    { 0, 0, 0 }
};


static const il_db_type_t *
il_db_type(char letter)
{
    const il_db_type_t  *t;

    for (t = il_db_types; t->letter != 0; t++) {
        if (t->letter == letter) {
            return t;
        }
    }

    return NULL;
}


static char *
il_db_reserve(il_db_args_t *a, size_t i, size_t n)
{
    char           *data;
    size_t          cap;
    il_db_param_t  *p;

    if (a->failed || i >= a->n || n > INT32_MAX) {
        a->failed = 1;
        return NULL;
    }

    p = &a->p[i];

    if (p->cap - p->len < n) {
        cap = p->cap * 2;

        if (cap < p->len + n) {
            cap = p->len + n;
        }

        if (cap < 256) {
            cap = 256;
        }

        data = realloc(p->data, cap);
        if (data == NULL) {
            a->failed = 1;
            return NULL;
        }

        p->data = data;
        p->cap = cap;
    }

    data = p->data + p->len;
    p->len += n;

    return data;
}


static void
il_db_be(char *out, uint64_t v, size_t n)
{
    while (n > 0) {
        out[--n] = (char) (v & 0xff);
        v >>= 8;
    }
}


/* Array header: dimensions, has nulls, element type, length, lower bound. */

#define IL_DB_ARRAY_HEADER  20


void
il_db_args_init(il_db_args_t *a, const char *signature)
{
    char    c;
    size_t  i;

    memset(a, 0, sizeof(*a));

    for (i = 0; signature[i] != '\0'; i++) {
        if (i >= IL_DB_ARGS_MAX) {
            a->failed = 1;
            return;
        }

        c = signature[i];
        a->p[i].array = (c >= 'a' && c <= 'z');
        a->p[i].type = (char) (c | 0x20);
        a->n = i + 1;

        if (il_db_type(a->p[i].type) == NULL) {
            a->failed = 1;
            return;
        }

        if (a->p[i].array) {
            (void) il_db_reserve(a, i, IL_DB_ARRAY_HEADER);
        }
    }
}


void
il_db_args_free(il_db_args_t *a)
{
    size_t  i;

    for (i = 0; i < a->n; i++) {
        free(a->p[i].data);
        a->p[i].data = NULL;
    }

    a->n = 0;
}


static void
il_db_put(il_db_args_t *a, size_t i, char type, const char *data, size_t len)
{
    char           *out;
    il_db_param_t  *p;

    if (a->failed || i >= a->n || len > INT32_MAX - 4) {
        a->failed = 1;
        return;
    }

    p = &a->p[i];

    if ((type != 0 && p->type != type) || (!p->array && p->count > 0)) {
        a->failed = 1;
        return;
    }

    p->count++;

    if (data == NULL) {
        p->nulls = 1;

        if (p->array) {
            out = il_db_reserve(a, i, 4);
            if (out != NULL) {
                memset(out, 0xff, 4);
            }
        }

        return;
    }

    out = il_db_reserve(a, i, len + (p->array ? 4 : 0));
    if (out == NULL) {
        return;
    }

    if (p->array) {
        il_db_be(out, len, 4);
        out += 4;
    }

    if (len > 0) {
        memcpy(out, data, len);
    }
}


void
il_db_put_null(il_db_args_t *a, size_t i)
{
    il_db_put(a, i, 0, NULL, 0);
}


void
il_db_put_int(il_db_args_t *a, size_t i, int32_t v)
{
    char  b[4];

    il_db_be(b, (uint64_t) (uint32_t) v, 4);
    il_db_put(a, i, 'i', b, 4);
}


void
il_db_put_big(il_db_args_t *a, size_t i, int64_t v)
{
    char  b[8];

    il_db_be(b, (uint64_t) v, 8);
    il_db_put(a, i, 'l', b, 8);
}


void
il_db_put_bool(il_db_args_t *a, size_t i, int v)
{
    char  b;

    b = (v != 0);
    il_db_put(a, i, 'b', &b, 1);
}


void
il_db_put_text(il_db_args_t *a, size_t i, il_str_t v)
{
    il_db_put(a, i, 't', v.data, v.len);
}


void
il_db_put_bytes(il_db_args_t *a, size_t i, il_str_t v)
{
    il_db_put(a, i, 'y', v.data, v.len);
}


void
il_db_put_uuid(il_db_args_t *a, size_t i, const uint8_t *v)
{
    il_db_put(a, i, 'u', (const char *) v, IL_UUID_BYTES);
}


void
il_db_put_time(il_db_args_t *a, size_t i, int64_t unix_ms)
{
    char  b[8];

    if (unix_ms == INT64_MIN) {
        il_db_put_null(a, i);
        return;
    }

    il_db_be(b, (uint64_t) ((unix_ms - IL_DB_EPOCH_MS) * 1000), 8);
    il_db_put(a, i, 'z', b, 8);
}


int
il_db_args_finish(il_db_args_t *a, unsigned *types, const char **values, int *lens,
    int *formats)
{
    size_t               i, count;
    il_db_param_t       *p;
    const il_db_type_t  *t;

    if (a->failed) {
        return -1;
    }

    count = (size_t) -1;

    for (i = 0; i < a->n; i++) {
        p = &a->p[i];
        t = il_db_type(p->type);

        if (t == NULL) {
            return -1;
        }

        formats[i] = 1;
        types[i] = p->array ? t->array_oid : t->oid;

        if (p->len > INT32_MAX) {
            return -1;
        }

        if (!p->array) {
            if (p->count != 1) {
                return -1;
            }

            /* an empty text has no buffer, and NULL would mean null */

            values[i] = p->nulls ? NULL : (p->data == NULL ? "" : p->data);
            lens[i] = (int) p->len;
            continue;
        }

        if (count != (size_t) -1 && count != p->count) {
            return -1;
        }

        count = p->count;

        il_db_be(p->data, p->count > 0 ? 1 : 0, 4);
        il_db_be(p->data + 4, p->nulls ? 1 : 0, 4);
        il_db_be(p->data + 8, t->oid, 4);
        il_db_be(p->data + 12, p->count, 4);
        il_db_be(p->data + 16, 1, 4);

        values[i] = p->data;
        lens[i] = p->count > 0 ? (int) p->len : 12;
    }

    return 0;
}


/* ----------------------------------------------------------------- cells */


int
il_db_cell_int(const il_db_result_t *res, size_t row, int col, int64_t *v)
{
    char       *end;
    il_str_t    s;
    long long   n;

    s = il_db_cell(res, row, col);
    if (s.data == NULL || s.len == 0) {
        return -1;
    }

    /* libpq ends every cell with a NUL */

    errno = 0;
    n = strtoll(s.data, &end, 10);

    if (errno != 0 || end != s.data + s.len) {
        return -1;
    }

    *v = n;

    return 0;
}


int
il_db_cell_double(const il_db_result_t *res, size_t row, int col, double *v)
{
    char      *end;
    double     d;
    il_str_t   s;

    s = il_db_cell(res, row, col);
    if (s.data == NULL || s.len == 0) {
        return -1;
    }

    d = strtod(s.data, &end);
    if (end != s.data + s.len) {
        return -1;
    }

    *v = d;

    return 0;
}


int
il_db_cell_uuid(const il_db_result_t *res, size_t row, int col,
    uint8_t out[IL_UUID_BYTES])
{
    il_str_t  s;

    s = il_db_cell(res, row, col);

    return s.data == NULL ? -1 : il_uuid_parse(out, s);
}


/* "2026-07-24 09:00:00.123456+00" (DateStyle ISO) as RFC 3339 */

int
il_db_cell_time(const il_db_result_t *res, size_t row, int col,
    int64_t *unix_ms)
{
    char      buf[48];
    size_t    n;
    il_str_t  s;

    s = il_db_cell(res, row, col);
    if (s.data == NULL || s.len < 20 || s.len + 4 > sizeof(buf)) {
        return -1;
    }

    n = s.len;
    memcpy(buf, s.data, n);
    buf[10] = 'T';

    if (buf[n - 3] == '+' || buf[n - 3] == '-') {
        memcpy(buf + n, ":00", 3);
        n += 3;
    }

    return il_rfc3339_parse(il_str(buf, n), unix_ms);
}


int
il_db_cell_bool(const il_db_result_t *res, size_t row, int col)
{
    il_str_t  s;

    s = il_db_cell(res, row, col);

    return s.len == 1 && s.data[0] == 't';
}


size_t
il_db_bytes_len(il_str_t cell)
{
    return cell.len < 2 ? 0 : (cell.len - 2) / 2;
}


int
il_db_bytes_decode(il_str_t cell, uint8_t *out)
{
    if (cell.data == NULL || cell.len < 2 || cell.data[0] != '\\'
        || cell.data[1] != 'x')
    {
        return -1;
    }

    return il_hex_decode(out, (cell.len - 2) / 2,
                         il_str(cell.data + 2, cell.len - 2));
}


int
il_db_uuid_next(il_str_t cell, size_t *pos, uint8_t out[IL_UUID_BYTES])
{
    size_t  p;

    p = *pos;

    while (p < cell.len && (cell.data[p] == '{' || cell.data[p] == ',')) {
        p++;
    }

    if (cell.len - p < IL_UUID_TEXT
        || il_uuid_parse(out, il_str(cell.data + p, IL_UUID_TEXT)) != 0)
    {
        return 0;
    }

    *pos = p + IL_UUID_TEXT;

    return 1;
}


int
il_db_name_next(il_str_t cell, size_t *pos, il_str_t *name)
{
    size_t  p, start;

    if (cell.len == 0) {
        return 0;
    }

    /* a name that reads as null comes in quotes */

    for (p = *pos; p < cell.len && strchr("{,\"", cell.data[p]) != NULL; p++)
    {
        /* void */
    }

    for (start = p; p < cell.len && strchr(",}\"", cell.data[p]) == NULL; p++)
    {
        /* void */
    }

    *name = il_str(cell.data + start, p - start);
    *pos = p;

    return p > start;
}
