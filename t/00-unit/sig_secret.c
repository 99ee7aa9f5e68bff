/*
 * sig_secret.c: how secret files may be written, for every scheme; gitlab,
 * which has two kinds of secrets; schemes that interlockd verifies.
 */

#include "sig.h"


#define NOW  1784883600


static int
secret_is(const char *scheme, const char *arg, const char *encoding,
    const char *line, il_sig_conf_t *conf)
{
    char  err[IL_SIG_ERR_CAP];

    assert_int_equal(il_sig_conf_init(conf, il_cstr(scheme), err,
                                      sizeof(err)), 0);

    if (encoding != NULL) {
        sig_arg(conf, arg, encoding);
    }

    return il_sig_conf_secrets(conf, il_cstr(line), err, sizeof(err));
}


/* One key, "key-of-32-bytes-for-every-scheme", in three forms. */

static void
encodings(void **state)
{
    size_t         i, k;
    il_sig_conf_t  conf;

    static const char  key[] = "key-of-32-bytes-for-every-scheme";

    static const struct {
        const char  *encoding;
        const char  *line;
    } forms[] = {
        { "text", "key-of-32-bytes-for-every-scheme" },
        { "base64", "a2V5LW9mLTMyLWJ5dGVzLWZvci1ldmVyeS1zY2hlbWU=" },
        { "hex", "6b65792d6f662d33322d62797465732d666f722d6576657279"
                 "2d736368656d65" },
    };

    static const char *const  schemes[] = {
        "adyen", "discord", "github", "gitlab", "hubspot", "intercom",
        "linear", "mailgun", "meta", "paddle", "shopify", "slack", "square",
        "standard", "stripe", "twilio", "x", "zoom", "token", "hmac",
    };

    (void) state;

    for (i = 0; i < il_rows(schemes); i++) {
        for (k = 0; k < il_rows(forms); k++) {
            assert_int_equal(secret_is(schemes[i], "secret_encoding",
                                       forms[k].encoding, forms[k].line,
                                       &conf), 0);
            assert_int_equal(conf.nsecrets, 1);
            il_assert_text((char *) conf.secrets[0].data,
                           conf.secrets[0].len, key);

            /* The short name is hmac's for something else. */

            if (strcmp(schemes[i], "hmac") != 0) {
                assert_int_equal(secret_is(schemes[i], "encoding",
                                           forms[k].encoding, forms[k].line,
                                           &conf), 0);
                il_assert_text((char *) conf.secrets[0].data,
                               conf.secrets[0].len, key);
            }
        }
    }

    /* hmac has both. */

    assert_int_equal(secret_is("hmac", "encoding", "base64", "text", &conf),
                     0);
    assert_int_equal(conf.encoding, IL_SIG_BASE64);
    il_assert_text((char *) conf.secrets[0].data, conf.secrets[0].len,
                   "text");

    /* The own forms. */

    assert_int_equal(secret_is("adyen", NULL, NULL, forms[2].line, &conf), 0);
    il_assert_text((char *) conf.secrets[0].data, 32, key);
    assert_int_equal(secret_is("discord", NULL, NULL, forms[2].line, &conf),
                     0);
    il_assert_text((char *) conf.secrets[0].data, 32, key);
    assert_int_equal(secret_is("standard", NULL, NULL, forms[1].line, &conf),
                     0);
    il_assert_text((char *) conf.secrets[0].data, 32, key);
    assert_int_equal(secret_is("slack", NULL, NULL, forms[1].line, &conf), 0);
    assert_int_equal(conf.secrets[0].len, 44);
}


