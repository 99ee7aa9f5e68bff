/*
 * db_wait.c: waiting for the server, what its errors mean, and what is
 * prepared there.  Nothing here knows libpq.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "db_int.h"

#define IL_DB_OFTEN  3


int
il_db_wait(int fd, int want_write, int64_t deadline)
{
    int            rc;
    int64_t        left;
    struct pollfd  p;

    p.fd = fd;
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


il_db_rc_e
il_db_meaning(const char *s)
{
    if (s[0] == '\0'
        || strncmp(s, "08", 2) == 0       /* connection exception */
        || strncmp(s, "57P", 3) == 0      /* shutdown, terminated, starting */
        || strcmp(s, "25006") == 0        /* read only: a standby now */
        || strcmp(s, "40003") == 0)       /* completion unknown */
    {
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


int
il_db_is_stale(const char *s)
{
    return strcmp(s, "0A000") == 0        /* its result has other columns */
           || strcmp(s, "26000") == 0;    /* no such statement */
}


/* ---------------------------------------------------- prepared statements */


il_db_name_t *
il_db_often(il_db_names_t *names, const char *sql)
{
    size_t         i;
    il_db_name_t  *name;

    for (i = 0; i < names->n && names->names[i].sql != sql; i++) {
        /* void */
    }

    if (i == IL_DB_NAMES) {
        return NULL;
    }

    name = &names->names[i];

    if (i == names->n) {
        names->n++;
        name->sql = sql;
        il_db_unname(names, name);
    }

    if (name->used < IL_DB_OFTEN) {
        name->used++;
        return NULL;
    }

    return name;
}


/* "select * from interlock.renew($1…" is renew's: the server's log, and whoever
 * looks at what is sent, find the function in it. */

void
il_db_unname(il_db_names_t *names, il_db_name_t *name)
{
    int          n;
    const char  *function;

    name->used = 0;
    name->prepared = 0;

    function = strstr(name->sql, "interlock.");
    n = function == NULL ? 0 : (int) strcspn(function, "(");

    (void) snprintf(name->text, sizeof(name->text), "%u %.*s",
                    ++names->given, n, function == NULL ? "" : function);
}


/* ---------------------------------------------------------------- sessions */


/* A pooler makes up a process id of its own: behind it the next statement may
 * be another session's. */

il_db_rc_e
il_db_direct(il_db_t *db, int timeout_ms)
{
    int64_t          pid;
    il_db_rc_e       rc;
    il_db_result_t  *res;

    rc = il_db_call(db, "select pg_catalog.pg_backend_pid()", NULL,
                    timeout_ms, &res);

    if (rc == IL_DB_OK && (il_db_cell_int(res, 0, 0, &pid) != 0
                           || pid != il_db_pid(db)))
    {
        il_db_set_error(db, "", "a pooler is in between, where nothing can "
                        "be listened for: lead notify_dsn around it");
        rc = IL_DB_UNEXPECTED;
    }

    il_db_result_free(res);

    return rc;
}


il_db_rc_e
il_db_find_out(il_db_t *db, int *keeps, int64_t deadline)
{
    int64_t     left;
    il_db_rc_e  rc;

    *keeps = 0;
    left = deadline == 0 ? 0 : deadline - il_now_ms();

    rc = il_db_direct(db, deadline != 0 && left < 1 ? 1 : (int) left);

    *keeps = (rc == IL_DB_OK);

    return rc == IL_DB_UNEXPECTED ? IL_DB_OK : rc;
}


il_db_rc_e
il_db_listen(il_db_t *db, const char *sql, int timeout_ms)
{
    il_db_rc_e       rc;
    il_db_result_t  *res;

    rc = il_db_direct(db, timeout_ms);
    if (rc != IL_DB_OK) {
        return rc;
    }

    rc = il_db_call(db, sql, NULL, timeout_ms, &res);
    il_db_result_free(res);

    return rc;
}


int
il_db_hear(il_db_t *db, int fd, int timeout_ms,
    void (*told)(const char *payload, void *arg), void *arg)
{
    struct pollfd  p[2] = {
        { .fd = il_db_fd(db), .events = POLLIN },
        { .fd = fd, .events = POLLIN }
    };

    if (!il_db_is_open(db)) {
        return -1;
    }

    /* some may have come with the answer of a call */

    if (il_db_told(db, told, arg) > 0) {
        timeout_ms = 0;
    }

    if (poll(p, 2, timeout_ms) > 0 && p[0].revents != 0
        && il_db_consume(db) != 0)
    {
        return -1;
    }

    (void) il_db_told(db, told, arg);

    return 0;
}
