/*
 * job.c: looking things up: a job, a work, a result.
 */

#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "call.h"
#include "cmds.h"
#include "il_answer.h"
#include "il_key.h"
#include "il_uuid.h"
#include "job.h"

#define IL_JOB_POLL  25             /* s, at most 30 by the API */


typedef struct {
    il_common_t  common;
    int64_t      wait;
} il_job_opts_t;

typedef struct {
    il_common_t  common;
    int64_t      revision;
} il_result_opts_t;

typedef struct {
    il_common_t  common;
} il_show_opts_t;


static int il_job(void *opts, const il_args_t *args);
static int il_result(void *opts, const il_args_t *args);
static int il_show(void *opts, const il_args_t *args);


static const il_opt_t  il_job_opts[] = {
    { "wait", IL_OPT_INT, offsetof(il_job_opts_t, wait), "SECONDS",
      "wait until the job has ended, at most so long", 0, IL_JOB_WAIT_MAX, 0 },
    IL_OPT_END
};

static const il_opt_t  il_result_opts[] = {
    { "revision", IL_OPT_INT, offsetof(il_result_opts_t, revision), "N",
      "this revision, not the published one", 1, INT32_MAX, 0 },
    IL_OPT_END
};

static const il_opt_t  il_show_opts[] = {
    IL_OPT_END
};


const il_cmd_t  il_cmd_job = {
    "job", il_job, "show a job, or wait for its end", "ID [--wait SECONDS]",
    "Shows a job.  With --wait the exit code tells how it ended: 0 succeeded,\n"
    "1 ended otherwise, 75 not ended within the time.",
    il_job_opts, sizeof(il_job_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_result = {
    "result", il_result, "show the published result of a work key",
    "KEY [--revision N]",
    "Shows the result of the work that KEY names (a:b:c, as submitted).\n"
    "Exit code 66 if there is none yet.",
    il_result_opts, sizeof(il_result_opts_t), IL_CMD_CLIENT, 1, 1
};

const il_cmd_t  il_cmd_show = {
    "show", il_show, "show what is known of a work key", "KEY",
    "Shows active and waiting jobs, the result, and how many requests got\n"
    "which decision.",
    il_show_opts, sizeof(il_show_opts_t), IL_CMD_CLIENT, 1, 1
};


static void
il_job_print(const il_http_t *h, int json)
{
    if (json) {
        il_out_line(stdout, il_buf_str(&h->answer.body));

    } else {
        il_out_human(stdout, il_buf_str(&h->answer.body));
    }
}


static int
il_job_worth_retry(const il_http_t *h)
{
    return h->answer.status == 0 || h->answer.status == 408
           || h->answer.status == 429 || h->answer.status >= 500;
}


int
il_job_wait(il_http_t *h, const char *id, int64_t seconds, int json)
{
    int            rc, final;
    char           path[64], prefer[32], *status;
    int64_t        deadline, left;
    il_backoff_t   backoff;

    (void) snprintf(path, sizeof(path), "/v1/jobs/%s", id);
    deadline = il_boottime_ms() + seconds * 1000;
    il_backoff_init(&backoff, 200, 5000);

    for ( ;; ) {
        left = deadline - il_boottime_ms();
        left = left < 0 ? 0 : (left + 999) / 1000;
        left = left > IL_JOB_POLL ? IL_JOB_POLL : left;

        if (left > 0) {
            (void) snprintf(prefer, sizeof(prefer), "Prefer: wait=%d",
                            (int) left);
            il_http_header(h, prefer);
        }

        rc = il_http_call(h, "GET", path, il_str("", 0),
                          IL_JOB_TIMEOUT + (long) left * 1000);

        if (left > 0 && il_job_worth_retry(h)) {
            il_backoff_sleep(&backoff, h->answer.retry_after,
                             deadline - il_boottime_ms());
            continue;
        }

        rc = il_http_check(h, rc, json);

        if (rc != 0) {
            return rc;
        }

        il_backoff_reset(&backoff);
        status = il_json_text(il_buf_str(&h->answer.body), "/status");

        if (status == NULL) {
            il_err("the server's answer has no status");
            return EX_PROTOCOL;
        }

        final = il_status_final(il_status_find(il_cstr(status)));

        if (final || il_boottime_ms() >= deadline) {
            break;
        }

        free(status);

        /* a server that answers before the time (one that drains) is not
         * asked again without a pause */

        il_backoff_sleep(&backoff, -1, 50);
    }

    il_job_print(h, json);

    if (seconds > 0) {
        if (!final) {
            rc = EX_TEMPFAIL;

        } else if (strcmp(status, "succeeded") != 0) {
            rc = IL_EXIT_NO;
        }
    }

    free(status);

    return rc;
}


static int
il_job(void *opts, const il_args_t *args)
{
    int             rc;
    char            id[IL_UUID_TEXT + 1];
    il_http_t       h;
    il_job_opts_t  *o;

    o = opts;

    rc = il_call_id(id, args->pos.v[0], "a job's");
    if (rc != 0) {
        return rc;
    }

    rc = il_http_open(&h, &o->common, 1);

    if (rc == 0) {
        rc = il_job_wait(&h, id, o->wait, o->common.json);
    }

    il_http_close(&h);

    return il_out_end(rc);
}


/* GET of /v1/works/{key} and what is below it. */
static int
il_work_get(const il_common_t *c, const char *key, const char *rest)
{
    int         rc;
    char        enc[3 * IL_KEY_MAX + 1];
    il_buf_t    path;
    il_http_t   h;
    size_t      len;
    il_key_rc_e krc;

    krc = il_key_check(il_cstr(key));

    if (krc != IL_KEY_OK) {
        il_err("not a work key: %s: %s", il_key_strerror(krc), key);
        return EX_USAGE;
    }

    memset(&path, 0, sizeof(path));
    len = il_path_encode(enc, sizeof(enc), il_cstr(key));
    il_buf_puts(&path, "/v1/works/");
    il_buf_add(&path, enc, len);
    il_buf_puts(&path, rest);

    rc = il_http_open(&h, c, 1);

    if (rc == 0) {
        rc = il_http_call(&h, "GET", path.data, il_str("", 0),
                          IL_JOB_TIMEOUT);
        rc = il_http_check(&h, rc, c->json);

        if (rc == 0) {
            il_job_print(&h, c->json);
        }
    }

    il_http_close(&h);
    il_buf_free(&path);

    return il_out_end(rc);
}


static int
il_result(void *opts, const il_args_t *args)
{
    char               rest[64];
    il_result_opts_t  *o;

    o = opts;
    (void) snprintf(rest, sizeof(rest), "/result");

    if (o->revision != 0) {
        (void) snprintf(rest, sizeof(rest), "/result?revision=%lld",
                        (long long) o->revision);
    }

    return il_work_get(&o->common, args->pos.v[0], rest);
}


static int
il_show(void *opts, const il_args_t *args)
{
    return il_work_get(opts, args->pos.v[0], "");
}
