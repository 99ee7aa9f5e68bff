/*
 * sig_pk.c: what requests of sendgrid, paypal and sns must look like, which
 * bytes of them are signed, and where certificates may come from.  That the
 * arithmetic fits is shown with real keys elsewhere.
 */

#include "sig.h"

#include "il_sig_pk.h"

#define NOW    1600112502

#define KEY    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/"    \
               "7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3"   \
               "F+g=="
#define TOPIC  "arn:aws:sns:us-west-2:123456789012:MyTopic"
#define CERT   "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-" \
               "f3ecfb7224c7233fe7bb5f59f96de52f.pem"


/* What is signed, in one piece. */

static void
signed_is(const il_sig_conf_t *conf, const il_sig_pk_t *pk, size_t way,
    const char *want)
{
    char      text[2048];
    size_t    i, n, used;
    il_str_t  pieces[IL_SIG_PK_PIECES];

    n = il_sig_pk_signed(conf, pk, way, pieces);
    used = 0;

    for (i = 0; i < n; i++) {
        assert_true(used + pieces[i].len < sizeof(text));
        memcpy(text + used, pieces[i].data, pieces[i].len);
        used += pieces[i].len;
    }

    text[used] = '\0';
    assert_string_equal(text, want);
}


static void
reads(const il_sig_conf_t *conf, sig_t *s, il_sig_pk_t *pk)
{
    const char  *why;

    why = il_sig_pk_read(conf, &s->req, pk);

    if (why != NULL) {
        fail_msg("refused: %s", why);
    }
}


static void
refuses(const il_sig_conf_t *conf, sig_t *s, const char *like)
{
    const char   *why;
    il_sig_pk_t   pk;

    why = il_sig_pk_read(conf, &s->req, &pk);
    free(s->scratch);
    s->scratch = NULL;

    if (why == NULL || strstr(why, like) == NULL) {
        fail_msg("\"%s\" for \"%s\"", why == NULL ? "taken" : why, like);
    }
}


/* Each header must be there, once. */

static void
needs(const il_sig_conf_t *conf, sig_t *s)
{
    size_t       i, n;
    const char  *kept;

    n = s->n;

    for (i = 0; i < n; i++) {
        kept = s->names[i];
        s->names[i] = "X-Nothing";
        refuses(conf, s, "missing");
        s->names[i] = kept;

        sig_add(s, kept, s->values[i]);
        refuses(conf, s, "more than once");
        s->n--;
    }
}


static void
refuses_with(const il_sig_conf_t *conf, sig_t *s, size_t i,
    const char *value, const char *like)
{
    const char  *kept;

    kept = s->values[i];
    s->values[i] = value;
    refuses(conf, s, like);
    s->values[i] = kept;
}


static void
clock_of(const il_sig_conf_t *conf, sig_t *s, const il_sig_pk_t *pk,
    int64_t tolerance)
{
    int64_t  now;

    now = s->req.now;
    assert_int_equal(pk->at, now);

    s->req.now = now + tolerance;
    assert_int_equal(il_sig_pk_time(conf, &s->req, pk), IL_SIG_WHY_OK);
    s->req.now++;
    assert_int_equal(il_sig_pk_time(conf, &s->req, pk), IL_SIG_WHY_TOO_OLD);
    s->req.now = now - tolerance;
    assert_int_equal(il_sig_pk_time(conf, &s->req, pk), IL_SIG_WHY_OK);
    s->req.now--;
    assert_int_equal(il_sig_pk_time(conf, &s->req, pk),
                     IL_SIG_WHY_IN_FUTURE);
    s->req.now = now;
}


static void
sendgrid(void **state)
{
    sig_t          s;
    uint8_t        der[IL_SIG_PK_SPKI];
    il_sig_pk_t    pk;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "sendgrid", KEY "\n" KEY);
    sig_init(&s, il_lit("[{}]\r\n"), NOW);
    sig_add(&s, "X-Twilio-Email-Event-Webhook-Signature", "MEUC");
    sig_add(&s, "X-Twilio-Email-Event-Webhook-Timestamp", "1600112502");

    reads(&conf, &s, &pk);
    assert_int_equal(pk.ec, 1);
    assert_int_equal(pk.algorithm, IL_SIG_SHA256);
    assert_int_equal(pk.type, IL_SIG_PK_MESSAGE);
    assert_int_equal(pk.signature_len, 3);
    assert_int_equal(il_sig_pk_ways(&conf, &pk), 2);
    assert_int_equal(il_sig_pk_spki(&conf.secrets[0], der), 0);
    signed_is(&conf, &pk, 1, "1600112502[{}]\r\n");
    clock_of(&conf, &s, &pk, 300);

    needs(&conf, &s);
    refuses_with(&conf, &s, 0, "", "base64");
    refuses_with(&conf, &s, 0, "MEU", "base64");
    refuses_with(&conf, &s, 0, "MEUC\n", "base64");
    refuses_with(&conf, &s, 1, "", "number");
    refuses_with(&conf, &s, 1, "1600112502.0", "number");
    refuses_with(&conf, &s, 1, "1000000000000000000", "number");

    conf.nsecrets = 0;
    refuses(&conf, &s, "no key");
}


