/*
 * doc.c: works, results and kinds: each one call of the read lane, whose
 * answer is a JSON text made by the database.
 */

#include <stdio.h>

#include "check.h"
#include "doc.h"
#include "il_json.h"
#include "il_key.h"
#include "il_time.h"
#include "log.h"
#include "park.h"
#include "route.h"
#include "server.h"


il_doc_t *
il_doc_new(il_req_t *r, const char *sql, const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p))
{
    il_doc_t  *d;

    d = il_pool_get(&r->pool, sizeof(il_doc_t));
    if (d == NULL) {
        il_req_internal(r);
        return NULL;
    }

    d->r = r;
    d->text = r->args[0];
    d->number = -1;
    d->status = 200;
    d->missing = "There is no such work.";
    d->read.sql = sql;
    d->read.signature = signature;
    d->read.put = put;
    d->read.done = done;

    return d;
}


il_doc_t *
il_doc_more(il_req_t *r, const char *sql, const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p),
    size_t size)
{
    il_doc_t  *d;

    d = il_doc_new(r, sql, signature, put, done);
    if (d == NULL) {
        return NULL;
    }

    d->more = il_pool_get(&r->pool, size);
    if (d->more == NULL) {
        il_req_internal(r);
        return NULL;
    }

    return d;
}


void
il_doc_queue(il_doc_t *d)
{
    if (il_lane_put(&il_srv.read, &d->read.item) != 0) {
        il_req_unavailable(d->r);
    }
}


void
il_doc_put(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, d->text);
}


void
il_doc_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_req_t  *r = d->r;

    if (res == NULL) {
        il_req_fail_item(&r->item, p);
        return;
    }

    if (il_db_rows(res) == 0) {
        il_req_problem(r, d->none != IL_P_NONE ? d->none : IL_P_NOT_FOUND,
                       d->missing);
        return;
    }

    il_buf_add(il_req_json(r, d->status),
               il_db_cell(res, 0, il_db_column(res, "doc")));
    il_req_done(r);
}


/* ------------------------------------------------------------------- works */


int
il_doc_key(il_req_t *r)
{
    il_key_rc_e  rc;

    rc = il_key_check(r->args[0]);

    if (rc != IL_KEY_OK) {
        il_req_problem(r, rc == IL_KEY_INCOMPLETE ? IL_P_WORK_KEY_INCOMPLETE
                                                  : IL_P_WORK_KEY_INVALID,
                       il_key_strerror(rc));
        return -1;
    }

    return 0;
}


void
il_look_work(il_req_t *r)
{
    il_doc_t  *d;

    if (il_doc_key(r) != 0) {
        return;
    }

    d = il_doc_new(r, "select * from interlock.work_get($1, $2)", "IT",
                   il_doc_put, il_doc_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


void
il_doc_put_number(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;

    il_doc_put(read, args);

    if (d->number < 0) {
        il_db_put_null(args, 2);

    } else {
        il_db_put_int(args, 2, (int32_t) d->number);
    }
}


void
il_look_result(il_req_t *r)
{
    int64_t    number;
    il_str_t   revision;
    il_doc_t  *d;

    if (il_doc_key(r) != 0) {
        return;
    }

    number = -1;
    revision = il_route_query(r, "revision");

    if (revision.data != NULL && il_digits_parse(revision, 9, &number) != 0) {
        il_req_problem(r, IL_P_FIELD_INVALID,
                       "\"revision\" must be a whole number.");
        return;
    }

    d = il_doc_new(r, "select * from interlock.work_result($1, $2, $3)",
                   "ITI", il_doc_put_number, il_doc_done);
    if (d == NULL) {
        return;
    }

    d->number = number;
    d->missing = "There is no such result.";
    il_doc_queue(d);
}


/* ------------------------------------------------------------------- kinds */


void
il_doc_put_tenant(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;

    il_db_put_int(args, 0, d->r->who.tenant);
}


void
il_doc_items(il_req_t *r, const il_db_result_t *res, size_t rows,
    il_str_t next)
{
    int        col;
    size_t     row;
    il_buf_t  *b;

    col = il_db_column(res, "doc");
    b = il_req_json(r, 200);
    il_buf_puts(b, "{\"items\":[");

    for (row = 0; row < rows; row++) {
        il_buf_puts(b, row == 0 ? "" : ",");
        il_buf_add(b, il_db_cell(res, row, col));
    }

    il_buf_puts(b, "],\"next\":");
    il_buf_json_null(b, next);
    il_buf_puts(b, "}");
    il_req_done(r);
}


void
il_doc_list_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_doc_t  *d = (il_doc_t *) read;

    if (res == NULL) {
        il_req_fail_item(&d->r->item, p);
        return;
    }

    il_doc_items(d->r, res, il_db_rows(res), il_str(NULL, 0));
}


void
il_doc_page_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    size_t     rows;
    il_doc_t  *d = (il_doc_t *) read;
    il_str_t   next;

    if (res == NULL) {
        il_req_fail_item(&d->r->item, p);
        return;
    }

    if (il_db_cell(res, 0, il_db_column(res, "problem")).data != NULL) {
        il_doc_problem_done(read, res, p);
        return;
    }

    rows = il_db_rows(res);
    next = il_str(NULL, 0);

    if (rows > (size_t) d->number) {
        rows = (size_t) d->number;
        next = il_db_cell(res, rows - 1, il_db_column(res, "cursor"));
    }

    il_doc_items(d->r, res, rows, next);
}


