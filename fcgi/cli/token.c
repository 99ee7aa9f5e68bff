/*
 * token.c: API tokens, made straight in the database by its owner (there is
 * no HTTP call that could make one, so no token can beget another).
 *
 * Only a BLAKE2b-256 digest is stored.  The token is 256 random bits, so a
 * plain digest cannot be turned back; it is written to a file of mode 0600
 * and never to an argument list.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "cmds.h"
#include "dsn.h"
#include "il_enc.h"
#include "il_hash.h"
#include "il_key.h"
#include "il_time.h"

#define IL_TOKEN_PREFIX  "ilk_"


typedef struct {
    il_common_t  common;
    const char  *tenant;
    const char  *name;
    const char  *role;
    const char  *out;
} il_token_opts_t;


static int il_token_create(void *opts, const il_args_t *args);
static int il_token_revoke(void *opts, const il_args_t *args);
static int il_token_list(void *opts, const il_args_t *args);


#define IL_TOKEN_OPT_TENANT                                                   \
    { "tenant", IL_OPT_STR, offsetof(il_token_opts_t, tenant), "NAME",        \
      "tenant the token belongs to", 0, 0, 0 }

static const il_opt_t  il_token_create_opts[] = {
    IL_TOKEN_OPT_TENANT,
    { "name", IL_OPT_STR, offsetof(il_token_opts_t, name), "NAME",
      "what the token is called in the audit", 0, 0, 0 },
    { "role", IL_OPT_STR, offsetof(il_token_opts_t, role), "ROLE",
      "submit, worker, operator or auditor", 0, 0, 0 },
    { "out", IL_OPT_STR, offsetof(il_token_opts_t, out), "FILE",
      "new file for the token, mode 0600 (- for standard output)", 0, 0, 0 },
    IL_OPT_END
};

static const il_opt_t  il_token_opts[] = {
    IL_TOKEN_OPT_TENANT,
    IL_OPT_END
};


const il_cmd_t  il_cmd_token_create = {
    "token create", il_token_create, "make an API token",
    "--tenant T --name N --role R --out FILE",
    "Makes an API token and writes it to a new file of mode 0600; an existing\n"
    "file is not replaced.  The tenant is made if it is not there.  The\n"
    "database keeps only a digest, so a lost token is revoked, not found.",
    il_token_create_opts, sizeof(il_token_opts_t), IL_CMD_DSN, 0, 0
};

const il_cmd_t  il_cmd_token_revoke = {
    "token revoke", il_token_revoke, "revoke an API token",
    "--tenant T ID",
    "Revokes the token with this number (see `interlock token list`).\n"
    "Exit code 1 if there is none, or it was revoked before.",
    il_token_opts, sizeof(il_token_opts_t), IL_CMD_DSN, 1, 1
};

const il_cmd_t  il_cmd_token_list = {
    "token list", il_token_list, "list the API tokens of a tenant",
    "--tenant T",
    "One line a token: number, role, name and times.  Never the token.",
    il_token_opts, sizeof(il_token_opts_t), IL_CMD_DSN, 0, 0
};


static int
il_token_need(const il_args_t *args, const char *option, const char *value)
{
    if (value == NULL || value[0] == '\0') {
        il_err("%s: --%s is needed", args->cmd->name, option);
        return EX_USAGE;
    }

    return 0;
}


static int
il_token_tenant(const il_args_t *args, const char *tenant)
{
    int  rc;

    rc = il_token_need(args, "tenant", tenant);

    if (rc == 0 && !il_name_valid(il_cstr(tenant))) {
        il_err("not a tenant's name (a-z, 0-9, \".\", \"_\", \"-\"): %s",
               tenant);
        rc = EX_USAGE;
    }

    return rc;
}


static int
il_token_role(const char *role)
{
    static const char *const  roles[] = {
        "submit", "worker", "operator", "auditor", NULL
    };

    for (size_t i = 0; roles[i] != NULL; i++) {
        if (strcmp(role, roles[i]) == 0) {
            return 0;
        }
    }

    il_err("not a role (submit, worker, operator, auditor): %s", role);

    return EX_USAGE;
}


/* Makes the tenant and the row; *id is the token's number. */
static int
il_token_store(il_db_t *db, const il_token_opts_t *o, il_str_t token,
    int64_t *id)
{
    int              rc;
    uint8_t          hash[32];
    int64_t          tenant;
    il_db_args_t     args;
    il_db_result_t  *res;

    il_db_args_init(&args, "T");
    il_db_put_text(&args, 0, il_cstr(o->tenant));
    rc = il_dsn_call(db, "select interlock.tenant_create($1) as tenant",
                     &args, &res);
    if (rc != 0) {
        return rc;
    }

    rc = il_db_cell_int(res, 0, il_db_column(res, "tenant"), &tenant);
    il_db_result_free(res);

    if (rc != 0) {
        il_err("the database gave no number for the tenant");
        return EX_PROTOCOL;
    }

    il_digest(hash, token);
    il_db_args_init(&args, "ITTY");
    il_db_put_int(&args, 0, (int32_t) tenant);
    il_db_put_text(&args, 1, il_cstr(o->name));
    il_db_put_text(&args, 2, il_cstr(o->role));
    il_db_put_bytes(&args, 3, il_str((char *) hash, sizeof(hash)));

    rc = il_dsn_call(db, "select interlock.token_create($1, $2, $3, $4) as id",
                     &args, &res);
    if (rc != 0) {
        return rc;
    }

    rc = il_db_cell_int(res, 0, il_db_column(res, "id"), id);
    il_db_result_free(res);

    if (rc != 0) {
        il_err("the database gave no number for the token");
        return EX_PROTOCOL;
    }

    return 0;
}


