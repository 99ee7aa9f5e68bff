/*
 * work_renew.c: renews every lease at a third of its length.
 *
 * One thread, one multi handle: a renewal that hangs holds up no other, and
 * neither does a child, whose pipes are another thread's.  It writes no
 * messages, for a standard error that nobody reads would block it; what
 * happened is left with the job, whose own thread tells it.
 *
 * Our end of a lease is counted from before the request was sent, so it is
 * never later than the database's.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "il_json.h"
#include "work.h"

#define IL_RENEW_PATH  "/v1/lease/renew"


static int64_t
il_renew_clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : (v > hi ? hi : v);
}


/* Takes the job from the list (lock held). */
static void
il_renew_unlink(il_work_t *w, il_work_job_t *job)
{
    il_work_job_t  **p;

    for (p = &w->jobs; *p != NULL; p = &(*p)->next) {
        if (*p == job) {
            *p = job->next;
            job->next = NULL;
            return;
        }
    }
}


static void
il_renew_abort(il_work_t *w, il_work_job_t *job)
{
    if (job->renew_sent != 0) {
        (void) curl_multi_remove_handle(w->renew_multi, job->renew.curl);
        (void) il_http_take(&job->renew, CURLE_ABORTED_BY_CALLBACK);
        job->renew_sent = 0;
    }
}


static void
il_renew_send(il_work_t *w, il_work_job_t *job, int64_t now)
{
    long  timeout;

    if (job->renew.curl == NULL) {
        if (il_http_open_bearer(&job->renew, w->base,
                                il_cstr(job->owner_token)) != 0)
        {
            return;
        }

        il_backoff_init(&job->renew_backoff,
                        il_renew_clamp(job->lease_ms / 30, 50, 1000),
                        il_renew_clamp(job->lease_ms / 6, 100, 5000));
    }

    timeout = (long) il_renew_clamp(job->lease_ms / 3, 500, 10000);

    if (il_http_prepare(&job->renew, "POST", IL_RENEW_PATH, il_str("{}", 2),
                        timeout) != 0
        || curl_multi_add_handle(w->renew_multi, job->renew.curl) != CURLM_OK)
    {
        (void) il_http_take(&job->renew, CURLE_FAILED_INIT);
        return;
    }

    job->renew_sent = now;
}


/* What is left of the lease, never more than its length; less near the end of
 * max_runtime or after a cancel. */
static int64_t
il_renew_left(const il_work_job_t *job, il_str_t body)
{
    int64_t          left;
    il_json_value_t  v;

    if (il_json_find(body, il_cstr("/remaining_ms"), &v) != IL_JSON_OK) {
        return job->lease_ms;
    }

    /* what is not a positive whole number leaves nothing */

    left = il_json_int(body, "/remaining_ms", 0);

    return left > job->lease_ms ? job->lease_ms : left;
}


/* The answer to a renewal. */
static void
il_renew_answer(il_work_t *w, il_work_job_t *job, CURLcode code)
{
    char              *text, *cancel, *problem;
    int64_t            sent, lease;
    il_answer_http_t  *a;
    il_work_why_e      why;

    sent = job->renew_sent;
    job->renew_sent = 0;
    a = &job->renew.answer;

    if (il_http_take(&job->renew, code) == 0
        && a->status >= 200 && a->status < 300)
    {
        lease = il_renew_left(job, il_buf_str(&a->body));
        il_backoff_reset(&job->renew_backoff);

        (void) pthread_mutex_lock(&w->lock);
        job->deadline = sent + lease;
        job->renew_at = sent + lease / 3;
        job->renewed++;
        (void) pthread_mutex_unlock(&w->lock);

        cancel = il_json_text(il_buf_str(&a->body), "/cancel_requested");

        if (cancel != NULL && strcmp(cancel, "true") == 0) {
            il_work_job_stop(job, IL_WORK_CANCELED, NULL);

        } else {
            (void) eventfd_write(job->event, 1);
        }

        free(cancel);
        return;
    }

    if (a->status == 0 || a->status == 408 || a->status == 429
        || a->status >= 500)
    {
        (void) pthread_mutex_lock(&w->lock);
        job->renew_at = il_boottime_ms()
                        + il_backoff_next(&job->renew_backoff,
                                          a->retry_after);
        (void) pthread_mutex_unlock(&w->lock);
        return;
    }

    /* Canceled, and we hear of it only after the deadline: nobody has taken
     * the attempt yet, so it can still be yielded. */

    problem = il_http_problem(a);
    why = (problem != NULL && strcmp(problem, "job-canceled") == 0)
          ? IL_WORK_CANCELED : IL_WORK_LOST;
    text = il_http_explain(a);
    il_work_job_stop(job, why, text);
    free(text);
    free(problem);
}


