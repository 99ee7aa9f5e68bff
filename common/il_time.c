/*
 * il_time.c: RFC 3339, dates, and the strict number parser.
 *
 * Days are counted by arithmetic instead of timegm() and gmtime_r(), whose
 * range and leniency differ from one libc to another.
 */

#include "il_time.h"


/* Days from 0000-03-01 to 1970-01-01. */
#define IL_EPOCH_DAYS   719468

/* From how many digits on a number is milliseconds.  Seconds have 12 digits
 * from the year 5138 on. */
#define IL_MS_DIGITS    12


/*
 * Years are taken to begin in March: the leap day is then the last one, and
 * the day of the year is linear in the month (153 days for five months).
 */

int64_t
il_date_to_days(const il_date_t *d)
{
    int64_t  y, m, leaps;

    y = d->year - (d->month <= 2 ? 1 : 0);
    m = d->month > 2 ? d->month - 3 : d->month + 9;

    /* The callers' years before 0000 are few: there is one leap day less. */

    leaps = y >= 0 ? y / 4 - y / 100 + y / 400 : -1;

    return y * 365 + leaps + (153 * m + 2) / 5 + d->day - 1 - IL_EPOCH_DAYS;
}


int
il_date_is_leap(int64_t y)
{
    return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
}


int64_t
il_date_month_days(int64_t year, int64_t month)
{
    static const uint8_t  days[] = {
        31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31
    };

    return days[month - 1] + (month == 2 && il_date_is_leap(year) ? 1 : 0);
}


void
il_date_from_days(int64_t days, il_date_t *d)
{
    int64_t  cycle, doc, yoc, doy, m;

    days += IL_EPOCH_DAYS;

    cycle = days >= 0 ? days / 146097 : (days - 146096) / 146097;
    doc = days - cycle * 146097;
    yoc = (doc - doc / 1460 + doc / 36524 - doc / 146096) / 365;
    doy = doc - (365 * yoc + yoc / 4 - yoc / 100);
    m = (5 * doy + 2) / 153;

    d->day = doy - (153 * m + 2) / 5 + 1;
    d->month = m < 10 ? m + 3 : m - 9;
    d->year = yoc + cycle * 400 + (d->month <= 2 ? 1 : 0);
}


static char *
il_put_digits(char *p, int64_t value, size_t width)
{
    size_t  i;

    for (i = width; i > 0; i--) {
        p[i - 1] = (char) ('0' + value % 10);
        value /= 10;
    }

    return p + width;
}


size_t
il_date_format(char *out, size_t cap, const il_date_t *d)
{
    char  *p;

    if (cap < IL_DATE_CAP || d->year < 0 || d->year > 9999) {
        return 0;
    }

    p = il_put_digits(out, d->year, 4);
    *p++ = '-';
    p = il_put_digits(p, d->month, 2);
    *p++ = '-';
    p = il_put_digits(p, d->day, 2);
    *p = '\0';

    return (size_t) (p - out);
}


size_t
il_rfc3339_format(char *out, size_t cap, int64_t unix_ms)
{
    char       *p;
    int64_t     secs, ms, days, rest;
    il_date_t   d;

    if (cap < sizeof("2026-07-24T09:00:00.123Z")) {
        return 0;
    }

    ms = unix_ms % 1000;
    secs = unix_ms / 1000;

    if (ms < 0) {
        ms += 1000;
        secs--;
    }

    if (secs < IL_TIME_FIRST || secs >= IL_TIME_END) {
        return 0;
    }

    rest = secs % IL_DAY_SECONDS;
    days = secs / IL_DAY_SECONDS;

    if (rest < 0) {
        rest += IL_DAY_SECONDS;
        days--;
    }

    il_date_from_days(days, &d);

    p = out + il_date_format(out, cap, &d);
    *p++ = 'T';
    p = il_put_digits(p, rest / 3600, 2);
    *p++ = ':';
    p = il_put_digits(p, rest / 60 % 60, 2);
    *p++ = ':';
    p = il_put_digits(p, rest % 60, 2);
    *p++ = '.';
    p = il_put_digits(p, ms, 3);
    *p++ = 'Z';
    *p = '\0';

    return (size_t) (p - out);
}


int
il_digits_parse(il_str_t s, size_t max_digits, int64_t *value)
{
    size_t   i;
    int64_t  v;

    if (s.len == 0 || s.len > max_digits || s.len > 18) {
        return -1;
    }

    v = 0;

    for (i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return -1;
        }

        v = v * 10 + (s.data[i] - '0');
    }

    *value = v;

    return 0;
}


