/*
 * metrics.h: counters and histograms of this process, and the text that
 * Prometheus reads (format 0.0.4).
 *
 * A family is one row of the table in metrics.c.  Any thread.
 */

#ifndef IL_METRICS_H
#define IL_METRICS_H

#include "buf.h"
#include "db.h"

/* Order is that of the table in metrics.c. */
typedef enum {
    IL_MT_OVERLAP_ATTEMPT = 0,     /* kind, policy, decision */
    IL_MT_REQUESTS,                /* kind, source, decision */
    IL_MT_LOCK_WAIT,               /* kind */
    IL_MT_ACQUISITION_FAILED,      /* kind, reason */
    IL_MT_RENEW_FAILED,            /* kind, reason */
    IL_MT_STALE_RECOVERY,          /* kind */
    IL_MT_FENCE_REFUSALS,          /* kind, call */
    IL_MT_JOB_DURATION,            /* kind */
    IL_MT_CLAIM_LATENCY,           /* kind */
    IL_MT_BATCH_SIZE,              /* lane */
    IL_MT_HTTP_REQUESTS,           /* route, code */
    IL_MT_DB_ERRORS,               /* class */
    IL_MT_CLAIMS_HANDED_BACK,      /* kind */
    IL_MT_JOBS_EXPIRED,            /* kind */
    IL_MT_NOTIFY,                  /* direction */
    IL_MT_CHECKS,                  /* subject, answer, outcome */
    IL_MT_ALERTS,                  /* alert, outcome */
    IL_MT_SIGNATURES,              /* scheme, outcome */
    IL_MT_CERTIFICATES,            /* scheme, outcome */
    IL_MT_EDGE,                    /* outcome */
    IL_MT_EVENTS,                  /* event */
    IL_MT_STREAMS,                 /* reason */
    IL_MT_MAX
} il_metric_e;

/* Label values by the family's own labels, the rest "". */
void il_metric_add(il_metric_e m, double v, const char *l1, const char *l2,
    const char *l3);
void il_metric_observe(il_metric_e m, double v, const char *l1,
    const char *l2, const char *l3);

/* Label values that are not NUL-terminated; longer than 64 bytes are cut. */
void il_metric_add_str(il_metric_e m, double v, il_str_t l1, il_str_t l2,
    il_str_t l3);
void il_metric_observe_str(il_metric_e m, double v, il_str_t l1, il_str_t l2,
    il_str_t l3);

/* One gauge: HELP, TYPE and its value. */
void il_metrics_gauge(il_buf_t *out, const char *name, const char *help,
    double v);

/* Everything of this process, then what interlock.stats() says (may be
 * NULL, when the database is away). */
void il_metrics_render(il_buf_t *out, const il_db_result_t *stats);

/* Forgets everything; at exit. */
void il_metrics_free(void);

#endif /* IL_METRICS_H */
