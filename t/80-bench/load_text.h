/*
 * load_text.h: the requests of load.c as text: templates with marks.
 */

#ifndef LOAD_TEXT_H
#define LOAD_TEXT_H

#include <stddef.h>

#define COUNT_MARK  "%%%%%%%%%%%%"
#define COUNT_LEN   12
#define LINE_MARK   "{LINE}"
#define LINE_LEN    6
#define MARKS       8
#define LINE_MAX_   4096
#define LIST_MAX    500


typedef struct {
    char      *text;
    size_t     len;
    size_t     mark[MARKS];     /* where COUNT stands */
    size_t     marks;
    size_t     line;            /* where {LINE} stands; len if nowhere */
} il_template_t;


typedef struct {
    char      *data;
    size_t     len;
} il_line_t;


/* Ends the process with a message. */
void load_die(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

/* p, or the end if there was no memory. */
void *load_want(void *p);

/* A whole file with a NUL behind, allocated. */
char *load_file(const char *path, size_t *len);

void load_template(const char *path, il_template_t *t);

/* Puts a request together that has as many items in its body's list as there
 * are lines, each with its line, and its Content-Length.  out has room for
 * the template and its marks for each.  How long it is. */
size_t load_list(char *out, const il_template_t *t, const il_line_t *lines,
    size_t n);

#endif /* LOAD_TEXT_H */
