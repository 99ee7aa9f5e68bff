/*
 * il_lookup.c: see il_lookup.h.
 */

#include <stdio.h>

#include "il_json.h"
#include "il_lookup.h"
#include "il_out.h"


typedef enum {
    IL_MATCH_NO = 0,
    IL_MATCH_YES,
    IL_MATCH_BROKEN           /* the body says nothing that can be trusted */
} il_match_e;


static const char  il_lookup_hex[] = "0123456789ABCDEF";


const char *
il_lookup_name(il_lookup_answer_e answer)
{
    static const char *const  names[] = { "unclear", "found", "not_found" };

    return names[answer];
}


static int
il_lookup_member(il_str_t spec, const char *pointer, il_json_value_t *v)
{
    return il_json_find(spec, il_cstr(pointer), v) == IL_JSON_OK
           && v->type != IL_JSON_NULL;
}


int
il_lookup_text(il_str_t spec, const char *name, char *out, size_t cap,
    size_t *len)
{
    char             pointer[64];
    il_json_value_t  v;

    *len = 0;
    out[0] = '\0';

    (void) snprintf(pointer, sizeof(pointer), "/%s", name);

    if (!il_lookup_member(spec, pointer, &v)) {
        return 0;
    }

    if (v.type != IL_JSON_STRING
        || il_json_unescape(v.raw, out, cap - 1, len) != 0)
    {
        *len = 0;
        out[0] = '\0';
        return -1;
    }

    out[*len] = '\0';

    return 1;
}


/* ------------------------------------------------------------- templates */


static int
il_lookup_hexval(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    c = (char) (c | 0x20);

    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}


/* A part of a work key as it was before it became one. */

static int
il_lookup_decode(char *s, size_t *len)
{
    int     hi, lo;
    size_t  i, n;

    n = 0;

    for (i = 0; i < *len; i++) {
        if (s[i] != '%') {
            s[n++] = s[i];
            continue;
        }

        if (*len - i < 3 || (hi = il_lookup_hexval(s[i + 1])) < 0
            || (lo = il_lookup_hexval(s[i + 2])) < 0)
        {
            return -1;
        }

        s[n++] = (char) (hi * 16 + lo);
        i += 2;
    }

    *len = n;

    return 0;
}


/* The value of a field, or -1: there is none, or an empty one. */

static int
il_lookup_field(il_str_t vars, il_str_t name, char *out, size_t cap,
    size_t *len)
{
    int              key;
    char             pointer[IL_LOOKUP_DETAIL_CAP];
    il_json_value_t  v;

    for (key = 0; key < 2; key++) {
        (void) snprintf(pointer, sizeof(pointer), "/%s%.*s", key ? "%" : "",
                        (int) name.len, name.data);

        if (il_lookup_member(vars, pointer, &v)) {
            if (v.type != IL_JSON_STRING
                || il_json_unescape(v.raw, out, cap, len) != 0
                || (key && il_lookup_decode(out, len) != 0))
            {
                return -1;
            }

            return *len == 0 ? -1 : 0;
        }
    }

    return -1;
}


static int
il_lookup_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
           || (c >= '0' && c <= '9') || memchr("-._~", c, 4) != NULL;
}


/* Puts one value where it belongs.  NULL, or what is wrong with it. */

static const char *
il_lookup_put(il_out_t *o, il_str_t value, il_lookup_place_e place)
{
    char    code[3];
    size_t  i;

    if (place == IL_LOOKUP_JSON) {
        if (!il_utf8_valid(value)) {
            return "is not UTF-8";
        }

        il_out_json(o, value);
        return NULL;
    }

    if (place == IL_LOOKUP_HEADER) {
        for (i = 0; i < value.len; i++) {
            if (value.data[i] < 0x20 || value.data[i] == 0x7f) {
                return "cannot stand in a header";
            }
        }

        il_out_put(o, value);
        return NULL;
    }

    /* a whole path segment of dots would lead elsewhere */

    if (place == IL_LOOKUP_URL
        && (il_str_eq(value, il_cstr("."))
            || il_str_eq(value, il_cstr(".."))))
    {
        return "cannot stand in a URL";
    }

    for (i = 0; i < value.len; i++) {
        if (il_lookup_plain(value.data[i])) {
            il_out_put(o, il_str(value.data + i, 1));
            continue;
        }

        code[0] = '%';
        code[1] = il_lookup_hex[(uint8_t) value.data[i] >> 4];
        code[2] = il_lookup_hex[(uint8_t) value.data[i] & 15];
        il_out_put(o, il_str(code, 3));
    }

    return NULL;
}


