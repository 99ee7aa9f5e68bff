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


il_sig_why_e
il_sig_standard(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int                v1;
    il_str_t           value, pieces[5];
    il_sig_why_e       why;
    il_sig_standard_t  s;

    s.v1.n = 0;
    s.nv1a = 0;

    why = il_sig_get_either(req, "webhook-signature", "svix-signature",
                            &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get_either(req, "webhook-id", "svix-id", &s.id);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get_either(req, "webhook-timestamp", "svix-timestamp",
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
    why = il_sig_try_ed25519(conf, req, IL_SIG_KIND_V1A,
                             (const uint8_t (*)[crypto_sign_BYTES]) s.v1a,
                             s.nv1a, pieces, 5);

    if (!v1 && why != IL_SIG_WHY_OK) {
        return why;
    }

    return il_sig_judge_time(conf, req, s.at);
}
