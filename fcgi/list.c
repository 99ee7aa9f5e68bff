/*
 * list.c: what lists have in common; GET /v1/jobs, /v1/results, /v1/kinds and
 * the revisions of one result.
 */

#include <stdio.h>

#include "il_answer.h"
#include "il_enc.h"
#include "il_key.h"
#include "il_time.h"
#include "il_uuid.h"
#include "list.h"
#include "route.h"
#include "server.h"


static const char  il_list_no_cursor[] = "is not one that this list gave";


il_doc_t *
il_list_new(il_req_t *r, il_list_t **l, const char *sql,
    const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p))
{
    il_doc_t  *d;

    d = il_doc_more(r, sql, signature, put, done, sizeof(il_list_t));
    if (d == NULL) {
        return NULL;
    }

    *l = d->more;
    (*l)->since = INT64_MIN;
    (*l)->until = INT64_MIN;

    return d;
}


int
il_list_limit(il_req_t *r, const il_query_t *q, il_list_t *l)
{
    l->limit = IL_DOC_LIMIT;

    return il_query_int(r, q, 1, IL_DOC_LIMIT_MAX, &l->limit);
}


int
il_list_id_cursor(il_req_t *r, const il_query_t *q, il_list_t *l)
{
    char     text[IL_UUID_TEXT + 1];
    uint8_t  id[IL_UUID_BYTES];

    if (q->value.data == NULL) {
        return 0;
    }

    if (il_uuid_parse(id, q->value) != 0) {
        il_query_invalid(r, q->name, il_list_no_cursor);
        return -1;
    }

    il_uuid_format(text, id);
    l->cursor = il_pool_dup(&r->pool, il_cstr(text));

    if (l->cursor.data == NULL) {
        il_req_internal(r);
        return -1;
    }

    return 0;
}


int
il_list_number_cursor(il_req_t *r, const il_query_t *q, il_list_t *l)
{
    int64_t  number;

    if (q->value.data == NULL) {
        return 0;
    }

    if (il_digits_parse(q->value, 18, &number) != 0) {
        il_query_invalid(r, q->name, il_list_no_cursor);
        return -1;
    }

    l->cursor = q->value;

    return 0;
}


int
il_list_name_cursor(il_req_t *r, const il_query_t *q, il_list_t *l)
{
    if (q->value.data != NULL && !il_name_valid(q->value)) {
        il_query_invalid(r, q->name, il_list_no_cursor);
        return -1;
    }

    l->cursor = q->value;

    return 0;
}


int
il_list_key_cursor(il_req_t *r, const il_query_t *q, il_list_t *l)
{
    size_t    len;
    uint8_t  *key;

    if (q->value.data == NULL) {
        return 0;
    }

    key = il_pool_get(&r->pool, IL_KEY_MAX);
    if (key == NULL) {
        il_req_internal(r);
        return -1;
    }

    if (il_b64_decode(key, IL_KEY_MAX, &len, q->value, IL_B64_URL_NOPAD) != 0) {
        il_query_invalid(r, q->name, il_list_no_cursor);
        return -1;
    }

    l->cursor = il_str((const char *) key, len);

    if (il_key_check(l->cursor) != IL_KEY_OK) {
        il_query_invalid(r, q->name, il_list_no_cursor);
        return -1;
    }

    return 0;
}


int
il_list_name(il_req_t *r, const il_query_t *q, const char *what,
    il_str_t *name)
{
    char  must[64];

    *name = q->value;

    if (name->data == NULL || il_name_valid(*name)) {
        return 0;
    }

    (void) snprintf(must, sizeof(must), "must be the name of a %s", what);
    il_query_invalid(r, q->name, must);

    return -1;
}


int
il_list_text(il_req_t *r, const il_query_t *q, size_t max, il_str_t *text)
{
    char  must[64];

    *text = q->value;

    if (text->data == NULL
        || (text->len <= max && !il_has_control(*text)))
    {
        return 0;
    }

    (void) snprintf(must, sizeof(must), "is longer than %zu bytes, or has "
                    "control characters", max);
    il_query_invalid(r, q->name, must);

    return -1;
}


