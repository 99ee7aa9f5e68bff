/*
 * effect.h: begin and outcome of an effect, asked for by a worker or, for
 * the worker's call that it proxies, by the edge.
 */

#ifndef IL_EFFECT_H
#define IL_EFFECT_H

#include "owner.h"

#define IL_EFFECT_NAME_MAX      256
#define IL_EFFECT_TARGET_MAX    1024
#define IL_EFFECT_REF_MAX       1024
#define IL_EFFECT_DETAIL_MAX    4096
#define IL_EFFECT_RESPONSE_MAX  65536     /* longer ones are not kept */

typedef struct {
    il_owner_t      owner;         /* first */
    int             edge;          /* who asks; answers differ */

    /* a begin; data NULL and id NULL: none */
    il_str_t        name;
    il_str_t        kind;
    il_str_t        target;
    il_str_t        digest;        /* bytes */
    const uint8_t  *compensates;
    const uint8_t  *call;          /* the id of this call ... */
    int             named;         /* ... is its caller's */
    uint8_t         own_call[IL_UUID_BYTES];

    /* an outcome */
    const uint8_t  *effect;
    const uint8_t  *send;
    il_str_t        state;
    il_str_t        ref;
    il_str_t        detail;
    int64_t         status;        /* -1: none */
    il_str_t        type;
    il_str_t        response;      /* bytes */
} il_effect_t;

/* Queue r, whose op is an il_effect_t, for the lane.  r is gone. */
void il_effect_begin(il_req_t *r);
void il_effect_outcome(il_req_t *r);

/* Answers of the edge's begins and outcomes that were not refused. */
void il_effect_edge_begun(il_req_t *r, const il_db_result_t *res,
    size_t row);
void il_effect_edge_told(il_req_t *r, const il_db_result_t *res, size_t row);

/* A UUID of a field, in the pool; NULL if it is none. */
const uint8_t *il_effect_uuid(il_req_t *r, il_str_t text);

/* What a provider's answer means, by the kind's map (JSON, or data NULL):
 * confirmed, failed or unknown.  failure is data NULL if there was one. */
il_str_t il_effect_judge(il_str_t map, int64_t status, il_str_t failure);

#endif /* IL_EFFECT_H */