static void
paypal(void **state)
{
    sig_t          s;
    il_sig_pk_t    pk;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "paypal", "1JE4291016473214C\nWH2");
    sig_init(&s, il_lit("123456789"), NOW);
    sig_add(&s, "Paypal-Transmission-Id", "dfb3be50-fd74-11e4-8bf3-77339302");
    sig_add(&s, "PAYPAL-TRANSMISSION-TIME", "2020-09-14T19:41:42Z");
    sig_add(&s, "PAYPAL-TRANSMISSION-SIG", "AAAA");
    sig_add(&s, "PAYPAL-CERT-URL", "https://api.paypal.com/x");
    sig_add(&s, "PAYPAL-AUTH-ALGO", "SHA256withRSA");

    reads(&conf, &s, &pk);
    assert_int_equal(pk.ec, 0);
    assert_int_equal(pk.algorithm, IL_SIG_SHA256);
    assert_int_equal(il_sig_pk_ways(&conf, &pk), 2);
    il_assert_text(pk.cert_url.data, pk.cert_url.len,
                   "https://api.paypal.com/x");

    /* 0xcbf43926 is the check value of CRC-32 */

    signed_is(&conf, &pk, 0, "dfb3be50-fd74-11e4-8bf3-77339302|"
              "2020-09-14T19:41:42Z|1JE4291016473214C|3421780262");
    signed_is(&conf, &pk, 1, "dfb3be50-fd74-11e4-8bf3-77339302|"
              "2020-09-14T19:41:42Z|WH2|3421780262");
    clock_of(&conf, &s, &pk, 3600);

    needs(&conf, &s);
    refuses_with(&conf, &s, 0, "", "transmission id");
    refuses_with(&conf, &s, 0, "a|b", "transmission id");
    refuses_with(&conf, &s, 1, "", "RFC 3339");
    refuses_with(&conf, &s, 1, "2020-09-14T19:41:42Z|x", "RFC 3339");
    refuses_with(&conf, &s, 2, "A", "base64");
    refuses_with(&conf, &s, 4, "SHA1withRSA", "algorithm");
    refuses_with(&conf, &s, 4, "sha256withrsa", "algorithm");

    s.req.body = il_str("", 0);
    reads(&conf, &s, &pk);
    signed_is(&conf, &pk, 1, "dfb3be50-fd74-11e4-8bf3-77339302|"
              "2020-09-14T19:41:42Z|WH2|0");
}


#define SNS(type, more)                                                       \
    "{\"Type\":\"" type "\",\"MessageId\":\"22b8\",\"TopicArn\":\"" TOPIC     \
    "\",\"Timestamp\":\"2020-09-14T19:41:42.655Z\",\"SignatureVersion\":"     \
    "\"1\",\"Signature\":\"AAAA\",\"SigningCertURL\":\"" CERT "\"" more "}"

#define SUBSCRIBE                                                             \
    ",\"Token\":\"t\",\"SubscribeURL\":\"https://x/\""


