/*
 * work.c: a worker from any program.
 *
 * The main thread claims and listens to signals; it never waits for one
 * thing only.  A claim waits at the server, so there is no polling; when the
 * server is away, claims are repeated with growing, jittered pauses.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <sodium.h>

#include "cmds.h"
#include "il_json.h"
#include "work.h"

#define IL_WORK_CLAIM_WAIT  20      /* s: one long poll */
#define IL_WORK_SLACK_MS    10000   /* answer after the long poll's end */
#define IL_WORK_ARRIVE_MS   2000    /* for an answer that has begun */
#define IL_WORK_CONC_MAX    256


typedef struct {
    il_common_t  common;
    il_list_t    kinds;
    int64_t      concurrency;
    int64_t      wait;
    int64_t      grace;
    int64_t      drain;
    const char  *name;
    int          once;
} il_work_opts_t;

/* What only the main thread uses. */
typedef struct {
    il_work_t         *w;
    il_work_opts_t    *o;
    il_work_job_t     *running[IL_WORK_CONC_MAX];
    size_t             nrunning;
    CURLM             *multi;
    il_http_t          claim;
    int64_t            claim_sent;  /* BOOTTIME ms; 0: none under way */
    int64_t            claim_at;    /* not before, ms */
    int                claim_bad;   /* the last one failed */
    il_backoff_t       backoff;
    int                signals;     /* signalfd */
    int                draining;
    int64_t            drain_until;
    int                stopped;     /* running jobs were told to stop */
    int64_t            idle_since;
    int                claimed;     /* --once: there was a job */
    il_work_end_e      end;         /* of the last job */
    int                rc;
} il_worker_t;


static int il_work(void *opts, const il_args_t *args);


