/*
 * verify_form.c: which header of a request is not as its scheme wants it, and
 * how that one is written.  il_sig_verify only says that some header is not;
 * here they are gone through one by one, in words for people.
 *
 * The table is of the forms alone (sources: those of common/il_sig_*.c).
 * Whether a request is valid is never decided by it.
 */

#include <string.h>
#include <strings.h>

#include "cli.h"
#include "il_enc.h"
#include "il_mac.h"
#include "il_time.h"
#include "verify.h"


typedef enum {
    IL_FORM_HEX,                    /* of n bytes */
    IL_FORM_BASE64,
    IL_FORM_SECONDS,
    IL_FORM_MS,
    IL_FORM_TEXT                    /* what `text` says; only its being there
                                       can be checked */
} il_form_e;


typedef struct {
    const char  *scheme;
    const char  *header;
    const char  *other;             /* the same under another name, or NULL */
    const char  *prefix;
    il_form_e    form;
    size_t       n;
    const char  *text;
} il_verify_form_t;


static const il_verify_form_t  il_verify_forms[] = {
    { "discord", "X-Signature-Ed25519", NULL, "", IL_FORM_HEX, 64, NULL },
    { "discord", "X-Signature-Timestamp", NULL, "", IL_FORM_SECONDS, 0, NULL },
    { "github", "X-Hub-Signature-256", NULL, "sha256=", IL_FORM_HEX, 32,
      NULL },
    { "gitlab", "X-Gitlab-Token", NULL, "", IL_FORM_TEXT, 0, "the secret" },
    { "hubspot", "X-HubSpot-Signature-v3", NULL, "", IL_FORM_BASE64, 32,
      NULL },
    { "hubspot", "X-HubSpot-Request-Timestamp", NULL, "", IL_FORM_MS, 0,
      NULL },
    { "intercom", "X-Hub-Signature", NULL, "sha1=", IL_FORM_HEX, 20, NULL },
    { "linear", "Linear-Signature", NULL, "", IL_FORM_HEX, 32, NULL },
    { "meta", "X-Hub-Signature-256", NULL, "sha256=", IL_FORM_HEX, 32, NULL },
    { "paddle", "Paddle-Signature", NULL, "", IL_FORM_TEXT, 0,
      "\"ts=\" and Unix seconds, and \"h1=\" and 64 hex digits, with \";\""
      " between them; up to 32 of the latter" },
    { "paypal", "PAYPAL-TRANSMISSION-ID", NULL, "", IL_FORM_TEXT, 0,
      "an ID" },
    { "paypal", "PAYPAL-TRANSMISSION-TIME", NULL, "", IL_FORM_TEXT, 0,
      "a time in RFC 3339" },
    { "paypal", "PAYPAL-TRANSMISSION-SIG", NULL, "", IL_FORM_TEXT, 0,
      "base64" },
    { "paypal", "PAYPAL-CERT-URL", NULL, "", IL_FORM_TEXT, 0,
      "a URL of PayPal" },
    { "paypal", "PAYPAL-AUTH-ALGO", NULL, "", IL_FORM_TEXT, 0,
      "SHA256withRSA" },
    { "sendgrid", "X-Twilio-Email-Event-Webhook-Signature", NULL, "",
      IL_FORM_TEXT, 0, "base64 of an ECDSA signature" },
    { "sendgrid", "X-Twilio-Email-Event-Webhook-Timestamp", NULL, "",
      IL_FORM_SECONDS, 0, NULL },
    { "shopify", "X-Shopify-Hmac-Sha256", "Shopify-Hmac-Sha256", "",
      IL_FORM_BASE64, 32, NULL },
    { "slack", "X-Slack-Signature", NULL, "v0=", IL_FORM_HEX, 32, NULL },
    { "slack", "X-Slack-Request-Timestamp", NULL, "", IL_FORM_SECONDS, 0,
      NULL },
    { "square", "x-square-hmacsha256-signature", NULL, "", IL_FORM_BASE64, 32,
      NULL },
    { "standard", "webhook-id", "svix-id", "", IL_FORM_TEXT, 0,
      "an ID without \".\" and nine digits or more at its end" },
    { "standard", "webhook-timestamp", "svix-timestamp", "", IL_FORM_SECONDS,
      0, NULL },
    { "standard", "webhook-signature", "svix-signature", "", IL_FORM_TEXT, 0,
      "\"v1,\" and base64 of 32 bytes (or \"v1a,\" and of 64), with a blank"
      " between two of them; up to 32 (4) of them" },
    { "stripe", "Stripe-Signature", NULL, "", IL_FORM_TEXT, 0,
      "\"t=\" and Unix seconds, and \"v1=\" and 64 hex digits, with \",\""
      " between them; up to 32 of the latter" },
    { "twilio", "X-Twilio-Signature", NULL, "", IL_FORM_BASE64, 20, NULL },
    { "x", "x-twitter-webhooks-signature", NULL, "sha256=", IL_FORM_BASE64,
      32, NULL },
    { "zoom", "x-zm-signature", NULL, "v0=", IL_FORM_HEX, 32, NULL },
    { "zoom", "x-zm-request-timestamp", NULL, "", IL_FORM_SECONDS, 0, NULL },
};


