/*
 * explain.c: POST /v1/kinds/{name}/explain: what a sample submission would
 * get, and why.
 *
 * The sample is read as POST /v1/jobs reads its body, so that it is refused
 * here for what it would be refused for there; the database gets the fields
 * that decide, the payload as it is written.
 */

#include "doc.h"
#include "il_key.h"
#include "route.h"
#include "server.h"
#include "submit.h"


static void
il_explain_put(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;
    il_str_t  *sample = d->more;

    il_doc_put(read, args);
    il_db_put_text(args, 2, *sample);
}


static void
il_explain_time(il_buf_t *b, const char *name, int64_t at)
{
    if (at != INT64_MIN) {
        il_buf_puts(b, name);
        il_buf_time(b, at);
    }
}


/* In the pool; NULL if there is no memory. */

static il_str_t *
il_explain_sample(il_req_t *r, const il_submit_t *s)
{
    il_str_t  *sample;
    il_buf_t   buf, *b;

    b = &buf;
    memset(b, 0, sizeof(buf));

    il_buf_puts(b, "{\"source\":");
    il_buf_json(b, s->source);
    il_buf_puts(b, ",\"work_key\":");
    il_buf_json(b, s->work_key);

    if (s->idem.data != NULL) {
        il_buf_puts(b, ",\"idempotency_key\":");
        il_buf_json(b, s->idem);
    }

    if (s->version >= 0) {
        il_buf_puts(b, ",\"version\":");
        il_buf_int(b, s->version);
    }

    if (s->priority != INT64_MIN) {
        il_buf_puts(b, ",\"priority\":");
        il_buf_int(b, s->priority);
    }

    il_explain_time(b, ",\"run_after\":", s->run_after);
    il_explain_time(b, ",\"deadline\":", s->deadline);
    il_buf_puts(b, s->fresh ? ",\"fresh\":true" : ",\"fresh\":false");

    if (s->payload.data != NULL) {
        il_buf_puts(b, ",\"payload\":");
        il_buf_add(b, s->payload);
    }

    il_buf_puts(b, "}");

    sample = il_pool_get(&r->pool, sizeof(il_str_t));

    if (sample != NULL) {
        *sample = b->failed ? il_str(NULL, 0)
                            : il_pool_dup(&r->pool, il_buf_str(b));
    }

    il_buf_free(b);

    return sample == NULL || sample->data == NULL ? NULL : sample;
}


void
il_kind_explain(il_req_t *r)
{
    il_doc_t     *d;
    il_str_t      source;
    il_field_t    f[IL_F_MAX + 2];
    il_submit_t  *s;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_KIND_UNKNOWN, "There is no such kind.");
        return;
    }

    s = il_submit_new(r);
    if (s == NULL) {
        return;
    }

    memset(f, 0, sizeof(f));
    memcpy(f, il_submit_fields, sizeof(il_submit_fields));
    f[IL_F_MAX].name = "idempotency_key";
    f[IL_F_MAX].types = IL_T_STRING;
    f[IL_F_MAX + 1].name = "source";
    f[IL_F_MAX + 1].types = IL_T_STRING;

    if (il_body_fields(r, f, IL_F_MAX + 2, 0) != 0
        || il_submit_idem(r, &f[IL_F_MAX], s) != 0
        || il_submit_read(r, f, r->args[0], s) != 0
        || il_body_string(r, &f[IL_F_MAX + 1], 1024, &source) != 0)
    {
        return;
    }

    if (source.data != NULL) {
        if (!il_name_valid(source)) {
            il_body_invalid(r, "source", "must be the name of a source");
            return;
        }

        s->source = source;
    }

    if (!il_str_eq(s->kind, r->args[0])) {
        il_body_invalid(r, "kind", "is another one than the path's");
        return;
    }

    d = il_doc_new(r, "select * from interlock.explain($1, $2, $3)", "ITT",
                   il_explain_put, il_doc_problem_done);
    if (d == NULL) {
        return;
    }

    d->more = il_explain_sample(r, s);
    if (d->more == NULL) {
        il_req_internal(r);
        return;
    }

    il_doc_queue(d);
}
