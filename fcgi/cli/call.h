/*
 * call.h: one call with the API token, its answer printed: what the commands
 * that stand for one route have in common.
 */

#ifndef IL_CLI_CALL_H
#define IL_CLI_CALL_H

#include "http.h"
#include "il_uuid.h"

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

/* The text of an id, as il_uuid_format() writes it.  0, or EX_USAGE with a
 * message that says what (like "a job's") it is no id of. */
int il_call_id(char id[IL_UUID_TEXT + 1], const char *text, const char *what)
    IL_MUST_CHECK;

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

/* Adds an array of strings. */
void il_call_strings(il_buf_t *body, const char *name, const il_list_t *list);

/* The same call again, for as long as its answer is lost or late (ms): for
 * calls that may be repeated. */
int il_call_retried(il_http_t *h, const il_common_t *c, const char *path,
    il_str_t body, int64_t ms);

/* Acts on a plan, for as long as its answer is lost or late (ms): it goes on
 * where it was, and answers the same once it is done.  The answer is left in
 * h.  0, or an exit code with a message. */
int il_call_plan(il_http_t *h, const il_common_t *c, const char *command,
    const char *path, const char *plan, const char *requested_by,
    const char *reason, int64_t ms);


/* For people: a line for each object of a list in doc, with these members (by
 * pointer; the last one is NULL). */
void il_call_lines(il_str_t doc, const char *list, const char *const *names);

/* GETs a list page by page, at most so many items, and prints it: a line
 * each, or one JSON object.  0, or an exit code with a message. */
int il_call_pages(const il_common_t *c, const char *path, int64_t limit,
    const char *const *names);

#endif /* IL_CLI_CALL_H */
