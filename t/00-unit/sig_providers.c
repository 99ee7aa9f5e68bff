/*
 * sig_providers.c: github, with its published example (docs.github.com,
 * "Validating webhook deliveries"), and stripe; rotation; tolerance.
 */

#include "sig.h"


#define GITHUB_SECRET  "It's a Secret to Everybody"
#define GITHUB_SIG                                                            \
    "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

#define STRIPE_SECRET  "whsec_test_secret"
#define STRIPE_BODY    "{\n  \"id\": \"evt_test_webhook\"\n}"
#define STRIPE_NOW     1784883600


static void
github(void **state)
{
    char           text[80];
    sig_t          s;
    size_t         i;
    il_sig_conf_t  conf;

    static const struct {
        const char    *value;
        il_sig_why_e   why;
    } rows[] = {
        { "sha256=" GITHUB_SIG, IL_SIG_WHY_OK },
        { "sha256=757107EA0EB2509FC211221CCE984B8A37570B6D7586C22C46F4379C8B"
          "043E17", IL_SIG_WHY_OK },
        { "", IL_SIG_WHY_MALFORMED },
        { "sha256=", IL_SIG_WHY_MALFORMED },
        { GITHUB_SIG, IL_SIG_WHY_MALFORMED },
        { "sha1=" GITHUB_SIG, IL_SIG_WHY_MALFORMED },
        { "SHA256=" GITHUB_SIG, IL_SIG_WHY_MALFORMED },
        { "sha256= " GITHUB_SIG, IL_SIG_WHY_MALFORMED },
        { "sha256=" GITHUB_SIG " ", IL_SIG_WHY_MALFORMED },
        { "sha256=" GITHUB_SIG "00", IL_SIG_WHY_MALFORMED },
        { "sha256=" GITHUB_SIG ",sha256=" GITHUB_SIG, IL_SIG_WHY_MALFORMED },
        { "sha256=757107ea", IL_SIG_WHY_MALFORMED },
        { "sha256=g57107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b"
          "043e17", IL_SIG_WHY_MALFORMED },
    };

    (void) state;

    sig_conf(&conf, "github", GITHUB_SECRET "\n");

    for (i = 0; i < il_rows(rows); i++) {
        sig_init(&s, il_lit("Hello, World!"), 0);
        sig_add(&s, "X-Hub-Signature-256", rows[i].value);
        sig_add(&s, "X-Hub-Signature", "sha1=anything");
        sig_expect(&conf, &s,
                   rows[i].why == IL_SIG_WHY_OK ? IL_SIG_OK : IL_SIG_INVALID,
                   rows[i].why);
    }

    /* Every bit of the signature counts. */

    for (i = 0; i < 64; i++) {
        (void) snprintf(text, sizeof(text), "sha256=" GITHUB_SIG);
        text[7 + i] = text[7 + i] == '0' ? '1' : '0';
        sig_init(&s, il_lit("Hello, World!"), 0);
        sig_add(&s, "x-hub-signature-256", text);
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    }

    sig_init(&s, il_lit("Hello, World?"), 0);
    sig_add(&s, "X-Hub-Signature-256", "sha256=" GITHUB_SIG);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

    sig_init(&s, il_lit("Hello, World!"), 0);
    sig_add(&s, "X-Hub-Signature", "sha1=" GITHUB_SIG);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);

    /* The secret's own end: white space or a NUL make another secret. */

    sig_conf(&conf, "github", "It's a Secret to Everybod");
    sig_init(&s, il_lit("Hello, World!"), 0);
    sig_add(&s, "X-Hub-Signature-256", "sha256=" GITHUB_SIG);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

    assert_int_equal(il_sig_scheme_is_provider(conf.scheme), 1);
    assert_int_equal(s.allocs, 0);
}


static void
github_headers_that_occur_twice(void **state)
{
    sig_t          s;
    size_t         i;
    il_sig_conf_t  conf;

    static const char *const  names[] = {
        "X-Hub-Signature-256", "x-hub-signature-256", "X-GitHub-Delivery",
        "X-GitHub-Event",
    };

    (void) state;

    sig_conf(&conf, "github", GITHUB_SECRET);

    for (i = 0; i < il_rows(names); i++) {
        sig_init(&s, il_lit("Hello, World!"), 0);
        sig_add(&s, "X-Hub-Signature-256", "sha256=" GITHUB_SIG);
        sig_add(&s, "X-GitHub-Delivery", "sha256=" GITHUB_SIG);
        sig_add(&s, "X-GitHub-Event", "sha256=" GITHUB_SIG);
        sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

        /* The same value again is refused as well. */

        sig_add(&s, names[i], "sha256=" GITHUB_SIG);
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);
    }
}