static const il_opt_t  il_work_opts[] = {
    { "kind", IL_OPT_LIST, offsetof(il_work_opts_t, kinds), "NAME",
      "kind of work to take; may be repeated", 0, 0, 0 },
    { "concurrency", IL_OPT_INT, offsetof(il_work_opts_t, concurrency), "N",
      "jobs at once (1)", 1, IL_WORK_CONC_MAX, 1 },
    { "once", IL_OPT_FLAG, offsetof(il_work_opts_t, once), NULL,
      "take one job, then end", 0, 0, 0 },
    { "wait", IL_OPT_INT, offsetof(il_work_opts_t, wait), "SECONDS",
      "end when there was nothing to do for so long (never)", 0, 31536000,
      -1 },
    { "name", IL_OPT_STR, offsetof(il_work_opts_t, name), "NAME",
      "name of this worker (host and process id)", 0, 0, 0 },
    { "grace", IL_OPT_INT, offsetof(il_work_opts_t, grace), "SECONDS",
      "from SIGTERM to SIGKILL when a command is stopped (5)", 0, 3600, 5 },
    { "drain", IL_OPT_INT, offsetof(il_work_opts_t, drain), "SECONDS",
      "how long running commands may go on after SIGTERM or SIGINT (20)",
      0, 86400, 20 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_work = {
    "work", il_work, "run a command for each job",
    "--kind K [options] -- COMMAND [ARGUMENT...]",
    "Takes jobs and runs COMMAND for each: the payload on standard input, the\n"
    "result from standard output.  The lease is renewed meanwhile.  Exit code\n"
    "of COMMAND: 0 done; 64-73 and 76-78 failed for good; 75 and all others\n"
    "failed, to be retried.  When the lease is lost or the job canceled, all\n"
    "that it has started gets SIGTERM, then SIGKILL.\n\n"
    "On SIGTERM or SIGINT it takes nothing more, lets commands end for the\n"
    "time of --drain, then stops them and hands their jobs back.  A second\n"
    "signal does that at once.\n\n"
    "Exit code 0 after draining; with --once: 0 job done, 1 job failed,\n"
    "75 no job came, or it was handed back or its lease lost.",
    il_work_opts, sizeof(il_work_opts_t), IL_CMD_CLIENT|IL_CMD_TAIL, 0, 0
};


static void
il_worker_drain(il_worker_t *m, int rc)
{
    if (!m->draining) {
        m->draining = 1;
        m->drain_until = il_boottime_ms() + m->o->drain * 1000;
        m->rc = rc;
    }
}


static void
il_worker_stop_jobs(il_worker_t *m)
{
    m->stopped = 1;

    for (size_t i = 0; i < m->nrunning; i++) {
        il_work_job_stop(m->running[i], IL_WORK_DRAIN, NULL);
    }
}


static void
il_worker_signals(il_worker_t *m)
{
    struct signalfd_siginfo  info;

    while (read(m->signals, &info, sizeof(info)) == (ssize_t) sizeof(info)) {
        if (!m->draining) {
            if (!m->o->common.json) {
                il_err("%s: ending, %zu running", strsignal((int)
                       info.ssi_signo), m->nrunning);
            }

            il_worker_drain(m, 0);
            continue;
        }

        (void) pthread_mutex_lock(&m->w->lock);
        m->w->hurry = 1;
        (void) pthread_mutex_unlock(&m->w->lock);

        m->drain_until = 0;
        il_worker_stop_jobs(m);
    }
}


/* Takes the jobs whose threads are done out of the list. */
static void
il_worker_reap(il_worker_t *m)
{
    int             done;
    size_t          i;
    eventfd_t       count;
    il_work_job_t  *job;

    (void) eventfd_read(m->w->event, &count);

    for (i = 0; i < m->nrunning; /* void */ ) {
        job = m->running[i];

        (void) pthread_mutex_lock(&m->w->lock);
        done = (job->state == IL_WORK_DONE);
        (void) pthread_mutex_unlock(&m->w->lock);

        if (!done) {
            i++;
            continue;
        }

        (void) pthread_join(job->thread, NULL);
        m->end = job->end;
        m->running[i] = m->running[--m->nrunning];
        m->idle_since = il_boottime_ms();
        il_work_job_unref(job);
    }
}


static void
il_worker_claim(il_worker_t *m)
{
    size_t     free_slots;
    int64_t    left, wait;
    il_buf_t   body;

    wait = IL_WORK_CLAIM_WAIT;
    free_slots = (size_t) m->o->concurrency - m->nrunning;

    if (m->o->wait >= 0 && m->nrunning == 0) {
        left = m->idle_since + m->o->wait * 1000 - il_boottime_ms();
        left = left < 0 ? 0 : (left + 999) / 1000;
        wait = left < wait ? left : wait;
    }

    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{\"worker\":");
    il_buf_json(&body, il_cstr(m->w->name));
    il_buf_puts(&body, ",\"kinds\":[");

    for (size_t i = 0; i < m->o->kinds.n; i++) {
        il_buf_puts(&body, i == 0 ? "" : ",");
        il_buf_json(&body, il_cstr(m->o->kinds.v[i]));
    }

    il_buf_printf(&body, "],\"max\":%zu,\"wait\":%d}",
                  free_slots, (int) wait);

    m->claim_at = il_boottime_ms() + 1000;      /* if it cannot be sent */

    if (il_http_prepare(&m->claim, "POST", "/v1/leases", il_buf_str(&body),
                        (long) wait * 1000 + IL_WORK_SLACK_MS) == 0
        && curl_multi_add_handle(m->multi, m->claim.curl) == CURLM_OK)
    {
        m->claim.answer.body.max = free_slots * IL_HTTP_ANSWER_MAX;
        m->claim_sent = il_boottime_ms();
    }

    il_buf_free(&body);
}


/* Starts the jobs of an answer; how many. */
static size_t
il_worker_leases(il_worker_t *m)
{
    size_t            pos, n;
    il_str_t          name;
    il_work_job_t    *job;
    il_json_value_t   list, lease;

    if (il_json_find(il_buf_str(&m->claim.answer.body), il_cstr("/leases"),
                     &list) != IL_JSON_OK || list.type != IL_JSON_ARRAY)
    {
        il_err("the server's answer to a claim cannot be read");
        il_worker_drain(m, EX_PROTOCOL);
        return 0;
    }

    pos = 0;
    n = 0;

    while (il_json_next(list, &pos, &name, &lease)) {
        if (lease.type != IL_JSON_OBJECT
            || m->nrunning >= (size_t) m->o->concurrency)
        {
            il_err("the server gave a lease that was not asked for");
            il_worker_drain(m, EX_PROTOCOL);
            break;
        }

        job = il_work_job_create(m->w, lease.raw, m->claim_sent);

        if (job == NULL) {
            il_worker_drain(m, EX_PROTOCOL);
            continue;
        }

        if (il_work_job_start(job, m->draining) != 0) {
            il_work_job_unref(job);
            il_worker_drain(m, EX_OSERR);
            continue;
        }

        m->running[m->nrunning++] = job;
        n++;
    }

    m->claimed |= (n != 0);

    return n;
}


static void
il_worker_claimed(il_worker_t *m, CURLcode code)
{
    int                rc;
    char              *text;
    int64_t            now;
    il_answer_http_t  *a;

    rc = il_http_take(&m->claim, code);
    a = &m->claim.answer;
    now = il_boottime_ms();

    if (rc == 0 && a->status >= 200 && a->status < 300) {
        if (m->claim_bad) {
            il_err("the server is back");
            m->claim_bad = 0;
        }

        il_backoff_reset(&m->backoff);
        m->claim_at = now;

        /* an empty answer before its time (a server that drains) is not
         * followed by the next claim at once */

        if (il_worker_leases(m) == 0 && now - m->claim_sent < 500) {
            m->claim_at = now + il_backoff_next(&m->backoff, -1);
        }

    } else if (a->status == 0 || a->status == 408 || a->status == 429
               || a->status >= 500)
    {
        m->claim_at = now + il_backoff_next(&m->backoff, a->retry_after);

        if (!m->claim_bad && !m->draining) {
            text = il_http_explain(a);
            il_err("%s: %s; trying again", m->claim.base, text);
            free(text);
            m->claim_bad = 1;
        }

    } else {
        rc = il_http_check(&m->claim, 0, 0);
        il_worker_drain(m, rc);
    }

    il_buf_free(&a->body);
    m->claim_sent = 0;
}


/* A claim under way when the worker drains is given up, unless its answer has
 * begun to arrive.  What the server cannot write any more it takes back; what
 * is lost on the way comes back when the lease ends. */
static void
il_worker_unclaim(il_worker_t *m)
{
    long  status;

    if (m->claim_sent == 0
        || (curl_easy_getinfo(m->claim.curl, CURLINFO_RESPONSE_CODE, &status)
            == CURLE_OK && status >= 200
            && il_boottime_ms() < m->drain_until + IL_WORK_ARRIVE_MS))
    {
        return;
    }

    (void) curl_multi_remove_handle(m->multi, m->claim.curl);
    (void) il_http_take(&m->claim, CURLE_ABORTED_BY_CALLBACK);
    m->claim_sent = 0;
}


/* 1 if there is nothing left to do; else 0 and how long to wait, in ms. */
static int
il_worker_next(il_worker_t *m, int *wait)
{
    int64_t  now, at, idle;

    now = il_boottime_ms();
    at = now + 60000;
    idle = INT64_MAX;

    if (!m->draining && m->o->once && m->claimed && m->nrunning == 0) {
        return 1;
    }

    /* a claim that ends with the time is heard, and there is one at least */

    if (!m->draining && m->o->wait >= 0 && m->nrunning == 0
        && m->claim_at != 0)
    {
        idle = m->idle_since + m->o->wait * 1000
               + (m->claim_sent == 0 ? 0 : 1000);

        if (now >= idle) {
            il_worker_drain(m, m->claim_bad ? EX_UNAVAILABLE
                               : (m->o->once ? EX_TEMPFAIL : 0));
        }
    }

    if (m->draining) {
        il_worker_unclaim(m);

        if (m->nrunning == 0 && m->claim_sent == 0) {
            return 1;
        }

        if (!m->stopped && now >= m->drain_until) {
            il_worker_stop_jobs(m);
        }

        if (!m->stopped) {
            at = m->drain_until;

        } else if (m->claim_sent != 0) {
            at = now + 100;
        }

    } else if (m->claim_sent == 0
               && m->nrunning < (size_t) m->o->concurrency
               && !(m->o->once && m->claimed))
    {
        if (now >= m->claim_at) {
            il_worker_claim(m);
        }

        at = (m->claim_sent == 0 && m->claim_at < at) ? m->claim_at : at;
    }

    at = (idle < at ? idle : at) - now;
    *wait = at < 0 ? 0 : (at > 60000 ? 60000 : (int) at);

    return 0;
}


static void
il_worker_loop(il_worker_t *m)
{
    int                 wait, left;
    CURLMsg            *msg;
    CURLcode            code;
    struct curl_waitfd  fds[2];

    while (!il_worker_next(m, &wait)) {
        (void) curl_multi_perform(m->multi, &left);
        msg = curl_multi_info_read(m->multi, &left);

        if (msg != NULL && msg->msg == CURLMSG_DONE) {
            code = msg->data.result;
            (void) curl_multi_remove_handle(m->multi, m->claim.curl);
            il_worker_claimed(m, code);
            continue;
        }

        fds[0].fd = m->signals;
        fds[0].events = CURL_WAIT_POLLIN;
        fds[0].revents = 0;
        fds[1].fd = m->w->event;
        fds[1].events = CURL_WAIT_POLLIN;
        fds[1].revents = 0;

        (void) curl_multi_poll(m->multi, fds, 2, wait, NULL);

        il_worker_signals(m);
        il_worker_reap(m);
    }
}


static int
il_worker_check(const il_work_opts_t *o, const il_args_t *args)
{
    if (o->kinds.n == 0) {
        il_err("work: --kind is needed");
        return EX_USAGE;
    }

    if (args->tail.n == 0) {
        il_err("work: a command is needed behind --");
        return EX_USAGE;
    }

    if (o->once && o->concurrency != 1) {
        il_err("work: --once and --concurrency exclude each other");
        return EX_USAGE;
    }

    return il_work_child_check(args->tail.v[0]);
}


static char *
il_worker_name(const il_work_opts_t *o)
{
    char      host[256];
    il_buf_t  b;

    if (o->name != NULL) {
        return il_xstrndup(o->name, strlen(o->name));
    }

    memset(&b, 0, sizeof(b));
    host[0] = '\0';
    (void) gethostname(host, sizeof(host));
    host[sizeof(host) - 1] = '\0';
    il_buf_puts(&b, host[0] == '\0' ? "worker" : host);
    il_buf_printf(&b, ":%ld", (long) getpid());

    return b.data;
}


/* Signals are read from a descriptor; every thread has them blocked. */
static int
il_worker_signal_fd(void)
{
    sigset_t  set;

    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGTERM);
    (void) sigaddset(&set, SIGINT);
    (void) sigaddset(&set, SIGHUP);

    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) {
        return -1;
    }

    return signalfd(-1, &set, SFD_CLOEXEC|SFD_NONBLOCK);
}


