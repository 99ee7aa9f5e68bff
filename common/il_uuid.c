/*
 * il_uuid.c: UUID version 7.
 */

#include <sodium.h>

#include "il_enc.h"
#include "il_uuid.h"


void
il_uuid7(uint8_t out[IL_UUID_BYTES], uint64_t unix_ms)
{
    size_t  i;

    for (i = 0; i < 6; i++) {
        out[i] = (uint8_t) ((unix_ms >> (8 * (5 - i))) & 0xff);
    }

    randombytes_buf(out + 6, IL_UUID_BYTES - 6);

    out[6] = (uint8_t) (0x70 | (out[6] & 0x0f));    /* version */
    out[8] = (uint8_t) (0x80 | (out[8] & 0x3f));    /* variant */
}


void
il_uuid_format(char *out, const uint8_t in[IL_UUID_BYTES])
{
    char  hex[2 * IL_UUID_BYTES + 1];

    il_hex_encode(hex, in, IL_UUID_BYTES);

    memcpy(out, hex, 8);
    memcpy(out + 9, hex + 8, 4);
    memcpy(out + 14, hex + 12, 4);
    memcpy(out + 19, hex + 16, 4);
    memcpy(out + 24, hex + 20, 12);

    out[8] = '-';
    out[13] = '-';
    out[18] = '-';
    out[23] = '-';
    out[IL_UUID_TEXT] = '\0';
}


int
il_uuid_parse(uint8_t out[IL_UUID_BYTES], il_str_t s)
{
    char    hex[2 * IL_UUID_BYTES];
    size_t  i, n;

    if (s.len != IL_UUID_TEXT) {
        return -1;
    }

    n = 0;

    for (i = 0; i < IL_UUID_TEXT; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (s.data[i] != '-') {
                return -1;
            }

            continue;
        }

        hex[n++] = s.data[i];
    }

    return il_hex_decode(out, IL_UUID_BYTES, il_str(hex, n));
}
