/*
 * token.c: owner tokens, against tampering above all.
 */

#include "unit.h"
#include "il_enc.h"
#include "il_time.h"
#include "il_token.h"


#define NOW     1784883600                       /* 2026-07-24T09:00:00Z */


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
make_key(il_token_key_t *key, int which)
{
    uint8_t  seed[32];

    memset(seed, which, sizeof(seed));
    il_token_key_from_seed(key, seed);
}


static void
make_claims(il_owner_claims_t *c)
{
    memset(c, 0, sizeof(*c));
    memset(c->job_id, 0x11, IL_UUID_BYTES);
    memset(c->attempt_id, 0x22, IL_UUID_BYTES);
    c->tenant = il_lit("demo");
    c->kind = il_lit("github-push");
    c->work_key = il_lit("github:octo/hello:refs/heads/main");
    c->worker = il_lit("host-1 \"a\"\xc3\xa9");
    c->fence = 42;
    c->iat = NOW;
    c->exp = NOW + 3600;
}


static size_t
issue(char *token, const il_owner_claims_t *c, const il_token_key_t *key)
{
    size_t  n;

    assert_int_equal(il_owner_issue(token, IL_TOKEN_MAX + 1, &n, c, key), 0);
    assert_int_equal(token[n], '\0');

    return n;
}


static int
owner(il_str_t token, const il_token_keys_t *keys, int64_t now,
    il_owner_claims_t *c)
{
    int          rc;
    il_str_t     s;

    static char  buf[IL_TOKEN_MAX];

    s = il_exact(token);
    rc = il_owner_verify(c, buf, sizeof(buf), s, keys, now);
    il_drop(s);

    return rc;
}


static void
owner_tokens(void **state)
{
    char               token[IL_TOKEN_MAX + 1];
    char               msg[IL_TOKEN_MAX], footer[IL_TOKEN_MAX], want[128];
    size_t             n, m, f;
    il_token_keys_t    keys;
    il_owner_claims_t  c, got;

    (void) state;

    make_key(&keys.keys[0], 1);
    keys.n = 1;
    make_claims(&c);
    n = issue(token, &c, &keys.keys[0]);

    /* What anybody can read who has the public key. */

    assert_int_equal(verify(il_str(token, n), il_lit(""), keys.keys[0].pk,
                            msg, &m, footer, &f), 0);
    il_assert_text(msg, m,
        "{\"iss\":\"interlock\","
        "\"sub\":\"11111111-1111-1111-1111-111111111111\","
        "\"jti\":\"22222222-2222-2222-2222-222222222222\","
        "\"tenant\":\"demo\",\"kind\":\"github-push\","
        "\"work_key\":\"github:octo/hello:refs/heads/main\",\"fence\":42,"
        "\"worker\":\"host-1 \\\"a\\\"\xc3\xa9\","
        "\"iat\":\"2026-07-24T09:00:00.000Z\","
        "\"exp\":\"2026-07-24T10:00:00.000Z\"}");
    (void) snprintf(want, sizeof(want), "{\"kid\":\"%s\"}",
                    keys.keys[0].pid);
    il_assert_text(footer, f, want);

    assert_int_equal(owner(il_str(token, n), &keys, NOW, &got), 0);
    assert_memory_equal(got.job_id, c.job_id, IL_UUID_BYTES);
    assert_memory_equal(got.attempt_id, c.attempt_id, IL_UUID_BYTES);
    il_assert_text(got.tenant.data, got.tenant.len, "demo");
    il_assert_text(got.kind.data, got.kind.len, "github-push");
    il_assert_text(got.work_key.data, got.work_key.len,
                   "github:octo/hello:refs/heads/main");
    il_assert_text(got.worker.data, got.worker.len,
                   "host-1 \"a\"\xc3\xa9");
    assert_int_equal(got.fence, 42);
    assert_int_equal(got.iat, NOW);
    assert_int_equal(got.exp, NOW + 3600);

    /* The end is exclusive. */

    assert_int_equal(owner(il_str(token, n), &keys, NOW + 3599, &got), 0);
    assert_int_equal(owner(il_str(token, n), &keys, NOW + 3600, &got), -1);
    assert_int_equal(owner(il_str(token, n), &keys, INT64_MAX, &got), -1);
    assert_int_equal(got.fence, 0);
}


