/*
 * audit_verify.c: recomputes the chain over a tenant's history of effects
 * (il_chain.h), straight from the database: whoever may change rows there
 * cannot also make the hashes fit without making all later ones anew, and
 * then the end differs from the one that was written down elsewhere.
 */

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "cmds.h"
#include "dsn.h"
#include "il_chain.h"
#include "il_enc.h"
#include "il_key.h"

#define IL_CHAIN_PAGE       500
#define IL_CHAIN_HEX        (2 * IL_CHAIN_BYTES)


typedef struct {
    il_common_t  common;
    const char  *tenant;
    const char  *known;
} il_averify_opts_t;

typedef struct {
    int32_t      tenant;
    il_db_t     *db;

    int64_t      known;             /* a link whose hash is known; 0: none */
    uint8_t      known_hash[IL_CHAIN_BYTES];

    int64_t      links;
    uint8_t      hash[IL_CHAIN_BYTES];
    int64_t      unsealed;

    const char  *trouble;           /* NULL: none */
    int64_t      link;              /* where; 0: nowhere */
    int64_t      history;
} il_averify_t;


static int il_averify(void *opts, const il_args_t *args);


static const il_opt_t  il_averify_opts[] = {
    { "tenant", IL_OPT_STR, offsetof(il_averify_opts_t, tenant), "NAME",
      "whose history", 0, 0, 0 },
    { "known", IL_OPT_STR, offsetof(il_averify_opts_t, known), "N:HASH",
      "a link that was written down earlier, which must be there still",
      0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_audit_verify = {
    "audit verify", il_averify, "find changed rows in the history of effects",
    "--tenant T",
    "Computes the chain over the history of a tenant's effects anew and says\n"
    "where it first differs: a row that was changed, removed, or put in.  Write\n"
    "the link that it ends with down elsewhere, and give it as --known later:\n"
    "then a chain that was made anew as a whole is found, too.\n"
    "Exit code 0 if all is well, 1 if not.",
    il_averify_opts, sizeof(il_averify_opts_t), IL_CMD_DSN, 0, 0
};


/* The first trouble counts. */
static void
il_averify_found(il_averify_t *v, const char *trouble, int64_t link,
    int64_t history)
{
    if (v->trouble == NULL) {
        v->trouble = trouble;
        v->link = link;
        v->history = history;
    }
}


static int
il_averify_known(const char *text, il_averify_t *v)
{
    char         *end;
    const char   *colon;
    il_str_t      hex;

    colon = strchr(text, ':');

    if (colon != NULL) {
        hex = il_cstr(colon + 1);
        v->known = strtoll(text, &end, 10);

        if (end == colon && v->known > 0 && hex.len == IL_CHAIN_HEX
            && il_hex_decode(v->known_hash, IL_CHAIN_BYTES, hex) == 0)
        {
            return 0;
        }
    }

    il_err("audit verify: --known is N:HASH, as this command prints it");

    return EX_USAGE;
}


static int
il_averify_hash_cell(const il_db_result_t *res, size_t row, const char *name,
    uint8_t hash[IL_CHAIN_BYTES])
{
    il_str_t  cell;

    cell = il_db_cell(res, row, il_db_column(res, name));

    return il_db_bytes_len(cell) == IL_CHAIN_BYTES
           && il_db_bytes_decode(cell, hash) == 0 ? 0 : -1;
}


/* One link: it must follow the one before, and cover what its row says. */
static int
il_averify_link(il_averify_t *v, const il_db_result_t *res, size_t row)
{
    size_t    len;
    int64_t   n, history;
    uint8_t  *bytes, prev[IL_CHAIN_BYTES], hash[IL_CHAIN_BYTES];
    uint8_t   want[IL_CHAIN_BYTES];
    il_str_t  canonical;

    if (il_db_cell_int(res, row, il_db_column(res, "n"), &n) != 0
        || il_db_cell_int(res, row, il_db_column(res, "history_id"), &history)
           != 0
        || il_averify_hash_cell(res, row, "prev", prev) != 0
        || il_averify_hash_cell(res, row, "hash", hash) != 0)
    {
        il_err("the database gave a link that is none");
        return EX_PROTOCOL;
    }

    canonical = il_db_cell(res, row, il_db_column(res, "canonical"));

    if (n != v->links + 1) {
        il_averify_found(v, "a link is missing", v->links + 1, 0);

    } else if (sodium_memcmp(prev, v->hash, sizeof(prev)) != 0) {
        il_averify_found(v, "the chain is broken", n, history);

    } else if (canonical.data == NULL) {
        il_averify_found(v, "a row was removed", n, history);

    } else {
        len = il_db_bytes_len(canonical);
        bytes = il_xalloc(len + 1, 1);

        if (il_db_bytes_decode(canonical, bytes) != 0) {
            free(bytes);
            il_err("the database gave a row that is none");
            return EX_PROTOCOL;
        }

        il_chain_hash(want, prev, (uint64_t) n,
                      il_str((const char *) bytes, len));
        free(bytes);

        if (sodium_memcmp(want, hash, sizeof(want)) != 0) {
            il_averify_found(v, "a row was changed", n, history);
        }
    }

    if (n == v->known
        && sodium_memcmp(hash, v->known_hash, sizeof(hash)) != 0)
    {
        il_averify_found(v, "the link is not the one that was known", n,
                         history);
    }

    v->links = n;
    memcpy(v->hash, hash, sizeof(hash));

    return 0;
}


static int
il_averify_links(il_averify_t *v)
{
    int              rc;
    size_t           row, rows;
    il_db_args_t     args;
    il_db_result_t  *res;

    do {
        il_db_args_init(&args, "ILI");
        il_db_put_int(&args, 0, v->tenant);
        il_db_put_big(&args, 1, v->links);
        il_db_put_int(&args, 2, IL_CHAIN_PAGE);

        rc = il_dsn_call(v->db, "select * from interlock.effects_chain($1, "
                         "$2, $3)", &args, &res);
        if (rc != 0) {
            return rc;
        }

        rows = il_db_rows(res);

        for (row = 0; rc == 0 && row < rows; row++) {
            rc = il_averify_link(v, res, row);
        }

        il_db_result_free(res);

    } while (rc == 0 && rows == IL_CHAIN_PAGE);

    return rc;
}


/* The end that the chain should have; links may have been made since. */
static int
il_averify_end(il_averify_t *v, const il_db_result_t *res)
{
    int      rc;
    int64_t  links;
    uint8_t  hash[IL_CHAIN_BYTES];

    if (il_db_cell_int(res, 0, il_db_column(res, "links"), &links) != 0
        || il_averify_hash_cell(res, 0, "hash", hash) != 0)
    {
        il_err("the database gave no end of the chain");
        return EX_PROTOCOL;
    }

    if (links > v->links) {
        rc = il_averify_links(v);
        if (rc != 0) {
            return rc;
        }
    }

    if (links > v->links) {
        il_averify_found(v, "a link is missing", v->links + 1, 0);

    } else if (links == v->links
               && sodium_memcmp(hash, v->hash, sizeof(hash)) != 0)
    {
        il_averify_found(v, "the chain's end is not its last link", links, 0);
    }

    return 0;
}


/* Rows that are no link: not sealed yet, or put in afterwards. */
static int
il_averify_rest(il_averify_t *v)
{
    int              rc, more;
    int64_t          after, unsealed, inserted;
    il_db_args_t     args;
    il_db_result_t  *res;

    after = INT64_MIN;

    do {
        il_db_args_init(&args, "ILI");
        il_db_put_int(&args, 0, v->tenant);
        il_db_put_big(&args, 1, after);
        il_db_put_int(&args, 2, IL_CHAIN_PAGE);

        rc = il_dsn_call(v->db, "select * from interlock.effects_chain_rest("
                         "$1, $2, $3)", &args, &res);
        if (rc != 0) {
            return rc;
        }

        rc = after == INT64_MIN ? il_averify_end(v, res) : 0;

        more = il_db_cell_int(res, 0, il_db_column(res, "last"), &after) == 0;

        if (il_db_cell_int(res, 0, il_db_column(res, "unsealed"), &unsealed)
            == 0)
        {
            v->unsealed += unsealed;
        }

        if (il_db_cell_int(res, 0, il_db_column(res, "inserted"), &inserted)
            == 0)
        {
            il_averify_found(v, "a row was put in", 0, inserted);
        }

        il_db_result_free(res);

    } while (rc == 0 && more);

    return rc;
}


static void
il_averify_say(const il_averify_opts_t *o, const il_averify_t *v)
{
    char      hex[IL_CHAIN_HEX + 1];
    il_buf_t  b;

    il_hex_encode(hex, v->hash, IL_CHAIN_BYTES);

    if (o->common.json) {
        memset(&b, 0, sizeof(b));
        il_buf_puts(&b, "{\"tenant\":");
        il_buf_json(&b, il_cstr(o->tenant));
        il_buf_printf(&b, ",\"links\":%lld,\"unsealed\":%lld,\"hash\":\"%s\"",
                      (long long) v->links, (long long) v->unsealed, hex);
        il_buf_puts(&b, ",\"trouble\":");

        if (v->trouble == NULL) {
            il_buf_puts(&b, "null}");

        } else {
            il_buf_json(&b, il_cstr(v->trouble));
            il_buf_printf(&b, ",\"link\":%lld,\"history_id\":%lld}",
                          (long long) v->link, (long long) v->history);
        }

        il_out_line(stdout, il_buf_str(&b));
        il_buf_free(&b);

        return;
    }

    if (v->trouble != NULL) {
        (void) printf("%s: %s (link %lld, row %lld)\n", o->tenant, v->trouble,
                      (long long) v->link, (long long) v->history);
        return;
    }

    (void) printf("%s: %lld rows as they were written, %lld not sealed yet\n"
                  "%lld:%s\n", o->tenant, (long long) v->links,
                  (long long) v->unsealed, (long long) v->links, hex);
}


static int
il_averify(void *opts, const il_args_t *args)
{
    int                 rc;
    il_averify_t        v;
    il_averify_opts_t  *o;

    o = opts;
    memset(&v, 0, sizeof(v));

    if (o->tenant == NULL || !il_name_valid(il_cstr(o->tenant))) {
        il_err("%s: --tenant with a tenant's name is needed",
               args->cmd->name);
        return EX_USAGE;
    }

    if (o->known != NULL) {
        rc = il_averify_known(o->known, &v);
        if (rc != 0) {
            return rc;
        }
    }

    rc = il_dsn_open(&o->common, &v.db);
    if (rc != 0) {
        return rc;
    }

    if ((rc = il_dsn_tenant(v.db, o->tenant, &v.tenant)) == 0
        && (rc = il_averify_links(&v)) == 0
        && (rc = il_averify_rest(&v)) == 0)
    {
        if (v.known > v.links) {
            il_averify_found(&v, "the link that was known is not there",
                             v.known, 0);
        }

        il_averify_say(o, &v);
        rc = v.trouble == NULL ? 0 : IL_EXIT_NO;
    }

    il_db_close(v.db);

    return il_out_end(rc);
}
