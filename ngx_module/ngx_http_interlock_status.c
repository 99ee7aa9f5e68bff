
/*
 * Copyright (C) the interlock authors
 */


/*
 * The status page, as JSON or in Prometheus' text format 0.0.4.  Zone numbers
 * are copied under the lock and printed without it; counters are read as they
 * stand.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


#define NGX_HTTP_INTERLOCK_OUT_SIZE  8192
#define NGX_HTTP_INTERLOCK_OUT_LINE  2048   /* one print, at most */


/* output: a chain of buffers that grows by whole prints */

typedef struct {
    ngx_pool_t    *pool;
    ngx_chain_t   *first;
    ngx_chain_t  **last;
    ngx_buf_t     *buf;
    off_t          size;
    unsigned       failed:1;
} ngx_http_interlock_out_t;


typedef struct {
    const char    *name;
    const char    *type;
    const char    *help;
    size_t         offset;
    unsigned       wide:1;              /* uint64_t, else ngx_uint_t */
} ngx_http_interlock_metric_t;


/* what is counted by location; with a label, an array of counters */

typedef struct {
    const char    *name;
    const char    *help;
    size_t         offset;
    ngx_uint_t     n;
    const char    *label;
    const char   **names;               /* NULL: those of the problems */
} ngx_http_interlock_series_t;


static void ngx_http_interlock_status_json(ngx_http_interlock_out_t *out,
    ngx_http_interlock_main_conf_t *imcf);
static void ngx_http_interlock_status_json_zone(
    ngx_http_interlock_out_t *out, ngx_shm_zone_t *shm_zone);
static void ngx_http_interlock_status_json_location(
    ngx_http_interlock_out_t *out, ngx_http_interlock_counters_t *c);
static void ngx_http_interlock_status_json_refusals(
    ngx_http_interlock_out_t *out, ngx_shm_zone_t *shm_zone);
static void ngx_http_interlock_status_prometheus(
    ngx_http_interlock_out_t *out, ngx_http_interlock_main_conf_t *imcf);
static void ngx_http_interlock_status_locations(
    ngx_http_interlock_out_t *out, ngx_http_interlock_zone_stat_t *stats,
    ngx_uint_t n);
static void ngx_http_interlock_status_series(ngx_http_interlock_out_t *out,
    ngx_uint_t k, ngx_http_interlock_zone_stat_t *stats, ngx_uint_t n,
    ngx_http_interlock_counters_t *c);
static ngx_http_interlock_counters_t *ngx_http_interlock_same(
    ngx_http_interlock_zone_stat_t *stat, ngx_http_interlock_counters_t *c);
static ngx_uint_t ngx_http_interlock_seen(
    ngx_http_interlock_zone_stat_t *stats, ngx_uint_t n,
    ngx_http_interlock_counters_t *c);
static uint64_t ngx_http_interlock_sum(ngx_http_interlock_zone_stat_t *stats,
    ngx_uint_t n, ngx_http_interlock_counters_t *c, size_t offset);
static void ngx_http_interlock_print(ngx_http_interlock_out_t *out,
    const char *fmt, ...);
static ngx_str_t ngx_http_interlock_label(ngx_http_interlock_counters_t *c,
    u_char *buf);


/* in the order of ngx_http_interlock_outcome_e */

static const char  *ngx_http_interlock_outcomes[] = {
    "forwarded",
    "unkeyed",
    "mismatch",
    "no_room",
    "dry_run",
    "split",
    "duplicate",
    "coalesced",
    "in_progress",
    "rejected",
    "head",
    "handshake",
    "unfinished"
};

_Static_assert(sizeof(ngx_http_interlock_outcomes)
               / sizeof(ngx_http_interlock_outcomes[0])
               == NGX_HTTP_INTERLOCK_OUTCOMES,
               "an outcome has no name");


static ngx_http_interlock_series_t  ngx_http_interlock_series[] = {

    { "requests", "Requests at the edge by what became of them.",
      offsetof(ngx_http_interlock_counters_t, outcomes),
      NGX_HTTP_INTERLOCK_OUTCOMES, "decision", ngx_http_interlock_outcomes },

    { "rejected", "Requests refused at the edge by reason.",
      offsetof(ngx_http_interlock_counters_t, rejected),
      IL_P_MAX, "reason", NULL },

    { "waited", "Repeats that waited for the first one.",
      offsetof(ngx_http_interlock_counters_t, waited), 1, NULL, NULL },

    { "stored", "Answers that the edge remembered.",
      offsetof(ngx_http_interlock_counters_t, stored), 1, NULL, NULL }
};

