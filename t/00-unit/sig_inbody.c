/*
 * sig_inbody.c: providers that put the signature into the body: adyen, with
 * the example of its documents ("Verify HMAC signatures"), and mailgun.
 */

#include "sig.h"


#define NOW  1784883600

#define ADYEN_KEY                                                             \
    "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
#define OTHER_KEY  "00000000000000000000000000000000"
#define ADYEN_SIG  "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="

#define TOKEN  "e0b5477167110d68991efc6b9f89f0a11066af27834600e123"
#define MAILGUN_SIG                                                           \
    "43800397f7d3f04425941715e33a76ab83fbc7b42c7696920ce739801788ae56"
#define MAILGUN_PARENT                                                        \
    "e36bbdcbee144baea084d4a7c216e12bbc370236e4fa6a9acd356ef5ed471e2a"


/* A body in a block of its size, and what the edge says about it. */

static void
body_is(const il_sig_conf_t *conf, const char *body, il_sig_why_e why)
{
    sig_t         s;
    il_sig_rc_e   rc;

    rc = why == IL_SIG_WHY_OK ? IL_SIG_OK
         : why == IL_SIG_WHY_TOO_OLD || why == IL_SIG_WHY_IN_FUTURE
           ? IL_SIG_TIMESTAMP : IL_SIG_INVALID;

    sig_init(&s, il_exact(il_cstr(body)), NOW);
    sig_expect(conf, &s, rc, why);
    assert_int_equal(s.allocs, 0);
    il_drop(s.req.body);
}


#define ITEM(sig, rest)                                                       \
    "{\"NotificationRequestItem\":{\"additionalData\":{\"hmacSignature\":\""  \
    sig "\"}," rest "}}"
#define ITEMS(list)  "{\"live\":\"false\",\"notificationItems\":[" list "]}"

#define FIELDS                                                                \
    "\"amount\":{\"currency\":\"EUR\",\"value\":1130},"                       \
    "\"eventCode\":\"AUTHORISATION\","                                        \
    "\"merchantAccountCode\":\"TestMerchant\","                               \
    "\"merchantReference\":\"TestPayment-1407325143704\","                    \
    "\"pspReference\":\"7914073381342284\",\"success\":\"true\""

/* Another one, with what the first lacks; made with another implementation:
 * "7914073381342285:7914073381342284:TestMerchant:a:b:c:-5:EUR:REFUND:false"
 */
#define SECOND_SIG  "FJgsjErQflfooH0391DbmhPCjnlXgLa1nqR0bPSY5Gk="
#define SECOND(reference, value)                                              \
    "\"amount\":{\"value\":" value ",\"currency\":\"EUR\"},"                  \
    "\"originalReference\":\"7914073381342284\",\"eventCode\":\"REFUND\","    \
    "\"merchantAccountCode\":\"TestMerchant\",\"merchantReference\":"         \
    reference ",\"pspReference\":\"7914073381342285\",\"success\":false"


