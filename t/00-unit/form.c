/*
 * form.c: application/x-www-form-urlencoded.
 */

#include "unit.h"
#include "il_form.h"


static void
fields_are_divided(void **state)
{
    size_t           i, k, n, pos;
    il_str_t         form;
    il_form_field_t  f;

    static const struct {
        const char  *form;
        const char  *want[8];           /* name, value, … as they stand */
    } rows[] = {
        { "", { NULL } },
        { "&", { NULL } },
        { "&&&", { NULL } },
        { "a", { "a", "" } },
        { "a=", { "a", "" } },
        { "=", { "", "" } },
        { "=b", { "", "b" } },
        { "a=b", { "a", "b" } },
        { "a=b=c", { "a", "b=c" } },
        { "a=1&b=2", { "a", "1", "b", "2" } },
        { "&a=1&&b=2&", { "a", "1", "b", "2" } },
        { "a=1;b=2", { "a", "1;b=2" } },
        { "a&b&a", { "a", "", "b", "", "a", "" } },
        { "%26=%3D&x=+", { "%26", "%3D", "x", "+" } },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        form = il_exact(il_cstr(rows[i].form));
        pos = 0;

        for (k = 0; il_form_next(form, &pos, &f); k += 2) {
            assert_true(k < 8 && rows[i].want[k] != NULL);
            il_assert_text(f.name.data, f.name.len, rows[i].want[k]);
            il_assert_text(f.value.data, f.value.len, rows[i].want[k + 1]);
        }

        assert_true(k == 8 || rows[i].want[k] == NULL);
        assert_int_equal(il_form_check(form, &n), IL_FORM_OK);
        assert_int_equal(n, k / 2);

        il_drop(form);
    }
}


static void
fields_are_found(void **state)
{
    size_t        i;
    il_str_t      form, name, value;
    il_form_rc_e  rc;

    static const struct {
        const char    *form;
        const char    *name;
        il_form_rc_e   rc;
        const char    *value;
    } rows[] = {
        { "", "a", IL_FORM_MISSING, NULL },
        { "b=1", "a", IL_FORM_MISSING, NULL },
        { "aa=1&A=2", "a", IL_FORM_MISSING, NULL },
        { "a=1", "aa", IL_FORM_MISSING, NULL },
        { "a=1", "", IL_FORM_MISSING, NULL },
        { "=1", "", IL_FORM_OK, "1" },
        { "a=1", "a", IL_FORM_OK, "1" },
        { "x=0&a=1", "a", IL_FORM_OK, "1" },
        { "a", "a", IL_FORM_OK, "" },

        /* names are compared decoded */
        { "%61=1", "a", IL_FORM_OK, "1" },
        { "user+name=1", "user name", IL_FORM_OK, "1" },
        { "user%20name=1", "user name", IL_FORM_OK, "1" },
        { "user%2Bname=1", "user+name", IL_FORM_OK, "1" },
        { "caf%C3%a9=1", "caf\xc3\xa9", IL_FORM_OK, "1" },
        { "a%00=1", "a", IL_FORM_MISSING, NULL },
        { "a%3D=1", "a=", IL_FORM_OK, "1" },

        /* twice, in whatever spelling */
        { "a=1&a=1", "a", IL_FORM_DUPLICATE, NULL },
        { "a=1&b&%61", "a", IL_FORM_DUPLICATE, NULL },
        { "b=1&b=2&a=3", "a", IL_FORM_OK, "3" },

        /* a broken escape anywhere */
        { "a=%", "a", IL_FORM_MALFORMED, NULL },
        { "a=%4", "a", IL_FORM_MALFORMED, NULL },
        { "a=%4&b=1", "b", IL_FORM_MALFORMED, NULL },
        { "a=%4g", "a", IL_FORM_MALFORMED, NULL },
        { "a=%g4", "a", IL_FORM_MALFORMED, NULL },
        { "a=%%41", "a", IL_FORM_MALFORMED, NULL },
        { "a=1&%4=1", "a", IL_FORM_MALFORMED, NULL },
        { "%=1&a=1", "a", IL_FORM_MALFORMED, NULL },
        { "a=%+1", "a", IL_FORM_MALFORMED, NULL },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        form = il_exact(il_cstr(rows[i].form));
        name = il_exact(il_cstr(rows[i].name));
        value = il_lit("untouched");

        rc = il_form_find(form, name, &value);

        if (rc != rows[i].rc) {
            fail_msg("\"%s\" in \"%s\": got %d, want %d", rows[i].name,
                     rows[i].form, (int) rc, (int) rows[i].rc);
        }

        il_assert_text(value.data, value.len,
                       rc == IL_FORM_OK ? rows[i].value : "untouched");

        il_drop(name);
        il_drop(form);
    }
}


