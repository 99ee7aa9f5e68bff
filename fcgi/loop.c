/*
 * loop.c: the event thread.
 *
 * A connection is freed by this thread only, between two rounds of epoll, so
 * that an event never names a connection that is gone.  Every descriptor is
 * armed for one event (EPOLLONESHOT): until it is armed again the connection
 * belongs to whoever has it.  For its next request that one arms it, with
 * nothing of it touched afterwards; for all else there are messages.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "events.h"
#include "lane.h"
#include "log.h"
#include "loop.h"
#include "park.h"
#include "req.h"
#include "route.h"
#include "server.h"
#include "sock.h"
#include "work.h"


#define IL_LOOP_EVENTS   256
#define IL_LOOP_TICK     100
#define IL_LOOP_BACKLOG  4096

#define IL_MSG_REARM     1
#define IL_MSG_CLOSE     2
#define IL_MSG_WATCH     3

/* So many requests in one round are begun by this thread itself, if they have
 * come whole and are no longer than that.  Of FastCGI: the bytes of a record's
 * head, and the type of one that carries the body. */
#define IL_LOOP_FEW      2
#define IL_LOOP_WHOLE    4096
#define IL_LOOP_RECORD   8
#define IL_LOOP_STDIN    5

/* What a connection that waits for its next request is armed for. */
#define IL_LOOP_NEXT     (EPOLLIN | EPOLLRDHUP | EPOLLONESHOT)


typedef struct {
    const il_conf_t  *conf;
    int               epoll;
    int               event;
    int               signal;
    int               listen;
    int               accepting;      /* listen is armed */

    pthread_mutex_t   lock;
    il_conn_t        *messages;       /* under lock */

    il_conn_t        *conns;          /* this thread's */
    int               draining;       /* atomic */
    int64_t           drain_since;
} il_loop_t;


static il_loop_t  il_loop = {
    .epoll = -1, .event = -1, .signal = -1, .listen = -1,
    .lock = PTHREAD_MUTEX_INITIALIZER
};

/* what epoll says of the descriptors that are no connections */

static char  il_loop_is_event, il_loop_is_signal, il_loop_is_listen;


int
il_loop_draining(void)
{
    return __atomic_load_n(&il_loop.draining, __ATOMIC_RELAXED);
}


static int
il_loop_ctl(int op, int fd, uint32_t events, void *ptr)
{
    struct epoll_event  ev;

    memset(&ev, 0, sizeof(ev));
    ev.events = events;
    ev.data.ptr = ptr;

    return epoll_ctl(il_loop.epoll, op, fd, &ev);
}


static int
il_loop_listen(const char *path, char *err, size_t cap)
{
    int  fd;

    fd = il_sock_bind("listen", path, SOCK_STREAM, err, cap);
    if (fd < 0) {
        return -1;
    }

    if (listen(fd, IL_LOOP_BACKLOG) != 0) {
        (void) snprintf(err, cap, "listen: \"%s\": %s", path,
                        strerror(errno));
        (void) close(fd);
        return -1;
    }

    return fd;
}


int
il_loop_init(const il_conf_t *conf, char *err, size_t cap)
{
    sigset_t  set;

    il_loop.conf = conf;

    /* before any other thread: they all inherit it */

    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGTERM);
    (void) sigaddset(&set, SIGINT);
    (void) sigaddset(&set, SIGHUP);

    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0
        || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
    {
        (void) snprintf(err, cap, "cannot set signals");
        return -1;
    }

    il_loop.signal = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    il_loop.event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    il_loop.epoll = epoll_create1(EPOLL_CLOEXEC);

    if (il_loop.signal < 0 || il_loop.event < 0 || il_loop.epoll < 0) {
        (void) snprintf(err, cap, "epoll: %s", strerror(errno));
        return -1;
    }

    il_loop.listen = il_loop_listen(conf->listen, err, cap);
    if (il_loop.listen < 0) {
        return -1;
    }

    if (il_loop_ctl(EPOLL_CTL_ADD, il_loop.signal, EPOLLIN,
                    &il_loop_is_signal) != 0
        || il_loop_ctl(EPOLL_CTL_ADD, il_loop.event, EPOLLIN,
                       &il_loop_is_event) != 0
        || il_loop_ctl(EPOLL_CTL_ADD, il_loop.listen, EPOLLIN,
                       &il_loop_is_listen) != 0)
    {
        (void) snprintf(err, cap, "epoll: %s", strerror(errno));
        return -1;
    }

    il_loop.accepting = 1;

    return 0;
}