static void
two_keys_at_once(void **state)
{
    char               old[IL_TOKEN_MAX + 1], new[IL_TOKEN_MAX + 1];
    size_t             n, m;
    il_token_keys_t    keys;
    il_owner_claims_t  c, got;

    (void) state;

    make_claims(&c);
    make_key(&keys.keys[0], 2);
    make_key(&keys.keys[1], 1);
    keys.n = 2;

    n = issue(new, &c, &keys.keys[0]);
    m = issue(old, &c, &keys.keys[1]);

    assert_int_equal(owner(il_str(new, n), &keys, NOW, &got), 0);
    assert_int_equal(owner(il_str(old, m), &keys, NOW, &got), 0);

    /* Public halves verify as well, but do not sign. */

    il_token_key_from_public(&keys.keys[1], keys.keys[1].pk);
    assert_int_equal(owner(il_str(old, m), &keys, NOW, &got), 0);
    assert_int_equal(il_owner_issue(old, sizeof(old), &m, &c, &keys.keys[1]),
                     -1);

    /* A key that is gone ends its tokens. */

    m = issue(new, &c, &keys.keys[0]);
    keys.keys[0] = keys.keys[1];
    keys.n = 1;
    assert_int_equal(owner(il_str(new, m), &keys, NOW, &got), -1);

    keys.n = 0;
    assert_int_equal(owner(il_str(new, m), &keys, NOW, &got), -1);
}


static void
every_bit_flipped(void **state)
{
    char               token[IL_TOKEN_MAX + 1];
    int                bit;
    size_t             i, n;
    il_token_keys_t    keys;
    il_owner_claims_t  c, got;

    (void) state;

    make_key(&keys.keys[0], 1);
    keys.n = 1;
    make_claims(&c);
    n = issue(token, &c, &keys.keys[0]);

    for (i = 0; i < n; i++) {
        for (bit = 0; bit < 8; bit++) {
            token[i] = (char) (token[i] ^ (1 << bit));

            if (owner(il_str(token, n), &keys, NOW, &got) != -1) {
                fail_msg("taken with bit %d of byte %zu flipped", bit, i);
            }

            token[i] = (char) (token[i] ^ (1 << bit));
        }
    }

    assert_int_equal(owner(il_str(token, n), &keys, NOW, &got), 0);
}


static void
cut_and_extended(void **state)
{
    char               token[IL_TOKEN_MAX + 64], more[IL_TOKEN_MAX + 64];
    size_t             i, n;
    il_token_keys_t    keys;
    il_owner_claims_t  c, got;

    static const char  set[] = "AZaz09-_=.+/ \n\t\"";

    (void) state;

    make_key(&keys.keys[0], 1);
    keys.n = 1;
    make_claims(&c);
    n = issue(token, &c, &keys.keys[0]);

    for (i = 0; i < n; i++) {
        assert_int_equal(owner(il_str(token, i), &keys, NOW, &got), -1);
        assert_int_equal(owner(il_str(token + n - i, i), &keys, NOW, &got),
                         -1);
    }

    /* With the NUL that stands behind it, and with one more character. */

    assert_int_equal(owner(il_str(token, n + 1), &keys, NOW, &got), -1);

    for (i = 0; i < sizeof(set) - 1; i++) {
        memcpy(more, token, n);
        more[n] = set[i];
        assert_int_equal(owner(il_str(more, n + 1), &keys, NOW, &got), -1);

        more[0] = set[i];
        memcpy(more + 1, token, n);
        assert_int_equal(owner(il_str(more, n + 1), &keys, NOW, &got), -1);
    }

    memcpy(more, token, n);
    memset(more + n, 'A', sizeof(more) - n);
    assert_int_equal(owner(il_str(more, sizeof(more)), &keys, NOW, &got), -1);
}


/* Signs any message with key 1, under a footer of three texts (kid NULL:
 * the key's own), and shows it to key 1. */

