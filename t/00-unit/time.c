/*
 * time.c: RFC 3339, digits, UUIDs.
 */

#include "unit.h"

#include <time.h>

#include "il_time.h"
#include "il_uuid.h"


static void
times_read(void **state)
{
    size_t    i;
    int64_t   ms;
    il_str_t  s;

    static const struct {
        const char  *text;
        int64_t      want;
    } rows[] = {
        { "1970-01-01T00:00:00Z", 0 },
        { "1970-01-01T00:00:00.001Z", 1 },
        { "1969-12-31T23:59:59.999Z", -1 },
        { "1985-04-12T23:20:50.52Z", 482196050520 },
        { "1996-12-19T16:39:57-08:00", 851042397000 },
        { "1937-01-01T12:00:27.87+00:20", -1041337172130 },
        { "2000-02-29T00:00:00Z", 951782400000 },
        { "2024-02-29T23:59:59Z", 1709251199000 },
        { "2026-07-24t09:00:00.123456789z", 1784883600123 },
        { "2026-07-24T09:00:00.1Z", 1784883600100 },
        { "2026-07-24T18:00:00+09:00", 1784883600000 },
        { "2026-07-24T09:00:00-00:00", 1784883600000 },
        { "2026-07-24T14:45:00+05:45", 1784883600000 },
        { "0000-01-01T00:00:00Z", -62167219200000 },
        { "0000-02-29T00:00:00Z", -62162121600000 },
        { "0000-03-01T00:00:00Z", -62162035200000 },
        { "9999-12-31T23:59:59.999Z", 253402300799999 },
        /* Leap seconds end a month in UTC. */
        { "1990-12-31T23:59:60Z", 662688000000 },
        { "1990-12-31T15:59:60-08:00", 662688000000 },
        { "2016-12-31T23:59:60.5Z", 1483228800500 },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        s = il_exact(il_cstr(rows[i].text));

        if (il_rfc3339_parse(s, &ms) != 0) {
            fail_msg("refused: %s", rows[i].text);
        }

        if (ms != rows[i].want) {
            fail_msg("%s: got %lld", rows[i].text, (long long) ms);
        }

        il_drop(s);
    }
}


static void
times_refused(void **state)
{
    size_t    i;
    int64_t   ms;
    il_str_t  s;

    static const il_str_t  bad[] = {
        il_string(""), il_string("2026"), il_string("2026-07-24"),
        il_string("2026-07-24T09:00:00"), il_string("2026-07-24T09:00Z"),
        il_string("2026-07-24 09:00:00Z"), il_string("2026-07-24T09:00:00 Z"),
        il_string(" 2026-07-24T09:00:00Z"),
        il_string("2026-07-24T09:00:00Z "),
        il_string("2026-07-24T09:00:00Zx"),
        il_string("2026-07-24T09:00:00Z\0"),
        il_string("2026-7-24T09:00:00Z"),
        il_string("26-07-24T09:00:00Z"), il_string("02026-07-24T09:00:00Z"),
        il_string("+2026-07-24T09:00:00Z"),
        il_string("-026-07-24T09:00:00Z"),
        il_string("2026-00-24T09:00:00Z"), il_string("2026-13-24T09:00:00Z"),
        il_string("2026-07-00T09:00:00Z"), il_string("2026-07-32T09:00:00Z"),
        il_string("2026-06-31T09:00:00Z"), il_string("2026-02-29T09:00:00Z"),
        il_string("1900-02-29T00:00:00Z"), il_string("2100-02-29T00:00:00Z"),
        il_string("2024-02-30T00:00:00Z"), il_string("2026-07-24T24:00:00Z"),
        il_string("2026-07-24T09:60:00Z"), il_string("2026-07-24T09:00:61Z"),
        il_string("2026-07-24T09:00:60Z"), il_string("2026-07-24T23:59:60Z"),
        il_string("1990-12-31T23:59:60-08:00"),
        il_string("2026-07-24T09:00:00.Z"),
        il_string("2026-07-24T09:00:00,1Z"),
        il_string("2026-07-24T09:00:00.1.2Z"),
        il_string("2026-07-24T09:00:00+24:00"),
        il_string("2026-07-24T09:00:00+09:60"),
        il_string("2026-07-24T09:00:00+0900"),
        il_string("2026-07-24T09:00:00+09"),
        il_string("2026-07-24T09:00:00+9:00"),
        il_string("2026-07-24T09:00:00+09:00Z"),
        il_string("2026-07-24T09:00:00 09:00"),
        il_string("2026/07/24T09:00:00Z"),
        il_string("2026-07-24T09-00-00Z"), il_string("2026-07-24X09:00:00Z"),
        il_string("2026-0x-24T09:00:00Z"), il_string("2026-07-24T 9:00:00Z"),
        il_string("0000-01-01T00:00:00+00:01"),
        il_string("9999-12-31T23:59:59-00:01"),
        il_string("9999-12-31T23:59:60Z"),
        il_string("2026-07-24T09:00:00\xe2"),
    };

    (void) state;

    for (i = 0; i < il_rows(bad); i++) {
        s = il_exact(bad[i]);

        if (il_rfc3339_parse(s, &ms) == 0) {
            fail_msg("taken: %s", bad[i].data);
        }

        il_drop(s);
    }
}


