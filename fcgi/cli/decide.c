/*
 * decide.c: what a person decides about a job that does not go on by itself
 * (operator's token).
 */

#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_uuid.h"


typedef struct {
    il_common_t  common;
    const char  *action;
    const char  *assignee;
    const char  *requested_by;
    const char  *reason;
} il_decide_opts_t;


static int il_decide(void *opts, const il_args_t *args);


static const il_opt_t  il_decide_opts[] = {
    { "action", IL_OPT_STR, offsetof(il_decide_opts_t, action), "ACTION",
      "retry, succeed, fail or release", 0, 0, 0 },
    { "assignee", IL_OPT_STR, offsetof(il_decide_opts_t, assignee), "WHO",
      "who looks after the job from now on", 0, 0, 0 },
    { "requested-by", IL_OPT_STR, offsetof(il_decide_opts_t, requested_by),
      "WHO", "who decides, for the audit (the login name)", 0, 0, 0 },
    { "reason", IL_OPT_STR, offsetof(il_decide_opts_t, reason), "TEXT",
      "why, for the audit", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_decide = {
    "decide", il_decide, "decide about a job that waits for a person",
    "JOB --action ACTION --reason TEXT [options]",
    "retry    held, checking, failed: run it again, its attempts and time anew\n"
    "succeed  held, checking, failed: it is done, whatever the system knows\n"
    "fail     held, checking, parked: it is not to be done\n"
    "release  held, checking: run it again, the lost attempt not counted;\n"
    "         parked: let it into its line now\n\n"
    "Exit code 75 if the job's state does not permit this, or its work key is\n"
    "busy.",
    il_decide_opts, sizeof(il_decide_opts_t), IL_CMD_CLIENT, 1, 1
};


static int
il_decide_body(il_buf_t *body, const il_decide_opts_t *o)
{
    const char *const  *a;

    static const char *const  actions[] = {
        "retry", "succeed", "fail", "release", NULL
    };

    if (o->action == NULL) {
        il_err("decide: --action is needed");
        return EX_USAGE;
    }

    for (a = actions; *a != NULL && strcmp(*a, o->action) != 0; a++) {
        /* void */
    }

    if (*a == NULL) {
        il_err("decide: --action is retry, succeed, fail or release: %s",
               o->action);
        return EX_USAGE;
    }

    il_buf_puts(body, "{");
    il_call_member(body, "action", o->action);
    il_call_member(body, "assignee", o->assignee);

    return il_call_who(body, "decide", o->requested_by, o->reason);
}


static int
il_decide(void *opts, const il_args_t *args)
{
    int                rc;
    char               path[sizeof("/v1/jobs//decide") + IL_UUID_TEXT];
    char               id[IL_UUID_TEXT + 1];
    il_buf_t           body;
    il_decide_opts_t  *o;

    o = opts;

    rc = il_call_id(id, args->pos.v[0], "a job's");
    if (rc != 0) {
        return rc;
    }

    (void) snprintf(path, sizeof(path), "/v1/jobs/%s/decide", id);

    memset(&body, 0, sizeof(body));
    rc = il_decide_body(&body, o);

    if (rc == 0) {
        il_buf_puts(&body, "}");
        rc = il_call(&o->common, "POST", path, il_buf_str(&body));
    }

    il_buf_free(&body);

    return rc;
}
