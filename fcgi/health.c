/*
 * health.c: probes, metrics, public keys.
 */

#include <pthread.h>

#include "events.h"
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

/* A probe is answered after so long, whatever the database does. */
#define IL_PROBE_MS  2000


/* One call for all who ask at the same time. */

typedef struct {
    il_read_t         read;           /* first */
    void            (*answer)(il_req_t *r, const il_db_result_t *res);
    int64_t           fresh;          /* how old an answer may be, in ms */

    pthread_mutex_t   lock;
    il_item_t        *asking;         /* requests */
    int               running;        /* the call is under way */
    il_db_result_t   *res;
    int64_t           at;
} il_probe_t;


static void il_health_probed(il_read_t *read, il_db_result_t *res,
    il_problem_e p);
static void il_health_ready_answer(il_req_t *r, const il_db_result_t *res);
static void il_health_metrics_answer(il_req_t *r, const il_db_result_t *res);


static il_probe_t  il_probe_ready = {
    .read = {
        .sql = "select * from interlock.ready()",
        .signature = "",
        .done = il_health_probed
    },
    .answer = il_health_ready_answer,
    .lock = PTHREAD_MUTEX_INITIALIZER
};

static il_probe_t  il_probe_stats = {
    .read = {
        .sql = "select * from interlock.stats()",
        .signature = "",
        .done = il_health_probed
    },
    .answer = il_health_metrics_answer,
    .fresh = IL_STATS_MS,
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


/* ------------------------------------------------------------------ probes */


static void
il_health_answer(il_probe_t *p, il_item_t *list, const il_db_result_t *res)
{
    il_item_t  *item;

    while (list != NULL) {
        item = list;
        list = item->next;
        p->answer((il_req_t *) item, res);
    }
}


static void
il_health_probed(il_read_t *read, il_db_result_t *res, il_problem_e problem)
{
    il_item_t       *list;
    il_probe_t      *p = (il_probe_t *) read;
    il_db_result_t  *old;

    (void) problem;

    (void) pthread_mutex_lock(&p->lock);

    list = p->asking;
    p->asking = NULL;
    p->running = 0;
    old = p->res;
    p->res = res == NULL ? NULL : il_db_result_ref(res);
    p->at = il_now_ms();

    (void) pthread_mutex_unlock(&p->lock);

    il_db_result_free(old);
    il_health_answer(p, list, res);
}


static void
il_health_ask(il_probe_t *p, il_req_t *r)
{
    int              run;
    il_db_result_t  *res;

    run = 0;
    res = NULL;

    (void) pthread_mutex_lock(&p->lock);

    if (p->res != NULL && il_now_ms() - p->at < p->fresh) {
        res = il_db_result_ref(p->res);

    } else {
        r->item.since = il_now_ms();
        r->item.next = p->asking;
        p->asking = &r->item;

        run = !p->running;
        p->running = 1;
    }

    (void) pthread_mutex_unlock(&p->lock);

    if (res != NULL) {
        p->answer(r, res);
        il_db_result_free(res);
        return;
    }

    if (run && il_lane_put(&il_srv.read, &p->read.item) != 0) {
        il_health_probed(&p->read, NULL, IL_P_UNAVAILABLE);
    }
}


/* Answers those who have waited long enough. */

static void
il_health_late(il_probe_t *p, int64_t now)
{
    il_item_t  *item, *late, **from;

    late = NULL;

    (void) pthread_mutex_lock(&p->lock);

    for (from = &p->asking; *from != NULL; /* void */ ) {
        item = *from;

        if (now - item->since < IL_PROBE_MS) {
            from = &item->next;
            continue;
        }

        *from = item->next;
        item->next = late;
        late = item;
    }

    (void) pthread_mutex_unlock(&p->lock);

    il_health_answer(p, late, NULL);
}


void
il_health_tick(int64_t now)
{
    il_health_late(&il_probe_ready, now);
    il_health_late(&il_probe_stats, now);
}


/* ------------------------------------------------------------------- ready */


static void
il_health_ready_answer(il_req_t *r, const il_db_result_t *res)
{
    char       refusal[IL_DB_ERR_CAP];
    il_buf_t  *b;
    il_str_t   detail;

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

    il_health_ask(&il_probe_ready, r);
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
        { "begin", &il_srv.begin },
        { "outcome", &il_srv.outcome },
        { "look", &il_srv.look },
        { "read", &il_srv.read },
        { "edge", &il_srv.edge }
    };

    il_buf_puts(b, "# HELP interlock_lane_depth Calls that wait for the "
                "database.\n# TYPE interlock_lane_depth gauge\n");

    for (i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        if (lanes[i].lane->threads == NULL) {
            continue;
        }

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
    il_events_gauges(b);
    il_notify_gauges(b);
    il_health_lanes(b);
    il_metrics_render(b, stats);

    il_req_done(r);
}


void
il_health_metrics(il_req_t *r)
{
    il_health_ask(&il_probe_stats, r);
}


void
il_health_free(void)
{
    il_db_result_free(il_probe_ready.res);
    il_db_result_free(il_probe_stats.res);
    il_probe_ready.res = NULL;
    il_probe_stats.res = NULL;
}
