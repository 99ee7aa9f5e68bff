/*
 * effect_run.c: a command as an effect: begun before it runs, its exit status
 * is the outcome.
 *
 * It has until the send's deadline; a command that takes longer is ended,
 * because after that others may look whether it has happened.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmds.h"
#include "effect.h"
#include "effect_mail.h"
#include "il_json.h"
#include "il_time.h"

#define IL_RUN_GRACE      1000          /* ms from SIGTERM to SIGKILL */
#define IL_RUN_EXIT_EXEC  127


typedef struct {
    il_common_t       common;
    il_effect_what_t  what;
    const char       *failed;           /* exit codes that are a definite no */
    int               mail;
    const char       *domain;
} il_run_opts_t;

typedef struct {
    const il_run_opts_t  *o;
    il_http_t             h;
    il_effect_begun_t     begun;
    char                 *message_id;
    il_buf_t              mail;         /* for the command's stdin */
    size_t                fed;
    il_buf_t              out;          /* of its stdout, the beginning */

    pid_t                 pid;
    int                   pidfd;
    int                   in;           /* -1: closed; so below */
    int                   from;
    int                   signals;
    int                   status;       /* by waitpid() */
    int                   not_run;      /* errno of exec */
    int                   late;
    int64_t               deadline;
} il_run_t;


static int il_run(void *opts, const il_args_t *args);


