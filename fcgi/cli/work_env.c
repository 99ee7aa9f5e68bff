/*
 * work_env.c: what a command gets beside its standard input: its environment,
 * and what an earlier attempt has left for it, as files in memory.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                 /* memfd_create() */
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "work.h"

extern char  **environ;


static char *
il_env_var(const char *name, const char *value)
{
    il_buf_t  b;

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, name);
    il_buf_puts(&b, "=");
    il_buf_puts(&b, value);

    return b.data;
}


char **
il_work_environ(const il_work_job_t *job)
{
    char    **env;
    size_t    i, k, n, len;

    /* (not /dev/fd, which some shells take for the descriptor itself: what
     * was read once would be at its end) */

    const struct {
        const char  *name;
        const char  *value;
    } vars[] = {
        { "INTERLOCK_JOB_ID", job->job_id },
        { "INTERLOCK_KIND", job->kind },
        { "INTERLOCK_WORK_KEY", job->work_key },
        { "INTERLOCK_FENCE", job->fence },
        { "INTERLOCK_ATTEMPT", job->attempt },
        { "INTERLOCK_OWNER_TOKEN", job->owner_token },
        { "INTERLOCK_URL", job->work->base },
        { "INTERLOCK_CONTENT_TYPE", job->content_type },
        { "INTERLOCK_HEADERS", job->headers },
        { "INTERLOCK_STEP", job->step },
        { "INTERLOCK_CHECKPOINT",
          job->checkpoint == NULL ? NULL : "/proc/self/fd/3" },
        { "INTERLOCK_ATTEMPTS",
          job->attempts == NULL ? NULL : "/proc/self/fd/4" },
        { "INTERLOCK_EFFECTS",
          job->effects == NULL ? NULL : "/proc/self/fd/5" },
        { "TRACEPARENT", job->traceparent },
    };

    for (n = 0; environ[n] != NULL; n++) { /* void */ }

    env = il_xalloc(n + sizeof(vars) / sizeof(vars[0]) + 1, sizeof(char *));
    k = 0;

    for (i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
        if (vars[i].value != NULL) {
            env[k++] = il_env_var(vars[i].name, vars[i].value);
        }
    }

    /* of ours what no job has of its own */

    for (n = 0; environ[n] != NULL; n++) {
        for (i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
            len = strlen(vars[i].name);

            if (strncmp(environ[n], vars[i].name, len) == 0
                && environ[n][len] == '=')
            {
                break;
            }
        }

        if (i == sizeof(vars) / sizeof(vars[0])) {
            env[k++] = il_xstrndup(environ[n], strlen(environ[n]));
        }
    }

    return env;
}


void
il_work_environ_free(char **env)
{
    for (size_t i = 0; env[i] != NULL; i++) {
        explicit_bzero(env[i], strlen(env[i]));
        free(env[i]);
    }

    free(env);
}


/* A file that nobody can change; its descriptor, or -1 with errno. */
static int
il_env_file(const char *name, const char *text)
{
    int      fd, e;
    size_t   len;
    ssize_t  n;

    fd = memfd_create(name, MFD_CLOEXEC|MFD_ALLOW_SEALING);

    if (fd == -1) {
        return -1;
    }

    for (len = strlen(text); len != 0; text += n, len -= (size_t) n) {
        n = write(fd, text, len);

        if (n == -1) {
            break;
        }
    }

    if (len == 0
        && lseek(fd, 0, SEEK_SET) == 0
        && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE|F_SEAL_GROW|F_SEAL_SHRINK
                                  |F_SEAL_SEAL) == 0)
    {
        return fd;
    }

    e = errno;
    (void) close(fd);
    errno = e;

    return -1;
}


int
il_work_files(const il_work_job_t *job, int files[IL_WARD_FILES])
{
    int  e;

    const struct {
        const char  *name;
        const char  *text;
    } parts[IL_WARD_FILES] = {
        { "interlock-checkpoint", job->checkpoint },
        { "interlock-attempts", job->attempts },
        { "interlock-effects", job->effects },
    };

    e = 0;

    for (size_t i = 0; i < IL_WARD_FILES; i++) {
        files[i] = -1;

        if (parts[i].text != NULL && e == 0) {
            files[i] = il_env_file(parts[i].name, parts[i].text);
            e = files[i] == -1 ? errno : 0;
        }
    }

    return e;
}
