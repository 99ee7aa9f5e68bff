/*
 * lease_batch.c: POST /v1/lease/batch, calls of many owners in one request.
 *
 * Each call is handled by the code that handles it alone, with a token of its
 * own and an answer of its own.  What extends leases goes to its lane first,
 * all of it at once, and what ends attempts after it, so that a last word
 * about progress may stand beside the completion.  The one that comes last
 * answers the request, whatever thread that is.
 */

#include "body.h"
#include "route.h"
#include "server.h"


#define IL_CALLS_MAX   500

/* The edge is told of so many works that are done, for a response's head must
 * fit into a proxy's buffer; of others it holds its answers for as long as
 * they were granted. */
#define IL_CALLS_DONE  24


typedef struct il_calls_s  il_calls_t;

typedef struct {
    il_sub_t     sub;              /* first */
    il_req_t     r;
    il_calls_t  *calls;
    int          queued;
} il_call_t;

typedef struct {
    il_lane_t   *lane;
    il_item_t   *first;
    il_item_t  **tail;
    size_t       n;
} il_calls_lane_t;

struct il_calls_s {
    il_req_t         *r;
    il_call_t        *call;
    size_t            n;
    size_t            left;        /* of those that are in a lane; atomic */
    il_calls_lane_t   lanes[2];    /* in the order in which they go there */
};


static const struct {
    const char  *name;
    void       (*handler)(il_req_t *r);
} il_calls[] = {
    { "complete", il_finish_complete },
    { "fail", il_finish_fail },
    { "release", il_finish_release },
    { "renew", il_lease_renew },
    { "progress", il_lease_progress },
    { NULL, NULL }
};


/* -------------------------------------------------------------- answering */


static void
il_calls_item(il_call_t *call, il_buf_t *out)
{
    il_req_t  *r = &call->r;

    if (r->out.failed || r->out.len == 0) {
        out->failed = 1;
        return;
    }

    if (r->status != 200) {
        il_buf_add(out, il_buf_str(&r->out));     /* it says which */
        return;
    }

    il_buf_add(out, il_str(r->out.data, r->out.len - 1));
    il_buf_puts(out, call->sub.replayed ? ",\"code\":200,\"replayed\":true}"
                                        : ",\"code\":200}");
}


static void
il_calls_answer(il_calls_t *b)
{
    size_t     i, done;
    il_buf_t  *out, works;
    il_req_t  *r = b->r;

    memset(&works, 0, sizeof(works));
    done = 0;

    out = il_req_json(r, 200);
    il_buf_puts(out, "{\"items\":[");

    for (i = 0; i < b->n; i++) {
        il_buf_puts(out, i == 0 ? "" : ",");
        il_calls_item(&b->call[i], out);
        il_buf_free(&b->call[i].r.out);

        if (b->call[i].sub.ended.data != NULL && done < IL_CALLS_DONE) {
            il_buf_puts(&works, done++ == 0 ? "" : ",");
            il_buf_add(&works, b->call[i].sub.ended);
        }
    }

    il_buf_puts(out, "]}");

    if (works.len > 0 && !works.failed) {
        il_req_header(r, "Interlock-Work-Done", il_buf_str(&works));
    }

    il_buf_free(&works);
    il_req_done(r);
}


/* The next lane that has something to do, or the answer.  b may be gone once
 * its calls are in a lane. */

static void
il_calls_go(il_calls_t *b)
{
    size_t            i;
    il_item_t        *item, *next;
    il_calls_lane_t  *l;

    for (i = 0; i < sizeof(b->lanes) / sizeof(b->lanes[0]); i++) {
        l = &b->lanes[i];
        item = l->first;

        if (item == NULL) {
            continue;
        }

        l->first = NULL;
        b->left = l->n;

        if (il_lane_put_all(l->lane, item, l->n) == 0) {
            return;
        }

        for ( /* void */ ; item != NULL; item = next) {
            next = item->next;
            ((il_call_t *) ((il_req_t *) item)->sub)->queued = 0;
            il_req_unavailable((il_req_t *) item);
        }
    }

    il_calls_answer(b);
}


static void
il_calls_done(il_req_t *r)
{
    il_call_t  *call = (il_call_t *) r->sub;

    /* refused before it was in a lane: whoever reads them all goes on */

    if (call->queued
        && __atomic_sub_fetch(&call->calls->left, 1, __ATOMIC_ACQ_REL) == 0)
    {
        il_calls_go(call->calls);
    }
}