/* Every day of ten thousand years, against the C library. */

static void
every_day(void **state)
{
    char        text[IL_RFC3339_CAP], want[96];
    time_t      t;
    size_t      n;
    int64_t     day, ms, back;
    struct tm   tm;

    (void) state;

    for (day = -719528; day < 2932897; day++) {
        ms = day * 86400000 + (day + 719528) * 977 % 86400 * 1000;

        n = il_rfc3339_format(text, sizeof(text), ms);
        assert_int_equal(n, 24);

        if (il_rfc3339_parse(il_str(text, n), &back) != 0 || back != ms) {
            fail_msg("%s does not come back", text);
        }

        if (day % 7 != 0) {
            continue;
        }

        t = (time_t) (ms / 1000);
        assert_non_null(gmtime_r(&t, &tm));
        (void) snprintf(want, sizeof(want),
                        "%04d-%02d-%02dT%02d:%02d:%02d.000Z",
                        tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                        tm.tm_hour, tm.tm_min, tm.tm_sec);
        assert_string_equal(text, want);
    }
}


static void
times_written(void **state)
{
    char    text[IL_RFC3339_CAP];
    size_t  n;

    (void) state;

    n = il_rfc3339_format(text, sizeof(text), 1784883600123);
    il_assert_text(text, n, "2026-07-24T09:00:00.123Z");
    n = il_rfc3339_format(text, sizeof(text), -1);
    il_assert_text(text, n, "1969-12-31T23:59:59.999Z");
    n = il_rfc3339_format(text, sizeof(text), 253402300799999);
    il_assert_text(text, n, "9999-12-31T23:59:59.999Z");

    assert_int_equal(il_rfc3339_format(text, sizeof(text), 253402300800000),
                     0);
    assert_int_equal(il_rfc3339_format(text, sizeof(text), -62167219200001),
                     0);
    assert_int_equal(il_rfc3339_format(text, sizeof(text), INT64_MAX), 0);
    assert_int_equal(il_rfc3339_format(text, sizeof(text), INT64_MIN), 0);

    memset(text, '#', sizeof(text));
    assert_int_equal(il_rfc3339_format(text, 24, 0), 0);
    assert_int_equal(text[0], '#');
    assert_int_equal(il_rfc3339_format(text, 25, 0), 24);
    assert_int_equal(text[24], '\0');
    assert_int_equal(text[25], '#');
}


