/*
 * il_enc.c: strict hex and base64, UTF-8 check, JSON string escaping.
 */

#include <endian.h>
#include <sodium.h>

#include "il_enc.h"


/*
 * Eight bytes at a time.  Each of these answers 0 if no byte of w is such a
 * one, and has the top bit of some byte set otherwise (not of every such
 * byte, and perhaps of one behind it).
 */

#define IL_EACH(c)           ((c) * 0x0101010101010101ULL)
#define IL_ASCII_HIGH_BITS   IL_EACH(0x80ULL)

/* below c, which is at most 0x80 */
#define il_word_below(w, c)  (((w) - IL_EACH((uint64_t) (c))) & ~(w)          \
                              & IL_ASCII_HIGH_BITS)
#define il_word_has(w, c)    il_word_below((w) ^ IL_EACH((uint64_t) (c)), 1)


static inline uint64_t
il_word(const char *p)
{
    uint64_t  w;

    memcpy(&w, p, sizeof(w));

    return w;
}


int
il_hex_decode(uint8_t *out, size_t outlen, il_str_t in)
{
    size_t  n;

    if (in.len % 2 != 0 || in.len / 2 != outlen) {
        return -1;
    }

    if (outlen == 0) {
        return 0;
    }

    /*
     * The end pointer stays NULL: with one, sodium_hex2bin() takes trailing
     * garbage.
     */

    if (sodium_hex2bin(out, outlen, in.data, in.len, NULL, &n, NULL) != 0
        || n != outlen)
    {
        return -1;
    }

    return 0;
}


/* Four bytes as eight digits, the first one in the lowest byte. */

static uint64_t
il_hex_eight(const uint8_t *in)
{
    uint64_t  w;
    uint32_t  four;

    memcpy(&four, in, sizeof(four));

    /* each byte to the lower half of a pair of its own, then its digits apart */

    w = le32toh(four);
    w = (w | w << 16) & 0x0000ffff0000ffffULL;
    w = (w | w << 8) & 0x00ff00ff00ff00ffULL;
    w = (w >> 4 | w << 8) & 0x0f0f0f0f0f0f0f0fULL;

    /* 10 and more are letters */

    return w + 0x3030303030303030ULL
           + (((w + 0x0606060606060606ULL) >> 4) & 0x0101010101010101ULL)
             * ('a' - '0' - 10);
}


void
il_hex_encode(char *out, const uint8_t *in, size_t n)
{
    static const char  digits[] = "0123456789abcdef";

    size_t    i;
    uint64_t  eight;

    for (i = 0; n - i >= 4; i += 4) {
        eight = htole64(il_hex_eight(in + i));
        memcpy(out, &eight, sizeof(eight));
        out += sizeof(eight);
    }

    for ( /* void */ ; i < n; i++) {
        *out++ = digits[in[i] >> 4];
        *out++ = digits[in[i] & 0x0f];
    }

    *out = '\0';
}


static int
il_b64_sodium_variant(il_b64_variant_e variant)
{
    return variant == IL_B64_STD ? sodium_base64_VARIANT_ORIGINAL
                                 : sodium_base64_VARIANT_URLSAFE_NO_PADDING;
}


int
il_b64_decode(uint8_t *out, size_t cap, size_t *outlen, il_str_t in,
    il_b64_variant_e variant)
{
    size_t  i, n;

    *outlen = 0;

    if (in.len == 0) {
        return 0;
    }

    if (cap == 0) {
        return -1;
    }

    /*
     * libsodium 1.0.18 compares characters as signed: "-", "_", "+" and "/"
     * with the top bit set pass for themselves.
     */

    for (i = 0; i < in.len; i++) {
        if ((uint8_t) in.data[i] >= 0x80) {
            return -1;
        }
    }

    /*
     * No characters are ignored and no end pointer is given, so that white
     * space, a missing or surplus "=", and non-zero bits behind the last
     * byte are all refused.
     */

    if (sodium_base642bin(out, cap, in.data, in.len, NULL, &n, NULL,
                          il_b64_sodium_variant(variant))
        != 0)
    {
        return -1;
    }

    *outlen = n;

    return 0;
}


size_t
il_b64_encode(char *out, size_t cap, const uint8_t *in, size_t n,
    il_b64_variant_e variant)
{
    int     v;
    size_t  need;

    /* The bound keeps the sum below from wrapping. */

    if (n > SIZE_MAX / 4) {
        return 0;
    }

    v = il_b64_sodium_variant(variant);
    need = sodium_base64_encoded_len(n, v);

    /* sodium_bin2base64() aborts the process if the buffer is too small. */

    if (cap < need) {
        return 0;
    }

    (void) sodium_bin2base64(out, cap, in, n, v);

    return need - 1;
}


size_t
il_utf8_step(const uint8_t *p, size_t n)
{
    uint8_t  lo, hi;
    size_t   i, len;

    if (n == 0) {
        return 0;
    }

    if (p[0] < 0x80) {
        return 1;
    }

    /* RFC 3629 section 4: only the second byte has bounds of its own. */

    lo = 0x80;
    hi = 0xbf;

    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        len = 2;

    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        len = 3;

        if (p[0] == 0xe0) {
            lo = 0xa0;
        } else if (p[0] == 0xed) {
            hi = 0x9f;
        }

    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        len = 4;

        if (p[0] == 0xf0) {
            lo = 0x90;
        } else if (p[0] == 0xf4) {
            hi = 0x8f;
        }

    } else {
        return 0;
    }

    if (n < len || p[1] < lo || p[1] > hi) {
        return 0;
    }

    for (i = 2; i < len; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf) {
            return 0;
        }
    }

    return len;
}


