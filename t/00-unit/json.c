/*
 * json.c: the JSON reader and JSON pointers.
 */

#include "unit.h"
#include "il_enc.h"
#include "il_json.h"


static il_json_rc_e
check(il_str_t text)
{
    il_str_t      s;
    il_json_rc_e  rc;

    s = il_exact(text);
    rc = il_json_check(s);
    il_drop(s);

    return rc;
}


static void
texts_accepted(void **state)
{
    size_t  i;

    static const il_str_t  good[] = {
        il_string("null"), il_string("true"), il_string("false"),
        il_string("0"), il_string("-0"), il_string("1"), il_string("-1"),
        il_string("10"), il_string("0.5"), il_string("-0.5e-10"),
        il_string("1e5"), il_string("1E+5"), il_string("0e0"),
        il_string("0E-00"), il_string("1.0e00"), il_string("1e400"),
        il_string("123456789012345678901234567890.0000000000000000001"),
        il_string("\"\""), il_string("\"a\""), il_string("\" \""),
        il_string("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
        il_string("\"\\u0000\""), il_string("\"\\uD83D\\uDE00\""),
        il_string("\"\\uabCD\""), il_string("\"\x7f\""),
        il_string("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""),
        il_string("\"\xef\xbf\xbf\""), il_string("\"\xe2\x80\xa8\""),
        /* The grammar has lone surrogates; unescaping refuses them. */
        il_string("\"\\ud800\""), il_string("\"\\udc00\\ud800\""),
        il_string("[]"), il_string("[ ]"), il_string("{}"), il_string("{ }"),
        il_string("[[]]"), il_string("[{}]"), il_string("{\"\":0}"),
        il_string("[1,2,3]"), il_string("[null,true,false,0,\"\",[],{}]"),
        il_string("{\"a\":1,\"b\":[2,{\"c\":null}]}"),
        il_string("{\"a\":1,\"a\":2}"), il_string("{\"a\" :\t1\r\n}"),
        il_string(" \t\r\n[1]\n"), il_string(" 1 "),
        il_string("{\"a\":{}, \"b\":[], \"c\":[[], {}]}"),
    };

    (void) state;

    for (i = 0; i < il_rows(good); i++) {
        if (check(good[i]) != IL_JSON_OK) {
            fail_msg("refused: %s", good[i].data);
        }
    }
}


static void
texts_refused(void **state)
{
    size_t  i;

    static const il_str_t  bad[] = {
        il_string(""), il_string(" "), il_string("\xef\xbb\xbf{}"),
        il_string("nul"), il_string("nulll"), il_string("True"),
        il_string("TRUE"), il_string("tru\0"), il_string("NaN"),
        il_string("Infinity"), il_string("-Infinity"), il_string("undefined"),
        il_string("-"), il_string("+1"), il_string("01"), il_string("-01"),
        il_string("1."), il_string(".5"), il_string("-.5"),
        il_string("1.e1"), il_string("1e"), il_string("1e+"),
        il_string("1E-"), il_string("0x1"), il_string("1_000"),
        il_string("1,000"), il_string("--1"), il_string("1-"),
        il_string("1 2"), il_string("0 0"), il_string("1a"),
        il_string("\xef\xbc\x91"), il_string("1\0"), il_string("\0"),
        il_string("\""), il_string("\"a"), il_string("\"\\\""),
        il_string("\"\\x\""), il_string("\"\\a\""), il_string("\"\\'\""),
        il_string("\"\\u\""), il_string("\"\\u12\""),
        il_string("\"\\u123\""), il_string("\"\\u123g\""),
        il_string("\"\\U1234\""), il_string("\"\\u+123\""),
        il_string("\"\\u12"), il_string("\"\\"), il_string("'a'"),
        il_string("\"a\nb\""), il_string("\"\t\""), il_string("\"\0\""),
        il_string("\"\x1f\""), il_string("\"\\\xc3\xa9\""),
        il_string("\"\xff\""), il_string("\"\xc3\""),
        il_string("\"\xed\xa0\x80\""), il_string("\"\xc0\x80\""),
        il_string("\"\xf5\x80\x80\x80\""), il_string("\"a\"\"b\""),
        il_string("["), il_string("]"), il_string("[1"), il_string("[1,"),
        il_string("[1,]"), il_string("[,1]"), il_string("[,]"),
        il_string("[1 2]"), il_string("[1,,2]"), il_string("[1]]"),
        il_string("[1}"), il_string("[\"a\":1]"), il_string("[1;2]"),
        il_string("{"), il_string("}"), il_string("{\"a\""),
        il_string("{\"a\":"), il_string("{\"a\":1"), il_string("{\"a\":1,"),
        il_string("{\"a\":1,}"), il_string("{,\"a\":1}"),
        il_string("{\"a\"}"), il_string("{\"a\" 1}"),
        il_string("{\"a\"::1}"), il_string("{a:1}"), il_string("{1:1}"),
        il_string("{null:1}"), il_string("{'a':1}"),
        il_string("{\"a\":1 \"b\":2}"), il_string("{\"a\":1]"),
        il_string("{\"a\":1}}"), il_string("{\"a\",\"b\"}"),
        il_string("{[]:1}"), il_string("{} {}"), il_string("[] []"),
        il_string("[1] // c"), il_string("/* c */[1]"), il_string("[1]#"),
        il_string("[\x0b" "1]"), il_string("[\x0c" "1]"),
        il_string("[\xc2\xa0" "1]"), il_string("[1]\0"),
        il_string("{\"a\":1}\0"), il_string("\x1e{}"),
    };

    (void) state;

    for (i = 0; i < il_rows(bad); i++) {
        if (check(bad[i]) != IL_JSON_MALFORMED) {
            fail_msg("row %zu not refused as malformed: %s", i, bad[i].data);
        }
    }
}


/* Every beginning of a text that needs its end is refused. */

static void
texts_cut_short(void **state)
{
    size_t    i;

    static const il_str_t  text =
        il_string("{\"a\":[1.5e3,-0,\"\\u00e9\\n\",{\"b\":null}],"
                  "\"c\":[true,false,[],{}]}");

    (void) state;

    assert_int_equal(check(text), IL_JSON_OK);

    for (i = 0; i < text.len; i++) {
        if (check(il_str(text.data, i)) == IL_JSON_OK) {
            fail_msg("taken: %.*s", (int) i, text.data);
        }
    }
}


static void
fill_depth(char *out, size_t depth, int objects, il_str_t *text)
{
    size_t  i, n;

    n = 0;

    for (i = 0; i < depth; i++) {
        if (objects && i % 2 != 0) {
            memcpy(out + n, "{\"a\":", 5);
            n += 5;
        } else {
            out[n++] = '[';
        }
    }

    out[n++] = '7';

    for (i = depth; i > 0; i--) {
        out[n++] = objects && (i - 1) % 2 != 0 ? '}' : ']';
    }

    *text = il_str(out, n);
}


static void
depth(void **state)
{
    char             *big, pointer[2 * 64 + 1];
    size_t            i;
    il_str_t          text;
    il_json_value_t   v;

    (void) state;

    big = malloc(1000000);
    assert_non_null(big);

    for (i = 0; i < 2; i++) {
        fill_depth(big, 64, (int) i, &text);
        assert_int_equal(check(text), IL_JSON_OK);

        fill_depth(big, 65, (int) i, &text);
        assert_int_equal(check(text), IL_JSON_TOO_DEEP);

        fill_depth(big, 100000, (int) i, &text);
        assert_int_equal(check(text), IL_JSON_TOO_DEEP);
        assert_int_equal(il_json_find(text, il_lit(""), &v),
                         IL_JSON_TOO_DEEP);
    }

    /* Never closed: still bounded. */

    memset(big, '[', 100000);
    assert_int_equal(check(il_str(big, 100000)), IL_JSON_TOO_DEEP);
    assert_int_equal(check(il_str(big, 64)), IL_JSON_MALFORMED);

    /* The innermost value is reached; kinds of container are kept apart. */

    fill_depth(big, 64, 0, &text);

    for (i = 0; i < 64; i++) {
        pointer[2 * i] = '/';
        pointer[2 * i + 1] = '0';
    }

    assert_int_equal(il_json_find(text, il_str(pointer, 128), &v),
                     IL_JSON_OK);
    il_assert_text(v.raw.data, v.raw.len, "7");

    fill_depth(big, 64, 1, &text);
    big[text.len - 1] = '}';
    assert_int_equal(check(text), IL_JSON_MALFORMED);

    /* Wide is not deep. */

    memset(big, 0, 4);
    big[0] = '[';

    for (i = 0; i < 200000; i++) {
        memcpy(big + 1 + 3 * i, "[],", 3);
    }

    big[3 * 200000] = ']';
    assert_int_equal(check(il_str(big, 3 * 200000 + 1)), IL_JSON_OK);

    free(big);
}


/* RFC 6901 section 5. */

static void
pointers_of_the_rfc(void **state)
{
    size_t           i;
    il_json_value_t  v;

    static const il_str_t  text = il_string(
        "{\"foo\": [\"bar\", \"baz\"], \"\": 0, \"a/b\": 1, \"c%d\": 2,"
        " \"e^f\": 3, \"g|h\": 4, \"i\\\\j\": 5, \"k\\\"l\": 6, \" \": 7,"
        " \"m~n\": 8}");

    static const struct {
        const char  *pointer;
        const char  *want;
    } rows[] = {
        { "/foo", "[\"bar\", \"baz\"]" },
        { "/foo/0", "\"bar\"" },
        { "/foo/1", "\"baz\"" },
        { "/", "0" },
        { "/a~1b", "1" },
        { "/c%d", "2" },
        { "/e^f", "3" },
        { "/g|h", "4" },
        { "/i\\j", "5" },
        { "/k\"l", "6" },
        { "/ ", "7" },
        { "/m~0n", "8" },
    };

    (void) state;

    assert_int_equal(il_json_find(text, il_lit(""), &v), IL_JSON_OK);
    assert_int_equal(v.type, IL_JSON_OBJECT);
    assert_int_equal(v.raw.len, text.len);

    for (i = 0; i < il_rows(rows); i++) {
        if (il_json_find(text, il_cstr(rows[i].pointer), &v) != IL_JSON_OK) {
            fail_msg("not found: %s", rows[i].pointer);
        }

        il_assert_text(v.raw.data, v.raw.len, rows[i].want);
    }
}


static void
pointers_that_name_nothing(void **state)
{
    size_t           i;
    il_json_value_t  v;

    static const il_str_t  text = il_string(
        "{\"a\":[10,11,12,13,14,15,16,17,18,19,20],\"n\":null,\"s\":\"x\","
        "\"o\":{\"k\":1},\"~1\":2,\"lone\\ud800\":3}");

    static const char *const  missing[] = {
        "/b", "/A", "/a/11", "/a/-", "/a/-1", "/a/00", "/a/01", "/a/1 ",
        "/a/+1", "/a/1e0", "/a/x", "/a/", "/a/4294967296",
        "/a/18446744073709551616", "/n/0", "/n/", "/s/0", "/o/k/0", "/o/",
        "/o/kk", "/o/k/", "//", "/~1", "/lone", "/lone\xef\xbf\xbd", "/aa",
    };

    static const char *const  bad[] = {
        "a", "a/b", "#/a", "/~", "/~2", "/a~", "/a/~x", "0", " /a",
        "/\xff",
    };

    (void) state;

    for (i = 0; i < il_rows(missing); i++) {
        if (il_json_find(text, il_cstr(missing[i]), &v) != IL_JSON_MISSING) {
            fail_msg("not missing: %s", missing[i]);
        }
    }

    for (i = 0; i < il_rows(bad); i++) {
        if (il_json_find(text, il_cstr(bad[i]), &v) != IL_JSON_BAD_POINTER) {
            fail_msg("taken as a pointer: %s", bad[i]);
        }

        assert_false(il_json_pointer_valid(il_cstr(bad[i])));
    }

    assert_int_equal(il_json_find(text, il_lit("/a/10"), &v), IL_JSON_OK);
    il_assert_text(v.raw.data, v.raw.len, "20");
    assert_int_equal(il_json_find(text, il_lit("/~01"), &v), IL_JSON_OK);
    il_assert_text(v.raw.data, v.raw.len, "2");
    assert_int_equal(il_json_find(text, il_lit("/n"), &v), IL_JSON_OK);
    assert_int_equal(v.type, IL_JSON_NULL);

    /* The pointer is refused first, then the text as a whole. */

    assert_int_equal(il_json_find(il_lit("{"), il_lit("x"), &v),
                     IL_JSON_BAD_POINTER);
    assert_int_equal(il_json_find(il_lit("{\"a\":1}x"), il_lit("/a"), &v),
                     IL_JSON_MALFORMED);
    assert_int_equal(il_json_find(il_lit("{\"a\":1,\"b\":\"\xff\"}"),
                                  il_lit("/a"), &v), IL_JSON_MALFORMED);
}


static void
names_that_occur_twice(void **state)
{
    size_t           i;
    il_json_value_t  v;

    static const struct {
        const char    *text;
        const char    *pointer;
        il_json_rc_e   want;
    } rows[] = {
        { "{\"a\":1,\"a\":1}", "/a", IL_JSON_DUPLICATE },
        { "{\"a\":1,\"b\":2,\"a\":3}", "/a", IL_JSON_DUPLICATE },
        { "{\"a\":1,\"\\u0061\":2}", "/a", IL_JSON_DUPLICATE },
        { "{\"\\u0061\":1,\"a\":2}", "/a", IL_JSON_DUPLICATE },
        { "{\"a\":{\"x\":1},\"a\":{\"y\":2}}", "/a/x", IL_JSON_DUPLICATE },
        { "{\"a\":{\"x\":1,\"x\":2}}", "/a/x", IL_JSON_DUPLICATE },
        { "{\"/\":1,\"\\/\":2}", "/~1", IL_JSON_DUPLICATE },
        { "{\"\xc3\xa9\":1,\"\\u00e9\":2}", "/\xc3\xa9", IL_JSON_DUPLICATE },
        { "{\"\":1,\"\":2}", "/", IL_JSON_DUPLICATE },
        { "{\"a\":1,\"b\":2,\"b\":3}", "/a", IL_JSON_OK },
        { "{\"a\":1,\"A\":2}", "/a", IL_JSON_OK },
        { "{\"a\":{\"b\":1,\"b\":2}}", "/a", IL_JSON_OK },
        { "[{\"a\":1},{\"a\":2}]", "/1/a", IL_JSON_OK },
        /* Not the same text: e with an accent in one or in two. */
        { "{\"\\u00e9\":1,\"e\\u0301\":2}", "/\xc3\xa9", IL_JSON_OK },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        if (il_json_find(il_cstr(rows[i].text), il_cstr(rows[i].pointer), &v)
            != rows[i].want)
        {
            fail_msg("%s at %s", rows[i].text, rows[i].pointer);
        }
    }
}


static void
strings_unescaped(void **state)
{
    char      out[64];
    size_t    i, k, n;
    il_str_t  raw;

    static const struct {
        const char  *raw;
        il_str_t     want;
    } rows[] = {
        { "\"\"", il_string("") },
        { "\"abc\"", il_string("abc") },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", il_string("\"\\/\b\f\n\r\t") },
        { "\"\\u0041\\u00e9\\u20AC\\ufffd\"",
          il_string("A\xc3\xa9\xe2\x82\xac\xef\xbf\xbd") },
        { "\"a\\u0000b\"", il_string("a\0b") },
        { "\"\\ud83d\\ude00\"", il_string("\xf0\x9f\x98\x80") },
        { "\"\\uD800\\uDC00\"", il_string("\xf0\x90\x80\x80") },
        { "\"\\uDBFF\\uDFFF\"", il_string("\xf4\x8f\xbf\xbf") },
        { "\"\\ud7ff\\ue000\"", il_string("\xed\x9f\xbf\xee\x80\x80") },
        { "\"\\u007f\\u0080\\u07ff\\u0800\"",
          il_string("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80") },
    };

    static const char *const  lone[] = {
        "\"\\ud800\"", "\"\\udc00\"", "\"\\udfff\"", "\"\\ud800x\"",
        "\"\\ud800\\n\"", "\"\\ud800\\u0041\"", "\"\\ud800\\ud800\"",
        "\"\\ud800\\ue000\"",
        "\"\\udc00\\ud800\"", "\"\\ud83d\\ude00\\ud83d\"",
        "\"\\ud800\\u\"",
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        raw = il_exact(il_cstr(rows[i].raw));

        assert_int_equal(il_json_unescape(raw, out, sizeof(out), &n), 0);
        assert_int_equal(n, rows[i].want.len);
        assert_memory_equal(out, rows[i].want.data, n);
        assert_true(n <= raw.len);
        assert_true(il_utf8_valid(il_str(out, n)));

        for (k = 0; k < rows[i].want.len; k++) {
            memset(out, '#', sizeof(out));
            assert_int_equal(il_json_unescape(raw, out, k, &n), -1);
            assert_int_equal(out[k], '#');
        }

        il_drop(raw);
    }

    for (i = 0; i < il_rows(lone); i++) {
        raw = il_exact(il_cstr(lone[i]));
        assert_int_equal(il_json_unescape(raw, out, sizeof(out), &n), -1);
        il_drop(raw);
    }

    assert_int_equal(il_json_unescape(il_lit("12"), out, 8, &n), -1);
    assert_int_equal(il_json_unescape(il_lit("\""), out, 8, &n), -1);
    assert_int_equal(il_json_unescape(il_lit(""), out, 8, &n), -1);
}


