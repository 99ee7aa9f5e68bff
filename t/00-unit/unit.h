/*
 * unit.h: what the unit tests share.
 */

#ifndef IL_UNIT_H
#define IL_UNIT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "il_str.h"

#define il_rows(table)  (sizeof(table) / sizeof((table)[0]))

/* A copy in a heap block of just that size, so that a read past its end is
 * seen by AddressSanitizer and valgrind.  Freed with il_drop(). */

static inline il_str_t
il_exact(il_str_t s)
{
    char  *p;

    p = malloc(s.len == 0 ? 1 : s.len);
    assert_non_null(p);

    if (s.len != 0) {
        memcpy(p, s.data, s.len);
    }

    return il_str(p, s.len);
}


static inline void
il_drop(il_str_t s)
{
    free((void *) (uintptr_t) s.data);
}


static inline void
il_assert_text(const char *got, size_t len, const char *want)
{
    if (!il_str_eq(il_str(got, len), il_cstr(want))) {
        fail_msg("got \"%.*s\", want \"%s\"", (int) len, got, want);
    }
}


static inline int
il_unit_setup(void **state)
{
    (void) state;

    return sodium_init() < 0 ? -1 : 0;
}


/* Runs the tests; the exit code is 1 if any failed (a count could wrap). */

#define il_unit_run(tests)                                                    \
    (cmocka_run_group_tests((tests), il_unit_setup, NULL) == 0 ? 0 : 1)

#endif /* IL_UNIT_H */
