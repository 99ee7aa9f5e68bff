/*
 * work_ward.c: a process between the worker and the command of one job.
 *
 * It adopts what the command leaves behind (a child subreaper), so that a
 * process which went into a session of its own is still found and ended.  It
 * knows that the worker has died, however it died, by the end of the socket
 * between the two, and then ends everything by itself.  It goes when nothing
 * is left of the command; that closes its end of the socket.
 *
 * It is forked from a process with threads and never calls exec: only
 * async-signal-safe functions.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                 /* _Fork(), close_range(), execvpe() */
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/close_range.h>

#include "work.h"

#define IL_WARD_ASIDE       64      /* descriptors are moved here first */
#define IL_WARD_PASS_MS     20      /* between two passes of SIGKILL, growing */
#define IL_WARD_PASS_MAX    1000
#define IL_WARD_GONE_MS     10000   /* the worker waits so long for its end */

enum { IL_WARD_CTL = 3, IL_WARD_SIGNALS, IL_WARD_REPORT, IL_WARD_FDS };

typedef struct {
    const il_ward_spec_t  *spec;
    pid_t                  command;
    int                    ended;       /* it was reaped */
    int                    alone;       /* the worker is gone */
    int                    killing;
    int64_t                kill_at;     /* once alone; 0: not */
    int                    pass_ms;
} il_ward_main_t;


/* ------------------------------------------------------- in the command */


static int
il_ward_aside(int fd)
{
    return fd == -1 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, IL_WARD_ASIDE);
}


/* Standard descriptors, the files, and no other: what libraries opened in the
 * worker is not the command's. */
static int
il_ward_dups(const il_ward_spec_t *spec)
{
    int     std[3], file[IL_WARD_FILES];
    size_t  i;

    for (i = 0; i < 3; i++) {
        std[i] = il_ward_aside(spec->std[i]);

        if (std[i] == -1) {
            return -1;
        }
    }

    for (i = 0; i < IL_WARD_FILES; i++) {
        file[i] = il_ward_aside(spec->file[i]);

        if (file[i] == -1 && spec->file[i] != -1) {
            return -1;
        }
    }

    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
        return -1;
    }

    for (i = 0; i < 3; i++) {
        if (dup2(std[i], (int) i) == -1) {
            return -1;
        }
    }

    for (i = 0; i < IL_WARD_FILES; i++) {
        if (file[i] != -1 && dup2(file[i], IL_WARD_FILE_FD + (int) i) == -1) {
            return -1;
        }
    }

    return 0;
}


static void
il_ward_exec(const il_ward_spec_t *spec, int report, pid_t ward)
{
    int               e;
    sigset_t          set;
    struct sigaction  sa;

    (void) setsid();

    /* if the ward is killed, nobody is left to end the rest */

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);

    if (getppid() != ward) {
        _exit(127);
    }

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = SIG_DFL;
    (void) sigaction(SIGPIPE, &sa, NULL);
    (void) sigemptyset(&set);
    (void) sigprocmask(SIG_SETMASK, &set, NULL);

    report = il_ward_aside(report);

    if (il_ward_dups(spec) == 0) {
        (void) execvpe(spec->command[0], spec->command, spec->env);
    }

    e = errno;

    while (write(report, &e, sizeof(e)) == -1 && errno == EINTR) {
        /* void */
    }

    _exit(127);
}


/* ----------------------------------------------------------- in the ward */


static void
il_ward_say(il_ward_what_e what, pid_t pid, int code, int signaled)
{
    il_ward_msg_t  msg;

    memset(&msg, 0, sizeof(msg));
    msg.what = what;
    msg.pid = pid;
    msg.code = code;
    msg.signaled = signaled;

    while (send(IL_WARD_CTL, &msg, sizeof(msg), MSG_NOSIGNAL) == -1
           && errno == EINTR)
    {
        /* void */
    }
}


/* Its three descriptors at their numbers, and no hold on the worker's pipes,
 * whose readers wait for their end. */
