/*
 * il_sig.c: the table of webhook signature schemes, and the one way to them.
 */

#include "il_sig_int.h"


/*
 * A new scheme is one row here and one function in the file of its kind: in
 * order of name, what all senders may use at the end.
 */

#define IL_SIG_TIMED  IL_SIG_ARG_TOLERANCE, IL_SIG_TOLERANCE
#define IL_SIG_PLAIN  0, IL_SIG_TOLERANCE

const il_sig_scheme_t  il_sig_schemes[] = {

    { il_string("adyen"), IL_SIG_PROVIDER,
      IL_SIG_ARG_SIGNATURE, IL_SIG_TOLERANCE, NULL,
      il_sig_secret_adyen, il_sig_adyen },

    { il_string("discord"), IL_SIG_PROVIDER,
      IL_SIG_TIMED, NULL,
      il_sig_secret_ed25519, il_sig_discord },

    { il_string("github"), IL_SIG_PROVIDER,
      IL_SIG_PLAIN, NULL,
      il_sig_secret_text, il_sig_github },

    { il_string("gitlab"), IL_SIG_PROVIDER|IL_SIG_SENDS_SECRET,
      IL_SIG_TIMED, "x-gitlab-token",
      il_sig_secret_gitlab, il_sig_gitlab },

    { il_string("hubspot"), IL_SIG_PROVIDER|IL_SIG_URL,
      IL_SIG_TIMED, NULL,
      il_sig_secret_text, il_sig_hubspot },

    { il_string("intercom"), IL_SIG_PROVIDER,
      IL_SIG_PLAIN, NULL,
      il_sig_secret_text, il_sig_intercom },

    { il_string("linear"), IL_SIG_PROVIDER,
      IL_SIG_ARG_TOLERANCE, IL_SIG_TOLERANCE_LINEAR, NULL,
      il_sig_secret_text, il_sig_linear },

    { il_string("mailgun"), IL_SIG_PROVIDER,
      IL_SIG_TIMED, NULL,
      il_sig_secret_text, il_sig_mailgun },

    { il_string("meta"), IL_SIG_PROVIDER,
      IL_SIG_PLAIN, NULL,
      il_sig_secret_text, il_sig_meta },

    { il_string("paddle"), IL_SIG_PROVIDER,
      IL_SIG_TIMED, NULL,
      il_sig_secret_text, il_sig_paddle },

    { il_string("paypal"), IL_SIG_PROVIDER|IL_SIG_BACKEND,
      IL_SIG_ARG_TOLERANCE, IL_SIG_TOLERANCE_LATE, NULL,
      il_sig_secret_paypal, NULL },

    { il_string("sendgrid"), IL_SIG_PROVIDER|IL_SIG_BACKEND,
      IL_SIG_TIMED, NULL,
      il_sig_secret_sendgrid, NULL },

    { il_string("shopify"), IL_SIG_PROVIDER,
      IL_SIG_PLAIN, NULL,
      il_sig_secret_text, il_sig_shopify },

    { il_string("slack"), IL_SIG_PROVIDER,
      IL_SIG_TIMED, NULL,
      il_sig_secret_text, il_sig_slack },

    { il_string("sns"), IL_SIG_PROVIDER|IL_SIG_BACKEND,
      IL_SIG_ARG_TOLERANCE, IL_SIG_TOLERANCE_LATE, NULL,
      il_sig_secret_sns, NULL },

    { il_string("square"), IL_SIG_PROVIDER|IL_SIG_URL,
      IL_SIG_PLAIN, NULL,
      il_sig_secret_text, il_sig_square },

    { il_string("standard"), IL_SIG_PROVIDER,
      IL_SIG_TIMED, NULL,
      il_sig_secret_standard, il_sig_standard },

    { il_string("stripe"), IL_SIG_PROVIDER,
      IL_SIG_TIMED, NULL,
      il_sig_secret_text, il_sig_stripe },

    { il_string("twilio"), IL_SIG_PROVIDER|IL_SIG_URL,
      IL_SIG_PLAIN, NULL,
      il_sig_secret_text, il_sig_twilio },

    { il_string("x"), IL_SIG_PROVIDER,
      IL_SIG_PLAIN, NULL,
      il_sig_secret_text, il_sig_x },

    { il_string("zoom"), IL_SIG_PROVIDER,
      IL_SIG_TIMED, NULL,
      il_sig_secret_text, il_sig_zoom },

    { il_string("token"), IL_SIG_SENDS_SECRET,
      IL_SIG_ARG_HEADER|IL_SIG_ARG_PREFIX, IL_SIG_TOLERANCE, NULL,
      il_sig_secret_text, il_sig_token },

    { il_string("hmac"), 0,
      IL_SIG_ARG_HEADER|IL_SIG_ARG_PREFIX|IL_SIG_ARG_ALGORITHM
      |IL_SIG_ARG_ENCODING|IL_SIG_ARG_SIGNED|IL_SIG_ARG_TOLERANCE,
      IL_SIG_TOLERANCE, NULL,
      il_sig_secret_text, il_sig_hmac },
};

