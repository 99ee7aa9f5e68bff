/*
 * events_call.c: what streams ask the database, and whom it concerns.
 */

#include <stdlib.h>

#include "events_int.h"
#include "log.h"
#include "metrics.h"
#include "route.h"
#include "server.h"


#define IL_EVENTS_PAGE     200      /* jobs of one call */
#define IL_EVENTS_BACKLOG  10000    /* more have changed: begin anew */
#define IL_EVENTS_SHARE    10       /* polls take no more than 1/10 of the
                                       time */


static void
il_events_want(il_db_args_t *args, const il_stream_t *s)
{
    uint8_t  id[IL_UUID_BYTES];

    /* the narrowest filter finds them all */

    if (s->job.data != NULL && il_uuid_parse(id, s->job) == 0) {
        il_db_put_null(args, 5);
        il_db_put_null(args, 6);
        il_db_put_uuid(args, 7, id);

    } else if (s->work_key.data != NULL) {
        il_db_put_null(args, 5);
        il_db_put_text(args, 6, s->work_key);
        il_db_put_null(args, 7);

    } else {
        il_db_put_text(args, 5, s->kind);
        il_db_put_null(args, 6);
        il_db_put_null(args, 7);
    }
}


static int
il_events_wants_all(const il_stream_t *s)
{
    return s->kind.data == NULL && s->work_key.data == NULL
           && s->job.data == NULL;
}


/* What has changed since the cursor, of what one stream wants, or (NULL) of
 * what any of the feed does.  0; or -1: nothing was learnt. */

static int
il_events_ask(il_link_t *link, const il_feed_t *f, const il_stream_t *one,
    const char *cursor, int backlog, il_news_t *n)
{
    int                 all;
    size_t              rows;
    il_str_t            what;
    il_db_args_t        args;
    il_db_rc_e          rc;
    const il_stream_t  *s;

    memset(n, 0, sizeof(*n));

    all = (one != NULL && il_events_wants_all(one));

    for (s = f->streams; s != NULL && one == NULL; s = s->next) {
        all |= il_events_wants_all(s);
    }

    il_db_args_init(&args, "ITIIBttu");
    il_db_put_int(&args, 0, f->tenant);
    il_db_put_text(&args, 1, il_cstr(cursor));
    il_db_put_int(&args, 2, IL_EVENTS_PAGE);

    if (backlog > 0) {
        il_db_put_int(&args, 3, backlog);

    } else {
        il_db_put_null(&args, 3);
    }

    il_db_put_bool(&args, 4, all);

    if (one != NULL && !all) {
        il_events_want(&args, one);
    }

    for (s = f->streams; s != NULL && one == NULL && !all; s = s->next) {
        il_events_want(&args, s);
    }

    rc = il_link_call(link, "select * from interlock.events_since("
                      "$1, $2, $3, $4, $5, $6, $7, $8)", &args, &n->res);
    il_db_args_free(&args);

    if (rc != IL_DB_OK) {
        n->res = NULL;
        return -1;
    }

    rows = il_db_rows(n->res);
    n->col_cursor = il_db_column(n->res, "cursor");
    n->col_job = il_db_column(n->res, "job_id");
    n->col_kind = il_db_column(n->res, "kind");
    n->col_key = il_db_column(n->res, "work_key");
    n->col_doc = il_db_column(n->res, "doc");

    if (rows == 0) {
        il_db_result_free(n->res);
        n->res = NULL;
        return -1;
    }

    n->rows = rows - 1;
    n->cursor = il_db_cell(n->res, n->rows, n->col_cursor);

    what = il_db_cell(n->res, n->rows, il_db_column(n->res, "what"));
    n->reset = il_str_eq(what, il_cstr("reset"));
    n->more = il_str_eq(what, il_cstr("more"));

    return 0;
}


int64_t
il_feed_due(const il_feed_t *f)
{
    if (f->cursor == NULL || f->more) {
        return 0;
    }

    if (f->hinted) {
        return f->polled + f->pace;
    }

    return f->polled + (f->pace > IL_EVENTS_POLL ? f->pace : IL_EVENTS_POLL);
}


