/*
 * submit.h: one submission on its way through the lane: a request of its own,
 * or one row of a batch.
 */

#ifndef IL_SUBMIT_H
#define IL_SUBMIT_H

#include "body.h"
#include "il_hash.h"
#include "il_uuid.h"
#include "req.h"

typedef struct il_submit_s  il_submit_t;
typedef struct il_batch_s   il_batch_t;

struct il_submit_s {
    il_item_t    item;             /* first: the lanes queue it */
    il_req_t    *r;
    il_batch_t  *batch;            /* that it is a row of, or NULL */
    il_buf_t     out;              /* the row's answer */

    uint8_t      request_id[IL_UUID_BYTES];
    uint8_t      fingerprint[IL_FP_BYTES];
    il_str_t     source;
    il_str_t     idem;             /* data NULL: none; so below */
    il_str_t     mismatch;
    il_str_t     kind;
    il_str_t     work_key;
    il_str_t     payload;
    il_str_t     content_type;
    il_str_t     headers;
    il_str_t     traceparent;
    il_str_t     requested_by;
    il_str_t     reason;
    int64_t      version;          /* -1: none */
    int64_t      priority;         /* INT64_MIN: none */
    int64_t      run_after;        /* INT64_MIN: none; so below */
    int64_t      deadline;
    int          fresh;
};


/* A submission that is the whole request, in its pool and in r->op; NULL if
 * there is no memory, and then r was answered. */
il_submit_t *il_submit_new(il_req_t *r);

/* Sets what a submission starts with: zeroed memory before. */
void il_submit_init(il_submit_t *s, il_req_t *r);

/* Fills what is made of the body, its fingerprint before all; then it may go
 * to the lane. */
void il_submit_ready(il_submit_t *s, il_str_t body);

/* The same for a whole request, and queues it.  r is gone afterwards. */
void il_submit_queue(il_submit_t *s);

/* The fields of a submission in JSON. */
enum {
    IL_F_KIND, IL_F_WORK_KEY, IL_F_VERSION, IL_F_PAYLOAD, IL_F_PRIORITY,
    IL_F_RUN_AFTER, IL_F_DEADLINE, IL_F_FRESH, IL_F_REQUESTED_BY,
    IL_F_REASON, IL_F_MAX
};

extern const il_field_t  il_submit_fields[IL_F_MAX];

/* An idempotency key that is a field: as it stands. */
int il_submit_idem(il_req_t *r, const il_field_t *f, il_submit_t *s)
    IL_MUST_CHECK;

/* From fields that were read to a submission by the API.  0, or -1 and a
 * problem was answered.  kind is what counts if none is given. */
int il_submit_read(il_req_t *r, const il_field_t *f, il_str_t kind,
    il_submit_t *s) IL_MUST_CHECK;


/* ops->deal of the submission lanes: answers, hints, counts; and ops->fail */
void il_submit_deal(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n);
void il_submit_fail(il_item_t *item, il_problem_e p);

/* The answer of a row of a batch is in s->out: the last one answers the
 * request.  s is gone afterwards. */
void il_batch_done(il_submit_t *s);

#endif /* IL_SUBMIT_H */
