/*
 * lease.c: renew and progress, and their lane.
 */

#include "body.h"
#include "metrics.h"
#include "owner.h"
#include "route.h"
#include "server.h"


#define IL_STEP_MAX        255
#define IL_NOTE_MAX        4096
#define IL_CHECKPOINT_MAX  (256 << 10)


typedef struct {
    il_owner_t   owner;
    const char  *call;
    il_str_t     progress;       /* JSON; data NULL: none; so below */
    il_str_t     step;
    il_str_t     checkpoint;     /* JSON */
} il_lease_t;


static void
il_lease_queue(il_req_t *r)
{
    il_lease_t  *l = r->op;

    r->item.bytes = l->progress.len + l->checkpoint.len + 256;
    il_req_lane(r, &il_srv.lease);
}


static void
il_lease_renew_go(il_req_t *r)
{
    il_lease_t  *l = r->op;

    l->call = "renew";

    if (il_body_fields(r, NULL, 0, 1) != 0) {
        return;
    }

    il_lease_queue(r);
}


void
il_lease_renew(il_req_t *r)
{
    il_owner_auth(r, sizeof(il_lease_t), il_lease_renew_go);
}


static int
il_lease_progress_check(il_req_t *r, const il_field_t *progress)
{
    il_str_t    note;
    il_field_t  f[] = {
        { .name = "done", .types = IL_T_NUMBER },
        { .name = "total", .types = IL_T_NUMBER },
        { .name = "note", .types = IL_T_STRING }
    };

    return il_body_object(r, progress->value, "progress", f, 3) == 0
           && il_body_string(r, &f[2], IL_NOTE_MAX, &note) == 0 ? 0 : -1;
}


static void
il_lease_progress_go(il_req_t *r)
{
    il_lease_t  *l = r->op;
    il_field_t   f[] = {
        { .name = "progress", .types = IL_T_OBJECT },
        { .name = "step", .types = IL_T_STRING },
        { .name = "checkpoint", .types = IL_T_ANY }
    };

    l->call = "progress";

    if (il_body_fields(r, f, 3, 1) != 0
        || il_body_string(r, &f[1], IL_STEP_MAX, &l->step) != 0
        || (f[0].seen && il_lease_progress_check(r, &f[0]) != 0))
    {
        return;
    }

    if (f[0].seen) {
        l->progress = f[0].value.raw;
    }

    if (f[2].seen) {
        l->checkpoint = f[2].value.raw;

        if (l->checkpoint.len > IL_CHECKPOINT_MAX) {
            il_body_invalid(r, "checkpoint", "is longer than 256 KB");
            return;
        }
    }

    il_lease_queue(r);
}


void
il_lease_progress(il_req_t *r)
{
    il_owner_auth(r, sizeof(il_lease_t), il_lease_progress_go);
}


/* -------------------------------------------------------------- the lane */


static void
il_lease_put(il_db_args_t *a, il_item_t *item)
{
    il_req_t    *r = (il_req_t *) item;
    il_lease_t  *l = r->op;

    il_db_put_int(a, 0, r->who.tenant);
    il_db_put_uuid(a, 1, l->owner.job_id);
    il_db_put_uuid(a, 2, l->owner.attempt_id);
    il_db_put_big(a, 3, l->owner.fence);
    il_db_put_text(a, 4, l->progress);
    il_db_put_text(a, 5, l->step);
    il_db_put_text(a, 6, l->checkpoint);
}


static il_db_rc_e
il_lease_call(il_lane_t *lane, il_link_t *link, il_item_t **items, size_t n,
    il_db_result_t **res)
{
    return il_lane_call_rows(link, "select * from interlock.renew("
                             "$1, $2, $3, $4, $5, $6, $7)", "iuulttt",
                             il_lease_put, NULL, lane, items, n, res);
}


static void
il_lease_answer(il_req_t *r, const il_db_result_t *res, size_t row)
{
    int64_t      expires;
    il_str_t     outcome, kind;
    il_buf_t    *b;
    il_lease_t  *l = r->op;

    outcome = il_db_cell(res, row, il_db_column(res, "outcome"));
    kind = il_db_cell(res, row, il_db_column(res, "kind"));

    if (!il_str_eq(outcome, il_cstr("ok"))) {
        il_metric_add_str(IL_MT_RENEW_FAILED, 1, kind, outcome,
                          il_str("", 0));
        il_owner_refuse(r, outcome, kind, l->call);
        return;
    }

    if (il_db_cell_time(res, row, il_db_column(res, "expires_at"), &expires)
        != 0)
    {
        il_req_internal(r);
        return;
    }

    b = il_req_json(r, 200);
    il_buf_puts(b, "{\"expires_at\":");
    il_buf_time(b, expires);
    il_buf_puts(b, ",\"remaining_ms\":");
    il_buf_add(b, il_db_cell(res, row, il_db_column(res, "remaining_ms")));
    il_buf_puts(b, ",\"cancel_requested\":");
    il_buf_puts(b, il_db_cell_bool(res, row,
                                   il_db_column(res, "cancel_requested"))
                ? "true}" : "false}");
    il_req_done(r);
}


static void
il_lease_deal(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n)
{
    (void) lane;
    (void) link;

    il_req_deal(res, items, n, il_lease_answer, il_req_internal, NULL);
}


const il_lane_ops_t  il_lease_ops = {
    .name = "lease",
    .app = "interlockd lease",
    .call = il_lease_call,
    .deal = il_lease_deal,
    .fail = il_req_fail_item
};
