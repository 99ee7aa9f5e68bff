/*
 * il_sig.h: webhook signatures.  A scheme is one row of the table in
 * il_sig.c and one function; the nginx module and `interlock verify` both
 * go through il_sig_verify().
 *
 * Everything is verified over the raw bytes.  Every secret and every listed
 * signature is tried, without early exit; comparing is constant time, after
 * decoding to the exact length.
 */

#ifndef IL_SIG_H
#define IL_SIG_H

#include "il_mac_key.h"
#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_SIG_SECRETS_MAX   8
#define IL_SIG_SECRET_BYTES  512      /* one decoded secret */
#define IL_SIG_ERR_CAP       512

/* Signatures that one header may list; more are refused as malformed, not
 * ignored.  The bound for v1a is lower, because each of them is checked over
 * the whole body with each key before the sender is known. */
#define IL_SIG_LISTED_MAX    32
#define IL_SIG_LISTED_V1A    4

typedef enum {
    IL_SIG_OK = 0,
    IL_SIG_INVALID,                   /* 401 signature-invalid */
    IL_SIG_TIMESTAMP                  /* 401 timestamp-out-of-range */
} il_sig_rc_e;

/* Why, for logs and `interlock verify`; never sent to the client. */
typedef enum {
    IL_SIG_WHY_OK = 0,
    IL_SIG_WHY_NO_HEADER,             /* a needed header is missing */
    IL_SIG_WHY_REPEATED_HEADER,       /* a security header occurs twice */
    IL_SIG_WHY_MALFORMED,             /* the header does not parse */
    IL_SIG_WHY_MISMATCH,              /* well-formed, no secret fits */
    IL_SIG_WHY_TOO_OLD,
    IL_SIG_WHY_IN_FUTURE,
    IL_SIG_WHY_BODY,                  /* the body is not what the scheme
                                         signs, or has no signature in it */
    IL_SIG_WHY_NO_URL,                /* the scheme signs the public URL, and
                                         it is not known */
    IL_SIG_WHY_BACKEND                /* only interlockd verifies it */
} il_sig_why_e;

const char *il_sig_strwhy(il_sig_why_e why);

/* The value of the header with this lower-case name, and in *count how often
 * it occurs (names compared without case; with *count > 1 any of them). */
typedef il_str_t (*il_sig_header_pt)(void *ctx, const char *lowcase_name,
    size_t *count);

/* n bytes of scratch memory, or NULL.  They are aligned for any object and
 * stay the caller's, who releases them after il_sig_verify has returned (a
 * request pool, an arena): there is no call to free them.  Called at most
 * once per il_sig_verify. */
typedef void *(*il_sig_alloc_pt)(void *ctx, size_t n);

/* Set what is not used to zero: memset() the whole first. */
typedef struct {
    il_sig_header_pt  header;
    void             *ctx;            /* for header and alloc */
    il_str_t          method;
    il_str_t          url;            /* public URL as it was requested, for
                                         schemes that sign it (see
                                         il_sig_scheme_url) and {url} */
    il_str_t          body;           /* raw, one piece */
    int64_t           now;            /* Unix seconds */

    /*
     * Only asked for where the signed bytes must be put together: Ed25519
     * (`discord`, v1a of `standard`) goes over timestamp and body in one
     * piece and needs body.len plus a little; `twilio` sorts the form and
     * needs body.len plus 32 bytes a field.  NULL, or an answer of NULL: the
     * request is refused as malformed.
     */
    il_sig_alloc_pt   alloc;
} il_sig_request_t;

typedef struct il_sig_scheme_s  il_sig_scheme_t;

typedef struct {
    uint8_t  data[IL_SIG_SECRET_BYTES];
    size_t   len;
    int      kind;                    /* scheme's own (e.g. v1 or v1a) */

    il_mac_key_t  mac;                /* of data, for HMAC-SHA256 */
} il_sig_secret_t;

typedef enum { IL_SIG_SHA256 = 0, IL_SIG_SHA512, IL_SIG_SHA1 } il_sig_alg_e;
typedef enum { IL_SIG_HEX = 0, IL_SIG_BASE64 } il_sig_enc_e;

/* How a line of the secret file stands for the key. */
typedef enum {
    IL_SIG_SECRET_OWN = 0,            /* the provider's own form */
    IL_SIG_SECRET_AS_TEXT,
    IL_SIG_SECRET_AS_BASE64,
    IL_SIG_SECRET_AS_HEX
} il_sig_secret_enc_e;

/* Where a scheme's signature stands, if it has two ways: adyen's. */
typedef enum {
    IL_SIG_IN_ITEMS = 0,              /* in each notification of the body */
    IL_SIG_IN_HEADER                  /* in a header, over the body */
} il_sig_place_e;

/* What the directive's arguments say.  Strings belong to the caller and must
 * outlive the configuration. */
typedef struct {
    const il_sig_scheme_t  *scheme;
    il_sig_secret_t         secrets[IL_SIG_SECRETS_MAX];
    size_t                  nsecrets;
    il_sig_secret_enc_e     secret_encoding;
    int64_t                 tolerance;  /* seconds */
    unsigned                given;      /* which arguments there were */
    il_sig_place_e          place;      /* `adyen` */

    /* `hmac` and `token`; header also of others that send a secret */
    char                    header[64]; /* lower case */
    il_str_t                prefix;
    il_sig_alg_e            algorithm;
    il_sig_enc_e            encoding;
    il_str_t                signed_template;
} il_sig_conf_t;

