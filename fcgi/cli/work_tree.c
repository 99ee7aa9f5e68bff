/*
 * work_tree.c: signals to all that descends from this process.
 *
 * A process group does not hold who leaves it by setsid() or setpgid(), so
 * descendants are found by their parents, in /proc.  Called by a ward, which
 * has adopted those whose own parent has died: from it nothing descends that
 * it cannot find.  Everything here is async-signal-safe, for a ward is forked
 * from a process with threads.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                 /* getdents64() */
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "work.h"

#define IL_TREE_MAX  65536


typedef struct {
    pid_t  pid;
    pid_t  parent;
    char   state;                   /* as /proc says: Z is a zombie */
    char   ours;
} il_tree_proc_t;


/* In ascending order of pid, as /proc lists them.  A ward has one thread and
 * memory of its own. */
static il_tree_proc_t  il_tree[IL_TREE_MAX];


static pid_t
il_tree_number(const char **p)
{
    pid_t  n;

    for (n = 0; **p >= '0' && **p <= '9' && n < 100000000; (*p)++) {
        n = n * 10 + (**p - '0');
    }

    return n;
}


/* Reads state and parent of one process; 0, or -1 if there is none. */
static int
il_tree_read(int proc, const char *name, il_tree_proc_t *out)
{
    int          fd;
    char         path[32], text[1024];
    size_t       len;
    ssize_t      n;
    const char  *p;

    static const char  file[] = "/stat";

    len = strlen(name);

    if (len > sizeof(path) - sizeof(file)) {
        return -1;
    }

    memcpy(path, name, len);
    memcpy(path + len, file, sizeof(file));

    fd = openat(proc, path, O_RDONLY|O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    n = read(fd, text, sizeof(text) - 1);
    (void) close(fd);

    if (n <= 0) {
        return -1;
    }

    text[n] = '\0';

    /* behind the name, which may itself have parentheses */

    p = strrchr(text, ')');

    if (p == NULL || strlen(p) < 5) {
        return -1;
    }

    out->state = p[2];
    p += 4;
    out->parent = il_tree_number(&p);

    return 0;
}


/* All processes; how many, or -1. */
static ssize_t
il_tree_scan(int proc)
{
    char                      buf[8192]
                                  __attribute__((aligned(sizeof(long))));
    size_t                    n;
    ssize_t                   got, at;
    const char               *p;
    const struct dirent64    *d;

    n = 0;

    for ( ;; ) {
        got = getdents64(proc, buf, sizeof(buf));

        if (got <= 0) {
            return got == 0 ? (ssize_t) n : -1;
        }

        for (at = 0; at < got; at += d->d_reclen) {
            d = (const struct dirent64 *) (const void *) (buf + at);
            p = d->d_name;
            il_tree[n].pid = il_tree_number(&p);

            if (il_tree[n].pid <= 0 || *p != '\0' || n == IL_TREE_MAX - 1
                || il_tree_read(proc, d->d_name, &il_tree[n]) != 0)
            {
                continue;
            }

            il_tree[n++].ours = 0;
        }
    }
}


static const il_tree_proc_t *
il_tree_find(size_t n, pid_t pid)
{
    size_t  lo, hi, mid;

    for (lo = 0, hi = n; lo < hi; /* void */ ) {
        mid = (lo + hi) / 2;

        if (il_tree[mid].pid == pid) {
            return &il_tree[mid];
        }

        if (il_tree[mid].pid < pid) {
            lo = mid + 1;

        } else {
            hi = mid;
        }
    }

    return NULL;
}


/* Marks what descends from root; a parent mostly has the smaller number, so
 * one or two passes do. */
static void
il_tree_mark(size_t n, pid_t root)
{
    int                    more;
    const il_tree_proc_t  *parent;

    do {
        more = 0;

        for (size_t i = 0; i < n; i++) {
            if (il_tree[i].ours) {
                continue;
            }

            parent = il_tree_find(n, il_tree[i].parent);

            if (il_tree[i].parent == root
                || (parent != NULL && parent->ours))
            {
                il_tree[i].ours = 1;
                more = 1;
            }
        }
    } while (more);
}


/* A child of ours keeps its number until we reap it.  Any other could have
 * ended since it was listed: its number is held first, then looked at again. */
static void
il_tree_hit(int proc, const il_tree_proc_t *p, pid_t root, int sig)
{
    int             fd;
    char            name[16];
    pid_t           n;
    size_t          at;
    il_tree_proc_t  again;

    if (p->parent == root) {
        (void) kill(p->pid, sig);
        return;
    }

    fd = pidfd_open(p->pid, 0);

    if (fd == -1) {
        return;
    }

    at = sizeof(name) - 1;
    name[at] = '\0';

    for (n = p->pid; n > 0; n /= 10) {
        name[--at] = (char) ('0' + n % 10);
    }

    if (il_tree_read(proc, name + at, &again) == 0
        && (again.parent == p->parent || again.parent == root))
    {
        (void) pidfd_send_signal(fd, sig, NULL, 0);
    }

    (void) close(fd);
}


int
il_tree_signal(int sig)
{
    int      proc, alive;
    pid_t    self;
    ssize_t  n;

    proc = open("/proc", O_RDONLY|O_DIRECTORY|O_CLOEXEC);

    if (proc == -1) {
        return -1;
    }

    self = getpid();
    n = il_tree_scan(proc);
    alive = (n < 0) ? -1 : 0;

    if (n > 0) {
        il_tree_mark((size_t) n, self);
    }

    for (ssize_t i = 0; i < n; i++) {
        if (il_tree[i].ours && il_tree[i].state != 'Z') {
            il_tree_hit(proc, &il_tree[i], self, sig);
            alive++;
        }
    }

    (void) close(proc);

    return alive;
}
