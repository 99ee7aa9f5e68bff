/*
 * db.c: the one file that touches libpq.
 *
 * Every call has a deadline of its own kept by poll(), because a server
 * behind a dead network cannot keep its statement_timeout.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "clock.h"
#include "db.h"
#include "log.h"


struct il_db_s {
    PGconn  *conn;
    int      open;
    int      warned;
    char     error[IL_DB_ERR_CAP];
    char     sqlstate[6];
};


struct il_db_result_s {
    PGresult  *res;
    int        refs;
};


static void
il_db_set_error(il_db_t *db, const char *sqlstate, const char *message)
{
    size_t  n;

    (void) snprintf(db->sqlstate, sizeof(db->sqlstate), "%s",
                    sqlstate == NULL ? "" : sqlstate);
    (void) snprintf(db->error, sizeof(db->error), "%s",
                    message == NULL ? "unknown error" : message);

    n = strlen(db->error);

    while (n > 0 && db->error[n - 1] == '\n') {
        db->error[--n] = '\0';
    }
}


/* A warning during COMMIT may say that it did not reach a standby that must
 * have it: what is not certain is treated as unknown. */

static void
il_db_notice(void *arg, const PGresult *res)
{
    il_db_t     *db = arg;
    const char  *severity, *message;

    severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
    message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

    if (severity != NULL && strcmp(severity, "WARNING") == 0) {
        db->warned = 1;
        il_log(IL_LOG_WARN, "database: warning: %s",
               message == NULL ? "" : message);
        return;
    }

    il_log(IL_LOG_DEBUG, "database: %s: %s",
           severity == NULL ? "notice" : severity,
           message == NULL ? "" : message);
}


static int
il_db_has_option(const char *dsn, const char *name)
{
    int                found;
    PQconninfoOption  *all, *o;

    all = PQconninfoParse(dsn, NULL);
    if (all == NULL) {
        return 0;
    }

    found = 0;

    for (o = all; o->keyword != NULL; o++) {
        if (strcmp(o->keyword, name) == 0 && o->val != NULL) {
            found = 1;
        }
    }

    PQconninfoFree(all);

    return found;
}


il_db_t *
il_db_open(const char *dsn, const char *app, int statement_ms, char *err,
    size_t cap)
{
    size_t       n;
    char         options[64];
    il_db_t     *db;
    const char  *keys[10], *values[10];

    db = calloc(1, sizeof(il_db_t));
    if (db == NULL) {
        (void) snprintf(err, cap, "out of memory");
        return NULL;
    }

    n = 0;

    keys[n] = "connect_timeout";
    values[n++] = "5";
    keys[n] = "keepalives_idle";
    values[n++] = "10";
    keys[n] = "keepalives_interval";
    values[n++] = "5";
    keys[n] = "keepalives_count";
    values[n++] = "3";
    keys[n] = "fallback_application_name";
    values[n++] = app;

    /* a pooler that refuses `options` is served by options='' in the dsn */

    if (statement_ms > 0 && !il_db_has_option(dsn, "options")) {
        (void) snprintf(options, sizeof(options), "-c statement_timeout=%d",
                        statement_ms);
        keys[n] = "options";
        values[n++] = options;
    }

    keys[n] = "dbname";
    values[n++] = dsn;
    keys[n] = "client_encoding";
    values[n++] = "UTF8";
    keys[n] = NULL;
    values[n] = NULL;

    db->conn = PQconnectdbParams(keys, values, 1);

    if (db->conn == NULL || PQstatus(db->conn) != CONNECTION_OK) {
        il_db_set_error(db, "", db->conn == NULL ? "out of memory"
                                                 : PQerrorMessage(db->conn));
        (void) snprintf(err, cap, "%s", db->error);
        il_db_close(db);
        return NULL;
    }

    (void) PQsetNoticeReceiver(db->conn, il_db_notice, db);

    if (PQsetnonblocking(db->conn, 1) != 0) {
        (void) snprintf(err, cap, "cannot set the connection non-blocking");
        il_db_close(db);
        return NULL;
    }

    db->open = 1;

    return db;
}


