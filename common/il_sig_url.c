/*
 * il_sig_url.c: schemes that sign the public URL with the body.
 *
 * Sources: developer.squareup.com, "Validate event notifications";
 * developers.hubspot.com, "Validating requests".
 */

#include "il_sig_int.h"
#include "il_time.h"


il_sig_why_e
il_sig_square(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    il_str_t       value, pieces[2];
    il_sig_why_e   why;
    il_sig_list_t  list;

    why = il_sig_get(req, "x-square-hmacsha256-signature", &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_sig_decode(&list, IL_SIG_SHA256, IL_SIG_BASE64, value) != 0) {
        return IL_SIG_WHY_MALFORMED;
    }

    pieces[0] = req->url;
    pieces[1] = req->body;

    return il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, pieces, 2)
           ? IL_SIG_WHY_OK : IL_SIG_WHY_MISMATCH;
}


/*
 * The escapes that HubSpot's documents want decoded before the URL is signed,
 * and no others.  0 if p, of two digits, is none of them.
 */

static char
il_sig_hubspot_escape(const char *p)
{
    char    low;
    size_t  i;

    static const struct {
        char  digits[3];
        char  c;
    } escapes[] = {
        { "3A", ':' }, { "2F", '/' }, { "3F", '?' }, { "40", '@' },
        { "21", '!' }, { "24", '$' }, { "27", '\'' }, { "28", '(' },
        { "29", ')' }, { "2A", '*' }, { "2C", ',' }, { "3B", ';' },
    };

    low = p[1] >= 'a' && p[1] <= 'f' ? (char) (p[1] - ('a' - 'A')) : p[1];

    for (i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
        if (p[0] == escapes[i].digits[0] && low == escapes[i].digits[1]) {
            return escapes[i].c;
        }
    }

    return 0;
}


/* out has url.len bytes; what was written. */

static il_str_t
il_sig_hubspot_decode(char *out, il_str_t url)
{
    char    c;
    size_t  i, n;

    n = 0;

    for (i = 0; i < url.len; i++) {
        c = url.data[i];

        if (c == '%' && url.len - i > 2) {
            c = il_sig_hubspot_escape(url.data + i + 1);

            if (c != 0) {
                i += 2;
            } else {
                c = '%';
            }
        }

        out[n++] = c;
    }

    return il_str(out, n);
}


/*
 * The documents want the URL decoded, the SDKs take it as it comes: both are
 * tried.  An attacker gains nothing by that, as either way the whole URL is
 * covered.
 */

il_sig_why_e
il_sig_hubspot(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int            found;
    char          *out;
    int64_t        ms;
    il_str_t       value, pieces[4];
    il_sig_why_e   why;
    il_sig_list_t  list;

    why = il_sig_get(req, "x-hubspot-signature-v3", &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get(req, "x-hubspot-request-timestamp", &pieces[3]);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_digits_parse(pieces[3], 18, &ms) != 0
        || il_sig_decode(&list, IL_SIG_SHA256, IL_SIG_BASE64, value) != 0)
    {
        return IL_SIG_WHY_MALFORMED;
    }

    pieces[0] = req->method;
    pieces[1] = req->url;
    pieces[2] = req->body;

    found = il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, pieces, 4);

    if (memchr(req->url.data, '%', req->url.len) != NULL) {
        out = req->alloc == NULL ? NULL : req->alloc(req->ctx, req->url.len);

        if (out == NULL) {
            return IL_SIG_WHY_MALFORMED;
        }

        pieces[1] = il_sig_hubspot_decode(out, req->url);
        found |= il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, pieces, 4);
    }

    return found ? il_sig_judge_time(conf, req, ms / 1000)
                 : IL_SIG_WHY_MISMATCH;
}
