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


#ifdef IL_FUZZ_REPLAY

/*
 * Without libFuzzer, to be run under valgrind: gives the target each of the
 * files whose names are read from the standard input, one a line.
 */

int
main(int argc, char **argv)
{
    char            name[4096];
    FILE           *file;
    size_t          n;
    unsigned        count;
    static uint8_t  data[1024 * 1024];

    if (LLVMFuzzerInitialize(&argc, &argv) != 0) {
        return 1;
    }

    for (count = 0; fgets(name, sizeof(name), stdin) != NULL; count++) {
        name[strcspn(name, "\n")] = '\0';

        file = fopen(name, "rb");

        if (file == NULL) {
            perror(name);
            return 1;
        }

        n = fread(data, 1, sizeof(data), file);

        if (ferror(file) != 0 || fclose(file) != 0) {
            perror(name);
            return 1;
        }

        if (LLVMFuzzerTestOneInput(data, n) != 0) {
            return 1;
        }
    }

    printf("stat::number_of_executed_units: %u\n", count);

    return count == 0;
}

#endif /* IL_FUZZ_REPLAY */

#endif /* IL_FUZZ_H */
