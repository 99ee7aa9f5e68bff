/*
 * metrics.c: families by table, series in a bounded hash.
 */

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "il_json.h"
#include "metrics.h"


#define IL_SERIES_MAX    20000
#define IL_SERIES_SLOTS  4096
#define IL_LABEL_MAX     64
#define IL_LABELS        3
#define IL_BUCKETS_MAX   16


typedef struct {
    const char    *name;              /* without the prefix */
    const char    *help;
    const char    *labels[IL_LABELS];
    const double  *buckets;           /* ended by 0; NULL: a counter */
} il_family_t;


typedef struct il_series_s  il_series_t;

struct il_series_s {
    il_series_t  *next;               /* in its slot */
    il_series_t  *after;              /* in its family */
    il_metric_e   family;
    char          labels[IL_LABELS][IL_LABEL_MAX + 1];
    double        sum;                /* of a counter: its value */
    uint64_t      count;
    uint64_t      buckets[IL_BUCKETS_MAX];
};


/* Seconds: of waiting in a queue, of running; and items of a batch. */

static const double  il_wait_buckets[] = {
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600, 0
};

static const double  il_run_buckets[] = {
    0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 21600, 0
};

static const double  il_batch_buckets[] = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 0
};


static const il_family_t  il_families[] = {
    { "overlap_attempt_total", "Submissions by overlap policy and decision.",
      { "kind", "policy", "decision" }, NULL },
    { "requests_total", "Submissions that reached the backend, by decision.",
      { "kind", "source", "decision" }, NULL },
    { "lock_wait_duration_seconds",
      "From being blocked by the work key to being runnable.",
      { "kind", NULL, NULL }, il_wait_buckets },
    { "acquisition_failed_total", "Work that could not be had, by reason.",
      { "kind", "reason", NULL }, NULL },
    { "lease_renew_failed_total", "Renewals refused, by reason.",
      { "kind", "reason", NULL }, NULL },
    { "stale_recovery_total", "Attempts recovered after their lease's end.",
      { "kind", NULL, NULL }, NULL },
    { "fence_refusals_total", "Owner calls refused for a stale owner.",
      { "kind", "call", NULL }, NULL },
    { "job_duration_seconds", "Run time of ended attempts.",
      { "kind", NULL, NULL }, il_run_buckets },
    { "claim_latency_seconds", "From admission to claim.",
      { "kind", NULL, NULL }, il_wait_buckets },
    { "batch_size", "Items of one call to the database.",
      { "lane", NULL, NULL }, il_batch_buckets },
    { "http_requests_total", "Requests that reached the backend.",
      { "route", "code", NULL }, NULL },
    { "db_errors_total", "Failed calls to the database, by class.",
      { "class", NULL, NULL }, NULL },
    { "claims_handed_back_total",
      "Claims whose answer could not be written.",
      { "kind", NULL, NULL }, NULL },
    { "jobs_expired_total", "Jobs that waited for longer than max_wait.",
      { "kind", NULL, NULL }, NULL },
    { "notify_messages_total",
      "Messages to and from the other interlockds of the database.",
      { "direction", NULL, NULL }, NULL },
    { "checks_total", "Look-ups over HTTP, by what they said and settled.",
      { "subject", "answer", "outcome" }, NULL },
    { "alert_deliveries_total", "Events of alerts, by what became of a try.",
      { "alert", "outcome", NULL }, NULL },
    { "signatures_total",
      "Requests whose signature interlockd verified, by what was found.",
      { "scheme", "outcome", NULL }, NULL },
    { "certificate_fetches_total",
      "Certificates fetched and subscriptions confirmed, by what came of it.",
      { "scheme", "outcome", NULL }, NULL },
    { "edge_audit_datagrams_total",
      "What edges told of requests that they answered alone, by what became "
      "of it.",
      { "outcome", NULL, NULL }, NULL },
    { "events_sent_total", "Events written to streams.",
      { "event", NULL, NULL }, NULL },
    { "event_streams_ended_total", "Event streams that ended, by reason.",
      { "reason", NULL, NULL }, NULL }
};


/* What interlock.stats() may say; others get a help line of their name.
 * Gauges, but for those that end in _total. */

