/*
 * sock.c: unix sockets by path.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sock.h"


/* A socket file that nobody listens at is left over from a crash. */

static int
il_sock_clear(const char *name, int type, const struct sockaddr_un *addr,
    char *err, size_t cap)
{
    int          fd, rc;
    struct stat  st;

    if (lstat(addr->sun_path, &st) != 0) {
        return 0;
    }

    if (!S_ISSOCK(st.st_mode)) {
        (void) snprintf(err, cap, "%s: \"%s\" is not a socket", name,
                        addr->sun_path);
        return -1;
    }

    fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        (void) snprintf(err, cap, "socket: %s", strerror(errno));
        return -1;
    }

    rc = connect(fd, (const struct sockaddr *) addr, sizeof(*addr));
    (void) close(fd);

    if (rc == 0) {
        (void) snprintf(err, cap, "%s: \"%s\" is in use", name,
                        addr->sun_path);
        return -1;
    }

    if (unlink(addr->sun_path) != 0) {
        (void) snprintf(err, cap, "unlink \"%s\": %s", addr->sun_path,
                        strerror(errno));
        return -1;
    }

    return 0;
}


int
il_sock_bind(const char *name, const char *path, int type, char *err,
    size_t cap)
{
    int                 fd, rc;
    mode_t              mask;
    struct sockaddr_un  addr;

    memset(&addr, 0, sizeof(addr));
    addr.sun_family = AF_UNIX;

    if (strlen(path) >= sizeof(addr.sun_path)) {
        (void) snprintf(err, cap, "%s: the path is longer than %zu bytes",
                        name, sizeof(addr.sun_path) - 1);
        return -1;
    }

    memcpy(addr.sun_path, path, strlen(path));

    if (il_sock_clear(name, type, &addr, err, cap) != 0) {
        return -1;
    }

    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        (void) snprintf(err, cap, "socket: %s", strerror(errno));
        return -1;
    }

    mask = umask(0117);
    rc = bind(fd, (struct sockaddr *) &addr, sizeof(addr));

    if (rc != 0) {
        (void) snprintf(err, cap, "%s: \"%s\": %s", name, path,
                        strerror(errno));
    }

    (void) umask(mask);

    if (rc != 0) {
        (void) close(fd);
        return -1;
    }

    return fd;
}
