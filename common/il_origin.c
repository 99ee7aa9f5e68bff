/*
 * il_origin.c: which web page a request comes from.
 */

#include <strings.h>

#include "il_origin.h"
#include "il_url.h"


/* The next of a list, without blanks around it.  1, or 0 at its end. */

static int
il_origin_next(il_str_t *list, il_str_t *one)
{
    size_t  i;

    if (list->data == NULL) {
        return 0;
    }

    for (i = 0; i < list->len && list->data[i] != ','; i++) { /* void */ }

    *one = il_str_trim(il_str(list->data, i));

    if (i == list->len) {
        *list = il_str(NULL, 0);

    } else {
        *list = il_str(list->data + i + 1, list->len - i - 1);
    }

    return 1;
}


int
il_origin_listed(il_str_t list, il_str_t origin)
{
    il_str_t  one;

    if (origin.len == 0 || list.len == 0) {
        return 0;
    }

    while (il_origin_next(&list, &one)) {
        if (il_str_eq(one, origin)) {
            return 1;
        }
    }

    return 0;
}


const char *
il_origins_check(il_str_t list, il_str_t *bad)
{
    size_t       i;
    il_url_t     url;
    const char  *wrong;

    while (il_origin_next(&list, bad)) {

        if (bad->len == 1 && bad->data[0] == '*') {
            return "names everybody; name the origins";
        }

        wrong = il_url_parse(*bad, &url);

        if (wrong != NULL) {
            return wrong;
        }

        if (url.target.len != 0) {
            return "has a path; an origin ends with its host or port";
        }

        for (i = 0; i < bad->len; i++) {
            if (bad->data[i] >= 'A' && bad->data[i] <= 'Z') {
                return "has capital letters, which no browser sends";
            }
        }
    }

    return NULL;
}


/* Whether it is scheme://host; a browser leaves the scheme's own port out of
 * Origin and Host alike. */

static int
il_origin_own(const il_origin_t *o)
{
    size_t  n;

    n = o->scheme.len;

    return o->host.len != 0
           && o->origin.len == n + 3 + o->host.len
           && strncasecmp(o->origin.data, o->scheme.data, n) == 0
           && memcmp(o->origin.data + n, "://", 3) == 0
           && strncasecmp(o->origin.data + n + 3, o->host.data, o->host.len)
              == 0;
}


int
il_origin_ok(const il_origin_t *o)
{
    if (o->origins > 1 || o->sites > 1) {
        return 0;
    }

    if (o->origins == 1 && il_origin_listed(o->allowed, o->origin)) {
        return 1;
    }

    /* "none" is what the user did himself: a reload, a restored window */

    if (o->sites == 1) {
        return il_str_eq(o->site, il_cstr("same-origin"))
               || il_str_eq(o->site, il_cstr("none"));
    }

    return o->origins == 0 || il_origin_own(o);
}