static void
encodings_refused(void **state)
{
    char           err[IL_SIG_ERR_CAP], big[2049];
    size_t         i;
    il_sig_conf_t  conf;

    static const struct {
        const char  *encoding;
        const char  *line;
    } rows[] = {
        { "hex", "0" }, { "hex", "0g" }, { "hex", "00 00" },
        { "hex", "0x00" }, { "base64", "AAA" }, { "base64", "AAA==" },
        { "base64", "AAB=" }, { "base64", "AA_-" }, { "base64", "AA AA" },
        { "base64", "=" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        assert_int_equal(secret_is("slack", "encoding", rows[i].encoding,
                                   rows[i].line, &conf), -1);
        assert_int_equal(conf.nsecrets, 0);
    }

    /* 512 bytes, and one more, in each. */

    memset(big, 'A', sizeof(big));

    for (i = 512; i <= 513; i++) {
        assert_int_equal(il_sig_conf_init(&conf, il_lit("slack"), err,
                                          sizeof(err)), 0);
        assert_int_equal(il_sig_conf_secrets(&conf, il_str(big, i), err,
                                             sizeof(err)), i == 512 ? 0 : -1);
        assert_int_equal(il_sig_conf_init(&conf, il_lit("slack"), err,
                                          sizeof(err)), 0);
        sig_arg(&conf, "encoding", "hex");
        assert_int_equal(il_sig_conf_secrets(&conf, il_str(big, 2 * i), err,
                                             sizeof(err)), i == 512 ? 0 : -1);
    }

    for (i = 680; i <= 684; i += 4) {
        assert_int_equal(il_sig_conf_init(&conf, il_lit("slack"), err,
                                          sizeof(err)), 0);
        sig_arg(&conf, "encoding", "base64");
        assert_int_equal(il_sig_conf_secrets(&conf, il_str(big, i), err,
                                             sizeof(err)), i == 680 ? 0 : -1);
    }

    /* Values, and an encoding that comes too late. */

    sig_conf(&conf, "slack", "secret");
    assert_int_equal(il_sig_conf_arg(&conf, il_lit("encoding"),
                                     il_lit("hex"), err, sizeof(err)), -1);
    assert_non_null(strstr(err, "too late"));

    il_sig_conf_wipe(&conf);

    for (i = 0; i < 4; i++) {
        static const char *const  values[] = { "", "Hex", "base64url", "raw" };

        assert_int_equal(il_sig_conf_arg(&conf, il_lit("encoding"),
                                         il_cstr(values[i]), err,
                                         sizeof(err)), -1);
        assert_non_null(strstr(err, "text, base64 or hex"));
        assert_int_equal(conf.secret_encoding, IL_SIG_SECRET_OWN);
    }
}


#define GITLAB_KEY  "whsec_dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q="
#define GITLAB_SIG  "v1,vdOy06OBss8pwxwd3T8xXKmnP0WMo4uHe0GVovIPGiM="


static void
gitlab_token(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char *const  wrong[] = {
        "", "gl-toke", "gl-token ", "gl-token1", "Gl-token", " gl-token",
        "gl-token,gl-token",
    };

    static const char *const  once[] = {
        "X-Gitlab-Event", "X-Gitlab-Event-UUID", "Idempotency-Key",
    };

    (void) state;

    sig_conf(&conf, "gitlab", "gl-token\nold one");
    sig_init(&s, il_lit("{\"object_kind\":\"push\"}"), NOW);
    sig_add(&s, "X-Gitlab-Token", "gl-token");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    sig_expect_with(&conf, &s, 0, "old one", IL_SIG_OK, IL_SIG_WHY_OK);
    sig_needs_header(&conf, &s, 0);

    for (i = 0; i < il_rows(wrong); i++) {
        sig_expect_with(&conf, &s, 0, wrong[i], IL_SIG_INVALID,
                        IL_SIG_WHY_MISMATCH);
    }

    for (i = 0; i < il_rows(once); i++) {
        s.n = 1;
        sig_add(&s, once[i], "one");
        sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        sig_add(&s, once[i], "one");
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);
    }

    /* The header is the secret: others must know which it is. */

    assert_int_equal(il_sig_scheme_sends_secret(conf.scheme), 1);
    assert_string_equal(conf.header, "x-gitlab-token");
    assert_int_equal(il_sig_scheme_is_provider(conf.scheme), 1);
}


static void
gitlab_signed(void **state)
{
    char           err[IL_SIG_ERR_CAP];
    sig_t          s;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "gitlab", GITLAB_KEY);
    sig_init(&s, il_lit("{\"object_kind\":\"push\"}"), NOW);
    sig_add(&s, "webhook-signature", GITLAB_SIG);
    sig_add(&s, "webhook-id", "f5e1-id");
    sig_add(&s, "webhook-timestamp", "1784883600");

    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    sig_abuse_body(&conf, &s);
    sig_abuse_clock(&conf, &s, 300);
    sig_abuse_timestamp(&conf, &s, 2);
    sig_needs_header(&conf, &s, 1);
    sig_expect_with(&conf, &s, 1, "f5e1-ie", IL_SIG_INVALID,
                    IL_SIG_WHY_MISMATCH);
    sig_expect_with(&conf, &s, 0, "", IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);

    /* A signing key is no token, not even its own text ... */

    s.n = 0;
    sig_add(&s, "X-Gitlab-Token", GITLAB_KEY);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    sig_expect_with(&conf, &s, 0, "testtesttesttesttesttesttesttest",
                    IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

    /* ... a token makes no signature good, nor is it one's key ... */

    sig_conf(&conf, "gitlab", "testtesttesttesttesttesttesttest\n"
                              GITLAB_KEY "\n");
    sig_init(&s, il_lit("{\"object_kind\":\"push\"}"), NOW);
    sig_add(&s, "webhook-signature",
            "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    sig_add(&s, "webhook-id", "f5e1-id");
    sig_add(&s, "webhook-timestamp", "1784883600");
    sig_add(&s, "X-Gitlab-Token", "testtesttesttesttesttesttesttest");
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    sig_expect_with(&conf, &s, 0, GITLAB_SIG, IL_SIG_OK, IL_SIG_WHY_OK);

    /* ... and without a signing key the signature is not looked at ... */

    sig_conf(&conf, "gitlab", "testtesttesttesttesttesttesttest");
    sig_expect_with(&conf, &s, 0, "v2,x", IL_SIG_OK, IL_SIG_WHY_OK);
    sig_expect_with(&conf, &s, 3, "testtest", IL_SIG_INVALID,
                    IL_SIG_WHY_MISMATCH);
    s.n = 3;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);

    /* ... unless the file's encoding says that the line is a token. */

    assert_int_equal(secret_is("gitlab", "encoding", "text", GITLAB_KEY,
                               &conf), 0);
    s.n = 0;
    sig_add(&s, "X-Gitlab-Token", GITLAB_KEY);
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

    assert_int_equal(il_sig_conf_init(&conf, il_lit("gitlab"), err,
                                      sizeof(err)), 0);
    assert_int_equal(il_sig_conf_secrets(&conf, il_lit("v1," GITLAB_KEY), err,
                                         sizeof(err)), -1);
    assert_non_null(strstr(err, "version"));
}


