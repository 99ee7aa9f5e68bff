/*
 * tz.c: time zones.  The zones of this machine are compared with what the C
 * library's own reader says; made files show what is refused.
 */

#include <ftw.h>
#include <time.h>

#include "unit.h"
#include "il_tz.h"


#define ZONES      "/usr/share/zoneinfo"
#define YEAR_1800  (-5364662400LL)


static size_t    zones, checks;
static uint64_t  seed;


static char *
slurp(const char *path, size_t *len)
{
    FILE  *f;
    char  *p;

    f = fopen(path, "rb");
    assert_non_null(f);

    p = malloc(IL_TZ_FILE_MAX);
    assert_non_null(p);

    *len = fread(p, 1, IL_TZ_FILE_MAX, f);
    assert_int_equal(ferror(f), 0);
    assert_int_equal(fclose(f), 0);

    return p;
}


/* xorshift: the same numbers in every run. */

static uint64_t
number(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;

    return seed;
}


static void
compare(const char *zone, const il_tz_t *tz, int64_t at)
{
    time_t         t;
    struct tm      tm;
    il_tz_local_t  l;

    t = (time_t) at;
    assert_non_null(localtime_r(&t, &tm));

    assert_int_equal(il_tz_local(tz, at, &l), 0);

    if (l.offset != tm.tm_gmtoff || l.date.year != tm.tm_year + 1900
        || l.date.month != tm.tm_mon + 1 || l.date.day != tm.tm_mday
        || l.seconds != tm.tm_hour * 3600 + tm.tm_min * 60 + tm.tm_sec)
    {
        fail_msg("%s at %lld: %04d-%02d-%02d %d %+d, the C library has "
                 "%04d-%02d-%02d %d %+ld", zone, (long long) at,
                 (int) l.date.year, (int) l.date.month, (int) l.date.day,
                 (int) l.seconds, (int) l.offset, tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday,
                 tm.tm_hour * 3600 + tm.tm_min * 60 + tm.tm_sec,
                 tm.tm_gmtoff);
    }

    checks++;
}


static void
use(const char *zone)
{
    assert_int_equal(setenv("TZ", zone, 1), 0);
    tzset();
}


static int64_t
change(const il_tz_t *tz, size_t i)
{
    size_t    k;
    uint64_t  v;

    v = 0;

    for (k = 0; k < 8; k++) {
        v = v << 8 | tz->times[i * 8 + k];
    }

    return (int64_t) v;
}


static int
zone_file(const char *path, const struct stat *st, int type)
{
    int          year;
    char        *p, name[256];
    size_t       i, len;
    int64_t      at, day;
    il_tz_t      tz;
    il_date_t    d;
    const char  *why;

    (void) st;

    /* posix/ has the same zones again */

    if (type != FTW_F || strncmp(path, ZONES "/posix/", 21) == 0) {
        return 0;
    }

    p = slurp(path, &len);
    why = il_tz_parse(&tz, il_str(p, len));

    if (len < 4 || memcmp(p, "TZif", 4) != 0) {
        assert_string_equal(why, "is not a time zone file");
        free(p);
        return 0;
    }

    if (strncmp(path, ZONES "/right/", strlen(ZONES "/right/")) == 0) {
        assert_string_equal(why, "counts leap seconds");
        free(p);
        return 0;
    }

    if (why != NULL) {
        fail_msg("%s %s", path, why);
    }

    (void) snprintf(name, sizeof(name), ":%s", path);
    use(name);

    /* each change that the file lists, what lies between them, and what is
     * far behind */

    for (year = 1800; year <= 2600; year += year < 2100 ? 1 : 37) {
        d.year = year;
        d.month = 1;
        d.day = 1;
        at = il_date_to_days(&d) * IL_DAY_SECONDS;

        compare(path, &tz, at - 1);
        compare(path, &tz, at);

        for (day = 0; day < 366; day += 15) {
            compare(path, &tz, at + day * 86400
                               + (int64_t) (number() % (15 * 86400)));
        }
    }

    for (i = 0; i < tz.ntimes; i++) {
        at = change(&tz, i);

        if (at > YEAR_1800) {
            compare(path, &tz, at - 1);
            compare(path, &tz, at);
        }
    }

    zones++;
    free(p);

    return 0;
}