/* Sets the scheme by name and its defaults.  0, or -1 with a message that
 * lists the known schemes. */
int il_sig_conf_init(il_sig_conf_t *conf, il_str_t scheme, char *err,
    size_t cap) IL_MUST_CHECK;

/* One `name=value` argument of the scheme's own: header, prefix, algorithm,
 * encoding, signed, tolerance, signature, secret_encoding.  0, or -1 with a message: an
 * argument that this scheme does not have, a second encoding of the secret, or
 * a bad value (conf keeps the
 * value it had).
 *
 * `secret_encoding` (text, base64 or hex) says how the secret file is
 * written; it must come before il_sig_conf_secrets.  `encoding` is another
 * name for it, but for `hmac`: there it is the signature's (hex or base64).
 *
 * `signature` (items or header) says which of adyen's signatures is wanted;
 * the other one is not looked at.
 *
 * `signed` is a template: text with {body}, {method}, {url}, {header:NAME},
 * {timestamp:NAME}; the last is a header that is also checked against the
 * tolerance, Unix seconds, or milliseconds if it has 12 digits or more.
 * `tolerance` is seconds, or a number with s, m or h, from 1 s to 24 h; a
 * time is out of range if it is further away, in either direction. */
int il_sig_conf_arg(il_sig_conf_t *conf, il_str_t name, il_str_t value,
    char *err, size_t cap) IL_MUST_CHECK;

/* Reads the text of a secret file: one secret a line, the first is current,
 * the others are still accepted; in the provider's own form.  0, or -1 with
 * a message that names the line (never the secret).  Empty lines are skipped;
 * white space at either end of a line is refused, and so are comments ("#",
 * alone or with a blank or "!" behind), PEM, a provider's prefix with nothing
 * behind, and keys of `standard` and `adyen` of less than 16 bytes. */
int il_sig_conf_secrets(il_sig_conf_t *conf, il_str_t text, char *err,
    size_t cap) IL_MUST_CHECK;

/* Checks that nothing is missing (secrets; header= of hmac and token), or in
 * vain (hmac's tolerance without a {timestamp:NAME}).  0 or -1 with a
 * message. */
int il_sig_conf_done(const il_sig_conf_t *conf, char *err, size_t cap)
    IL_MUST_CHECK;

/* 1 if one of the headers that the arguments name has an underscore, which
 * servers often drop; *name is it then, a slice of conf or of its strings. */
int il_sig_conf_underscore(const il_sig_conf_t *conf, il_str_t *name);

/* Wipes the secrets. */
void il_sig_conf_wipe(il_sig_conf_t *conf);

/* IL_SIG_OK, or why not; *why (may be NULL) has the details.  A request with
 * a signature that does not fit and a time out of range is INVALID.  Keeps
 * under 8 kB of stack; several threads may share conf. */
il_sig_rc_e il_sig_verify(const il_sig_conf_t *conf,
    const il_sig_request_t *req, il_sig_why_e *why) IL_MUST_CHECK;

/* Of a scheme, or of none (NULL), where something else is verified: all of
 * these but the name are 0 then. */

/* Name of the scheme, and 1 if it is a provider's (a fingerprint that
 * differs under a known key then defaults to `first`). */
il_str_t il_sig_scheme_name(const il_sig_scheme_t *scheme);
int il_sig_scheme_is_provider(const il_sig_scheme_t *scheme);

/* 1 if the scheme signs the public URL: the request must have it. */
int il_sig_scheme_url(const il_sig_scheme_t *scheme);

/* 1 if interlockd verifies the scheme, because it needs OpenSSL or fetches
 * certificates.  il_sig_verify refuses every request of such a scheme. */
int il_sig_scheme_backend(const il_sig_scheme_t *scheme);

/*
 * How much of a body the signature covers.  Whatever it does not cover may be
 * changed by whoever has seen one request, as often as he likes: a key that
 * depends on it names no request.
 */
typedef enum {
    IL_SIG_COVERS_BODY = 0,           /* every byte of it (or, where a secret
                                         is sent, none) */
    IL_SIG_COVERS_FIELDS,             /* a form's fields, in whatever order
                                         and however they are encoded */
    IL_SIG_COVERS_MEMBERS             /* some members of JSON only */
} il_sig_covers_e;

il_sig_covers_e il_sig_conf_covers(const il_sig_conf_t *conf);

/* 1 if the scalar at the JSON pointer is signed; with adyen the pointer may
 * be one into the body or into an element of /notificationItems. */
int il_sig_conf_covers_member(const il_sig_conf_t *conf, il_str_t pointer);

/* 1 if a header (conf->header) carries the secret itself, so that whoever
 * sees the header could send in the source's name: it must not be kept nor
 * handed on. */
int il_sig_scheme_sends_secret(const il_sig_scheme_t *scheme);

#pragma GCC visibility pop

#endif /* IL_SIG_H */
