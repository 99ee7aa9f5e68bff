/*
 * ingress_pk.h: requests of providers whose signatures interlockd verifies,
 * because they need OpenSSL or a certificate: the edge hands them on as they
 * came, with INTERLOCK_VERIFY (the scheme), INTERLOCK_VERIFY_KEY (the file of
 * keys, a line each) and INTERLOCK_VERIFY_ARGS (name=value, with blanks
 * between); INTERLOCK_VERIFY_PROBLEM is what it would answer to a sender that
 * is known.
 */

#ifndef IL_INGRESS_PK_H
#define IL_INGRESS_PK_H

#include "req.h"

/* 1 if the edge asks for it. */
int il_ingress_pk_wanted(const il_req_t *r);

/* Verifies the request, then calls next(r), from a worker, at once or later;
 * or answers it: 401, 503, or, if it is about a subscription, 200. */
void il_ingress_pk(il_req_t *r, void (*next)(il_req_t *r));

#endif /* IL_INGRESS_PK_H */