int
il_utf8_valid(il_str_t s)
{
    size_t          i, n;
    const uint8_t  *p;

    p = (const uint8_t *) s.data;
    i = 0;

    while (i < s.len) {

        /* Bodies are mostly ASCII: eight bytes at a time. */

        if (s.len - i >= 8) {
            if ((il_word(s.data + i) & IL_ASCII_HIGH_BITS) == 0) {
                i += 8;
                continue;
            }

        } else if (s.len >= 8
                   && (il_word(s.data + s.len - 8) & IL_ASCII_HIGH_BITS) == 0)
        {
            return 1;
        }

        n = il_utf8_step(p + i, s.len - i);
        if (n == 0) {
            return 0;
        }

        i += n;
    }

    return 1;
}


/* The code point of a well-formed sequence of n bytes. */

static uint32_t
il_utf8_point(const uint8_t *p, size_t n)
{
    size_t    i;
    uint32_t  c;

    c = n == 1 ? p[0] : p[0] & (0x7fu >> n);

    for (i = 1; i < n; i++) {
        c = c << 6 | (p[i] & 0x3fu);
    }

    return c;
}


static int
il_point_is_blank(uint32_t c)
{
    size_t  i;

    static const struct {
        uint32_t  from;
        uint32_t  to;
    } blank[] = {
        { 0x0000, 0x0020 }, { 0x007f, 0x00a0 }, { 0x00ad, 0x00ad },
        { 0x034f, 0x034f }, { 0x061c, 0x061c }, { 0x115f, 0x1160 },
        { 0x1680, 0x1680 }, { 0x17b4, 0x17b5 }, { 0x180b, 0x180f },
        { 0x2000, 0x200f }, { 0x2028, 0x202f }, { 0x205f, 0x206f },
        { 0x2800, 0x2800 }, { 0x3000, 0x3000 }, { 0x3164, 0x3164 },
        { 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }
    };

    for (i = 0; i < sizeof(blank) / sizeof(blank[0]); i++) {
        if (c >= blank[i].from && c <= blank[i].to) {
            return 1;
        }
    }

    return 0;
}


int
il_is_blank(il_str_t s)
{
    size_t          i, n;
    const uint8_t  *p = (const uint8_t *) s.data;

    for (i = 0; i < s.len; i += n) {
        n = il_utf8_step(p + i, s.len - i);

        if (n == 0 || !il_point_is_blank(il_utf8_point(p + i, n))) {
            return 0;
        }
    }

    return 1;
}


int
il_has_control(il_str_t s)
{
    size_t    i;
    uint8_t   c;
    uint64_t  w;

    for (i = 0; s.len - i >= 8; i += 8) {
        w = il_word(s.data + i);

        if ((il_word_below(w, 0x20) | il_word_has(w, 0x7f)) != 0) {
            return 1;
        }
    }

    for ( /* void */ ; i < s.len; i++) {
        c = (uint8_t) s.data[i];

        if (c < 0x20 || c == 0x7f) {
            return 1;
        }
    }

    return 0;
}


/* The letter of a two-character escape, or 0. */

static char
il_json_short_escape(uint8_t c)
{
    switch (c) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}


/* Bytes that stand for themselves in a JSON string: ASCII but for control
 * characters, quotes and backslashes. */

static const uint8_t  il_json_plain[256] = {
    [0x20 ... 0x21] = 1, [0x23 ... 0x5b] = 1, [0x5d ... 0x7f] = 1
};


/* One character at p, of n bytes, that does not stand for itself: what is to
 * be written for it, and in *step how many bytes it has. */

static il_str_t
il_json_escape_one(const uint8_t *p, size_t n, size_t *step, char unit[8])
{
    char  hex[3], letter;

    *step = il_utf8_step(p, n);

    if (*step == 0) {
        *step = 1;
        return il_str("\xef\xbf\xbd", 3);
    }

    if (*step > 1) {
        return il_str((const char *) p, *step);
    }

    letter = il_json_short_escape(*p);

    if (letter != 0) {
        unit[0] = '\\';
        unit[1] = letter;
        return il_str(unit, 2);
    }

    il_hex_encode(hex, p, 1);
    memcpy(unit, "\\u00", 4);
    memcpy(unit + 4, hex, 2);

    return il_str(unit, 6);
}


size_t
il_json_escape(char *out, size_t cap, il_str_t s)
{
    char            unit[8];
    size_t          i, used, step;
    il_str_t        one;

    used = 0;

    for (i = 0; i < s.len; i += step) {

        step = il_json_run(s.data + i, s.len - i);

        while (i + step < s.len && il_json_plain[(uint8_t) s.data[i + step]]) {
            step++;
        }

        if (step > 0) {
            one = il_str(s.data + i, step);

        } else {
            one = il_json_escape_one((const uint8_t *) s.data + i, s.len - i,
                                     &step, unit);
        }

        if (cap - used < one.len) {
            return (size_t) -1;
        }

        memcpy(out + used, one.data, one.len);
        used += one.len;
    }

    return used;
}
