/*
 * il_href.c: addresses that others may follow in a browser.
 */

#include <strings.h>

#include "il_enc.h"
#include "il_href.h"


/* The scheme, by the grammar of RFC 3986, section 3.1, or len 0 if the
 * address is relative.  A ":" behind "/", "?" or "#" ends none. */

static il_str_t
il_href_scheme(il_str_t s)
{
    char    c;
    size_t  i;

    for (i = 0; i < s.len; i++) {
        c = s.data[i];

        if (c == ':') {
            return il_str(s.data, i);
        }

        if (c == '/' || c == '\\' || c == '?' || c == '#') {
            break;
        }
    }

    return il_str(s.data, 0);
}


int
il_href_safe(il_str_t s)
{
    size_t    i;
    il_str_t  scheme;

    if (s.len == 0 || !il_utf8_valid(s) || il_has_control(s)) {
        return 0;
    }

    for (i = 0; i < s.len; i++) {
        if (s.data[i] == ' ') {
            return 0;
        }
    }

    /* an empty or broken scheme (":x", "1:2") is no address to follow */

    if (s.data[0] == ':') {
        return 0;
    }

    scheme = il_href_scheme(s);

    if (scheme.len == 0) {
        return 1;
    }

    return (scheme.len == 4 && strncasecmp(scheme.data, "http", 4) == 0)
           || (scheme.len == 5 && strncasecmp(scheme.data, "https", 5) == 0);
}


int
il_href_public(il_str_t s)
{
    return il_href_safe(s)
           && !(s.len >= 4 && memcmp(s.data, "/v1/", 4) == 0);
}
