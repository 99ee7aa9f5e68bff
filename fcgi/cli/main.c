/*
 * main.c: the table of commands, and the choice of one.
 *
 * To add a command: a row here, an il_cmd_t beside its function, a man page.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "cli.h"
#include "cmds.h"

#ifndef IL_VERSION
#define IL_VERSION  "0.1.0"
#endif


static const il_cmd_t *const  il_cmds[] = {
    &il_cmd_submit,
    &il_cmd_ticket,
    &il_cmd_job,
    &il_cmd_result,
    &il_cmd_show,
    &il_cmd_cancel,
    &il_cmd_decide,
    &il_cmd_redrive,
    &il_cmd_audit_verify,
    &il_cmd_audit,
    &il_cmd_work,
    &il_cmd_progress,
    &il_cmd_verify,
    &il_cmd_kind_list,
    &il_cmd_kind_get,
    &il_cmd_kind_put,
    &il_cmd_kind_delete,
    &il_cmd_kind_pause,
    &il_cmd_kind_resume,
    &il_cmd_advice,
    &il_cmd_effect_begin,
    &il_cmd_effect_confirm,
    &il_cmd_effect_fail,
    &il_cmd_effect_unknown,
    &il_cmd_effect_list,
    &il_cmd_effect_show,
    &il_cmd_effect_check,
    &il_cmd_effect_resolve,
    &il_cmd_effect_run,
    &il_cmd_effect_kind_list,
    &il_cmd_effect_kind_get,
    &il_cmd_effect_kind_put,
    &il_cmd_effect_kind_delete,
    &il_cmd_limit_list,
    &il_cmd_limit_get,
    &il_cmd_limit_put,
    &il_cmd_limit_delete,
    &il_cmd_schedule_list,
    &il_cmd_schedule_get,
    &il_cmd_schedule_put,
    &il_cmd_schedule_delete,
    &il_cmd_schedule_pause,
    &il_cmd_schedule_resume,
    &il_cmd_schedule_slots,
    &il_cmd_schedule_run,
    &il_cmd_schedule_backfill,
    &il_cmd_gaps_list,
    &il_cmd_gaps_approve,
    &il_cmd_gaps_dismiss,
    &il_cmd_inbox_list,
    &il_cmd_inbox_assign,
    &il_cmd_inbox_dismiss,
    &il_cmd_impact,
    &il_cmd_rerun,
    &il_cmd_source_list,
    &il_cmd_source_pause,
    &il_cmd_source_resume,
    &il_cmd_alert_list,
    &il_cmd_alert_get,
    &il_cmd_alert_put,
    &il_cmd_alert_delete,
    &il_cmd_token_create,
    &il_cmd_token_revoke,
    &il_cmd_token_list,
    &il_cmd_keys_init,
    &il_cmd_keys_rotate,
    &il_cmd_keys_list,
    &il_cmd_keys_prune,
    &il_cmd_migrate,
    &il_cmd_doctor,
    NULL
};


/* Prints the commands whose first word is `word` (NULL: all). */
static size_t
il_main_list(FILE *f, const char *word)
{
    size_t  n, len;

    n = 0;
    len = (word == NULL) ? 0 : strlen(word);

    for (size_t i = 0; il_cmds[i] != NULL; i++) {
        if (word == NULL
            || (strncmp(il_cmds[i]->name, word, len) == 0
                && il_cmds[i]->name[len] == ' '))
        {
            (void) fprintf(f, "  %-18s %s\n", il_cmds[i]->name,
                           il_cmds[i]->summary);
            n++;
        }
    }

    return n;
}


static void
il_main_help(FILE *f)
{
    (void) fputs("usage: interlock COMMAND [options]\n\ncommands:\n", f);
    (void) il_main_list(f, NULL);
    (void) fputs("\ninterlock COMMAND --help tells more;"
                 " interlock --version shows the version.\n", f);
}


static const il_cmd_t *
il_main_find(int argc, char **argv, int *words)
{
    const char  *name;
    size_t       len;

    for (size_t i = 0; il_cmds[i] != NULL; i++) {
        name = il_cmds[i]->name;

        if (strcmp(name, argv[1]) == 0) {
            *words = 1;
            return il_cmds[i];
        }

        len = strlen(argv[1]);

        if (argc > 2 && strncmp(name, argv[1], len) == 0 && name[len] == ' '
            && strcmp(name + len + 1, argv[2]) == 0)
        {
            *words = 2;
            return il_cmds[i];
        }
    }

    return NULL;
}


/* Options that stand before the command (interlock --url U job ID) are moved
 * behind it, where the command's own table judges them.  How many arguments
 * they are. */
static int
il_main_leading(int argc, char **argv)
{
    int          i;
    const char  *const *o;

    static const char *const  with_value[] = {
        "--url", "--token-file", "--dsn-file", NULL
    };

    for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--") == 0
            || strcmp(argv[i], "--version") == 0)
        {
            break;
        }

        for (o = with_value; *o != NULL; o++) {
            if (strcmp(argv[i], *o) == 0) {
                i++;
                break;
            }
        }
    }

    return i > argc ? argc - 1 : i - 1;
}


static int
il_main_run(const il_cmd_t *cmd, int argc, char **argv, int leading, int words)
{
    int     rc, n, rest;
    char  **v;

    v = il_xalloc((size_t) argc + 1, sizeof(char *));
    rest = argc - 1 - leading - words;
    n = 0;

    for (int i = 0; i < leading; i++) {
        v[n++] = argv[1 + i];
    }

    for (int i = 0; i < rest; i++) {
        v[n++] = argv[1 + leading + words + i];
    }

    rc = il_cmd_run(cmd, n, v);
    free(v);

    return rc;
}


/* A standard stream that is closed would be the number of the next file or
 * connection, which would get what is printed.  In its place there is one that
 * fails as a closed one does. */
static int
il_main_streams(void)
{
    int  fd;

    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1
            && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY)
               != fd)
        {
            return -1;
        }
    }

    return 0;
}


int
main(int argc, char **argv)
{
    int              words, leading;
    const il_cmd_t  *cmd;

    (void) signal(SIGPIPE, SIG_IGN);

    if (il_main_streams() != 0) {
        return EX_OSERR;
    }

    if (sodium_init() < 0) {
        il_err("cannot initialize libsodium");
        return EX_SOFTWARE;
    }

    leading = il_main_leading(argc, argv);

    if (argc < 2 + leading) {
        il_main_help(stderr);
        return EX_USAGE;
    }

    cmd = il_main_find(argc - leading, argv + leading, &words);

    if (cmd != NULL) {
        return il_main_run(cmd, argc, argv, leading, words);
    }

    argc -= leading;
    argv += leading;

    if (strcmp(argv[1], "--version") == 0) {
        (void) printf("interlock %s\n", IL_VERSION);
        return il_out_end(EX_OK);
    }

    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0
        || strcmp(argv[1], "help") == 0)
    {
        il_main_help(stdout);
        return il_out_end(EX_OK);
    }

    if (argc > 2 && (strcmp(argv[2], "--help") == 0
                     || strcmp(argv[2], "-h") == 0)
        && il_main_list(stdout, argv[1]) != 0)
    {
        return il_out_end(EX_OK);
    }

    if (argc == 2 && il_main_list(stderr, argv[1]) != 0) {
        il_err("%s: a second word is missing", argv[1]);
        return EX_USAGE;
    }

    il_err("unknown command %s%s%s (see interlock --help)", argv[1],
           argc > 2 ? " " : "", argc > 2 ? argv[2] : "");

    return EX_USAGE;
}
