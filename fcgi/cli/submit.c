/*
 * submit.c: one submission over the API.
 */

#include <stdlib.h>
#include <string.h>

#include "cmds.h"
#include "il_json.h"
#include "il_key.h"
#include "job.h"

#define IL_SUBMIT_PAYLOAD_MAX  (32 * 1024 * 1024)


typedef struct {
    il_common_t  common;
    const char  *kind;
    const char  *key;
    const char  *idempotency_key;
    const char  *payload;
    const char  *run_after;
    const char  *deadline;
    const char  *requested_by;
    const char  *reason;
    int64_t      version;
    int64_t      priority;
    int64_t      wait;
    int          fresh;
} il_submit_opts_t;

#define IL_SUBMIT_UNSET  INT64_MIN


static int il_submit(void *opts, const il_args_t *args);


#define il_submit_str(field)  IL_OPT_STR, offsetof(il_submit_opts_t, field)

static const il_opt_t  il_submit_opts[] = {
    { "kind", il_submit_str(kind), "NAME", "kind of work", 0, 0, 0 },
    { "key", il_submit_str(key), "KEY",
      "work key, parts joined by \":\" (\"%\", \":\" and spaces inside a part"
      " percent-encoded)", 0, 0, 0 },
    { "idempotency-key", il_submit_str(idempotency_key), "X",
      "names this request: sent again, it gets the first answer", 0, 0, 0 },
    { "payload", il_submit_str(payload), "FILE",
      "JSON for the worker (- for standard input)", 0, 0, 0 },
    { "version", IL_OPT_INT, offsetof(il_submit_opts_t, version), "N",
      "version of the input; a lower one than the newest is skipped",
      0, 999999999999999999, IL_SUBMIT_UNSET },
    { "priority", IL_OPT_INT, offsetof(il_submit_opts_t, priority), "N",
      "higher goes first", -100, 100, IL_SUBMIT_UNSET },
    { "run-after", il_submit_str(run_after), "TIME",
      "not before this time (RFC 3339)", 0, 0, 0 },
    { "deadline", il_submit_str(deadline), "TIME",
      "moves ahead of others to meet it (RFC 3339)", 0, 0, 0 },
    { "fresh", IL_OPT_FLAG, offsetof(il_submit_opts_t, fresh), NULL,
      "do not take a result that is there already", 0, 0, 0 },
    { "requested-by", il_submit_str(requested_by), "WHO",
      "who asks, for the audit", 0, 0, 0 },
    { "reason", il_submit_str(reason), "TEXT", "why, for the audit", 0, 0, 0 },
    { "wait", IL_OPT_OPT_INT, offsetof(il_submit_opts_t, wait), "SECONDS",
      "wait until the job has ended, and show it", 1, IL_JOB_WAIT_MAX, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_submit = {
    "submit", il_submit, "submit work", "--kind K --key KEY [options]",
    "Submits work and shows the decision.  With --wait the exit code tells how\n"
    "the job ended: 0 succeeded, 1 ended otherwise, 75 not ended in time.\n"
    "When the answer is lost, submit again with the same --idempotency-key.",
    il_submit_opts, sizeof(il_submit_opts_t), IL_CMD_CLIENT, 0, 0
};


static void
il_submit_member(il_buf_t *b, const char *name, const char *value)
{
    if (value != NULL) {
        il_buf_printf(b, ",\"%s\":", name);
        il_buf_json(b, il_cstr(value));
    }
}


static int
il_submit_body(il_buf_t *b, const il_submit_opts_t *o)
{
    int       rc;
    il_buf_t  payload;

    il_buf_puts(b, "{\"kind\":");
    il_buf_json(b, il_cstr(o->kind));
    il_submit_member(b, "work_key", o->key);
    il_submit_member(b, "run_after", o->run_after);
    il_submit_member(b, "deadline", o->deadline);
    il_submit_member(b, "requested_by", o->requested_by);
    il_submit_member(b, "reason", o->reason);

    if (o->version != IL_SUBMIT_UNSET) {
        il_buf_printf(b, ",\"version\":%lld", (long long) o->version);
    }

    if (o->priority != IL_SUBMIT_UNSET) {
        il_buf_printf(b, ",\"priority\":%lld", (long long) o->priority);
    }

    if (o->fresh) {
        il_buf_puts(b, ",\"fresh\":true");
    }

    rc = 0;

    if (o->payload != NULL) {
        memset(&payload, 0, sizeof(payload));
        rc = il_file_read(&payload, o->payload, IL_SUBMIT_PAYLOAD_MAX);

        if (rc == 0 && il_json_check(il_buf_str(&payload)) != IL_JSON_OK) {
            il_err("the payload %s is not JSON", o->payload);
            rc = EX_DATAERR;
        }

        if (rc == 0) {
            il_buf_puts(b, ",\"payload\":");
            il_buf_add(b, payload.data, payload.len);
        }

        il_buf_free(&payload);
    }

    il_buf_puts(b, "}");

    return rc;
}


static int
il_submit_idem(il_http_t *h, const char *key)
{
    char      parsed[IL_IDEM_MAX];
    size_t    len;
    il_buf_t  line;

    if (key == NULL) {
        return 0;
    }

    if (il_idem_parse(il_cstr(key), parsed, &len) != 0) {
        il_err("not an idempotency key (1 to %d characters, none of them a"
               " control character): %s", IL_IDEM_MAX, key);
        return EX_USAGE;
    }

    memset(&line, 0, sizeof(line));
    il_buf_puts(&line, "Idempotency-Key: ");
    il_buf_puts(&line, key);
    il_http_header(h, line.data);
    il_buf_free(&line);

    return 0;
}


/* The job that the answer speaks of: the new one, else the active one. */
static char *
il_submit_job(const il_http_t *h)
{
    char  *id;

    id = il_json_text(il_buf_str(&h->answer.body), "/job_id");

    if (id == NULL) {
        id = il_json_text(il_buf_str(&h->answer.body), "/active_job_id");
    }

    return id;
}


static int
il_submit_send(il_http_t *h, const il_submit_opts_t *o, const il_buf_t *body)
{
    int    rc;
    char  *id;

    rc = il_submit_idem(h, o->idempotency_key);

    if (rc != 0) {
        return rc;
    }

    rc = il_http_call(h, "POST", "/v1/jobs", il_buf_str(body),
                      IL_JOB_TIMEOUT);
    rc = il_http_check(h, rc, o->common.json);

    if (rc != 0) {
        return rc;
    }

    if (o->wait == 0) {
        if (o->common.json) {
            il_out_line(stdout, il_buf_str(&h->answer.body));
            return 0;
        }

        il_out_human(stdout, il_buf_str(&h->answer.body));

        if (h->answer.replayed) {
            (void) puts("replayed           true");
        }

        return 0;
    }

    id = il_submit_job(h);

    if (id == NULL) {
        il_err("the server's answer names no job");
        return EX_PROTOCOL;
    }

    rc = il_job_wait(h, id, o->wait, o->common.json);
    free(id);

    return rc;
}


static int
il_submit(void *opts, const il_args_t *args)
{
    int                rc;
    il_buf_t           body;
    il_http_t          h;
    il_submit_opts_t  *o;

    (void) args;
    o = opts;

    if (o->kind == NULL || o->key == NULL) {
        il_err("submit: --kind and --key are needed");
        return EX_USAGE;
    }

    memset(&body, 0, sizeof(body));
    memset(&h, 0, sizeof(h));
    rc = il_submit_body(&body, o);

    if (rc == 0) {
        rc = il_http_open(&h, &o->common, 1);
    }

    if (rc == 0) {
        rc = il_submit_send(&h, o, &body);
    }

    il_http_close(&h);
    il_buf_free(&body);

    return il_out_end(rc);
}
