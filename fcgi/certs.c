/*
 * certs.c: see certs.h.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "buf.h"
#include "cert.h"
#include "certs.h"
#include "log.h"
#include "loop.h"
#include "metrics.h"
#include "server.h"


#define IL_CERTS_MAX        64        /* remembered */
#define IL_CERTS_BUSY_MAX   16        /* of them being fetched, or about to */
#define IL_CERTS_WAITS_MAX  1000
#define IL_CERTS_URL_MAX    2048

#define IL_CERTS_GOOD_MS    86400000
#define IL_CERTS_BAD_MS     60000     /* it is not to be trusted */
#define IL_CERTS_AWAY_MS    5000      /* it could not be fetched */


typedef enum {
    IL_CERT_FREE = 0,
    IL_CERT_BUSY,
    IL_CERT_GOOD,
    IL_CERT_BAD
} il_cert_state_e;


typedef struct il_cert_s  il_cert_t;

struct il_cert_s {
    il_cert_state_e         state;
    const il_sig_scheme_t  *scheme;   /* NULL: a subscription to confirm */
    char                    url[IL_CERTS_URL_MAX];
    size_t                  url_len;
    int64_t                 until;    /* il_now_ms(): looked at no more */
    int64_t                 ends;     /* Unix seconds: the certificate does */
    int64_t                 used;     /* il_now_ms() */
    il_pk_key_t            *key;
    il_pk_rc_e              rc;
    char                    why[IL_PK_WHY_CAP];
    il_certs_wait_t        *waits;
    il_cert_t              *next;     /* to be fetched */
};


static pthread_mutex_t   il_certs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t    il_certs_wake = PTHREAD_COND_INITIALIZER;
static il_cert_t         il_certs[IL_CERTS_MAX];
static il_cert_t        *il_certs_head;
static il_cert_t       **il_certs_tail = &il_certs_head;
static size_t            il_certs_busy;
static size_t            il_certs_waits;
static int               il_certs_ended;
static pthread_t        *il_certs_threads;
static size_t            il_certs_n;


static int
il_certs_stopping(void)
{
    return __atomic_load_n(&il_certs_ended, __ATOMIC_RELAXED)
           || il_loop_draining();
}


static void
il_certs_rules(const il_conf_t *conf, il_cert_rules_t *rules)
{
    rules->hosts = conf->cert_hosts;
    rules->private = conf->cert_private;
    rules->ca = conf->cert_ca;
    rules->now = 0;
    rules->stopping = il_certs_stopping;
}


int
il_certs_conf(const il_conf_t *conf, char *err, size_t cap)
{
    return il_outcall_hosts("cert_hosts", conf->cert_hosts, err, cap) == 0
           && il_outcall_hosts("cert_private", conf->cert_private, err, cap)
              == 0
           && il_outcall_ca("cert_ca", conf->cert_ca, err, cap) == 0
           ? 0 : -1;
}


/* ------------------------------------------------------------------ answers */


static void
il_certs_say(il_certs_wait_t *wait, il_pk_rc_e rc, const char *why)
{
    wait->rc = rc;
    (void) snprintf(wait->why, sizeof(wait->why), "%s", why);
}


static void
il_certs_fill(il_certs_wait_t *wait, const il_cert_t *c)
{
    il_certs_say(wait, c->rc, c->why);
    wait->key = il_pk_key_ref(c->key);
}


static void
il_certs_outcome(const il_cert_t *c)
{
    il_str_t     scheme;
    const char  *outcome;

    scheme = c->scheme == NULL ? il_cstr("sns")
                               : il_sig_scheme_name(c->scheme);

    outcome = c->rc == IL_PK_OK ? (c->scheme == NULL ? "confirmed" : "good")
              : c->rc == IL_PK_INVALID ? "refused" : "unavailable";

    il_metric_add_str(IL_MT_CERTIFICATES, 1, scheme, il_cstr(outcome),
                      il_str("", 0));

    if (c->scheme == NULL) {

        /* its URL has a token, which confirms it once more */

        il_log(c->rc == IL_PK_OK ? IL_LOG_NOTICE : IL_LOG_WARN,
               "sns: %s", c->rc == IL_PK_OK ? "a subscription was confirmed"
                                            : c->why);
        return;
    }

    il_log(c->rc == IL_PK_OK ? IL_LOG_NOTICE : IL_LOG_WARN,
           "%.*s: %.*s: %s", (int) scheme.len, scheme.data, (int) c->url_len,
           c->url, c->rc == IL_PK_OK ? "this certificate is good" : c->why);
}


/* ----------------------------------------------------------------- fetching */


