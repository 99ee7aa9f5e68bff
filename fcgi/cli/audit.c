/*
 * audit.c: all that is known of a work key, in order of time (operator's or
 * auditor's token).
 */

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_json.h"
#include "il_key.h"

#define IL_AUDIT_PAGE      200
#define IL_AUDIT_TEXT_MAX  300      /* bytes of one value, for people */


typedef struct {
    il_common_t  common;
    int64_t      limit;
} il_audit_opts_t;

typedef struct {
    const il_audit_opts_t  *o;
    const char             *key;
    il_http_t               h;
    il_buf_t                head;   /* JSON: the first page's other members */
    il_buf_t                line;   /* JSON: entries, joined by commas */
    int64_t                 n;
} il_audit_t;


static int il_audit(void *opts, const il_args_t *args);


static const il_opt_t  il_audit_opts[] = {
    { "limit", IL_OPT_INT, offsetof(il_audit_opts_t, limit), "N",
      "at most so many entries, from the first on (all)", 1, 10000000, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_audit = {
    "audit", il_audit, "show what became of a work key, and why", "KEY",
    "First how it stands: the result that holds, the effects that reached the\n"
    "outside world, and what is open.  Then one time line: requests with what\n"
    "was decided, attempts and how they ended, late results that were refused,\n"
    "effects, and what people did, with the name of their token.",
    il_audit_opts, sizeof(il_audit_opts_t), IL_CMD_CLIENT, 1, 1
};


/* What stands first in a line, without its name. */
static const struct {
    const char  *what;
    const char  *heads[3];
} il_audit_heads[] = {
    { "request", { "decision", NULL } },
    { "claimed", { "worker", NULL } },
    { "ended", { "call", "status", NULL } },
    { "refused", { "call", "refusal", NULL } },
    { "checked", { "answer", NULL } },
    { "held", { "error", NULL } },
    { "action", { "action", "requested_by", NULL } },
    { "effect", { "name", "state", NULL } },
    { NULL, { NULL } }
};


static int
il_audit_is_head(const char *what, il_str_t name)
{
    size_t  i, k;

    for (i = 0; il_audit_heads[i].what != NULL; i++) {
        if (strcmp(il_audit_heads[i].what, what) != 0) {
            continue;
        }

        for (k = 0; il_audit_heads[i].heads[k] != NULL; k++) {
            if (il_str_eq(name, il_cstr(il_audit_heads[i].heads[k]))) {
                return 1;
            }
        }
    }

    return 0;
}


/* A value in a line: text as it is, anything else as JSON. */
static void
il_audit_value(const il_json_value_t *v)
{
    char    *text;
    size_t   len;

    text = il_xalloc(v->raw.len + 1, 1);

    if (il_json_scalar(v, text, v->raw.len, &len) == 0) {
        text[len] = '\0';

    } else {
        memcpy(text, v->raw.data, v->raw.len);
        text[v->raw.len] = '\0';
    }

    il_out_clean(stdout, text, IL_AUDIT_TEXT_MAX);
    free(text);
}


/* One entry: time, what, the head, then all else that is not null. */
static void
il_audit_entry(il_str_t entry)
{
    int               pass, head;
    char             *at, *what;
    size_t            pos;
    il_str_t          name;
    il_json_value_t   object, v;

    at = il_json_text(entry, "/at");
    what = il_json_text(entry, "/what");
    il_out_clean(stdout, at == NULL ? "-" : at, 40);
    (void) printf("  %-10s", what == NULL ? "-" : what);

    object.type = IL_JSON_OBJECT;
    object.raw = entry;

    for (pass = 0; pass < 2; pass++) {
        pos = 0;

        while (il_json_next(object, &pos, &name, &v)) {
            name = il_str(name.data + 1, name.len < 2 ? 0 : name.len - 2);
            head = (what != NULL && il_audit_is_head(what, name));

            if (v.type == IL_JSON_NULL || head == pass
                || il_str_eq(name, il_cstr("at"))
                || il_str_eq(name, il_cstr("what")))
            {
                continue;
            }

            (void) fputc(' ', stdout);

            if (!head) {
                (void) printf(" %.*s=", (int) name.len, name.data);
            }

            il_audit_value(&v);
        }
    }

    (void) fputc('\n', stdout);
    free(at);
    free(what);
}


/* The objects of a list of `final`, a line each. */
static void
il_audit_list(il_str_t doc, const char *list, const char *title,
    const char *const *names)
{
    char             *text;
    size_t            pos, n;
    il_str_t          name;
    il_json_value_t   items, item;

    pos = 0;
    n = 0;

    if (il_json_find(doc, il_cstr(list), &items) == IL_JSON_OK
        && items.type == IL_JSON_ARRAY)
    {
        while (il_json_next(items, &pos, &name, &item)) {
            (void) printf("%-11s", n++ == 0 ? title : "");

            for (size_t i = 0; names[i] != NULL; i++) {
                text = il_json_text(item.raw, names[i]);

                if (text != NULL) {
                    (void) fputs(i == 0 ? "" : " ", stdout);
                    il_out_clean(stdout, text, IL_AUDIT_TEXT_MAX);
                }

                free(text);
            }

            (void) fputc('\n', stdout);
        }
    }

    if (n == 0) {
        (void) printf("%-11snone\n", title);
    }
}


static void
il_audit_final(il_str_t doc)
{
    char             *kind, *key, *at;
    il_json_value_t   v;

    static const char *const  effects[] = {
        "/name", "/kind", "/provider_ref", "/id", "/effect_id", NULL
    };
    static const char *const  open[] = {
        "/what", "/id", "/state", "/why", NULL
    };

    key = il_json_text(doc, "/work_key");
    kind = il_json_text(doc, "/kind");
    (void) printf("%-11s%s%s%s%s\n", "work key", key == NULL ? "-" : key,
                  kind == NULL ? "" : " (", kind == NULL ? "" : kind,
                  kind == NULL ? "" : ")");
    free(key);
    free(kind);

    if (il_json_find(doc, il_cstr("/final/result"), &v) == IL_JSON_OK
        && v.type == IL_JSON_OBJECT)
    {
        key = il_json_text(v.raw, "/job_id");
        at = il_json_text(v.raw, "/published_at");
        (void) printf("%-11srevision %lld, fence %lld, of job %s, %s\n",
                      "result", (long long) il_json_int(v.raw, "/revision",
                                                        0),
                      (long long) il_json_int(v.raw, "/fence", 0),
                      key == NULL ? "-" : key, at == NULL ? "-" : at);
        free(key);
        free(at);

    } else {
        (void) printf("%-11snone\n", "result");
    }

    il_audit_list(doc, "/final/confirmed_effects", "effects", effects);
    il_audit_list(doc, "/final/open", "open", open);
    (void) fputc('\n', stdout);
}


/* The members beside the time line, of the first page. */
static void
il_audit_head(il_audit_t *a, il_str_t page)
{
    size_t            pos;
    il_str_t          name;
    il_json_value_t   object, v;

    object.type = IL_JSON_OBJECT;
    object.raw = page;
    pos = 0;
    il_buf_puts(&a->head, "{");

    while (il_json_next(object, &pos, &name, &v)) {
        if (il_str_eq(name, il_cstr("\"timeline\""))
            || il_str_eq(name, il_cstr("\"next\"")))
        {
            continue;
        }

        il_buf_add(&a->head, name.data, name.len);
        il_buf_puts(&a->head, ":");
        il_buf_add(&a->head, v.raw.data, v.raw.len);
        il_buf_puts(&a->head, ",");
    }
}


/* One page; *next is the cursor of the following one, or NULL. */
static int
il_audit_page(il_audit_t *a, char **next)
{
    int               rc;
    char              limit[24];
    size_t            pos;
    int64_t           left;
    il_buf_t          path;
    il_str_t          page, name;
    il_json_value_t   items, item;

    left = a->o->limit == 0 ? IL_AUDIT_PAGE : a->o->limit - a->n;
    (void) snprintf(limit, sizeof(limit), "%d",
                    left < IL_AUDIT_PAGE ? (int) left : IL_AUDIT_PAGE);

    memset(&path, 0, sizeof(path));
    il_buf_puts(&path, "/v1/audit");
    il_call_query(&path, "work_key", a->key);
    il_call_query(&path, "limit", limit);
    il_call_query(&path, "cursor", *next);
    free(*next);
    *next = NULL;
    rc = il_call_on(&a->h, &a->o->common, "GET", path.data, il_str("", 0));
    il_buf_free(&path);

    if (rc != 0) {
        return rc;
    }

    page = il_buf_str(&a->h.answer.body);

    if (il_json_find(page, il_cstr("/timeline"), &items) != IL_JSON_OK
        || items.type != IL_JSON_ARRAY)
    {
        il_err("the server's answer has no timeline");
        return EX_PROTOCOL;
    }

    if (a->head.len == 0) {
        il_audit_head(a, page);

        if (!a->o->common.json) {
            il_audit_final(page);
        }
    }

    pos = 0;

    while (il_json_next(items, &pos, &name, &item)) {
        a->n++;

        if (!a->o->common.json) {
            il_audit_entry(item.raw);
            continue;
        }

        il_buf_puts(&a->line, a->line.len == 0 ? "" : ",");
        il_buf_add(&a->line, item.raw.data, item.raw.len);
    }

    *next = il_json_text(page, "/next");

    return 0;
}


/* All pages as one document. */
static void
il_audit_json(il_audit_t *a, const char *next)
{
    il_buf_puts(&a->head, "\"timeline\":[");
    il_buf_add(&a->head, a->line.data, a->line.len);
    il_buf_puts(&a->head, "],\"next\":");

    if (next == NULL) {
        il_buf_puts(&a->head, "null");

    } else {
        il_buf_json(&a->head, il_cstr(next));
    }

    il_buf_puts(&a->head, "}");
    il_out_line(stdout, il_buf_str(&a->head));
}


static int
il_audit(void *opts, const il_args_t *args)
{
    int           rc;
    char         *next;
    il_audit_t    a;
    il_key_rc_e   krc;

    memset(&a, 0, sizeof(a));
    a.o = opts;
    a.key = args->pos.v[0];
    krc = il_key_check(il_cstr(a.key));

    if (krc != IL_KEY_OK) {
        il_err("not a work key: %s: %s", il_key_strerror(krc), a.key);
        return EX_USAGE;
    }

    next = NULL;
    rc = il_http_open(&a.h, &a.o->common, 1);

    while (rc == 0) {
        rc = il_audit_page(&a, &next);

        if (rc != 0 || next == NULL
            || (a.o->limit != 0 && a.n >= a.o->limit))
        {
            break;
        }
    }

    if (rc == 0 && a.o->common.json) {
        il_audit_json(&a, next);

    } else if (rc == 0 && next != NULL) {
        (void) fputs("(there is more)\n", stdout);
    }

    free(next);
    il_http_close(&a.h);
    il_buf_free(&a.head);
    il_buf_free(&a.line);

    return il_out_end(rc);
}
