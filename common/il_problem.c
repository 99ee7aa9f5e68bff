/*
 * il_problem.c: the table of problems and their builder.
 */

#include <stdio.h>

#include "il_out.h"
#include "il_problem.h"


typedef struct {
    int       status;
    il_str_t  name;
    il_str_t  title;
} il_problem_row_t;


/* In the order of il_problem_e. */

static const il_problem_row_t  il_problems[] = {

    [IL_P_NONE] =
        { 0, il_string(""), il_string("") },

    [IL_P_BAD_REQUEST] =
        { 400, il_string("bad-request"), il_string("Bad request") },

    [IL_P_JSON_INVALID] =
        { 400, il_string("json-invalid"),
          il_string("The body is not valid JSON") },

    [IL_P_FORM_INVALID] =
        { 400, il_string("form-invalid"),
          il_string("The body is not a valid form") },

    [IL_P_DATE_INVALID] =
        { 400, il_string("date-invalid"),
          il_string("The time of a business date cannot be read") },

    [IL_P_UNKNOWN_FIELD] =
        { 400, il_string("unknown-field"),
          il_string("The request has an unknown field") },

    [IL_P_FIELD_INVALID] =
        { 400, il_string("field-invalid"),
          il_string("A field has an invalid value") },

    [IL_P_WORK_KEY_INCOMPLETE] =
        { 400, il_string("work-key-incomplete"),
          il_string("A part of the work key is missing") },

    [IL_P_WORK_KEY_INVALID] =
        { 400, il_string("work-key-invalid"),
          il_string("The work key is invalid") },

    [IL_P_WORK_KEY_MISMATCH] =
        { 400, il_string("work-key-mismatch"),
          il_string("The work key is not as its kind's template says") },

    [IL_P_IDEMPOTENCY_KEY_MISSING] =
        { 400, il_string("idempotency-key-missing"),
          il_string("The idempotency key is missing") },

    [IL_P_IDEMPOTENCY_KEY_INVALID] =
        { 400, il_string("idempotency-key-invalid"),
          il_string("The idempotency key is invalid") },

    [IL_P_FRESH_NOT_ALLOWED] =
        { 400, il_string("fresh-not-allowed"),
          il_string("This kind does not allow a fresh run") },

    [IL_P_EFFECT_NAME_INVALID] =
        { 400, il_string("effect-name-invalid"),
          il_string("The effect's name is missing or invalid") },

    [IL_P_SEND_UNKNOWN] =
        { 400, il_string("send-unknown"),
          il_string("The effect has no such send") },

    [IL_P_TOKEN_INVALID] =
        { 401, il_string("token-invalid"),
          il_string("The API token is missing or invalid") },

    [IL_P_OWNER_TOKEN_INVALID] =
        { 401, il_string("owner-token-invalid"),
          il_string("The owner token is missing or invalid") },

    [IL_P_TICKET_INVALID] =
        { 401, il_string("ticket-invalid"),
          il_string("The ticket is missing or invalid") },

    [IL_P_SIGNATURE_INVALID] =
        { 401, il_string("signature-invalid"),
          il_string("The signature is missing or invalid") },

    [IL_P_TIMESTAMP_OUT_OF_RANGE] =
        { 401, il_string("timestamp-out-of-range"),
          il_string("The signed timestamp is out of range") },

    [IL_P_FORBIDDEN] =
        { 403, il_string("forbidden"),
          il_string("The token's role does not allow this") },

    [IL_P_CROSS_ORIGIN] =
        { 403, il_string("cross-origin"),
          il_string("The request comes from another site") },

    [IL_P_NOT_FOUND] =
        { 404, il_string("not-found"), il_string("Not found") },

    [IL_P_KIND_UNKNOWN] =
        { 404, il_string("kind-unknown"),
          il_string("There is no such kind") },

    [IL_P_EFFECT_KIND_UNKNOWN] =
        { 404, il_string("effect-kind-unknown"),
          il_string("There is no such effect kind") },

    [IL_P_COMPENSATES_UNKNOWN] =
        { 404, il_string("compensates-unknown"),
          il_string("There is no such effect to compensate") },

    [IL_P_METHOD_NOT_ALLOWED] =
        { 405, il_string("method-not-allowed"),
          il_string("Method not allowed") },

    [IL_P_REQUEST_IN_PROGRESS] =
        { 409, il_string("request-in-progress"),
          il_string("The same request is still in progress") },

    [IL_P_REQUEST_IN_PROGRESS_503] =
        { 503, il_string("request-in-progress"),
          il_string("The same request is still in progress") },

    [IL_P_WORK_ACTIVE] =
        { 409, il_string("work-active"),
          il_string("The work is already active") },

    [IL_P_WORK_KIND] =
        { 409, il_string("work-kind"),
          il_string("The work key belongs to another kind") },

    [IL_P_KIND_IN_USE] =
        { 409, il_string("kind-in-use"),
          il_string("The kind is in use") },

    [IL_P_JOB_FINAL] =
        { 409, il_string("job-final"),
          il_string("The job has ended already") },

    [IL_P_JOB_NOT_RUNNING] =
        { 409, il_string("job-not-running"),
          il_string("Nobody has the job") },

    [IL_P_DECISION_NOT_POSSIBLE] =
        { 409, il_string("decision-not-possible"),
          il_string("The state does not allow this decision") },

    [IL_P_PLAN_EXPIRED] =
        { 409, il_string("plan-expired"),
          il_string("The plan is too old") },

    [IL_P_LEASE_LOST] =
        { 409, il_string("lease-lost"),
          il_string("The lease was lost") },

    [IL_P_FENCE_STALE] =
        { 409, il_string("fence-stale"),
          il_string("A newer owner holds the work") },

    [IL_P_JOB_CANCELED] =
        { 409, il_string("job-canceled"),
          il_string("The job was canceled") },

    [IL_P_LEASE_EXPIRED] =
        { 409, il_string("lease-expired"),
          il_string("The lease has expired") },

    [IL_P_LEASE_TOO_SHORT] =
        { 409, il_string("lease-too-short"),
          il_string("Too little of the lease remains") },

    [IL_P_EFFECT_IN_PROGRESS] =
        { 409, il_string("effect-in-progress"),
          il_string("The effect is being sent") },

    [IL_P_EFFECT_UNSETTLED] =
        { 409, il_string("effect-unsettled"),
          il_string("It is not known whether the effect happened") },

    [IL_P_EFFECT_MISMATCH] =
        { 409, il_string("effect-mismatch"),
          il_string("The effect was begun with another request") },

    [IL_P_EFFECT_SETTLED] =
        { 409, il_string("effect-settled"),
          il_string("The effect is settled already") },

    [IL_P_EFFECT_KIND_IN_USE] =
        { 409, il_string("effect-kind-in-use"),
          il_string("The effect kind is in use") },

    [IL_P_SEND_NOT_YOURS] =
        { 409, il_string("send-not-yours"),
          il_string("The send was another attempt's") },

    [IL_P_EFFECT_CONFLICT] =
        { 409, il_string("effect-conflict"),
          il_string("The opposite was said of this send before") },

    [IL_P_CHECK_NOT_POSSIBLE] =
        { 409, il_string("check-not-possible"),
          il_string("The effect can not be looked up") },

    [IL_P_GAP_CLOSED] =
        { 409, il_string("gap-closed"),
          il_string("The gap is not open any more") },

    [IL_P_INBOX_SETTLED] =
        { 409, il_string("inbox-settled"),
          il_string("It waits for nobody any more") },

    [IL_P_PRUNED] =
        { 410, il_string("pruned"),
          il_string("What is known of this work was pruned") },

    [IL_P_IMPACT_CHANGED] =
        { 412, il_string("impact-changed"),
          il_string("The impact is not the one that was shown") },

    [IL_P_BODY_TOO_LARGE] =
        { 413, il_string("body-too-large"),
          il_string("The body is too large") },

    [IL_P_ENCODING_UNSUPPORTED] =
        { 415, il_string("encoding-unsupported"),
          il_string("The body is encoded in a way that is not known") },

    [IL_P_IDEMPOTENCY_KEY_REUSED] =
        { 422, il_string("idempotency-key-reused"),
          il_string("The idempotency key was used for another request") },

    [IL_P_QUEUE_FULL] =
        { 429, il_string("queue-full"),
          il_string("The queue is full") },

    [IL_P_TOO_MANY_ATTEMPTS] =
        { 429, il_string("too-many-attempts"),
          il_string("There were too many attempts to log in") },

    [IL_P_INTERNAL] =
        { 500, il_string("internal"), il_string("Internal error") },

    [IL_P_PROVIDER_FAILED] =
        { 502, il_string("provider-failed"),
          il_string("The provider gave no whole answer") },

    [IL_P_OUTCOME_UNRECORDED] =
        { 503, il_string("outcome-unrecorded"),
          il_string("The outcome could not be recorded") },

    [IL_P_UNAVAILABLE] =
        { 503, il_string("unavailable"),
          il_string("The service is temporarily unavailable") },

    [IL_P_SOURCE_PAUSED] =
        { 503, il_string("source-paused"),
          il_string("Requests from this source are paused") },

    [IL_P_PROVIDER_TIMEOUT] =
        { 504, il_string("provider-timeout"),
          il_string("The provider did not answer in time") },
};