/* Escaping and unescaping are inverse for any valid text. */

static void
escape_round_trip(void **state)
{
    char      text[48], raw[48 * 6 + 2], back[48 * 6 + 2];
    size_t    i, k, n, len;
    uint32_t  r;

    (void) state;

    r = 12345;

    for (i = 0; i < 20000; i++) {
        n = i % 40;

        for (k = 0; k < n; k++) {
            r = r * 1664525 + 1013904223;
            text[k] = (char) (r >> 24 & 0x7f);
        }

        if (n >= 4 && i % 3 == 0) {
            memcpy(text + n - 4, "\xf0\x9f\x98\x80", 4);
        }

        raw[0] = '"';
        len = il_json_escape(raw + 1, sizeof(raw) - 2, il_str(text, n));
        assert_true(len != (size_t) -1);
        raw[len + 1] = '"';

        assert_int_equal(il_json_check(il_str(raw, len + 2)), IL_JSON_OK);
        assert_int_equal(il_json_unescape(il_str(raw, len + 2), back,
                                          sizeof(back), &len), 0);
        assert_int_equal(len, n);
        assert_memory_equal(back, text, n);
    }
}


static void
scalars_keep_their_digits(void **state)
{
    char             out[64];
    size_t           i, n;
    il_json_value_t  v;

    static const char *const  rows[][2] = {
        { "1.10", "1.10" }, { "1e131071", "1e131071" }, { "-0", "-0" },
        { "12345678901234567890123", "12345678901234567890123" },
        { "true", "true" }, { "false", "false" },
        { "\"a\\u0062\"", "ab" }, { " 1 ", "1" }, { "1E+2", "1E+2" },
    };

    static const char *const  none[] = {
        "null", "[]", "{}", "[1]", "\"\\ud800\"",
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        assert_int_equal(il_json_find(il_cstr(rows[i][0]), il_lit(""), &v),
                         IL_JSON_OK);
        assert_int_equal(il_json_scalar(&v, out, sizeof(out), &n), 0);
        il_assert_text(out, n, rows[i][1]);
        assert_int_equal(il_json_scalar(&v, out, n - 1, &n), -1);
    }

    for (i = 0; i < il_rows(none); i++) {
        assert_int_equal(il_json_find(il_cstr(none[i]), il_lit(""), &v),
                         IL_JSON_OK);
        assert_int_equal(il_json_scalar(&v, out, sizeof(out), &n), -1);
    }
}


