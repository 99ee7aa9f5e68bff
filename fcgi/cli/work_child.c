/*
 * work_child.c: the command of one job.
 *
 * It runs in a session and process group of its own, so that stopping it
 * stops what it started, too.  Its first process is not reaped before the
 * group was killed: as long as that is a zombie, the group's number cannot
 * become somebody else's.
 *
 * Standard output is kept up to a bound and read on beyond it (a command that
 * writes a gigabyte must not hang); of standard error the last bytes are kept
 * and all is passed through, by writes that cannot block for long.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                 /* pipe2(), execvpe() */
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

/* How long output is awaited when the first process has ended and others
 * still hold its pipes. */
#define IL_CHILD_DRAIN_MS  500

extern char  **environ;

enum { IL_FD_PID = 0, IL_FD_EVENT, IL_FD_IN, IL_FD_OUT, IL_FD_ERR, IL_FD_PASS,
       IL_FD_N };

typedef struct {
    il_work_job_t    *job;
    il_work_child_t  *child;
    pid_t             pid;
    int               pidfd;
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


static char *
il_child_env(const char *name, const char *value)
{
    il_buf_t  b;

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, name);
    il_buf_puts(&b, "=");
    il_buf_puts(&b, value);

    return b.data;
}


/* Our environment without what this job has of its own. */
static char **
il_child_environ(const il_work_job_t *job)
{
    char    **env;
    size_t    i, k, n, len;

    const struct {
        const char  *name;
        const char  *value;
    } vars[] = {
        { "INTERLOCK_JOB_ID", job->job_id },
        { "INTERLOCK_KIND", job->kind },
        { "INTERLOCK_WORK_KEY", job->work_key },
        { "INTERLOCK_FENCE", job->fence },
        { "INTERLOCK_ATTEMPT", job->attempt },
        { "INTERLOCK_OWNER_TOKEN", job->owner_token },
        { "INTERLOCK_URL", job->work->base },
        { "INTERLOCK_CONTENT_TYPE", job->content_type },
        { "INTERLOCK_HEADERS", job->headers },
        { "TRACEPARENT", job->traceparent },
    };

    for (n = 0; environ[n] != NULL; n++) { /* void */ }

    env = il_xalloc(n + sizeof(vars) / sizeof(vars[0]) + 1, sizeof(char *));
    k = 0;

    for (i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
        if (vars[i].value != NULL) {
            env[k++] = il_child_env(vars[i].name, vars[i].value);
        }
    }

    for (n = 0; environ[n] != NULL; n++) {
        for (i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
            len = strlen(vars[i].name);

            if (strncmp(environ[n], vars[i].name, len) == 0
                && environ[n][len] == '=')
            {
                break;
            }
        }

        if (i == sizeof(vars) / sizeof(vars[0])) {
            env[k++] = il_xstrndup(environ[n], strlen(environ[n]));
        }
    }

    return env;
}


static void
il_child_environ_free(char **env)
{
    for (size_t i = 0; env[i] != NULL; i++) {
        explicit_bzero(env[i], strlen(env[i]));
        free(env[i]);
    }

    free(env);
}


