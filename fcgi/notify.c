/*
 * notify.c: LISTEN and NOTIFY, by one thread and one connection.
 *
 * Never in a transaction that decides: a transaction that notifies holds a
 * lock on the whole database until its commit is over.  What is to be told
 * gathers while the last message is on its way, and for a millisecond.
 *
 * Nothing is sent while no other interlockd is heard of, so one alone pays
 * for a beat every few seconds.  The beat comes back to its sender, who else
 * begins anew.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <sodium.h>

#include "il_enc.h"
#include "log.h"
#include "metrics.h"
#include "note.h"
#include "notify.h"
#include "park.h"
#include "server.h"


#define IL_NOTIFY_PACE     1            /* ms between two sends */
#define IL_NOTIFY_BEAT     5000
#define IL_NOTIFY_PEER     (4 * IL_NOTIFY_BEAT)
#define IL_NOTIFY_PEERS    64
#define IL_NOTIFY_CALL     2000         /* the longest call */
#define IL_BACKOFF_MIN     50
#define IL_BACKOFF_MAX     5000

#define IL_NODE_BYTES      8
#define IL_NODE_LEN        (2 * IL_NODE_BYTES)


typedef struct {
    char     node[IL_NODE_LEN + 1];
    int64_t  heard;
} il_peer_t;


/* Of the thread, but for what is said. */

typedef struct {
    pthread_t         thread;
    int               started;
    int               event;          /* there is something, or the end */
    char              node[IL_NODE_LEN + 1];

    pthread_mutex_t   lock;
    il_notes_t       *notes;          /* under lock: to be told */
    int               stop;           /* under lock */
    int               wanted;         /* atomic: somebody would hear it */
    int               up;             /* atomic: our own beat came back */
    size_t            npeers;         /* atomic */

    il_notes_t       *telling;
    il_db_t          *db;
    il_peer_t         peers[IL_NOTIFY_PEERS];
    int64_t           sent;           /* the last message */
    int64_t           beat;           /* the last beat sent, or 0 */
    int64_t           echo;           /* the last of ours that came back */
    int64_t           next;           /* not before: the next connection */
    int64_t           backoff;
    int               down;           /* and the log has said so */
} il_notify_t;


static il_notify_t  il_notify = {
    .event = -1,
    .lock = PTHREAD_MUTEX_INITIALIZER
};


/* -------------------------------------------------------- from all threads */


static void
il_notify_signal(void)
{
    ssize_t   n;
    uint64_t  one;

    one = 1;
    n = write(il_notify.event, &one, sizeof(one));
    (void) n;    /* cannot fail but by being awake already */
}


static int
il_notify_wanted(void)
{
    return __atomic_load_n(&il_notify.wanted, __ATOMIC_RELAXED);
}


void
il_notify_kind(int32_t tenant, il_str_t kind, size_t n)
{
    int  first;

    if (!il_notify_wanted()) {
        return;
    }

    (void) pthread_mutex_lock(&il_notify.lock);

    first = il_note_empty(il_notify.notes);
    il_note_kind(il_notify.notes, tenant, kind, n);

    (void) pthread_mutex_unlock(&il_notify.lock);

    if (first) {
        il_notify_signal();
    }
}


void
il_notify_ended(const uint8_t job_id[IL_UUID_BYTES])
{
    int  first;

    if (!il_notify_wanted()) {
        return;
    }

    (void) pthread_mutex_lock(&il_notify.lock);

    first = il_note_empty(il_notify.notes);
    il_note_ended(il_notify.notes, job_id);

    (void) pthread_mutex_unlock(&il_notify.lock);

    if (first) {
        il_notify_signal();
    }
}


void
il_notify_gauges(il_buf_t *out)
{
    il_metrics_gauge(out, "notify_up", "1 while this interlockd hears what "
                     "the others of its database tell.",
                     __atomic_load_n(&il_notify.up, __ATOMIC_RELAXED));
    il_metrics_gauge(out, "notify_peers", "Other interlockds that are heard.",
                     (double) __atomic_load_n(&il_notify.npeers,
                                              __ATOMIC_RELAXED));
}


/* -------------------------------------------------------------- the thread */


static int
il_notify_stopping(il_notify_t *n)
{
    int  stop;

    (void) pthread_mutex_lock(&n->lock);
    stop = n->stop;
    (void) pthread_mutex_unlock(&n->lock);

    return stop;
}


static int
il_notify_gathered(il_notify_t *n)
{
    int  some;

    (void) pthread_mutex_lock(&n->lock);
    some = !il_note_empty(n->notes);
    (void) pthread_mutex_unlock(&n->lock);

    return some;
}


/* Peers that are still there; with none of them nothing is gathered. */

