/*
 * il_json.c: the grammar of JSON (RFC 8259): checks texts, walks containers.
 *
 * A text is first checked as a whole, by a loop that keeps the kinds of the
 * open containers in one 64-bit word.  Everything after that works on text
 * known to be well-formed, but stays within its bounds in any case.
 */

#include "il_enc.h"
#include "il_json_int.h"


typedef struct {
    const char  *p;
    const char  *end;
} il_json_cursor_t;


static void
il_json_space(il_json_cursor_t *c)
{
    while (c->p < c->end && il_json_is_space(*c->p)) {
        c->p++;
    }
}


/* Takes ch after white space: 1, or 0. */

static int
il_json_take(il_json_cursor_t *c, char ch)
{
    il_json_space(c);

    if (c->p == c->end || *c->p != ch) {
        return 0;
    }

    c->p++;

    return 1;
}


static int
il_json_digit(const il_json_cursor_t *c)
{
    return c->p < c->end && *c->p >= '0' && *c->p <= '9';
}


/* One or more digits: 1, or 0. */

static int
il_json_digits(il_json_cursor_t *c)
{
    if (!il_json_digit(c)) {
        return 0;
    }

    while (il_json_digit(c)) {
        c->p++;
    }

    return 1;
}


static int
il_json_number(il_json_cursor_t *c)
{
    if (c->p < c->end && *c->p == '-') {
        c->p++;
    }

    if (c->p < c->end && *c->p == '0') {
        c->p++;

    } else if (!il_json_digits(c)) {
        return 0;
    }

    if (c->p < c->end && *c->p == '.') {
        c->p++;

        if (!il_json_digits(c)) {
            return 0;
        }
    }

    if (c->p < c->end && (*c->p == 'e' || *c->p == 'E')) {
        c->p++;

        if (c->p < c->end && (*c->p == '+' || *c->p == '-')) {
            c->p++;
        }

        if (!il_json_digits(c)) {
            return 0;
        }
    }

    return 1;
}


static int
il_json_hex(char ch)
{
    if (ch >= '0' && ch <= '9') {
        return ch - '0';
    }

    if (ch >= 'a' && ch <= 'f') {
        return ch - 'a' + 10;
    }

    if (ch >= 'A' && ch <= 'F') {
        return ch - 'A' + 10;
    }

    return -1;
}


int32_t
il_json_unit(const char *p, const char *end)
{
    int      digit;
    size_t   i;
    int32_t  unit;

    if (end - p < 4) {
        return -1;
    }

    unit = 0;

    for (i = 0; i < 4; i++) {
        digit = il_json_hex(p[i]);

        if (digit < 0) {
            return -1;
        }

        unit = unit * 16 + digit;
    }

    return unit;
}


int
il_json_short(char ch)
{
    switch (ch) {
    case '"':
    case '\\':
    case '/':
        return ch;
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return -1;
    }
}


/* A string with both quotes: 1, or 0. */

static int
il_json_string(il_json_cursor_t *c)
{
    uint8_t  ch;

    if (c->p == c->end || *c->p != '"') {
        return 0;
    }

    for (c->p++; c->p < c->end; c->p++) {
        c->p += il_json_run(c->p, (size_t) (c->end - c->p));

        if (c->p == c->end) {
            return 0;
        }

        ch = (uint8_t) *c->p;

        if (ch == '"') {
            c->p++;
            return 1;
        }

        if (ch < 0x20) {
            return 0;
        }

        if (ch != '\\') {
            continue;
        }

        if (++c->p == c->end) {
            return 0;
        }

        if (*c->p == 'u') {
            if (il_json_unit(c->p + 1, c->end) < 0) {
                return 0;
            }

            c->p += 4;

        } else if (il_json_short(*c->p) < 0) {
            return 0;
        }
    }

    return 0;
}


static int
il_json_literal(il_json_cursor_t *c, const char *word)
{
    size_t  n;

    n = strlen(word);

    if ((size_t) (c->end - c->p) < n || memcmp(c->p, word, n) != 0) {
        return 0;
    }

    c->p += n;

    return 1;
}


/* A value that is no container: 1, or 0. */

static int
il_json_leaf(il_json_cursor_t *c)
{
    if (c->p == c->end) {
        return 0;
    }

    switch (*c->p) {
    case '"':
        return il_json_string(c);
    case 't':
        return il_json_literal(c, "true");
    case 'f':
        return il_json_literal(c, "false");
    case 'n':
        return il_json_literal(c, "null");
    default:
        return il_json_number(c);
    }
}