static const il_opt_t  il_run_opts[] = {
    { "name", IL_OPT_STR, offsetof(il_run_opts_t, what.name), "NAME",
      "what it is called within this work", 0, 0, 0 },
    { "kind", IL_OPT_STR, offsetof(il_run_opts_t, what.kind), "KIND",
      "its effect kind", 0, 0, 0 },
    { "target", IL_OPT_STR, offsetof(il_run_opts_t, what.target), "TEXT",
      "whom or what it is about, for people", 0, 0, 0 },
    { "digest", IL_OPT_STR, offsetof(il_run_opts_t, what.digest), "TEXT",
      "a text that differs when the request differs", 0, 0, 0 },
    { "compensates", IL_OPT_STR, offsetof(il_run_opts_t, what.compensates),
      "EFFECT", "the effect that this one undoes", 0, 0, 0 },
    { "failed", IL_OPT_STR, offsetof(il_run_opts_t, failed), "CODES",
      "exit codes that are a definite no (64,65,77,78)", 0, 0, 0 },
    { "mail", IL_OPT_FLAG, offsetof(il_run_opts_t, mail), NULL,
      "a message is on standard input: give it the effect's Message-ID",
      0, 0, 0 },
    { "mail-domain", IL_OPT_STR, offsetof(il_run_opts_t, domain), "DOMAIN",
      "of the Message-ID (interlock.invalid)", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_effect_run = {
    "effect run", il_run, "run a command that changes something outside",
    "--name NAME --kind KIND [options] -- COMMAND...",
    "Within a command of `interlock work`: begins the effect, runs COMMAND with\n"
    "INTERLOCK_IDEMPOTENCY_KEY, INTERLOCK_EFFECT_ID and INTERLOCK_MESSAGE_ID in\n"
    "its environment, and tells the outcome: exit code 0 confirmed; 64, 65, 77,\n"
    "78 failed; any other, a signal, or the send deadline unknown.  What it\n"
    "prints, if it is JSON, is kept as the answer.\n\n"
    "Not run if the effect has happened: then the kept answer is printed, and\n"
    "the exit code is 0.  75 if it may not be run now, or the outcome could not\n"
    "be told.  Else the command's own exit code; 128 and more for a signal.",
    il_run_opts, sizeof(il_run_opts_t), IL_CMD_TAIL, 0, 0
};


static int64_t
il_run_now(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}


static void
il_run_close(int *fd)
{
    if (*fd != -1) {
        (void) close(*fd);
        *fd = -1;
    }
}


/* ------------------------------------------------------------- the command */


/* The child: never returns. */
static void
il_run_child(const il_run_t *run, char *const *argv, int in, int out,
    int report)
{
    int       e;
    sigset_t  none;

    (void) setpgid(0, 0);
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);

    if ((in == -1 || dup2(in, STDIN_FILENO) != -1)
        && dup2(out, STDOUT_FILENO) != -1
        && setenv("INTERLOCK_IDEMPOTENCY_KEY", run->begun.key, 1) == 0
        && setenv("INTERLOCK_EFFECT_ID", run->begun.effect_id, 1) == 0
        && setenv("INTERLOCK_SEND_ID", run->begun.send_id, 1) == 0
        && setenv("INTERLOCK_MESSAGE_ID", run->message_id, 1) == 0)
    {
        (void) execvp(argv[0], argv);
    }

    e = errno;

    if (write(report, &e, sizeof(e)) < 0) {
        /* then it counts as an exit code that says nothing */
    }

    _exit(IL_RUN_EXIT_EXEC);
}


/* Starts it; 0, or -1 with errno in not_run, and then nothing ran. */
static int
il_run_start(il_run_t *run, char *const *argv)
{
    int      in[2], out[2], report[2];
    ssize_t  n;

    in[0] = in[1] = -1;

    if (pipe2(out, O_CLOEXEC) == -1) {
        run->not_run = errno;
        return -1;
    }

    if (pipe2(report, O_CLOEXEC) == -1
        || (run->o->mail && pipe2(in, O_CLOEXEC) == -1))
    {
        run->not_run = errno;
        return -1;
    }

    run->pid = fork();

    if (run->pid == 0) {
        il_run_child(run, argv, in[0], out[1], report[1]);
    }

    il_run_close(&in[0]);
    il_run_close(&out[1]);
    il_run_close(&report[1]);

    run->in = in[1];
    run->from = out[0];

    if (run->pid == -1) {
        run->not_run = errno;
        il_run_close(&report[0]);
        return -1;
    }

    /* the end of this pipe is the exec, or an errno */

    do {
        n = read(report[0], &run->not_run, sizeof(run->not_run));
    } while (n == -1 && errno == EINTR);

    il_run_close(&report[0]);

    if (n == (ssize_t) sizeof(run->not_run)) {
        (void) waitpid(run->pid, &run->status, 0);
        return -1;
    }

    run->not_run = 0;
    run->pidfd = (int) syscall(SYS_pidfd_open, run->pid, 0);

    if (run->in != -1) {
        (void) fcntl(run->in, F_SETFL, O_NONBLOCK);
    }

    (void) fcntl(run->from, F_SETFL, O_NONBLOCK);

    return 0;
}


static void
il_run_feed(il_run_t *run)
{
    ssize_t  n;

    n = write(run->in, run->mail.data + run->fed, run->mail.len - run->fed);

    if (n > 0) {
        run->fed += (size_t) n;
    }

    if (run->fed == run->mail.len
        || (n == -1 && errno != EAGAIN && errno != EINTR))
    {
        il_run_close(&run->in);
    }
}


/* Passes on what it prints, and keeps the beginning.  1 while there may be
 * more. */
static int
il_run_take(il_run_t *run)
{
    char     chunk[16384];
    ssize_t  n;

    n = read(run->from, chunk, sizeof(chunk));

    if (n > 0) {
        il_buf_add(&run->out, chunk, (size_t) n);
        (void) fwrite(chunk, 1, (size_t) n, stdout);
        return 1;
    }

    if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }

    il_run_close(&run->from);

    return 0;
}


/* TERM, INT and HUP to us are for the command, too. */
static void
il_run_signal(il_run_t *run)
{
    struct signalfd_siginfo  info;

    if (read(run->signals, &info, sizeof(info)) == (ssize_t) sizeof(info)) {
        (void) kill(-run->pid, (int) info.ssi_signo);
    }
}


/* Until it has ended; what it has started and left behind may go on printing,
 * which is nobody's outcome any more. */
