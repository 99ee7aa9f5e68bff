/*
 * il_shake.h: handshakes, by which a provider finds out whether an address
 * is one of ours before it sends events there, and the answers by which some
 * of them want events acknowledged.
 *
 * None of this makes a job.  What is answered with the help of a secret (X,
 * Zoom) is a signature over something that the caller chose, who with X may
 * be anybody.  So nothing is signed that could be a delivery: a text has only
 * letters, digits and "-_+/=.".  A delivery of X must be a JSON object, which
 * il_sig_x demands (without that a token "1" would be one, with a signature
 * that was asked for); what Zoom signs of a delivery begins with "v0:", and
 * it is asked in a signed request only.  Meta, Slack, Discord and CloudEvents
 * get nothing that was made with a secret.
 *
 * Sources: the documents of Slack ("url_verification"), Meta ("Verification
 * Requests"), Zoom ("Validate your webhook endpoint"), X ("Challenge-Response
 * Checks"), Discord ("Interactions", "Webhook Events"), Adyen ("Accept
 * webhooks"), Paddle ("Respond to webhooks"), and CloudEvents' "HTTP 1.1 Web
 * Hooks for Event Delivery" 1.0.2.
 */

#ifndef IL_SHAKE_H
#define IL_SHAKE_H

#include "il_sig.h"

#pragma GCC visibility push(hidden)

#define IL_SHAKE_TOKEN_MAX   512      /* bytes of what the caller chooses */
#define IL_SHAKE_BODY_MAX    8192     /* longer requests are none */
#define IL_SHAKE_ANSWER_CAP  2048

typedef enum {
    IL_SHAKE_NONE = 0,                /* not a handshake: go on */
    IL_SHAKE_ANSWER,                  /* *answer is what to send */
    IL_SHAKE_REFUSED                  /* one, but not a good one: 403 */
} il_shake_rc_e;

typedef struct {
    int          status;
    const char  *type;                /* content type; NULL: no body */
    size_t       len;
    char         body[IL_SHAKE_ANSWER_CAP];   /* not NUL-terminated */
} il_shake_answer_t;

typedef enum {
    IL_SHAKE_ARG_NONE = 0,
    IL_SHAKE_ARG_VERIFY_TOKEN,        /* its value is a file */
    IL_SHAKE_ARG_ALLOWED_ORIGIN,
    IL_SHAKE_ARG_ALLOWED_RATE
} il_shake_arg_e;

/* Strings belong to the caller and must outlive the configuration. */
typedef struct {
    il_str_t  verify_token;           /* Meta's, or empty: no GET */
    il_str_t  allowed_origin;         /* names with "," between them, or "*";
                                         empty: no OPTIONS */
    il_str_t  allowed_rate;           /* a minute, or empty: any */
} il_shake_conf_t;

/* The argument of a scheme with this name, IL_SHAKE_ARG_NONE if it is none of
 * handshakes.  *wrong is set if the scheme does not have it (else NULL). */
il_shake_arg_e il_shake_arg(const il_sig_scheme_t *scheme, il_str_t name,
    const char **wrong);

/* Sets an argument (a token: the text of its file).  NULL, or what is wrong
 * with the value. */
const char *il_shake_conf_set(il_shake_conf_t *conf, il_shake_arg_e arg,
    il_str_t value);

/* A GET to a location with this scheme; query is what stands behind "?", as
 * it was sent.  Nothing has been verified. */
il_shake_rc_e il_shake_get(const il_shake_conf_t *conf,
    const il_sig_conf_t *sig, il_str_t query, il_shake_answer_t *answer)
    IL_MUST_CHECK;

/* A POST whose signature was verified. */
il_shake_rc_e il_shake_post(const il_sig_conf_t *sig, il_str_t body,
    il_shake_answer_t *answer) IL_MUST_CHECK;

/* OPTIONS: origin and rate are the values of WebHook-Request-Origin and
 * WebHook-Request-Rate (empty if it was not sent).  On IL_SHAKE_ANSWER
 * *allowed is the value of WebHook-Allowed-Origin and *granted that of
 * WebHook-Allowed-Rate, empty if none is to be sent; slices of conf, origin
 * or static text. */
il_shake_rc_e il_shake_options(const il_shake_conf_t *conf, il_str_t origin,
    il_str_t rate, il_str_t *allowed, il_str_t *granted) IL_MUST_CHECK;

/* How a delivery that was taken is acknowledged: 1 and what the provider wants
 * to read, or 0 if this scheme has no form of its own and gets the backend's
 * answer. */
typedef struct {
    int          status;
    unsigned     keep:1;              /* the status only, with the backend's
                                         type and body */
    unsigned     forms:1;             /* only if the delivery was sent as
                                         application/x-www-form-urlencoded */
    const char  *type;                /* content type; NULL: no body */
    il_str_t     body;
} il_shake_taken_t;

int il_shake_taken(const il_sig_scheme_t *scheme, il_shake_taken_t *taken);

#pragma GCC visibility pop

#endif /* IL_SHAKE_H */
