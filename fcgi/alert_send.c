/*
 * alert_send.c: the threads that send events to their receivers, signed as
 * Standard Webhooks (v1, HMAC-SHA256 over id, time and body).
 *
 * An event keeps its id and its bytes, however often it is sent; its time is
 * that of the try, by the database's clock.
 */

#include <stdio.h>

#include "alert.h"
#include "crew.h"
#include "il_enc.h"
#include "il_mac.h"
#include "log.h"
#include "metrics.h"
#include "server.h"


#define IL_ALERT_TIMEOUT_MS  10000
#define IL_ALERT_TRIES       5         /* to store what became of a try */
#define IL_ALERT_SECRET_MAX  256       /* bytes of a secret's text */


typedef struct {
    int32_t   tenant;
    uint8_t   id[IL_UUID_BYTES];
    int32_t   try;
    int64_t   at;                      /* Unix seconds */
    il_str_t  alert;
    il_str_t  url;
    il_str_t  body;
    il_str_t  secret;                  /* a bytea cell, or data NULL */
    il_str_t  secret_file;
} il_alert_t;


static int il_alert_one(il_crew_t *crew, il_link_t *link, void *room);


static il_crew_t  il_alerts = {
    .app = "interlockd alert",
    .room = sizeof(il_outcall_t),
    .one = il_alert_one,
    .lock = PTHREAD_MUTEX_INITIALIZER
};


static int
il_alert_stopping(void)
{
    return il_crew_stopping(&il_alerts);
}


void
il_alert_rules(const il_conf_t *conf, il_outrules_t *rules)
{
    rules->setting = "alert_hosts";
    rules->hosts = conf->alert_hosts;
    rules->private = conf->alert_private;
    rules->ca = conf->alert_ca;
    rules->agent = "interlock-alert";
    rules->stopping = il_alert_stopping;
}


/* "whsec_…" of a file, decoded; bounds as for a secret that is given. */

#define IL_ALERT_KEY_MIN  24
#define IL_ALERT_KEY_MAX  64

static int
il_alert_secret_file(il_str_t name, uint8_t *key, size_t cap, size_t *len,
    char *why, size_t why_cap)
{
    int     rc;
    char    text[IL_ALERT_SECRET_MAX];
    size_t  n;

    static const char  prefix[] = "whsec_";

    rc = il_outcall_secret("alert_secrets_dir", il_srv.conf.alert_secrets_dir,
                           name, text, sizeof(text), &n, why, why_cap);

    if (rc == 0
        && (n < sizeof(prefix) || memcmp(text, prefix, sizeof(prefix) - 1) != 0
            || il_b64_decode(key, cap, len,
                             il_str(text + sizeof(prefix) - 1,
                                    n - (sizeof(prefix) - 1)),
                             IL_B64_STD) != 0
            || *len < IL_ALERT_KEY_MIN || *len > IL_ALERT_KEY_MAX))
    {
        (void) snprintf(why, why_cap, "the secret \"%.*s\" is not \"whsec_\" "
                        "and base64 of %d to %d bytes", (int) name.len,
                        name.data, IL_ALERT_KEY_MIN, IL_ALERT_KEY_MAX);
        rc = -1;
    }

    sodium_memzero(text, sizeof(text));

    return rc;
}


int
il_alert_secret_known(il_str_t name, char *why, size_t cap)
{
    int      rc;
    size_t   len;
    uint8_t  key[IL_ALERT_SECRET_MAX];

    rc = il_alert_secret_file(name, key, sizeof(key), &len, why, cap);
    sodium_memzero(key, sizeof(key));

    return rc;
}


