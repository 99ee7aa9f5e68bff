/*
 * il_form.c: see il_form.h.
 */

#include "il_form.h"


/* The value of a hex digit, or -1. */

static int
il_form_hex(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }

    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }

    return -1;
}


/* Takes one byte at *pos, which is before the end.  0, or -1 and the "%"
 * itself if its digits are missing. */

static int
il_form_byte(il_str_t raw, size_t *pos, uint8_t *byte)
{
    int   hi, lo;
    char  c;

    c = raw.data[(*pos)++];

    if (c == '+') {
        *byte = ' ';
        return 0;
    }

    *byte = (uint8_t) c;

    if (c != '%') {
        return 0;
    }

    if (raw.len - *pos < 2) {
        return -1;
    }

    hi = il_form_hex(raw.data[*pos]);
    lo = il_form_hex(raw.data[*pos + 1]);

    if (hi < 0 || lo < 0) {
        return -1;
    }

    *byte = (uint8_t) (hi << 4 | lo);
    *pos += 2;

    return 0;
}


int
il_form_next(il_str_t form, size_t *pos, il_form_field_t *field)
{
    size_t       len;
    const char  *p, *end;

    while (*pos < form.len && form.data[*pos] == '&') {
        (*pos)++;
    }

    if (*pos >= form.len) {
        return 0;
    }

    p = form.data + *pos;
    end = memchr(p, '&', form.len - *pos);
    len = end == NULL ? form.len - *pos : (size_t) (end - p);

    *pos += len;

    end = memchr(p, '=', len);

    if (end == NULL) {
        field->name = il_str(p, len);
        field->value = il_str(p + len, 0);

    } else {
        field->name = il_str(p, (size_t) (end - p));
        field->value = il_str(end + 1, len - field->name.len - 1);
    }

    return 1;
}


/* "&" and "=" are no hex digits, so that an escape never goes over the end
 * of its name or value: the form can be looked at in one piece. */

static int
il_form_escapes(il_str_t form)
{
    size_t       pos;
    uint8_t      byte;
    const char  *p;

    for (pos = 0; pos < form.len; /* void */) {
        p = memchr(form.data + pos, '%', form.len - pos);
        if (p == NULL) {
            break;
        }

        pos = (size_t) (p - form.data);

        if (il_form_byte(form, &pos, &byte) != 0) {
            return -1;
        }
    }

    return 0;
}


il_form_rc_e
il_form_check(il_str_t form, size_t *n)
{
    size_t           pos, count;
    il_form_field_t  field;

    if (il_form_escapes(form) != 0) {
        return IL_FORM_MALFORMED;
    }

    pos = 0;
    count = 0;

    while (il_form_next(form, &pos, &field)) {
        if (++count > IL_FORM_FIELDS_MAX) {
            return IL_FORM_TOO_MANY;
        }
    }

    if (n != NULL) {
        *n = count;
    }

    return IL_FORM_OK;
}


/* 1 if raw stands for exactly these bytes. */

static int
il_form_is(il_str_t raw, il_str_t plain)
{
    size_t   pos, i;
    uint8_t  byte;

    pos = 0;

    for (i = 0; i < plain.len; i++) {
        if (pos == raw.len || il_form_byte(raw, &pos, &byte) != 0
            || byte != (uint8_t) plain.data[i])
        {
            return 0;
        }
    }

    return pos == raw.len;
}


il_form_rc_e
il_form_find(il_str_t form, il_str_t name, il_str_t *value)
{
    size_t           pos;
    il_str_t         found;
    il_form_rc_e     rc;
    il_form_field_t  field;

    rc = il_form_check(form, NULL);
    if (rc != IL_FORM_OK) {
        return rc;
    }

    pos = 0;
    found = il_str(NULL, 0);

    while (il_form_next(form, &pos, &field)) {
        if (!il_form_is(field.name, name)) {
            continue;
        }

        if (found.data != NULL) {
            return IL_FORM_DUPLICATE;
        }

        found = field.value;
    }

    if (found.data == NULL) {
        return IL_FORM_MISSING;
    }

    *value = found;

    return IL_FORM_OK;
}


int
il_form_decode(il_str_t raw, char *out, size_t cap, size_t *len)
{
    size_t   pos, n;
    uint8_t  byte;

    n = 0;

    for (pos = 0; pos < raw.len; n++) {
        if (n == cap || il_form_byte(raw, &pos, &byte) != 0) {
            return -1;
        }

        out[n] = (char) byte;
    }

    *len = n;

    return 0;
}


int
il_form_cmp(il_str_t a, il_str_t b)
{
    size_t   i, j;
    uint8_t  x, y;

    i = 0;
    j = 0;

    while (i < a.len && j < b.len) {

        /* A broken escape leaves the "%" itself. */

        (void) il_form_byte(a, &i, &x);
        (void) il_form_byte(b, &j, &y);

        if (x != y) {
            return x < y ? -1 : 1;
        }
    }

    return (i < a.len) - (j < b.len);
}