static int
il_ward_keep(int ctl, int signals, int report)
{
    int  fds[3], null, i;

    fds[0] = il_ward_aside(ctl);
    fds[1] = il_ward_aside(signals);
    fds[2] = il_ward_aside(report);

    for (i = 0; i < 3; i++) {
        if (fds[i] == -1
            || dup3(fds[i], IL_WARD_CTL + i, O_CLOEXEC) == -1)
        {
            return -1;
        }
    }

    null = open("/dev/null", O_RDWR|O_CLOEXEC);

    for (i = 0; i < 3; i++) {
        if (null != -1) {
            (void) dup2(null, i);

        } else {
            (void) close(i);
        }
    }

    return close_range(IL_WARD_FDS, ~0U, 0);
}


/* To everything that is left.  The first process's group goes first, in one
 * piece, as long as its number is held by a process not yet reaped. */
static void
il_ward_signal(il_ward_main_t *w, int sig)
{
    if (!w->ended) {
        (void) kill(-w->command, sig);
    }

    (void) il_tree_signal(sig);
}


static void
il_ward_stop(il_ward_main_t *w)
{
    il_ward_signal(w, SIGTERM);
    il_ward_signal(w, SIGCONT);     /* a stopped one would not hear */
}


/* Reaps what has ended.  0, or -1 if nothing is left. */
static int
il_ward_reap(il_ward_main_t *w)
{
    int                      status;
    pid_t                    pid;
    struct signalfd_siginfo  info;

    while (read(IL_WARD_SIGNALS, &info, sizeof(info)) > 0) { /* void */ }

    while ((pid = waitpid(-1, &status, WNOHANG|__WALL)) > 0) {
        if (pid != w->command) {
            continue;
        }

        w->ended = 1;

        if (!w->alone) {
            il_ward_say(IL_WARD_EXITED, pid,
                        WIFSIGNALED(status) ? WTERMSIG(status)
                                            : WEXITSTATUS(status),
                        WIFSIGNALED(status));
        }
    }

    return (pid == -1 && errno == ECHILD) ? -1 : 0;
}


static void
il_ward_order(il_ward_main_t *w)
{
    char     order;
    ssize_t  n;

    n = recv(IL_WARD_CTL, &order, 1, MSG_DONTWAIT);

    if (n == 1) {
        if (order == IL_WARD_KILL) {
            w->killing = 1;

        } else {
            il_ward_stop(w);
        }

    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        w->alone = 1;
        w->kill_at = il_boottime_ms() + w->spec->grace_ms;
        il_ward_stop(w);
    }
}


static int
il_ward_timeout(const il_ward_main_t *w)
{
    int64_t  left;

    if (w->killing) {
        return w->pass_ms;
    }

    if (w->kill_at == 0) {
        return -1;
    }

    left = w->kill_at - il_boottime_ms();

    return left < 0 ? 0 : (left > 60000 ? 60000 : (int) left);
}


/* Until nothing is left.  What is killed may have started another process a
 * moment before, so there are as many passes as it takes. */
static void
il_ward_loop(il_ward_main_t *w)
{
    struct pollfd  p[2];

    p[0].events = POLLIN;
    p[1].events = POLLIN;

    while (il_ward_reap(w) == 0) {

        if (w->kill_at != 0 && il_boottime_ms() >= w->kill_at) {
            w->killing = 1;
        }

        if (w->killing) {
            il_ward_signal(w, SIGKILL);
        }

        p[0].fd = w->alone ? -1 : IL_WARD_CTL;
        p[0].revents = 0;
        p[1].fd = IL_WARD_SIGNALS;
        p[1].revents = 0;

        if (poll(p, 2, il_ward_timeout(w)) == 0 && w->killing) {
            w->pass_ms = w->pass_ms * 2 > IL_WARD_PASS_MAX
                         ? IL_WARD_PASS_MAX : w->pass_ms * 2;
        }

        if (p[0].revents) {
            il_ward_order(w);
        }
    }
}


