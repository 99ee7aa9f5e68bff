/*
 * load: HTTP/1.1 requests over kept-alive connections to 127.0.0.1, for the
 * benches: one thread, epoll, nothing allocated per request, so that it is
 * not what is measured (its own CPU is in what it prints).
 *
 *     load [options] PORT REQUEST [COMPLETE]
 *
 * REQUEST and COMPLETE are files that hold a whole request, head and body.
 * In them COUNT (12 bytes: "%%%%%%%%%%%%") becomes a number of its own in each
 * request, and "{LINE}", in the head only, the next line of the file of -l.
 *
 *     -c N    connections (1)
 *     -d S    seconds (3)
 *     -n N    at most so many requests
 *     -r N    requests a second, in all: sent at their times however late
 *             answers are, and timed from when they were due; without it each
 *             connection sends its next when it has its answer
 *     -l F    lines for {LINE}
 *     -s N    the first COUNT (0)
 *     -k N    COUNT goes round: so many different ones
 *     -w N    claim and complete: REQUEST claims, N at once at most; each
 *             owner token in its answer is completed by COMPLETE, on whatever
 *             connection is free; what is counted and timed is completions
 *     -b N    so many of them in one COMPLETE, whose body then has a list of
 *             one, [ … {LINE} … ], and which has no Content-Length
 *     -i S    ends when claims have found nothing for S seconds (1)
 *
 * Prints one line of JSON.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "load_text.h"

#define SAMPLES     (1U << 22)


typedef struct {
    int        fd;
    bool       busy;
    bool       claims;          /* what it asked was a claim */
    size_t     several;         /* completions that it asked for; 0: one */
    double     since;
    char      *out;
    size_t     out_len;
    size_t     out_sent;
    char      *in;
    size_t     in_len;
    size_t     in_size;
    size_t     scanned;         /* of a chunked body */
} il_conn_t;


static il_template_t   request, complete;
static il_line_t      *lines;
static size_t          n_lines, next_line;
static il_conn_t      *conns;
static size_t          n_conns = 1;
static int             ep, timer, port;
static double          start, end, rate, idle = 1, last_found;
static uint64_t        counter, first, around, most = UINT64_MAX;
static uint64_t        sent, done, bad, empty, claimed, reconnects, late;
static size_t          claim_max, claiming, batch_max;
static uint64_t        codes[600];
static float          *samples;
static size_t          n_samples;

/* owner tokens that wait to be completed, a ring */
static il_line_t      *tokens;
static size_t          tokens_size, tokens_head, tokens_n;


static double
now(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_MONOTONIC, &t);

    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}


static void
read_lines(const char *path)
{
    char    *text, *p, *nl;
    size_t   len;

    text = load_file(path, &len);
    lines = load_want(calloc(len + 1, sizeof(il_line_t)));

    for (p = text; (nl = strchr(p, '\n')) != NULL; p = nl + 1) {
        lines[n_lines].data = p;
        lines[n_lines++].len = (size_t) (nl - p);
    }

    if (n_lines == 0) {
        load_die("%s holds no line", path);
    }
}


/* Puts the request together in the connection's buffer. */
static void
build(il_conn_t *c, il_template_t *t, const il_line_t *line)
{
    char      digits[COUNT_LEN];
    size_t    i, shift;
    uint64_t  v;

    shift = 0;
    memcpy(c->out, t->text, t->line);
    c->out_len = t->line;

    if (t->line < t->len) {
        if (line == NULL || line->len > LINE_MAX_) {
            load_die("no line for {LINE}, or one too long");
        }

        memcpy(c->out + c->out_len, line->data, line->len);
        c->out_len += line->len;
        shift = t->line + LINE_LEN;
        memcpy(c->out + c->out_len, t->text + shift, t->len - shift);
        c->out_len += t->len - shift;
        shift = c->out_len - t->len;
    }

    v = first + (around ? counter % around : counter);
    counter++;
    for (i = COUNT_LEN; i-- > 0; v /= 10) {
        digits[i] = (char) ('0' + v % 10);
    }

    for (i = 0; i < t->marks; i++) {
        memcpy(c->out + t->mark[i] + (t->mark[i] > t->line ? shift : 0),
               digits, COUNT_LEN);
    }

    c->out_sent = 0;
    c->in_len = 0;
    c->scanned = 0;
    c->busy = true;
}


