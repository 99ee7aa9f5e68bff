/*
 * events_get.c: GET /v1/events, from the request to its stream.
 */

#include <stdlib.h>

#include "events_int.h"
#include "query.h"
#include "route.h"
#include "session.h"


#define IL_EVENTS_ID_MAX  3000


enum {
    IL_Q_KIND, IL_Q_WORK_KEY, IL_Q_JOB_ID, IL_Q_LAST, IL_Q_MAX
};


/* A job's id as the database writes it. */

static int
il_events_job(il_req_t *r, il_stream_t *s, const il_query_t *q)
{
    char     text[IL_UUID_TEXT + 1];
    uint8_t  id[IL_UUID_BYTES];

    if (q->value.data == NULL) {
        return 0;
    }

    if (il_uuid_parse(id, q->value) != 0) {
        il_query_invalid(r, q->name, "is not a job's id");
        return -1;
    }

    il_uuid_format(text, id);
    s->job = il_pool_dup(&r->pool, il_cstr(text));

    if (s->job.data == NULL) {
        il_req_internal(r);
        return -1;
    }

    return 0;
}


/* The header counts, for it is what a browser's EventSource sends when it
 * comes back; the query is for who cannot set it.  What is no cursor at all
 * is answered as one that is too old. */

static void
il_events_last(il_req_t *r, il_stream_t *s, const il_query_t *q)
{
    size_t    i;
    il_str_t  id;

    id = il_req_param(r, "HTTP_LAST_EVENT_ID");

    if (id.len == 0) {
        id = q->value;
    }

    if (id.len == 0) {
        return;
    }

    for (i = 0; i < id.len && i <= IL_EVENTS_ID_MAX; i++) {
        if (id.data[i] <= ' ' || id.data[i] > '~') {
            break;
        }
    }

    il_stream_at(s, i == id.len ? id : il_str(NULL, 0));
}


/* 0; or -1, and then r was answered. */

static int
il_events_read(il_req_t *r, il_stream_t *s)
{
    il_query_t  q[IL_Q_MAX] = {
        { "kind", { NULL, 0 } }, { "work_key", { NULL, 0 } },
        { "job_id", { NULL, 0 } }, { "last_event_id", { NULL, 0 } }
    };

    if (il_query_read(r, q, IL_Q_MAX) != 0
        || il_events_job(r, s, &q[IL_Q_JOB_ID]) != 0)
    {
        return -1;
    }

    s->kind = q[IL_Q_KIND].value;
    s->work_key = q[IL_Q_WORK_KEY].value;
    il_events_last(r, s, &q[IL_Q_LAST]);

    s->by_session = il_auth_bearer(r).data == NULL
                    && il_session_cookie(r, s->session) == 1;

    return 0;
}


void
il_events_get(il_req_t *r)
{
    il_stream_t  *s;

    s = il_pool_get(&r->pool, sizeof(il_stream_t));
    if (s == NULL) {
        il_req_internal(r);
        return;
    }

    s->r = r;

    if (il_events_read(r, s) != 0) {
        return;
    }

    if (r->method == IL_M_HEAD) {
        free(s->cursor);
        r->status = 200;
        r->type = "text/event-stream";
        il_req_done(r);
        return;
    }

    il_req_settle(r);

    if (s->ended != NULL || il_events_join(s) != 0) {
        free(s->cursor);
        il_req_header(r, "Retry-After", il_cstr("10"));
        il_req_problem(r, IL_P_UNAVAILABLE, "Too many event streams are "
                       "open. Try again shortly.");
    }
}
