/*
 * shake.c: which requests are handshakes, and what is answered.
 */

#include "il_shake.h"
#include "sig.h"


static void
configure(il_sig_conf_t *sig, const char *scheme)
{
    char  err[IL_SIG_ERR_CAP];

    assert_int_equal(il_sig_conf_init(sig, il_cstr(scheme), err, sizeof(err)),
                     0);
    assert_int_equal(il_sig_conf_secrets(sig, il_cstr(
                         strcmp(scheme, "discord") == 0
                         ? "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a6"
                           "3ac048a18b59da29"
                         : "zoomsecret\nolder"), err, sizeof(err)), 0);
}


typedef struct {
    const char     *scheme;
    const char     *text;             /* query or body */
    il_shake_rc_e   rc;
    int             status;
    const char     *type;
    const char     *body;
} row_t;


static void
check(const row_t *row, int get)
{
    il_str_t           text;
    il_shake_rc_e      rc;
    il_sig_conf_t      sig;
    il_shake_conf_t    conf;
    il_shake_answer_t  answer;

    memset(&conf, 0, sizeof(conf));
    configure(&sig, row->scheme);
    assert_null(il_shake_conf_set(&conf, IL_SHAKE_ARG_VERIFY_TOKEN,
                                  il_cstr("s3cret token\n")));

    text = il_exact(il_cstr(row->text));
    rc = get ? il_shake_get(&conf, &sig, text, &answer)
             : il_shake_post(&sig, text, &answer);
    il_drop(text);

    if (rc != row->rc) {
        fail_msg("%s: \"%s\": %d, not %d", row->scheme, row->text, rc,
                 row->rc);
    }

    if (rc != IL_SHAKE_ANSWER) {
        return;
    }

    assert_int_equal(answer.status, row->status);
    il_assert_text(answer.body, answer.len, row->body);

    if (row->type == NULL) {
        assert_null(answer.type);

    } else {
        assert_string_equal(answer.type, row->type);
    }
}


#define NONE     IL_SHAKE_NONE, 0, NULL, ""
#define REFUSED  IL_SHAKE_REFUSED, 0, NULL, ""
#define TEXT(t)  IL_SHAKE_ANSWER, 200, "text/plain", t
#define JSON(t)  IL_SHAKE_ANSWER, 200, "application/json", t


static void
test_get(void **state)
{
    size_t  i;

    static const row_t  rows[] = {
        { "meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token="
          "s3cret+token", TEXT("1") },
        { "meta", "hub.verify_token=s3cret%20token&x=y&hub.challenge=a%2Bb&"
          "hub.mode=subscribe", TEXT("a+b") },
        { "meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token="
          "s3cret+toke", REFUSED },
        { "meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token="
          "s3cret+token+", REFUSED },
        { "meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=",
          REFUSED },
        { "meta", "hub.mode=subscribe&hub.challenge=1", REFUSED },
        { "meta", "hub.mode=subscribe&hub.verify_token=s3cret+token",
          REFUSED },
        { "meta", "hub.mode=subscribe&hub.challenge=&hub.verify_token="
          "s3cret+token", REFUSED },
        { "meta", "hub.mode=subscribe&hub.challenge=%00&hub.verify_token="
          "s3cret+token", REFUSED },
        { "meta", "hub.mode=subscribe&hub.challenge=1&hub.challenge=2&"
          "hub.verify_token=s3cret+token", REFUSED },
        { "meta", "hub.mode=unsubscribe&hub.challenge=1&hub.verify_token="
          "s3cret+token", REFUSED },
        { "meta", "hub.mode=subscribe&hub.challenge=%&hub.verify_token="
          "s3cret+token", REFUSED },
        { "meta", "hub.challenge=1&hub.verify_token=s3cret+token", NONE },
        { "meta", "", NONE },
        { "x", "crc_token=abc", JSON("{\"response_token\":\"sha256="
          "zplkG0idVPB9M+ey4WRCfPiIYCw8Hqds5n26A9jxrxY=\"}") },
        { "x", "crc_token=", REFUSED },
        { "x", "crc_token=%7B%7D", REFUSED },
        { "x", "crc_token=a%3Ab", REFUSED },
        { "x", "crc_token=a&crc_token=a", REFUSED },
        { "x", "crc=a", NONE },
        { "slack", "crc_token=a", NONE },
        { "github", "hub.mode=subscribe&hub.challenge=1&hub.verify_token="
          "s3cret+token", NONE },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        check(&rows[i], 1);
    }
}


