/*
 * page.c: presses of buttons, where they come from, and what is shown of
 * them.
 */

#include <strings.h>

#include "unit.h"
#include "il_button.h"
#include "il_enc.h"
#include "il_href.h"
#include "il_origin.h"
#include "il_page.h"


/* ------------------------------------------------------------------- href */


static void
hrefs(void **state)
{
    size_t  i;

    static const struct {
        const char  *href;
        int          safe;
        int          public;
    } rows[] = {
        { "https://reports.example/a?b#c", 1, 1 },
        { "HTTP://reports.example", 1, 1 },
        { "/reports/7", 1, 1 },
        { "reports/7:8", 1, 1 },
        { "?a=b:c", 1, 1 },
        { "#a:b", 1, 1 },
        { "//cdn.example/x", 1, 1 },
        { "/v1/works/a/result", 1, 0 },
        { "/v1", 1, 1 },
        { "", 0, 0 },
        { "javascript:alert(1)", 0, 0 },
        { "JaVaScRiPt:alert(1)", 0, 0 },
        { "javascript://%0aalert(1)", 0, 0 },
        { "java\tscript:alert(1)", 0, 0 },
        { "java\nscript:alert(1)", 0, 0 },
        { "\x01javascript:alert(1)", 0, 0 },
        { " javascript:alert(1)", 0, 0 },
        { "javascript :alert(1)", 0, 0 },
        { "data:text/html,<script>alert(1)</script>", 0, 0 },
        { "vbscript:x", 0, 0 },
        { "file:///etc/passwd", 0, 0 },
        { "ftp://x/", 0, 0 },
        { "mailto:a@b", 0, 0 },
        { "blob:https://x/1", 0, 0 },
        { ":x", 0, 0 },
        { "reports:7", 0, 0 },
        { "/a b", 0, 0 },
        { "/a\x7f", 0, 0 },
        { "/\xff", 0, 0 }
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        il_str_t  s = il_exact(il_cstr(rows[i].href));

        if (il_href_safe(s) != rows[i].safe
            || il_href_public(s) != rows[i].public)
        {
            fail_msg("row %zu: \"%s\"", i, rows[i].href);
        }

        il_drop(s);
    }

    assert_int_equal(il_href_safe(il_str("/a\0b", 4)), 0);
}


/* ----------------------------------------------------------------- origins */


static void
origins(void **state)
{
    size_t       i;
    il_origin_t  o;

    static const struct {
        const char  *origin;        /* NULL: none */
        const char  *site;
        int          ok;
    } rows[] = {
        { NULL, NULL, 1 },                          /* no browser */
        { "http://shop.example:8080", NULL, 1 },
        { "http://SHOP.example:8080", NULL, 1 },
        { "https://shop.example:8080", NULL, 0 },
        { "http://shop.example", NULL, 0 },
        { "http://shop.example:80800", NULL, 0 },
        { "http://xshop.example:8080", NULL, 0 },
        { "null", NULL, 0 },
        { "", NULL, 0 },
        { "https://a.example", NULL, 1 },           /* allowed */
        { "https://b.example:8443", NULL, 1 },
        { "https://b.example", NULL, 0 },
        { "https://a.example.evil.example", NULL, 0 },
        { "https://a.exampl", NULL, 0 },
        { "http://a.example", NULL, 0 },
        { "https://a.example,https://b.example:8443", NULL, 0 },
        { "https://evil.example", "cross-site", 0 },
        { "https://a.example", "cross-site", 1 },
        { "null", "same-origin", 1 },               /* no-referrer */
        { "null", "cross-site", 0 },
        { NULL, "cross-site", 0 },
        { NULL, "same-site", 0 },
        { NULL, "none", 1 },
        { NULL, "same-origin", 1 },
        { NULL, "", 0 },
        { "http://shop.example:8080", "cross-site", 0 }
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        memset(&o, 0, sizeof(o));
        o.scheme = il_lit("http");
        o.host = il_lit("shop.example:8080");
        o.allowed = il_lit("https://a.example, https://b.example:8443");
        o.origin = il_cstr(rows[i].origin);
        o.origins = (rows[i].origin != NULL);
        o.site = il_cstr(rows[i].site);
        o.sites = (rows[i].site != NULL);

        if (il_origin_ok(&o) != rows[i].ok) {
            fail_msg("row %zu", i);
        }

        /* twice is never meant */

        if (o.origins) {
            o.origins = 2;
            assert_int_equal(il_origin_ok(&o), 0);
        }

        if (o.sites) {
            o.origins = (rows[i].origin != NULL);
            o.sites = 2;
            assert_int_equal(il_origin_ok(&o), 0);
        }
    }

    memset(&o, 0, sizeof(o));
    o.origin = il_lit("http://");
    o.origins = 1;
    o.scheme = il_lit("http");
    assert_int_equal(il_origin_ok(&o), 0);
}


