/*
 * certs.h: the certificates that interlockd has fetched, and the threads that
 * fetch them.
 *
 * What is known is remembered until the certificate ends, a day at most; what
 * came to nothing for a short while, so that a flood of forged requests does
 * not become one of fetches.  All of it is bounded: beyond that the answer is
 * IL_PK_UNAVAILABLE, and whoever sends may send again.
 */

#ifndef IL_CERTS_H
#define IL_CERTS_H

#include "conf.h"
#include "sig_pk.h"

typedef struct il_certs_wait_s  il_certs_wait_t;

/* Who waits for an answer, and then the answer.  The caller's memory, from
 * the call until done is called. */
struct il_certs_wait_s {
    il_certs_wait_t  *next;
    void            (*done)(il_certs_wait_t *wait);
    il_pk_rc_e        rc;           /* IL_PK_OK, or why not: */
    char              why[IL_PK_WHY_CAP];
    il_pk_key_t      *key;          /* the waiter's; il_pk_key_free */
};

/* Are the settings about certificates well-formed?  0, or -1 with a message.
 */
int il_certs_conf(const il_conf_t *conf, char *err, size_t cap)
    IL_MUST_CHECK;

/* Starts the threads; stop makes them give up what is under way and waits for
 * them.  0 or -1. */
int il_certs_start(void) IL_MUST_CHECK;
void il_certs_stop(void);

/* The key of the certificate at a URL, or the confirmation of a subscription
 * (no key).  1: wait has the answer now; 0: wait->done will be called by
 * another thread, and must not take long.  Any thread. */
int il_certs_get(const il_sig_scheme_t *scheme, il_str_t url,
    il_certs_wait_t *wait) IL_MUST_CHECK;
int il_certs_confirm(il_str_t url, il_certs_wait_t *wait) IL_MUST_CHECK;

#endif /* IL_CERTS_H */
