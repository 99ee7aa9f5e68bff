/*
 * json.c: the text up to the first NUL byte is a pointer, the rest is JSON.
 */

#include "fuzz.h"
#include "il_enc.h"
#include "il_json.h"


/* Walks everything there is; every value must be a text of its own. */

static size_t
walk(il_json_value_t v, size_t depth)
{
    char            *out;
    size_t           pos, n, count;
    il_str_t         name;
    il_json_value_t  item;

    IL_HOLDS(depth <= IL_JSON_DEPTH_MAX);
    IL_HOLDS(v.raw.len > 0);

    if (v.type != IL_JSON_OBJECT && v.type != IL_JSON_ARRAY) {
        out = malloc(v.raw.len);
        IL_HOLDS(out != NULL);

        if (il_json_scalar(&v, out, v.raw.len, &n) == 0) {
            IL_HOLDS(n <= v.raw.len);
            IL_HOLDS(il_utf8_valid(il_str(out, n)));
        }

        free(out);

        return 1;
    }

    pos = 0;
    count = 1;

    while (il_json_next(v, &pos, &name, &item)) {
        IL_HOLDS(item.raw.data > v.raw.data);
        IL_HOLDS(item.raw.data + item.raw.len < v.raw.data + v.raw.len);
        IL_HOLDS((name.len >= 2) == (v.type == IL_JSON_OBJECT));
        count += walk(item, depth + 1);
    }

    return count;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    il_str_t         rest, pointer, text;
    il_json_rc_e     check, find;
    il_json_value_t  v, again;

    rest = il_str((const char *) data, size);
    pointer = il_fuzz_field(&rest);
    text = il_fuzz_copy((const uint8_t *) rest.data, rest.len);

    check = il_json_check(text);
    IL_HOLDS(check == IL_JSON_OK || check == IL_JSON_MALFORMED
             || check == IL_JSON_TOO_DEEP);

    find = il_json_find(text, pointer, &v);

    if (!il_json_pointer_valid(pointer)) {
        IL_HOLDS(find == IL_JSON_BAD_POINTER);

    } else if (check != IL_JSON_OK) {
        IL_HOLDS(find == check);

    } else {
        IL_HOLDS(find == IL_JSON_OK || find == IL_JSON_MISSING
                 || find == IL_JSON_DUPLICATE);
        IL_HOLDS(pointer.len != 0 || find == IL_JSON_OK);
    }

    if (find == IL_JSON_OK) {
        IL_HOLDS(v.raw.data >= text.data);
        IL_HOLDS(v.raw.data + v.raw.len <= text.data + text.len);
        IL_HOLDS(il_json_check(v.raw) == IL_JSON_OK);
        IL_HOLDS(il_json_lookup(text, pointer, &again) == IL_JSON_OK);
        IL_HOLDS(again.raw.data == v.raw.data);
        (void) walk(v, 0);
    }

    /* Not checked before: the answer may be wrong, the reader stays inside. */

    (void) !il_json_lookup(text, pointer, &v);

    il_fuzz_drop(pointer);
    il_fuzz_drop(text);

    return 0;
}
