/*
 * edge.c: what nginx answered alone is put on record.
 *
 * One thread does nothing but empty the socket, for the kernel keeps only
 * few datagrams (net.unix.max_dgram_qlen, 10) and nginx does not wait.  The
 * lane behind it has time: while the database is away it keeps what came, as
 * much as a lane keeps.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge.h"
#include "il_enc.h"
#include "il_time.h"
#include "log.h"
#include "metrics.h"
#include "server.h"
#include "sock.h"


#define IL_EDGE_READ    32             /* datagrams of one read */
#define IL_EDGE_ZONES   64             /* that are told of; the rest waits
                                          for a datagram of theirs */
#define IL_EDGE_TICK    1000           /* ms */
#define IL_EDGE_AGAIN   (12 * 3600 * 1000)     /* ms; a zone that counts no
                                          further is there still */


typedef struct {
    uint8_t   zone[IL_EDGE_ZONE_BYTES];
    int64_t   high;                    /* the greatest number heard of */
    int64_t   told;                    /* the greatest that was handed on */
    int64_t   told_at;                 /* when, ms */
    int       heard;                   /* of, since then */
} il_edge_zone_t;


typedef struct {
    int              fd;
    int              event;            /* readable: end */
    int              started;
    pthread_t        thread;
    char            *room;             /* for IL_EDGE_READ datagrams */

    pthread_mutex_t  lock;             /* of zones */
    il_edge_zone_t   zones[IL_EDGE_ZONES];
    size_t           nzones;
} il_edge_t;


static il_edge_t  il_edge = {
    .fd = -1, .event = -1, .lock = PTHREAD_MUTEX_INITIALIZER
};


static void
il_edge_metric(const char *outcome, size_t n)
{
    if (n > 0) {
        il_metric_add(IL_MT_EDGE, (double) n, outcome, "", "");
    }
}


/* ------------------------------------------------------------------- zones */


/* With the lock held. */

static il_edge_zone_t *
il_edge_zone(const uint8_t zone[IL_EDGE_ZONE_BYTES])
{
    size_t           i;
    il_edge_zone_t  *z;

    for (i = 0; i < il_edge.nzones; i++) {
        if (memcmp(il_edge.zones[i].zone, zone, IL_EDGE_ZONE_BYTES) == 0) {
            return &il_edge.zones[i];
        }
    }

    if (il_edge.nzones < IL_EDGE_ZONES) {
        z = &il_edge.zones[il_edge.nzones++];

    } else {
        /* nginx was started anew often: the one longest here is gone */

        memmove(il_edge.zones, il_edge.zones + 1,
                (IL_EDGE_ZONES - 1) * sizeof(il_edge_zone_t));
        z = &il_edge.zones[IL_EDGE_ZONES - 1];
    }

    memcpy(z->zone, zone, IL_EDGE_ZONE_BYTES);
    z->high = 0;
    z->told = 0;
    z->told_at = 0;
    z->heard = 0;

    return z;
}


static void
il_edge_heard(const uint8_t zone[IL_EDGE_ZONE_BYTES], int64_t seq, int told)
{
    il_edge_zone_t  *z;

    (void) pthread_mutex_lock(&il_edge.lock);

    z = il_edge_zone(zone);

    z->heard = 1;

    if (seq > z->high) {
        z->high = seq;
    }

    if (told && seq > z->told) {
        z->told = seq;
        z->told_at = il_now_ms();
    }

    (void) pthread_mutex_unlock(&il_edge.lock);
}


void
il_edge_counts(il_str_t value)
{
    size_t       n;
    int64_t      seq;
    uint8_t      zone[IL_EDGE_ZONE_BYTES];
    il_str_t     word;
    const char  *p;

    if (il_edge.fd < 0) {
        return;
    }

    while (value.len > 2 * IL_EDGE_ZONE_BYTES) {
        p = memchr(value.data, ',', value.len);
        n = p == NULL ? value.len : (size_t) (p - value.data);
        word = il_str(value.data, n);

        value = p == NULL ? il_str(NULL, 0)
                          : il_str(p + 1, value.len - n - 1);

        if (word.len > 2 * IL_EDGE_ZONE_BYTES
            && word.data[2 * IL_EDGE_ZONE_BYTES] == ':'
            && il_hex_decode(zone, sizeof(zone),
                             il_str(word.data, 2 * IL_EDGE_ZONE_BYTES)) == 0
            && il_digits_parse(il_str(word.data + 2 * IL_EDGE_ZONE_BYTES + 1,
                                   word.len - 2 * IL_EDGE_ZONE_BYTES - 1),
                               18, &seq) == 0
            && seq > 0)
        {
            il_edge_heard(zone, seq, 0);
        }
    }
}


/* ------------------------------------------------------------------ reader */


