/*
 * il_lookup.h: the description of a look-up over HTTP, as the database keeps
 * it: what to ask, and what the answer means.
 *
 *   {"type": "http", "method": "GET", "url": "https://host/path/{field}",
 *    "headers": {"Authorization": "@file"}, "body": "...", "timeout": 5,
 *    "found": {"status": [200], "pointer": "/state", "equals": ["paid"]},
 *    "not_found": {"status": [200], "pointer": "/items/0", "missing": true},
 *    "ref_pointer": "/id", "result_pointer": ""}
 *
 * Fields in braces come from a flat JSON object of texts.  One whose name
 * begins with "%" there is a part of a work key, percent-encoded.
 */

#ifndef IL_LOOKUP_H
#define IL_LOOKUP_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_LOOKUP_DETAIL_CAP  256
#define IL_LOOKUP_REF_CAP     256
#define IL_LOOKUP_FIELD_MAX   2048      /* bytes of a field's value */

typedef enum {
    IL_LOOKUP_URL = 0,        /* percent-encoded; "." and ".." are refused */
    IL_LOOKUP_HEADER,         /* printable ASCII as it is, else refused */
    IL_LOOKUP_JSON,           /* escaped for the inside of a JSON string */
    IL_LOOKUP_FORM            /* percent-encoded, for a form */
} il_lookup_place_e;

typedef enum {
    IL_LOOKUP_UNCLEAR = 0,
    IL_LOOKUP_FOUND,
    IL_LOOKUP_NOT_FOUND
} il_lookup_answer_e;

typedef struct {
    il_lookup_answer_e  answer;
    char                detail[IL_LOOKUP_DETAIL_CAP];   /* never of the body */
    char                ref[IL_LOOKUP_REF_CAP];         /* "" is none */
    size_t              ref_len;
    il_str_t            result;    /* slice of the body; len 0 is none */
} il_lookup_verdict_t;

/* The member `name` of the description: its text, unescaped into out (cap
 * bytes with a NUL).  1; 0 if it is missing or null; -1 if it is no string or
 * does not fit. */
int il_lookup_text(il_str_t spec, const char *name, char *out, size_t cap,
    size_t *len) IL_MUST_CHECK;

/* Puts fields into a template.  In a URL and a header every brace belongs to
 * a field; elsewhere one that encloses no name stands for itself.  0; or -1,
 * with a sentence in why that says which field is missing, empty or not fit
 * for its place. */
int il_lookup_expand(il_str_t tmpl, il_str_t vars, il_lookup_place_e place,
    char *out, size_t cap, size_t *len, char *why, size_t why_cap)
    IL_MUST_CHECK;

/* What an answer means.  body NULL: it had none.  Unclear unless just one of
 * found and not_found matches. */
void il_lookup_judge(il_str_t spec, int status, const il_str_t *body,
    il_lookup_verdict_t *v);

/* "found", "not_found", "unclear" */
const char *il_lookup_name(il_lookup_answer_e answer);

#pragma GCC visibility pop

#endif /* IL_LOOKUP_H */
