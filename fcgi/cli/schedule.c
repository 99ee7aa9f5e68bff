/*
 * schedule.c: schedules over HTTP (operator's token; get, list and slots with
 * an auditor's too).
 */

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_json.h"
#include "il_key.h"
#include "il_uuid.h"

#define IL_SCHEDULE_DOC_MAX  (32 * 1024 * 1024)
#define IL_SCHEDULE_TRY_MS   120000     /* a plan is gone on with so long */


typedef struct {
    il_common_t  common;
    const char  *date;
    const char  *from;
    const char  *to;
    il_list_t    subjects;
    const char  *plan;
    int          yes;
    int64_t      limit;
    const char  *requested_by;
    const char  *reason;
} il_schedule_opts_t;


static int il_schedule_list(void *opts, const il_args_t *args);
static int il_schedule_get(void *opts, const il_args_t *args);
static int il_schedule_put(void *opts, const il_args_t *args);
static int il_schedule_delete(void *opts, const il_args_t *args);
static int il_schedule_pause(void *opts, const il_args_t *args);
static int il_schedule_slots(void *opts, const il_args_t *args);
static int il_schedule_run(void *opts, const il_args_t *args);
static int il_schedule_backfill(void *opts, const il_args_t *args);


#define il_schedule_str(field)  IL_OPT_STR, offsetof(il_schedule_opts_t, field)

#define IL_SCHEDULE_WHO                                                      \
    { "requested-by", il_schedule_str(requested_by), "WHO",                  \
      "who asks, for the audit (the login name)", 0, 0, 0 },                 \
    { "reason", il_schedule_str(reason), "TEXT", "why, for the audit", 0, 0, \
      0 }

static const il_opt_t  il_schedule_opts[] = {
    IL_OPT_END
};

static const il_opt_t  il_schedule_who_opts[] = {
    IL_SCHEDULE_WHO,
    IL_OPT_END
};

static const il_opt_t  il_schedule_slots_opts[] = {
    { "from", il_schedule_str(from), "DATE",
      "business dates from this one on, like 2026-07-24", 0, 0, 0 },
    { "to", il_schedule_str(to), "DATE", "and to this one", 0, 0, 0 },
    { "limit", IL_OPT_INT, offsetof(il_schedule_opts_t, limit), "N",
      "at most so many slots (1000)", 1, 10000000, 1000 },
    IL_OPT_END
};

static const il_opt_t  il_schedule_run_opts[] = {
    { "date", il_schedule_str(date), "DATE",
      "the business date, like 2026-07-24", 0, 0, 0 },
    { "subject", IL_OPT_LIST, offsetof(il_schedule_opts_t, subjects), "NAME",
      "only this subject; may be repeated (all)", 0, 0, 0 },
    IL_SCHEDULE_WHO,
    IL_OPT_END
};

static const il_opt_t  il_schedule_backfill_opts[] = {
    { "from", il_schedule_str(from), "DATE",
      "the first business date, like 2026-07-01", 0, 0, 0 },
    { "to", il_schedule_str(to), "DATE", "the last one", 0, 0, 0 },
    { "subject", IL_OPT_LIST, offsetof(il_schedule_opts_t, subjects), "NAME",
      "only this subject; may be repeated (all)", 0, 0, 0 },
    { "plan", il_schedule_str(plan), "ID", "run what this plan names", 0, 0,
      0 },
    { "yes", IL_OPT_FLAG, offsetof(il_schedule_opts_t, yes), NULL,
      "run what the new plan names at once", 0, 0, 0 },
    IL_SCHEDULE_WHO,
    IL_OPT_END
};


const il_cmd_t  il_cmd_schedule_list = {
    "schedule list", il_schedule_list, "list the schedules", "",
    "Shows every schedule with the time of its next slot.  Needs an operator's\n"
    "or auditor's token, as get does.",
    il_schedule_opts, sizeof(il_schedule_opts_t), IL_CMD_CLIENT, 0, 0
};

