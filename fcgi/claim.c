/*
 * claim.c: POST /v1/leases, and its lane.
 *
 * A claim that finds nothing parks.  One that has leases is signed and
 * written by a worker; if that fails, the leases are handed back, uncounted.
 */

#include "body.h"
#include "claim.h"
#include "il_enc.h"
#include "log.h"
#include "park.h"
#include "route.h"
#include "server.h"
#include "work.h"


#define IL_CLAIM_MAX     100
#define IL_CLAIM_WAIT    30
#define IL_CLAIM_FEW     2         /* leases that a lane's thread signs */
#define IL_WORKER_MAX    255


static void il_claim_search(il_req_t *r);
static void il_claim_empty(il_req_t *r);
static void il_claim_nothing(il_req_t *r);


enum {
    IL_F_WORKER, IL_F_KINDS, IL_F_LIMIT, IL_F_WAIT, IL_F_MAX
};


static const il_field_t  il_claim_fields[IL_F_MAX] = {
    [IL_F_WORKER] = { .name = "worker", .types = IL_T_STRING },
    [IL_F_KINDS] = { .name = "kinds", .types = IL_T_ARRAY },
    [IL_F_LIMIT] = { .name = "max", .types = IL_T_NUMBER },
    [IL_F_WAIT] = { .name = "wait", .types = IL_T_NUMBER }
};


static int
il_claim_kinds(il_req_t *r, const il_field_t *f, il_claim_t *c)
{
    size_t            i, pos;
    il_str_t          name, kind;
    il_field_t        one;
    il_json_value_t   value;

    pos = 0;

    while (f->seen && il_json_next(f->value, &pos, &name, &value)) {

        one = *f;
        one.value = value;

        if (value.type != IL_JSON_STRING) {
            il_body_invalid(r, f->name, "must have names of kinds");
            return -1;
        }

        if (il_body_string(r, &one, 1024, &kind) != 0) {
            return -1;
        }

        if (!il_name_valid(kind)) {
            il_body_invalid(r, f->name, "must have names of kinds");
            return -1;
        }

        for (i = 0; i < c->nkinds; i++) {
            if (il_str_eq(c->kinds[i], kind)) {
                break;
            }
        }

        if (i < c->nkinds) {
            continue;
        }

        if (c->nkinds == IL_PARK_KINDS_MAX) {
            il_body_invalid(r, f->name, "has more than 32 names");
            return -1;
        }

        c->kinds[c->nkinds++] = kind;
    }

    if (c->nkinds == 0) {
        il_body_invalid(r, f->name, "must name at least one kind");
        return -1;
    }

    return 0;
}


/* The names joined by commas, as the function wants them. */

static int
il_claim_join(il_req_t *r, il_claim_t *c)
{
    size_t    i;
    il_buf_t  b;

    memset(&b, 0, sizeof(b));

    for (i = 0; i < c->nkinds; i++) {
        il_buf_puts(&b, i == 0 ? "" : ",");
        il_buf_add(&b, c->kinds[i]);
    }

    c->joined = b.failed ? il_str(NULL, 0)
                         : il_pool_dup(&r->pool, il_buf_str(&b));
    il_buf_free(&b);

    if (c->joined.data == NULL) {
        il_req_internal(r);
        return -1;
    }

    return 0;
}


void
il_claim_post(il_req_t *r)
{
    int64_t      wait;
    il_field_t   f[IL_F_MAX];
    il_claim_t  *c;

    c = il_pool_get(&r->pool, sizeof(il_claim_t));
    if (c == NULL) {
        il_req_internal(r);
        return;
    }

    r->op = c;
    c->max = 1;
    wait = 0;

    memcpy(f, il_claim_fields, sizeof(f));

    if (il_body_fields(r, f, IL_F_MAX, 0) != 0
        || il_claim_kinds(r, &f[IL_F_KINDS], c) != 0
        || il_body_string(r, &f[IL_F_WORKER], IL_WORKER_MAX, &c->worker) != 0
        || il_body_int(r, &f[IL_F_LIMIT], 1, IL_CLAIM_MAX, &c->max) != 0
        || il_body_int(r, &f[IL_F_WAIT], 0, IL_CLAIM_WAIT, &wait) != 0
        || il_claim_join(r, c) != 0)
    {
        return;
    }

    /* it goes into the owner's token, which has none */

    if (il_has_control(c->worker)) {
        il_body_invalid(r, "worker", "has control characters");
        return;
    }

    if (c->worker.len == 0) {
        c->worker = il_cstr(r->who.token_name);
    }

    /* whoever ends claims nothing more */

    if (il_loop_draining()) {
        il_claim_nothing(r);
        return;
    }

    if (wait > 0) {
        c->wait.r = r;
        c->wait.deadline = il_now_ms() + wait * 1000;
        c->wait.wake = il_claim_search;
        c->wait.expire = il_claim_empty;

        if (il_park_join_kinds(&c->wait, c->kinds, c->nkinds) != 0) {
            il_req_problem(r, IL_P_UNAVAILABLE, "Too many requests are "
                           "waiting. Try again shortly.");
            return;
        }

        c->waits = 1;
        il_req_settle(r);
    }

    il_claim_search(r);
}