/* A form of Standard Webhooks that not everybody keeps to: the secret is the
 * key as it stands. */

static void
standard_as_text(void **state)
{
    char           sig[64], value[80];
    sig_t          s;
    il_str_t       pieces[1];
    il_sig_conf_t  conf;

    (void) state;

    pieces[0] = il_lit("msg_1.1784883600.{}");
    sig_sign(sig, sizeof(sig), IL_SIG_SHA256, IL_SIG_BASE64,
             il_lit("whsec_not base64"), pieces, 1);
    (void) snprintf(value, sizeof(value), "v1,%s", sig);

    sig_init(&s, il_lit("{}"), NOW);
    sig_add(&s, "webhook-id", "msg_1");
    sig_add(&s, "webhook-timestamp", "1784883600");
    sig_add(&s, "webhook-signature", value);

    assert_int_equal(secret_is("standard", NULL, NULL, "whsec_not base64",
                               &conf), -1);
    assert_int_equal(secret_is("standard", "encoding", "text",
                               "whsec_not base64", &conf), 0);
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

    /* A version is pasted with it by mistake in any encoding. */

    assert_int_equal(secret_is("standard", "encoding", "text",
                               "v1,whsec_x", &conf), -1);
}


/* il_sig_verify must not let pass what it cannot verify. */

static void
backend_schemes(void **state)
{
    char           err[IL_SIG_ERR_CAP];
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char *const  schemes[][2] = {
        { "sendgrid", "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4m"
                      "dBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpigl"
                      "SI8eNEc6wEA3F+g==" },
        { "paypal", "2A9741408B151863U" },
        { "sns", "arn:aws:sns:us-east-1:123456789012:orders" },
    };

    (void) state;

    for (i = 0; i < il_rows(schemes); i++) {
        sig_conf(&conf, schemes[i][0], schemes[i][1]);
        assert_int_equal(il_sig_scheme_backend(conf.scheme), 1);
        assert_int_equal(il_sig_scheme_is_provider(conf.scheme), 1);
        assert_int_equal(il_sig_conf_done(&conf, err, sizeof(err)), 0);

        sig_init(&s, il_lit("{}"), NOW);
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_BACKEND);
        il_sig_conf_wipe(&conf);
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_BACKEND);
    }

    sig_conf(&conf, "github", "AAAA");
    assert_int_equal(il_sig_scheme_backend(conf.scheme), 0);
    assert_int_equal(il_sig_scheme_url(conf.scheme), 0);
}


/* The list of names in the message must be whole. */

static void
unknown_scheme(void **state)
{
    char           err[IL_SIG_ERR_CAP];
    size_t         i;
    il_sig_conf_t  conf;

    static const char *const  names[] = {
        "adyen, ", "discord, ", "github, ", "gitlab, ", "hubspot, ",
        "intercom, ", "linear, ", "mailgun, ", "meta, ", "paddle, ",
        "paypal, ", "sendgrid, ", "shopify, ", "slack, ", "sns, ",
        "square, ", "standard, ", "stripe, ", "twilio, ", "x, ", "zoom, ",
        "token, ", "hmac",
    };

    (void) state;

    assert_int_equal(il_sig_conf_init(&conf, il_lit("a scheme whose name is "
                                      "far longer than any that there is, by"
                                      " a good bit"), err, sizeof(err)), -1);

    for (i = 0; i < il_rows(names); i++) {
        if (strstr(err, names[i]) == NULL) {
            fail_msg("\"%s\" has no \"%s\"", err, names[i]);
        }
    }

    assert_string_equal(err + strlen(err) - 4, "hmac");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(encodings),
        cmocka_unit_test(encodings_refused),
        cmocka_unit_test(gitlab_token),
        cmocka_unit_test(gitlab_signed),
        cmocka_unit_test(standard_as_text),
        cmocka_unit_test(backend_schemes),
        cmocka_unit_test(unknown_scheme),
    };

    return il_unit_run(tests);
}