static const char  il_verify_twilio[] = "x-twilio-webhooks-signature-settings";


static il_str_t
il_verify_form_get(const il_sig_request_t *req, const char *name,
    size_t *count)
{
    char    lower[64];
    size_t  i;

    for (i = 0; name[i] != '\0' && i < sizeof(lower) - 1; i++) {
        lower[i] = name[i] >= 'A' && name[i] <= 'Z'
                   ? (char) (name[i] + ('a' - 'A')) : name[i];
    }

    lower[i] = '\0';
    *count = 0;

    return req->header(req->ctx, lower, count);
}


/* What is wrong with the value; NULL if nothing is, or it cannot be told. */
static const char *
il_verify_form_wrong(const il_verify_form_t *f, il_str_t value)
{
    int64_t  ignored;
    size_t   n, prefix;
    uint8_t  bytes[IL_MAC_MAX];

    prefix = strlen(f->prefix);

    if (value.len < prefix
        || (strcasecmp(f->header, "authorization") == 0
            ? strncasecmp(value.data, f->prefix, prefix)
            : strncmp(value.data, f->prefix, prefix)) != 0)
    {
        return "does not begin with that";
    }

    value.data += prefix;
    value.len -= prefix;

    switch (f->form) {

    case IL_FORM_HEX:
        if (value.len != 2 * f->n) {
            return "is of another length";
        }

        return il_hex_decode(bytes, f->n, value) == 0
               ? NULL : "has another character in it";

    case IL_FORM_BASE64:
        if (value.len != (f->n + 2) / 3 * 4) {
            return "is of another length";
        }

        return il_b64_decode(bytes, sizeof(bytes), &n, value, IL_B64_STD) == 0
               && n == f->n
               ? NULL : "is not base64 (the ordinary, with its \"=\")";

    case IL_FORM_SECONDS:
    case IL_FORM_MS:
        return il_digits_parse(value, 18, &ignored) == 0
               ? NULL : "is not a number of at most 18 digits";

    case IL_FORM_TEXT:
        break;
    }

    return value.len == 0 ? "is empty" : NULL;
}


static void
il_verify_form_say(const il_verify_form_t *f, il_buf_t *b)
{
    il_buf_puts(b, f->header);

    if (f->other != NULL) {
        il_buf_printf(b, " (or %s)", f->other);
    }

    il_buf_puts(b, " must be ");

    if (f->prefix[0] != '\0') {
        il_buf_printf(b, "\"%s\" and ", f->prefix);
    }

    switch (f->form) {
    case IL_FORM_HEX:
        il_buf_printf(b, "%zu hex digits", 2 * f->n);
        break;
    case IL_FORM_BASE64:
        il_buf_printf(b, "base64 of %zu bytes, %zu characters", f->n,
                      (f->n + 2) / 3 * 4);
        break;
    case IL_FORM_SECONDS:
        il_buf_puts(b, "a time in Unix seconds");
        break;
    case IL_FORM_MS:
        il_buf_puts(b, "a time in milliseconds since 1970");
        break;
    case IL_FORM_TEXT:
        il_buf_puts(b, f->text);
        break;
    }
}


