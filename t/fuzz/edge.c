/*
 * edge.c: datagrams and lines that tell of requests that the edge answered
 * alone.
 */

#include "fuzz.h"

#include "../../fcgi/edge_line.c"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t             n;
    il_str_t           line, rest, one;
    il_edge_record_t  *rec, *again;

    line = il_fuzz_copy(data, size);

    /* a datagram is cut into lines, and into nothing else */

    rest = line;
    n = 0;

    do {
        one = il_edge_next(&rest);
        n += one.len + 1;
        IL_HOLDS(one.len == 0 || memchr(one.data, '\n', one.len) == NULL);
    } while (rest.len > 0);

    IL_HOLDS(n == size + 1 || (n == size && data[size - 1] == '\n'));

    rec = il_edge_parse(line);

    if (rec != NULL) {

        /* what goes to the database: bounded, and text */

        IL_HOLDS(rec->seq > 0 && !rec->told);
        IL_HOLDS(rec->code >= 200 && rec->code <= 299);
        IL_HOLDS(rec->work_key.len > 0 && rec->work_key.len <= IL_KEY_MAX);
        IL_HOLDS(il_utf8_valid(rec->work_key));
        IL_HOLDS(rec->idem.len <= IL_IDEM_MAX && il_utf8_valid(rec->idem));
        IL_HOLDS(rec->idem.len == 0
                 || memchr(rec->idem.data, '\0', rec->idem.len) == NULL);
        IL_HOLDS((rec->id[6] & 0xf0) == 0x70 && (rec->id[8] & 0xc0) == 0x80);
        IL_HOLDS(rec->item.bytes >= sizeof(il_edge_record_t));

        /* the same line is the same row */

        again = il_edge_parse(line);
        IL_HOLDS(again != NULL
                 && memcmp(again->id, rec->id, IL_UUID_BYTES) == 0);
        free(again);
    }

    free(rec);
    il_fuzz_drop(line);

    return 0;
}
