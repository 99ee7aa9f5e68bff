/*
 * work.h: the worker, in parts.
 *
 *   work.c         options, signals, claims (main thread)
 *   work_job.c     one job from its lease to its end (a thread a job)
 *   work_report.c  tells the server how it ended (called by that)
 *   work_child.c   the command: feed, read, stop (called by that)
 *   work_env.c     what the command gets beside its standard input
 *   work_ward.c    a process a job that starts the command and ends all of it
 *   work_tree.c    finds what descends from that process
 *   work_renew.c   renews all leases (a thread of its own, which neither
 *                  writes to standard error nor waits for any child)
 *
 * Fields marked (L) are under il_work_t.lock.  Nothing is called with the
 * lock held that could block.
 */

#ifndef IL_CLI_WORK_H
#define IL_CLI_WORK_H

#include <pthread.h>
#include <sys/types.h>

#include "backoff.h"
#include "http.h"

#define IL_WORK_STDOUT_MAX   (8 * 1024 * 1024)
#define IL_WORK_STDERR_TAIL  8192

typedef enum {
    IL_WORK_STARTING = 0,           /* lease held, command not started */
    IL_WORK_RUNNING,
    IL_WORK_FINISHING,              /* ended; its end is being reported */
    IL_WORK_DONE                    /* thread is about to end */
} il_work_state_e;

/* Why a job must stop; only the first one counts. */
typedef enum {
    IL_WORK_GO = 0,
    IL_WORK_LOST,                   /* the server refused to renew */
    IL_WORK_EXPIRED,                /* our count of the lease ran out */
    IL_WORK_CANCELED,               /* the server asked us to stop */
    IL_WORK_DRAIN                   /* the worker ends */
} il_work_why_e;

typedef enum {
    IL_WORK_COMPLETED = 0,
    IL_WORK_FAILED,                 /* for good, or to be retried */
    IL_WORK_RELEASED,
    IL_WORK_GONE                    /* lease lost, or no answer */
} il_work_end_e;

typedef struct il_work_s      il_work_t;
typedef struct il_work_job_s  il_work_job_t;

struct il_work_job_s {
    il_work_t       *work;
    il_work_job_t   *next;          /* (L) */
    pthread_t        thread;
    int              refs;          /* (L) main thread, renewing thread */

    /* the lease, fixed */
    char            *job_id;
    char            *kind;
    char            *work_key;
    char            *fence;
    char            *attempt;
    char            *owner_token;
    char            *content_type;  /* NULL: none; so the next two */
    char            *headers;
    char            *traceparent;
    char            *step;          /* of an earlier attempt; so the rest */
    char            *checkpoint;    /* JSON text, or the text of a string */
    char            *attempts;      /* JSON */
    char            *effects;       /* JSON */
    il_buf_t         payload;       /* wiped once the child has it */
    int64_t          lease_ms;

    int64_t          deadline;      /* (L) our end of the lease, BOOTTIME ms */
    int64_t          renew_at;      /* (L) BOOTTIME ms */
    unsigned         renewed;       /* (L) successful renewals */
    il_work_state_e  state;         /* (L) */
    il_work_why_e    why;           /* (L) */
    char            *why_text;      /* (L) what the server said, or NULL */

    int              event;         /* eventfd: something above changed */
    il_work_end_e    end;           /* written before DONE */

    /* renewing thread only */
    il_http_t        renew;
    il_backoff_t     renew_backoff;
    int64_t          renew_sent;    /* BOOTTIME ms; 0: none under way */
};

struct il_work_s {
    const il_common_t  *common;
    char              **command;    /* ends with NULL */
    char               *base;       /* URL for the children */
    char               *name;
    int64_t             grace_ms;   /* from SIGTERM to SIGKILL */

    pthread_mutex_t     lock;
    il_work_job_t      *jobs;       /* (L) those that may be renewed */
    int                 ending;     /* (L) renewing thread ends when empty */
    int                 hurry;      /* (L) second signal: no long tries */

    CURLM              *renew_multi;
    pthread_t           renew_thread;

    int                 event;      /* eventfd: a job's thread is done */
    pthread_mutex_t     stderr_lock;
};


/* work_job.c */

/* Makes a job from one lease of the claim's answer (the text was checked);
 * sent_at is when the claim was sent.  NULL with a message. */
il_work_job_t *il_work_job_create(il_work_t *w, il_str_t lease,
    int64_t sent_at);

