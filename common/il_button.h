/*
 * il_button.h: what a web page sends when a button is pressed, by a script
 * (headers) or as a form without one (fields).  Edge and backend read it by
 * this one function, so that they never differ about it.
 *
 *     header            field
 *     Interlock-Ticket  ticket             both: the header counts
 *     Idempotency-Key   idempotency_key
 *     Interlock-Fresh   fresh              true, 1, on, yes; false, 0, off,
 *                                          no, or nothing
 */

#ifndef IL_BUTTON_H
#define IL_BUTTON_H

#include "il_hash.h"
#include "il_problem.h"
#include "il_sig.h"

#pragma GCC visibility push(hidden)

/* The longest body: a form with a ticket. */
#define IL_BUTTON_BODY_MAX  16384

typedef struct {
    il_str_t      ticket;       /* data NULL: none, or more than one */
    il_str_t      key;          /* as it was sent, for il_idem_parse; or data
                                   NULL */
    int           fresh;
    int           page;         /* the answer is to be a page */

    il_problem_e  problem;      /* of key and fresh, to be told once the
                                   ticket is known to be good; or NONE */
    const char   *detail;
} il_button_t;

/* header is asked with ctx, as il_sig_verify does; buf (body.len bytes are
 * enough) holds what fields are decoded to.  A body longer than
 * IL_BUTTON_BODY_MAX is not looked at. */
void il_button_read(il_button_t *b, il_sig_header_pt header, void *ctx,
    il_str_t body, char *buf, size_t cap);

/* The fingerprint of a press: that of what it asks for, not of its bytes, for
 * a ticket is made anew while the press stays the same. */
void il_button_fp(uint8_t fp[IL_FP_BYTES], il_str_t kind, il_str_t work_key,
    il_str_t user, int fresh);

#pragma GCC visibility pop

#endif /* IL_BUTTON_H */