static void
il_notify_count(il_notify_t *n, int64_t now)
{
    size_t  i, count;

    count = 0;

    for (i = 0; i < IL_NOTIFY_PEERS; i++) {
        if (n->peers[i].heard != 0
            && now - n->peers[i].heard < IL_NOTIFY_PEER)
        {
            count++;
        }
    }

    __atomic_store_n(&n->npeers, count, __ATOMIC_RELAXED);
    __atomic_store_n(&n->wanted, n->db != NULL && count > 0,
                     __ATOMIC_RELAXED);
}


static void
il_notify_peer(il_notify_t *n, il_str_t node)
{
    size_t   i, at;
    int64_t  now;

    now = il_now_ms();
    at = 0;

    for (i = 0; i < IL_NOTIFY_PEERS; i++) {
        if (il_str_eq(il_cstr(n->peers[i].node), node)) {
            n->peers[i].heard = now;
            break;
        }

        if (n->peers[i].heard < n->peers[at].heard) {
            at = i;
        }
    }

    if (i == IL_NOTIFY_PEERS) {
        memcpy(n->peers[at].node, node.data, IL_NODE_LEN);
        n->peers[at].heard = now;
    }

    il_notify_count(n, now);
}


/* Somebody new listens: it shall know soon that we are here. */

static void
il_notify_hello(void *arg)
{
    il_notify_t  *n = arg;

    n->beat = 0;
    il_park_look();
}


static void
il_notify_look(void *arg)
{
    (void) arg;

    il_park_look();
}


static const il_note_ops_t  il_notify_ops = {
    .hello = il_notify_hello,
    .look = il_notify_look,
    .kind = il_park_told,
    .ended = il_park_ended
};


/* One notification: "NODE words…". */

static void
il_notify_told(const char *payload, void *arg)
{
    il_str_t      text, node;
    il_notify_t  *n = arg;

    text = il_cstr(payload);

    if (text.len <= IL_NODE_LEN || text.data[IL_NODE_LEN] != ' ') {
        return;
    }

    node = il_str(text.data, IL_NODE_LEN);
    text = il_str(text.data + IL_NODE_LEN + 1, text.len - IL_NODE_LEN - 1);

    if (il_str_eq(node, il_cstr(n->node))) {
        n->echo = il_now_ms();

        if (!n->up) {
            __atomic_store_n(&n->up, 1, __ATOMIC_RELAXED);
            n->backoff = 0;

            if (n->down) {
                n->down = 0;
                il_log(IL_LOG_NOTICE, "notify: connected again");
            }
        }

        return;
    }

    il_metric_add(IL_MT_NOTIFY, 1, "received", "", "");
    il_notify_peer(n, node);
    il_note_read(text, &il_notify_ops, n);
}


static void
il_notify_lost(il_notify_t *n, const char *why)
{
    n->backoff = n->backoff * 2;

    if (n->backoff < IL_BACKOFF_MIN) {
        n->backoff = IL_BACKOFF_MIN;
    }

    if (n->backoff > IL_BACKOFF_MAX) {
        n->backoff = IL_BACKOFF_MAX;
    }

    n->next = il_now_ms() + n->backoff / 2 + il_random(n->backoff / 2 + 1);

    if (!n->down) {
        n->down = 1;
        il_log(IL_LOG_WARN, "notify: %.*s", (int) strcspn(why, "\n"), why);
    }

    il_db_close(n->db);
    n->db = NULL;
    __atomic_store_n(&n->up, 0, __ATOMIC_RELAXED);
    il_notify_count(n, il_now_ms());
}


/* One transaction with all of them; `word` is one alone, or NULL: what has
 * gathered. */

static int
il_notify_send(il_notify_t *n, const char *word)
{
    size_t           messages;
    il_db_rc_e       rc;
    il_db_args_t     args;
    il_db_result_t  *res;

    il_db_args_init(&args, "Tt");
    il_db_put_text(&args, 0, il_cstr(n->node));

    if (word != NULL) {
        il_db_put_text(&args, 1, il_cstr(word));
        messages = 1;

    } else {
        messages = il_note_put(n->telling, &args, 1);
    }

    rc = il_db_call(n->db, "select interlock.wake_send($1, $2)", &args,
                    IL_NOTIFY_CALL, &res);
    il_db_args_free(&args);

    n->sent = il_now_ms();

    if (rc != IL_DB_OK) {
        il_notify_lost(n, il_db_error(n->db));
        return -1;
    }

    il_db_result_free(res);
    il_metric_add(IL_MT_NOTIFY, (double) messages, "sent", "", "");

    return 0;
}


/* What has gathered is this thread's now.  1 if there is something. */