static void
zones_are_as_the_library_reads_them(void **state)
{
    (void) state;

    seed = 20260724;

    assert_int_equal(ftw(ZONES, zone_file, 16), 0);

    printf("# %zu zones, %zu instants\n", zones, checks);
    assert_true(zones > 300);
}


static size_t
put(uint8_t *p, const char *footer, unsigned types, unsigned version)
{
    size_t  n;

    memset(p, 0, 44 + 44);
    memcpy(p, "TZif", 4);
    p[4] = (uint8_t) version;
    n = 44;

    if (version != 0) {
        memcpy(p + n, p, 5);
        n += 44;
    }

    p[n - 44 + 39] = (uint8_t) types;
    memset(p + n, 0, types * 6);
    n += types * 6;

    if (version != 0) {
        p[n++] = '\n';
        memcpy(p + n, footer, strlen(footer));
        n += strlen(footer);
        p[n++] = '\n';
    }

    return n;
}


/* Rules that no zone of today has, against the C library. */

static void
rules_are_as_the_library_reads_them(void **state)
{
    size_t    i, n;
    int64_t   at, k;
    uint8_t   bytes[256];
    il_tz_t   tz;
    il_str_t  s;

    static const char  *rows[] = {
        "KST-9",
        "UTC0",
        "<-03>3",
        "<+0545>-5:45",
        "ABC+4:56:02",
        "EST5EDT,M3.2.0,M11.1.0",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "NZST-12NZDT,M9.5.0,M4.1.0/3",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
        "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
        "IST-2IDT,M3.4.4/26,M10.5.0",
        "IST-1GMT0,M10.5.0,M3.5.0/1",
        "AAA3BBB,J60,J300",
        "AAA3BBB,59,300/1:30:15",
        "AAA3BBB,J1/48,J365/-48",
        "AAA-3BBB-3:20,M2.5.6/100,M11.4.3/-100",
    };

    (void) state;

    seed = 19700101;

    for (i = 0; i < il_rows(rows); i++) {
        n = put(bytes, rows[i], 1, '3');
        s = il_exact(il_str((char *) bytes, n));

        if (il_tz_parse(&tz, s) != NULL) {
            fail_msg("%s: refused", rows[i]);
        }

        use(rows[i]);

        for (k = 0; k < 20000; k++) {
            at = (int64_t) (number() % (600ULL * 366 * 86400)) - 4000000000;

            /* the library looks at one year, in UTC */

            if (at % 31556952 > 3 * 86400) {
                compare(rows[i], &tz, at);
            }
        }

        il_drop(s);
    }
}


