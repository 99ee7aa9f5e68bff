/*
 * pages.c: a list that comes page by page, printed whole, and the lines of a
 * list for people.
 */

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "il_json.h"

#define IL_PAGE      200            /* items */
#define IL_CELL_MAX  200            /* bytes of one value, for people */


static void
il_call_line(il_str_t item, const char *const *names, const char *indent)
{
    char  *text;

    for (size_t i = 0; names[i] != NULL; i++) {
        text = il_json_text(item, names[i]);
        (void) fputs(i == 0 ? indent : " ", stdout);
        il_out_clean(stdout, text == NULL ? "-" : text, IL_CELL_MAX);
        free(text);
    }

    (void) fputc('\n', stdout);
}


void
il_call_lines(il_str_t doc, const char *list, const char *const *names)
{
    size_t            pos;
    il_str_t          name;
    il_json_value_t   items, item;

    pos = 0;

    if (il_json_find(doc, il_cstr(list), &items) != IL_JSON_OK
        || items.type != IL_JSON_ARRAY)
    {
        return;
    }

    while (il_json_next(items, &pos, &name, &item)) {
        il_call_line(item.raw, names, "  ");
    }
}


typedef struct {
    const il_common_t   *c;
    const char          *path;
    const char *const   *names;
    int64_t              left;      /* items */
    il_http_t            h;
    il_buf_t             items;     /* JSON, joined by commas */
    char                *next;      /* NULL: none */
} il_pages_t;


static int
il_call_page(il_pages_t *p)
{
    int               rc;
    char              limit[24];
    size_t            pos;
    il_str_t          page, name;
    il_buf_t          path;
    il_json_value_t   items, item;

    (void) snprintf(limit, sizeof(limit), "%d",
                    p->left < IL_PAGE ? (int) p->left : IL_PAGE);

    memset(&path, 0, sizeof(path));
    il_buf_puts(&path, p->path);
    il_call_query(&path, "limit", limit);
    il_call_query(&path, "cursor", p->next);
    free(p->next);
    p->next = NULL;

    rc = il_call_on(&p->h, p->c, "GET", path.data, il_str("", 0));
    il_buf_free(&path);

    if (rc != 0) {
        return rc;
    }

    page = il_buf_str(&p->h.answer.body);

    if (il_json_find(page, il_cstr("/items"), &items) != IL_JSON_OK
        || items.type != IL_JSON_ARRAY)
    {
        il_err("the server's answer has no items");
        return EX_PROTOCOL;
    }

    pos = 0;

    while (il_json_next(items, &pos, &name, &item)) {
        p->left--;

        if (!p->c->json) {
            il_call_line(item.raw, p->names, "");
            continue;
        }

        il_buf_puts(&p->items, p->items.len == 0 ? "" : ",");
        il_buf_add(&p->items, item.raw.data, item.raw.len);
    }

    p->next = il_json_text(page, "/next");

    return 0;
}


static void
il_call_pages_json(const il_pages_t *p)
{
    il_buf_t  doc;

    memset(&doc, 0, sizeof(doc));
    il_buf_puts(&doc, "{\"items\":[");
    il_buf_add(&doc, p->items.data, p->items.len);
    il_buf_puts(&doc, "],\"next\":");

    if (p->next == NULL) {
        il_buf_puts(&doc, "null");

    } else {
        il_buf_json(&doc, il_cstr(p->next));
    }

    il_buf_puts(&doc, "}");
    il_out_line(stdout, il_buf_str(&doc));
    il_buf_free(&doc);
}


int
il_call_pages(const il_common_t *c, const char *path, int64_t limit,
    const char *const *names)
{
    int          rc;
    il_pages_t   p;

    memset(&p, 0, sizeof(p));
    p.c = c;
    p.path = path;
    p.names = names;
    p.left = limit;

    rc = il_http_open(&p.h, c, 1);

    while (rc == 0) {
        rc = il_call_page(&p);

        if (rc != 0 || p.next == NULL || p.left <= 0) {
            break;
        }
    }

    if (rc == 0 && c->json) {
        il_call_pages_json(&p);

    } else if (rc == 0 && p.next != NULL) {
        (void) fputs("(there is more)\n", stdout);
    }

    free(p.next);
    il_http_close(&p.h);
    il_buf_free(&p.items);

    return il_out_end(rc);
}