static void
origin_lists(void **state)
{
    size_t    i;
    il_str_t  bad;

    static const struct {
        const char  *list;
        int          good;
    } rows[] = {
        { "https://a.example", 1 },
        { "https://a.example,http://127.0.0.1:8080", 1 },
        { "https://a.example, http://[::1]:8080", 1 },
        { "*", 0 },
        { "https://a.example,*", 0 },
        { "https://*.example", 0 },
        { "https://a.example/", 0 },
        { "https://a.example/x", 0 },
        { "https://A.example", 0 },
        { "null", 0 },
        { "a.example", 0 },
        { "", 0 },
        { "https://a.example,", 0 },
        { "ftp://a.example", 0 },
        { "https://u@a.example", 0 }
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        if ((il_origins_check(il_cstr(rows[i].list), &bad) == NULL)
            != rows[i].good)
        {
            fail_msg("\"%s\"", rows[i].list);
        }
    }

    assert_int_equal(il_origin_listed(il_str(NULL, 0), il_lit("null")), 0);
    assert_int_equal(il_origin_listed(il_lit(""), il_lit("")), 0);
    assert_int_equal(il_origin_listed(il_lit("https://a.example,"),
                                      il_lit("")), 0);
}


/* ----------------------------------------------------------------- presses */


typedef struct {
    const char  *names[8];
    const char  *values[8];
} headers_t;


static il_str_t
header(void *ctx, const char *name, size_t *count)
{
    size_t            i;
    il_str_t          value;
    const headers_t  *h = ctx;

    *count = 0;
    value = il_str(NULL, 0);

    for (i = 0; i < 8 && h->names[i] != NULL; i++) {
        if (strcasecmp(h->names[i], name) == 0) {
            value = il_cstr(h->values[i]);
            (*count)++;
        }
    }

    return value;
}


static void
press(il_button_t *b, headers_t h, const char *body)
{
    static char  buf[IL_BUTTON_BODY_MAX];

    il_button_read(b, header, &h, il_cstr(body), buf, sizeof(buf));
}


#define T     "Interlock-Ticket"
#define K     "Idempotency-Key"
#define F     "Interlock-Fresh"
#define CT    "Content-Type"
#define FORM  "application/x-www-form-urlencoded"


static void
presses(void **state)
{
    il_button_t  b;

    (void) state;

    press(&b, (headers_t) { { T, K, F }, { "t", "k", "true" } }, "");
    il_assert_text(b.ticket.data, b.ticket.len, "t");
    il_assert_text(b.key.data, b.key.len, "k");
    assert_int_equal(b.fresh, 1);
    assert_int_equal(b.page, 0);
    assert_int_equal(b.problem, IL_P_NONE);

    press(&b, (headers_t) { { CT, "Accept" }, { FORM ";charset=utf-8",
          "text/html,application/xhtml+xml,*/*;q=0.8" } },
          "a=1&ticket=t.%2e&idempotency_key=%22k+1%22&fresh=on");
    il_assert_text(b.ticket.data, b.ticket.len, "t..");
    il_assert_text(b.key.data, b.key.len, "\"k 1\"");
    assert_int_equal(b.fresh, 1);
    assert_int_equal(b.page, 1);
    assert_int_equal(b.problem, IL_P_NONE);

    /* the header counts; a script's form is answered to a script */

    press(&b, (headers_t) { { CT, T, K, F, "Accept" },
          { FORM, "header", "hk", "0", "*/*" } },
          "ticket=field&idempotency_key=fk&fresh=1");
    il_assert_text(b.ticket.data, b.ticket.len, "header");
    il_assert_text(b.key.data, b.key.len, "hk");
    assert_int_equal(b.fresh, 0);
    assert_int_equal(b.page, 0);

    press(&b, (headers_t) { { CT, T, K }, { FORM, " ", "" } },
          "ticket=field&idempotency_key=fk");
    il_assert_text(b.ticket.data, b.ticket.len, "field");
    il_assert_text(b.key.data, b.key.len, "fk");

    /* no form */

    press(&b, (headers_t) { { CT }, { "application/json" } },
          "ticket=t&idempotency_key=k");
    assert_null(b.ticket.data);
    assert_null(b.key.data);
    assert_int_equal(b.problem, IL_P_NONE);

    press(&b, (headers_t) { { CT, CT }, { FORM, FORM } }, "ticket=t");
    assert_null(b.ticket.data);
}


