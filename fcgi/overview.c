/*
 * overview.c: how work stands at a glance and over time, and what this
 * installation is.
 */

#include "doc.h"
#include "il_json.h"
#include "il_key.h"
#include "il_time.h"
#include "query.h"
#include "route.h"
#include "server.h"


#ifndef IL_VERSION
#define IL_VERSION  "unknown"
#endif

#define IL_SERIES_HOURS      24
#define IL_SERIES_HOURS_MAX  336


typedef struct {
    il_str_t  what;
    il_str_t  kind;                /* data NULL: all */
} il_series_t;


void
il_overview_get(il_req_t *r)
{
    il_doc_t  *d;

    d = il_doc_new(r, "select * from interlock.overview($1)", "I",
                   il_doc_put_tenant, il_doc_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


/* ------------------------------------------------------------------ series */


static void
il_series_put(il_read_t *read, il_db_args_t *args)
{
    il_doc_t     *d = (il_doc_t *) read;
    il_series_t  *s = d->more;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_text(args, 1, s->what);
    il_db_put_text(args, 2, s->kind);
    il_db_put_int(args, 3, (int32_t) d->number);
}


void
il_series_get(il_req_t *r)
{
    il_doc_t     *d;
    il_series_t  *s;
    il_query_t    q[] = {
        { .name = "what" }, { .name = "kind" }, { .name = "hours" }
    };

    d = il_doc_more(r, "select * from interlock.series($1, $2, $3, $4)",
                    "ITTI", il_series_put, il_doc_done, sizeof(il_series_t));
    if (d == NULL) {
        return;
    }

    s = d->more;
    d->number = IL_SERIES_HOURS;

    if (il_query_read(r, q, 3) != 0
        || il_query_int(r, &q[2], 1, IL_SERIES_HOURS_MAX, &d->number) != 0)
    {
        return;
    }

    s->what = q[0].value;
    s->kind = q[1].value;

    if (!il_str_eq(s->what, il_cstr("queue"))
        && !il_str_eq(s->what, il_cstr("decisions")))
    {
        il_query_invalid(r, "what", "must be one of queue, decisions");
        return;
    }

    if (s->kind.data != NULL && !il_name_valid(s->kind)) {
        il_query_invalid(r, "kind", "must be the name of a kind");
        return;
    }

    il_doc_queue(d);
}


/* ------------------------------------------------------------------ config */


/* Settings that may be shown: only those that are named here. */

static const char *const  il_config_shown[] = {
    "threads", "max_body", "batch_max", "parked_max", "queue_max",
    "submit_connections", "claim_connections", "lease_connections",
    "finish_connections", "effect_connections", "read_connections",
    "db_deadline", "recover_interval", "io_timeout", "drain_timeout",
    "log_level", "check_threads", "check_hosts", "alert_threads",
    "alert_hosts", "cert_threads", "cert_hosts", "events_max",
    "session_idle", "session_max", NULL
};


static void
il_config_setting(void *ctx, const char *name, const char *value)
{
    size_t     i;
    il_buf_t  *b = ctx;

    for (i = 0; il_config_shown[i] != NULL; i++) {
        if (strcmp(il_config_shown[i], name) != 0) {
            continue;
        }

        if (b->data[b->len - 1] != '{') {
            il_buf_puts(b, ",");
        }

        il_buf_json(b, il_cstr(name));
        il_buf_puts(b, ":");
        il_buf_json(b, il_cstr(value));
    }
}


static void
il_config_key(void *ctx, size_t i, const char *kid, const char *paserk)
{
    il_buf_t  *b = ctx;

    (void) paserk;

    il_buf_puts(b, i == 0 ? "{\"kid\":" : ",{\"kid\":");
    il_buf_json(b, il_cstr(kid));
    il_buf_puts(b, i == 0 ? ",\"signs\":true}" : ",\"signs\":false}");
}


/* The database's object, with this process's members before its own. */

static void
il_config_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_buf_t  *b;
    il_doc_t  *d = (il_doc_t *) read;
    il_str_t   doc;

    if (res == NULL) {
        il_req_fail_item(&d->r->item, p);
        return;
    }

    doc = il_db_cell(res, 0, il_db_column(res, "doc"));

    if (doc.len < 2 || doc.data[0] != '{') {
        il_req_internal(d->r);
        return;
    }

    b = il_req_json(d->r, 200);
    il_buf_puts(b, "{\"version\":\"" IL_VERSION "\",\"settings\":{");
    il_conf_each(&il_srv.conf, il_config_setting, b);
    il_buf_puts(b, "},\"keys\":[");
    il_keys_each(il_config_key, b);
    il_buf_puts(b, "],");
    il_buf_add(b, il_str(doc.data + 1, doc.len - 1));
    il_req_done(d->r);
}


void
il_config_get(il_req_t *r)
{
    il_doc_t  *d;

    d = il_doc_new(r, "select * from interlock.config_facts($1)", "I",
                   il_doc_put_tenant, il_config_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}