/* The same for the next n tokens at once. */
static void
build_several(il_conn_t *c, size_t n)
{
    size_t     i;
    il_line_t  some[LIST_MAX];

    for (i = 0; i < n; i++) {
        some[i] = tokens[tokens_head];
        tokens_head = (tokens_head + 1) % tokens_size;
        tokens_n--;
    }

    c->out_len = load_list(c->out, &complete, some, n);

    for (i = 0; i < n; i++) {
        free(some[i].data);
    }

    c->several = n;
    c->out_sent = 0;
    c->in_len = 0;
    c->scanned = 0;
    c->busy = true;
}


static void
watch(il_conn_t *c, int op, uint32_t events)
{
    struct epoll_event  e = { .events = events, .data.ptr = c };

    if (epoll_ctl(ep, op, c->fd, &e) == -1) {
        load_die("epoll_ctl: %s", strerror(errno));
    }
}


static void
open_conn(il_conn_t *c)
{
    int                 one = 1;
    struct sockaddr_in  sa = { .sin_family = AF_INET };

    sa.sin_port = htons((uint16_t) port);
    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd == -1
        || connect(c->fd, (struct sockaddr *) &sa, sizeof(sa)) == -1)
    {
        load_die("connect: %s", strerror(errno));
    }

    (void) setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) == -1) {
        load_die("fcntl: %s", strerror(errno));
    }

    watch(c, EPOLL_CTL_ADD, EPOLLIN);
}


static void
reopen_conn(il_conn_t *c)
{
    close(c->fd);
    open_conn(c);
    reconnects++;
}


static void
flush_out(il_conn_t *c)
{
    ssize_t  n;

    while (c->out_sent < c->out_len) {
        n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent,
                 MSG_NOSIGNAL);
        if (n >= 0) {
            c->out_sent += (size_t) n;
            continue;
        }
        if (errno == EAGAIN) {
            watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return;
        }
        if (errno != EINTR) {
            /* the server had closed an idle connection */
            reopen_conn(c);
            c->out_sent = 0;
        }
    }
}


/* Gives a free connection what is next; false if there is nothing. */
static bool
feed(il_conn_t *c, double t)
{
    double           due;
    const il_line_t *line;

    if (batch_max > 0 && tokens_n > 0) {
        c->claims = false;
        c->since = t;
        build_several(c, tokens_n < batch_max ? tokens_n : batch_max);
        flush_out(c);
        return true;
    }

    if (claim_max > 0 && tokens_n > 0) {
        il_line_t  *token = &tokens[tokens_head];

        c->claims = false;
        c->since = t;
        build(c, &complete, token);
        free(token->data);
        tokens_head = (tokens_head + 1) % tokens_size;
        tokens_n--;
        flush_out(c);
        return true;
    }

    if (t >= end || sent >= most
        || (claim_max > 0 && claiming >= claim_max))
    {
        return false;
    }

    due = t;
    if (rate > 0) {
        due = start + (double) sent / rate;
        if (due > t) {
            return false;
        }
        if (t - due > 0.001) {
            late++;
        }
    }

    line = n_lines ? &lines[next_line++ % n_lines] : NULL;
    c->claims = claim_max > 0;
    claiming += c->claims;
    c->since = due;
    sent++;
    build(c, &request, line);
    flush_out(c);

    return true;
}


static void
keep_token(const char *data, size_t len)
{
    size_t      i;
    il_line_t  *bigger;

    if (tokens_n == tokens_size) {
        bigger = load_want(calloc(tokens_size ? 2 * tokens_size : 1024,
                             sizeof(il_line_t)));
        for (i = 0; i < tokens_n; i++) {
            bigger[i] = tokens[(tokens_head + i) % tokens_size];
        }
        free(tokens);
        tokens = bigger;
        tokens_head = 0;
        tokens_size = tokens_size ? 2 * tokens_size : 1024;
    }

    i = (tokens_head + tokens_n) % tokens_size;
    tokens[i].data = load_want(malloc(len));
    memcpy(tokens[i].data, data, len);
    tokens[i].len = len;
    tokens_n++;
}


static void
take_tokens(il_conn_t *c, double t)
{
    char   *p, *q;
    size_t  n;

    n = 0;
    for (p = c->in; (p = strstr(p, "\"owner_token\"")) != NULL; p = q) {
        p = strchr(p + 13, '"');
        q = p ? strchr(p + 1, '"') : NULL;
        if (q == NULL) {
            break;
        }
        keep_token(p + 1, (size_t) (q - p - 1));
        n++;
    }

    claimed += n;
    if (n > 0) {
        last_found = t;
    } else {
        empty++;
        if (t - last_found > idle) {
            end = t;
        }
    }
}


