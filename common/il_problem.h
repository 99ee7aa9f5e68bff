/*
 * il_problem.h: every problem that interlock answers with, in one table
 * (RFC 9457).  The module and the backend use the same builder.
 */

#ifndef IL_PROBLEM_H
#define IL_PROBLEM_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_PROBLEM_TYPE  "https://interlock.invalid/problems/"

/* Order is that of the table in il_problem.c. */
typedef enum {
    IL_P_NONE = 0,
    IL_P_BAD_REQUEST,              /* 400 bad-request */
    IL_P_JSON_INVALID,             /* 400 json-invalid */
    IL_P_FORM_INVALID,             /* 400 form-invalid */
    IL_P_DATE_INVALID,             /* 400 date-invalid */
    IL_P_UNKNOWN_FIELD,            /* 400 unknown-field */
    IL_P_FIELD_INVALID,            /* 400 field-invalid */
    IL_P_WORK_KEY_INCOMPLETE,      /* 400 work-key-incomplete */
    IL_P_WORK_KEY_INVALID,         /* 400 work-key-invalid */
    IL_P_WORK_KEY_MISMATCH,        /* 400 work-key-mismatch */
    IL_P_IDEMPOTENCY_KEY_MISSING,  /* 400 idempotency-key-missing */
    IL_P_IDEMPOTENCY_KEY_INVALID,  /* 400 idempotency-key-invalid */
    IL_P_FRESH_NOT_ALLOWED,        /* 400 fresh-not-allowed */
    IL_P_EFFECT_NAME_INVALID,      /* 400 effect-name-invalid */
    IL_P_SEND_UNKNOWN,             /* 400 send-unknown */
    IL_P_TOKEN_INVALID,            /* 401 token-invalid */
    IL_P_OWNER_TOKEN_INVALID,      /* 401 owner-token-invalid */
    IL_P_TICKET_INVALID,           /* 401 ticket-invalid */
    IL_P_SIGNATURE_INVALID,        /* 401 signature-invalid */
    IL_P_TIMESTAMP_OUT_OF_RANGE,   /* 401 timestamp-out-of-range */
    IL_P_FORBIDDEN,                /* 403 forbidden */
    IL_P_CROSS_ORIGIN,             /* 403 cross-origin */
    IL_P_NOT_FOUND,                /* 404 not-found */
    IL_P_KIND_UNKNOWN,             /* 404 kind-unknown */
    IL_P_EFFECT_KIND_UNKNOWN,      /* 404 effect-kind-unknown */
    IL_P_COMPENSATES_UNKNOWN,      /* 404 compensates-unknown */
    IL_P_METHOD_NOT_ALLOWED,       /* 405 method-not-allowed */
    IL_P_REQUEST_IN_PROGRESS,      /* 409 request-in-progress */
    IL_P_REQUEST_IN_PROGRESS_503,  /* 503, same name */
    IL_P_WORK_ACTIVE,              /* 409 work-active */
    IL_P_WORK_KIND,                /* 409 work-kind */
    IL_P_KIND_IN_USE,              /* 409 kind-in-use */
    IL_P_JOB_FINAL,                /* 409 job-final */
    IL_P_JOB_NOT_RUNNING,          /* 409 job-not-running */
    IL_P_DECISION_NOT_POSSIBLE,    /* 409 decision-not-possible */
    IL_P_PLAN_EXPIRED,             /* 409 plan-expired */
    IL_P_LEASE_LOST,               /* 409 lease-lost */
    IL_P_FENCE_STALE,              /* 409 fence-stale */
    IL_P_JOB_CANCELED,             /* 409 job-canceled */
    IL_P_LEASE_EXPIRED,            /* 409 lease-expired */
    IL_P_LEASE_TOO_SHORT,          /* 409 lease-too-short */
    IL_P_EFFECT_IN_PROGRESS,       /* 409 effect-in-progress */
    IL_P_EFFECT_UNSETTLED,         /* 409 effect-unsettled */
    IL_P_EFFECT_MISMATCH,          /* 409 effect-mismatch */
    IL_P_EFFECT_SETTLED,           /* 409 effect-settled */
    IL_P_EFFECT_KIND_IN_USE,       /* 409 effect-kind-in-use */
    IL_P_SEND_NOT_YOURS,           /* 409 send-not-yours */
    IL_P_EFFECT_CONFLICT,          /* 409 effect-conflict */
    IL_P_CHECK_NOT_POSSIBLE,       /* 409 check-not-possible */
    IL_P_GAP_CLOSED,               /* 409 gap-closed */
    IL_P_INBOX_SETTLED,            /* 409 inbox-settled */
    IL_P_PRUNED,                   /* 410 pruned */
    IL_P_IMPACT_CHANGED,           /* 412 impact-changed */
    IL_P_BODY_TOO_LARGE,           /* 413 body-too-large */
    IL_P_ENCODING_UNSUPPORTED,     /* 415 encoding-unsupported */
    IL_P_IDEMPOTENCY_KEY_REUSED,   /* 422 idempotency-key-reused */
    IL_P_QUEUE_FULL,               /* 429 queue-full */
    IL_P_TOO_MANY_ATTEMPTS,        /* 429 too-many-attempts */
    IL_P_INTERNAL,                 /* 500 internal */
    IL_P_PROVIDER_FAILED,          /* 502 provider-failed */
    IL_P_OUTCOME_UNRECORDED,       /* 503 outcome-unrecorded */
    IL_P_UNAVAILABLE,              /* 503 unavailable */
    IL_P_SOURCE_PAUSED,            /* 503 source-paused */
    IL_P_PROVIDER_TIMEOUT,         /* 504 provider-timeout */
    IL_P_MAX
} il_problem_e;

/* IL_P_NONE and anything out of range are answered as IL_P_INTERNAL. */
int           il_problem_status(il_problem_e p);
il_str_t      il_problem_name(il_problem_e p);
il_str_t      il_problem_title(il_problem_e p);

/* IL_P_NONE if unknown; request-in-progress is the 409 one. */
il_problem_e  il_problem_find(il_str_t name);

/* {"type":…,"title":…,"status":…,"detail":…[,extra]}; detail is escaped and
 * left out if empty; extra is JSON members already built, or empty.  The
 * length, or 0 if cap is too small. */
size_t il_problem_build(char *out, size_t cap, il_problem_e p,
    il_str_t detail, il_str_t extra);

#pragma GCC visibility pop

#endif /* IL_PROBLEM_H */
