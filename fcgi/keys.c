/*
 * keys.c: the token signing keys, from files.
 *
 * NAME.seed has 64 hex digits, an Ed25519 seed; NAME.pub a k4.public key that
 * only verifies.  The lexically last seed signs, all verify, so that a new
 * key can be spread before it signs.
 *
 * They are read at the start, on SIGHUP, and when a token names a key that is
 * not among them: where several hosts share a database, one of them signs with
 * a new key while the others have not been told yet.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "buf.h"
#include "il_enc.h"
#include "il_json.h"
#include "log.h"
#include "server.h"


#define IL_KEY_FILE_MAX     256
#define IL_KEY_UNKNOWN_MS   1000    /* between two looks for an unknown one */
#define IL_KEY_TICK_MS      50      /* finer than that no file's time is */


static pthread_rwlock_t  il_keys_lock = PTHREAD_RWLOCK_INITIALIZER;
static il_token_keys_t   il_keys;           /* under il_keys_lock */

/* The last look for a key that was not known, and the directory's time then;
 * under its lock. */

static struct {
    pthread_mutex_t  lock;
    int64_t          at;
    int64_t          changed;
} il_keys_looked = {
    .lock = PTHREAD_MUTEX_INITIALIZER
};


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


static int
il_keys_dir(il_token_keys_t *keys, const char *dir, char *err, size_t cap)
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


/* Puts the key that signs now first again, if it is still there. */

static void
il_keys_same_signer(il_token_keys_t *keys)
{
    size_t          i;
    il_token_key_t  signer;

    for (i = 1; i < keys->n; i++) {
        if (keys->keys[i].can_sign
            && strcmp(keys->keys[i].pid, il_keys.keys[0].pid) == 0)
        {
            signer = keys->keys[i];
            memmove(&keys->keys[1], &keys->keys[0],
                    i * sizeof(il_token_key_t));
            keys->keys[0] = signer;
            sodium_memzero(&signer, sizeof(signer));
            return;
        }
    }
}


/* With the lock held. */

static int
il_keys_are(const il_token_keys_t *keys)
{
    size_t  i;

    if (keys->n != il_keys.n) {
        return 0;
    }

    for (i = 0; i < keys->n; i++) {
        if (memcmp(keys->keys[i].pk, il_keys.keys[i].pk,
                   sizeof(keys->keys[i].pk))
            != 0)
        {
            return 0;
        }
    }

    return 1;
}


static int
il_keys_read_all(const char *dir, int same_signer, char *err, size_t cap)
{
    int              rc;
    il_token_keys_t  keys;

    rc = il_keys_dir(&keys, dir, err, cap);

    if (rc == 0) {
        (void) pthread_rwlock_wrlock(&il_keys_lock);

        if (same_signer) {
            il_keys_same_signer(&keys);
        }

        /* what was good by other keys is not known to be good by these;
         * but tokens that name no key have the files read, too */

        if (!il_keys_are(&keys)) {
            il_seen_forget();
        }

        il_keys = keys;
        (void) pthread_rwlock_unlock(&il_keys_lock);
    }

    sodium_memzero(&keys, sizeof(keys));

    return rc;
}


int
il_keys_load(const char *dir, char *err, size_t cap)
{
    il_seen_init();

    return il_keys_read_all(dir, 0, err, cap);
}


void
il_keys_wipe(void)
{
    (void) pthread_rwlock_wrlock(&il_keys_lock);
    il_seen_forget();
    sodium_memzero(&il_keys, sizeof(il_keys));
    (void) pthread_rwlock_unlock(&il_keys_lock);
}


/* Told by a signal, the last key signs.  Because of a token (told is 0) only
 * others are added, for nginx and the other hosts may not know a new one yet;
 * and it says only what changed, for a log must not grow by what is sent. */

static void
il_keys_again(int told)
{
    int     changed;
    char    err[IL_CONF_ERR_CAP], kid[IL_PASERK_PID + 1];
    char    old[sizeof(kid)];
    size_t  n, before;

    (void) pthread_rwlock_rdlock(&il_keys_lock);
    before = il_keys.n;
    memcpy(old, il_keys.keys[0].pid, sizeof(old));
    (void) pthread_rwlock_unlock(&il_keys_lock);

    if (il_keys_read_all(il_srv.conf.keys_dir, !told, err, sizeof(err)) != 0) {
        il_log(IL_LOG_ERROR, "the keys stay as they are: %s", err);
        return;
    }

    (void) pthread_rwlock_rdlock(&il_keys_lock);
    n = il_keys.n;
    memcpy(kid, il_keys.keys[0].pid, sizeof(kid));
    (void) pthread_rwlock_unlock(&il_keys_lock);

    changed = (n != before || strcmp(kid, old) != 0);

    if (told || changed) {
        il_log(IL_LOG_NOTICE, "%zu keys read, %s signs", n, kid);
    }
}


void
il_keys_reload(void)
{
    il_keys_again(1);
}


int
il_keys_issue(char *out, size_t cap, size_t *outlen,
    const il_owner_claims_t *claims)
{
    int  rc;

    (void) pthread_rwlock_rdlock(&il_keys_lock);
    rc = il_owner_issue(out, cap, outlen, claims, &il_keys.keys[0]);

    if (rc == 0) {
        il_seen_put(il_str(out, *outlen), claims);
    }

    (void) pthread_rwlock_unlock(&il_keys_lock);

    return rc;
}


