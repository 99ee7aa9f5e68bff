/*
 * tries.h: how often somebody may be wrong.
 *
 * Ten failed attempts of an address at once, then one every six seconds; what
 * turns out well does not count.  An IPv6 address counts by its first 64
 * bits.  A bounded table: where very many addresses try, the one that has
 * most left is forgotten first.  Any thread; it locks by itself.
 */

#ifndef IL_TRIES_H
#define IL_TRIES_H

#include "il_str.h"

/* Takes one attempt of that address (as text).  0; or the seconds after which
 * there is one, and then none was taken. */
int64_t il_tries_take(il_str_t address) IL_MUST_CHECK;

/* Gives it back: it was no failure. */
void il_tries_give(il_str_t address);

#endif /* IL_TRIES_H */
