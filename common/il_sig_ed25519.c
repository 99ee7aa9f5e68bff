/*
 * il_sig_ed25519.c: signatures by Ed25519 (RFC 8032), and discord.
 *
 * Source: docs.discord.com, "Setting up an endpoint: validating security
 * request headers".  Discord sends wrong signatures on purpose, and takes the
 * endpoint down if they are not refused with 401.
 */

#include "il_enc.h"
#include "il_sig_int.h"
#include "il_time.h"


/* libsodium wants the whole message in one piece: its streaming calls are
 * for another signature (Ed25519ph). */

static uint8_t *
il_sig_join(const il_sig_request_t *req, const il_str_t *pieces,
    size_t npieces, size_t *len)
{
    size_t    i, n;
    uint8_t  *message;

    n = 0;

    for (i = 0; i < npieces; i++) {
        n += pieces[i].len;
    }

    message = req->alloc == NULL ? NULL : req->alloc(req->ctx, n);

    if (message == NULL) {
        return NULL;
    }

    *len = n;
    n = 0;

    for (i = 0; i < npieces; i++) {
        if (pieces[i].len != 0) {
            memcpy(message + n, pieces[i].data, pieces[i].len);
            n += pieces[i].len;
        }
    }

    return message;
}


il_sig_why_e
il_sig_try_ed25519(const il_sig_conf_t *conf, const il_sig_request_t *req,
    int kind, const uint8_t (*sigs)[crypto_sign_BYTES], size_t n,
    const il_str_t *pieces, size_t npieces)
{
    int       found;
    size_t    i, k, len;
    uint8_t  *message;

    if (n == 0 || !il_sig_has_kind(conf, kind)) {
        return IL_SIG_WHY_MISMATCH;
    }

    message = il_sig_join(req, pieces, npieces, &len);

    if (message == NULL) {
        return IL_SIG_WHY_MALFORMED;
    }

    found = 0;

    for (i = 0; i < conf->nsecrets; i++) {
        if (conf->secrets[i].kind != kind) {
            continue;
        }

        for (k = 0; k < n; k++) {
            found |= crypto_sign_verify_detached(sigs[k], message, len,
                                                 conf->secrets[i].data) == 0;
        }
    }

    return found ? IL_SIG_WHY_OK : IL_SIG_WHY_MISMATCH;
}


il_sig_why_e
il_sig_discord(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int64_t       at;
    uint8_t       sig[1][crypto_sign_BYTES];
    il_str_t      value, pieces[2];
    il_sig_why_e  why;

    why = il_sig_get(req, "x-signature-ed25519", &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get(req, "x-signature-timestamp", &pieces[0]);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_digits_parse(pieces[0], 18, &at) != 0
        || il_hex_decode(sig[0], sizeof(sig[0]), value) != 0)
    {
        return IL_SIG_WHY_MALFORMED;
    }

    pieces[1] = req->body;

    why = il_sig_try_ed25519(conf, req, IL_SIG_KIND_V1A,
                             (const uint8_t (*)[crypto_sign_BYTES]) sig, 1,
                             pieces, 2);

    return why == IL_SIG_WHY_OK ? il_sig_judge_time(conf, req, at) : why;
}
