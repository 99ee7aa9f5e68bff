/*
 * doctor.c: looks at every joint of an installation and says what to do.
 *
 * It changes nothing.  A check that cannot be made, for want of an option, is
 * said to be skipped: no line means that nobody looked.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../conf.h"
#include "cmds.h"
#include "doctor.h"
#include "dsn.h"
#include "http.h"
#include "migrate.h"

#define IL_DOCTOR_TIMEOUT     10000     /* ms */
#define IL_DOCTOR_CLOCK_WARN  2         /* s */
#define IL_DOCTOR_CLOCK_FAIL  60        /* s; signatures allow 300 */


typedef struct {
    il_common_t  common;
    const char  *dir;
    const char  *config;
    const char  *sql_dir;
    const char  *status_path;
    const char  *kind;
} il_doctor_opts_t;


static int il_doctor(void *opts, const il_args_t *args);


static const il_opt_t  il_doctor_opts[] = {
    { "dir", IL_OPT_STR, offsetof(il_doctor_opts_t, dir), "DIR",
      "directory of an instance: interlockd.conf, dsn, keys, tokens and secrets"
      " are looked for there", 0, 0, 0 },
    { "config", IL_OPT_STR, offsetof(il_doctor_opts_t, config), "FILE",
      "configuration of interlockd", 0, 0, 0 },
    { "sql-dir", IL_OPT_STR, offsetof(il_doctor_opts_t, sql_dir), "DIR",
      "as for migrate", 0, 0, 0 },
    { "status-path", IL_OPT_STR, offsetof(il_doctor_opts_t, status_path),
      "PATH", "location with interlock_status (/edge/status)", 0, 0, 0 },
    { "kind", IL_OPT_STR, offsetof(il_doctor_opts_t, kind), "NAME",
      "look only at this kind: what nobody has decided about it", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_doctor = {
    "doctor", il_doctor, "check an installation, or a kind of work",
    "[--dir DIR | --kind NAME] [options]",
    "Checks configuration, modes of files with secrets, signing keys, the\n"
    "database and its schema, clocks, the server and the edge.  One line a\n"
    "check: ok, warn, fail or skip, and what to do.  Exit code 1 if any failed.\n"
    "With --kind (operator's or auditor's token) it tells what is undecided\n"
    "about a kind: key, policy, bounds, lease, cancel, recovery, check.",
    il_doctor_opts, sizeof(il_doctor_opts_t), IL_CMD_CLIENT|IL_CMD_DSN, 0, 0
};


void
il_doctor_say(il_doctor_t *d, il_doctor_level_e level, const char *check,
    const char *advice, const char *fmt, ...)
{
    char     text[1024];
    va_list  ap;

    static const char *const  names[] = { "ok", "skip", "warn", "fail" };

    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);

    d->count[level]++;

    if (!d->json) {
        (void) printf("%-4s  %-9s %s\n", names[level], check, text);

        if (advice != NULL && level != IL_DOCTOR_OK) {
            (void) printf("      %-9s %s\n", "", advice);
        }

        return;
    }

    il_buf_puts(&d->items, d->items.len == 0 ? "" : ",");
    il_buf_printf(&d->items, "{\"level\":\"%s\",\"check\":\"%s\",\"text\":",
                  names[level], check);
    il_buf_json(&d->items, il_cstr(text));

    if (advice != NULL && level != IL_DOCTOR_OK) {
        il_buf_puts(&d->items, ",\"advice\":");
        il_buf_json(&d->items, il_cstr(advice));
    }

    il_buf_puts(&d->items, "}");
}


/* dir/name as a new string if it is there, else NULL. */
static char *
il_doctor_find(const char *dir, const char *name)
{
    char  *path;

    if (dir == NULL) {
        return NULL;
    }

    path = il_path_join(dir, name);

    if (access(path, F_OK) == 0) {
        return path;
    }

    free(path);
    return NULL;
}


static int
il_doctor_conf(il_doctor_t *d, const char *path, il_conf_t *conf)
{
    char  err[IL_CONF_ERR_CAP];

    if (path == NULL) {
        il_doctor_say(d, IL_DOCTOR_SKIP, "config",
                      "give --dir or --config", "no configuration was named");
        return -1;
    }

    if (il_conf_init(conf) != 0) {
        il_err("out of memory");
        exit(EX_OSERR);
    }

    if (il_conf_file(conf, path, err, sizeof(err)) != 0
        || il_conf_check(conf, err, sizeof(err)) != 0)
    {
        il_doctor_say(d, IL_DOCTOR_FAIL, "config",
                      "see interlockd.conf(5); interlockd -t checks it, too",
                      "%s", err);
        il_conf_free(conf);
        return -1;
    }

    il_doctor_say(d, IL_DOCTOR_OK, "config", NULL, "%s", path);

    return 0;
}


static void
il_doctor_ready_row(il_doctor_t *d, il_db_result_t *res, int64_t *version)
{
    int       rc;
    il_str_t  detail, epoch;

    if (il_db_rows(res) != 1) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "database", NULL,
                      "ready() gave no answer");
        return;
    }

    detail = il_db_cell(res, 0, il_db_column(res, "detail"));
    epoch = il_db_cell(res, 0, il_db_column(res, "epoch"));
    rc = il_db_cell_bool(res, 0, il_db_column(res, "ok"));

    il_doctor_say(d, rc ? IL_DOCTOR_OK : IL_DOCTOR_FAIL, "database",
                  "what was acknowledged might not survive a crash:"
                  " interlockd refuses such a server",
                  "%.*s (epoch %.*s)", (int) detail.len, detail.data,
                  (int) epoch.len, epoch.data);

    if (il_db_cell_int(res, 0, il_db_column(res, "schema_version"), version)
        != 0)
    {
        *version = -1;
    }
}


