/*
 * sig_url.c: providers that sign the public URL: square, hubspot and twilio,
 * with the examples that their documents and SDKs publish.
 */

#include "sig.h"


#define NOW   1784883600
#define BODY  "{\"id\":7,\"name\":\"\\u00e4\\/b\"}"


/* Every byte of the URL counts, and it must be known. */

static void
abuse_url(const il_sig_conf_t *conf, sig_t *s)
{
    char      *copy;
    size_t     i, n;
    il_str_t   kept;

    assert_int_equal(il_sig_scheme_url(conf->scheme), 1);

    kept = s->req.url;
    n = kept.len;
    copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, kept.data, n);

    for (i = 0; i < n; i++) {
        copy[i] = (char) (kept.data[i] ^ 1);
        s->req.url = il_str(copy, n);
        sig_refused(conf, s);
        copy[i] = kept.data[i];

        s->req.url = il_str(copy, i);
        sig_refused(conf, s);
    }

    copy[n] = '/';
    s->req.url = il_str(copy, n + 1);
    sig_refused(conf, s);
    free(copy);

    s->req.url = il_str(NULL, 0);
    sig_expect(conf, s, IL_SIG_INVALID, IL_SIG_WHY_NO_URL);

    s->req.url = kept;
    sig_expect(conf, s, IL_SIG_OK, IL_SIG_WHY_OK);
}


static void
square(void **state)
{
    sig_t          s;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "square", "asdf1234");
    sig_init(&s, il_lit("{\"hello\":\"world\"}"), 0);
    s.req.url = il_lit("https://example.com/webhook");
    sig_add(&s, "x-square-hmacsha256-signature",
            "2kRE5qRU2tR+tBGlDwMEw2avJ7QM4ikPYD/PJ3bd9Og=");

    sig_abuse_signature(&conf, &s, 0);
    sig_abuse_body(&conf, &s);
    abuse_url(&conf, &s);
    assert_int_equal(s.allocs, 0);
}


/* The examples of hubspot-api-python and hubspot-api-ruby. */

static void
hubspot_published(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const struct {
        int64_t      now;
        const char  *timestamp;
        const char  *sig;
    } rows[] = {
        { 1693657560, "1693657560000",
          "K36dawei4A+QBNolUOqo7s91KQDWQ5MXZ/QufNYuk/Y=" },
        { 1700000300, "1700000300000",
          "RnbPH7+UMKVkbV32P8bz450N4M56aPmcru1+D3kSDtw=" },
    };

    (void) state;

    sig_conf(&conf, "hubspot", "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy");

    for (i = 0; i < il_rows(rows); i++) {
        sig_init(&s, il_lit("{'example_field':'example_value'}"),
                 rows[i].now);
        s.req.url = il_lit("https://www.example.com/webhook_uri");
        sig_add(&s, "X-HubSpot-Signature-v3", rows[i].sig);
        sig_add(&s, "X-HubSpot-Request-Timestamp", rows[i].timestamp);

        sig_abuse_signature(&conf, &s, 0);
        sig_abuse_timestamp(&conf, &s, 1);
        sig_abuse_body(&conf, &s);
        sig_abuse_clock(&conf, &s, 300);
        abuse_url(&conf, &s);

        s.req.method = il_lit("PUT");
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
        s.req.method = il_lit("POST");

        /* The end of the body and the time are not divided. */

        s.req.body = il_lit("{'example_field':'example_value'}1");
        sig_expect_with(&conf, &s, 1, rows[i].timestamp + 1,
                        IL_SIG_TIMESTAMP, IL_SIG_WHY_TOO_OLD);
    }

    /* An older signature may come along, and does not do alone: this is the
     * published example of version 1. */

    sig_init(&s, il_lit("[{\"eventId\":1,\"subscriptionId\":12345,"
                        "\"portalId\":62515,\"occurredAt\":1564113600000,"
                        "\"subscriptionType\":\"contact.creation\","
                        "\"attemptNumber\":0,\"objectId\":123,"
                        "\"changeSource\":\"CRM\",\"changeFlag\":\"NEW\","
                        "\"appId\":54321}]"), NOW);
    sig_add(&s, "X-HubSpot-Signature-Version", "v1");
    sig_add(&s, "X-HubSpot-Signature",
            "232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de"
            );
    sig_add(&s, "X-HubSpot-Request-Timestamp", "1784883600000");
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);
}


