/*
 * inbox.c: what waits for a person (operator's token; the list with an
 * auditor's too).
 */

#include <string.h>

#include "call.h"
#include "cmds.h"


typedef struct {
    il_common_t  common;
    const char  *assignee;
    const char  *what;
    const char  *state;
    const char  *kind;
    const char  *due;
    int64_t      limit;
    const char  *requested_by;
    const char  *reason;
} il_inbox_opts_t;


static int il_inbox_list(void *opts, const il_args_t *args);
static int il_inbox_act(void *opts, const il_args_t *args);


#define il_inbox_str(field)  IL_OPT_STR, offsetof(il_inbox_opts_t, field)

static const il_opt_t  il_inbox_list_opts[] = {
    { "assignee", il_inbox_str(assignee), "WHO", "what WHO looks after", 0, 0,
      0 },
    { "what", il_inbox_str(what), "WHAT", "job, effect, gap, slot, "
      "kind_paused, source_paused, schedule or queue", 0, 0, 0 },
    { "state", il_inbox_str(state), "STATE", "held, parked, failed, "
      "needs_human, unknown, missing, approval, ...", 0, 0, 0 },
    { "kind", il_inbox_str(kind), "KIND", "about jobs of this kind", 0, 0, 0 },
    { "limit", IL_OPT_INT, offsetof(il_inbox_opts_t, limit), "N",
      "at most so many (1000)", 1, 10000000, 1000 },
    IL_OPT_END
};

static const il_opt_t  il_inbox_assign_opts[] = {
    { "due", il_inbox_str(due), "TIME", "until when (RFC 3339)", 0, 0, 0 },
    { "requested-by", il_inbox_str(requested_by), "WHO",
      "who asks, for the audit (the login name)", 0, 0, 0 },
    { "reason", il_inbox_str(reason), "TEXT", "why, for the audit", 0, 0, 0 },
    IL_OPT_END
};

static const il_opt_t  il_inbox_dismiss_opts[] = {
    { "requested-by", il_inbox_str(requested_by), "WHO",
      "who asks, for the audit (the login name)", 0, 0, 0 },
    { "reason", il_inbox_str(reason), "TEXT", "why, for the audit", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_inbox_list = {
    "inbox list", il_inbox_list, "list what waits for a person",
    "[options]",
    "A line for each, the longest waiting first: id, state, since when, who\n"
    "looks after it, until when, and why.",
    il_inbox_list_opts, sizeof(il_inbox_opts_t), IL_CMD_CLIENT, 0, 0
};

const il_cmd_t  il_cmd_inbox_assign = {
    "inbox assign", il_inbox_act, "say who looks after it",
    "ITEM [WHO] --reason TEXT [options]",
    "Without WHO nobody does any more.  Exit code 75 if it waits for nobody\n"
    "any more.",
    il_inbox_assign_opts, sizeof(il_inbox_opts_t), IL_CMD_CLIENT, 1, 2
};

const il_cmd_t  il_cmd_inbox_dismiss = {
    "inbox dismiss", il_inbox_act, "leave a failed job as it is",
    "ITEM --reason TEXT [options]",
    "Nobody need see to it any more; the job stays failed.  Exit code 75 if it\n"
    "waits for nobody any more, or is none.",
    il_inbox_dismiss_opts, sizeof(il_inbox_opts_t), IL_CMD_CLIENT, 1, 1
};


static int
il_inbox_list(void *opts, const il_args_t *args)
{
    int               rc;
    il_buf_t          path;
    il_inbox_opts_t  *o;

    static const char *const  names[] = {
        "/id", "/state", "/since", "/assignee", "/due", "/why", NULL
    };

    (void) args;

    o = opts;
    memset(&path, 0, sizeof(path));
    il_buf_puts(&path, "/v1/inbox");
    il_call_query(&path, "assignee", o->assignee);
    il_call_query(&path, "what", o->what);
    il_call_query(&path, "state", o->state);
    il_call_query(&path, "kind", o->kind);
    rc = il_call_pages(&o->common, path.data, o->limit, names);
    il_buf_free(&path);

    return rc;
}


/* assign, and dismiss */
static int
il_inbox_act(void *opts, const il_args_t *args)
{
    int               rc, assign;
    il_buf_t          path, body;
    il_inbox_opts_t  *o;

    o = opts;
    assign = (args->cmd == &il_cmd_inbox_assign);

    memset(&path, 0, sizeof(path));
    memset(&body, 0, sizeof(body));

    il_buf_puts(&path, "/v1/inbox");
    rc = il_call_name(&path, args->pos.v[0], "a thing in the inbox");
    il_buf_puts(&path, assign ? "/assign" : "/dismiss");

    il_buf_puts(&body, "{");

    if (rc == 0) {
        rc = il_call_who(&body, args->cmd->name, o->requested_by, o->reason);
    }

    if (assign) {
        il_call_member(&body, "assignee", args->pos.n > 1 ? args->pos.v[1]
                                                          : NULL);
        il_call_member(&body, "due", o->due);
    }

    il_buf_puts(&body, "}");

    if (rc == 0) {
        rc = il_call(&o->common, "POST", path.data, il_buf_str(&body));
    }

    il_buf_free(&path);
    il_buf_free(&body);

    return rc;
}
