/*
 * answer.c: answers to submissions, their compact form, and problems.
 */

#include "unit.h"
#include "il_answer.h"
#include "il_enc.h"
#include "il_json.h"
#include "il_key.h"
#include "il_problem.h"


#define JOB     "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
#define ACTIVE  "017f22e2-79b0-7cc3-98c4-dc0c0c073990"
#define OLD     "017f22e2-79b0-7cc3-98c4-dc0c0c073991"


static void
fill(il_answer_t *a)
{
    memset(a, 0, sizeof(*a));

    a->decision = IL_D_ACCEPTED;
    a->status = IL_S_QUEUED;
    a->has = IL_ANSWER_HAS_JOB;
    assert_int_equal(il_uuid_parse(a->job_id, il_cstr(JOB)), 0);
    assert_int_equal(il_uuid_parse(a->active_job_id, il_cstr(ACTIVE)), 0);
    assert_int_equal(il_uuid_parse(a->superseded_job_id, il_cstr(OLD)), 0);
    a->kind = il_lit("github-push");
    a->work_key = il_lit("github:octo/hello:refs/heads/main");
}


static void
bodies(void **state)
{
    char         out[IL_ANSWER_CAP];
    size_t       n;
    il_answer_t  a;

    (void) state;

    fill(&a);
    n = il_answer_build(out, sizeof(out), &a);
    il_assert_text(out, n,
        "{\"decision\":\"accepted\",\"job_id\":\"" JOB "\","
        "\"work_key\":\"github:octo/hello:refs/heads/main\","
        "\"kind\":\"github-push\",\"status\":\"queued\","
        "\"status_url\":\"/v1/jobs/" JOB "\"}");

    a.decision = IL_D_REPLACED;
    a.reason = IL_R_ALREADY_WAITING;
    a.has |= IL_ANSWER_HAS_ACTIVE | IL_ANSWER_HAS_SUPERSEDED;
    n = il_answer_build(out, sizeof(out), &a);
    il_assert_text(out, n,
        "{\"decision\":\"replaced\",\"job_id\":\"" JOB "\","
        "\"work_key\":\"github:octo/hello:refs/heads/main\","
        "\"kind\":\"github-push\",\"status\":\"queued\","
        "\"status_url\":\"/v1/jobs/" JOB "\","
        "\"active_job_id\":\"" ACTIVE "\","
        "\"superseded_job_id\":\"" OLD "\","
        "\"reason\":\"already_waiting\"}");

    /* The result's address is built from the key, percent-encoded again. */

    fill(&a);
    a.decision = IL_D_COMPLETED;
    a.status = IL_S_SUCCEEDED;
    a.work_key = il_lit("a%3Ab:\"q\"/\xc3\xa9");
    a.has |= IL_ANSWER_HAS_RESULT;
    n = il_answer_build(out, sizeof(out), &a);
    il_assert_text(out, n,
        "{\"decision\":\"completed\",\"job_id\":\"" JOB "\","
        "\"work_key\":\"a%3Ab:\\\"q\\\"/\xc3\xa9\","
        "\"kind\":\"github-push\",\"status\":\"succeeded\","
        "\"status_url\":\"/v1/jobs/" JOB "\","
        "\"result_url\":\"/v1/works/a%253Ab:%22q%22%2F%C3%A9/result\"}");

    a.result_url = il_lit("https://cdn.example/r?a=\"1\"");
    n = il_answer_build(out, sizeof(out), &a);
    out[n] = '\0';
    assert_non_null(strstr(out,
        "\"result_url\":\"https://cdn.example/r?a=\\\"1\\\"\"}"));

    /* Nothing known but what was asked for. */

    memset(&a, 0, sizeof(a));
    a.decision = IL_D_REJECTED;
    a.reason = IL_R_QUEUE_FULL;
    a.kind = il_lit("k");
    a.work_key = il_lit("w");
    n = il_answer_build(out, sizeof(out), &a);
    il_assert_text(out, n,
        "{\"decision\":\"rejected\",\"work_key\":\"w\",\"kind\":\"k\","
        "\"reason\":\"queue_full\"}");
}


