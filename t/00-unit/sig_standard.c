/*
 * sig_standard.c: Standard Webhooks and Svix, with the published examples of
 * the JavaScript library of standard-webhooks and of svix-webhooks' server.
 */

#include "sig.h"


#define STD_SECRET    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER_SECRET  "whsec_AAAAAAAAAAAAAAAAAAAAAA=="
#define STD_PUBLIC    "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
#define STD_BODY      "{\"test\": 2432232314}"
#define STD_ID      "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define STD_TS      "1614265330"
#define STD_NOW     1614265330
#define STD_V1      "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
#define STD_V1A                                                               \
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpX" \
    "wVLPo3mNl8EM+m7TBAg=="

/* Of the right form, over nothing in particular. */
#define OTHER_V1    "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define OTHER_V1A                                                             \
    "v1a,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" \
    "AAAAAAAAAAAAAAAAAAA=="


static void
standard_with(sig_t *s, const char *prefix, const char *id, const char *ts,
    const char *signature)
{
    static const char *const  names[][3] = {
        { "webhook-id", "webhook-timestamp", "webhook-signature" },
        { "svix-id", "svix-timestamp", "svix-signature" },
    };

    size_t  row;

    row = strcmp(prefix, "svix") == 0;

    sig_add(s, names[row][0], id);
    sig_add(s, names[row][1], ts);
    sig_add(s, names[row][2], signature);
}


static void
standard_row(const char *secrets, const char *signature, il_sig_rc_e rc,
    il_sig_why_e why)
{
    sig_t          s;
    il_sig_conf_t  conf;

    sig_conf(&conf, "standard", secrets);

    sig_init(&s, il_lit(STD_BODY), STD_NOW);
    standard_with(&s, "webhook", STD_ID, STD_TS, signature);
    sig_expect(&conf, &s, rc, why);

    sig_init(&s, il_lit(STD_BODY), STD_NOW);
    standard_with(&s, "svix", STD_ID, STD_TS, signature);
    sig_expect(&conf, &s, rc, why);
}


