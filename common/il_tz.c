/*
 * il_tz.c: see il_tz.h.
 */

#include "il_tz.h"


#define IL_TZ_HEADER      44        /* RFC 8536, section 3.1 */
#define IL_TZ_TYPE_BYTES  6
#define IL_TZ_HOUR        3600

/* RFC 8536, section 3.2: what a UTC offset should be within. */
#define IL_TZ_OFFSET_MIN  (-89999)
#define IL_TZ_OFFSET_MAX  93599

#define IL_TZ_BROKEN      "is not a well-formed time zone file"


/* Counts of a block, in the order of its header. */

typedef struct {
    uint64_t  isut, isstd, leaps, times, types, chars;
} il_tz_counts_t;


static uint32_t
il_tz_u32(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16
           | (uint32_t) p[2] << 8 | p[3];
}


/* Two's complement, by arithmetic that is defined for every value. */

static int64_t
il_tz_i32(const uint8_t *p)
{
    int64_t  v;

    v = il_tz_u32(p);

    return v > INT32_MAX ? v - 0x100000000LL : v;
}


static int64_t
il_tz_i64(const uint8_t *p)
{
    return (int64_t) ((uint64_t) il_tz_u32(p) << 32 | il_tz_u32(p + 4));
}


static int64_t
il_tz_time(const il_tz_t *tz, size_t i)
{
    const uint8_t  *p;

    p = tz->times + i * tz->width;

    return tz->width == 8 ? il_tz_i64(p) : il_tz_i32(p);
}


static int32_t
il_tz_type_offset(const il_tz_t *tz, size_t type)
{
    return (int32_t) il_tz_i32(tz->types + type * IL_TZ_TYPE_BYTES);
}


int
il_tz_name_valid(il_str_t name)
{
    char    c;
    size_t  i;

    if (name.len == 0 || name.len > IL_TZ_NAME_MAX) {
        return 0;
    }

    for (i = 0; i < name.len; i++) {
        c = name.data[i];

        if (c == '/') {
            if (i == 0 || i + 1 == name.len || name.data[i - 1] == '/') {
                return 0;
            }

            continue;
        }

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')
            && !(c >= '0' && c <= '9') && c != '_' && c != '+' && c != '-')
        {
            return 0;
        }
    }

    return 1;
}


/* Takes the digits at *s, at most `max` and at least one. */

static int
il_tz_take_number(il_str_t *s, size_t max, int32_t limit, int32_t *value)
{
    size_t  n;

    *value = 0;

    for (n = 0; n < s->len && s->data[n] >= '0' && s->data[n] <= '9'; n++) {
        if (n == max) {
            return -1;
        }

        *value = *value * 10 + (s->data[n] - '0');
    }

    *s = il_str(s->data + n, s->len - n);

    return n == 0 || *value > limit ? -1 : 0;
}


static int
il_tz_take_char(il_str_t *s, char c)
{
    if (s->len == 0 || s->data[0] != c) {
        return -1;
    }

    *s = il_str(s->data + 1, s->len - 1);

    return 0;
}


/* [+-]hh[:mm[:ss]], in seconds. */

static int
il_tz_take_time(il_str_t *s, int32_t hours, int32_t *seconds)
{
    int      negative;
    int32_t  h, m, sec;

    negative = il_tz_take_char(s, '-') == 0;

    if (!negative) {
        (void) il_tz_take_char(s, '+');
    }

    m = 0;
    sec = 0;

    if (il_tz_take_number(s, 3, hours, &h) != 0) {
        return -1;
    }

    if (il_tz_take_char(s, ':') == 0) {
        if (il_tz_take_number(s, 2, 59, &m) != 0) {
            return -1;
        }

        if (il_tz_take_char(s, ':') == 0
            && il_tz_take_number(s, 2, 59, &sec) != 0)
        {
            return -1;
        }
    }

    *seconds = (h * IL_TZ_HOUR + m * 60 + sec) * (negative ? -1 : 1);

    return 0;
}


/* The name of an offset: "KST", or "<+03>"; nobody asks for it. */

static int
il_tz_take_name(il_str_t *s)
{
    int     quoted;
    char    c;
    size_t  n;

    quoted = il_tz_take_char(s, '<') == 0;

    for (n = 0; n < s->len; n++) {
        c = s->data[n];

        if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
            && !(quoted && ((c >= '0' && c <= '9') || c == '+' || c == '-')))
        {
            break;
        }
    }

    *s = il_str(s->data + n, s->len - n);

    if (n < 3 || (quoted && il_tz_take_char(s, '>') != 0)) {
        return -1;
    }

    return 0;
}


/* ",M3.2.0/2" and its like. */