/* What the thread has found, then whoever waited for it.  Comes with the lock
 * and gives it back. */

static void
il_certs_settle(il_cert_t *c, il_pk_key_t *key, il_pk_rc_e rc,
    const char *why, int64_t ends)
{
    int64_t           now;
    il_certs_wait_t  *wait, *waits;

    now = il_now_ms();

    c->key = key;
    c->rc = rc;
    c->ends = ends;
    (void) snprintf(c->why, sizeof(c->why), "%s", why);

    waits = c->waits;
    c->waits = NULL;
    il_certs_busy--;

    for (wait = waits; wait != NULL; wait = wait->next) {
        il_certs_fill(wait, c);
        il_certs_waits--;
    }

    il_certs_outcome(c);

    /* a confirmation is done with; the next one is another */

    c->state = c->scheme == NULL ? IL_CERT_FREE
               : rc == IL_PK_OK ? IL_CERT_GOOD : IL_CERT_BAD;
    c->until = now + (rc == IL_PK_OK ? IL_CERTS_GOOD_MS
                      : rc == IL_PK_INVALID ? IL_CERTS_BAD_MS
                      : IL_CERTS_AWAY_MS);

    (void) pthread_mutex_unlock(&il_certs_lock);

    while (waits != NULL) {
        wait = waits;
        waits = wait->next;
        wait->done(wait);
    }
}


static void
il_certs_fetch(il_cert_t *c)
{
    char              why[IL_PK_WHY_CAP];
    int64_t           ends;
    il_str_t          url;
    il_pk_rc_e        rc;
    il_pk_key_t      *key;
    il_cert_rules_t   rules;

    il_certs_rules(&il_srv.conf, &rules);

    /* nobody else changes what is busy, but for its waiters */

    url = il_str(c->url, c->url_len);
    key = NULL;
    ends = 0;
    why[0] = '\0';

    if (c->scheme == NULL) {
        rc = il_cert_confirm(&rules, url, why, sizeof(why));

    } else {
        rc = IL_PK_INVALID;
        key = il_cert_fetch(&rules, c->scheme, url, &ends, &rc, why,
                            sizeof(why));

        if (key != NULL) {
            rc = IL_PK_OK;
        }
    }

    (void) pthread_mutex_lock(&il_certs_lock);
    il_certs_settle(c, key, rc, why, ends);
}


static void *
il_certs_main(void *arg)
{
    il_cert_t  *c;

    (void) arg;

    for ( ;; ) {
        (void) pthread_mutex_lock(&il_certs_lock);

        while (il_certs_head == NULL && !il_certs_ended) {
            (void) pthread_cond_wait(&il_certs_wake, &il_certs_lock);
        }

        if (il_certs_ended) {
            (void) pthread_mutex_unlock(&il_certs_lock);
            return NULL;
        }

        c = il_certs_head;
        il_certs_head = c->next;

        if (il_certs_head == NULL) {
            il_certs_tail = &il_certs_head;
        }

        (void) pthread_mutex_unlock(&il_certs_lock);

        il_certs_fetch(c);
    }
}


/* ------------------------------------------------------------------- asking */


static il_cert_t *
il_certs_find(const il_sig_scheme_t *scheme, il_str_t url)
{
    il_cert_t  *c;

    for (c = il_certs; c < il_certs + IL_CERTS_MAX; c++) {
        if (c->state != IL_CERT_FREE && c->scheme == scheme
            && il_str_eq(il_str(c->url, c->url_len), url))
        {
            return c;
        }
    }

    return NULL;
}


/* A place for one more: an empty one, else the worst one that is not busy.
 * What is of no use goes before what is good, whatever its age. */

static il_cert_t *
il_certs_place(void)
{
    il_cert_t  *c, *worst;

    worst = NULL;

    for (c = il_certs; c < il_certs + IL_CERTS_MAX; c++) {
        if (c->state == IL_CERT_BUSY) {
            continue;
        }

        if (worst == NULL
            || (worst->state != IL_CERT_FREE
                && (c->state == IL_CERT_FREE || c->state > worst->state
                    || (c->state == worst->state && c->used < worst->used))))
        {
            worst = c;
        }
    }

    return worst;
}


/* Begins to fetch it, with the lock.  NULL: too many are under way. */

