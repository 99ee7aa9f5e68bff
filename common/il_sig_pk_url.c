/*
 * il_sig_pk_url.c: where certificates may come from, for whom they may be,
 * and what the "secrets" of these schemes, which are none, look like.
 *
 * Anybody can send a request that names an address, and it is fetched before
 * anything is known of the sender.  So an address must be one of those that
 * the provider uses, to the letter: https, its host, its usual path, nothing
 * behind it.
 */

#include <strings.h>

#include "il_sig_int.h"
#include "il_sig_pk.h"


#define IL_CERT_URL_MAX     512
#define IL_CONFIRM_URL_MAX  2048


static int
il_pk_lower(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}


/* Takes a suffix off, letters of either case: 0, or -1. */

static int
il_pk_strip(il_str_t *s, const char *suffix)
{
    size_t  n;

    n = strlen(suffix);

    if (s->len < n || strncasecmp(s->data + s->len - n, suffix, n) != 0) {
        return -1;
    }

    s->len -= n;

    return 0;
}


/* Is s a name of these characters, at least n of them? */

static int
il_pk_word(il_str_t s, size_t n, const char *more)
{
    size_t  i;
    char    c;

    for (i = 0; i < s.len; i++) {
        c = s.data[i] >= 'A' && s.data[i] <= 'Z'
            ? (char) (s.data[i] - 'A' + 'a') : s.data[i];

        if (!il_pk_lower(c) && (c == '\0' || strchr(more, c) == NULL)) {
            return 0;
        }
    }

    return s.len >= n;
}


/* sns.REGION.amazonaws.com, or .com.cn */

static int
il_pk_sns_host(il_str_t host)
{
    if (il_pk_strip(&host, ".amazonaws.com") != 0
        && il_pk_strip(&host, ".amazonaws.com.cn") != 0)
    {
        return 0;
    }

    return host.len > 4 && strncasecmp(host.data, "sns.", 4) == 0
           && il_pk_word(il_str(host.data + 4, host.len - 4), 3, "-");
}


static int
il_pk_paypal_host(il_str_t host)
{
    return il_pk_strip(&host, ".paypal.com") == 0 && il_pk_word(host, 1, "-.");
}


static int
il_pk_issuer_host(il_str_t host)
{
    return (il_pk_strip(&host, ".amazontrust.com") == 0
            || il_pk_strip(&host, ".digicert.com") == 0) && host.len != 0;
}


static const char *
il_pk_url(il_str_t url, size_t max, il_str_t also, int (*host)(il_str_t),
    int https, il_url_t *parsed)
{
    const char  *why;

    if (url.len > max) {
        return "is too long";
    }

    why = il_url_parse(url, parsed);
    if (why != NULL) {
        return why;
    }

    if (https && !parsed->https) {
        return "is not https";
    }

    if (il_hosts_match(also, parsed)) {
        return NULL;
    }

    if (parsed->family != 0 || parsed->port != (parsed->https ? 443 : 80)
        || !host(parsed->host))
    {
        return "has a host that is not the provider's";
    }

    return NULL;
}


const char *
il_sig_pk_cert_url(const il_sig_scheme_t *scheme, il_str_t url, il_str_t also,
    il_url_t *parsed)
{
    int          sns;
    il_str_t     path;
    const char  *why;

    static const char  paypal[] = "/v1/notifications/certs/";

    sns = il_str_eq(il_sig_scheme_name(scheme), il_cstr("sns"));

    why = il_pk_url(url, IL_CERT_URL_MAX, also,
                    sns ? il_pk_sns_host : il_pk_paypal_host, 1, parsed);
    if (why != NULL) {
        return why;
    }

    path = parsed->target;

    if (sns) {
        if (path.len == 0 || path.data[0] != '/'
            || il_pk_strip(&path, ".pem") != 0
            || !il_pk_word(il_str(path.data + 1, path.len - 1), 1, "-_"))
        {
            return "has a path that no certificate of SNS has";
        }

        return NULL;
    }

    if (path.len < sizeof(paypal)
        || memcmp(path.data, paypal, sizeof(paypal) - 1) != 0
        || !il_pk_word(il_str(path.data + sizeof(paypal) - 1,
                              path.len - (sizeof(paypal) - 1)), 1, "-_"))
    {
        return "has a path that no certificate of PayPal has";
    }

    return NULL;
}


