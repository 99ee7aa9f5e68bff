/*
 * il_sig_timed.c: schemes that sign a timestamp with the body, and send both
 * in headers.
 *
 * Sources: docs.stripe.com, "Verify webhook signatures manually";
 * developer.paddle.com, "Verify webhook signatures"; docs.slack.dev,
 * "Verifying requests from Slack"; developers.zoom.us, "Using webhooks".
 */

#include "il_enc.h"
#include "il_sig_int.h"
#include "il_time.h"


/* A header that lists a time and signatures: "t=…,v1=…[,v1=…][,v0=…]". */

typedef struct {
    const char  *header;
    char         separator;           /* between the items */
    const char  *time;                /* what the time starts with */
    const char  *signature;
    const char  *joint;               /* between time and body */
} il_sig_form_t;


/* A signature that is not a SHA-256 in hex cannot match and is passed over
 * as an unknown version is. */

static il_sig_why_e
il_sig_listed(const il_sig_form_t *form, il_str_t header, il_str_t *t,
    int64_t *at, il_sig_list_t *list)
{
    size_t    pos;
    il_str_t  item;

    *t = il_str(NULL, 0);
    list->n = 0;
    pos = 0;

    while (il_sig_item(header, form->separator, &pos, &item)) {

        if (memchr(item.data, '=', item.len) == NULL) {
            return IL_SIG_WHY_MALFORMED;
        }

        if (il_sig_strip(&item, il_cstr(form->time)) == 0) {
            if (t->data != NULL || il_digits_parse(item, 18, at) != 0) {
                return IL_SIG_WHY_MALFORMED;
            }

            *t = item;
            continue;
        }

        if (il_sig_strip(&item, il_cstr(form->signature)) != 0) {
            continue;
        }

        if (list->n == IL_SIG_LISTED_MAX) {
            return IL_SIG_WHY_MALFORMED;
        }

        if (il_hex_decode(list->bytes[list->n], IL_SIG_SHA256_BYTES, item)
            == 0)
        {
            list->n++;
        }
    }

    return t->data != NULL && list->n != 0 ? IL_SIG_WHY_OK
                                           : IL_SIG_WHY_MALFORMED;
}


static il_sig_why_e
il_sig_by_list(const il_sig_conf_t *conf, const il_sig_request_t *req,
    const il_sig_form_t *form)
{
    int64_t        at;
    il_str_t       value, pieces[3];
    il_sig_why_e   why;
    il_sig_list_t  list;

    why = il_sig_get(req, form->header, &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_listed(form, value, &pieces[0], &at, &list);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    pieces[1] = il_cstr(form->joint);
    pieces[2] = req->body;

    if (!il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, pieces, 3)) {
        return IL_SIG_WHY_MISMATCH;
    }

    return il_sig_judge_time(conf, req, at);
}


il_sig_why_e
il_sig_stripe(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    static const il_sig_form_t  form = {
        "stripe-signature", ',', "t=", "v1=", "."
    };

    return il_sig_by_list(conf, req, &form);
}


il_sig_why_e
il_sig_paddle(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    static const il_sig_form_t  form = {
        "paddle-signature", ';', "ts=", "h1=", ":"
    };

    return il_sig_by_list(conf, req, &form);
}


/* "v0=…" over "v0:time:body", the time in a header of its own. */

static il_sig_why_e
il_sig_v0(const il_sig_conf_t *conf, const il_sig_request_t *req,
    const char *signature, const char *timestamp)
{
    int64_t        at;
    il_str_t       value, pieces[4];
    il_sig_why_e   why;
    il_sig_list_t  list;

    why = il_sig_get(req, signature, &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get(req, timestamp, &pieces[1]);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_digits_parse(pieces[1], 18, &at) != 0
        || il_sig_strip(&value, il_cstr("v0=")) != 0
        || il_sig_decode(&list, IL_SIG_SHA256, IL_SIG_HEX, value) != 0)
    {
        return IL_SIG_WHY_MALFORMED;
    }

    pieces[0] = il_cstr("v0:");
    pieces[2] = il_cstr(":");
    pieces[3] = req->body;

    if (!il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, pieces, 4)) {
        return IL_SIG_WHY_MISMATCH;
    }

    return il_sig_judge_time(conf, req, at);
}


il_sig_why_e
il_sig_slack(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    return il_sig_v0(conf, req, "x-slack-signature",
                     "x-slack-request-timestamp");
}


il_sig_why_e
il_sig_zoom(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    return il_sig_v0(conf, req, "x-zm-signature", "x-zm-request-timestamp");
}