/*
 * Whether the answer is whole: its status code, or 0 if more is to come.
 * *closes is set when the server will close the connection.
 */
static int
answer(il_conn_t *c, bool *closes)
{
    char    *head, *p;
    int      code;
    size_t   body;

    c->in[c->in_len] = '\0';
    head = strstr(c->in, "\r\n\r\n");
    if (head == NULL) {
        return 0;
    }

    code = (int) strtol(c->in + 9, NULL, 10);
    if (code < 100 || code > 599) {
        load_die("no HTTP: %.60s", c->in);
    }

    *head = '\0';
    *closes = strcasestr(c->in, "\r\nConnection: close") != NULL;
    p = strcasestr(c->in, "\r\nContent-Length:");
    *head = '\r';
    body = (size_t) (head + 4 - c->in);

    if (p != NULL) {
        return c->in_len - body >= strtoull(p + 17, NULL, 10) ? code : 0;
    }

    /* chunked */
    if (c->scanned < body) {
        c->scanned = body - 2;
    }
    p = strstr(c->in + c->scanned, "\r\n0\r\n\r\n");
    if (p == NULL) {
        c->scanned = c->in_len > body + 6 ? c->in_len - 6 : body - 2;
        return 0;
    }

    return code;
}


static void
finish(il_conn_t *c, int code, double t)
{
    c->busy = false;
    codes[code]++;

    if (c->claims) {
        claiming--;
        if (code == 200) {
            take_tokens(c, t);
        } else {
            bad++;
        }
        return;
    }

    if (c->several > 0) {
        size_t       good;
        const char  *p;

        good = 0;
        for (p = c->in; (p = strstr(p, "\"code\":200")) != NULL; p++) {
            good++;
        }

        done += c->several;
        if (good != c->several) {
            bad += c->several - good;
            fprintf(stderr, "load: %.400s\n", c->in);
        }
        c->several = 0;

    } else {
        done++;
    }

    if (code < 200 || code > 299) {
        bad++;
        if (bad <= 3) {
            fprintf(stderr, "load: %.400s\n", c->in);
        }
    }
    if (n_samples < SAMPLES) {
        samples[n_samples++] = (float) ((t - c->since) * 1e3);
    }
}


static void
readable(il_conn_t *c)
{
    int      code;
    bool     closes;
    ssize_t  n;

    for ( ;; ) {
        if (c->in_size - c->in_len < 4096) {
            c->in_size = c->in_size ? 2 * c->in_size : 8192;
            c->in = load_want(realloc(c->in, c->in_size + 1));
        }

        n = recv(c->fd, c->in + c->in_len, c->in_size - c->in_len, 0);
        if (n == -1 && errno == EINTR) {
            continue;
        }
        if (n == -1 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            /* closed: while idle that is its right */
            reopen_conn(c);
            if (c->busy) {
                c->in_len = 0;
                bad++;
                done += c->several ? c->several : (size_t) !c->claims;
                c->several = 0;
                claiming -= c->claims;
                c->busy = false;
            }
            return;
        }

        c->in_len += (size_t) n;
        if (!c->busy) {
            load_die("an answer that nobody asked for: %.60s", c->in);
        }

        closes = false;
        code = answer(c, &closes);
        if (code != 0) {
            finish(c, code, now());
            if (closes) {
                reopen_conn(c);
            }
            return;
        }
    }
}


static void
set_timer(double at)
{
    struct itimerspec  it = { { 0, 0 }, { 0, 0 } };

    it.it_value.tv_sec = (time_t) at;
    it.it_value.tv_nsec = (long) ((at - (double) it.it_value.tv_sec) * 1e9);
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &it, NULL) == -1) {
        load_die("timerfd: %s", strerror(errno));
    }
}


static void
run(void)
{
    int                 i, n;
    double              t;
    size_t              free_n, k;
    uint64_t            ticks;
    il_conn_t          *c, **idle_conns;
    struct epoll_event  events[256];

    idle_conns = load_want(calloc(n_conns, sizeof(il_conn_t *)));
    free_n = 0;
    for (k = n_conns; k-- > 0; ) {
        idle_conns[free_n++] = &conns[k];
    }

    for ( ;; ) {
        t = now();
        while (free_n > 0 && feed(idle_conns[free_n - 1], t)) {
            free_n--;
        }

        if (t >= end || sent >= most) {
            if (free_n == n_conns && tokens_n == 0) {
                break;
            }
            if (t > end + 60) {
                load_die("%zu requests without an answer", n_conns - free_n);
            }
        }

        if (rate > 0 && free_n > 0 && t < end) {
            set_timer(start + (double) sent / rate);
        }

        n = epoll_wait(ep, events, 256, 100);
        if (n == -1 && errno != EINTR) {
            load_die("epoll_wait: %s", strerror(errno));
        }

        for (i = 0; i < n; i++) {
            c = events[i].data.ptr;
            if (c == NULL) {
                if (read(timer, &ticks, sizeof(ticks)) == -1
                    && errno != EAGAIN)
                {
                    load_die("timer: %s", strerror(errno));
                }
                continue;
            }
            if (c->busy && (events[i].events & EPOLLOUT)) {
                watch(c, EPOLL_CTL_MOD, EPOLLIN);
                flush_out(c);
            }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                bool  was = c->busy;

                readable(c);
                if (was && !c->busy) {
                    idle_conns[free_n++] = c;
                }
            }
        }
    }

    free(idle_conns);
}


