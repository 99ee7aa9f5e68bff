/*
 * il_sig_schemes.c: one function for each scheme.
 *
 * Common to all: a header that decides anything must be there exactly once;
 * the signature is judged before the timestamp; every secret is tried with
 * every listed signature, so that the time taken tells nothing about which
 * of them fits.  What was received is public: only comparing with what was
 * computed must not depend on the bytes.
 */

#include "il_enc.h"
#include "il_hash.h"
#include "il_sig_int.h"
#include "il_time.h"


/* Times with so many digits are milliseconds: as seconds they would be in
 * the year 5138 or later. */
#define IL_SIG_MS_DIGITS  12


il_sig_why_e
il_sig_github(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int            present;
    il_str_t       value, other;
    il_sig_why_e   why;
    il_sig_list_t  list;

    why = il_sig_get(req, "x-hub-signature-256", &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    /* What identifies the delivery and its event must be unambiguous too. */

    why = il_sig_get_optional(req, "x-github-delivery", &other, &present);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get_optional(req, "x-github-event", &other, &present);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_sig_strip(&value, il_cstr("sha256=")) != 0
        || il_hex_decode(list.bytes[0], IL_SIG_SHA256_BYTES, value) != 0)
    {
        return IL_SIG_WHY_MALFORMED;
    }

    list.n = 1;

    return il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, &req->body, 1)
           ? IL_SIG_WHY_OK : IL_SIG_WHY_MISMATCH;
}


/*
 * "t=…,v1=…[,v1=…][,v0=…]".  A v1 that is not a SHA-256 in hex cannot match
 * and is passed over as an unknown version is.
 */

static il_sig_why_e
il_sig_stripe_parse(il_str_t header, il_str_t *t, int64_t *at,
    il_sig_list_t *list)
{
    size_t    pos;
    il_str_t  item;

    *t = il_str(NULL, 0);
    list->n = 0;
    pos = 0;

    while (il_sig_item(header, ',', &pos, &item)) {

        if (memchr(item.data, '=', item.len) == NULL) {
            return IL_SIG_WHY_MALFORMED;
        }

        if (il_sig_strip(&item, il_cstr("t=")) == 0) {
            if (t->data != NULL || il_digits_parse(item, 18, at) != 0) {
                return IL_SIG_WHY_MALFORMED;
            }

            *t = item;
            continue;
        }

        if (il_sig_strip(&item, il_cstr("v1=")) != 0) {
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


il_sig_why_e
il_sig_stripe(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int64_t        at;
    il_str_t       value, pieces[3];
    il_sig_why_e   why;
    il_sig_list_t  list;

    why = il_sig_get(req, "stripe-signature", &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_stripe_parse(value, &pieces[0], &at, &list);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    pieces[1] = il_cstr(".");
    pieces[2] = req->body;

    if (!il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, pieces, 3)) {
        return IL_SIG_WHY_MISMATCH;
    }

    return il_sig_judge_time(conf, req, at);
}


il_sig_why_e
il_sig_token(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int           found;
    size_t        i;
    uint8_t       given[32], known[32];
    il_str_t      value;
    il_sig_why_e  why;

    why = il_sig_get(req, conf->header, &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_sig_strip(&value, conf->prefix) != 0) {
        return IL_SIG_WHY_MALFORMED;
    }

    /* Digests are of one length: not even the secret's length shows. */

    il_digest(given, value);
    found = 0;

    for (i = 0; i < conf->nsecrets; i++) {
        il_digest(known, il_str((const char *) conf->secrets[i].data,
                                conf->secrets[i].len));
        found |= sodium_memcmp(given, known, sizeof(known)) == 0;
    }

    sodium_memzero(known, sizeof(known));

    return found ? IL_SIG_WHY_OK : IL_SIG_WHY_MISMATCH;
}


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


static int
il_sig_hmac_decode(const il_sig_conf_t *conf, il_str_t value,
    uint8_t given[IL_MAC_MAX])
{
    size_t  n, want;

    want = il_mac_len(conf->algorithm);

    if (conf->encoding == IL_SIG_HEX) {
        return il_hex_decode(given, want, value);
    }

    if (il_b64_decode(given, IL_MAC_MAX, &n, value, IL_B64_STD) != 0) {
        return -1;
    }

    return n == want ? 0 : -1;
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

    if (il_sig_strip(&value, conf->prefix) != 0
        || il_sig_hmac_decode(conf, value, list.bytes[0]) != 0)
    {
        return IL_SIG_WHY_MALFORMED;
    }

    list.n = 1;

    if (!il_sig_try_secrets(conf, 0, conf->algorithm, &list, s.pieces, s.n)) {
        return IL_SIG_WHY_MISMATCH;
    }

    return s.timed ? il_sig_judge_time(conf, req, s.at) : IL_SIG_WHY_OK;
}