int
il_list_work_key(il_req_t *r, const il_query_t *q, il_list_t *l)
{
    il_key_rc_e  rc;

    l->work_key = q->value;

    if (l->work_key.data == NULL) {
        return 0;
    }

    rc = il_key_check(l->work_key);

    if (rc != IL_KEY_OK) {
        il_req_problem(r, rc == IL_KEY_INCOMPLETE
                       ? IL_P_WORK_KEY_INCOMPLETE
                       : IL_P_WORK_KEY_INVALID, il_key_strerror(rc));
        return -1;
    }

    return 0;
}


/* Rows with a doc, and then, if there is a next page, one without, which says
 * where it goes on. */

static void
il_list_answer(il_read_t *read, il_db_result_t *res, il_problem_e p,
    int key)
{
    char       text[il_b64_encoded_cap(IL_KEY_MAX)];
    size_t     rows, len;
    il_doc_t  *d = (il_doc_t *) read;
    il_str_t   next;

    if (res == NULL) {
        il_req_fail_item(&d->r->item, p);
        return;
    }

    rows = il_db_rows(res);
    next = il_str(NULL, 0);

    if (rows > 0
        && il_db_cell(res, rows - 1, il_db_column(res, "doc")).data == NULL)
    {
        rows--;
        next = il_db_cell(res, rows, il_db_column(res, "next"));

        if (key && next.data != NULL) {
            len = il_b64_encode(text, sizeof(text),
                                (const uint8_t *) next.data, next.len,
                                IL_B64_URL_NOPAD);
            next = il_str(text, len);
        }
    }

    il_doc_items(d->r, res, rows, next);
}


void
il_list_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_list_answer(read, res, p, 0);
}


void
il_list_key_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_list_answer(read, res, p, 1);
}


/* -------------------------------------------------------------------- jobs */


enum {
    IL_Q_KIND, IL_Q_STATUS, IL_Q_WORK_KEY, IL_Q_SOURCE, IL_Q_SINCE,
    IL_Q_LIMIT, IL_Q_CURSOR, IL_Q_MAX
};


static void
il_list_put_jobs(il_read_t *read, il_db_args_t *args)
{
    il_doc_t   *d = (il_doc_t *) read;
    il_list_t  *l = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, l->kind);
    il_db_put_text(args, 2, l->state);
    il_db_put_text(args, 3, l->work_key);
    il_db_put_text(args, 4, l->source);
    il_db_put_time(args, 5, l->since);
    il_db_put_int(args, 6, (int32_t) l->limit);
    il_db_put_text(args, 7, l->cursor);
}


static int
il_list_status(il_req_t *r, const il_query_t *q, il_list_t *l)
{
    il_status_e  status;

    l->state = q->value;
    status = il_status_find(l->state);

    if (l->state.data != NULL
        && (status == IL_S_NONE || status == IL_S_SPOOLED))
    {
        il_query_invalid(r, q->name, "must be one of queued, running, "
                         "checking, held, parked, succeeded, failed, "
                         "canceled, superseded, expired");
        return -1;
    }

    return 0;
}


void
il_list_jobs(il_req_t *r)
{
    il_doc_t    *d;
    il_list_t   *l;
    il_query_t   q[IL_Q_MAX] = {
        [IL_Q_KIND] = { .name = "kind" },
        [IL_Q_STATUS] = { .name = "status" },
        [IL_Q_WORK_KEY] = { .name = "work_key" },
        [IL_Q_SOURCE] = { .name = "source" },
        [IL_Q_SINCE] = { .name = "since" },
        [IL_Q_LIMIT] = { .name = "limit" },
        [IL_Q_CURSOR] = { .name = "cursor" }
    };

    d = il_list_new(r, &l, "select * from interlock.jobs_list("
                    "$1, $2, $3, $4, $5, $6, $7, $8)", "ITTTTZIT",
                    il_list_put_jobs, il_list_done);

    if (d == NULL
        || il_query_read(r, q, IL_Q_MAX) != 0
        || il_list_limit(r, &q[IL_Q_LIMIT], l) != 0
        || il_list_id_cursor(r, &q[IL_Q_CURSOR], l) != 0
        || il_list_name(r, &q[IL_Q_KIND], "kind", &l->kind) != 0
        || il_list_status(r, &q[IL_Q_STATUS], l) != 0
        || il_list_name(r, &q[IL_Q_SOURCE], "source", &l->source) != 0
        || il_list_work_key(r, &q[IL_Q_WORK_KEY], l) != 0
        || il_query_time(r, &q[IL_Q_SINCE], &l->since) != 0)
    {
        return;
    }

    il_doc_queue(d);
}


