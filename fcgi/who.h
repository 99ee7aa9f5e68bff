/*
 * who.h: who asks for something that a person answers for, and why.
 *
 * The name given and the reason are stored by the database beside the token,
 * under an id that the call gets before its first try: after a lost COMMIT
 * the second try finds what the first one did.
 */

#ifndef IL_WHO_H
#define IL_WHO_H

#include "body.h"
#include "il_uuid.h"

#define IL_WHO_MAX  1024            /* bytes of a name, of a reason */

typedef struct {
    uint8_t   call[IL_UUID_BYTES];
    il_str_t  requested_by;         /* data NULL: none; in the pool */
    il_str_t  reason;
} il_who_t;

/* The first two fields of a body that il_who_read() reads. */
#define IL_WHO_FIELDS                                                        \
    { .name = "requested_by", .types = IL_T_STRING },                        \
    { .name = "reason", .types = IL_T_STRING }

/* Reads the body, whose first two fields are IL_WHO_FIELDS, and gives the
 * call its id; with `empty` no body counts as {}.  A name or a reason in which
 * there is nothing to see is refused.  0; or -1, and then a
 * problem was answered and r is gone. */
int il_who_read(il_req_t *r, il_who_t *who, il_field_t *in, size_t n,
    int empty) IL_MUST_CHECK;

/* What is decided is nobody's without a name, and nothing without a reason.
 * 0 or -1, as above. */
int il_who_demand(il_req_t *r, const il_who_t *who) IL_MUST_CHECK;

/* Puts four arguments from number i on: name, reason, token's id, token's
 * name. */
void il_who_put(il_db_args_t *args, size_t i, const il_req_t *r,
    const il_who_t *who);

/* The same, and as the fifth the call's id. */
void il_who_put_call(il_db_args_t *args, size_t i, const il_req_t *r,
    const il_who_t *who);

#endif /* IL_WHO_H */