static il_cert_t *
il_certs_begin(il_cert_t *c, const il_sig_scheme_t *scheme, il_str_t url)
{
    if (il_certs_busy == IL_CERTS_BUSY_MAX || il_certs_ended) {
        return NULL;
    }

    if (c == NULL) {
        c = il_certs_place();
    }

    if (c == NULL) {
        return NULL;
    }

    il_pk_key_free(c->key);

    c->key = NULL;
    c->state = IL_CERT_BUSY;
    c->scheme = scheme;
    c->waits = NULL;
    c->used = il_now_ms();
    memcpy(c->url, url.data, url.len);
    c->url_len = url.len;

    c->next = NULL;
    *il_certs_tail = c;
    il_certs_tail = &c->next;
    il_certs_busy++;

    (void) pthread_cond_signal(&il_certs_wake);

    return c;
}


/* With the lock. */

static int
il_certs_ask(const il_sig_scheme_t *scheme, il_str_t url,
    il_certs_wait_t *wait)
{
    int64_t     now;
    il_cert_t  *c;

    now = il_now_ms();
    c = il_certs_find(scheme, url);

    if (c != NULL && c->state != IL_CERT_BUSY && now < c->until
        && (c->state == IL_CERT_BAD || il_wall_ms() / 1000 < c->ends))
    {
        c->used = now;
        il_certs_fill(wait, c);
        return 1;
    }

    if (il_certs_waits == IL_CERTS_WAITS_MAX) {
        il_certs_say(wait, IL_PK_UNAVAILABLE,
                     "too many requests wait for certificates");
        return 1;
    }

    if (c == NULL || c->state != IL_CERT_BUSY) {
        c = il_certs_begin(c, scheme, url);
    }

    if (c == NULL) {
        il_certs_say(wait, IL_PK_UNAVAILABLE,
                     "too many certificates are being fetched");
        return 1;
    }

    wait->next = c->waits;
    c->waits = wait;
    il_certs_waits++;

    return 0;
}


static int
il_certs_put(const il_sig_scheme_t *scheme, il_str_t url, const char *name,
    const char *bad, il_certs_wait_t *wait)
{
    int  rc;

    wait->key = NULL;
    wait->next = NULL;

    if (bad == NULL && url.len > IL_CERTS_URL_MAX) {
        bad = "is too long";
    }

    if (bad != NULL) {
        wait->rc = IL_PK_INVALID;
        (void) snprintf(wait->why, sizeof(wait->why), "%s %s", name, bad);
        return 1;
    }

    (void) pthread_mutex_lock(&il_certs_lock);
    rc = il_certs_ask(scheme, url, wait);
    (void) pthread_mutex_unlock(&il_certs_lock);

    return rc;
}


int
il_certs_get(const il_sig_scheme_t *scheme, il_str_t url,
    il_certs_wait_t *wait)
{
    il_url_t  parsed;

    return il_certs_put(scheme, url, "the certificate's URL",
                        il_sig_pk_cert_url(scheme, url,
                                           il_cstr(il_srv.conf.cert_hosts),
                                           &parsed), wait);
}


int
il_certs_confirm(il_str_t url, il_certs_wait_t *wait)
{
    il_url_t  parsed;

    return il_certs_put(NULL, url, "SubscribeURL",
                        il_sig_pk_confirm_url(url,
                                              il_cstr(il_srv.conf.cert_hosts),
                                              &parsed), wait);
}


/* -------------------------------------------------------------------- start */


int
il_certs_start(void)
{
    size_t  n;

    n = (size_t) il_srv.conf.cert_threads;

    il_certs_threads = calloc(n, sizeof(pthread_t));
    if (il_certs_threads == NULL) {
        return -1;
    }

    while (il_certs_n < n) {
        if (pthread_create(&il_certs_threads[il_certs_n], NULL, il_certs_main,
                           NULL)
            != 0)
        {
            return -1;
        }

        il_certs_n++;
    }

    return 0;
}


void
il_certs_stop(void)
{
    size_t      i;
    il_cert_t  *c;

    (void) pthread_mutex_lock(&il_certs_lock);
    __atomic_store_n(&il_certs_ended, 1, __ATOMIC_RELAXED);
    (void) pthread_cond_broadcast(&il_certs_wake);
    (void) pthread_mutex_unlock(&il_certs_lock);

    for (i = 0; i < il_certs_n; i++) {
        (void) pthread_join(il_certs_threads[i], NULL);
    }

    free(il_certs_threads);
    il_certs_threads = NULL;

    /* what nobody began */

    for (c = il_certs; c < il_certs + IL_CERTS_MAX; c++) {
        (void) pthread_mutex_lock(&il_certs_lock);

        if (c->state == IL_CERT_BUSY) {
            il_certs_settle(c, NULL, IL_PK_UNAVAILABLE,
                            "interlockd is ending", 0);
        } else {
            (void) pthread_mutex_unlock(&il_certs_lock);
        }

        il_pk_key_free(c->key);
        c->key = NULL;
    }
}
