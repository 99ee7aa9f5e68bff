/*
 * dsn.c: the owner's connection to the database.
 */

#include <string.h>

#include "dsn.h"


int
il_dsn_open(const il_common_t *c, il_db_t **db)
{
    int       rc;
    char      err[IL_DB_ERR_CAP];
    il_buf_t  dsn;

    *db = NULL;

    if (c->dsn_file == NULL || c->dsn_file[0] == '\0') {
        il_err("the owner's connection string is needed: --dsn-file FILE or"
               " INTERLOCK_DSN_FILE");
        return EX_USAGE;
    }

    memset(&dsn, 0, sizeof(dsn));
    rc = il_file_secret(&dsn, c->dsn_file);

    if (rc == 0) {
        *db = il_db_open(dsn.data, "interlock", 0, err, sizeof(err));

        if (*db == NULL) {
            il_err("cannot connect to the database: %s", err);
            rc = EX_UNAVAILABLE;
        }
    }

    il_buf_free(&dsn);

    return rc;
}


static int
il_dsn_rc(il_db_t *db, const char *what, il_db_rc_e rc)
{
    switch (rc) {

    case IL_DB_OK:
        return 0;

    case IL_DB_RETRY:
        il_err("%s: %s; run it again", what, il_db_error(db));
        return EX_TEMPFAIL;

    case IL_DB_UNKNOWN:
        il_err("%s: %s; whether it was done is not known, running it again"
               " is safe", what, il_db_error(db));
        return EX_TEMPFAIL;

    case IL_DB_UNEXPECTED:
        break;
    }

    if (strcmp(il_db_sqlstate(db), "42501") == 0) {
        il_err("%s: %s (is this the owner's connection string?)", what,
               il_db_error(db));
        return EX_NOPERM;
    }

    if (strcmp(il_db_sqlstate(db), "42883") == 0
        || strcmp(il_db_sqlstate(db), "3F000") == 0
        || strcmp(il_db_sqlstate(db), "42P01") == 0)
    {
        il_err("%s: %s (has `interlock migrate` been run?)", what,
               il_db_error(db));
        return EX_CONFIG;
    }

    il_err("%s: %s", what, il_db_error(db));

    return EX_SOFTWARE;
}


int
il_dsn_call(il_db_t *db, const char *sql, il_db_args_t *args,
    il_db_result_t **res)
{
    il_db_rc_e  rc;

    rc = il_db_call(db, sql, args, IL_DSN_TIMEOUT, res);
    il_db_args_free(args);

    return il_dsn_rc(db, "database", rc);
}


int
il_dsn_script(il_db_t *db, const char *what, const char *sql)
{
    return il_dsn_rc(db, what, il_db_script(db, sql));
}


int
il_dsn_tenant(il_db_t *db, const char *name, int32_t *tenant)
{
    int              rc;
    int64_t          n;
    il_db_args_t     args;
    il_db_result_t  *res;

    il_db_args_init(&args, "T");
    il_db_put_text(&args, 0, il_cstr(name));
    rc = il_dsn_call(db, "select tenant from interlock.tenant_find($1)",
                     &args, &res);
    if (rc != 0) {
        return rc;
    }

    if (il_db_rows(res) == 0
        || il_db_cell_int(res, 0, il_db_column(res, "tenant"), &n) != 0)
    {
        il_err("no such tenant: %s", name);
        rc = EX_NOINPUT;

    } else {
        *tenant = (int32_t) n;
    }

    il_db_result_free(res);

    return rc;
}