static void
values_are_decoded(void **state)
{
    char      out[64];
    size_t    i, len;
    il_str_t  raw;

    static const struct {
        const char  *raw;
        const char  *want;              /* NULL: refused */
    } rows[] = {
        { "", "" },
        { "abc", "abc" },
        { "a+b", "a b" },
        { "%2B%2b", "++" },
        { "%E2%82%AC", "\xe2\x82\xac" },
        { "%ff", "\xff" },
        { "\xff", "\xff" },
        { "100%25", "100%" },
        { "%2541", "%41" },
        { "%", NULL },
        { "ab%1", NULL },
        { "%x1", NULL },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        raw = il_exact(il_cstr(rows[i].raw));

        if (rows[i].want == NULL) {
            assert_int_equal(il_form_decode(raw, out, sizeof(out), &len), -1);

        } else {
            assert_int_equal(il_form_decode(raw, out, sizeof(out), &len), 0);
            il_assert_text(out, len, rows[i].want);

            /* just enough room, and one byte less */

            assert_int_equal(il_form_decode(raw, out, len, &len), 0);

            if (len > 0) {
                assert_int_equal(il_form_decode(raw, out, len - 1, &len), -1);
            }
        }

        il_drop(raw);
    }

    assert_int_equal(il_form_decode(il_lit("%00"), out, 1, &len), 0);
    assert_int_equal(len, 1);
    assert_int_equal(out[0], 0);
}


static void
order_is_of_bytes(void **state)
{
    size_t  i;

    static const struct {
        const char  *a, *b;
        int          want;
    } rows[] = {
        { "", "", 0 },
        { "", "a", -1 },
        { "a", "ab", -1 },
        { "a", "b", -1 },
        { "B", "a", -1 },
        { "a", "%61", 0 },
        { "+", "%20", 0 },
        { "%c3%a9", "\xc3\xa9", 0 },
        { "z", "%c3", -1 },
        { "%7a", "%C3", -1 },
        { "%00", "", 1 },
        { "%00", "%01", -1 },
        { "%zz", "%25zz", 0 },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        assert_int_equal(il_form_cmp(il_cstr(rows[i].a), il_cstr(rows[i].b)),
                         rows[i].want);
        assert_int_equal(il_form_cmp(il_cstr(rows[i].b), il_cstr(rows[i].a)),
                         -rows[i].want);
    }
}


static void
number_of_fields_is_bounded(void **state)
{
    size_t    i, n;
    char     *p;
    il_str_t  value;

    (void) state;

    p = malloc(2 * (IL_FORM_FIELDS_MAX + 1));
    assert_non_null(p);

    for (i = 0; i <= IL_FORM_FIELDS_MAX; i++) {
        p[2 * i] = i == 0 ? 'a' : 'b';
        p[2 * i + 1] = '&';
    }

    assert_int_equal(il_form_check(il_str(p, 2 * IL_FORM_FIELDS_MAX), &n),
                     IL_FORM_OK);
    assert_int_equal(n, IL_FORM_FIELDS_MAX);
    assert_int_equal(il_form_find(il_str(p, 2 * IL_FORM_FIELDS_MAX),
                                  il_lit("a"), &value),
                     IL_FORM_OK);

    n = 2 * (IL_FORM_FIELDS_MAX + 1);

    assert_int_equal(il_form_check(il_str(p, n), NULL), IL_FORM_TOO_MANY);
    assert_int_equal(il_form_find(il_str(p, n), il_lit("a"), &value),
                     IL_FORM_TOO_MANY);

    free(p);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(fields_are_divided),
        cmocka_unit_test(fields_are_found),
        cmocka_unit_test(values_are_decoded),
        cmocka_unit_test(order_is_of_bytes),
        cmocka_unit_test(number_of_fields_is_bounded),
    };

    return il_unit_run(tests);
}
