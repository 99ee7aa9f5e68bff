/*
 * sig_body.c: providers that sign the body alone: meta, shopify, intercom, x,
 * linear.  The signatures were made with another implementation of HMAC.
 */

#include "sig.h"


#define BODY  "{\"id\":7,\"name\":\"\\u00e4\\/b\"}"
#define NOW   1784883600


typedef struct {
    const char  *scheme;
    const char  *secret;
    const char  *header;
    const char  *value;
} body_t;


static const body_t  bodies[] = {
    { "meta", "meta app secret", "X-Hub-Signature-256",
      "sha256="
      "d9361ad35bb0a4d022a12459733fd0418def66509f02c488f5142c223ce82917" },
    { "shopify", "shpss_hush", "X-Shopify-Hmac-Sha256",
      "1Dqt6BKT7E/EM/bkGmIOkbYhDKVN1b9MHoTpvXZyc+A=" },
    { "intercom", "intercom client secret", "X-Hub-Signature",
      "sha1=1cbc512d68bbbcf697e9e99f275adefc129d11ea" },
    { "x", "x consumer secret", "x-twitter-webhooks-signature",
      "sha256=/Tmy6JNWJu5Ha2/5jl9bP2U3TJ0UkxUXKc52xtcBd1Q=" },
};


static void
signatures(void **state)
{
    char           text[128];
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    (void) state;

    for (i = 0; i < il_rows(bodies); i++) {
        sig_conf(&conf, bodies[i].scheme, bodies[i].secret);
        sig_init(&s, il_lit(BODY), 0);
        sig_add(&s, bodies[i].header, bodies[i].value);

        sig_abuse_signature(&conf, &s, 0);
        sig_abuse_body(&conf, &s);
        assert_int_equal(s.allocs, 0);

        assert_int_equal(il_sig_scheme_is_provider(conf.scheme), 1);
        assert_int_equal(il_sig_scheme_url(conf.scheme), 0);
        assert_int_equal(il_sig_scheme_backend(conf.scheme), 0);
        assert_int_equal(il_sig_scheme_sends_secret(conf.scheme), 0);

        /* Two signatures in one header are none. */

        (void) snprintf(text, sizeof(text), "%.60s,%.60s", bodies[i].value,
                        bodies[i].value);
        sig_expect_with(&conf, &s, 0, text, IL_SIG_INVALID,
                        IL_SIG_WHY_MALFORMED);

        /* Rotation: the old secret goes on. */

        (void) snprintf(text, sizeof(text), "new\n%s\n", bodies[i].secret);
        sig_conf(&conf, bodies[i].scheme, text);
        sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        sig_conf(&conf, bodies[i].scheme, "new");
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    }
}


/* The algorithm that is written before the signature counts. */

static void
prefixes(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const struct {
        size_t       row;
        const char  *value;
    } rows[] = {
        { 0, "d9361ad35bb0a4d022a12459733fd0418def66509f02c488f5142c223ce829"
             "17" },
        { 0, "sha1="
             "d9361ad35bb0a4d022a12459733fd0418def66509f02c488f5142c223ce829"
             "17" },
        { 0, "sha256=1cbc512d68bbbcf697e9e99f275adefc129d11ea" },
        { 1, "sha256=1Dqt6BKT7E/EM/bkGmIOkbYhDKVN1b9MHoTpvXZyc+A=" },
        { 1, "1Dqt6BKT7E_EM_bkGmIOkbYhDKVN1b9MHoTpvXZyc-A=" },
        { 1, "1Dqt6BKT7E/EM/bkGmIOkbYhDKVN1b9MHoTpvXZyc+A" },
        { 1, "1Dqt6BKT7E/EM/bkGmIOkbYhDKVN1b9MHoTpvXZyc+B=" },
        { 2, "1cbc512d68bbbcf697e9e99f275adefc129d11ea" },
        { 2, "sha256=1cbc512d68bbbcf697e9e99f275adefc129d11ea" },
        { 2, "SHA1=1cbc512d68bbbcf697e9e99f275adefc129d11ea" },
        { 3, "/Tmy6JNWJu5Ha2/5jl9bP2U3TJ0UkxUXKc52xtcBd1Q=" },
        { 3, "sha1=/Tmy6JNWJu5Ha2/5jl9bP2U3TJ0UkxUXKc52xtcBd1Q=" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        sig_conf(&conf, bodies[rows[i].row].scheme,
                 bodies[rows[i].row].secret);
        sig_init(&s, il_lit(BODY), 0);
        sig_add(&s, bodies[rows[i].row].header, rows[i].value);
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    }
}


/* Meta escapes what is not ASCII: decoded it is another body. */

static void
meta_signs_escapes(void **state)
{
    sig_t          s;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "meta", bodies[0].secret);
    sig_init(&s, il_lit("{\"id\":7,\"name\":\"\xc3\xa4/b\"}"), 0);
    sig_add(&s, bodies[0].header, bodies[0].value);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
}


