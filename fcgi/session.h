/*
 * session.h: who is logged in to the pages, by a cookie.
 *
 * A session is opened with an API token of an operator or auditor and is that
 * token's identity.  The browser has 32 random bytes, the database a digest
 * of them.  What this process was told is good for a few seconds, like that
 * of a token; what it ended itself is over at once.
 */

#ifndef IL_SESSION_H
#define IL_SESSION_H

#include "req.h"

#define IL_SESSION_COOKIE  "interlock_session"

/* base64url, without padding, of 32 bytes */
#define IL_SESSION_TEXT    43

/* The digest of the session that the request's cookie names.  1; 0 if there
 * is no cookie of that name, -1 if there is something else, or different
 * ones: then nobody can say who has put which there. */
int il_session_cookie(const il_req_t *r, uint8_t digest[32]) IL_MUST_CHECK;

/* Makes a new session's text (with a NUL behind) and its digest. */
void il_session_new(char text[IL_SESSION_TEXT + 1], uint8_t digest[32]);

/* Finds whose session the cookie names, sets r->who, then calls next(r), at
 * once or from a worker later; or missing(r) if it names none; or away(r) if
 * the database cannot be asked. */
void il_session_find(il_req_t *r, void (*next)(il_req_t *r),
    void (*missing)(il_req_t *r), void (*away)(il_req_t *r));

/* Authenticates by cookie as il_auth_token does by Authorization.  What is
 * more than GET or HEAD must come from a page of this site, and say so. */
void il_session_auth(il_req_t *r, unsigned roles, void (*next)(il_req_t *r));

/* This process takes the session for ended, from now on. */
void il_session_over(const uint8_t digest[32]);

#endif /* IL_SESSION_H */
