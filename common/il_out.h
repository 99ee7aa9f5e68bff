/*
 * il_out.h: appending to a buffer of fixed size.  Once something did not
 * fit, nothing more is written and il_out_len() is 0, so that a builder
 * checks once, at its end.
 */

#ifndef IL_OUT_H
#define IL_OUT_H

#include "il_enc.h"

typedef struct {
    char    *data;
    size_t   cap;
    size_t   len;
    int      failed;
} il_out_t;


static inline void
il_out_init(il_out_t *o, char *data, size_t cap)
{
    o->data = data;
    o->cap = cap;
    o->len = 0;
    o->failed = 0;
}


static inline void
il_out_put(il_out_t *o, il_str_t s)
{
    if (o->failed || s.len > o->cap - o->len) {
        o->failed = 1;
        return;
    }

    if (s.len != 0) {
        memcpy(o->data + o->len, s.data, s.len);
        o->len += s.len;
    }
}


/* Literals, whose lengths the compiler knows. */
#define il_out_lit(o, lit)  il_out_put(o, il_lit(lit))


static inline void
il_out_text(il_out_t *o, const char *text)
{
    il_out_put(o, il_cstr(text));
}


/* The inside of a JSON string. */

static inline void
il_out_json(il_out_t *o, il_str_t s)
{
    size_t  n;

    if (o->failed) {
        return;
    }

    n = il_json_escape(o->data + o->len, o->cap - o->len, s);

    if (n == (size_t) -1) {
        o->failed = 1;
        return;
    }

    o->len += n;
}


static inline size_t
il_out_len(const il_out_t *o)
{
    return o->failed ? 0 : o->len;
}

#endif /* IL_OUT_H */
