/*
 * lookup.c: up to four texts between NUL bytes: a URL (and template), a list
 * of hosts (and fields), a look-up's description, an answer's body.
 */

#include <arpa/inet.h>

#include "fuzz.h"
#include "il_addr.h"
#include "il_json.h"
#include "il_lookup.h"
#include "il_url.h"


static void
inside(il_str_t part, il_str_t whole)
{
    IL_HOLDS(part.len == 0
             || (part.data >= whole.data
                 && part.data + part.len <= whole.data + whole.len));
}


/* What the parser takes means one host only, however it is read. */

static void
parse(il_str_t text, il_str_t list)
{
    char         again[IL_URL_MAX + 1];
    int          n;
    size_t       i;
    il_str_t     bad;
    il_url_t     url, copy;
    const char  *why;

    why = il_url_parse(text, &url);

    if (why != NULL) {
        IL_HOLDS(why[0] != '\0');

    } else {
        inside(url.host, text);
        inside(url.target, text);
        IL_HOLDS(url.host.len > 0 && url.host.len <= 253);
        IL_HOLDS(url.port > 0 && url.port <= 65535);
        IL_HOLDS(url.target.len == 0 || url.target.data[0] == '/'
                 || url.target.data[0] == '?');

        for (i = 0; i < text.len; i++) {
            IL_HOLDS(text.data[i] > 0x20 && text.data[i] < 0x7f);
            IL_HOLDS(text.data[i] != '#' && text.data[i] != '\\');
        }

        for (i = 0; i < url.host.len; i++) {
            IL_HOLDS(memchr("@/?#[]% ", url.host.data[i], 8) == NULL);
        }

        /* put together from its parts it is the same */

        n = snprintf(again, sizeof(again), "http%s://%s%.*s%s:%u%.*s",
                     url.https ? "s" : "", url.family == 6 ? "[" : "",
                     (int) url.host.len, url.host.data,
                     url.family == 6 ? "]" : "", url.port,
                     (int) url.target.len,
                     url.target.len ? url.target.data : "");

        if (n < (int) sizeof(again)) {
            IL_HOLDS(il_url_parse(il_str(again, (size_t) n), &copy) == NULL);
            IL_HOLDS(il_url_same_host(&url, &copy));
            IL_HOLDS(il_str_eq(url.target, copy.target));
        }

        if (url.family == 4) {
            (void) il_addr_class4(url.addr);

        } else if (url.family == 6) {
            (void) il_addr_class6(url.addr);
        }

        (void) il_hosts_match(list, &url);
    }

    if (!il_hosts_valid(list, &bad)) {
        inside(bad, list);
        IL_HOLDS(bad.len > 0);
    }
}


/* An expanded URL template leads nowhere but where the template led. */

static void
expand(il_str_t tmpl, il_str_t vars)
{
    int                 rc;
    char               *out, why[IL_LOOKUP_DETAIL_CAP];
    size_t              i, len, cap;
    il_lookup_place_e   place;

    for (place = IL_LOOKUP_URL; place <= IL_LOOKUP_FORM; place++) {
        cap = tmpl.len * 3 + 16;
        out = malloc(cap);
        IL_HOLDS(out != NULL);

        why[0] = '\0';
        rc = il_lookup_expand(tmpl, vars, place, out, cap, &len, why,
                              sizeof(why));

        IL_HOLDS(rc == 0 || rc == -1);
        IL_HOLDS(rc == 0 ? len <= cap : len == 0 && why[0] != '\0');

        if (rc == 0 && place == IL_LOOKUP_URL) {
            for (i = 0; i < len; i++) {
                IL_HOLDS(memchr("{}", out[i], 2) == NULL);
            }
        }

        free(out);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int                  status, rc;
    size_t               i, len;
    char                 text[64];
    il_str_t             rest, part[4];
    il_lookup_verdict_t  v;

    static const int  statuses[] = { 200, 404, 500, 0 };

    rest = il_str((const char *) data, size);

    for (i = 0; i < 4; i++) {
        part[i] = il_fuzz_field(&rest);
    }

    parse(part[0], part[1]);
    expand(part[0], part[1]);

    rc = il_lookup_text(part[2], "url", text, sizeof(text), &len);
    IL_HOLDS(rc >= -1 && rc <= 1);
    IL_HOLDS(rc != 1 || (len < sizeof(text) && text[len] == '\0'));

    for (i = 0; i < 4; i++) {
        status = statuses[i];
        il_lookup_judge(part[2], status, i == 3 ? NULL : &part[3], &v);

        IL_HOLDS(v.detail[0] != '\0');
        IL_HOLDS(strlen(v.ref) <= v.ref_len);
        IL_HOLDS(v.answer == IL_LOOKUP_FOUND
                 || (v.ref_len == 0 && v.result.len == 0));
        inside(v.result, part[3]);
        IL_HOLDS(v.result.len == 0 || il_json_check(v.result) == IL_JSON_OK);
        IL_HOLDS(v.answer == IL_LOOKUP_UNCLEAR || status != 0);
    }

    for (i = 0; i < 4; i++) {
        il_fuzz_drop(part[i]);
    }

    return 0;
}
