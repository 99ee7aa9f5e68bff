/*
 * il_sig_standard.c: Standard Webhooks and Svix, v1 (HMAC) and v1a (Ed25519).
 */

#include "il_enc.h"
#include "il_sig_int.h"
#include "il_time.h"


/* The three headers of a Standard Webhook, and the signatures listed. */

typedef struct {
    il_str_t       id;
    il_str_t       timestamp;
    int64_t        at;
    il_sig_list_t  v1;
    uint8_t        v1a[IL_SIG_LISTED_V1A][crypto_sign_BYTES];
    size_t         nv1a;
} il_sig_standard_t;


/*
 * The header under its Svix and its Standard Webhooks name.  Both may be
 * sent, but only with the same value: else the value that was verified might
 * not be the one that is used as the key.
 */

static il_sig_why_e
il_sig_standard_get(const il_sig_request_t *req, const char *webhook,
    const char *svix, il_str_t *value)
{
    int           has_webhook, has_svix;
    il_str_t      other;
    il_sig_why_e  why;

    why = il_sig_get_optional(req, webhook, value, &has_webhook);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get_optional(req, svix, &other, &has_svix);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (!has_webhook && !has_svix) {
        return IL_SIG_WHY_NO_HEADER;
    }

    if (has_webhook && has_svix && !il_str_eq(*value, other)) {
        return IL_SIG_WHY_REPEATED_HEADER;
    }

    if (!has_webhook) {
        *value = other;
    }

    return IL_SIG_WHY_OK;
}


/*
 * An id that ends in something like ".1614265330" could take its end from
 * the signed timestamp, with the timestamp sent taken from the beginning of
 * the signed body: "id.ts.body" does not tell.
 */

static int
il_sig_standard_id_valid(il_str_t id)
{
    size_t  n;

    if (id.len == 0 || il_has_control(id)) {
        return 0;
    }

    for (n = 0; n < id.len; n++) {
        if (id.data[id.len - 1 - n] < '0' || id.data[id.len - 1 - n] > '9') {
            break;
        }
    }

    return n < 9 || n == id.len || id.data[id.len - 1 - n] != '.';
}


/* "v1,…" and "v1a,…" separated by spaces; other versions are skipped. */

static il_sig_why_e
il_sig_standard_parse(il_str_t header, il_sig_standard_t *s)
{
    size_t    n, pos, listed_v1a, listed_v1;
    uint8_t   sig[crypto_sign_BYTES];
    il_str_t  item;

    pos = 0;
    listed_v1 = 0;
    listed_v1a = 0;

    while (il_sig_item(header, ' ', &pos, &item)) {

        if (il_sig_strip(&item, il_cstr("v1,")) == 0) {
            if (++listed_v1 > IL_SIG_LISTED_MAX) {
                return IL_SIG_WHY_MALFORMED;
            }

            if (il_b64_decode(sig, IL_SIG_SHA256_BYTES, &n, item, IL_B64_STD)
                == 0 && n == IL_SIG_SHA256_BYTES)
            {
                memcpy(s->v1.bytes[s->v1.n++], sig, n);
            }

        } else if (il_sig_strip(&item, il_cstr("v1a,")) == 0) {
            if (++listed_v1a > IL_SIG_LISTED_V1A) {
                return IL_SIG_WHY_MALFORMED;
            }

            if (il_b64_decode(sig, sizeof(sig), &n, item, IL_B64_STD) == 0
                && n == sizeof(sig))
            {
                memcpy(s->v1a[s->nv1a++], sig, n);
            }
        }
    }

    return s->v1.n + s->nv1a != 0 ? IL_SIG_WHY_OK : IL_SIG_WHY_MALFORMED;
}


static int
il_sig_has_kind(const il_sig_conf_t *conf, int kind)
{
    size_t  i;

    for (i = 0; i < conf->nsecrets; i++) {
        if (conf->secrets[i].kind == kind) {
            return 1;
        }
    }

    return 0;
}


/* Every v1a signature with every public key. */

static il_sig_why_e
il_sig_standard_v1a(const il_sig_conf_t *conf, const il_sig_request_t *req,
    const il_sig_standard_t *s, const il_str_t *pieces, size_t npieces)
{
    int       found;
    char     *message;
    size_t    i, k, n;

    if (s->nv1a == 0 || !il_sig_has_kind(conf, IL_SIG_KIND_V1A)) {
        return IL_SIG_WHY_MISMATCH;
    }

    n = 0;

    for (i = 0; i < npieces; i++) {
        n += pieces[i].len;
    }

    message = req->alloc == NULL ? NULL : req->alloc(req->ctx, n);

    if (message == NULL) {
        return IL_SIG_WHY_MALFORMED;
    }

    n = 0;

    for (i = 0; i < npieces; i++) {
        if (pieces[i].len != 0) {
            memcpy(message + n, pieces[i].data, pieces[i].len);
            n += pieces[i].len;
        }
    }

    found = 0;

    for (i = 0; i < conf->nsecrets; i++) {
        if (conf->secrets[i].kind != IL_SIG_KIND_V1A) {
            continue;
        }

        for (k = 0; k < s->nv1a; k++) {
            found |= crypto_sign_verify_detached(s->v1a[k],
                                                 (const uint8_t *) message, n,
                                                 conf->secrets[i].data) == 0;
        }
    }

    return found ? IL_SIG_WHY_OK : IL_SIG_WHY_MISMATCH;
}


il_sig_why_e
il_sig_standard(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int                v1;
    il_str_t           value, pieces[5];
    il_sig_why_e       why;
    il_sig_standard_t  s;

    s.v1.n = 0;
    s.nv1a = 0;

    why = il_sig_standard_get(req, "webhook-signature", "svix-signature",
                              &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_standard_get(req, "webhook-id", "svix-id", &s.id);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_standard_get(req, "webhook-timestamp", "svix-timestamp",
                              &s.timestamp);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (!il_sig_standard_id_valid(s.id)
        || il_digits_parse(s.timestamp, 18, &s.at) != 0
        || il_sig_standard_parse(value, &s) != IL_SIG_WHY_OK)
    {
        return IL_SIG_WHY_MALFORMED;
    }

    pieces[0] = s.id;
    pieces[1] = il_cstr(".");
    pieces[2] = s.timestamp;
    pieces[3] = il_cstr(".");
    pieces[4] = req->body;

    v1 = il_sig_try_secrets(conf, IL_SIG_KIND_V1, IL_SIG_SHA256, &s.v1,
                            pieces, 5);
    why = il_sig_standard_v1a(conf, req, &s, pieces, 5);

    if (!v1 && why != IL_SIG_WHY_OK) {
        return why;
    }

    return il_sig_judge_time(conf, req, s.at);
}