int
il_feed_poll(il_feed_t *f, il_link_t *link)
{
    char         *cursor;
    int64_t       began, took;
    il_news_t     n;
    il_stream_t  *s;

    began = il_now_ms();
    f->hinted = 0;

    if (il_events_ask(link, f, NULL, f->cursor, 0, &n) != 0) {
        return -1;
    }

    cursor = strndup(n.cursor.data, n.cursor.len);

    for (s = f->streams; s != NULL && cursor != NULL; s = s->next) {
        if (s->state != IL_STREAM_LIVE || s->ended != NULL) {
            continue;
        }

        if (n.reset && s->pend.len == 0) {
            il_stream_reset(s, n.cursor);

        } else if (n.reset) {
            il_stream_at(s, il_cstr(f->cursor));
            s->state = IL_STREAM_BEHIND;

        } else {
            il_stream_news(s, &n, 1);
        }
    }

    il_db_result_free(n.res);

    if (cursor == NULL) {
        return -1;
    }

    free(f->cursor);
    f->cursor = cursor;
    f->more = n.more;

    f->polled = il_now_ms();
    took = f->polled - began;
    f->pace = took * IL_EVENTS_SHARE;

    if (f->pace < IL_EVENTS_PACE) {
        f->pace = IL_EVENTS_PACE;
    }

    return 0;
}


/* One page for a stream that has its own cursor. */

static int
il_events_catch_up(il_stream_t *s, il_link_t *link)
{
    int        first;
    il_news_t  n;

    first = (s->state == IL_STREAM_NEW);

    if (il_events_ask(link, s->feed, s, s->cursor,
                      first ? IL_EVENTS_BACKLOG : 0, &n)
        != 0)
    {
        return -1;
    }

    if (first) {
        il_stream_start(s, il_str(NULL, 0));
        s->state = IL_STREAM_BEHIND;
    }

    if (n.reset) {
        il_stream_reset(s, n.cursor);
        free(s->cursor);
        s->cursor = NULL;
        s->state = IL_STREAM_LIVE;

    } else {
        il_stream_news(s, &n, !n.more);
    }

    il_db_result_free(n.res);

    return 0;
}


int
il_feed_serve(il_feed_t *f, il_link_t *link)
{
    il_stream_t  *s;

    for (s = f->streams; s != NULL; s = s->next) {
        if (s->ended != NULL || s->pend.len > 0
            || s->state == IL_STREAM_LIVE)
        {
            continue;
        }

        if (il_events_draining()) {
            return 0;
        }

        if (s->state == IL_STREAM_NEW && s->cursor == NULL) {
            il_stream_start(s, il_cstr(f->cursor));
            s->state = IL_STREAM_LIVE;

        } else if (il_events_catch_up(s, link) != 0) {
            return -1;
        }

        if (s->state != IL_STREAM_NEW && s->r->status == 0) {
            s->r->status = 200;
            il_metric_add(IL_MT_HTTP_REQUESTS, 1, s->r->route->pattern,
                          "200", "");
        }
    }

    return 0;
}


static void
il_events_put_token(il_stream_t *s, void *arg)
{
    il_db_args_t  *args = arg;

    il_db_put_int(args, 0, s->r->who.tenant);
    il_db_put_big(args, 1, s->r->who.token_id);
    il_db_put_bytes(args, 2, s->by_session
                    ? il_str((const char *) s->session, sizeof(s->session))
                    : il_str(NULL, 0));
}


static void
il_events_mark(il_stream_t *s, void *arg)
{
    size_t  *i = arg;

    s->ord = ++(*i);
}


static void
il_events_judge(il_stream_t *s, void *arg)
{
    const uint8_t  *alive = arg;

    if (!alive[s->ord] && s->ended == NULL) {
        s->ended = s->by_session ? "session" : "token";
    }
}


int
il_events_tokens(il_link_t *link)
{
    size_t           n, row;
    uint8_t         *alive;
    int64_t          ord;
    il_db_rc_e       rc;
    il_db_args_t     args;
    il_db_result_t  *res;

    n = 0;
    il_events_each(il_events_mark, &n);

    alive = calloc(n + 1, 1);
    if (alive == NULL) {
        return -1;
    }

    il_db_args_init(&args, "ilyL");
    il_events_each(il_events_put_token, &args);
    il_db_put_big(&args, 3, il_srv.conf.session_idle);
    rc = il_link_call(link, "select ord from "
                      "interlock.events_alive($1, $2, $3, $4)", &args, &res);
    il_db_args_free(&args);

    if (rc == IL_DB_OK) {
        for (row = 0; row < il_db_rows(res); row++) {
            if (il_db_cell_int(res, row, 0, &ord) == 0 && ord > 0
                && (size_t) ord <= n)
            {
                alive[ord] = 1;
            }
        }

        il_db_result_free(res);
        il_events_each(il_events_judge, alive);
    }

    free(alive);

    return rc == IL_DB_OK ? 0 : -1;
}
