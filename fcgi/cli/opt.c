/*
 * opt.c: options by table: parsing, checks, help.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"


static const il_opt_t  il_opts_common[] = {
    { "json", IL_OPT_FLAG, offsetof(il_common_t, json), NULL,
      "print JSON for programs", 0, 0, 0 },
    { "help", IL_OPT_FLAG, offsetof(il_common_t, help), NULL,
      "show this help", 0, 0, 0 },
    IL_OPT_END
};

static const il_opt_t  il_opts_client[] = {
    { "url", IL_OPT_STR, offsetof(il_common_t, url), "URL",
      "address of the server (INTERLOCK_URL; " IL_DEFAULT_URL ")", 0, 0, 0 },
    { "token-file", IL_OPT_STR, offsetof(il_common_t, token_file), "FILE",
      "file with the API token (INTERLOCK_TOKEN_FILE)", 0, 0, 0 },
    IL_OPT_END
};

static const il_opt_t  il_opts_dsn[] = {
    { "dsn-file", IL_OPT_STR, offsetof(il_common_t, dsn_file), "FILE",
      "file with the owner's libpq connection string"
      " (INTERLOCK_DSN_FILE)", 0, 0, 0 },
    IL_OPT_END
};


static int
il_opt_usage(const il_cmd_t *cmd, const char *what, const char *name)
{
    il_err("%s: %s%s%s (see interlock %s --help)", cmd->name, what,
           name == NULL ? "" : " ", name == NULL ? "" : name, cmd->name);
    return EX_USAGE;
}


static const il_opt_t *
il_opt_search(const il_opt_t *opts, const char *name, size_t len)
{
    for ( ; opts != NULL && opts->name != NULL; opts++) {
        if (strlen(opts->name) == len && memcmp(opts->name, name, len) == 0) {
            return opts;
        }
    }

    return NULL;
}


static const il_opt_t *
il_opt_find(const il_cmd_t *cmd, const char *name, size_t len)
{
    const il_opt_t  *o;

    o = il_opt_search(cmd->opts, name, len);

    if (o == NULL) {
        o = il_opt_search(il_opts_common, name, len);
    }

    if (o == NULL && (cmd->flags & IL_CMD_CLIENT)) {
        o = il_opt_search(il_opts_client, name, len);
    }

    if (o == NULL && (cmd->flags & IL_CMD_DSN)) {
        o = il_opt_search(il_opts_dsn, name, len);
    }

    return o;
}


static int
il_opt_int(const il_opt_t *o, const char *text, int64_t *value)
{
    char       *end;
    long long   n;

    if (text[0] == '\0' || strspn(text, "-0123456789") != strlen(text)) {
        return -1;
    }

    errno = 0;
    n = strtoll(text, &end, 10);

    if (errno != 0 || *end != '\0' || n < o->min || n > o->max) {
        return -1;
    }

    *value = n;
    return 0;
}


static int
il_opt_set(const il_cmd_t *cmd, const il_opt_t *o, void *opts, char *value)
{
    char       *p;
    il_list_t  *list;

    p = (char *) opts + o->offset;

    switch (o->type) {

    case IL_OPT_FLAG:
        *(int *) (void *) p = 1;
        return 0;

    case IL_OPT_STR:
        *(const char **) (void *) p = value;
        return 0;

    case IL_OPT_LIST:
        list = (il_list_t *) (void *) p;
        list->v = realloc(list->v, (list->n + 2) * sizeof(char *));
        if (list->v == NULL) {
            il_err("out of memory");
            return EX_OSERR;
        }

        list->v[list->n++] = value;
        list->v[list->n] = NULL;
        return 0;

    case IL_OPT_INT:
    case IL_OPT_OPT_INT:
        if (value == NULL) {
            *(int64_t *) (void *) p = o->max;
            return 0;
        }

        if (il_opt_int(o, value, (int64_t *) (void *) p) != 0) {
            il_err("%s: --%s takes a whole number from %lld to %lld",
                   cmd->name, o->name, (long long) o->min,
                   (long long) o->max);
            return EX_USAGE;
        }

        return 0;
    }

    return EX_SOFTWARE;
}


/* One option at argv[*i]; a value in the next argument moves *i. */
static int
il_opt_one(const il_cmd_t *cmd, void *opts, int argc, char **argv, int *i)
{
    char            *name, *value;
    size_t           len;
    const il_opt_t  *o;

    name = argv[*i] + 2;
    value = strchr(name, '=');
    len = (value == NULL) ? strlen(name) : (size_t) (value - name);

    if (value != NULL) {
        value++;
    }

    o = il_opt_find(cmd, name, len);

    if (o == NULL) {
        return il_opt_usage(cmd, "unknown option", argv[*i]);
    }

    if (o->type == IL_OPT_FLAG) {
        if (value != NULL) {
            return il_opt_usage(cmd, "this option takes no value:", argv[*i]);
        }

    } else if (value == NULL && o->type != IL_OPT_OPT_INT) {
        if (*i + 1 >= argc) {
            return il_opt_usage(cmd, "a value is missing behind", argv[*i]);
        }

        value = argv[++*i];
    }

    return il_opt_set(cmd, o, opts, value);
}