static void
test_post(void **state)
{
    size_t  i;

    static const row_t  rows[] = {
        { "slack", "{\"type\":\"url_verification\",\"challenge\":\"a\\/b\"}",
          TEXT("a/b") },
        { "slack", "{\"type\":\"url_verification\",\"challenge\":7}",
          REFUSED },
        { "slack", "{\"type\":\"url_verification\",\"challenge\":\"\"}",
          REFUSED },
        { "slack", "{\"type\":\"url_verification\",\"challenge\":\"\\u0000\"}",
          REFUSED },
        { "slack", "{\"type\":\"event_callback\",\"challenge\":\"x\"}", NONE },
        { "slack", "{\"type\":\"url_verification\",\"type\":"
          "\"url_verification\",\"challenge\":\"x\"}", NONE },
        { "slack", "{\"type\":\"url_verification\",\"challenge\":\"x\"", NONE },
        { "slack", "payload=%7B%7D", NONE },
        { "slack", "", NONE },
        { "zoom", "{\"event\":\"endpoint.url_validation\",\"payload\":"
          "{\"plainToken\":\"qgg8vlvZRS6UYooatFL8Aw\"}}",
          JSON("{\"plainToken\":\"qgg8vlvZRS6UYooatFL8Aw\","
               "\"encryptedToken\":\"83b2a60d4bbe49dc93763ed9e727a9a7690cbe4c"
               "1f8bb0adc0ffccd09ecb1384\"}") },
        { "zoom", "{\"event\":\"endpoint.url_validation\",\"payload\":"
          "{\"plainToken\":\"v0:1:x\"}}", REFUSED },
        { "zoom", "{\"event\":\"endpoint.url_validation\"}", REFUSED },
        { "zoom", "{\"event\":\"meeting.started\"}", NONE },
        { "discord", "{\"type\":0}", IL_SHAKE_ANSWER, 204, NULL, "" },
        { "discord", "{\"type\":1}", JSON("{\"type\":1}") },
        { "discord", "{\"type\":1,\"event\":{}}", NONE },
        { "discord", "{\"type\":1,\"event\":1,\"event\":2}", NONE },
        { "discord", "{\"type\":2}", NONE },
        { "discord", "{\"type\":\"1\"}", NONE },
        { "discord", "{\"type\":1.0}", NONE },
        { "github", "{\"type\":\"url_verification\",\"challenge\":\"x\"}",
          NONE },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        check(&rows[i], 0);
    }
}


/* What is too long is no handshake, and never overflows an answer. */

static void
test_lengths(void **state)
{
    char               text[IL_SHAKE_BODY_MAX + 2];
    size_t             n;
    il_sig_conf_t      sig;
    il_shake_conf_t    conf;
    il_shake_answer_t  answer;

    (void) state;

    memset(&conf, 0, sizeof(conf));
    configure(&sig, "x");
    memset(text, 'a', sizeof(text));
    memcpy(text, "crc_token=", 10);

    n = 10 + IL_SHAKE_TOKEN_MAX;
    assert_int_equal(il_shake_get(&conf, &sig, il_str(text, n), &answer),
                     IL_SHAKE_ANSWER);
    assert_int_equal(il_shake_get(&conf, &sig, il_str(text, n + 1), &answer),
                     IL_SHAKE_REFUSED);
    assert_int_equal(il_shake_get(&conf, &sig,
                                  il_str(text, IL_SHAKE_BODY_MAX + 1),
                                  &answer), IL_SHAKE_NONE);
}


/*
 * Has X's handshake sign the token, and sends the token with what was answered
 * as a delivery.  The signature fits, so it is the body that is refused.  0 if
 * the handshake would not sign it.
 */

static int
is_no_delivery(const il_sig_conf_t *x, il_str_t token)
{
    char               query[11 + 3 * IL_SHAKE_TOKEN_MAX], value[64];
    char               body[IL_SHAKE_TOKEN_MAX];
    sig_t              s;
    size_t             i, n;
    il_shake_rc_e      rc;
    il_shake_conf_t    conf;
    il_shake_answer_t  answer;

    static const char  head[] = "{\"response_token\":\"";

    memset(&conf, 0, sizeof(conf));
    memcpy(query, "crc_token=", 10);
    n = 10;

    for (i = 0; i < token.len; i++) {
        n += (size_t) snprintf(query + n, sizeof(query) - n, "%%%02x",
                               (uint8_t) token.data[i]);
    }

    rc = il_shake_get(&conf, x, il_str(query, n), &answer);

    if (rc != IL_SHAKE_ANSWER) {
        assert_int_equal(rc, IL_SHAKE_REFUSED);
        return 0;
    }

    n = answer.len - (sizeof(head) - 1) - 2;
    assert_true(n < sizeof(value));
    memcpy(value, answer.body + sizeof(head) - 1, n);
    value[n] = '\0';

    /* a space is a plus that was not escaped, and is signed as that */

    for (i = 0; i < token.len; i++) {
        body[i] = token.data[i] == ' ' ? '+' : token.data[i];
    }

    sig_init(&s, il_str(body, token.len), 0);
    sig_add(&s, "x-twitter-webhooks-signature", value);
    sig_expect(x, &s, IL_SIG_INVALID, IL_SIG_WHY_BODY);

    return 1;
}


