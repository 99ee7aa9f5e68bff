/*
 * events_write.c: what goes over the wires of event streams.
 *
 * Nothing here waits.  What a socket has no room for is kept, and while it is
 * kept nothing more is added to it: the stream is behind then, and what it
 * missed is asked for later by its cursor.  So no more than IL_STREAM_PIECE
 * and one event is ever kept for a reader.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "events_int.h"
#include "metrics.h"


#define IL_STREAM_PIECE  32768
#define IL_STREAM_STUCK  30000      /* a reader that takes nothing so long */


void
il_stream_at(il_stream_t *s, il_str_t cursor)
{
    char  *copy;

    copy = malloc(cursor.len + 1);

    if (copy == NULL) {
        s->ended = "memory";
        return;
    }

    if (cursor.len > 0) {
        memcpy(copy, cursor.data, cursor.len);
    }

    copy[cursor.len] = '\0';

    free(s->cursor);
    s->cursor = copy;
}


/* Sends from b->data + *sent on.  1: all of it; 0: some is left; -1: the peer
 * is gone. */

static int
il_stream_send(int fd, const il_buf_t *b, size_t *sent)
{
    ssize_t  n;

    while (*sent < b->len) {
        n = send(fd, b->data + *sent, b->len - *sent,
                 MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0) {
            *sent += (size_t) n;
            continue;
        }

        if (errno == EINTR) {
            continue;
        }

        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    }

    return 1;
}


/* Sends text, which is then empty; what there is no room for stays in
 * s->pend. */

static void
il_stream_write(il_stream_t *s, il_buf_t *text)
{
    int      rc;
    int64_t  now;

    if (text->failed) {
        s->ended = "memory";
        return;
    }

    if (text->len == 0 || s->ended != NULL) {
        return;
    }

    il_fcgx_frame(s->r->conn->fcgi, &s->pend, il_buf_str(text));
    text->len = 0;

    if (s->pend.failed) {
        s->ended = "memory";
        return;
    }

    now = il_now_ms();
    s->stuck = now;
    s->beat = now + IL_EVENTS_BEAT;

    rc = il_stream_send(s->r->conn->fd, &s->pend, &s->sent);

    if (rc < 0) {
        s->ended = "gone";

    } else if (rc > 0) {
        il_buf_free(&s->pend);
        s->sent = 0;
    }
}


static void
il_stream_id(il_buf_t *text, il_str_t cursor)
{
    il_buf_puts(text, "id: ");
    il_buf_add(text, cursor);
    il_buf_puts(text, "\n");
}


void
il_stream_start(il_stream_t *s, il_str_t cursor)
{
    il_buf_t  text;

    il_fcgx_detach(s->r->conn->fcgi);

    memset(&text, 0, sizeof(text));

    /* a proxy must not gather what is to be seen at once */

    il_buf_puts(&text, "Status: 200 OK\r\n"
                "Content-Type: text/event-stream\r\n"
                "Cache-Control: no-store\r\n"
                "X-Accel-Buffering: no\r\n"
                "\r\n"
                "retry: 2000\n");

    if (cursor.data != NULL) {
        il_stream_id(&text, cursor);
    }

    il_buf_puts(&text, "\n");
    il_stream_write(s, &text);
    il_buf_free(&text);
}


static int
il_stream_wants(const il_stream_t *s, const il_news_t *n, size_t row)
{
    return (s->kind.data == NULL
            || il_str_eq(s->kind, il_db_cell(n->res, row, n->col_kind)))
           && (s->work_key.data == NULL
               || il_str_eq(s->work_key,
                            il_db_cell(n->res, row, n->col_key)))
           && (s->job.data == NULL
               || il_str_eq(s->job, il_db_cell(n->res, row, n->col_job)));
}


void
il_stream_news(il_stream_t *s, const il_news_t *n, int live)
{
    size_t    row, events;
    il_buf_t  text;
    il_str_t  at;

    memset(&text, 0, sizeof(text));
    events = 0;
    at = il_cstr(s->cursor != NULL ? s->cursor : s->feed->cursor);

    for (row = 0; row < n->rows && s->pend.len == 0 && s->ended == NULL;
         row++)
    {
        at = il_db_cell(n->res, row, n->col_cursor);

        if (!il_stream_wants(s, n, row)) {
            continue;
        }

        il_buf_puts(&text, "event: job\n");
        il_stream_id(&text, at);
        il_buf_puts(&text, "data: ");
        il_buf_add(&text, il_db_cell(n->res, row, n->col_doc));
        il_buf_puts(&text, "\n\n");
        events++;

        if (text.len >= IL_STREAM_PIECE) {
            il_stream_write(s, &text);
        }
    }

    if (row < n->rows && s->ended == NULL) {

        /* the rest is asked for again, when there is room */

        il_stream_at(s, at);
        s->state = IL_STREAM_BEHIND;

    } else {
        il_stream_write(s, &text);
        s->untold = (events == 0);

        if (live) {
            free(s->cursor);
            s->cursor = NULL;
            s->state = IL_STREAM_LIVE;

        } else {
            il_stream_at(s, n->cursor);
            s->state = IL_STREAM_BEHIND;
        }
    }

    if (events > 0) {
        il_metric_add(IL_MT_EVENTS, (double) events, "job", "", "");
    }

    il_buf_free(&text);
}


void
il_stream_reset(il_stream_t *s, il_str_t cursor)
{
    il_buf_t  text;

    memset(&text, 0, sizeof(text));

    il_buf_puts(&text, "event: reset\n");
    il_stream_id(&text, cursor);
    il_buf_puts(&text, "data: {}\n\n");

    il_stream_write(s, &text);
    il_buf_free(&text);

    s->untold = 0;
    il_metric_add(IL_MT_EVENTS, 1, "reset", "", "");
}


void
il_stream_flush(il_stream_t *s, int64_t now)
{
    size_t    before;
    il_buf_t  text;

    if (s->pend.len > 0) {
        before = s->sent;

        switch (il_stream_send(s->r->conn->fd, &s->pend, &s->sent)) {

        case 1:
            il_buf_free(&s->pend);
            s->sent = 0;
            return;

        case 0:
            if (s->sent > before) {
                s->stuck = now;

            } else if (now - s->stuck >= IL_STREAM_STUCK) {
                s->ended = "slow";
            }

            return;

        default:
            s->ended = "gone";
            return;
        }
    }

    if (now < s->beat) {
        return;
    }

    /* where it stands is told too, or a stream whose filter lets little
     * through would begin from far behind; an id alone is no event */

    memset(&text, 0, sizeof(text));
    il_buf_puts(&text, ":\n");

    if (s->untold && s->state == IL_STREAM_LIVE && s->feed->cursor != NULL) {
        il_stream_id(&text, il_cstr(s->feed->cursor));
        s->untold = 0;
    }

    il_buf_puts(&text, "\n");
    il_stream_write(s, &text);
    il_buf_free(&text);
}


void
il_stream_close(il_stream_t *s)
{
    il_buf_t  end;
    size_t    sent;

    if (s->pend.len > 0 || s->state == IL_STREAM_NEW) {
        return;
    }

    memset(&end, 0, sizeof(end));
    il_fcgx_frame_end(s->r->conn->fcgi, &end);
    sent = 0;

    if (!end.failed) {
        (void) il_stream_send(s->r->conn->fd, &end, &sent);
    }

    il_buf_free(&end);
}
