/*
 * il_href.h: addresses that others may follow in a browser.
 */

#ifndef IL_HREF_H
#define IL_HREF_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

/*
 * 1 if following the address runs nothing: it is relative, or of http or
 * https.  javascript:, data: and every other scheme are not, nor what a
 * browser would clean up before it looks at the scheme (blanks, control
 * characters; WHATWG URL, section 4.4), nor what is not UTF-8, nor "".
 */
int il_href_safe(il_str_t s);

/* 1 if it is also none of the API's own (/v1/…), for which a browser has no
 * token. */
int il_href_public(il_str_t s);

#pragma GCC visibility pop

#endif /* IL_HREF_H */
