/*
 * keys.c: the signing keys of owner tokens, one file a key.
 *
 * The lexically last *.seed signs, all verify.  A new key's name is the time
 * of its making, so that it sorts last; a file appears whole or not at all,
 * so an interlockd that starts meanwhile never reads half a key.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <sodium.h>

#include "cli.h"
#include "cmds.h"
#include "il_enc.h"
#include "keys.h"

#define IL_SEED_BYTES   32
#define IL_PUB_PREFIX   "k4.public."


typedef struct {
    il_common_t  common;
} il_keys_opts_t;


static int il_keys_init(void *opts, const il_args_t *args);
static int il_keys_rotate(void *opts, const il_args_t *args);
static int il_keys_list(void *opts, const il_args_t *args);


static const il_opt_t  il_keys_opts[] = {
    IL_OPT_END
};


const il_cmd_t  il_cmd_keys_init = {
    "keys init", il_keys_init,
    "make the first key that signs owner tokens", "DIRECTORY",
    "Makes DIRECTORY (mode 0700) if it is not there, and a first signing key\n"
    "in it (a *.seed file of mode 0600).  If there is one already, nothing is\n"
    "changed.",
    il_keys_opts, sizeof(il_keys_opts_t), 0, 1, 1
};

const il_cmd_t  il_cmd_keys_rotate = {
    "keys rotate", il_keys_rotate,
    "make a new signing key; the old ones still verify", "DIRECTORY",
    "Makes a new key that sorts last and therefore signs from the next start\n"
    "of interlockd on.  Copy it to every host before the first is restarted.\n"
    "Keep the old files until the last token signed by them has ended.",
    il_keys_opts, sizeof(il_keys_opts_t), 0, 1, 1
};

const il_cmd_t  il_cmd_keys_list = {
    "keys list", il_keys_list,
    "list the signing keys of a directory", "DIRECTORY",
    "One line a key: file, key id (k4.pid), public key (k4.public), and\n"
    "whether it signs or only verifies.  Never shows a seed.",
    il_keys_opts, sizeof(il_keys_opts_t), 0, 1, 1
};


int
il_keys_load(il_token_key_t *key, const char *path)
{
    int       rc;
    size_t    n, len;
    uint8_t   bytes[IL_SEED_BYTES];
    il_buf_t  b;
    il_str_t  text;

    memset(&b, 0, sizeof(b));
    rc = il_file_secret(&b, path);

    if (rc != 0) {
        il_buf_free(&b);
        return rc;
    }

    n = sizeof(IL_PUB_PREFIX) - 1;
    text = il_buf_str(&b);

    if (text.len > n && memcmp(text.data, IL_PUB_PREFIX, n) == 0) {
        rc = il_b64_decode(bytes, sizeof(bytes), &len,
                           il_str(text.data + n, text.len - n),
                           IL_B64_URL_NOPAD);
        if (rc == 0 && len == sizeof(bytes)) {
            il_token_key_from_public(key, bytes);

        } else {
            rc = -1;
        }

    } else {
        rc = il_hex_decode(bytes, sizeof(bytes), text);
        if (rc == 0) {
            il_token_key_from_seed(key, bytes);
        }
    }

    sodium_memzero(bytes, sizeof(bytes));
    il_buf_free(&b);

    if (rc != 0) {
        il_err("%s holds neither 64 hex digits nor a k4.public key", path);
        return EX_CONFIG;
    }

    return 0;
}


static void
il_keys_print(const char *file, const il_token_key_t *key, int signs, int json)
{
    il_buf_t  b;

    if (!json) {
        (void) printf("%s %s %s %s\n", file, key->pid, key->paserk,
                      signs ? "signs" : "verifies");
        return;
    }

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, "{\"file\":");
    il_buf_json(&b, il_cstr(file));
    il_buf_puts(&b, ",\"kid\":");
    il_buf_json(&b, il_cstr(key->pid));
    il_buf_puts(&b, ",\"public\":");
    il_buf_json(&b, il_cstr(key->paserk));
    il_buf_puts(&b, signs ? ",\"signs\":true}" : ",\"signs\":false}");
    (void) fwrite(b.data, 1, b.len, stdout);
    il_buf_free(&b);
}


static int
il_keys_make(const char *dir, const il_list_t *seeds, int json)
{
    int              rc;
    char             name[64], hex[2 * IL_SEED_BYTES + 2], *path;
    uint8_t          seed[IL_SEED_BYTES];
    struct tm        tm;
    il_token_key_t   key;
    struct timespec  ts;

    if (clock_gettime(CLOCK_REALTIME, &ts) != 0
        || gmtime_r(&ts.tv_sec, &tm) == NULL)
    {
        il_err("cannot read the clock: %s", strerror(errno));
        return EX_OSERR;
    }

    (void) snprintf(name, sizeof(name), "%04d%02d%02dT%02d%02d%02d.%06ldZ.seed",
                    tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
                    tm.tm_min, tm.tm_sec, ts.tv_nsec / 1000);

    if (seeds->n != 0 && strcmp(seeds->v[seeds->n - 1], name) >= 0) {
        il_err("%s/%s sorts after the new key's name %s, so the new key would"
               " not sign: rename it, or set the clock right", dir,
               seeds->v[seeds->n - 1], name);
        return EX_CONFIG;
    }

    randombytes_buf(seed, sizeof(seed));
    il_hex_encode(hex, seed, sizeof(seed));
    hex[2 * IL_SEED_BYTES] = '\n';
    il_token_key_from_seed(&key, seed);

    path = il_path_join(dir, name);
    rc = il_file_create(path, hex, 2 * IL_SEED_BYTES + 1);
    free(path);

    sodium_memzero(hex, sizeof(hex));
    sodium_memzero(seed, sizeof(seed));

    if (rc == 0) {
        il_keys_print(name, &key, 1, json);
        if (json) {
            (void) fputc('\n', stdout);
        }
    }

    sodium_memzero(&key, sizeof(key));

    return rc;
}


static int
il_keys_names(il_list_t *seeds, const char *dir)
{
    if (il_dir_names(seeds, dir, ".seed") != 0) {
        il_err("cannot read %s: %s", dir, strerror(errno));
        return errno == EACCES ? EX_NOPERM : EX_NOINPUT;
    }

    return 0;
}


static int
il_keys_init(void *opts, const il_args_t *args)
{
    int              rc, json;
    char            *path;
    const char      *dir;
    il_list_t        seeds;
    il_token_key_t   key;

    json = ((il_keys_opts_t *) opts)->common.json;
    dir = args->pos.v[0];

    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        il_err("cannot make %s: %s", dir, strerror(errno));
        return EX_CANTCREAT;
    }

    rc = il_keys_names(&seeds, dir);

    if (rc != 0) {
        return rc;
    }

    if (seeds.n == 0) {
        rc = il_keys_make(dir, &seeds, json);

    } else {
        path = il_path_join(dir, seeds.v[seeds.n - 1]);
        rc = il_keys_load(&key, path);
        free(path);

        if (rc == 0) {
            il_keys_print(seeds.v[seeds.n - 1], &key, 1, json);
            if (json) {
                (void) fputc('\n', stdout);
            }

            sodium_memzero(&key, sizeof(key));
        }
    }

    il_names_free(&seeds);

    return rc == 0 ? il_out_end(rc) : rc;
}


static int
il_keys_rotate(void *opts, const il_args_t *args)
{
    int          rc;
    il_list_t    seeds;
    const char  *dir;

    dir = args->pos.v[0];
    rc = il_keys_names(&seeds, dir);

    if (rc != 0) {
        return rc;
    }

    if (seeds.n + 1 > IL_TOKEN_KEYS_MAX) {
        il_err("%s has %zu keys, and interlockd takes %d: remove the oldest"
               " whose tokens have ended", dir, seeds.n, IL_TOKEN_KEYS_MAX);
        rc = EX_CONFIG;

    } else {
        rc = il_keys_make(dir, &seeds, ((il_keys_opts_t *) opts)->common.json);
    }

    il_names_free(&seeds);

    return rc == 0 ? il_out_end(rc) : rc;
}


static int
il_keys_list(void *opts, const il_args_t *args)
{
    int              rc, json, signs, first;
    char            *path;
    size_t           i;
    const char      *dir;
    il_list_t        names[2];
    il_token_key_t   key;

    json = ((il_keys_opts_t *) opts)->common.json;
    dir = args->pos.v[0];
    rc = il_keys_names(&names[0], dir);

    if (rc != 0) {
        return rc;
    }

    if (il_dir_names(&names[1], dir, ".pub") != 0) {
        memset(&names[1], 0, sizeof(names[1]));
    }

    if (json) {
        (void) fputs("{\"items\":[", stdout);
    }

    first = 1;

    for (i = names[0].n + names[1].n; i-- > 0 && rc == 0; ) {
        const char  *name = (i < names[0].n) ? names[0].v[i]
                                             : names[1].v[i - names[0].n];

        signs = (i + 1 == names[0].n);
        path = il_path_join(dir, name);
        rc = il_keys_load(&key, path);
        free(path);

        if (rc == 0) {
            if (json && !first) {
                (void) fputc(',', stdout);
            }

            first = 0;
            il_keys_print(name, &key, signs, json);
            sodium_memzero(&key, sizeof(key));
        }
    }

    if (json) {
        (void) fputs("],\"next\":null}\n", stdout);
    }

    il_names_free(&names[0]);
    il_names_free(&names[1]);

    return rc == 0 ? il_out_end(rc) : rc;
}
