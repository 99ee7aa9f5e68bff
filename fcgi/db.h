/*
 * db.h: PostgreSQL, by typed arguments and counted results.
 *
 * db.c is the one file that touches libpq; db_types.c has the arguments and
 * the typed cells.  The backend never builds SQL
 * text: every statement is a literal that calls a function of the schema.
 *
 * A connection belongs to one thread at a time; a result may be read by any
 * number of threads, and is counted, so that the last reader frees it.
 */

#ifndef IL_DB_H
#define IL_DB_H

#include "il_str.h"
#include "il_uuid.h"

#define IL_DB_ARGS_MAX   24
#define IL_DB_ERR_CAP    512

typedef struct il_db_s         il_db_t;
typedef struct il_db_result_s  il_db_result_t;

typedef enum {
    IL_DB_OK = 0,
    IL_DB_UNEXPECTED,     /* rolled back; running it again will not help */
    IL_DB_RETRY,          /* rolled back; running it again may help (deadlock,
                             serialization, lock or statement timeout, a lack
                             of resources) */
    IL_DB_UNKNOWN         /* the connection was lost or too slow, or the
                             server warned during the call: it may have been
                             committed.  Run it again under the same ids. */
} il_db_rc_e;

/* One argument: private to db.c. */
typedef struct {
    char      type;
    int       array;
    size_t    count;
    int       nulls;
    char     *data;
    size_t    len;
    size_t    cap;
} il_db_param_t;

typedef struct {
    il_db_param_t  p[IL_DB_ARGS_MAX];
    size_t         n;
    int            failed;      /* out of memory, or a misuse; the call then
                                   is IL_DB_UNEXPECTED and nothing is sent */
} il_db_args_t;


/* Connects.  dsn is a libpq connection string or URI; what it leaves out gets
 * connect_timeout 5 s, TCP keep-alive, application_name `app`, and, with
 * statement_ms > 0 and no `options` in dsn, that statement_timeout.  Blocks.
 * NULL with a message in err (without any secret). */
il_db_t *il_db_open(const char *dsn, const char *app, int statement_ms,
    char *err, size_t cap) IL_MUST_CHECK;

/* Closes at once; NULL is allowed. */
void il_db_close(il_db_t *db);

/* 1 until the connection is found to be lost. */
int il_db_is_open(const il_db_t *db);

/* Looks, without waiting, whether an idle connection was closed meanwhile: a
 * call over it would have an unknown outcome for nothing.  As above. */
int il_db_probe(il_db_t *db);

/* What the last call of this connection failed with: the server's primary
 * message, never row values; and the SQLSTATE or "". */
const char *il_db_error(const il_db_t *db);
const char *il_db_sqlstate(const il_db_t *db);

/* Host, port, database and user of a connection string, for logs: no
 * password.  Returns out. */
const char *il_db_describe(const char *dsn, char *out, size_t cap);


/* Arguments by a signature, one letter each; lower case is an array (one call
 * of il_db_put_… for each element, in order), upper case a scalar (exactly
 * one):  i int4, l int8, t text, y bytea, u uuid, b boolean, z timestamptz.
 * Free it with il_db_args_free. */
void il_db_args_init(il_db_args_t *a, const char *signature);
void il_db_args_free(il_db_args_t *a);

void il_db_put_null(il_db_args_t *a, size_t i);
void il_db_put_int(il_db_args_t *a, size_t i, int32_t v);
void il_db_put_big(il_db_args_t *a, size_t i, int64_t v);
void il_db_put_bool(il_db_args_t *a, size_t i, int v);
/* data NULL is null; text must be UTF-8 without NUL */
void il_db_put_text(il_db_args_t *a, size_t i, il_str_t v);
void il_db_put_bytes(il_db_args_t *a, size_t i, il_str_t v);
/* NULL is null */
void il_db_put_uuid(il_db_args_t *a, size_t i, const uint8_t *v);
/* INT64_MIN is null */
void il_db_put_time(il_db_args_t *a, size_t i, int64_t unix_ms);


