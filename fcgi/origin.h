/*
 * origin.h: whether a browser sent a request from a page of this site.
 *
 * The site is what the setting ui_origins says; without it the scheme nginx
 * was called by, and the Host that the browser sent.  Nothing here locks.
 */

#ifndef IL_ORIGIN_H
#define IL_ORIGIN_H

#include "req.h"

/* 1 if origin, as in the header of that name ("https://host[:port]"), is this
 * site's own; "null" never is. */
int il_origin_own(const il_req_t *r, il_str_t origin);

/* 1 if the request has an Origin that is the site's own and no word of the
 * browser's (Sec-Fetch-Site) against it.  What changes something on the word
 * of a cookie has to have that. */
int il_origin_same(const il_req_t *r);

/* 1 unless the browser says (Sec-Fetch-Site) that another site's page asks:
 * what only reads on the word of a cookie has to have that. */
int il_origin_may_read(const il_req_t *r);

/* 1 if the browser says that another site has led here. */
int il_origin_cross_site(const il_req_t *r);

#endif /* IL_ORIGIN_H */
