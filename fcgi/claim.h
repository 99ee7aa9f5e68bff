/*
 * claim.h: one claim on its way, and its answer.
 */

#ifndef IL_CLAIM_H
#define IL_CLAIM_H

#include "park.h"

typedef struct {
    uint8_t          claim_id[IL_UUID_BYTES];
    il_str_t         worker;
    il_str_t         kinds[IL_PARK_KINDS_MAX];
    size_t           nkinds;
    il_str_t         joined;
    int64_t          max;

    int              waits;         /* wait is in the park table */
    il_waiter_t      wait;

    size_t           first;         /* rows of r->res */
    size_t           count;
} il_claim_t;

/* A worker's step: signs the owner tokens, answers, hands back the leases if
 * the answer cannot be written. */
void il_claim_answer(il_req_t *r);

#endif /* IL_CLAIM_H */