static void
every_secret_is_tried(void **state)
{
    char           secrets[1024];
    sig_t          s;
    size_t         i, k, used;
    il_sig_conf_t  conf;

    (void) state;

    for (i = 0; i < IL_SIG_SECRETS_MAX; i++) {
        used = 0;

        for (k = 0; k < IL_SIG_SECRETS_MAX; k++) {
            used += (size_t) snprintf(secrets + used, sizeof(secrets) - used,
                                      "%s\n", k == i ? GITHUB_SECRET
                                                     : "another");
        }

        sig_conf(&conf, "github", secrets);
        assert_int_equal(conf.nsecrets, IL_SIG_SECRETS_MAX);

        sig_init(&s, il_lit("Hello, World!"), 0);
        sig_add(&s, "X-Hub-Signature-256", "sha256=" GITHUB_SIG);
        sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    }

    il_sig_conf_wipe(&conf);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
}


/* Signs "t.body" and writes 64 digits and a NUL. */

static void
stripe_sign(char out[65], const char *secret, const char *t, const char *body)
{
    il_str_t  pieces[3];

    pieces[0] = il_cstr(t);
    pieces[1] = il_lit(".");
    pieces[2] = il_cstr(body);
    sig_sign(out, 65, IL_SIG_SHA256, IL_SIG_HEX, il_cstr(secret), pieces, 3);
}


static void
stripe_row(const il_sig_conf_t *conf, const char *format, il_sig_rc_e rc,
    il_sig_why_e why)
{
    char         text[4096], sig[65];
    sig_t        s;
    size_t       used;
    const char  *p;

    stripe_sign(sig, STRIPE_SECRET, "1784883600", STRIPE_BODY);

    /* "$" stands for the right signature, "#" for a wrong one. */

    used = 0;

    for (p = format; *p != '\0'; p++) {
        assert_true(used + 66 < sizeof(text));

        if (*p == '$') {
            memcpy(text + used, sig, 64);
            used += 64;
        } else if (*p == '#') {
            memset(text + used, '0', 64);
            used += 64;
        } else {
            text[used++] = *p;
        }
    }

    text[used] = '\0';

    sig_init(&s, il_lit(STRIPE_BODY), STRIPE_NOW);
    sig_add(&s, "Stripe-Signature", text);
    sig_expect(conf, &s, rc, why);
}


static void
stripe(void **state)
{
    sig_t          s;
    size_t         i;
    il_sig_conf_t  conf;

    static const char *const  good[] = {
        "t=1784883600,v1=$",
        "v1=$,t=1784883600",
        "t=1784883600,v1=$,v0=#",
        "t=1784883600,v0=#,v1=#,v1=$",
        "t=1784883600,v1=$,v1=#",
        "t=1784883600,v1=#,v1=#,v1=$,v2=x,scheme=y",
        "t=1784883600,v1=short,v1=$",
        "t=1784883600,v1=$,v0=",
        "t=1784883600, v0=#,v1=$",
    };

    static const char *const  malformed[] = {
        "", ",", "t=1784883600", "v1=$", "t=,v1=$", "t=1784883600,v1=",
        "t=1784883600,v0=$", "t=1784883600,v1", "t=1784883600,v1=$,",
        "t=1784883600,,v1=$", "t=-1784883600,v1=$", "t=+1784883600,v1=$",
        "t= 1784883600,v1=$", "t=1784883600 ,v1=$", "t=0x6a632990,v1=$",
        "t=1784883600.0,v1=$", "t=1e9,v1=$", "t=01784883600000000000,v1=$",
        "t=18446744073709551616,v1=$", "t=1784883600,t=1784883600,v1=$",
        "T=1784883600,v1=$", "t=1784883600;v1=$", "t=1784883600,V1=$",
        "t=1784883600, v1=$", "t=1784883600,v1= $", "t=1784883600,v1=$ ",
        "t=1784883600,v1=$$", "t=1784883600 v1=$", "$",
    };

    (void) state;

    sig_conf(&conf, "stripe", STRIPE_SECRET);
    assert_int_equal(conf.tolerance, 300);

    for (i = 0; i < il_rows(good); i++) {
        stripe_row(&conf, good[i], IL_SIG_OK, IL_SIG_WHY_OK);
    }

    for (i = 0; i < il_rows(malformed); i++) {
        stripe_row(&conf, malformed[i], IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    }

    stripe_row(&conf, "t=1784883600,v1=#", IL_SIG_INVALID,
               IL_SIG_WHY_MISMATCH);
    stripe_row(&conf, "t=1784883600,v1=#,v0=$", IL_SIG_INVALID,
               IL_SIG_WHY_MISMATCH);

    /* Another time than the signed one, the same number spelled otherwise. */

    stripe_row(&conf, "t=1784883601,v1=$", IL_SIG_INVALID,
               IL_SIG_WHY_MISMATCH);
    stripe_row(&conf, "t=01784883600,v1=$", IL_SIG_INVALID,
               IL_SIG_WHY_MISMATCH);

    /* The whole secret is the key, with its prefix. */

    sig_conf(&conf, "stripe", "test_secret");
    stripe_row(&conf, "t=1784883600,v1=$", IL_SIG_INVALID,
               IL_SIG_WHY_MISMATCH);

    sig_conf(&conf, "stripe", "whsec_new\n" STRIPE_SECRET "\n");
    stripe_row(&conf, "t=1784883600,v1=#,v1=$", IL_SIG_OK, IL_SIG_WHY_OK);

    sig_init(&s, il_lit(STRIPE_BODY), STRIPE_NOW);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);
    sig_add(&s, "Stripe-Signature", "t=1,v1=x");
    sig_add(&s, "stripe-signature", "t=1,v1=x");
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);
}