static int
il_alert_secret(const il_alert_t *a, uint8_t *key, size_t cap, size_t *len,
    char *why, size_t why_cap)
{
    if (a->secret_file.data != NULL) {
        return il_alert_secret_file(a->secret_file, key, cap, len, why,
                                    why_cap);
    }

    *len = a->secret.data == NULL ? 0 : il_db_bytes_len(a->secret);

    if (*len == 0 || *len > cap || il_db_bytes_decode(a->secret, key) != 0) {
        (void) snprintf(why, why_cap, "the alert has no secret");
        return -1;
    }

    return 0;
}


/* The three headers of a Standard Webhook. */

static int
il_alert_sign(const il_alert_t *a, il_outcall_t *call)
{
    int       rc;
    char      id[IL_UUID_TEXT + 1], at[24], line[128];
    char      sig[il_b64_encoded_cap(IL_MAC_MAX)];
    size_t    len;
    uint8_t   key[IL_ALERT_SECRET_MAX], mac[IL_MAC_MAX];
    il_mac_t  m;

    if (il_alert_secret(a, key, sizeof(key), &len, call->why,
                        sizeof(call->why)) != 0)
    {
        return -1;
    }

    il_uuid_format(id, a->id);
    (void) snprintf(at, sizeof(at), "%lld", (long long) a->at);

    il_mac_init(&m, IL_SIG_SHA256, key, len);
    il_mac_update(&m, il_cstr(id));
    il_mac_update(&m, il_cstr("."));
    il_mac_update(&m, il_cstr(at));
    il_mac_update(&m, il_cstr("."));
    il_mac_update(&m, a->body);
    il_mac_final(&m, mac);
    sodium_memzero(key, sizeof(key));

    (void) il_b64_encode(sig, sizeof(sig), mac, il_mac_len(IL_SIG_SHA256),
                         IL_B64_STD);

    rc = il_outcall_header(call, "Content-Type: application/json");
    (void) snprintf(line, sizeof(line), "webhook-id: %s", id);
    rc |= il_outcall_header(call, line);
    (void) snprintf(line, sizeof(line), "webhook-timestamp: %s", at);
    rc |= il_outcall_header(call, line);
    (void) snprintf(line, sizeof(line), "webhook-signature: v1,%s", sig);
    rc |= il_outcall_header(call, line);

    /* no "Expect: 100-continue", which some receivers do not answer */

    rc |= il_outcall_header(call, "Expect:");

    return rc == 0 ? 0 : -1;
}


/* Sends it once.  The status of the answer, or 0 and call->why. */

static int
il_alert_send(const il_alert_t *a, il_outcall_t *call)
{
    char           why[IL_LOOKUP_DETAIL_CAP - 16];
    il_outrules_t  rules;

    memset(call, 0, sizeof(*call));
    il_alert_rules(&il_srv.conf, &rules);

    call->post = 1;
    call->body = a->body;
    call->deadline = il_now_ms() + IL_ALERT_TIMEOUT_MS;

    if (a->url.len >= sizeof(call->url)) {
        (void) snprintf(call->why, sizeof(call->why), "the URL is too long");
        return 0;
    }

    memcpy(call->url, a->url.data, a->url.len);

    if (il_outcall_url(&rules, il_cstr(call->url), &call->parsed, why,
                       sizeof(why)) != 0)
    {
        (void) snprintf(call->why, sizeof(call->why), "the URL %s", why);
        return 0;
    }

    if (il_alert_sign(a, call) != 0) {
        return 0;
    }

    /* who answers 200 and then goes away has taken it all the same */

    if (il_outcall(&rules, call) != 0) {
        return call->status;
    }

    if (call->status < 200 || call->status > 299) {
        (void) snprintf(call->why, sizeof(call->why), "status %d",
                        call->status);
    }

    return call->status;
}


static void
il_alert_told(const il_alert_t *a, const il_outcall_t *call,
    il_str_t outcome)
{
    char  id[IL_UUID_TEXT + 1];

    il_uuid_format(id, a->id);
    il_metric_add_str(IL_MT_ALERTS, 1, a->alert, outcome, il_str("", 0));

    il_log(il_str_eq(outcome, il_cstr("dropped")) ? IL_LOG_WARN : IL_LOG_INFO,
           "event %s to alert %.*s: %.*s%s%s", id, (int) a->alert.len,
           a->alert.data, (int) outcome.len,
           outcome.len != 0 ? outcome.data : "",
           call->why[0] != '\0' ? ", " : "", call->why);
}


