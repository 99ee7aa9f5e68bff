/*
 * work_job.c: one job: reading its lease, its thread, its references.
 */

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "il_enc.h"
#include "il_json.h"
#include "work.h"

#define IL_JOB_STACK          (512 * 1024)
#define IL_JOB_ENV_MAX        (100 * 1024)  /* below Linux' MAX_ARG_STRLEN */


static char *
il_job_scalar(const il_json_value_t *v)
{
    char    *text;
    size_t   len;

    text = il_xalloc(v->raw.len + 1, 1);

    if (il_json_scalar(v, text, v->raw.len, &len) != 0
        || memchr(text, '\0', len) != NULL)
    {
        free(text);
        return NULL;
    }

    text[len] = '\0';
    return text;
}


static int
il_job_payload(il_work_job_t *job, const il_json_value_t *v, int base64)
{
    char    *text;
    size_t   len;

    if (v->type == IL_JSON_NULL) {
        return 0;
    }

    if (!base64) {
        il_buf_add(&job->payload, v->raw.data, v->raw.len);
        return 0;
    }

    text = il_job_scalar(v);

    if (text == NULL) {
        return -1;
    }

    il_buf_add(&job->payload, text, strlen(text));

    if (il_b64_decode((uint8_t *) job->payload.data, job->payload.cap, &len,
                      il_cstr(text), IL_B64_STD) != 0)
    {
        free(text);
        return -1;
    }

    job->payload.len = len;
    free(text);

    return 0;
}


/* An object or list is kept as JSON text; what is too long for an environment
 * variable is left out. */
static char *
il_job_headers(const il_json_value_t *v)
{
    if (v->type == IL_JSON_NULL || v->raw.len > IL_JOB_ENV_MAX) {
        return NULL;
    }

    return v->type == IL_JSON_STRING ? il_job_scalar(v)
                                     : il_xstrndup(v->raw.data, v->raw.len);
}


/* JSON text as it stands, but a string's text; NULL for nothing: null, or an
 * empty list. */
static char *
il_job_text(const il_json_value_t *v)
{
    char             *text;
    size_t            pos;
    il_str_t          name;
    il_json_value_t   item;

    pos = 0;

    if (v->type == IL_JSON_NULL
        || (v->type == IL_JSON_ARRAY
            && !il_json_next(*v, &pos, &name, &item)))
    {
        return NULL;
    }

    text = (v->type == IL_JSON_STRING) ? il_job_scalar(v) : NULL;

    return text != NULL ? text : il_xstrndup(v->raw.data, v->raw.len);
}


/* One member of the lease; one pass, for a payload may be large. */
static int
il_job_member(il_work_job_t *job, il_str_t name, const il_json_value_t *v)
{
    char    *text, **field;
    size_t   i;

    const struct {
        const char   *name;
        char        **field;
    } fields[] = {
        { "job_id", &job->job_id },
        { "kind", &job->kind },
        { "work_key", &job->work_key },
        { "fence", &job->fence },
        { "attempt", &job->attempt },
        { "owner_token", &job->owner_token },
        { "content_type", &job->content_type },
        { "traceparent", &job->traceparent },
        { "step", &job->step },
    };

    const struct {
        const char   *name;
        char        **field;
    } texts[] = {
        { "checkpoint", &job->checkpoint },
        { "attempts", &job->attempts },
        { "effects", &job->effects },
    };

    if (il_str_eq(name, il_cstr("payload"))) {
        return il_job_payload(job, v, 0);
    }

    if (il_str_eq(name, il_cstr("payload_base64"))) {
        return il_job_payload(job, v, 1);
    }

    if (il_str_eq(name, il_cstr("headers"))) {
        free(job->headers);
        job->headers = il_job_headers(v);
        return 0;
    }

    if (il_str_eq(name, il_cstr("lease_seconds"))) {
        text = il_job_scalar(v);
        job->lease_ms = (text == NULL) ? 0 : strtoll(text, NULL, 10) * 1000;
        free(text);
        return 0;
    }

    for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (il_str_eq(name, il_cstr(fields[i].name))) {
            field = fields[i].field;
            free(*field);
            *field = il_job_scalar(v);
        }
    }

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (il_str_eq(name, il_cstr(texts[i].name))) {
            field = texts[i].field;
            free(*field);
            *field = il_job_text(v);
        }
    }

    return 0;
}


