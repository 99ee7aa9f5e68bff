/*
 * il_gunzip.c: see il_gunzip.h.
 */

#define ZLIB_CONST

#include <limits.h>

#include <zlib.h>

#include "il_gunzip.h"


/* RFC 1952, section 2.3: header, an empty block, sum and length. */
#define IL_GZIP_MIN      20

/* RFC 1951: no more than 258 bytes come of two bits. */
#define IL_GZIP_RATIO    1032

/* For inflateInit2(): gzip and nothing else, with the largest window. */
#define IL_GZIP_WINDOW   (16 + MAX_WBITS)


int
il_gunzip_size(il_str_t in, size_t *size)
{
    const uint8_t  *p;

    if (in.len < IL_GZIP_MIN || in.len > UINT_MAX) {
        return -1;
    }

    p = (const uint8_t *) in.data;

    /* ID1, ID2, CM = deflate */

    if (p[0] != 0x1f || p[1] != 0x8b || p[2] != 8) {
        return -1;
    }

    p += in.len - 4;

    *size = (size_t) p[0] | (size_t) p[1] << 8 | (size_t) p[2] << 16
            | (size_t) p[3] << 24;

    /* What was cut off, or has something behind it, ends in other bytes. */

    return *size / IL_GZIP_RATIO > in.len ? -1 : 0;
}


il_gunzip_rc_e
il_gunzip(il_str_t in, char *out, size_t size)
{
    int       rc;
    Bytef     none;
    size_t    claimed;
    z_stream  z;

    if (il_gunzip_size(in, &claimed) != 0 || claimed != size) {
        return IL_GUNZIP_MALFORMED;
    }

    memset(&z, 0, sizeof(z));

    rc = inflateInit2(&z, IL_GZIP_WINDOW);

    if (rc != Z_OK) {
        return IL_GUNZIP_NO_MEMORY;
    }

    z.next_in = (const Bytef *) in.data;
    z.avail_in = (uInt) in.len;
    z.next_out = size == 0 ? &none : (Bytef *) out;
    z.avail_out = (uInt) size;

    /* All of it at once: zlib needs no window of its own then. */

    rc = inflate(&z, Z_FINISH);

    if (inflateEnd(&z) != Z_OK && rc == Z_STREAM_END) {
        return IL_GUNZIP_MALFORMED;
    }

    if (rc == Z_MEM_ERROR) {
        return IL_GUNZIP_NO_MEMORY;
    }

    if (rc != Z_STREAM_END || z.avail_in != 0 || z.avail_out != 0) {
        return IL_GUNZIP_MALFORMED;
    }

    return IL_GUNZIP_OK;
}


il_gunzip_rc_e
il_gunzip_exceeds(il_str_t in, size_t max)
{
    int       rc;
    size_t    left;
    Bytef     scrap[4096];
    z_stream  z;

    memset(&z, 0, sizeof(z));

    if (inflateInit2(&z, IL_GZIP_WINDOW) != Z_OK) {
        return IL_GUNZIP_NO_MEMORY;
    }

    z.next_in = (const Bytef *) in.data;
    z.avail_in = (uInt) (in.len < UINT_MAX ? in.len : UINT_MAX);
    left = max;

    do {
        z.next_out = scrap;
        z.avail_out = sizeof(scrap);

        rc = inflate(&z, Z_NO_FLUSH);

        if (sizeof(scrap) - z.avail_out > left) {
            (void) inflateEnd(&z);
            return IL_GUNZIP_OK;
        }

        left -= sizeof(scrap) - z.avail_out;

    } while (rc == Z_OK);

    (void) inflateEnd(&z);

    return rc == Z_MEM_ERROR ? IL_GUNZIP_NO_MEMORY : IL_GUNZIP_MALFORMED;
}
