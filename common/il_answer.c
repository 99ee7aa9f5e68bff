/*
 * il_answer.c: the answer to a submission and its compact form.
 */

#include "il_answer.h"
#include "il_href.h"
#include "il_out.h"
#include "il_time.h"


static const il_str_t  il_decision_names[] = {
    [IL_D_NONE] = il_string(""),
    [IL_D_ACCEPTED] = il_string("accepted"),
    [IL_D_BUFFERED] = il_string("buffered"),
    [IL_D_REPLACED] = il_string("replaced"),
    [IL_D_DUPLICATE] = il_string("duplicate"),
    [IL_D_SKIPPED] = il_string("skipped"),
    [IL_D_COMPLETED] = il_string("completed"),
    [IL_D_PARKED] = il_string("parked"),
    [IL_D_REJECTED] = il_string("rejected"),
};


static const il_str_t  il_status_names[] = {
    [IL_S_NONE] = il_string(""),
    [IL_S_QUEUED] = il_string("queued"),
    [IL_S_RUNNING] = il_string("running"),
    [IL_S_CHECKING] = il_string("checking"),
    [IL_S_HELD] = il_string("held"),
    [IL_S_PARKED] = il_string("parked"),
    [IL_S_SUCCEEDED] = il_string("succeeded"),
    [IL_S_FAILED] = il_string("failed"),
    [IL_S_CANCELED] = il_string("canceled"),
    [IL_S_SUPERSEDED] = il_string("superseded"),
    [IL_S_EXPIRED] = il_string("expired"),
    [IL_S_SPOOLED] = il_string("spooled"),
};


static const il_str_t  il_reason_names[] = {
    [IL_R_NONE] = il_string(""),
    [IL_R_SAME_WORK] = il_string("same_work"),
    [IL_R_WORK_ACTIVE] = il_string("work_active"),
    [IL_R_ALREADY_WAITING] = il_string("already_waiting"),
    [IL_R_OLDER_VERSION] = il_string("older_version"),
    [IL_R_EFFECTS_STARTED] = il_string("effects_started"),
    [IL_R_ACTIVE_ENDING] = il_string("active_ending"),
    [IL_R_MISMATCH_RECORDED] = il_string("mismatch_recorded"),
    [IL_R_QUEUE_FULL] = il_string("queue_full"),
    [IL_R_LATE_ARRIVAL] = il_string("late_arrival"),
    [IL_R_KEY_FULL] = il_string("key_full"),
    [IL_R_KIND_FULL] = il_string("kind_full"),
    [IL_R_TENANT_FULL] = il_string("tenant_full"),
};


#define il_rows(table)  (sizeof(table) / sizeof((table)[0]))

_Static_assert(il_rows(il_decision_names) == IL_D_MAX, "decisions");
_Static_assert(il_rows(il_status_names) == IL_S_MAX, "statuses");
_Static_assert(il_rows(il_reason_names) == IL_R_MAX, "reasons");


static il_str_t
il_names_get(const il_str_t *names, size_t rows, unsigned i)
{
    return i < rows ? names[i] : names[0];
}


/* Row 0 is "none" and has no name: it is also the answer for unknown ones. */

static unsigned
il_names_find(const il_str_t *names, size_t rows, il_str_t name)
{
    unsigned  i;

    for (i = 1; i < rows; i++) {
        if (il_str_eq(names[i], name)) {
            return i;
        }
    }

    return 0;
}


il_str_t
il_decision_name(il_decision_e d)
{
    return il_names_get(il_decision_names, IL_D_MAX, d);
}


il_decision_e
il_decision_find(il_str_t name)
{
    return (il_decision_e) il_names_find(il_decision_names, IL_D_MAX, name);
}


il_str_t
il_status_name(il_status_e s)
{
    return il_names_get(il_status_names, IL_S_MAX, s);
}


il_status_e
il_status_find(il_str_t name)
{
    return (il_status_e) il_names_find(il_status_names, IL_S_MAX, name);
}


int
il_status_final(il_status_e s)
{
    switch (s) {
    case IL_S_SUCCEEDED:
    case IL_S_FAILED:
    case IL_S_CANCELED:
    case IL_S_SUPERSEDED:
    case IL_S_EXPIRED:
        return 1;

    default:
        return 0;
    }
}


il_str_t
il_reason_name(il_reason_e r)
{
    return il_names_get(il_reason_names, IL_R_MAX, r);
}


il_reason_e
il_reason_find(il_str_t name)
{
    return (il_reason_e) il_names_find(il_reason_names, IL_R_MAX, name);
}


int
il_decision_code(il_decision_e d)
{
    switch (d) {
    case IL_D_ACCEPTED:
    case IL_D_BUFFERED:
    case IL_D_REPLACED:
    case IL_D_PARKED:
        return 202;

    case IL_D_DUPLICATE:
    case IL_D_SKIPPED:
    case IL_D_COMPLETED:
        return 200;

    case IL_D_REJECTED:
        return 429;

    case IL_D_NONE:
    case IL_D_MAX:
        break;
    }

    return 0;
}


