/*
 * outcall_rules.c: whom a request that interlockd makes by itself may go to,
 * and the secrets that such a request may carry.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "il_addr.h"
#include "il_enc.h"
#include "outcall.h"


int
il_outcall_hosts(const char *name, const char *list, char *err, size_t cap)
{
    il_str_t  bad;

    if (!il_hosts_valid(il_cstr(list), &bad)) {
        (void) snprintf(err, cap, "%s: \"%.*s\" is no host, nor host:port",
                        name, (int) bad.len, bad.data);
        return -1;
    }

    return 0;
}


int
il_outcall_ca(const char *name, const char *path, char *err, size_t cap)
{
    if (path[0] != '\0' && access(path, R_OK) != 0) {
        (void) snprintf(err, cap, "%s \"%s\": %s", name, path,
                        strerror(errno));
        return -1;
    }

    return 0;
}


int
il_outcall_url(const il_outrules_t *rules, il_str_t text, il_url_t *url,
    char *why, size_t cap)
{
    const char       *bad;
    il_addr_class_e   class;

    bad = il_url_parse(text, url);
    if (bad != NULL) {
        (void) snprintf(why, cap, "%s", bad);
        return -1;
    }

    if (url->family != 0) {
        class = url->family == 4 ? il_addr_class4(url->addr)
                                 : il_addr_class6(url->addr);

        if (class == IL_ADDR_NEVER
            || (class == IL_ADDR_PRIVATE
                && !il_hosts_match(il_cstr(rules->private), url)))
        {
            (void) snprintf(why, cap, "has an address that may not be called "
                            "from here (private, link-local or reserved)");
            return -1;
        }
    }

    if (!il_hosts_match(il_cstr(rules->hosts), url)) {
        (void) snprintf(why, cap, "has a host that is not among %s of the "
                        "configuration", rules->setting);
        return -1;
    }

    return 0;
}


/* The first line of a file among the secrets, which nobody else may read. */

int
il_outcall_secret(const char *setting, const char *dir, il_str_t name,
    char *out, size_t cap, size_t *len, char *why, size_t why_cap)
{
    int          fd;
    char         path[1024];
    ssize_t      n;
    struct stat  st;

    if (dir[0] == '\0'
        || snprintf(path, sizeof(path), "%s/%.*s", dir, (int) name.len,
                    name.data) >= (int) sizeof(path)
        || name.len == 0 || name.data[0] == '.'
        || memchr(name.data, '/', name.len) != NULL)
    {
        (void) snprintf(why, why_cap, "there is no secret of that name (see "
                        "%s)", setting);
        return -1;
    }

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        (void) snprintf(why, why_cap, "the secret \"%.*s\" cannot be read: "
                        "%s", (int) name.len, name.data, strerror(errno));
        return -1;
    }

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)
        || (st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    {
        (void) close(fd);
        (void) snprintf(why, why_cap, "the secret \"%.*s\" must be a file "
                        "that only its owner may read (chmod 600)",
                        (int) name.len, name.data);
        return -1;
    }

    n = read(fd, out, cap);
    (void) close(fd);

    *len = 0;

    while (n > 0 && *len < (size_t) n && out[*len] != '\n') {
        (*len)++;
    }

    if (*len != 0 && out[*len - 1] == '\r') {
        (*len)--;
    }

    if (*len == 0 || *len == cap || il_has_control(il_str(out, *len))) {
        (void) snprintf(why, why_cap, "the secret \"%.*s\" is empty, too "
                        "long or has control characters", (int) name.len,
                        name.data);
        return -1;
    }

    return 0;
}
