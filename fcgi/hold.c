/*
 * hold.c: what the edge is told about work keys that it may answer for.
 *
 * A submission's answer may grant it a hold (submit_deal.c); the answer that
 * ends the job takes it back.  The work goes by its hash: a work key may be
 * longer than what a proxy has room for in a response's head.
 */

#include "hold.h"
#include "il_enc.h"
#include "il_hash.h"


void
il_hold_ended(il_req_t *r, il_str_t work_key, il_str_t job)
{
    char     value[IL_HOLD_ENDED];
    uint8_t  hash[IL_WORK_BYTES];

    if (work_key.data == NULL || job.data == NULL || job.len != IL_UUID_TEXT) {
        return;
    }

    il_work_hash(hash, il_cstr(r->who.tenant_name), work_key);
    il_hex_encode(value, hash, sizeof(hash));

    value[2 * IL_WORK_BYTES] = ';';
    memcpy(value + 2 * IL_WORK_BYTES + 1, job.data, IL_UUID_TEXT);

    if (r->sub != NULL) {
        memcpy(r->sub->text, value, sizeof(value));
        r->sub->ended = il_str(r->sub->text, sizeof(value));
        return;
    }

    il_req_header(r, "Interlock-Work-Done", il_str(value, sizeof(value)));
}
