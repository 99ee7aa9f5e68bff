/*
 * gaps.c: slots whose work is not done (operator's token; the list with an
 * auditor's too).
 */

#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_uuid.h"


typedef struct {
    il_common_t  common;
    const char  *schedule;
    const char  *state;
    int64_t      limit;
    const char  *requested_by;
    const char  *reason;
} il_gaps_opts_t;


static int il_gaps_list(void *opts, const il_args_t *args);
static int il_gaps_act(void *opts, const il_args_t *args);


#define il_gaps_str(field)  IL_OPT_STR, offsetof(il_gaps_opts_t, field)

static const il_opt_t  il_gaps_list_opts[] = {
    { "schedule", il_gaps_str(schedule), "NAME", "those of this schedule", 0,
      0, 0 },
    { "state", il_gaps_str(state), "STATE",
      "open, approved, dismissed or closed (open)", 0, 0, 0 },
    { "limit", IL_OPT_INT, offsetof(il_gaps_opts_t, limit), "N",
      "at most so many (1000)", 1, 10000000, 1000 },
    IL_OPT_END
};

static const il_opt_t  il_gaps_act_opts[] = {
    { "requested-by", il_gaps_str(requested_by), "WHO",
      "who asks, for the audit (the login name)", 0, 0, 0 },
    { "reason", il_gaps_str(reason), "TEXT", "why, for the audit", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_gaps_list = {
    "gaps list", il_gaps_list, "list the slots whose work is not done",
    "[options]",
    "A line for each: id, schedule, business date, subject, since when, state\n"
    "and why.  A gap closes by itself once its work is done.",
    il_gaps_list_opts, sizeof(il_gaps_opts_t), IL_CMD_CLIENT, 0, 0
};

const il_cmd_t  il_cmd_gaps_approve = {
    "gaps approve", il_gaps_act, "run what a gap lacks",
    "GAP --reason TEXT [options]",
    "Asks for the work of a gap's slot now.  Exit code 75 if the gap is not\n"
    "open any more.",
    il_gaps_act_opts, sizeof(il_gaps_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_gaps_dismiss = {
    "gaps dismiss", il_gaps_act, "say that a gap is to stay",
    "GAP --reason TEXT [options]",
    "The work of its slot is not to be done.  Exit code 75 if the gap is not\n"
    "open any more.",
    il_gaps_act_opts, sizeof(il_gaps_opts_t), IL_CMD_CLIENT, 1, 1
};


static int
il_gaps_list(void *opts, const il_args_t *args)
{
    int              rc;
    il_buf_t         path;
    il_gaps_opts_t  *o;

    static const char *const  names[] = {
        "/gap_id", "/schedule", "/business_date", "/subject", "/since",
        "/state", "/why", NULL
    };

    (void) args;

    o = opts;
    memset(&path, 0, sizeof(path));
    il_buf_puts(&path, "/v1/gaps");
    il_call_query(&path, "schedule", o->schedule);
    il_call_query(&path, "state", o->state);
    rc = il_call_pages(&o->common, path.data, o->limit, names);
    il_buf_free(&path);

    return rc;
}


/* approve, and dismiss */
static int
il_gaps_act(void *opts, const il_args_t *args)
{
    int              rc;
    char             path[sizeof("/v1/gaps//approve") + IL_UUID_TEXT];
    char             id[IL_UUID_TEXT + 1];
    il_buf_t         body;
    il_gaps_opts_t  *o;

    o = opts;

    rc = il_call_id(id, args->pos.v[0], "a gap's");
    if (rc != 0) {
        return rc;
    }

    (void) snprintf(path, sizeof(path), "/v1/gaps/%s/%s", id,
                    args->cmd == &il_cmd_gaps_approve ? "approve"
                                                      : "dismiss");
    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{");
    rc = il_call_who(&body, args->cmd->name, o->requested_by, o->reason);
    il_buf_puts(&body, "}");

    if (rc == 0) {
        rc = il_call(&o->common, "POST", path, il_buf_str(&body));
    }

    il_buf_free(&body);

    return rc;
}
