/*
 * db_int.h: what db.c, which has libpq, and db_wait.c, which has not, know of
 * each other.
 */

#ifndef IL_DB_INT_H
#define IL_DB_INT_H

#include "db.h"

#define IL_DB_NAMES  16

/* A statement of a connection, by its literal. */
typedef struct {
    const char  *sql;
    unsigned     used;
    int          prepared;
    char         text[63];       /* its name there, of NAMEDATALEN at most */
} il_db_name_t;

typedef struct {
    il_db_name_t  names[IL_DB_NAMES];
    size_t        n;
    unsigned      given;
} il_db_names_t;

/* Counts a use.  The statement's name if it is used often enough to be
 * prepared; NULL if not, or if there are too many. */
il_db_name_t *il_db_often(il_db_names_t *names, const char *sql);

/* It is not what it was: from now on it has another name, once it has been
 * used often again. */
void il_db_unname(il_db_names_t *names, il_db_name_t *name);

/* When a statement would be prepared for the first time, and not before, as a
 * connection may not live for long: *keeps is 1 if it would stay there.  The
 * call may go on if that is IL_DB_OK. */
il_db_rc_e il_db_find_out(il_db_t *db, int *keeps, int64_t deadline)
    IL_MUST_CHECK;

/* Waits until fd can be read (or written, while a query is still on its way
 * out).  0, or -1 at the deadline (il_now_ms(); 0: none) or on an error. */
int il_db_wait(int fd, int want_write, int64_t deadline) IL_MUST_CHECK;

/* What a SQLSTATE ("": none) means of a call, as far as it says; and whether
 * it is about a prepared statement that is not what it was. */
il_db_rc_e il_db_meaning(const char *sqlstate);
int il_db_is_stale(const char *sqlstate);

/* In db.c: the socket (-1: lost), the process id that the server gave, what
 * il_db_error() and il_db_sqlstate() say, reading what has come (0 or -1: the
 * connection is lost), and handing on what notifications came (how many). */
int il_db_fd(const il_db_t *db);
int64_t il_db_pid(const il_db_t *db);
void il_db_set_error(il_db_t *db, const char *sqlstate, const char *message);
int il_db_consume(il_db_t *db) IL_MUST_CHECK;
size_t il_db_told(il_db_t *db, void (*told)(const char *payload, void *arg),
    void *arg);

#endif /* IL_DB_INT_H */
