/*
 * cli.h: what the commands of `interlock` share: the command table, options,
 * exit codes, buffers, output.
 *
 * A command is one row (il_cmd_t) with its options in one table; parsing,
 * --help and the check of its arguments happen in one place (opt.c).
 */

#ifndef IL_CLI_H
#define IL_CLI_H

#include <stdint.h>
#include <stdio.h>
#include <sysexits.h>

#include "il_str.h"

#define IL_EXIT_NO  1               /* asked and answered: no */

#define IL_DEFAULT_URL  "http://127.0.0.1:8080"

/* Options that commands have in common; the first member of each command's
 * own structure. */
typedef struct {
    int          help;
    int          json;
    const char  *url;               /* base URL without trailing slash */
    const char  *token_file;
    const char  *dsn_file;
} il_common_t;

typedef enum {
    IL_OPT_FLAG = 0,                /* int: set to 1 */
    IL_OPT_STR,                     /* const char * */
    IL_OPT_LIST,                    /* il_list_t: may be repeated */
    IL_OPT_INT,                     /* int64_t within [min, max] */
    IL_OPT_OPT_INT                  /* --name or --name=N; without N: max */
} il_opt_type_e;

typedef struct {
    const char     *name;           /* without the dashes */
    il_opt_type_e   type;
    size_t          offset;         /* in the command's structure */
    const char     *arg;            /* name of the value, for help */
    const char     *help;
    int64_t         min;
    int64_t         max;
    int64_t         dflt;           /* IL_OPT_INT, IL_OPT_OPT_INT */
} il_opt_t;

#define IL_OPT_END  { NULL, IL_OPT_FLAG, 0, NULL, NULL, 0, 0, 0 }

typedef struct {
    char    **v;                    /* pointers into argv */
    size_t    n;
} il_list_t;

typedef struct il_cmd_s  il_cmd_t;

typedef struct {
    const il_cmd_t  *cmd;
    il_list_t        pos;           /* positional arguments */
    il_list_t        tail;          /* behind "--", if the command takes it;
                                       ends with a NULL pointer */
} il_args_t;

typedef int (*il_cmd_run_pt)(void *opts, const il_args_t *args);

#define IL_CMD_CLIENT  0x01         /* takes --url, --token-file */
#define IL_CMD_DSN     0x02         /* takes --dsn-file */
#define IL_CMD_TAIL    0x04         /* takes -- command */

struct il_cmd_s {
    const char      *name;          /* one word, or two: "token create" */
    il_cmd_run_pt    run;           /* returns the exit code */
    const char      *summary;
    const char      *synopsis;      /* arguments, for help */
    const char      *about;         /* text for --help */
    const il_opt_t  *opts;
    size_t           size;          /* of the structure, il_common_t first */
    unsigned         flags;
    size_t           min_args;
    size_t           max_args;
};

/* Parses argv (behind the command's name) and runs the command.  Returns its
 * exit code, or EX_USAGE. */
int il_cmd_run(const il_cmd_t *cmd, int argc, char **argv);

/* Writes the help of one command. */
void il_cmd_help(FILE *f, const il_cmd_t *cmd);


/* Growing buffer.  Running out of memory ends the program (EX_OSERR); going
 * beyond max sets `full` and keeps what fits. */
typedef struct {
    char    *data;                  /* always a NUL behind, once not NULL */
    size_t   len;
    size_t   cap;
    size_t   max;                   /* 0: no bound */
    int      full;
} il_buf_t;

void il_buf_add(il_buf_t *b, const void *data, size_t len);
void il_buf_puts(il_buf_t *b, const char *s);
void il_buf_printf(il_buf_t *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds s as a JSON string, with quotes. */
void il_buf_json(il_buf_t *b, il_str_t s);
il_str_t il_buf_str(const il_buf_t *b);
/* Wipes and frees; the buffer is empty and usable after it. */
void il_buf_free(il_buf_t *b);

/* Never NULL: out of memory ends the program. */
void *il_xalloc(size_t n, size_t size);
char *il_xstrndup(const char *s, size_t n);


/* One line on standard error, "interlock: " before it. */
void il_err(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints a JSON value for people: members of an object a line each, strings
 * bare unless they have control characters; for lists one line an item. */
void il_out_human(FILE *f, il_str_t json);

/* Prints at most max bytes of s, as one line without its end: control
 * characters become spaces, "..." stands for what was left out. */
void il_out_clean(FILE *f, const char *s, size_t max);

/* Prints s with a newline behind unless it ends with one. */
void il_out_line(FILE *f, il_str_t s);

/* Flushes standard output; EX_IOERR with a message if it could not be
 * written, else rc. */
int il_out_end(int rc);

/* The same for what was done whether or not it can be printed: the message,
 * and rc in any case. */
int il_out_done(int rc);

/* Member of a JSON object as text (strings unescaped, numbers as written);
 * a new string, or NULL if it is missing, null or not a scalar. */
char *il_json_text(il_str_t json, const char *pointer);

/* Member of a JSON object as a whole number, or dflt. */
int64_t il_json_int(il_str_t json, const char *pointer, int64_t dflt);


/* Reads a whole file ("-": standard input) of at most max bytes.  0, or an
 * exit code with the message already written. */
int il_file_read(il_buf_t *b, const char *path, size_t max);

/* Reads the first line of a file that holds one secret; 0 or exit code. */
int il_file_secret(il_buf_t *b, const char *path);

/* Creates a new file of mode 0600 with this content, durable: a temporary
 * file beside it, linked to its name, never over an existing one.  0 or
 * exit code. */
int il_file_create(const char *path, const void *data, size_t len);

/* The same; root makes it for the owner of the directory. */
int il_file_create_for_dir(const char *path, const void *data, size_t len);

/* Removes a file, durably.  0 or exit code. */
int il_file_remove(const char *path);

/* base/name as a new string. */
char *il_path_join(const char *base, const char *name);

/* Names in a directory that end with suffix, sorted bytewise; -1 with errno
 * if it cannot be read.  Free with il_names_free(). */
int il_dir_names(il_list_t *names, const char *dir, const char *suffix);
void il_names_free(il_list_t *names);

#endif /* IL_CLI_H */