static void
walking(void **state)
{
    size_t           pos, i;
    il_str_t         name;
    il_json_value_t  v, item;

    static const char *const  want[][2] = {
        { "\"a\"", "1" }, { "\"b\\n\"", "[ 2 , {} ]" }, { "\"\"", "\"x,}\"" },
        { "\"a\"", "{\"k\":[null]}" },
    };

    static const il_json_type_e  types[] = {
        IL_JSON_NUMBER, IL_JSON_ARRAY, IL_JSON_STRING, IL_JSON_OBJECT,
    };

    static const il_str_t  text = il_string(
        " { \"a\" : 1 ,\n\"b\\n\":[ 2 , {} ] , \"\":\"x,}\","
        "\"a\":{\"k\":[null]} } ");

    (void) state;

    assert_int_equal(il_json_find(text, il_lit(""), &v), IL_JSON_OK);

    pos = 0;

    for (i = 0; i < il_rows(want); i++) {
        assert_int_equal(il_json_next(v, &pos, &name, &item), 1);
        il_assert_text(name.data, name.len, want[i][0]);
        il_assert_text(item.raw.data, item.raw.len, want[i][1]);
        assert_int_equal(item.type, types[i]);
    }

    assert_int_equal(il_json_next(v, &pos, &name, &item), 0);
    assert_int_equal(il_json_next(v, &pos, &name, &item), 0);

    assert_int_equal(il_json_find(il_lit("[true,[],3]"), il_lit(""), &v),
                     IL_JSON_OK);

    for (pos = 0, i = 0; il_json_next(v, &pos, &name, &item); i++) {
        assert_int_equal(name.len, 0);
    }

    assert_int_equal(i, 3);

    assert_int_equal(il_json_find(il_lit("{ }"), il_lit(""), &v), IL_JSON_OK);
    pos = 0;
    assert_int_equal(il_json_next(v, &pos, &name, &item), 0);

    assert_int_equal(il_json_find(il_lit("12"), il_lit(""), &v), IL_JSON_OK);
    pos = 0;
    assert_int_equal(il_json_next(v, &pos, &name, &item), 0);
}