static void
il_opt_defaults(const il_cmd_t *cmd, il_common_t *c)
{
    char            *p;
    const il_opt_t  *o;

    for (o = cmd->opts; o != NULL && o->name != NULL; o++) {
        if (o->type == IL_OPT_INT || o->type == IL_OPT_OPT_INT) {
            p = (char *) c + o->offset;
            *(int64_t *) (void *) p = o->dflt;
        }
    }

    c->url = getenv("INTERLOCK_URL");
    c->token_file = getenv("INTERLOCK_TOKEN_FILE");
    c->dsn_file = getenv("INTERLOCK_DSN_FILE");

    if (c->url == NULL || c->url[0] == '\0') {
        c->url = IL_DEFAULT_URL;
    }
}


int
il_cmd_run(const il_cmd_t *cmd, int argc, char **argv)
{
    int           i, rc;
    il_args_t     args;
    il_common_t  *c;

    memset(&args, 0, sizeof(args));
    args.cmd = cmd;
    args.pos.v = il_xalloc((size_t) argc + 1, sizeof(char *));
    c = il_xalloc(1, cmd->size);
    il_opt_defaults(cmd, c);
    rc = 0;

    for (i = 0; i < argc && rc == 0; i++) {
        if (strcmp(argv[i], "--") == 0) {
            if (cmd->flags & IL_CMD_TAIL) {
                args.tail.v = &argv[i + 1];
                args.tail.n = (size_t) (argc - i - 1);
                break;
            }

            for (i++; i < argc; i++) {
                args.pos.v[args.pos.n++] = argv[i];
            }

        } else if (strcmp(argv[i], "-h") == 0) {
            c->help = 1;

        } else if (strncmp(argv[i], "--", 2) == 0) {
            rc = il_opt_one(cmd, c, argc, argv, &i);

        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            rc = il_opt_usage(cmd, "unknown option", argv[i]);

        } else {
            args.pos.v[args.pos.n++] = argv[i];
        }
    }

    if (rc == 0 && c->help) {
        il_cmd_help(stdout, cmd);
        rc = il_out_end(EX_OK);

    } else if (rc == 0 && args.pos.n < cmd->min_args) {
        rc = il_opt_usage(cmd, "an argument is missing:", cmd->synopsis);

    } else if (rc == 0 && args.pos.n > cmd->max_args) {
        rc = il_opt_usage(cmd, "unexpected argument",
                          args.pos.v[cmd->max_args]);

    } else if (rc == 0) {
        rc = cmd->run(c, &args);
    }

    for (const il_opt_t *o = cmd->opts; o != NULL && o->name != NULL; o++) {
        if (o->type == IL_OPT_LIST) {
            free(((il_list_t *) (void *) ((char *) c + o->offset))->v);
        }
    }

    free(args.pos.v);
    free(c);

    return rc;
}


static void
il_opt_help(FILE *f, const il_opt_t *o)
{
    char        left[64];
    const char  *p, *end;
    size_t       n;

    for ( ; o != NULL && o->name != NULL; o++) {
        (void) snprintf(left, sizeof(left), "--%s%s%s%s", o->name,
                        o->arg == NULL ? "" :
                            (o->type == IL_OPT_OPT_INT ? "[=" : " "),
                        o->arg == NULL ? "" : o->arg,
                        o->type == IL_OPT_OPT_INT ? "]" : "");
        (void) fprintf(f, "  %-24s", left);

        /* wrapped at 52 columns behind the option's name */

        for (p = o->help; ; p = end + 1) {
            n = strlen(p);
            end = p + n;

            if (n > 52) {
                for (end = p + 52; end > p && *end != ' '; end--) { /* void */ }
            }

            (void) fprintf(f, " %.*s\n", (int) (end - p), p);

            if (*end == '\0') {
                break;
            }

            (void) fprintf(f, "  %-24s", "");
        }
    }
}


void
il_cmd_help(FILE *f, const il_cmd_t *cmd)
{
    (void) fprintf(f, "usage: interlock %s%s%s\n\n%s\n", cmd->name,
                   cmd->synopsis[0] == '\0' ? "" : " ", cmd->synopsis,
                   cmd->about);
    (void) fputs("\noptions:\n", f);
    il_opt_help(f, cmd->opts);

    if (cmd->flags & IL_CMD_CLIENT) {
        il_opt_help(f, il_opts_client);
    }

    if (cmd->flags & IL_CMD_DSN) {
        il_opt_help(f, il_opts_dsn);
    }

    il_opt_help(f, il_opts_common);
}