static int
by_value(const void *a, const void *b)
{
    float  x = *(const float *) a, y = *(const float *) b;

    return (x > y) - (x < y);
}


static double
percentile(double p)
{
    size_t  i;

    if (n_samples == 0) {
        return 0;
    }

    i = (size_t) (p * (double) n_samples);

    return (double) samples[i < n_samples ? i : n_samples - 1];
}


static void
report(double secs)
{
    int            i;
    double         cpu;
    const char    *comma = "";
    struct rusage  u;

    getrusage(RUSAGE_SELF, &u);
    cpu = (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec)
          + (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    qsort(samples, n_samples, sizeof(float), by_value);

    printf("{\"ops\":%llu,\"secs\":%.3f,\"rate\":%.1f,\"errors\":%llu,"
           "\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,"
           "\"client_cores\":%.3f,\"reconnects\":%llu,\"late\":%llu,"
           "\"claimed\":%llu,\"empty\":%llu,\"codes\":{",
           (unsigned long long) done, secs, (double) done / secs,
           (unsigned long long) bad, percentile(0.5), percentile(0.99),
           percentile(1), cpu / secs, (unsigned long long) reconnects,
           (unsigned long long) late, (unsigned long long) claimed,
           (unsigned long long) empty);
    for (i = 100; i < 600; i++) {
        if (codes[i] > 0) {
            printf("%s\"%d\":%llu", comma, i, (unsigned long long) codes[i]);
            comma = ",";
        }
    }
    printf("}}\n");
}


int
main(int argc, char **argv)
{
    int                 opt;
    double              secs = 3;
    size_t              i, size;
    struct epoll_event  e = { .events = EPOLLIN, .data.ptr = NULL };

    while ((opt = getopt(argc, argv, "c:d:n:r:l:s:k:w:b:i:")) != -1) {
        switch (opt) {
        case 'c': n_conns = strtoul(optarg, NULL, 10); break;
        case 'd': secs = strtod(optarg, NULL); break;
        case 'n': most = strtoull(optarg, NULL, 10); break;
        case 'r': rate = strtod(optarg, NULL); break;
        case 'l': read_lines(optarg); break;
        case 's': first = strtoull(optarg, NULL, 10); break;
        case 'k': around = strtoull(optarg, NULL, 10); break;
        case 'w': claim_max = strtoul(optarg, NULL, 10); break;
        case 'b': batch_max = strtoul(optarg, NULL, 10); break;
        case 'i': idle = strtod(optarg, NULL); break;
        default: load_die("see load.c for how it is called");
        }
    }

    if (batch_max > LIST_MAX) {
        load_die("at most %d in one", LIST_MAX);
    }

    if (argc - optind < 2 + (claim_max > 0) || n_conns == 0) {
        load_die("see load.c for how it is called");
    }

    port = (int) strtol(argv[optind], NULL, 10);
    load_template(argv[optind + 1], &request);
    size = request.len;
    if (claim_max > 0) {
        load_template(argv[optind + 2], &complete);
        size += complete.len;
    }

    ep = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (ep == -1 || timer == -1
        || epoll_ctl(ep, EPOLL_CTL_ADD, timer, &e) == -1)
    {
        load_die("epoll: %s", strerror(errno));
    }

    samples = load_want(malloc(SAMPLES * sizeof(float)));
    conns = load_want(calloc(n_conns, sizeof(il_conn_t)));
    for (i = 0; i < n_conns; i++) {
        conns[i].out = load_want(malloc(size + LINE_MAX_
                                   + batch_max * (size + LINE_MAX_)));
        open_conn(&conns[i]);
    }

    start = now();
    last_found = start;
    end = start + secs;
    run();
    report(now() - start);

    return 0;
}
