/*
 * conf.c: settings are rows of one table; all the rest goes by the table.
 */

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "il_time.h"
#include "log.h"


typedef enum {
    IL_CONF_TEXT,
    IL_CONF_SECRET,         /* text that is described, never shown */
    IL_CONF_NUMBER,
    IL_CONF_SIZE,
    IL_CONF_TIME,
    IL_CONF_FLAG,
    IL_CONF_LEVEL
} il_conf_type_e;


typedef struct {
    const char      *name;
    il_conf_type_e   type;
    size_t           offset;
    const char      *value;         /* default */
    int64_t          min;
    int64_t          max;
} il_conf_setting_t;


#define IL_CONF_LINE_MAX  8192

#define il_conf_at(field)  offsetof(il_conf_t, field)


static const il_conf_setting_t  il_conf_settings[] = {
    { "listen", IL_CONF_TEXT, il_conf_at(listen), "", 0, 0 },
    { "edge_socket", IL_CONF_TEXT, il_conf_at(edge_socket), "", 0, 0 },
    { "dsn", IL_CONF_SECRET, il_conf_at(dsn), "", 0, 0 },
    { "notify_dsn", IL_CONF_SECRET, il_conf_at(notify_dsn), "", 0, 0 },
    { "keys_dir", IL_CONF_TEXT, il_conf_at(keys_dir), "", 0, 0 },
    { "log", IL_CONF_TEXT, il_conf_at(log), "stderr", 0, 0 },
    { "log_level", IL_CONF_LEVEL, il_conf_at(log_level), "notice", 0, 0 },
    { "pid", IL_CONF_TEXT, il_conf_at(pid), "", 0, 0 },
    { "threads", IL_CONF_NUMBER, il_conf_at(threads), "4", 1, 256 },
    { "max_body", IL_CONF_SIZE, il_conf_at(max_body), "32m", 1, 256 << 20 },
    { "submit_connections", IL_CONF_NUMBER, il_conf_at(submit_connections),
      "1", 1, 16 },
    { "claim_connections", IL_CONF_NUMBER, il_conf_at(claim_connections),
      "1", 1, 16 },
    { "lease_connections", IL_CONF_NUMBER, il_conf_at(lease_connections),
      "1", 1, 16 },
    { "finish_connections", IL_CONF_NUMBER, il_conf_at(finish_connections),
      "1", 1, 16 },
    { "effect_connections", IL_CONF_NUMBER, il_conf_at(effect_connections),
      "1", 1, 16 },
    { "read_connections", IL_CONF_NUMBER, il_conf_at(read_connections),
      "2", 1, 16 },
    { "batch_max", IL_CONF_NUMBER, il_conf_at(batch_max), "500", 1,
      IL_CONF_BATCH_MAX },
    { "parked_max", IL_CONF_NUMBER, il_conf_at(parked_max), "20000", 0,
      1000000 },
    { "events_max", IL_CONF_NUMBER, il_conf_at(events_max), "1000", 0,
      1000000 },
    { "queue_max", IL_CONF_NUMBER, il_conf_at(queue_max), "20000", 1,
      1000000 },
    { "db_deadline", IL_CONF_TIME, il_conf_at(db_deadline), "10s", 500,
      300000 },
    { "recover_interval", IL_CONF_TIME, il_conf_at(recover_interval), "1s",
      10, 60000 },
    { "io_timeout", IL_CONF_TIME, il_conf_at(io_timeout), "10s", 100,
      300000 },
    { "drain_timeout", IL_CONF_TIME, il_conf_at(drain_timeout), "5s", 0,
      300000 },
    { "check_threads", IL_CONF_NUMBER, il_conf_at(check_threads), "2", 0, 64 },
    { "check_hosts", IL_CONF_TEXT, il_conf_at(check_hosts), "", 0, 0 },
    { "check_private", IL_CONF_TEXT, il_conf_at(check_private), "", 0, 0 },
    { "check_secrets_dir", IL_CONF_TEXT, il_conf_at(check_secrets_dir), "",
      0, 0 },
    { "check_ca", IL_CONF_TEXT, il_conf_at(check_ca), "", 0, 0 },
    { "alert_threads", IL_CONF_NUMBER, il_conf_at(alert_threads), "2", 0, 64 },
    { "alert_hosts", IL_CONF_TEXT, il_conf_at(alert_hosts), "", 0, 0 },
    { "alert_private", IL_CONF_TEXT, il_conf_at(alert_private), "", 0, 0 },
    { "alert_secrets_dir", IL_CONF_TEXT, il_conf_at(alert_secrets_dir), "",
      0, 0 },
    { "alert_ca", IL_CONF_TEXT, il_conf_at(alert_ca), "", 0, 0 },
    { "cert_threads", IL_CONF_NUMBER, il_conf_at(cert_threads), "2", 1, 16 },
    { "cert_hosts", IL_CONF_TEXT, il_conf_at(cert_hosts), "", 0, 0 },
    { "cert_private", IL_CONF_TEXT, il_conf_at(cert_private), "", 0, 0 },
    { "cert_ca", IL_CONF_TEXT, il_conf_at(cert_ca), "", 0, 0 },
    { "session_idle", IL_CONF_TIME, il_conf_at(session_idle), "30m", 1000,
      86400000 },
    { "session_max", IL_CONF_TIME, il_conf_at(session_max), "12h", 1000,
      604800000 },
    { "ui_origins", IL_CONF_TEXT, il_conf_at(ui_origins), "", 0, 0 },
    { "core_dumps", IL_CONF_FLAG, il_conf_at(core_dumps), "off", 0, 1 },
    { NULL, IL_CONF_TEXT, 0, NULL, 0, 0 }
};