static const struct {
    const char  *name;
    const char  *help;
} il_stats[] = {
    { "queue_depth", "Jobs by kind and state." },
    { "oldest_item_age_seconds", "Age of the oldest runnable job." },
    { "active_concurrency", "Live attempts, by kind or limit." },
    { "configured_limit", "Capacity of a limit group." },
    { "effects", "Effects by effect kind and state." },
    { "effect_oldest_unknown_age_seconds",
      "How long it is not known of the oldest unsettled effect whether it "
      "happened." },
    { "duplicate_side_effect_total",
      "Effects that happened twice, or after it was certain that they had "
      "not." },
    { "dead_letters", "Failed jobs, which a redrive may take back." },
    { "schedule_gaps", "Slots whose work is not done after its grace time." },
    { "last_success_timestamp_seconds",
      "When work of a schedule was last completed." },
    { "schedule_skips_in_row",
      "Slots of a schedule skipped one after the other, up to now." },
    { "kind_paused", "1 for each kind whose claims are paused." },
    { "source_paused", "1 for each source whose requests are paused." },
    { "alert_states", "What an alert was told of that is not over." },
    { "alert_deliveries_pending", "Events that their alert has not taken." },
    { "recovery_troubles", "Lost attempts that could not be recovered yet." },
    { "edge_audit_received_total",
      "Requests that an edge answered alone and that are on record." },
    { "edge_audit_missing_total",
      "Requests that an edge answered alone, by its own numbers, and that are "
      "not on record." },
    { NULL, NULL }
};


static pthread_mutex_t  il_series_lock = PTHREAD_MUTEX_INITIALIZER;
static il_series_t     *il_series_slots[IL_SERIES_SLOTS];
static il_series_t     *il_series_first[IL_MT_MAX];
static size_t           il_series_n;


static size_t
il_label_len(il_str_t value)
{
    return value.len > IL_LABEL_MAX ? IL_LABEL_MAX : value.len;
}


static uint32_t
il_series_hash(il_metric_e m, const il_str_t *values)
{
    size_t    i, k, n;
    uint32_t  h;

    h = 2166136261u ^ (uint32_t) m;

    for (i = 0; i < IL_LABELS; i++) {
        n = il_label_len(values[i]);

        for (k = 0; k < n; k++) {
            h = (h ^ (unsigned char) values[i].data[k]) * 16777619u;
        }

        h = (h ^ 0xff) * 16777619u;
    }

    return h % IL_SERIES_SLOTS;
}


static int
il_series_is(const il_series_t *s, const il_str_t *values)
{
    size_t  i, n;

    for (i = 0; i < IL_LABELS; i++) {
        n = il_label_len(values[i]);

        if (s->labels[i][n] != '\0'
            || (n > 0 && memcmp(s->labels[i], values[i].data, n) != 0))
        {
            return 0;
        }
    }

    return 1;
}


/* With the lock held.  NULL if there is no room: a label that grows without
 * bound must not take the memory with it. */

static il_series_t *
il_series_get(il_metric_e m, const il_str_t *values)
{
    size_t        i, n;
    uint32_t      slot;
    il_series_t  *s;

    slot = il_series_hash(m, values);

    for (s = il_series_slots[slot]; s != NULL; s = s->next) {
        if (s->family == m && il_series_is(s, values)) {
            return s;
        }
    }

    if (il_series_n >= IL_SERIES_MAX) {
        return NULL;
    }

    s = calloc(1, sizeof(il_series_t));
    if (s == NULL) {
        return NULL;
    }

    s->family = m;

    for (i = 0; i < IL_LABELS; i++) {
        n = il_label_len(values[i]);

        if (n > 0) {
            memcpy(s->labels[i], values[i].data, n);
        }
    }

    s->next = il_series_slots[slot];
    il_series_slots[slot] = s;
    s->after = il_series_first[m];
    il_series_first[m] = s;
    il_series_n++;

    return s;
}


void
il_metric_add_str(il_metric_e m, double v, il_str_t l1, il_str_t l2,
    il_str_t l3)
{
    il_str_t      values[IL_LABELS] = { l1, l2, l3 };
    il_series_t  *s;

    (void) pthread_mutex_lock(&il_series_lock);

    s = il_series_get(m, values);
    if (s != NULL) {
        s->sum += v;
    }

    (void) pthread_mutex_unlock(&il_series_lock);
}