static void
il_token_say(const il_token_opts_t *o, int64_t id)
{
    il_buf_t  b;

    if (!o->common.json) {
        il_err("token %lld (%s, %s) written to %s", (long long) id, o->name,
               o->role, o->out);
        return;
    }

    memset(&b, 0, sizeof(b));
    il_buf_printf(&b, "{\"id\":%lld,\"name\":", (long long) id);
    il_buf_json(&b, il_cstr(o->name));
    il_buf_puts(&b, ",\"role\":");
    il_buf_json(&b, il_cstr(o->role));
    il_buf_puts(&b, ",\"file\":");
    il_buf_json(&b, il_cstr(o->out));
    il_buf_puts(&b, "}");
    il_out_line(stdout, il_buf_str(&b));
    il_buf_free(&b);
}


static int
il_token_create(void *opts, const il_args_t *args)
{
    int               rc, to_stdout;
    char              token[sizeof(IL_TOKEN_PREFIX)
                            + il_b64_encoded_cap(32) + 1];
    size_t            len;
    int64_t           id;
    uint8_t           bytes[32];
    il_db_t          *db;
    il_token_opts_t  *o;

    o = opts;

    if ((rc = il_token_tenant(args, o->tenant)) != 0
        || (rc = il_token_need(args, "name", o->name)) != 0
        || (rc = il_token_need(args, "role", o->role)) != 0
        || (rc = il_token_need(args, "out", o->out)) != 0
        || (rc = il_token_role(o->role)) != 0)
    {
        return rc;
    }

    to_stdout = (strcmp(o->out, "-") == 0);

    if (to_stdout && o->common.json) {
        il_err("token create: --json and --out - exclude each other");
        return EX_USAGE;
    }

    rc = il_dsn_open(&o->common, &db);

    if (rc != 0) {
        return rc;
    }

    randombytes_buf(bytes, sizeof(bytes));
    memcpy(token, IL_TOKEN_PREFIX, sizeof(IL_TOKEN_PREFIX) - 1);
    len = il_b64_encode(token + sizeof(IL_TOKEN_PREFIX) - 1,
                        il_b64_encoded_cap(32), bytes, sizeof(bytes),
                        IL_B64_URL_NOPAD);
    len += sizeof(IL_TOKEN_PREFIX) - 1;
    token[len] = '\n';
    sodium_memzero(bytes, sizeof(bytes));

    /* the file first: a token that is valid but was never written down
     * would be worse than a file whose token is not valid */

    if (!to_stdout) {
        rc = il_file_create(o->out, token, len + 1);
    }

    if (rc == 0) {
        rc = il_token_store(db, o, il_str(token, len), &id);

        if (rc != 0 && !to_stdout) {
            (void) unlink(o->out);
        }
    }

    if (rc == 0 && to_stdout) {
        (void) fwrite(token, 1, len + 1, stdout);

    } else if (rc == 0) {
        il_token_say(o, id);
    }

    sodium_memzero(token, sizeof(token));
    il_db_close(db);

    return il_out_end(rc);
}


