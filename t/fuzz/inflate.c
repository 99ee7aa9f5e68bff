/*
 * inflate.c: a body said to be gzip.  If it inflates, it is of the size that
 * it claims, and not of another.
 */

#include "fuzz.h"
#include "il_gunzip.h"


#define LIMIT  (1024 * 1024)


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char            *out;
    size_t           n;
    il_str_t         in;
    il_gunzip_rc_e   rc;

    in = il_fuzz_copy(data, size);

    if (il_gunzip_size(in, &n) == 0 && n < LIMIT) {
        out = malloc(n == 0 ? 1 : n);
        IL_HOLDS(out != NULL);

        rc = il_gunzip(in, out, n);
        IL_HOLDS(rc == IL_GUNZIP_OK || rc == IL_GUNZIP_MALFORMED);

        if (rc == IL_GUNZIP_OK) {

            /* no more than zlib's formats can hold; all bytes were set */

            IL_HOLDS(n / 1100 <= in.len);
            IL_HOLDS(n == 0 || memchr(out, out[n - 1], n) != NULL);
            IL_HOLDS(il_gunzip_exceeds(in, n) == IL_GUNZIP_MALFORMED);
            IL_HOLDS(n == 0
                     || il_gunzip_exceeds(in, n - 1) == IL_GUNZIP_OK);
        }

        IL_HOLDS(il_gunzip(in, out, n + 1) == IL_GUNZIP_MALFORMED);

        free(out);
    }

    rc = il_gunzip_exceeds(in, LIMIT);
    IL_HOLDS(rc == IL_GUNZIP_OK || rc == IL_GUNZIP_MALFORMED);

    il_fuzz_drop(in);

    return 0;
}