void
il_metric_observe_str(il_metric_e m, double v, il_str_t l1, il_str_t l2,
    il_str_t l3)
{
    size_t         i;
    il_str_t       values[IL_LABELS] = { l1, l2, l3 };
    il_series_t   *s;
    const double  *b;

    (void) pthread_mutex_lock(&il_series_lock);

    s = il_series_get(m, values);
    if (s != NULL) {
        s->sum += v;
        s->count++;

        b = il_families[m].buckets;

        for (i = 0; b[i] > 0; i++) {
            if (v <= b[i]) {
                s->buckets[i]++;
                break;
            }
        }
    }

    (void) pthread_mutex_unlock(&il_series_lock);
}


void
il_metric_add(il_metric_e m, double v, const char *l1, const char *l2,
    const char *l3)
{
    il_metric_add_str(m, v, il_cstr(l1), il_cstr(l2), il_cstr(l3));
}


void
il_metric_observe(il_metric_e m, double v, const char *l1, const char *l2,
    const char *l3)
{
    il_metric_observe_str(m, v, il_cstr(l1), il_cstr(l2), il_cstr(l3));
}


void
il_metrics_free(void)
{
    size_t        i;
    il_series_t  *s;

    (void) pthread_mutex_lock(&il_series_lock);

    for (i = 0; i < IL_SERIES_SLOTS; i++) {
        while (il_series_slots[i] != NULL) {
            s = il_series_slots[i];
            il_series_slots[i] = s->next;
            free(s);
        }
    }

    memset(il_series_first, 0, sizeof(il_series_first));
    il_series_n = 0;

    (void) pthread_mutex_unlock(&il_series_lock);
}


/* ---------------------------------------------------------------- output */


static void
il_metrics_number(il_buf_t *out, double v)
{
    char  num[40];

    if (isinf(v)) {
        il_buf_puts(out, v > 0 ? "+Inf" : "-Inf");
        return;
    }

    if (isnan(v)) {
        il_buf_puts(out, "NaN");
        return;
    }

    (void) snprintf(num, sizeof(num), "%.15g", v);
    il_buf_puts(out, num);
}


static void
il_metrics_label(il_buf_t *out, int *first, il_str_t name, il_str_t value)
{
    size_t  i;
    char    c;

    il_buf_puts(out, *first ? "{" : ",");
    *first = 0;
    il_buf_add(out, name);
    il_buf_puts(out, "=\"");

    for (i = 0; i < value.len; i++) {
        c = value.data[i];

        if (c == '\\' || c == '"') {
            il_buf_puts(out, "\\");
        }

        if (c == '\n') {
            il_buf_puts(out, "\\n");
            continue;
        }

        il_buf_add(out, il_str(&c, 1));
    }

    il_buf_puts(out, "\"");
}


static void
il_metrics_head(il_buf_t *out, il_str_t name, const char *help,
    const char *type)
{
    il_buf_puts(out, "# HELP interlock_");
    il_buf_add(out, name);
    il_buf_puts(out, " ");
    il_buf_puts(out, help);
    il_buf_puts(out, "\n# TYPE interlock_");
    il_buf_add(out, name);
    il_buf_puts(out, " ");
    il_buf_puts(out, type);
    il_buf_puts(out, "\n");
}


void
il_metrics_gauge(il_buf_t *out, const char *name, const char *help, double v)
{
    il_metrics_head(out, il_cstr(name), help, "gauge");
    il_buf_puts(out, "interlock_");
    il_buf_puts(out, name);
    il_buf_puts(out, " ");
    il_metrics_number(out, v);
    il_buf_puts(out, "\n");
}


/* One line of a series; le is NULL or the bucket's bound. */

static void
il_metrics_line(il_buf_t *out, const il_family_t *f, const il_series_t *s,
    const char *suffix, const char *le, double v)
{
    int     first;
    size_t  i;

    il_buf_puts(out, "interlock_");
    il_buf_puts(out, f->name);
    il_buf_puts(out, suffix);

    first = 1;

    for (i = 0; i < IL_LABELS && f->labels[i] != NULL; i++) {
        il_metrics_label(out, &first, il_cstr(f->labels[i]),
                         il_cstr(s->labels[i]));
    }

    if (le != NULL) {
        il_metrics_label(out, &first, il_cstr("le"), il_cstr(le));
    }

    il_buf_puts(out, first ? " " : "} ");
    il_metrics_number(out, v);
    il_buf_puts(out, "\n");
}