/* One character of a path: as it is, or percent-encoded. */

static void
il_path_put(il_out_t *o, char c)
{
    static const char  digits[] = "0123456789ABCDEF";

    char     unit[3];
    uint8_t  u;

    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
        || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_'
        || c == '~' || c == ':')
    {
        il_out_put(o, il_str(&c, 1));
        return;
    }

    u = (uint8_t) c;
    unit[0] = '%';
    unit[1] = digits[u >> 4];
    unit[2] = digits[u & 0x0f];

    il_out_put(o, il_str(unit, 3));
}


size_t
il_path_encode(char *out, size_t cap, il_str_t s)
{
    size_t    i;
    il_out_t  o;

    il_out_init(&o, out, cap);

    for (i = 0; i < s.len; i++) {
        il_path_put(&o, s.data[i]);
    }

    return il_out_len(&o);
}


/* A member whose value needs no escapes; name with all that is before it,
 * from the comma to the value's quote. */

static inline void
il_answer_plain(il_out_t *o, il_str_t name, il_str_t value)
{
    il_out_put(o, name);
    il_out_put(o, value);
    il_out_lit(o, "\"");
}


static inline void
il_answer_text(il_out_t *o, il_str_t name, il_str_t value)
{
    il_out_put(o, name);
    il_out_json(o, value);
    il_out_lit(o, "\"");
}


static void
il_answer_uuid(il_out_t *o, il_str_t name, const uint8_t *id)
{
    char  text[IL_UUID_TEXT + 1];

    il_uuid_format(text, id);
    il_answer_plain(o, name, il_str(text, IL_UUID_TEXT));
}


static void
il_answer_result(il_out_t *o, const il_answer_t *a)
{
    size_t  i;

    if (a->button && !il_href_public(a->result_url)) {
        return;
    }

    if (a->result_url.len != 0) {
        il_answer_text(o, il_lit(",\"result_url\":\""), a->result_url);
        return;
    }

    il_out_lit(o, ",\"result_url\":\"/v1/works/");

    for (i = 0; i < a->work_key.len; i++) {
        il_path_put(o, a->work_key.data[i]);
    }

    il_out_lit(o, "/result\"");
}


size_t
il_answer_build(char *out, size_t cap, const il_answer_t *a)
{
    char      id[IL_UUID_TEXT + 1];
    il_str_t  job;
    il_out_t  o;

    il_out_init(&o, out, cap);

    il_answer_plain(&o, il_lit("{\"decision\":\""),
                    il_decision_name(a->decision));

    job = il_str(id, IL_UUID_TEXT);

    if (a->has & IL_ANSWER_HAS_JOB) {
        il_uuid_format(id, a->job_id);
        il_answer_plain(&o, il_lit(",\"job_id\":\""), job);
    }

    il_answer_text(&o, il_lit(",\"work_key\":\""), a->work_key);
    il_answer_text(&o, il_lit(",\"kind\":\""), a->kind);

    if (a->status != IL_S_NONE) {
        il_answer_plain(&o, il_lit(",\"status\":\""),
                        il_status_name(a->status));
    }

    if (a->has & IL_ANSWER_HAS_JOB) {
        il_out_lit(&o, ",\"status_url\":\"");

        if (a->button) {
            il_out_lit(&o, IL_ANSWER_BUTTON_JOBS);

        } else {
            il_out_lit(&o, IL_ANSWER_JOBS);
        }

        il_out_put(&o, job);
        il_out_lit(&o, "\"");
    }

    if (a->has & IL_ANSWER_HAS_ACTIVE) {
        il_answer_uuid(&o, il_lit(",\"active_job_id\":\""),
                       a->active_job_id);
    }

    if (a->has & IL_ANSWER_HAS_SUPERSEDED) {
        il_answer_uuid(&o, il_lit(",\"superseded_job_id\":\""),
                       a->superseded_job_id);
    }

    if (a->has & IL_ANSWER_HAS_RESULT) {
        il_answer_result(&o, a);
    }

    if (a->reason != IL_R_NONE) {
        il_answer_plain(&o, il_lit(",\"reason\":\""),
                        il_reason_name(a->reason));
    }

    il_out_lit(&o, "}");

    return il_out_len(&o);
}


static void
il_compact_name(il_out_t *o, il_str_t name)
{
    il_out_lit(o, ";");

    if (name.len == 0) {
        il_out_lit(o, "-");
        return;
    }

    il_out_put(o, name);
}


