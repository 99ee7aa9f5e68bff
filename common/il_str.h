/*
 * il_str.h: the one counted string of common/.
 *
 * Everything in common/ is pure: no I/O, no globals that change, no
 * allocation unless a function says so.  The caller owns every buffer.
 * All symbols are hidden, because these files are linked into a shared
 * object that lives in nginx's address space.
 */

#ifndef IL_STR_H
#define IL_STR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define IL_MUST_CHECK  __attribute__((warn_unused_result))

/* Not NUL-terminated; data may be NULL only if len is 0. */
typedef struct {
    const char  *data;
    size_t       len;
} il_str_t;

#define il_string(lit)  { (lit), sizeof(lit) - 1 }
#define il_lit(text)    il_str((text), sizeof(text) - 1)

static inline il_str_t
il_str(const char *data, size_t len)
{
    il_str_t  s;

    s.data = data;
    s.len = len;
    return s;
}

static inline il_str_t
il_cstr(const char *s)
{
    return il_str(s, s == NULL ? 0 : strlen(s));
}

/* Not constant time: for names, never for secrets. */
static inline int
il_str_eq(il_str_t a, il_str_t b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Without the blanks and tabs around it: white space as headers have it
 * (RFC 9110, section 5.6.3). */
static inline il_str_t
il_str_trim(il_str_t s)
{
    while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t')) {
        s = il_str(s.data + 1, s.len - 1);
    }

    while (s.len > 0
           && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
    {
        s.len--;
    }

    return s;
}

#endif /* IL_STR_H */
