/*
 * enc.c: hex, base64, UTF-8, JSON escaping.
 */

#include "unit.h"
#include "il_enc.h"


static void
hex_takes_both_cases_and_nothing_else(void **state)
{
    char      text[9];
    size_t    i;
    uint8_t   out[4];
    il_str_t  s;

    static const char *const  bad[] = {
        "", "0", "00112", "001122", "00112233445566", "0011223g", " 0112233",
        "0011223 ", "00:12233", "0x112233", "0011223\n", "-0112233",
    };

    (void) state;

    assert_int_equal(il_hex_decode(out, 4, il_lit("00aBcDff")), 0);
    assert_memory_equal(out, "\x00\xab\xcd\xff", 4);

    il_hex_encode(text, out, 4);
    assert_string_equal(text, "00abcdff");

    assert_int_equal(il_hex_decode(out, 0, il_lit("")), 0);

    for (i = 0; i < il_rows(bad); i++) {
        s = il_exact(il_cstr(bad[i]));

        if (il_hex_decode(out, 4, s) == 0) {
            fail_msg("taken: \"%s\"", bad[i]);
        }

        il_drop(s);
    }

    /* A NUL is not the end of the text. */

    assert_int_equal(il_hex_decode(out, 4, il_lit("001122\0\0")), -1);
}


static void
hex_of_every_byte(void **state)
{
    char      text[3], want[8];
    uint8_t   b, out;
    unsigned  i;

    (void) state;

    for (i = 0; i < 256; i++) {
        b = (uint8_t) i;
        il_hex_encode(text, &b, 1);
        (void) snprintf(want, sizeof(want), "%02x", i);
        assert_string_equal(text, want);
        assert_int_equal(il_hex_decode(&out, 1, il_str(text, 2)), 0);
        assert_int_equal(out, b);
    }
}


/* RFC 4648 section 10. */