/* What is given up is missing.  The database is to know that it is, so it has
 * not been told of the zone. */

static void
il_edge_untold(il_item_t *item)
{
    il_edge_record_t  *rec = (il_edge_record_t *) item;

    (void) pthread_mutex_lock(&il_edge.lock);
    il_edge_zone(rec->zone)->told = 0;
    (void) pthread_mutex_unlock(&il_edge.lock);

    free(rec);
}


/* Hands on n records, chained. */

static void
il_edge_queue(il_item_t *first, size_t n)
{
    il_item_t  *next;

    if (n == 0 || il_lane_put_all(&il_srv.edge, first, n) == 0) {
        return;
    }

    il_edge_metric("dropped", n);

    while (first != NULL) {
        next = first->next;
        il_edge_untold(first);
        first = next;
    }
}


/* Tells how far zones are of which no datagram has said so. */

static void
il_edge_tell(void)
{
    size_t             i, n;
    int64_t            now;
    il_item_t         *first;
    il_edge_zone_t    *z;
    il_edge_record_t  *rec;

    first = NULL;
    n = 0;
    now = il_now_ms();

    (void) pthread_mutex_lock(&il_edge.lock);

    for (i = 0; i < il_edge.nzones; i++) {
        z = &il_edge.zones[i];

        if (z->high == z->told
            && (!z->heard || now - z->told_at < IL_EDGE_AGAIN))
        {
            continue;
        }

        rec = il_edge_told(z->zone, z->high);
        if (rec == NULL) {
            break;
        }

        rec->item.next = first;
        first = &rec->item;
        n++;

        z->told = z->high;
        z->told_at = now;
        z->heard = 0;
    }

    (void) pthread_mutex_unlock(&il_edge.lock);

    il_edge_queue(first, n);
}


/* Records of a datagram's lines, chained behind *last.  How many; and adds to
 * *malformed how many lines were none. */

static size_t
il_edge_lines(il_str_t datagram, il_item_t ***last, size_t *malformed)
{
    size_t             n;
    il_edge_record_t  *rec;

    n = 0;

    do {
        rec = il_edge_parse(il_edge_next(&datagram));

        if (rec == NULL) {
            (*malformed)++;
            continue;
        }

        il_edge_heard(rec->zone, rec->seq, 1);

        **last = &rec->item;
        *last = &rec->item.next;
        n++;

    } while (datagram.len > 0);

    return n;
}


/* One read: how many datagrams there were. */

static int
il_edge_read(void)
{
    int              i, got;
    size_t           n, malformed;
    il_item_t       *first, **last;
    struct iovec     iov[IL_EDGE_READ];
    struct mmsghdr   msgs[IL_EDGE_READ];

    memset(msgs, 0, sizeof(msgs));

    for (i = 0; i < IL_EDGE_READ; i++) {
        iov[i].iov_base = il_edge.room + (size_t) i * IL_EDGE_GRAM_MAX;
        iov[i].iov_len = IL_EDGE_GRAM_MAX;
        msgs[i].msg_hdr.msg_iov = &iov[i];
        msgs[i].msg_hdr.msg_iovlen = 1;
    }

    got = recvmmsg(il_edge.fd, msgs, IL_EDGE_READ, MSG_DONTWAIT, NULL);

    if (got <= 0) {
        if (got < 0 && errno != EAGAIN && errno != EINTR) {
            il_log(IL_LOG_ERROR, "edge_socket: %s", strerror(errno));
        }

        return 0;
    }

    first = NULL;
    last = &first;
    n = 0;
    malformed = 0;

    for (i = 0; i < got; i++) {

        if (msgs[i].msg_hdr.msg_flags & MSG_TRUNC) {
            malformed++;
            continue;
        }

        n += il_edge_lines(il_str(iov[i].iov_base, msgs[i].msg_len), &last,
                           &malformed);
    }

    il_edge_metric("malformed", malformed);
    il_edge_queue(first, n);

    return got;
}


static void *
il_edge_main(void *arg)
{
    int64_t        tick, now;
    struct pollfd  fds[2];

    (void) arg;

    fds[0].fd = il_edge.fd;
    fds[0].events = POLLIN;
    fds[1].fd = il_edge.event;
    fds[1].events = POLLIN;

    tick = il_now_ms() + IL_EDGE_TICK;

    for ( ;; ) {
        fds[0].revents = 0;
        fds[1].revents = 0;

        if (poll(fds, 2, IL_EDGE_TICK) < 0 && errno != EINTR) {
            il_log(IL_LOG_ERROR, "edge_socket: poll: %s", strerror(errno));
            break;
        }

        while (il_edge_read() > 0) {
            /* void */
        }

        now = il_now_ms();

        if (now >= tick || now < tick - IL_EDGE_TICK || fds[1].revents) {
            tick = now + IL_EDGE_TICK;
            il_edge_tell();
        }

        if (fds[1].revents) {
            break;
        }
    }

    return NULL;
}


