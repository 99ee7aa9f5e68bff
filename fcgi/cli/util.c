/*
 * util.c: buffers, messages, output for people, small JSON look-ups.
 */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "cli.h"
#include "il_enc.h"
#include "il_json.h"
#include "il_time.h"


void *
il_xalloc(size_t n, size_t size)
{
    void  *p;

    p = calloc(n == 0 ? 1 : n, size == 0 ? 1 : size);

    if (p == NULL) {
        il_err("out of memory");
        exit(EX_OSERR);
    }

    return p;
}


char *
il_xstrndup(const char *s, size_t n)
{
    char  *p;

    p = il_xalloc(n + 1, 1);

    if (n != 0) {
        memcpy(p, s, n);
    }

    return p;
}


/* Makes room for n more bytes and a NUL; how many of them fit below max. */
static size_t
il_buf_room(il_buf_t *b, size_t n)
{
    char    *p;
    size_t   cap;

    if (b->max != 0 && n > b->max - b->len) {
        n = b->max - b->len;
        b->full = 1;
    }

    if (b->data != NULL && b->cap - b->len > n) {
        return n;
    }

    cap = (b->cap == 0) ? 256 : b->cap;

    while (cap - b->len <= n) {
        cap *= 2;
    }

    p = realloc(b->data, cap);

    if (p == NULL) {
        il_err("out of memory");
        exit(EX_OSERR);
    }

    b->data = p;
    b->cap = cap;

    return n;
}


void
il_buf_add(il_buf_t *b, const void *data, size_t len)
{
    len = il_buf_room(b, len);

    if (len != 0) {
        memcpy(b->data + b->len, data, len);
        b->len += len;
    }

    b->data[b->len] = '\0';
}


void
il_buf_puts(il_buf_t *b, const char *s)
{
    il_buf_add(b, s, strlen(s));
}


void
il_buf_printf(il_buf_t *b, const char *fmt, ...)
{
    int      n;
    char     text[512];
    va_list  ap;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);

    if (n < 0 || (size_t) n >= sizeof(text)) {
        il_err("internal error: formatted text is too long");
        exit(EX_SOFTWARE);
    }

    il_buf_add(b, text, (size_t) n);
}


void
il_buf_json(il_buf_t *b, il_str_t s)
{
    size_t  n;

    il_buf_add(b, "\"", 1);

    if (s.len != 0) {
        n = il_json_escaped_cap(s.len);

        if (il_buf_room(b, n) < n) {
            return;
        }

        n = il_json_escape(b->data + b->len, n, s);

        if (n == (size_t) -1) {
            il_err("internal error: text cannot be escaped");
            exit(EX_SOFTWARE);
        }

        b->len += n;
    }

    il_buf_add(b, "\"", 1);
}


il_str_t
il_buf_str(const il_buf_t *b)
{
    return il_str(b->data, b->len);
}


void
il_buf_free(il_buf_t *b)
{
    if (b->data != NULL) {
        sodium_memzero(b->data, b->cap);
        free(b->data);
    }

    b->data = NULL;
    b->len = 0;
    b->cap = 0;
    b->full = 0;
}


void
il_err(const char *fmt, ...)
{
    int      n;
    char     line[4096];
    size_t   len;
    va_list  ap;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);

    if (n < 0) {
        return;
    }

    len = strlen(line);

    /* what a server or a file said must not drive the terminal */

    for (size_t i = 0; i < len; i++) {
        if ((unsigned char) line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = ' ';
        }
    }

    /* one write, so that lines of several threads do not mix */

    (void) fprintf(stderr, "interlock: %s\n", line);
}


void
il_out_clean(FILE *f, const char *s, size_t max)
{
    size_t  i, end;

    end = strlen(s);

    if (end > max) {

        /* not within a character of UTF-8 */

        for (end = max; end > 0 && ((unsigned char) s[end] & 0xc0) == 0x80;
             end--) { /* void */ }
    }

    for (i = 0; i < end; i++) {
        (void) fputc((unsigned char) s[i] < 0x20 || s[i] == 0x7f ? ' ' : s[i],
                     f);
    }

    if (s[end] != '\0') {
        (void) fputs("...", f);
    }
}


void
il_out_line(FILE *f, il_str_t s)
{
    if (s.len != 0) {
        (void) fwrite(s.data, 1, s.len, f);
    }

    if (s.len == 0 || s.data[s.len - 1] != '\n') {
        (void) fputc('\n', f);
    }
}


int
il_out_end(int rc)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        il_err("cannot write to standard output");
        return EX_IOERR;
    }

    return rc;
}


int
il_out_done(int rc)
{
    (void) il_out_end(rc);

    return rc;
}


static void
il_out_value(FILE *f, const il_json_value_t *v)
{
    char    *text;
    size_t   len;

    if (v->type == IL_JSON_STRING) {
        text = il_xalloc(v->raw.len + 1, 1);

        if (il_json_unescape(v->raw, text, v->raw.len, &len) == 0
            && !il_has_control(il_str(text, len)))
        {
            il_out_line(f, il_str(text, len));
            free(text);
            return;
        }

        free(text);
    }

    il_out_line(f, v->type == IL_JSON_NULL ? il_str("-", 1) : v->raw);
}


static void
il_out_members(FILE *f, il_json_value_t object)
{
    size_t           pos;
    il_str_t         name;
    il_json_value_t  v;

    pos = 0;

    while (il_json_next(object, &pos, &name, &v)) {

        /* the name without its quotes */

        (void) fprintf(f, "%-18.*s ", name.len < 2 ? 0 : (int) name.len - 2,
                       name.data + 1);
        il_out_value(f, &v);
    }
}


void
il_out_human(FILE *f, il_str_t json)
{
    size_t           pos;
    il_str_t         name;
    il_json_value_t  v, item;

    if (il_json_find(json, il_str("", 0), &v) != IL_JSON_OK) {
        il_out_line(f, json);
        return;
    }

    if (v.type == IL_JSON_OBJECT
        && il_json_find(json, il_cstr("/items"), &item) == IL_JSON_OK
        && item.type == IL_JSON_ARRAY)
    {
        v = item;
    }

    if (v.type == IL_JSON_OBJECT) {
        il_out_members(f, v);
        return;
    }

    if (v.type != IL_JSON_ARRAY) {
        il_out_value(f, &v);
        return;
    }

    pos = 0;

    while (il_json_next(v, &pos, &name, &item)) {
        if (item.type == IL_JSON_OBJECT) {
            il_out_members(f, item);
            (void) fputc('\n', f);

        } else {
            il_out_value(f, &item);
        }
    }
}


char *
il_json_text(il_str_t json, const char *pointer)
{
    char             *text;
    size_t            len;
    il_json_value_t   v;

    if (il_json_find(json, il_cstr(pointer), &v) != IL_JSON_OK) {
        return NULL;
    }

    text = il_xalloc(v.raw.len + 1, 1);

    if (il_json_scalar(&v, text, v.raw.len, &len) != 0) {
        free(text);
        return NULL;
    }

    text[len] = '\0';
    return text;
}


int64_t
il_json_int(il_str_t json, const char *pointer, int64_t dflt)
{
    int64_t          n;
    il_json_value_t  v;

    if (il_json_find(json, il_cstr(pointer), &v) != IL_JSON_OK
        || v.type != IL_JSON_NUMBER
        || il_digits_parse(v.raw, 18, &n) != 0)
    {
        return dflt;
    }

    return n;
}