static void
il_doctor_db_clock(il_doctor_t *d, il_db_t *db)
{
    int              known;
    int64_t          before, after, theirs, off;
    il_db_args_t     args;
    il_db_result_t  *res;
    struct timespec  ts;

    (void) clock_gettime(CLOCK_REALTIME, &ts);
    before = (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;

    res = NULL;
    il_db_args_init(&args, "");
    known = (il_db_call(db, "select clock_timestamp() as t", &args,
                        IL_DOCTOR_TIMEOUT, &res) == IL_DB_OK);
    il_db_args_free(&args);

    (void) clock_gettime(CLOCK_REALTIME, &ts);
    after = (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;

    known = known && il_db_cell_time(res, 0, il_db_column(res, "t"), &theirs)
                     == 0;

    if (res != NULL) {
        il_db_result_free(res);
    }

    if (!known) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "clock", NULL,
                      "the database's clock cannot be read");
        return;
    }

    /* what cannot be explained by the way there and back */

    off = theirs < before ? theirs - before
                          : (theirs > after ? theirs - after : 0);
    il_doctor_clock(d, "database", off);
}


void
il_doctor_clock(il_doctor_t *d, const char *whose, int64_t off_ms)
{
    int64_t            size;
    il_doctor_level_e  level;

    size = (off_ms < 0) ? -off_ms : off_ms;
    level = (size < IL_DOCTOR_CLOCK_WARN * 1000) ? IL_DOCTOR_OK
            : (size < IL_DOCTOR_CLOCK_FAIL * 1000) ? IL_DOCTOR_WARN
                                                   : IL_DOCTOR_FAIL;

    il_doctor_say(d, level, "clock",
                  "leases do not depend on it, but signatures with a time do:"
                  " run an NTP client on every host",
                  "the %s's clock is %" PRId64 " ms %s of this host's", whose,
                  size, off_ms < 0 ? "behind" : "ahead");
}


static void
il_doctor_schema(il_doctor_t *d, const char *sql_dir, int64_t version)
{
    int           rc;
    int64_t       newest;
    il_migrate_t  mg;

    rc = il_migrate_load(&mg, sql_dir);
    newest = (rc == 0 && mg.nmigrations != 0)
             ? mg.migrations[mg.nmigrations - 1].id : -1;
    il_migrate_free(&mg);

    if (rc != 0) {
        il_doctor_say(d, IL_DOCTOR_SKIP, "schema", "give --sql-dir",
                      "the migrations' files cannot be read");

    } else {
        il_doctor_say(d, version == newest ? IL_DOCTOR_OK : IL_DOCTOR_FAIL,
                      "schema",
                      version < newest ? "run interlock migrate"
                      : "the database belongs to a newer interlock",
                      "migration %" PRId64 ", this program has %" PRId64,
                      version, newest);
    }
}


/* As interlockd sees it: by its own connection string. */
static void
il_doctor_database(il_doctor_t *d, const char *dsn, const char *sql_dir)
{
    char             err[IL_DB_ERR_CAP], shown[256];
    int64_t          version;
    il_db_t         *db;
    il_db_args_t     args;
    il_db_result_t  *res;

    db = il_db_open(dsn, "interlock doctor", IL_DOCTOR_TIMEOUT, err,
                    sizeof(err));

    if (db == NULL) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "database",
                      "is it running, and may this user connect?", "%s: %s",
                      il_db_describe(dsn, shown, sizeof(shown)), err);
        return;
    }

    version = -1;
    il_db_args_init(&args, "");

    if (il_db_call(db, "select * from interlock.ready()", &args,
                   IL_DOCTOR_TIMEOUT, &res) == IL_DB_OK)
    {
        il_doctor_ready_row(d, res, &version);
        il_db_result_free(res);
        il_doctor_schema(d, sql_dir, version);
        il_doctor_db_clock(d, db);

    } else {
        il_doctor_say(d, IL_DOCTOR_FAIL, "database",
                      "run roles.sql and interlock migrate", "%s",
                      il_db_error(db));
    }

    il_db_args_free(&args);
    il_db_close(db);
}


