/*
 * keys.c: the token signing keys, from files.
 *
 * NAME.seed has 64 hex digits, an Ed25519 seed; NAME.pub a k4.public key that
 * only verifies.  The lexically last seed signs, all verify, so that a new
 * key can be spread before it signs.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "il_enc.h"
#include "server.h"


#define IL_KEY_FILE_MAX  256


static int
il_keys_filter(const struct dirent *d)
{
    size_t  n;

    n = strlen(d->d_name);

    return d->d_name[0] != '.'
           && ((n > 5 && strcmp(d->d_name + n - 5, ".seed") == 0)
               || (n > 4 && strcmp(d->d_name + n - 4, ".pub") == 0));
}


/* The first line, without white space at its end.  0 or -1. */

static int
il_keys_read(const char *dir, const char *name, int secret, char *out,
    size_t *len, char *err, size_t cap)
{
    int          fd;
    char         path[4096];
    ssize_t      n;
    struct stat  st;

    if (snprintf(path, sizeof(path), "%s/%s", dir, name)
        >= (int) sizeof(path))
    {
        (void) snprintf(err, cap, "keys: \"%s/%s\": the path is too long",
                        dir, name);
        return -1;
    }

    fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0) {
        (void) snprintf(err, cap, "keys: \"%s\": %s", path, strerror(errno));

        if (fd >= 0) {
            (void) close(fd);
        }

        return -1;
    }

    if (secret && (st.st_mode & 077) != 0) {
        (void) snprintf(err, cap, "keys: \"%s\" may be read by others: its "
                        "mode must be 0600", path);
        (void) close(fd);
        return -1;
    }

    n = read(fd, out, IL_KEY_FILE_MAX);
    (void) close(fd);

    if (n < 0) {
        (void) snprintf(err, cap, "keys: \"%s\": %s", path, strerror(errno));
        return -1;
    }

    while (n > 0 && strchr(" \t\r\n", out[n - 1]) != NULL) {
        n--;
    }

    *len = (size_t) n;

    return 0;
}


static int
il_keys_one(il_token_key_t *key, const char *dir, const char *name, char *err,
    size_t cap)
{
    int      rc, secret;
    char     text[IL_KEY_FILE_MAX];
    size_t   len, n;
    uint8_t  raw[32];

    static const char  prefix[] = "k4.public.";

    len = strlen(name);
    secret = (len > 5 && strcmp(name + len - 5, ".seed") == 0);

    if (il_keys_read(dir, name, secret, text, &len, err, cap) != 0) {
        return -1;
    }

    if (secret) {
        rc = il_hex_decode(raw, sizeof(raw), il_str(text, len));

        if (rc == 0) {
            il_token_key_from_seed(key, raw);
        }

    } else {
        rc = -1;

        if (len > sizeof(prefix) - 1
            && memcmp(text, prefix, sizeof(prefix) - 1) == 0)
        {
            rc = il_b64_decode(raw, sizeof(raw), &n,
                               il_str(text + sizeof(prefix) - 1,
                                      len - (sizeof(prefix) - 1)),
                               IL_B64_URL_NOPAD);
            rc = (rc == 0 && n == sizeof(raw)) ? 0 : -1;
        }

        if (rc == 0) {
            il_token_key_from_public(key, raw);
        }
    }

    sodium_memzero(raw, sizeof(raw));
    sodium_memzero(text, sizeof(text));

    if (rc != 0) {
        (void) snprintf(err, cap, "keys: \"%s/%s\" is not %s", dir, name,
                        secret ? "64 hex digits" : "a k4.public key");
    }

    return rc;
}


int
il_keys_load(il_token_keys_t *keys, const char *dir, char *err, size_t cap)
{
    int               i, n, rc;
    il_token_key_t    first;
    struct dirent   **list;

    memset(keys, 0, sizeof(*keys));

    n = scandir(dir, &list, il_keys_filter, alphasort);
    if (n < 0) {
        (void) snprintf(err, cap, "keys: \"%s\": %s", dir, strerror(errno));
        return -1;
    }

    rc = 0;

    /* from the last to the first: newest first */

    for (i = n - 1; i >= 0; i--) {

        if (rc == 0 && keys->n == IL_TOKEN_KEYS_MAX) {
            (void) snprintf(err, cap, "keys: \"%s\" has more than %d keys",
                            dir, IL_TOKEN_KEYS_MAX);
            rc = -1;
        }

        if (rc == 0) {
            rc = il_keys_one(&keys->keys[keys->n], dir, list[i]->d_name, err,
                             cap);
            keys->n += (rc == 0);
        }

        free(list[i]);
    }

    free(list);

    if (rc != 0) {
        return -1;
    }

    for (i = 0; i < (int) keys->n; i++) {
        if (keys->keys[i].can_sign) {
            first = keys->keys[i];
            memmove(&keys->keys[1], &keys->keys[0],
                    (size_t) i * sizeof(il_token_key_t));
            keys->keys[0] = first;
            sodium_memzero(&first, sizeof(first));
            return 0;
        }
    }

    (void) snprintf(err, cap, "keys: \"%s\" has no *.seed to sign with", dir);

    return -1;
}
