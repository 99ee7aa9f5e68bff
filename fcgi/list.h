/*
 * list.h: lists, page by page.
 *
 * The last page says that it is.  A cursor is a row's place in the order of
 * the list, so that what is new moves no page.  A page may have fewer rows
 * than were asked for, or none, and all the same a next one: a filter that no
 * index knows is looked for in a bounded number of rows (05_list_scan.sql).
 */

#ifndef IL_LIST_H
#define IL_LIST_H

#include "doc.h"
#include "query.h"

/* What a list was asked for: slices of the query, in the request's pool; data
 * NULL: any, or none.  Each list uses its own of them. */
typedef struct {
    il_str_t  kind;
    il_str_t  state;               /* a job's status, a work's state */
    il_str_t  work_key;
    il_str_t  source;
    il_str_t  prefix;
    il_str_t  decision;
    il_str_t  idem;
    il_str_t  worker;
    il_str_t  what;
    il_str_t  by;
    il_str_t  cursor;
    int64_t   since;               /* unix ms; INT64_MIN: none */
    int64_t   until;
    int64_t   before;              /* a revision; -1: none */
    int64_t   limit;
} il_list_t;


/* A call whose `more` is *l, with nothing asked for; NULL if there is no
 * memory, and then r was answered. */
il_doc_t *il_list_new(il_req_t *r, il_list_t **l, const char *sql,
    const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p));


/* All that follow take one parameter of the query: 0; or -1, and then a
 * problem was answered and r is gone. */

/* How many items a page has: IL_DOC_LIMIT, if not said. */
int il_list_limit(il_req_t *r, const il_query_t *q, il_list_t *l)
    IL_MUST_CHECK;

/* The cursor of a list: an id, a number, a name, or a work key in base64. */
int il_list_id_cursor(il_req_t *r, const il_query_t *q, il_list_t *l)
    IL_MUST_CHECK;
int il_list_number_cursor(il_req_t *r, const il_query_t *q, il_list_t *l)
    IL_MUST_CHECK;
int il_list_name_cursor(il_req_t *r, const il_query_t *q, il_list_t *l)
    IL_MUST_CHECK;
int il_list_key_cursor(il_req_t *r, const il_query_t *q, il_list_t *l)
    IL_MUST_CHECK;

/* The name of a `what`: a kind, a source. */
int il_list_name(il_req_t *r, const il_query_t *q, const char *what,
    il_str_t *name) IL_MUST_CHECK;

/* Text of at most so many bytes, without control characters. */
int il_list_text(il_req_t *r, const il_query_t *q, size_t max,
    il_str_t *text) IL_MUST_CHECK;

int il_list_work_key(il_req_t *r, const il_query_t *q, il_list_t *l)
    IL_MUST_CHECK;


/* read->done of lists whose rows are (doc, next), the last one without a doc
 * if there is a next page; the second if next is a work key. */
void il_list_done(il_read_t *read, il_db_result_t *res, il_problem_e p);
void il_list_key_done(il_read_t *read, il_db_result_t *res, il_problem_e p);

#endif /* IL_LIST_H */