static int
il_worker_exit(const il_worker_t *m)
{
    if (m->rc != 0 || !m->o->once) {
        return m->rc;
    }

    if (!m->claimed) {
        return EX_TEMPFAIL;
    }

    switch (m->end) {
    case IL_WORK_COMPLETED:
        return 0;
    case IL_WORK_FAILED:
        return IL_EXIT_NO;
    case IL_WORK_RELEASED:
    case IL_WORK_GONE:
        break;
    }

    return EX_TEMPFAIL;
}


static int
il_work(void *opts, const il_args_t *args)
{
    int           rc;
    il_work_t     w;
    il_worker_t  *m;

    rc = il_worker_check(opts, args);

    if (rc != 0) {
        return rc;
    }

    memset(&w, 0, sizeof(w));
    m = il_xalloc(1, sizeof(*m));
    m->w = &w;
    m->o = opts;
    rc = il_http_open(&m->claim, &m->o->common, 1);

    if (rc != 0) {
        il_http_close(&m->claim);
        free(m);
        return rc;
    }

    w.common = &m->o->common;
    w.command = args->tail.v;
    w.base = m->claim.base;
    w.grace_ms = m->o->grace * 1000;
    w.name = il_worker_name(m->o);
    (void) pthread_mutex_init(&w.lock, NULL);
    (void) pthread_mutex_init(&w.stderr_lock, NULL);

    m->signals = il_worker_signal_fd();
    w.event = eventfd(0, EFD_CLOEXEC|EFD_NONBLOCK);
    m->multi = curl_multi_init();
    m->idle_since = il_boottime_ms();
    il_backoff_init(&m->backoff, 200, 15000);

    if (m->signals == -1 || w.event == -1 || m->multi == NULL) {
        il_err("cannot start: %s", strerror(errno));
        rc = EX_OSERR;

    } else {
        rc = il_work_renew_start(&w);
    }

    if (rc == 0) {
        il_worker_loop(m);
        il_work_renew_stop(&w);
        rc = il_worker_exit(m);
    }

    (void) curl_multi_cleanup(m->multi);
    il_http_close(&m->claim);
    (void) close(w.event);
    (void) close(m->signals);
    (void) pthread_mutex_destroy(&w.stderr_lock);
    (void) pthread_mutex_destroy(&w.lock);
    free(w.name);
    free(m);

    return il_out_end(rc);
}