static void
il_run_wait(il_run_t *run)
{
    int            ended;
    int64_t        left;
    struct pollfd  p[4];

    ended = 0;

    while (!ended) {
        left = run->deadline - il_run_now();

        if (left <= 0) {
            (void) kill(-run->pid, run->late ? SIGKILL : SIGTERM);
            run->late = 1;
            run->deadline = il_run_now() + IL_RUN_GRACE;
            continue;
        }

        p[0] = (struct pollfd) { run->pidfd, POLLIN, 0 };
        p[1] = (struct pollfd) { run->signals, POLLIN, 0 };
        p[2] = (struct pollfd) { run->from, POLLIN, 0 };
        p[3] = (struct pollfd) { run->in, POLLOUT, 0 };

        if (poll(p, 4, (int) (left > 60000 ? 60000 : left)) <= 0) {
            continue;
        }

        if (p[1].revents != 0) {
            il_run_signal(run);
        }

        if (p[2].revents != 0) {
            (void) il_run_take(run);
        }

        if (p[3].revents != 0) {
            il_run_feed(run);
        }

        ended = (p[0].revents != 0);
    }

    while (waitpid(run->pid, &run->status, 0) == -1 && errno == EINTR) {
        /* void */
    }

    while (run->from != -1 && il_run_take(run)) { /* void */ }
}


/* ---------------------------------------------------------------- outcome */


/* Is the code in the list?  -1: it is not a list of codes, 1 to 255. */
static int
il_run_is_no(const char *codes, int code)
{
    int          is;
    int64_t      n;
    il_str_t     part;
    const char  *comma;

    for (is = 0; /* void */; codes = comma + 1) {
        comma = strchrnul(codes, ',');
        part = il_str(codes, (size_t) (comma - codes));

        if (il_digits_parse(part, 3, &n) != 0 || n < 1 || n > 255) {
            return -1;
        }

        is |= (n == code);

        if (*comma == '\0') {
            return is;
        }
    }
}


/* The state, and a word about it. */
static const char *
il_run_outcome(const il_run_t *run, char *detail, size_t cap)
{
    int  code;

    if (run->not_run != 0) {
        (void) snprintf(detail, cap, "not run: %s", strerror(run->not_run));
        return "failed";
    }

    if (run->late || WIFSIGNALED(run->status)) {
        (void) snprintf(detail, cap, "%s%d", run->late
                        ? "ended at the send deadline, signal " : "signal ",
                        WIFSIGNALED(run->status) ? WTERMSIG(run->status) : 0);
        return "unknown";
    }

    code = WEXITSTATUS(run->status);
    (void) snprintf(detail, cap, "exit code %d", code);

    return code == 0 ? "confirmed"
           : il_run_is_no(run->o->failed, code) == 1 ? "failed" : "unknown";
}


static int
il_run_tell(il_run_t *run)
{
    int          rc;
    char         detail[128];
    char        *ref;
    il_buf_t     more;
    il_str_t     out;
    const char  *state;

    state = il_run_outcome(run, detail, sizeof(detail));
    out = il_buf_str(&run->out);
    ref = NULL;

    memset(&more, 0, sizeof(more));
    il_buf_puts(&more, ",\"detail\":");
    il_buf_json(&more, il_cstr(detail));

    if (out.len != 0 && !run->out.full && il_json_check(out) == IL_JSON_OK) {
        il_buf_puts(&more, ",\"response\":");
        il_buf_add(&more, out.data, out.len);
        ref = il_json_text(out, "/id");
    }

    if (run->o->mail || ref != NULL) {
        il_buf_puts(&more, ",\"provider_ref\":");
        il_buf_json(&more, il_cstr(run->o->mail ? run->message_id : ref));
    }

    rc = il_effect_tell(&run->h, &run->o->common, run->begun.effect_id,
                        run->begun.send_id, state, il_buf_str(&more));

    free(ref);
    il_buf_free(&more);

    return rc == 0 ? 0 : EX_TEMPFAIL;
}


