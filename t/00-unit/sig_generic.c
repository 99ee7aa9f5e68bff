/*
 * sig_generic.c: `token`, `hmac`, arguments, secret files.
 */

#include "sig.h"


#define NOW  1784883600


static void
token(void **state)
{
    sig_t          s;
    size_t         i;
    il_sig_conf_t  conf;

    static const struct {
        const char    *value;
        il_sig_why_e   why;
    } rows[] = {
        { "s3cret", IL_SIG_WHY_OK },
        { "older one", IL_SIG_WHY_OK },
        { "", IL_SIG_WHY_MISMATCH },
        { "s3cre", IL_SIG_WHY_MISMATCH },
        { "s3cret ", IL_SIG_WHY_MISMATCH },
        { " s3cret", IL_SIG_WHY_MISMATCH },
        { "S3cret", IL_SIG_WHY_MISMATCH },
        { "s3cret\nolder one", IL_SIG_WHY_MISMATCH },
    };

    (void) state;

    sig_conf(&conf, "token", "s3cret\nolder one\n");
    sig_arg(&conf, "header", "X-Gitlab-Token");
    assert_string_equal(conf.header, "x-gitlab-token");

    for (i = 0; i < il_rows(rows); i++) {
        sig_init(&s, il_lit("any body"), NOW);
        sig_add(&s, "X-Gitlab-Token", rows[i].value);
        sig_expect(&conf, &s,
                   rows[i].why == IL_SIG_WHY_OK ? IL_SIG_OK : IL_SIG_INVALID,
                   rows[i].why);
    }

    sig_init(&s, il_lit(""), NOW);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);
    sig_add(&s, "X-Gitlab-Token", "s3cret");
    sig_add(&s, "X-GITLAB-TOKEN", "s3cret");
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);

    sig_conf(&conf, "token", "s3cret");
    sig_arg(&conf, "header", "Authorization");
    sig_arg(&conf, "prefix", "Bearer ");
    sig_init(&s, il_lit(""), NOW);
    sig_add(&s, "Authorization", "Bearer s3cret");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    s.values[0] = "s3cret";
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    s.values[0] = "Bearer";
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);

    assert_int_equal(il_sig_scheme_is_provider(conf.scheme), 0);
}


/* A name of an authentication scheme has no case, and blanks may follow; any
 * other prefix is text. */

static void
authorization(void **state)
{
    sig_t          s;
    size_t         i;
    il_sig_conf_t  conf;

    static const struct {
        const char    *header;
        const char    *prefix;
        const char    *value;
        il_sig_why_e   why;
    } rows[] = {
        { "Authorization", "Bearer ", "Bearer s3cret", IL_SIG_WHY_OK },
        { "Authorization", "Bearer ", "bearer s3cret", IL_SIG_WHY_OK },
        { "Authorization", "Bearer ", "BEARER   s3cret", IL_SIG_WHY_OK },
        { "authorization", "bearer ", "Bearer s3cret", IL_SIG_WHY_OK },
        { "Authorization", "Bearer ", "Bearer S3cret", IL_SIG_WHY_MISMATCH },
        { "Authorization", "Bearer ", "Bearer s3cret ", IL_SIG_WHY_MISMATCH },
        { "Authorization", "Bearer ", "Bearer ", IL_SIG_WHY_MISMATCH },
        { "Authorization", "Bearer ", "Bearer", IL_SIG_WHY_MALFORMED },
        { "Authorization", "Bearer ", "Bearers3cret", IL_SIG_WHY_MALFORMED },
        { "Authorization", "Bearer ", " Bearer s3cret", IL_SIG_WHY_MALFORMED },
        { "Authorization", "Bearer ", "s3cret", IL_SIG_WHY_MALFORMED },
        { "Authorization", "Bearer ", "", IL_SIG_WHY_MALFORMED },
        { "Authorization", "Key=", "key=s3cret", IL_SIG_WHY_MALFORMED },
        { "Authorization", "Key=", "Key=s3cret", IL_SIG_WHY_OK },
        { "Authorization", "", "s3cret", IL_SIG_WHY_OK },
        { "X-Token", "Bearer ", "bearer s3cret", IL_SIG_WHY_MALFORMED },
        { "X-Token", "Bearer ", "Bearer  s3cret", IL_SIG_WHY_MISMATCH },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        sig_conf(&conf, "token", "s3cret");
        sig_arg(&conf, "header", rows[i].header);
        sig_arg(&conf, "prefix", rows[i].prefix);
        sig_init(&s, il_lit(""), NOW);
        sig_add(&s, rows[i].header, rows[i].value);
        sig_expect(&conf, &s,
                   rows[i].why == IL_SIG_WHY_OK ? IL_SIG_OK : IL_SIG_INVALID,
                   rows[i].why);
    }
}


