/*
 * key.c: work keys, idempotency keys, names.
 */

#include "unit.h"
#include "il_key.h"


static il_key_rc_e
build(char *out, size_t *len, const char *const *texts, size_t n)
{
    size_t       i;
    il_str_t     parts[32];
    il_key_rc_e  rc;

    memset(parts, 0, sizeof(parts));

    for (i = 0; i < n; i++) {
        parts[i] = il_exact(il_cstr(texts[i]));
    }

    rc = il_key_build(out, IL_KEY_MAX, len, parts, n);

    for (i = 0; i < n; i++) {
        il_drop(parts[i]);
    }

    return rc;
}


static void
parts_are_encoded(void **state)
{
    char    out[IL_KEY_MAX];
    size_t  i, len;

    static const struct {
        const char  *parts[3];
        size_t       n;
        const char  *want;
    } rows[] = {
        { { "a" }, 1, "a" },
        { { "github", "octo/hello", "refs/heads/main" }, 3,
          "github:octo/hello:refs/heads/main" },
        { { "a:b", "c" }, 2, "a%3Ab:c" },
        { { "a", "b:c" }, 2, "a:b%3Ac" },
        { { "100%" }, 1, "100%25" },
        { { "%3A" }, 1, "%253A" },
        { { "a b" }, 1, "a%20b" },
        { { "\x01\n\x7f" }, 1, "%01%0A%7F" },
        { { "caf\xc3\xa9", "\xec\x84\x9c\xec\x9a\xb8" }, 2,
          "caf\xc3\xa9:\xec\x84\x9c\xec\x9a\xb8" },
        { { "\"\\<>{}?#" }, 1, "\"\\<>{}?#" },

        /* dots that a URL would resolve */
        { { "." }, 1, "%2E" },
        { { ".." }, 1, "%2E%2E" },
        { { "..." }, 1, "..." },
        { { "../a/./b/.." }, 1, "%2E%2E/a/%2E/b/%2E%2E" },
        { { "..", "a" }, 2, "..:a" },
        { { "a", ".." }, 2, "a:.." },
        { { "a/..", "b" }, 2, "a/..:b" },
        { { "a", "b/.." }, 2, "a:b/%2E%2E" },
        { { ".a/..b/c." }, 1, ".a/..b/c." },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        assert_int_equal(build(out, &len, rows[i].parts, rows[i].n),
                         IL_KEY_OK);
        il_assert_text(out, len, rows[i].want);
        assert_int_equal(il_key_check(il_str(out, len)), IL_KEY_OK);
    }
}


static void
a_nul_is_a_control_character(void **state)
{
    char      out[IL_KEY_MAX];
    size_t    len;
    il_str_t  part;

    (void) state;

    part = il_lit("a\0b");
    assert_int_equal(il_key_build(out, sizeof(out), &len, &part, 1),
                     IL_KEY_OK);
    il_assert_text(out, len, "a%00b");
}


/*
 * All lists of up to three parts of up to two characters out of those that
 * could be taken for each other: each makes a key of its own.
 */

#define SET    ":%3Aa "
#define TEXTS  (6 + 36)

typedef struct {
    char    data[40];
    size_t  len;
} made_t;


static int
by_bytes(const void *a, const void *b)
{
    int            rc;
    const made_t  *x, *y;

    x = a;
    y = b;

    rc = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);

    return rc != 0 ? rc : (x->len > y->len) - (x->len < y->len);
}


static void
different_parts_make_different_keys(void **state)
{
    char         texts[TEXTS][3];
    size_t       i, j, k, n, total;
    made_t      *made;
    const char  *parts[3];

    (void) state;

    n = 0;

    for (i = 0; i < 6; i++) {
        (void) snprintf(texts[n++], 3, "%c", SET[i]);

        for (j = 0; j < 6; j++) {
            (void) snprintf(texts[n++], 3, "%c%c", SET[i], SET[j]);
        }
    }

    assert_int_equal(n, TEXTS);

    total = TEXTS + TEXTS * TEXTS + TEXTS * TEXTS * TEXTS;
    made = calloc(total, sizeof(made_t));
    assert_non_null(made);
    n = 0;

    for (i = 0; i < TEXTS; i++) {
        parts[0] = texts[i];
        assert_int_equal(build(made[n].data, &made[n].len, parts, 1), 0);
        n++;

        for (j = 0; j < TEXTS; j++) {
            parts[1] = texts[j];
            assert_int_equal(build(made[n].data, &made[n].len, parts, 2), 0);
            n++;

            for (k = 0; k < TEXTS; k++) {
                parts[2] = texts[k];
                assert_int_equal(build(made[n].data, &made[n].len, parts, 3),
                                 0);
                n++;
            }
        }
    }

    assert_int_equal(n, total);
    qsort(made, total, sizeof(made_t), by_bytes);

    for (i = 1; i < total; i++) {
        if (by_bytes(&made[i - 1], &made[i]) == 0) {
            fail_msg("made twice: %.*s", (int) made[i].len, made[i].data);
        }
    }

    free(made);
}


