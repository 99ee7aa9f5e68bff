/*
 * il_answer.h: the answer to a submission, built in one place from ids and
 * codes, so that the edge can replay it byte for byte from a small entry.
 */

#ifndef IL_ANSWER_H
#define IL_ANSWER_H

#include "il_str.h"
#include "il_uuid.h"

#pragma GCC visibility push(hidden)

typedef enum {
    IL_D_NONE = 0,
    IL_D_ACCEPTED, IL_D_BUFFERED, IL_D_REPLACED, IL_D_DUPLICATE,
    IL_D_SKIPPED, IL_D_COMPLETED, IL_D_PARKED, IL_D_REJECTED,
    IL_D_MAX
} il_decision_e;

typedef enum {
    IL_S_NONE = 0,
    IL_S_QUEUED, IL_S_RUNNING, IL_S_CHECKING, IL_S_HELD, IL_S_PARKED,
    IL_S_SUCCEEDED, IL_S_FAILED, IL_S_CANCELED, IL_S_SUPERSEDED,
    IL_S_EXPIRED, IL_S_SPOOLED,
    IL_S_MAX
} il_status_e;

/* Reasons that an answer may carry. */
typedef enum {
    IL_R_NONE = 0,
    IL_R_SAME_WORK, IL_R_WORK_ACTIVE, IL_R_ALREADY_WAITING,
    IL_R_OLDER_VERSION, IL_R_EFFECTS_STARTED, IL_R_ACTIVE_ENDING,
    IL_R_MISMATCH_RECORDED, IL_R_QUEUE_FULL, IL_R_LATE_ARRIVAL,
    IL_R_KEY_FULL, IL_R_KIND_FULL, IL_R_TENANT_FULL,
    IL_R_MAX
} il_reason_e;

il_str_t      il_decision_name(il_decision_e d);
il_decision_e il_decision_find(il_str_t name);
il_str_t      il_status_name(il_status_e s);
il_status_e   il_status_find(il_str_t name);
il_str_t      il_reason_name(il_reason_e r);
il_reason_e   il_reason_find(il_str_t name);

/* 1 if a job in this status is over: nothing but a person changes it. */
int il_status_final(il_status_e s);

/* The HTTP code of a decision: 202, 200, 429. */
int il_decision_code(il_decision_e d);

#define IL_ANSWER_HAS_JOB         0x01
#define IL_ANSWER_HAS_ACTIVE      0x02
#define IL_ANSWER_HAS_SUPERSEDED  0x04
#define IL_ANSWER_HAS_RESULT      0x08   /* result_url is present */

typedef struct {
    il_decision_e  decision;
    il_status_e    status;
    il_reason_e    reason;
    unsigned       has;
    uint8_t        job_id[IL_UUID_BYTES];
    uint8_t        active_job_id[IL_UUID_BYTES];
    uint8_t        superseded_job_id[IL_UUID_BYTES];
    il_str_t       kind;
    il_str_t       work_key;
    il_str_t       result_url;    /* a worker's own; if empty and HAS_RESULT,
                                     /v1/works/{key}/result is built */
    int            button;        /* for a browser: paths are those of
                                     /button/, and result_url is left out
                                     unless a browser may follow it */
} il_answer_t;

/* Where a job is looked up, before its id; for Location, too. */
#define IL_ANSWER_JOBS         "/v1/jobs/"
#define IL_ANSWER_BUTTON_JOBS  "/button/jobs/"

/* Enough for any answer without a worker's own result_url; with one, add
 * il_json_escaped_cap(result_url.len). */
#define IL_ANSWER_CAP  32768

/* Writes the JSON body; the length, or 0 if cap is too small. */
size_t il_answer_build(char *out, size_t cap, const il_answer_t *a);

/* The compact form that the backend hands to the edge in the response header
 * Interlock-Answer, and that the edge keeps:
 *   1;CODE;DECISION;STATUS;REASON;HAS;JOB;ACTIVE;SUPERSEDED
 * with names as in the body ("-" for none), HAS in decimal, and UUIDs or "-".
 * An answer with a worker's own result_url has no compact form.  The length,
 * or 0.  Parsing fills all but kind, work_key, result_url: 0 or -1. */
#define IL_ANSWER_COMPACT_CAP  256
size_t il_answer_compact(char *out, size_t cap, const il_answer_t *a,
    int code);
int il_answer_parse(il_str_t s, il_answer_t *a, int *code) IL_MUST_CHECK;

/* Percent-encodes a work key for one path segment (RFC 3986 unreserved and
 * ":" stay; "%" becomes "%25").  The length, or 0 if cap is too small. */
size_t il_path_encode(char *out, size_t cap, il_str_t s);

#pragma GCC visibility pop

#endif /* IL_ANSWER_H */
