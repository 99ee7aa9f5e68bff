/*
 * dsn.h: the owner's connection to the database, for the few commands that
 * speak to it and not to the HTTP API.
 */

#ifndef IL_CLI_DSN_H
#define IL_CLI_DSN_H

#include "cli.h"
#include "../db.h"

#define IL_DSN_TIMEOUT  30000       /* ms, for one call */

/* Opens the connection of --dsn-file.  0, or an exit code with the message
 * written; close it with il_db_close(). */
int il_dsn_open(const il_common_t *c, il_db_t **db);

/* One call; args are freed.  0 with *res, or an exit code with the message
 * written. */
int il_dsn_call(il_db_t *db, const char *sql, il_db_args_t *args,
    il_db_result_t **res);

/* One script of constant or file's text.  `what` is for the message. */
int il_dsn_script(il_db_t *db, const char *what, const char *sql);

/* The number of a tenant that must be there.  0, or an exit code with a
 * message. */
int il_dsn_tenant(il_db_t *db, const char *name, int32_t *tenant);

#endif /* IL_CLI_DSN_H */