void
il_db_close(il_db_t *db)
{
    if (db == NULL) {
        return;
    }

    if (db->conn != NULL) {
        PQfinish(db->conn);
    }

    free(db);
}


int
il_db_is_open(const il_db_t *db)
{
    return db->open;
}


int
il_db_probe(il_db_t *db)
{
    struct pollfd  p;

    if (!db->open) {
        return 0;
    }

    p.fd = PQsocket(db->conn);
    p.events = POLLIN;
    p.revents = 0;

    /* what can be read is a notice, a changed setting, or the end */

    if (p.fd < 0
        || (poll(&p, 1, 0) > 0
            && (PQconsumeInput(db->conn) != 1
                || PQstatus(db->conn) != CONNECTION_OK)))
    {
        il_db_set_error(db, "", PQerrorMessage(db->conn));
        db->open = 0;
    }

    return db->open;
}


const char *
il_db_error(const il_db_t *db)
{
    return db->error;
}


const char *
il_db_sqlstate(const il_db_t *db)
{
    return db->sqlstate;
}


const char *
il_db_describe(const char *dsn, char *out, size_t cap)
{
    int                n;
    size_t             len;
    PQconninfoOption  *all, *o;

    all = PQconninfoParse(dsn, NULL);
    if (all == NULL) {
        (void) snprintf(out, cap, "(not a connection string)");
        return out;
    }

    len = 0;

    if (cap > 0) {
        out[0] = '\0';
    }

    for (o = all; o->keyword != NULL; o++) {
        if (o->val == NULL
            || (strcmp(o->keyword, "host") != 0
                && strcmp(o->keyword, "hostaddr") != 0
                && strcmp(o->keyword, "port") != 0
                && strcmp(o->keyword, "dbname") != 0
                && strcmp(o->keyword, "user") != 0))
        {
            continue;
        }

        n = snprintf(out + len, cap - len, "%s%s=%s", len == 0 ? "" : " ",
                     o->keyword, o->val);
        if (n < 0 || (size_t) n >= cap - len) {
            break;
        }

        len += (size_t) n;
    }

    PQconninfoFree(all);

    return out;
}


static il_db_rc_e
il_db_classify(il_db_t *db)
{
    const char  *s = db->sqlstate;

    if (PQstatus(db->conn) != CONNECTION_OK || s[0] == '\0'
        || strncmp(s, "08", 2) == 0       /* connection exception */
        || strncmp(s, "57P", 3) == 0      /* shutdown, terminated, starting */
        || strcmp(s, "25006") == 0        /* read only: a standby now */
        || strcmp(s, "40003") == 0)       /* completion unknown */
    {
        db->open = 0;
        return IL_DB_UNKNOWN;
    }

    if (strcmp(s, "40P01") == 0 || strcmp(s, "40001") == 0
        || strcmp(s, "55P03") == 0 || strcmp(s, "57014") == 0
        || strncmp(s, "53", 2) == 0)      /* insufficient resources */
    {
        return IL_DB_RETRY;
    }

    return IL_DB_UNEXPECTED;
}


static il_db_rc_e
il_db_lost(il_db_t *db, const char *why)
{
    il_db_set_error(db, "", why);
    db->open = 0;

    return IL_DB_UNKNOWN;
}


/* Waits until the socket can be read (or written, while the query is still
 * on its way out).  0, or -1 at the deadline or on a lost connection. */

static int
il_db_wait(il_db_t *db, int want_write, int64_t deadline)
{
    int            rc;
    int64_t        left;
    struct pollfd  p;

    p.fd = PQsocket(db->conn);
    p.events = (short) (POLLIN | (want_write ? POLLOUT : 0));

    if (p.fd < 0) {
        return -1;
    }

    for ( ;; ) {
        left = -1;

        if (deadline > 0) {
            left = deadline - il_now_ms();
            if (left <= 0) {
                return -1;
            }
        }

        p.revents = 0;

        rc = poll(&p, 1, (int) left);
        if (rc > 0) {
            return 0;
        }

        if (rc < 0 && errno != EINTR) {
            return -1;
        }
    }
}


/* Sends what is left of the query and reads until the whole answer is here.
 * 0 or -1. */