static void
digits(void **state)
{
    size_t    i;
    int64_t   v;
    il_str_t  s;

    static const il_str_t  bad[] = {
        il_string(""), il_string("-1"), il_string("+1"), il_string(" 1"),
        il_string("1 "), il_string("1\n"), il_string("0x10"), il_string("1e3"),
        il_string("1.0"), il_string("1,0"), il_string("a"), il_string("1\0"),
        il_string("1234567890123456789"), il_string("18446744073709551616"),
        il_string("\xd9\xa1"), il_string("\xef\xbc\x91"),
    };

    (void) state;

    for (i = 0; i < il_rows(bad); i++) {
        s = il_exact(bad[i]);
        assert_int_equal(il_digits_parse(s, 20, &v), -1);
        il_drop(s);
    }

    assert_int_equal(il_digits_parse(il_lit("0"), 18, &v), 0);
    assert_int_equal(v, 0);
    assert_int_equal(il_digits_parse(il_lit("0012"), 18, &v), 0);
    assert_int_equal(v, 12);
    assert_int_equal(il_digits_parse(il_lit("999999999999999999"), 18, &v),
                     0);
    assert_true(v == 999999999999999999);
    assert_int_equal(il_digits_parse(il_lit("1234"), 3, &v), -1);
    assert_int_equal(il_digits_parse(il_lit("123"), 3, &v), 0);
    assert_int_equal(il_digits_parse(il_lit("1"), 0, &v), -1);
}


static void
instants(void **state)
{
    size_t    i;
    int64_t   ms;
    il_str_t  s;

    static const struct {
        const char  *text;
        int64_t      ms;                /* -1: refused */
    } rows[] = {
        { "0", 0 },
        { "1785000000", 1785000000000 },
        { "99999999999", 99999999999000 },
        { "100000000000", 100000000000 },
        { "1785000000123", 1785000000123 },
        { "253402300799999", 253402300799999 },
        { "253402300800000", -1 },
        { "999999999999999999", -1 },
        { "1000000000000000000", -1 },
        { "2026-07-25T17:20:00Z", 1785000000000 },
        { "2026-07-26T02:20:00.5+09:00", 1785000000500 },
        { "", -1 },
        { "-1", -1 },
        { "+1785000000", -1 },
        { "1785000000.123", -1 },
        { " 1785000000", -1 },
        { "1785000000\n", -1 },
        { "2026-07-25", -1 },
        { "0x10", -1 },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        s = il_exact(il_cstr(rows[i].text));
        ms = -1;

        assert_int_equal(il_instant_parse(s, &ms), rows[i].ms < 0 ? -1 : 0);

        if (ms != rows[i].ms) {
            fail_msg("%s: got %lld", rows[i].text, (long long) ms);
        }

        il_drop(s);
    }
}


static void
dates(void **state)
{
    char       out[IL_DATE_CAP];
    int64_t    days;
    il_date_t  d, back;

    (void) state;

    d.year = 2026;
    d.month = 7;
    d.day = 4;

    assert_int_equal(il_date_format(out, sizeof(out), &d), 10);
    assert_string_equal(out, "2026-07-04");
    assert_int_equal(il_date_format(out, sizeof(out) - 1, &d), 0);

    d.year = 10000;
    assert_int_equal(il_date_format(out, sizeof(out), &d), 0);
    d.year = -1;
    assert_int_equal(il_date_format(out, sizeof(out), &d), 0);

    /* every day of the years that rules of time zones may come to */

    d.year = -2;
    d.month = 1;
    d.day = 1;

    for (days = il_date_to_days(&d); d.year <= 10001; days++) {
        assert_int_equal(il_date_to_days(&d), days);

        il_date_from_days(days, &back);
        assert_true(back.year == d.year && back.month == d.month
                    && back.day == d.day);

        if (++d.day > il_date_month_days(d.year, d.month)) {
            d.day = 1;

            if (++d.month > 12) {
                d.month = 1;
                d.year++;
            }
        }
    }
}


