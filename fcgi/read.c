/*
 * read.c: one call for one request, by the read lane.
 */

#include "req.h"


static il_db_rc_e
il_read_call(il_lane_t *lane, il_link_t *link, il_item_t **items, size_t n,
    il_db_result_t **res)
{
    il_read_t     *read = (il_read_t *) items[0];
    il_db_rc_e     rc;
    il_db_args_t   args;

    (void) lane;
    (void) n;

    il_db_args_init(&args, read->signature);

    if (read->put != NULL) {
        read->put(read, &args);
    }

    rc = il_link_call(link, read->sql, &args, res);

    il_db_args_free(&args);

    return rc;
}


static void
il_read_deal(il_lane_t *lane, il_link_t *link, il_db_result_t *res,
    il_item_t **items, size_t n)
{
    il_read_t  *read = (il_read_t *) items[0];

    (void) lane;
    (void) link;
    (void) n;

    read->done(read, res, IL_P_NONE);
}


static void
il_read_fail(il_item_t *item, il_problem_e p)
{
    il_read_t  *read = (il_read_t *) item;

    read->done(read, NULL, p);
}


const il_lane_ops_t  il_read_ops = {
    .name = "read",
    .app = "interlockd read",
    .call = il_read_call,
    .deal = il_read_deal,
    .fail = il_read_fail,
    .single = 1,
    .reads = 1
};
