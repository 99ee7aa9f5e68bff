/*
 * cancel.c: ask a job to end, or all jobs of a work key (operator's token).
 */

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_answer.h"
#include "il_json.h"
#include "il_key.h"
#include "il_uuid.h"
#include "job.h"


typedef struct {
    il_common_t  common;
    const char  *key;
    const char  *requested_by;
    const char  *reason;
} il_cancel_opts_t;


static int il_cancel(void *opts, const il_args_t *args);


static const il_opt_t  il_cancel_opts[] = {
    { "key", IL_OPT_STR, offsetof(il_cancel_opts_t, key), "KEY",
      "every job of this work key that has not ended", 0, 0, 0 },
    { "requested-by", IL_OPT_STR, offsetof(il_cancel_opts_t, requested_by),
      "WHO", "who asks, for the audit (the login name)", 0, 0, 0 },
    { "reason", IL_OPT_STR, offsetof(il_cancel_opts_t, reason), "TEXT",
      "why, for the audit", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_cancel = {
    "cancel", il_cancel, "end a job, or all jobs of a work key",
    "JOB | --key KEY [options]",
    "A job that waits is canceled at once; one that runs is asked to end, and\n"
    "its lease ends at the latest after the kind's cancel_grace.  With --key\n"
    "those that wait go first, so that none starts in between.  Exit code 75\n"
    "if the job had ended already, 66 if there is nothing to cancel.",
    il_cancel_opts, sizeof(il_cancel_opts_t), IL_CMD_CLIENT, 0, 1
};


/* In the order in which jobs of a key are canceled. */
static const char *const  il_cancel_states[] = {
    "parked", "queued", "held", "checking", "running", NULL
};


typedef struct {
    const il_cancel_opts_t  *o;
    il_http_t                h;
    il_buf_t                 body;
    il_buf_t                 items;     /* canceled jobs, joined by commas */
    size_t                   n;
} il_cancel_t;


static void
il_cancel_body(il_cancel_t *c)
{
    il_buf_puts(&c->body, "{");
    il_call_member(&c->body, "requested_by", c->o->requested_by != NULL
                   ? c->o->requested_by : il_call_login());
    il_call_member(&c->body, "reason", c->o->reason);
    il_buf_puts(&c->body, "}");
}


/* 0 or an exit code; one of several that has ended meanwhile is no error. */
static int
il_cancel_one(il_cancel_t *c, const char *id, int several)
{
    int    rc;
    char   path[sizeof("/v1/jobs//cancel") + IL_UUID_TEXT];
    char  *problem;

    (void) snprintf(path, sizeof(path), "/v1/jobs/%s/cancel", id);
    rc = il_http_call(&c->h, "POST", path, il_buf_str(&c->body),
                      IL_JOB_TIMEOUT);

    if (several && rc == 0 && c->h.answer.status == 409) {
        problem = il_http_problem(&c->h.answer);
        rc = (problem != NULL && strcmp(problem, "job-final") == 0);
        free(problem);

        if (rc) {
            return 0;
        }
    }

    rc = il_http_check(&c->h, rc, c->o->common.json);

    if (rc == 0) {
        il_buf_puts(&c->items, c->n++ == 0 ? "" : ",");
        il_buf_add(&c->items, c->h.answer.body.data, c->h.answer.body.len);
    }

    return rc;
}


/* Cancels the jobs of one page; *next is its cursor, or NULL at the end. */
static int
il_cancel_page(il_cancel_t *c, const char *key, const char *state,
    char **next)
{
    int              rc;
    char            *id, *cursor, enc[4096];
    size_t           pos, len;
    il_str_t         name, text;
    il_buf_t         path, page;
    il_json_value_t  items, item;

    memset(&path, 0, sizeof(path));
    memset(&page, 0, sizeof(page));
    cursor = *next;
    *next = NULL;

    il_buf_printf(&path, "/v1/jobs?limit=200&status=%s&work_key=%s", state,
                  key);

    if (cursor != NULL) {
        len = il_path_encode(enc, sizeof(enc), il_cstr(cursor));
        il_buf_puts(&path, "&cursor=");
        il_buf_add(&path, enc, len);
        free(cursor);
    }

    rc = il_http_call(&c->h, "GET", path.data, il_str("", 0),
                      IL_JOB_TIMEOUT);
    rc = il_http_check(&c->h, rc, c->o->common.json);
    il_buf_free(&path);

    if (rc != 0) {
        return rc;
    }

    il_buf_add(&page, c->h.answer.body.data, c->h.answer.body.len);
    text = il_buf_str(&page);
    *next = il_json_text(text, "/next");
    pos = 0;

    if (il_json_find(text, il_cstr("/items"), &items) != IL_JSON_OK) {
        il_err("the server's answer has no items");
        rc = EX_PROTOCOL;
    }

    while (rc == 0 && il_json_next(items, &pos, &name, &item)) {
        id = il_json_text(item.raw, "/job_id");
        rc = (id == NULL) ? EX_PROTOCOL : il_cancel_one(c, id, 1);
        free(id);
    }

    il_buf_free(&page);

    return rc;
}


static int
il_cancel_key(il_cancel_t *c)
{
    int                 rc;
    char                enc[3 * IL_KEY_MAX + 1], *next;
    size_t              len;
    il_key_rc_e         krc;
    const char *const  *state;

    krc = il_key_check(il_cstr(c->o->key));

    if (krc != IL_KEY_OK) {
        il_err("not a work key: %s: %s", il_key_strerror(krc), c->o->key);
        return EX_USAGE;
    }

    len = il_path_encode(enc, sizeof(enc) - 1, il_cstr(c->o->key));
    enc[len] = '\0';
    rc = 0;

    for (state = il_cancel_states; rc == 0 && *state != NULL; state++) {
        next = NULL;

        do {
            rc = il_cancel_page(c, enc, *state, &next);
        } while (rc == 0 && next != NULL);

        free(next);
    }

    if (rc == 0 && c->n == 0) {
        il_err("no job of this key is open: %s", c->o->key);
        rc = EX_NOINPUT;
    }

    return rc;
}


static int
il_cancel_job(il_cancel_t *c, const char *job)
{
    int   rc;
    char  id[IL_UUID_TEXT + 1];

    rc = il_call_id(id, job, "a job's");
    if (rc != 0) {
        return rc;
    }

    return il_cancel_one(c, id, 0);
}


/* A job's, or a list of several; what was canceled before a failure, too. */
static void
il_cancel_print(const il_cancel_t *c)
{
    il_buf_t  list;

    if (c->n == 0) {
        return;
    }

    memset(&list, 0, sizeof(list));

    if (c->o->key == NULL) {
        il_buf_add(&list, c->items.data, c->items.len);

    } else {
        il_buf_puts(&list, "{\"items\":[");
        il_buf_add(&list, c->items.data, c->items.len);
        il_buf_puts(&list, "],\"next\":null}");
    }

    if (c->o->common.json) {
        il_out_line(stdout, il_buf_str(&list));

    } else {
        il_out_human(stdout, il_buf_str(&list));
    }

    il_buf_free(&list);
}


static int
il_cancel(void *opts, const il_args_t *args)
{
    int          rc;
    il_cancel_t  c;

    memset(&c, 0, sizeof(c));
    c.o = opts;

    if ((args->pos.n == 1) == (c.o->key != NULL)) {
        il_err("cancel: name a job, or a work key by --key");
        return EX_USAGE;
    }

    il_cancel_body(&c);
    rc = il_http_open(&c.h, &c.o->common, 1);

    if (rc == 0) {
        rc = c.o->key != NULL ? il_cancel_key(&c)
                              : il_cancel_job(&c, args->pos.v[0]);
    }

    il_cancel_print(&c);

    il_http_close(&c.h);
    il_buf_free(&c.body);
    il_buf_free(&c.items);

    return il_out_end(rc);
}