static void
bodies_keep_to_their_buffer(void **state)
{
    char         out[IL_ANSWER_CAP], *small;
    size_t       n, cap;
    il_answer_t  a;

    (void) state;

    fill(&a);
    a.has = 15;
    a.reason = IL_R_SAME_WORK;
    n = il_answer_build(out, sizeof(out), &a);
    assert_true(n > 0);

    for (cap = 0; cap <= n; cap++) {
        small = malloc(cap + 1);
        assert_non_null(small);
        small[cap] = '#';
        assert_int_equal(il_answer_build(small, cap, &a), cap < n ? 0 : n);
        assert_int_equal(small[cap], '#');
        free(small);
    }
}


/* The longest key and kind, everything present: IL_ANSWER_CAP is enough. */

static void
the_largest_body(void **state)
{
    char         out[IL_ANSWER_CAP], key[IL_KEY_MAX], kind[IL_NAME_MAX];
    size_t       n;
    il_answer_t  a;

    (void) state;

    memset(key, '"', sizeof(key));
    memset(kind, 'k', sizeof(kind));

    fill(&a);
    a.has = 15;
    a.work_key = il_str(key, sizeof(key));
    a.kind = il_str(kind, sizeof(kind));
    a.reason = IL_R_MISMATCH_RECORDED;
    n = il_answer_build(out, sizeof(out), &a);
    assert_true(n > 2 * IL_KEY_MAX + 3 * IL_KEY_MAX);
    assert_int_equal(il_json_check(il_str(out, n)), IL_JSON_OK);

    /* Bytes that no checked key has. */

    memset(key, 0x01, sizeof(key));
    n = il_answer_build(out, sizeof(out), &a);
    assert_true(n > 0);
    memset(key, 0xff, sizeof(key));
    n = il_answer_build(out, sizeof(out), &a);
    assert_true(n > 0);
    assert_int_equal(il_json_check(il_str(out, n)), IL_JSON_OK);
}


static void
round_trip_one(const il_answer_t *a, int code)
{
    int          back_code;
    char         text[IL_ANSWER_COMPACT_CAP], again[IL_ANSWER_COMPACT_CAP];
    char         one[IL_ANSWER_CAP], two[IL_ANSWER_CAP];
    size_t       n, m, len_one, len_two;
    il_str_t     s;
    il_answer_t  b;

    n = il_answer_compact(text, sizeof(text), a, code);
    assert_true(n > 0);

    s = il_exact(il_str(text, n));

    if (il_answer_parse(s, &b, &back_code) != 0) {
        fail_msg("refused: %.*s", (int) n, text);
    }

    il_drop(s);

    assert_int_equal(back_code, code);
    assert_int_equal(b.decision, a->decision);
    assert_int_equal(b.status, a->status);
    assert_int_equal(b.reason, a->reason);
    assert_int_equal(b.has, a->has);

    m = il_answer_compact(again, sizeof(again), &b, code);
    assert_int_equal(m, n);
    assert_memory_equal(again, text, n);

    /* The body comes out byte for byte. */

    b.kind = a->kind;
    b.work_key = a->work_key;
    len_one = il_answer_build(one, sizeof(one), a);
    len_two = il_answer_build(two, sizeof(two), &b);
    assert_true(len_one > 0);
    assert_int_equal(len_one, len_two);
    assert_memory_equal(one, two, len_one);
}


static void
compact_round_trip(void **state)
{
    int          codes[] = { 200, 202, 429, 100, 599 };
    unsigned     d, s, r, has, c;
    il_answer_t  a;

    (void) state;

    c = 0;

    for (d = 0; d < IL_D_MAX; d++) {
        for (s = 0; s < IL_S_MAX; s++) {
            for (r = 0; r < IL_R_MAX; r++) {
                for (has = 0; has < 16; has++) {
                    fill(&a);
                    a.decision = (il_decision_e) d;
                    a.status = (il_status_e) s;
                    a.reason = (il_reason_e) r;
                    a.has = has;
                    round_trip_one(&a, codes[c++ % il_rows(codes)]);
                }
            }
        }
    }
}