/* ---------------------------------------------------------- connections */


static void
il_loop_free(il_conn_t *conn)
{
    /* libfcgi has closed it if it could not read a request */

    if (il_fcgx_fd(conn->fcgi) >= 0) {
        (void) close(conn->fd);
    }

    if (conn->prev != NULL) {
        conn->prev->next = conn->next;

    } else {
        il_loop.conns = conn->next;
    }

    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }

    il_fcgx_free(conn->fcgi);
    free(conn);
}


static int
il_loop_add(int fd)
{
    il_conn_t       *conn;
    struct timeval   tv;

    /* a peer that stalls in the middle of a request must not keep a worker */

    tv.tv_sec = il_loop.conf->io_timeout / 1000;
    tv.tv_usec = (il_loop.conf->io_timeout % 1000) * 1000;

    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) != 0
        || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) != 0)
    {
        return -1;
    }

    conn = calloc(1, sizeof(il_conn_t));
    if (conn == NULL) {
        return -1;
    }

    conn->fd = fd;
    conn->state = IL_CONN_IDLE;

    conn->fcgi = il_fcgx_new(fd);
    if (conn->fcgi == NULL) {
        free(conn);
        return -1;
    }

    if (il_loop_ctl(EPOLL_CTL_ADD, fd, IL_LOOP_NEXT, conn) != 0) {
        il_fcgx_free(conn->fcgi);
        free(conn);
        return -1;
    }

    conn->next = il_loop.conns;

    if (conn->next != NULL) {
        conn->next->prev = conn;
    }

    il_loop.conns = conn;

    return 0;
}


static void
il_loop_accept(void)
{
    int  fd, n;

    /* bounded, so that those that are here already get their turn */

    for (n = 0; n < 64; n++) {

        fd = accept4(il_loop.listen, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS
                || errno == ENOMEM)
            {
                il_log(IL_LOG_ERROR, "accept: %s", strerror(errno));

                /* the tick arms it again */

                if (il_loop_ctl(EPOLL_CTL_MOD, il_loop.listen, 0,
                                &il_loop_is_listen) == 0)
                {
                    il_loop.accepting = 0;
                }
            }

            return;
        }

        if (il_loop_add(fd) != 0) {
            il_log(IL_LOG_ERROR, "accept: no room for a connection");
            (void) close(fd);
        }
    }
}


/*
 * 1 if a whole request has come, so that reading it will not wait: it ends
 * with an empty record of its body (FastCGI Specification 1.0, 3.3, 5.3).
 */

static int
il_loop_is_whole(il_conn_t *conn)
{
    size_t    at, len, n;
    uint8_t   peeked[IL_LOOP_WHOLE];
    ssize_t   rc;

    rc = recv(conn->fd, peeked, sizeof(peeked), MSG_PEEK | MSG_DONTWAIT);

    n = rc < 0 ? 0 : (size_t) rc;

    for (at = 0; n - at >= IL_LOOP_RECORD; at += IL_LOOP_RECORD + len) {

        len = ((size_t) peeked[at + 4] << 8 | peeked[at + 5]) + peeked[at + 6];

        if (n - at - IL_LOOP_RECORD < len) {
            return 0;
        }

        if (peeked[at + 1] == IL_LOOP_STDIN && len == 0) {
            return at + IL_LOOP_RECORD == n;
        }
    }

    return 0;
}


/* alone is 1 if little else has happened in this round. */

