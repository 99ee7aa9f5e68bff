/*
 * find.c: GET /v1/search, what a text may be; GET /v1/jobs/{id}/payload, the
 * bytes that came with a job.
 */

#include <stdlib.h>

#include "il_enc.h"
#include "il_key.h"
#include "il_uuid.h"
#include "list.h"
#include "route.h"


/* ------------------------------------------------------------------ search */


void
il_find_search(il_req_t *r)
{
    il_doc_t    *d;
    il_query_t   q[] = { { .name = "q" } };

    d = il_doc_new(r, "select * from interlock.search($1, $2)", "IT",
                   il_doc_put, il_doc_list_done);

    if (d == NULL || il_query_read(r, q, 1) != 0
        || il_list_text(r, &q[0], IL_KEY_MAX, &d->text) != 0)
    {
        return;
    }

    d->text = il_str_trim(d->text);

    if (d->text.len == 0) {
        il_query_invalid(r, "q", "is missing");
        return;
    }

    il_doc_queue(d);
}


/* ----------------------------------------------------------------- payload */


static void
il_find_put_payload(il_read_t *read, il_db_args_t *args)
{
    il_doc_t  *d = (il_doc_t *) read;

    il_db_put_int(args, 0, d->r->who.tenant);
    il_db_put_uuid(args, 1, d->more);
}


/* What a sender named goes into the answer's head only as it may stand
 * there. */

static int
il_find_type_fit(il_str_t type)
{
    size_t  i;

    if (type.data == NULL || type.len == 0 || type.len > 255) {
        return 0;
    }

    for (i = 0; i < type.len; i++) {
        if (type.data[i] < 0x20 || type.data[i] > 0x7e) {
            return 0;
        }
    }

    return 1;
}


/* Somebody else wrote it: no browser may take it for a page, a script or an
 * image, whatever its sender called it. */

static void
il_find_payload_done(il_read_t *read, il_db_result_t *res, il_problem_e p)
{
    size_t     n;
    uint8_t   *raw;
    il_req_t  *r = ((il_doc_t *) read)->r;
    il_str_t   cell, type;

    if (res == NULL) {
        il_req_fail_item(&r->item, p);
        return;
    }

    if (il_db_rows(res) == 0) {
        il_req_problem(r, IL_P_NOT_FOUND, "There is no such job.");
        return;
    }

    cell = il_db_cell(res, 0, il_db_column(res, "payload"));
    type = il_db_cell(res, 0, il_db_column(res, "content_type"));
    n = il_db_bytes_len(cell);

    raw = malloc(n + 1);
    if (raw == NULL || il_db_bytes_decode(cell, raw) != 0) {
        free(raw);
        il_req_internal(r);
        return;
    }

    il_req_header(r, "X-Content-Type-Options", il_cstr("nosniff"));
    il_req_header(r, "Content-Disposition",
                  il_cstr("attachment; filename=\"payload\""));
    il_req_header(r, "Content-Security-Policy",
                  il_cstr("default-src 'none'; sandbox"));

    if (il_find_type_fit(type)) {
        il_req_header(r, "Interlock-Payload-Type", type);
    }

    r->status = 200;
    r->type = il_utf8_valid(il_str((char *) raw, n))
              ? "text/plain; charset=utf-8" : "application/octet-stream";

    il_buf_add(&r->out, il_str((char *) raw, n));
    free(raw);

    il_req_done(r);
}


void
il_find_payload(il_req_t *r)
{
    il_doc_t  *d;

    d = il_doc_more(r, "select * from interlock.job_payload($1, $2)", "IU",
                    il_find_put_payload, il_find_payload_done,
                    IL_UUID_BYTES);
    if (d == NULL) {
        return;
    }

    if (il_uuid_parse(d->more, r->args[0]) != 0) {
        il_req_problem(r, IL_P_NOT_FOUND, "There is no such job.");
        return;
    }

    il_doc_queue(d);
}