static void
compact_form(void **state)
{
    char         out[IL_ANSWER_COMPACT_CAP];
    size_t       n, cap;
    il_answer_t  a;

    (void) state;

    fill(&a);
    n = il_answer_compact(out, sizeof(out), &a, 202);
    il_assert_text(out, n, "1;202;accepted;queued;-;1;" JOB ";-;-");

    a.has = 15;
    a.reason = IL_R_SAME_WORK;
    n = il_answer_compact(out, sizeof(out), &a, 200);
    il_assert_text(out, n, "1;200;accepted;queued;same_work;15;" JOB ";"
                           ACTIVE ";" OLD);

    for (cap = 0; cap < n; cap++) {
        memset(out, '#', sizeof(out));
        assert_int_equal(il_answer_compact(out, cap, &a, 200), 0);
        assert_int_equal(out[cap], '#');
    }

    assert_int_equal(il_answer_compact(out, sizeof(out), &a, 99), 0);
    assert_int_equal(il_answer_compact(out, sizeof(out), &a, 600), 0);
    assert_int_equal(il_answer_compact(out, sizeof(out), &a, -1), 0);

    /* What the edge cannot rebuild has no compact form. */

    a.result_url = il_lit("https://cdn.example/r");
    assert_int_equal(il_answer_compact(out, sizeof(out), &a, 200), 0);

    a.result_url = il_str(NULL, 0);
    a.has = 16;
    assert_int_equal(il_answer_compact(out, sizeof(out), &a, 200), 0);
}


static void
compact_refused(void **state)
{
    int          code;
    char         longer[IL_ANSWER_COMPACT_CAP + 2];
    size_t       i;
    il_str_t     s;
    il_answer_t  a;

    static const char *const  bad[] = {
        "", "1", ";;;;;;;;", "1;;;;;;;;",
        "2;202;accepted;queued;-;1;" JOB ";-;-",
        "01;202;accepted;queued;-;1;" JOB ";-;-",
        "1;20;accepted;queued;-;1;" JOB ";-;-",
        "1;099;accepted;queued;-;1;" JOB ";-;-",
        "1;600;accepted;queued;-;1;" JOB ";-;-",
        "1;2020;accepted;queued;-;1;" JOB ";-;-",
        "1;+20;accepted;queued;-;1;" JOB ";-;-",
        "1;202;acceptes;queued;-;1;" JOB ";-;-",
        "1;202;Accepted;queued;-;1;" JOB ";-;-",
        "1;202;;queued;-;1;" JOB ";-;-",
        "1;202;accepted;done;-;1;" JOB ";-;-",
        "1;202;accepted;queued;;1;" JOB ";-;-",
        "1;202;accepted;queued;why;1;" JOB ";-;-",
        "1;202;accepted;queued;-;16;" JOB ";-;-",
        "1;202;accepted;queued;-;16;-;-;-",
        "1;202;accepted;queued;-;-1;" JOB ";-;-",
        "1;202;accepted;queued;-;1x;" JOB ";-;-",
        "1;202;accepted;queued;-;;" JOB ";-;-",
        "1;202;accepted;queued;-;001;" JOB ";-;-",
        "1;202;accepted;queued;-;0;" JOB ";-;-",
        "1;202;accepted;queued;-;1;-;-;-",
        "1;202;accepted;queued;-;3;" JOB ";-;-",
        "1;202;accepted;queued;-;1;" JOB ";" ACTIVE ";-",
        "1;202;accepted;queued;-;1;" JOB ";-;" OLD,
        "1;202;accepted;queued;-;1;" JOB "0;-;-",
        "1;202;accepted;queued;-;1;" JOB ";-",
        "1;202;accepted;queued;-;1;" JOB ";-;-;",
        "1;202;accepted;queued;-;1;" JOB ";-;-;-",
        "1;202;accepted;queued;-;1;" JOB ";-;- ",
        " 1;202;accepted;queued;-;1;" JOB ";-;-",
        "1;202;accepted;queued;-;1;" JOB ";-;-\n",
    };

    (void) state;

    for (i = 0; i < il_rows(bad); i++) {
        s = il_exact(il_cstr(bad[i]));

        if (il_answer_parse(s, &a, &code) != -1) {
            fail_msg("taken: %s", bad[i]);
        }

        assert_int_equal(a.has, 0);
        assert_int_equal(a.decision, IL_D_NONE);
        il_drop(s);
    }

    memset(longer, ';', sizeof(longer));
    assert_int_equal(il_answer_parse(il_str(longer, sizeof(longer)), &a,
                                     &code), -1);
}