static void
keys_refused(void **state)
{
    char         out[IL_KEY_MAX + 1], *big;
    size_t       i, len;
    il_str_t     parts[IL_KEY_PARTS_MAX + 1];
    il_key_rc_e  rc;

    (void) state;

    big = malloc(3000);
    assert_non_null(big);
    memset(big, 'x', 3000);

    assert_int_equal(il_key_build(out, IL_KEY_MAX, &len, parts, 0),
                     IL_KEY_INCOMPLETE);

    parts[0] = il_lit("a");
    parts[1] = il_lit("");
    parts[2] = il_lit("b");
    assert_int_equal(il_key_build(out, IL_KEY_MAX, &len, parts, 3),
                     IL_KEY_INCOMPLETE);
    assert_int_equal(len, 0);

    parts[1] = il_str(big, IL_KEY_PART_MAX);
    assert_int_equal(il_key_build(out, IL_KEY_MAX, &len, parts, 3),
                     IL_KEY_OK);
    assert_int_equal(len, IL_KEY_PART_MAX + 4);

    parts[1] = il_str(big, IL_KEY_PART_MAX + 1);
    assert_int_equal(il_key_build(out, IL_KEY_MAX, &len, parts, 3),
                     IL_KEY_PART_TOO_LONG);

    parts[1] = il_lit("\xff");
    assert_int_equal(il_key_build(out, IL_KEY_MAX, &len, parts, 3),
                     IL_KEY_MALFORMED);

    /* 4 * 511 + 3 colons = 2047; one more is the limit, two are over it. */

    for (i = 0; i < 3; i++) {
        for (len = 0; len < 3; len++) {
            parts[len] = il_str(big, 511);
        }

        parts[3] = il_str(big, 511 + i);
        rc = il_key_build(out, i == 2 ? sizeof(out) : IL_KEY_MAX, &len, parts,
                          4);
        assert_int_equal(rc, i == 2 ? IL_KEY_PART_TOO_LONG : IL_KEY_OK);
        assert_int_equal(len, i == 2 ? 0 : 2047 + i);
    }

    /* 2049 bytes would fit into the buffer, but are too long for a key. */

    parts[3] = il_str(big, 511);
    parts[4] = il_lit("y");
    assert_int_equal(il_key_build(out, sizeof(out), &len, parts, 5),
                     IL_KEY_TOO_LONG);

    /* Encoding counts: 512 spaces are 1536 bytes, twice that is too much. */

    memset(big, ' ', 3000);
    parts[0] = il_str(big, 512);
    parts[1] = il_str(big, 512);
    assert_int_equal(il_key_build(out, IL_KEY_MAX, &len, parts, 1),
                     IL_KEY_OK);
    assert_int_equal(len, 1536);
    assert_int_equal(il_key_build(out, IL_KEY_MAX, &len, parts, 2),
                     IL_KEY_TOO_LONG);

    for (i = 0; i <= IL_KEY_PARTS_MAX; i++) {
        parts[i] = il_lit("p");
    }

    assert_int_equal(il_key_build(out, IL_KEY_MAX, &len, parts,
                                  IL_KEY_PARTS_MAX), IL_KEY_OK);
    assert_int_equal(il_key_build(out, IL_KEY_MAX, &len, parts,
                                  IL_KEY_PARTS_MAX + 1), IL_KEY_TOO_LONG);

    free(big);
}


static void
building_keeps_to_its_buffer(void **state)
{
    char      out[16];
    size_t    cap, len;
    il_str_t  parts[2];

    (void) state;

    parts[0] = il_lit("a:");
    parts[1] = il_lit("b");

    for (cap = 0; cap < 6; cap++) {
        memset(out, '#', sizeof(out));
        assert_int_equal(il_key_build(out, cap, &len, parts, 2),
                         IL_KEY_TOO_LONG);
        assert_int_equal(out[cap], '#');
    }

    assert_int_equal(il_key_build(out, 6, &len, parts, 2), IL_KEY_OK);
    il_assert_text(out, len, "a%3A:b");
}


