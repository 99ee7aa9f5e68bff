/*
 * file.c: reading files, and creating private ones so that a crash leaves
 * either the whole file under its name or nothing.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                 /* mkostemp() */
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"


int
il_file_read(il_buf_t *b, const char *path, size_t max)
{
    int      fd, rc;
    char     chunk[16384];
    ssize_t  n;

    if (strcmp(path, "-") == 0) {
        fd = STDIN_FILENO;

    } else {
        fd = open(path, O_RDONLY|O_CLOEXEC);

        if (fd == -1) {
            il_err("cannot open %s: %s", path, strerror(errno));
            return errno == EACCES ? EX_NOPERM : EX_NOINPUT;
        }
    }

    rc = 0;

    for ( ;; ) {
        n = read(fd, chunk, sizeof(chunk));

        if (n == -1 && errno == EINTR) {
            continue;
        }

        if (n == -1) {
            il_err("cannot read %s: %s", path, strerror(errno));
            rc = EX_IOERR;
            break;
        }

        if (n == 0) {
            il_buf_add(b, "", 0);
            break;
        }

        if ((size_t) n > max - b->len) {
            il_err("%s is larger than %zu bytes", path, max);
            rc = EX_DATAERR;
            break;
        }

        il_buf_add(b, chunk, (size_t) n);
    }

    explicit_bzero(chunk, sizeof(chunk));

    if (fd != STDIN_FILENO) {
        (void) close(fd);
    }

    return rc;
}


int
il_file_secret(il_buf_t *b, const char *path)
{
    int    rc;
    char  *end;

    rc = il_file_read(b, path, 65536);

    if (rc != 0) {
        return rc;
    }

    end = memchr(b->data, '\n', b->len);

    if (end != NULL) {
        b->len = (size_t) (end - b->data);
    }

    while (b->len != 0 && strchr(" \t\r", b->data[b->len - 1]) != NULL) {
        b->len--;
    }

    b->data[b->len] = '\0';

    if (b->len == 0 || strlen(b->data) != b->len) {
        il_err("%s holds nothing usable in its first line", path);
        return EX_CONFIG;
    }

    return 0;
}


/* The directory of a file's path, a new string. */
static char *
il_file_dir(const char *path)
{
    const char  *slash;

    slash = strrchr(path, '/');

    if (slash == NULL) {
        return il_xstrndup(".", 1);
    }

    return il_xstrndup(path, slash == path ? 1 : (size_t) (slash - path));
}


static int
il_file_sync_dir(const char *path)
{
    int    fd, rc;
    char  *dir;

    dir = il_file_dir(path);
    rc = -1;
    fd = open(dir, O_RDONLY|O_DIRECTORY|O_CLOEXEC);

    if (fd != -1) {
        rc = fsync(fd);
        (void) close(fd);
    }

    free(dir);
    return rc;
}


static int
il_file_write(int fd, const char *data, size_t len)
{
    ssize_t  n;

    while (len != 0) {
        n = write(fd, data, len);

        if (n == -1 && errno == EINTR) {
            continue;
        }

        if (n == -1) {
            return -1;
        }

        data += n;
        len -= (size_t) n;
    }

    return fsync(fd);
}


/* A file made by root in a service's directory is for the service. */
static int
il_file_owner(int fd, const char *path)
{
    int          rc;
    char        *dir;
    struct stat  st;

    if (geteuid() != 0) {
        return 0;
    }

    dir = il_file_dir(path);
    rc = stat(dir, &st);
    free(dir);

    return rc != 0 ? rc : fchown(fd, st.st_uid, st.st_gid);
}


static int
il_file_make(const char *path, const void *data, size_t len, int as_dir)
{
    int       fd, rc, e;
    il_buf_t  tmp;

    memset(&tmp, 0, sizeof(tmp));
    il_buf_puts(&tmp, path);
    il_buf_puts(&tmp, ".XXXXXX");

    fd = mkostemp(tmp.data, O_CLOEXEC);     /* mode 0600 */

    if (fd == -1) {
        il_err("cannot create a file beside %s: %s", path, strerror(errno));
        il_buf_free(&tmp);
        return EX_CANTCREAT;
    }

    rc = as_dir ? il_file_owner(fd, path) : 0;

    if (rc == 0) {
        rc = il_file_write(fd, data, len);
    }

    e = errno;

    if (close(fd) != 0 && rc == 0) {
        rc = -1;
        e = errno;
    }

    /* link() and not rename(): an existing file is never replaced */

    if (rc == 0) {
        rc = link(tmp.data, path);
        e = errno;
    }

    (void) unlink(tmp.data);
    il_buf_free(&tmp);

    if (rc == 0) {
        rc = il_file_sync_dir(path);
        e = errno;
    }

    if (rc != 0) {
        il_err("cannot create %s: %s", path, strerror(e));
        return EX_CANTCREAT;
    }

    return 0;
}


int
il_file_create(const char *path, const void *data, size_t len)
{
    return il_file_make(path, data, len, 0);
}


int
il_file_create_for_dir(const char *path, const void *data, size_t len)
{
    return il_file_make(path, data, len, 1);
}


int
il_file_remove(const char *path)
{
    if (unlink(path) != 0 || il_file_sync_dir(path) != 0) {
        il_err("cannot remove %s: %s", path, strerror(errno));
        return errno == EACCES || errno == EPERM ? EX_NOPERM : EX_IOERR;
    }

    return 0;
}


char *
il_path_join(const char *base, const char *name)
{
    char    *p;
    size_t   n;

    n = strlen(base) + strlen(name) + 2;
    p = il_xalloc(n, 1);
    (void) snprintf(p, n, "%s/%s", base, name);

    return p;
}


static int
il_name_cmp(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}


int
il_dir_names(il_list_t *names, const char *dir, const char *suffix)
{
    DIR            *d;
    size_t          n, s;
    struct dirent  *e;

    names->v = NULL;
    names->n = 0;
    d = opendir(dir);

    if (d == NULL) {
        return -1;
    }

    s = strlen(suffix);

    while ((e = readdir(d)) != NULL) {
        n = strlen(e->d_name);

        if (e->d_name[0] == '.' || n <= s
            || strcmp(e->d_name + n - s, suffix) != 0)
        {
            continue;
        }

        names->v = realloc(names->v, (names->n + 1) * sizeof(char *));

        if (names->v == NULL) {
            il_err("out of memory");
            exit(EX_OSERR);
        }

        names->v[names->n++] = il_xstrndup(e->d_name, n);
    }

    (void) closedir(d);

    if (names->n != 0) {
        qsort(names->v, names->n, sizeof(char *), il_name_cmp);
    }

    return 0;
}


void
il_names_free(il_list_t *names)
{
    for (size_t i = 0; i < names->n; i++) {
        free(names->v[i]);
    }

    free(names->v);
    names->v = NULL;
    names->n = 0;
}