/* Twelve escapes are decoded before signing, says the document; the SDKs
 * sign what they are given.  Both must pass. */

static void
hubspot_escapes(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char *const  sigs[] = {
        "PN3dtooRTKg5Axk6U5qzoxb/JpznsdBtTyYLgXSnrqQ=",    /* decoded */
        "xKWT7gCeAv18ZSMXz/TA+h3xr3mZW/GHBpLfd0SuetQ=",    /* as it is */
    };

    (void) state;

    sig_conf(&conf, "hubspot", "cs");

    for (i = 0; i < il_rows(sigs); i++) {
        sig_init(&s, il_lit(BODY), NOW);
        s.req.url = il_exact(il_lit("https://h.example/a%3Ab/?x=%281%29%2C%40"
                                    "%21%24%2a%3b%27&y=%20%2f%3F"));
        sig_add(&s, "X-HubSpot-Signature-v3", sigs[i]);
        sig_add(&s, "X-HubSpot-Request-Timestamp", "1784883600123");
        sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        assert_int_equal(s.allocs, 1);

        s.no_memory = 1;
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
        s.no_memory = 0;
        il_drop(s.req.url);

        /* Escapes that end too early. */

        s.req.url = il_exact(il_lit("https://h.example/%3"));
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
        il_drop(s.req.url);
        s.req.url = il_exact(il_lit("https://h.example/%"));
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
        il_drop(s.req.url);
    }
}


#define TWILIO_URL  "https://mycompany.com/myapp.php?foo=1&bar=2"
#define TWILIO_FORM                                                           \
    "To=%2B18005551212&CallSid=CA1234567890ABCDE&From=%2B14158675309"         \
    "&Digits=1234&Caller=%2B14158675309"


static void
twilio_init(sig_t *s, const char *url, const char *body, const char *sig)
{
    sig_init(s, il_cstr(body), 0);
    s->req.url = il_cstr(url);
    sig_add(s, "X-Twilio-Signature", sig);
    sig_add(s, "Content-Type", "application/x-www-form-urlencoded; "
                               "charset=UTF-8");
}


static void
twilio_published(void **state)
{
    sig_t          s;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "twilio", "12345");
    twilio_init(&s, TWILIO_URL, TWILIO_FORM, "RSOYDt4T1cUTdK1PDd93/VVr8B8=");

    sig_abuse_signature(&conf, &s, 0);
    sig_abuse_body(&conf, &s);
    abuse_url(&conf, &s);

    s.no_memory = 1;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    s.no_memory = 0;

    /* The order of the fields and the form of the escapes are free. */

    s.req.body = il_lit("Caller=%2b14158675309&CallSid=CA1234567890ABCDE"
                        "&&Digits=1%32%33%34&From=%2B14158675309"
                        "&To=%2B18005551212&");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

    sig_conf(&conf, "twilio", "new\n12345\n");
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    sig_conf(&conf, "twilio", "new");
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
}


/* Signed by twilio-node: fields in order of bytes, one of them three times
 * with two values, an empty one, UTF-8. */