/* Every algorithm in every encoding, against the same sender. */

static void
hmac_forms(void **state)
{
    char           text[160], sig[2 * 64 + 1];
    sig_t          s;
    size_t         a, e, n;
    il_str_t       body;
    il_sig_conf_t  conf;

    static const char *const  algorithms[] = { "sha256", "sha512", "sha1" };
    static const char *const  encodings[] = { "hex", "base64" };

    (void) state;

    body = il_lit("{\"a\":1}");

    for (a = 0; a < 3; a++) {
        for (e = 0; e < 2; e++) {
            sig_conf(&conf, "hmac", "key");
            sig_arg(&conf, "header", "X-Sig");
            sig_arg(&conf, "algorithm", algorithms[a]);
            sig_arg(&conf, "encoding", encodings[e]);

            sig_sign(sig, sizeof(sig), (il_sig_alg_e) a, (il_sig_enc_e) e,
                     il_lit("key"), &body, 1);

            sig_init(&s, body, NOW);
            sig_add(&s, "x-sig", sig);
            sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

            s.req.body = il_lit("{\"a\":2}");
            sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

            /* Cut short it is no signature, not a shorter one. */

            s.req.body = body;

            for (n = 0; n < strlen(sig); n++) {
                (void) snprintf(text, sizeof(text), "%.*s", (int) n, sig);
                s.values[0] = text;
                sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
            }

            sig_arg(&conf, "prefix", "v=");
            s.values[0] = sig;
            sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
            (void) snprintf(text, sizeof(text), "v=%s", sig);
            s.values[0] = text;
            sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        }
    }
}


/* Published examples of providers whose form `hmac` can say: Slack's
 * "Verifying requests from Slack", and Square's SDK. */

static void
hmac_published(void **state)
{
    sig_t          s;
    il_sig_conf_t  conf;

    static const il_str_t  slack_body = il_string(
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J"
        "&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
        "&user_id=U2CERLKJA&user_name=roadrunner"
        "&command=%2Fwebhook-collect&text="
        "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J"
        "%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703"
        "c");

    (void) state;

    sig_conf(&conf, "hmac", "8f742231b10e8888abcd99yyyzzz85a5");
    sig_arg(&conf, "header", "X-Slack-Signature");
    sig_arg(&conf, "prefix", "v0=");
    sig_arg(&conf, "signed", "v0:{timestamp:X-Slack-Request-Timestamp}:"
                             "{body}");
    sig_init(&s, slack_body, 1531420618);
    sig_add(&s, "X-Slack-Request-Timestamp", "1531420618");
    sig_add(&s, "X-Slack-Signature",
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b5"
            "03");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    s.req.now += 301;
    sig_expect(&conf, &s, IL_SIG_TIMESTAMP, IL_SIG_WHY_TOO_OLD);
    s.req.now -= 602;
    sig_expect(&conf, &s, IL_SIG_TIMESTAMP, IL_SIG_WHY_IN_FUTURE);
    s.req.now += 301;
    sig_add(&s, "x-slack-request-timestamp", "1531420618");
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);

    sig_conf(&conf, "hmac", "asdf1234");
    sig_arg(&conf, "header", "x-square-hmacsha256-signature");
    sig_arg(&conf, "encoding", "base64");
    sig_arg(&conf, "signed", "{url}{body}");
    sig_init(&s, il_lit("{\"hello\":\"world\"}"), NOW);
    s.req.url = il_lit("https://example.com/webhook");
    sig_add(&s, "x-square-hmacsha256-signature",
            "2kRE5qRU2tR+tBGlDwMEw2avJ7QM4ikPYD/PJ3bd9Og=");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    s.req.url = il_lit("https://example.com/webhook/");
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
}