static void
adyen(void **state)
{
    size_t         i;
    il_sig_conf_t  conf;

    static const char *const  good[] = {
        ITEMS(ITEM(ADYEN_SIG, FIELDS)),
        ITEMS(ITEM(ADYEN_SIG, FIELDS ",\"originalReference\":\"\"")),
        ITEMS(ITEM(ADYEN_SIG, FIELDS ",\"originalReference\":null")),
        ITEMS(ITEM(ADYEN_SIG, FIELDS ",\"reason\":\"not signed\"")),
        ITEMS(ITEM(SECOND_SIG, SECOND("\"a:b:c\"", "-5"))),
        ITEMS(ITEM(SECOND_SIG, SECOND("\"\\u0061:b\\u003ac\"", "\"-5\""))),
        ITEMS(ITEM(ADYEN_SIG, FIELDS) ","
              ITEM(SECOND_SIG, SECOND("\"a:b:c\"", "-5")) ","
              ITEM(ADYEN_SIG, FIELDS)),
        ITEMS(ITEM("IgMo95iucOGq40rcDTF7RM+jyUUXfENIWIXFOG8m440=",
                   "\"pspReference\":\"X1\"")),
    };

    static const struct {
        const char    *body;
        il_sig_why_e   why;
    } bad[] = {
        { ITEMS(ITEM(SECOND_SIG, FIELDS)), IL_SIG_WHY_MISMATCH },
        { ITEMS(ITEM(ADYEN_SIG, FIELDS) ","
                ITEM(ADYEN_SIG, SECOND("\"a:b:c\"", "-5"))),
          IL_SIG_WHY_MISMATCH },
        { ITEMS(ITEM(SECOND_SIG, SECOND("\"a:b:c\"", "-5.0"))),
          IL_SIG_WHY_MISMATCH },
        { ITEMS(ITEM(SECOND_SIG, SECOND("\"a:b\"", "\"c:-5\""))),
          IL_SIG_WHY_BODY },
        { ITEMS(ITEM(ADYEN_SIG, FIELDS ",\"success\":\"true\"")),
          IL_SIG_WHY_BODY },
        { ITEMS(ITEM(ADYEN_SIG, FIELDS ",\"originalReference\":[]")),
          IL_SIG_WHY_BODY },
        { ITEMS(ITEM(ADYEN_SIG, FIELDS ",\"originalReference\":\"\\ud800\"")),
          IL_SIG_WHY_BODY },
        { ITEMS(ITEM("", FIELDS)), IL_SIG_WHY_BODY },
        { ITEMS(ITEM(ADYEN_SIG "=", FIELDS)), IL_SIG_WHY_BODY },
        { ITEMS(ITEM("coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0", FIELDS)),
          IL_SIG_WHY_BODY },
        { ITEMS(ITEM("coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiB", FIELDS)),
          IL_SIG_WHY_BODY },
        { ITEMS(ITEM(" " ADYEN_SIG, FIELDS)), IL_SIG_WHY_BODY },
        { ITEMS("{\"NotificationRequestItem\":{" FIELDS "}}"),
          IL_SIG_WHY_BODY },
        { ITEMS("{\"NotificationRequestItem\":[]}"), IL_SIG_WHY_BODY },
        { ITEMS("{}"), IL_SIG_WHY_BODY },
        { ITEMS("1"), IL_SIG_WHY_BODY },
        { ITEMS(""), IL_SIG_WHY_BODY },
        { ITEMS(ITEM(ADYEN_SIG, FIELDS) ",null"), IL_SIG_WHY_BODY },
        { ITEMS(ITEM(ADYEN_SIG, FIELDS)) "x", IL_SIG_WHY_BODY },
        { "{\"notificationItems\":{}}", IL_SIG_WHY_BODY },
        { "{\"notificationItems\":[],\"notificationItems\":["
          ITEM(ADYEN_SIG, FIELDS) "]}", IL_SIG_WHY_BODY },
        { "{}", IL_SIG_WHY_BODY },
        { "[]", IL_SIG_WHY_BODY },
        { "", IL_SIG_WHY_BODY },
    };

    (void) state;

    sig_conf(&conf, "adyen", ADYEN_KEY);

    for (i = 0; i < il_rows(good); i++) {
        body_is(&conf, good[i], IL_SIG_WHY_OK);
    }

    for (i = 0; i < il_rows(bad); i++) {
        body_is(&conf, bad[i].body, bad[i].why);
    }

    /* Keys are hex, and another key fits nothing. */

    sig_conf(&conf, "adyen", OTHER_KEY "\n" ADYEN_KEY "\n");
    body_is(&conf, good[0], IL_SIG_WHY_OK);
    sig_conf(&conf, "adyen", OTHER_KEY);
    body_is(&conf, good[0], IL_SIG_WHY_MISMATCH);
}


/* Every signed field counts: any byte of any of them is changed. */

static void
adyen_fields(void **state)
{
    char           body[1024];
    char          *at;
    size_t         i, k, n;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char *const  values[] = {
        "7914073381342285", "7914073381342284", "TestMerchant", "a:b:c",
        "-5", "EUR", "REFUND", "false",
    };

    static const char  original[] =
        ITEMS(ITEM(SECOND_SIG, SECOND("\"a:b:c\"", "\"-5\"")));

    (void) state;

    sig_conf(&conf, "adyen", ADYEN_KEY);
    n = sizeof(original) - 1;

    for (i = 0; i < il_rows(values); i++) {

        for (k = 0; k < strlen(values[i]); k++) {
            memcpy(body, original, n + 1);

            /* behind live, which is not signed */

            at = strstr(body + 20, values[i]);
            assert_non_null(at);
            at[k] = at[k] == 'x' ? 'y' : 'x';

            sig_init(&s, il_str(body, n), NOW);
            sig_refused(&conf, &s);
        }
    }
}


/* Fields that are longer than what is kept of them, and too many items. */