static int
il_db_transfer(il_db_t *db, int64_t deadline)
{
    int  flush;

    for ( ;; ) {
        flush = PQflush(db->conn);
        if (flush < 0) {
            return -1;
        }

        if (flush == 0 && !PQisBusy(db->conn)) {
            return 0;
        }

        if (il_db_wait(db, flush, deadline) != 0) {
            return -1;
        }

        if (PQconsumeInput(db->conn) != 1) {
            return -1;
        }
    }
}


/* The last result that matters: the first error, else the last rows. */

static il_db_rc_e
il_db_collect(il_db_t *db, int64_t deadline, PGresult **out)
{
    PGresult        *res, *keep;
    ExecStatusType   status;

    keep = NULL;

    for ( ;; ) {
        if (il_db_transfer(db, deadline) != 0) {
            PQclear(keep);

            /*
             * No cancel request: it could reach the server in its COMMIT,
             * where it would end the wait for a standby and make visible
             * what is not safe yet.  Closing the connection ends a statement
             * by its statement_timeout, and leaves a COMMIT alone.
             */

            if (PQstatus(db->conn) == CONNECTION_OK) {
                return il_db_lost(db, "no answer within the deadline");
            }

            return il_db_lost(db, PQerrorMessage(db->conn));
        }

        res = PQgetResult(db->conn);
        if (res == NULL) {
            break;
        }

        status = PQresultStatus(res);

        if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT
            || status == PGRES_COPY_BOTH)
        {
            PQclear(res);
            PQclear(keep);
            return il_db_lost(db, "COPY is not expected here");
        }

        if (keep != NULL && PQresultStatus(keep) != PGRES_TUPLES_OK
            && PQresultStatus(keep) != PGRES_COMMAND_OK)
        {
            PQclear(res);
            continue;
        }

        PQclear(keep);
        keep = res;
    }

    if (keep == NULL) {
        return il_db_lost(db, PQerrorMessage(db->conn));
    }

    status = PQresultStatus(keep);

    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK
        && status != PGRES_EMPTY_QUERY)
    {
        il_db_set_error(db, PQresultErrorField(keep, PG_DIAG_SQLSTATE),
                        PQresultErrorField(keep, PG_DIAG_MESSAGE_PRIMARY));
        if (db->sqlstate[0] == '\0') {
            il_db_set_error(db, "", PQresultErrorMessage(keep));
        }

        PQclear(keep);
        return il_db_classify(db);
    }

    if (db->warned) {
        PQclear(keep);
        il_db_set_error(db, "01000", "the server warned during the call");
        return IL_DB_UNKNOWN;
    }

    *out = keep;

    return IL_DB_OK;
}


il_db_rc_e
il_db_call(il_db_t *db, const char *sql, il_db_args_t *args, int timeout_ms,
    il_db_result_t **res)
{
    int          lens[IL_DB_ARGS_MAX], formats[IL_DB_ARGS_MAX], n;
    unsigned     types[IL_DB_ARGS_MAX];
    int64_t      deadline;
    PGresult    *pg;
    il_db_rc_e   rc;
    const char  *values[IL_DB_ARGS_MAX];

    *res = NULL;
    db->warned = 0;
    n = 0;

    if (!db->open) {
        return il_db_lost(db, "not connected");
    }

    if (args != NULL) {
        if (il_db_args_finish(args, types, values, lens, formats) != 0) {
            il_db_set_error(db, "", "arguments could not be built");
            return IL_DB_UNEXPECTED;
        }

        n = (int) args->n;
    }

    deadline = timeout_ms > 0 ? il_now_ms() + timeout_ms : 0;

    if (PQsendQueryParams(db->conn, sql, n, types, values, lens, formats, 0)
        != 1)
    {
        return il_db_lost(db, PQerrorMessage(db->conn));
    }

    pg = NULL;

    rc = il_db_collect(db, deadline, &pg);
    if (rc != IL_DB_OK) {
        return rc;
    }

    *res = malloc(sizeof(il_db_result_t));
    if (*res == NULL) {
        PQclear(pg);
        il_db_set_error(db, "", "out of memory");
        return IL_DB_UNKNOWN;
    }

    (*res)->res = pg;
    (*res)->refs = 1;

    return IL_DB_OK;
}


