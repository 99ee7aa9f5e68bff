/*
 * redrive.c: failed jobs run again, as many as a filter means (operator's
 * token).  First a plan, which changes nothing; then just that plan.
 */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "cmds.h"
#include "il_json.h"
#include "il_key.h"
#include "il_time.h"
#include "il_uuid.h"

#define IL_REDRIVE_TRY_MS  120000   /* a plan is gone on with for so long */


typedef struct {
    il_common_t  common;
    const char  *kind;
    const char  *key;
    const char  *error;
    const char  *since;
    const char  *until;
    il_list_t    jobs;
    int64_t      max;
    int          succeeded_since;
    const char  *plan;
    const char  *requested_by;
    const char  *reason;
    int          yes;
} il_redrive_opts_t;


static int il_redrive(void *opts, const il_args_t *args);


#define il_redrive_str(field)  IL_OPT_STR, offsetof(il_redrive_opts_t, field)

static const il_opt_t  il_redrive_opts[] = {
    { "kind", il_redrive_str(kind), "NAME", "jobs of this kind", 0, 0, 0 },
    { "key", il_redrive_str(key), "KEY", "jobs of this work key", 0, 0, 0 },
    { "error", il_redrive_str(error), "TEXT",
      "jobs whose error has this text in it", 0, 0, 0 },
    { "since", il_redrive_str(since), "TIME",
      "jobs that failed since then (RFC 3339, or an age like 30m, 6h, 2d)",
      0, 0, 0 },
    { "until", il_redrive_str(until), "TIME", "and until then", 0, 0, 0 },
    { "job", IL_OPT_LIST, offsetof(il_redrive_opts_t, jobs), "JOB",
      "just this job; may be repeated", 0, 0, 0 },
    { "max", IL_OPT_INT, offsetof(il_redrive_opts_t, max), "N",
      "the oldest N of them (10000)", 1, 10000, 0 },
    { "succeeded-since", IL_OPT_FLAG,
      offsetof(il_redrive_opts_t, succeeded_since), NULL,
      "also jobs of a work key that a later job of it has succeeded for", 0,
      0, 0 },
    { "plan", il_redrive_str(plan), "ID", "run the jobs of this plan again",
      0, 0, 0 },
    { "yes", IL_OPT_FLAG, offsetof(il_redrive_opts_t, yes), NULL,
      "run the jobs of the new plan again at once", 0, 0, 0 },
    { "requested-by", il_redrive_str(requested_by), "WHO",
      "who asks, for the audit (the login name)", 0, 0, 0 },
    { "reason", il_redrive_str(reason), "TEXT", "why, for the audit", 0, 0,
      0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_redrive = {
    "redrive", il_redrive, "run failed jobs again",
    "[FILTER...] [--yes] [--plan ID] [--reason TEXT]",
    "Shows which failed jobs all of the filters mean: a plan, which changes\n"
    "nothing.  With --plan the jobs of that plan are queued again, each if it\n"
    "is still failed and its work key permits it; --yes does so at once.\n"
    "What has succeeded since, by a later job, is counted and left out.\n"
    "Running a plan twice does no harm.  Exit code 66 if there is no such job.",
    il_redrive_opts, sizeof(il_redrive_opts_t), IL_CMD_CLIENT, 0, 0
};


/* RFC 3339 goes as it is; an age (30m) becomes the time that long ago. */
static int
il_redrive_time(il_buf_t *b, const char *name, const char *text)
{
    char      when[IL_RFC3339_CAP];
    size_t    len;
    int64_t   n, unit, ms;

    if (text == NULL) {
        return 0;
    }

    if (il_rfc3339_parse(il_cstr(text), &ms) == 0) {
        il_call_member(b, name, text);
        return 0;
    }

    len = strlen(text);
    unit = 0;

    if (len > 1) {
        switch (text[len - 1]) {
        case 's': unit = 1; break;
        case 'm': unit = 60; break;
        case 'h': unit = 3600; break;
        case 'd': unit = 86400; break;
        }
    }

    if (unit == 0
        || il_digits_parse(il_str(text, len - 1), 6, &n) != 0
        || il_rfc3339_format(when, sizeof(when),
                             ((int64_t) time(NULL) - n * unit) * 1000) == 0)
    {
        il_err("redrive: --%s: neither a time like 2026-07-24T09:00:00Z nor"
               " an age like 30m, 6h, 2d: %s", name, text);
        return EX_USAGE;
    }

    il_call_member(b, name, when);

    return 0;
}


static int
il_redrive_ids(il_buf_t *b, const il_list_t *jobs)
{
    int   rc;
    char  id[IL_UUID_TEXT + 1];

    if (jobs->n == 0) {
        return 0;
    }

    il_buf_puts(b, b->len == 1 ? "\"job_ids\":" : ",\"job_ids\":");

    for (size_t i = 0; i < jobs->n; i++) {
        rc = il_call_id(id, jobs->v[i], "a job's");
        if (rc != 0) {
            return rc;
        }

        il_buf_puts(b, i == 0 ? "[" : ",");
        il_buf_json(b, il_cstr(id));
    }

    il_buf_puts(b, "]");

    return 0;
}


/* The filter as a JSON object; "{}" means every failed job. */
static int
il_redrive_filter(il_buf_t *b, const il_redrive_opts_t *o)
{
    int  rc;

    if (o->key != NULL && il_key_check(il_cstr(o->key)) != IL_KEY_OK) {
        il_err("not a work key: %s: %s",
               il_key_strerror(il_key_check(il_cstr(o->key))), o->key);
        return EX_USAGE;
    }

    il_buf_puts(b, "{");
    il_call_member(b, "kind", o->kind);
    il_call_member(b, "work_key", o->key);
    il_call_member(b, "error", o->error);
    rc = il_redrive_time(b, "since", o->since);

    if (rc == 0) {
        rc = il_redrive_time(b, "until", o->until);
    }

    if (rc == 0) {
        rc = il_redrive_ids(b, &o->jobs);
    }

    if (rc == 0 && o->max != 0) {
        il_buf_printf(b, "%s\"max\":%lld", b->len == 1 ? "" : ",",
                      (long long) o->max);
    }

    if (o->succeeded_since) {
        il_buf_printf(b, "%s\"succeeded_since\":true",
                      b->len == 1 ? "" : ",");
    }

    il_buf_puts(b, "}");

    return rc;
}


/* The jobs that a plan leaves out: a later one has succeeded. */
static void
il_redrive_left_out(il_str_t doc)
{
    char             *id;
    size_t            pos;
    int64_t           count;
    il_str_t          name;
    il_json_value_t   ids, item;

    count = il_json_int(doc, "/succeeded_since/count", 0);
    pos = 0;

    if (count == 0) {
        return;
    }

    (void) printf("left out: %lld whose work key a later job has succeeded"
                  " for since (--succeeded-since takes them, too)%s\n",
                  (long long) count, count > 200 ? ", the first 200:" : ":");

    if (il_json_find(doc, il_cstr("/succeeded_since/job_ids"), &ids)
        != IL_JSON_OK || ids.type != IL_JSON_ARRAY)
    {
        return;
    }

    while (il_json_next(ids, &pos, &name, &item)) {
        id = il_json_text(item.raw, "");
        (void) fputs("  ", stdout);
        il_out_clean(stdout, id == NULL ? "-" : id, 200);
        (void) fputc('\n', stdout);
        free(id);
    }
}


static void
il_redrive_show(const il_redrive_opts_t *o, il_str_t doc, int planned)
{
    char     *id;
    int64_t   count;

    static const char *const  jobs[] = {
        "/job_id", "/kind", "/work_key", "/finished_at", "/error", NULL
    };
    static const char *const  skipped[] = { "/job_id", "/reason", NULL };

    if (o->common.json) {
        il_out_line(stdout, doc);
        return;
    }

    id = il_json_text(doc, "/plan_id");

    if (planned) {
        count = il_json_int(doc, "/count", 0);
        (void) printf("plan %s: %lld failed jobs%s\n", id == NULL ? "?" : id,
                      (long long) count, count > 200 ? ", the first 200:"
                                                     : "");
        il_call_lines(doc, "/jobs", jobs);
        il_redrive_left_out(doc);

    } else {
        (void) printf("plan %s: %lld jobs queued again\n",
                      id == NULL ? "?" : id,
                      (long long) il_json_int(doc, "/redriven", 0));
        il_call_lines(doc, "/skipped", skipped);
    }

    free(id);
}


static int
il_redrive_act(il_http_t *h, const il_redrive_opts_t *o, const char *plan)
{
    int  rc;

    rc = il_call_plan(h, &o->common, "redrive", "/v1/redrive", plan,
                      o->requested_by, o->reason, IL_REDRIVE_TRY_MS);
    if (rc == 0) {
        il_redrive_show(o, il_buf_str(&h->answer.body), 0);
    }

    return rc;
}


static int
il_redrive_plan(il_http_t *h, const il_redrive_opts_t *o, il_str_t filter)
{
    int        rc;
    char      *plan;
    int64_t    count;
    il_buf_t   body;

    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{\"filter\":");
    il_buf_add(&body, filter.data, filter.len);
    il_call_member(&body, "requested_by", o->requested_by);
    il_call_member(&body, "reason", o->reason);
    il_buf_puts(&body, "}");
    rc = il_call_on(h, &o->common, "POST", "/v1/redrive", il_buf_str(&body));
    il_buf_free(&body);

    if (rc != 0) {
        return rc;
    }

    plan = il_json_text(il_buf_str(&h->answer.body), "/plan_id");
    count = il_json_int(il_buf_str(&h->answer.body), "/count", 0);

    if (plan == NULL) {
        il_err("the server's answer has no plan");
        return EX_PROTOCOL;
    }

    if (count == 0 || !o->yes || !o->common.json) {
        il_redrive_show(o, il_buf_str(&h->answer.body), 1);
    }

    if (count == 0) {
        rc = EX_NOINPUT;

    } else if (o->yes) {
        rc = il_redrive_act(h, o, plan);

    } else if (!o->common.json) {
        il_err("nothing has changed; to run these again: interlock redrive"
               " --plan %s --reason TEXT", plan);
    }

    free(plan);

    return rc;
}


static int
il_redrive_usage(const il_redrive_opts_t *o, const char *filter)
{
    int  empty;

    /* (to leave nothing out is no filter) */

    empty = (strcmp(filter, "{}") == 0
             || strcmp(filter, "{\"succeeded_since\":true}") == 0);

    if (o->plan != NULL && (!empty || o->yes || o->succeeded_since)) {
        il_err("redrive: a plan has its filter already: --plan goes with"
               " --reason and --requested-by only");
        return EX_USAGE;
    }

    if (o->yes && empty) {
        il_err("redrive: --yes needs a filter: look at the plan for all failed"
               " jobs first");
        return EX_USAGE;
    }

    if ((o->yes || o->plan != NULL)
        && (o->reason == NULL || o->reason[0] == '\0'))
    {
        il_err("redrive: --reason is needed");
        return EX_USAGE;
    }

    return 0;
}


static int
il_redrive(void *opts, const il_args_t *args)
{
    int                 rc;
    il_buf_t            filter;
    il_http_t           h;
    il_redrive_opts_t  *o;

    (void) args;

    o = opts;
    memset(&filter, 0, sizeof(filter));
    rc = il_redrive_filter(&filter, o);

    if (rc == 0) {
        rc = il_redrive_usage(o, filter.data);
    }

    if (rc == 0) {
        rc = il_http_open(&h, &o->common, 1);

        if (rc == 0) {
            rc = o->plan != NULL ? il_redrive_act(&h, o, o->plan)
                                 : il_redrive_plan(&h, o,
                                                   il_buf_str(&filter));
        }

        il_http_close(&h);
    }

    il_buf_free(&filter);

    return il_out_end(rc);
}
