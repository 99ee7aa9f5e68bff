/*
 * work_keeper.c: ends the children of a worker that died.
 *
 * A worker killed with SIGKILL can stop nothing.  Its lease ends and somebody
 * else takes the job, while its command would go on unseen.  So a small
 * process holds the reading end of a pipe whose writing end lives in the
 * worker: when the worker is gone, however it went, the pipe is at its end,
 * and the keeper ends the process groups that are still listed.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                 /* pipe2(), close_range() */
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

#define IL_KEEPER_MAX  1024

/* Written in one piece: below PIPE_BUF, so pieces never mix. */
typedef struct {
    int    add;
    pid_t  pgid;
} il_keeper_msg_t;


static void
il_keeper_kill(const pid_t *groups, size_t n, int sig)
{
    for (size_t i = 0; i < n; i++) {
        (void) kill(-groups[i], sig);
    }
}


static int
il_keeper_alive(const pid_t *groups, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (kill(-groups[i], 0) == 0) {
            return 1;
        }
    }

    return 0;
}


static void
il_keeper_note(pid_t *groups, size_t *n, const il_keeper_msg_t *msg)
{
    size_t  i;

    for (i = 0; i < *n && groups[i] != msg->pgid; i++) { /* void */ }

    if (msg->add) {
        if (i == *n && *n < IL_KEEPER_MAX) {
            groups[(*n)++] = msg->pgid;
        }

    } else if (i < *n) {
        groups[i] = groups[--(*n)];
    }
}


static void
il_keeper_main(int fd, int64_t grace_ms)
{
    size_t           n;
    pid_t            groups[IL_KEEPER_MAX];
    int64_t          end;
    ssize_t          got;
    il_keeper_msg_t  msg;
    struct timespec  ts;

    n = 0;

    for ( ;; ) {
        got = read(fd, &msg, sizeof(msg));

        if (got == (ssize_t) sizeof(msg)) {
            il_keeper_note(groups, &n, &msg);

        } else if (!(got == -1 && errno == EINTR)) {
            break;
        }
    }

    il_keeper_kill(groups, n, SIGTERM);
    end = il_boottime_ms() + grace_ms;
    ts.tv_sec = 0;
    ts.tv_nsec = 50 * 1000000;

    while (il_keeper_alive(groups, n) && il_boottime_ms() < end) {
        (void) nanosleep(&ts, NULL);
    }

    il_keeper_kill(groups, n, SIGKILL);

    _exit(0);
}


int
il_work_keeper_start(int64_t grace_ms)
{
    int    fds[2];
    pid_t  pid;

    if (pipe2(fds, O_CLOEXEC) != 0) {
        il_err("cannot make a pipe: %s", strerror(errno));
        return -1;
    }

    pid = fork();

    if (pid == -1) {
        il_err("cannot start the keeper: %s", strerror(errno));
        (void) close(fds[0]);
        (void) close(fds[1]);
        return -1;
    }

    if (pid == 0) {
        (void) close(fds[1]);

        /* a session of its own: Ctrl-C at the terminal is for the worker;
         * and no hold on the worker's pipes, whose readers wait for their
         * end */

        (void) setsid();
        (void) signal(SIGTERM, SIG_IGN);
        (void) signal(SIGHUP, SIG_IGN);
        (void) prctl(PR_SET_NAME, "interlock-keep", 0, 0, 0);

        if (dup2(fds[0], STDIN_FILENO) != -1) {
            (void) close_range(1, ~0U, 0);
            il_keeper_main(STDIN_FILENO, grace_ms);
        }

        _exit(1);
    }

    (void) close(fds[0]);

    return fds[1];
}


void
il_work_keeper_tell(int keeper, pid_t pgid, int add)
{
    il_keeper_msg_t  msg;

    msg.add = add;
    msg.pgid = pgid;

    while (write(keeper, &msg, sizeof(msg)) == -1 && errno == EINTR) {
        /* void */
    }
}
