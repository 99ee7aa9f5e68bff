/*
 * effect_list.c: effects as people look at them: the audit list, in JSON or
 * CSV, one with its history, and what an operator does about one.
 */

#include "body.h"
#include "doc.h"
#include "effect.h"
#include "il_accept.h"
#include "il_enc.h"
#include "query.h"
#include "route.h"
#include "who.h"


#define IL_CURSOR_MAX   64
#define IL_CELL_MAX     16384


static const char  il_effect_missing[] = "There is no such effect.";


enum {
    IL_Q_WORK_KEY, IL_Q_STATE, IL_Q_KIND, IL_Q_SINCE, IL_Q_UNTIL, IL_Q_LIMIT,
    IL_Q_CURSOR, IL_Q_MAX
};


typedef struct {
    il_str_t  work_key;            /* data NULL: any; so below */
    il_str_t  state;
    il_str_t  kind;
    il_str_t  cursor;
    int64_t   since;               /* INT64_MIN: none */
    int64_t   until;
    int64_t   limit;
    int       csv;
} il_effect_list_t;


/* In the order of the columns of a CSV. */

static const char *const  il_effect_columns[] = {
    "effect_id", "name", "kind", "scope", "state", "work_key", "job_id",
    "target", "provider_ref", "round", "idempotency_key", "compensates",
    "response_status", "created_at", "changed_at", "first_sent", "last_sent",
    "unknown_since", "why"
};

#define IL_EFFECT_COLUMNS                                                     \
    (sizeof(il_effect_columns) / sizeof(il_effect_columns[0]))


/* -------------------------------------------------------------------- lists */


/* One row more than asked for tells whether there is a next page. */

static void
il_effect_put_list(il_read_t *read, il_db_args_t *args)
{
    il_doc_t          *d = (il_doc_t *) read;
    il_effect_list_t  *l = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, l->work_key);
    il_db_put_text(args, 2, l->state);
    il_db_put_text(args, 3, l->kind);
    il_db_put_time(args, 4, l->since);
    il_db_put_time(args, 5, l->until);
    il_db_put_int(args, 6, (int32_t) l->limit + 1);
    il_db_put_text(args, 7, l->cursor);
}


/* RFC 4180.  What a spreadsheet would take for a formula gets an apostrophe:
 * names and targets are whatever a worker wrote. */

static void
il_effect_cell(il_buf_t *b, il_str_t s)
{
    size_t  i;

    il_buf_puts(b, "\"");

    if (s.len > 0 && strchr("=+-@\t\r", s.data[0]) != NULL) {
        il_buf_puts(b, "'");
    }

    for (i = 0; i < s.len; i++) {
        if (s.data[i] == '"') {
            il_buf_puts(b, "\"");
        }

        il_buf_add(b, il_str(s.data + i, 1));
    }

    il_buf_puts(b, "\"");
}


static void
il_effect_row(il_buf_t *b, il_str_t doc)
{
    char              text[IL_CELL_MAX], pointer[64];
    size_t            i, len;
    il_json_value_t   v;

    for (i = 0; i < IL_EFFECT_COLUMNS; i++) {
        if (i > 0) {
            il_buf_puts(b, ",");
        }

        (void) snprintf(pointer, sizeof(pointer), "/%s",
                        il_effect_columns[i]);

        if (il_json_find(doc, il_cstr(pointer), &v) == IL_JSON_OK
            && il_json_scalar(&v, text, sizeof(text), &len) == 0)
        {
            il_effect_cell(b, il_str(text, len));
        }
    }

    il_buf_puts(b, "\r\n");
}


static void
il_effect_csv(il_req_t *r, const il_db_result_t *res, size_t rows,
    il_str_t next)
{
    size_t     i;
    il_buf_t  *b;

    b = il_req_json(r, 200);
    r->type = "text/csv; charset=utf-8; header=present";
    il_req_header(r, "Content-Disposition",
                  il_cstr("attachment; filename=\"effects.csv\""));

    if (next.data != NULL) {
        il_req_header(r, "Interlock-Next", next);
    }

    for (i = 0; i < IL_EFFECT_COLUMNS; i++) {
        il_buf_puts(b, i == 0 ? "" : ",");
        il_buf_puts(b, il_effect_columns[i]);
    }

    il_buf_puts(b, "\r\n");

    for (i = 0; i < rows; i++) {
        il_effect_row(b, il_db_cell(res, i, il_db_column(res, "doc")));
    }

    il_req_done(r);
}