static void
il_ward_main(const il_ward_spec_t *spec, int ctl)
{
    int             e, signals, report[2];
    pid_t           self;
    sigset_t        set;
    ssize_t         n;
    il_ward_main_t  w;

    /* a session of its own: Ctrl-C at the terminal is for the worker */

    (void) setsid();
    (void) sigfillset(&set);
    (void) sigprocmask(SIG_SETMASK, &set, NULL);
    (void) prctl(PR_SET_NAME, "interlock-ward", 0, 0, 0);

    memset(&w, 0, sizeof(w));
    w.spec = spec;
    w.pass_ms = IL_WARD_PASS_MS;
    self = getpid();

    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGCHLD);
    signals = signalfd(-1, &set, SFD_CLOEXEC|SFD_NONBLOCK);

    if (signals == -1 || pipe2(report, O_CLOEXEC) != 0
        || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    {
        _exit(127);
    }

    w.command = _Fork();

    if (w.command == 0) {
        il_ward_exec(spec, report[1], self);
    }

    e = errno;

    if (il_ward_keep(ctl, signals, report[0]) != 0) {
        (void) kill(w.command, SIGKILL);
        _exit(127);
    }

    if (w.command == -1) {
        il_ward_say(IL_WARD_FAILED, -1, e, 0);
        _exit(1);
    }

    do {
        n = read(IL_WARD_REPORT, &e, sizeof(e));
    } while (n == -1 && errno == EINTR);

    (void) close(IL_WARD_REPORT);

    if (n == (ssize_t) sizeof(e)) {
        il_ward_say(IL_WARD_FAILED, -1, e, 0);
        _exit(1);
    }

    il_ward_say(IL_WARD_STARTED, w.command, 0, 0);
    il_ward_loop(&w);

    _exit(0);
}


/* --------------------------------------------------------- in the worker */


int
il_ward_start(il_ward_t *ward, const il_ward_spec_t *spec)
{
    int            e, ctl[2];
    ssize_t        n;
    il_ward_msg_t  msg;

    ward->ctl = -1;
    ward->pid = -1;
    ward->command = -1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, ctl) != 0) {
        return errno;
    }

    ward->pid = fork();

    if (ward->pid == 0) {
        il_ward_main(spec, ctl[1]);
    }

    e = errno;
    (void) close(ctl[1]);
    ward->ctl = ctl[0];

    if (ward->pid == -1) {
        return e;
    }

    do {
        n = recv(ward->ctl, &msg, sizeof(msg), 0);
    } while (n == -1 && errno == EINTR);

    if (n != (ssize_t) sizeof(msg)) {
        return EIO;
    }

    if (msg.what != IL_WARD_STARTED) {
        return msg.code;
    }

    ward->command = msg.pid;

    return 0;
}


void
il_ward_tell(const il_ward_t *ward, char order)
{
    (void) send(ward->ctl, &order, 1, MSG_NOSIGNAL|MSG_DONTWAIT);
}


int
il_ward_read(il_ward_t *ward, il_ward_msg_t *msg)
{
    ssize_t  n;

    n = recv(ward->ctl, msg, sizeof(*msg), MSG_DONTWAIT);

    if (n == (ssize_t) sizeof(*msg)) {
        return 1;
    }

    return (n == -1 && (errno == EAGAIN || errno == EINTR)) ? -1 : 0;
}


int
il_ward_end(il_ward_t *ward)
{
    int            gone;
    int64_t        end;
    struct pollfd  p;
    il_ward_msg_t  msg;

    if (ward->ctl == -1) {
        return 0;
    }

    il_ward_tell(ward, IL_WARD_KILL);
    end = il_boottime_ms() + IL_WARD_GONE_MS;

    do {
        p.fd = ward->ctl;
        p.events = POLLIN;
        p.revents = 0;
        (void) poll(&p, 1, 1000);
        gone = (il_ward_read(ward, &msg) == 0);
    } while (!gone && il_boottime_ms() < end);

    (void) close(ward->ctl);
    ward->ctl = -1;

    /* one that could not end everything goes on trying, and is not waited
     * for */

    if (gone && ward->pid != -1) {
        while (waitpid(ward->pid, NULL, 0) == -1 && errno == EINTR) {
            /* void */
        }
    }

    return gone ? 0 : -1;
}