static void
base64_of_the_rfc(void **state)
{
    char     text[16];
    size_t   i, n;
    uint8_t  out[8];

    static const struct {
        const char  *plain;
        const char  *std;
        const char  *url;
    } rows[] = {
        { "f", "Zg==", "Zg" },
        { "fo", "Zm8=", "Zm8" },
        { "foo", "Zm9v", "Zm9v" },
        { "foob", "Zm9vYg==", "Zm9vYg" },
        { "fooba", "Zm9vYmE=", "Zm9vYmE" },
        { "foobar", "Zm9vYmFy", "Zm9vYmFy" },
        { "\xfb\xff\xbf", "+/+/", "-_-_" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        n = il_b64_encode(text, sizeof(text), (const uint8_t *) rows[i].plain,
                          strlen(rows[i].plain), IL_B64_STD);
        il_assert_text(text, n, rows[i].std);
        assert_int_equal(text[n], '\0');

        n = il_b64_encode(text, sizeof(text), (const uint8_t *) rows[i].plain,
                          strlen(rows[i].plain), IL_B64_URL_NOPAD);
        il_assert_text(text, n, rows[i].url);

        assert_int_equal(il_b64_decode(out, sizeof(out), &n,
                                       il_cstr(rows[i].std), IL_B64_STD), 0);
        il_assert_text((char *) out, n, rows[i].plain);

        assert_int_equal(il_b64_decode(out, sizeof(out), &n,
                                       il_cstr(rows[i].url),
                                       IL_B64_URL_NOPAD), 0);
        il_assert_text((char *) out, n, rows[i].plain);
    }

    assert_int_equal(il_b64_decode(out, 0, &n, il_lit(""), IL_B64_STD), 0);
    assert_int_equal(n, 0);
}


static void
base64_traps(void **state)
{
    size_t    i, n;
    uint8_t   out[16];
    il_str_t  s;

    static const il_str_t  bad_std[] = {
        il_string("Zg"), il_string("Zg="), il_string("Zg==="),
        il_string("Zg==\n"), il_string("Zg==Zg=="), il_string("Zh=="),
        il_string("Zm9="), il_string("Zm8"), il_string("Zm8=="),
        il_string("Zm9v="), il_string("Zm9v===="), il_string("="),
        il_string("=="), il_string("===="), il_string("Z"),
        il_string("Z==="), il_string(" Zg=="), il_string("Z g=="),
        il_string("Zm\n9v"), il_string("-_-_"), il_string("Zg==\0"),
        il_string("Z\0=="), il_string("Zm9v\xc3\xa9=="), il_string("Z*=="),
    };

    static const il_str_t  bad_url[] = {
        il_string("Zg=="), il_string("Zm8="), il_string("Zh"),
        il_string("Zm9"), il_string("Z"), il_string("Zm9vY"),
        il_string("+/+/"), il_string("Zg\n"), il_string("Zg "),
        il_string("Zg."), il_string("Zg\0"),
    };

    (void) state;

    for (i = 0; i < il_rows(bad_std); i++) {
        s = il_exact(bad_std[i]);

        if (il_b64_decode(out, sizeof(out), &n, s, IL_B64_STD) == 0) {
            fail_msg("taken: row %zu \"%s\"", i, bad_std[i].data);
        }

        il_drop(s);
    }

    for (i = 0; i < il_rows(bad_url); i++) {
        s = il_exact(bad_url[i]);

        if (il_b64_decode(out, sizeof(out), &n, s, IL_B64_URL_NOPAD) == 0) {
            fail_msg("taken: row %zu \"%s\"", i, bad_url[i].data);
        }

        il_drop(s);
    }
}


/* All texts of three characters: what decodes must encode to itself. */

static void
base64_has_one_spelling(void **state)
{
    char      in[3], text[8];
    size_t    n, m, taken;
    uint8_t   out[3];
    unsigned  a, b, c;

    static const char  set[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=";

    (void) state;

    taken = 0;

    for (a = 0; a < sizeof(set); a++) {
        for (b = 0; b < sizeof(set); b++) {
            for (c = 0; c < sizeof(set); c++) {
                in[0] = set[a];
                in[1] = set[b];
                in[2] = set[c];

                if (il_b64_decode(out, sizeof(out), &n, il_str(in, 3),
                                  IL_B64_URL_NOPAD) != 0)
                {
                    continue;
                }

                taken++;
                m = il_b64_encode(text, sizeof(text), out, n,
                                  IL_B64_URL_NOPAD);
                assert_int_equal(m, 3);
                assert_memory_equal(text, in, 3);
            }
        }
    }

    /* Three characters are two bytes. */

    assert_int_equal(taken, 65536);
}


/* Every byte in every place of a text that is valid otherwise. */

static void
every_byte_that_is_no_digit(void **state)
{
    char      text[8];
    size_t    i, n;
    uint8_t   out[6];
    unsigned  c, std, url, hex;

    (void) state;

    for (i = 0; i < 8; i++) {
        std = 0;
        url = 0;
        hex = 0;

        for (c = 0; c < 256; c++) {
            memcpy(text, "AAAAAAAA", 8);
            text[i] = (char) c;

            std += il_b64_decode(out, 6, &n, il_str(text, 8), IL_B64_STD)
                   == 0;
            url += il_b64_decode(out, 6, &n, il_str(text, 8),
                                 IL_B64_URL_NOPAD) == 0;
            hex += il_hex_decode(out, 4, il_str(text, 8)) == 0;
        }

        /* In the last place "=" is one more, with no bits lost behind. */

        assert_int_equal(std, i == 7 ? 65 : 64);
        assert_int_equal(url, 64);
        assert_int_equal(hex, 22);
    }
}


static void
base64_keeps_to_its_buffers(void **state)
{
    char      text[9];
    size_t    n;
    uint8_t   out[6];

    (void) state;

    memset(text, '#', sizeof(text));
    assert_int_equal(il_b64_encode(text, 8, (const uint8_t *) "foobar", 6,
                                   IL_B64_STD), 0);
    assert_int_equal(text[8], '#');
    assert_int_equal(il_b64_encode(text, 9, (const uint8_t *) "foobar", 6,
                                   IL_B64_STD), 8);
    assert_int_equal(il_b64_encode(text, 0, NULL, 0, IL_B64_STD), 0);
    assert_int_equal(il_b64_encode(text, 9, NULL, SIZE_MAX, IL_B64_STD), 0);
    assert_true(il_b64_encoded_cap(6) >= 9);

    assert_int_equal(il_b64_decode(out, 5, &n, il_lit("Zm9vYmFy"),
                                   IL_B64_STD), -1);
    assert_int_equal(n, 0);
    assert_int_equal(il_b64_decode(out, 0, &n, il_lit("Zm9vYmFy"),
                                   IL_B64_STD), -1);
}


static size_t
put_utf8(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char) cp;
        return 1;
    }

    if (cp < 0x800) {
        out[0] = (char) (0xc0 + cp / 64);
        out[1] = (char) (0x80 + cp % 64);
        return 2;
    }

    if (cp < 0x10000) {
        out[0] = (char) (0xe0 + cp / 4096);
        out[1] = (char) (0x80 + cp / 64 % 64);
        out[2] = (char) (0x80 + cp % 64);
        return 3;
    }

    out[0] = (char) (0xf0 + cp / 262144);
    out[1] = (char) (0x80 + cp / 4096 % 64);
    out[2] = (char) (0x80 + cp / 64 % 64);
    out[3] = (char) (0x80 + cp % 64);

    return 4;
}


