/*
 * submit_job.c: POST /v1/jobs, and what its fields mean.
 */

#include "il_enc.h"
#include "il_key.h"
#include "route.h"
#include "submit.h"


#define IL_PRIORITY_MAX  100
#define IL_VERSION_MAX   999999999999999999LL     /* 18 digits */
#define IL_TEXT_MAX      1024


const il_field_t  il_submit_fields[IL_F_MAX] = {
    [IL_F_KIND] = { .name = "kind", .types = IL_T_STRING },
    [IL_F_WORK_KEY] = { .name = "work_key",
                        .types = IL_T_STRING | IL_T_ARRAY },
    [IL_F_VERSION] = { .name = "version", .types = IL_T_NUMBER },
    [IL_F_PAYLOAD] = { .name = "payload", .types = IL_T_ANY },
    [IL_F_PRIORITY] = { .name = "priority", .types = IL_T_NUMBER },
    [IL_F_RUN_AFTER] = { .name = "run_after", .types = IL_T_STRING },
    [IL_F_DEADLINE] = { .name = "deadline", .types = IL_T_STRING },
    [IL_F_FRESH] = { .name = "fresh", .types = IL_T_BOOL },
    [IL_F_REQUESTED_BY] = { .name = "requested_by", .types = IL_T_STRING },
    [IL_F_REASON] = { .name = "reason", .types = IL_T_STRING }
};


int
il_submit_key(il_req_t *r, const il_field_t *f, il_str_t *out)
{
    char             *key;
    size_t            n, pos, len;
    il_str_t          name, parts[IL_KEY_PARTS_MAX];
    il_field_t        part;
    il_key_rc_e       rc;
    il_json_value_t   value;

    if (!f->seen) {
        il_req_problem(r, IL_P_WORK_KEY_INCOMPLETE,
                       "Field \"work_key\" is missing.");
        return -1;
    }

    if (f->value.type == IL_JSON_STRING) {
        if (il_body_string(r, f, IL_KEY_MAX * 2, out) != 0) {
            return -1;
        }

        rc = il_key_check(*out);

    } else {
        n = 0;
        pos = 0;

        while (il_json_next(f->value, &pos, &name, &value)) {

            if (value.type != IL_JSON_STRING || n == IL_KEY_PARTS_MAX) {
                il_body_invalid(r, f->name, n == IL_KEY_PARTS_MAX
                                ? "has too many parts"
                                : "must have strings for its parts");
                return -1;
            }

            part = *f;
            part.value = value;

            if (il_body_string(r, &part, IL_KEY_MAX * 2, &parts[n]) != 0) {
                return -1;
            }

            n++;
        }

        key = il_pool_get(&r->pool, IL_KEY_MAX + 1);
        if (key == NULL) {
            il_req_internal(r);
            return -1;
        }

        rc = il_key_build(key, IL_KEY_MAX, &len, parts, n);
        *out = il_str(key, rc == IL_KEY_OK ? len : 0);
    }

    if (rc != IL_KEY_OK) {
        il_req_problem(r, rc == IL_KEY_INCOMPLETE ? IL_P_WORK_KEY_INCOMPLETE
                                                  : IL_P_WORK_KEY_INVALID,
                       il_key_strerror(rc));
        return -1;
    }

    return 0;
}


static int
il_submit_idempotency(il_req_t *r, il_submit_t *s)
{
    char    **p, *key;
    size_t    n, len;

    static const char  name[] = "HTTP_IDEMPOTENCY_KEY=";

    n = 0;

    for (p = il_fcgx_params(r->conn->fcgi); *p != NULL; p++) {
        if (strncmp(*p, name, sizeof(name) - 1) == 0) {
            n++;
        }
    }

    if (n == 0) {
        return 0;
    }

    key = il_pool_get(&r->pool, IL_IDEM_MAX);
    if (key == NULL) {
        il_req_internal(r);
        return -1;
    }

    if (n > 1
        || il_idem_parse(il_req_param(r, "HTTP_IDEMPOTENCY_KEY"), key, &len)
           != 0)
    {
        il_req_problem(r, IL_P_IDEMPOTENCY_KEY_INVALID, n > 1
                       ? "The Idempotency-Key header is there twice."
                       : "The Idempotency-Key header is empty, longer than "
                         "255 characters, or not well-formed.");
        return -1;
    }

    s->idem = il_str(key, len);

    return 0;
}


int
il_submit_idem(il_req_t *r, const il_field_t *f, il_submit_t *s)
{
    if (il_body_string(r, f, IL_IDEM_MAX, &s->idem) != 0) {
        return -1;
    }

    if (s->idem.data != NULL
        && (s->idem.len == 0 || il_has_control(s->idem)))
    {
        il_req_problem(r, IL_P_IDEMPOTENCY_KEY_INVALID, "Field "
                       "\"idempotency_key\" is empty or has characters that "
                       "are not allowed.");
        return -1;
    }

    return 0;
}


int
il_submit_read(il_req_t *r, const il_field_t *f, il_str_t kind,
    il_submit_t *s)
{
    s->source = il_cstr("api");
    s->mismatch = il_cstr("reject");

    if (il_body_string(r, &f[IL_F_KIND], IL_TEXT_MAX, &s->kind) != 0) {
        return -1;
    }

    if (s->kind.data == NULL) {
        s->kind = kind;
    }

    if (!il_name_valid(s->kind)) {
        il_body_invalid(r, "kind", s->kind.data == NULL ? "is missing"
                        : "must be the name of a kind");
        return -1;
    }

    if (il_submit_key(r, &f[IL_F_WORK_KEY], &s->work_key) != 0
        || il_body_int(r, &f[IL_F_VERSION], 0, IL_VERSION_MAX, &s->version)
           != 0
        || il_body_int(r, &f[IL_F_PRIORITY], -IL_PRIORITY_MAX,
                       IL_PRIORITY_MAX, &s->priority) != 0
        || il_body_time(r, &f[IL_F_RUN_AFTER], &s->run_after) != 0
        || il_body_time(r, &f[IL_F_DEADLINE], &s->deadline) != 0
        || il_body_string(r, &f[IL_F_REQUESTED_BY], IL_TEXT_MAX,
                          &s->requested_by) != 0
        || il_body_string(r, &f[IL_F_REASON], IL_TEXT_MAX, &s->reason) != 0)
    {
        return -1;
    }

    s->fresh = il_body_true(&f[IL_F_FRESH]);

    if (f[IL_F_PAYLOAD].seen) {
        s->payload = f[IL_F_PAYLOAD].value.raw;
        s->content_type = il_cstr("application/json");
    }

    return 0;
}


void
il_submit_job(il_req_t *r)
{
    il_field_t    f[IL_F_MAX];
    il_submit_t  *s;

    s = il_submit_new(r);
    if (s == NULL) {
        return;
    }

    memcpy(f, il_submit_fields, sizeof(f));

    if (il_submit_idempotency(r, s) != 0
        || il_body_fields(r, f, IL_F_MAX, 0) != 0
        || il_submit_read(r, f, il_str(NULL, 0), s) != 0)
    {
        return;
    }

    il_submit_queue(s);
}
