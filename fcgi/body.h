/*
 * body.h: JSON bodies, field by field.
 *
 * A handler lists the fields it knows; anything else is refused.  Values stay
 * slices of the body, so numbers and payloads keep their spelling.
 */

#ifndef IL_BODY_H
#define IL_BODY_H

#include "req.h"

#define IL_T_STRING  0x01
#define IL_T_NUMBER  0x02
#define IL_T_BOOL    0x04
#define IL_T_ARRAY   0x08
#define IL_T_OBJECT  0x10
#define IL_T_ANY     0x3f       /* null too: it is then a value */

typedef struct {
    const char       *name;
    unsigned          types;
    int               seen;     /* present (and, but for ANY, not null) */
    il_json_value_t   value;
} il_field_t;

/* All that follow: 0; or -1, and then a problem was answered and r is gone.
 * `in` is how an enclosing field is named in the problem, or "". */

/* Reads the body as one object; with `empty` no body counts as {}. */
int il_body_fields(il_req_t *r, il_field_t *fields, size_t n, int empty)
    IL_MUST_CHECK;

/* Reads an object that is a field's value, already checked. */
int il_body_object(il_req_t *r, il_json_value_t object, const char *in,
    il_field_t *fields, size_t n) IL_MUST_CHECK;

/* A string of at most max bytes, unescaped into the pool; data is NULL if the
 * field is not there. */
int il_body_string(il_req_t *r, const il_field_t *f, size_t max,
    il_str_t *out) IL_MUST_CHECK;

/* A whole number within bounds; *out is left alone if not there. */
int il_body_int(il_req_t *r, const il_field_t *f, int64_t min, int64_t max,
    int64_t *out) IL_MUST_CHECK;

/* RFC 3339. */
int il_body_time(il_req_t *r, const il_field_t *f, int64_t *unix_ms)
    IL_MUST_CHECK;

/* 1 if the field is there and true. */
int il_body_true(const il_field_t *f);

/* Answers 400 field-invalid: the field's name, then what is wrong. */
void il_body_invalid(il_req_t *r, const char *name, const char *what);

#endif /* IL_BODY_H */
