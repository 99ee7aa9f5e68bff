/*
 * sig_pk.h: verifying what il_sig_pk.h has taken apart: public keys,
 * certificates and their chains.
 *
 * sig_pk.c is the one file that touches OpenSSL; without it (configure
 * --without-openssl) every call says so.  Any thread may call these; an
 * il_pk_key_t may be shared by several, a chain belongs to one.
 */

#ifndef IL_FCGI_SIG_PK_H
#define IL_FCGI_SIG_PK_H

#include "il_sig_pk.h"

#define IL_PK_WHY_CAP  256

typedef enum {
    IL_PK_OK = 0,
    IL_PK_INVALID,            /* 401 signature-invalid */
    IL_PK_TIMESTAMP,          /* 401 timestamp-out-of-range */
    IL_PK_UNAVAILABLE         /* 503: it cannot be told now */
} il_pk_rc_e;

/* NULL, or why this program can verify nothing. */
const char *il_pk_missing(void);

/* A public key that is trusted to sign for a scheme; counted. */
typedef struct il_pk_key_s  il_pk_key_t;

/* The same key once more, and one use less; NULL is allowed. */
il_pk_key_t *il_pk_key_ref(il_pk_key_t *key);
void il_pk_key_free(il_pk_key_t *key);

/* What can be told of a request that il_sig_pk_read has taken apart before
 * its certificate is there: IL_PK_OK, or IL_PK_TIMESTAMP for a time that no
 * signature would make good, so that nothing need be fetched for it.  Where
 * the secrets are the keys always IL_PK_OK.  *why as below. */
il_pk_rc_e il_pk_early(const il_sig_conf_t *conf,
    const il_sig_request_t *req, const il_sig_pk_t *pk, const char **why)
    IL_MUST_CHECK;

/* Verifies a request that il_sig_pk_read has taken apart: first the
 * signature, then the time.  key is that of the certificate, NULL where the
 * secrets are the keys.  *why is a constant text, for logs. */
il_pk_rc_e il_pk_verify(const il_sig_conf_t *conf,
    const il_sig_request_t *req, const il_sig_pk_t *pk,
    const il_pk_key_t *key, const char **why) IL_MUST_CHECK;


/* A certificate and what was gathered to verify it with. */
typedef struct il_pk_chain_s  il_pk_chain_t;

/* The certificate and its intermediates, as a file in PEM has them; or NULL
 * and why. */
il_pk_chain_t *il_pk_chain_new(il_str_t file, char *why, size_t cap)
    IL_MUST_CHECK;

/* Adds intermediates, DER or PEM.  0, or -1: there is none in it. */
int il_pk_chain_add(il_pk_chain_t *chain, il_str_t file) IL_MUST_CHECK;

/*
 * The key, if the certificate is for a name that may sign for the scheme, is
 * valid now (Unix seconds), and is trusted by the file of certificates ca
 * ("": by the system); *until is when that ends.  Or NULL and why; then
 * issuer may hold the URL of an intermediate that is missing, else "".
 */
il_pk_key_t *il_pk_chain_verify(il_pk_chain_t *chain,
    const il_sig_scheme_t *scheme, const char *ca, int64_t now,
    int64_t *until, char *issuer, size_t issuer_cap, char *why, size_t cap)
    IL_MUST_CHECK;

void il_pk_chain_free(il_pk_chain_t *chain);

#endif /* IL_FCGI_SIG_PK_H */