static void
sns(void **state)
{
    sig_t          s;
    il_sig_pk_t    pk;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "sns", TOPIC);
    sig_init(&s, il_lit(SNS("Notification", ",\"Message\":\"a\\nb\\u20ac\","
             "\"Subject\":\"s\",\"Token\":\"t\"")), NOW);

    reads(&conf, &s, &pk);
    assert_int_equal(pk.ec, 0);
    assert_int_equal(pk.algorithm, IL_SIG_SHA1);
    assert_int_equal(pk.type, IL_SIG_PK_MESSAGE);
    assert_int_equal(il_sig_pk_ways(&conf, &pk), 1);
    il_assert_text(pk.cert_url.data, pk.cert_url.len, CERT);
    signed_is(&conf, &pk, 0, "Message\na\nb\xe2\x82\xac\nMessageId\n22b8\n"
              "Subject\ns\nTimestamp\n2020-09-14T19:41:42.655Z\nTopicArn\n"
              TOPIC "\nType\nNotification\n");
    clock_of(&conf, &s, &pk, 3600);
    free(s.scratch);
    s.scratch = NULL;

    s.req.body = il_lit(SNS("Notification", ",\"Message\":\"\","
                        "\"Subject\":null"));
    reads(&conf, &s, &pk);
    signed_is(&conf, &pk, 0, "Message\n\nMessageId\n22b8\n"
              "Timestamp\n2020-09-14T19:41:42.655Z\nTopicArn\n"
              TOPIC "\nType\nNotification\n");
    free(s.scratch);
    s.scratch = NULL;

    s.req.body = il_lit(SNS("SubscriptionConfirmation",
                        ",\"Message\":\"m\",\"Subject\":\"s\"" SUBSCRIBE));
    reads(&conf, &s, &pk);
    assert_int_equal(pk.type, IL_SIG_PK_SUBSCRIBE);
    il_assert_text(pk.subscribe_url.data, pk.subscribe_url.len, "https://x/");
    signed_is(&conf, &pk, 0, "Message\nm\nMessageId\n22b8\nSubscribeURL\n"
              "https://x/\nTimestamp\n2020-09-14T19:41:42.655Z\nToken\nt\n"
              "TopicArn\n" TOPIC "\nType\nSubscriptionConfirmation\n");
    free(s.scratch);
    s.scratch = NULL;

    s.req.body = il_lit(SNS("UnsubscribeConfirmation",
                        ",\"Message\":\"m\"" SUBSCRIBE));
    reads(&conf, &s, &pk);
    assert_int_equal(pk.type, IL_SIG_PK_UNSUBSCRIBE);
    free(s.scratch);
    s.scratch = NULL;
}


static void
sns_refused(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const struct {
        const char  *body;
        const char  *like;
    } bad[] = {
        { "", "empty" },
        { "Hello", "raw message delivery" },
        { "[]", "raw message delivery" },
        { "{}", "raw message delivery" },
        { "{\"Message\":\"x\"}", "raw message delivery" },
        { SNS("Other", ",\"Message\":\"\""), "Type" },
        { SNS("Notification", ""), "missing" },
        { SNS("SubscriptionConfirmation", ",\"Message\":\"m\""), "missing" },
        { SNS("Notification", ",\"Message\":1"), "no string" },
        { SNS("Notification", ",\"Message\":{}"), "no string" },
        { SNS("Notification", ",\"Message\":\"a\",\"Message\":\"b\""),
          "twice" },
        { SNS("Notification", ",\"Message\":\"a\",\"Messag\\u0065\":\"b\""),
          "twice" },
        { SNS("Notification", ",\"Message\":\"\\ud800\""), "no string" },
    };

    (void) state;

    sig_conf(&conf, "sns", TOPIC);

    for (i = 0; i < il_rows(bad); i++) {
        sig_init(&s, il_cstr(bad[i].body), NOW);
        refuses(&conf, &s, bad[i].like);
    }

    sig_init(&s, il_lit(SNS("Notification", ",\"Message\":\"\"")), NOW);
    s.no_memory = 1;
    refuses(&conf, &s, "memory");
}


static void
sns_topics(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_pk_t    pk;
    il_sig_conf_t  conf;

    static const struct {
        const char  *topics;
        int          taken;
    } rows[] = {
        { TOPIC, 1 },
        { "arn:aws:sns:us-west-2:123456789012:Other\n" TOPIC, 1 },
        { "arn:aws:sns:us-west-2:123456789012:My*", 1 },
        { "arn:aws:sns:us-west-2:123456789012:*", 1 },
        { TOPIC "*", 0 },
        { "arn:aws:sns:us-west-2:123456789012:MyTopi", 0 },
        { "arn:aws:sns:us-west-2:123456789012:MyTopic2", 0 },
        { "arn:aws:sns:us-west-2:123456789012:mytopic", 0 },
        { "arn:aws:sns:us-west-2:123456789013:MyTopic", 0 },
        { "arn:aws:sns:us-west-2:123456789012:Y*", 0 },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        sig_conf(&conf, "sns", rows[i].topics);
        sig_init(&s, il_lit(SNS("Notification", ",\"Message\":\"\"")), NOW);

        if (rows[i].taken) {
            reads(&conf, &s, &pk);
            free(s.scratch);

        } else {
            refuses(&conf, &s, "TopicArn");
        }
    }
}


