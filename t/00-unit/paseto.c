/*
 * paseto.c: PASETO v4.public and PASERK against the official vectors
 * (github.com/paseto-standard/test-vectors: v4.json, PASERK/k4.*.json).
 */

#include "unit.h"
#include "il_enc.h"
#include "il_token.h"


#define SEED    "b4cbfb43df4ce210727d953e4a713307"                             \
                "fa19bb7d9f85041438d9e11b942a3774"
#define PUBLIC  "1eb9dbbbbc047c03fd70604e0071f098"                             \
                "7e16b28b757225c11f00415d0e20b1a2"

#define KID     "{\"kid\":\"zVhMiPBP9fRf2snEcT7gFTioeA9COcNy9DfgL1W60haN\"}"
#define SIGNED  "{\"data\":\"this is a signed message\","                     \
                "\"exp\":\"2022-01-01T00:00:00+00:00\"}"

typedef struct {
    const char  *token;
    const char  *payload;
    const char  *footer;
    const char  *implicit;
} vector_t;


static const vector_t  vectors[] = {

    /* 4-S-1, 4-S-2, 4-S-3 */

    { "v4.public.eyJkYXRhIjoidGhpcyBpcyBhIHNpZ25lZCBtZXNzYWdlIiwiZXhwIjoiMjA"
      "yMi0wMS0wMVQwMDowMDowMCswMDowMCJ9bg_XBBzds8lTZShVlwwKSgeKpLT3yukTw6JU"
      "z3W4h_ExsQV-P0V54zemZDcAxFaSeef1QlXEFtkqxT1ciiQEDA",
      SIGNED, "", "" },

    { "v4.public.eyJkYXRhIjoidGhpcyBpcyBhIHNpZ25lZCBtZXNzYWdlIiwiZXhwIjoiMjA"
      "yMi0wMS0wMVQwMDowMDowMCswMDowMCJ9v3Jt8mx_TdM2ceTGoqwrh4yDFn0XsHvvV_D0"
      "DtwQxVrJEBMl0F2caAdgnpKlt4p7xBnx1HcO-SPo8FPp214HDw.eyJraWQiOiJ6VmhNaV"
      "BCUDlmUmYyc25FY1Q3Z0ZUaW9lQTlDT2NOeTlEZmdMMVc2MGhhTiJ9",
      SIGNED, KID, "" },

    { "v4.public.eyJkYXRhIjoidGhpcyBpcyBhIHNpZ25lZCBtZXNzYWdlIiwiZXhwIjoiMjA"
      "yMi0wMS0wMVQwMDowMDowMCswMDowMCJ9NPWciuD3d0o5eXJXG5pJy-DiVEoyPYWs1YST"
      "wWHNJq6DZD3je5gf-0M4JR9ipdUSJbIovzmBECeaWmaqcaP0DQ.eyJraWQiOiJ6VmhNaV"
      "BCUDlmUmYyc25FY1Q3Z0ZUaW9lQTlDT2NOeTlEZmdMMVc2MGhhTiJ9",
      SIGNED, KID, "{\"test-vector\":\"4-S-3\"}" },
};


