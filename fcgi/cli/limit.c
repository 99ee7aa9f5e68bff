/*
 * limit.c: limits over HTTP (operator's token).
 */

#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_json.h"


typedef struct {
    il_common_t  common;
} il_limit_opts_t;

typedef struct {
    il_common_t  common;
    int64_t      capacity;          /* 0: not given */
    const char  *start_rate;
} il_limit_put_opts_t;


static int il_limit_list(void *opts, const il_args_t *args);
static int il_limit_get(void *opts, const il_args_t *args);
static int il_limit_put(void *opts, const il_args_t *args);
static int il_limit_delete(void *opts, const il_args_t *args);


static const il_opt_t  il_limit_opts[] = {
    IL_OPT_END
};

static const il_opt_t  il_limit_put_opts[] = {
    { "capacity", IL_OPT_INT, offsetof(il_limit_put_opts_t, capacity), "N",
      "how many jobs may run at once", 1, 1000000, 0 },
    { "start-rate", IL_OPT_STR, offsetof(il_limit_put_opts_t, start_rate),
      "RATE", "how many may start in a second, like 0.5; none: any number",
      0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_limit_list = {
    "limit list", il_limit_list, "list the limits", "",
    "Shows every limit with how many jobs run under it now.  Needs an\n"
    "operator's or auditor's token.",
    il_limit_opts, sizeof(il_limit_opts_t), IL_CMD_CLIENT, 0, 0
};

const il_cmd_t  il_cmd_limit_get = {
    "limit get", il_limit_get, "show one limit", "NAME",
    "Shows one limit.  NAME is as kinds name it: crm, or crm:{site}.",
    il_limit_opts, sizeof(il_limit_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_limit_put = {
    "limit put", il_limit_put, "create or change a limit",
    "NAME [--capacity N] [--start-rate RATE]",
    "What is left out keeps its present value; a new limit needs a capacity.\n"
    "A lower capacity stops new starts and ends nothing that runs.",
    il_limit_put_opts, sizeof(il_limit_put_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_limit_delete = {
    "limit delete", il_limit_delete, "delete a limit", "NAME",
    "From then on nothing holds back the kinds that name it.",
    il_limit_opts, sizeof(il_limit_opts_t), IL_CMD_CLIENT, 1, 1
};


static int
il_limit_call(const il_common_t *c, const char *method, const char *name,
    il_str_t body)
{
    int       rc;
    il_buf_t  path;

    memset(&path, 0, sizeof(path));
    il_buf_puts(&path, "/v1/limits");
    rc = (name == NULL) ? 0 : il_call_name(&path, name, "a limit");

    if (rc == 0) {
        rc = il_call(c, method, path.data, body);
    }

    il_buf_free(&path);

    return rc;
}


static int
il_limit_list(void *opts, const il_args_t *args)
{
    (void) args;

    return il_limit_call(opts, "GET", NULL, il_str("", 0));
}


static int
il_limit_get(void *opts, const il_args_t *args)
{
    return il_limit_call(opts, "GET", args->pos.v[0], il_str("", 0));
}


/* A rate goes as it is written, if it is a JSON number. */
static int
il_limit_rate(il_buf_t *b, const char *rate)
{
    il_json_value_t  v;

    if (strcmp(rate, "none") == 0) {
        il_buf_puts(b, "\"start_rate\":null");
        return 0;
    }

    if (il_json_find(il_cstr(rate), il_str("", 0), &v) != IL_JSON_OK
        || v.type != IL_JSON_NUMBER)
    {
        il_err("--start-rate: neither a number nor none: %s", rate);
        return EX_USAGE;
    }

    il_buf_puts(b, "\"start_rate\":");
    il_buf_add(b, v.raw.data, v.raw.len);

    return 0;
}


static int
il_limit_put(void *opts, const il_args_t *args)
{
    int                   rc;
    il_buf_t              b;
    il_limit_put_opts_t  *o;

    o = opts;
    rc = 0;

    if (o->capacity == 0 && o->start_rate == NULL) {
        il_err("limit put: give --capacity, --start-rate, or both");
        return EX_USAGE;
    }

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, "{");

    if (o->capacity != 0) {
        il_buf_printf(&b, "\"capacity\":%lld%s", (long long) o->capacity,
                      o->start_rate != NULL ? "," : "");
    }

    if (o->start_rate != NULL) {
        rc = il_limit_rate(&b, o->start_rate);
    }

    il_buf_puts(&b, "}");

    if (rc == 0) {
        rc = il_limit_call(&o->common, "PUT", args->pos.v[0],
                           il_buf_str(&b));
    }

    il_buf_free(&b);

    return rc;
}


static int
il_limit_delete(void *opts, const il_args_t *args)
{
    return il_limit_call(opts, "DELETE", args->pos.v[0], il_str("", 0));
}