/* The name in braces that s begins with, if there is one. */

static int
il_lookup_brace(il_str_t s, il_str_t *name)
{
    char    c;
    size_t  i;

    for (i = 1; i < s.len && i <= 64; i++) {
        c = s.data[i];

        if (c == '}') {
            *name = il_str(s.data + 1, i - 1);
            return i > 1;
        }

        if (!((c >= 'a' && c <= 'z')
              || (i > 1 && ((c >= '0' && c <= '9') || c == '_'))))
        {
            return 0;
        }
    }

    return 0;
}


int
il_lookup_expand(il_str_t tmpl, il_str_t vars, il_lookup_place_e place,
    char *out, size_t cap, size_t *len, char *why, size_t why_cap)
{
    char         value[IL_LOOKUP_FIELD_MAX];
    size_t       i, n;
    il_str_t     name;
    il_out_t     o;
    const char  *bad;

    *len = 0;
    il_out_init(&o, out, cap);

    for (i = 0; i < tmpl.len; i++) {
        if (tmpl.data[i] == '{'
            && il_lookup_brace(il_str(tmpl.data + i, tmpl.len - i), &name))
        {
            if (il_lookup_field(vars, name, value, sizeof(value), &n) != 0) {
                (void) snprintf(why, why_cap, "the field {%.*s} has no value "
                                "here", (int) name.len, name.data);
                return -1;
            }

            bad = il_lookup_put(&o, il_str(value, n), place);
            if (bad != NULL) {
                (void) snprintf(why, why_cap, "the field {%.*s} %s",
                                (int) name.len, name.data, bad);
                return -1;
            }

            i += name.len + 1;
            continue;
        }

        if ((tmpl.data[i] == '{' || tmpl.data[i] == '}')
            && (place == IL_LOOKUP_URL || place == IL_LOOKUP_HEADER))
        {
            (void) snprintf(why, why_cap, "a brace is not part of a {field}");
            return -1;
        }

        il_out_put(&o, il_str(tmpl.data + i, 1));
    }

    if (o.failed) {
        (void) snprintf(why, why_cap, "it is too long with its fields");
        return -1;
    }

    *len = o.len;

    return 0;
}


/* --------------------------------------------------------------- verdicts */


static int
il_lookup_status(il_json_value_t rule, int status)
{
    int              v;
    size_t           pos, i;
    il_str_t         name;
    il_json_value_t  list, item;

    if (il_json_lookup(rule.raw, il_cstr("/status"), &list) != IL_JSON_OK
        || list.type != IL_JSON_ARRAY)
    {
        return 0;
    }

    pos = 0;

    while (il_json_next(list, &pos, &name, &item)) {
        v = 0;

        if (item.type != IL_JSON_NUMBER || item.raw.len != 3) {
            continue;
        }

        for (i = 0; i < 3; i++) {
            v = v * 10 + (item.raw.data[i] - '0');
        }

        if (v == status) {
            return 1;
        }
    }

    return 0;
}


/* Equal texts, or the same digits, or the same word. */

static int
il_lookup_equal(il_json_value_t a, il_json_value_t b)
{
    char    x[IL_LOOKUP_FIELD_MAX], y[IL_LOOKUP_FIELD_MAX];
    size_t  n, m;

    if (a.type != b.type) {
        return 0;
    }

    if (a.type != IL_JSON_STRING) {
        return il_str_eq(a.raw, b.raw);
    }

    return il_json_unescape(a.raw, x, sizeof(x), &n) == 0
           && il_json_unescape(b.raw, y, sizeof(y), &m) == 0
           && il_str_eq(il_str(x, n), il_str(y, m));
}


