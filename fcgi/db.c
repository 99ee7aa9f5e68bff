/*
 * db.c: the one file that touches libpq.
 *
 * Every call has a deadline of its own kept by poll(), because a server
 * behind a dead network cannot keep its statement_timeout.
 */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "clock.h"
#include "db.h"
#include "db_int.h"
#include "log.h"


struct il_db_s {
    PGconn  *conn;
    int      open;
    int      warned;
    int      keeps;              /* what is prepared may stay there */
    int      direct;             /* and does: it is known of this server */
    char     error[IL_DB_ERR_CAP];
    char     sqlstate[6];
    il_db_names_t  names;
};


struct il_db_result_s {
    PGresult  *res;
    int        refs;
};


void
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

    static const char *const  fixed[][2] = {
        { "connect_timeout", "5" },
        { "keepalives_idle", "10" },
        { "keepalives_interval", "5" },
        { "keepalives_count", "3" }
    };

    db = calloc(1, sizeof(il_db_t));
    if (db == NULL) {
        (void) snprintf(err, cap, "out of memory");
        return NULL;
    }

    for (n = 0; n < sizeof(fixed) / sizeof(fixed[0]); n++) {
        keys[n] = fixed[n][0];
        values[n] = fixed[n][1];
    }

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

    if ((p.fd < 0 || poll(&p, 1, 0) > 0) && il_db_consume(db) != 0) {
        return 0;
    }

    return db->open;
}


int
il_db_consume(il_db_t *db)
{
    if (PQconsumeInput(db->conn) != 1 || PQstatus(db->conn) != CONNECTION_OK) {
        il_db_set_error(db, "", PQerrorMessage(db->conn));
        db->open = 0;
    }

    return db->open ? 0 : -1;
}


int
il_db_fd(const il_db_t *db)
{
    return db->open ? PQsocket(db->conn) : -1;
}


int64_t
il_db_pid(const il_db_t *db)
{
    return PQbackendPID(db->conn);
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
    il_db_rc_e  rc;

    rc = PQstatus(db->conn) == CONNECTION_OK
         ? il_db_meaning(db->sqlstate) : IL_DB_UNKNOWN;

    if (rc == IL_DB_UNKNOWN) {
        db->open = 0;
    }

    return rc;
}


static il_db_rc_e
il_db_lost(il_db_t *db, const char *why)
{
    il_db_set_error(db, "", why);
    db->open = 0;

    return IL_DB_UNKNOWN;
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

        if (il_db_wait(PQsocket(db->conn), flush, deadline) != 0) {
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


typedef struct {
    const char  *sql;
    int          n;
    unsigned     types[IL_DB_ARGS_MAX];
    const char  *values[IL_DB_ARGS_MAX];
    int          lens[IL_DB_ARGS_MAX];
    int          formats[IL_DB_ARGS_MAX];
} il_db_query_t;


/* The prepared statement of a query that is asked for often; or NULL, and rc
 * says whether it may go without one. */

static il_db_name_t *
il_db_prepare(il_db_t *db, const il_db_query_t *q, int64_t deadline,
    il_db_rc_e *rc)
{
    PGresult      *pg;
    il_db_name_t  *name;

    *rc = IL_DB_OK;

    name = db->keeps ? il_db_often(&db->names, q->sql) : NULL;

    if (name == NULL || name->prepared) {
        return name;
    }

    if (!db->direct) {
        *rc = il_db_find_out(db, &db->keeps, deadline);
        db->direct = db->keeps;

        if (!db->direct) {
            return NULL;
        }
    }

    if (PQsendPrepare(db->conn, name->text, q->sql, q->n, q->types) != 1) {
        *rc = il_db_lost(db, PQerrorMessage(db->conn));
        return NULL;
    }

    pg = NULL;
    *rc = il_db_collect(db, deadline, &pg);
    PQclear(pg);
    name->prepared = (*rc == IL_DB_OK);

    return name->prepared ? name : NULL;
}


/* Once more without its statement, if that is what was wrong: another version
 * of the schema has other columns, or the statement is not there. */

static il_db_rc_e
il_db_run(il_db_t *db, const il_db_query_t *q, int64_t deadline,
    PGresult **out)
{
    il_db_rc_e     rc;
    il_db_name_t  *name;

    name = il_db_prepare(db, q, deadline, &rc);
    if (rc != IL_DB_OK) {
        return rc;
    }

    if (name != NULL) {
        if (PQsendQueryPrepared(db->conn, name->text, q->n, q->values, q->lens,
                                q->formats, 0)
            != 1)
        {
            return il_db_lost(db, PQerrorMessage(db->conn));
        }

        rc = il_db_collect(db, deadline, out);

        if (rc != IL_DB_UNEXPECTED || !il_db_is_stale(db->sqlstate)) {
            return rc;
        }

        il_db_unname(&db->names, name);
    }

    if (PQsendQueryParams(db->conn, q->sql, q->n, q->types, q->values,
                          q->lens, q->formats, 0)
        != 1)
    {
        return il_db_lost(db, PQerrorMessage(db->conn));
    }

    return il_db_collect(db, deadline, out);
}


il_db_rc_e
il_db_call(il_db_t *db, const char *sql, il_db_args_t *args, int timeout_ms,
    il_db_result_t **res)
{
    int64_t         deadline;
    PGresult       *pg;
    il_db_rc_e      rc;
    il_db_query_t   q;

    *res = NULL;
    db->warned = 0;
    q.n = 0;

    if (!db->open) {
        return il_db_lost(db, "not connected");
    }

    if (args != NULL) {
        if (il_db_args_finish(args, q.types, q.values, q.lens, q.formats)
            != 0)
        {
            il_db_set_error(db, "", "arguments could not be built");
            return IL_DB_UNEXPECTED;
        }

        q.n = (int) args->n;
    }

    deadline = timeout_ms > 0 ? il_now_ms() + timeout_ms : 0;

    q.sql = sql;
    pg = NULL;

    rc = il_db_run(db, &q, deadline, &pg);
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


void
il_db_keep(il_db_t *db)
{
    db->keeps = 1;
}


size_t
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
