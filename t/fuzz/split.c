/*
 * split.c: the list before a body that the edge splits.  Two bytes say how
 * long the body is, what follows is the list.
 */

#include "fuzz.h"
#include "il_split.h"


static void
inside(il_str_t part, il_str_t list)
{
    IL_HOLDS(part.data >= list.data
             && part.data + part.len <= list.data + list.len);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int          n, rc;
    char        *again;
    size_t       pos, from, body;
    il_str_t     list;
    il_split_t   e;

    if (size < 2) {
        return 0;
    }

    body = (size_t) data[0] << 8 | data[1];
    list = il_fuzz_copy(data + 2, size - 2);

    n = il_split_count(list);
    IL_HOLDS(n >= -1 && n <= IL_SPLIT_MAX);

    for (pos = IL_SPLIT_HEAD; n >= 0; /* void */ ) {
        from = pos;
        rc = il_split_next(list, &pos, body, &e);

        if (rc != 1) {
            IL_HOLDS(pos == from);
            IL_HOLDS(rc == -1 || pos == list.len);
            break;
        }

        IL_HOLDS(pos > from && pos <= list.len);
        IL_HOLDS(e.length > 0 && e.offset < body
                 && e.offset + e.length <= body);

        inside(e.problem, list);
        inside(e.detail, list);
        inside(e.kind, list);
        inside(e.work_key, list);
        inside(e.idem, list);

        /* written again it is the same */

        IL_HOLDS(il_split_size(&e) == pos - from);
        again = malloc(pos - from);
        IL_HOLDS(again != NULL);
        IL_HOLDS(il_split_put(again, &e) == pos - from);
        IL_HOLDS(memcmp(again, list.data + from, pos - from) == 0);
        free(again);
    }

    il_fuzz_drop(list);

    return 0;
}