static char **
il_conf_text(const il_conf_t *conf, const il_conf_setting_t *s)
{
    return (char **) ((char *) (uintptr_t) conf + s->offset);
}


static int64_t *
il_conf_number(const il_conf_t *conf, const il_conf_setting_t *s)
{
    return (int64_t *) (void *) ((char *) (uintptr_t) conf + s->offset);
}


static int
il_conf_is_text(const il_conf_setting_t *s)
{
    return s->type == IL_CONF_TEXT || s->type == IL_CONF_SECRET
           || s->type == IL_CONF_LEVEL;
}


static int
il_conf_unit_parse(il_str_t s, const char *const *units, const int64_t *by,
    int64_t *value)
{
    size_t    i, n;
    int64_t   v;
    il_str_t  unit;

    for (n = 0; n < s.len && isdigit((unsigned char) s.data[n]); n++) {
        /* void */
    }

    if (il_digits_parse(il_str(s.data, n), 12, &v) != 0) {
        return -1;
    }

    unit = il_str(s.data + n, s.len - n);

    for (i = 0; units[i] != NULL; i++) {
        if (il_str_eq(unit, il_cstr(units[i]))) {
            *value = v * by[i];
            return 0;
        }
    }

    return -1;
}


int
il_conf_size_parse(il_str_t s, int64_t *bytes)
{
    static const char *const  units[] = { "", "k", "K", "m", "M", NULL };
    static const int64_t      by[] = { 1, 1024, 1024, 1 << 20, 1 << 20 };

    return il_conf_unit_parse(s, units, by, bytes);
}


int
il_conf_time_parse(il_str_t s, int64_t *ms)
{
    static const char *const  units[] = { "", "ms", "s", "m", "h", NULL };
    static const int64_t      by[] = { 1000, 1, 1000, 60000, 3600000 };

    return il_conf_unit_parse(s, units, by, ms);
}


static int
il_conf_parse(const il_conf_setting_t *s, const char *value, int64_t *v)
{
    switch (s->type) {

    case IL_CONF_SIZE:
        return il_conf_size_parse(il_cstr(value), v);

    case IL_CONF_TIME:
        return il_conf_time_parse(il_cstr(value), v);

    case IL_CONF_FLAG:
        *v = (strcmp(value, "on") == 0);
        return (*v || strcmp(value, "off") == 0) ? 0 : -1;

    default:
        return il_digits_parse(il_cstr(value), 12, v);
    }
}


static const il_conf_setting_t *
il_conf_find(il_str_t name)
{
    size_t                    i;
    char                      buf[64];
    const il_conf_setting_t  *s;

    if (name.len >= sizeof(buf)) {
        return NULL;
    }

    for (i = 0; i < name.len; i++) {
        buf[i] = name.data[i] == '-' ? '_' : name.data[i];
    }

    for (s = il_conf_settings; s->name != NULL; s++) {
        if (il_str_eq(il_cstr(s->name), il_str(buf, name.len))) {
            return s;
        }
    }

    return NULL;
}