static const vector_t  failing[] = {

    /* 4-F-1 to 4-F-5 */

    { "v4.local.vngXfCISbnKgiP6VWGuOSlYrFYU300fy9ijW33rznDYgxHNPwWluAY2Bgb0z"
      "54CUs6aYYkIJ-bOOOmJHPuX_34Agt_IPlNdGDpRdGNnBz2MpWJvB3cttheEc1uyCEYlt"
      "j7wBQQYX.YXJiaXRyYXJ5LXN0cmluZy10aGF0LWlzbid0LWpzb24",
      NULL, NULL, "{\"test-vector\":\"4-F-1\"}" },

    { "v4.public.eyJpbnZhbGlkIjoidGhpcyBzaG91bGQgbmV2ZXIgZGVjb2RlIn22Sp4gjCa"
      "Uw0c7EH84ZSm_jN_Qr41MrgLNu5LIBCzUr1pn3Z-Wukg9h3ceplWigpoHaTLcwxj0NsI1"
      "vjTh67YB.eyJraWQiOiJ6VmhNaVBCUDlmUmYyc25FY1Q3Z0ZUaW9lQTlDT2NOeTlEZmdM"
      "MVc2MGhhTiJ9",
      NULL, NULL, "{\"test-vector\":\"4-F-2\"}" },

    { "v3.local.23e_2PiqpQBPvRFKzB0zHhjmxK3sKo2grFZRRLM-U7L0a8uHxuF9RlVz3Ic6"
      "WmdUUWTxCaYycwWV1yM8gKbZB2JhygDMKvHQ7eBf8GtF0r3K0Q_gF1PXOxcOgztak1eD"
      "1dPe9rLVMSgR0nHJXeIGYVuVrVoLWQ.YXJiaXRyYXJ5LXN0cmluZy10aGF0LWlzbid0L"
      "Wpzb24",
      NULL, NULL, "{\"test-vector\":\"4-F-3\"}" },

    { "v4.local.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAr68PS4AXe7If_Zg"
      "esdkUMvSwscFlAl1pk5HC0e8kApeaqMfGo_7OpBnwJOAbY9V7WU6abu74MmcUE8YWAia"
      "ArVI8XJ5hOb_4v9RmDkneN0S92dx0OW4pgy7omxgf3S8c3LlQh",
      NULL, NULL, "" },

    { "v4.local.32VIErrEkmY4JVILovbmfPXKW9wT1OdQepjMTC_MOtjA4kiqw7_tcaOM5GNE"
      "cnTxl60WkwMsYXw6FSNb_UdJPXjpzm0KW9ojM5f4O2mRvE2IcweP-PRdoHjd5-RHCiEx"
      "R1IK6t4x-RMNXtQNbz7FvFZ_G-lFpk5RG3EOrwDL6CgDqcerSQ==.eyJraWQiOiJ6Vmh"
      "NaVBCUDlmUmYyc25FY1Q3Z0ZUaW9lQTlDT2NOeTlEZmdMMVc2MGhhTiJ9",
      NULL, NULL, "" },
};


static int
verify(il_str_t token, il_str_t implicit, const uint8_t *pk, char *msg,
    size_t *msglen, char *footer, size_t *footerlen)
{
    int       rc;
    il_str_t  s;

    s = il_exact(token);
    rc = il_paseto_verify(msg, IL_TOKEN_MAX, msglen, footer, IL_TOKEN_MAX,
                          footerlen, s, implicit, pk);
    il_drop(s);

    return rc;
}


static void
official_vectors(void **state)
{
    char            msg[IL_TOKEN_MAX], footer[IL_TOKEN_MAX];
    char            token[IL_TOKEN_MAX + 1];
    size_t          i, n, m, f;
    uint8_t         seed[32], pk[32];
    il_token_key_t  key;

    (void) state;

    assert_int_equal(il_hex_decode(seed, 32, il_lit(SEED)), 0);
    assert_int_equal(il_hex_decode(pk, 32, il_lit(PUBLIC)), 0);

    il_token_key_from_seed(&key, seed);
    assert_memory_equal(key.pk, pk, 32);
    assert_int_equal(key.can_sign, 1);

    for (i = 0; i < il_rows(vectors); i++) {
        assert_int_equal(verify(il_cstr(vectors[i].token),
                                il_cstr(vectors[i].implicit), pk,
                                msg, &m, footer, &f), 0);
        il_assert_text(msg, m, vectors[i].payload);
        il_assert_text(footer, f, vectors[i].footer);

        /* Ed25519 is deterministic: signing gives the same token. */

        assert_int_equal(il_paseto_sign(token, sizeof(token), &n,
                                        il_cstr(vectors[i].payload),
                                        il_cstr(vectors[i].footer),
                                        il_cstr(vectors[i].implicit),
                                        key.sk), 0);
        il_assert_text(token, n, vectors[i].token);
        assert_int_equal(token[n], '\0');

        assert_int_equal(verify(il_cstr(vectors[i].token), il_lit("x"), pk,
                                msg, &m, footer, &f), -1);

        assert_int_equal(il_paseto_footer(footer, sizeof(footer), &f,
                                          il_cstr(vectors[i].token)), 0);
        il_assert_text(footer, f, vectors[i].footer);
    }
}


static void
official_failing_vectors(void **state)
{
    char     msg[IL_TOKEN_MAX], footer[IL_TOKEN_MAX];
    size_t   i, m, f;
    uint8_t  pk[32], local[32];

    (void) state;

    assert_int_equal(il_hex_decode(pk, 32, il_lit(PUBLIC)), 0);

    for (i = 0; i < 32; i++) {
        local[i] = (uint8_t) (0x70 + i);
    }

    for (i = 0; i < il_rows(failing); i++) {
        assert_int_equal(verify(il_cstr(failing[i].token),
                                il_cstr(failing[i].implicit), pk, msg, &m,
                                footer, &f), -1);
        assert_int_equal(verify(il_cstr(failing[i].token),
                                il_cstr(failing[i].implicit), local, msg, &m,
                                footer, &f), -1);
        assert_int_equal(m, 0);
        assert_int_equal(f, 0);
    }
}