int
il_edge_init(char *err, size_t cap)
{
    if (il_srv.conf.edge_socket[0] == '\0') {
        return 0;
    }

    il_edge.fd = il_sock_bind("edge_socket", il_srv.conf.edge_socket,
                              SOCK_DGRAM, err, cap);

    return il_edge.fd < 0 ? -1 : 0;
}


int
il_edge_start(void)
{
    if (il_edge.fd < 0) {
        return 0;
    }

    il_edge.event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    il_edge.room = malloc((size_t) IL_EDGE_READ * IL_EDGE_GRAM_MAX);

    if (il_edge.event < 0 || il_edge.room == NULL
        || il_lane_start(&il_srv.edge, &il_edge_ops, &il_srv.conf, 1) != 0
        || pthread_create(&il_edge.thread, NULL, il_edge_main, NULL) != 0)
    {
        return -1;
    }

    il_edge.started = 1;

    return 0;
}


void
il_edge_stop(void)
{
    ssize_t   n;
    uint64_t  one;

    if (il_edge.started) {
        one = 1;
        n = write(il_edge.event, &one, sizeof(one));
        (void) n;    /* cannot fail but by being readable already */

        (void) pthread_join(il_edge.thread, NULL);
    }

    il_lane_stop(&il_srv.edge);

    if (il_edge.fd >= 0) {
        (void) close(il_edge.fd);
    }

    if (il_edge.event >= 0) {
        (void) close(il_edge.event);
    }

    free(il_edge.room);
    il_edge.room = NULL;
}


/* -------------------------------------------------------------- the lane */


static void
il_edge_put_null(il_db_args_t *args)
{
    size_t  i;

    for (i = 2; i < 16; i++) {
        il_db_put_null(args, i);
    }
}


static void
il_edge_put(il_db_args_t *args, il_item_t *item)
{
    il_str_t                 reason;
    const il_answer_t       *a;
    const il_edge_record_t  *rec = (const il_edge_record_t *) item;

    il_db_put_uuid(args, 0, rec->zone);
    il_db_put_big(args, 1, rec->seq);

    if (rec->told) {
        il_edge_put_null(args);
        return;
    }

    a = &rec->answer;
    reason = a->reason == IL_R_NONE ? il_str(NULL, 0)
                                    : il_reason_name(a->reason);

    il_db_put_uuid(args, 2, rec->id);
    il_db_put_time(args, 3, rec->at);
    il_db_put_text(args, 4, rec->tenant);
    il_db_put_text(args, 5, rec->source);
    il_db_put_text(args, 6, rec->idem);
    il_db_put_bytes(args, 7, rec->has_fp ? il_str((const char *) rec->fp,
                                                  sizeof(rec->fp))
                                         : il_str(NULL, 0));
    il_db_put_text(args, 8, rec->kind);
    il_db_put_text(args, 9, rec->work_key);
    il_db_put_text(args, 10, il_decision_name(rec->decision));
    il_db_put_int(args, 11, rec->code);
    il_db_put_text(args, 12, reason);
    il_db_put_text(args, 13, a->status == IL_S_NONE ? il_str(NULL, 0)
                                              : il_status_name(a->status));
    il_db_put_uuid(args, 14, (a->has & IL_ANSWER_HAS_JOB) ? a->job_id : NULL);
    il_db_put_uuid(args, 15, (a->has & IL_ANSWER_HAS_ACTIVE)
                             ? a->active_job_id : NULL);
}


static il_db_rc_e
il_edge_call(il_lane_t *lane, il_link_t *link, il_item_t **items, size_t n,
    il_db_result_t **res)
{
    return il_lane_call_rows(link, "select * from interlock.edge_record($1, "
                             "$2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, "
                             "$13, $14, $15, $16)", "uluztttytttittuu",
                             il_edge_put, NULL, lane, items, n, res);
}


static void
il_edge_deal(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n)
{
    int     col;
    size_t  i, row;

    (void) lane;
    (void) link;

    col = il_db_column(res, "outcome");

    for (row = 0; row < il_db_rows(res); row++) {
        il_metric_add_str(IL_MT_EDGE, 1, il_db_cell(res, row, col),
                          il_str("", 0), il_str("", 0));
    }

    for (i = 0; i < n; i++) {
        free(items[i]);
    }
}


static void
il_edge_fail(il_item_t *item, il_problem_e p)
{
    (void) p;

    il_edge_metric("failed", 1);
    il_edge_untold(item);
}


const il_lane_ops_t  il_edge_ops = {
    .name = "edge",
    .app = "interlockd edge",
    .call = il_edge_call,
    .deal = il_edge_deal,
    .fail = il_edge_fail,
    .patient = 1
};