/* Starts its thread.  drain: 1 to hand it back at once.  0 or -1. */
int il_work_job_start(il_work_job_t *job, int drain);

/* Gives up one reference. */
void il_work_job_unref(il_work_job_t *job);

/* Tells a job to stop, unless it was told before; text may be NULL. */
void il_work_job_stop(il_work_job_t *job, il_work_why_e why,
    const char *text);

il_work_why_e il_work_job_why(il_work_job_t *job);

/* One line about the job, unless the output is JSON; more may be NULL. */
void il_work_say(const il_work_job_t *job, const char *what,
    const char *more);


/* work_child.c */

typedef struct {
    int       started;              /* 0: error says why not */
    int       error;                /* errno of the start */
    int       signaled;
    int       code;                 /* exit code or signal */
    uint64_t  stdout_bytes;         /* all of them; out holds the first */
    il_buf_t  out;
    il_buf_t  err;                  /* the last bytes of standard error */
} il_work_child_t;

/* Runs the command for this job until it has ended or was stopped; watches
 * job->event meanwhile.  On return nothing of its process group is alive. */
void il_work_child_run(il_work_job_t *job, il_work_child_t *child);

void il_work_child_free(il_work_child_t *child);

/* 0 if the command can be found, else an exit code with a message. */
int il_work_child_check(const char *command);


/* work_report.c */

/* Tells the server how the job ended, given why it was stopped (or not) and
 * what became of its command; until is our end of the lease. */
il_work_end_e il_work_report(il_work_job_t *job, il_work_child_t *child,
    il_work_why_e why, int64_t until);


/* work_renew.c */

int il_work_renew_start(il_work_t *w);
void il_work_renew_wake(il_work_t *w);
/* Ends the thread when no job is left to it. */
void il_work_renew_stop(il_work_t *w);


/* work_env.c */

/* Files handed to the command as open descriptors: checkpoint, attempts,
 * effects. */
#define IL_WARD_FILES    3
#define IL_WARD_FILE_FD  3          /* the first one's number there */

/* Our environment, with what this job has of its own; ends with NULL.  Free
 * it with il_work_environ_free(), which wipes it. */
char **il_work_environ(const il_work_job_t *job);
void il_work_environ_free(char **env);

/* Files in memory with those of the three that the job has; -1 for the
 * others.  0, or errno.  The caller closes them. */
int il_work_files(const il_work_job_t *job, int files[IL_WARD_FILES]);


/* work_ward.c */

typedef enum {
    IL_WARD_STARTED = 1,            /* pid: the command's */
    IL_WARD_FAILED,                 /* code: errno */
    IL_WARD_EXITED                  /* code: exit code or signal */
} il_ward_what_e;

typedef struct {
    il_ward_what_e  what;
    pid_t           pid;
    int             code;
    int             signaled;
} il_ward_msg_t;

typedef struct {
    char   **command;               /* ends with NULL; so env */
    char   **env;
    int      std[3];                /* the command's standard descriptors */
    int      file[IL_WARD_FILES];   /* -1: none */
    int64_t  grace_ms;              /* should the worker die */
} il_ward_spec_t;

typedef struct {
    int    ctl;                     /* readable: il_ward_read(); -1: closed */
    pid_t  pid;
    pid_t  command;                 /* also its group's number */
} il_ward_t;

/* Orders: SIGTERM to all, or SIGKILL until nothing is left. */
#define IL_WARD_TERM  'T'
#define IL_WARD_KILL  'K'

/* Starts the command.  0, or the errno that says why not; call il_ward_end()
 * in either case. */
int il_ward_start(il_ward_t *ward, const il_ward_spec_t *spec);

void il_ward_tell(const il_ward_t *ward, char order);

/* 1: msg is filled; 0: the ward has gone, and with it all that the command
 * had started; -1: nothing to read. */
int il_ward_read(il_ward_t *ward, il_ward_msg_t *msg);

/* Ends what is left and waits for it, at most 10 seconds.  0, or -1 if
 * something could not be ended in that time. */
int il_ward_end(il_ward_t *ward);


/* work_tree.c */

/* Sends a signal to everything that descends from the calling process, which
 * must have one thread and be a child subreaper.  How many they were, or -1
 * if /proc cannot be read.  Async-signal-safe. */
int il_tree_signal(int sig);

#endif /* IL_CLI_WORK_H */
