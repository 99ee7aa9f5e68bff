/*
 * call.h: one call with the API token, its answer printed: what the commands
 * that stand for one route have in common.
 */

#ifndef IL_CLI_CALL_H
#define IL_CLI_CALL_H

#include "http.h"

#define IL_CALL_TIMEOUT   30000     /* ms */
#define IL_CALL_NAME_MAX  255       /* bytes */

/* Calls and prints the answer, as JSON or for people.  0, or an exit code
 * with a message. */
int il_call(const il_common_t *c, const char *method, const char *path,
    il_str_t body);

/* The same through an open client; the answer is left in h. */
int il_call_on(il_http_t *h, const il_common_t *c, const char *method,
    const char *path, il_str_t body);

/* Prints an answer: JSON as it is, or for people. */
void il_call_print(const il_common_t *c, il_str_t json);

/* Adds "/" and a name, percent-encoded.  0, or EX_USAGE with a message that
 * says what (like "a limit") it is no name of. */
int il_call_name(il_buf_t *path, const char *name, const char *what);

/* Adds ?name=value or &name=value, percent-encoded, unless value is NULL. */
void il_call_query(il_buf_t *path, const char *name, const char *value);

/* Adds ,"name":"value" unless value is NULL; without the comma at the
 * beginning of an object. */
void il_call_member(il_buf_t *body, const char *name, const char *value);

/* Who works at this terminal: the login name, or NULL.  Valid until the next
 * call. */
const char *il_call_login(void);

/* Adds requested_by (the login name if NULL) and reason.  0, or EX_USAGE if
 * the reason is missing. */
int il_call_who(il_buf_t *body, const char *command, const char *requested_by,
    const char *reason);

#endif /* IL_CLI_CALL_H */