const il_cmd_t  il_cmd_schedule_get = {
    "schedule get", il_schedule_get, "show one schedule", "NAME",
    "Shows one schedule.",
    il_schedule_opts, sizeof(il_schedule_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_schedule_put = {
    "schedule put", il_schedule_put, "create or change a schedule",
    "NAME FILE",
    "Reads a JSON object from FILE (- for standard input) and makes or\n"
    "changes the schedule.  No slot of the former definition fires any more,\n"
    "and the new one catches nothing up.",
    il_schedule_opts, sizeof(il_schedule_opts_t), IL_CMD_CLIENT, 2, 2
};

const il_cmd_t  il_cmd_schedule_delete = {
    "schedule delete", il_schedule_delete, "delete a schedule", "NAME",
    "No slot of it fires any more.  What became of its slots stays.",
    il_schedule_opts, sizeof(il_schedule_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_schedule_pause = {
    "schedule pause", il_schedule_pause, "stop a schedule for a while",
    "NAME --reason TEXT [options]",
    "No slot fires until it is resumed.",
    il_schedule_who_opts, sizeof(il_schedule_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_schedule_resume = {
    "schedule resume", il_schedule_pause, "let a schedule go on",
    "NAME --reason TEXT [options]",
    "Lets a paused schedule go on with its next slot.",
    il_schedule_who_opts, sizeof(il_schedule_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_schedule_slots = {
    "schedule slots", il_schedule_slots, "show what became of the slots",
    "NAME [options]",
    "A line for each slot and subject: business date, subject, state, why,\n"
    "last success, counts processed and failed, delay in seconds, whether its\n"
    "result was generated, and delivered (\"-\": not known, or not asked for).",
    il_schedule_slots_opts, sizeof(il_schedule_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_schedule_run = {
    "schedule run", il_schedule_run, "run one date now",
    "NAME --date DATE --reason TEXT [options]",
    "Asks for the work of this date, under that date's work keys.  The\n"
    "schedule's next slot fires all the same.",
    il_schedule_run_opts, sizeof(il_schedule_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_schedule_backfill = {
    "schedule backfill", il_schedule_backfill, "run the dates of a range",
    "NAME --from DATE --to DATE [--yes]|--plan ID",
    "Shows what a range means: a plan, which runs nothing.  With --plan just\n"
    "that is run; --yes does so at once.  Running a plan twice does no harm.\n"
    "Exit code 66 if there is nothing to run.",
    il_schedule_backfill_opts, sizeof(il_schedule_opts_t), IL_CMD_CLIENT, 1, 1
};


/* Starts a path: the schedules, or one of them (name), or a part of it. */
static int
il_schedule_path(il_buf_t *path, const char *name, const char *part)
{
    memset(path, 0, sizeof(*path));
    il_buf_puts(path, "/v1/schedules");

    if (name == NULL) {
        return 0;
    }

    if (!il_name_valid(il_cstr(name))) {
        il_err("not a name of a schedule (a-z, 0-9, \".\", \"_\", \"-\";"
               " at most %d): %s", IL_NAME_MAX, name);
        return EX_USAGE;
    }

    il_buf_puts(path, "/");
    il_buf_puts(path, name);
    il_buf_puts(path, part);

    return 0;
}


static int
il_schedule_call(const il_schedule_opts_t *o, const char *method,
    const char *name, const char *part, il_str_t body)
{
    int       rc;
    il_buf_t  path;

    rc = il_schedule_path(&path, name, part);

    if (rc == 0) {
        rc = il_call(&o->common, method, path.data, body);
    }

    il_buf_free(&path);

    return rc;
}


/* A line each: what a list of whole schedules, with all their subjects, would
 * hide. */
static int
il_schedule_list(void *opts, const il_args_t *args)
{
    int                  rc;
    il_http_t            h;
    il_schedule_opts_t  *o;

    static const char *const  names[] = {
        "/name", "/cron", "/zone", "/kind", "/paused", "/next_at", NULL
    };

    (void) args;

    o = opts;
    rc = il_http_open(&h, &o->common, 1);

    if (rc == 0) {
        rc = il_call_on(&h, &o->common, "GET", "/v1/schedules",
                        il_str("", 0));
    }

    if (rc == 0 && o->common.json) {
        il_out_line(stdout, il_buf_str(&h.answer.body));

    } else if (rc == 0) {
        il_call_lines(il_buf_str(&h.answer.body), "/items", names);
    }

    il_http_close(&h);

    return il_out_end(rc);
}


static int
il_schedule_get(void *opts, const il_args_t *args)
{
    return il_schedule_call(opts, "GET", args->pos.v[0], "", il_str("", 0));
}


static int
il_schedule_put(void *opts, const il_args_t *args)
{
    int       rc;
    il_buf_t  b;

    memset(&b, 0, sizeof(b));
    rc = il_file_read(&b, args->pos.v[1], IL_SCHEDULE_DOC_MAX);

    if (rc == 0 && il_json_check(il_buf_str(&b)) != IL_JSON_OK) {
        il_err("%s is not JSON", args->pos.v[1]);
        rc = EX_DATAERR;
    }

    if (rc == 0) {
        rc = il_schedule_call(opts, "PUT", args->pos.v[0], "",
                              il_buf_str(&b));
    }

    il_buf_free(&b);

    return rc;
}


static int
il_schedule_delete(void *opts, const il_args_t *args)
{
    return il_schedule_call(opts, "DELETE", args->pos.v[0], "",
                            il_str("", 0));
}


/* pause, and resume */
static int
il_schedule_pause(void *opts, const il_args_t *args)
{
    int                  rc, resume;
    il_buf_t             body;
    il_schedule_opts_t  *o;

    o = opts;
    resume = (args->cmd == &il_cmd_schedule_resume);
    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{");
    rc = il_call_who(&body, args->cmd->name, o->requested_by, o->reason);
    il_buf_puts(&body, "}");

    if (rc == 0) {
        rc = il_schedule_call(o, "POST", args->pos.v[0],
                              resume ? "/resume" : "/pause",
                              il_buf_str(&body));
    }

    il_buf_free(&body);

    return rc;
}


static int
il_schedule_slots(void *opts, const il_args_t *args)
{
    int                  rc;
    il_buf_t             path;
    il_schedule_opts_t  *o;

    static const char *const  names[] = {
        "/business_date", "/subject", "/state", "/reason", "/last_success",
        "/processed", "/failed", "/delay_seconds", "/generated", "/delivered",
        NULL
    };

    o = opts;
    rc = il_schedule_path(&path, args->pos.v[0], "/slots");

    if (rc == 0) {
        il_call_query(&path, "from", o->from);
        il_call_query(&path, "to", o->to);
        rc = il_call_pages(&o->common, path.data, o->limit, names);
    }

    il_buf_free(&path);

    return rc;
}


static int
il_schedule_run(void *opts, const il_args_t *args)
{
    int                  rc;
    il_buf_t             body;
    il_schedule_opts_t  *o;

    o = opts;

    if (o->date == NULL) {
        il_err("schedule run: --date is needed");
        return EX_USAGE;
    }

    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{");
    il_call_member(&body, "date", o->date);
    il_call_strings(&body, "subjects", &o->subjects);
    rc = il_call_who(&body, "schedule run", o->requested_by, o->reason);
    il_buf_puts(&body, "}");

    if (rc == 0) {
        rc = il_schedule_call(o, "POST", args->pos.v[0], "/run",
                              il_buf_str(&body));
    }

    il_buf_free(&body);

    return rc;
}


/* ---------------------------------------------------------------- backfill */


static int
il_schedule_act(il_http_t *h, const il_schedule_opts_t *o, const char *path,
    const char *plan)
{
    int  rc;

    rc = il_call_plan(h, &o->common, "schedule backfill", path, plan,
                      o->requested_by, o->reason, IL_SCHEDULE_TRY_MS);
    if (rc == 0) {
        il_call_print(&o->common, il_buf_str(&h->answer.body));
    }

    return rc;
}


static int
il_schedule_plan(il_http_t *h, const il_schedule_opts_t *o, const char *name,
    const char *path)
{
    int        rc;
    char      *plan;
    int64_t    count;
    il_buf_t   body;

    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{");
    il_call_member(&body, "from", o->from);
    il_call_member(&body, "to", o->to);
    il_call_strings(&body, "subjects", &o->subjects);
    il_call_member(&body, "requested_by", o->requested_by);
    il_call_member(&body, "reason", o->reason);
    il_buf_puts(&body, "}");
    rc = il_call_on(h, &o->common, "POST", path, il_buf_str(&body));
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
        il_call_print(&o->common, il_buf_str(&h->answer.body));
    }

    if (count == 0) {
        rc = EX_NOINPUT;

    } else if (o->yes) {
        rc = il_schedule_act(h, o, path, plan);

    } else if (!o->common.json) {
        il_err("nothing was run; to run this: interlock schedule backfill %s"
               " --plan %s --reason TEXT", name, plan);
    }

    free(plan);

    return rc;
}


static int
il_schedule_backfill(void *opts, const il_args_t *args)
{
    int                  rc;
    il_buf_t             path;
    il_http_t            h;
    il_schedule_opts_t  *o;

    o = opts;

    if (o->plan != NULL
        ? (o->from != NULL || o->to != NULL || o->yes || o->subjects.n > 0)
        : (o->from == NULL || o->to == NULL))
    {
        il_err("schedule backfill: give --from and --to, or the --plan that"
               " they made");
        return EX_USAGE;
    }

    if ((o->yes || o->plan != NULL)
        && (o->reason == NULL || o->reason[0] == '\0'))
    {
        il_err("schedule backfill: --reason is needed");
        return EX_USAGE;
    }

    rc = il_schedule_path(&path, args->pos.v[0], "/backfill");

    if (rc == 0) {
        rc = il_http_open(&h, &o->common, 1);

        if (rc == 0) {
            rc = o->plan != NULL
                 ? il_schedule_act(&h, o, path.data, o->plan)
                 : il_schedule_plan(&h, o, args->pos.v[0], path.data);
        }

        il_http_close(&h);
    }

    il_buf_free(&path);

    return il_out_end(rc);
}