static void
instants_of_note(void **state)
{
    char      date[IL_DATE_CAP];
    size_t    i, n, len;
    char     *p, path[128];
    int64_t   ms;
    uint8_t   bytes[256];
    il_tz_t   tz;

    static const struct {
        const char  *zone;              /* or a rule */
        const char  *at;
        int32_t      cutoff;
        const char  *want;
    } rows[] = {
        { "Asia/Seoul", "2026-07-23T14:59:59Z", 0, "2026-07-23" },
        { "Asia/Seoul", "2026-07-23T15:00:00Z", 0, "2026-07-24" },
        { "Asia/Seoul", "2026-07-23T15:00:00Z", 6 * 3600, "2026-07-23" },
        { "Asia/Seoul", "2026-07-23T20:59:59.999Z", 6 * 3600, "2026-07-23" },
        { "Asia/Seoul", "2026-07-23T21:00:00Z", 6 * 3600, "2026-07-24" },
        { "Asia/Seoul", "2025-12-31T20:00:00Z", 6 * 3600, "2025-12-31" },
        { "America/New_York", "2024-03-01T04:59:59Z", 0, "2024-02-29" },

        /* by the clock: 05:30 shown, though six hours and a half are over */
        { "America/New_York", "2026-11-01T10:30:00Z", 6 * 3600,
          "2026-10-31" },
        { "America/New_York", "2026-03-08T10:30:00Z", 6 * 3600,
          "2026-03-08" },

        /* a day that never was */
        { "Pacific/Apia", "2011-12-30T09:59:59Z", 0, "2011-12-29" },
        { "Pacific/Apia", "2011-12-30T10:00:00Z", 0, "2011-12-31" },

        /* far behind the tables */
        { "Europe/Berlin", "9999-07-01T21:59:59Z", 0, "9999-07-01" },
        { "Europe/Berlin", "9999-07-01T22:00:00Z", 0, "9999-07-02" },
        { "Europe/Berlin", "9999-12-31T23:00:00Z", 0, NULL },
        { "America/Lima", "0000-01-01T03:00:00Z", 0, NULL },
        { "UTC", "0000-01-01T00:00:00Z", 1, NULL },
        { "UTC", "0000-01-01T00:00:00Z", 0, "0000-01-01" },
        { "UTC", "9999-12-31T23:59:59Z", 0, "9999-12-31" },

        /* DST all year, in both spellings of RFC 8536 and RFC 9636 */
        { "=EST5EDT,0/0,J365/25", "2026-01-01T03:59:59Z", 0, "2025-12-31" },
        { "=EST5EDT,0/0,J365/25", "2026-01-01T04:00:00Z", 0, "2026-01-01" },
        { "=EST5EDT,0/0,J365/25", "2026-07-01T04:00:00Z", 0, "2026-07-01" },
        { "=XXX3EDT4,0/0,J365/23", "2028-01-01T03:59:59Z", 0, "2027-12-31" },
        { "=XXX3EDT4,0/0,J365/23", "2027-01-01T04:00:00Z", 0, "2027-01-01" },

        /* DST begins a week before the year does */
        { "=AAA0BBB-2,0/-167,J100/0", "2025-12-25T21:59:59Z", 0,
          "2025-12-25" },
        { "=AAA0BBB-2,0/-167,J100/0", "2025-12-25T22:00:00Z", 0,
          "2025-12-26" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        if (rows[i].zone[0] == '=') {
            n = put(bytes, rows[i].zone + 1, 1, '3');
            p = NULL;
            assert_null(il_tz_parse(&tz, il_str((char *) bytes, n)));

        } else {
            (void) snprintf(path, sizeof(path), ZONES "/%s", rows[i].zone);
            p = slurp(path, &n);
            assert_null(il_tz_parse(&tz, il_str(p, n)));
        }

        assert_int_equal(il_instant_parse(il_cstr(rows[i].at), &ms), 0);

        n = il_tz_business_date(&tz, ms / 1000, rows[i].cutoff, date,
                                sizeof(date));
        len = rows[i].want == NULL ? 0 : strlen(rows[i].want);

        if (n != len || (len != 0 && strcmp(date, rows[i].want) != 0)) {
            fail_msg("%s at %s: got %.*s, want %s", rows[i].zone, rows[i].at,
                     (int) n, date, rows[i].want);
        }

        free(p);
    }
}


static void
broken_rules_are_refused(void **state)
{
    size_t    i, n;
    uint8_t   bytes[256];
    il_tz_t   tz;
    il_str_t  s;

    static const char  *rows[] = {
        " ", "A", "AB1", "KST", "KST-", "KST-9 ", "KST-25", "KST--9", "9",
        "KST-9:", "KST-9:60", "KST-9:0:60", "KST-9:0:0:0", "KST-9999999999",
        "<+03", "<>3", "<+3>3", "<+0 3>3", "+03-3",
        "EST5EDT", "EST5EDT,", "EST5EDT,M3.2.0", "EST5EDT,M3.2.0,",
        "EST5EDT,M3.2.0,M11.1.0,", "EST5EDT,M3.2.0,M11.1.0x",
        "EST5EDT,M0.2.0,M11.1.0", "EST5EDT,M13.2.0,M11.1.0",
        "EST5EDT,M3.0.0,M11.1.0", "EST5EDT,M3.6.0,M11.1.0",
        "EST5EDT,M3.2.7,M11.1.0", "EST5EDT,M3.2,M11.1.0",
        "EST5EDT,M3.2.0/,M11.1.0", "EST5EDT,M3.2.0/168,M11.1.0",
        "EST5EDT,J0,J300", "EST5EDT,J366,J300", "EST5EDT,366,300",
        "EST5EDT,-1,300", "EST5EDT,J60;J300", "EST5ED,J60,J300",
        "EST5EDT25,J60,J300",
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        n = put(bytes, rows[i], 1, '3');
        s = il_exact(il_str((char *) bytes, n));

        if (il_tz_parse(&tz, s) == NULL) {
            fail_msg("\"%s\" was taken", rows[i]);
        }

        il_drop(s);
    }
}


static void
broken_files_are_refused(void **state)
{
    char     *p;
    size_t    i, n;
    uint8_t   bytes[256];
    il_tz_t   tz;
    il_str_t  s;

    (void) state;

    /* no types; no footer's end; something behind the end; other versions */

    n = put(bytes, "KST-9", 0, '2');
    assert_non_null(il_tz_parse(&tz, il_str((char *) bytes, n)));

    n = put(bytes, "KST-9", 1, '2');
    assert_null(il_tz_parse(&tz, il_str((char *) bytes, n)));
    assert_int_equal(il_tz_offset(&tz, 0), 9 * 3600);
    assert_non_null(il_tz_parse(&tz, il_str((char *) bytes, n - 1)));
    bytes[n] = '\n';
    assert_non_null(il_tz_parse(&tz, il_str((char *) bytes, n + 1)));

    n = put(bytes, "", 1, 0);
    bytes[44 + 2] = 0x0e;
    bytes[44 + 3] = 0x10;
    assert_null(il_tz_parse(&tz, il_str((char *) bytes, n)));
    assert_int_equal(il_tz_offset(&tz, 0), 3600);
    assert_non_null(il_tz_parse(&tz, il_str((char *) bytes, n + 1)));

    bytes[44] = 0x80;                   /* an offset of years */
    assert_non_null(il_tz_parse(&tz, il_str((char *) bytes, n)));

    /* a real one, cut at every length, and with counts that are not so */

    p = slurp(ZONES "/America/New_York", &n);

    for (i = 0; i < n; i++) {
        s = il_exact(il_str(p, i));
        assert_non_null(il_tz_parse(&tz, s));
        il_drop(s);
    }

    for (i = 20; i < 44; i++) {
        s = il_exact(il_str(p, n));
        ((char *) (uintptr_t) s.data)[i] ^= (char) 0x81;
        assert_non_null(il_tz_parse(&tz, s));
        il_drop(s);
    }

    /* changes out of order, and one to a type that is not there */

    s = il_exact(il_str(p, n));
    assert_null(il_tz_parse(&tz, s));
    assert_true(tz.ntimes > 2);

    *(uint8_t *) (uintptr_t) tz.which = 0xff;
    assert_non_null(il_tz_parse(&tz, s));
    *(uint8_t *) (uintptr_t) tz.which = 0;
    assert_null(il_tz_parse(&tz, s));

    *(uint8_t *) (uintptr_t) tz.times = 0x7f;
    assert_non_null(il_tz_parse(&tz, s));

    il_drop(s);
    free(p);
}


static void
names_lead_nowhere_else(void **state)
{
    size_t  i;

    static const struct {
        const char  *name;
        int          valid;
    } rows[] = {
        { "UTC", 1 }, { "Asia/Seoul", 1 }, { "Etc/GMT+5", 1 },
        { "America/Argentina/Buenos_Aires", 1 }, { "America/Port-au-Prince", 1 },
        { "EST5EDT", 1 }, { "", 0 }, { "/", 0 }, { "/etc/passwd", 0 },
        { "Asia/", 0 }, { "Asia//Seoul", 0 }, { "..", 0 }, { ".", 0 },
        { "../zoneinfo/UTC", 0 }, { "Asia/../UTC", 0 }, { "tzdata.zi", 0 },
        { "Asia/Seoul\n", 0 }, { "$zone", 0 }, { "Asia Seoul", 0 },
        { "Asia/S\xc3\xa9oul", 0 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          0 },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        if (il_tz_name_valid(il_cstr(rows[i].name)) != rows[i].valid) {
            fail_msg("\"%s\"", rows[i].name);
        }
    }

    assert_int_equal(il_tz_name_valid(il_lit("UTC\0x")), 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(zones_are_as_the_library_reads_them),
        cmocka_unit_test(rules_are_as_the_library_reads_them),
        cmocka_unit_test(instants_of_note),
        cmocka_unit_test(broken_rules_are_refused),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(names_lead_nowhere_else),
    };

    return il_unit_run(tests);
}
