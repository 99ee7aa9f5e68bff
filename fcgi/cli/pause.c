/*
 * pause.c: what stands still until somebody resumes it: the claims of a kind,
 * the requests of a source (operator's token).
 */

#include <string.h>

#include "call.h"
#include "cmds.h"


typedef struct {
    il_common_t  common;
    const char  *requested_by;
    const char  *reason;
} il_pause_opts_t;


static int il_pause_run(void *opts, const il_args_t *args);
static int il_pause_list(void *opts, const il_args_t *args);


static const il_opt_t  il_pause_opts[] = {
    { "reason", IL_OPT_STR, offsetof(il_pause_opts_t, reason), "TEXT",
      "why, for the audit", 0, 0, 0 },
    { "requested-by", IL_OPT_STR, offsetof(il_pause_opts_t, requested_by),
      "WHO", "who asks, for the audit (the login name)", 0, 0, 0 },
    IL_OPT_END
};

static const il_opt_t  il_pause_list_opts[] = {
    IL_OPT_END
};


const il_cmd_t  il_cmd_kind_pause = {
    "kind pause", il_pause_run, "stop the claims of a kind",
    "NAME --reason TEXT [options]",
    "Submissions go on and wait; what runs goes on; nothing of the kind is\n"
    "claimed until somebody resumes it.",
    il_pause_opts, sizeof(il_pause_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_kind_resume = {
    "kind resume", il_pause_run, "let the claims of a kind go on",
    "NAME --reason TEXT [options]",
    "Also for a kind that its stop_at has stopped.",
    il_pause_opts, sizeof(il_pause_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_source_list = {
    "source list", il_pause_list, "list the sources that are paused", "",
    "Shows them with who paused them, since when and why.",
    il_pause_list_opts, sizeof(il_pause_opts_t), IL_CMD_CLIENT, 0, 0
};

const il_cmd_t  il_cmd_source_pause = {
    "source pause", il_pause_run, "refuse the requests of a source",
    "NAME --reason TEXT [options]",
    "They are answered 503 with Retry-After, and nothing of them is stored.\n"
    "A source is as named at its location, or api.",
    il_pause_opts, sizeof(il_pause_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_source_resume = {
    "source resume", il_pause_run, "take the requests of a source again",
    "NAME --reason TEXT [options]",
    "Lets a paused source's requests in.",
    il_pause_opts, sizeof(il_pause_opts_t), IL_CMD_CLIENT, 1, 1
};


static int
il_pause_run(void *opts, const il_args_t *args)
{
    int               rc, kind;
    il_buf_t          path, body;
    il_pause_opts_t  *o = opts;

    kind = (strncmp(args->cmd->name, "kind ", 5) == 0);

    memset(&path, 0, sizeof(path));
    memset(&body, 0, sizeof(body));

    il_buf_puts(&path, kind ? "/v1/kinds" : "/v1/sources");
    il_buf_puts(&body, "{");

    rc = il_call_name(&path, args->pos.v[0], kind ? "a kind" : "a source");

    if (rc == 0) {
        rc = il_call_who(&body, args->cmd->name, o->requested_by, o->reason);
    }

    if (rc == 0) {
        il_buf_puts(&path, strstr(args->cmd->name, " pause") != NULL
                           ? "/pause" : "/resume");
        il_buf_puts(&body, "}");
        rc = il_call(&o->common, "POST", path.data, il_buf_str(&body));
    }

    il_buf_free(&path);
    il_buf_free(&body);

    return rc;
}


static int
il_pause_list(void *opts, const il_args_t *args)
{
    (void) args;

    return il_call(opts, "GET", "/v1/sources", il_str("", 0));
}
