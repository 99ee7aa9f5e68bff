/*
 * hash.c: HMAC (RFC 4231, RFC 2202), fingerprints, entry hashes.  The values
 * of fingerprints and entry hashes were computed by other implementations
 * of BLAKE2b and SipHash from the encoding that il_hash.c describes.
 */

#include "unit.h"
#include "il_enc.h"
#include "il_hash.h"
#include "il_mac.h"


static void
assert_hex(const uint8_t *got, size_t n, const char *want)
{
    char  text[2 * 64 + 1];

    il_hex_encode(text, got, n);
    assert_string_equal(text, want);
}


typedef struct {
    const char  *key;       /* NULL: 01 02 … */
    int          byte;      /* key byte, when repeated */
    size_t       keylen;
    const char  *data;      /* NULL: `fill`, 50 times */
    int          fill;
    const char  *sha256;
    const char  *sha512;
    const char  *sha1;
} mac_row_t;


static const mac_row_t  mac_rows[] = {

    { NULL, 0x0b, 20, "Hi There", 0,
      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
      "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde"
      "daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
      "b617318655057264e28bc0b6fb378c8ef146be00" },

    { "Jefe", 0, 4, "what do ya want for nothing?", 0,
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
      "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
      "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
      "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79" },

    { NULL, 0xaa, 20, NULL, 0xdd,
      "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
      "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39"
      "bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb",
      "125d7342b9ac11cd91a39af48aa17b4f63f175d3" },

    { NULL, 0, 25, NULL, 0xcd,
      "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
      "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db"
      "a91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd",
      "4c9007f4026250c6bc8414f9bf50c86c2d7235da" },

    { NULL, 0xaa, 131,
      "Test Using Larger Than Block-Size Key - Hash Key First", 0,
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
      "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352"
      "6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
      NULL },

    { NULL, 0xaa, 131,
      "This is a test using a larger than block-size key and a larger than "
      "block-size data. The key needs to be hashed before being used by the "
      "HMAC algorithm.", 0,
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
      "e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944"
      "b6022cac3c4982b10d5eeb55c3e4de15134676fb6de0446065c97440fa8c6a58",
      NULL },

    { NULL, 0xaa, 80,
      "Test Using Larger Than Block-Size Key - Hash Key First", 0,
      NULL, NULL, "aa4ae5e15272d00e95705637ce8a3b55ed402112" },

    { NULL, 0xaa, 80,
      "Test Using Larger Than Block-Size Key and Larger Than One Block-Size "
      "Data", 0,
      NULL, NULL, "e8e99d0f45237d786d6bbaa7965c7808bbff1a91" },

    /* Keys around the end of a block, by another implementation. */

    { NULL, 0xaa, 63, "Hi There", 0,
      "b176405584df87db508aee7e8d9ef11482cca92efc74d994f593a7e21207cef1",
      "e96ba9cfb819a1d190c2d2d30f9f7cd9530c5cb93e04d788c9d08cf155a2f300"
      "9863f4b19778d9cdd7417d13ec06d0148c0a8ff45f023996a5e13abe511b64fc",
      "d748d78f388a365549ac23f9b9d9cd24a90b217d" },

    { NULL, 0xaa, 64, "Hi There", 0,
      "ebef34e13d0a0fe04593d043bc7a865106db0604211d404c18206d862e5d7852",
      "f9bf1bad16066d01d294d40575527020a538f5f080431a65de201806b21f87e2"
      "1b7fa911e87ffdb82fd7114858e104984735b8eb6925d4348f5a56e80797d802",
      "e83ee1c362c86cc004df4f912a641c1bd844f36c" },

    { NULL, 0xaa, 65, "Hi There", 0,
      "00af6c42340b99e2e1d9a1cdf1547be431fe2e9bab3215c68d013ba858891927",
      "1cdfffa57c636302624ad7cd9240ec92a9179b18f274f9c13e9cceb4d44e026e"
      "d5e82865ae35e54db4eb8c02da934de46910f6bf33ee766ba7eff19d2cf76408",
      "5c0fb63dc6aea0bed8fa2f8ea120a144e15cbd50" },

    { NULL, 0xaa, 128, "Hi There", 0,
      "396f9d6c2165855ff3a71e1d24380d17ff06225ab16519e65f4bb1226b60065e",
      "17eb09b3d3c0f3ac497c608347e1d5b5df5e4b062bfd56c191c8499f24a3a9d1"
      "c3dfb449d01f4c9ca316b6b8d6a6299bad883d0bffe11c88c60d7daed6feeb48",
      "fce4cc1bf16c6688bd5005588f4e85327e2634b8" },

    { NULL, 0xaa, 129, "Hi There", 0,
      "fee8395ab88f9eb55de10f7e3392f11bc947e456e6e57ba88c26e8381e4cab93",
      "da329f7dbde1631286451a0404a7cc75656497f5fc8ecc2ed1c384e3a8368524"
      "3bf1792cc06c745a466f50c04c99cc5a7fbe1a67e4bbdcf922f1ee4108b3e328",
      "390d78c1a3dcccee4150144415b5cdcc57d0f7ad" },
};