static void
names_of_enums(void **state)
{
    unsigned  i;

    (void) state;

    for (i = 1; i < IL_D_MAX; i++) {
        assert_true(il_decision_name((il_decision_e) i).len > 0);
        assert_int_equal(il_decision_find(il_decision_name((il_decision_e) i)),
                         i);
    }

    for (i = 1; i < IL_S_MAX; i++) {
        assert_true(il_status_name((il_status_e) i).len > 0);
        assert_int_equal(il_status_find(il_status_name((il_status_e) i)), i);
    }

    for (i = 1; i < IL_R_MAX; i++) {
        assert_true(il_reason_name((il_reason_e) i).len > 0);
        assert_int_equal(il_reason_find(il_reason_name((il_reason_e) i)), i);
    }

    assert_int_equal(il_decision_find(il_lit("")), IL_D_NONE);
    assert_int_equal(il_status_find(il_lit("-")), IL_S_NONE);

    for (i = 0; i < IL_S_MAX; i++) {
        assert_int_equal(il_status_final((il_status_e) i),
                         i == IL_S_SUCCEEDED || i == IL_S_FAILED
                         || i == IL_S_CANCELED || i == IL_S_SUPERSEDED
                         || i == IL_S_EXPIRED);
    }
    assert_int_equal(il_reason_find(il_lit("same_wor")), IL_R_NONE);
    assert_int_equal(il_decision_name((il_decision_e) 99).len, 0);
    assert_int_equal(il_status_name(IL_S_MAX).len, 0);
    assert_int_equal(il_reason_name(IL_R_MAX).len, 0);
}


static void
codes_of_decisions(void **state)
{
    (void) state;

    assert_int_equal(il_decision_code(IL_D_ACCEPTED), 202);
    assert_int_equal(il_decision_code(IL_D_BUFFERED), 202);
    assert_int_equal(il_decision_code(IL_D_REPLACED), 202);
    assert_int_equal(il_decision_code(IL_D_PARKED), 202);
    assert_int_equal(il_decision_code(IL_D_SKIPPED), 200);
    assert_int_equal(il_decision_code(IL_D_COMPLETED), 200);
    assert_int_equal(il_decision_code(IL_D_DUPLICATE), 200);
    assert_int_equal(il_decision_code(IL_D_REJECTED), 429);
    assert_int_equal(il_decision_code(IL_D_NONE), 0);
}


static void
paths(void **state)
{
    char      out[3 * 256];
    char      all[256];
    size_t    i, n;

    (void) state;

    n = il_path_encode(out, sizeof(out), il_lit("Az09-._~:a/b c%3A\xc3\xa9"));
    il_assert_text(out, n, "Az09-._~:a%2Fb%20c%253A%C3%A9");

    for (i = 0; i < 256; i++) {
        all[i] = (char) i;
    }

    /* 66 unreserved characters and the colon stay. */

    n = il_path_encode(out, sizeof(out), il_str(all, 256));
    assert_int_equal(n, 67 + 3 * (256 - 67));
    assert_int_equal(il_path_encode(out, n - 1, il_str(all, 256)), 0);
}


typedef struct {
    il_problem_e  p;
    int           status;
    const char   *name;
} problem_row_t;