int
il_keys_issue_ticket(char *out, size_t cap, size_t *outlen,
    const il_ticket_claims_t *claims)
{
    int  rc;

    (void) pthread_rwlock_rdlock(&il_keys_lock);
    rc = il_ticket_issue(out, cap, outlen, claims, &il_keys.keys[0]);
    (void) pthread_rwlock_unlock(&il_keys_lock);

    return rc;
}


/* 1 if the token names a key that is not known here. */

static int
il_keys_unknown(il_str_t token)
{
    int              known;
    char             footer[256], kid[IL_PASERK_PID + 1];
    size_t           i, len;
    il_json_value_t  v;

    if (il_paseto_footer(footer, sizeof(footer), &len, token) != 0
        || il_json_find(il_str(footer, len), il_cstr("/kid"), &v)
           != IL_JSON_OK
        || v.type != IL_JSON_STRING || v.raw.len != IL_PASERK_PID + 2)
    {
        return 0;
    }

    memcpy(kid, v.raw.data + 1, IL_PASERK_PID);
    kid[IL_PASERK_PID] = '\0';
    known = 0;

    (void) pthread_rwlock_rdlock(&il_keys_lock);

    for (i = 0; i < il_keys.n; i++) {
        known |= (strcmp(il_keys.keys[i].pid, kid) == 0);
    }

    (void) pthread_rwlock_unlock(&il_keys_lock);

    return !known;
}


/* Whatever is sent here, the files are read once a second, and when the
 * directory has changed: a key that signs elsewhere is known here from the
 * moment on that its file is there. */

static void
il_keys_look(void)
{
    int64_t      now, changed;
    struct stat  st;

    changed = 0;

    (void) pthread_mutex_lock(&il_keys_looked.lock);

    if (stat(il_srv.conf.keys_dir, &st) == 0) {
        changed = (int64_t) st.st_mtim.tv_sec * 1000
                  + st.st_mtim.tv_nsec / 1000000;
    }

    now = il_wall_ms();

    if (changed != il_keys_looked.changed
        || il_keys_looked.at - changed < IL_KEY_TICK_MS
        || now - il_keys_looked.at >= IL_KEY_UNKNOWN_MS
        || now < il_keys_looked.at)
    {
        il_keys_looked.at = now;
        il_keys_looked.changed = changed;
        il_keys_again(0);
    }

    (void) pthread_mutex_unlock(&il_keys_looked.lock);
}


/* What a token of some sort is verified by; claims is that sort's. */

typedef int (*il_keys_check_pt)(void *claims, char *buf, size_t cap,
    il_str_t token, int64_t now);


static int
il_keys_check_owner(void *claims, char *buf, size_t cap, il_str_t token,
    int64_t now)
{
    int                 rc;
    il_owner_claims_t   c;

    rc = il_owner_verify(&c, buf, cap, token, &il_keys, now);

    /* with the lock held, or it might be by a key that is gone */

    if (rc == 0) {
        il_seen_put(token, &c);
        il_seen_of(claims, &c);
    }

    return rc;
}


static int
il_keys_check_ticket(void *claims, char *buf, size_t cap, il_str_t token,
    int64_t now)
{
    return il_ticket_verify(claims, buf, cap, token, &il_keys, NULL, now);
}


static int
il_keys_check(il_keys_check_pt check, void *claims, char *buf, size_t cap,
    il_str_t token, int64_t now)
{
    int  rc;

    (void) pthread_rwlock_rdlock(&il_keys_lock);
    rc = check(claims, buf, cap, token, now);
    (void) pthread_rwlock_unlock(&il_keys_lock);

    return rc;
}


/* Once more, if a key that is not known here may have come meanwhile. */

static int
il_keys_open(il_keys_check_pt check, void *claims, char *buf, size_t cap,
    il_str_t token, int64_t now)
{
    if (il_keys_check(check, claims, buf, cap, token, now) == 0) {
        return 0;
    }

    if (!il_keys_unknown(token)) {
        return -1;
    }

    il_keys_look();

    return il_keys_check(check, claims, buf, cap, token, now);
}


int
il_keys_verify(il_seen_t *who, il_str_t token, int64_t now)
{
    char  buf[IL_TOKEN_MAX + 1];

    if (il_seen_get(who, token, now) == 0) {
        return 0;
    }

    return il_keys_open(il_keys_check_owner, who, buf, sizeof(buf), token,
                        now);
}


int
il_keys_verify_ticket(il_ticket_claims_t *claims, char *buf, size_t cap,
    il_str_t ticket, int64_t now)
{
    return il_keys_open(il_keys_check_ticket, claims, buf, cap, ticket, now);
}


void
il_keys_each(void (*each)(void *ctx, size_t i, const char *kid,
    const char *paserk), void *ctx)
{
    size_t  i;

    (void) pthread_rwlock_rdlock(&il_keys_lock);

    for (i = 0; i < il_keys.n; i++) {
        each(ctx, i, il_keys.keys[i].pid, il_keys.keys[i].paserk);
    }

    (void) pthread_rwlock_unlock(&il_keys_lock);
}