static void
twilio_order(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char *const  forms[] = {
        "b=2&b=1&b=2&a=x+y&B=%C3%A9&ab=",
        "ab&b=1&a=x%20y&b=2&B=\xc3\xa9",
        "%61b=&b=%31&b=1&a=x+y&b=2&%42=%c3%A9",
    };

    static const char *const  not_forms[] = {
        "b=2&b=1&a=x+y&B=%C3%A9&ab=%", "b=2&b=1&a=x+y&B=%C3%A9&ab=%4",
        "b=2&b=1&a=x+y&B=%C3%G9&ab=",
    };

    static const char *const  others[] = {
        "b=2&a=x+y&B=%C3%A9&ab=", "b=2&b=1&b=3&a=x+y&B=%C3%A9&ab=",
        "b=2&b=1&a=x+y&B=%C3%A9&ab=&c=d", "b=2&b=1&a=x+y&B=e&ab=",
        "b=2;b=1;a=x+y;B=%C3%A9;ab=",
    };

    (void) state;

    sig_conf(&conf, "twilio", "12345");

    for (i = 0; i < il_rows(forms); i++) {
        twilio_init(&s, "https://example.com/a", forms[i],
                    "c51JVNw09qraPyswQD9k1EgACtk=");
        sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

        s.values[0] = "GGbo2B/LIfs910/sgVrfNgRCa+tbWEl1FHMZRK1x9ps=";
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);

        /* The settings say which algorithm it is. */

        sig_add(&s, "X-Twilio-Webhooks-Signature-Settings",
                "key=webhooks_sharedkey_1,algorithm=HMAC_SHA256");
        sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        sig_expect_with(&conf, &s, 2, "algorithm=HMAC_SHA256 , key=1",
                        IL_SIG_OK, IL_SIG_WHY_OK);
        sig_expect_with(&conf, &s, 2, "key=1,algorithm=HMAC_SHA1",
                        IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
        sig_expect_with(&conf, &s, 2, "algorithm=HMAC_SHA512",
                        IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
        sig_expect_with(&conf, &s, 2, "algorithm=none", IL_SIG_INVALID,
                        IL_SIG_WHY_MALFORMED);
        sig_expect_with(&conf, &s, 2, "", IL_SIG_INVALID,
                        IL_SIG_WHY_MALFORMED);

        sig_add(&s, s.names[2], s.values[2]);
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);

        s.n = 3;
        s.values[0] = "c51JVNw09qraPyswQD9k1EgACtk=";
        sig_expect_with(&conf, &s, 2, "key=1", IL_SIG_OK, IL_SIG_WHY_OK);
        sig_expect_with(&conf, &s, 2, "algorithm=HMAC_SHA1", IL_SIG_OK,
                        IL_SIG_WHY_OK);
    }

    for (i = 0; i < il_rows(not_forms); i++) {
        twilio_init(&s, "https://example.com/a", not_forms[i],
                    "c51JVNw09qraPyswQD9k1EgACtk=");
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_BODY);
    }

    for (i = 0; i < il_rows(others); i++) {
        twilio_init(&s, "https://example.com/a", others[i],
                    "c51JVNw09qraPyswQD9k1EgACtk=");
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    }
}


/* Signs URL and text as Twilio does; the URL as it was requested then has or
 * has not the port. */

static void
twilio_ports(void **state)
{
    char           sig[64];
    size_t         i;
    sig_t          s;
    il_str_t       pieces[1];
    il_sig_conf_t  conf;

    static const struct {
        const char  *signed_url;
        const char  *url;
        int          valid;
    } rows[] = {
        { "https://h.example/a", "https://h.example:443/a", 1 },
        { "https://h.example:443/a", "https://h.example/a", 1 },
        { "https://h.example:8443/a", "https://h.example:8443/a", 1 },
        { "https://h.example/a", "https://h.example:8443/a", 1 },
        { "https://h.example:8443/a", "https://h.example/a", 0 },
        { "https://h.example:80/a", "https://h.example/a", 0 },
        { "http://h.example:80/a", "http://h.example/a", 1 },
        { "http://h.example:443/a", "http://h.example/a", 0 },
        { "HTTPS://h.example:443/a", "HTTPS://h.example/a", 1 },
        { "https://h.example:443?a=:1", "https://h.example?a=:1", 1 },
        { "https://h.example:443", "https://h.example", 1 },
        { "https://u:p@h.example:443/a", "https://u:p@h.example/a", 1 },
        { "https://u:p@h.example/a", "https://u:p@h.example:443/a", 1 },
        { "https://[::1]:443/a", "https://[::1]/a", 1 },
        { "https://[::1]/a", "https://[::1]:443/a", 1 },
        { "https://h.example:443/a:1@b", "https://h.example/a:1@b", 1 },
        { "https://h.example:443/a'b", "https://h.example/a'b", 1 },
        { "https://h.example/a%27b", "https://h.example/a'b", 0 },
        { "https://h.example:443/a", "https://H.example/a", 0 },
        { "h.example:443/a", "h.example/a", 0 },
        { "h.example/a", "h.example/a", 1 },
    };

    (void) state;

    sig_conf(&conf, "twilio", "12345");

    for (i = 0; i < il_rows(rows); i++) {
        pieces[0] = il_cstr(rows[i].signed_url);
        sig_sign(sig, sizeof(sig), IL_SIG_SHA1, IL_SIG_BASE64,
                 il_lit("12345"), pieces, 1);
        twilio_init(&s, rows[i].url, "", sig);
        s.req.url = il_exact(s.req.url);

        if (rows[i].valid) {
            sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        } else {
            sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
        }

        il_drop(s.req.url);
    }
}


