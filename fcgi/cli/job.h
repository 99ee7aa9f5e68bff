/*
 * job.h: waiting for a job (job, submit).
 */

#ifndef IL_CLI_JOB_H
#define IL_CLI_JOB_H

#include "http.h"

#define IL_JOB_TIMEOUT   30000      /* ms, for a call that does not wait */
#define IL_JOB_WAIT_MAX  2592000    /* s: 30 days */

/* Gets the job until its status is final or `seconds` have passed, prints it
 * and returns the exit code: 0 succeeded (or seconds is 0), IL_EXIT_NO ended
 * otherwise, EX_TEMPFAIL not ended; or that of a failed call.  A server that
 * is away for a while is waited for, within the time. */
int il_job_wait(il_http_t *h, const char *id, int64_t seconds, int json);

#endif /* IL_CLI_JOB_H */