void
il_kind_get(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_KIND_UNKNOWN, "There is no such kind.");
        return;
    }

    d = il_doc_new(r, "select * from interlock.kind_get($1, $2)", "IT",
                   il_doc_put, il_doc_done);
    if (d != NULL) {
        d->missing = "There is no such kind.";
        il_doc_queue(d);
    }
}


static void
il_doc_refuse(il_req_t *r, const il_db_result_t *res, il_str_t problem)
{
    il_str_t      after;
    il_problem_e  p;

    p = il_problem_find(problem);

    if (p == IL_P_NONE) {
        il_log(IL_LOG_ERROR, "%.*s: not known as a problem here",
               (int) problem.len, problem.data);
        p = IL_P_BAD_REQUEST;
    }

    after = il_db_cell(res, 0, il_db_column(res, "retry_after"));

    if (after.data != NULL) {
        il_req_header(r, "Retry-After", after);
    }

    il_req_problem_more(r, p,
                        il_db_cell(res, 0, il_db_column(res, "detail")),
                        il_str(NULL, 0));
}


void
il_doc_problem_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_req_t  *r = d->r;
    il_str_t   problem, doc;

    if (res == NULL) {
        il_req_fail_item(&r->item, p);
        return;
    }

    if (il_db_rows(res) == 0) {
        il_req_problem(r, d->none != IL_P_NONE ? d->none : IL_P_NOT_FOUND,
                       d->missing);
        return;
    }

    il_park_hint_kinds(r->who.tenant,
                       il_db_cell(res, 0, il_db_column(res, "wake_kinds")));
    il_park_ended_jobs(il_db_cell(res, 0, il_db_column(res, "ended_jobs")));

    problem = il_db_cell(res, 0, il_db_column(res, "problem"));

    if (problem.data != NULL) {
        il_doc_refuse(r, res, problem);
        return;
    }

    doc = il_db_cell(res, 0, il_db_column(res, "doc"));

    if (doc.data == NULL) {
        r->status = 204;
        il_req_done(r);
        return;
    }

    il_buf_add(il_req_json(r, d->status), doc);
    il_req_done(r);
}


/* What is not there any more after a try whose COMMIT was lost was deleted by
 * that. */

void
il_doc_deleted_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_str_t   problem;
    il_doc_t  *d = (il_doc_t *) read;

    if (res != NULL && read->item.tries > 0 && il_db_rows(res) > 0) {
        problem = il_db_cell(res, 0, il_db_column(res, "problem"));

        if (problem.data != NULL
            && il_problem_status(il_problem_find(problem)) == 404)
        {
            d->r->status = 204;
            il_req_done(d->r);
            return;
        }
    }

    il_doc_problem_done(read, res, p);
}


void
il_doc_again_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    int64_t    remaining;
    il_doc_t  *d = (il_doc_t *) read;

    if (res != NULL && il_db_rows(res) > 0
        && il_db_cell(res, 0, il_db_column(res, "problem")).data == NULL
        && il_db_cell_int(res, 0, il_db_column(res, "remaining"),
                          &remaining) == 0
        && remaining > 0)
    {
        il_park_hint_kinds(d->r->who.tenant,
                           il_db_cell(res, 0,
                                      il_db_column(res, "wake_kinds")));
        il_park_ended_jobs(il_db_cell(res, 0,
                                      il_db_column(res, "ended_jobs")));
        il_doc_queue(d);
        return;
    }

    il_doc_problem_done(read, res, p);
}


void
il_doc_put_body(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;

    il_doc_put(read, args);
    il_db_put_text(args, 2, il_buf_str(&d->r->body));
}


int
il_doc_object(il_req_t *r, const char *what)
{
    char             detail[128];
    il_str_t         body;
    il_json_value_t  object;

    body = il_buf_str(&r->body);

    if (il_json_find(body, il_str("", 0), &object) != IL_JSON_OK
        || object.type != IL_JSON_OBJECT
        || memmem(body.data, body.len, "\\u0000", 6) != NULL)
    {
        (void) snprintf(detail, sizeof(detail), "%s is a JSON object, "
                        "without NUL characters.", what);
        il_req_problem(r, IL_P_JSON_INVALID, detail);
        return -1;
    }

    return 0;
}


int
il_doc_lookup(il_req_t *r, const char *member)
{
    char  why[512];

    if (il_check_policy(&il_srv.conf, il_buf_str(&r->body), member, why,
                        sizeof(why)) != 0)
    {
        il_req_problem(r, IL_P_FIELD_INVALID, why);
        return -1;
    }

    return 0;
}


void
il_kind_put(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_FIELD_INVALID, "A kind's name has 1 to 64 of "
                       "a-z, 0-9, \".\", \"_\", \"-\".");
        return;
    }

    if (il_doc_object(r, "A kind") != 0
        || il_doc_lookup(r, "result_check") != 0)
    {
        return;
    }

    d = il_doc_new(r, "select * from interlock.kind_put($1, $2, $3)", "ITT",
                   il_doc_put_body, il_doc_problem_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


void
il_kind_delete(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_KIND_UNKNOWN, "There is no such kind.");
        return;
    }

    d = il_doc_new(r, "select * from interlock.kind_delete($1, $2)", "IT",
                   il_doc_put, il_doc_deleted_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}