static void
hmac_templates(void **state)
{
    char           sig[65];
    sig_t          s;
    size_t         i;
    il_str_t       text;
    il_sig_conf_t  conf;

    static const struct {
        const char    *template;
        const char    *signed_text;
        il_sig_why_e   why;
    } rows[] = {
        { "{body}", "B", IL_SIG_WHY_OK },
        { "{body}.", "B.", IL_SIG_WHY_OK },
        { "}{body}", "}B", IL_SIG_WHY_OK },
        { "{method}\n{url}\n{body}", "POST\nhttps://hooks.example/in/x?a=1\nB",
          IL_SIG_WHY_OK },
        { "{header:X-A}|{header:x-a}|{body}", "one|one|B", IL_SIG_WHY_OK },
        { "{header:X-Empty}{body}", "B", IL_SIG_WHY_OK },
        { "{timestamp:X-T}{body}", "1784883600B", IL_SIG_WHY_OK },
        { "{timestamp:X-Ms}{body}", "1784883600999B", IL_SIG_WHY_OK },
        { "{timestamp:X-Old}{body}", "1784880000B", IL_SIG_WHY_TOO_OLD },
        { "{header:X-Old}{body}", "1784880000B", IL_SIG_WHY_OK },
        { "{timestamp:X-Next}{body}", "1784887200B", IL_SIG_WHY_IN_FUTURE },
        { "{timestamp:X-A}{body}", "oneB", IL_SIG_WHY_MALFORMED },
        { "{timestamp:X-Empty}{body}", "B", IL_SIG_WHY_MALFORMED },
        { "{header:X-None}{body}", "B", IL_SIG_WHY_NO_HEADER },
        { "{timestamp:X-None}{body}", "B", IL_SIG_WHY_NO_HEADER },
        { "{header:X-Twice}{body}", "1B", IL_SIG_WHY_REPEATED_HEADER },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        sig_conf(&conf, "hmac", "key");
        sig_arg(&conf, "header", "X-Sig");
        sig_arg(&conf, "signed", rows[i].template);

        text = il_cstr(rows[i].signed_text);
        sig_sign(sig, sizeof(sig), IL_SIG_SHA256, IL_SIG_HEX, il_lit("key"),
                 &text, 1);

        sig_init(&s, il_lit("B"), NOW);
        sig_add(&s, "X-Sig", sig);
        sig_add(&s, "X-A", "one");
        sig_add(&s, "X-Empty", "");
        sig_add(&s, "X-T", "1784883600");
        sig_add(&s, "X-Ms", "1784883600999");
        sig_add(&s, "X-Old", "1784880000");
        sig_add(&s, "X-Next", "1784887200");
        sig_add(&s, "X-Twice", "1");
        sig_add(&s, "x-twice", "1");

        sig_expect(&conf, &s, rows[i].why == IL_SIG_WHY_OK ? IL_SIG_OK
                              : rows[i].why == IL_SIG_WHY_TOO_OLD
                                || rows[i].why == IL_SIG_WHY_IN_FUTURE
                              ? IL_SIG_TIMESTAMP : IL_SIG_INVALID,
                   rows[i].why);
    }
}


static void
refused_arg(const char *scheme, const char *name, const char *value,
    const char *message)
{
    char           err[IL_SIG_ERR_CAP];
    il_sig_conf_t  conf, before;

    sig_conf(&conf, scheme,
             strcmp(scheme, "standard") == 0
             ? "AAAAAAAAAAAAAAAAAAAAAAAA" : "secret");
    memset(err, 0, sizeof(err));
    before = conf;

    if (il_sig_conf_arg(&conf, il_cstr(name), il_cstr(value), err,
                        sizeof(err)) != -1)
    {
        fail_msg("taken: %s %s=%s", scheme, name, value);
    }

    if (strstr(err, message) == NULL) {
        fail_msg("%s %s=%s says \"%s\"", scheme, name, value, err);
    }

    /* What was there stands: here the defaults. */

    assert_int_equal(conf.tolerance, 300);
    assert_string_equal(conf.header, "");
    assert_ptr_equal(conf.signed_template.data, before.signed_template.data);
    assert_int_equal(conf.algorithm, IL_SIG_SHA256);
    assert_int_equal(conf.encoding, IL_SIG_HEX);
}


