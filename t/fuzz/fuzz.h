/*
 * fuzz.h: what the libFuzzer targets share.
 *
 * Each input is copied to a heap block of just its size (libFuzzer's own has
 * room behind it), so that AddressSanitizer sees a read one byte too far.
 */

#ifndef IL_FUZZ_H
#define IL_FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#include <sodium.h>

#include "il_str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A statement about the code that must hold for every input. */
#define IL_HOLDS(condition)                                                   \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, \
                    #condition);                                              \
            abort();                                                          \
        }                                                                     \
    } while (0)


static inline il_str_t
il_fuzz_copy(const uint8_t *data, size_t size)
{
    char  *p;

    p = malloc(size == 0 ? 1 : size);

    if (p == NULL) {
        abort();
    }

    if (size != 0) {
        memcpy(p, data, size);
    }

    return il_str(p, size);
}


static inline void
il_fuzz_drop(il_str_t s)
{
    free((void *) (uintptr_t) s.data);
}


/* Takes the text up to the next NUL byte of *rest, as a copy. */

static inline il_str_t
il_fuzz_field(il_str_t *rest)
{
    size_t       n;
    const char  *end;
    il_str_t     field;

    end = rest->len == 0 ? NULL : memchr(rest->data, '\0', rest->len);
    n = end == NULL ? rest->len : (size_t) (end - rest->data);

    field = il_fuzz_copy((const uint8_t *) rest->data, n);

    if (end != NULL) {
        n++;
    }

    rest->data += n;
    rest->len -= n;

    return field;
}


int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;

    return sodium_init() < 0 ? -1 : 0;
}

#endif /* IL_FUZZ_H */
