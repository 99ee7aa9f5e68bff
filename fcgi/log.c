/*
 * log.c: one line an event, written by one write(2), so that lines of
 * several threads never mix and no lock is held while writing.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "il_time.h"
#include "log.h"


#define IL_LOG_LINE  2048


static int             il_log_fd = STDERR_FILENO;
static char            il_log_path[4096];
static il_log_level_e  il_log_max = IL_LOG_NOTICE;

static const char *const  il_log_names[] = {
    "error", "warn", "notice", "info", "debug"
};


int
il_log_level_find(const char *name)
{
    int  i;

    for (i = 0; i <= IL_LOG_DEBUG; i++) {
        if (strcmp(il_log_names[i], name) == 0) {
            return i;
        }
    }

    return -1;
}


static int
il_log_open_path(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}


int
il_log_open(const char *path, il_log_level_e level)
{
    int  fd;

    il_log_max = level;

    if (path == NULL || path[0] == '\0' || strcmp(path, "stderr") == 0) {
        return 0;
    }

    if (strlen(path) >= sizeof(il_log_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }

    fd = il_log_open_path(path);
    if (fd < 0) {
        return -1;
    }

    memcpy(il_log_path, path, strlen(path) + 1);
    il_log_fd = fd;

    return 0;
}


void
il_log_reopen(void)
{
    int  fd;

    if (il_log_path[0] == '\0') {
        return;
    }

    fd = il_log_open_path(il_log_path);
    if (fd < 0) {
        il_log(IL_LOG_ERROR, "log: cannot open \"%s\" again: %s",
               il_log_path, strerror(errno));
        return;
    }

    /* dup3 swaps the file under the number that other threads write to */

    if (dup3(fd, il_log_fd, O_CLOEXEC) < 0) {
        il_log(IL_LOG_ERROR, "log: dup3: %s", strerror(errno));
    }

    (void) close(fd);
}


void
il_log(il_log_level_e level, const char *fmt, ...)
{
    int              n;
    char             line[IL_LOG_LINE];
    size_t           i, len, start;
    ssize_t          rc;
    va_list          ap;
    struct timespec  ts;

    if (level > il_log_max) {
        return;
    }

    if (clock_gettime(CLOCK_REALTIME, &ts) != 0) {
        ts.tv_sec = 0;
        ts.tv_nsec = 0;
    }

    len = il_rfc3339_format(line, sizeof(line),
                            (int64_t) ts.tv_sec * 1000
                            + ts.tv_nsec / 1000000);

    n = snprintf(line + len, sizeof(line) - len, " %s ", il_log_names[level]);
    if (n < 0) {
        return;
    }

    len += (size_t) n;
    start = len;

    va_start(ap, fmt);
    n = vsnprintf(line + len, sizeof(line) - len, fmt, ap);
    va_end(ap);

    if (n < 0) {
        return;
    }

    len += (size_t) n;

    if (len > sizeof(line) - 2) {
        len = sizeof(line) - 2;
    }

    for (i = start; i < len; i++) {
        if ((unsigned char) line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }

    line[len++] = '\n';

    rc = write(il_log_fd, line, len);
    (void) rc;      /* there is nowhere to say that the log is full */
}
