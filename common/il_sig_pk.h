/*
 * il_sig_pk.h: the schemes whose keys are public: `sendgrid` (ECDSA),
 * `paypal` and `sns` (RSA, by a certificate that the request names).
 *
 * Here is all of them but the arithmetic: what a request must look like,
 * which bytes are signed, and where a certificate may come from.  OpenSSL and
 * the network are fcgi/sig_pk.c's and fcgi/cert.c's.
 *
 * Sources: SendGrid, "Getting Started with the Event Webhook Security
 * Features"; PayPal, "Verify webhook signatures"; Amazon SNS Developer Guide,
 * "Verifying the signatures of Amazon SNS messages".
 */

#ifndef IL_SIG_PK_H
#define IL_SIG_PK_H

#include "il_sig.h"
#include "il_url.h"

#pragma GCC visibility push(hidden)

#define IL_SIG_PK_BYTES   1024        /* RSA with up to 8192 bits */
#define IL_SIG_PK_PIECES  32
#define IL_SIG_PK_SPKI    91          /* a P-256 public key in DER */

/* What an SNS message is for; the other schemes only have messages. */
typedef enum {
    IL_SIG_PK_MESSAGE = 0,
    IL_SIG_PK_SUBSCRIBE,              /* asks to confirm a subscription */
    IL_SIG_PK_UNSUBSCRIBE             /* tells that one has ended */
} il_sig_pk_type_e;

/* A request taken apart.  Strings are slices of the request, of its scratch
 * memory or of the configuration. */
typedef struct {
    int               ec;             /* ECDSA by the secrets themselves; else
                                         RSA (PKCS #1 v1.5) by cert_url's */
    il_sig_alg_e      algorithm;
    uint8_t           signature[IL_SIG_PK_BYTES];
    size_t            signature_len;
    int64_t           at;             /* the signed time, Unix seconds */
    il_sig_pk_type_e  type;
    il_str_t          cert_url;
    il_str_t          subscribe_url;
    il_str_t          topic;

    il_str_t          pieces[IL_SIG_PK_PIECES];
    size_t            npieces;
    size_t            blank;          /* the piece that is the secret; or
                                         IL_SIG_PK_PIECES: none is */
    char              crc[12];
} il_sig_pk_t;

/* Takes a request of such a scheme apart; req->alloc is asked for body.len
 * bytes by `sns`, which must live as long as pk.  NULL, or what is wrong with
 * the request, for logs.  Nothing is verified by this. */
const char *il_sig_pk_read(const il_sig_conf_t *conf,
    const il_sig_request_t *req, il_sig_pk_t *pk) IL_MUST_CHECK;

/* The number of ways to verify it, and the bytes that are signed in way i, to
 * be taken one after the other: a way for each secret, where the secret is
 * the key (sendgrid) or is signed (paypal); else one. */
size_t il_sig_pk_ways(const il_sig_conf_t *conf, const il_sig_pk_t *pk);
size_t il_sig_pk_signed(const il_sig_conf_t *conf, const il_sig_pk_t *pk,
    size_t i, il_str_t pieces[IL_SIG_PK_PIECES]);

/* The signed time against the tolerance: IL_SIG_WHY_OK, _TOO_OLD or
 * _IN_FUTURE.  A certificate is fetched only if it is OK; otherwise to be asked
 * when the signature is known to be good. */
il_sig_why_e il_sig_pk_time(const il_sig_conf_t *conf,
    const il_sig_request_t *req, const il_sig_pk_t *pk);

/* The public key that a secret of `sendgrid` is, in DER (RFC 5480).  0, or -1
 * if it is none. */
int il_sig_pk_spki(const il_sig_secret_t *secret,
    uint8_t der[IL_SIG_PK_SPKI]) IL_MUST_CHECK;


/*
 * Where interlockd may go for them.  `also` is a list of further hosts, as
 * for il_hosts_match(); an address is allowed by being named there only.
 * Each: NULL and *parsed, slices of url; or what is wrong, as the end of an
 * English sentence that begins with the URL's name.
 */

/* A certificate of the scheme: https, the provider's host, its path. */
const char *il_sig_pk_cert_url(const il_sig_scheme_t *scheme, il_str_t url,
    il_str_t also, il_url_t *parsed);

/* The address that confirms a subscription to an SNS topic. */
const char *il_sig_pk_confirm_url(il_str_t url, il_str_t also,
    il_url_t *parsed);

/* The certificate of a certificate's issuer (RFC 5280, section 4.2.2.1), for
 * providers that do not send their intermediates along; http too: what comes
 * is verified. */
const char *il_sig_pk_issuer_url(il_str_t url, il_str_t also,
    il_url_t *parsed);

/* 1 if a certificate for this DNS name may sign for the scheme. */
int il_sig_pk_name(const il_sig_scheme_t *scheme, il_str_t name);

#pragma GCC visibility pop

#endif /* IL_SIG_PK_H */