static void
uuid_has_its_time_version_and_variant(void **state)
{
    char      text[IL_UUID_TEXT + 1], again[IL_UUID_TEXT + 1];
    size_t    i;
    uint8_t   id[IL_UUID_BYTES], back[IL_UUID_BYTES], seen_or[16];
    uint8_t   seen_and[16];

    (void) state;

    memset(seen_or, 0, sizeof(seen_or));
    memset(seen_and, 0xff, sizeof(seen_and));

    for (i = 0; i < 1000; i++) {
        il_uuid7(id, 0x017f22e279b0);
        il_uuid_format(text, id);

        /* The time of RFC 9562's own example. */

        assert_memory_equal(text, "017f22e2-79b0-7", 15);
        assert_non_null(strchr("89ab", text[19]));
        assert_int_equal(strlen(text), IL_UUID_TEXT);

        assert_int_equal(il_uuid_parse(back, il_str(text, IL_UUID_TEXT)), 0);
        assert_memory_equal(back, id, sizeof(id));

        for (size_t k = 0; k < 16; k++) {
            seen_or[k] |= id[k];
            seen_and[k] &= id[k];
        }
    }

    /* All 74 bits vary. */

    assert_int_equal(seen_or[6], 0x7f);
    assert_int_equal(seen_and[6], 0x70);
    assert_int_equal(seen_or[8], 0xbf);
    assert_int_equal(seen_and[8], 0x80);

    for (i = 7; i < 16; i++) {
        if (i != 8) {
            assert_int_equal(seen_or[i], 0xff);
            assert_int_equal(seen_and[i], 0);
        }
    }

    /* Later times sort behind. */

    il_uuid7(id, 0xffffffffffff);
    il_uuid_format(text, id);
    il_uuid7(back, 0xfffffffffffe);
    il_uuid_format(again, back);
    assert_true(strcmp(again, text) < 0);
}


static void
uuid_texts(void **state)
{
    size_t    i;
    uint8_t   id[IL_UUID_BYTES];
    il_str_t  s;

    static const uint8_t  want[IL_UUID_BYTES] = {
        0x01, 0x7f, 0x22, 0xe2, 0x79, 0xb0, 0x7c, 0xc3,
        0x98, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f
    };

    static const il_str_t  bad[] = {
        il_string(""),
        il_string("017F22E279B07CC398C4DC0C0C07398F"),
        il_string("017F22E2-79B0-7CC3-98C4-DC0C0C07398"),
        il_string("017F22E2-79B0-7CC3-98C4-DC0C0C07398F0"),
        il_string("017F22E2-79B0-7CC3-98C4-DC0C0C07398G"),
        il_string("{17F22E2-79B0-7CC3-98C4-DC0C0C07398F}"),
        il_string("017F22E27-9B0-7CC3-98C4-DC0C0C07398F"),
        il_string("017F22E2_79B0-7CC3-98C4-DC0C0C07398F"),
        il_string("017F22E2-79B0-7CC3-98C4-DC0C0C0739 F"),
        il_string("017F22E2-79B0-7CC3-98C4-DC0C0C07398\n"),
        il_string("-17F22E2-79B0-7CC3-98C4-DC0C0C07398F"),
        il_string("017F22E2-79B0-7CC3-98C4-DC0C0C0739\0F"),
    };

    (void) state;

    assert_int_equal(il_uuid_parse(id,
        il_lit("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")), 0);
    assert_memory_equal(id, want, sizeof(id));
    assert_int_equal(il_uuid_parse(id,
        il_lit("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")), 0);
    assert_memory_equal(id, want, sizeof(id));

    for (i = 0; i < il_rows(bad); i++) {
        s = il_exact(bad[i]);
        assert_int_equal(il_uuid_parse(id, s), -1);
        il_drop(s);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(times_read),
        cmocka_unit_test(times_refused),
        cmocka_unit_test(every_day),
        cmocka_unit_test(times_written),
        cmocka_unit_test(digits),
        cmocka_unit_test(instants),
        cmocka_unit_test(dates),
        cmocka_unit_test(uuid_has_its_time_version_and_variant),
        cmocka_unit_test(uuid_texts),
    };

    return il_unit_run(tests);
}
