/*
 * effect_look.c: effects as people look at them, and what they say about one
 * (operator's or auditor's token).
 */

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_json.h"
#include "il_uuid.h"

#define IL_EFFECT_PAGE      200
#define IL_EFFECT_TEXT_MAX  256     /* bytes of one value, for people */


typedef struct {
    il_common_t  common;
    const char  *work_key;
    const char  *state;
    const char  *kind;
    const char  *since;
    const char  *until;
    int64_t      limit;
    int          csv;
} il_effect_list_opts_t;

typedef struct {
    il_common_t  common;
    const char  *outcome;
    const char  *requested_by;
    const char  *reason;
} il_effect_say_opts_t;


static int il_effect_list(void *opts, const il_args_t *args);
static int il_effect_show(void *opts, const il_args_t *args);
static int il_effect_check(void *opts, const il_args_t *args);
static int il_effect_resolve(void *opts, const il_args_t *args);


static const il_opt_t  il_effect_list_opts[] = {
    { "work-key", IL_OPT_STR, offsetof(il_effect_list_opts_t, work_key),
      "KEY", "of this work", 0, 0, 0 },
    { "state", IL_OPT_STR, offsetof(il_effect_list_opts_t, state), "STATE",
      "intended, confirmed, failed, unknown or needs_human", 0, 0, 0 },
    { "kind", IL_OPT_STR, offsetof(il_effect_list_opts_t, kind), "KIND",
      "of this effect kind", 0, 0, 0 },
    { "since", IL_OPT_STR, offsetof(il_effect_list_opts_t, since), "TIME",
      "begun then or later", 0, 0, 0 },
    { "until", IL_OPT_STR, offsetof(il_effect_list_opts_t, until), "TIME",
      "begun before", 0, 0, 0 },
    { "limit", IL_OPT_INT, offsetof(il_effect_list_opts_t, limit), "N",
      "at most so many, the newest (all)", 1, 10000000, 0 },
    { "csv", IL_OPT_FLAG, offsetof(il_effect_list_opts_t, csv), NULL,
      "as comma separated values", 0, 0, 0 },
    IL_OPT_END
};

static const il_opt_t  il_effect_show_opts[] = {
    IL_OPT_END
};

static const il_opt_t  il_effect_check_opts[] = {
    { "requested-by", IL_OPT_STR,
      offsetof(il_effect_say_opts_t, requested_by), "WHO",
      "who asks, for the audit (the login name)", 0, 0, 0 },
    { "reason", IL_OPT_STR, offsetof(il_effect_say_opts_t, reason), "TEXT",
      "why, for the audit", 0, 0, 0 },
    IL_OPT_END
};

