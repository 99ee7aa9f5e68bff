/*
 * work_child.c: the command of one job.
 *
 * A process of its own (work_ward.c) starts it and ends it with all that it
 * has started; this here is the worker's side: the pipes, and when to stop.
 *
 * Standard output is kept up to a bound and read on beyond it (a command that
 * writes a gigabyte must not hang); of standard error the last bytes are kept
 * and all is passed through, by writes that cannot block for long.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                 /* pipe2(), strchrnul() */
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "work.h"

/* How long output is awaited when the first process has ended and others
 * still hold its pipes. */
#define IL_CHILD_DRAIN_MS  500

/* Left of a cancel's grace for telling the server. */
#define IL_CHILD_REPORT_MS  1000

enum { IL_FD_WARD = 0, IL_FD_EVENT, IL_FD_IN, IL_FD_OUT, IL_FD_ERR, IL_FD_PASS,
       IL_FD_N };

typedef struct {
    il_work_job_t    *job;
    il_work_child_t  *child;
    il_ward_t         ward;
    int               gone;         /* the ward is; so all else */
    int               in;           /* pipes, our ends; -1 when closed */
    int               out;
    int               err;
    size_t            fed;          /* bytes of the payload written */
    char              pass[PIPE_BUF];   /* standard error under way */
    size_t            npass;
    int               exited;
    int64_t           kill_at;      /* SIGKILL is due, ms; 0: not stopped */
    int               killed;
    int64_t           drain_until;  /* after the exit, ms */
} il_child_run_t;


static void
il_child_close(int *fd)
{
    if (*fd != -1) {
        (void) close(*fd);
        *fd = -1;
    }
}


/* 0 when the command runs; else errno. */
static int
il_child_start(il_child_run_t *run)
{
    int              e, i, fds[6];
    il_ward_spec_t   spec;

    for (i = 0; i < 6; i++) {
        fds[i] = -1;
    }

    memset(&spec, 0, sizeof(spec));
    e = il_work_files(run->job, spec.file);

    /* in: 0 theirs, 1 ours; out: 2 ours, 3 theirs; err: 4 ours, 5 theirs */

    if (e == 0
        && (pipe2(fds, O_CLOEXEC) != 0 || pipe2(fds + 2, O_CLOEXEC) != 0
            || pipe2(fds + 4, O_CLOEXEC) != 0))
    {
        e = errno;
    }

    run->in = fds[1];
    run->out = fds[2];
    run->err = fds[4];

    if (e == 0) {
        spec.command = run->job->work->command;
        spec.env = il_work_environ(run->job);
        spec.std[0] = fds[0];
        spec.std[1] = fds[3];
        spec.std[2] = fds[5];
        spec.grace_ms = run->job->work->grace_ms;

        e = il_ward_start(&run->ward, &spec);
        il_work_environ_free(spec.env);
    }

    il_child_close(&fds[0]);
    il_child_close(&fds[3]);
    il_child_close(&fds[5]);

    for (i = 0; i < IL_WARD_FILES; i++) {
        il_child_close(&spec.file[i]);
    }

    if (e == 0
        && (fcntl(run->in, F_SETFL, O_NONBLOCK) != 0
            || fcntl(run->out, F_SETFL, O_NONBLOCK) != 0
            || fcntl(run->err, F_SETFL, O_NONBLOCK) != 0))
    {
        e = errno;
    }

    return e;
}


static void
il_child_feed(il_child_run_t *run)
{
    size_t          left;
    ssize_t         n;
    il_work_job_t  *job;

    job = run->job;
    left = job->payload.len - run->fed;
    n = (left == 0) ? 0 : write(run->in, job->payload.data + run->fed, left);

    if (n > 0) {
        run->fed += (size_t) n;
        left -= (size_t) n;

    } else if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
        return;

    } else if (n == -1) {
        left = 0;                   /* EPIPE: it does not want to read */
    }

    if (left == 0) {
        il_child_close(&run->in);
        il_buf_free(&job->payload);
    }
}


static void
il_child_out(il_child_run_t *run)
{
    char     chunk[65536];
    ssize_t  n;

    n = read(run->out, chunk, sizeof(chunk));

    if (n > 0) {
        run->child->stdout_bytes += (uint64_t) n;
        il_buf_add(&run->child->out, chunk, (size_t) n);

    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        il_child_close(&run->out);
    }
}