static int
signed_by_us(const char *msg, const char *before, const char *kid,
    const char *after)
{
    char               token[IL_TOKEN_MAX + 1], footer[256];
    size_t             n;
    il_token_keys_t    keys;
    il_owner_claims_t  got;

    make_key(&keys.keys[0], 1);
    keys.n = 1;

    (void) snprintf(footer, sizeof(footer), "%s%s%s", before,
                    kid != NULL ? kid : keys.keys[0].pid, after);

    assert_int_equal(il_paseto_sign(token, sizeof(token), &n, il_cstr(msg),
                                    il_cstr(footer), il_lit(""),
                                    keys.keys[0].sk), 0);

    return owner(il_str(token, n), &keys, NOW, &got);
}


#define KID     "{\"kid\":\"", NULL, "\"}"

#define ISS     "\"iss\":\"interlock\""
#define SUB     "\"sub\":\"11111111-1111-1111-1111-111111111111\""
#define JTI     "\"jti\":\"22222222-2222-2222-2222-222222222222\""
#define TENANT  "\"tenant\":\"demo\""
#define KIND    "\"kind\":\"k\""
#define KEY     "\"work_key\":\"a:b\""
#define FENCE   "\"fence\":1"
#define WORKER  "\"worker\":\"w\""
#define IAT     "\"iat\":\"2026-07-24T09:00:00Z\""
#define EXP     "\"exp\":\"2026-07-24T10:00:00Z\""

#define CLAIMS  ISS "," SUB "," JTI "," TENANT "," KIND "," KEY "," FENCE     \
                "," WORKER "," IAT "," EXP

#define WITH(iss, sub, jti, tenant, kind, key, fence, worker, iat, exp)       \
    "{" iss "," sub "," jti "," tenant "," kind "," key "," fence ","         \
    worker "," iat "," exp "}"


static void
footers_refused(void **state)
{
    size_t          i;
    il_token_key_t  other;

    static const char *const  around[][2] = {
        { "", "" },
        { "{\"kid\":\"", "\"} " },
        { " {\"kid\":\"", "\"}" },
        { "{\"kid\":\"", "\" }" },
        { "{\"kid\":\"", "\",\"x\":1}" },
        { "{\"kid\":\"", "\",\"kid\":\"\"}" },
        { "{\"x\":1,\"kid\":\"", "\"}" },
        { "{\"KID\":\"", "\"}" },
        { "{\"\\u006bid\":\"", "\"}" },
        { "{\"kid\":[\"", "\"]}" },
        { "{\"kid\":\"", "" },
        { "\"", "\"" },
    };

    (void) state;

    assert_int_equal(signed_by_us("{" CLAIMS "}", KID), 0);

    for (i = 0; i < il_rows(around); i++) {
        assert_int_equal(signed_by_us("{" CLAIMS "}", around[i][0], NULL,
                                      around[i][1]), -1);
    }

    /* No footer, no id, and the id of another key. */

    make_key(&other, 2);
    assert_int_equal(signed_by_us("{" CLAIMS "}", "", "", ""), -1);
    assert_int_equal(signed_by_us("{" CLAIMS "}", "{\"kid\":\"", "", "\"}"),
                     -1);
    assert_int_equal(signed_by_us("{" CLAIMS "}", "{\"kid\":\"", other.pid,
                                  "\"}"), -1);
}


/* The signature is right, the claims are not. */

