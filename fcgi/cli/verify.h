/*
 * verify.h: what the files of `interlock verify` share.
 */

#ifndef IL_CLI_VERIFY_H
#define IL_CLI_VERIFY_H

#include "../sig_pk.h"
#include "cli.h"

/* Of the schemes that interlockd verifies: where certificates come from, and
 * the key, once there is one (il_pk_key_free). */
typedef struct {
    const char   *cert;             /* a file instead of the URL's, or NULL */
    const char   *ca;               /* a file of trusted ones, or NULL */
    const char   *hosts;            /* as cert_hosts, or NULL */
    il_pk_key_t  *key;
} il_verify_pk_t;

/* Verifies a request of such a scheme.  0 and *sig and *why (a text that
 * lasts as long as the program); *fit is 1 if it is well-formed and only the
 * signature does not fit.  Or an exit code: it cannot be told. */
int il_verify_pk(il_verify_pk_t *v, const il_sig_conf_t *conf,
    const il_sig_request_t *req, il_sig_rc_e *sig, const char **why,
    int *fit) IL_MUST_CHECK;

/* 1 if another request is valid by the key that il_verify_pk has found. */
int il_verify_pk_fits(const il_verify_pk_t *v, const il_sig_conf_t *conf,
    const il_sig_request_t *req);

#define IL_VERIFY_BODY_MAX  (64 * 1024 * 1024)

/* 1 if the request is valid; req->ctx is that of the command's request. */
int il_verify_fits(const il_sig_conf_t *conf, const il_sig_request_t *req);

/* The usual mistake under which the request would be valid, or NULL.  came is
 * the body as it came, if req->body is what it inflates to. */
const char *il_verify_hint(const il_sig_conf_t *conf,
    const il_sig_request_t *req, il_str_t came);

/* 1, and in b which header of the request is missing, there twice or not of
 * the form that its scheme has, and which form that is; or 0.  No value is
 * said, it may be the secret. */
int il_verify_form(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_buf_t *b) IL_MUST_CHECK;

/* Adds the forms of those headers of the scheme that il_verify_form does not
 * look into. */
void il_verify_form_all(const il_sig_conf_t *conf, il_buf_t *b);

/* Inflates gzip data to out, which is replaced.  0, or -1 (not one piece of
 * gzip, or more than IL_VERIFY_BODY_MAX). */
int il_verify_gunzip(il_str_t in, il_buf_t *out) IL_MUST_CHECK;

#endif /* IL_CLI_VERIFY_H */
