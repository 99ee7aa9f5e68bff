/*
 * seal.c: makes a chain of the history of effects.
 *
 * Each row's hash covers the one before it in its tenant, so that a row that
 * is changed, removed or put in between afterwards is found.  That is done
 * here, a moment after the row was written, and not in the transaction that
 * wrote it: a chain is a queue, and effects do not wait for each other.
 */

#include <stdlib.h>

#include "il_chain.h"
#include "log.h"
#include "seal.h"
#include "server.h"


#define IL_SEAL_LIMIT      500
#define IL_SEAL_PASSES     20
#define IL_SEAL_CANON_MAX  (1 << 20)


typedef struct {
    int       tenant;
    int       n;
    int       history;
    int       prev;
    int       canonical;
} il_seal_columns_t;


/* One link: prev is the hash of the row before, unless the row brings one
 * (it is the first of its tenant here).  0 and hash, or -1. */

static int
il_seal_row(const il_db_result_t *res, size_t row,
    const il_seal_columns_t *col, uint8_t prev[IL_CHAIN_BYTES],
    il_db_args_t *args)
{
    size_t    len;
    uint8_t   hash[IL_CHAIN_BYTES], *bytes;
    int64_t   tenant, n, history;
    il_str_t  cell, canonical;

    cell = il_db_cell(res, row, col->prev);

    if (cell.data != NULL
        && (il_db_bytes_len(cell) != IL_CHAIN_BYTES
            || il_db_bytes_decode(cell, prev) != 0))
    {
        return -1;
    }

    canonical = il_db_cell(res, row, col->canonical);
    len = il_db_bytes_len(canonical);

    if (il_db_cell_int(res, row, col->tenant, &tenant) != 0
        || il_db_cell_int(res, row, col->n, &n) != 0 || n < 1
        || il_db_cell_int(res, row, col->history, &history) != 0
        || canonical.data == NULL || len > IL_SEAL_CANON_MAX)
    {
        return -1;
    }

    bytes = malloc(len + 1);

    if (bytes == NULL || il_db_bytes_decode(canonical, bytes) != 0) {
        free(bytes);
        return -1;
    }

    il_chain_hash(hash, prev, (uint64_t) n,
                  il_str((const char *) bytes, len));
    free(bytes);

    il_db_put_int(args, 0, (int32_t) tenant);
    il_db_put_big(args, 1, n);
    il_db_put_big(args, 2, history);
    il_db_put_bytes(args, 3, il_str((const char *) prev, IL_CHAIN_BYTES));
    il_db_put_bytes(args, 4, il_str((const char *) hash, IL_CHAIN_BYTES));

    memcpy(prev, hash, IL_CHAIN_BYTES);

    return 0;
}


/* Another sealer that was first is no trouble: it has done the work. */

static int
il_seal_pass(il_link_t *link, size_t *rows)
{
    size_t              row;
    uint8_t             prev[IL_CHAIN_BYTES];
    il_db_args_t        args;
    il_db_rc_e          rc;
    il_db_result_t     *res;
    il_seal_columns_t   col;

    il_db_args_init(&args, "I");
    il_db_put_int(&args, 0, IL_SEAL_LIMIT);
    rc = il_link_call(link, "select * from interlock.effects_unsealed($1)",
                      &args, &res);
    il_db_args_free(&args);

    if (rc != IL_DB_OK) {
        return -1;
    }

    *rows = il_db_rows(res);
    col.tenant = il_db_column(res, "tenant");
    col.n = il_db_column(res, "n");
    col.history = il_db_column(res, "history_id");
    col.prev = il_db_column(res, "prev");
    col.canonical = il_db_column(res, "canonical");

    il_db_args_init(&args, "illyy");
    memset(prev, 0, sizeof(prev));

    for (row = 0; row < *rows; row++) {
        if (il_seal_row(res, row, &col, prev, &args) != 0) {
            il_log(IL_LOG_ERROR, "the history of effects cannot be sealed: "
                   "row %zu of what is to be sealed is not fit", row);
            il_db_args_free(&args);
            il_db_result_free(res);
            return -1;
        }
    }

    il_db_result_free(res);

    rc = IL_DB_OK;

    if (*rows > 0) {
        rc = il_link_call(link, "select * from interlock.effects_seal($1, "
                          "$2, $3, $4, $5)", &args, &res);

        if (rc == IL_DB_OK) {
            il_db_result_free(res);
        }
    }

    il_db_args_free(&args);

    return rc == IL_DB_OK ? 0 : -1;
}


void
il_seal(il_link_t *link)
{
    size_t    rows;
    unsigned  pass;

    for (pass = 0; pass < IL_SEAL_PASSES; pass++) {
        if (il_seal_pass(link, &rows) != 0 || rows < IL_SEAL_LIMIT) {
            return;
        }
    }
}