static void
secrets(void **state)
{
    char           err[IL_SIG_ERR_CAP];
    size_t         i;
    il_sig_conf_t  conf;

    static const struct {
        const char  *scheme;
        const char  *line;
    } bad[] = {
        { "sendgrid", "SG.abc" },
        { "sendgrid", "-----BEGIN PUBLIC KEY-----" },
        { "sendgrid", "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE" },
        { "sendgrid", KEY "==" },
        { "paypal", "WH 1" },
        { "paypal", "WH|1" },
        { "paypal", "https://example.com/in/paypal" },
        { "sns", "MyTopic" },
        { "sns", "arn:aws:sqs:us-west-2:123456789012:MyTopic" },
        { "sns", "arn:aws:sns:us-west-2:12345678901:MyTopic" },
        { "sns", "arn:aws:sns:us-west-2:123456789012:" },
        { "sns", "arn:aws:sns:us-west-2:*:*" },
        { "sns", "arn:aws:sns:us-west-2:123456789012:My Topic" },
        { "sns", TOPIC ":c9135db0-26c4-47ec-8998-413945fb5a96" },
    };

    (void) state;

    for (i = 0; i < il_rows(bad); i++) {
        assert_int_equal(il_sig_conf_init(&conf, il_cstr(bad[i].scheme), err,
                                          sizeof(err)), 0);

        if (il_sig_conf_secrets(&conf, il_cstr(bad[i].line), err,
                                sizeof(err)) == 0)
        {
            fail_msg("taken: %s", bad[i].line);
        }
    }

    sig_conf(&conf, "sns", TOPIC ".fifo\narn:aws-cn:sns:cn-north-1:"
             "123456789012:a_b-c");
    assert_int_equal(conf.nsecrets, 2);
}