static const il_opt_t  il_effect_resolve_opts[] = {
    { "outcome", IL_OPT_STR, offsetof(il_effect_say_opts_t, outcome),
      "OUTCOME", "happened, not_happened or send_again", 0, 0, 0 },
    { "requested-by", IL_OPT_STR,
      offsetof(il_effect_say_opts_t, requested_by), "WHO",
      "who decides, for the audit (the login name)", 0, 0, 0 },
    { "reason", IL_OPT_STR, offsetof(il_effect_say_opts_t, reason), "TEXT",
      "why, for the audit", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_effect_list = {
    "effect list", il_effect_list, "list effects, newest first", "[options]",
    "What was sent, or was to be sent, into the outside world.",
    il_effect_list_opts, sizeof(il_effect_list_opts_t), IL_CMD_CLIENT, 0, 0
};

const il_cmd_t  il_cmd_effect_show = {
    "effect show", il_effect_show, "show one effect with its history",
    "EFFECT",
    "Shows every send of the effect, and all that was said about it.",
    il_effect_show_opts, sizeof(il_effect_say_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_effect_check = {
    "effect check", il_effect_check, "look an unsettled effect up now",
    "EFFECT --reason TEXT [options]",
    "As its effect kind says.  Exit code 75 if it is settled, is being sent,\n"
    "or its kind has no look-up.",
    il_effect_check_opts, sizeof(il_effect_say_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_effect_resolve = {
    "effect resolve", il_effect_resolve, "say what became of an effect",
    "EFFECT --outcome OUTCOME --reason TEXT [options]",
    "happened      it did: it is confirmed, and not sent again\n"
    "not_happened  it did not: its job goes on, and may send it\n"
    "send_again    as that; under the present key, if the provider still\n"
    "              honours it\n\n"
    "Exit code 75 if it is settled, or being sent.",
    il_effect_resolve_opts, sizeof(il_effect_say_opts_t), IL_CMD_CLIENT, 1, 1
};


/* --------------------------------------------------------------------- list */


static void
il_effect_query(il_buf_t *path, const il_effect_list_opts_t *o, int64_t left,
    const char *cursor)
{
    char  limit[24];

    (void) snprintf(limit, sizeof(limit), "%lld", (long long)
                    (left > 0 && left < IL_EFFECT_PAGE ? left
                                                       : IL_EFFECT_PAGE));

    il_buf_puts(path, "/v1/effects");
    il_call_query(path, "work_key", o->work_key);
    il_call_query(path, "state", o->state);
    il_call_query(path, "kind", o->kind);
    il_call_query(path, "since", o->since);
    il_call_query(path, "until", o->until);
    il_call_query(path, "limit", limit);
    il_call_query(path, "cursor", cursor);
}


/* One line: when, state, work key, name, kind, id. */
static void
il_effect_line(il_str_t item)
{
    char  *text;

    static const char *const  members[] = {
        "/created_at", "/state", "/work_key", "/name", "/kind", "/effect_id"
    };

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        text = il_json_text(item, members[i]);
        (void) fputs(i == 0 ? "" : "  ", stdout);
        il_out_clean(stdout, text == NULL ? "-" : text, IL_EFFECT_TEXT_MAX);
        free(text);
    }

    (void) fputc('\n', stdout);
}


/* The items of a page, as text or added to the list; their number. */
static int64_t
il_effect_items(const il_effect_list_opts_t *o, il_str_t page, il_buf_t *list)
{
    size_t           pos;
    int64_t          n;
    il_str_t         name;
    il_json_value_t  items, item;

    if (il_json_find(page, il_cstr("/items"), &items) != IL_JSON_OK
        || items.type != IL_JSON_ARRAY)
    {
        return 0;
    }

    n = 0;
    pos = 0;

    while (il_json_next(items, &pos, &name, &item)) {
        if (o->common.json) {
            il_buf_puts(list, list->len == 0 ? "" : ",");
            il_buf_add(list, item.raw.data, item.raw.len);

        } else {
            il_effect_line(item.raw);
        }

        n++;
    }

    return n;
}


/* A page of CSV; its head only once.  The number of rows does not matter: the
 * pages end by themselves. */
static void
il_effect_rows(il_str_t page, int first)
{
    const char  *end;

    if (!first) {
        end = memchr(page.data, '\n', page.len);

        if (end == NULL) {
            return;
        }

        page = il_str(end + 1, page.len - (size_t) (end + 1 - page.data));
    }

    (void) fwrite(page.data, 1, page.len, stdout);
}


static int
il_effect_pages(il_http_t *h, const il_effect_list_opts_t *o, il_buf_t *list,
    char **cursor)
{
    int       rc;
    int64_t   n;
    il_buf_t  path;

    n = 0;

    do {
        memset(&path, 0, sizeof(path));
        il_effect_query(&path, o, o->limit == 0 ? 0 : o->limit - n, *cursor);

        if (o->csv) {
            il_http_header(h, "Accept: text/csv");
        }

        rc = il_call_on(h, &o->common, "GET", path.data, il_str("", 0));
        il_buf_free(&path);

        if (rc != 0) {
            return rc;
        }

        if (o->csv) {
            il_effect_rows(il_buf_str(&h->answer.body), *cursor == NULL);
            n += IL_EFFECT_PAGE;

        } else {
            n += il_effect_items(o, il_buf_str(&h->answer.body), list);
        }

        free(*cursor);
        *cursor = o->csv ? (h->answer.next[0] == '\0' ? NULL
                            : il_xstrndup(h->answer.next,
                                          strlen(h->answer.next)))
                         : il_json_text(il_buf_str(&h->answer.body), "/next");

    } while (*cursor != NULL && (o->limit == 0 || n < o->limit));

    return 0;
}


static int
il_effect_list(void *opts, const il_args_t *args)
{
    int                     rc;
    char                   *cursor;
    il_buf_t                list;
    il_http_t               h;
    il_effect_list_opts_t  *o;

    (void) args;

    o = opts;
    cursor = NULL;
    memset(&list, 0, sizeof(list));

    if (o->csv && o->common.json) {
        il_err("effect list: either --csv or --json");
        return EX_USAGE;
    }

    rc = il_http_open(&h, &o->common, 1);

    if (rc == 0) {
        rc = il_effect_pages(&h, o, &list, &cursor);
    }

    if (rc == 0 && o->common.json) {
        (void) fputs("{\"items\":[", stdout);
        (void) fwrite(list.data == NULL ? "" : list.data, 1, list.len, stdout);
        list.len = 0;

        if (cursor == NULL) {
            il_buf_puts(&list, "null");

        } else {
            il_buf_json(&list, il_cstr(cursor));
        }

        (void) fprintf(stdout, "],\"next\":%s}\n", list.data);
    }

    free(cursor);
    il_buf_free(&list);
    il_http_close(&h);

    return il_out_end(rc);
}


/* ---------------------------------------------------------------------- one */


static int
il_effect_path(il_buf_t *path, const char *effect, const char *what)
{
    int   rc;
    char  id[IL_UUID_TEXT + 1];

    rc = il_call_id(id, effect, "an effect's");
    if (rc != 0) {
        return rc;
    }

    il_buf_printf(path, "/v1/effects/%s%s", id, what);

    return 0;
}


static int
il_effect_show(void *opts, const il_args_t *args)
{
    int       rc;
    il_buf_t  path;

    memset(&path, 0, sizeof(path));
    rc = il_effect_path(&path, args->pos.v[0], "");

    if (rc == 0) {
        rc = il_call(opts, "GET", path.data, il_str("", 0));
    }

    il_buf_free(&path);

    return rc;
}


static int
il_effect_say(il_effect_say_opts_t *o, const il_args_t *args,
    const char *what)
{
    int       rc;
    il_buf_t  path, body;

    memset(&path, 0, sizeof(path));
    memset(&body, 0, sizeof(body));

    il_buf_puts(&body, "{");
    il_call_member(&body, "outcome", o->outcome);

    rc = il_effect_path(&path, args->pos.v[0], what);

    if (rc == 0) {
        rc = il_call_who(&body, args->cmd->name, o->requested_by, o->reason);
    }

    if (rc == 0) {
        il_buf_puts(&body, "}");
        rc = il_call(&o->common, "POST", path.data, il_buf_str(&body));
    }

    il_buf_free(&path);
    il_buf_free(&body);

    return rc;
}


static int
il_effect_check(void *opts, const il_args_t *args)
{
    return il_effect_say(opts, args, "/check");
}


static int
il_effect_resolve(void *opts, const il_args_t *args)
{
    il_effect_say_opts_t  *o = opts;

    if (o->outcome == NULL
        || (strcmp(o->outcome, "happened") != 0
            && strcmp(o->outcome, "not_happened") != 0
            && strcmp(o->outcome, "send_again") != 0))
    {
        il_err("effect resolve: --outcome is happened, not_happened or"
               " send_again");
        return EX_USAGE;
    }

    return il_effect_say(o, args, "/resolve");
}
