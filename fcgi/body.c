/*
 * body.c: JSON bodies, field by field.
 */

#include <stdio.h>

#include "body.h"
#include "il_enc.h"
#include "il_time.h"


#define IL_BODY_DETAIL   256
#define IL_BODY_SUB_MAX  16      /* fields of a call */


void
il_body_invalid(il_req_t *r, const char *name, const char *what)
{
    char  detail[IL_BODY_DETAIL];

    (void) snprintf(detail, sizeof(detail), "Field \"%s\" %s.", name, what);
    il_req_problem(r, IL_P_FIELD_INVALID, detail);
}


static unsigned
il_body_type(il_json_type_e type)
{
    switch (type) {
    case IL_JSON_STRING:
        return IL_T_STRING;
    case IL_JSON_NUMBER:
        return IL_T_NUMBER;
    case IL_JSON_TRUE:
    case IL_JSON_FALSE:
        return IL_T_BOOL;
    case IL_JSON_ARRAY:
        return IL_T_ARRAY;
    case IL_JSON_OBJECT:
        return IL_T_OBJECT;
    default:
        return 0;
    }
}


static const char *
il_body_expected(unsigned types)
{
    switch (types) {
    case IL_T_STRING:
        return "must be a string";
    case IL_T_NUMBER:
        return "must be a number";
    case IL_T_BOOL:
        return "must be true or false";
    case IL_T_ARRAY:
        return "must be an array";
    case IL_T_OBJECT:
        return "must be an object";
    case IL_T_STRING | IL_T_ARRAY:
        return "must be a string or an array";
    default:
        return "is not of a type that is allowed here";
    }
}


static void
il_body_unknown(il_req_t *r, il_str_t name, const char *in)
{
    char    detail[IL_BODY_DETAIL], text[64];
    size_t  len;

    if (il_json_unescape(name, text, sizeof(text), &len) != 0
        || il_has_control(il_str(text, len)))
    {
        (void) snprintf(detail, sizeof(detail), "The body has a field that "
                        "is not known here.");

    } else {
        (void) snprintf(detail, sizeof(detail), "Field \"%s%s%.*s\" is not "
                        "known here.", in, in[0] == '\0' ? "" : ".",
                        (int) len, text);
    }

    il_req_problem(r, IL_P_UNKNOWN_FIELD, detail);
}


static il_field_t *
il_body_find(il_str_t raw, il_field_t *fields, size_t n)
{
    char      name[64];
    size_t    i, len;
    il_str_t  s;

    if (il_json_unescape(raw, name, sizeof(name), &len) != 0) {
        return NULL;
    }

    s = il_str(name, len);

    for (i = 0; i < n; i++) {
        if (il_str_eq(s, il_cstr(fields[i].name))) {
            return &fields[i];
        }
    }

    return NULL;
}


int
il_body_object(il_req_t *r, il_json_value_t object, const char *in,
    il_field_t *fields, size_t n)
{
    char              detail[IL_BODY_DETAIL];
    size_t            pos;
    unsigned          named[2] = { 0, 0 };
    unsigned          bit, *word;
    il_str_t          name;
    il_field_t       *f;
    il_json_value_t   value;

    pos = 0;

    while (il_json_next(object, &pos, &name, &value)) {

        f = il_body_find(name, fields, n);
        if (f == NULL) {
            il_body_unknown(r, name, in);
            return -1;
        }

        word = &named[(f - fields) / 32];
        bit = 1u << ((f - fields) % 32);

        if (*word & bit) {
            (void) snprintf(detail, sizeof(detail), "Field \"%s\" is there "
                            "twice.", f->name);
            il_req_problem(r, IL_P_JSON_INVALID, detail);
            return -1;
        }

        *word |= bit;

        if (value.type == IL_JSON_NULL && f->types != IL_T_ANY) {
            continue;
        }

        if (f->types != IL_T_ANY && !(il_body_type(value.type) & f->types)) {
            il_body_invalid(r, f->name, il_body_expected(f->types));
            return -1;
        }

        f->seen = 1;
        f->value = value;
    }

    return 0;
}


/* The fields of one of several calls, beside what makes it one of them. */