static void
bad_presses(void **state)
{
    char         *huge;
    il_button_t   b;

    (void) state;

    press(&b, (headers_t) { { T, T, K }, { "t", "t", "k" } }, "");
    assert_null(b.ticket.data);

    press(&b, (headers_t) { { T, K, K }, { "t", "k", "k" } }, "");
    il_assert_text(b.ticket.data, b.ticket.len, "t");
    assert_int_equal(b.problem, IL_P_IDEMPOTENCY_KEY_INVALID);

    press(&b, (headers_t) { { T, K, F, F }, { "t", "k", "1", "0" } }, "");
    assert_int_equal(b.problem, IL_P_FIELD_INVALID);

    press(&b, (headers_t) { { T, K, F }, { "t", "k", "maybe" } }, "");
    assert_int_equal(b.problem, IL_P_FIELD_INVALID);

    press(&b, (headers_t) { { CT }, { FORM } }, "ticket=a&ticket=a");
    assert_null(b.ticket.data);

    press(&b, (headers_t) { { CT, T }, { FORM, "t" } },
          "idempotency_key=a&idempotency_key=a");
    assert_int_equal(b.problem, IL_P_IDEMPOTENCY_KEY_INVALID);

    press(&b, (headers_t) { { CT, T }, { FORM, "t" } },
          "idempotency_key=%zz");
    assert_int_equal(b.problem, IL_P_IDEMPOTENCY_KEY_INVALID);

    huge = malloc(IL_BUTTON_BODY_MAX + 2);
    assert_non_null(huge);
    memset(huge, '&', IL_BUTTON_BODY_MAX + 1);
    memcpy(huge, "ticket=t", 8);
    huge[IL_BUTTON_BODY_MAX + 1] = '\0';
    press(&b, (headers_t) { { CT }, { FORM } }, huge);
    assert_null(b.ticket.data);
    assert_int_equal(b.problem, IL_P_BODY_TOO_LARGE);
    free(huge);
}


static void
fingerprints(void **state)
{
    size_t   i, k;
    uint8_t  fp[8][IL_FP_BYTES], same[IL_FP_BYTES];

    (void) state;

    il_button_fp(fp[0], il_lit("k"), il_lit("a"), il_lit("u"), 0);
    il_button_fp(fp[1], il_lit("k"), il_lit("a"), il_lit("u"), 1);
    il_button_fp(fp[2], il_lit("k"), il_lit("a"), il_lit("v"), 0);
    il_button_fp(fp[3], il_lit("k"), il_lit("b"), il_lit("u"), 0);
    il_button_fp(fp[4], il_lit("l"), il_lit("a"), il_lit("u"), 0);
    il_button_fp(fp[5], il_lit("k"), il_lit("au"), il_lit(""), 0);
    il_button_fp(fp[6], il_lit("k"), il_lit(""), il_lit("au"), 0);
    il_button_fp(fp[7], il_lit("ka"), il_lit(""), il_lit("u"), 0);
    il_button_fp(same, il_lit("k"), il_lit("a"), il_lit("u"), 0);

    assert_memory_equal(fp[0], same, IL_FP_BYTES);

    for (i = 0; i < 8; i++) {
        for (k = i + 1; k < 8; k++) {
            assert_memory_not_equal(fp[i], fp[k], IL_FP_BYTES);
        }
    }
}


/* ------------------------------------------------------------------ pages */


#define EVIL  "\"'><script>alert(1)</script>&<img src=x onerror=\"a()\">\x01"