static void
il_effect_list_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    size_t             i, rows;
    il_buf_t          *b;
    il_doc_t          *d = (il_doc_t *) read;
    il_str_t           next;
    il_effect_list_t  *l = d->more;

    if (res == NULL) {
        il_req_fail_item(&d->r->item, p);
        return;
    }

    rows = il_db_rows(res);
    next = il_str(NULL, 0);

    if (rows > (size_t) l->limit) {
        rows = (size_t) l->limit;
        next = il_db_cell(res, rows - 1, il_db_column(res, "cursor"));

    } else if (rows > 0
               && il_db_cell(res, rows - 1,
                             il_db_column(res, "doc")).data == NULL)
    {
        /* as far as a page looks */

        rows--;
        next = il_db_cell(res, rows, il_db_column(res, "cursor"));
    }

    il_req_header(d->r, "Vary", il_cstr("Accept"));

    if (l->csv) {
        il_effect_csv(d->r, res, rows, next);
        return;
    }

    b = il_req_json(d->r, 200);
    il_buf_puts(b, "{\"items\":[");

    for (i = 0; i < rows; i++) {
        il_buf_puts(b, i == 0 ? "" : ",");
        il_buf_add(b, il_db_cell(res, i, il_db_column(res, "doc")));
    }

    il_buf_puts(b, "],\"next\":");
    il_buf_json_null(b, next);
    il_buf_puts(b, "}");
    il_req_done(d->r);
}


/* Digits, "_", a UUID: as the database gave it. */

static int
il_effect_cursor(il_req_t *r, const il_query_t *q, il_effect_list_t *l)
{
    size_t    n;
    uint8_t   id[IL_UUID_BYTES];
    il_str_t  s;

    s = q->value;

    if (s.data == NULL) {
        return 0;
    }

    for (n = 0; n < s.len && s.data[n] >= '0' && s.data[n] <= '9'; n++) {
        /* void */
    }

    if (n == 0 || n > 17 || s.len != n + 1 + IL_UUID_TEXT || s.data[n] != '_'
        || il_uuid_parse(id, il_str(s.data + n + 1, IL_UUID_TEXT)) != 0)
    {
        il_query_invalid(r, q->name, "is not one that this list gave");
        return -1;
    }

    l->cursor = s;

    return 0;
}


static int
il_effect_filters(il_req_t *r, const il_query_t *q, il_effect_list_t *l)
{
    size_t       i;
    il_key_rc_e  rc;

    static const char *const  states[] = {
        "intended", "confirmed", "failed", "unknown", "needs_human", NULL
    };

    l->work_key = q[IL_Q_WORK_KEY].value;
    l->state = q[IL_Q_STATE].value;
    l->kind = q[IL_Q_KIND].value;

    if (l->work_key.data != NULL) {
        rc = il_key_check(l->work_key);

        if (rc != IL_KEY_OK) {
            il_req_problem(r, rc == IL_KEY_INCOMPLETE
                           ? IL_P_WORK_KEY_INCOMPLETE
                           : IL_P_WORK_KEY_INVALID, il_key_strerror(rc));
            return -1;
        }
    }

    if (l->state.data != NULL) {
        for (i = 0; states[i] != NULL; i++) {
            if (il_str_eq(l->state, il_cstr(states[i]))) {
                break;
            }
        }

        if (states[i] == NULL) {
            il_query_invalid(r, "state", "must be one of intended, "
                             "confirmed, failed, unknown, needs_human");
            return -1;
        }
    }

    if (l->kind.data != NULL && !il_name_valid(l->kind)) {
        il_query_invalid(r, "kind", "must be the name of an effect kind");
        return -1;
    }

    return il_query_time(r, &q[IL_Q_SINCE], &l->since) == 0
           && il_query_time(r, &q[IL_Q_UNTIL], &l->until) == 0 ? 0 : -1;
}