static int
il_body_sub(il_req_t *r, il_field_t *fields, size_t n)
{
    il_field_t  all[IL_BODY_SUB_MAX + 2];

    if (n > IL_BODY_SUB_MAX) {
        il_req_internal(r);
        return -1;
    }

    if (n > 0) {
        memcpy(all, fields, n * sizeof(il_field_t));
    }

    memset(&all[n], 0, 2 * sizeof(il_field_t));
    all[n].name = "owner_token";
    all[n].types = IL_T_STRING;
    all[n + 1].name = "call";
    all[n + 1].types = IL_T_STRING;

    if (il_body_object(r, r->sub->object, "", all, n + 2) != 0) {
        return -1;
    }

    if (n > 0) {
        memcpy(fields, all, n * sizeof(il_field_t));
    }

    return 0;
}


int
il_body_fields(il_req_t *r, il_field_t *fields, size_t n, int empty)
{
    il_json_rc_e     rc;
    il_json_value_t  object;

    if (r->sub != NULL) {
        return il_body_sub(r, fields, n);
    }

    if (r->body.len == 0 && empty) {
        return 0;
    }

    rc = il_json_find(il_buf_str(&r->body), il_str("", 0), &object);

    if (rc == IL_JSON_TOO_DEEP) {
        il_req_problem(r, IL_P_JSON_INVALID, "The body is nested too deeply.");
        return -1;
    }

    if (rc != IL_JSON_OK) {
        il_req_problem(r, IL_P_JSON_INVALID, r->body.len == 0
                       ? "The body is empty; a JSON object is expected."
                       : "The body is not well-formed JSON in UTF-8.");
        return -1;
    }

    if (object.type != IL_JSON_OBJECT) {
        il_req_problem(r, IL_P_JSON_INVALID,
                       "The body must be a JSON object.");
        return -1;
    }

    return il_body_object(r, object, "", fields, n);
}


int
il_body_string(il_req_t *r, const il_field_t *f, size_t max, il_str_t *out)
{
    char    *text, what[64];
    size_t   len;

    *out = il_str(NULL, 0);

    if (!f->seen) {
        return 0;
    }

    /* escapes make it at most six times as long */

    if (f->value.raw.len > max * 6 + 2) {
        len = max + 1;
        text = NULL;

    } else {
        text = il_pool_get(&r->pool, f->value.raw.len);
        if (text == NULL) {
            il_req_internal(r);
            return -1;
        }

        if (il_json_unescape(f->value.raw, text, f->value.raw.len, &len)
            != 0)
        {
            il_body_invalid(r, f->name, "has half of a surrogate pair");
            return -1;
        }
    }

    if (len > max) {
        (void) snprintf(what, sizeof(what), "is longer than %zu bytes", max);
        il_body_invalid(r, f->name, what);
        return -1;
    }

    if (memchr(text, '\0', len) != NULL) {
        il_body_invalid(r, f->name, "has a NUL character");
        return -1;
    }

    *out = il_str(text, len);

    return 0;
}


int
il_body_int(il_req_t *r, const il_field_t *f, int64_t min, int64_t max,
    int64_t *out)
{
    int       minus;
    char      what[96];
    int64_t   v;
    il_str_t  s;

    if (!f->seen) {
        return 0;
    }

    s = f->value.raw;
    minus = (s.len > 0 && s.data[0] == '-');

    if (minus) {
        s = il_str(s.data + 1, s.len - 1);
    }

    if (il_digits_parse(s, 18, &v) != 0
        || (minus ? -v : v) < min || (minus ? -v : v) > max)
    {
        (void) snprintf(what, sizeof(what),
                        "must be a whole number from %lld to %lld",
                        (long long) min, (long long) max);
        il_body_invalid(r, f->name, what);
        return -1;
    }

    *out = minus ? -v : v;

    return 0;
}


int
il_body_time(il_req_t *r, const il_field_t *f, int64_t *unix_ms)
{
    il_str_t  s;

    if (!f->seen) {
        return 0;
    }

    if (il_body_string(r, f, 64, &s) != 0) {
        return -1;
    }

    if (il_rfc3339_parse(s, unix_ms) != 0) {
        il_body_invalid(r, f->name, "must be a time like "
                        "2026-07-24T09:00:00Z");
        return -1;
    }

    return 0;
}


int
il_body_true(const il_field_t *f)
{
    return f->seen && f->value.type == IL_JSON_TRUE;
}