#define NGX_HTTP_INTERLOCK_SERIES                                             \
    (sizeof(ngx_http_interlock_series) / sizeof(ngx_http_interlock_series[0]))


#define ngx_http_interlock_stat(field)                                        \
    offsetof(ngx_http_interlock_zone_stat_t, field)

static ngx_http_interlock_metric_t  ngx_http_interlock_metrics[] = {

    { "capacity", "gauge", "Entries that the zone can hold.",
      ngx_http_interlock_stat(capacity), 0 },

    { "in_flight", "gauge", "Entries whose request is with the backend.",
      ngx_http_interlock_stat(in_flight), 0 },

    { "done", "gauge", "Entries with an answer.",
      ngx_http_interlock_stat(done), 0 },

    { "held", "gauge", "Entries of work keys whose repeats are answered here.",
      ngx_http_interlock_stat(held), 0 },

    { "free", "gauge", "Entries that are free.",
      ngx_http_interlock_stat(free), 0 },

    { "free_pages", "gauge", "Free entries, as pages of memory.",
      ngx_http_interlock_stat(free_pages), 0 },

    { "free_bytes", "gauge", "Free entries, as bytes of memory.",
      ngx_http_interlock_stat(free_bytes), 0 },

    { "evictions_total", "counter", "Answers given up for want of room.",
      ngx_http_interlock_stat(evicted), 1 },

    { "expired_in_flight_total", "counter",
      "Entries in flight that ended by time.",
      ngx_http_interlock_stat(expired), 1 },

    { "no_room_total", "counter", "Claims that found no room.",
      ngx_http_interlock_stat(no_room), 1 },

    { "rebuilds_total", "counter",
      "Times that the zone was forgotten after a crash.",
      ngx_http_interlock_stat(rebuilt), 1 },

    { "epoch_changes_total", "counter",
      "Times that the backend's epoch changed.",
      ngx_http_interlock_stat(epochs), 1 },

    { "answered_alone_total", "counter",
      "Requests answered alone: their last number.",
      ngx_http_interlock_stat(answered), 1 }
};

#define NGX_HTTP_INTERLOCK_METRICS                                            \
    (sizeof(ngx_http_interlock_metrics)                                       \
     / sizeof(ngx_http_interlock_metrics[0]))


/* interlock_status [json | prometheus] */

