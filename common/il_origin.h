/*
 * il_origin.h: which web page a request comes from (RFC 6454; the Origin
 * header of the Fetch standard, section 3.2; Sec-Fetch-Site of W3C Fetch
 * Metadata).
 */

#ifndef IL_ORIGIN_H
#define IL_ORIGIN_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

typedef struct {
    il_str_t  scheme;           /* "http" or "https", and */
    il_str_t  host;             /* the Host header: the site itself, as the
                                   browser used it */
    il_str_t  allowed;          /* other origins, joined by commas */

    il_str_t  origin;           /* the headers, and how often they occur */
    size_t    origins;
    il_str_t  site;             /* Sec-Fetch-Site */
    size_t    sites;
} il_origin_t;

/*
 * 1 if the request may have been meant by a page of the site itself, of an
 * allowed origin, or was made by no browser (which sends one of the headers
 * with everything but GET and HEAD, and lets no page choose them).  An Origin
 * of "null" counts only with Sec-Fetch-Site, which then says more.
 */
int il_origin_ok(const il_origin_t *o);

/* 1 if the list, joined by commas, names that origin. */
int il_origin_listed(il_str_t list, il_str_t origin);

/* NULL if each of the list is an origin as a browser writes it
 * ("https://shop.example", "http://127.0.0.1:8080"); or what is wrong, as the
 * end of a sentence, and *bad is which. */
const char *il_origins_check(il_str_t list, il_str_t *bad);

#pragma GCC visibility pop

#endif /* IL_ORIGIN_H */