static void
mac_check(const mac_row_t *row, il_sig_alg_e alg, const char *want)
{
    char      data[50];
    size_t    i, step;
    uint8_t   key[131], out[IL_MAC_MAX];
    il_str_t  text;
    il_mac_t  m;

    if (want == NULL) {
        return;
    }

    for (i = 0; i < row->keylen; i++) {
        key[i] = row->key != NULL ? (uint8_t) row->key[i]
                 : row->byte != 0 ? (uint8_t) row->byte : (uint8_t) (i + 1);
    }

    memset(data, row->fill, sizeof(data));
    text = row->data != NULL ? il_cstr(row->data)
                             : il_str(data, sizeof(data));

    /* In one piece, and in pieces of each size. */

    for (step = text.len; step > 0; step--) {
        il_mac_init(&m, alg, key, row->keylen);

        for (i = 0; i < text.len; i += step) {
            il_mac_update(&m, il_str(text.data + i,
                                     text.len - i < step ? text.len - i
                                                         : step));
        }

        il_mac_update(&m, il_str(NULL, 0));
        il_mac_final(&m, out);

        assert_hex(out, il_mac_len(alg), want);
    }
}


static void
hmac_of_the_rfcs(void **state)
{
    size_t  i;

    (void) state;

    for (i = 0; i < il_rows(mac_rows); i++) {
        mac_check(&mac_rows[i], IL_SIG_SHA256, mac_rows[i].sha256);
        mac_check(&mac_rows[i], IL_SIG_SHA512, mac_rows[i].sha512);
        mac_check(&mac_rows[i], IL_SIG_SHA1, mac_rows[i].sha1);
    }
}


/* Every length around the block's end, hashed together; the value is that
 * of another implementation. */

static void
sha1_of_every_length(void **state)
{
    size_t     n;
    uint8_t    out[20], data[300];
    il_sha1_t  one, all;

    (void) state;

    memset(data, 'a', sizeof(data));
    il_sha1_init(&all);

    for (n = 0; n < sizeof(data); n++) {
        il_sha1_init(&one);
        il_sha1_update(&one, data, n / 3);
        il_sha1_update(&one, data, n - n / 3);
        il_sha1_final(&one, out);
        il_sha1_update(&all, out, sizeof(out));
    }

    il_sha1_final(&all, out);
    assert_hex(out, sizeof(out), "59fd9a7a8ec7eb10d31fe6c625152f122c4e1606");
}


static void
fingerprint(uint8_t out[IL_FP_BYTES], const char *method, const char *source,
    const char *uri, const char *body)
{
    il_fp_t  fp;

    il_fp_init(&fp, il_cstr(method), il_cstr(source), il_cstr(uri));
    il_fp_update(&fp, body, strlen(body));
    il_fp_final(&fp, out);
}