static void
adyen_bounds(void **state)
{
    char           *body;
    size_t          i, n, used;
    il_sig_conf_t   conf;

    const size_t  cap = 2 * 1024 * 1024;

    (void) state;

    sig_conf(&conf, "adyen", ADYEN_KEY);
    body = malloc(cap);
    assert_non_null(body);

    for (i = 4000; i <= 4200; i += 10) {
        (void) snprintf(body, cap, ITEMS(ITEM(ADYEN_SIG, FIELDS
                        ",\"originalReference\":\"%0*d\"")), (int) i, 0);
        body_is(&conf, body, i < 4020 ? IL_SIG_WHY_MISMATCH
                                      : IL_SIG_WHY_BODY);
    }

    for (n = 1000; n <= 1001; n++) {
        used = (size_t) snprintf(body, cap, "{\"notificationItems\":[");

        for (i = 0; i < n; i++) {
            used += (size_t) snprintf(body + used, cap - used, "%s%s",
                                      i == 0 ? "" : ",",
                                      ITEM(ADYEN_SIG, FIELDS));
        }

        (void) snprintf(body + used, cap - used, "]}");
        body_is(&conf, body, n == 1000 ? IL_SIG_WHY_OK : IL_SIG_WHY_BODY);
    }

    /* An item of one megabyte, and one that is larger. */

    for (n = 1024 * 1024 - 1000; n <= 1024 * 1024; n += 1000) {
        (void) snprintf(body, cap, ITEMS(ITEM(ADYEN_SIG, FIELDS
                        ",\"reason\":\"%0*d\"")), (int) n, 0);
        body_is(&conf, body, n < 1024 * 1024 ? IL_SIG_WHY_OK
                                             : IL_SIG_WHY_BODY);
    }

    free(body);
}


/* Platform webhooks: the signature is in a header, over the body.  Each
 * location takes one of the two forms only. */

static void
adyen_platform(void **state)
{
    char           sig[64];
    sig_t          s;
    il_str_t       body, joined;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "adyen", ADYEN_KEY);
    sig_arg(&conf, "signature", "header");
    sig_init(&s, il_lit("{\"data\":{\"id\":\"BA1\"},\"type\":\"balancePlatfor"
                        "m.accountHolder.created\"}"), NOW);
    sig_add(&s, "HmacSignature",
            "j6kmZiQmJI4RjiDGYCp75GYHUDuLc1ewUmcSc6ud12Y=");
    sig_add(&s, "Protocol", "HmacSHA256");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    sig_abuse_body(&conf, &s);

    s.names[0] = "X-Nothing";
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);
    s.names[0] = "HmacSignature";

    sig_arg(&conf, "signature", "items");
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_BODY);
    sig_arg(&conf, "signature", "header");

    sig_expect_with(&conf, &s, 0, "", IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    sig_expect_with(&conf, &s, 0,
                    "j6kmZiQmJI4RjiDGYCp75GYHUDuLc1ewUmcSc6ud12Y",
                    IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    sig_expect_with(&conf, &s, 0, ADYEN_SIG, IL_SIG_INVALID,
                    IL_SIG_WHY_MISMATCH);
    sig_add(&s, "hmacsignature", s.values[0]);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);
    s.n = 2;

    /* What one form signs must not pass as the other: not the same body, of
     * which the header would have to sign more, nor the text that is signed.
     */

    body = s.req.body;
    s.req.body = il_lit(ITEMS(ITEM(ADYEN_SIG, FIELDS)));
    s.n = 0;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);
    s.n = 2;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    sig_expect_with(&conf, &s, 0, ADYEN_SIG, IL_SIG_INVALID,
                    IL_SIG_WHY_MISMATCH);

    /* Where the items are signed a header says nothing, nor is it in the
     * way. */

    sig_arg(&conf, "signature", "items");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    s.req.body = body;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_BODY);
    sig_arg(&conf, "signature", "header");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

    s.req.body = il_lit("7914073381342284::TestMerchant:TestPayment-"
                        "1407325143704:1130:EUR:AUTHORISATION:true");
    sig_expect_with(&conf, &s, 0, ADYEN_SIG, IL_SIG_INVALID,
                    IL_SIG_WHY_BODY);

    joined = il_lit("{\"a\":1:b:c:d:e:f:g:h}");
    sig_sign(sig, sizeof(sig), IL_SIG_SHA256, IL_SIG_BASE64,
             il_lit("\x44\x78\x2D\xEF\x54\x7A\xAA\x06\xC9\x10\xC4\x39\x32\xB1"
                    "\xEB\x0C\x71\xFC\x68\xD9\xD0\xC0\x57\x55\x0C\x48\xEC\x2A"
                    "\xCF\x6B\xA0\x56"), &joined, 1);

    {
        char  text[512];

        (void) snprintf(text, sizeof(text), ITEMS(ITEM("%s",
                        "\"pspReference\":\"{\\\"a\\\"\","
                        "\"originalReference\":\"1\","
                        "\"merchantAccountCode\":\"b\","
                        "\"merchantReference\":\"c:d\","
                        "\"amount\":{\"value\":\"e\",\"currency\":\"f\"},"
                        "\"eventCode\":\"g\",\"success\":\"h}\"")), sig);
        sig_arg(&conf, "signature", "items");
        body_is(&conf, text, IL_SIG_WHY_BODY);
    }
}


