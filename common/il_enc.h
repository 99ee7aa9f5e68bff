/*
 * il_enc.h: strict hex and base64, UTF-8 check, JSON string escaping.
 *
 * Decoders accept the canonical form only: no white space, no trailing
 * garbage, no missing or surplus padding, no non-zero bits behind the last
 * byte.  Sources: RFC 4648, RFC 3629, RFC 8259 section 7.
 */

#ifndef IL_ENC_H
#define IL_ENC_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

typedef enum {
    IL_B64_STD = 0,       /* RFC 4648 section 4, padded */
    IL_B64_URL_NOPAD      /* RFC 4648 section 5, without padding (PASETO) */
} il_b64_variant_e;

/* Exactly 2 * outlen hex digits, either case.  0, or -1. */
int il_hex_decode(uint8_t *out, size_t outlen, il_str_t in) IL_MUST_CHECK;

/* Writes 2 * n digits, lower case, and a NUL: out has 2 * n + 1 bytes. */
void il_hex_encode(char *out, const uint8_t *in, size_t n);

/* Decodes at most cap bytes and sets *outlen.  0, or -1 (not canonical, or
 * more than cap bytes). */
int il_b64_decode(uint8_t *out, size_t cap, size_t *outlen, il_str_t in,
    il_b64_variant_e variant) IL_MUST_CHECK;

/* Upper bound of the encoded length of n bytes, with the NUL. */
#define il_b64_encoded_cap(n)  ((((n) + 2) / 3) * 4 + 1)

/* Encodes with a NUL behind; returns the length without it, or 0 if cap is
 * too small (and for n = 0). */
size_t il_b64_encode(char *out, size_t cap, const uint8_t *in, size_t n,
    il_b64_variant_e variant);

/* The length of the well-formed UTF-8 sequence that p starts with (1 to 4),
 * looking at n bytes at most; 0 if there is none. */
size_t il_utf8_step(const uint8_t *p, size_t n);

/* 1 if s is well-formed UTF-8 (no surrogates, no overlong forms, at most
 * U+10FFFF).  NUL bytes are well-formed; callers that refuse them say so. */
int il_utf8_valid(il_str_t s);

/* 1 if there is nothing in s that one can see: white space, control and
 * format characters, fillers (the same as is_blank() in SQL), or no byte. */
int il_is_blank(il_str_t s);

/* 1 if s has a control character (0x00-0x1f, 0x7f). */
int il_has_control(il_str_t s);

/* Upper bound of the escaped length of n bytes. */
#define il_json_escaped_cap(n)  ((n) * 6)

/* Escapes s for the inside of a JSON string; bytes that are not UTF-8 come
 * out as U+FFFD.  Returns the length written, or (size_t) -1 if cap is too
 * small. */
size_t il_json_escape(char *out, size_t cap, il_str_t s);

/*
 * How many bytes at p, of at most n, surely stand for themselves in a JSON
 * string: ASCII, no control, neither quote nor backslash.  It looks at eight at
 * a time, so there may be more.
 */
static inline size_t
il_json_run(const char *p, size_t n)
{
    size_t    i;
    uint64_t  w, quote, back;

    for (i = 0; n - i >= sizeof(w); i += sizeof(w)) {
        memcpy(&w, p + i, sizeof(w));

        /* a byte that is 0 after the xor, or below 0x20, borrows its top bit;
         * those behind it may, too, and are looked at one by one then */

        quote = w ^ 0x2222222222222222ULL;
        back = w ^ 0x5c5c5c5c5c5c5c5cULL;

        if ((w
             | ((quote - 0x0101010101010101ULL) & ~quote)
             | ((back - 0x0101010101010101ULL) & ~back)
             | ((w - 0x2020202020202020ULL) & ~w))
            & 0x8080808080808080ULL)
        {
            break;
        }
    }

    return i;
}

#pragma GCC visibility pop

#endif /* IL_ENC_H */
