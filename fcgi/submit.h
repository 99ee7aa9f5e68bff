/*
 * submit.h: one submission on its way through the lane: a request of its own,
 * or one row of a batch.
 */

#ifndef IL_SUBMIT_H
#define IL_SUBMIT_H

#include "body.h"
#include "il_answer.h"
#include "il_hash.h"
#include "il_ticket.h"
#include "il_uuid.h"
#include "req.h"

typedef struct il_submit_s  il_submit_t;
typedef struct il_batch_s   il_batch_t;

struct il_submit_s {
    il_item_t      item;           /* first: the lanes queue it */
    il_req_t      *r;
    il_batch_t    *batch;          /* that it is a row of, or NULL */
    il_buf_t       out;            /* the row's answer; and of that: */
    int            code;
    int            replayed;
    int64_t        retry_after;    /* seconds; 0: not said */
    il_problem_e   problem;
    il_decision_e  decision;       /* IL_D_NONE: a problem, no request */

    uint8_t        request_id[IL_UUID_BYTES];
    uint8_t        fingerprint[IL_FP_BYTES];
    il_str_t       source;
    il_str_t       idem;           /* data NULL: none; so below */
    il_str_t       mismatch;
    il_str_t       kind;
    il_str_t       work_key;
    il_str_t       payload;
    il_str_t       content_type;
    il_str_t       headers;
    il_str_t       traceparent;
    il_str_t       requested_by;
    il_str_t       reason;
    int64_t        version;        /* -1: none */
    int64_t        priority;       /* INT64_MIN: none */
    int64_t        run_after;      /* INT64_MIN: none; so below */
    int64_t        deadline;
    int            fresh;
    int            button;         /* pressed in a browser: its fingerprint
                                      and its answer are a button's */
};


/* A submission that is the whole request, in its pool and in r->op; NULL if
 * there is no memory, and then r was answered. */
il_submit_t *il_submit_new(il_req_t *r);

/* Sets what a submission starts with: zeroed memory before. */
void il_submit_init(il_submit_t *s, il_req_t *r);

/* Fills what a press of a button says. */
void il_submit_press(il_submit_t *s, il_str_t idem,
    const il_ticket_claims_t *claims, int fresh);

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

/* A work key as a string, taken as it stands, or as an array of its parts. */
int il_submit_key(il_req_t *r, const il_field_t *f, il_str_t *out)
    IL_MUST_CHECK;

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

/* ------------------------------------------------------------------ batches
 *
 * Several submissions in one request: the last one that has its answer
 * answers it, whatever thread that is. */

struct il_batch_s {
    il_req_t      *r;
    il_submit_t   *rows;
    size_t         n;
    size_t         queued;
    size_t         left;           /* rows without an answer; atomic */
    il_item_t     *first;
    il_item_t    **tail;

    /* every row has its answer: answers r */
    void         (*answer)(il_batch_t *b);
};

/* A batch of n rows that are begun as il_submit_init does, in r's pool; NULL
 * if there is no memory, and then r was answered. */
il_batch_t *il_batch_new(il_req_t *r, size_t n,
    void (*answer)(il_batch_t *b)) IL_MUST_CHECK;

/* The row is ready; one that is not added has its answer in s->out. */
void il_batch_add(il_batch_t *b, il_submit_t *s);

/* Queues what was added, in that order.  b and its request are gone
 * afterwards. */
void il_batch_go(il_batch_t *b);

/* The answer of a row is in s->out.  s is gone afterwards. */
void il_batch_done(il_submit_t *s);

/* Adds the answers of all rows, joined by commas, to out, and frees them. */
void il_batch_items(il_batch_t *b, il_buf_t *out);


/* ---------------------------------------------------------------- webhooks */

/* The body of a request to /in/ as its sender sent it: without the list that
 * the edge puts before it where it splits.  Empty, and a problem is answered
 * by whoever submits, if the edge says something else than it sends. */
il_str_t il_submit_raw(const il_req_t *r);

/* Checks source, kind, work key and idempotency key (if any) for form: these
 * come from the edge.  IL_P_NONE, or a problem and its detail. */
il_problem_e il_submit_check(const il_submit_t *s, const char **detail)
    IL_MUST_CHECK;

/* Fills content type and headers, which are those of the request.  0, or -1
 * if memory is short. */
int il_submit_about_request(il_submit_t *s) IL_MUST_CHECK;

/* 1 if the edge splits the body of this request (INTERLOCK_SPLIT); and such a
 * request, whose tenant is known.  r is gone afterwards. */
int il_submit_is_split(const il_req_t *r);
void il_submit_split(il_req_t *r);

#endif /* IL_SUBMIT_H */