static void
standard(void **state)
{
    (void) state;

    standard_row(STD_SECRET, STD_V1, IL_SIG_OK, IL_SIG_WHY_OK);
    standard_row("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", STD_V1, IL_SIG_OK,
                 IL_SIG_WHY_OK);
    standard_row(STD_PUBLIC, STD_V1A, IL_SIG_OK, IL_SIG_WHY_OK);

    /* Rotation: of the secrets, of the signatures, of both; mixed kinds. */

    standard_row(OTHER_SECRET "\n" STD_SECRET, STD_V1, IL_SIG_OK,
                 IL_SIG_WHY_OK);
    standard_row(STD_SECRET "\n" OTHER_SECRET, OTHER_V1 " " STD_V1, IL_SIG_OK,
                 IL_SIG_WHY_OK);
    standard_row(STD_SECRET, STD_V1 " " OTHER_V1, IL_SIG_OK, IL_SIG_WHY_OK);
    standard_row(STD_SECRET "\n" STD_PUBLIC, STD_V1 " " STD_V1A, IL_SIG_OK,
                 IL_SIG_WHY_OK);
    standard_row(OTHER_SECRET "\n" STD_PUBLIC, OTHER_V1 " " STD_V1A, IL_SIG_OK,
                 IL_SIG_WHY_OK);
    standard_row(STD_PUBLIC "\n" STD_SECRET, STD_V1 " " OTHER_V1A, IL_SIG_OK,
                 IL_SIG_WHY_OK);
    standard_row("whpk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
                 STD_PUBLIC, OTHER_V1A " " STD_V1A, IL_SIG_OK,
                 IL_SIG_WHY_OK);
    standard_row(STD_SECRET, "v2,x v1b,AAAA x " STD_V1 " v0,y", IL_SIG_OK,
                 IL_SIG_WHY_OK);
    standard_row(STD_SECRET, " " STD_V1 "  ", IL_SIG_OK, IL_SIG_WHY_OK);
    standard_row(STD_SECRET, "v1,AAAA " STD_V1, IL_SIG_OK, IL_SIG_WHY_OK);

    standard_row(STD_SECRET, OTHER_V1, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    standard_row(OTHER_SECRET, STD_V1, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    standard_row(STD_PUBLIC, OTHER_V1A, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

    standard_row(STD_PUBLIC "\nwhpk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                 "=", STD_V1A " " OTHER_V1A, IL_SIG_OK, IL_SIG_WHY_OK);

    /* A key of one kind never serves for the other, not even if its bytes
     * are the same. */

    standard_row("whsec_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=\n"
                 "whpk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", STD_V1A,
                 IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

    standard_row(STD_SECRET, STD_V1A, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
    standard_row(STD_PUBLIC, STD_V1, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
}


/* The public key's bytes are known to all: as an HMAC secret they must not
 * be worth anything. */

static void
public_key_is_no_secret(void **state)
{
    char           sig[64], text[80];
    sig_t          s;
    size_t         n;
    uint8_t        pk[32];
    il_str_t       pieces[1];
    il_sig_conf_t  conf;

    (void) state;

    assert_int_equal(il_b64_decode(pk, 32, &n,
                                   il_cstr(STD_PUBLIC + strlen("whpk_")),
                                   IL_B64_STD), 0);
    pieces[0] = il_lit(STD_ID "." STD_TS "." STD_BODY);
    sig_sign(sig, sizeof(sig), IL_SIG_SHA256, IL_SIG_BASE64,
             il_str((const char *) pk, 32), pieces, 1);
    (void) snprintf(text, sizeof(text), "v1,%s", sig);

    sig_conf(&conf, "standard", STD_PUBLIC);
    sig_init(&s, il_lit(STD_BODY), STD_NOW);
    standard_with(&s, "webhook", STD_ID, STD_TS, text);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
}


static void
standard_malformed(void **state)
{
    size_t         i;
    sig_t          s;
    il_sig_conf_t  conf;

    static const char *const  bad[] = {
        "", " ", "v1", "v1,", "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v1, g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "V1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v1=g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OF=",
        "v1,g0hM9SsE-OTPJTGt_tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1A==",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OEAAA==",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=,x",
        "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v1a,", "v1a,AAAA", "v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v1\tg0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    };

    static const char *const  times[] = {
        "", "+1614265330", "-1614265330", " 1614265330", "1614265330 ",
        "1614265330.0", "0x60378132", "1e9", "16142653301614265330", "now",
    };

    static const char *const  ids[] = {
        "", "msg\n", "msg.1614265330", "a.b.123456789",
    };

    (void) state;

    for (i = 0; i < il_rows(bad); i++) {
        standard_row(STD_SECRET, bad[i], IL_SIG_INVALID,
                     IL_SIG_WHY_MALFORMED);
    }

    sig_conf(&conf, "standard", STD_SECRET);

    for (i = 0; i < il_rows(times); i++) {
        sig_init(&s, il_lit(STD_BODY), STD_NOW);
        standard_with(&s, "webhook", STD_ID, times[i], STD_V1);
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    }

    for (i = 0; i < il_rows(ids); i++) {
        sig_init(&s, il_lit(STD_BODY), STD_NOW);
        standard_with(&s, "webhook", ids[i], STD_TS, STD_V1);
        sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    }

    /* Anything else of the three changed: it is signed. */

    sig_init(&s, il_lit(STD_BODY), STD_NOW);
    standard_with(&s, "webhook", "msg_other", STD_TS, STD_V1);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

    sig_init(&s, il_lit(STD_BODY), STD_NOW);
    standard_with(&s, "webhook", STD_ID, "1614265331", STD_V1);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

    sig_init(&s, il_lit(STD_BODY " "), STD_NOW);
    standard_with(&s, "webhook", STD_ID, STD_TS, STD_V1);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

    for (i = 0; i < 2; i++) {
        sig_init(&s, il_lit(STD_BODY), STD_NOW + (i == 0 ? 301 : -301));
        standard_with(&s, "webhook", STD_ID, STD_TS, STD_V1);
        sig_expect(&conf, &s, IL_SIG_TIMESTAMP,
                   i == 0 ? IL_SIG_WHY_TOO_OLD : IL_SIG_WHY_IN_FUTURE);
    }
}


/* The end of the id and the beginning of the body cannot be moved into the
 * timestamp: "id.ts.body" is the same text for both. */

static void
standard_pieces_cannot_be_moved(void **state)
{
    char           sig[64], text[80];
    sig_t          s;
    size_t         n;
    uint8_t        key[64];
    il_str_t       pieces[1];
    il_sig_conf_t  conf;

    (void) state;

    assert_int_equal(il_b64_decode(key, sizeof(key), &n,
                                   il_cstr(STD_SECRET + strlen("whsec_")),
                                   IL_B64_STD), 0);
    pieces[0] = il_lit("msg_1.1500000000.1614265330.rest");
    sig_sign(sig, sizeof(sig), IL_SIG_SHA256, IL_SIG_BASE64,
             il_str((const char *) key, n), pieces, 1);
    (void) snprintf(text, sizeof(text), "v1,%s", sig);

    sig_conf(&conf, "standard", STD_SECRET);

    sig_init(&s, il_lit("1614265330.rest"), 1500000000);
    standard_with(&s, "webhook", "msg_1", "1500000000", text);
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

    sig_init(&s, il_lit("rest"), STD_NOW);
    standard_with(&s, "webhook", "msg_1.1500000000", STD_TS, text);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
}


static void
standard_headers(void **state)
{
    sig_t          s;
    size_t         i, k;
    il_sig_conf_t  conf;

    static const char *const  names[2][3] = {
        { "webhook-id", "webhook-timestamp", "webhook-signature" },
        { "svix-id", "svix-timestamp", "svix-signature" },
    };

    static const char *const  values[3] = { STD_ID, STD_TS, STD_V1 };

    (void) state;

    sig_conf(&conf, "standard", STD_SECRET);

    for (k = 0; k < 2; k++) {
        for (i = 0; i < 3; i++) {

            /* One is missing. */

            sig_init(&s, il_lit(STD_BODY), STD_NOW);
            sig_add(&s, names[k][(i + 1) % 3], values[(i + 1) % 3]);
            sig_add(&s, names[k][(i + 2) % 3], values[(i + 2) % 3]);
            sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);

            /* One occurs twice, with the same value even. */

            sig_init(&s, il_lit(STD_BODY), STD_NOW);
            standard_with(&s, k == 0 ? "webhook" : "svix", STD_ID, STD_TS,
                          STD_V1);
            sig_add(&s, names[k][i], values[i]);
            sig_expect(&conf, &s, IL_SIG_INVALID,
                       IL_SIG_WHY_REPEATED_HEADER);

            /* Under both names: only with one value. */

            sig_init(&s, il_lit(STD_BODY), STD_NOW);
            standard_with(&s, k == 0 ? "webhook" : "svix", STD_ID, STD_TS,
                          STD_V1);
            sig_add(&s, names[1 - k][i], values[i]);
            sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

            s.values[3] = "another";
            sig_expect(&conf, &s, IL_SIG_INVALID,
                       IL_SIG_WHY_REPEATED_HEADER);
        }
    }
}


static void
standard_v1a_needs_memory(void **state)
{
    char           many[1024];
    sig_t          s;
    size_t         i, k;
    il_sig_conf_t  conf;

    (void) state;

    sig_conf(&conf, "standard", STD_PUBLIC);

    sig_init(&s, il_lit(STD_BODY), STD_NOW);
    standard_with(&s, "webhook", STD_ID, STD_TS, STD_V1A);
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    assert_int_equal(s.allocs, 1);

    s.no_memory = 1;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);

    s.req.alloc = NULL;
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);

    /* Not asked for where it is of no use; not needed for v1. */

    sig_conf(&conf, "standard", STD_SECRET);
    sig_init(&s, il_lit(STD_BODY), STD_NOW);
    standard_with(&s, "webhook", STD_ID, STD_TS, STD_V1 " " STD_V1A);
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
    assert_int_equal(s.allocs, 0);

    sig_conf(&conf, "standard", STD_SECRET "\n" STD_PUBLIC);
    s.req.alloc = NULL;
    sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);

    /* The last one of those that may be listed is tried. */

    sig_conf(&conf, "standard", STD_PUBLIC);

    for (i = IL_SIG_LISTED_V1A; i <= IL_SIG_LISTED_V1A + 1; i++) {
        many[0] = '\0';

        for (k = 1; k < i; k++) {
            strncat(many, OTHER_V1A " ", sizeof(many) - strlen(many) - 1);
        }

        strncat(many, STD_V1A, sizeof(many) - strlen(many) - 1);

        sig_init(&s, il_lit(STD_BODY), STD_NOW);
        standard_with(&s, "webhook", STD_ID, STD_TS, many);

        if (i == IL_SIG_LISTED_V1A) {
            sig_expect(&conf, &s, IL_SIG_OK, IL_SIG_WHY_OK);
        } else {
            sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
        }
    }

    /* An empty body is signed like any other. */

    sig_init(&s, il_str(NULL, 0), STD_NOW);
    standard_with(&s, "webhook", STD_ID, STD_TS, STD_V1A);
    sig_expect(&conf, &s, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(standard),
        cmocka_unit_test(public_key_is_no_secret),
        cmocka_unit_test(standard_malformed),
        cmocka_unit_test(standard_pieces_cannot_be_moved),
        cmocka_unit_test(standard_headers),
        cmocka_unit_test(standard_v1a_needs_memory),
    };

    return il_unit_run(tests);
}