/* What cannot be stored did not happen: it is sent again. */

static void
il_alert_answer(il_link_t *link, const il_alert_t *a,
    const il_outcall_t *call, int status)
{
    unsigned         tries;
    il_db_rc_e       rc;
    il_db_args_t     args;
    il_db_result_t  *res;

    for (tries = 0; tries < IL_ALERT_TRIES; tries++) {
        if (il_link_up(link) != 0) {
            return;
        }

        il_db_args_init(&args, "iuiit");
        il_db_put_int(&args, 0, a->tenant);
        il_db_put_uuid(&args, 1, a->id);
        il_db_put_int(&args, 2, a->try);

        if (status != 0) {
            il_db_put_int(&args, 3, status);

        } else {
            il_db_put_null(&args, 3);
        }

        il_db_put_text(&args, 4, il_cstr(call->why));

        rc = il_link_call(link, "select * from interlock.alert_answer($1, "
                          "$2, $3, $4, $5)", &args, &res);
        il_db_args_free(&args);

        if (rc == IL_DB_OK) {
            il_alert_told(a, call,
                          il_db_cell(res, 0, il_db_column(res, "outcome")));
            il_db_result_free(res);
            return;
        }

        if (rc == IL_DB_UNEXPECTED || il_alert_stopping()) {
            return;
        }
    }
}


static int
il_alert_row(const il_db_result_t *res, il_alert_t *a)
{
    int64_t  tenant, try;

    if (il_db_rows(res) != 1
        || il_db_cell_int(res, 0, il_db_column(res, "tenant"), &tenant) != 0
        || il_db_cell_int(res, 0, il_db_column(res, "try"), &try) != 0
        || il_db_cell_int(res, 0, il_db_column(res, "at"), &a->at) != 0
        || il_db_cell_uuid(res, 0, il_db_column(res, "event_id"), a->id) != 0)
    {
        return -1;
    }

    a->tenant = (int32_t) tenant;
    a->try = (int32_t) try;
    a->alert = il_db_cell(res, 0, il_db_column(res, "alert"));
    a->url = il_db_cell(res, 0, il_db_column(res, "url"));
    a->body = il_db_cell(res, 0, il_db_column(res, "body"));
    a->secret = il_db_cell(res, 0, il_db_column(res, "secret"));
    a->secret_file = il_db_cell(res, 0, il_db_column(res, "secret_file"));

    return 0;
}


/* Takes one and sends it.  1, or 0: nothing is due. */

static int
il_alert_one(il_crew_t *crew, il_link_t *link, void *room)
{
    int              taken, status;
    il_alert_t       a;
    il_db_rc_e       rc;
    il_db_args_t     args;
    il_outcall_t    *call = room;
    il_db_result_t  *res;

    il_db_args_init(&args, "I");
    il_db_put_int(&args, 0, 1);

    rc = il_link_call(link, "select * from interlock.alert_take($1)", &args,
                      &res);
    il_db_args_free(&args);

    if (rc != IL_DB_OK) {
        return 0;
    }

    taken = (il_alert_row(res, &a) == 0);

    if (taken) {
        il_crew_hint(crew);
        status = il_alert_send(&a, call);

        if (!il_crew_stopping(crew)) {
            il_alert_answer(link, &a, call, status);
        }

        il_outcall_free(call);
    }

    il_db_result_free(res);

    return taken;
}


int
il_alert_start(void)
{
    return il_crew_start(&il_alerts, (size_t) il_srv.conf.alert_threads);
}


void
il_alert_stop(void)
{
    il_crew_stop(&il_alerts);
}
