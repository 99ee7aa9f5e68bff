/*
 * load_text.c: see load_text.h.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load_text.h"


void
load_die(const char *format, ...)
{
    va_list  args;

    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}


void *
load_want(void *p)
{
    if (p == NULL) {
        load_die("out of memory");
    }

    return p;
}


char *
load_file(const char *path, size_t *len)
{
    FILE   *f;
    char   *text;
    size_t  size, n;

    f = fopen(path, "rb");
    if (f == NULL) {
        load_die("%s: %s", path, strerror(errno));
    }

    size = 1 << 16;
    *len = 0;
    text = load_want(malloc(size + 1));

    while ((n = fread(text + *len, 1, size - *len, f)) > 0) {
        *len += n;
        if (*len == size) {
            size *= 2;
            text = load_want(realloc(text, size + 1));
        }
    }

    fclose(f);
    text[*len] = '\0';

    return text;
}


void
load_template(const char *path, il_template_t *t)
{
    char  *p;

    t->text = load_file(path, &t->len);
    t->line = t->len;

    p = strstr(t->text, LINE_MARK);
    if (p != NULL) {
        t->line = (size_t) (p - t->text);
    }

    for (p = t->text; (p = strstr(p, COUNT_MARK)) != NULL; p += COUNT_LEN) {
        if (t->marks == MARKS) {
            load_die("%s: more than %d counts", path, MARKS);
        }
        t->mark[t->marks++] = (size_t) (p - t->text);
    }
}


/* Where the item of the list in COMPLETE's body begins and ends. */
static void
list_of(const il_template_t *t, size_t *body, size_t *item, size_t *behind)
{
    char  *head, *from, *to;

    head = strstr(t->text, "\r\n\r\n");
    from = head ? strchr(head, '[') : NULL;
    to = head ? strrchr(head, ']') : NULL;

    if (from == NULL || to == NULL || t->line >= t->len
        || t->line < (size_t) (from - t->text))
    {
        load_die("COMPLETE has no list with {LINE}");
    }

    *body = (size_t) (head + 4 - t->text);
    *item = (size_t) (from + 1 - t->text);
    *behind = (size_t) (to - t->text);
}


static char *
put(char *p, const char *data, size_t n)
{
    memcpy(p, data, n);

    return p + n;
}


size_t
load_list(char *out, const il_template_t *t, const il_line_t *lines, size_t n)
{
    int     used;
    char   *p, number[64];
    size_t  i, body, item, behind, len, after;

    list_of(t, &body, &item, &behind);
    after = t->line + LINE_LEN;
    len = item - body + (t->len - behind) + (n - 1);

    for (i = 0; i < n; i++) {
        if (lines[i].len > LINE_MAX_) {
            load_die("a line too long");
        }

        len += behind - item - LINE_LEN + lines[i].len;
    }

    used = snprintf(number, sizeof(number), "Content-Length: %zu\r\n\r\n",
                    len);

    p = put(out, t->text, body - 2);
    p = put(p, number, (size_t) used);
    p = put(p, t->text + body, item - body);

    for (i = 0; i < n; i++) {
        p = put(p, ",", i > 0);
        p = put(p, t->text + item, t->line - item);
        p = put(p, lines[i].data, lines[i].len);
        p = put(p, t->text + after, behind - after);
    }

    p = put(p, t->text + behind, t->len - behind);

    return (size_t) (p - out);
}
