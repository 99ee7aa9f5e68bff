/*
 * alert.c: who is told of what, over HTTP (operator's token).
 */

#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_json.h"

#define IL_ALERT_DOC_MAX  65536


typedef struct {
    il_common_t  common;
    const char  *secret_file;
} il_alert_opts_t;


static int il_alert_list(void *opts, const il_args_t *args);
static int il_alert_get(void *opts, const il_args_t *args);
static int il_alert_put(void *opts, const il_args_t *args);
static int il_alert_delete(void *opts, const il_args_t *args);


static const il_opt_t  il_alert_opts[] = {
    IL_OPT_END
};

static const il_opt_t  il_alert_put_opts[] = {
    { "secret-file", IL_OPT_STR, offsetof(il_alert_opts_t, secret_file),
      "FILE", "its first line is the secret that events are signed with", 0,
      0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_alert_list = {
    "alert list", il_alert_list, "list the alerts", "",
    "Shows every alert.  Needs an operator's or auditor's token.",
    il_alert_opts, sizeof(il_alert_opts_t), IL_CMD_CLIENT, 0, 0
};

const il_cmd_t  il_cmd_alert_get = {
    "alert get", il_alert_get, "show one alert", "NAME",
    "Shows one alert, what it was told of that is not over, and its last\n"
    "events.",
    il_alert_opts, sizeof(il_alert_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_alert_put = {
    "alert put", il_alert_put, "create or change an alert",
    "NAME FILE [--secret-file FILE]",
    "Reads a JSON object from FILE (- for standard input) and makes or\n"
    "changes the alert.  What is left out keeps its value; a new alert needs a\n"
    "url and a secret.",
    il_alert_put_opts, sizeof(il_alert_opts_t), IL_CMD_CLIENT, 2, 2
};

const il_cmd_t  il_cmd_alert_delete = {
    "alert delete", il_alert_delete, "delete an alert", "NAME",
    "Nothing more is sent to it, neither what is under way.",
    il_alert_opts, sizeof(il_alert_opts_t), IL_CMD_CLIENT, 1, 1
};


static int
il_alert_call(const il_common_t *c, const char *method, const char *name,
    il_str_t body)
{
    int       rc;
    il_buf_t  path;

    memset(&path, 0, sizeof(path));
    il_buf_puts(&path, "/v1/alerts");
    rc = (name == NULL) ? 0 : il_call_name(&path, name, "an alert");

    if (rc == 0) {
        rc = il_call(c, method, path.data, body);
    }

    il_buf_free(&path);

    return rc;
}


static int
il_alert_list(void *opts, const il_args_t *args)
{
    (void) args;

    return il_alert_call(opts, "GET", NULL, il_str("", 0));
}


static int
il_alert_get(void *opts, const il_args_t *args)
{
    return il_alert_call(opts, "GET", args->pos.v[0], il_str("", 0));
}


static int
il_alert_delete(void *opts, const il_args_t *args)
{
    return il_alert_call(opts, "DELETE", args->pos.v[0], il_str("", 0));
}


/* The object as it is written, with the secret as its first member. */
static int
il_alert_body(il_buf_t *body, il_str_t doc, const char *secret_file)
{
    int              rc;
    size_t           pos;
    il_str_t         name;
    il_buf_t         secret;
    il_json_value_t  object, member;

    if (il_json_find(doc, il_str("", 0), &object) != IL_JSON_OK
        || object.type != IL_JSON_OBJECT)
    {
        il_err("alert put: an alert is a JSON object");
        return EX_DATAERR;
    }

    if (secret_file == NULL) {
        il_buf_add(body, object.raw.data, object.raw.len);
        return 0;
    }

    memset(&secret, 0, sizeof(secret));
    rc = il_file_secret(&secret, secret_file);

    if (rc == 0) {
        pos = 0;
        il_buf_puts(body, "{\"secret\":");
        il_buf_json(body, il_buf_str(&secret));
        il_buf_puts(body, il_json_next(object, &pos, &name, &member) ? ","
                                                                     : "");
        il_buf_add(body, object.raw.data + 1, object.raw.len - 1);
    }

    il_buf_free(&secret);

    return rc;
}


static int
il_alert_put(void *opts, const il_args_t *args)
{
    int               rc;
    il_buf_t          doc, body;
    il_alert_opts_t  *o = opts;

    memset(&doc, 0, sizeof(doc));
    memset(&body, 0, sizeof(body));

    rc = il_file_read(&doc, args->pos.v[1], IL_ALERT_DOC_MAX);

    if (rc == 0) {
        rc = il_alert_body(&body, il_buf_str(&doc), o->secret_file);
    }

    if (rc == 0) {
        rc = il_alert_call(&o->common, "PUT", args->pos.v[0],
                           il_buf_str(&body));
    }

    il_buf_free(&doc);
    il_buf_free(&body);

    return rc;
}