/* ---------------------------------------------------------------- reading */


static void
il_calls_queue(il_req_t *r, il_lane_t *lane)
{
    size_t            i;
    il_call_t        *call = (il_call_t *) r->sub;
    il_calls_lane_t  *l;

    i = lane == &il_srv.lease ? 0 : 1;
    l = &call->calls->lanes[i];

    l->lane = lane;
    *l->tail = &r->item;
    l->tail = &r->item.next;
    l->n++;

    call->queued = 1;
}


/* What makes it a call: the rest of its fields is its handler's, which reads
 * these two once more, and refuses those that are there twice. */

static void
il_calls_head(il_req_t *r, il_field_t *token, il_field_t *name)
{
    size_t            pos;
    il_str_t          member;
    il_json_value_t   value;

    pos = 0;

    while (il_json_next(r->sub->object, &pos, &member, &value)) {

        if (value.type != IL_JSON_STRING) {
            continue;
        }

        if (il_str_eq(member, il_cstr("\"owner_token\""))) {
            token->seen = 1;
            token->value = value;

        } else if (il_str_eq(member, il_cstr("\"call\""))) {
            name->seen = 1;
            name->value = value;
        }
    }
}


static void
il_calls_one(il_req_t *r)
{
    size_t      i;
    il_str_t    call;
    il_field_t  token = { .name = "owner_token" };
    il_field_t  name = { .name = "call" };

    if (r->sub->object.type != IL_JSON_OBJECT) {
        il_body_invalid(r, "calls", "must have objects");
        return;
    }

    il_calls_head(r, &token, &name);

    if (il_body_string(r, &token, IL_TOKEN_MAX, &r->sub->token) != 0
        || il_body_string(r, &name, 64, &call) != 0)
    {
        return;
    }

    for (i = 0; il_calls[i].name != NULL && call.data != NULL; i++) {
        if (il_str_eq(call, il_cstr(il_calls[i].name))) {
            il_calls[i].handler(r);
            return;
        }
    }

    il_body_invalid(r, name.name, "must be complete, fail, release, renew or "
                    "progress");
}


static void
il_calls_read(il_calls_t *b, il_json_value_t list)
{
    size_t            i, pos;
    il_req_t         *r = b->r;
    il_str_t          member;
    il_call_t        *call;
    il_json_value_t   value;

    pos = 0;

    for (i = 0; i < b->n && il_json_next(list, &pos, &member, &value); i++) {
        call = &b->call[i];

        call->calls = b;
        call->sub.object = value;
        call->sub.queue = il_calls_queue;
        call->sub.done = il_calls_done;

        call->r.sub = &call->sub;
        call->r.who = r->who;

        /* one thread has them all up to here, and one pool is enough */

        call->r.pool = r->pool;
        il_calls_one(&call->r);
        r->pool = call->r.pool;
        call->r.pool.head = NULL;
    }

    il_calls_go(b);
}


void
il_lease_batch(il_req_t *r)
{
    size_t            i, n, pos;
    il_str_t          member;
    il_field_t        in = { .name = "calls", .types = IL_T_ARRAY };
    il_calls_t       *b;
    il_json_value_t   value;

    if (il_body_fields(r, &in, 1, 0) != 0) {
        return;
    }

    if (!in.seen) {
        il_body_invalid(r, in.name, "is missing");
        return;
    }

    pos = 0;

    for (n = 0; il_json_next(in.value, &pos, &member, &value); n++) {
        if (n == IL_CALLS_MAX) {
            il_body_invalid(r, in.name, "has more than 500 calls");
            return;
        }
    }

    b = il_pool_get(&r->pool, sizeof(il_calls_t));

    if (b != NULL) {
        b->call = il_pool_get(&r->pool, (n + 1) * sizeof(il_call_t));
    }

    if (b == NULL || b->call == NULL) {
        il_req_internal(r);
        return;
    }

    b->r = r;
    b->n = n;

    for (i = 0; i < sizeof(b->lanes) / sizeof(b->lanes[0]); i++) {
        b->lanes[i].tail = &b->lanes[i].first;
    }

    il_calls_read(b, in.value);
}
