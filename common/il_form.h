/*
 * il_form.h: a reader of application/x-www-form-urlencoded that allocates
 * nothing (WHATWG URL, section 5.1).
 *
 * Fields are divided by "&" (";" is an ordinary character), a name ends at
 * its first "=", "+" stands for a space and "%" with two hex digits for a
 * byte; empty fields ("a=1&&b=2") are none.  It is stricter in one point: a
 * "%" without two hex digits is an error, because readers differ about it.
 * Names and values are slices of the body, still encoded; decoded they are
 * bytes, not necessarily UTF-8, and may contain NUL.
 */

#ifndef IL_FORM_H
#define IL_FORM_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

/* Fields that a form may have. */
#define IL_FORM_FIELDS_MAX  1000

typedef enum {
    IL_FORM_OK = 0,
    IL_FORM_MISSING,          /* well-formed, no field of that name */
    IL_FORM_MALFORMED,        /* "%" without two hex digits */
    IL_FORM_TOO_MANY,         /* more than IL_FORM_FIELDS_MAX fields */
    IL_FORM_DUPLICATE         /* the field occurs twice: two readers could
                                 differ about which one counts */
} il_form_rc_e;

typedef struct {
    il_str_t  name;           /* encoded */
    il_str_t  value;          /* encoded; empty if there is no "=" */
} il_form_field_t;

/* Checks the whole form; *n (may be NULL) is how many fields it has. */
il_form_rc_e il_form_check(il_str_t form, size_t *n) IL_MUST_CHECK;

/* Takes the next field.  Start with *pos = 0.  1, or 0 at the end.  Checks
 * nothing: for a form that il_form_check has passed, or with the answers of
 * il_form_decode looked at. */
int il_form_next(il_str_t form, size_t *pos, il_form_field_t *field);

/* Checks the whole form and finds the field with this name, given decoded.
 * *value (encoded) is set on IL_FORM_OK only. */
il_form_rc_e il_form_find(il_str_t form, il_str_t name, il_str_t *value)
    IL_MUST_CHECK;

/* Decodes a name or a value into out; *len is set.  0, or -1 if cap is too
 * small (raw.len bytes are always enough) or a "%" is without its digits. */
int il_form_decode(il_str_t raw, char *out, size_t cap, size_t *len)
    IL_MUST_CHECK;

/* Compares two encoded names or values by the bytes that they stand for,
 * as memcmp does and a shorter one first: < 0, 0 or > 0.  A broken escape is
 * taken as it stands.  Not constant time. */
int il_form_cmp(il_str_t a, il_str_t b);

#pragma GCC visibility pop

#endif /* IL_FORM_H */