/* What a key may be made of. */

static void
covers(void **state)
{
    char           err[IL_SIG_ERR_CAP];
    size_t         i;
    il_sig_conf_t  conf;

    static const struct {
        const char       *scheme;
        const char       *place;
        il_sig_covers_e   covers;
    } schemes[] = {
        { "adyen", NULL, IL_SIG_COVERS_MEMBERS },
        { "adyen", "items", IL_SIG_COVERS_MEMBERS },
        { "adyen", "header", IL_SIG_COVERS_BODY },
        { "mailgun", NULL, IL_SIG_COVERS_MEMBERS },
        { "sns", NULL, IL_SIG_COVERS_MEMBERS },
        { "twilio", NULL, IL_SIG_COVERS_FIELDS },
        { "stripe", NULL, IL_SIG_COVERS_BODY },
        { "token", NULL, IL_SIG_COVERS_BODY },
    };

    static const struct {
        const char  *scheme;
        const char  *pointer;
        int          signs;
    } members[] = {
        { "adyen", "/NotificationRequestItem/pspReference", 1 },
        { "adyen", "/NotificationRequestItem/amount/value", 1 },
        { "adyen", "/notificationItems/0/NotificationRequestItem/success",
          1 },
        { "adyen", "/notificationItems/12/NotificationRequestItem/eventCode",
          1 },
        { "adyen", "/notificationItems/0/NotificationRequestItem/reason", 0 },
        { "adyen", "/notificationItems/x/NotificationRequestItem/success",
          0 },
        { "adyen", "/notificationItems/NotificationRequestItem/success", 0 },
        { "adyen", "/x/NotificationRequestItem/success", 0 },
        { "adyen", "/NotificationRequestItem/additionalData/hmacSignature",
          0 },
        { "adyen", "/NotificationRequestItem/eventDate", 0 },
        { "adyen", "/NotificationRequestItem", 0 },
        { "adyen", "/live", 0 },
        { "adyen", "", 0 },
        { "mailgun", "/signature/token", 1 },
        { "mailgun", "/signature/signature", 0 },
        { "mailgun", "/event-data/id", 0 },
        { "sns", "/MessageId", 1 },
        { "sns", "/UnsubscribeURL", 0 },
        { "stripe", "/id", 1 },
    };

    (void) state;

    for (i = 0; i < il_rows(schemes); i++) {
        assert_int_equal(il_sig_conf_init(&conf, il_cstr(schemes[i].scheme),
                                          err, sizeof(err)), 0);

        if (schemes[i].place != NULL) {
            sig_arg(&conf, "signature", schemes[i].place);
        }

        assert_int_equal(il_sig_conf_covers(&conf), schemes[i].covers);
    }

    for (i = 0; i < il_rows(members); i++) {
        assert_int_equal(il_sig_conf_init(&conf, il_cstr(members[i].scheme),
                                          err, sizeof(err)), 0);

        if (il_sig_conf_covers_member(&conf, il_cstr(members[i].pointer))
            != members[i].signs)
        {
            fail_msg("%s: %s is not %d", members[i].scheme,
                     members[i].pointer, members[i].signs);
        }
    }

    sig_conf(&conf, "adyen", ADYEN_KEY);
    assert_int_equal(il_sig_conf_arg(&conf, il_lit("signature"),
                                     il_lit("both"), err, sizeof(err)), -1);
    assert_string_equal(err, "signature must be items or header, not "
                        "\"both\"");
    assert_int_equal(conf.place, IL_SIG_IN_ITEMS);
    sig_conf(&conf, "mailgun", "k");
    assert_int_equal(il_sig_conf_arg(&conf, il_lit("signature"),
                                     il_lit("header"), err, sizeof(err)), -1);
}


#define MAILGUN(inside)                                                       \
    "{\"signature\":{" inside "},\"event-data\":{\"event\":\"opened\"}}"


