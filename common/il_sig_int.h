/*
 * il_sig_int.h: what the il_sig_*.c files share; for them only.
 */

#ifndef IL_SIG_INT_H
#define IL_SIG_INT_H

#include "il_mac.h"
#include "il_sig.h"

#pragma GCC visibility push(hidden)

/* Arguments that a scheme has. */
#define IL_SIG_ARG_TOLERANCE  0x01
#define IL_SIG_ARG_HEADER     0x02
#define IL_SIG_ARG_PREFIX     0x04
#define IL_SIG_ARG_ALGORITHM  0x08
#define IL_SIG_ARG_ENCODING   0x10
#define IL_SIG_ARG_SIGNED     0x20
#define IL_SIG_ARG_SECRET     0x40    /* secret_encoding: every scheme's */
#define IL_SIG_ARG_SIGNATURE  0x80

#define IL_SIG_TOLERANCE         300
#define IL_SIG_TOLERANCE_LINEAR  60   /* what Linear's documents ask for */
#define IL_SIG_TOLERANCE_LATE    3600 /* sns, paypal: a message of SNS keeps its
                                         time when it is sent again, up to an
                                         hour later; PayPal does not say */

/* What a scheme is like. */
#define IL_SIG_PROVIDER       0x01
#define IL_SIG_URL            0x02    /* the public URL is signed */
#define IL_SIG_BACKEND        0x04    /* verified by interlockd */
#define IL_SIG_SENDS_SECRET   0x08    /* a header is the secret itself */

/* Decodes one line of a secret file.  NULL, or what is wrong with it. */
typedef const char *(*il_sig_secret_pt)(il_sig_secret_t *secret,
    il_str_t line, il_sig_secret_enc_e encoding);

typedef il_sig_why_e (*il_sig_verify_pt)(const il_sig_conf_t *conf,
    const il_sig_request_t *req);

struct il_sig_scheme_s {
    il_str_t          name;
    unsigned          flags;
    unsigned          args;
    int64_t           tolerance;      /* the default, seconds */
    const char       *header;         /* the default, lower case, or NULL */
    il_sig_secret_pt  secret;
    il_sig_verify_pt  verify;         /* NULL if verified by interlockd */
};

extern const il_sig_scheme_t  il_sig_schemes[];
extern const size_t           il_sig_nschemes;

/* il_sig_secret.c */
#define IL_SIG_KIND_V1     0          /* the only one of most schemes */
#define IL_SIG_KIND_V1A    1          /* Ed25519 public key */
#define IL_SIG_KIND_TOKEN  2          /* compared as it is */

#define IL_SIG_SECRET_FN(name)                                                \
    const char *name(il_sig_secret_t *secret, il_str_t line,                  \
        il_sig_secret_enc_e encoding)

IL_SIG_SECRET_FN(il_sig_secret_text);
IL_SIG_SECRET_FN(il_sig_secret_hex);
IL_SIG_SECRET_FN(il_sig_secret_adyen);
IL_SIG_SECRET_FN(il_sig_secret_ed25519);
IL_SIG_SECRET_FN(il_sig_secret_standard);
IL_SIG_SECRET_FN(il_sig_secret_gitlab);

/* il_sig_pk_url.c: kept as they stand in the file, when they are of the form
 * that they must have: a public key, a webhook's ID, a topic's ARN. */
IL_SIG_SECRET_FN(il_sig_secret_sendgrid);
IL_SIG_SECRET_FN(il_sig_secret_paypal);
IL_SIG_SECRET_FN(il_sig_secret_sns);

/* il_sig_conf.c: a message with a value, cut and shown without control
 * characters, as it ends up in logs and on terminals. */
void il_sig_error(char *err, size_t cap, const char *text, il_str_t value);

/* Pieces of a template. */
#define IL_SIG_PARTS_MAX  16

/* il_sig_template.c: `signed`.  NULL, or what is wrong with it. */
const char *il_sig_template_check(il_str_t t);

/* The parts of a template, one at a time. */
typedef enum {
    IL_SIG_PART_END = 0,
    IL_SIG_PART_TEXT,
    IL_SIG_PART_BODY,
    IL_SIG_PART_METHOD,
    IL_SIG_PART_URL,
    IL_SIG_PART_HEADER,
    IL_SIG_PART_TIMESTAMP,
    IL_SIG_PART_BAD
} il_sig_part_e;

/* 1 if a template that was checked has a {timestamp:NAME}. */
int il_sig_template_timed(il_str_t t);

/* Takes the next part at *pos; text is literal text, or a header's name. */
il_sig_part_e il_sig_template_next(il_str_t t, size_t *pos, il_str_t *text);

/* Lower-cases a header name, with a NUL; cap counts the NUL.  0, or -1 (too
 * long, empty, or not a header name). */
int il_sig_header_name(char *out, size_t cap, il_str_t name);

/* 1 for a header, in lower case, that says how a message is made up and sent:
 * it can be neither a signature nor a time. */
int il_sig_header_own(const char *name);

/* il_sig_util.c */

#define IL_SIG_SHA256_BYTES  32

