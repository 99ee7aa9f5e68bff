/*
 * il_json_find.c: what JSON strings say (unescaping), and JSON pointers
 * (RFC 6901).
 */

#include "il_enc.h"
#include "il_json_int.h"


static size_t
il_json_utf8(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char) cp;
        return 1;
    }

    if (cp < 0x800) {
        out[0] = (char) (0xc0 | (cp >> 6));
        out[1] = (char) (0x80 | (cp & 0x3f));
        return 2;
    }

    if (cp < 0x10000) {
        out[0] = (char) (0xe0 | (cp >> 12));
        out[1] = (char) (0x80 | ((cp >> 6) & 0x3f));
        out[2] = (char) (0x80 | (cp & 0x3f));
        return 3;
    }

    out[0] = (char) (0xf0 | (cp >> 18));
    out[1] = (char) (0x80 | ((cp >> 12) & 0x3f));
    out[2] = (char) (0x80 | ((cp >> 6) & 0x3f));
    out[3] = (char) (0x80 | (cp & 0x3f));

    return 4;
}


/*
 * Decodes one step of a string's inside at *p: a raw byte, or an escape
 * (with its second half, if it is a surrogate pair).  The number of bytes in
 * out, or 0 for a lone surrogate or a broken escape.
 */

static size_t
il_json_decode(const char **p, const char *end, char out[4])
{
    int      ch;
    int32_t  high, low;

    if (**p != '\\') {
        out[0] = *(*p)++;
        return 1;
    }

    if (end - *p < 2) {
        return 0;
    }

    if ((*p)[1] != 'u') {
        ch = il_json_short((*p)[1]);

        if (ch < 0) {
            return 0;
        }

        out[0] = (char) ch;
        *p += 2;

        return 1;
    }

    high = il_json_unit(*p + 2, end);

    if (high < 0 || (high >= 0xdc00 && high <= 0xdfff)) {
        return 0;
    }

    *p += 6;

    if (high < 0xd800 || high > 0xdbff) {
        return il_json_utf8((uint32_t) high, out);
    }

    if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u') {
        return 0;
    }

    low = il_json_unit(*p + 2, end);

    if (low < 0xdc00 || low > 0xdfff) {
        return 0;
    }

    *p += 6;

    return il_json_utf8((uint32_t) (0x10000 + ((high - 0xd800) << 10)
                                    + (low - 0xdc00)), out);
}


int
il_json_unescape(il_str_t raw, char *out, size_t cap, size_t *len)
{
    char         unit[4];
    size_t       n, used;
    const char  *p, *end;

    *len = 0;

    if (raw.len < 2 || raw.data[0] != '"' || raw.data[raw.len - 1] != '"') {
        return -1;
    }

    p = raw.data + 1;
    end = raw.data + raw.len - 1;
    used = 0;

    while (p < end) {
        n = il_json_run(p, (size_t) (end - p));

        if (n > 0) {
            if (cap - used < n) {
                return -1;
            }

            memcpy(out + used, p, n);
            used += n;
            p += n;
            continue;
        }

        n = il_json_decode(&p, end, unit);

        if (n == 0 || cap - used < n) {
            return -1;
        }

        memcpy(out + used, unit, n);
        used += n;
    }

    *len = used;

    return 0;
}


int
il_json_scalar(const il_json_value_t *value, char *out, size_t cap,
    size_t *len)
{
    *len = 0;

    switch (value->type) {

    case IL_JSON_STRING:
        return il_json_unescape(value->raw, out, cap, len);

    case IL_JSON_NUMBER:
    case IL_JSON_TRUE:
    case IL_JSON_FALSE:
        if (value->raw.len > cap) {
            return -1;
        }

        memcpy(out, value->raw.data, value->raw.len);
        *len = value->raw.len;

        return 0;

    case IL_JSON_NULL:
    case IL_JSON_ARRAY:
    case IL_JSON_OBJECT:
        break;
    }

    return -1;
}


/*
 * 1 if the member name (raw) is what the reference token of a pointer says.
 * Names are compared as text: "\u0069d" is "id".
 */