static void
mailgun(void **state)
{
    char           body[512];
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char *const  good[] = {
        MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\","
                "\"signature\":\"" MAILGUN_SIG "\""),
        MAILGUN("\"signature\":\"" MAILGUN_SIG "\",\"token\":\"" TOKEN "\","
                "\"timestamp\":1784883600"),
        MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\","
                "\"signature\":\"" MAILGUN_SIG "\",\"parent-signature\":\""
                MAILGUN_PARENT "\""),
        MAILGUN("\"timestamp\":\"17848836\\u00300\",\"token\":\"" TOKEN "\","
                "\"signature\":\"" MAILGUN_SIG "\",\"parent-signature\":"
                "null"),
    };

    static const struct {
        const char    *body;
        il_sig_why_e   why;
    } bad[] = {
        { MAILGUN("\"timestamp\":\"1784883601\",\"token\":\"" TOKEN "\","
                  "\"signature\":\"" MAILGUN_SIG "\""),
          IL_SIG_WHY_MISMATCH },
        { MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "0\","
                  "\"signature\":\"" MAILGUN_SIG "\""),
          IL_SIG_WHY_MISMATCH },
        { MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\","
                  "\"signature\":\"" MAILGUN_PARENT "\""),
          IL_SIG_WHY_MISMATCH },
        /* a digit that is moved from the time to the token */
        { MAILGUN("\"timestamp\":\"178488360\",\"token\":\"0" TOKEN "\","
                  "\"signature\":\"" MAILGUN_SIG "\""),
          IL_SIG_WHY_TOO_OLD },
        { MAILGUN("\"timestamp\":\"1784883600" TOKEN "\",\"token\":\"\","
                  "\"signature\":\"" MAILGUN_SIG "\""), IL_SIG_WHY_BODY },
        { MAILGUN("\"timestamp\":\"\",\"token\":\"1784883600" TOKEN "\","
                  "\"signature\":\"" MAILGUN_SIG "\""), IL_SIG_WHY_BODY },
        { MAILGUN("\"timestamp\":\" 1784883600\",\"token\":\"" TOKEN "\","
                  "\"signature\":\"" MAILGUN_SIG "\""), IL_SIG_WHY_BODY },
        { MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\""),
          IL_SIG_WHY_BODY },
        { MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\","
                  "\"signature\":\"\""), IL_SIG_WHY_BODY },
        { MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\","
                  "\"signature\":\"" MAILGUN_SIG "00\""), IL_SIG_WHY_BODY },
        { MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\","
                  "\"signature\":\"43800397\""), IL_SIG_WHY_BODY },
        { MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\","
                  "\"signature\":\"" MAILGUN_SIG "\",\"signature\":\""
                  MAILGUN_SIG "\""), IL_SIG_WHY_BODY },
        { MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\","
                  "\"signature\":[\"" MAILGUN_SIG "\"]"), IL_SIG_WHY_BODY },
        { MAILGUN("\"timestamp\":\"1784883600\",\"token\":\"" TOKEN "\","
                  "\"signature\":\"" MAILGUN_SIG "\"") "x", IL_SIG_WHY_BODY },
        { "{\"signature\":\"" MAILGUN_SIG "\"}", IL_SIG_WHY_BODY },
        { "{}", IL_SIG_WHY_BODY },
        { "", IL_SIG_WHY_BODY },
    };

    (void) state;

    sig_conf(&conf, "mailgun", "mailgun key");

    for (i = 0; i < il_rows(good); i++) {
        body_is(&conf, good[i], IL_SIG_WHY_OK);
    }

    for (i = 0; i < il_rows(bad); i++) {
        body_is(&conf, bad[i].body, bad[i].why);
    }

    sig_init(&s, il_cstr(good[0]), NOW);
    sig_abuse_clock(&conf, &s, 300);

    /* The main account's key fits the second signature. */

    sig_conf(&conf, "mailgun", "main account");
    body_is(&conf, good[0], IL_SIG_WHY_MISMATCH);
    body_is(&conf, good[2], IL_SIG_WHY_OK);

    /* A field longer than what is kept. */

    (void) snprintf(body, sizeof(body), MAILGUN("\"timestamp\":1784883600,"
                    "\"token\":\"%0300d\",\"signature\":\"" MAILGUN_SIG
                    "\""), 0);
    body_is(&conf, body, IL_SIG_WHY_BODY);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(adyen),
        cmocka_unit_test(adyen_fields),
        cmocka_unit_test(adyen_bounds),
        cmocka_unit_test(adyen_platform),
        cmocka_unit_test(covers),
        cmocka_unit_test(mailgun),
    };

    return il_unit_run(tests);
}