/* The signatures that a request lists, decoded to the exact length. */
typedef struct {
    uint8_t  bytes[IL_SIG_LISTED_MAX][IL_MAC_MAX];
    size_t   n;
} il_sig_list_t;

/* The value of a header that must be there, once; its data is never NULL. */
il_sig_why_e il_sig_get(const il_sig_request_t *req, const char *name,
    il_str_t *value);

/* The same for a header that may be missing. */
il_sig_why_e il_sig_get_optional(const il_sig_request_t *req,
    const char *name, il_str_t *value, int *present);

/*
 * A header that is known under two names.  Both may be sent, but only with
 * the same value: else the value that was verified might not be the one that
 * is used as the key.
 */
il_sig_why_e il_sig_get_either(const il_sig_request_t *req, const char *name,
    const char *other_name, il_str_t *value);

/* Header names, up to NULL, that must not occur twice; they may be missing. */
il_sig_why_e il_sig_once(const il_sig_request_t *req,
    const char *const *names);

/* Compares with the tolerance; at is at most 18 digits. */
il_sig_why_e il_sig_judge_time(const il_sig_conf_t *conf,
    const il_sig_request_t *req, int64_t at);

/* Decodes a signature of the algorithm's length to list->bytes[0]: 0, or -1.
 */
int il_sig_decode(il_sig_list_t *list, il_sig_alg_e alg, il_sig_enc_e enc,
    il_str_t value);

/* 1 if there is a secret of the kind. */
int il_sig_has_kind(const il_sig_conf_t *conf, int kind);

/* HMAC over the pieces with every secret of this kind: 1 if any result is
 * in the list.  All are computed and compared in any case. */
int il_sig_try_secrets(const il_sig_conf_t *conf, int kind, il_sig_alg_e alg,
    const il_sig_list_t *list, const il_str_t *pieces, size_t npieces);

/* Takes prefix off value: 0, or -1 if it does not start with it. */
int il_sig_strip(il_str_t *value, il_str_t prefix);

/* Takes conf->prefix off the value of conf->header.  In Authorization a prefix
 * that ends in a blank is the name of a scheme: that has no case, and more
 * blanks may follow (RFC 9110, sections 11.1 and 11.4). */
int il_sig_strip_prefix(const il_sig_conf_t *conf, il_str_t *value);

/* 1 if text is one JSON object and nothing else. */
int il_sig_is_object(il_str_t text);

/* Takes the text up to the next separator at *pos: 1, or 0 at the end. */
int il_sig_item(il_str_t s, char separator, size_t *pos, il_str_t *item);

/* il_sig_ed25519.c: every one of n signatures over the pieces with every
 * secret of the kind, which are public keys.  OK, MISMATCH, or MALFORMED if
 * there is no memory. */
il_sig_why_e il_sig_try_ed25519(const il_sig_conf_t *conf,
    const il_sig_request_t *req, int kind,
    const uint8_t (*sigs)[crypto_sign_BYTES], size_t n,
    const il_str_t *pieces, size_t npieces);

/* il_sig_token.c: value compared with every secret of the kind. */
il_sig_why_e il_sig_try_token(const il_sig_conf_t *conf, int kind,
    il_str_t value);

/* The schemes.  Common to all: a header that decides anything must be there
 * exactly once; the signature is judged before the timestamp; every secret
 * is tried with every listed signature, so that the time taken tells nothing
 * about which of them fits.  What was received is public: only comparing
 * with what was computed must not depend on the bytes. */

#define IL_SIG_SCHEME_FN(name)                                                \
    il_sig_why_e name(const il_sig_conf_t *conf, const il_sig_request_t *req)

/* il_sig_body.c */
IL_SIG_SCHEME_FN(il_sig_github);
IL_SIG_SCHEME_FN(il_sig_intercom);
IL_SIG_SCHEME_FN(il_sig_linear);
IL_SIG_SCHEME_FN(il_sig_meta);
IL_SIG_SCHEME_FN(il_sig_shopify);
IL_SIG_SCHEME_FN(il_sig_x);

/* il_sig_timed.c */
IL_SIG_SCHEME_FN(il_sig_paddle);
IL_SIG_SCHEME_FN(il_sig_slack);
IL_SIG_SCHEME_FN(il_sig_stripe);
IL_SIG_SCHEME_FN(il_sig_zoom);

/* il_sig_url.c */
IL_SIG_SCHEME_FN(il_sig_hubspot);
IL_SIG_SCHEME_FN(il_sig_square);

/* il_sig_twilio.c */
IL_SIG_SCHEME_FN(il_sig_twilio);

/* il_sig_inbody.c */
IL_SIG_SCHEME_FN(il_sig_adyen);
IL_SIG_SCHEME_FN(il_sig_mailgun);

/* il_sig_ed25519.c, il_sig_standard.c, il_sig_token.c, il_sig_hmac.c */
IL_SIG_SCHEME_FN(il_sig_discord);
IL_SIG_SCHEME_FN(il_sig_standard);
IL_SIG_SCHEME_FN(il_sig_gitlab);
IL_SIG_SCHEME_FN(il_sig_token);
IL_SIG_SCHEME_FN(il_sig_hmac);

#pragma GCC visibility pop

#endif /* IL_SIG_INT_H */
