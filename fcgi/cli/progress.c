/*
 * progress.c: how far a job is, told from within its command.
 *
 * The owner token comes from the environment that `interlock work` makes; it
 * is never an argument, which others could read.
 */

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_json.h"

/* As the server has it. */
#define IL_PROGRESS_CHECKPOINT_MAX  (256 * 1024)
#define IL_PROGRESS_COUNT_MAX       9007199254740991
#define IL_PROGRESS_TIMEOUT         15000       /* ms */


typedef struct {
    il_common_t  common;
    const char  *step;
    const char  *checkpoint;
    const char  *note;
    int64_t      done;              /* -1: not given */
    int64_t      total;
} il_progress_opts_t;


static int il_progress(void *opts, const il_args_t *args);


static const il_opt_t  il_progress_opts[] = {
    { "step", IL_OPT_STR, offsetof(il_progress_opts_t, step), "NAME",
      "the step that it has reached", 0, 0, 0 },
    { "checkpoint", IL_OPT_STR, offsetof(il_progress_opts_t, checkpoint),
      "FILE", "what the next attempt needs to go on from here"
      " (- for standard input)", 0, 0, 0 },
    { "done", IL_OPT_INT, offsetof(il_progress_opts_t, done), "N",
      "how much is done", 0, IL_PROGRESS_COUNT_MAX, -1 },
    { "total", IL_OPT_INT, offsetof(il_progress_opts_t, total), "M",
      "of how much", 0, IL_PROGRESS_COUNT_MAX, -1 },
    { "note", IL_OPT_STR, offsetof(il_progress_opts_t, note), "TEXT",
      "a word about it, for people", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_progress = {
    "progress", il_progress, "tell how far a job is, from its command",
    "[options]",
    "Called by a command of `interlock work`: shows others how far the job is,\n"
    "and keeps a checkpoint.  Should the attempt be lost, the next one gets\n"
    "step and checkpoint.  Each call renews the lease.\n\n"
    "Exit code 75 if this attempt has ended, or the job is to be canceled:\n"
    "then the command had better end; 69 if there was no answer.",
    il_progress_opts, sizeof(il_progress_opts_t), 0, 0, 0
};


/* JSON as it is, other text as a string. */
static int
il_progress_checkpoint(il_buf_t *b, const char *path)
{
    int       rc;
    size_t    start;
    il_buf_t  text;

    memset(&text, 0, sizeof(text));
    rc = il_file_read(&text, path, IL_PROGRESS_CHECKPOINT_MAX);

    if (rc == 0) {
        il_buf_puts(b, b->len == 1 ? "\"checkpoint\":" : ",\"checkpoint\":");
        start = b->len;

        if (il_json_check(il_buf_str(&text)) == IL_JSON_OK) {
            il_buf_add(b, text.data, text.len);

        } else {
            il_buf_json(b, il_buf_str(&text));
        }

        if (b->len - start > IL_PROGRESS_CHECKPOINT_MAX) {
            il_err("%s: longer than %d bytes as a JSON string", path,
                   IL_PROGRESS_CHECKPOINT_MAX);
            rc = EX_DATAERR;
        }
    }

    il_buf_free(&text);

    return rc;
}


static int
il_progress_body(il_buf_t *b, const il_progress_opts_t *o)
{
    il_buf_t  p;

    if (o->step == NULL && o->checkpoint == NULL && o->note == NULL
        && o->done < 0 && o->total < 0)
    {
        il_err("progress: nothing to tell (see interlock progress --help)");
        return EX_USAGE;
    }

    memset(&p, 0, sizeof(p));
    il_buf_puts(&p, "{");

    if (o->done >= 0) {
        il_buf_printf(&p, "\"done\":%lld", (long long) o->done);
    }

    if (o->total >= 0) {
        il_buf_printf(&p, "%s\"total\":%lld", p.len == 1 ? "" : ",",
                      (long long) o->total);
    }

    il_call_member(&p, "note", o->note);
    il_buf_puts(&p, "}");

    il_buf_puts(b, "{");

    if (p.len > 2) {
        il_buf_puts(b, "\"progress\":");
        il_buf_add(b, p.data, p.len);
    }

    il_buf_free(&p);
    il_call_member(b, "step", o->step);

    return o->checkpoint == NULL ? 0
                                 : il_progress_checkpoint(b, o->checkpoint);
}


static int
il_progress_call(const il_common_t *c, il_str_t body)
{
    int          rc;
    il_http_t    h;
    const char  *token;

    token = getenv("INTERLOCK_OWNER_TOKEN");

    if (token == NULL || token[0] == '\0') {
        il_err("progress: INTERLOCK_OWNER_TOKEN is not set: this is for"
               " commands of interlock work");
        return EX_USAGE;
    }

    rc = il_http_open_bearer(&h, c->url, il_cstr(token));

    if (rc == 0) {
        rc = il_http_call(&h, "POST", "/v1/lease/progress", body,
                          IL_PROGRESS_TIMEOUT);
        rc = il_http_check(&h, rc, c->json);

        /* for people there is nothing to say */

        if (rc == 0 && c->json) {
            il_out_line(stdout, il_buf_str(&h.answer.body));
        }
    }

    il_http_close(&h);

    return il_out_end(rc);
}


static int
il_progress(void *opts, const il_args_t *args)
{
    int       rc;
    il_buf_t  body;

    (void) args;

    memset(&body, 0, sizeof(body));
    rc = il_progress_body(&body, opts);

    if (rc == 0) {
        il_buf_puts(&body, "}");
        rc = il_progress_call(&((il_progress_opts_t *) opts)->common,
                              il_buf_str(&body));
    }

    il_buf_free(&body);

    return rc;
}
