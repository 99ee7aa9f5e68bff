/*
 * impact.c: what running work again would do, and running it again with that
 * seen (operator's token): of one work key, or of a schedule's date.
 */

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_answer.h"
#include "il_json.h"
#include "il_key.h"

#define IL_PAYLOAD_MAX  (32 * 1024 * 1024)


typedef struct {
    il_common_t  common;
    const char  *schedule;
    const char  *date;
    const char  *only;
    const char  *impact;
    const char  *payload;
    int          yes;
    const char  *requested_by;
    const char  *reason;
} il_impact_opts_t;


static int il_impact(void *opts, const il_args_t *args);
static int il_rerun(void *opts, const il_args_t *args);


#define il_impact_str(field)  IL_OPT_STR, offsetof(il_impact_opts_t, field)

#define IL_IMPACT_WHAT                                                       \
    { "schedule", il_impact_str(schedule), "NAME",                           \
      "a date of this schedule, not one work key", 0, 0, 0 },                \
    { "date", il_impact_str(date), "DATE",                                   \
      "the business date, like 2026-07-24, or a slot's time", 0, 0, 0 }

static const il_opt_t  il_impact_opts[] = {
    IL_IMPACT_WHAT,
    IL_OPT_END
};

static const il_opt_t  il_rerun_opts[] = {
    IL_IMPACT_WHAT,
    { "only", il_impact_str(only), "WHICH",
      "of the date: failed, missing or all (failed)", 0, 0, 0 },
    { "impact", il_impact_str(impact), "ID",
      "the impact_id that was seen", 0, 0, 0 },
    { "payload", il_impact_str(payload), "FILE",
      "of one work key: another payload, JSON (- for standard input)", 0, 0,
      0 },
    { "yes", IL_OPT_FLAG, offsetof(il_impact_opts_t, yes), NULL,
      "look at the impact, show it and run at once", 0, 0, 0 },
    { "requested-by", il_impact_str(requested_by), "WHO",
      "who asks, for the audit (the login name)", 0, 0, 0 },
    { "reason", il_impact_str(reason), "TEXT", "why, for the audit", 0, 0,
      0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_impact = {
    "impact", il_impact, "show what running work again would do",
    "KEY | --schedule NAME --date DATE",
    "Shows what is done, failed and missing, and which effects have reached\n"
    "the outside world already.  Changes nothing.  A rerun quotes the\n"
    "impact_id, and is refused if anything of this has changed.",
    il_impact_opts, sizeof(il_impact_opts_t), IL_CMD_CLIENT, 0, 1
};

const il_cmd_t  il_cmd_rerun = {
    "rerun", il_rerun, "run work again, with its impact seen",
    "KEY|--schedule NAME --date DATE --impact ID --reason TEXT",
    "Runs work again, linked to what it repeats; effects that are confirmed\n"
    "are not sent again.  The impact is that which interlock impact showed;\n"
    "--yes shows it and runs at once.  Exit code 75 if the impact has changed\n"
    "or the work is active, 66 if there is no such work, or it was pruned.",
    il_rerun_opts, sizeof(il_impact_opts_t), IL_CMD_CLIENT, 0, 1
};


static int
il_impact_usage(const il_impact_opts_t *o, const il_args_t *args)
{
    il_key_rc_e  krc;

    if ((args->pos.n == 1) == (o->schedule != NULL)
        || (o->schedule != NULL) != (o->date != NULL)
        || (o->schedule == NULL && o->only != NULL))
    {
        il_err("%s: name a work key, or --schedule and --date",
               args->cmd->name);
        return EX_USAGE;
    }

    if (o->only != NULL && strcmp(o->only, "failed") != 0
        && strcmp(o->only, "missing") != 0 && strcmp(o->only, "all") != 0)
    {
        il_err("--only is failed, missing or all: %s", o->only);
        return EX_USAGE;
    }

    if (args->pos.n == 1) {
        krc = il_key_check(il_cstr(args->pos.v[0]));

        if (krc != IL_KEY_OK) {
            il_err("not a work key: %s: %s", il_key_strerror(krc),
                   args->pos.v[0]);
            return EX_USAGE;
        }
    }

    return 0;
}


static int
il_impact_path(il_buf_t *path, const il_impact_opts_t *o,
    const il_args_t *args, const char *part)
{
    int     rc;
    char    enc[3 * IL_KEY_MAX];
    size_t  len;

    memset(path, 0, sizeof(*path));

    if (o->schedule == NULL) {
        len = il_path_encode(enc, sizeof(enc), il_cstr(args->pos.v[0]));
        il_buf_puts(path, "/v1/works/");
        il_buf_add(path, enc, len);
        il_buf_puts(path, part);
        return 0;
    }

    il_buf_puts(path, "/v1/schedules");
    rc = il_call_name(path, o->schedule, "a schedule");

    if (rc == 0) {
        il_buf_puts(path, "/slots");
        rc = il_call_name(path, o->date, "a date");
    }

    il_buf_puts(path, part);

    return rc;
}


/* Asks for the impact. */
static int
il_impact_get(il_http_t *h, const il_impact_opts_t *o, const il_args_t *args)
{
    int       rc;
    il_buf_t  path;

    rc = il_impact_path(&path, o, args, "/impact");

    if (rc == 0) {
        rc = il_call_on(h, &o->common, "GET", path.data, il_str("", 0));
    }

    il_buf_free(&path);

    return rc;
}


static int
il_impact(void *opts, const il_args_t *args)
{
    int                rc;
    il_http_t          h;
    il_impact_opts_t  *o;

    o = opts;
    rc = il_impact_usage(o, args);

    if (rc != 0) {
        return rc;
    }

    rc = il_http_open(&h, &o->common, 1);

    if (rc == 0) {
        rc = il_impact_get(&h, o, args);

        if (rc == 0) {
            il_call_print(&o->common, il_buf_str(&h.answer.body));
        }
    }

    il_http_close(&h);

    return il_out_end(rc);
}


/* ------------------------------------------------------------------- rerun */


static int
il_rerun_payload(il_buf_t *body, const char *file)
{
    int       rc;
    il_buf_t  payload;

    if (file == NULL) {
        return 0;
    }

    memset(&payload, 0, sizeof(payload));
    rc = il_file_read(&payload, file, IL_PAYLOAD_MAX);

    if (rc == 0 && il_json_check(il_buf_str(&payload)) != IL_JSON_OK) {
        il_err("%s is not JSON", file);
        rc = EX_DATAERR;
    }

    if (rc == 0) {
        il_buf_puts(body, ",\"payload\":");
        il_buf_add(body, payload.data, payload.len);
    }

    il_buf_free(&payload);

    return rc;
}


static int
il_rerun_act(il_http_t *h, const il_impact_opts_t *o, const il_args_t *args,
    const char *impact)
{
    int       rc;
    il_buf_t  path, body;

    rc = il_impact_path(&path, o, args, "/rerun");
    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{");
    il_call_member(&body, "impact_id", impact);

    if (o->schedule != NULL) {
        il_call_member(&body, "only", o->only == NULL ? "failed" : o->only);
    }

    if (rc == 0) {
        rc = il_call_who(&body, "rerun", o->requested_by, o->reason);
    }

    if (rc == 0) {
        rc = il_rerun_payload(&body, o->payload);
    }

    il_buf_puts(&body, "}");

    if (rc == 0) {
        rc = il_call_on(h, &o->common, "POST", path.data, il_buf_str(&body));
    }

    if (rc == 0) {
        il_call_print(&o->common, il_buf_str(&h->answer.body));
    }

    il_buf_free(&path);
    il_buf_free(&body);

    return rc;
}


/* Looks first, and acts on just what it has shown. */
static int
il_rerun_seen(il_http_t *h, const il_impact_opts_t *o, const il_args_t *args)
{
    int    rc;
    char  *impact;

    rc = il_impact_get(h, o, args);

    if (rc != 0) {
        return rc;
    }

    impact = il_json_text(il_buf_str(&h->answer.body), "/impact_id");

    if (impact == NULL) {
        il_err("the server's answer has no impact_id");
        return EX_PROTOCOL;
    }

    if (!o->common.json) {
        il_out_human(stdout, il_buf_str(&h->answer.body));
        (void) fputc('\n', stdout);
    }

    rc = il_rerun_act(h, o, args, impact);
    free(impact);

    return rc;
}


static int
il_rerun(void *opts, const il_args_t *args)
{
    int                rc;
    il_http_t          h;
    il_impact_opts_t  *o;

    o = opts;
    rc = il_impact_usage(o, args);

    if (rc != 0) {
        return rc;
    }

    if ((o->impact != NULL) == (o->yes != 0)) {
        il_err("rerun: look first: --impact is the impact_id that interlock"
               " impact showed; or give --yes");
        return EX_USAGE;
    }

    if (o->schedule != NULL && o->payload != NULL) {
        il_err("rerun: --payload goes with one work key only");
        return EX_USAGE;
    }

    if (o->reason == NULL || o->reason[0] == '\0') {
        il_err("rerun: --reason is needed");
        return EX_USAGE;
    }

    rc = il_http_open(&h, &o->common, 1);

    if (rc == 0) {
        rc = o->yes ? il_rerun_seen(&h, o, args)
                    : il_rerun_act(&h, o, args, o->impact);
    }

    il_http_close(&h);

    return il_out_end(rc);
}
