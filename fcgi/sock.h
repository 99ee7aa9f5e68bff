/*
 * sock.h: unix sockets by path.
 */

#ifndef IL_SOCK_H
#define IL_SOCK_H

#include <stddef.h>

#include "il_str.h"

/*
 * A socket of a type (SOCK_STREAM, SOCK_DGRAM) bound to path, non-blocking,
 * closed on exec, mode 0660.  A file there that nobody listens at is left over
 * from a crash and replaced; one that somebody listens at is not.  name (of
 * the setting) begins the message.  Before any other thread starts: the umask
 * is the process's.  The descriptor, which is the caller's, or -1 and a
 * message in err.
 */
int il_sock_bind(const char *name, const char *path, int type, char *err,
    size_t cap) IL_MUST_CHECK;

#endif /* IL_SOCK_H */
