/*
 * il_gunzip.h: a body that came with Content-Encoding: gzip (RFC 1952), in one
 * piece and bounded.
 *
 * The last four bytes say how long the data is that was compressed, so the
 * caller can refuse it, or make room for exactly that, before anything is
 * inflated; data that turns out longer or shorter is malformed.  Exactly one
 * member is taken and nothing behind it, because readers differ about what
 * that would mean.
 */

#ifndef IL_GUNZIP_H
#define IL_GUNZIP_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

typedef enum {
    IL_GUNZIP_OK = 0,
    IL_GUNZIP_MALFORMED,      /* not gzip, damaged, or of another length */
    IL_GUNZIP_NO_MEMORY
} il_gunzip_rc_e;

/* The length that gzip data claims for what it inflates to; nothing else about
 * it is known to be true.  0, or -1 if it does not begin as gzip data does, is
 * too short to be some, has 4 GB or more, or claims what cannot be true of so
 * few bytes (*size then means nothing). */
int il_gunzip_size(il_str_t in, size_t *size) IL_MUST_CHECK;

/* Inflates to exactly size bytes, as il_gunzip_size() has it, at out (which
 * may be NULL if size is 0), and checks the sum.  What is in out after a
 * failure means nothing.  Takes up to 48 kB from malloc() while it runs. */
il_gunzip_rc_e il_gunzip(il_str_t in, char *out, size_t size) IL_MUST_CHECK;

/* What becomes of data that claims more than max bytes, which may be no more
 * than that it was cut off: IL_GUNZIP_OK if it does inflate to more, else
 * _MALFORMED.  Inflates max bytes at most and keeps none; takes 48 kB from
 * malloc() while it runs. */
il_gunzip_rc_e il_gunzip_exceeds(il_str_t in, size_t max) IL_MUST_CHECK;

#pragma GCC visibility pop

#endif /* IL_GUNZIP_H */