static void
paserk_vectors(void **state)
{
    size_t          i;
    uint8_t         pk[32], back[32];
    il_str_t        s;
    il_token_key_t  key;

    static const char *const  rows[][3] = {
        { "0000000000000000000000000000000000000000000000000000000000000000",
          "k4.public.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
          "k4.pid.S_XQmeEwHbbvRmiyfXfHYpLGjXGzjTRSDoT1YtTakWFE" },
        { "707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f",
          "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8",
          "k4.pid.9ShR3xc8-qVJ_di0tc9nx0IDIqbatdeM2mqLFBJsKRHs" },
        { "707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e90",
          "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjpA",
          "k4.pid.-nyvbaTz8U6TQz7OZWW-iB3va31iAxIpUgzUcVQVmW9A" },
    };

    /* The failing ones, as texts: a key too short, a key too long (that of
     * another version), the header of another version or of another type. */

    static const char *const  bad[] = {
        "",
        "k4.public.",
        "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjg",
        "k4.public.AnBxcnN0dXZ3eHl6e3x9fn-AgYKDhIWGh4iJiouMjY6PkJGSk5SVlpeY"
        "mZqbnJ2enw",
        "k3.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8",
        "k2.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8",
        "k4.secret.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8",
        "K4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8",
        "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo9",
        "k4.public.cHFyc3R1dnd4eXp7fH1+f4CBgoOEhYaHiImKi4yNjo8",
        "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8=",
        "k4.public.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo\n",
        "k4.pid.9ShR3xc8-qVJ_di0tc9nx0IDIqbatdeM2mqLFBJsKRHs",
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        assert_int_equal(il_hex_decode(pk, 32, il_cstr(rows[i][0])), 0);
        il_token_key_from_public(&key, pk);
        assert_string_equal(key.paserk, rows[i][1]);
        assert_string_equal(key.pid, rows[i][2]);
        assert_int_equal(key.can_sign, 0);
        assert_int_equal(strlen(key.paserk), IL_PASERK_PUBLIC);
        assert_int_equal(strlen(key.pid), IL_PASERK_PID);

        s = il_exact(il_cstr(rows[i][1]));
        assert_int_equal(il_paserk_public_parse(back, s), 0);
        assert_memory_equal(back, pk, 32);
        il_drop(s);
    }

    for (i = 0; i < il_rows(bad); i++) {
        s = il_exact(il_cstr(bad[i]));

        if (il_paserk_public_parse(back, s) == 0) {
            fail_msg("taken: %s", bad[i]);
        }

        il_drop(s);
    }
}


/* Each part of base64 has spare bits or room for padding somewhere. */

static void
other_spellings(void **state)
{
    char               token[IL_TOKEN_MAX + 1], again[IL_TOKEN_MAX + 64];
    char               msg[300], footer[64];
    size_t             i, n, m;
    uint8_t            seed[32];
    il_token_key_t     key;

    static const char  alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "abcdefghijklmnopqrstuvwxyz0123456789-_";

    (void) state;

    memset(seed, 7, sizeof(seed));
    il_token_key_from_seed(&key, seed);

    for (i = 1; i < 4; i++) {
        memset(msg, 'm', sizeof(msg));
        memset(footer, 'f', sizeof(footer));

        assert_int_equal(il_paseto_sign(token, sizeof(token), &n,
                                        il_str(msg, 100 + i),
                                        il_str(footer, 10 + i), il_lit(""),
                                        key.sk), 0);
        assert_int_equal(verify(il_str(token, n), il_lit(""), key.pk, msg,
                                &m, again, &m), 0);

        /* The last character of the footer: only one of the 64 will do. */

        for (m = 0; m < 64; m++) {
            size_t  a, b;

            memcpy(again, token, n);
            again[n - 1] = alphabet[m];
            assert_int_equal(il_paseto_verify(msg, sizeof(msg), &a, footer,
                                              sizeof(footer), &b,
                                              il_str(again, n), il_lit(""),
                                              key.pk),
                             again[n - 1] == token[n - 1] ? 0 : -1);
        }
    }
}


static int
any(const char *text, const il_token_key_t *key)
{
    char    msg[IL_TOKEN_MAX], footer[IL_TOKEN_MAX];
    size_t  m, f;

    return verify(il_cstr(text), il_lit(""), key->pk, msg, &m, footer, &f);
}


