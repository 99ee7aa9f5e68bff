/*
 * health.c: probes, metrics, public keys.
 */

#include <pthread.h>

#include "log.h"
#include "metrics.h"
#include "notify.h"
#include "park.h"
#include "route.h"
#include "server.h"


#ifndef IL_VERSION
#define IL_VERSION  "unknown"
#endif

/* The database counts gauges at most this often. */
#define IL_STATS_MS  2000


typedef struct {
    il_read_t   read;
    il_req_t   *r;
} il_probe_t;


static struct {
    pthread_mutex_t   lock;
    il_db_result_t   *res;
    int64_t           at;
} il_stats = {
    .lock = PTHREAD_MUTEX_INITIALIZER
};


void
il_health_live(il_req_t *r)
{
    il_buf_puts(il_req_json(r, 200), "{\"status\":\"ok\"}");
    il_req_done(r);
}


static void
il_health_key(void *ctx, size_t i, const char *kid, const char *paserk)
{
    il_buf_t  *b = ctx;

    il_buf_puts(b, i == 0 ? "{\"kid\":" : ",{\"kid\":");
    il_buf_json(b, il_cstr(kid));
    il_buf_puts(b, ",\"key\":");
    il_buf_json(b, il_cstr(paserk));
    il_buf_puts(b, i == 0 ? ",\"signs\":true}" : ",\"signs\":false}");
}


void
il_health_keys(il_req_t *r)
{
    il_buf_t  *b;

    b = il_req_json(r, 200);
    il_buf_puts(b, "{\"keys\":[");
    il_keys_each(il_health_key, b);
    il_buf_puts(b, "]}");
    il_req_done(r);
}


static void
il_health_probe(il_req_t *r, const char *sql,
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p))
{
    il_probe_t  *p;

    p = il_pool_get(&r->pool, sizeof(il_probe_t));
    if (p == NULL) {
        il_req_internal(r);
        return;
    }

    p->r = r;
    p->read.sql = sql;
    p->read.signature = "";
    p->read.done = done;

    if (il_lane_put(&il_srv.read, &p->read.item) != 0) {
        done(&p->read, NULL, IL_P_UNAVAILABLE);
    }
}


/* ------------------------------------------------------------------- ready */


static void
il_health_ready_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    char       refusal[IL_DB_ERR_CAP];
    il_req_t  *r = ((il_probe_t *) read)->r;
    il_buf_t  *b;
    il_str_t   detail;

    (void) p;

    if (res == NULL) {
        il_link_refusal(refusal, sizeof(refusal));
        il_req_problem(r, IL_P_UNAVAILABLE, refusal[0] != '\0' ? refusal
                       : "The database cannot be reached.");
        return;
    }

    detail = il_db_cell(res, 0, il_db_column(res, "detail"));

    if (!il_db_cell_bool(res, 0, il_db_column(res, "ok"))) {
        il_req_problem_more(r, IL_P_UNAVAILABLE, detail, il_str(NULL, 0));
        return;
    }

    b = il_req_json(r, 200);
    il_buf_puts(b, "{\"status\":\"ready\",\"epoch\":");
    il_buf_json(b, il_db_cell(res, 0, il_db_column(res, "epoch")));
    il_buf_puts(b, ",\"schema_version\":");
    il_buf_add(b, il_db_cell(res, 0, il_db_column(res, "schema_version")));
    il_buf_puts(b, "}");
    il_req_done(r);
}


void
il_health_ready(il_req_t *r)
{
    if (il_loop_draining()) {
        il_req_problem(r, IL_P_UNAVAILABLE, "This server is ending.");
        return;
    }

    il_health_probe(r, "select * from interlock.ready()",
                    il_health_ready_done);
}


/* ----------------------------------------------------------------- metrics */


static void
il_health_lanes(il_buf_t *b)
{
    size_t  i;

    struct {
        const char  *name;
        il_lane_t   *lane;
    } lanes[] = {
        { "submit", &il_srv.submit },
        { "submit_slow", &il_srv.submit_slow },
        { "claim", &il_srv.claim },
        { "lease", &il_srv.lease },
        { "finish", &il_srv.finish },
        { "look", &il_srv.look },
        { "read", &il_srv.read }
    };

    il_buf_puts(b, "# HELP interlock_lane_depth Calls that wait for the "
                "database.\n# TYPE interlock_lane_depth gauge\n");

    for (i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        il_buf_puts(b, "interlock_lane_depth{lane=\"");
        il_buf_puts(b, lanes[i].name);
        il_buf_puts(b, "\"} ");
        il_buf_int(b, (int64_t) il_lane_depth(lanes[i].lane));
        il_buf_puts(b, "\n");
    }
}


static void
il_health_metrics_answer(il_req_t *r, const il_db_result_t *stats)
{
    il_buf_t  *b = &r->out;

    r->status = 200;
    r->type = "text/plain; version=0.0.4; charset=utf-8";

    il_buf_puts(b, "# HELP interlock_build_info What is running.\n"
                "# TYPE interlock_build_info gauge\n"
                "interlock_build_info{version=\"" IL_VERSION "\"} 1\n");

    il_metrics_gauge(b, "db_up", "1 if the database could be reached last.",
                     il_link_state());
    il_metrics_gauge(b, "parked_requests",
                     "Requests that wait without a thread.",
                     (double) il_park_count());
    il_metrics_gauge(b, "inflight_requests",
                     "Requests that are not answered, parked ones included.",
                     (double) il_req_inflight());
    il_metrics_gauge(b, "spool_depth",
                     "Submissions that wait for the database to come back.",
                     0);
    il_notify_gauges(b);
    il_health_lanes(b);
    il_metrics_render(b, stats);

    il_req_done(r);
}


static void
il_health_metrics_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_db_result_t  *old;

    (void) p;

    if (res != NULL) {
        (void) pthread_mutex_lock(&il_stats.lock);
        old = il_stats.res;
        il_stats.res = il_db_result_ref(res);
        il_stats.at = il_now_ms();
        (void) pthread_mutex_unlock(&il_stats.lock);

        il_db_result_free(old);
    }

    il_health_metrics_answer(((il_probe_t *) read)->r, res);
}


void
il_health_metrics(il_req_t *r)
{
    (void) pthread_mutex_lock(&il_stats.lock);

    if (il_stats.res != NULL && il_now_ms() - il_stats.at < IL_STATS_MS) {
        r->res = il_db_result_ref(il_stats.res);
    }

    (void) pthread_mutex_unlock(&il_stats.lock);

    if (r->res != NULL) {
        il_health_metrics_answer(r, r->res);
        return;
    }

    il_health_probe(r, "select * from interlock.stats()",
                    il_health_metrics_done);
}


void
il_health_free(void)
{
    il_db_result_free(il_stats.res);
    il_stats.res = NULL;
}
