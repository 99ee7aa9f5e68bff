/*
 * conf.h: the configuration of interlockd: file < environment < option.
 *
 * A file has lines `name = value`; `#` starts a comment at the start of a
 * line.  The environment has INTERLOCK_NAME, the command line --name=value
 * with "-" or "_".  Settings are one table in conf.c.
 */

#ifndef IL_CONF_H
#define IL_CONF_H

#include <stdio.h>

#include "il_str.h"

#define IL_CONF_ERR_CAP    512
#define IL_CONF_BATCH_MAX  5000      /* the greatest batch_max */

typedef struct {
    char     *listen;               /* path of the unix socket */
    char     *edge_socket;          /* path of the edges' datagrams, or "" */
    char     *dsn;                  /* libpq connection string */
    char     *notify_dsn;           /* for LISTEN; "": dsn */
    char     *keys_dir;
    char     *log;                  /* a file, or "stderr" */
    char     *log_level;
    char     *pid;                  /* a file, or "" */

    char     *check_hosts;          /* that look-ups may call */
    char     *check_private;        /* of these, that may be private */
    char     *check_secrets_dir;    /* of headers of look-ups, or "" */
    char     *check_ca;             /* a file of certificates, or "" */

    char     *alert_hosts;          /* that alerts may be sent to; so on */
    char     *alert_private;
    char     *alert_secrets_dir;    /* that alerts are signed with, or "" */
    char     *alert_ca;

    char     *cert_hosts;           /* further ones of certificates; so on */
    char     *cert_private;
    char     *cert_ca;

    char     *ui_origins;           /* of the pages; "": scheme and Host */

    int64_t   threads;
    int64_t   check_threads;        /* look-ups under way at most */
    int64_t   alert_threads;        /* events being sent at most */
    int64_t   cert_threads;         /* certificates being fetched at most */
    int64_t   max_body;             /* bytes */
    int64_t   submit_connections;
    int64_t   claim_connections;
    int64_t   lease_connections;
    int64_t   finish_connections;
    int64_t   effect_connections;
    int64_t   read_connections;
    int64_t   batch_max;
    int64_t   parked_max;
    int64_t   events_max;           /* event streams */
    int64_t   queue_max;            /* items waiting for one lane */

    int64_t   db_deadline;          /* milliseconds, as all times here */
    int64_t   recover_interval;
    int64_t   io_timeout;           /* one read or write of a connection */
    int64_t   drain_timeout;

    int64_t   session_idle;         /* a session ends unused */
    int64_t   session_max;          /* and in any case */

    int64_t   core_dumps;           /* 0 or 1 */
} il_conf_t;


/* Sets every default.  0, or -1 (out of memory). */
int il_conf_init(il_conf_t *conf) IL_MUST_CHECK;

/* Frees what il_conf_init and the others allocated. */
void il_conf_free(il_conf_t *conf);

/* Each: 0, or -1 with a message in err that says where and what. */
int il_conf_file(il_conf_t *conf, const char *path, char *err, size_t cap)
    IL_MUST_CHECK;
int il_conf_env(il_conf_t *conf, char *err, size_t cap) IL_MUST_CHECK;

/* One option without its dashes: "threads=8".  1 if there is no setting of
 * that name. */
int il_conf_option(il_conf_t *conf, const char *arg, char *err, size_t cap)
    IL_MUST_CHECK;

/* What must hold of the whole: required settings, order of deadlines. */
int il_conf_check(const il_conf_t *conf, char *err, size_t cap)
    IL_MUST_CHECK;

/* Prints every setting as lines of a file; secrets are never shown:
 * `describe` turns a connection string into what may be shown. */
void il_conf_show(const il_conf_t *conf, FILE *out,
    const char *(*describe)(const char *dsn, char *buf, size_t cap));

/* Calls with name and value, as a file has it, of each setting that is no
 * connection string; value lives as long as the call.  What of these may be
 * shown to whom is the caller's to know. */
void il_conf_each(const il_conf_t *conf,
    void (*each)(void *ctx, const char *name, const char *value), void *ctx);


/* "10", "64k", "32m": bytes.  0 or -1. */
int il_conf_size_parse(il_str_t s, int64_t *bytes) IL_MUST_CHECK;

/* "10" (seconds), "1500ms", "10s", "5m", "2h": milliseconds.  0 or -1. */
int il_conf_time_parse(il_str_t s, int64_t *ms) IL_MUST_CHECK;

#endif /* IL_CONF_H */