static void
il_loop_event(il_conn_t *conn, uint32_t events, int alone)
{
    char     byte;
    ssize_t  n;

    switch (__atomic_load_n(&conn->state, __ATOMIC_ACQUIRE)) {

    case IL_CONN_WATCHED:
        conn->state = IL_CONN_BUSY;
        il_park_hangup(conn);
        il_events_hangup(conn);
        return;

    case IL_CONN_BUSY:
        return;

    case IL_CONN_IDLE:
        break;
    }

    /* what a peer that is gone has left may be a request, or nothing */

    n = 1;

    if (events != EPOLLIN) {
        n = recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    }

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        il_loop_free(conn);
        return;
    }

    if (n < 0) {
        if (il_loop_ctl(EPOLL_CTL_MOD, conn->fd, IL_LOOP_NEXT, conn) != 0) {
            il_loop_free(conn);
        }

        return;
    }

    conn->state = IL_CONN_BUSY;

    /* handlers wait for nothing, so that one request is begun here sooner
     * than another thread has woken up for it */

    if (alone && events == EPOLLIN && il_loop_is_whole(conn)) {
        il_work_now(conn);
        return;
    }

    il_work_begin(conn);
}


static void
il_loop_message(il_conn_t *conn, int message)
{
    switch (message) {

    case IL_MSG_CLOSE:
        il_loop_free(conn);
        return;

    case IL_MSG_REARM:
        conn->told = 0;
        conn->state = IL_CONN_IDLE;

        if (il_loop_ctl(EPOLL_CTL_MOD, conn->fd, IL_LOOP_NEXT, conn) != 0) {
            il_log(IL_LOG_ERROR, "epoll: %s", strerror(errno));
            il_loop_free(conn);
        }

        return;

    case IL_MSG_WATCH:
        conn->state = IL_CONN_WATCHED;

        if (il_loop_ctl(EPOLL_CTL_MOD, conn->fd, EPOLLRDHUP | EPOLLONESHOT,
                        conn) != 0)
        {
            /* its slot is then freed by its deadline */
            il_log(IL_LOG_ERROR, "epoll: %s", strerror(errno));
            conn->state = IL_CONN_BUSY;
        }

        return;
    }
}


static void
il_loop_messages(void)
{
    int         message;
    il_conn_t  *conn, *next;

    (void) pthread_mutex_lock(&il_loop.lock);
    conn = il_loop.messages;
    il_loop.messages = NULL;
    (void) pthread_mutex_unlock(&il_loop.lock);

    for ( /* void */ ; conn != NULL; conn = next) {

        (void) pthread_mutex_lock(&il_loop.lock);
        next = conn->queued;
        message = conn->message;
        conn->message = 0;
        (void) pthread_mutex_unlock(&il_loop.lock);

        il_loop_message(conn, message);
    }
}


static void
il_loop_post(il_conn_t *conn, int message)
{
    int       first;
    ssize_t   n;
    uint64_t  one;

    (void) pthread_mutex_lock(&il_loop.lock);

    first = (il_loop.messages == NULL);

    if (conn->message == 0) {
        conn->queued = il_loop.messages;
        il_loop.messages = conn;
    }

    conn->message = message;

    (void) pthread_mutex_unlock(&il_loop.lock);

    if (first) {
        one = 1;
        n = write(il_loop.event, &one, sizeof(one));
        (void) n;    /* cannot fail but by being awake already */
    }
}


void
il_loop_rearm(il_conn_t *conn)
{
    int  fd;

    /* a message to watch it may still be on its way: what follows must not
     * overtake it */

    if (conn->told) {
        il_loop_post(conn, IL_MSG_REARM);
        return;
    }

    /* from the moment it is armed it is the loop's, which may free it */

    fd = conn->fd;
    __atomic_store_n(&conn->state, IL_CONN_IDLE, __ATOMIC_RELEASE);

    if (il_loop_ctl(EPOLL_CTL_MOD, fd, IL_LOOP_NEXT, conn) != 0) {
        il_log(IL_LOG_ERROR, "epoll: %s", strerror(errno));
        il_loop_post(conn, IL_MSG_CLOSE);
    }
}


void
il_loop_close(il_conn_t *conn)
{
    il_loop_post(conn, IL_MSG_CLOSE);
}


void
il_loop_watch(il_conn_t *conn)
{
    conn->told = 1;
    il_loop_post(conn, IL_MSG_WATCH);
}