static void
pages(void **state)
{
    char       *out;
    size_t      n, cap;
    il_page_t   p;

    (void) state;

    memset(&p, 0, sizeof(p));
    p.title = il_lit(EVIL);
    p.text = il_lit(EVIL);
    p.note = il_lit(EVIL);
    p.action = il_lit("/button/jobs/" EVIL);
    p.label = il_lit(EVIL);
    p.ticket = il_lit(EVIL);
    p.key = il_lit(EVIL);
    p.fresh = 1;
    p.link = il_lit("https://x.example/\"onclick=\"alert(1)\"<b>'");

    cap = il_page_cap(&p);
    out = malloc(cap + 1);
    assert_non_null(out);

    n = il_page_build(out, cap, &p);
    assert_in_range(n, 1, cap);
    out[n] = '\0';

    assert_null(strstr(out, "<script"));
    assert_null(strstr(out, "<img"));
    assert_null(strstr(out, "<b>"));
    assert_null(strstr(out, "\"onclick"));
    assert_null(strchr(out, '\x01'));
    assert_non_null(strstr(out, "name=\"fresh\" value=\"true\""));
    assert_non_null(strstr(out, "<a href=\"https://x.example/&quot;onclick="
                           "&quot;alert(1)&quot;&lt;b&gt;&#39;\""));
    assert_non_null(strstr(out, "name=\"ticket\" value=\"&quot;&#39;&gt;"
                           "&lt;script&gt;"));

    /* one too few */

    assert_int_equal(il_page_build(out, n - 1, &p), 0);
    assert_int_equal(il_page_build(out, n, &p), n);

    /* what turns words around is shown, within the room for it */

    memset(&p, 0, sizeof(p));
    p.note = il_lit("a\xe2\x80\xae<b\xe2\x81\xa9\xe2\x80\xaa\xe2\x80\x8f\xe2\x80");
    n = il_page_build(out, cap, &p);
    assert_in_range(n, 1, il_page_cap(&p));
    out[n] = '\0';
    assert_non_null(strstr(out, "<p dir=\"auto\">a&lt;U+202E&gt;&lt;b"
                           "&lt;U+2069&gt;&lt;U+202A&gt;\xe2\x80\x8f\xe2\x80"
                           "</p>"));

    /* nothing but http and https is linked to, and nothing is posted */

    p.link = il_lit("javascript:alert(1)");
    p.action = il_lit("");
    n = il_page_build(out, cap, &p);
    out[n] = '\0';
    assert_null(strstr(out, "<a href"));
    assert_null(strstr(out, "<form"));
    assert_null(strstr(out, "ticket"));

    free(out);
}


/* The policy names the style by its hash. */

static void
policy(void **state)
{
    char         out[8192], want[128], *style, *end;
    size_t       n;
    uint8_t      hash[32];
    il_page_t    p;

    (void) state;

    memset(&p, 0, sizeof(p));
    n = il_page_build(out, sizeof(out), &p);
    out[n] = '\0';

    style = strstr(out, "<style>");
    assert_non_null(style);
    style += 7;
    end = strstr(style, "</style>");
    assert_non_null(end);

    crypto_hash_sha256(hash, (uint8_t *) style, (size_t) (end - style));
    (void) snprintf(want, sizeof(want), "style-src 'sha256-");
    n = strlen(want);
    n += il_b64_encode(want + n, sizeof(want) - n, hash, 32, IL_B64_STD);
    want[n++] = '\'';
    want[n] = '\0';

    if (strstr(il_page_csp, want) == NULL) {
        fail_msg("the policy has not %s", want);
    }

    assert_null(strstr(il_page_csp, "unsafe"));
    assert_non_null(strstr(il_page_csp, "default-src 'none'"));
}


static void
words(void **state)
{
    int        i;
    char       room[IL_PAGE_ROOM];
    il_page_t  p;

    (void) state;

    for (i = IL_P_NONE; i < IL_P_MAX; i++) {
        memset(&p, 0, sizeof(p));
        il_page_problem(&p, (il_problem_e) i, 5, room);
        assert_true(p.title.len > 0);
        assert_true(p.text.len > 0);
    }

    memset(&p, 0, sizeof(p));
    il_page_problem(&p, IL_P_QUEUE_FULL, 1, room);
    assert_non_null(strstr(room, "in 1 second."));
    il_page_problem(&p, IL_P_QUEUE_FULL, 119, room);
    assert_non_null(strstr(room, "in 119 seconds."));
    il_page_problem(&p, IL_P_QUEUE_FULL, 121, room);
    assert_non_null(strstr(room, "in 3 minutes."));
    il_page_problem(&p, IL_P_QUEUE_FULL, 7201, room);
    assert_non_null(strstr(room, "in 3 hours."));
    il_page_problem(&p, IL_P_QUEUE_FULL, 0, room);
    assert_non_null(strstr(room, "in a moment."));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(hrefs),
        cmocka_unit_test(origins),
        cmocka_unit_test(origin_lists),
        cmocka_unit_test(presses),
        cmocka_unit_test(bad_presses),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(pages),
        cmocka_unit_test(policy),
        cmocka_unit_test(words)
    };

    return il_unit_run(tests);
}
