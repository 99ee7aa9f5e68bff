/*
 * sig_timed.c: providers that sign a timestamp with the body: slack and
 * paddle, with their published examples ("Verifying requests from Slack", the
 * tests of paddle-node-sdk), zoom, and discord.
 */

#include "sig.h"


#define NOW   1784883600
#define BODY  "{\"id\":7,\"name\":\"\\u00e4\\/b\"}"


static const il_str_t  slack_body = il_string(
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J"
    "&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    "&user_id=U2CERLKJA&user_name=roadrunner"
    "&command=%2Fwebhook-collect&text="
    "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J"
    "%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c");

#define SLACK_SIG                                                             \
    "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"

#define ZOOM_SIG                                                              \
    "704ae560803eb50b6ae8f390a8ecff3716d1f1688caaaddf9a44bb223869b409"


/* What all "v0=" schemes refuse, for the signature in header 0. */

static void
v0_versions(const il_sig_conf_t *conf, sig_t *s, const char *sig)
{
    char    text[256];
    size_t  i;

    static const char *const  formats[] = {
        "v1=", "v00=", "V0=", "v0:", "v0", "", "v0==", "v0= ", "v1=,v0=",
        "sha256=",
    };

    for (i = 0; i < il_rows(formats); i++) {
        (void) snprintf(text, sizeof(text), "%s%s", formats[i], sig);
        sig_expect_with(conf, s, 0, text, IL_SIG_INVALID,
                        IL_SIG_WHY_MALFORMED);
    }

    (void) snprintf(text, sizeof(text), "v0=%s,v0=%s", sig, sig);
    sig_expect_with(conf, s, 0, text, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
}


static void
slack(void **state)
{
    sig_t          s;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "slack", "8f742231b10e8888abcd99yyyzzz85a5");
    sig_init(&s, slack_body, 1531420618);
    sig_add(&s, "X-Slack-Signature", "v0=" SLACK_SIG);
    sig_add(&s, "X-Slack-Request-Timestamp", "1531420618");

    sig_abuse_signature(&conf, &s, 0);
    sig_abuse_timestamp(&conf, &s, 1);
    sig_abuse_body(&conf, &s);
    sig_abuse_clock(&conf, &s, 300);
    v0_versions(&conf, &s, SLACK_SIG);
    assert_int_equal(s.allocs, 0);

    /* The time and the body must not be moved against each other. */

    sig_expect_with(&conf, &s, 1, "1531420618:token", IL_SIG_INVALID,
                    IL_SIG_WHY_MALFORMED);

    sig_conf(&conf, "slack", "another\n8f742231b10e8888abcd99yyyzzz85a5");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
}


static void
zoom(void **state)
{
    sig_t          s;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "zoom", "zoomsecret");
    sig_init(&s, il_lit(BODY), NOW);
    sig_add(&s, "x-zm-signature", "v0=" ZOOM_SIG);
    sig_add(&s, "x-zm-request-timestamp", "1784883600");

    sig_abuse_signature(&conf, &s, 0);
    sig_abuse_timestamp(&conf, &s, 1);
    sig_abuse_body(&conf, &s);
    sig_abuse_clock(&conf, &s, 300);
    v0_versions(&conf, &s, ZOOM_SIG);

    /* The scheme's own headers, not those of another. */

    s.names[0] = "X-Slack-Signature";
    s.names[1] = "X-Slack-Request-Timestamp";
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);
}