static void
whole_keys_checked(void **state)
{
    char      big[IL_KEY_MAX + 1];
    size_t    i;
    il_str_t  s;

    static const struct {
        il_str_t     key;
        il_key_rc_e  want;
    } rows[] = {
        { il_string("a"), IL_KEY_OK },
        { il_string("daily-sales:17:2026-07-24"), IL_KEY_OK },
        { il_string("a%3Ab"), IL_KEY_OK },
        { il_string("a%3ab"), IL_KEY_OK },
        { il_string("caf\xc3\xa9"), IL_KEY_OK },
        { il_string("1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16"), IL_KEY_OK },
        { il_string("1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17"),
          IL_KEY_TOO_LONG },
        { il_string(""), IL_KEY_INCOMPLETE },
        { il_string(":"), IL_KEY_INCOMPLETE },
        { il_string(":a"), IL_KEY_INCOMPLETE },
        { il_string("a:"), IL_KEY_INCOMPLETE },
        { il_string("a::b"), IL_KEY_INCOMPLETE },
        { il_string("%"), IL_KEY_MALFORMED },
        { il_string("%2"), IL_KEY_MALFORMED },
        { il_string("a%"), IL_KEY_MALFORMED },
        { il_string("a%2"), IL_KEY_MALFORMED },
        { il_string("a%2g"), IL_KEY_MALFORMED },
        { il_string("a%:2"), IL_KEY_MALFORMED },
        { il_string("a b"), IL_KEY_MALFORMED },
        { il_string("a\n"), IL_KEY_MALFORMED },
        { il_string("a\0"), IL_KEY_MALFORMED },
        { il_string("."), IL_KEY_DOT_SEGMENT },
        { il_string("a/../b"), IL_KEY_DOT_SEGMENT },
        { il_string("a:b/."), IL_KEY_DOT_SEGMENT },
        { il_string("./a"), IL_KEY_DOT_SEGMENT },
        { il_string(".:a"), IL_KEY_OK },
        { il_string("a:.."), IL_KEY_OK },
        { il_string("a/...:b"), IL_KEY_OK },
        { il_string("%2E%2E/a"), IL_KEY_OK },
        { il_string("a\x7f"), IL_KEY_MALFORMED },
        { il_string("\xff"), IL_KEY_MALFORMED },
        { il_string("a\xc3"), IL_KEY_MALFORMED },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        s = il_exact(rows[i].key);

        if (il_key_check(s) != rows[i].want) {
            fail_msg("\"%s\": want %d", rows[i].key.data, rows[i].want);
        }

        il_drop(s);
    }

    memset(big, 'x', sizeof(big));
    assert_int_equal(il_key_check(il_str(big, 512)), IL_KEY_OK);
    assert_int_equal(il_key_check(il_str(big, 513)), IL_KEY_PART_TOO_LONG);

    big[512] = ':';
    big[1025] = ':';
    big[1538] = ':';
    assert_int_equal(il_key_check(il_str(big, IL_KEY_MAX)), IL_KEY_OK);
    big[2047] = ':';
    assert_int_equal(il_key_check(il_str(big, IL_KEY_MAX + 1)),
                     IL_KEY_TOO_LONG);
}


static void
every_error_has_its_sentence(void **state)
{
    int          i, k;
    const char  *text;

    (void) state;

    for (i = IL_KEY_OK; i <= IL_KEY_MALFORMED; i++) {
        text = il_key_strerror((il_key_rc_e) i);
        assert_true(strlen(text) > 10);
        assert_int_equal(text[strlen(text) - 1], '.');

        for (k = IL_KEY_OK; k < i; k++) {
            assert_string_not_equal(text, il_key_strerror((il_key_rc_e) k));
        }
    }
}


