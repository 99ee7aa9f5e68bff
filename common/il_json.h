/*
 * il_json.h: a JSON reader that allocates nothing.
 *
 * It checks a whole text (RFC 8259, UTF-8, bounded depth) and finds values
 * by JSON pointer (RFC 6901).  A value is a slice of the text, so numbers
 * keep their digits.  A member that the pointer goes through and that occurs
 * twice in its object is refused, because two readers could differ about it;
 * names are compared after unescaping.
 */

#ifndef IL_JSON_H
#define IL_JSON_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_JSON_DEPTH_MAX  64

typedef enum {
    IL_JSON_OK = 0,
    IL_JSON_MISSING,          /* well-formed, the pointer names nothing */
    IL_JSON_MALFORMED,        /* not JSON, or not UTF-8 */
    IL_JSON_TOO_DEEP,         /* more than IL_JSON_DEPTH_MAX levels */
    IL_JSON_DUPLICATE,        /* a member on the way occurs twice */
    IL_JSON_BAD_POINTER       /* pointer is not RFC 6901 */
} il_json_rc_e;

typedef enum {
    IL_JSON_NULL = 0,
    IL_JSON_FALSE,
    IL_JSON_TRUE,
    IL_JSON_NUMBER,
    IL_JSON_STRING,
    IL_JSON_ARRAY,
    IL_JSON_OBJECT
} il_json_type_e;

typedef struct {
    il_json_type_e  type;
    il_str_t        raw;      /* slice of the text; strings with quotes */
} il_json_value_t;

/* Checks the whole text. */
il_json_rc_e il_json_check(il_str_t text) IL_MUST_CHECK;

/* Checks the whole text and finds the value at pointer ("" is the whole).
 * *value is set on IL_JSON_OK only. */
il_json_rc_e il_json_find(il_str_t text, il_str_t pointer,
    il_json_value_t *value) IL_MUST_CHECK;

/* As il_json_find, in a text that il_json_check has passed: for several
 * pointers into one large body. */
il_json_rc_e il_json_lookup(il_str_t text, il_str_t pointer,
    il_json_value_t *value) IL_MUST_CHECK;

/* 1 if pointer is RFC 6901, for use at configuration time. */
int il_json_pointer_valid(il_str_t pointer);

/* Walks the members of an object, or the elements of an array, whose text
 * was checked before.  Start with *pos = 0.  Returns 1 and fills name (raw,
 * with quotes; empty for arrays) and value, or 0 at the end. */
int il_json_next(il_json_value_t container, size_t *pos, il_str_t *name,
    il_json_value_t *value);

/* Unescapes a string value (raw with quotes) into out; *len is set.  0, or
 * -1 if cap is too small (raw.len bytes are always enough) or the string has
 * a lone surrogate.  The text may contain NUL (from "\u0000"). */
int il_json_unescape(il_str_t raw, char *out, size_t cap, size_t *len)
    IL_MUST_CHECK;

/* The text that a variable shows for a scalar: a string unescaped, a number,
 * true or false as written.  0, or -1 (null, array, object, or as
 * il_json_unescape). */
int il_json_scalar(const il_json_value_t *value, char *out, size_t cap,
    size_t *len) IL_MUST_CHECK;

#pragma GCC visibility pop

#endif /* IL_JSON_H */