static int
il_notify_take(il_notify_t *n)
{
    il_notes_t  *notes;

    (void) pthread_mutex_lock(&n->lock);

    if (il_note_empty(n->notes)) {
        (void) pthread_mutex_unlock(&n->lock);
        return 0;
    }

    notes = n->telling;
    n->telling = n->notes;
    n->notes = notes;
    notes->nkinds = 0;
    notes->njobs = 0;
    notes->all = 0;

    (void) pthread_mutex_unlock(&n->lock);

    return 1;
}


static void
il_notify_connect(il_notify_t *n)
{
    char         why[IL_DB_ERR_CAP];
    const char  *dsn;

    dsn = il_srv.conf.notify_dsn[0] == '\0' ? il_srv.conf.dsn
                                            : il_srv.conf.notify_dsn;

    n->db = il_db_open(dsn, "interlockd notify", IL_NOTIFY_CALL, why,
                       sizeof(why));
    if (n->db == NULL) {
        il_notify_lost(n, why);
        return;
    }

    if (il_db_listen(n->db, "listen interlock_wake", IL_NOTIFY_CALL)
        != IL_DB_OK)
    {
        il_notify_lost(n, il_db_error(n->db));
        return;
    }

    n->beat = il_now_ms();
    n->echo = 0;

    /* the others were not told, either: they look too */

    if (il_notify_send(n, "hello look") == 0) {
        il_notify_count(n, il_now_ms());
        il_park_look();
    }
}


/* How long to wait for what others say: until the next beat, or until what
 * has gathered may be sent. */

static int64_t
il_notify_patience(il_notify_t *n, int gathered, int64_t now)
{
    int64_t  left;

    left = gathered ? n->sent + IL_NOTIFY_PACE - now
                    : n->beat + IL_NOTIFY_BEAT - now;

    return left < 0 ? 0 : left;
}


static void
il_notify_beat(il_notify_t *n, int64_t now)
{
    if (n->echo < n->beat) {
        il_notify_lost(n, "nothing is heard over this connection");
        return;
    }

    n->beat = now;

    if (il_notify_send(n, "beat") == 0) {
        il_notify_count(n, now);
    }
}


static void
il_notify_round(il_notify_t *n)
{
    int       gathered;
    int64_t   now;
    ssize_t   rc;
    uint64_t  count;

    now = il_now_ms();
    gathered = il_notify_gathered(n);

    if (il_db_hear(n->db, gathered ? -1 : n->event,
                   (int) il_notify_patience(n, gathered, now),
                   il_notify_told, n)
        != 0)
    {
        il_notify_lost(n, il_db_error(n->db));
        return;
    }

    rc = read(n->event, &count, sizeof(count));
    (void) rc;

    now = il_now_ms();

    if (now - n->sent >= IL_NOTIFY_PACE && il_notify_take(n)
        && il_notify_send(n, NULL) != 0)
    {
        return;
    }

    if (now - n->beat >= IL_NOTIFY_BEAT) {
        il_notify_beat(n, now);
    }
}


static void *
il_notify_main(void *arg)
{
    int64_t         left;
    il_notify_t    *n = arg;
    struct pollfd   p;

    while (!il_notify_stopping(n)) {

        if (n->db != NULL) {
            il_notify_round(n);
            continue;
        }

        left = n->next - il_now_ms();

        if (left <= 0) {
            il_notify_connect(n);
            continue;
        }

        p.fd = n->event;
        p.events = POLLIN;
        p.revents = 0;
        (void) poll(&p, 1, (int) left);
    }

    if (n->db != NULL && il_notify_take(n)) {
        (void) il_notify_send(n, NULL);
    }

    il_db_close(n->db);
    n->db = NULL;

    return NULL;
}


int
il_notify_start(void)
{
    uint8_t       raw[IL_NODE_BYTES];
    il_notify_t  *n = &il_notify;

    randombytes_buf(raw, sizeof(raw));
    il_hex_encode(n->node, raw, sizeof(raw));

    n->notes = calloc(1, sizeof(il_notes_t));
    n->telling = calloc(1, sizeof(il_notes_t));
    n->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    if (n->notes == NULL || n->telling == NULL || n->event < 0
        || pthread_create(&n->thread, NULL, il_notify_main, n) != 0)
    {
        return -1;
    }

    n->started = 1;

    return 0;
}


void
il_notify_stop(void)
{
    il_notify_t  *n = &il_notify;

    if (!n->started) {
        return;
    }

    (void) pthread_mutex_lock(&n->lock);
    n->stop = 1;
    (void) pthread_mutex_unlock(&n->lock);

    il_notify_signal();
    (void) pthread_join(n->thread, NULL);

    __atomic_store_n(&n->wanted, 0, __ATOMIC_RELAXED);
    (void) close(n->event);
    free(n->notes);
    free(n->telling);
    n->started = 0;
}
