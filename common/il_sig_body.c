/*
 * il_sig_body.c: schemes that put an HMAC over the body alone into a header.
 *
 * Sources: docs.github.com, "Validating webhook deliveries" (github, and
 * meta, which took it over); shopify.dev, "Verify webhook deliveries";
 * developers.intercom.com, "Signed notifications"; linear.app/developers,
 * "Webhooks"; developer.x.com, "Securing webhooks".
 */

#include "il_json.h"
#include "il_sig_int.h"
#include "il_time.h"


/* The HMAC over the body, in the header's value after the prefix. */

static il_sig_why_e
il_sig_over_body(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_str_t value, const char *prefix, il_sig_alg_e alg, il_sig_enc_e enc)
{
    il_sig_list_t  list;

    if (il_sig_strip(&value, il_cstr(prefix)) != 0
        || il_sig_decode(&list, alg, enc, value) != 0)
    {
        return IL_SIG_WHY_MALFORMED;
    }

    return il_sig_try_secrets(conf, 0, alg, &list, &req->body, 1)
           ? IL_SIG_WHY_OK : IL_SIG_WHY_MISMATCH;
}


/* The same with the value of that one header. */

static il_sig_why_e
il_sig_header_over_body(const il_sig_conf_t *conf,
    const il_sig_request_t *req, const char *header, const char *prefix,
    il_sig_alg_e alg, il_sig_enc_e enc)
{
    il_str_t      value;
    il_sig_why_e  why;

    why = il_sig_get(req, header, &value);

    return why != IL_SIG_WHY_OK
           ? why : il_sig_over_body(conf, req, value, prefix, alg, enc);
}


il_sig_why_e
il_sig_github(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    il_sig_why_e  why;

    /* What identifies the delivery and its event must be unambiguous too. */

    static const char *const  once[] = {
        "x-github-delivery", "x-github-event", NULL
    };

    why = il_sig_once(req, once);

    return why == IL_SIG_WHY_OK ? il_sig_meta(conf, req) : why;
}


/* Meta signs the body as it is sent, with its \uXXXX and \/ escapes. */

il_sig_why_e
il_sig_meta(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    return il_sig_header_over_body(conf, req, "x-hub-signature-256",
                                   "sha256=", IL_SIG_SHA256, IL_SIG_HEX);
}


il_sig_why_e
il_sig_intercom(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    return il_sig_header_over_body(conf, req, "x-hub-signature", "sha1=",
                                   IL_SIG_SHA1, IL_SIG_HEX);
}


/* The headers are known with "X-" before them and, lately, without. */

il_sig_why_e
il_sig_shopify(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    il_str_t      value;
    il_sig_why_e  why;

    static const char *const  once[] = {
        "x-shopify-webhook-id", "shopify-webhook-id", "x-shopify-event-id",
        "shopify-event-id", "x-shopify-topic", "shopify-topic", NULL
    };

    why = il_sig_once(req, once);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get_either(req, "x-shopify-hmac-sha256",
                            "shopify-hmac-sha256", &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    return il_sig_over_body(conf, req, value, "", IL_SIG_SHA256,
                            IL_SIG_BASE64);
}


/* With the same secret X has us sign what anybody asks for (il_shake_get in
 * il_shake.h), which is never an object, as all events are. */

il_sig_why_e
il_sig_x(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    il_sig_why_e  why;

    why = il_sig_header_over_body(conf, req, "x-twitter-webhooks-signature",
                                  "sha256=", IL_SIG_SHA256, IL_SIG_BASE64);

    if (why == IL_SIG_WHY_OK && !il_sig_is_object(req->body)) {
        return IL_SIG_WHY_BODY;
    }

    return why;
}


/* The time that counts is the one in the body, in milliseconds: the header
 * with a timestamp is not signed. */

il_sig_why_e
il_sig_linear(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int64_t          ms;
    il_sig_why_e     why;
    il_json_value_t  at;

    static const char *const  once[] = {
        "linear-delivery", "linear-event", NULL
    };

    why = il_sig_once(req, once);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_header_over_body(conf, req, "linear-signature", "",
                                  IL_SIG_SHA256, IL_SIG_HEX);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    /* Only what is signed is parsed. */

    if (il_json_find(req->body, il_cstr("/webhookTimestamp"), &at)
        != IL_JSON_OK
        || at.type != IL_JSON_NUMBER
        || il_digits_parse(at.raw, 18, &ms) != 0)
    {
        return IL_SIG_WHY_BODY;
    }

    return il_sig_judge_time(conf, req, ms / 1000);
}
