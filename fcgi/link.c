/*
 * link.c: connections that come back.
 */

#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "lane.h"
#include "log.h"
#include "metrics.h"


#define IL_BACKOFF_MIN  20
#define IL_BACKOFF_MAX  1000

/* The oldest schema that this program can work with. */
#define IL_SCHEMA_MIN   1


static int              il_link_is_up;

/* Grows when a server is found that may not be used: then every link asks
 * again before its next call. */
static unsigned         il_link_doubts;

static pthread_mutex_t  il_link_lock = PTHREAD_MUTEX_INITIALIZER;
static char             il_link_refused[IL_DB_ERR_CAP];


void
il_link_init(il_link_t *link, const il_conf_t *conf, const char *app)
{
    memset(link, 0, sizeof(*link));

    link->conf = conf;
    link->app = app;
    (void) snprintf(link->why, sizeof(link->why), "not connected yet");
}


int
il_link_state(void)
{
    return __atomic_load_n(&il_link_is_up, __ATOMIC_RELAXED);
}


static void
il_link_set_state(int up, const char *refusal)
{
    __atomic_store_n(&il_link_is_up, up, __ATOMIC_RELAXED);

    (void) pthread_mutex_lock(&il_link_lock);
    (void) snprintf(il_link_refused, sizeof(il_link_refused), "%s", refusal);
    (void) pthread_mutex_unlock(&il_link_lock);
}


const char *
il_link_refusal(char *out, size_t cap)
{
    (void) pthread_mutex_lock(&il_link_lock);
    (void) snprintf(out, cap, "%s", il_link_refused);
    (void) pthread_mutex_unlock(&il_link_lock);

    return out;
}


void
il_link_close(il_link_t *link)
{
    il_db_close(link->db);
    link->db = NULL;
}


static int
il_link_failed(il_link_t *link)
{
    int64_t  now;

    now = il_now_ms();

    if (link->since == 0) {
        link->since = now;
        il_log(IL_LOG_ERROR, "database: %s: %s", link->app, link->why);
    }

    link->backoff = link->backoff * 2;

    if (link->backoff < IL_BACKOFF_MIN) {
        link->backoff = IL_BACKOFF_MIN;
    }

    if (link->backoff > IL_BACKOFF_MAX) {
        link->backoff = IL_BACKOFF_MAX;
    }

    link->next = now + link->backoff / 2 + il_random(link->backoff / 2 + 1);

    il_link_close(link);
    il_link_set_state(0, strncmp(link->why, "refused: ", 9) == 0
                         ? link->why + 9 : "");
    il_metric_add(IL_MT_ACQUISITION_FAILED, 1, "", "db_error", "");

    return -1;
}


int
il_link_check(il_link_t *link)
{
    int64_t          version;
    unsigned         doubts;
    il_str_t         detail, epoch;
    il_db_rc_e       rc;
    il_db_result_t  *res;

    doubts = __atomic_load_n(&il_link_doubts, __ATOMIC_RELAXED);

    rc = il_link_call(link, "select ok, detail, epoch, schema_version "
                      "from interlock.ready()", NULL, &res);
    if (rc != IL_DB_OK) {
        (void) snprintf(link->why, sizeof(link->why), "%s",
                        il_db_error(link->db));
        return il_link_failed(link);
    }

    detail = il_db_cell(res, 0, 1);
    epoch = il_db_cell(res, 0, 2);

    if (!il_db_cell_bool(res, 0, 0)) {
        (void) __atomic_add_fetch(&il_link_doubts, 1, __ATOMIC_RELAXED);
        (void) snprintf(link->why, sizeof(link->why), "refused: %.*s",
                        (int) detail.len, detail.len ? detail.data : "");
        il_db_result_free(res);
        return il_link_failed(link);
    }

    if (il_db_cell_int(res, 0, 3, &version) != 0 || version < IL_SCHEMA_MIN) {
        (void) snprintf(link->why, sizeof(link->why), "refused: the schema "
                        "is older than this program (run migrate)");
        il_db_result_free(res);
        return il_link_failed(link);
    }

    if (epoch.len > IL_EPOCH_MAX) {
        epoch.len = IL_EPOCH_MAX;
    }

    if (epoch.len > 0) {
        memcpy(link->epoch, epoch.data, epoch.len);
    }

    link->epoch[epoch.len] = '\0';
    il_db_result_free(res);

    if (link->since != 0) {
        il_log(IL_LOG_NOTICE, "database: %s: connected again", link->app);
    }

    link->doubts = doubts;
    link->since = 0;
    link->backoff = 0;
    link->why[0] = '\0';
    il_link_set_state(1, "");

    return 0;
}


int
il_link_up(il_link_t *link)
{
    int64_t  now;

    if (link->db != NULL && il_db_probe(link->db)) {
        if (link->doubts == __atomic_load_n(&il_link_doubts,
                                            __ATOMIC_RELAXED))
        {
            return 0;
        }

        return il_link_check(link);
    }

    if (link->db != NULL) {
        il_log(IL_LOG_WARN, "database: %s: connection lost: %s", link->app,
               il_db_error(link->db));
        il_link_close(link);
        link->next = 0;
    }

    /* once another link has found the database again, the pause is over */

    now = il_now_ms();

    if (now < link->next
        && (!il_link_state() || now < link->tried + IL_BACKOFF_MIN))
    {
        return -1;
    }

    link->tried = now;

    /* the server's bound is the tighter one: its answer is then certain */

    link->db = il_db_open(link->conf->dsn, link->app,
                          (int) (link->conf->db_deadline * 4 / 5), link->why,
                          sizeof(link->why));
    if (link->db == NULL) {
        return il_link_failed(link);
    }

    il_db_keep(link->db);

    return il_link_check(link);
}


il_db_rc_e
il_link_call(il_link_t *link, const char *sql, il_db_args_t *args,
    il_db_result_t **res)
{
    il_db_rc_e  rc;

    rc = il_db_call(link->db, sql, args, (int) link->conf->db_deadline, res);

    if (rc != IL_DB_OK) {
        il_log(rc == IL_DB_UNEXPECTED ? IL_LOG_ERROR : IL_LOG_WARN,
               "database: %s: %s%s%s", link->app, il_db_sqlstate(link->db),
               il_db_sqlstate(link->db)[0] == '\0' ? "" : ": ",
               il_db_error(link->db));
        il_metric_add(IL_MT_DB_ERRORS, 1,
                      rc == IL_DB_UNEXPECTED ? "unexpected"
                      : rc == IL_DB_RETRY ? "retry" : "unknown", "", "");
    }

    return rc;
}