/* What is due now; the time until something is, in ms. */
static int
il_renew_due(il_work_t *w)
{
    int              wait;
    int64_t          now, at;
    il_work_job_t   *job, *next, *gone;

    wait = 60000;
    gone = NULL;
    now = il_boottime_ms();

    (void) pthread_mutex_lock(&w->lock);

    for (job = w->jobs; job != NULL; job = next) {
        next = job->next;

        if (job->state >= IL_WORK_FINISHING) {
            il_renew_unlink(w, job);
            job->next = gone;
            gone = job;
            continue;
        }

        if (job->why == IL_WORK_LOST || job->why == IL_WORK_EXPIRED) {
            continue;
        }

        if (now >= job->deadline) {
            job->why = (job->why == IL_WORK_GO) ? IL_WORK_EXPIRED : job->why;
            (void) eventfd_write(job->event, 1);
            continue;
        }

        at = job->deadline;

        if (job->renew_sent == 0) {
            if (now >= job->renew_at) {
                il_renew_send(w, job, now);
                job->renew_at = now + 1000;     /* if it could not be sent */
            }

            at = job->renew_at < at ? job->renew_at : at;
        }

        at = il_renew_clamp(at - now, 1, 60000);
        wait = at < wait ? (int) at : wait;
    }

    (void) pthread_mutex_unlock(&w->lock);

    while (gone != NULL) {
        job = gone;
        gone = job->next;
        job->next = NULL;
        il_renew_abort(w, job);
        il_http_close(&job->renew);
        il_work_job_unref(job);
    }

    return wait;
}


static il_work_job_t *
il_renew_find(il_work_t *w, CURL *curl)
{
    il_work_job_t  *job;

    (void) pthread_mutex_lock(&w->lock);

    for (job = w->jobs; job != NULL; job = job->next) {
        if (job->renew.curl == curl && job->renew_sent != 0) {
            break;
        }
    }

    (void) pthread_mutex_unlock(&w->lock);

    return job;
}


static void *
il_renew_thread(void *ctx)
{
    int             wait, left, end;
    CURLMsg        *msg;
    CURLcode        code;
    il_work_t      *w;
    il_work_job_t  *job;

    w = ctx;

    for ( ;; ) {
        wait = il_renew_due(w);

        (void) pthread_mutex_lock(&w->lock);
        end = (w->ending && w->jobs == NULL);
        (void) pthread_mutex_unlock(&w->lock);

        if (end) {
            return NULL;
        }

        (void) curl_multi_perform(w->renew_multi, &left);

        while ((msg = curl_multi_info_read(w->renew_multi, &left)) != NULL) {
            if (msg->msg != CURLMSG_DONE) {
                continue;
            }

            job = il_renew_find(w, msg->easy_handle);
            code = msg->data.result;

            if (job != NULL) {
                (void) curl_multi_remove_handle(w->renew_multi,
                                                job->renew.curl);
                il_renew_answer(w, job, code);
                wait = 0;
            }
        }

        if (wait != 0) {
            (void) curl_multi_poll(w->renew_multi, NULL, 0, wait, NULL);
        }
    }
}


int
il_work_renew_start(il_work_t *w)
{
    w->renew_multi = curl_multi_init();

    if (w->renew_multi == NULL
        || pthread_create(&w->renew_thread, NULL, il_renew_thread, w) != 0)
    {
        il_err("cannot start the renewing thread");
        return EX_OSERR;
    }

    return 0;
}


void
il_work_renew_wake(il_work_t *w)
{
    (void) curl_multi_wakeup(w->renew_multi);
}


void
il_work_renew_stop(il_work_t *w)
{
    (void) pthread_mutex_lock(&w->lock);
    w->ending = 1;
    (void) pthread_mutex_unlock(&w->lock);

    il_work_renew_wake(w);
    (void) pthread_join(w->renew_thread, NULL);
    (void) curl_multi_cleanup(w->renew_multi);
}
