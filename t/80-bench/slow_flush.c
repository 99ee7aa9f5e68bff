/*
 * slow_flush: each flush to disk takes SLOW_FLUSH_US (1000) microseconds
 * more, as on a disk in a cloud.  To be preloaded into PostgreSQL, whose
 * wal_sync_method is fdatasync here; the flush itself is done, too.
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>


static void
wait_a_little(void)
{
    long             us;
    const char      *text;
    struct timespec  t;

    text = getenv("SLOW_FLUSH_US");
    us = text != NULL ? strtol(text, NULL, 10) : 1000;
    t.tv_sec = us / 1000000;
    t.tv_nsec = us % 1000000 * 1000;

    while (nanosleep(&t, &t) == -1 && errno == EINTR) {
        /* the rest of it */
    }
}


int
fdatasync(int fd)
{
    static int  (*real)(int);

    if (real == NULL) {
        *(void **) &real = dlsym(RTLD_NEXT, "fdatasync");
    }

    wait_a_little();

    return real(fd);
}


int
fsync(int fd)
{
    static int  (*real)(int);

    if (real == NULL) {
        *(void **) &real = dlsym(RTLD_NEXT, "fsync");
    }

    wait_a_little();

    return real(fd);
}