static void
il_compact_uuid(il_out_t *o, int present, const uint8_t *id)
{
    char  text[IL_UUID_TEXT + 1];

    il_out_lit(o, ";");

    if (!present) {
        il_out_lit(o, "-");
        return;
    }

    il_uuid_format(text, id);
    il_out_put(o, il_str(text, IL_UUID_TEXT));
}


#define IL_ANSWER_HAS_ALL                                                     \
    (IL_ANSWER_HAS_JOB | IL_ANSWER_HAS_ACTIVE | IL_ANSWER_HAS_SUPERSEDED      \
     | IL_ANSWER_HAS_RESULT)


size_t
il_answer_compact(char *out, size_t cap, const il_answer_t *a, int code)
{
    char      digits[3], has[2];
    il_out_t  o;

    if (a->result_url.len != 0 || code < 100 || code > 599
        || (a->has & ~(unsigned) IL_ANSWER_HAS_ALL) != 0)
    {
        return 0;
    }

    digits[0] = (char) ('0' + code / 100);
    digits[1] = (char) ('0' + code / 10 % 10);
    digits[2] = (char) ('0' + code % 10);

    has[0] = (char) ('0' + a->has / 10);
    has[1] = (char) ('0' + a->has % 10);

    il_out_init(&o, out, cap);

    il_out_lit(&o, "1;");
    il_out_put(&o, il_str(digits, 3));
    il_compact_name(&o, il_decision_name(a->decision));
    il_compact_name(&o, il_status_name(a->status));
    il_compact_name(&o, il_reason_name(a->reason));
    il_out_lit(&o, ";");
    il_out_put(&o, a->has < 10 ? il_str(has + 1, 1) : il_str(has, 2));
    il_compact_uuid(&o, a->has & IL_ANSWER_HAS_JOB, a->job_id);
    il_compact_uuid(&o, a->has & IL_ANSWER_HAS_ACTIVE, a->active_job_id);
    il_compact_uuid(&o, a->has & IL_ANSWER_HAS_SUPERSEDED,
                    a->superseded_job_id);

    return il_out_len(&o);
}


/* A name of the table, or "-" for none: 0, or -1. */

static int
il_parse_name(const il_str_t *names, size_t rows, il_str_t field,
    unsigned *found)
{
    *found = il_names_find(names, rows, field);

    if (*found != 0) {
        return 0;
    }

    return field.len == 1 && field.data[0] == '-' ? 0 : -1;
}


/* A UUID where HAS says so, else "-": 0, or -1. */

static int
il_parse_uuid(il_str_t field, int present, uint8_t *id)
{
    if (present) {
        return il_uuid_parse(id, field);
    }

    return field.len == 1 && field.data[0] == '-' ? 0 : -1;
}


#define IL_COMPACT_FIELDS  9


static int
il_compact_split(il_str_t s, il_str_t fields[IL_COMPACT_FIELDS])
{
    size_t  i, start, n;

    n = 0;
    start = 0;

    for (i = 0; i <= s.len; i++) {
        if (i < s.len && s.data[i] != ';') {
            continue;
        }

        if (n == IL_COMPACT_FIELDS) {
            return -1;
        }

        fields[n++] = il_str(s.data + start, i - start);
        start = i + 1;
    }

    return n == IL_COMPACT_FIELDS ? 0 : -1;
}


int
il_answer_parse(il_str_t s, il_answer_t *a, int *code)
{
    int64_t   number, has;
    il_str_t  f[IL_COMPACT_FIELDS];
    unsigned  decision, status, reason;

    memset(a, 0, sizeof(*a));
    *code = 0;

    if (s.len == 0 || s.len > IL_ANSWER_COMPACT_CAP
        || il_compact_split(s, f) != 0
        || f[0].len != 1 || f[0].data[0] != '1'
        || f[1].len != 3 || il_digits_parse(f[1], 3, &number) != 0
        || number < 100 || number > 599
        || il_parse_name(il_decision_names, IL_D_MAX, f[2], &decision) != 0
        || il_parse_name(il_status_names, IL_S_MAX, f[3], &status) != 0
        || il_parse_name(il_reason_names, IL_R_MAX, f[4], &reason) != 0
        || il_digits_parse(f[5], 2, &has) != 0 || has > IL_ANSWER_HAS_ALL
        || il_parse_uuid(f[6], has & IL_ANSWER_HAS_JOB, a->job_id) != 0
        || il_parse_uuid(f[7], has & IL_ANSWER_HAS_ACTIVE, a->active_job_id)
           != 0
        || il_parse_uuid(f[8], has & IL_ANSWER_HAS_SUPERSEDED,
                         a->superseded_job_id) != 0)
    {
        memset(a, 0, sizeof(*a));
        return -1;
    }

    a->decision = (il_decision_e) decision;
    a->status = (il_status_e) status;
    a->reason = (il_reason_e) reason;
    a->has = (unsigned) has;
    *code = (int) number;

    return 0;
}
