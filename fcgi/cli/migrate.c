/*
 * migrate.c: brings the schema to what the files in sql/ say.
 *
 *   migrations/NNN_name.sql   forward only, each once, in order
 *   functions/NAME.sql        the present text of each verb
 *   views.sql
 *
 * A migration and the row that says it was applied are one transaction, and
 * the functions and views are another, so a crash anywhere leaves a state
 * from which running it again goes on.  Each of these transactions begins by
 * taking one advisory lock and only then looks at what was applied: two
 * migrations at once take turns, and the second finds nothing to do.
 *
 * What runs is the text of files that the owner of the database installed;
 * everything that this file adds to it is constant.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmds.h"
#include "dsn.h"
#include "il_hash.h"
#include "il_time.h"
#include "migrate.h"

#define IL_MIGRATE_FILE_MAX  (4 * 1024 * 1024)

#ifndef IL_DATADIR
#define IL_DATADIR  "/usr/share/interlock"
#endif


typedef struct {
    il_common_t  common;
    const char  *sql_dir;
    int          status;
    int          dry_run;
} il_migrate_opts_t;


static int il_migrate(void *opts, const il_args_t *args);


static const il_opt_t  il_migrate_opts[] = {
    { "sql-dir", IL_OPT_STR, offsetof(il_migrate_opts_t, sql_dir), "DIR",
      "where migrations/, functions/ and views.sql are (default: beside the"
      " program, or as installed)", 0, 0, 0 },
    { "status", IL_OPT_FLAG, offsetof(il_migrate_opts_t, status), NULL,
      "only tell what was applied and what is pending", 0, 0, 0 },
    { "dry-run", IL_OPT_FLAG, offsetof(il_migrate_opts_t, dry_run), NULL,
      "only tell what would be applied", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_migrate = {
    "migrate", il_migrate, "bring the database's schema up to date", "",
    "Applies the numbered migrations that the database does not have yet,\n"
    "each in one transaction with its own record, then the functions and\n"
    "views if any of them changed.  Safe to run twice, and by two at once.\n"
    "With --status: exit code 0 if nothing is pending, 1 if something is.",
    il_migrate_opts, sizeof(il_migrate_opts_t), IL_CMD_DSN, 0, 0
};


/* The lock's number is arbitrary, and known only here. */
static const char  il_migrate_begin[] =
    "begin;"
    " set local lock_timeout = '60s';"
    " select pg_advisory_xact_lock(7074012938164);"
    " set local lock_timeout = '10s'";

static const char  il_migrate_tables[] =
    "create table if not exists interlock.migrations ("
    " id int primary key, name text not null, digest bytea not null,"
    " applied_at timestamptz not null default clock_timestamp());"
    "create table if not exists interlock.sources ("
    " name text primary key, digest bytea not null)";

static const char  il_migrate_exists[] =
    "select to_regclass('interlock.migrations') is not null as migrations,"
    " to_regclass('interlock.sources') is not null as sources";

static const char  il_migrate_rows[] =
    "select id, name, encode(digest, 'hex') as digest, applied_at"
    " from interlock.migrations order by id";

static const char  il_migrate_source_rows[] =
    "select name, encode(digest, 'hex') as digest from interlock.sources"
    " order by name";

static const char  il_migrate_insert[] =
    "insert into interlock.migrations (id, name, digest)"
    " values ($1, $2, $3)";

static const char  il_migrate_upsert[] =
    "insert into interlock.sources (name, digest) values ($1, $2)"
    " on conflict (name) do update set digest = excluded.digest";

static const char  il_migrate_forget[] =
    "delete from interlock.sources where name <> all ($1)";


static int
il_migrate_load_file(il_migration_t *m, const char *dir, const char *name)
{
    int        rc;
    char      *path;
    uint8_t    digest[32];

    path = il_path_join(dir, name);
    rc = il_file_read(&m->text, path, IL_MIGRATE_FILE_MAX);
    free(path);

    if (rc == 0 && strlen(m->text.data) != m->text.len) {
        il_err("%s/%s has a NUL byte", dir, name);
        rc = EX_DATAERR;
    }

    if (rc != 0) {
        return rc;
    }

    il_digest(digest, il_buf_str(&m->text));
    memcpy(m->digest, digest, sizeof(m->digest));
    m->name = il_xstrndup(name, strlen(name));

    return 0;
}


/* "007_name.sql": 7, or -1. */
static int
il_migrate_number(const char *name)
{
    size_t   n;
    int64_t  id;

    n = strspn(name, "0123456789");

    if (n == 0 || name[n] != '_'
        || il_digits_parse(il_str(name, n), 6, &id) != 0)
    {
        return -1;
    }

    return (int) id;
}