static void
urls(void **state)
{
    size_t         i;
    il_url_t       url;
    const char    *why;
    il_sig_conf_t  sns_conf, paypal_conf;

    static const struct {
        int          paypal;
        int          taken;
        const char  *url;
    } rows[] = {
        { 0, 1, CERT },
        { 0, 1, "https://SNS.us-gov-west-1.AMAZONAWS.com/a.pem" },
        { 0, 1, "https://sns.cn-north-1.amazonaws.com.cn/a.pem" },
        { 0, 1, "https://sns.us-west-2.amazonaws.com:443/a.pem" },
        { 0, 1, "https://mirror.example:8443/a.pem" },
        { 0, 0, "https://mirror.example/a.pem" },
        { 0, 0, "http://mirror.example:8443/a.pem" },
        { 0, 0, "http://sns.us-west-2.amazonaws.com/a.pem" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com:8443/a.pem" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com./a.pem" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com.example/a.pem" },
        { 0, 0, "https://sns.us-west-2.amazonaws.como/a.pem" },
        { 0, 0, "https://sns.a.b.amazonaws.com/a.pem" },
        { 0, 0, "https://sns.ab.amazonaws.com/a.pem" },
        { 0, 0, "https://sns.amazonaws.com/a.pem" },
        { 0, 0, "https://xsns.us-west-2.amazonaws.com/a.pem" },
        { 0, 0, "https://x@sns.us-west-2.amazonaws.com/a.pem" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/.pem" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/a/b.pem" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/a%2fb.pem" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/?a.pem" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/a.pem?b" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/a.pem#b" },
        { 0, 0, "https://10.0.0.1/a.pem" },
        { 0, 0, "https://[::1]/a.pem" },
        { 0, 0, "https://api.paypal.com/v1/notifications/certs/CERT-1" },
        { 1, 1, "https://api.paypal.com/v1/notifications/certs/CERT-1-a_2" },
        { 1, 1, "https://api.sandbox.paypal.com/v1/notifications/certs/C" },
        { 1, 0, "https://paypal.com/v1/notifications/certs/C" },
        { 1, 0, "https://apipaypal.com/v1/notifications/certs/C" },
        { 1, 0, "https://api.paypal.com.example/v1/notifications/certs/C" },
        { 1, 0, "https://api.paypal.com/v1/notifications/certs/" },
        { 1, 0, "https://api.paypal.com/v1/notifications/certs/a/b" },
        { 1, 0, "https://api.paypal.com/v1/notifications/certs/a?b" },
        { 1, 0, "https://api.paypal.com/v1/notifications/certs" },
        { 1, 0, "https://api.paypal.com/x/v1/notifications/certs/C" },
        { 1, 0, CERT },
        { 1, 0, "" },
    };

    (void) state;

    sig_conf(&sns_conf, "sns", TOPIC);
    sig_conf(&paypal_conf, "paypal", "WH");

    for (i = 0; i < il_rows(rows); i++) {
        why = il_sig_pk_cert_url(rows[i].paypal ? paypal_conf.scheme
                                                : sns_conf.scheme,
                                 il_cstr(rows[i].url),
                                 il_lit("mirror.example:8443"), &url);

        if ((why == NULL) != rows[i].taken) {
            fail_msg("%s: %s", rows[i].url, why == NULL ? "taken" : why);
        }
    }
}


static void
other_urls(void **state)
{
    size_t       i;
    il_url_t     url;
    const char  *why;

    static const struct {
        int          issuer;
        int          taken;
        const char  *url;
    } rows[] = {
        { 0, 1, "https://sns.us-west-2.amazonaws.com/?Action="
                "ConfirmSubscription&TopicArn=x&Token=y" },
        { 0, 0, "http://sns.us-west-2.amazonaws.com/?Action="
                "ConfirmSubscription&TopicArn=x" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/?Action="
                "ConfirmSubscriptionX&TopicArn=x" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/?Action=DeleteTopic&"
                "Action=ConfirmSubscription&x" },
        { 0, 0, "https://sns.us-west-2.amazonaws.com/?Action="
                "ConfirmSubscription&" },
        { 0, 0, "https://x.example/?Action=ConfirmSubscription&x" },
        { 1, 1, "http://crt.r2m01.amazontrust.com/r2m01.cer" },
        { 1, 1, "http://cacerts.digicert.com/DigiCertGlobalG2.crt" },
        { 1, 1, "https://cacerts.digicert.com/DigiCertGlobalG2.crt" },
        { 1, 0, "http://digicert.com.example/x.crt" },
        { 1, 0, "http://169.254.169.254/x.crt" },
        { 1, 0, "http://crt.r2m01.amazontrust.com:8080/r2m01.cer" },
        { 1, 0, "ldap://crt.r2m01.amazontrust.com/r2m01.cer" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        why = rows[i].issuer
              ? il_sig_pk_issuer_url(il_cstr(rows[i].url), il_lit(""), &url)
              : il_sig_pk_confirm_url(il_cstr(rows[i].url), il_lit(""), &url);

        if ((why == NULL) != rows[i].taken) {
            fail_msg("%s: %s", rows[i].url, why == NULL ? "taken" : why);
        }
    }
}


static void
names(void **state)
{
    size_t         i;
    il_sig_conf_t  sns_conf, paypal_conf;

    static const struct {
        int         paypal;
        int         taken;
        il_str_t    name;
    } rows[] = {
        { 0, 1, il_string("sns.amazonaws.com") },
        { 0, 1, il_string("sns.eu-west-1.amazonaws.com") },
        { 0, 1, il_string("sns-signing.me-south-1.amazonaws.com") },
        { 0, 1, il_string("sns-us-gov-west-1.amazonaws.com") },
        { 0, 1, il_string("sns-cn-north-1.amazonaws.com.cn") },
        { 0, 0, il_string("amazonaws.com") },
        { 0, 0, il_string("snsx.amazonaws.com") },
        { 0, 0, il_string("s3.amazonaws.com") },
        { 0, 0, il_string("*.amazonaws.com") },
        { 0, 0, il_string("sns.amazonaws.com.example") },
        { 0, 0, il_string("sns.\0.amazonaws.com") },
        { 0, 0, il_string("") },
        { 1, 1, il_string("messageverificationcerts.paypal.com") },
        { 1, 1, il_string("messageverificationcerts.sandbox.paypal.com") },
        { 1, 0, il_string("paypal.com") },
        { 1, 0, il_string("xpaypal.com") },
        { 1, 0, il_string("a\0.paypal.com") },
        { 1, 0, il_string("sns.amazonaws.com") },
    };

    (void) state;

    sig_conf(&sns_conf, "sns", TOPIC);
    sig_conf(&paypal_conf, "paypal", "WH");

    for (i = 0; i < il_rows(rows); i++) {
        if (il_sig_pk_name(rows[i].paypal ? paypal_conf.scheme
                                          : sns_conf.scheme, rows[i].name)
            != rows[i].taken)
        {
            fail_msg("%.*s", (int) rows[i].name.len, rows[i].name.data);
        }
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(sendgrid),
        cmocka_unit_test(paypal),
        cmocka_unit_test(sns),
        cmocka_unit_test(sns_refused),
        cmocka_unit_test(sns_topics),
        cmocka_unit_test(secrets),
        cmocka_unit_test(urls),
        cmocka_unit_test(other_urls),
        cmocka_unit_test(names),
    };

    return il_unit_run(tests);
}