_Static_assert(sizeof(il_problems) / sizeof(il_problems[0]) == IL_P_MAX,
               "one row for each problem");


static const il_problem_row_t *
il_problem_row(il_problem_e p)
{
    /* A problem that is none is a defect of the caller: internal error. */

    if ((unsigned) p == IL_P_NONE || (unsigned) p >= IL_P_MAX) {
        return &il_problems[IL_P_INTERNAL];
    }

    return &il_problems[p];
}


int
il_problem_status(il_problem_e p)
{
    return il_problem_row(p)->status;
}


il_str_t
il_problem_name(il_problem_e p)
{
    return il_problem_row(p)->name;
}


il_str_t
il_problem_title(il_problem_e p)
{
    return il_problem_row(p)->title;
}


il_problem_e
il_problem_find(il_str_t name)
{
    unsigned  p;

    for (p = IL_P_NONE + 1; p < IL_P_MAX; p++) {
        if (il_str_eq(il_problems[p].name, name)) {
            return (il_problem_e) p;
        }
    }

    return IL_P_NONE;
}


size_t
il_problem_build(char *out, size_t cap, il_problem_e p, il_str_t detail,
    il_str_t extra)
{
    char                     head[256];
    int                      n;
    il_out_t                 o;
    const il_problem_row_t  *row;

    row = il_problem_row(p);

    n = snprintf(head, sizeof(head),
                 "{\"type\":\"" IL_PROBLEM_TYPE "%s\",\"title\":\"%s\","
                 "\"status\":%d",
                 row->name.data, row->title.data, row->status);

    if (n < 0 || (size_t) n >= sizeof(head)) {
        return 0;
    }

    il_out_init(&o, out, cap);
    il_out_put(&o, il_str(head, (size_t) n));

    if (detail.len != 0) {
        il_out_text(&o, ",\"detail\":\"");
        il_out_json(&o, detail);
        il_out_text(&o, "\"");
    }

    if (extra.len != 0) {
        il_out_text(&o, ",");
        il_out_put(&o, extra);
    }

    il_out_text(&o, "}");

    return il_out_len(&o);
}
