/*
 * work_report.c: tells the server how a job ended.
 *
 * A report is repeated until the server answers: the server knows a repeat by
 * its content and gives the first answer again, so a report whose answer was
 * lost does no harm.
 */

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "il_json.h"
#include "work.h"

#define IL_REPORT_CALL_MS   15000
#define IL_REPORT_AGAIN_MS  2000    /* most between two tries */
#define IL_REPORT_MORE_MS   60000   /* beyond our end of the lease: only the
                                       server knows whether it is too late */
#define IL_REPORT_HURRY_MS  3000
#define IL_REPORT_PREVIEW   65536   /* of an output beyond the bound */


/* What a refusal said; both are NULL unless there was one. */
typedef struct {
    char  *text;                    /* a line for people */
    char  *problem;                 /* its name: "job-canceled" */
} il_report_no_t;


static void
il_report_no_free(il_report_no_t *no)
{
    free(no->text);
    free(no->problem);
    memset(no, 0, sizeof(*no));
}


void
il_work_say(const il_work_job_t *job, const char *what, const char *more)
{
    if (job->work->common->json) {
        return;
    }

    il_err("job %s (%s) %s%s%s", job->job_id, job->work_key, what,
           more == NULL ? "" : ": ", more == NULL ? "" : more);
}


static void
il_report_pause(il_work_job_t *job, int64_t ms)
{
    eventfd_t      count;
    struct pollfd  p;

    p.fd = job->event;
    p.events = POLLIN;

    if (poll(&p, 1, ms > 60000 ? 60000 : (int) ms) > 0) {
        (void) eventfd_read(job->event, &count);
    }
}


/* Reports until there is an answer.  The HTTP status, or 0 if there was none
 * within the time; free *no with il_report_no_free(). */
static long
il_report_send(il_work_job_t *job, const char *path, il_str_t body,
    int64_t until, il_report_no_t *no)
{
    int           rc, hurry;
    long          status;
    int64_t       left;
    il_http_t     h;
    il_backoff_t  backoff;

    memset(no, 0, sizeof(*no));

    if (il_http_open_bearer(&h, job->work->base, il_cstr(job->owner_token))
        != 0)
    {
        return 0;
    }

    /* After an outage attempts whose lease is over are recovered soon: ask
     * often enough to be there before. */

    il_backoff_init(&backoff, 200, IL_REPORT_AGAIN_MS);
    status = 0;

    for ( ;; ) {
        rc = il_http_call(&h, "POST", path, body, IL_REPORT_CALL_MS);
        status = (rc == 0) ? h.answer.status : 0;

        if (status != 0 && status != 408 && status != 429 && status < 500) {
            break;
        }

        (void) pthread_mutex_lock(&job->work->lock);
        hurry = job->work->hurry;
        (void) pthread_mutex_unlock(&job->work->lock);

        left = until - il_boottime_ms();
        left = (hurry && left > IL_REPORT_HURRY_MS) ? IL_REPORT_HURRY_MS : left;
        until = il_boottime_ms() + left;

        if (left <= 0) {
            status = 0;
            break;
        }

        rc = (int) il_backoff_next(&backoff, h.answer.retry_after);
        il_report_pause(job, rc < left ? rc : left);
    }

    if (status < 200 || status >= 300) {
        no->text = il_http_explain(&h.answer);
        no->problem = il_http_problem(&h.answer);
    }

    il_http_close(&h);

    return status;
}


/* The result: standard output as JSON; text that is not JSON as a string. */
static void
il_report_result(il_work_job_t *job, il_work_child_t *child, il_buf_t *body)
{
    il_str_t  out;

    out = il_buf_str(&child->out);
    il_buf_puts(body, "{");

    if (child->out.full) {
        il_work_say(job, "wrote more than the bound of its result", NULL);
        il_buf_printf(body, "\"result\":{\"truncated\":true,\"bytes\":%llu,"
                      "\"text\":", (unsigned long long) child->stdout_bytes);
        out.len = IL_REPORT_PREVIEW;
        il_buf_json(body, out);
        il_buf_puts(body, "}}");
        return;
    }

    while (out.len != 0
           && strchr(" \t\r\n", out.data[out.len - 1]) != NULL
           && out.data[out.len - 1] != '\0')
    {
        out.len--;
    }

    if (out.len != 0) {
        il_buf_puts(body, "\"result\":");

        if (il_json_check(out) == IL_JSON_OK) {
            il_buf_add(body, out.data, out.len);

        } else {
            il_buf_json(body, out);
        }
    }

    il_buf_puts(body, "}");
}