static void
paddle(void **state)
{
    char           text[4096];
    size_t         i, k, used;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char  sig[] =
        "a300428748dce5c70e4da19bffd60769591ea969c99dea3105d0ec9612cf43f9";

    static const struct {
        const char    *format;         /* "$" is the right signature */
        il_sig_why_e   why;
    } rows[] = {
        { "h1=$;ts=1698796800", IL_SIG_WHY_OK },
        { "ts=1698796800;h1=00;h1=$", IL_SIG_WHY_OK },
        { "ts=1698796800;h1=$;h1=00", IL_SIG_WHY_OK },
        { "ts=1698796800;h2=00;h1=$;x=y", IL_SIG_WHY_OK },
        { "ts=1698796800;h2=$", IL_SIG_WHY_MALFORMED },
        { "ts=1698796800,h1=$", IL_SIG_WHY_MALFORMED },
        { "ts=1698796800; h1=$", IL_SIG_WHY_MALFORMED },
        { "t=1698796800;h1=$", IL_SIG_WHY_MALFORMED },
        { "ts=1698796800;v1=$", IL_SIG_WHY_MALFORMED },
        { "ts=1698796800;ts=1698796800;h1=$", IL_SIG_WHY_MALFORMED },
        { "ts=;h1=$", IL_SIG_WHY_MALFORMED },
        { "ts=-1;h1=$", IL_SIG_WHY_MALFORMED },
        { "ts=1698796800;h1=$;", IL_SIG_WHY_MALFORMED },
        { "ts=1698796800;;h1=$", IL_SIG_WHY_MALFORMED },
        { "", IL_SIG_WHY_MALFORMED },
        { "ts=1698796801;h1=$", IL_SIG_WHY_MISMATCH },
        { "ts=01698796800;h1=$", IL_SIG_WHY_MISMATCH },
    };

    (void) state;

    sig_conf(&conf, "paddle", "VALID_SECRET");
    sig_init(&s, il_lit("{\"data\": [\"1\", \"2\"]}"), 1698796800);
    (void) snprintf(text, sizeof(text), "ts=1698796800;h1=%s", sig);
    sig_add(&s, "Paddle-Signature", text);

    sig_abuse_signature(&conf, &s, 0);
    sig_abuse_body(&conf, &s);
    sig_abuse_clock(&conf, &s, 300);

    /* What Paddle's SDKs take by default. */

    sig_arg(&conf, "tolerance", "5s");
    sig_abuse_clock(&conf, &s, 5);

    for (i = 0; i < il_rows(rows); i++) {
        used = 0;

        for (k = 0; rows[i].format[k] != '\0'; k++) {
            if (rows[i].format[k] == '$') {
                memcpy(text + used, sig, 64);
                used += 64;
            } else {
                text[used++] = rows[i].format[k];
            }
        }

        text[used] = '\0';
        sig_expect(&conf, &s, rows[i].why == IL_SIG_WHY_OK
                              ? IL_SIG_OK : IL_SIG_INVALID, rows[i].why);
    }

    /* More signatures than may be listed. */

    for (i = IL_SIG_LISTED_MAX - 1; i <= IL_SIG_LISTED_MAX; i++) {
        used = (size_t) snprintf(text, sizeof(text), "ts=1698796800");

        for (k = 0; k < i; k++) {
            used += (size_t) snprintf(text + used, sizeof(text) - used,
                                      ";h1=%064d", 0);
        }

        (void) snprintf(text + used, sizeof(text) - used, ";h1=%s", sig);

        if (i < IL_SIG_LISTED_MAX) {
            sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        } else {
            sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
        }
    }
}


/* Key pair of RFC 8032, section 7.1, test 1; signed with tweetnacl. */

static void
discord(void **state)
{
    char           secrets[256];
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char  key[] =
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    static const char  sig[] =
        "c60072f74cdad5150a2a0c1036bfd9d6b058a6f691c336e99075e69594549432"
        "b942a570e3c1407fb31e66eaba32836e264733b382845d69c5f2f9ee92425902";

    static const char *const  bad_keys[] = {
        "d75a98", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f7"
        "07511", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f70"
        "7511a00", "xyz", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
    };

    (void) state;

    sig_conf(&conf, "discord", key);
    sig_init(&s, il_lit("{\"type\":1}"), NOW);
    sig_add(&s, "X-Signature-Ed25519", sig);
    sig_add(&s, "X-Signature-Timestamp", "1784883600");

    sig_abuse_signature(&conf, &s, 0);
    sig_abuse_timestamp(&conf, &s, 1);
    sig_abuse_body(&conf, &s);
    sig_abuse_clock(&conf, &s, 300);

    /* Time and body are not divided in what is signed. */

    s.req.body = il_lit("0{\"type\":1}");
    sig_expect_with(&conf, &s, 1, "178488360", IL_SIG_TIMESTAMP,
                    IL_SIG_WHY_TOO_OLD);
    s.req.body = il_lit("{\"type\":1}");

    /* No memory: refused, not taken. */

    s.no_memory = 1;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    s.no_memory = 0;
    s.req.alloc = NULL;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    s.req.alloc = sig_alloc;

    (void) snprintf(secrets, sizeof(secrets), "%064d\n%s\n", 0, key);
    sig_conf(&conf, "discord", secrets);
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

    /* A key of small order fits a signature that anybody can make. */

    (void) snprintf(secrets, sizeof(secrets), "01%062d", 0);
    sig_conf(&conf, "discord", secrets);
    (void) snprintf(secrets, sizeof(secrets), "01%0126d", 0);
    sig_expect_with(&conf, &s, 0, secrets, IL_SIG_INVALID,
                    IL_SIG_WHY_MISMATCH);

    for (i = 0; i < il_rows(bad_keys); i++) {
        char  err[IL_SIG_ERR_CAP];

        assert_int_equal(il_sig_conf_init(&conf, il_lit("discord"), err,
                                          sizeof(err)), 0);
        assert_int_equal(il_sig_conf_secrets(&conf, il_cstr(bad_keys[i]), err,
                                             sizeof(err)), -1);
        assert_non_null(strstr(err, "line 1: "));
        assert_null(strstr(err, bad_keys[i]));
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(slack),
        cmocka_unit_test(zoom),
        cmocka_unit_test(paddle),
        cmocka_unit_test(discord),
    };

    return il_unit_run(tests);
}