static void
other_headers(void **state)
{
    char            token[IL_TOKEN_MAX + 1], other[IL_TOKEN_MAX + 64];
    size_t          i, n;
    uint8_t         seed[32];
    il_token_key_t  key;

    static const char *const  headers[] = {
        "v4.local.", "v2.public.", "v1.public.", "v3.public.", "V4.public.",
        "v4.PUBLIC.", "v4.public", "v4public.", "v4..", "", "k4.public.",
        " v4.public.", "v4.public..", "Bearer v4.public.",
    };

    static const char *const  others[] = {
        "", ".", "..", "...", "v4.public.", "v4.public..", "v4.public.A",
        "v4.public.AA", "v4.public.AA.AA",
        "eyJhbGciOiJub25lIn0.eyJpc3MiOiJpbnRlcmxvY2sifQ.",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmF"
        "tZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJ"
        "f36POk6yJV_adQssw5c",
    };

    (void) state;

    memset(seed, 1, sizeof(seed));
    il_token_key_from_seed(&key, seed);
    assert_int_equal(il_paseto_sign(token, sizeof(token), &n, il_lit("{}"),
                                    il_lit(KID), il_lit(""), key.sk), 0);

    assert_int_equal(any(token, &key), 0);

    for (i = 0; i < il_rows(headers); i++) {
        (void) snprintf(other, sizeof(other), "%s%s", headers[i],
                        token + strlen("v4.public."));
        assert_int_equal(any(other, &key), -1);
    }

    for (i = 0; i < il_rows(others); i++) {
        assert_int_equal(any(others[i], &key), -1);
    }

    /* A footer with nothing in it, no footer, and one footer too many. */

    (void) snprintf(other, sizeof(other), "%s.", token);
    assert_int_equal(any(other, &key), -1);
    (void) snprintf(other, sizeof(other), "%s.AA", token);
    assert_int_equal(any(other, &key), -1);
    (void) snprintf(other, sizeof(other), "%.*s",
                    (int) (strrchr(token, '.') - token), token);
    assert_int_equal(any(other, &key), -1);

    assert_int_equal(il_paseto_sign(token, sizeof(token), &n, il_lit("{}"),
                                    il_lit(""), il_lit(""), key.sk), 0);
    assert_int_equal(any(token, &key), 0);
    (void) snprintf(other, sizeof(other), "%s.", token);
    assert_int_equal(any(other, &key), -1);
}


static size_t
put_piece(char *out, const char *data, size_t len)
{
    size_t  i;

    for (i = 0; i < 8; i++) {
        out[i] = (char) (len >> (8 * i) & 0xff);
    }

    memcpy(out + 8, data, len);

    return len + 8;
}


/* Signed here by the specification, so that any length can be had: the
 * longest one is taken and one more is not, however valid it is. */

static void
longest_token(void **state)
{
    char            pae[2 * IL_TOKEN_MAX], body[2 * IL_TOKEN_MAX];
    char            token[2 * IL_TOKEN_MAX], msg[IL_TOKEN_MAX], footer[8];
    size_t          len, n, m, f, taken;
    uint8_t         seed[32];
    il_token_key_t  key;

    (void) state;

    memset(seed, 1, sizeof(seed));
    il_token_key_from_seed(&key, seed);
    memset(body, 'm', sizeof(body));
    taken = 0;

    for (len = 5200; len < 5400; len++) {
        memcpy(pae, "\4\0\0\0\0\0\0\0", 8);
        n = 8;
        n += put_piece(pae + n, "v4.public.", 10);
        n += put_piece(pae + n, body, len);
        n += put_piece(pae + n, "", 0);
        n += put_piece(pae + n, "", 0);

        assert_int_equal(crypto_sign_detached((uint8_t *) body + len, NULL,
                                              (const uint8_t *) pae, n,
                                              key.sk), 0);

        memcpy(token, "v4.public.", 10);
        n = il_b64_encode(token + 10, sizeof(token) - 10,
                          (const uint8_t *) body, len + 64, IL_B64_URL_NOPAD);
        assert_true(n > 0);
        n += 10;

        assert_int_equal(il_paseto_verify(msg, sizeof(msg), &m, footer,
                                          sizeof(footer), &f,
                                          il_str(token, n), il_lit(""),
                                          key.pk),
                         n <= IL_TOKEN_MAX ? 0 : -1);
        taken += n <= IL_TOKEN_MAX;
        memset(body + len, 'm', 64);
    }

    assert_true(taken > 50 && taken < 150);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(official_vectors),
        cmocka_unit_test(official_failing_vectors),
        cmocka_unit_test(paserk_vectors),
        cmocka_unit_test(other_spellings),
        cmocka_unit_test(other_headers),
        cmocka_unit_test(longest_token),
    };

    return il_unit_run(tests);
}