/* The right one is the last of as many as may be listed, then too far. */

static void
stripe_lists(void **state)
{
    char           many[2048];
    size_t         i, k, used;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "stripe", STRIPE_SECRET);

    for (i = IL_SIG_LISTED_MAX - 1; i <= IL_SIG_LISTED_MAX; i++) {
        used = (size_t) snprintf(many, sizeof(many), "t=1784883600");

        for (k = 0; k < i; k++) {
            used += (size_t) snprintf(many + used, sizeof(many) - used,
                                      ",v1=#");
        }

        (void) snprintf(many + used, sizeof(many) - used, ",v1=$");

        if (i < IL_SIG_LISTED_MAX) {
            stripe_row(&conf, many, IL_SIG_OK, IL_SIG_WHY_OK);
        } else {
            stripe_row(&conf, many, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
        }
    }
}


static void
tolerance_on_both_sides(void **state)
{
    size_t         i;
    sig_t          s;
    char           text[128], sig[65];
    il_sig_conf_t  conf;

    static const struct {
        const char    *tolerance;
        int64_t        offset;        /* now - t */
        il_sig_why_e   why;
    } rows[] = {
        { "300", 0, IL_SIG_WHY_OK },
        { "300", 300, IL_SIG_WHY_OK },
        { "300", 301, IL_SIG_WHY_TOO_OLD },
        { "300", -300, IL_SIG_WHY_OK },
        { "300", -301, IL_SIG_WHY_IN_FUTURE },
        { "300s", 86400, IL_SIG_WHY_TOO_OLD },
        { "5s", 5, IL_SIG_WHY_OK },
        { "5s", 6, IL_SIG_WHY_TOO_OLD },
        { "5s", -6, IL_SIG_WHY_IN_FUTURE },
        { "10m", 600, IL_SIG_WHY_OK },
        { "10m", 601, IL_SIG_WHY_TOO_OLD },
        { "24h", 86400, IL_SIG_WHY_OK },
        { "24h", -86401, IL_SIG_WHY_IN_FUTURE },
    };

    (void) state;

    stripe_sign(sig, STRIPE_SECRET, "1784883600", STRIPE_BODY);
    (void) snprintf(text, sizeof(text), "t=1784883600,v1=%s", sig);

    for (i = 0; i < il_rows(rows); i++) {
        sig_conf(&conf, "stripe", STRIPE_SECRET);
        sig_arg(&conf, "tolerance", rows[i].tolerance);

        sig_init(&s, il_lit(STRIPE_BODY), STRIPE_NOW + rows[i].offset);
        sig_add(&s, "Stripe-Signature", text);
        sig_expect(&conf, &s, rows[i].why == IL_SIG_WHY_OK
                              ? IL_SIG_OK : IL_SIG_TIMESTAMP, rows[i].why);

        /* A signature that does not fit is told as that, whatever its time. */

        s.req.body = il_lit("{}");
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    }

    /* The largest time that can be written is only in the future. */

    stripe_sign(sig, STRIPE_SECRET, "999999999999999999", STRIPE_BODY);
    (void) snprintf(text, sizeof(text), "t=999999999999999999,v1=%s", sig);
    sig_conf(&conf, "stripe", STRIPE_SECRET);
    sig_init(&s, il_lit(STRIPE_BODY), STRIPE_NOW);
    sig_add(&s, "Stripe-Signature", text);
    sig_expect(&conf, &s, IL_SIG_TIMESTAMP, IL_SIG_WHY_IN_FUTURE);

    assert_int_equal(il_sig_verify(&conf, &s.req, NULL), IL_SIG_TIMESTAMP);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(github),
        cmocka_unit_test(github_headers_that_occur_twice),
        cmocka_unit_test(every_secret_is_tried),
        cmocka_unit_test(stripe),
        cmocka_unit_test(stripe_lists),
        cmocka_unit_test(tolerance_on_both_sides),
    };

    return il_unit_run(tests);
}
