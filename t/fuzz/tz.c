/*
 * tz.c: a TZif file; if it is one, what it says of instants all over time.
 */

#include "fuzz.h"
#include "il_tz.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char           date[IL_DATE_CAP];
    size_t         i, n;
    int64_t        at;
    il_tz_t        tz;
    il_str_t       bytes;
    il_tz_local_t  l;

    static const int64_t  instants[] = {
        IL_TIME_FIRST - 1, IL_TIME_FIRST, IL_TIME_END - 1, IL_TIME_END,
        INT64_MIN, INT64_MAX, 0, -1, 1785000000
    };

    bytes = il_fuzz_copy(data, size);

    if (il_tz_name_valid(bytes)) {
        IL_HOLDS(bytes.data[0] != '/');
        IL_HOLDS(memchr(bytes.data, '.', bytes.len) == NULL);
    }

    if (il_tz_parse(&tz, bytes) == NULL) {

        for (i = 0; i < sizeof(instants) / sizeof(instants[0]); i++) {
            if (il_tz_local(&tz, instants[i], &l) != 0) {
                IL_HOLDS(il_tz_business_date(&tz, instants[i], 0, date,
                                             sizeof(date)) == 0);
            }
        }

        /* a prime number of seconds, some seven years */

        for (at = IL_TIME_FIRST; at < IL_TIME_END; at += 220752011) {
            if (il_tz_local(&tz, at, &l) != 0) {
                continue;
            }

            IL_HOLDS(l.offset > -IL_DAY_SECONDS * 2
                     && l.offset < IL_DAY_SECONDS * 2);
            IL_HOLDS(l.seconds >= 0 && l.seconds < IL_DAY_SECONDS);
            IL_HOLDS(il_date_to_days(&l.date) * IL_DAY_SECONDS + l.seconds
                     == at + l.offset);

            n = il_tz_business_date(&tz, at, 12 * 3600, date, sizeof(date));
            IL_HOLDS(n == 10 || l.date.year == 0);
        }
    }

    il_fuzz_drop(bytes);

    return 0;
}