static void
fingerprints(void **state)
{
    size_t       i, k;
    il_fp_t      fp;
    uint8_t      a[IL_FP_BYTES], b[IL_FP_BYTES];
    const char  *body;

    static const char *const  rows[][4] = {
        { "POST", "github", "/in/github?x=1", "{\"a\":1}" },
        { "PUT", "github", "/in/github?x=1", "{\"a\":1}" },
        { "POST", "githu", "b/in/github?x=1", "{\"a\":1}" },
        { "POSTg", "ithub", "/in/github?x=1", "{\"a\":1}" },
        { "POST", "github", "/in/github?x=1{", "\"a\":1}" },
        { "POST", "github", "/in/github?x=2", "{\"a\":1}" },
        { "POST", "github", "/in/github", "{\"a\":1}" },
        { "POST", "github", "/in/github?x=1", "{\"a\":1} " },
        { "POST", "github", "/in/github?x=1", "" },
        { "", "", "", "" },
    };

    (void) state;

    fingerprint(a, rows[0][0], rows[0][1], rows[0][2], rows[0][3]);
    assert_hex(a, sizeof(a), "4d0e110daf82451437d62d689bd5962f"
                             "0de8690992340e2dd386ee6bfa867497");

    /* How the body is cut makes no difference. */

    body = rows[0][3];

    for (i = 1; i <= strlen(body); i++) {
        il_fp_init(&fp, il_cstr("POST"), il_cstr("github"),
                   il_cstr("/in/github?x=1"));

        for (k = 0; k < strlen(body); k += i) {
            il_fp_update(&fp, body + k,
                         strlen(body) - k < i ? strlen(body) - k : i);
        }

        il_fp_update(&fp, NULL, 0);
        il_fp_final(&fp, b);
        assert_memory_equal(a, b, sizeof(a));
    }

    for (i = 0; i < il_rows(rows); i++) {
        for (k = 0; k < i; k++) {
            fingerprint(a, rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
            fingerprint(b, rows[k][0], rows[k][1], rows[k][2], rows[k][3]);
            assert_memory_not_equal(a, b, sizeof(a));
        }
    }
}


static void
entry_hashes(void **state)
{
    size_t    i;
    uint8_t   key[IL_ENTRY_KEY], a[IL_ENTRY_BYTES], b[IL_ENTRY_BYTES];
    il_str_t  parts[4];

    (void) state;

    for (i = 0; i < sizeof(key); i++) {
        key[i] = (uint8_t) i;
    }

    parts[0] = il_lit("demo");
    parts[1] = il_lit("github");
    parts[2] = il_lit("key-1");
    parts[3] = il_str(NULL, 0);

    il_entry_hash(a, key, parts, 3);
    assert_hex(a, sizeof(a), "1fd2128ddb0e329dd314e338034cb73b");

    il_entry_hash(b, key, NULL, 0);
    assert_hex(b, sizeof(b), "da87c1d86b99af44347659119b22fc45");

    /* An empty part is a part. */

    il_entry_hash(b, key, parts, 4);
    assert_memory_not_equal(a, b, sizeof(a));

    parts[0] = il_lit("demog");
    parts[1] = il_lit("ithub");
    il_entry_hash(b, key, parts, 3);
    assert_memory_not_equal(a, b, sizeof(a));

    parts[0] = il_lit("demo");
    parts[1] = il_lit("github");
    key[15] ^= 1;
    il_entry_hash(b, key, parts, 3);
    assert_memory_not_equal(a, b, sizeof(a));
}


/* The same as libsodium's SipHash over all parts in one piece, wherever in a
 * word one part ends and the next begins. */

static size_t
entry_length(uint8_t *p, size_t len)
{
    size_t  i;

    if (len < 255) {
        p[0] = (uint8_t) len;
        return 1;
    }

    p[0] = 255;

    for (i = 0; i < 8; i++) {
        p[i + 1] = (uint8_t) (len >> (8 * i));
    }

    return 9;
}


static void
entry_pieces(void **state)
{
    char      text[320];
    size_t    a, b, i, n;
    uint8_t   key[IL_ENTRY_KEY], got[IL_ENTRY_BYTES], want[IL_ENTRY_BYTES];
    uint8_t   flat[3 * 9 + sizeof(text)];
    il_str_t  parts[2];

    (void) state;

    for (i = 0; i < sizeof(key); i++) {
        key[i] = (uint8_t) (7 * i + 1);
    }

    for (i = 0; i < sizeof(text); i++) {
        text[i] = (char) (0xff - 3 * i);
    }

    for (a = 0; a <= 24; a++) {
        for (b = 0; b <= sizeof(text) - 24; b++) {
            parts[0] = il_str(text, a);
            parts[1] = il_str(text + a, b);

            n = entry_length(flat, 2);

            for (i = 0; i < 2; i++) {
                n += entry_length(flat + n, parts[i].len);
                memcpy(flat + n, parts[i].data, parts[i].len);
                n += parts[i].len;
            }

            assert_int_equal(crypto_shorthash_siphashx24(want, flat, n, key),
                             0);
            il_entry_hash(got, key, parts, 2);
            assert_memory_equal(got, want, sizeof(want));
        }
    }
}


/* The values are those of Python's hashlib over the same prefixed parts. */

static void
work_hashes(void **state)
{
    uint8_t  a[IL_WORK_BYTES], b[IL_WORK_BYTES];

    (void) state;

    il_work_hash(a, il_lit("demo"), il_lit("press:a"));
    assert_hex(a, sizeof(a), "2d765b0335c22c60694d331d1aba8eb1"
                             "dd9bf0647c3889fe024ef1409a319d19");

    il_work_hash(b, il_str(NULL, 0), il_str(NULL, 0));
    assert_hex(b, sizeof(b), "94c1c088cc9453996779630ad3af45cb"
                             "d92814828dd784cf2aa12df95d1b8afe");

    il_work_hash(b, il_lit("demop"), il_lit("ress:a"));
    assert_memory_not_equal(a, b, sizeof(a));
}


static void
digests(void **state)
{
    uint8_t  out[32];

    (void) state;

    il_digest(out, il_lit("abc"));
    assert_hex(out, 32, "bddd813c634239723171ef3fee98579b"
                        "94964e3bb1cb3e427262c8c068d52319");
    il_digest(out, il_str(NULL, 0));
    assert_hex(out, 32, "0e5751c026e543b2e8ab2eb06099daa1"
                        "d1e5df47778f7787faab45cdf12fe3a8");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(hmac_of_the_rfcs),
        cmocka_unit_test(sha1_of_every_length),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(entry_hashes),
        cmocka_unit_test(entry_pieces),
        cmocka_unit_test(work_hashes),
        cmocka_unit_test(digests),
    };

    return il_unit_run(tests);
}
