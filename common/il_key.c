/*
 * il_key.c: work keys, idempotency keys, kind names.
 */

#include "il_enc.h"
#include "il_key.h"
#include "il_out.h"


static int
il_key_must_encode(uint8_t c)
{
    return c == '%' || c == ':' || c <= 0x20 || c == 0x7f;
}


/* Bytes of a part that stand in a key as they are, wherever: all but those to
 * be encoded, and dots, which depend on what is around them. */

static const uint8_t  il_key_plain[256] = {
    [0x21 ... '%' - 1] = 1, ['%' + 1 ... '.' - 1] = 1, ['.' + 1 ... ':' - 1] = 1,
    [':' + 1 ... 0x7e] = 1, [0x80 ... 0xff] = 1
};


/* How many of them there are at s[at]. */

static size_t
il_key_run(il_str_t s, size_t at)
{
    size_t  n;

    for (n = at; n < s.len && il_key_plain[(uint8_t) s.data[n]]; n++) {
        /* void */
    }

    return n - at;
}


/*
 * How many dots stand at s[at], if they are a whole path segment, "." or "..":
 * servers and clients resolve those in a URL even if its "/" are encoded, so
 * that such a key could not be looked up.  A segment ends at "/" or at the end
 * of s.
 */

static size_t
il_key_dot_segment(il_str_t s, size_t at)
{
    size_t  n;

    for (n = 0; at + n < s.len && s.data[at + n] == '.'; n++) { /* void */ }

    if (n < 1 || n > 2 || (at + n < s.len && s.data[at + n] != '/')) {
        return 0;
    }

    return n;
}


/* One part as it stands in a key; last: no other one follows. */

static void
il_key_put(il_out_t *o, il_str_t part, int last)
{
    static const char  digits[] = "0123456789ABCDEF";

    char     unit[3];
    size_t   k, n, dots;
    uint8_t  c;

    dots = 0;

    for (k = 0; k < part.len; k++) {

        n = il_key_run(part, k);

        if (n > 0) {
            il_out_put(o, il_str(part.data + k, n));
            k += n;

            if (k == part.len) {
                return;
            }
        }

        c = (uint8_t) part.data[k];

        if (o->len == 0 || (k > 0 && part.data[k - 1] == '/')) {
            dots = il_key_dot_segment(part, k);

            /* what goes on behind a ":" is no segment of dots */

            if (!last && k + dots == part.len) {
                dots = 0;
            }
        }

        if (dots == 0 && !il_key_must_encode(c)) {
            il_out_put(o, il_str(part.data + k, 1));
            continue;
        }

        dots -= dots > 0;

        unit[0] = '%';
        unit[1] = digits[c >> 4];
        unit[2] = digits[c & 0x0f];

        il_out_put(o, il_str(unit, 3));
    }
}


il_key_rc_e
il_key_build(char *out, size_t cap, size_t *len, const il_str_t *parts,
    size_t n)
{
    size_t    i;
    il_out_t  o;

    *len = 0;

    if (n == 0) {
        return IL_KEY_INCOMPLETE;
    }

    if (n > IL_KEY_PARTS_MAX) {
        return IL_KEY_TOO_LONG;
    }

    for (i = 0; i < n; i++) {
        if (parts[i].len == 0) {
            return IL_KEY_INCOMPLETE;
        }

        if (parts[i].len > IL_KEY_PART_MAX) {
            return IL_KEY_PART_TOO_LONG;
        }

        if (!il_utf8_valid(parts[i])) {
            return IL_KEY_MALFORMED;
        }
    }

    il_out_init(&o, out, cap > IL_KEY_MAX ? IL_KEY_MAX : cap);

    for (i = 0; i < n; i++) {

        if (i != 0) {
            il_out_lit(&o, ":");
        }

        il_key_put(&o, parts[i], i + 1 == n);
    }

    if (o.failed) {
        return IL_KEY_TOO_LONG;
    }

    *len = il_out_len(&o);

    return IL_KEY_OK;
}