static const problem_row_t  problem_rows[] = {
    { IL_P_BAD_REQUEST, 400, "bad-request" },
    { IL_P_JSON_INVALID, 400, "json-invalid" },
    { IL_P_FORM_INVALID, 400, "form-invalid" },
    { IL_P_DATE_INVALID, 400, "date-invalid" },
    { IL_P_UNKNOWN_FIELD, 400, "unknown-field" },
    { IL_P_FIELD_INVALID, 400, "field-invalid" },
    { IL_P_WORK_KEY_INCOMPLETE, 400, "work-key-incomplete" },
    { IL_P_WORK_KEY_INVALID, 400, "work-key-invalid" },
    { IL_P_WORK_KEY_MISMATCH, 400, "work-key-mismatch" },
    { IL_P_IDEMPOTENCY_KEY_MISSING, 400, "idempotency-key-missing" },
    { IL_P_IDEMPOTENCY_KEY_INVALID, 400, "idempotency-key-invalid" },
    { IL_P_FRESH_NOT_ALLOWED, 400, "fresh-not-allowed" },
    { IL_P_EFFECT_NAME_INVALID, 400, "effect-name-invalid" },
    { IL_P_SEND_UNKNOWN, 400, "send-unknown" },
    { IL_P_TOKEN_INVALID, 401, "token-invalid" },
    { IL_P_OWNER_TOKEN_INVALID, 401, "owner-token-invalid" },
    { IL_P_TICKET_INVALID, 401, "ticket-invalid" },
    { IL_P_SIGNATURE_INVALID, 401, "signature-invalid" },
    { IL_P_TIMESTAMP_OUT_OF_RANGE, 401, "timestamp-out-of-range" },
    { IL_P_FORBIDDEN, 403, "forbidden" },
    { IL_P_CROSS_ORIGIN, 403, "cross-origin" },
    { IL_P_NOT_FOUND, 404, "not-found" },
    { IL_P_KIND_UNKNOWN, 404, "kind-unknown" },
    { IL_P_EFFECT_KIND_UNKNOWN, 404, "effect-kind-unknown" },
    { IL_P_COMPENSATES_UNKNOWN, 404, "compensates-unknown" },
    { IL_P_METHOD_NOT_ALLOWED, 405, "method-not-allowed" },
    { IL_P_REQUEST_IN_PROGRESS, 409, "request-in-progress" },
    { IL_P_REQUEST_IN_PROGRESS_503, 503, "request-in-progress" },
    { IL_P_WORK_ACTIVE, 409, "work-active" },
    { IL_P_WORK_KIND, 409, "work-kind" },
    { IL_P_KIND_IN_USE, 409, "kind-in-use" },
    { IL_P_JOB_FINAL, 409, "job-final" },
    { IL_P_JOB_NOT_RUNNING, 409, "job-not-running" },
    { IL_P_DECISION_NOT_POSSIBLE, 409, "decision-not-possible" },
    { IL_P_PLAN_EXPIRED, 409, "plan-expired" },
    { IL_P_LEASE_LOST, 409, "lease-lost" },
    { IL_P_FENCE_STALE, 409, "fence-stale" },
    { IL_P_JOB_CANCELED, 409, "job-canceled" },
    { IL_P_LEASE_EXPIRED, 409, "lease-expired" },
    { IL_P_LEASE_TOO_SHORT, 409, "lease-too-short" },
    { IL_P_EFFECT_IN_PROGRESS, 409, "effect-in-progress" },
    { IL_P_EFFECT_UNSETTLED, 409, "effect-unsettled" },
    { IL_P_EFFECT_MISMATCH, 409, "effect-mismatch" },
    { IL_P_EFFECT_SETTLED, 409, "effect-settled" },
    { IL_P_EFFECT_KIND_IN_USE, 409, "effect-kind-in-use" },
    { IL_P_SEND_NOT_YOURS, 409, "send-not-yours" },
    { IL_P_EFFECT_CONFLICT, 409, "effect-conflict" },
    { IL_P_CHECK_NOT_POSSIBLE, 409, "check-not-possible" },
    { IL_P_GAP_CLOSED, 409, "gap-closed" },
    { IL_P_INBOX_SETTLED, 409, "inbox-settled" },
    { IL_P_PRUNED, 410, "pruned" },
    { IL_P_IMPACT_CHANGED, 412, "impact-changed" },
    { IL_P_BODY_TOO_LARGE, 413, "body-too-large" },
    { IL_P_ENCODING_UNSUPPORTED, 415, "encoding-unsupported" },
    { IL_P_IDEMPOTENCY_KEY_REUSED, 422, "idempotency-key-reused" },
    { IL_P_QUEUE_FULL, 429, "queue-full" },
    { IL_P_TOO_MANY_ATTEMPTS, 429, "too-many-attempts" },
    { IL_P_INTERNAL, 500, "internal" },
    { IL_P_PROVIDER_FAILED, 502, "provider-failed" },
    { IL_P_OUTCOME_UNRECORDED, 503, "outcome-unrecorded" },
    { IL_P_UNAVAILABLE, 503, "unavailable" },
    { IL_P_SOURCE_PAUSED, 503, "source-paused" },
    { IL_P_PROVIDER_TIMEOUT, 504, "provider-timeout" },
};