il_db_rc_e
il_db_script(il_db_t *db, const char *sql)
{
    PGresult    *pg;
    il_db_rc_e   rc;

    db->warned = 0;

    if (!db->open) {
        return il_db_lost(db, "not connected");
    }

    if (PQsendQuery(db->conn, sql) != 1) {
        return il_db_lost(db, PQerrorMessage(db->conn));
    }

    pg = NULL;

    rc = il_db_collect(db, 0, &pg);
    PQclear(pg);

    return rc;
}


/* A pooler makes up a process id of its own: behind it the next statement may
 * be another session's, and LISTEN nobody's. */

il_db_rc_e
il_db_listen(il_db_t *db, const char *sql, int timeout_ms)
{
    int64_t          pid;
    il_db_rc_e       rc;
    il_db_result_t  *res;

    rc = il_db_call(db, "select pg_catalog.pg_backend_pid()", NULL,
                    timeout_ms, &res);

    if (rc == IL_DB_OK && (il_db_cell_int(res, 0, 0, &pid) != 0
                           || pid != PQbackendPID(db->conn)))
    {
        il_db_set_error(db, "", "a pooler is in between, where nothing can "
                        "be listened for: lead notify_dsn around it");
        rc = IL_DB_UNEXPECTED;
    }

    il_db_result_free(res);

    if (rc != IL_DB_OK) {
        return rc;
    }

    rc = il_db_call(db, sql, NULL, timeout_ms, &res);
    il_db_result_free(res);

    return rc;
}


/* How many were here. */

static size_t
il_db_told(il_db_t *db, void (*told)(const char *payload, void *arg),
    void *arg)
{
    size_t     n;
    PGnotify  *note;

    for (n = 0; (note = PQnotifies(db->conn)) != NULL; n++) {
        told(note->extra, arg);
        PQfreemem(note);
    }

    return n;
}


int
il_db_hear(il_db_t *db, int fd, int timeout_ms,
    void (*told)(const char *payload, void *arg), void *arg)
{
    struct pollfd  p[2] = {
        { .fd = PQsocket(db->conn), .events = POLLIN },
        { .fd = fd, .events = POLLIN }
    };

    if (!db->open) {
        return -1;
    }

    /* some may have come with the answer of a call */

    if (il_db_told(db, told, arg) > 0) {
        timeout_ms = 0;
    }

    if (poll(p, 2, timeout_ms) > 0 && p[0].revents != 0
        && (PQconsumeInput(db->conn) != 1
            || PQstatus(db->conn) != CONNECTION_OK))
    {
        (void) il_db_lost(db, PQerrorMessage(db->conn));
        return -1;
    }

    (void) il_db_told(db, told, arg);

    return 0;
}


il_db_result_t *
il_db_result_ref(il_db_result_t *res)
{
    (void) __atomic_add_fetch(&res->refs, 1, __ATOMIC_RELAXED);

    return res;
}


void
il_db_result_free(il_db_result_t *res)
{
    if (res == NULL || __atomic_sub_fetch(&res->refs, 1, __ATOMIC_ACQ_REL) > 0)
    {
        return;
    }

    PQclear(res->res);
    free(res);
}


size_t
il_db_rows(const il_db_result_t *res)
{
    return (size_t) PQntuples(res->res);
}


int
il_db_column(const il_db_result_t *res, const char *name)
{
    int  i, n;

    /* PQfnumber() would fold its case, in a copy, each time */

    n = PQnfields(res->res);

    for (i = 0; i < n; i++) {
        if (strcmp(PQfname(res->res, i), name) == 0) {
            return i;
        }
    }

    return -1;
}


il_str_t
il_db_cell(const il_db_result_t *res, size_t row, int col)
{
    if (col < 0 || row >= il_db_rows(res)
        || PQgetisnull(res->res, (int) row, col))
    {
        return il_str(NULL, 0);
    }

    return il_str(PQgetvalue(res->res, (int) row, col),
                  (size_t) PQgetlength(res->res, (int) row, col));
}