/* 1 if this one is wrong: then b says how. */
static int
il_verify_form_check(const il_verify_form_t *f, const il_sig_request_t *req,
    il_buf_t *b)
{
    size_t       n, other;
    il_str_t     value;
    const char  *wrong;

    value = il_verify_form_get(req, f->header, &n);
    other = 0;

    if (f->other != NULL && n == 0) {
        value = il_verify_form_get(req, f->other, &n);

    } else if (f->other != NULL) {
        (void) il_verify_form_get(req, f->other, &other);
    }

    if (n == 0) {
        wrong = "is missing; was it given with --header 'Name: value'?";

    } else if (n > 1 || other > 1) {
        wrong = "is there more than once; a proxy may have added one";

    } else {
        wrong = il_verify_form_wrong(f, value);
    }

    if (wrong == NULL) {
        return 0;
    }

    il_verify_form_say(f, b);
    il_buf_printf(b, ": it %s", wrong);

    return 1;
}


/* The schemes whose header is an argument of the directive. */
static int
il_verify_form_own(const il_sig_conf_t *conf, il_str_t scheme,
    il_verify_form_t *f, char *prefix, size_t cap)
{
    memset(f, 0, sizeof(*f));
    f->header = conf->header;
    f->prefix = prefix;

    if (conf->prefix.len >= cap) {
        return 0;
    }

    (void) snprintf(prefix, cap, "%.*s", (int) conf->prefix.len,
                    conf->prefix.len == 0 ? "" : conf->prefix.data);

    if (il_str_eq(scheme, il_cstr("token"))) {
        f->form = IL_FORM_TEXT;
        f->text = "the secret";
        return 1;
    }

    if (il_str_eq(scheme, il_cstr("hmac"))) {
        f->form = conf->encoding == IL_SIG_HEX ? IL_FORM_HEX : IL_FORM_BASE64;
        f->n = il_mac_len(conf->algorithm);
        return 1;
    }

    if (il_str_eq(scheme, il_cstr("adyen"))
        && conf->place == IL_SIG_IN_HEADER)
    {
        f->header = "HmacSignature";
        f->form = IL_FORM_BASE64;
        f->n = 32;
        return 1;
    }

    return 0;
}


int
il_verify_form(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_buf_t *b)
{
    char              prefix[128];
    size_t            i, n;
    il_str_t          scheme;
    il_verify_form_t  f;

    scheme = il_sig_scheme_name(conf->scheme);

    if (il_verify_form_own(conf, scheme, &f, prefix, sizeof(prefix))) {
        return il_verify_form_check(&f, req, b);
    }

    if (il_str_eq(scheme, il_cstr("gitlab"))) {
        (void) il_verify_form_get(req, "webhook-signature", &n);

        if (n != 0) {
            scheme = il_cstr("standard");
        }
    }

    for (i = 0; i < sizeof(il_verify_forms) / sizeof(il_verify_forms[0]); i++)
    {
        f = il_verify_forms[i];

        if (!il_str_eq(scheme, il_cstr(f.scheme))) {
            continue;
        }

        if (il_str_eq(scheme, il_cstr("twilio"))) {
            (void) il_verify_form_get(req, il_verify_twilio, &n);
            f.n = n == 0 ? 20 : 32;
        }

        if (il_verify_form_check(&f, req, b)) {
            return 1;
        }
    }

    return 0;
}


/* Nothing was seen to be wrong: the ones that can be so within. */
void
il_verify_form_all(const il_sig_conf_t *conf, il_buf_t *b)
{
    size_t    i;
    il_str_t  scheme;

    scheme = il_sig_scheme_name(conf->scheme);

    if (il_str_eq(scheme, il_cstr("gitlab"))) {
        scheme = il_cstr("standard");
    }

    for (i = 0; i < sizeof(il_verify_forms) / sizeof(il_verify_forms[0]); i++)
    {
        if (il_str_eq(scheme, il_cstr(il_verify_forms[i].scheme))
            && il_verify_forms[i].form == IL_FORM_TEXT)
        {
            if (b->len != 0) {
                il_buf_puts(b, "; ");
            }

            il_verify_form_say(&il_verify_forms[i], b);
        }
    }
}