/* --------------------------------------------------------------- the loop */


static void
il_loop_drain(void)
{
    il_log(IL_LOG_NOTICE, "ending: no new connections");

    __atomic_store_n(&il_loop.draining, 1, __ATOMIC_RELAXED);
    il_loop.drain_since = il_now_ms();

    /* the path stays: a successor may have bound it already */

    (void) close(il_loop.listen);
    il_loop.listen = -1;
    il_loop.accepting = 1;
}


static void
il_loop_signal(void)
{
    ssize_t                  n;
    struct signalfd_siginfo  si;

    for ( ;; ) {
        n = read(il_loop.signal, &si, sizeof(si));
        if (n != (ssize_t) sizeof(si)) {
            return;
        }

        if (si.ssi_signo == SIGHUP) {
            il_log_reopen();
            il_log(IL_LOG_NOTICE, "log opened again");
            il_keys_reload();
            continue;
        }

        if (il_loop_draining()) {
            il_log(IL_LOG_WARN, "second signal: exiting at once");
            _exit(1);
        }

        il_loop_drain();
    }
}


static void
il_loop_tick(int64_t now)
{
    il_park_tick(now, il_loop_draining());
    il_events_tick(il_loop_draining());
    il_health_tick(now);

    if (!il_loop.accepting
        && il_loop_ctl(EPOLL_CTL_MOD, il_loop.listen, EPOLLIN,
                       &il_loop_is_listen) == 0)
    {
        il_loop.accepting = 1;
    }
}


/* 1 when it is time to leave the loop, with *late set if by the timeout. */

static int
il_loop_drained(int64_t now, int *quiet, int *late)
{
    int64_t  spent;

    if (!il_loop_draining()) {
        return 0;
    }

    spent = now - il_loop.drain_since;

    if (spent >= il_loop.conf->drain_timeout) {
        *late = il_req_inflight() > 0;
        return 1;
    }

    if (spent >= il_loop.conf->drain_timeout / 2) {
        il_lane_hurry();
    }

    /* a request may be on its way over a kept-alive connection: serve it,
     * and leave after a pause without any */

    *quiet = il_req_inflight() == 0 ? *quiet + 1 : 0;

    return *quiet > 3;
}


int
il_loop_run(void)
{
    int                  i, n, quiet, late;
    int64_t              now, ticked;
    uint64_t             count;
    ssize_t              rc;
    struct epoll_event   events[IL_LOOP_EVENTS];

    ticked = il_now_ms();
    quiet = 0;
    late = 0;

    for ( ;; ) {
        n = epoll_wait(il_loop.epoll, events, IL_LOOP_EVENTS,
                       il_loop_draining() ? 20 : IL_LOOP_TICK);

        if (n < 0 && errno != EINTR) {
            il_log(IL_LOG_ERROR, "epoll: %s", strerror(errno));
            return 1;
        }

        for (i = 0; i < n; i++) {
            if (events[i].data.ptr == &il_loop_is_listen) {
                if (il_loop.listen >= 0) {
                    il_loop_accept();
                }

            } else if (events[i].data.ptr == &il_loop_is_event) {
                rc = read(il_loop.event, &count, sizeof(count));
                (void) rc;

            } else if (events[i].data.ptr == &il_loop_is_signal) {
                il_loop_signal();

            } else {
                il_loop_event(events[i].data.ptr, events[i].events,
                              n <= IL_LOOP_FEW);
                quiet = 0;
            }
        }

        il_loop_messages();

        now = il_now_ms();

        if (now - ticked >= IL_LOOP_TICK || il_loop_draining()) {
            ticked = now;
            il_loop_tick(now);
        }

        if (il_loop_drained(now, &quiet, &late)) {
            return late;
        }
    }
}


void
il_loop_stop(void)
{
    il_loop_messages();

    while (il_loop.conns != NULL) {
        il_loop_free(il_loop.conns);
    }

    if (il_loop.listen >= 0) {
        (void) close(il_loop.listen);
    }

    (void) close(il_loop.epoll);
    (void) close(il_loop.event);
    (void) close(il_loop.signal);
}