/* By the owner: what the service may not read. */
static void
il_doctor_owner(il_doctor_t *d, const il_common_t *c, const char *dsn_file,
    const char *sql_dir)
{
    int           rc;
    size_t        n, sources;
    il_db_t      *db;
    il_common_t   owner;
    il_migrate_t  mg;

    if (dsn_file == NULL) {
        il_doctor_say(d, IL_DOCTOR_SKIP, "functions", "give --dsn-file",
                      "without the owner's connection string");
        return;
    }

    owner = *c;
    owner.dsn_file = dsn_file;
    rc = il_migrate_load(&mg, sql_dir);

    if (rc == 0 && (rc = il_dsn_open(&owner, &db)) == 0) {
        rc = il_migrate_look(&mg, db);
        il_db_close(db);
    }

    if (rc != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "functions", NULL,
                      "cannot be compared with their files");

    } else {
        n = il_migrate_pending(&mg, &sources);
        il_doctor_say(d, n + sources == 0 ? IL_DOCTOR_OK : IL_DOCTOR_FAIL,
                      "functions", "run interlock migrate",
                      "%zu migrations and %zu functions or views differ from"
                      " their files", n, sources);
    }

    il_migrate_free(&mg);
}


static int
il_doctor_end(il_doctor_t *d)
{
    if (d->json) {
        (void) printf("{\"items\":[%s],\"next\":null}\n",
                      d->items.data == NULL ? "" : d->items.data);

    } else {
        (void) printf("%u ok, %u to look at, %u failed, %u skipped\n",
                      d->count[IL_DOCTOR_OK], d->count[IL_DOCTOR_WARN],
                      d->count[IL_DOCTOR_FAIL], d->count[IL_DOCTOR_SKIP]);
    }

    il_buf_free(&d->items);

    return il_out_end(d->count[IL_DOCTOR_FAIL] == 0 ? 0 : IL_EXIT_NO);
}


static int
il_doctor(void *opts, const il_args_t *args)
{
    int                have, rc;
    char              *config, *dsn, *keys, *tokens, *secrets;
    il_conf_t          conf;
    il_doctor_t        d;
    il_doctor_opts_t  *o;

    (void) args;
    o = opts;
    memset(&d, 0, sizeof(d));
    d.json = o->common.json;

    if (o->kind != NULL) {
        rc = il_doctor_kind(&d, &o->common, o->kind);
        return rc != 0 ? il_out_end(rc) : il_doctor_end(&d);
    }

    if (o->dir != NULL && access(o->dir, R_OK|X_OK) != 0) {
        il_err("cannot read %s: %s", o->dir, strerror(errno));
        return EX_NOINPUT;
    }

    config = o->config != NULL ? il_xstrndup(o->config, strlen(o->config))
                               : il_doctor_find(o->dir, "interlockd.conf");
    dsn = o->common.dsn_file != NULL
          ? il_xstrndup(o->common.dsn_file, strlen(o->common.dsn_file))
          : il_doctor_find(o->dir, "dsn");
    tokens = il_doctor_find(o->dir, "tokens");
    secrets = il_doctor_find(o->dir, "secrets");

    have = (il_doctor_conf(&d, config, &conf) == 0);
    keys = have ? il_xstrndup(conf.keys_dir, strlen(conf.keys_dir))
                : il_doctor_find(o->dir, "keys");

    il_doctor_keys(&d, keys);
    il_doctor_private(&d, "tokens", tokens);
    il_doctor_private(&d, "secrets", secrets);
    il_doctor_sources(&d, secrets);

    if (have) {
        il_doctor_database(&d, conf.dsn, o->sql_dir);
        il_conf_free(&conf);

    } else {
        il_doctor_say(&d, IL_DOCTOR_SKIP, "database", NULL,
                      "without a configuration");
    }

    il_doctor_owner(&d, &o->common, dsn, o->sql_dir);
    il_doctor_http(&d, &o->common, tokens, o->status_path);

    free(config);
    free(dsn);
    free(keys);
    free(tokens);
    free(secrets);

    return il_doctor_end(&d);
}
