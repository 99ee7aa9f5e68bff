/*
 * il_page.h: the small page that answers a form without a script.
 */

#ifndef IL_PAGE_H
#define IL_PAGE_H

#include "il_problem.h"
#include "il_str.h"

#pragma GCC visibility push(hidden)

/* Everything is escaped; what is empty is left out. */
typedef struct {
    il_str_t  title;            /* how it stands, in words */
    il_str_t  text;             /* what that means */
    il_str_t  note;             /* somebody else's words */
    il_str_t  link;             /* left out unless il_href_safe() */

    /* a form that looks again: a POST, so that the ticket is in no URL */
    il_str_t  action;           /* a path; empty: no form */
    il_str_t  label;            /* of its button */
    il_str_t  ticket;
    il_str_t  key;              /* the idempotency key */
    int       fresh;
} il_page_t;

/* Enough for any page: six bytes for each of those above. */
#define il_page_cap(p)                                                        \
    (4096 + 6 * ((p)->title.len + (p)->text.len + (p)->note.len               \
                 + (p)->link.len + (p)->action.len + (p)->label.len           \
                 + (p)->ticket.len + (p)->key.len))

/* The length, or 0 if cap is too small. */
size_t il_page_build(char *out, size_t cap, const il_page_t *p);

/* What a problem is in words for who pressed the button: sets title and
 * text.  retry_after is in seconds, or 0; room is memory for text. */
#define IL_PAGE_ROOM  256
void il_page_problem(il_page_t *p, il_problem_e problem, int64_t retry_after,
    char room[IL_PAGE_ROOM]);

/* Headers of such an answer beside Content-Type: no script, nothing from
 * elsewhere, in no frame, kept nowhere.  The referrer stays within the site,
 * not "no-referrer": a browser would hide the form's Origin then. */
#define IL_PAGE_TYPE      "text/html; charset=utf-8"
extern const char  il_page_csp[];
#define IL_PAGE_REFERRER  "same-origin"

#pragma GCC visibility pop

#endif /* IL_PAGE_H */