/* Wherever the request ends, its place in the park table ends before. */

static void
il_claim_leave(il_req_t *r)
{
    il_claim_t  *c = r->op;

    if (c->waits) {
        c->waits = 0;
        il_park_leave(&c->wait);
    }
}


/* A new search is a new claim: the id belongs to what one call made. */

static void
il_claim_search(il_req_t *r)
{
    il_claim_t  *c = r->op;

    il_uuid7(c->claim_id, (uint64_t) il_wall_ms());

    if (il_lane_put(&il_srv.claim, &r->item) != 0) {
        il_claim_leave(r);
        il_req_unavailable(r);
    }
}


static void
il_claim_nothing(il_req_t *r)
{
    il_buf_puts(il_req_json(r, 200), "{\"leases\":[]}");
    il_req_done(r);
}


static void
il_claim_empty(il_req_t *r)
{
    il_claim_leave(r);
    il_claim_nothing(r);
}


/* -------------------------------------------------------------- the lane */


static void
il_claim_put(il_db_args_t *a, il_item_t *item)
{
    il_req_t    *r = (il_req_t *) item;
    il_claim_t  *c = r->op;

    il_db_put_uuid(a, 0, c->claim_id);
    il_db_put_int(a, 1, r->who.tenant);
    il_db_put_text(a, 2, c->worker);
    il_db_put_text(a, 3, c->joined);
    il_db_put_int(a, 4, (int32_t) c->max);
}


static il_db_rc_e
il_claim_call(il_lane_t *lane, il_link_t *link, il_item_t **items, size_t n,
    il_db_result_t **res)
{
    return il_lane_call_rows(link, "select * from interlock.claim("
                             "$1, $2, $3, $4, $5)", "uitti", il_claim_put,
                             NULL, lane, items, n, res);
}


/* Woken for one kind, it may have found others. */

static void
il_claim_pass_on(il_claim_t *c, const il_db_result_t *res, int col)
{
    size_t    i, n;
    il_str_t  kinds[IL_CLAIM_MAX];

    if (!c->waits) {
        return;
    }

    n = c->count < IL_CLAIM_MAX ? c->count : IL_CLAIM_MAX;

    for (i = 0; i < n; i++) {
        kinds[i] = il_db_cell(res, c->first + i, col);
    }

    il_park_pass_on(&c->wait, kinds, n);
}


/* Rows of one claim stand together: the function orders by ord. */

static void
il_claim_deal(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n)
{
    int          ord, kind;
    size_t       i, row, rows;
    il_req_t    *r;
    il_claim_t  *c;
    il_item_t   *item;

    (void) link;

    ord = il_db_column(res, "ord");
    kind = il_db_column(res, "kind");
    rows = il_db_rows(res);

    for (row = 0; row < rows; row++) {
        item = il_lane_row_item(res, row, ord, items, n);
        if (item == NULL) {
            il_log(IL_LOG_ERROR, "claim: a row that nobody asked for");
            continue;
        }

        il_park_claimed(((il_req_t *) item)->who.tenant,
                        il_db_cell(res, row, kind));

        c = ((il_req_t *) item)->op;

        if (c->count == 0) {
            c->first = row;
        }

        c->count++;
    }

    for (i = 0; i < n; i++) {
        r = (il_req_t *) items[i];
        c = r->op;

        if (c->count > 0) {
            il_claim_pass_on(c, res, kind);
            il_claim_leave(r);
            r->res = il_db_result_ref(res);
            r->step = il_claim_answer;

            /* signing takes its time, which the next claims would wait for */

            if (c->count <= IL_CLAIM_FEW && il_lane_depth(lane) == 0) {
                il_claim_answer(r);

            } else {
                il_work_step(r);
            }

        } else if (c->waits) {
            il_park(&c->wait);

        } else {
            il_claim_nothing(r);
        }
    }
}


static void
il_claim_fail(il_item_t *item, il_problem_e p)
{
    il_claim_leave((il_req_t *) item);
    il_req_fail_item(item, p);
}


const il_lane_ops_t  il_claim_ops = {
    .name = "claim",
    .app = "interlockd claim",
    .call = il_claim_call,
    .deal = il_claim_deal,
    .fail = il_claim_fail
};
