/*
 * origin.c: from which site a browser asks (RFC 6454; W3C Fetch Metadata).
 *
 * Browsers let no page set Origin, Sec-Fetch-Site, Host or Cookie, so that
 * these can be believed of whoever shows a cookie of ours.
 */

#include <strings.h>

#include "origin.h"
#include "server.h"


/* A scheme, "://", host and port. */
#define IL_ORIGIN_MAX  300


static int
il_origin_eq(il_str_t a, il_str_t b)
{
    return a.len == b.len && a.len > 0
           && strncasecmp(a.data, b.data, a.len) == 0;
}


static int
il_origin_listed(const char *list, il_str_t origin)
{
    size_t  n;

    for ( /* void */ ; *list != '\0'; list += n) {
        list += strspn(list, " ,");
        n = strcspn(list, " ,");

        if (il_origin_eq(il_str(list, n), origin)) {
            return 1;
        }
    }

    return 0;
}


int
il_origin_own(const il_req_t *r, il_str_t origin)
{
    il_str_t  scheme, host;

    if (origin.len == 0 || origin.len > IL_ORIGIN_MAX) {
        return 0;
    }

    if (il_srv.conf.ui_origins[0] != '\0') {
        return il_origin_listed(il_srv.conf.ui_origins, origin);
    }

    scheme = il_req_param(r, "HTTPS").len > 0 ? il_cstr("https://")
                                              : il_cstr("http://");
    host = il_req_param(r, "HTTP_HOST");

    return origin.len > scheme.len
           && il_origin_eq(il_str(origin.data, scheme.len), scheme)
           && il_origin_eq(il_str(origin.data + scheme.len,
                                  origin.len - scheme.len), host);
}


int
il_origin_same(const il_req_t *r)
{
    il_str_t  site;

    site = il_req_param(r, "HTTP_SEC_FETCH_SITE");

    return (site.len == 0 || il_str_eq(site, il_cstr("same-origin")))
           && il_origin_own(r, il_req_param(r, "HTTP_ORIGIN"));
}


int
il_origin_may_read(const il_req_t *r)
{
    il_str_t  site;

    site = il_req_param(r, "HTTP_SEC_FETCH_SITE");

    return site.len == 0 || il_str_eq(site, il_cstr("same-origin"))
           || il_str_eq(site, il_cstr("none"));
}


int
il_origin_cross_site(const il_req_t *r)
{
    return il_str_eq(il_req_param(r, "HTTP_SEC_FETCH_SITE"),
                     il_cstr("cross-site"));
}
