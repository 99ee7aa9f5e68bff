/*
 * il_sig_token.c: senders that put the secret itself into a header.
 *
 * Neither the body nor the time is covered: whoever has seen one request can
 * send others.  GitLab (docs.gitlab.com, "Webhooks") can sign too, as
 * Standard Webhooks do, with a key that starts with "whsec_".
 */

#include "il_hash.h"
#include "il_sig_int.h"


il_sig_why_e
il_sig_try_token(const il_sig_conf_t *conf, int kind, il_str_t value)
{
    int      found;
    size_t   i;
    uint8_t  given[32], known[32];

    /* Digests are of one length: not even the secret's length shows. */

    il_digest(given, value);
    found = 0;

    for (i = 0; i < conf->nsecrets; i++) {
        if (conf->secrets[i].kind != kind) {
            continue;
        }

        il_digest(known, il_str((const char *) conf->secrets[i].data,
                                conf->secrets[i].len));
        found |= sodium_memcmp(given, known, sizeof(known)) == 0;
    }

    sodium_memzero(known, sizeof(known));

    return found ? IL_SIG_WHY_OK : IL_SIG_WHY_MISMATCH;
}


il_sig_why_e
il_sig_token(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    il_str_t      value;
    il_sig_why_e  why;

    why = il_sig_get(req, conf->header, &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_sig_strip_prefix(conf, &value) != 0) {
        return IL_SIG_WHY_MALFORMED;
    }

    return il_sig_try_token(conf, 0, value);
}


/*
 * A request that carries a signature is judged by that, and its token is not
 * looked at, if the secret file has a signing key.  GitLab sends both when
 * both are set there: with a token alone in the file the signature does not
 * count, and with a signing key alone no token passes.
 */

il_sig_why_e
il_sig_gitlab(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int           is_signed;
    il_str_t      value;
    il_sig_why_e  why;

    static const char *const  once[] = {
        "x-gitlab-event", "x-gitlab-event-uuid", "idempotency-key", NULL
    };

    why = il_sig_once(req, once);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get_optional(req, "webhook-signature", &value, &is_signed);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (is_signed && il_sig_has_kind(conf, IL_SIG_KIND_V1)) {
        return il_sig_standard(conf, req);
    }

    why = il_sig_get(req, conf->header, &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    return il_sig_try_token(conf, IL_SIG_KIND_TOKEN, value);
}
