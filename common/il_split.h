/*
 * il_split.h: the list that the edge puts before a body whose elements are
 * requests of their own (interlock_split), and that interlockd reads.
 *
 * It is interlock's own form, in binary: "ils1", the number of elements, then
 * each element: where its bytes begin in the body and how many they are (32
 * bits each), and five texts, each with its length (16 bits) before it:
 * problem, detail, kind, work key, idempotency key.  Numbers are in network
 * order.  Problem is empty, or names what the edge found wrong with the
 * element (il_problem.h); the keys are empty then, detail otherwise.
 */

#ifndef IL_SPLIT_H
#define IL_SPLIT_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_SPLIT_MAX   10000       /* elements of one body: SendGrid sends up
                                      to 768 kB of small ones at once */
#define IL_SPLIT_HEAD  8           /* bytes before the first element */

typedef struct {
    size_t    offset;              /* bytes into the body */
    size_t    length;
    il_str_t  problem;             /* a problem's name, or empty */
    il_str_t  detail;
    il_str_t  kind;
    il_str_t  work_key;
    il_str_t  idem;                /* empty: none */
} il_split_t;

/* Writes the head of a list of n elements to IL_SPLIT_HEAD bytes. */
void il_split_head(char out[IL_SPLIT_HEAD], size_t n);

/* The bytes that il_split_put writes for e; 0 if a number or text of e is too
 * large for the form. */
size_t il_split_size(const il_split_t *e);

/* Writes e to out, which has il_split_size(e) > 0 bytes; returns that. */
size_t il_split_put(char *out, const il_split_t *e);

/* Reads the head.  The number of elements, or -1 if the list does not begin
 * as one or has more than IL_SPLIT_MAX. */
int il_split_count(il_str_t list) IL_MUST_CHECK;

/* Reads the next element of a body of `body` bytes; start with *pos =
 * IL_SPLIT_HEAD.  The texts are slices of the list.  1; 0 at the end of the
 * list; -1 if it is malformed, or the element is not inside the body. */
int il_split_next(il_str_t list, size_t *pos, size_t body, il_split_t *e)
    IL_MUST_CHECK;

#pragma GCC visibility pop

#endif /* IL_SPLIT_H */