static void
idempotency_keys(void **state)
{
    char      out[IL_IDEM_MAX];
    size_t    i, len;
    il_str_t  s;

    static const struct {
        const char  *header;
        const char  *want;
    } good[] = {
        { "8e03978e-40d5-43dd-bc93-6894a57f9324",
          "8e03978e-40d5-43dd-bc93-6894a57f9324" },
        { "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"",
          "8e03978e-40d5-43dd-bc93-6894a57f9324" },
        { "a b", "a b" }, { "\"a b\"", "a b" },
        { " a ", "a" }, { "\t\"a\" ", "a" },
        { "\" a \"", " a " },
        { "a\"b\\c", "a\"b\\c" }, { "\"a\\\"b\\\\c\"", "a\"b\\c" },
        { "'a'", "'a'" }, { "a\"", "a\"" },
        { "caf\xc3\xa9", "caf\xc3\xa9" },
        { "a;b=c", "a;b=c" }, { "x, y", "x, y" },
    };

    static const il_str_t  bad[] = {
        il_string(""), il_string(" "), il_string("\t \t"), il_string("\""),
        il_string("\"\""), il_string("\"a"), il_string("\"a\\\""),
        il_string("\"a\\"), il_string("\"a\\n\""), il_string("\"a\"b"),
        il_string("\"a\"; x=1"), il_string("\"a\", \"b\""),
        il_string("\"a\"\"b\""), il_string("\"caf\xc3\xa9\""),
        il_string("\"a\tb\""), il_string("\"a\0\""), il_string("\"\x7f\""),
        il_string("a\nb"), il_string("a\tb"), il_string("a\0b"),
        il_string("a\x7f"), il_string("\xff"), il_string("a\xc3"),
    };

    (void) state;

    for (i = 0; i < il_rows(good); i++) {
        s = il_exact(il_cstr(good[i].header));

        if (il_idem_parse(s, out, &len) != 0) {
            fail_msg("refused: %s", good[i].header);
        }

        il_assert_text(out, len, good[i].want);
        il_drop(s);
    }

    for (i = 0; i < il_rows(bad); i++) {
        s = il_exact(bad[i]);

        if (il_idem_parse(s, out, &len) != -1) {
            fail_msg("taken: row %zu %s", i, bad[i].data);
        }

        assert_int_equal(len, 0);
        il_drop(s);
    }
}


static void
idempotency_key_of_255_bytes(void **state)
{
    char      text[2 * 256 + 2];
    char     *out;
    size_t    len;

    (void) state;

    /* As long as it may be, so that one byte too many is seen. */

    out = malloc(IL_IDEM_MAX);
    assert_non_null(out);

    memset(text, 'k', sizeof(text));
    assert_int_equal(il_idem_parse(il_str(text, 255), out, &len), 0);
    assert_int_equal(len, 255);
    assert_int_equal(il_idem_parse(il_str(text, 256), out, &len), -1);

    text[0] = '"';
    text[256] = '"';
    assert_int_equal(il_idem_parse(il_str(text, 257), out, &len), 0);
    assert_int_equal(len, 255);

    text[256] = 'k';
    text[257] = '"';
    assert_int_equal(il_idem_parse(il_str(text, 258), out, &len), -1);

    /* Escapes count as what they stand for. */

    memset(text, '\\', sizeof(text));
    text[0] = '"';
    text[511] = '"';
    assert_int_equal(il_idem_parse(il_str(text, 512), out, &len), 0);
    assert_int_equal(len, 255);

    text[511] = '\\';
    text[513] = '"';
    assert_int_equal(il_idem_parse(il_str(text, 514), out, &len), -1);

    /* Spaces around do not count. */

    memset(text, ' ', sizeof(text));
    memset(text + 100, 'k', 255);
    assert_int_equal(il_idem_parse(il_str(text, sizeof(text)), out, &len), 0);
    assert_int_equal(len, 255);

    free(out);
}


static void
names(void **state)
{
    char    big[IL_NAME_MAX + 1];
    size_t  i;

    static const char *const  good[] = {
        "a", "0", "github", "daily-sales", "a.b_c-d", "9-lives", "a-",
    };

    static const char *const  bad[] = {
        "", "-a", ".a", "_a", "A", "aB", "a b", "a/b", "a:b", "a\n",
        "caf\xc3\xa9", "..", "a%", "a\x7f",
    };

    (void) state;

    for (i = 0; i < il_rows(good); i++) {
        assert_true(il_name_valid(il_cstr(good[i])));
    }

    for (i = 0; i < il_rows(bad); i++) {
        assert_false(il_name_valid(il_cstr(bad[i])));
    }

    assert_false(il_name_valid(il_lit("a\0")));

    memset(big, 'a', sizeof(big));
    assert_true(il_name_valid(il_str(big, IL_NAME_MAX)));
    assert_false(il_name_valid(il_str(big, IL_NAME_MAX + 1)));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(parts_are_encoded),
        cmocka_unit_test(a_nul_is_a_control_character),
        cmocka_unit_test(different_parts_make_different_keys),
        cmocka_unit_test(keys_refused),
        cmocka_unit_test(building_keeps_to_its_buffer),
        cmocka_unit_test(whole_keys_checked),
        cmocka_unit_test(every_error_has_its_sentence),
        cmocka_unit_test(idempotency_keys),
        cmocka_unit_test(idempotency_key_of_255_bytes),
        cmocka_unit_test(names),
    };

    return il_unit_run(tests);
}
