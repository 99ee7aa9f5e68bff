/*
 * kind.c: kinds of work over HTTP (operator's token).
 */

#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_json.h"
#include "il_key.h"

#define IL_KIND_DOC_MAX  (1024 * 1024)


typedef struct {
    il_common_t  common;
} il_kind_opts_t;


static int il_kind_list(void *opts, const il_args_t *args);
static int il_kind_get(void *opts, const il_args_t *args);
static int il_kind_put(void *opts, const il_args_t *args);
static int il_kind_delete(void *opts, const il_args_t *args);


static const il_opt_t  il_kind_opts[] = {
    IL_OPT_END
};


const il_cmd_t  il_cmd_kind_list = {
    "kind list", il_kind_list, "list the kinds of work", "",
    "Shows every kind with its policy.  Needs an operator's or auditor's "
    "token.",
    il_kind_opts, sizeof(il_kind_opts_t), IL_CMD_CLIENT, 0, 0
};

const il_cmd_t  il_cmd_kind_get = {
    "kind get", il_kind_get, "show one kind", "NAME",
    "Shows the policy of one kind.",
    il_kind_opts, sizeof(il_kind_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_kind_put = {
    "kind put", il_kind_put, "create or change a kind", "NAME FILE",
    "Reads a JSON object from FILE (- for standard input) and makes or\n"
    "changes the kind.  What is left out keeps its present or default value.\n"
    "Jobs keep the policy under which they were admitted.",
    il_kind_opts, sizeof(il_kind_opts_t), IL_CMD_CLIENT, 2, 2
};

const il_cmd_t  il_cmd_kind_delete = {
    "kind delete", il_kind_delete, "delete a kind", "NAME",
    "Deletes a kind.  Refused while it has jobs that have not ended.",
    il_kind_opts, sizeof(il_kind_opts_t), IL_CMD_CLIENT, 1, 1
};


static int
il_kind_call(const il_common_t *c, const char *method, const char *name,
    il_str_t body)
{
    char  path[sizeof("/v1/kinds/") + 3 * IL_NAME_MAX];

    (void) snprintf(path, sizeof(path), "/v1/kinds");

    if (name != NULL) {
        if (!il_name_valid(il_cstr(name))) {
            il_err("not a name of a kind (a-z, 0-9, \".\", \"_\", \"-\";"
                   " at most %d): %s", IL_NAME_MAX, name);
            return EX_USAGE;
        }

        (void) snprintf(path, sizeof(path), "/v1/kinds/%s", name);
    }

    return il_call(c, method, path, body);
}


static int
il_kind_list(void *opts, const il_args_t *args)
{
    (void) args;

    return il_kind_call(opts, "GET", NULL, il_str("", 0));
}


static int
il_kind_get(void *opts, const il_args_t *args)
{
    return il_kind_call(opts, "GET", args->pos.v[0], il_str("", 0));
}


static int
il_kind_put(void *opts, const il_args_t *args)
{
    int       rc;
    il_buf_t  b;

    memset(&b, 0, sizeof(b));
    rc = il_file_read(&b, args->pos.v[1], IL_KIND_DOC_MAX);

    if (rc == 0 && il_json_check(il_buf_str(&b)) != IL_JSON_OK) {
        il_err("%s is not JSON", args->pos.v[1]);
        rc = EX_DATAERR;
    }

    if (rc == 0) {
        rc = il_kind_call(opts, "PUT", args->pos.v[0], il_buf_str(&b));
    }

    il_buf_free(&b);

    return rc;
}


static int
il_kind_delete(void *opts, const il_args_t *args)
{
    return il_kind_call(opts, "DELETE", args->pos.v[0], il_str("", 0));
}