static int
il_migrate_load_list(il_migration_t **list, size_t *count, const char *base,
    const char *sub, int numbered)
{
    int         rc;
    char       *dir, *name;
    il_list_t   names;

    dir = il_path_join(base, sub);

    if (il_dir_names(&names, dir, ".sql") != 0) {
        il_err("cannot read %s: %s (is --sql-dir right?)", dir,
               strerror(errno));
        free(dir);
        return EX_NOINPUT;
    }

    *list = il_xalloc(names.n + 1, sizeof(il_migration_t));
    *count = 0;
    rc = 0;

    for (size_t i = 0; i < names.n && rc == 0; i++) {
        il_migration_t  *m = &(*list)[(*count)++];

        name = il_path_join(sub, names.v[i]);
        rc = il_migrate_load_file(m, base, name);
        free(name);

        if (rc == 0 && numbered) {
            m->id = il_migrate_number(names.v[i]);

            if (m->id < 0 || (i != 0 && m->id <= m[-1].id)) {
                il_err("%s/%s: names must be NNN_name.sql, each number once",
                       dir, names.v[i]);
                rc = EX_CONFIG;
            }
        }
    }

    il_names_free(&names);
    free(dir);

    return rc;
}


int
il_migrate_load(il_migrate_t *mg, const char *sql_dir)
{
    int    rc;
    char  *found;

    memset(mg, 0, sizeof(*mg));
    found = NULL;

    if (sql_dir == NULL) {
        found = il_migrate_find_dir();
        sql_dir = (found == NULL) ? IL_DATADIR "/sql" : found;
    }

    rc = il_migrate_load_list(&mg->migrations, &mg->nmigrations, sql_dir,
                              "migrations", 1);
    if (rc == 0) {
        rc = il_migrate_load_list(&mg->sources, &mg->nsources, sql_dir,
                                  "functions", 0);
    }

    /* il_migrate_load_list left room for one more: views come last */

    if (rc == 0) {
        rc = il_migrate_load_file(&mg->sources[mg->nsources++], sql_dir,
                                  "views.sql");
    }

    free(found);

    return rc;
}


void
il_migrate_free(il_migrate_t *mg)
{
    for (size_t i = 0; i < mg->nmigrations; i++) {
        free(mg->migrations[i].name);
        il_buf_free(&mg->migrations[i].text);
    }

    for (size_t i = 0; i < mg->nsources; i++) {
        free(mg->sources[i].name);
        il_buf_free(&mg->sources[i].text);
    }

    free(mg->migrations);
    free(mg->sources);
    memset(mg, 0, sizeof(*mg));
}


/* PREFIX/bin/interlock → PREFIX/share/interlock/sql; build/interlock → sql */
char *
il_migrate_find_dir(void)
{
    char        exe[4096], path[4200], *slash;
    ssize_t     n;

    static const char *const  places[] = {
        "../share/interlock/sql", "../sql", NULL
    };

    n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (n <= 0) {
        return NULL;
    }

    exe[n] = '\0';
    slash = strrchr(exe, '/');

    if (slash == NULL) {
        return NULL;
    }

    *slash = '\0';

    for (size_t i = 0; places[i] != NULL; i++) {
        (void) snprintf(path, sizeof(path), "%s/%s/migrations", exe,
                        places[i]);
        if (access(path, R_OK|X_OK) == 0) {
            (void) snprintf(path, sizeof(path), "%s/%s", exe, places[i]);
            return il_xstrndup(path, strlen(path));
        }
    }

    return NULL;
}


static int
il_migrate_same(const il_migration_t *m, il_str_t hex)
{
    char  digest[2 * sizeof(m->digest) + 1];

    static const char  digits[] = "0123456789abcdef";

    for (size_t i = 0; i < sizeof(m->digest); i++) {
        digest[2 * i] = digits[m->digest[i] >> 4];
        digest[2 * i + 1] = digits[m->digest[i] & 15];
    }

    return il_str_eq(hex, il_str(digest, 2 * sizeof(m->digest)));
}


static int
il_migrate_mark_migrations(il_migrate_t *mg, il_db_result_t *res)
{
    size_t   r, i;
    int64_t  id;

    for (r = 0; r < il_db_rows(res); r++) {
        if (il_db_cell_int(res, r, il_db_column(res, "id"), &id) != 0) {
            return EX_SOFTWARE;
        }

        for (i = 0; i < mg->nmigrations; i++) {
            if (mg->migrations[i].id == id) {
                break;
            }
        }

        if (i == mg->nmigrations) {
            il_err("the database has migration %lld, which this program does"
                   " not know: it belongs to a newer one", (long long) id);
            return EX_CONFIG;
        }

        mg->migrations[i].state = IL_MIGRATION_APPLIED;

        if (!il_migrate_same(&mg->migrations[i],
                             il_db_cell(res, r, il_db_column(res, "digest"))))
        {
            mg->migrations[i].state = IL_MIGRATION_CHANGED;
        }
    }

    return 0;
}