static int
il_tz_take_rule(il_str_t *s, il_tz_rule_t *rule)
{
    rule->month = 0;
    rule->week = 0;
    rule->time = 2 * IL_TZ_HOUR;

    if (il_tz_take_char(s, ',') != 0) {
        return -1;
    }

    if (il_tz_take_char(s, 'M') == 0) {
        rule->form = 'M';

        if (il_tz_take_number(s, 2, 12, &rule->month) != 0
            || rule->month < 1
            || il_tz_take_char(s, '.') != 0
            || il_tz_take_number(s, 1, 5, &rule->week) != 0
            || rule->week < 1
            || il_tz_take_char(s, '.') != 0
            || il_tz_take_number(s, 1, 6, &rule->day) != 0)
        {
            return -1;
        }

    } else {
        rule->form = il_tz_take_char(s, 'J') == 0 ? 'J' : 'D';

        if (il_tz_take_number(s, 3, 365, &rule->day) != 0
            || (rule->form == 'J' && rule->day < 1))
        {
            return -1;
        }
    }

    if (il_tz_take_char(s, '/') == 0) {
        return il_tz_take_time(s, 167, &rule->time);
    }

    return 0;
}


/* The rule behind the table (RFC 8536, section 3.3; POSIX, TZ).  Names with
 * DST but without its rules are left to each reader there: they are refused.
 */

static int
il_tz_parse_footer(il_tz_t *tz, il_str_t s)
{
    int32_t  west;

    tz->footer = s.len != 0;

    if (!tz->footer) {
        return 0;
    }

    if (il_tz_take_name(&s) != 0 || il_tz_take_time(&s, 24, &west) != 0) {
        return -1;
    }

    tz->offset[0] = -west;
    tz->offset[1] = -west + IL_TZ_HOUR;
    tz->dst = s.len != 0;

    if (!tz->dst) {
        return 0;
    }

    if (il_tz_take_name(&s) != 0) {
        return -1;
    }

    if (s.len != 0 && s.data[0] != ',') {
        if (il_tz_take_time(&s, 24, &west) != 0) {
            return -1;
        }

        tz->offset[1] = -west;
    }

    if (il_tz_take_rule(&s, &tz->rule[0]) != 0
        || il_tz_take_rule(&s, &tz->rule[1]) != 0)
    {
        return -1;
    }

    return s.len == 0 ? 0 : -1;
}


/* Reads the header at p, which has n bytes; -1 if it is none. */

static int
il_tz_header(const uint8_t *p, size_t n, il_tz_counts_t *c)
{
    if (n < IL_TZ_HEADER || memcmp(p, "TZif", 4) != 0) {
        return -1;
    }

    c->isut = il_tz_u32(p + 20);
    c->isstd = il_tz_u32(p + 24);
    c->leaps = il_tz_u32(p + 28);
    c->times = il_tz_u32(p + 32);
    c->types = il_tz_u32(p + 36);
    c->chars = il_tz_u32(p + 40);

    return 0;
}


/* The length of the block behind a header; six counts of 32 bits cannot
 * overflow it. */

static uint64_t
il_tz_block(const il_tz_counts_t *c, uint64_t width)
{
    return c->times * (width + 1) + c->types * IL_TZ_TYPE_BYTES + c->chars
           + c->leaps * (width + 4) + c->isstd + c->isut;
}


/* The table itself, checked so that nothing about it can go wrong later. */

static const char *
il_tz_check(const il_tz_t *tz)
{
    size_t   i;
    int64_t  offset;

    for (i = 0; i < tz->ntypes; i++) {
        offset = il_tz_i32(tz->types + i * IL_TZ_TYPE_BYTES);

        if (offset < IL_TZ_OFFSET_MIN || offset > IL_TZ_OFFSET_MAX) {
            return IL_TZ_BROKEN;
        }
    }

    for (i = 0; i < tz->ntimes; i++) {
        if (tz->which[i] >= tz->ntypes
            || (i != 0 && il_tz_time(tz, i) <= il_tz_time(tz, i - 1)))
        {
            return IL_TZ_BROKEN;
        }
    }

    return NULL;
}


const char *
il_tz_parse(il_tz_t *tz, il_str_t bytes)
{
    size_t           n;
    uint64_t         block;
    const char      *why;
    const uint8_t   *p;
    il_tz_counts_t   c;

    memset(tz, 0, sizeof(*tz));

    p = (const uint8_t *) bytes.data;
    n = bytes.len;

    if (n < 4 || memcmp(p, "TZif", 4) != 0) {
        return "is not a time zone file";
    }

    if (n > IL_TZ_FILE_MAX || il_tz_header(p, n, &c) != 0) {
        return IL_TZ_BROKEN;
    }

    tz->width = 4;
    block = il_tz_block(&c, 4);

    if (p[4] >= '2') {

        /* The same again with 64 bits, and the rule for what comes after. */

        if (block > n - IL_TZ_HEADER) {
            return IL_TZ_BROKEN;
        }

        p += IL_TZ_HEADER + (size_t) block;
        n -= IL_TZ_HEADER + (size_t) block;

        if (il_tz_header(p, n, &c) != 0) {
            return IL_TZ_BROKEN;
        }

        tz->width = 8;
        block = il_tz_block(&c, 8);
    }

    if (block > n - IL_TZ_HEADER || c.types == 0 || c.types > 256) {
        return IL_TZ_BROKEN;
    }

    if (c.leaps != 0) {
        return "counts leap seconds";
    }

    p += IL_TZ_HEADER;
    n -= IL_TZ_HEADER + (size_t) block;

    tz->ntimes = (size_t) c.times;
    tz->ntypes = (size_t) c.types;
    tz->times = p;
    tz->which = p + tz->ntimes * tz->width;
    tz->types = tz->which + tz->ntimes;

    why = il_tz_check(tz);
    if (why != NULL) {
        return why;
    }

    p += block;

    if (tz->width == 4) {
        return n == 0 ? NULL : IL_TZ_BROKEN;
    }

    if (n < 2 || p[0] != '\n' || p[n - 1] != '\n'
        || il_tz_parse_footer(tz, il_str((const char *) p + 1, n - 2)) != 0)
    {
        return IL_TZ_BROKEN;
    }

    return NULL;
}