static void
il_job_free(il_work_job_t *job)
{
    if (job->owner_token != NULL) {
        explicit_bzero(job->owner_token, strlen(job->owner_token));
    }

    if (job->event != -1) {
        (void) close(job->event);
    }

    free(job->job_id);
    free(job->kind);
    free(job->work_key);
    free(job->fence);
    free(job->attempt);
    free(job->owner_token);
    free(job->content_type);
    free(job->headers);
    free(job->traceparent);
    free(job->step);
    free(job->checkpoint);
    free(job->attempts);
    free(job->effects);
    free(job->why_text);
    il_buf_free(&job->payload);
    free(job);
}


il_work_job_t *
il_work_job_create(il_work_t *w, il_str_t lease, int64_t sent_at)
{
    size_t            pos;
    int64_t           now;
    il_str_t          name;
    il_json_value_t   object, v;
    il_work_job_t    *job;

    job = il_xalloc(1, sizeof(*job));
    job->work = w;
    job->refs = 1;
    job->event = -1;

    object.type = IL_JSON_OBJECT;
    object.raw = lease;
    pos = 0;

    while (il_json_next(object, &pos, &name, &v)) {
        name = il_str(name.data + 1, name.len < 2 ? 0 : name.len - 2);

        if (il_job_member(job, name, &v) != 0) {
            break;
        }
    }

    if (job->job_id == NULL || job->kind == NULL || job->work_key == NULL
        || job->fence == NULL || job->attempt == NULL
        || job->owner_token == NULL || job->lease_ms <= 0)
    {
        il_err("the server gave a lease that cannot be read (job %s)",
               job->job_id == NULL ? "?" : job->job_id);
        il_job_free(job);
        return NULL;
    }

    job->event = eventfd(0, EFD_CLOEXEC|EFD_NONBLOCK);

    if (job->event == -1) {
        il_err("cannot make an eventfd");
        il_job_free(job);
        return NULL;
    }

    /* A claim that waited long at the server says little about when the
     * lease began: counted from its sending it may be nearly over.  Then it
     * is renewed at once, and the command starts on that answer. */

    now = il_boottime_ms();
    job->deadline = sent_at + job->lease_ms;
    job->renew_at = sent_at + job->lease_ms / 3;
    job->renewed = 1;

    if (job->deadline - now < job->lease_ms / 2) {
        job->deadline = now + job->lease_ms;
        job->renew_at = now;
        job->renewed = 0;
    }

    return job;
}


void
il_work_job_unref(il_work_job_t *job)
{
    int  left;

    (void) pthread_mutex_lock(&job->work->lock);
    left = --job->refs;
    (void) pthread_mutex_unlock(&job->work->lock);

    if (left == 0) {
        il_job_free(job);
    }
}


void
il_work_job_stop(il_work_job_t *job, il_work_why_e why, const char *text)
{
    (void) pthread_mutex_lock(&job->work->lock);

    if (job->why == IL_WORK_GO && job->state < IL_WORK_FINISHING) {
        job->why = why;

        if (text != NULL) {
            job->why_text = il_xstrndup(text, strlen(text));
        }
    }

    (void) pthread_mutex_unlock(&job->work->lock);
    (void) eventfd_write(job->event, 1);
}


il_work_why_e
il_work_job_why(il_work_job_t *job)
{
    il_work_why_e  why;

    (void) pthread_mutex_lock(&job->work->lock);
    why = job->why;
    (void) pthread_mutex_unlock(&job->work->lock);

    return why;
}


/* Waits for the first renewal, if one is needed before the start.  0, or -1
 * if the job is to be stopped. */