static void
problem_member(il_str_t json, const char *pointer, const char *want)
{
    char             out[256];
    size_t           n;
    il_json_value_t  v;

    assert_int_equal(il_json_find(json, il_cstr(pointer), &v), IL_JSON_OK);
    assert_int_equal(il_json_scalar(&v, out, sizeof(out), &n), 0);
    il_assert_text(out, n, want);
}


static void
problems(void **state)
{
    char             out[1024], text[128];
    size_t           i, k, n;
    il_str_t         json, title;
    il_json_value_t  v;

    (void) state;

    assert_int_equal(il_rows(problem_rows), IL_P_MAX - 1);

    for (i = 0; i < il_rows(problem_rows); i++) {
        assert_int_equal(problem_rows[i].p, i + 1);
        assert_int_equal(il_problem_status(problem_rows[i].p),
                         problem_rows[i].status);
        il_assert_text(il_problem_name(problem_rows[i].p).data,
                       il_problem_name(problem_rows[i].p).len,
                       problem_rows[i].name);

        assert_int_equal(il_problem_find(il_cstr(problem_rows[i].name)),
                         problem_rows[i].p == IL_P_REQUEST_IN_PROGRESS_503
                         ? IL_P_REQUEST_IN_PROGRESS : problem_rows[i].p);

        title = il_problem_title(problem_rows[i].p);
        assert_true(title.len > 4);

        n = il_problem_build(out, sizeof(out), problem_rows[i].p,
                             il_lit("say \"why\"\n"),
                             il_lit("\"a\":[1],\"b\":null"));
        assert_true(n > 0);
        json = il_str(out, n);

        (void) snprintf(text, sizeof(text), "%s%s", IL_PROBLEM_TYPE,
                        problem_rows[i].name);
        problem_member(json, "/type", text);
        (void) snprintf(text, sizeof(text), "%d", problem_rows[i].status);
        problem_member(json, "/status", text);
        (void) snprintf(text, sizeof(text), "%.*s", (int) title.len,
                        title.data);
        problem_member(json, "/title", text);
        problem_member(json, "/detail", "say \"why\"\n");
        problem_member(json, "/a/0", "1");

        for (k = 0; k < n; k++) {
            memset(out, '#', sizeof(out));
            assert_int_equal(il_problem_build(out, k, problem_rows[i].p,
                il_lit("say \"why\"\n"), il_lit("\"a\":[1],\"b\":null")), 0);
            assert_int_equal(out[k], '#');
        }
    }

    n = il_problem_build(out, sizeof(out), IL_P_NOT_FOUND, il_lit(""),
                         il_lit(""));
    assert_int_equal(il_json_find(il_str(out, n), il_lit("/detail"), &v),
                     IL_JSON_MISSING);

    assert_int_equal(il_problem_find(il_lit("nothing")), IL_P_NONE);
    assert_int_equal(il_problem_find(il_lit("")), IL_P_NONE);
    assert_int_equal(il_problem_status(IL_P_NONE), 500);
    assert_int_equal(il_problem_status((il_problem_e) 1000), 500);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(bodies),
        cmocka_unit_test(bodies_keep_to_their_buffer),
        cmocka_unit_test(the_largest_body),
        cmocka_unit_test(compact_round_trip),
        cmocka_unit_test(compact_form),
        cmocka_unit_test(compact_refused),
        cmocka_unit_test(names_of_enums),
        cmocka_unit_test(codes_of_decisions),
        cmocka_unit_test(paths),
        cmocka_unit_test(problems),
    };

    return il_unit_run(tests);
}