static void
il_report_error(const il_work_child_t *child, int retryable, const char *why,
    il_buf_t *body)
{
    il_buf_t  text;

    memset(&text, 0, sizeof(text));

    if (why != NULL) {
        il_buf_puts(&text, why);

    } else if (!child->started) {
        il_buf_puts(&text, "the command cannot be started: ");
        il_buf_puts(&text, strerror(child->error));

    } else if (child->signaled) {
        il_buf_printf(&text, "ended by signal %d", child->code);

    } else {
        il_buf_printf(&text, "exit code %d", child->code);
    }

    if (child->err.len != 0) {
        il_buf_puts(&text, "\n");
        il_buf_add(&text, child->err.data, child->err.len);

        /* the server takes no NUL in a text: it becomes, as other bytes that
         * are no UTF-8, a replacement character */

        for (size_t i = 0; i < text.len; i++) {
            text.data[i] = text.data[i] == '\0' ? '\xff' : text.data[i];
        }
    }

    il_buf_puts(body, "{\"error\":");
    il_buf_json(body, il_buf_str(&text));
    il_buf_printf(body, ",\"retryable\":%s}", retryable ? "true" : "false");
    il_buf_free(&text);
}


/* 0 done, 75 retry, 64 to 73 and 76 to 78 for good, all else retry. */
static int
il_report_retryable(const il_work_child_t *child)
{
    return !child->started || child->signaled || child->code < 64
           || child->code > 78 || child->code == 74 || child->code == 75;
}


static il_work_end_e
il_report_fail(il_work_job_t *job, il_work_child_t *child, const char *why,
    int64_t until)
{
    int              retryable;
    char             said[64];
    long             status;
    il_buf_t         body;
    il_report_no_t   no;

    memset(&body, 0, sizeof(body));
    retryable = (why == NULL) && il_report_retryable(child);
    il_report_error(child, retryable, why, &body);
    status = il_report_send(job, "/v1/lease/fail", il_buf_str(&body), until,
                            &no);
    il_buf_free(&body);

    if (status < 200 || status >= 300) {
        il_work_say(job, "failed, which could not be reported", no.text);
        il_report_no_free(&no);
        return IL_WORK_GONE;
    }

    if (!child->started) {
        (void) snprintf(said, sizeof(said), "cannot be started");

    } else {
        (void) snprintf(said, sizeof(said), "%s %d%s",
                        child->signaled ? "signal" : "exit code", child->code,
                        retryable ? ", to be retried" : ", for good");
    }

    il_work_say(job, "failed", why != NULL ? why : said);

    return IL_WORK_FAILED;
}


static il_work_end_e
il_report_complete(il_work_job_t *job, il_work_child_t *child, int64_t until)
{
    int              yield, gone;
    long             status;
    il_buf_t         body;
    il_work_end_e    end;
    il_report_no_t   no;

    memset(&body, 0, sizeof(body));
    il_report_result(job, child, &body);
    status = il_report_send(job, "/v1/lease/complete", il_buf_str(&body),
                            until, &no);
    il_buf_free(&body);

    if (status >= 200 && status < 300) {
        il_work_say(job, "completed", NULL);
        return IL_WORK_COMPLETED;
    }

    il_work_say(job, "could not be completed", no.text);

    yield = (status == 409 && no.problem != NULL
             && strcmp(no.problem, "job-canceled") == 0);
    gone = (status == 0 || status == 401 || status == 409);

    /* Asked to end, whether we had heard of it or not: the result is kept as
     * evidence, but the attempt is still ours, and who comes next waits until
     * it yields. */

    if (yield) {
        end = il_report_fail(job, child, "stopped on request", until);

    } else if (gone) {
        end = IL_WORK_GONE;

    } else {
        /* the result itself was refused: doing it again would not help */
        end = il_report_fail(job, child, no.text, until);
    }

    il_report_no_free(&no);

    return end;
}


static il_work_end_e
il_report_release(il_work_job_t *job, int64_t until)
{
    long             status;
    il_report_no_t   no;

    status = il_report_send(job, "/v1/lease/release", il_str("{}", 2), until,
                            &no);

    if (status < 200 || status >= 300) {
        il_work_say(job, "could not be handed back", no.text);
        il_report_no_free(&no);
        return IL_WORK_GONE;
    }

    il_work_say(job, "handed back", NULL);

    return IL_WORK_RELEASED;
}


il_work_end_e
il_work_report(il_work_job_t *job, il_work_child_t *child,
    il_work_why_e why, int64_t until)
{
    int      done;
    int64_t  now;

    now = il_boottime_ms();
    until = (until < now ? now : until) + IL_REPORT_MORE_MS;

    done = child->started && !child->signaled && child->code == 0;

    switch (why) {

    case IL_WORK_LOST:
        il_work_say(job, "lost its lease, stopped", job->why_text);
        return IL_WORK_GONE;

    case IL_WORK_EXPIRED:
        il_work_say(job, "could not renew its lease in time, stopped", NULL);
        break;

    case IL_WORK_CANCELED:

        /* done all the same: refused, but kept as evidence, then yielded */

        il_work_say(job, "was asked to stop", NULL);

        return done ? il_report_complete(job, child, until)
                    : il_report_fail(job, child, "stopped on request", until);

    case IL_WORK_DRAIN:
    case IL_WORK_GO:
        break;
    }

    /* the server judges whether a late end still counts */

    if (done) {
        return il_report_complete(job, child, until);
    }

    if (why != IL_WORK_GO) {
        return il_report_release(job, until);
    }

    return il_report_fail(job, child, NULL, until);
}
