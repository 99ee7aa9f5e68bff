/*
 * migrate.h: what the database has of the files in sql/ (also for doctor).
 */

#ifndef IL_CLI_MIGRATE_H
#define IL_CLI_MIGRATE_H

#include "cli.h"
#include "../db.h"

typedef enum {
    IL_MIGRATION_PENDING = 0,
    IL_MIGRATION_APPLIED,
    IL_MIGRATION_CHANGED            /* the file is not what was applied */
} il_migration_state_e;

typedef struct {
    int                   id;       /* migrations only */
    char                 *name;     /* "migrations/001_x.sql" */
    il_buf_t              text;
    uint8_t               digest[32];
    il_migration_state_e  state;
} il_migration_t;

typedef struct {
    il_migration_t  *migrations;
    size_t           nmigrations;
    il_migration_t  *sources;       /* functions in order of name, views */
    size_t           nsources;
    size_t           gone;          /* applied sources without a file */
} il_migrate_t;

/* Reads the files; sql_dir NULL: where the program was installed.  0 or exit
 * code; il_migrate_free() in either case. */
int il_migrate_load(il_migrate_t *mg, const char *sql_dir);
void il_migrate_free(il_migrate_t *mg);

/* The directory beside the program, a new string, or NULL. */
char *il_migrate_find_dir(void);

/* Compares with the database: sets the states.  0 or exit code. */
int il_migrate_look(il_migrate_t *mg, il_db_t *db);

/* How many migrations, and sources, are not applied as the files are. */
size_t il_migrate_pending(const il_migrate_t *mg, size_t *sources);

#endif /* IL_CLI_MIGRATE_H */