il_key_rc_e
il_key_check(il_str_t key)
{
    size_t   i, part, parts;
    uint8_t  c, byte;

    if (key.len == 0) {
        return IL_KEY_INCOMPLETE;
    }

    if (key.len > IL_KEY_MAX) {
        return IL_KEY_TOO_LONG;
    }

    if (!il_utf8_valid(key)) {
        return IL_KEY_MALFORMED;
    }

    part = 0;
    parts = 1;

    for (i = 0; i < key.len; i++) {
        c = (uint8_t) key.data[i];

        if ((i == 0 || key.data[i - 1] == '/')
            && il_key_dot_segment(key, i) > 0)
        {
            return IL_KEY_DOT_SEGMENT;
        }

        if (c == ':') {
            if (part == 0) {
                return IL_KEY_INCOMPLETE;
            }

            if (++parts > IL_KEY_PARTS_MAX) {
                return IL_KEY_TOO_LONG;
            }

            part = 0;
            continue;
        }

        if (c == '%') {
            if (key.len - i < 3
                || il_hex_decode(&byte, 1, il_str(key.data + i + 1, 2)) != 0)
            {
                return IL_KEY_MALFORMED;
            }

            i += 2;

        } else if (c <= 0x20 || c == 0x7f) {
            return IL_KEY_MALFORMED;
        }

        if (++part > IL_KEY_PART_MAX) {
            return IL_KEY_PART_TOO_LONG;
        }
    }

    return part == 0 ? IL_KEY_INCOMPLETE : IL_KEY_OK;
}


const char *
il_key_strerror(il_key_rc_e rc)
{
    switch (rc) {
    case IL_KEY_OK:
        return "The work key is valid.";
    case IL_KEY_INCOMPLETE:
        return "A part of the work key is empty.";
    case IL_KEY_PART_TOO_LONG:
        return "A part of the work key is longer than 512 bytes.";
    case IL_KEY_TOO_LONG:
        return "The work key is longer than 2048 bytes or has more than 16 "
               "parts.";
    case IL_KEY_MALFORMED:
        return "The work key is not UTF-8, has a space or a control "
               "character, or a \"%\" without two hex digits.";
    case IL_KEY_DOT_SEGMENT:
        return "A \".\" or \"..\" between slashes of the work key would be "
               "resolved in a URL; write \".\" as %2E.";
    }

    return "The work key is invalid.";
}


/*
 * RFC 8941 section 4.2.5: between the quotes printable ASCII only, and only
 * "\"" and "\\" are escaped.  s starts at the first quote.  Parameters behind
 * the string have no meaning here and are refused.
 */

static int
il_idem_unquote(il_str_t s, char *out, size_t *len)
{
    size_t   i, n;
    uint8_t  c;

    n = 0;

    for (i = 1; i < s.len; i++) {
        c = (uint8_t) s.data[i];

        if (c == '"') {
            *len = n;
            return i + 1 == s.len ? 0 : -1;
        }

        if (c == '\\') {
            if (++i == s.len) {
                return -1;
            }

            c = (uint8_t) s.data[i];

            if (c != '"' && c != '\\') {
                return -1;
            }
        }

        if (c < 0x20 || c > 0x7e || n == IL_IDEM_MAX) {
            return -1;
        }

        out[n++] = (char) c;
    }

    return -1;
}


int
il_idem_parse(il_str_t header, char *out, size_t *len)
{
    *len = 0;

    while (header.len != 0
           && (header.data[0] == ' ' || header.data[0] == '\t'))
    {
        header.data++;
        header.len--;
    }

    while (header.len != 0
           && (header.data[header.len - 1] == ' '
               || header.data[header.len - 1] == '\t'))
    {
        header.len--;
    }

    if (header.len == 0) {
        return -1;
    }

    if (header.data[0] == '"') {
        if (il_idem_unquote(header, out, len) != 0 || *len == 0) {
            *len = 0;
            return -1;
        }

        return 0;
    }

    if (header.len > IL_IDEM_MAX || il_has_control(header)
        || !il_utf8_valid(header))
    {
        return -1;
    }

    memcpy(out, header.data, header.len);
    *len = header.len;

    return 0;
}


int
il_name_valid(il_str_t s)
{
    char    c;
    size_t  i;

    if (s.len == 0 || s.len > IL_NAME_MAX) {
        return 0;
    }

    for (i = 0; i < s.len; i++) {
        c = s.data[i];

        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
            continue;
        }

        if (i == 0 || (c != '.' && c != '_' && c != '-')) {
            return 0;
        }
    }

    return 1;
}