static int
il_json_name_is(il_str_t name, il_str_t token)
{
    char         unit[4], ch;
    size_t       i, k, n;
    const char  *p, *end;

    p = name.data + 1;
    end = name.data + name.len - 1;
    i = 0;

    while (p < end) {
        n = il_json_decode(&p, end, unit);

        if (n == 0) {
            return 0;
        }

        for (k = 0; k < n; k++) {
            if (i == token.len) {
                return 0;
            }

            ch = token.data[i++];

            if (ch == '~') {
                ch = token.data[i++] == '0' ? '~' : '/';
            }

            if (ch != unit[k]) {
                return 0;
            }
        }
    }

    return i == token.len;
}


static il_json_rc_e
il_json_find_member(il_json_value_t object, il_str_t token,
    il_json_value_t *found)
{
    int              seen;
    size_t           pos;
    il_str_t         name;
    il_json_value_t  value;

    pos = 0;
    seen = 0;

    while (il_json_next(object, &pos, &name, &value)) {
        if (!il_json_name_is(name, token)) {
            continue;
        }

        if (seen) {
            return IL_JSON_DUPLICATE;
        }

        *found = value;
        seen = 1;
    }

    return seen ? IL_JSON_OK : IL_JSON_MISSING;
}


static il_json_rc_e
il_json_find_element(il_json_value_t array, il_str_t token,
    il_json_value_t *found)
{
    size_t    i, pos, index;
    il_str_t  name;

    /*
     * RFC 6901 section 4: no sign, no leading zero; "-" is the element
     * behind the last one, which does not exist.
     */

    if (token.len == 0 || token.len > 9
        || (token.data[0] == '0' && token.len > 1))
    {
        return IL_JSON_MISSING;
    }

    index = 0;

    for (i = 0; i < token.len; i++) {
        if (token.data[i] < '0' || token.data[i] > '9') {
            return IL_JSON_MISSING;
        }

        index = index * 10 + (size_t) (token.data[i] - '0');
    }

    pos = 0;

    for (i = 0; il_json_next(array, &pos, &name, found); i++) {
        if (i == index) {
            return IL_JSON_OK;
        }
    }

    return IL_JSON_MISSING;
}


int
il_json_pointer_valid(il_str_t pointer)
{
    size_t  i;

    if (pointer.len == 0) {
        return 1;
    }

    if (pointer.data[0] != '/' || !il_utf8_valid(pointer)) {
        return 0;
    }

    for (i = 0; i < pointer.len; i++) {
        if (pointer.data[i] == '~'
            && (i + 1 == pointer.len
                || (pointer.data[i + 1] != '0' && pointer.data[i + 1] != '1')))
        {
            return 0;
        }
    }

    return 1;
}


static il_str_t
il_json_trim(il_str_t s)
{
    while (s.len != 0 && il_json_is_space(s.data[0])) {
        s.data++;
        s.len--;
    }

    while (s.len != 0 && il_json_is_space(s.data[s.len - 1])) {
        s.len--;
    }

    return s;
}


il_json_rc_e
il_json_lookup(il_str_t text, il_str_t pointer, il_json_value_t *value)
{
    size_t           start, end;
    il_str_t         token;
    il_json_rc_e     rc;
    il_json_value_t  at;

    if (!il_json_pointer_valid(pointer)) {
        return IL_JSON_BAD_POINTER;
    }

    /* Being checked, the text is one value and white space. */

    text = il_json_trim(text);

    if (text.len == 0) {
        return IL_JSON_MALFORMED;
    }

    at.raw = text;
    at.type = il_json_type(text.data[0]);

    for (start = 0; start < pointer.len; start = end) {
        start++;
        end = start;

        while (end < pointer.len && pointer.data[end] != '/') {
            end++;
        }

        token = il_str(pointer.data + start, end - start);

        if (at.type == IL_JSON_OBJECT) {
            rc = il_json_find_member(at, token, &at);

        } else if (at.type == IL_JSON_ARRAY) {
            rc = il_json_find_element(at, token, &at);

        } else {
            rc = IL_JSON_MISSING;
        }

        if (rc != IL_JSON_OK) {
            return rc;
        }
    }

    *value = at;

    return IL_JSON_OK;
}


il_json_rc_e
il_json_find(il_str_t text, il_str_t pointer, il_json_value_t *value)
{
    il_json_rc_e  rc;

    if (!il_json_pointer_valid(pointer)) {
        return IL_JSON_BAD_POINTER;
    }

    rc = il_json_check(text);

    return rc == IL_JSON_OK ? il_json_lookup(text, pointer, value) : rc;
}
