/*
 * effect.h: effects, as the commands within a worker begin and end them.
 */

#ifndef IL_CLI_EFFECT_H
#define IL_CLI_EFFECT_H

#include "http.h"

#define IL_EFFECT_RESPONSE_MAX  65536   /* the server keeps no longer one */

/* What names an effect. */
typedef struct {
    const char  *name;
    const char  *kind;
    const char  *target;            /* NULL: none; so below */
    const char  *digest;
    const char  *compensates;
    const char  *call;              /* a UUID: only this call may repeat it;
                                     * NULL: a new one */
} il_effect_what_t;

/* What the server answered; strings are new, or NULL. */
typedef struct {
    char     *effect_id;
    char     *send_id;
    char     *state;
    char     *decision;
    char     *key;
    int64_t   deadline_ms;          /* -1: not said */
} il_effect_begun_t;

/* Opens a client with the owner token of the environment.  0 or exit code. */
int il_effect_open(il_http_t *h, const il_common_t *c, const char *command);

/* Begins; h->answer is the server's.  Tries again while there is no answer: a
 * begin repeated under its call gets the same send.  0 or exit code. */
int il_effect_begin(il_http_t *h, const il_common_t *c,
    const il_effect_what_t *what, il_effect_begun_t *begun);

void il_effect_begun_free(il_effect_begun_t *begun);

/* 0 send; IL_EXIT_NO it has happened; EX_TEMPFAIL anything else, with a
 * message. */
int il_effect_decided(const il_effect_begun_t *begun);

/* Tells what became of a send; the members behind state are in more.  Tries
 * again for a while: the same outcome told twice is one.  0 or exit code. */
int il_effect_tell(il_http_t *h, const il_common_t *c, const char *effect_id,
    const char *send_id, const char *state, il_str_t more);

#endif /* IL_CLI_EFFECT_H */