static void
claims_refused(void **state)
{
    size_t  i;

    static const char *const  bad[] = {
        "", "x", "null", "[]", "\"interlock\"", "{}", "{" CLAIMS,
        "{" CLAIMS "}}", "{" CLAIMS "," ISS "}", "{" CLAIMS "," EXP "}",
        "{" CLAIMS ",\"x\":\"\xff\"}",
        WITH("\"iss\":\"other\"", SUB, JTI, TENANT, KIND, KEY, FENCE, WORKER,
             IAT, EXP),
        WITH("\"iss\":[\"interlock\"]", SUB, JTI, TENANT, KIND, KEY, FENCE,
             WORKER, IAT, EXP),
        WITH("\"ISS\":\"interlock\"", SUB, JTI, TENANT, KIND, KEY, FENCE,
             WORKER, IAT, EXP),
        WITH(ISS, "\"sub\":\"11111111111111111111111111111111\"", JTI, TENANT,
             KIND, KEY, FENCE, WORKER, IAT, EXP),
        WITH(ISS, "\"sub\":\"\"", JTI, TENANT, KIND, KEY, FENCE, WORKER, IAT,
             EXP),
        WITH(ISS, SUB, "\"jti\":null", TENANT, KIND, KEY, FENCE, WORKER, IAT,
             EXP),
        WITH(ISS, SUB, JTI, "\"tenant\":\"\"", KIND, KEY, FENCE, WORKER, IAT,
             EXP),
        WITH(ISS, SUB, JTI, "\"tenant\":\"a b\"", KIND, KEY, FENCE, WORKER,
             IAT, EXP),
        WITH(ISS, SUB, JTI, "\"tenant\":\"\\ud800\"", KIND, KEY, FENCE,
             WORKER, IAT, EXP),
        WITH(ISS, SUB, JTI, TENANT, "\"kind\":\"K\"", KEY, FENCE, WORKER, IAT,
             EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, "\"work_key\":\"\"", FENCE, WORKER,
             IAT, EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, "\"work_key\":\"a::b\"", FENCE,
             WORKER, IAT, EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, "\"work_key\":\"a\\u0000\"", FENCE,
             WORKER, IAT, EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, "\"fence\":0", WORKER, IAT,
             EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, "\"fence\":-1", WORKER, IAT,
             EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, "\"fence\":1.0", WORKER, IAT,
             EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, "\"fence\":1e3", WORKER, IAT,
             EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, "\"fence\":\"1\"", WORKER, IAT,
             EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY,
             "\"fence\":9223372036854775808", WORKER, IAT, EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, FENCE, "\"worker\":\"\"", IAT,
             EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, FENCE, "\"worker\":\"a\\n\"",
             IAT, EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, FENCE, WORKER, "\"iat\":1",
             EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, FENCE, WORKER, IAT,
             "\"exp\":1784887200"),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, FENCE, WORKER, IAT,
             "\"exp\":\"2026-07-24\""),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, FENCE, WORKER, IAT,
             "\"exp\":\"2026-07-24T09:00:00Z\""),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, FENCE, WORKER,
             "\"iat\":\"2026-07-24T11:00:00Z\"", EXP),
        WITH(ISS, SUB, JTI, TENANT, KIND, KEY, FENCE, WORKER, IAT,
             "\"EXP\":\"2026-07-24T10:00:00Z\""),
    };

    (void) state;

    assert_int_equal(signed_by_us("{" CLAIMS "}", KID), 0);
    assert_int_equal(signed_by_us("{" CLAIMS ",\"later\":[1]}", KID), 0);

    for (i = 0; i < il_rows(bad); i++) {
        if (signed_by_us(bad[i], KID) != -1) {
            fail_msg("taken: %s", bad[i]);
        }
    }
}


static void
claims_not_issued(void **state)
{
    char               token[IL_TOKEN_MAX + 1], worker[IL_WORKER_MAX + 1];
    size_t             n, cap;
    il_token_key_t     key;
    il_owner_claims_t  c;

    (void) state;

    make_key(&key, 1);
    memset(worker, 'w', sizeof(worker));

#define REFUSED(change)                                                       \
    make_claims(&c);                                                          \
    change;                                                                   \
    assert_int_equal(il_owner_issue(token, sizeof(token), &n, &c, &key), -1); \
    assert_int_equal(n, 0)

    REFUSED(c.tenant = il_lit(""));
    REFUSED(c.tenant = il_lit("A"));
    REFUSED(c.kind = il_lit("a/b"));
    REFUSED(c.work_key = il_lit("a::b"));
    REFUSED(c.worker = il_lit(""));
    REFUSED(c.worker = il_lit("a\nb"));
    REFUSED(c.worker = il_lit("\xff"));
    REFUSED(c.worker = il_str(worker, sizeof(worker)));
    REFUSED(c.fence = 0);
    REFUSED(c.fence = -1);
    REFUSED(c.exp = c.iat - 1);
    REFUSED(c.iat = -1);
    REFUSED(c.exp = INT64_MAX);
    REFUSED(c.exp = 253402300800);

    make_claims(&c);
    c.worker = il_str(worker, IL_WORKER_MAX);
    n = issue(token, &c, &key);

    for (cap = n + 1; cap-- > 0; ) {
        size_t  m;

        memset(token, '#', sizeof(token));
        assert_int_equal(il_owner_issue(token, cap, &m, &c, &key), -1);
        assert_int_equal(token[cap], '#');

        if (cap > 12 && cap < n - 12) {
            cap -= 11;
        }
    }
}