/* Takes exactly `width` digits at *pos, from min to max. */

static int
il_take_number(il_str_t s, size_t *pos, size_t width, int64_t min,
    int64_t max, int64_t *value)
{
    if (s.len - *pos < width
        || il_digits_parse(il_str(s.data + *pos, width), width, value) != 0
        || *value < min || *value > max)
    {
        return -1;
    }

    *pos += width;

    return 0;
}


/* Takes one character at *pos, in either case. */

static int
il_take_char(il_str_t s, size_t *pos, char c)
{
    if (*pos >= s.len) {
        return -1;
    }

    if (s.data[*pos] != c && (c < 'A' || s.data[*pos] != c + ('a' - 'A'))) {
        return -1;
    }

    (*pos)++;

    return 0;
}


static int
il_take_fraction(il_str_t s, size_t *pos, int64_t *ms)
{
    int64_t  unit;
    size_t   start;

    *ms = 0;

    if (il_take_char(s, pos, '.') != 0) {
        return 0;
    }

    unit = 100;
    start = *pos;

    while (*pos < s.len && s.data[*pos] >= '0' && s.data[*pos] <= '9') {
        *ms += unit * (s.data[*pos] - '0');
        unit /= 10;
        (*pos)++;
    }

    return *pos == start ? -1 : 0;
}


/* Seconds east of UTC. */

static int
il_take_offset(il_str_t s, size_t *pos, int64_t *offset)
{
    int      negative;
    int64_t  h, m;

    if (il_take_char(s, pos, 'Z') == 0) {
        *offset = 0;
        return 0;
    }

    negative = 0;

    if (il_take_char(s, pos, '-') == 0) {
        negative = 1;

    } else if (il_take_char(s, pos, '+') != 0) {
        return -1;
    }

    if (il_take_number(s, pos, 2, 0, 23, &h) != 0
        || il_take_char(s, pos, ':') != 0
        || il_take_number(s, pos, 2, 0, 59, &m) != 0)
    {
        return -1;
    }

    *offset = (h * 3600 + m * 60) * (negative ? -1 : 1);

    return 0;
}


int
il_rfc3339_parse(il_str_t s, int64_t *unix_ms)
{
    size_t     pos;
    int64_t    hour, min, sec, ms, offset, secs;
    il_date_t  d, utc;

    pos = 0;

    if (il_take_number(s, &pos, 4, 0, 9999, &d.year) != 0
        || il_take_char(s, &pos, '-') != 0
        || il_take_number(s, &pos, 2, 1, 12, &d.month) != 0
        || il_take_char(s, &pos, '-') != 0
        || il_take_number(s, &pos, 2, 1, il_date_month_days(d.year,
                                                           d.month),
                          &d.day) != 0
        || il_take_char(s, &pos, 'T') != 0
        || il_take_number(s, &pos, 2, 0, 23, &hour) != 0
        || il_take_char(s, &pos, ':') != 0
        || il_take_number(s, &pos, 2, 0, 59, &min) != 0
        || il_take_char(s, &pos, ':') != 0
        || il_take_number(s, &pos, 2, 0, 60, &sec) != 0
        || il_take_fraction(s, &pos, &ms) != 0
        || il_take_offset(s, &pos, &offset) != 0
        || pos != s.len)
    {
        return -1;
    }

    secs = il_date_to_days(&d) * IL_DAY_SECONDS + hour * 3600 + min * 60
           + sec - offset;

    if (secs < IL_TIME_FIRST || secs >= IL_TIME_END) {
        return -1;
    }

    if (sec == 60) {

        /*
         * RFC 3339 section 5.7: a leap second ends a month in UTC.  It is
         * the same instant as the first second of the next month here.
         */

        if (secs % IL_DAY_SECONDS != 0) {
            return -1;
        }

        il_date_from_days(secs / IL_DAY_SECONDS, &utc);

        if (utc.day != 1) {
            return -1;
        }
    }

    *unix_ms = secs * 1000 + ms;

    return 0;
}


int
il_instant_parse(il_str_t s, int64_t *unix_ms)
{
    int64_t  v;

    if (il_digits_parse(s, 18, &v) != 0) {
        return il_rfc3339_parse(s, unix_ms);
    }

    if (s.len < IL_MS_DIGITS) {
        *unix_ms = v * 1000;
        return 0;
    }

    if (v / 1000 >= IL_TIME_END) {
        return -1;
    }

    *unix_ms = v;

    return 0;
}