static void
utf8_every_code_point(void **state)
{
    int       want;
    char      s[4];
    size_t    n;
    uint32_t  cp;

    (void) state;

    for (cp = 0; cp < 0x120000; cp++) {
        n = put_utf8(cp, s);
        want = (cp < 0xd800 || cp > 0xdfff) && cp <= 0x10ffff;

        if (il_utf8_valid(il_str(s, n)) != want) {
            fail_msg("U+%04X: want %d", cp, want);
        }

        if (n > 1 && il_utf8_valid(il_str(s, n - 1))) {
            fail_msg("U+%04X cut short is taken", cp);
        }
    }
}


/* All three-byte inputs: the number of well-formed ones is known. */

static void
utf8_every_three_bytes(void **state)
{
    char      s[3];
    size_t    valid;
    uint32_t  i;

    (void) state;

    valid = 0;

    for (i = 0; i < 0x1000000; i++) {
        s[0] = (char) (i >> 16);
        s[1] = (char) (i >> 8 & 0xff);
        s[2] = (char) (i & 0xff);
        valid += il_utf8_valid(il_str(s, 3)) != 0;
    }

    assert_int_equal(valid, 128 * 128 * 128 + 2 * 128 * 1920 + 61440);
}


static void
utf8_refused(void **state)
{
    size_t    i, k;
    char      longer[64];
    il_str_t  s;

    static const il_str_t  bad[] = {
        il_string("\x80"), il_string("\xbf"), il_string("\xc0\x80"),
        il_string("\xc1\xbf"), il_string("\xc3"), il_string("\xc3("),
        il_string("\xe0\x80\x80"), il_string("\xe0\x9f\xbf"),
        il_string("\xed\xa0\x80"), il_string("\xed\xbf\xbf"),
        il_string("\xe2\x82"), il_string("\xf0\x8f\xbf\xbf"),
        il_string("\xf4\x90\x80\x80"), il_string("\xf5\x80\x80\x80"),
        il_string("\xf8\x88\x80\x80\x80"), il_string("\xfe"),
        il_string("\xff"), il_string("\xf0\x9f\x98"),
        il_string("\xf0\x9f\x98("),
    };

    (void) state;

    for (i = 0; i < il_rows(bad); i++) {

        /* Alone, and at each place among ASCII. */

        for (k = 0; k < 24; k++) {
            memset(longer, 'a', sizeof(longer));
            memcpy(longer + k, bad[i].data, bad[i].len);

            s = il_exact(il_str(longer, k + bad[i].len));
            assert_false(il_utf8_valid(s));
            il_drop(s);

            assert_false(il_utf8_valid(il_str(longer, k + bad[i].len + 16)));
        }
    }

    assert_true(il_utf8_valid(il_str(NULL, 0)));
    assert_true(il_utf8_valid(il_lit("\0")));
    assert_true(il_utf8_valid(il_lit("0123456\xc3\xa9 01234567")));
}