#define TWILIO_JSON  "{\"property\": \"value\", \"boolean\": true}"
#define TWILIO_HASH                                                           \
    "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"


/* The example of twilio-node's tests. */

static void
twilio_json(void **state)
{
    char           sig[64];
    size_t         i;
    sig_t          s;
    il_str_t       piece;
    il_sig_conf_t  conf;

    static const char *const  malformed[] = {
        TWILIO_URL "&bodySHA256=", TWILIO_URL "&bodySHA256",
        TWILIO_URL "&bodySHA256=0a1f",
        TWILIO_URL "&bodySHA256=" TWILIO_HASH "00",
        TWILIO_URL "&bodySHA256=" TWILIO_HASH "&bodySHA256=" TWILIO_HASH,
    };

    (void) state;

    sig_conf(&conf, "twilio", "12345");
    twilio_init(&s, TWILIO_URL "&bodySHA256=" TWILIO_HASH, TWILIO_JSON,
                "a9nBmqA0ju/hNViExpshrM61xv4=");
    s.values[1] = "application/json";

    sig_abuse_signature(&conf, &s, 0);
    sig_abuse_body(&conf, &s);
    abuse_url(&conf, &s);
    assert_int_equal(s.allocs, 0);

    for (i = 0; i < il_rows(malformed); i++) {
        piece = il_cstr(malformed[i]);
        sig_sign(sig, sizeof(sig), IL_SIG_SHA1, IL_SIG_BASE64,
                 il_lit("12345"), &piece, 1);
        s.values[0] = sig;
        s.req.url = piece;
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    }

    /* Without a hash in the URL nothing covers a body that is no form. */

    piece = il_lit(TWILIO_URL);
    sig_sign(sig, sizeof(sig), IL_SIG_SHA1, IL_SIG_BASE64, il_lit("12345"),
             &piece, 1);
    s.req.url = piece;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_BODY);
    s.names[1] = "X-Nothing";
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_BODY);

    s.req.body = il_str(NULL, 0);
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    assert_int_equal(s.allocs, 0);

    s.req.body = il_lit("&");
    s.names[1] = "Content-Type";
    s.values[1] = "application/x-www-form-urlencodedx";
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_BODY);
    s.values[1] = "Application/X-WWW-Form-Urlencoded";
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    sig_add(&s, "content-type", "application/x-www-form-urlencoded");
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);
}


/* As many fields as a form may have, in the worst orders; then one more. */

static void
twilio_many(void **state)
{
    char           sig[64], *form, *text;
    size_t         i, k, n, used, length;
    sig_t          s;
    il_str_t       piece;
    il_sig_conf_t  conf;

    const size_t  cap = 32 * 1024;

    (void) state;

    sig_conf(&conf, "twilio", "12345");
    form = malloc(cap);
    text = malloc(cap);
    assert_non_null(form);
    assert_non_null(text);

    for (k = 0; k < 4; k++) {
        n = k == 3 ? 1001 : 1000;
        length = (size_t) snprintf(text, cap, "https://example.com/a");
        used = 0;

        for (i = 0; i < n; i++) {
            length += (size_t) snprintf(text + length, cap - length,
                                        "f%04zuv", i);
            used += (size_t) snprintf(form + used, cap - used, "f%04zu=v&",
                                      k == 0 ? i : k == 1 ? n - 1 - i
                                                          : i * 389 % n);
        }

        piece = il_str(text, length);
        sig_sign(sig, sizeof(sig), IL_SIG_SHA1, IL_SIG_BASE64,
                 il_lit("12345"), &piece, 1);
        twilio_init(&s, "https://example.com/a", form, sig);

        if (k < 3) {
            sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
            assert_int_equal(s.allocs, 1);
        } else {
            sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_BODY);
            assert_int_equal(s.allocs, 0);
        }
    }

    free(form);
    free(text);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(square),
        cmocka_unit_test(hubspot_published),
        cmocka_unit_test(hubspot_escapes),
        cmocka_unit_test(twilio_published),
        cmocka_unit_test(twilio_order),
        cmocka_unit_test(twilio_ports),
        cmocka_unit_test(twilio_json),
        cmocka_unit_test(twilio_many),
    };

    return il_unit_run(tests);
}