static void
il_child_err(il_child_run_t *run)
{
    size_t     drop;
    ssize_t    n;
    il_buf_t  *tail;

    if (run->npass != 0) {
        return;
    }

    n = read(run->err, run->pass, sizeof(run->pass));

    if (n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR)) {
        il_child_close(&run->err);
    }

    if (n <= 0) {
        return;
    }

    run->npass = (size_t) n;
    tail = &run->child->err;
    il_buf_add(tail, run->pass, run->npass);

    if (tail->len > IL_WORK_STDERR_TAIL) {
        drop = tail->len - IL_WORK_STDERR_TAIL;
        memmove(tail->data, tail->data + drop, tail->len - drop);
        tail->len -= drop;
        tail->data[tail->len] = '\0';
    }
}


/* At most PIPE_BUF bytes into a descriptor that is ready: does not block,
 * given that no other of our threads writes in between. */
static void
il_child_pass(il_child_run_t *run)
{
    ssize_t         n;
    struct pollfd   p;

    p.fd = STDERR_FILENO;
    p.events = POLLOUT;
    p.revents = 0;

    (void) pthread_mutex_lock(&run->job->work->stderr_lock);

    n = 0;

    if (poll(&p, 1, 0) == 1) {
        n = write(STDERR_FILENO, run->pass, run->npass);
        n = (n == -1 && (errno == EINTR || errno == EAGAIN)) ? 0 : n;
    }

    (void) pthread_mutex_unlock(&run->job->work->stderr_lock);

    if (n == -1) {
        run->npass = 0;             /* nobody there: dropped */

    } else if (n > 0) {
        run->npass -= (size_t) n;
        memmove(run->pass, run->pass + n, run->npass);
    }
}


/* SIGTERM now, SIGKILL after the grace; for a job to be canceled so early
 * that the server still hears of it before it ends the job by itself. */
static void
il_child_stop(il_child_run_t *run, il_work_why_e why, int64_t now)
{
    int64_t         left, kill_at;
    il_work_job_t  *job;

    if (run->kill_at != 0) {
        return;
    }

    job = run->job;
    kill_at = now + job->work->grace_ms;

    if (why == IL_WORK_CANCELED) {
        (void) pthread_mutex_lock(&job->work->lock);
        left = job->deadline - now;
        (void) pthread_mutex_unlock(&job->work->lock);

        left -= left / 4 < IL_CHILD_REPORT_MS ? left / 4 : IL_CHILD_REPORT_MS;
        left = left < 0 ? 0 : left;
        kill_at = now + left < kill_at ? now + left : kill_at;
    }

    il_ward_tell(&run->ward, IL_WARD_TERM);
    run->kill_at = kill_at;
}


/* The command has ended, or its ward has. */
static void
il_child_told(il_child_run_t *run, int64_t now)
{
    int            rc;
    il_ward_msg_t  msg;

    rc = il_ward_read(&run->ward, &msg);

    if (rc == -1) {
        return;
    }

    run->gone = (rc == 0);

    if (run->exited) {
        return;
    }

    run->exited = 1;

    if (rc == 0) {

        /* somebody killed the ward; the kernel kills the command for that,
         * not the others of its group */

        (void) kill(-run->ward.command, SIGKILL);
        run->child->signaled = 1;
        run->child->code = SIGKILL;

    } else {
        run->child->signaled = msg.signaled;
        run->child->code = msg.code;
    }

    /* told to stop: what it started has its grace, too */

    run->drain_until = (run->kill_at != 0) ? run->kill_at
                                           : now + IL_CHILD_DRAIN_MS;
}


static int
il_child_timeout(const il_child_run_t *run, int64_t now)
{
    int64_t  at;

    at = INT64_MAX;

    if (run->kill_at != 0 && !run->killed) {
        at = run->kill_at;
    }

    if (run->exited && run->drain_until < at) {
        at = run->drain_until;
    }

    if (at == INT64_MAX) {
        return -1;
    }

    at -= now;

    return at < 0 ? 0 : (at > 60000 ? 60000 : (int) at);
}