/* A checked text may be looked into several times. */

static void
lookup_in_a_checked_text(void **state)
{
    il_str_t         text;
    il_json_value_t  v;

    (void) state;

    text = il_exact(il_lit("\n{\"a\":[1,{\"b\":\"c\"}]} "));

    assert_int_equal(il_json_check(text), IL_JSON_OK);
    assert_int_equal(il_json_lookup(text, il_lit("/a/1/b"), &v), IL_JSON_OK);
    il_assert_text(v.raw.data, v.raw.len, "\"c\"");
    assert_int_equal(il_json_lookup(text, il_lit(""), &v), IL_JSON_OK);
    il_assert_text(v.raw.data, v.raw.len, "{\"a\":[1,{\"b\":\"c\"}]}");
    assert_int_equal(il_json_lookup(text, il_lit("/z"), &v), IL_JSON_MISSING);
    assert_int_equal(il_json_lookup(text, il_lit("z"), &v),
                     IL_JSON_BAD_POINTER);

    il_drop(text);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(texts_accepted),
        cmocka_unit_test(texts_refused),
        cmocka_unit_test(texts_cut_short),
        cmocka_unit_test(depth),
        cmocka_unit_test(pointers_of_the_rfc),
        cmocka_unit_test(pointers_that_name_nothing),
        cmocka_unit_test(names_that_occur_twice),
        cmocka_unit_test(strings_unescaped),
        cmocka_unit_test(escape_round_trip),
        cmocka_unit_test(scalars_keep_their_digits),
        cmocka_unit_test(walking),
        cmocka_unit_test(lookup_in_a_checked_text),
    };

    return il_unit_run(tests);
}