static void
il_migrate_mark_sources(il_migrate_t *mg, il_db_result_t *res)
{
    size_t  r, i, known;

    known = 0;

    for (i = 0; i < mg->nsources; i++) {
        mg->sources[i].state = IL_MIGRATION_PENDING;

        for (r = 0; r < il_db_rows(res); r++) {
            if (!il_str_eq(il_db_cell(res, r, il_db_column(res, "name")),
                           il_cstr(mg->sources[i].name)))
            {
                continue;
            }

            known++;

            if (il_migrate_same(&mg->sources[i],
                                il_db_cell(res, r,
                                           il_db_column(res, "digest"))))
            {
                mg->sources[i].state = IL_MIGRATION_APPLIED;

            } else {
                mg->sources[i].state = IL_MIGRATION_CHANGED;
            }
        }
    }

    mg->gone = il_db_rows(res) - known;
}


int
il_migrate_look(il_migrate_t *mg, il_db_t *db)
{
    int              rc, migrations, sources;
    il_db_args_t     args;
    il_db_result_t  *res;

    il_db_args_init(&args, "");
    rc = il_dsn_call(db, il_migrate_exists, &args, &res);

    if (rc != 0) {
        return rc;
    }

    migrations = il_db_cell_bool(res, 0, il_db_column(res, "migrations"));
    sources = il_db_cell_bool(res, 0, il_db_column(res, "sources"));
    il_db_result_free(res);

    if (migrations) {
        il_db_args_init(&args, "");
        rc = il_dsn_call(db, il_migrate_rows, &args, &res);

        if (rc == 0) {
            rc = il_migrate_mark_migrations(mg, res);
            il_db_result_free(res);
        }
    }

    if (rc == 0 && sources) {
        il_db_args_init(&args, "");
        rc = il_dsn_call(db, il_migrate_source_rows, &args, &res);

        if (rc == 0) {
            il_migrate_mark_sources(mg, res);
            il_db_result_free(res);
        }
    }

    for (size_t i = 0; i < mg->nmigrations && rc == 0; i++) {
        if (mg->migrations[i].state == IL_MIGRATION_CHANGED) {
            il_err("%s was changed after it was applied: migrations are"
                   " forward only. Use the sql/ that this database was made"
                   " with and add a new migration there; a private instance"
                   " whose data nobody needs is made anew by removing its"
                   " DIR", mg->migrations[i].name);
            rc = EX_CONFIG;
        }
    }

    return rc;
}


size_t
il_migrate_pending(const il_migrate_t *mg, size_t *sources)
{
    size_t  n;

    n = 0;
    *sources = mg->gone;

    for (size_t i = 0; i < mg->nmigrations; i++) {
        n += (mg->migrations[i].state == IL_MIGRATION_PENDING);
    }

    for (size_t i = 0; i < mg->nsources; i++) {
        *sources += (mg->sources[i].state != IL_MIGRATION_APPLIED);
    }

    return n;
}


static int
il_migrate_exec(il_db_t *db, const char *sql, il_db_args_t *args)
{
    int              rc;
    il_db_result_t  *res;

    res = NULL;
    rc = il_dsn_call(db, sql, args, &res);

    if (rc == 0) {
        il_db_result_free(res);
    }

    return rc;
}


/* Inside a transaction that holds the lock. */
static int
il_migrate_apply_one(il_db_t *db, il_migration_t *m)
{
    int           rc;
    il_db_args_t  args;

    rc = il_dsn_script(db, m->name, m->text.data);

    if (rc == 0) {
        rc = il_dsn_script(db, "bookkeeping", il_migrate_tables);
    }

    if (rc != 0) {
        return rc;
    }

    il_db_args_init(&args, "ITY");
    il_db_put_int(&args, 0, m->id);
    il_db_put_text(&args, 1, il_cstr(m->name));
    il_db_put_bytes(&args, 2, il_str((char *) m->digest, sizeof(m->digest)));

    return il_migrate_exec(db, il_migrate_insert, &args);
}


