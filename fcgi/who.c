/*
 * who.c: who asks, and why.
 */

#include "il_enc.h"
#include "who.h"


int
il_who_read(il_req_t *r, il_who_t *who, il_field_t *in, size_t n, int empty)
{
    il_uuid7(who->call, (uint64_t) il_wall_ms());

    if (il_body_fields(r, in, n, empty) != 0
        || il_body_string(r, &in[0], IL_WHO_MAX, &who->requested_by) != 0
        || il_body_string(r, &in[1], IL_WHO_MAX, &who->reason) != 0)
    {
        return -1;
    }

    if (who->requested_by.len > 0 && il_is_blank(who->requested_by)) {
        il_body_invalid(r, "requested_by", "is blank");
        return -1;
    }

    if (who->reason.len > 0 && il_is_blank(who->reason)) {
        il_body_invalid(r, "reason", "is blank");
        return -1;
    }

    return 0;
}


int
il_who_demand(il_req_t *r, const il_who_t *who)
{
    if (who->requested_by.len == 0) {
        il_body_invalid(r, "requested_by", "is missing");
        return -1;
    }

    if (who->reason.len == 0) {
        il_body_invalid(r, "reason", "is missing");
        return -1;
    }

    return 0;
}


void
il_who_put(il_db_args_t *args, size_t i, const il_req_t *r,
    const il_who_t *who)
{
    il_db_put_text(args, i, who->requested_by);
    il_db_put_text(args, i + 1, who->reason);
    il_db_put_big(args, i + 2, r->who.token_id);
    il_db_put_text(args, i + 3, il_cstr(r->who.token_name));
}


void
il_who_put_call(il_db_args_t *args, size_t i, const il_req_t *r,
    const il_who_t *who)
{
    il_who_put(args, i, r, who);
    il_db_put_uuid(args, i + 4, who->call);
}
