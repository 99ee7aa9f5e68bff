/*
 * ticket.c: POST /v1/tickets: the site's server asks for a ticket for its
 * page, so that no API token ever reaches a browser.
 */

#include "body.h"
#include "il_time.h"
#include "il_uuid.h"
#include "log.h"
#include "route.h"
#include "server.h"
#include "submit.h"


#define IL_TICKET_TEXT_MAX  1024


typedef struct {
    il_read_t            read;      /* first */
    il_req_t            *r;
    il_ticket_claims_t   claims;
} il_ticket_read_t;


static void
il_ticket_put(il_read_t *read, il_db_args_t *args)
{
    il_ticket_read_t  *t = (il_ticket_read_t *) read;

    il_db_put_int(args, 0, t->r->who.tenant);
    il_db_put_text(args, 1, t->claims.kind);
    il_db_put_text(args, 2, t->claims.work_key);
}


static void
il_ticket_give(il_ticket_read_t *t)
{
    char       ticket[IL_TOKEN_MAX + 1];
    size_t     n;
    il_buf_t  *b;
    il_req_t  *r = t->r;

    if (il_keys_issue_ticket(ticket, sizeof(ticket), &n, &t->claims) != 0) {
        il_log(IL_LOG_ERROR, "a ticket could not be signed");
        il_req_internal(r);
        return;
    }

    b = il_req_json(r, 201);
    il_buf_puts(b, "{\"ticket\":");
    il_buf_json(b, il_str(ticket, n));
    il_buf_puts(b, ",\"expires_at\":");
    il_buf_time(b, t->claims.exp * 1000);
    il_buf_puts(b, "}");
    il_req_done(r);
}


static void
il_ticket_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    il_str_t           problem;
    il_ticket_read_t  *t = (il_ticket_read_t *) read;

    if (res == NULL) {
        il_req_fail_item(&t->r->item, p);
        return;
    }

    problem = il_db_cell(res, 0, il_db_column(res, "problem"));

    if (problem.data != NULL) {
        il_req_problem_more(t->r, il_problem_find(problem),
                            il_db_cell(res, 0, il_db_column(res, "detail")),
                            il_str(NULL, 0));
        return;
    }

    il_ticket_give(t);
}


/* 0, or -1 and a problem was answered. */

static int
il_ticket_read(il_req_t *r, il_ticket_claims_t *c)
{
    int64_t     seconds;
    il_field_t  in[] = {
        { .name = "kind", .types = IL_T_STRING },
        { .name = "work_key", .types = IL_T_STRING | IL_T_ARRAY },
        { .name = "user", .types = IL_T_STRING },
        { .name = "seconds", .types = IL_T_NUMBER }
    };

    seconds = IL_TICKET_SECONDS;

    if (il_body_fields(r, in, 4, 0) != 0
        || il_body_string(r, &in[0], IL_TICKET_TEXT_MAX, &c->kind) != 0)
    {
        return -1;
    }

    if (!il_name_valid(c->kind)) {
        il_body_invalid(r, "kind", c->kind.data == NULL ? "is missing"
                        : "must be the name of a kind");
        return -1;
    }

    if (il_submit_key(r, &in[1], &c->work_key) != 0
        || il_body_string(r, &in[2], IL_TICKET_TEXT_MAX, &c->user) != 0
        || il_body_int(r, &in[3], 1, IL_TICKET_SECONDS_MAX, &seconds) != 0)
    {
        return -1;
    }

    if (!il_ticket_user_valid(c->user)) {
        il_body_invalid(r, "user", c->user.len == 0
                        ? "is missing: it says who presses the button"
                        : "has more than 255 bytes, or control characters");
        return -1;
    }

    il_uuid7(c->id, (uint64_t) il_wall_ms());
    c->tenant = il_cstr(r->who.tenant_name);
    c->iat = il_wall_ms() / 1000;
    c->exp = c->iat + seconds;

    return 0;
}


void
il_ticket_post(il_req_t *r)
{
    il_ticket_read_t  *t;

    t = il_pool_get(&r->pool, sizeof(il_ticket_read_t));
    if (t == NULL) {
        il_req_internal(r);
        return;
    }

    if (il_ticket_read(r, &t->claims) != 0) {
        return;
    }

    t->r = r;
    t->read.sql = "select * from interlock.ticket_check($1, $2, $3)";
    t->read.signature = "ITT";
    t->read.put = il_ticket_put;
    t->read.done = il_ticket_done;

    if (il_lane_put(&il_srv.read, &t->read.item) != 0) {
        il_req_unavailable(r);
    }
}