const size_t  il_sig_nschemes = sizeof(il_sig_schemes)
                                / sizeof(il_sig_schemes[0]);


const char *
il_sig_strwhy(il_sig_why_e why)
{
    switch (why) {
    case IL_SIG_WHY_OK:
        return "valid";
    case IL_SIG_WHY_NO_HEADER:
        return "a signature header is missing";
    case IL_SIG_WHY_REPEATED_HEADER:
        return "a signature header occurs more than once";
    case IL_SIG_WHY_MALFORMED:
        return "a signature header is malformed";
    case IL_SIG_WHY_MISMATCH:
        return "no secret fits the signature";
    case IL_SIG_WHY_TOO_OLD:
        return "the timestamp is too old";
    case IL_SIG_WHY_IN_FUTURE:
        return "the timestamp is in the future";
    case IL_SIG_WHY_BODY:
        return "the body is not one that the scheme signs";
    case IL_SIG_WHY_NO_URL:
        return "the public URL is not known: url= is missing";
    case IL_SIG_WHY_BACKEND:
        return "the scheme is verified by interlockd";
    }

    return "unknown";
}


il_sig_rc_e
il_sig_verify(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_sig_why_e *why)
{
    il_sig_why_e  w;

    if (conf->scheme->verify == NULL) {
        w = IL_SIG_WHY_BACKEND;

    } else if (conf->nsecrets == 0) {
        /* nothing may pass, whatever a scheme would make of it */
        w = IL_SIG_WHY_MISMATCH;

    } else if ((conf->scheme->flags & IL_SIG_URL) && req->url.len == 0) {
        w = IL_SIG_WHY_NO_URL;

    } else {
        w = conf->scheme->verify(conf, req);
    }

    if (why != NULL) {
        *why = w;
    }

    switch (w) {
    case IL_SIG_WHY_OK:
        return IL_SIG_OK;

    case IL_SIG_WHY_TOO_OLD:
    case IL_SIG_WHY_IN_FUTURE:
        return IL_SIG_TIMESTAMP;

    case IL_SIG_WHY_NO_HEADER:
    case IL_SIG_WHY_REPEATED_HEADER:
    case IL_SIG_WHY_MALFORMED:
    case IL_SIG_WHY_MISMATCH:
    case IL_SIG_WHY_BODY:
    case IL_SIG_WHY_NO_URL:
    case IL_SIG_WHY_BACKEND:
        break;
    }

    return IL_SIG_INVALID;
}


il_str_t
il_sig_scheme_name(const il_sig_scheme_t *scheme)
{
    return scheme->name;
}


int
il_sig_scheme_is_provider(const il_sig_scheme_t *scheme)
{
    return scheme != NULL && (scheme->flags & IL_SIG_PROVIDER) != 0;
}


int
il_sig_scheme_url(const il_sig_scheme_t *scheme)
{
    return scheme != NULL && (scheme->flags & IL_SIG_URL) != 0;
}


int
il_sig_scheme_backend(const il_sig_scheme_t *scheme)
{
    return scheme != NULL && (scheme->flags & IL_SIG_BACKEND) != 0;
}


int
il_sig_scheme_sends_secret(const il_sig_scheme_t *scheme)
{
    return scheme != NULL && (scheme->flags & IL_SIG_SENDS_SECRET) != 0;
}
