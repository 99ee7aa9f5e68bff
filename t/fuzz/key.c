/*
 * key.c: the texts between NUL bytes are the parts of a work key; the whole
 * input is also taken as a key, a name and an idempotency key.
 */

#include "fuzz.h"
#include "il_answer.h"
#include "il_enc.h"
#include "il_key.h"


/* Splits a built key into its parts again: they must be what went in. */

static void
undo(il_str_t key, const il_str_t *parts, size_t n)
{
    size_t   i, k;
    uint8_t  c;

    i = 0;

    for (k = 0; k < parts[i].len || i + 1 < n; ) {
        if (k == parts[i].len) {
            IL_HOLDS(key.len > 0 && key.data[0] == ':');
            key.data++;
            key.len--;
            k = 0;
            i++;
            continue;
        }

        IL_HOLDS(key.len > 0);
        c = (uint8_t) key.data[0];

        if (c == '%') {
            IL_HOLDS(key.len >= 3);
            IL_HOLDS(il_hex_decode(&c, 1, il_str(key.data + 1, 2)) == 0);
            key.data += 2;
            key.len -= 2;
        }

        IL_HOLDS(c == (uint8_t) parts[i].data[k++]);
        key.data++;
        key.len--;
    }

    IL_HOLDS(key.len == 0);
}


static void
build(const uint8_t *data, size_t size)
{
    char         *out;
    size_t        n, len, cap;
    il_str_t      rest, parts[IL_KEY_PARTS_MAX + 2];
    il_key_rc_e   rc;

    rest = il_str((const char *) data, size);
    n = 0;

    while (rest.len != 0 && n < sizeof(parts) / sizeof(parts[0])) {
        parts[n++] = il_fuzz_field(&rest);
    }

    cap = size % 3 == 0 ? size : IL_KEY_MAX;
    out = malloc(cap == 0 ? 1 : cap);
    IL_HOLDS(out != NULL);

    rc = il_key_build(out, cap, &len, parts, n);

    if (rc == IL_KEY_OK) {
        IL_HOLDS(len <= cap && len <= IL_KEY_MAX);
        IL_HOLDS(il_key_check(il_str(out, len)) == IL_KEY_OK);
        undo(il_str(out, len), parts, n);

    } else {
        IL_HOLDS(len == 0);
    }

    free(out);

    while (n > 0) {
        il_fuzz_drop(parts[--n]);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int           code;
    char         *out, back[IL_ANSWER_COMPACT_CAP];
    size_t        len;
    il_str_t      text;
    il_answer_t   a;

    build(data, size);

    text = il_fuzz_copy(data, size);

    if (il_key_check(text) == IL_KEY_OK) {
        IL_HOLDS(text.len > 0 && text.len <= IL_KEY_MAX);
        IL_HOLDS(il_utf8_valid(text) && !il_has_control(text));
    }

    if (il_name_valid(text)) {
        IL_HOLDS(il_key_check(text) == IL_KEY_OK);
        IL_HOLDS(text.len <= IL_NAME_MAX);
    }

    out = malloc(IL_IDEM_MAX);
    IL_HOLDS(out != NULL);

    if (il_idem_parse(text, out, &len) == 0) {
        IL_HOLDS(len > 0 && len <= IL_IDEM_MAX);
        IL_HOLDS(il_utf8_valid(il_str(out, len)));
        IL_HOLDS(!il_has_control(il_str(out, len)));

    } else {
        IL_HOLDS(len == 0);
    }

    free(out);

    if (il_answer_parse(text, &a, &code) == 0) {
        len = il_answer_compact(back, sizeof(back), &a, code);
        IL_HOLDS(len > 0);
        IL_HOLDS(code >= 100 && code <= 599);
    }

    il_fuzz_drop(text);

    return 0;
}
