/*
 * look.c: GET /v1/jobs/{id}, waiting or not, and its lane.
 */

#include "il_time.h"
#include "look.h"
#include "park.h"
#include "route.h"
#include "server.h"


#define IL_LOOK_WAIT  30


typedef struct {
    uint8_t      job_id[IL_UUID_BYTES];
    int          waits;           /* wait is in the park table */
    int          last;            /* answer with what there is */

    const il_look_view_t  *view;
    il_waiter_t  wait;
} il_look_t;


static void
il_look_leave(il_req_t *r)
{
    il_look_t  *l = r->op;

    if (l->waits) {
        l->waits = 0;
        il_park_leave(&l->wait);
    }
}


static void
il_look_again(il_req_t *r)
{
    if (il_lane_put(&il_srv.look, &r->item) != 0) {
        il_look_leave(r);
        il_req_unavailable(r);
    }
}


static void
il_look_expire(il_req_t *r)
{
    il_look_t  *l = r->op;

    l->last = 1;
    il_look_again(r);
}


/* `Prefer: respond-async, Wait = 10; x=y` (RFC 7240: names in any case, white
 * space around the equals sign); what is not understood is ignored, as that
 * says. */

int64_t
il_look_prefer(const il_req_t *r)
{
    size_t       n;
    int64_t      wait;
    il_str_t     s, name, value;
    const char  *eq;

    s = il_req_param(r, "HTTP_PREFER");

    while (s.len > 0) {
        for (n = 0; n < s.len && s.data[n] != ','; n++) { /* void */ }

        name = il_str(s.data, n);
        s = il_str(s.data + n, s.len - n);

        if (s.len > 0) {
            s = il_str(s.data + 1, s.len - 1);
        }

        for (n = 0; n < name.len && name.data[n] != ';'; n++) { /* void */ }

        name.len = n;

        eq = memchr(name.data, '=', name.len);
        if (eq == NULL) {
            continue;
        }

        n = (size_t) (eq - name.data);
        value = il_str_trim(il_str(eq + 1, name.len - n - 1));
        name = il_str_trim(il_str(name.data, n));

        if (name.len != 4 || strncasecmp(name.data, "wait", 4) != 0) {
            continue;
        }

        if (il_digits_parse(value, 9, &wait) != 0) {
            return 0;
        }

        return wait > IL_LOOK_WAIT ? IL_LOOK_WAIT : wait;
    }

    return 0;
}


void
il_look_start(il_req_t *r, const uint8_t job_id[IL_UUID_BYTES], int64_t wait,
    const il_look_view_t *view)
{
    il_look_t  *l;

    l = il_pool_get(&r->pool, sizeof(il_look_t));
    if (l == NULL) {
        il_req_internal(r);
        return;
    }

    r->op = l;
    l->view = view;
    memcpy(l->job_id, job_id, IL_UUID_BYTES);

    if (wait > 0) {
        l->wait.r = r;
        l->wait.deadline = il_now_ms() + wait * 1000;
        l->wait.wake = il_look_again;
        l->wait.expire = il_look_expire;

        if (il_park_join_job(&l->wait, l->job_id) != 0) {
            il_req_problem(r, IL_P_UNAVAILABLE, "Too many requests are "
                           "waiting. Try again shortly.");
            return;
        }

        l->waits = 1;
        il_req_settle(r);
    }

    il_look_again(r);
}


static void
il_look_show(il_req_t *r, il_str_t doc)
{
    il_buf_add(il_req_json(r, 200), doc);
    il_req_done(r);
}


void
il_look_job(il_req_t *r)
{
    uint8_t  job_id[IL_UUID_BYTES];

    static const il_look_view_t  view = { NULL, il_look_show };

    if (il_uuid_parse(job_id, r->args[0]) != 0) {
        il_req_problem(r, IL_P_NOT_FOUND, "There is no such job.");
        return;
    }

    il_look_start(r, job_id, il_look_prefer(r), &view);
}


static void
il_look_put(il_db_args_t *a, il_item_t *item)
{
    il_req_t   *r = (il_req_t *) item;
    il_look_t  *l = r->op;

    il_db_put_int(a, 0, r->who.tenant);
    il_db_put_uuid(a, 1, l->job_id);
}


static il_db_rc_e
il_look_call(il_lane_t *lane, il_link_t *link, il_item_t **items, size_t n,
    il_db_result_t **res)
{
    return il_lane_call_rows(link, "select * from interlock.job_get($1, $2)",
                             "iu", il_look_put, NULL, lane, items, n, res);
}


static void
il_look_missing(il_req_t *r)
{
    il_look_leave(r);
    il_req_problem(r, IL_P_NOT_FOUND, "There is no such job.");
}


static void
il_look_answer(il_req_t *r, const il_db_result_t *res, size_t row)
{
    il_str_t    doc;
    il_look_t  *l = r->op;

    doc = il_db_cell(res, row, il_db_column(res, "doc"));

    /* before it waits: who may not see it is not to learn when it ends */

    if (l->view->may != NULL && !l->view->may(r, doc)) {
        il_look_missing(r);
        return;
    }

    if (l->waits && !l->last && il_now_ms() < l->wait.deadline
        && !il_loop_draining()
        && !il_db_cell_bool(res, row, il_db_column(res, "final")))
    {
        il_park(&l->wait);
        return;
    }

    il_look_leave(r);
    l->view->show(r, doc);
}


static void
il_look_deal(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n)
{
    (void) lane;
    (void) link;

    il_req_deal(res, items, n, il_look_answer, il_look_missing, NULL);
}


static void
il_look_fail(il_item_t *item, il_problem_e p)
{
    il_look_leave((il_req_t *) item);
    il_req_fail_item(item, p);
}


const il_lane_ops_t  il_look_ops = {
    .name = "look",
    .app = "interlockd look",
    .call = il_look_call,
    .deal = il_look_deal,
    .fail = il_look_fail,
    .reads = 1
};