/* `where` is the beginning of the message: "file:3: " and the like.  The
 * value of a secret is never repeated. */

static int
il_conf_assign(il_conf_t *conf, const il_conf_setting_t *s, const char *value,
    const char *where, char *err, size_t cap)
{
    char     *copy;
    int64_t   v;

    if (il_conf_is_text(s)) {

        if (s->type == IL_CONF_LEVEL && il_log_level_find(value) < 0) {
            (void) snprintf(err, cap, "%s%s: \"%s\" is not one of error, "
                            "warn, notice, info, debug", where, s->name,
                            value);
            return -1;
        }

        copy = strdup(value);
        if (copy == NULL) {
            (void) snprintf(err, cap, "%sout of memory", where);
            return -1;
        }

        free(*il_conf_text(conf, s));
        *il_conf_text(conf, s) = copy;

        return 0;
    }

    if (il_conf_parse(s, value, &v) != 0) {
        (void) snprintf(err, cap, "%s%s: invalid value \"%s\"", where,
                        s->name, value);
        return -1;
    }

    if (v < s->min || v > s->max) {
        (void) snprintf(err, cap, "%s%s: \"%s\" is out of bounds (%lld to "
                        "%lld%s)", where, s->name, value,
                        (long long) s->min, (long long) s->max,
                        s->type == IL_CONF_TIME ? " ms"
                        : s->type == IL_CONF_SIZE ? " bytes" : "");
        return -1;
    }

    *il_conf_number(conf, s) = v;

    return 0;
}


int
il_conf_init(il_conf_t *conf)
{
    char                      err[IL_CONF_ERR_CAP];
    const il_conf_setting_t  *s;

    memset(conf, 0, sizeof(*conf));

    for (s = il_conf_settings; s->name != NULL; s++) {
        if (il_conf_assign(conf, s, s->value, "", err, sizeof(err)) != 0) {
            il_conf_free(conf);
            return -1;
        }
    }

    return 0;
}


void
il_conf_free(il_conf_t *conf)
{
    const il_conf_setting_t  *s;

    for (s = il_conf_settings; s->name != NULL; s++) {
        if (il_conf_is_text(s)) {
            free(*il_conf_text(conf, s));
            *il_conf_text(conf, s) = NULL;
        }
    }
}


/* Cuts white space from both ends, in place. */

static char *
il_conf_trim(char *s)
{
    size_t  n;

    while (*s == ' ' || *s == '\t') {
        s++;
    }

    n = strlen(s);

    while (n > 0 && strchr(" \t\r\n", s[n - 1]) != NULL) {
        s[--n] = '\0';
    }

    return s;
}


static int
il_conf_line(il_conf_t *conf, char *line, const char *where, uint64_t *seen,
    char *err, size_t cap)
{
    char                     *name, *value, *eq;
    uint64_t                  bit;
    const il_conf_setting_t  *s;

    name = il_conf_trim(line);
    if (name[0] == '\0' || name[0] == '#') {
        return 0;
    }

    eq = strchr(name, '=');
    if (eq == NULL) {
        (void) snprintf(err, cap, "%sexpected `name = value`", where);
        return -1;
    }

    *eq = '\0';
    value = il_conf_trim(eq + 1);
    name = il_conf_trim(name);

    s = il_conf_find(il_cstr(name));
    if (s == NULL) {
        (void) snprintf(err, cap, "%sunknown setting \"%s\"", where, name);
        return -1;
    }

    bit = (uint64_t) 1 << (s - il_conf_settings);

    if (*seen & bit) {
        (void) snprintf(err, cap, "%s\"%s\" is set twice", where, s->name);
        return -1;
    }

    *seen |= bit;

    return il_conf_assign(conf, s, value, where, err, cap);
}