static void
arguments(void **state)
{
    char           err[IL_SIG_ERR_CAP], big[65];
    size_t         i;
    il_sig_conf_t  conf;

    static const char *const  tolerances[] = {
        "", "0", "0s", "-1", "86401", "25h", "1441m", "s", "300 ", "300ms",
        "5d", "off", "0x10", "999999", "1.5",
    };

    static const char *const  templates[] = {
        "", "x", "{}", "{Body}", "{body}{body}", "{body", "{body }",
        "{ body}", "{header}", "{body}{header:}", "{body}{header:a b}",
        "{body}{timestamp:}", "{body}{timestamp:a}{timestamp:b}",
        "{body}{unknown}", "{{body}}", "{method}{url}",
        "{body}1{url}2{url}3{url}4{url}5{url}6{url}7{url}8{url}9",
    };

    (void) state;

    for (i = 0; i < il_rows(tolerances); i++) {
        refused_arg("stripe", "tolerance", tolerances[i], "1s to 24h");
    }

    for (i = 0; i < il_rows(templates); i++) {
        refused_arg("hmac", "signed", templates[i], "signed=");
    }

    refused_arg("github", "tolerance", "300", "no argument \"tolerance\"");
    refused_arg("token", "tolerance", "300", "no argument \"tolerance\"");
    refused_arg("github", "header", "x", "no argument \"header\"");
    refused_arg("standard", "prefix", "x", "no argument \"prefix\"");
    refused_arg("token", "signed", "{body}", "no argument \"signed\"");
    refused_arg("hmac", "colour", "x", "no argument \"colour\"");
    refused_arg("hmac", "", "x", "no argument \"\"");
    refused_arg("hmac", "algorithm", "md5", "not \"md5\"");
    refused_arg("hmac", "algorithm", "SHA256", "not \"SHA256\"");
    refused_arg("hmac", "encoding", "base64url", "not \"base64url\"");
    refused_arg("hmac", "header", "", "invalid header name");
    refused_arg("hmac", "header", "a:b", "invalid header name");
    refused_arg("hmac", "header", "a b", "invalid header name");
    refused_arg("hmac", "header", "a\nb", "\"a?b\"");

    memset(big, 'h', sizeof(big));
    assert_int_equal(il_sig_conf_init(&conf, il_lit("hmac"), err,
                                      sizeof(err)), 0);
    assert_int_equal(il_sig_conf_arg(&conf, il_lit("header"),
                                     il_str(big, 63), err, sizeof(err)), 0);
    assert_int_equal(il_sig_conf_arg(&conf, il_lit("header"),
                                     il_str(big, 64), err, sizeof(err)), -1);

    /* The message of an unknown scheme lists the known ones. */

    assert_int_equal(il_sig_conf_init(&conf, il_lit("gihub"), err,
                                      sizeof(err)), -1);
    assert_non_null(strstr(err, "\"gihub\""));
    assert_non_null(strstr(err, "x, zoom, token, hmac"));
    assert_int_equal(il_sig_conf_init(&conf, il_str(NULL, 0), err,
                                      sizeof(err)), -1);
    assert_int_equal(il_sig_conf_init(&conf, il_lit("githubx"), err, 10), -1);
    assert_int_equal(strlen(err), 9);
}


static void
what_is_missing(void **state)
{
    char           err[IL_SIG_ERR_CAP];
    size_t         i;
    il_sig_conf_t  conf;

    static const char *const  names[] = {
        "github", "stripe", "standard", "token", "hmac",
    };

    (void) state;

    for (i = 0; i < il_rows(names); i++) {
        assert_int_equal(il_sig_conf_init(&conf, il_cstr(names[i]), err,
                                          sizeof(err)), 0);
        il_assert_text(il_sig_scheme_name(conf.scheme).data,
                       il_sig_scheme_name(conf.scheme).len, names[i]);
        assert_int_equal(il_sig_scheme_is_provider(conf.scheme), i < 3);

        assert_int_equal(il_sig_conf_done(&conf, err, sizeof(err)), -1);
        assert_non_null(strstr(err, "no secret"));

        assert_int_equal(il_sig_conf_secrets(&conf,
                                             il_lit("AAAAAAAAAAAAAAAAAAAAAAAA"),
                                             err, sizeof(err)), 0);

        if (i < 3) {
            assert_int_equal(il_sig_conf_done(&conf, err, sizeof(err)), 0);
            continue;
        }

        assert_int_equal(il_sig_conf_done(&conf, err, sizeof(err)), -1);
        assert_non_null(strstr(err, "header="));
        sig_arg(&conf, "header", "x");
        assert_int_equal(il_sig_conf_done(&conf, err, sizeof(err)), 0);
    }

    /* A tolerance that would be for no time at all, in any order. */

    sig_arg(&conf, "tolerance", "5s");
    assert_int_equal(il_sig_conf_done(&conf, err, sizeof(err)), -1);
    assert_non_null(strstr(err, "tolerance="));
    assert_non_null(strstr(err, "\"{body}\""));
    sig_arg(&conf, "signed", "{header:X-T}.{body}");
    assert_int_equal(il_sig_conf_done(&conf, err, sizeof(err)), -1);
    sig_arg(&conf, "signed", "{body}{timestamp:X-T}");
    assert_int_equal(il_sig_conf_done(&conf, err, sizeof(err)), 0);
}