static int
il_lookup_member_of(il_json_value_t rule, const char *pointer,
    il_json_value_t *v)
{
    return il_json_lookup(rule.raw, il_cstr(pointer), v) == IL_JSON_OK;
}


static il_match_e
il_lookup_match(il_str_t spec, const char *which, int status,
    const il_str_t *body)
{
    char             pointer[IL_LOOKUP_FIELD_MAX];
    size_t           len, pos;
    il_str_t         name;
    il_json_rc_e     rc;
    il_json_value_t  rule, v, list, item;

    if (!il_lookup_member(spec, which, &rule) || rule.type != IL_JSON_OBJECT
        || !il_lookup_status(rule, status))
    {
        return IL_MATCH_NO;
    }

    if (!il_lookup_member_of(rule, "/pointer", &v)) {
        return IL_MATCH_YES;
    }

    if (v.type != IL_JSON_STRING || body == NULL
        || il_json_unescape(v.raw, pointer, sizeof(pointer), &len) != 0)
    {
        return IL_MATCH_BROKEN;
    }

    rc = il_json_find(*body, il_str(pointer, len), &v);

    if (il_lookup_member_of(rule, "/missing", &item)) {
        return rc == IL_JSON_MISSING ? IL_MATCH_YES
               : rc == IL_JSON_OK ? IL_MATCH_NO : IL_MATCH_BROKEN;
    }

    if (rc != IL_JSON_OK) {
        return rc == IL_JSON_MISSING ? IL_MATCH_NO : IL_MATCH_BROKEN;
    }

    if (!il_lookup_member_of(rule, "/equals", &list)) {
        return v.type == IL_JSON_NULL ? IL_MATCH_NO : IL_MATCH_YES;
    }

    if (list.type != IL_JSON_ARRAY) {
        return IL_MATCH_BROKEN;
    }

    pos = 0;

    while (il_json_next(list, &pos, &name, &item)) {
        if (il_lookup_equal(item, v)) {
            return IL_MATCH_YES;
        }
    }

    return IL_MATCH_NO;
}


/* What a found one is called there, and what it is. */

static void
il_lookup_finds(il_str_t spec, il_str_t body, il_lookup_verdict_t *v)
{
    char             pointer[IL_LOOKUP_FIELD_MAX];
    size_t           len;
    il_json_value_t  value;

    if (il_lookup_text(spec, "ref_pointer", pointer, sizeof(pointer), &len)
        == 1
        && il_json_find(body, il_str(pointer, len), &value) == IL_JSON_OK
        && (il_json_scalar(&value, v->ref, sizeof(v->ref) - 1, &v->ref_len)
            != 0
            || il_has_control(il_str(v->ref, v->ref_len))))
    {
        v->ref_len = 0;
    }

    v->ref[v->ref_len] = '\0';

    if (il_lookup_text(spec, "result_pointer", pointer, sizeof(pointer), &len)
        == 1
        && il_json_find(body, il_str(pointer, len), &value) == IL_JSON_OK)
    {
        v->result = value.raw;
    }
}


void
il_lookup_judge(il_str_t spec, int status, const il_str_t *body,
    il_lookup_verdict_t *v)
{
    il_match_e  found, missing;

    memset(v, 0, sizeof(*v));

    found = il_lookup_match(spec, "/found", status, body);
    missing = il_lookup_match(spec, "/not_found", status, body);

    if (found == IL_MATCH_BROKEN || missing == IL_MATCH_BROKEN) {
        (void) snprintf(v->detail, sizeof(v->detail), "status %d, and its "
                        "body is not JSON that can be trusted", status);

    } else if (found && missing) {
        (void) snprintf(v->detail, sizeof(v->detail), "status %d, and the "
                        "answer matches both found and not_found", status);

    } else if (!found && !missing) {
        (void) snprintf(v->detail, sizeof(v->detail), "status %d, and the "
                        "answer matches neither found nor not_found", status);

    } else {
        v->answer = found ? IL_LOOKUP_FOUND : IL_LOOKUP_NOT_FOUND;
        (void) snprintf(v->detail, sizeof(v->detail), "status %d", status);

        if (found && body != NULL) {
            il_lookup_finds(spec, *body, v);
        }
    }
}
