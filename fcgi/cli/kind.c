/*
 * kind.c: kinds of work, and kinds of effects, over HTTP (operator's token).
 */

#include <stdlib.h>
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


const il_cmd_t  il_cmd_effect_kind_list = {
    "effect-kind list", il_kind_list, "list the kinds of effects", "",
    "Shows every effect kind: what is known of the providers that effects "
    "go to.\nNeeds an operator's or auditor's token.",
    il_kind_opts, sizeof(il_kind_opts_t), IL_CMD_CLIENT, 0, 0
};

const il_cmd_t  il_cmd_effect_kind_get = {
    "effect-kind get", il_kind_get, "show one effect kind", "NAME",
    "Shows what is known of the provider of one effect kind.",
    il_kind_opts, sizeof(il_kind_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_effect_kind_put = {
    "effect-kind put", il_kind_put, "create or change an effect kind",
    "NAME FILE",
    "Reads a JSON object from FILE (- for standard input) and makes or\n"
    "changes the effect kind.  What is left out keeps its present or default\n"
    "value.",
    il_kind_opts, sizeof(il_kind_opts_t), IL_CMD_CLIENT, 2, 2
};

const il_cmd_t  il_cmd_effect_kind_delete = {
    "effect-kind delete", il_kind_delete, "delete an effect kind", "NAME",
    "Deletes an effect kind: nothing of it begins any more; what was begun\n"
    "is settled under its last policy.",
    il_kind_opts, sizeof(il_kind_opts_t), IL_CMD_CLIENT, 1, 1
};


static int
il_kind_call(const il_common_t *c, const il_args_t *args, const char *method,
    il_str_t body)
{
    char         path[sizeof("/v1/effect-kinds/") + 3 * IL_NAME_MAX];
    const char  *base, *name;

    base = (strncmp(args->cmd->name, "effect-kind ", 12) == 0)
           ? "/v1/effect-kinds" : "/v1/kinds";
    name = args->pos.n > 0 ? args->pos.v[0] : NULL;

    (void) snprintf(path, sizeof(path), "%s", base);

    if (name != NULL) {
        if (!il_name_valid(il_cstr(name))) {
            il_err("not a name of a kind (a-z, 0-9, \".\", \"_\", \"-\";"
                   " at most %d): %s", IL_NAME_MAX, name);
            return EX_USAGE;
        }

        (void) snprintf(path, sizeof(path), "%s/%s", base, name);
    }

    return il_call(c, method, path, body);
}


/* One page, its items put behind those of the ones before; *next is the cursor
 * of the following one, or NULL. */

static int
il_kind_page(il_http_t *h, const il_common_t *c, const char *base,
    il_buf_t *all, char **next)
{
    int               rc;
    size_t            pos;
    il_buf_t          path;
    il_str_t          page, name;
    il_json_value_t   items, item;

    memset(&path, 0, sizeof(path));
    il_buf_puts(&path, base);
    il_call_query(&path, "limit", "200");
    il_call_query(&path, "cursor", *next);
    free(*next);
    *next = NULL;
    rc = il_call_on(h, c, "GET", path.data, il_str("", 0));
    il_buf_free(&path);

    if (rc != 0) {
        return rc;
    }

    page = il_buf_str(&h->answer.body);

    if (il_json_find(page, il_cstr("/items"), &items) != IL_JSON_OK
        || items.type != IL_JSON_ARRAY)
    {
        il_err("the server's answer has no items");
        return EX_PROTOCOL;
    }

    pos = 0;

    while (il_json_next(items, &pos, &name, &item)) {
        il_buf_puts(all, all->data[all->len - 1] == '[' ? "" : ",");
        il_buf_add(all, item.raw.data, item.raw.len);
    }

    *next = il_json_text(page, "/next");

    return 0;
}


/* All pages as one list. */

static int
il_kind_list(void *opts, const il_args_t *args)
{
    int           rc;
    char         *next;
    il_buf_t      all;
    il_http_t     h;
    il_common_t  *c = opts;

    if (strncmp(args->cmd->name, "kind ", 5) != 0) {
        return il_kind_call(c, args, "GET", il_str("", 0));
    }

    memset(&all, 0, sizeof(all));
    il_buf_puts(&all, "{\"items\":[");
    next = NULL;
    rc = il_http_open(&h, c, 1);

    if (rc == 0) {
        do {
            rc = il_kind_page(&h, c, "/v1/kinds", &all, &next);
        } while (rc == 0 && next != NULL);
    }

    if (rc == 0) {
        il_buf_puts(&all, "],\"next\":null}");
        il_call_print(c, il_buf_str(&all));
    }

    free(next);
    il_buf_free(&all);
    il_http_close(&h);

    return il_out_end(rc);
}


static int
il_kind_get(void *opts, const il_args_t *args)
{
    return il_kind_call(opts, args, "GET", il_str("", 0));
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
        rc = il_kind_call(opts, args, "PUT", il_buf_str(&b));
    }

    il_buf_free(&b);

    return rc;
}


static int
il_kind_delete(void *opts, const il_args_t *args)
{
    return il_kind_call(opts, args, "DELETE", il_str("", 0));
}
