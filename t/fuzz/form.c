/*
 * form.c: the text up to the first NUL byte is the name of a field, the rest
 * is the form.
 */

#include "fuzz.h"
#include "il_form.h"


static int
sign(int n)
{
    return (n > 0) - (n < 0);
}


/* Decodes into a block of just raw.len bytes. */

static int
decode(il_str_t raw, char **out, size_t *len)
{
    *out = malloc(raw.len == 0 ? 1 : raw.len);
    IL_HOLDS(*out != NULL);

    return il_form_decode(raw, *out, raw.len, len);
}


/* The order of two texts is that of the bytes they stand for. */

static void
order(il_str_t a, il_str_t b)
{
    int     want;
    char   *x, *y;
    size_t  n, m;

    if (decode(a, &x, &n) == 0) {
        if (decode(b, &y, &m) == 0) {
            want = sign(memcmp(x, y, n < m ? n : m));

            if (want == 0) {
                want = (n > m) - (n < m);
            }

            IL_HOLDS(il_form_cmp(a, b) == want);
            IL_HOLDS(il_form_cmp(b, a) == -want);
        }

        free(y);
    }

    free(x);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char             *plain;
    size_t            pos, n, len, hits;
    il_str_t          rest, name, form, value, last;
    il_form_rc_e      rc;
    il_form_field_t   f;

    rest = il_str((const char *) data, size);
    name = il_fuzz_field(&rest);
    form = il_fuzz_copy((const uint8_t *) rest.data, rest.len);
    value = il_str(NULL, 0);
    last = name;

    rc = il_form_find(form, name, &value);
    IL_HOLDS((rc == IL_FORM_OK) == (value.data != NULL));

    if (rc != IL_FORM_MALFORMED && rc != IL_FORM_TOO_MANY) {
        IL_HOLDS(il_form_check(form, &n) == IL_FORM_OK);

        pos = 0;
        hits = 0;

        while (il_form_next(form, &pos, &f)) {
            IL_HOLDS(n-- > 0);

            IL_HOLDS(decode(f.value, &plain, &len) == 0);
            free(plain);

            IL_HOLDS(decode(f.name, &plain, &len) == 0);
            hits += il_str_eq(il_str(plain, len), name);
            free(plain);

            order(last, f.value);
            last = f.name;
        }

        IL_HOLDS(n == 0);
        IL_HOLDS(rc == (hits == 0 ? IL_FORM_MISSING
                                  : hits == 1 ? IL_FORM_OK
                                              : IL_FORM_DUPLICATE));
    }

    il_fuzz_drop(form);
    il_fuzz_drop(name);

    return 0;
}
