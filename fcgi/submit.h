/*
 * submit.h: one submission on its way through the lane.
 */

#ifndef IL_SUBMIT_H
#define IL_SUBMIT_H

#include "il_hash.h"
#include "il_uuid.h"
#include "lane.h"

typedef struct {
    uint8_t   request_id[IL_UUID_BYTES];
    uint8_t   fingerprint[IL_FP_BYTES];
    il_str_t  source;
    il_str_t  idem;                /* data NULL: none; so below */
    il_str_t  mismatch;
    il_str_t  kind;
    il_str_t  work_key;
    il_str_t  payload;
    il_str_t  content_type;
    il_str_t  headers;
    il_str_t  traceparent;
    il_str_t  requested_by;
    il_str_t  reason;
    int64_t   version;             /* -1: none */
    int64_t   priority;            /* INT64_MIN: none */
    int64_t   run_after;           /* INT64_MIN: none; so below */
    int64_t   deadline;
    int       fresh;
} il_submit_t;

/* ops->deal of the submission lanes: answers, hints, counts. */
void il_submit_deal(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n);

#endif /* IL_SUBMIT_H */