void
il_effect_list(il_req_t *r)
{
    il_doc_t          *d;
    il_query_t         q[IL_Q_MAX] = {
        [IL_Q_WORK_KEY] = { .name = "work_key" },
        [IL_Q_STATE] = { .name = "state" },
        [IL_Q_KIND] = { .name = "kind" },
        [IL_Q_SINCE] = { .name = "since" },
        [IL_Q_UNTIL] = { .name = "until" },
        [IL_Q_LIMIT] = { .name = "limit" },
        [IL_Q_CURSOR] = { .name = "cursor" }
    };
    il_effect_list_t  *l;

    d = il_doc_more(r, "select * from interlock.effects_list("
                    "$1, $2, $3, $4, $5, $6, $7, $8)", "ITTTZZIT",
                    il_effect_put_list, il_effect_list_done,
                    sizeof(il_effect_list_t));
    if (d == NULL) {
        return;
    }

    l = d->more;
    l->since = INT64_MIN;
    l->until = INT64_MIN;
    l->limit = IL_DOC_LIMIT;
    l->csv = il_accept_prefers(il_req_param(r, "HTTP_ACCEPT"), "text/csv",
                               "application/json");

    if (il_query_read(r, q, IL_Q_MAX) == 0
        && il_query_int(r, &q[IL_Q_LIMIT], 1, IL_DOC_LIMIT_MAX, &l->limit)
           == 0
        && il_effect_cursor(r, &q[IL_Q_CURSOR], l) == 0
        && il_effect_filters(r, q, l) == 0)
    {
        il_doc_queue(d);
    }
}


/* ---------------------------------------------------------------------- one */


typedef struct {
    il_who_t        who;
    const uint8_t  *id;
    il_str_t        outcome;
} il_effect_act_t;


static void
il_effect_put_id(il_read_t *read, il_db_args_t *args)
{
    il_doc_t         *d = (il_doc_t *) read;
    il_effect_act_t  *a = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_uuid(args, 1, a->id);
}


static void
il_effect_put_act(il_read_t *read, il_db_args_t *args)
{
    il_doc_t         *d = (il_doc_t *) read;
    il_effect_act_t  *a = d->more;

    il_effect_put_id(read, args);

    if (args->n == 8) {
        il_db_put_text(args, 2, a->outcome);
    }

    il_who_put_call(args, args->n - 5, d->r, &a->who);
}


/* A document about the effect in the path; or NULL, and it was answered. */

static il_doc_t *
il_effect_doc(il_req_t *r, const char *sql, const char *signature,
    void (*put)(il_read_t *read, il_db_args_t *args),
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p))
{
    il_doc_t         *d;
    il_effect_act_t  *a;

    d = il_doc_more(r, sql, signature, put, done, sizeof(il_effect_act_t));
    if (d == NULL) {
        return NULL;
    }

    a = d->more;
    d->missing = il_effect_missing;
    a->id = il_effect_uuid(r, r->args[0]);

    if (a->id == NULL) {
        il_req_problem(r, IL_P_NOT_FOUND, il_effect_missing);
        return NULL;
    }

    return d;
}


void
il_effect_get(il_req_t *r)
{
    il_doc_t  *d;

    d = il_effect_doc(r, "select * from interlock.effect_get($1, $2)", "IU",
                      il_effect_put_id, il_doc_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


void
il_effect_check(il_req_t *r)
{
    il_doc_t         *d;
    il_field_t        f[] = { IL_WHO_FIELDS };
    il_effect_act_t  *a;

    d = il_effect_doc(r, "select * from interlock.effect_check_now("
                      "$1, $2, $3, $4, $5, $6, $7)", "IUTTLTU",
                      il_effect_put_act, il_doc_problem_done);
    if (d == NULL) {
        return;
    }

    a = d->more;

    if (il_who_read(r, &a->who, f, 2, 1) == 0) {
        d->status = 202;
        il_doc_queue(d);
    }
}


void
il_effect_resolve(il_req_t *r)
{
    il_doc_t         *d;
    il_field_t        f[] = {
        IL_WHO_FIELDS,
        { .name = "outcome", .types = IL_T_STRING }
    };
    il_effect_act_t  *a;

    d = il_effect_doc(r, "select * from interlock.effect_resolve("
                      "$1, $2, $3, $4, $5, $6, $7, $8)", "IUTTTLTU",
                      il_effect_put_act, il_doc_problem_done);
    if (d == NULL) {
        return;
    }

    a = d->more;

    if (il_who_read(r, &a->who, f, 3, 0) == 0
        && il_body_string(r, &f[2], 64, &a->outcome) == 0)
    {
        il_doc_queue(d);
    }
}