static int
il_run_exit(const il_run_t *run)
{
    if (run->not_run != 0) {
        return IL_RUN_EXIT_EXEC;
    }

    return WIFSIGNALED(run->status) ? 128 + WTERMSIG(run->status)
                                    : WEXITSTATUS(run->status);
}


/* It has happened: what it printed then, once more. */
static int
il_run_again(const il_run_t *run)
{
    il_str_t         json;
    il_json_value_t  v;

    json = il_buf_str(&run->h.answer.body);

    if (il_json_find(json, il_cstr("/response"), &v) == IL_JSON_OK) {
        il_out_line(stdout, v.raw);
    }

    return 0;
}


static int
il_run_go(il_run_t *run, char *const *argv)
{
    int  rc;

    if (il_run_start(run, argv) == 0) {
        if (run->pidfd == -1) {
            il_err("pidfd_open: %s", strerror(errno));
            (void) kill(-run->pid, SIGKILL);
            (void) waitpid(run->pid, &run->status, 0);

        } else {
            il_run_wait(run);
        }

    } else {
        il_err("%s: %s", argv[0], strerror(run->not_run));
    }

    rc = il_run_tell(run);

    return rc != 0 ? rc : il_run_exit(run);
}


static int
il_run_begin(il_run_t *run, char *const *argv)
{
    int      rc;
    int64_t  start;

    start = il_run_now();
    rc = il_effect_begin(&run->h, &run->o->common, &run->o->what, &run->begun);

    if (rc == 0) {
        rc = il_effect_decided(&run->begun);
    }

    if (rc == IL_EXIT_NO && run->begun.effect_id != NULL) {
        return il_run_again(run);
    }

    if (rc != 0) {
        return rc;
    }

    /* counted from before it was asked for: never longer than the server's */

    run->deadline = start + (run->begun.deadline_ms < 0
                             ? 10000 : run->begun.deadline_ms);
    run->message_id = il_effect_mail_id(run->begun.key, run->o->domain);

    if (run->o->mail) {
        il_effect_mail_set_id(&run->mail, run->message_id);
    }

    return il_run_go(run, argv);
}


static int
il_run(void *opts, const il_args_t *args)
{
    int             rc;
    sigset_t        mine;
    il_run_t        run;
    il_run_opts_t  *o;

    o = opts;

    if (args->tail.n == 0) {
        il_err("effect run: no command behind --");
        return EX_USAGE;
    }

    if (o->failed == NULL) {
        o->failed = "64,65,77,78";
    }

    if (il_run_is_no(o->failed, 0) == -1) {
        il_err("effect run: --failed takes exit codes from 1 to 255, joined by"
               " commas: %s", o->failed);
        return EX_USAGE;
    }

    if (o->domain == NULL) {
        o->domain = "interlock.invalid";
    }

    memset(&run, 0, sizeof(run));
    run.o = o;
    run.in = run.from = run.pidfd = run.signals = -1;
    run.out.max = IL_EFFECT_RESPONSE_MAX;

    if (o->mail) {
        rc = il_effect_mail_read(&run.mail, o->domain);
        if (rc != 0) {
            il_buf_free(&run.mail);
            return rc;
        }
    }

    (void) sigemptyset(&mine);
    (void) sigaddset(&mine, SIGTERM);
    (void) sigaddset(&mine, SIGINT);
    (void) sigaddset(&mine, SIGHUP);
    (void) sigprocmask(SIG_BLOCK, &mine, NULL);
    (void) signal(SIGPIPE, SIG_IGN);
    run.signals = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);

    rc = il_effect_open(&run.h, &o->common, "effect run");

    if (rc == 0) {
        rc = il_run_begin(&run, args->tail.v);
    }

    il_http_close(&run.h);
    il_effect_begun_free(&run.begun);
    il_buf_free(&run.mail);
    il_buf_free(&run.out);
    free(run.message_id);
    il_run_close(&run.in);
    il_run_close(&run.from);
    il_run_close(&run.pidfd);
    il_run_close(&run.signals);

    return il_out_done(rc);
}