/* The longest claims, each character of which needs an escape, still fit. */

static void
the_largest_token(void **state)
{
    char               token[IL_TOKEN_MAX + 1], key_text[IL_KEY_MAX];
    char               name[IL_NAME_MAX], worker[IL_WORKER_MAX];
    size_t             i, n;
    il_token_keys_t    keys;
    il_owner_claims_t  c, got;

    (void) state;

    memset(key_text, '"', sizeof(key_text));
    memset(name, 'n', sizeof(name));
    memset(worker, '\\', sizeof(worker));

    for (i = 511; i < sizeof(key_text); i += 512) {
        key_text[i] = i == sizeof(key_text) - 1 ? '"' : ':';
    }

    make_key(&keys.keys[0], 1);
    keys.n = 1;
    make_claims(&c);
    c.tenant = il_str(name, sizeof(name));
    c.kind = il_str(name, sizeof(name));
    c.worker = il_str(worker, sizeof(worker));
    c.work_key = il_str(key_text, sizeof(key_text));
    c.fence = 999999999999999999;
    c.exp = 253402300799;

    n = issue(token, &c, &keys.keys[0]);
    assert_true(n <= IL_TOKEN_MAX);
    assert_int_equal(owner(il_str(token, n), &keys, NOW, &got), 0);
    assert_int_equal(got.work_key.len, sizeof(key_text));
    assert_memory_equal(got.work_key.data, key_text, sizeof(key_text));
    assert_memory_equal(got.worker.data, worker, sizeof(worker));
    assert_true(got.fence == c.fence);
    assert_true(got.exp == c.exp);
}


static void
huge_texts(void **state)
{
    char               buf[IL_TOKEN_MAX];
    char              *big;
    size_t             n, len;
    il_token_keys_t    keys;
    il_owner_claims_t  got;

    (void) state;

    make_key(&keys.keys[0], 1);
    keys.n = 1;

    len = 10 * 1024 * 1024;
    big = malloc(len);
    assert_non_null(big);
    memset(big, 'A', len);
    memcpy(big, "v4.public.", 10);

    for (n = IL_TOKEN_MAX - 4; n <= IL_TOKEN_MAX + 4; n++) {
        assert_int_equal(owner(il_str(big, n), &keys, NOW, &got), -1);
    }

    assert_int_equal(il_owner_verify(&got, buf, sizeof(buf),
                                     il_str(big, len), &keys, NOW), -1);

    memset(big + 10, '.', len - 10);
    assert_int_equal(il_owner_verify(&got, buf, sizeof(buf),
                                     il_str(big, len), &keys, NOW), -1);
    assert_int_equal(il_owner_verify(&got, buf, sizeof(buf),
                                     il_str(big, 4096), &keys, NOW), -1);
    assert_int_equal(il_paseto_sign(buf, sizeof(buf), &n, il_str(big, len),
                                    il_lit(""), il_lit(""), keys.keys[0].sk),
                     -1);
    assert_int_equal(il_paseto_sign(buf, sizeof(buf), &n, il_lit(""),
                                    il_str(big, len), il_lit(""),
                                    keys.keys[0].sk), -1);
    assert_int_equal(il_paseto_sign(buf, sizeof(buf), &n, il_lit(""),
                                    il_lit(""), il_str(big, len),
                                    keys.keys[0].sk), -1);

    free(big);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(owner_tokens),
        cmocka_unit_test(two_keys_at_once),
        cmocka_unit_test(every_bit_flipped),
        cmocka_unit_test(cut_and_extended),
        cmocka_unit_test(footers_refused),
        cmocka_unit_test(claims_refused),
        cmocka_unit_test(claims_not_issued),
        cmocka_unit_test(the_largest_token),
        cmocka_unit_test(huge_texts),
    };

    return il_unit_run(tests);
}