static void
shopify_names(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char *const  names[] = {
        "X-Shopify-Webhook-Id", "Shopify-Webhook-Id", "X-Shopify-Event-Id",
        "Shopify-Event-Id", "X-Shopify-Topic", "Shopify-Topic",
    };

    (void) state;

    sig_conf(&conf, "shopify", bodies[1].secret);
    sig_init(&s, il_lit(BODY), 0);
    sig_add(&s, "Shopify-Hmac-Sha256", bodies[1].value);
    sig_abuse_signature(&conf, &s, 0);

    sig_add(&s, "X-Shopify-Hmac-Sha256", bodies[1].value);
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    sig_expect_with(&conf, &s, 1, "other", IL_SIG_INVALID,
                    IL_SIG_WHY_REPEATED_HEADER);
    sig_expect_with(&conf, &s, 0, "", IL_SIG_INVALID,
                    IL_SIG_WHY_REPEATED_HEADER);

    for (i = 0; i < il_rows(names); i++) {
        s.n = 2;
        sig_add(&s, names[i], "one");
        sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        sig_add(&s, names[i], "one");
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);
    }
}


/* Signs with the HMAC that the vectors above have shown to be right. */

static void
linear_body(const char *body, il_sig_why_e why)
{
    char           text[65];
    sig_t          s;
    il_str_t       piece;
    il_sig_conf_t  conf;

    piece = il_exact(il_cstr(body));
    sig_sign(text, sizeof(text), IL_SIG_SHA256, IL_SIG_HEX,
             il_lit("lin_wh_secret"), &piece, 1);

    sig_conf(&conf, "linear", "lin_wh_secret");
    sig_init(&s, piece, NOW);
    sig_add(&s, "Linear-Signature", text);
    sig_expect(&conf, &s, why == IL_SIG_WHY_OK ? IL_SIG_OK
                          : why == IL_SIG_WHY_BODY ? IL_SIG_INVALID
                                                   : IL_SIG_TIMESTAMP, why);
    il_drop(piece);
}


static void
linear(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char *const  names[] = { "Linear-Delivery", "Linear-Event" };

    static const char *const  no_time[] = {
        "", "{}", "[]", "x", "1784883600123", "{\"webhookTimestamp\":null}",
        "{\"webhookTimestamp\":\"1784883600123\"}",
        "{\"webhookTimestamp\":-1784883600123}",
        "{\"webhookTimestamp\":1784883600123.5}",
        "{\"webhookTimestamp\":1.784883600123e12}",
        "{\"webhookTimestamp\":1784883600123000000000}",
        "{\"webhookTimestamp\":[1784883600123]}",
        "{\"data\":{\"webhookTimestamp\":1784883600123}}",
        "{\"webhookTimestamp\":1784883600123,\"webhookTimestamp\":1}",
        "{\"webhookTimestamp\":1784883600123}{}",
        "{\"webhookTimestamp\":1784883600123,\"a\":\"\xff\"}",
    };

    (void) state;

    sig_conf(&conf, "linear", "lin_wh_secret");
    assert_int_equal(conf.tolerance, 60);

    sig_init(&s, il_lit("{\"action\":\"create\",\"type\":\"Issue\","
                        "\"webhookTimestamp\":1784883600123}"), NOW);
    sig_add(&s, "Linear-Signature",
            "554c4cef87b9c080bb44733af0fa6032761861bc0f09a8d1d3ec458e72777df3"
            );
    sig_abuse_signature(&conf, &s, 0);
    sig_abuse_body(&conf, &s);
    sig_abuse_clock(&conf, &s, 60);

    sig_arg(&conf, "tolerance", "5m");
    sig_abuse_clock(&conf, &s, 300);

    /* The header with a timestamp is not signed and not looked at. */

    sig_add(&s, "Linear-Timestamp", "1");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

    for (i = 0; i < il_rows(names); i++) {
        s.n = 1;
        sig_add(&s, names[i], "one");
        sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        sig_add(&s, names[i], "one");
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);
    }

    for (i = 0; i < il_rows(no_time); i++) {
        linear_body(no_time[i], IL_SIG_WHY_BODY);
    }

    linear_body("{\"webhookTimestamp\":1784883600}", IL_SIG_WHY_TOO_OLD);
    linear_body("{\"webhookTimestamp\":0}", IL_SIG_WHY_TOO_OLD);
    linear_body("{\"webhookTimestamp\":999999999999999999}",
                IL_SIG_WHY_IN_FUTURE);
    linear_body("{\"webhookTimesta\\u006dp\":1784883600123}", IL_SIG_WHY_OK);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(signatures),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(meta_signs_escapes),
        cmocka_unit_test(shopify_names),
        cmocka_unit_test(linear),
    };

    return il_unit_run(tests);
}