/* Message for a file, and that it never holds the secret. */

static void
refused_file(const char *scheme, il_str_t file, const char *message)
{
    char           err[IL_SIG_ERR_CAP];
    size_t         i;
    il_str_t       text;
    il_sig_conf_t  conf;

    assert_int_equal(il_sig_conf_init(&conf, il_cstr(scheme), err,
                                      sizeof(err)), 0);
    memset(err, 0, sizeof(err));

    text = il_exact(file);

    if (il_sig_conf_secrets(&conf, text, err, sizeof(err)) != -1) {
        fail_msg("taken: %s", file.data);
    }

    il_drop(text);

    if (strstr(err, message) == NULL) {
        fail_msg("says \"%s\", want \"%s\"", err, message);
    }

    assert_null(strstr(err, "SECRET"));
    assert_int_equal(conf.nsecrets, 0);

    for (i = 0; i < sizeof(conf.secrets); i++) {
        assert_int_equal(((uint8_t *) conf.secrets)[i], 0);
    }
}


static void
secret_files(void **state)
{
    char           err[IL_SIG_ERR_CAP], big[1024];
    size_t         i;
    il_str_t       text;
    il_sig_conf_t  conf, other;

    (void) state;

    assert_int_equal(il_sig_conf_init(&conf, il_lit("github"), err,
                                      sizeof(err)), 0);

    /* Ends of lines of both kinds, empty lines, no end at the end. */

    text = il_exact(il_lit("\n#one\r\n\r\n\ntwo words"));
    assert_int_equal(il_sig_conf_secrets(&conf, text, err, sizeof(err)), 0);
    il_drop(text);
    assert_int_equal(conf.nsecrets, 2);
    il_assert_text((char *) conf.secrets[0].data, conf.secrets[0].len,
                   "#one");
    il_assert_text((char *) conf.secrets[1].data, conf.secrets[1].len,
                   "two words");

    memset(big, 'x', sizeof(big));
    assert_int_equal(il_sig_conf_secrets(&conf,
                                         il_str(big, IL_SIG_SECRET_BYTES),
                                         err, sizeof(err)), 0);
    assert_int_equal(conf.secrets[0].len, IL_SIG_SECRET_BYTES);
    refused_file("github", il_str(big, IL_SIG_SECRET_BYTES + 1),
                 "line 1: the secret is longer");

    refused_file("github", il_lit(""), "no secret");
    refused_file("github", il_lit("\n\r\n\n"), "no secret");
    refused_file("github", il_lit("ok\nSECRET \n"), "line 2: there is white");
    refused_file("github", il_lit(" SECRET"), "line 1: there is white");
    refused_file("github", il_lit("a\n\nSEC\tRET"), "line 3: there is a con");
    refused_file("github", il_lit("SECRET\0"), "control character");
    refused_file("github", il_lit("SECRET\r\r\n"), "control character");
    refused_file("github", il_lit("\xef\xbb\xbfSECRET"), "byte order mark");

    /* What anybody could guess. */

    refused_file("github", il_lit("# SECRET\nSECRET"), "line 1: this is a com");
    refused_file("token", il_lit("one\n#\nSECRET"), "line 2: this is a com");
    refused_file("hmac", il_lit("#!SECRET"), "line 1: this is a comment");
    refused_file("sns", il_lit("# SECRET"), "line 1: this is a comment");
    refused_file("adyen", il_lit("# SECRET"), "line 1: this is a comment");
    refused_file("token", il_lit("-----BEGIN CERTIFICATE-----"), "in PEM");
    refused_file("stripe", il_lit("-----BEGIN SECRET-----"), "in PEM");
    refused_file("stripe", il_lit("one\nwhsec_"), "line 2: the secret is emp");
    refused_file("gitlab", il_lit("whsec_"), "the secret is empty");
    refused_file("shopify", il_lit("shpss_"), "the secret is empty");
    refused_file("linear", il_lit("lin_wh_\r\n"), "the secret is empty");
    refused_file("paddle", il_lit("pdl_ntfset_"), "the secret is empty");

    /* Keys of 15 bytes; 16 will do. */

    refused_file("standard", il_lit("whsec_QUFBQUFBQUFBQUFBQUFB"), "16 bytes");
    refused_file("standard", il_lit("QQ=="), "16 bytes");
    refused_file("gitlab", il_lit("whsec_QQ=="), "16 bytes");
    refused_file("adyen", il_lit("4141414141414141414141414141AA"), "16 byt");
    sig_conf(&other, "standard", "whsec_QUFBQUFBQUFBQUFBQUFBQQ==");
    assert_int_equal(other.secrets[0].len, 16);
    sig_conf(&other, "adyen", "4141414141414141414141414141AAAA");
    assert_int_equal(other.secrets[0].len, 16);

    for (i = 0; i < 9; i++) {
        memcpy(big + 7 * i, "SECRET\n", 7);
    }

    assert_int_equal(il_sig_conf_secrets(&conf, il_str(big, 56), err,
                                         sizeof(err)), 0);
    assert_int_equal(conf.nsecrets, 8);
    refused_file("github", il_str(big, 63), "line 9: there are more than 8");

    refused_file("standard", il_lit("v1,whsec_SECRET"),
                 "must start with \"whsec_\"");
    refused_file("github", il_lit("v1,whsec_SECRET"),
                 "must start with \"whsec_\"");
    refused_file("standard", il_lit("v1a,whpk_SECRET"),
                 "must start with \"whsec_\"");
    refused_file("standard", il_lit("whsk_SECRET"), "private key");
    refused_file("standard", il_lit("whsec_SECRET!"), "not base64");
    refused_file("standard", il_lit("whsec_SECRET="), "not base64");
    refused_file("standard", il_lit("whsec_QUFBQUFBQUFBQUFBQUFBQQ==\n"
                                    "WHSEC_SECRET"), "line 2");
    refused_file("standard", il_lit("whsec_"), "empty");
    refused_file("standard", il_lit("whpk_"), "empty");
    refused_file("standard", il_lit("whpk_SECRETxx"), "32 bytes");
    refused_file("standard",
                 il_lit("whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4A"),
                 "32 bytes");

    /* 512 bytes are 684 characters; the next step is too long. */

    memset(big, 'A', sizeof(big));
    big[683] = '=';
    assert_int_equal(il_sig_conf_init(&conf, il_lit("standard"), err,
                                      sizeof(err)), 0);
    assert_int_equal(il_sig_conf_secrets(&conf, il_str(big, 684), err,
                                         sizeof(err)), 0);
    assert_int_equal(conf.secrets[0].len, 512);
    big[683] = 'A';
    refused_file("standard", il_str(big, 684), "longer than 512");

    il_sig_conf_wipe(&conf);
    assert_int_equal(conf.nsecrets, 0);
}


static void
every_reason_has_its_words(void **state)
{
    int  i, k;

    (void) state;

    for (i = IL_SIG_WHY_OK; i <= IL_SIG_WHY_IN_FUTURE; i++) {
        assert_true(strlen(il_sig_strwhy((il_sig_why_e) i)) > 3);
        assert_string_not_equal(il_sig_strwhy((il_sig_why_e) i), "unknown");

        for (k = IL_SIG_WHY_OK; k < i; k++) {
            assert_string_not_equal(il_sig_strwhy((il_sig_why_e) i),
                                    il_sig_strwhy((il_sig_why_e) k));
        }
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(token),
        cmocka_unit_test(authorization),
        cmocka_unit_test(hmac_forms),
        cmocka_unit_test(hmac_published),
        cmocka_unit_test(hmac_templates),
        cmocka_unit_test(arguments),
        cmocka_unit_test(what_is_missing),
        cmocka_unit_test(secret_files),
        cmocka_unit_test(every_reason_has_its_words),
    };

    return il_unit_run(tests);
}
