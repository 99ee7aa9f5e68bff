/*
 * doc.h: one call of the read lane for one request, whose answer is a JSON
 * text made by the database.
 */

#ifndef IL_DOC_H
#define IL_DOC_H

#include "req.h"

#define IL_DOC_LIMIT      50       /* items of a list, if not said */
#define IL_DOC_LIMIT_MAX  200

typedef struct {
    il_read_t     read;            /* first */
    il_req_t     *r;
    il_str_t      text;            /* the first path parameter */
    int64_t       number;          /* -1: none */
    int           status;          /* of a good answer */
    const char   *missing;         /* detail of a 404 */
    il_problem_e  none;            /* its name; NONE: not-found */
    void         *more;            /* a handler's own, in the pool */
} il_doc_t;


/* In the pool; NULL if there is no memory, and then r was answered. */
il_doc_t *il_doc_new(il_req_t *r, const char *sql, const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p));

/* The same, with `more` of so many bytes, all 0. */
il_doc_t *il_doc_more(il_req_t *r, const char *sql, const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p),
    size_t size);

/* Queues it.  d is gone afterwards. */
void il_doc_queue(il_doc_t *d);


/* read->put: tenant; tenant and text; both and the body as it stands; both and
 * number, or null if it is -1 */
void il_doc_put_tenant(il_read_t *read, il_db_args_t *args);
void il_doc_put(il_read_t *read, il_db_args_t *args);
void il_doc_put_body(il_read_t *read, il_db_args_t *args);
void il_doc_put_number(il_read_t *read, il_db_args_t *args);

/* read->done: the first row's doc, or 404; every row's as a list that is
 * whole; a problem, or a doc, or (204) neither, after telling whom wake_kinds
 * and ended_jobs concern; the same for a DELETE, which may be a second try */
void il_doc_done(il_read_t *read, il_db_result_t *res, il_problem_e p);
void il_doc_list_done(il_read_t *read, il_db_result_t *res, il_problem_e p);
void il_doc_problem_done(il_read_t *read, il_db_result_t *res,
    il_problem_e p);
void il_doc_deleted_done(il_read_t *read, il_db_result_t *res,
    il_problem_e p);

/* The same, but while the first row has `remaining` above 0 the call is made
 * again: what it did stays done. */
void il_doc_again_done(il_read_t *read, il_db_result_t *res, il_problem_e p);

/* Rows of doc and cursor, one more than d->number if there is a next page; or
 * a first row with a problem. */
void il_doc_page_done(il_read_t *read, il_db_result_t *res, il_problem_e p);

/* Answers with so many rows' doc as a list, and the cursor of its next page
 * (data NULL: none). */
void il_doc_items(il_req_t *r, const il_db_result_t *res, size_t rows,
    il_str_t next);


/* The first path parameter is a work key.  0, or -1 and it was answered. */
int il_doc_key(il_req_t *r) IL_MUST_CHECK;

/* The body is a JSON object that PostgreSQL can take as it stands; `what` is
 * how it is called in the problem.  0, or -1 and it was answered. */
int il_doc_object(il_req_t *r, const char *what) IL_MUST_CHECK;

/* If the body's member describes a look-up, the configuration lets its URL be
 * called.  0, or -1 and it was answered. */
int il_doc_lookup(il_req_t *r, const char *member) IL_MUST_CHECK;

#endif /* IL_DOC_H */
