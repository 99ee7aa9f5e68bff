/*
 * verify_pk.c: `interlock verify` for the schemes that interlockd verifies,
 * by what interlockd itself calls.  A certificate is fetched, from the same
 * addresses that interlockd would, unless it is given.
 */

#include "../cert.h"
#include "verify.h"

#define IL_VERIFY_CERT_MAX  65536


static int
il_verify_pk_stopping(void)
{
    return 0;
}


static il_pk_key_t *
il_verify_pk_fetch(const il_cert_rules_t *rules, const il_sig_conf_t *conf,
    const il_sig_pk_t *pk, il_pk_rc_e *rc, char *why, size_t cap)
{
    int64_t       until;
    il_pk_key_t  *key;

    if (il_outcall_init() != 0) {
        *rc = IL_PK_UNAVAILABLE;
        (void) snprintf(why, cap, "out of memory");
        return NULL;
    }

    key = il_cert_fetch(rules, conf->scheme, pk->cert_url, &until, rc, why,
                        cap);
    il_outcall_end();

    return key;
}


/* The key of the certificate.  0 or an exit code; *rc and why if it is not to
 * be trusted. */
static int
il_verify_pk_key(il_verify_pk_t *v, const il_sig_conf_t *conf,
    const il_sig_request_t *req, const il_sig_pk_t *pk, il_pk_rc_e *rc,
    char *why, size_t cap)
{
    int               code;
    int64_t           until;
    il_buf_t          b;
    il_url_t          parsed;
    const char       *bad;
    il_cert_rules_t   rules;

    rules.hosts = (v->hosts == NULL) ? "" : v->hosts;
    rules.private = rules.hosts;
    rules.ca = (v->ca == NULL) ? "" : v->ca;
    rules.now = req->now;
    rules.stopping = il_verify_pk_stopping;

    bad = il_sig_pk_cert_url(conf->scheme, pk->cert_url,
                             il_cstr(rules.hosts), &parsed);

    if (bad != NULL) {
        *rc = IL_PK_INVALID;
        (void) snprintf(why, cap, "the certificate's URL %s", bad);
        return 0;
    }

    if (v->cert == NULL) {
        v->key = il_verify_pk_fetch(&rules, conf, pk, rc, why, cap);
        return 0;
    }

    memset(&b, 0, sizeof(b));
    code = il_file_read(&b, v->cert, IL_VERIFY_CERT_MAX);

    if (code == 0) {
        v->key = il_cert_read(&rules, conf->scheme, il_buf_str(&b), &until,
                              rc, why, cap);
    }

    il_buf_free(&b);

    return code;
}


int
il_verify_pk(il_verify_pk_t *v, const il_sig_conf_t *conf,
    const il_sig_request_t *req, il_sig_rc_e *sig, const char **why, int *fit)
{
    int          code;
    il_pk_rc_e   rc;
    il_sig_pk_t  pk;

    static char  text[IL_PK_WHY_CAP];

    *fit = 0;
    *sig = IL_SIG_INVALID;
    *why = il_pk_missing();

    if (*why != NULL) {
        il_err("verify: %s", *why);
        return EX_UNAVAILABLE;
    }

    *why = il_sig_pk_read(conf, req, &pk);

    if (*why != NULL) {
        return 0;
    }

    rc = il_pk_early(conf, req, &pk, why);

    if (rc != IL_PK_OK) {
        *sig = IL_SIG_TIMESTAMP;
        return 0;
    }

    if (!pk.ec) {
        code = il_verify_pk_key(v, conf, req, &pk, &rc, text, sizeof(text));
        if (code != 0) {
            return code;
        }

        *why = text;
    }

    if (pk.ec || v->key != NULL) {
        rc = il_pk_verify(conf, req, &pk, v->key, why);
        *fit = (rc == IL_PK_INVALID);
    }

    if (rc == IL_PK_UNAVAILABLE) {
        il_err("verify: %s", *why);
        return EX_UNAVAILABLE;
    }

    *sig = (rc == IL_PK_OK) ? IL_SIG_OK
           : (rc == IL_PK_TIMESTAMP) ? IL_SIG_TIMESTAMP : IL_SIG_INVALID;

    return 0;
}


int
il_verify_pk_fits(const il_verify_pk_t *v, const il_sig_conf_t *conf,
    const il_sig_request_t *req)
{
    const char   *why;
    il_sig_pk_t   pk;

    return il_sig_pk_read(conf, req, &pk) == NULL
           && il_pk_verify(conf, req, &pk, v->key, &why) == IL_PK_OK;
}