int
il_conf_file(il_conf_t *conf, const char *path, char *err, size_t cap)
{
    int       rc;
    char      line[IL_CONF_LINE_MAX], where[IL_CONF_ERR_CAP / 2];
    FILE     *f;
    unsigned  n;
    uint64_t  seen;

    f = fopen(path, "re");
    if (f == NULL) {
        (void) snprintf(err, cap, "cannot open \"%s\": %s", path,
                        strerror(errno));
        return -1;
    }

    rc = 0;
    seen = 0;

    for (n = 1; rc == 0 && fgets(line, sizeof(line), f) != NULL; n++) {
        (void) snprintf(where, sizeof(where), "%s:%u: ", path, n);

        if (strchr(line, '\n') == NULL && !feof(f)) {
            (void) snprintf(err, cap, "%sthe line is too long", where);
            rc = -1;
            break;
        }

        rc = il_conf_line(conf, line, where, &seen, err, cap);
    }

    if (rc == 0 && ferror(f)) {
        (void) snprintf(err, cap, "cannot read \"%s\"", path);
        rc = -1;
    }

    (void) fclose(f);

    return rc;
}


int
il_conf_env(il_conf_t *conf, char *err, size_t cap)
{
    char                      name[64];
    size_t                    i, n;
    const char               *value;
    const il_conf_setting_t  *s;

    static const char  prefix[] = "INTERLOCK_";

    for (s = il_conf_settings; s->name != NULL; s++) {
        memcpy(name, prefix, sizeof(prefix));
        n = sizeof(prefix) - 1;

        for (i = 0; s->name[i] != '\0' && n + 3 < sizeof(name); i++) {
            name[n++] = (char) toupper((unsigned char) s->name[i]);
        }

        name[n] = '\0';

        value = getenv(name);
        if (value == NULL) {
            continue;
        }

        name[n] = ':';
        name[n + 1] = ' ';
        name[n + 2] = '\0';

        if (il_conf_assign(conf, s, value, name, err, cap) != 0) {
            return -1;
        }
    }

    return 0;
}


int
il_conf_option(il_conf_t *conf, const char *arg, char *err, size_t cap)
{
    const char               *eq;
    const il_conf_setting_t  *s;

    eq = strchr(arg, '=');

    s = il_conf_find(eq == NULL ? il_cstr(arg)
                                : il_str(arg, (size_t) (eq - arg)));
    if (s == NULL) {
        return 1;
    }

    if (eq == NULL) {
        (void) snprintf(err, cap, "--%s needs a value: --%s=VALUE", arg, arg);
        return -1;
    }

    return il_conf_assign(conf, s, eq + 1, "--", err, cap);
}


int
il_conf_check(const il_conf_t *conf, char *err, size_t cap)
{
    const char  *missing;

    missing = conf->listen[0] == '\0' ? "listen"
              : conf->dsn[0] == '\0' ? "dsn"
              : conf->keys_dir[0] == '\0' ? "keys_dir" : NULL;

    if (missing != NULL) {
        (void) snprintf(err, cap, "\"%s\" is not set", missing);
        return -1;
    }

    return 0;
}


/* The value as a file has it; not of a secret.  In buf, or the setting's. */

static const char *
il_conf_value(const il_conf_t *conf, const il_conf_setting_t *s, char *buf,
    size_t cap)
{
    int64_t  v;

    if (il_conf_is_text(s)) {
        return *il_conf_text(conf, s);
    }

    v = *il_conf_number(conf, s);

    if (s->type == IL_CONF_FLAG) {
        return v ? "on" : "off";
    }

    (void) snprintf(buf, cap, "%lld%s", (long long) v,
                    s->type == IL_CONF_TIME ? "ms" : "");
    return buf;
}


void
il_conf_show(const il_conf_t *conf, FILE *out,
    const char *(*describe)(const char *dsn, char *buf, size_t cap))
{
    char                      buf[1024];
    const char               *value;
    const il_conf_setting_t  *s;

    for (s = il_conf_settings; s->name != NULL; s++) {

        if (s->type != IL_CONF_SECRET) {
            value = il_conf_value(conf, s, buf, sizeof(buf));

        } else if (*il_conf_text(conf, s)[0] == '\0') {
            value = "";

        } else {
            value = describe(*il_conf_text(conf, s), buf, sizeof(buf));
        }

        (void) fprintf(out, "%s = %s\n", s->name, value);
    }
}


void
il_conf_each(const il_conf_t *conf,
    void (*each)(void *ctx, const char *name, const char *value), void *ctx)
{
    char                      buf[64];
    const il_conf_setting_t  *s;

    for (s = il_conf_settings; s->name != NULL; s++) {
        if (s->type != IL_CONF_SECRET) {
            each(ctx, s->name, il_conf_value(conf, s, buf, sizeof(buf)));
        }
    }
}
