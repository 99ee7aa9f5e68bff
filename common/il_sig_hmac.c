/*
 * il_sig_hmac.c: the scheme for all senders that have none of their own: an
 * HMAC in a header, over what a template says.
 */

#include "il_sig_int.h"
#include "il_time.h"


/* Times with so many digits are milliseconds: as seconds they would be in
 * the year 5138 or later. */
#define IL_SIG_MS_DIGITS  12


/* The headers that a template names, looked up once for all secrets. */

typedef struct {
    il_str_t  pieces[IL_SIG_PARTS_MAX];
    size_t    n;
    int       timed;
    int64_t   at;
} il_sig_signed_t;


static il_sig_why_e
il_sig_hmac_piece(const il_sig_request_t *req, il_sig_part_e part,
    il_str_t *text, il_sig_signed_t *s)
{
    char          name[64];
    il_sig_why_e  why;

    switch (part) {

    case IL_SIG_PART_TEXT:
        return IL_SIG_WHY_OK;

    case IL_SIG_PART_BODY:
        *text = req->body;
        return IL_SIG_WHY_OK;

    case IL_SIG_PART_METHOD:
        *text = req->method;
        return IL_SIG_WHY_OK;

    case IL_SIG_PART_URL:
        *text = req->url;
        return IL_SIG_WHY_OK;

    case IL_SIG_PART_HEADER:
    case IL_SIG_PART_TIMESTAMP:
        break;

    case IL_SIG_PART_END:
    case IL_SIG_PART_BAD:
        return IL_SIG_WHY_MALFORMED;
    }

    if (il_sig_header_name(name, sizeof(name), *text) != 0) {
        return IL_SIG_WHY_MALFORMED;
    }

    why = il_sig_get(req, name, text);

    if (why != IL_SIG_WHY_OK || part == IL_SIG_PART_HEADER) {
        return why;
    }

    if (il_digits_parse(*text, 18, &s->at) != 0) {
        return IL_SIG_WHY_MALFORMED;
    }

    if (text->len >= IL_SIG_MS_DIGITS) {
        s->at /= 1000;
    }

    s->timed = 1;

    return IL_SIG_WHY_OK;
}


static il_sig_why_e
il_sig_hmac_signed(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_sig_signed_t *s)
{
    size_t         pos;
    il_str_t       text;
    il_sig_why_e   why;
    il_sig_part_e  part;

    memset(s, 0, sizeof(*s));
    pos = 0;

    for ( ;; ) {
        part = il_sig_template_next(conf->signed_template, &pos, &text);

        if (part == IL_SIG_PART_END) {
            return IL_SIG_WHY_OK;
        }

        if (s->n == IL_SIG_PARTS_MAX) {
            return IL_SIG_WHY_MALFORMED;
        }

        why = il_sig_hmac_piece(req, part, &text, s);

        if (why != IL_SIG_WHY_OK) {
            return why;
        }

        s->pieces[s->n++] = text;
    }
}


il_sig_why_e
il_sig_hmac(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    il_str_t         value;
    il_sig_why_e     why;
    il_sig_list_t    list;
    il_sig_signed_t  s;

    why = il_sig_get(req, conf->header, &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_hmac_signed(conf, req, &s);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_sig_strip_prefix(conf, &value) != 0
        || il_sig_decode(&list, conf->algorithm, conf->encoding, value) != 0)
    {
        return IL_SIG_WHY_MALFORMED;
    }

    if (!il_sig_try_secrets(conf, 0, conf->algorithm, &list, s.pieces, s.n)) {
        return IL_SIG_WHY_MISMATCH;
    }

    return s.timed ? il_sig_judge_time(conf, req, s.at) : IL_SIG_WHY_OK;
}
