/*
 * gunzip.c: compressed bodies.
 */

#define ZLIB_CONST

#include <zlib.h>

#include "unit.h"
#include "il_gunzip.h"


#define ROOM  (1024 * 1024)
#define TEXT  "{\"id\":\"evt_1\",\"id2\":\"evt_1\",\"n\":1.10}"


/* Compresses; level 0 stores. */

static il_str_t
gzip(il_str_t s, int level, int window)
{
    char      *p;
    size_t     len;
    il_str_t   out;
    z_stream   z;

    p = malloc(ROOM + 4096);
    assert_non_null(p);

    memset(&z, 0, sizeof(z));
    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, window, 8,
                                  Z_DEFAULT_STRATEGY), Z_OK);

    z.next_in = (const Bytef *) s.data;
    z.avail_in = (uInt) s.len;
    z.next_out = (Bytef *) p;
    z.avail_out = ROOM + 4096;

    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    len = ROOM + 4096 - z.avail_out;
    assert_int_equal(deflateEnd(&z), Z_OK);

    out = il_exact(il_str(p, len));
    free(p);

    return out;
}


static void
inflates_what_was_compressed(void **state)
{
    int        level, round;
    char      *plain, *out;
    size_t     i, k, size;
    il_str_t   in;

    static const size_t  sizes[] = {
        0, 1, 2, 19, 20, 1000, 32767, 32768, 32769, 65535, 65536, ROOM
    };

    (void) state;

    plain = malloc(ROOM);
    assert_non_null(plain);

    for (i = 0; i < il_rows(sizes); i++) {
        for (round = 0; round < 2; round++) {

            /* every byte another, or a long repetition */

            for (k = 0; k < sizes[i]; k++) {
                plain[k] = (char) (round == 0 ? (k * 2654435761U) >> 13 : 'x');
            }

            for (level = 0; level <= 9; level += 3) {
                in = gzip(il_str(plain, sizes[i]), level, 16 + MAX_WBITS);

                assert_int_equal(il_gunzip_size(in, &size), 0);
                assert_int_equal(size, sizes[i]);

                out = size == 0 ? NULL : malloc(size);
                assert_int_equal(il_gunzip(in, out, size), IL_GUNZIP_OK);

                if (size != 0) {
                    assert_memory_equal(out, plain, size);
                }

                assert_int_equal(il_gunzip_exceeds(in, size),
                                 IL_GUNZIP_MALFORMED);

                if (size != 0) {
                    assert_int_equal(il_gunzip_exceeds(in, size - 1),
                                     IL_GUNZIP_OK);
                }

                free(out);
                il_drop(in);
            }
        }
    }

    free(plain);
}


static void
damage_is_seen(void **state)
{
    char       out[512];
    size_t     i, bit, size;
    il_str_t   in, cut, more;
    char       text[600];

    (void) state;

    in = gzip(il_lit(TEXT), 9, 16 + MAX_WBITS);
    assert_int_equal(il_gunzip_size(in, &size), 0);
    assert_true(size < sizeof(out) && in.len < 300);

    for (i = 0; i < in.len; i++) {
        cut = il_exact(il_str(in.data, i));

        if (il_gunzip_size(cut, &size) == 0 && size <= sizeof(out)) {
            assert_int_equal(il_gunzip(cut, out, size), IL_GUNZIP_MALFORMED);
        }

        il_drop(cut);
    }

    /* a bit: anything but the time, level and system of the header (bytes 4
     * to 9), and its flag for text */

    for (i = 0; i < in.len; i++) {
        for (bit = 0; bit < 8; bit++) {
            if ((i >= 4 && i <= 9) || (i == 3 && bit == 0)) {
                continue;
            }

            cut = il_exact(in);
            ((char *) (uintptr_t) cut.data)[i] ^= (char) (1 << bit);

            if (il_gunzip_size(cut, &size) == 0 && size <= sizeof(out)
                && il_gunzip(cut, out, size) != IL_GUNZIP_MALFORMED)
            {
                /* the last byte of the block has bits of no meaning */

                assert_int_equal(i, in.len - 9);
                assert_memory_equal(out, TEXT, size);
            }

            il_drop(cut);
        }
    }

    /* another size than it claims, two members, something behind */

    assert_int_equal(il_gunzip_size(in, &size), 0);
    assert_int_equal(il_gunzip(in, out, size), IL_GUNZIP_OK);
    assert_int_equal(il_gunzip(in, out, size - 1), IL_GUNZIP_MALFORMED);
    assert_int_equal(il_gunzip(in, out, size + 1), IL_GUNZIP_MALFORMED);

    memcpy(text, in.data, in.len);
    memcpy(text + in.len, in.data, in.len);
    more = il_exact(il_str(text, 2 * in.len));
    assert_int_equal(il_gunzip(more, out, size), IL_GUNZIP_MALFORMED);
    assert_int_equal(il_gunzip(more, out, 2 * size), IL_GUNZIP_MALFORMED);
    il_drop(more);

    memset(text + in.len, 0, 4);
    more = il_exact(il_str(text, in.len + 4));
    assert_int_equal(il_gunzip(more, out, size), IL_GUNZIP_MALFORMED);
    assert_int_equal(il_gunzip(more, out, 0), IL_GUNZIP_MALFORMED);
    il_drop(more);

    il_drop(in);
}


static void
only_gzip_is_taken(void **state)
{
    char       out[64], claim[20];
    size_t     size;
    il_str_t   in;

    static const char  text[] = "{\"a\":\"plain text, not compressed\"}";

    (void) state;

    in = gzip(il_lit("0123456789"), 9, MAX_WBITS);          /* zlib */
    assert_int_equal(il_gunzip(in, out, 10), IL_GUNZIP_MALFORMED);
    il_drop(in);

    in = gzip(il_lit("0123456789"), 9, -MAX_WBITS);         /* bare */
    assert_int_equal(il_gunzip(in, out, 10), IL_GUNZIP_MALFORMED);
    il_drop(in);

    /* A size that so few bytes may have, and one that they may not: 258 bytes
     * are two bits. */

    memset(claim, 0, 20);
    memcpy(claim, "\x1f\x8b\x08", 3);
    memcpy(claim + 16, "\xa0\x50\x00\x00", 4);       /* 20640 of 20 */
    assert_int_equal(il_gunzip_size(il_str(claim, 20), &size), 0);
    assert_int_equal(size, 20640);
    memcpy(claim + 16, "\xa8\x54\x00\x00", 4);       /* 21 times 1032 */
    assert_int_equal(il_gunzip_size(il_str(claim, 20), &size), -1);
    memset(claim + 16, 0xff, 4);
    assert_int_equal(il_gunzip_size(il_str(claim, 20), &size), -1);

    assert_int_equal(il_gunzip_size(il_lit(""), &size), -1);
    assert_int_equal(il_gunzip_size(il_str(text, 19), &size), -1);
    assert_int_equal(il_gunzip_size(il_lit(text), &size), -1);
    assert_int_equal(il_gunzip(il_lit(text), out, sizeof(out)),
                     IL_GUNZIP_MALFORMED);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(inflates_what_was_compressed),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(only_gzip_is_taken),
    };

    return il_unit_run(tests);
}