/* The instant of a rule in a year; offset is the one until then. */

static int64_t
il_tz_change(const il_tz_rule_t *rule, int64_t year, int32_t offset)
{
    int64_t    days, weekday;
    il_date_t  d;

    d.year = year;
    d.month = 1;
    d.day = 1;

    switch (rule->form) {

    case 'M':
        d.month = rule->month;
        days = il_date_to_days(&d);

        /* 1970-01-01 was a Thursday; the sum keeps it positive. */

        weekday = (days + 4 + 7 * 200000) % 7;
        d.day += (rule->day - weekday + 7) % 7 + 7 * (rule->week - 1);

        if (d.day > il_date_month_days(year, rule->month)) {
            d.day -= 7;
        }

        days += d.day - 1;
        break;

    case 'J':
        days = il_date_to_days(&d) + rule->day - 1;

        if (rule->day >= 60 && il_date_is_leap(year)) {
            days++;
        }

        break;

    default:
        days = il_date_to_days(&d) + rule->day;
        break;
    }

    return days * IL_DAY_SECONDS + rule->time - offset;
}


/*
 * Each year's DST goes from its beginning to the next end: that of the same
 * year, or in the south that of the next.  One that ends as the next begins
 * lasts all year (RFC 8536, section 3.3.1).  Because times may be days away,
 * the years around count, too.
 */

static int32_t
il_tz_rule_offset(const il_tz_t *tz, int64_t at)
{
    int64_t    local, days, year, begin, end;
    il_date_t  d;

    if (!tz->dst) {
        return tz->offset[0];
    }

    local = at + tz->offset[0];
    days = local / IL_DAY_SECONDS - (local % IL_DAY_SECONDS < 0 ? 1 : 0);

    il_date_from_days(days, &d);

    for (year = d.year - 1; year <= d.year + 1; year++) {
        begin = il_tz_change(&tz->rule[0], year, tz->offset[0]);
        end = il_tz_change(&tz->rule[1], year, tz->offset[1]);

        if (end <= begin) {
            end = il_tz_change(&tz->rule[1], year + 1, tz->offset[1]);
        }

        if (at >= begin && at < end) {
            return tz->offset[1];
        }
    }

    return tz->offset[0];
}


int32_t
il_tz_offset(const il_tz_t *tz, int64_t at)
{
    size_t  lo, hi, mid;

    if (tz->ntimes == 0) {
        return tz->footer ? il_tz_rule_offset(tz, at)
                          : il_tz_type_offset(tz, 0);
    }

    if (at < il_tz_time(tz, 0)) {
        return il_tz_type_offset(tz, 0);
    }

    if (tz->footer && at >= il_tz_time(tz, tz->ntimes - 1)) {
        return il_tz_rule_offset(tz, at);
    }

    lo = 0;
    hi = tz->ntimes;

    /* The last change that is not after `at` is at lo, or between. */

    while (hi - lo > 1) {
        mid = lo + (hi - lo) / 2;

        if (il_tz_time(tz, mid) <= at) {
            lo = mid;

        } else {
            hi = mid;
        }
    }

    return il_tz_type_offset(tz, tz->which[lo]);
}


int
il_tz_local(const il_tz_t *tz, int64_t at, il_tz_local_t *local)
{
    int64_t  seconds, days, rest;

    if (at < IL_TIME_FIRST || at >= IL_TIME_END) {
        return -1;
    }

    local->offset = il_tz_offset(tz, at);

    seconds = at + local->offset;

    if (seconds < IL_TIME_FIRST || seconds >= IL_TIME_END) {
        return -1;
    }

    days = seconds / IL_DAY_SECONDS;
    rest = seconds % IL_DAY_SECONDS;

    if (rest < 0) {
        rest += IL_DAY_SECONDS;
        days--;
    }

    il_date_from_days(days, &local->date);
    local->seconds = (int32_t) rest;

    return 0;
}


size_t
il_tz_business_date(const il_tz_t *tz, int64_t at, int32_t cutoff, char *out,
    size_t cap)
{
    il_tz_local_t  local;

    if (il_tz_local(tz, at, &local) != 0) {
        return 0;
    }

    if (local.seconds < cutoff) {
        il_date_from_days(il_date_to_days(&local.date) - 1, &local.date);
    }

    return il_date_format(out, cap, &local.date);
}