/* Whoever asks gets a signature over his token, so that no token that is
 * signed may pass as a body. */

static void
test_signed_for_anybody(void **state)
{
    char           token[IL_SHAKE_TOKEN_MAX];
    size_t         i, k, n, signs;
    unsigned       c, d, seed;
    il_sig_conf_t  x;

    static const char  chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"
                                 "stuvwxyz0123456789-_+/=.";
    static const char *const  json[] = {
        "12345", "0", "-1", "1.5", "1e9", "1E-9", "true", "false", "null",
    };
    static const char *const  refused[] = {
        "{}", "{\"a\":1}", "[]", "\"a\"", "1\t", "1\n", "a:b", "a,b",
    };

    (void) state;

    configure(&x, "x");

    for (i = 0; i < il_rows(json); i++) {
        assert_int_equal(is_no_delivery(&x, il_cstr(json[i])), 1);
    }

    for (i = 0; i < il_rows(refused); i++) {
        assert_int_equal(is_no_delivery(&x, il_cstr(refused[i])), 0);
    }

    /* Every text of one and of two bytes. */

    signs = 0;

    for (c = 0; c < 256; c++) {
        token[0] = (char) c;
        signs += (size_t) is_no_delivery(&x, il_str(token, 1));

        for (d = 0; d < 256; d++) {
            token[1] = (char) d;
            signs += (size_t) is_no_delivery(&x, il_str(token, 2));
        }
    }

    n = sizeof(chars) - 1;
    assert_int_equal(signs, (n + 1) + (n + 1) * (n + 1));

    /* Some of every other length. */

    seed = 7;

    for (i = 3; i <= IL_SHAKE_TOKEN_MAX; i++) {

        for (k = 0; k < i; k++) {
            seed = seed * 1103515245 + 12345;
            token[k] = chars[(seed >> 16) % n];
        }

        assert_int_equal(is_no_delivery(&x, il_str(token, i)), 1);
    }

    /* An object is one, if its signature fits. */

    {
        char      value[64] = "sha256=";
        sig_t     s;
        il_str_t  body;

        body = il_cstr("{}");
        sig_sign(value + 7, sizeof(value) - 7, IL_SIG_SHA256, IL_SIG_BASE64,
                 il_cstr("zoomsecret"), &body, 1);
        sig_init(&s, body, 0);
        sig_add(&s, "x-twitter-webhooks-signature", value);
        sig_expect(&x, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    }
}


/* Zoom asks in a signed request; still nothing is signed that has what
 * divides time and body of a delivery. */

static void
test_signed_for_zoom(void **state)
{
    char               body[128];
    size_t             i, at;
    il_sig_conf_t      sig;
    il_shake_answer_t  answer;

    static const char  token[] = "v0123456789";

    (void) state;

    configure(&sig, "zoom");

    for (i = 0; i <= sizeof(token) - 1; i++) {
        at = (size_t) snprintf(body, sizeof(body), "{\"event\":\"endpoint.url_"
                               "validation\",\"payload\":{\"plainToken\":\"%s"
                               "\"}}", token);
        at -= 3 + sizeof(token) - 1;

        if (i < sizeof(token) - 1) {
            body[at + i] = ':';
        }

        assert_int_equal(il_shake_post(&sig, il_cstr(body), &answer),
                         i < sizeof(token) - 1 ? IL_SHAKE_REFUSED
                                               : IL_SHAKE_ANSWER);
    }
}


static void
test_options(void **state)
{
    size_t           i;
    il_str_t         allowed, granted;
    il_shake_rc_e    rc;
    il_shake_conf_t  conf;

    static const struct {
        const char     *origins, *per_minute, *origin, *asked;
        il_shake_rc_e   rc;
        const char     *allowed, *granted;
    } rows[] = {
        { "*", NULL, "a.example", "", IL_SHAKE_ANSWER, "*", "" },
        { "*", NULL, "a.example", "60", IL_SHAKE_ANSWER, "*", "*" },
        { "*", "120", "a.example", "", IL_SHAKE_ANSWER, "*", "120" },
        { "a,b.example,c", NULL, "B.EXAMPLE", "1", IL_SHAKE_ANSWER,
          "b.example", "*" },
        { "a,b.example,c", NULL, "c", "", IL_SHAKE_ANSWER, "c", "" },
        { "a,b.example,c", NULL, "example", "", IL_SHAKE_REFUSED, "", "" },
        { "a,b.example,c", NULL, "a,b.example", "", IL_SHAKE_REFUSED, "", "" },
        { "a,b.example,c", NULL, "*", "", IL_SHAKE_REFUSED, "", "" },
        { "a,b.example,c", NULL, "", "", IL_SHAKE_NONE, "", "" },
        { NULL, NULL, "a", "", IL_SHAKE_NONE, "", "" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        memset(&conf, 0, sizeof(conf));

        if (rows[i].origins != NULL) {
            assert_null(il_shake_conf_set(&conf, IL_SHAKE_ARG_ALLOWED_ORIGIN,
                                          il_cstr(rows[i].origins)));
        }

        if (rows[i].per_minute != NULL) {
            assert_null(il_shake_conf_set(&conf, IL_SHAKE_ARG_ALLOWED_RATE,
                                          il_cstr(rows[i].per_minute)));
        }

        rc = il_shake_options(&conf, il_cstr(rows[i].origin),
                              il_cstr(rows[i].asked), &allowed, &granted);

        assert_int_equal(rc, rows[i].rc);

        if (rc == IL_SHAKE_ANSWER) {
            il_assert_text(allowed.data, allowed.len, rows[i].allowed);
            il_assert_text(granted.data, granted.len, rows[i].granted);
        }
    }
}


static void
test_arguments(void **state)
{
    char             text[IL_SHAKE_TOKEN_MAX + 2];
    size_t           i;
    const char      *wrong;
    il_sig_conf_t    sig;
    il_shake_conf_t  conf;

    static const char *const  tokens[] = {
        "", "\n", " a", "a ", "a\nb", "a\tb", "\xef\xbb\xbf" "a", "a\n\n"
    };

    (void) state;

    memset(&conf, 0, sizeof(conf));

    for (i = 0; i < il_rows(tokens); i++) {
        assert_non_null(il_shake_conf_set(&conf, IL_SHAKE_ARG_VERIFY_TOKEN,
                                          il_cstr(tokens[i])));
        assert_int_equal(conf.verify_token.len, 0);
    }

    assert_null(il_shake_conf_set(&conf, IL_SHAKE_ARG_VERIFY_TOKEN,
                                  il_cstr("a b\r\n")));
    il_assert_text(conf.verify_token.data, conf.verify_token.len, "a b");

    memset(text, 'a', sizeof(text));
    assert_null(il_shake_conf_set(&conf, IL_SHAKE_ARG_VERIFY_TOKEN,
                                  il_str(text, IL_SHAKE_TOKEN_MAX)));
    assert_non_null(il_shake_conf_set(&conf, IL_SHAKE_ARG_VERIFY_TOKEN,
                                      il_str(text, IL_SHAKE_TOKEN_MAX + 1)));
    assert_non_null(il_shake_conf_set(&conf, IL_SHAKE_ARG_NONE,
                                      il_cstr("x")));

    configure(&sig, "github");
    assert_int_equal(il_shake_arg(sig.scheme, il_cstr("allowed_rate"), &wrong),
                     IL_SHAKE_ARG_ALLOWED_RATE);
    assert_null(wrong);
    assert_int_equal(il_shake_arg(sig.scheme, il_cstr("verify_token"), &wrong),
                     IL_SHAKE_ARG_VERIFY_TOKEN);
    assert_non_null(wrong);
    assert_int_equal(il_shake_arg(sig.scheme, il_cstr("tolerance"), &wrong),
                     IL_SHAKE_ARG_NONE);
}


static void
test_taken(void **state)
{
    il_sig_conf_t     sig;
    il_shake_taken_t  taken;

    (void) state;

    configure(&sig, "discord");
    assert_int_equal(il_shake_taken(sig.scheme, &taken), 1);
    assert_int_equal(taken.status, 204);
    assert_null(taken.type);

    assert_int_equal(taken.keep || taken.forms, 0);

    configure(&sig, "paddle");
    assert_int_equal(il_shake_taken(sig.scheme, &taken), 1);
    assert_int_equal(taken.status, 200);
    assert_int_equal(taken.keep, 1);
    assert_int_equal(taken.forms, 0);

    configure(&sig, "meta");
    assert_int_equal(il_shake_taken(sig.scheme, &taken), 1);
    assert_int_equal(taken.status, 200);
    assert_int_equal(taken.keep, 1);

    configure(&sig, "slack");
    assert_int_equal(il_shake_taken(sig.scheme, &taken), 1);
    assert_int_equal(taken.status, 200);
    assert_int_equal(taken.forms, 1);
    assert_null(taken.type);
    assert_int_equal(taken.body.len, 0);

    configure(&sig, "stripe");
    assert_int_equal(il_shake_taken(sig.scheme, &taken), 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_post),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_signed_for_anybody),
        cmocka_unit_test(test_signed_for_zoom),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_taken),
    };

    return cmocka_run_group_tests(tests, il_unit_setup, NULL);
}