char *
ngx_http_interlock_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t                 *value;
    ngx_http_core_loc_conf_t  *clcf;

    if (ilcf->status) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 1 || ngx_strcmp(value[1].data, "json") == 0) {
        ilcf->status = NGX_HTTP_INTERLOCK_STATUS_JSON;

    } else if (ngx_strcmp(value[1].data, "prometheus") == 0) {
        ilcf->status = NGX_HTTP_INTERLOCK_STATUS_PROM;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"interlock_status\""
                           ": it is \"json\" or \"prometheus\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_http_interlock_status_handler;

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_interlock_status_handler(ngx_http_request_t *r)
{
    ngx_int_t                        rc;
    ngx_http_interlock_out_t         out;
    ngx_http_interlock_loc_conf_t   *ilcf;
    ngx_http_interlock_main_conf_t  *imcf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    imcf = ngx_http_get_module_main_conf(r, ngx_http_interlock_module);
    ilcf = ngx_http_get_module_loc_conf(r, ngx_http_interlock_module);

    ngx_memzero(&out, sizeof(ngx_http_interlock_out_t));

    out.pool = r->pool;
    out.last = &out.first;

    if (ilcf->status == NGX_HTTP_INTERLOCK_STATUS_PROM) {
        ngx_str_set(&r->headers_out.content_type,
                    "text/plain; version=0.0.4; charset=utf-8");
        ngx_http_interlock_status_prometheus(&out, imcf);

    } else {
        ngx_str_set(&r->headers_out.content_type, "application/json");
        ngx_http_interlock_status_json(&out, imcf);
    }

    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    if (out.failed || out.buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    out.buf->last_buf = 1;
    out.buf->last_in_chain = 1;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = out.size;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, out.first);
}


static void
ngx_http_interlock_status_json(ngx_http_interlock_out_t *out,
    ngx_http_interlock_main_conf_t *imcf)
{
    ngx_uint_t        i;
    ngx_shm_zone_t  **zp;

    zp = imcf->zones->elts;

    ngx_http_interlock_print(out, "{\"zones\":[");

    for (i = 0; i < imcf->zones->nelts; i++) {
        if (i) {
            ngx_http_interlock_print(out, ",");
        }

        ngx_http_interlock_status_json_zone(out, zp[i]);
    }

    ngx_http_interlock_print(out, "]}\n");
}


static void
ngx_http_interlock_status_json_zone(ngx_http_interlock_out_t *out,
    ngx_shm_zone_t *shm_zone)
{
    u_char                           name[6 * NGX_HTTP_INTERLOCK_LABEL_MAX];
    size_t                           len;
    ngx_str_t                        s;
    ngx_uint_t                       i;
    ngx_http_interlock_metric_t     *m;
    ngx_http_interlock_counters_t   *c;
    ngx_http_interlock_zone_stat_t   stat;

    ngx_http_interlock_zone_stat(shm_zone->data, &stat);

    s.data = name;
    s.len = ngx_min(shm_zone->shm.name.len, NGX_HTTP_INTERLOCK_LABEL_MAX);

    len = il_json_escape((char *) name, sizeof(name),
                         il_str((char *) shm_zone->shm.name.data, s.len));
    s.len = (len == (size_t) -1) ? 0 : len;

    ngx_http_interlock_print(out, "{\"zone\":\"%V\",\"size\":%uz,", &s,
                             shm_zone->shm.size);

    s.data = name;
    len = il_json_escape((char *) name, sizeof(name),
                         il_str((char *) stat.epoch, stat.epoch_len));
    s.len = (len == (size_t) -1) ? 0 : len;

    ngx_http_interlock_print(out, "\"epoch\":\"%V\",", &s);

    s.data = name;
    s.len = ngx_hex_dump(name, stat.id, NGX_HTTP_INTERLOCK_ZONE_ID) - name;

    ngx_http_interlock_print(out, "\"id\":\"%V\",", &s);

    for (i = 0; i < NGX_HTTP_INTERLOCK_METRICS; i++) {
        m = &ngx_http_interlock_metrics[i];

        s.data = (u_char *) m->name;
        s.len = ngx_strlen(m->name);

        if (m->wide) {
            s.len -= sizeof("_total") - 1;
            ngx_http_interlock_print(out, "\"%V\":%uL,", &s,
                                   *(uint64_t *) ((char *) &stat + m->offset));
        } else {
            ngx_http_interlock_print(out, "\"%V\":%ui,", &s,
                                 *(ngx_uint_t *) ((char *) &stat + m->offset));
        }
    }

    ngx_http_interlock_print(out, "\"locations\":[");

    for (c = stat.counters; c; c = c->next) {
        ngx_http_interlock_status_json_location(out, c);

        if (c->next) {
            ngx_http_interlock_print(out, ",");
        }
    }

    ngx_http_interlock_print(out, "],\"refusals\":[");
    ngx_http_interlock_status_json_refusals(out, shm_zone);
    ngx_http_interlock_print(out, "]}");
}


/* the last refusals, newest first: when, where, why and of whom; nothing of
 * what was sent */

static void
ngx_http_interlock_status_json_refusals(ngx_http_interlock_out_t *out,
    ngx_shm_zone_t *shm_zone)
{
    u_char                         buf[6 * NGX_HTTP_INTERLOCK_LABEL_MAX];
    u_char                         time[IL_RFC3339_CAP];
    ngx_str_t                      label, addr;
    ngx_uint_t                     i, n;
    ngx_http_interlock_refusal_t  *r, refusals[NGX_HTTP_INTERLOCK_RING];

    n = ngx_http_interlock_zone_refusals(shm_zone->data, refusals);

    for (i = 0; i < n; i++) {
        r = &refusals[i];

        /* a slot that a dying worker left half written is none */

        if (r->problem >= IL_P_MAX || r->addr_len > sizeof(r->addr)
            || il_rfc3339_format((char *) time, sizeof(time),
                                 (int64_t) r->time * 1000) == 0)
        {
            r->problem = IL_P_NONE;
            r->addr_len = 0;
            time[0] = '\0';
        }

        ngx_str_null(&label);

        if (r->counters) {
            label = ngx_http_interlock_label(r->counters, buf);
        }

        /* "unix:", or digits, dots and colons: nothing to escape */

        addr.data = r->addr;
        addr.len = r->addr_len;

        ngx_http_interlock_print(out, "%s{\"time\":\"%s\","
                                 "\"location\":\"%V\",\"reason\":\"%s\","
                                 "\"address\":\"%V\"}", i ? "," : "", time,
                                 &label,
                                 il_problem_name((il_problem_e)
                                                 r->problem).data,
                                 &addr);
    }
}


static void
ngx_http_interlock_status_json_location(ngx_http_interlock_out_t *out,
    ngx_http_interlock_counters_t *c)
{
    u_char      buf[6 * NGX_HTTP_INTERLOCK_LABEL_MAX];
    ngx_str_t   label;
    ngx_uint_t  i, n;

    label = ngx_http_interlock_label(c, buf);

    ngx_http_interlock_print(out, "{\"location\":\"%V\",\"requests\":%uA,"
                             "\"waited\":%uA,\"stored\":%uA,\"decisions\":{",
                             &label, c->requests, c->waited, c->stored);

    for (i = 0; i < NGX_HTTP_INTERLOCK_OUTCOMES; i++) {
        ngx_http_interlock_print(out, "%s\"%s\":%uA", i ? "," : "",
                                 ngx_http_interlock_outcomes[i],
                                 c->outcomes[i]);
    }

    ngx_http_interlock_print(out, "},\"rejected\":{");

    n = 0;

    for (i = 0; i < IL_P_MAX; i++) {
        if (c->rejected[i]) {
            ngx_http_interlock_print(out, "%s\"%s\":%uA", n++ ? "," : "",
                                     il_problem_name((il_problem_e) i).data,
                                     c->rejected[i]);
        }
    }

    ngx_http_interlock_print(out, "}}");
}


static void
ngx_http_interlock_status_prometheus(ngx_http_interlock_out_t *out,
    ngx_http_interlock_main_conf_t *imcf)
{
    ngx_uint_t                        i, z;
    ngx_shm_zone_t                  **zp;
    ngx_http_interlock_metric_t      *m;
    ngx_http_interlock_zone_stat_t   *stats;

    zp = imcf->zones->elts;

    if (imcf->zones->nelts == 0) {
        ngx_http_interlock_print(out, "# no zone\n");
        return;
    }

    stats = ngx_palloc(out->pool, imcf->zones->nelts
                                  * sizeof(ngx_http_interlock_zone_stat_t));
    if (stats == NULL) {
        out->failed = 1;
        return;
    }

    for (z = 0; z < imcf->zones->nelts; z++) {
        ngx_http_interlock_zone_stat(zp[z]->data, &stats[z]);
    }

    for (i = 0; i < NGX_HTTP_INTERLOCK_METRICS; i++) {
        m = &ngx_http_interlock_metrics[i];

        ngx_http_interlock_print(out, "# HELP interlock_zone_%s %s\n"
                                 "# TYPE interlock_zone_%s %s\n",
                                 m->name, m->help, m->name, m->type);

        for (z = 0; z < imcf->zones->nelts; z++) {
            ngx_http_interlock_print(out,
                               "interlock_zone_%s{zone=\"%V\"} %uL\n",
                               m->name, &zp[z]->shm.name,
                               m->wide
                               ? *(uint64_t *) ((char *) &stats[z] + m->offset)
                               : (uint64_t) *(ngx_uint_t *)
                                          ((char *) &stats[z] + m->offset));
        }
    }

    ngx_http_interlock_status_locations(out, stats, imcf->zones->nelts);
}


/*
 * Two zones may count a location of the same name.  A series must not be
 * written twice, so the first one writes the sum.
 */

static void
ngx_http_interlock_status_locations(ngx_http_interlock_out_t *out,
    ngx_http_interlock_zone_stat_t *stats, ngx_uint_t n)
{
    ngx_uint_t                      k, z;
    ngx_http_interlock_counters_t  *c;

    for (k = 0; k < NGX_HTTP_INTERLOCK_SERIES; k++) {

        ngx_http_interlock_print(out, "# HELP interlock_edge_%s_total %s\n"
                                 "# TYPE interlock_edge_%s_total counter\n",
                                 ngx_http_interlock_series[k].name,
                                 ngx_http_interlock_series[k].help,
                                 ngx_http_interlock_series[k].name);

        for (z = 0; z < n; z++) {
            for (c = stats[z].counters; c; c = c->next) {
                if (!ngx_http_interlock_seen(stats, z, c)) {
                    ngx_http_interlock_status_series(out, k, stats, n, c);
                }
            }
        }
    }
}


static void
ngx_http_interlock_status_series(ngx_http_interlock_out_t *out, ngx_uint_t k,
    ngx_http_interlock_zone_stat_t *stats, ngx_uint_t n,
    ngx_http_interlock_counters_t *c)
{
    size_t                         offset;
    u_char                         buf[6 * NGX_HTTP_INTERLOCK_LABEL_MAX];
    uint64_t                       value;
    ngx_str_t                      label;
    ngx_uint_t                     i;
    ngx_http_interlock_series_t   *s;

    s = &ngx_http_interlock_series[k];

    label = ngx_http_interlock_label(c, buf);

    for (i = 0; i < s->n; i++) {

        offset = s->offset + i * sizeof(ngx_atomic_t);
        value = ngx_http_interlock_sum(stats, n, c, offset);

        if (s->label == NULL) {
            ngx_http_interlock_print(out,
                                     "interlock_edge_%s_total{location=\"%V\"}"
                                     " %uL\n", s->name, &label, value);

        } else if (s->names) {
            ngx_http_interlock_print(out,
                                     "interlock_edge_%s_total{location=\"%V\","
                                     "%s=\"%s\"} %uL\n", s->name, &label,
                                     s->label, s->names[i], value);

        } else if (value) {
            ngx_http_interlock_print(out,
                                     "interlock_edge_%s_total{location=\"%V\","
                                     "%s=\"%s\"} %uL\n", s->name, &label,
                                     s->label,
                                     il_problem_name((il_problem_e) i).data,
                                     value);
        }
    }
}


/* the counters of the same location in one zone, or NULL */

static ngx_http_interlock_counters_t *
ngx_http_interlock_same(ngx_http_interlock_zone_stat_t *stat,
    ngx_http_interlock_counters_t *c)
{
    ngx_http_interlock_counters_t  *same;

    for (same = stat->counters; same; same = same->next) {
        if (same->len == c->len
            && ngx_memcmp(same->label, c->label, c->len) == 0)
        {
            return same;
        }
    }

    return NULL;
}


static ngx_uint_t
ngx_http_interlock_seen(ngx_http_interlock_zone_stat_t *stats, ngx_uint_t n,
    ngx_http_interlock_counters_t *c)
{
    ngx_uint_t  z;

    for (z = 0; z < n; z++) {
        if (ngx_http_interlock_same(&stats[z], c)) {
            return 1;
        }
    }

    return 0;
}


static uint64_t
ngx_http_interlock_sum(ngx_http_interlock_zone_stat_t *stats, ngx_uint_t n,
    ngx_http_interlock_counters_t *c, size_t offset)
{
    uint64_t                        sum;
    ngx_uint_t                      z;
    ngx_http_interlock_counters_t  *same;

    sum = 0;

    for (z = 0; z < n; z++) {
        same = ngx_http_interlock_same(&stats[z], c);

        if (same) {
            sum += *(ngx_atomic_t *) ((char *) same + offset);
        }
    }

    return sum;
}


/* a location's name, escaped for both formats: JSON's escapes of quote,
 * backslash and newline are those of Prometheus */

static ngx_str_t
ngx_http_interlock_label(ngx_http_interlock_counters_t *c, u_char *buf)
{
    size_t     len;
    ngx_str_t  label;

    len = il_json_escape((char *) buf, 6 * NGX_HTTP_INTERLOCK_LABEL_MAX,
                         il_str((char *) c->label, c->len));

    label.data = buf;
    label.len = (len == (size_t) -1) ? 0 : len;

    return label;
}


static void
ngx_http_interlock_print(ngx_http_interlock_out_t *out, const char *fmt, ...)
{
    u_char       *p;
    va_list       args;
    ngx_chain_t  *cl;

    if (out->failed) {
        return;
    }

    if (out->buf == NULL
        || out->buf->end - out->buf->last < NGX_HTTP_INTERLOCK_OUT_LINE)
    {
        cl = ngx_alloc_chain_link(out->pool);
        if (cl == NULL) {
            out->failed = 1;
            return;
        }

        out->buf = ngx_create_temp_buf(out->pool, NGX_HTTP_INTERLOCK_OUT_SIZE);
        if (out->buf == NULL) {
            out->failed = 1;
            return;
        }

        cl->buf = out->buf;
        cl->next = NULL;

        *out->last = cl;
        out->last = &cl->next;
    }

    va_start(args, fmt);
    p = ngx_vslprintf(out->buf->last, out->buf->end, fmt, args);
    va_end(args);

    out->size += p - out->buf->last;
    out->buf->last = p;
}