static int
il_token_revoke(void *opts, const il_args_t *args)
{
    int               rc;
    int32_t           tenant;
    int64_t           id;
    il_db_t          *db;
    il_db_args_t      a;
    il_db_result_t   *res;
    il_token_opts_t  *o;

    o = opts;
    rc = il_token_tenant(args, o->tenant);

    if (rc != 0) {
        return rc;
    }

    if (il_digits_parse(il_cstr(args->pos.v[0]), 18, &id) != 0) {
        il_err("not a token's number: %s", args->pos.v[0]);
        return EX_USAGE;
    }

    rc = il_dsn_open(&o->common, &db);

    if (rc == 0) {
        rc = il_dsn_tenant(db, o->tenant, &tenant);
    }

    if (rc == 0) {
        il_db_args_init(&a, "IL");
        il_db_put_int(&a, 0, tenant);
        il_db_put_big(&a, 1, id);
        rc = il_dsn_call(db, "select interlock.token_revoke($1, $2) as done",
                         &a, &res);
    }

    if (rc == 0) {
        if (!il_db_cell_bool(res, 0, il_db_column(res, "done"))) {
            il_err("no live token %lld in tenant %s", (long long) id,
                   o->tenant);
            rc = IL_EXIT_NO;

        } else if (o->common.json) {
            (void) printf("{\"id\":%lld,\"revoked\":true}\n", (long long) id);

        } else {
            (void) printf("revoked %lld\n", (long long) id);
        }

        il_db_result_free(res);
    }

    il_db_close(db);

    return il_out_end(rc);
}


static void
il_token_print(il_db_result_t *res, int json)
{
    size_t      r, c;
    il_buf_t    b;
    il_str_t    v;

    static const char *const  columns[] = {
        "id", "role", "name", "created_at", "revoked_at"
    };

    memset(&b, 0, sizeof(b));

    for (r = 0; r < il_db_rows(res); r++) {
        il_buf_puts(&b, !json ? "" : (r == 0 ? "{" : ",{"));

        for (c = 0; c < sizeof(columns) / sizeof(columns[0]); c++) {
            v = il_db_cell(res, r, il_db_column(res, columns[c]));

            if (!json) {
                il_buf_puts(&b, c == 0 ? "" : "  ");
                il_buf_add(&b, v.data == NULL ? "-" : v.data,
                           v.data == NULL ? 1 : v.len);
                continue;
            }

            il_buf_printf(&b, "%s\"%s\":", c == 0 ? "" : ",", columns[c]);

            if (v.data == NULL) {
                il_buf_puts(&b, "null");

            } else if (c == 0) {
                il_buf_add(&b, v.data, v.len);

            } else {
                il_buf_json(&b, v);
            }
        }

        il_buf_puts(&b, json ? "}" : "\n");
    }

    if (json) {
        (void) fputs("{\"items\":[", stdout);
    }

    (void) fwrite(b.data == NULL ? "" : b.data, 1, b.len, stdout);

    if (json) {
        (void) fputs("],\"next\":null}\n", stdout);
    }

    il_buf_free(&b);
}


static int
il_token_list(void *opts, const il_args_t *args)
{
    int               rc;
    int32_t           tenant;
    il_db_t          *db;
    il_db_args_t      a;
    il_db_result_t   *res;
    il_token_opts_t  *o;

    o = opts;
    rc = il_token_tenant(args, o->tenant);

    if (rc != 0) {
        return rc;
    }

    rc = il_dsn_open(&o->common, &db);

    if (rc == 0) {
        rc = il_dsn_tenant(db, o->tenant, &tenant);
    }

    if (rc == 0) {
        il_db_args_init(&a, "I");
        il_db_put_int(&a, 0, tenant);
        rc = il_dsn_call(db, "select * from interlock.token_list($1)", &a,
                         &res);
    }

    if (rc == 0) {
        il_token_print(res, o->common.json);
        il_db_result_free(res);
    }

    il_db_close(db);

    return il_out_end(rc);
}