/* What libpq wants of them; for db.c.  0, or -1 if the arguments failed or
 * arrays differ in length. */
int il_db_args_finish(il_db_args_t *a, unsigned *types, const char **values,
    int *lens, int *formats) IL_MUST_CHECK;


/* Runs one statement and waits for at most timeout_ms (0: no bound); beyond
 * it the connection is closed (never canceled: see db.c), and the outcome
 * unknown.  On IL_DB_OK *res is the caller's (il_db_result_free). */
il_db_rc_e il_db_call(il_db_t *db, const char *sql, il_db_args_t *args,
    int timeout_ms, il_db_result_t **res) IL_MUST_CHECK;

/* IL_DB_OK if the server itself is at the other end; IL_DB_UNEXPECTED if it is
 * a pooler that may give each transaction another session. */
il_db_rc_e il_db_direct(il_db_t *db, int timeout_ms) IL_MUST_CHECK;

/* From now on statements that are used often are prepared, by their literal,
 * unless a pooler is found to be in between when the first one would be. */
void il_db_keep(il_db_t *db);

/* Runs the text of a migration, any number of statements, as one simple
 * query: one transaction, unless the text says otherwise. */
il_db_rc_e il_db_script(il_db_t *db, const char *sql) IL_MUST_CHECK;


/* Has this connection hear notifications: sql is a literal LISTEN.
 * IL_DB_UNEXPECTED if a pooler stands in between.  Without an answer in
 * timeout_ms the connection is closed. */
il_db_rc_e il_db_listen(il_db_t *db, const char *sql, int timeout_ms)
    IL_MUST_CHECK;

/* Waits until a notification comes, or fd (-1: none) can be read, or for
 * timeout_ms; hands each one's payload to told(payload, arg), which may not
 * use db.  0, or -1 if the connection is lost. */
int il_db_hear(il_db_t *db, int fd, int timeout_ms,
    void (*told)(const char *payload, void *arg), void *arg) IL_MUST_CHECK;


il_db_result_t *il_db_result_ref(il_db_result_t *res);
void il_db_result_free(il_db_result_t *res);

size_t il_db_rows(const il_db_result_t *res);

/* The number of a column, or -1.  Cells of column -1 are null. */
int il_db_column(const il_db_result_t *res, const char *name);

/* A cell as text; data is NULL for null.  Lives as long as the result. */
il_str_t il_db_cell(const il_db_result_t *res, size_t row, int col);

/* 0, or -1 if the cell is null or not of that form. */
int il_db_cell_int(const il_db_result_t *res, size_t row, int col,
    int64_t *v) IL_MUST_CHECK;
int il_db_cell_double(const il_db_result_t *res, size_t row, int col,
    double *v) IL_MUST_CHECK;
int il_db_cell_uuid(const il_db_result_t *res, size_t row, int col,
    uint8_t out[IL_UUID_BYTES]) IL_MUST_CHECK;
int il_db_cell_time(const il_db_result_t *res, size_t row, int col,
    int64_t *unix_ms) IL_MUST_CHECK;

/* 1 for true; 0 for false and null. */
int il_db_cell_bool(const il_db_result_t *res, size_t row, int col);

/* A bytea cell: its length in bytes, and its bytes.  0, or -1. */
size_t il_db_bytes_len(il_str_t cell);
int il_db_bytes_decode(il_str_t cell, uint8_t *out) IL_MUST_CHECK;

/* Walks a uuid[] cell; start with *pos = 0.  1, or 0 at the end. */
int il_db_uuid_next(il_str_t cell, size_t *pos, uint8_t out[IL_UUID_BYTES]);

/* The same for a text[] cell of names, which need no escapes; *name is a
 * slice of the cell. */
int il_db_name_next(il_str_t cell, size_t *pos, il_str_t *name);

#endif /* IL_DB_H */