/* ----------------------------------------------------------------- results */


static void
il_list_put_results(il_read_t *read, il_db_args_t *args)
{
    il_doc_t   *d = (il_doc_t *) read;
    il_list_t  *l = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, l->prefix.data == NULL ? il_str("", 0)
                                                   : l->prefix);
    il_db_put_int(args, 2, (int32_t) l->limit);
    il_db_put_text(args, 3, l->cursor);
}


/* Its cursor is a work key; in base64, as it may hold anything. */

static void
il_list_results_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    char       text[il_b64_encoded_cap(IL_KEY_MAX)];
    size_t     len;
    il_doc_t  *d = (il_doc_t *) read;
    il_str_t   key, next;

    if (res == NULL) {
        il_req_fail_item(&d->r->item, p);
        return;
    }

    next = il_str(NULL, 0);

    if (il_db_rows(res) > 0) {
        key = il_db_cell(res, 0, il_db_column(res, "next"));

        if (key.data != NULL) {
            len = il_b64_encode(text, sizeof(text),
                                (const uint8_t *) key.data, key.len,
                                IL_B64_URL_NOPAD);
            next = il_str(text, len);
        }
    }

    il_doc_items(d->r, res, il_db_rows(res), next);
}


void
il_list_results(il_req_t *r)
{
    il_doc_t    *d;
    il_list_t   *l;
    il_query_t   q[] = {
        { .name = "prefix" }, { .name = "limit" }, { .name = "cursor" }
    };

    d = il_list_new(r, &l, "select * from interlock.results_list("
                    "$1, $2, $3, $4)", "ITIT", il_list_put_results,
                    il_list_results_done);

    if (d == NULL || il_query_read(r, q, 3) != 0
        || il_list_limit(r, &q[1], l) != 0
        || il_list_key_cursor(r, &q[2], l) != 0
        || il_list_text(r, &q[0], IL_KEY_MAX, &l->prefix) != 0)
    {
        return;
    }

    il_doc_queue(d);
}


/* ------------------------------------------------------------------- kinds */


static void
il_list_put_names(il_read_t *read, il_db_args_t *args)
{
    il_doc_t   *d = (il_doc_t *) read;
    il_list_t  *l = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_int(args, 1, (int32_t) l->limit);
    il_db_put_text(args, 2, l->cursor);
}


void
il_kind_list(il_req_t *r)
{
    il_doc_t    *d;
    il_list_t   *l;
    il_query_t   q[] = { { .name = "limit" }, { .name = "cursor" } };

    d = il_list_new(r, &l, "select * from interlock.kind_list($1, $2, $3)",
                    "IIT", il_list_put_names, il_list_done);

    if (d == NULL || il_query_read(r, q, 2) != 0
        || il_list_limit(r, &q[0], l) != 0
        || il_list_name_cursor(r, &q[1], l) != 0)
    {
        return;
    }

    il_doc_queue(d);
}


/* --------------------------------------------------------------- revisions */


static void
il_list_put_revisions(il_read_t *read, il_db_args_t *args)
{
    il_doc_t   *d = (il_doc_t *) read;
    il_list_t  *l = d->more;

    il_doc_put(read, args);
    il_db_put_int(args, 2, (int32_t) l->limit + 1);

    if (l->before < 0) {
        il_db_put_null(args, 3);

    } else {
        il_db_put_int(args, 3, (int32_t) l->before);
    }
}


void
il_list_revisions(il_req_t *r)
{
    il_doc_t    *d;
    il_list_t   *l;
    il_query_t   q[] = { { .name = "limit" }, { .name = "cursor" } };

    if (il_doc_key(r) != 0) {
        return;
    }

    d = il_list_new(r, &l, "select * from interlock.work_revisions("
                    "$1, $2, $3, $4)", "ITII", il_list_put_revisions,
                    il_doc_page_done);

    if (d == NULL || il_query_read(r, q, 2) != 0
        || il_list_limit(r, &q[0], l) != 0)
    {
        return;
    }

    l->before = -1;

    if (q[1].value.data != NULL
        && il_digits_parse(q[1].value, 9, &l->before) != 0)
    {
        il_query_invalid(r, q[1].name, il_list_no_cursor);
        return;
    }

    d->number = l->limit;
    il_doc_queue(d);
}