const char *
il_sig_pk_confirm_url(il_str_t url, il_str_t also, il_url_t *parsed)
{
    const char  *why;

    static const char  confirm[] = "/?Action=ConfirmSubscription&";

    why = il_pk_url(url, IL_CONFIRM_URL_MAX, also, il_pk_sns_host, 1, parsed);
    if (why != NULL) {
        return why;
    }

    if (parsed->target.len < sizeof(confirm)
        || memcmp(parsed->target.data, confirm, sizeof(confirm) - 1) != 0)
    {
        return "does not confirm a subscription";
    }

    return NULL;
}


const char *
il_sig_pk_issuer_url(il_str_t url, il_str_t also, il_url_t *parsed)
{
    return il_pk_url(url, IL_CERT_URL_MAX, also, il_pk_issuer_host, 0, parsed);
}


/*
 * Amazon's certificates are for sns.amazonaws.com, in some regions for
 * sns-signing.REGION.amazonaws.com, sns-REGION.amazonaws.com(.cn); once for
 * sns.REGION.amazonaws.com.
 */

int
il_sig_pk_name(const il_sig_scheme_t *scheme, il_str_t name)
{
    if (il_str_eq(il_sig_scheme_name(scheme), il_cstr("paypal"))) {
        return il_pk_paypal_host(name);
    }

    if (!il_str_eq(il_sig_scheme_name(scheme), il_cstr("sns"))
        || (il_pk_strip(&name, ".amazonaws.com") != 0
            && il_pk_strip(&name, ".amazonaws.com.cn") != 0)
        || name.len < 3 || strncasecmp(name.data, "sns", 3) != 0)
    {
        return 0;
    }

    name = il_str(name.data + 3, name.len - 3);

    return name.len == 0
           || ((name.data[0] == '.' || name.data[0] == '-')
               && il_pk_word(name, 4, "-."));
}


/* ------------------------------------------------------------------ secrets */


static const char *
il_pk_line(il_sig_secret_t *secret, il_str_t line,
    il_sig_secret_enc_e encoding)
{
    if (encoding != IL_SIG_SECRET_OWN) {
        return "this scheme's file has no other encoding than its own";
    }

    if (line.len > sizeof(secret->data)) {
        return "the line is longer than 512 bytes";
    }

    memcpy(secret->data, line.data, line.len);
    secret->len = line.len;

    return NULL;
}


const char *
il_sig_secret_sendgrid(il_sig_secret_t *secret, il_str_t line,
    il_sig_secret_enc_e encoding)
{
    uint8_t      der[IL_SIG_PK_SPKI];
    const char  *why;

    why = il_pk_line(secret, line, encoding);
    if (why != NULL) {
        return why;
    }

    if (line.len >= 5 && memcmp(line.data, "-----", 5) == 0) {
        return "the public key is wanted as SendGrid shows it: one line of "
               "base64, without BEGIN and END";
    }

    return il_sig_pk_spki(secret, der) == 0 ? NULL
           : "this is not a P-256 public key in base64 (it begins with "
             "\"MFkwEwYHKoZIzj0C\")";
}


const char *
il_sig_secret_paypal(il_sig_secret_t *secret, il_str_t line,
    il_sig_secret_enc_e encoding)
{
    const char  *why;

    why = il_pk_line(secret, line, encoding);

    if (why == NULL && (line.len > 64 || !il_pk_word(line, 1, "-_"))) {
        why = "this is not the ID of a webhook (letters and digits)";
    }

    return why;
}


/* arn:PARTITION:sns:REGION:ACCOUNT:NAME; NAME may end with "*" */

const char *
il_sig_secret_sns(il_sig_secret_t *secret, il_str_t line,
    il_sig_secret_enc_e encoding)
{
    int          star;
    size_t       pos, n;
    il_str_t     part[6];
    const char  *why;

    static const char  wrong[] = "this is not the ARN of a topic "
                                 "(arn:aws:sns:REGION:ACCOUNT:NAME)";

    why = il_pk_line(secret, line, encoding);
    if (why != NULL) {
        return why;
    }

    pos = 0;

    for (n = 0; n < 6; n++) {
        if (!il_sig_item(line, ':', &pos, &part[n])) {
            return wrong;
        }
    }

    if (pos <= line.len) {
        return wrong;
    }

    star = (part[5].len != 0 && part[5].data[part[5].len - 1] == '*');

    if (star) {
        part[5].len--;
    }

    return il_str_eq(part[0], il_cstr("arn")) && il_pk_word(part[1], 3, "-")
           && il_str_eq(part[2], il_cstr("sns")) && il_pk_word(part[3], 3, "-")
           && il_pk_word(part[4], 12, "") && part[4].len == 12
           && il_pk_word(part[5], star ? 0 : 1, "-_.") ? NULL : wrong;
}
