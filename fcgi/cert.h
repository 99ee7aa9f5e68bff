/*
 * cert.h: fetching the certificates that requests are signed with, and
 * confirming subscriptions: the calls of il_sig_pk.h's addresses.
 *
 * Used by interlockd, whose threads for it are certs.c's, and by `interlock
 * verify`.  Each call waits for the network: not for workers.
 */

#ifndef IL_CERT_H
#define IL_CERT_H

#include "outcall.h"
#include "sig_pk.h"

#define IL_CERT_TIMEOUT_MS  4000

/* Whom to call and whom to trust.  Strings are borrowed. */
typedef struct {
    const char  *hosts;             /* further hosts; may be "" */
    const char  *private;           /* of these, that may be private */
    const char  *ca;                /* a file of certificates, or "" */
    int64_t      now;               /* Unix seconds, at which certificates
                                       are to be valid; 0: the clock's */
    int        (*stopping)(void);   /* 1: give up what is under way */
} il_cert_rules_t;

/*
 * Fetches the certificate of a scheme from url, with intermediates if it
 * comes without, and verifies it.  The key (il_pk_key_free) and in *until
 * when it ends, Unix seconds; or NULL, *rc, and why: IL_PK_INVALID, it is
 * not to be trusted, or IL_PK_UNAVAILABLE, it could not be fetched.
 */
il_pk_key_t *il_cert_fetch(const il_cert_rules_t *rules,
    const il_sig_scheme_t *scheme, il_str_t url, int64_t *until,
    il_pk_rc_e *rc, char *why, size_t cap) IL_MUST_CHECK;

/* The same of a file's content instead of a URL's: nothing is fetched but
 * intermediates. */
il_pk_key_t *il_cert_read(const il_cert_rules_t *rules,
    const il_sig_scheme_t *scheme, il_str_t file, int64_t *until,
    il_pk_rc_e *rc, char *why, size_t cap) IL_MUST_CHECK;

/* Confirms a subscription.  IL_PK_OK; or what a request that asks for it is
 * answered, and why. */
il_pk_rc_e il_cert_confirm(const il_cert_rules_t *rules, il_str_t url,
    char *why, size_t cap) IL_MUST_CHECK;

#endif /* IL_CERT_H */