static int
il_job_confirmed(il_work_job_t *job)
{
    int            renewed;
    eventfd_t      count;
    struct pollfd  p;
    il_work_why_e  why;

    for ( ;; ) {
        (void) pthread_mutex_lock(&job->work->lock);
        renewed = (job->renewed != 0);
        why = job->why;

        if (renewed && why == IL_WORK_GO) {
            job->state = IL_WORK_RUNNING;
        }

        (void) pthread_mutex_unlock(&job->work->lock);

        if (why != IL_WORK_GO) {
            return -1;
        }

        if (renewed) {
            return 0;
        }

        p.fd = job->event;
        p.events = POLLIN;

        if (poll(&p, 1, 1000) > 0) {
            (void) eventfd_read(job->event, &count);
        }
    }
}


static void
il_job_json(const il_work_job_t *job, const il_work_child_t *child)
{
    il_buf_t  b;

    static const char *const  ends[] = {
        "completed", "failed", "released", "gone"
    };

    if (!job->work->common->json) {
        return;
    }

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, "{\"job_id\":");
    il_buf_json(&b, il_cstr(job->job_id));
    il_buf_puts(&b, ",\"kind\":");
    il_buf_json(&b, il_cstr(job->kind));
    il_buf_puts(&b, ",\"work_key\":");
    il_buf_json(&b, il_cstr(job->work_key));
    il_buf_puts(&b, ",\"fence\":");
    il_buf_puts(&b, job->fence);
    il_buf_printf(&b, ",\"end\":\"%s\"", ends[job->end]);

    if (child->started) {
        il_buf_printf(&b, ",\"%s\":%d",
                      child->signaled ? "signal" : "exit_code", child->code);
    }

    il_buf_puts(&b, "}\n");
    (void) fwrite(b.data, 1, b.len, stdout);
    (void) fflush(stdout);
    il_buf_free(&b);
}


static void *
il_job_thread(void *ctx)
{
    int64_t          until;
    il_work_t       *w;
    il_work_job_t   *job;
    il_work_why_e    why;
    il_work_child_t  child;

    job = ctx;
    w = job->work;
    memset(&child, 0, sizeof(child));

    if (il_job_confirmed(job) == 0) {
        il_work_say(job, "started", NULL);
        il_work_child_run(job, &child);
    }

    /* From here on no renewal: one that met the finished job would be
     * refused and look like a lost lease. */

    (void) pthread_mutex_lock(&w->lock);
    why = job->why;
    until = job->deadline;
    job->state = IL_WORK_FINISHING;
    (void) pthread_mutex_unlock(&w->lock);

    il_work_renew_wake(w);

    job->end = il_work_report(job, &child, why, until);
    il_job_json(job, &child);
    il_work_child_free(&child);

    (void) pthread_mutex_lock(&w->lock);
    job->state = IL_WORK_DONE;
    (void) pthread_mutex_unlock(&w->lock);

    (void) eventfd_write(w->event, 1);

    return NULL;
}


int
il_work_job_start(il_work_job_t *job, int drain)
{
    int             rc;
    il_work_t      *w;
    pthread_attr_t  attr;

    w = job->work;

    if (pthread_attr_init(&attr) != 0) {
        return -1;
    }

    (void) pthread_attr_setstacksize(&attr, IL_JOB_STACK);

    (void) pthread_mutex_lock(&w->lock);
    job->why = drain ? IL_WORK_DRAIN : IL_WORK_GO;
    job->refs++;
    job->next = w->jobs;
    w->jobs = job;
    (void) pthread_mutex_unlock(&w->lock);

    rc = pthread_create(&job->thread, &attr, il_job_thread, job);
    (void) pthread_attr_destroy(&attr);

    if (rc != 0) {
        il_err("cannot start a thread: %s", strerror(rc));

        (void) pthread_mutex_lock(&w->lock);
        job->state = IL_WORK_DONE;
        (void) pthread_mutex_unlock(&w->lock);
    }

    il_work_renew_wake(w);

    return rc == 0 ? 0 : -1;
}
