/*
 * advice.c: the lease that the measurements of a kind speak for (operator's
 * or auditor's token).
 */

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cmds.h"
#include "il_json.h"
#include "il_key.h"


typedef struct {
    il_common_t  common;
    int64_t      recovery;
} il_advice_opts_t;


static int il_advice(void *opts, const il_args_t *args);


static const il_opt_t  il_advice_opts[] = {
    { "recovery", IL_OPT_INT, offsetof(il_advice_opts_t, recovery), "SECONDS",
      "a job whose worker died should run again within this time", 1, 86400,
      0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_advice = {
    "advice", il_advice, "show how long a kind's lease should be", "KIND",
    "Shows what was measured of a kind's attempts (run time, the longest gap\n"
    "between renewals, time from admission to claim), how many were lost, and\n"
    "the lease that this speaks for.  Changes nothing: interlock kind put does.",
    il_advice_opts, sizeof(il_advice_opts_t), IL_CMD_CLIENT, 1, 1
};


/* One line of percentiles: those of this member that there are. */
static void
il_advice_line(il_str_t doc, const char *title, const char *member)
{
    char   *text, pointer[64];
    size_t  n;

    static const char *const  names[] = {
        "p50", "p90", "p95", "p99", "max", NULL
    };

    (void) printf("%-18s", title);
    n = 0;

    for (size_t i = 0; names[i] != NULL; i++) {
        (void) snprintf(pointer, sizeof(pointer), "/%s/%s", member, names[i]);
        text = il_json_text(doc, pointer);

        if (text != NULL) {
            (void) printf(" %s %s s ", names[i], text);
            n++;
        }

        free(text);
    }

    (void) fputs(n == 0 ? " not measured\n" : "\n", stdout);
}


static void
il_advice_text(il_str_t doc, const char *title, const char *pointer,
    const char *unit, const char *more)
{
    char  *text, *why;

    text = il_json_text(doc, pointer);

    if (text == NULL) {
        return;
    }

    why = (more == NULL) ? NULL : il_json_text(doc, more);
    (void) printf("%-18s %s%s%s", title, text, unit, why == NULL ? "" : ": ");

    if (why != NULL) {
        il_out_clean(stdout, why, 1000);
    }

    (void) fputc('\n', stdout);
    free(text);
    free(why);
}


static int
il_advice(void *opts, const il_args_t *args)
{
    int                rc;
    char               path[sizeof("/v1/kinds//advice?recovery=86400")
                            + 3 * IL_NAME_MAX];
    il_str_t           doc;
    il_http_t          h;
    il_advice_opts_t  *o;

    o = opts;

    if (!il_name_valid(il_cstr(args->pos.v[0]))) {
        il_err("not a name of a kind (a-z, 0-9, \".\", \"_\", \"-\";"
               " at most %d): %s", IL_NAME_MAX, args->pos.v[0]);
        return EX_USAGE;
    }

    (void) snprintf(path, sizeof(path), "/v1/kinds/%s/advice",
                    args->pos.v[0]);

    if (o->recovery != 0) {
        (void) snprintf(path, sizeof(path), "/v1/kinds/%s/advice?recovery=%d",
                        args->pos.v[0], (int) o->recovery);
    }

    rc = il_http_open(&h, &o->common, 1);

    if (rc == 0) {
        rc = il_call_on(&h, &o->common, "GET", path, il_str("", 0));
    }

    if (rc == 0 && o->common.json) {
        il_out_line(stdout, il_buf_str(&h.answer.body));

    } else if (rc == 0) {
        doc = il_buf_str(&h.answer.body);
        il_advice_text(doc, "kind", "/kind", "", NULL);
        il_advice_text(doc, "attempts", "/samples", " measured", NULL);
        il_advice_line(doc, "run time", "run_seconds");
        il_advice_line(doc, "renewal gap", "renewal_gap_seconds");
        il_advice_line(doc, "wait", "wait_seconds");
        il_advice_text(doc, "lost", "/lost", "", NULL);
        il_advice_text(doc, "recovery goal", "/recovery_goal_seconds", " s",
                       NULL);
        il_advice_text(doc, "lease now", "/current/lease_seconds", " s", NULL);
        il_advice_text(doc, "lease proposed", "/proposed/lease_seconds", " s",
                       "/proposed/why");
    }

    il_http_close(&h);

    return il_out_end(rc);
}