static int
il_migrate_apply_sources(il_migrate_t *mg, il_db_t *db)
{
    int           rc;
    il_db_args_t  args;

    rc = il_dsn_script(db, "bookkeeping", il_migrate_tables);

    /* all of them, in order: what a text leaves behind may depend on the
     * texts before it (grants, views over functions) */

    for (size_t i = 0; i < mg->nsources && rc == 0; i++) {
        il_migration_t  *m = &mg->sources[i];

        rc = il_dsn_script(db, m->name, m->text.data);

        if (rc == 0) {
            il_db_args_init(&args, "TY");
            il_db_put_text(&args, 0, il_cstr(m->name));
            il_db_put_bytes(&args, 1, il_str((char *) m->digest,
                                             sizeof(m->digest)));
            rc = il_migrate_exec(db, il_migrate_upsert, &args);
        }
    }

    if (rc != 0) {
        return rc;
    }

    il_db_args_init(&args, "t");

    for (size_t i = 0; i < mg->nsources; i++) {
        il_db_put_text(&args, 0, il_cstr(mg->sources[i].name));
    }

    return il_migrate_exec(db, il_migrate_forget, &args);
}


/* One transaction: the next pending migration, or else the sources.  *done
 * is set when nothing was left to do. */
static int
il_migrate_step(il_migrate_t *mg, il_db_t *db, int json, int *done)
{
    int              rc;
    size_t           i, sources;
    il_migration_t  *m;

    rc = il_dsn_script(db, "begin", il_migrate_begin);

    if (rc == 0) {
        rc = il_migrate_look(mg, db);
    }

    if (rc != 0) {
        return rc;
    }

    m = NULL;

    if (il_migrate_pending(mg, &sources) != 0) {
        for (i = 0; mg->migrations[i].state != IL_MIGRATION_PENDING; i++) {
            /* void */
        }

        m = &mg->migrations[i];
        rc = il_migrate_apply_one(db, m);

    } else if (sources != 0) {
        rc = il_migrate_apply_sources(mg, db);

    } else {
        *done = 1;
    }

    if (rc == 0) {
        rc = il_dsn_script(db, "commit", "commit");
    }

    if (rc == 0 && !json && m != NULL) {
        (void) printf("applied %s\n", m->name);

    } else if (rc == 0 && !json && sources != 0) {
        (void) printf("applied functions and views (%zu changed)\n", sources);
    }

    return rc;
}


static const char *
il_migrate_state(const il_migration_t *m)
{
    switch (m->state) {
    case IL_MIGRATION_APPLIED:
        return "applied";
    case IL_MIGRATION_CHANGED:
        return "changed";
    case IL_MIGRATION_PENDING:
        break;
    }

    return "pending";
}


static void
il_migrate_print(const il_migration_t *m, size_t n, int all, il_buf_t *json)
{
    for (size_t i = 0; i < n; i++) {
        if (!all && m[i].state == IL_MIGRATION_APPLIED) {
            continue;
        }

        if (json == NULL) {
            (void) printf("%-8s %s\n", il_migrate_state(&m[i]), m[i].name);
            continue;
        }

        il_buf_puts(json, json->data[json->len - 1] == '[' ? "" : ",");
        il_buf_puts(json, "{\"name\":");
        il_buf_json(json, il_cstr(m[i].name));
        il_buf_printf(json, ",\"state\":\"%s\"}", il_migrate_state(&m[i]));
    }
}


static void
il_migrate_report(const il_migrate_t *mg, int all, int json)
{
    il_buf_t  b;

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, "{\"items\":[");
    il_migrate_print(mg->migrations, mg->nmigrations, all, json ? &b : NULL);
    il_migrate_print(mg->sources, mg->nsources, all, json ? &b : NULL);
    il_buf_puts(&b, "],\"next\":null}");

    if (json) {
        il_out_line(stdout, il_buf_str(&b));
    }

    il_buf_free(&b);
}


static int
il_migrate(void *opts, const il_args_t *args)
{
    int                 rc, done;
    size_t              n, sources;
    il_db_t            *db;
    il_migrate_t        mg;
    il_migrate_opts_t  *o;

    (void) args;
    o = opts;
    db = NULL;
    rc = il_migrate_load(&mg, o->sql_dir);

    if (rc == 0) {
        rc = il_dsn_open(&o->common, &db);
    }

    if (rc == 0 && (o->status || o->dry_run)) {
        rc = il_migrate_look(&mg, db);

        if (rc == 0) {
            il_migrate_report(&mg, o->status, o->common.json);
            n = il_migrate_pending(&mg, &sources);
            rc = (o->status && n + sources != 0) ? IL_EXIT_NO : 0;
        }

    } else if (rc == 0) {
        for (done = 0; rc == 0 && !done; /* void */ ) {
            rc = il_migrate_step(&mg, db, o->common.json, &done);
        }

        if (rc == 0 && o->common.json) {
            il_migrate_report(&mg, 1, 1);
        }
    }

    il_db_close(db);
    il_migrate_free(&mg);

    return il_out_end(rc);
}