static void
il_metrics_series(il_buf_t *out, const il_family_t *f, const il_series_t *s)
{
    char      le[40];
    size_t    i;
    uint64_t  n;

    if (f->buckets == NULL) {
        il_metrics_line(out, f, s, "", NULL, s->sum);
        return;
    }

    n = 0;

    for (i = 0; f->buckets[i] > 0; i++) {
        n += s->buckets[i];
        (void) snprintf(le, sizeof(le), "%.15g", f->buckets[i]);
        il_metrics_line(out, f, s, "_bucket", le, (double) n);
    }

    il_metrics_line(out, f, s, "_bucket", "+Inf", (double) s->count);
    il_metrics_line(out, f, s, "_sum", NULL, s->sum);
    il_metrics_line(out, f, s, "_count", NULL, (double) s->count);
}


static void
il_metrics_stat(il_buf_t *out, const il_db_result_t *res, size_t row)
{
    int              first;
    char             value[256];
    size_t           pos, len;
    double           v;
    il_str_t         labels, name, tenant;
    il_json_value_t  obj, member;

    il_buf_puts(out, "interlock_");
    il_buf_add(out, il_db_cell(res, row, 0));

    first = 1;
    labels = il_db_cell(res, row, 2);

    if (il_json_find(labels, il_str("", 0), &obj) == IL_JSON_OK
        && obj.type == IL_JSON_OBJECT)
    {
        pos = 0;

        while (il_json_next(obj, &pos, &name, &member)) {
            if (name.len > 2
                && il_json_scalar(&member, value, sizeof(value), &len) == 0)
            {
                il_metrics_label(out, &first,
                                 il_str(name.data + 1, name.len - 2),
                                 il_str(value, len));
            }
        }
    }

    tenant = il_db_cell(res, row, 1);
    if (tenant.data != NULL) {
        il_metrics_label(out, &first, il_cstr("tenant"), tenant);
    }

    if (il_db_cell_double(res, row, 3, &v) != 0) {
        v = NAN;
    }

    il_buf_puts(out, first ? " " : "} ");
    il_metrics_number(out, v);
    il_buf_puts(out, "\n");
}


static int
il_metrics_total(il_str_t name)
{
    return name.len > 6 && memcmp(name.data + name.len - 6, "_total", 6) == 0;
}


/* Rows of one name must stand together. */

static void
il_metrics_stats(il_buf_t *out, const il_db_result_t *res)
{
    size_t       i, j, k, rows;
    il_str_t     name;
    const char  *help;

    rows = il_db_rows(res);

    for (i = 0; i < rows; i++) {
        name = il_db_cell(res, i, 0);

        for (j = 0; j < i; j++) {
            if (il_str_eq(name, il_db_cell(res, j, 0))) {
                break;
            }
        }

        if (j < i) {
            continue;
        }

        help = "As counted by the database.";

        for (k = 0; il_stats[k].name != NULL; k++) {
            if (il_str_eq(name, il_cstr(il_stats[k].name))) {
                help = il_stats[k].help;
            }
        }

        il_metrics_head(out, name, help, il_metrics_total(name) ? "counter"
                                                                : "gauge");

        for (j = i; j < rows; j++) {
            if (il_str_eq(name, il_db_cell(res, j, 0))) {
                il_metrics_stat(out, res, j);
            }
        }
    }
}


void
il_metrics_render(il_buf_t *out, const il_db_result_t *stats)
{
    size_t              m;
    il_series_t        *s;
    const il_family_t  *f;

    (void) pthread_mutex_lock(&il_series_lock);

    for (m = 0; m < IL_MT_MAX; m++) {
        f = &il_families[m];

        il_metrics_head(out, il_cstr(f->name), f->help,
                        f->buckets == NULL ? "counter" : "histogram");

        for (s = il_series_first[m]; s != NULL; s = s->after) {
            il_metrics_series(out, f, s);
        }
    }

    (void) pthread_mutex_unlock(&il_series_lock);

    if (stats != NULL) {
        il_metrics_stats(out, stats);
    }
}