/* The name of a member and its colon: 1, or 0. */

static int
il_json_member(il_json_cursor_t *c, il_str_t *name)
{
    const char  *start;

    il_json_space(c);
    start = c->p;

    if (!il_json_string(c)) {
        return 0;
    }

    *name = il_str(start, (size_t) (c->p - start));

    return il_json_take(c, ':');
}


/*
 * Takes one value of any kind.  Bit 0 of `objects` is the innermost open
 * container: 1 for an object, 0 for an array.
 */

static il_json_rc_e
il_json_skip(il_json_cursor_t *c)
{
    int       object;
    size_t    depth;
    uint64_t  objects;
    il_str_t  name;

    depth = 0;
    objects = 0;

    for ( ;; ) {
        il_json_space(c);

        if (c->p < c->end && (*c->p == '{' || *c->p == '[')) {

            if (depth == IL_JSON_DEPTH_MAX) {
                return IL_JSON_TOO_DEEP;
            }

            object = *c->p == '{';
            objects = (objects << 1) | (uint64_t) object;
            depth++;
            c->p++;

            if (!il_json_take(c, object ? '}' : ']')) {
                if (object && !il_json_member(c, &name)) {
                    return IL_JSON_MALFORMED;
                }

                continue;
            }

            depth--;
            objects >>= 1;

        } else if (!il_json_leaf(c)) {
            return IL_JSON_MALFORMED;
        }

        /* A value ended: close what ends with it, or go to the next one. */

        while (depth > 0) {
            object = (int) (objects & 1);

            if (il_json_take(c, ',')) {
                if (object && !il_json_member(c, &name)) {
                    return IL_JSON_MALFORMED;
                }

                break;
            }

            if (!il_json_take(c, object ? '}' : ']')) {
                return IL_JSON_MALFORMED;
            }

            depth--;
            objects >>= 1;
        }

        if (depth == 0) {
            return IL_JSON_OK;
        }
    }
}


il_json_rc_e
il_json_check(il_str_t text)
{
    il_json_rc_e      rc;
    il_json_cursor_t  c;

    if (text.len == 0 || !il_utf8_valid(text)) {
        return IL_JSON_MALFORMED;
    }

    c.p = text.data;
    c.end = text.data + text.len;

    rc = il_json_skip(&c);

    if (rc != IL_JSON_OK) {
        return rc;
    }

    il_json_space(&c);

    return c.p == c.end ? IL_JSON_OK : IL_JSON_MALFORMED;
}


il_json_type_e
il_json_type(char first)
{
    switch (first) {
    case '{':
        return IL_JSON_OBJECT;
    case '[':
        return IL_JSON_ARRAY;
    case '"':
        return IL_JSON_STRING;
    case 't':
        return IL_JSON_TRUE;
    case 'f':
        return IL_JSON_FALSE;
    case 'n':
        return IL_JSON_NULL;
    default:
        return IL_JSON_NUMBER;
    }
}


/* Takes one value and hands out its slice: 1, or 0. */

static int
il_json_value(il_json_cursor_t *c, il_json_value_t *value)
{
    const char  *start;

    il_json_space(c);
    start = c->p;

    if (il_json_skip(c) != IL_JSON_OK) {
        return 0;
    }

    value->raw = il_str(start, (size_t) (c->p - start));
    value->type = il_json_type(*start);

    return 1;
}


int
il_json_next(il_json_value_t container, size_t *pos, il_str_t *name,
    il_json_value_t *value)
{
    il_json_cursor_t  c;

    *name = il_str(NULL, 0);

    if (container.type != IL_JSON_OBJECT && container.type != IL_JSON_ARRAY) {
        return 0;
    }

    if (container.raw.len < 2 || *pos >= container.raw.len) {
        return 0;
    }

    /* Without the closing bracket, which is the last byte. */

    c.p = container.raw.data + *pos;
    c.end = container.raw.data + container.raw.len - 1;

    if (*pos == 0) {
        c.p++;

    } else if (!il_json_take(&c, ',')) {
        return 0;
    }

    if (container.type == IL_JSON_OBJECT && !il_json_member(&c, name)) {
        return 0;
    }

    if (!il_json_value(&c, value)) {
        return 0;
    }

    *pos = (size_t) (c.p - container.raw.data);

    return 1;
}
