/*
 * button.h: requests of web pages, by tickets.
 *
 * The edge has verified the ticket and where the request comes from; without
 * its word (INTERLOCK_VERIFIED) nothing is done here, for then nobody has
 * looked at the Origin.  The ticket is verified here all the same: who and
 * what it is for is taken from it, never from the edge's configuration, and a
 * mistake there (another kind in interlock_kind, the keys of another system)
 * opens nothing.
 */

#ifndef IL_FCGI_BUTTON_H
#define IL_FCGI_BUTTON_H

#include "il_button.h"
#include "il_ticket.h"
#include "req.h"

/* How long a page waits for the end of a job before it shows how it stands,
 * in seconds. */
#define IL_BUTTON_PAGE_WAIT  1

typedef struct {
    il_button_t          in;
    il_ticket_claims_t   claims;
    il_str_t             idem;           /* of POST /button/{kind} */
    int64_t              retry_after;    /* seconds, for the page; or 0 */
} il_press_t;

/* The request's own, once il_button_auth() has gone on. */
static inline il_press_t *
il_press(const il_req_t *r)
{
    return r->press;
}

/* Verifies the request's ticket, sets r->who and r->press, and calls next(r);
 * or answers 401, 503. */
void il_button_auth(il_req_t *r, void (*next)(il_req_t *r));

/* 401 without a hint. */
void il_button_refuse(il_req_t *r);

/* 1 if the job (job_get()'s object) is of the ticket's kind and work key. */
int il_button_may(il_req_t *r, il_str_t doc);

/* The address of a job's result, if a browser may follow it; else empty.  In
 * r's pool. */
il_str_t il_button_result(il_req_t *r, il_str_t doc);

/* A text member of a job's object, unescaped into the pool; or data NULL. */
il_str_t il_button_text(il_req_t *r, il_str_t doc, const char *pointer);

/* Looks the job up, and answers with it: as JSON, or as a page. */
void il_button_look(il_req_t *r, const uint8_t job_id[IL_UUID_BYTES]);

/* button_page.c.  Presses the button and looks at the job, as a page. */
void il_button_page_post(il_req_t *r);

/* il_look_view_t's show: the job as a page. */
void il_button_page_job(il_req_t *r, il_str_t doc);

/* r->tell: a problem as a page. */
void il_button_page_problem(il_req_t *r, il_problem_e p);

#endif /* IL_FCGI_BUTTON_H */
