/*
 * il_accept.h: which of two representations an Accept header asks for
 * (RFC 9110, section 12.5.1).
 */

#ifndef IL_ACCEPT_H
#define IL_ACCEPT_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

/*
 * 1 if a client with this Accept header would rather have `type` than `usual`
 * (both "text/csv" and the like, in small letters), which it gets if it does
 * not care, or says what cannot be understood.  The higher q wins; then the
 * one that is named more exactly; then the one that is named first.
 */
int il_accept_prefers(il_str_t accept, const char *type, const char *usual);

#pragma GCC visibility pop

#endif /* IL_ACCEPT_H */