static void
controls(void **state)
{
    char      c;
    unsigned  i;

    (void) state;

    for (i = 0; i < 256; i++) {
        c = (char) i;
        assert_int_equal(il_has_control(il_str(&c, 1)),
                         i < 0x20 || i == 0x7f);
    }

    assert_int_equal(il_has_control(il_lit("abc\n")), 1);
    assert_int_equal(il_has_control(il_lit("")), 0);
}


static void
json_escaping(void **state)
{
    char      out[64];
    size_t    i, n, k;
    il_str_t  s;

    static const struct {
        il_str_t     in;
        const char  *want;
    } rows[] = {
        { il_string(""), "" },
        { il_string("plain / text"), "plain / text" },
        { il_string("a\"b\\c"), "a\\\"b\\\\c" },
        { il_string("\b\f\n\r\t"), "\\b\\f\\n\\r\\t" },
        { il_string("\0\x01\x1f\x7f"), "\\u0000\\u0001\\u001f\x7f" },
        { il_string("h\xc3\xa9"), "h\xc3\xa9" },
        { il_string("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80" },
        { il_string("a\xff" "b"), "a\xef\xbf\xbd" "b" },
        { il_string("\xc3"), "\xef\xbf\xbd" },
        { il_string("\xed\xa0\x80"),
          "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        s = il_exact(rows[i].in);

        n = il_json_escape(out, sizeof(out), s);
        il_assert_text(out, n, rows[i].want);
        assert_true(n <= il_json_escaped_cap(s.len));

        /* Each smaller buffer is refused and not overrun. */

        for (k = 0; k < n; k++) {
            memset(out, '#', sizeof(out));
            assert_true(il_json_escape(out, k, s) == (size_t) -1);
            assert_int_equal(out[k], '#');
        }

        il_drop(s);
    }
}


static void
nothing_to_see(void **state)
{
    size_t    i;
    il_str_t  s;

    static const struct {
        il_str_t  in;
        int       want;
    } rows[] = {
        { il_string(""), 1 },
        { il_string(" \t\r\n\v\f\0\x7f"), 1 },
        { il_string("\xc2\xa0"), 1 },                  /* U+00A0 */
        { il_string("\xc2\xad\xcd\x8f\xd8\x9c"), 1 },  /* AD 34F 61C */
        { il_string("\xe1\x85\x9f\xe1\x9a\x80"), 1 },  /* 115F 1680 */
        { il_string("\xe2\x80\x8b\xe2\x80\xae"), 1 },  /* 200B 202E */
        { il_string("\xe2\xa0\x80\xe3\x80\x80"), 1 },  /* 2800 3000 */
        { il_string("\xef\xb8\x8f\xef\xbb\xbf"), 1 },  /* FE0F FEFF */
        { il_string("."), 0 },
        { il_string("  x"), 0 },
        { il_string("\xc2\xa1"), 0 },                  /* U+00A1 */
        { il_string("\xe2\x80\x90"), 0 },              /* U+2010 */
        { il_string("\xef\xb8\x90"), 0 },              /* U+FE10 */
        { il_string("\xf0\x9f\x98\x80"), 0 },
        { il_string(" \xff"), 0 },
        { il_string("\xe2\x80"), 0 }
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        s = il_exact(rows[i].in);
        assert_int_equal(il_is_blank(s), rows[i].want);
        il_drop(s);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(hex_takes_both_cases_and_nothing_else),
        cmocka_unit_test(hex_of_every_byte),
        cmocka_unit_test(base64_of_the_rfc),
        cmocka_unit_test(base64_traps),
        cmocka_unit_test(base64_has_one_spelling),
        cmocka_unit_test(every_byte_that_is_no_digit),
        cmocka_unit_test(base64_keeps_to_its_buffers),
        cmocka_unit_test(utf8_every_code_point),
        cmocka_unit_test(utf8_every_three_bytes),
        cmocka_unit_test(utf8_refused),
        cmocka_unit_test(controls),
        cmocka_unit_test(json_escaping),
        cmocka_unit_test(nothing_to_see),
    };

    return il_unit_run(tests);
}