static void
il_child_poll(il_child_run_t *run, int timeout)
{
    eventfd_t      count;
    struct pollfd  p[IL_FD_N];

    p[IL_FD_WARD].fd = run->gone ? -1 : run->ward.ctl;
    p[IL_FD_WARD].events = POLLIN;
    p[IL_FD_EVENT].fd = run->job->event;
    p[IL_FD_EVENT].events = POLLIN;
    p[IL_FD_IN].fd = run->in;
    p[IL_FD_IN].events = POLLOUT;
    p[IL_FD_OUT].fd = run->out;
    p[IL_FD_OUT].events = POLLIN;
    p[IL_FD_ERR].fd = (run->npass == 0) ? run->err : -1;
    p[IL_FD_ERR].events = POLLIN;
    p[IL_FD_PASS].fd = (run->npass == 0) ? -1 : STDERR_FILENO;
    p[IL_FD_PASS].events = POLLOUT;

    if (poll(p, IL_FD_N, timeout) <= 0) {
        return;
    }

    if (p[IL_FD_EVENT].revents) {
        (void) eventfd_read(run->job->event, &count);
    }

    if (p[IL_FD_IN].revents) {
        il_child_feed(run);
    }

    if (p[IL_FD_OUT].revents) {
        il_child_out(run);
    }

    if (p[IL_FD_ERR].revents) {
        il_child_err(run);
    }

    if (p[IL_FD_PASS].revents) {
        il_child_pass(run);
    }

    if (p[IL_FD_WARD].revents) {
        il_child_told(run, il_boottime_ms());
    }
}


static void
il_child_loop(il_child_run_t *run)
{
    int64_t         now;
    il_work_why_e   why;

    for ( ;; ) {
        now = il_boottime_ms();
        why = il_work_job_why(run->job);

        if (why != IL_WORK_GO) {
            il_child_stop(run, why, now);
        }

        if (run->kill_at != 0 && !run->killed && now >= run->kill_at) {
            il_ward_tell(&run->ward, IL_WARD_KILL);
            run->killed = 1;
        }

        if (run->exited
            && ((run->out == -1 && run->err == -1 && run->npass == 0)
                || now >= run->drain_until))
        {
            return;
        }

        il_child_poll(run, il_child_timeout(run, now));
    }
}


void
il_work_child_run(il_work_job_t *job, il_work_child_t *child)
{
    il_child_run_t  run;

    memset(child, 0, sizeof(*child));
    child->out.max = IL_WORK_STDOUT_MAX;

    memset(&run, 0, sizeof(run));
    run.job = job;
    run.child = child;
    run.ward.ctl = -1;
    run.in = -1;
    run.out = -1;
    run.err = -1;

    child->error = il_child_start(&run);
    child->started = (child->error == 0);

    if (child->started) {
        il_child_loop(&run);
    }

    if (il_ward_end(&run.ward) != 0) {
        il_work_say(job, "left processes behind that cannot be ended", NULL);
    }

    il_child_close(&run.in);
    il_child_close(&run.out);
    il_child_close(&run.err);
    il_buf_free(&job->payload);
}


void
il_work_child_free(il_work_child_t *child)
{
    il_buf_free(&child->out);
    il_buf_free(&child->err);
}


int
il_work_child_check(const char *command)
{
    int          rc;
    char        *path;
    size_t       n;
    const char  *p, *end;

    if (strchr(command, '/') != NULL) {
        if (access(command, X_OK) == 0) {
            return 0;
        }

        il_err("cannot run %s: %s", command, strerror(errno));
        return EX_NOINPUT;
    }

    p = getenv("PATH");

    for (p = (p == NULL) ? "/bin:/usr/bin" : p; ; p = end + 1) {
        end = strchrnul(p, ':');
        n = (size_t) (end - p);

        path = il_xalloc(n + strlen(command) + 3, 1);
        memcpy(path, n == 0 ? "." : p, n == 0 ? 1 : n);
        path[n == 0 ? 1 : n] = '/';
        memcpy(path + (n == 0 ? 1 : n) + 1, command, strlen(command));
        rc = access(path, X_OK);
        free(path);

        if (rc == 0) {
            return 0;
        }

        if (*end == '\0') {
            break;
        }
    }

    il_err("command not found: %s", command);

    return EX_NOINPUT;
}