/* In the child, between fork and exec: async-signal-safe calls only. */
static void
il_child_exec(const il_work_job_t *job, char **env, const int *fds,
    int report, pid_t parent)
{
    int               e;
    sigset_t          set;
    struct sigaction  sa;

    (void) setsid();

    if (job->work->keeper != -1) {
        il_work_keeper_tell(job->work->keeper, getpid(), 1);
    }

    /* if the worker dies now or later */

    (void) prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);

    if (getppid() != parent) {
        _exit(127);
    }

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = SIG_DFL;
    (void) sigaction(SIGPIPE, &sa, NULL);
    (void) sigemptyset(&set);
    (void) sigprocmask(SIG_SETMASK, &set, NULL);

    if (dup2(fds[0], STDIN_FILENO) != -1
        && dup2(fds[3], STDOUT_FILENO) != -1
        && dup2(fds[5], STDERR_FILENO) != -1)
    {
        (void) execvpe(job->work->command[0], job->work->command, env);
    }

    e = errno;

    while (write(report, &e, sizeof(e)) == -1 && errno == EINTR) {
        /* void */
    }

    _exit(127);
}


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
    int      e, i, report[2], fds[6];
    char   **env;
    pid_t    parent;
    ssize_t  n;

    for (i = 0; i < 6; i++) {
        fds[i] = -1;
    }

    /* in: 0 theirs, 1 ours; out: 2 ours, 3 theirs; err: 4 ours, 5 theirs */

    if (pipe2(fds, O_CLOEXEC) != 0 || pipe2(fds + 2, O_CLOEXEC) != 0
        || pipe2(fds + 4, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0)
    {
        e = errno;

        for (i = 0; i < 6; i++) {
            il_child_close(&fds[i]);
        }

        return e;
    }

    env = il_child_environ(run->job);
    parent = getpid();
    run->pid = fork();

    if (run->pid == 0) {
        il_child_exec(run->job, env, fds, report[1], parent);
    }

    e = (run->pid == -1) ? errno : 0;
    il_child_environ_free(env);
    il_child_close(&fds[0]);
    il_child_close(&fds[3]);
    il_child_close(&fds[5]);
    il_child_close(&report[1]);

    run->in = fds[1];
    run->out = fds[2];
    run->err = fds[4];

    if (e == 0) {
        do {
            n = read(report[0], &e, sizeof(e));
        } while (n == -1 && errno == EINTR);

        e = (n == (ssize_t) sizeof(e)) ? e : 0;
    }

    il_child_close(&report[0]);

    if (e == 0) {
        run->pidfd = pidfd_open(run->pid, 0);
        e = (run->pidfd == -1) ? errno : 0;
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


static void
il_child_stop(il_child_run_t *run, int64_t now)
{
    if (run->kill_at == 0) {
        (void) kill(-run->pid, SIGTERM);
        (void) kill(-run->pid, SIGCONT);    /* a stopped one would not hear */
        run->kill_at = now + run->job->work->grace_ms;
    }
}


/* The first process has ended; it stays a zombie for now. */
static void
il_child_exited(il_child_run_t *run, int64_t now)
{
    siginfo_t  info;

    memset(&info, 0, sizeof(info));

    if (waitid(P_PID, (id_t) run->pid, &info, WEXITED|WNOWAIT|WNOHANG) != 0
        || info.si_pid == 0)
    {
        return;
    }

    run->exited = 1;
    run->child->signaled = (info.si_code != CLD_EXITED);
    run->child->code = info.si_status;

    /* told to stop: the others of the group have their grace, too */

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

    p[IL_FD_PID].fd = run->exited ? -1 : run->pidfd;
    p[IL_FD_PID].events = POLLIN;
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

    if (p[IL_FD_PID].revents) {
        il_child_exited(run, il_boottime_ms());
    }
}


static void
il_child_loop(il_child_run_t *run)
{
    int64_t  now;

    for ( ;; ) {
        now = il_boottime_ms();

        if (il_work_job_why(run->job) != IL_WORK_GO) {
            il_child_stop(run, now);
        }

        if (run->kill_at != 0 && !run->killed && now >= run->kill_at) {
            (void) kill(-run->pid, SIGKILL);
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


/* Nothing of the group outlives this; then the zombie goes. */
static void
il_child_reap(il_child_run_t *run)
{
    (void) kill(-run->pid, SIGKILL);

    if (run->job->work->keeper != -1) {
        il_work_keeper_tell(run->job->work->keeper, run->pid, 0);
    }

    while (waitpid(run->pid, NULL, 0) == -1 && errno == EINTR) { /* void */ }
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
    run.pid = -1;
    run.pidfd = -1;
    run.in = -1;
    run.out = -1;
    run.err = -1;

    child->error = il_child_start(&run);
    child->started = (child->error == 0);

    if (child->started) {
        il_child_loop(&run);
    }

    if (run.pid > 0) {
        il_child_reap(&run);
    }

    il_child_close(&run.pidfd);
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
