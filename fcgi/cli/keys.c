/*
 * keys.c: the signing keys of owner tokens, one file a key.
 *
 * The lexically last *.seed signs, all verify.  A new key's name is the time
 * of its making, so that it sorts last; a file appears whole or not at all,
 * so an interlockd that reads them meanwhile never reads half a key.
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
#include "il_time.h"
#include "keys.h"

#define IL_SEED_BYTES   32
#define IL_PUB_PREFIX   "k4.public."

/* A token outlives max_runtime by 7 days, for late outcomes; another day for
 * hosts that were told of the next key later. */
#define IL_KEYS_KEEP_S  (8 * 86400)


typedef struct {
    il_common_t  common;
} il_keys_opts_t;

typedef struct {
    il_common_t  common;
    int64_t      max_runtime;
    int          dry_run;
} il_keys_prune_opts_t;

/* One file of a directory. */
typedef struct {
    const char      *name;          /* in names */
    il_token_key_t   key;
    int              signs;
    int64_t          made;          /* Unix seconds */
    int64_t          replaced;      /* when the next seed was made; -1: none */
} il_keys_file_t;

typedef struct {
    il_list_t        names[2];      /* seeds, public keys */
    il_keys_file_t  *v;             /* seeds in order, then public keys */
    size_t           n;
    size_t           seeds;
    int64_t          now;
} il_keys_dir_t;


static int il_keys_init(void *opts, const il_args_t *args);
static int il_keys_rotate(void *opts, const il_args_t *args);
static int il_keys_list(void *opts, const il_args_t *args);
static int il_keys_prune(void *opts, const il_args_t *args);


static const il_opt_t  il_keys_opts[] = {
    IL_OPT_END
};

static const il_opt_t  il_keys_prune_opts[] = {
    { "max-runtime", IL_OPT_INT, offsetof(il_keys_prune_opts_t, max_runtime),
      "SECONDS", "the longest max_runtime of a kind", 1, 31536000, 0 },
    { "dry-run", IL_OPT_FLAG, offsetof(il_keys_prune_opts_t, dry_run), NULL,
      "only tell which", 0, 0, 0 },
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
    "Makes a new key that sorts last and therefore signs, once interlockd has\n"
    "read it: at SIGHUP or its next start.  Copy it to every host and reload\n"
    "nginx before the first is told.  The old files are needed until the last\n"
    "token signed by them has ended: see interlock keys prune.",
    il_keys_opts, sizeof(il_keys_opts_t), 0, 1, 1
};

const il_cmd_t  il_cmd_keys_list = {
    "keys list", il_keys_list,
    "list the signing keys of a directory", "DIRECTORY",
    "One line a key: file, key id (k4.pid), public key (k4.public), age, and\n"
    "whether it signs or only verifies.  Never shows a seed.",
    il_keys_opts, sizeof(il_keys_opts_t), 0, 1, 1
};

const il_cmd_t  il_cmd_keys_prune = {
    "keys prune", il_keys_prune,
    "remove the signing keys of tokens that have ended",
    "DIRECTORY --max-runtime SECONDS [--dry-run]",
    "Removes each seed that a newer one has replaced for so long that no token\n"
    "signed by it is valid any more: the longest max_runtime of a kind and 8\n"
    "days.  The key that signs and *.pub files stay.  Make sure that every\n"
    "interlockd has read the newer key long ago.",
    il_keys_prune_opts, sizeof(il_keys_prune_opts_t), 0, 1, 1
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


/* From a name as il_keys_make() gives it, else from the file; -1 if there is
 * none. */
static int64_t
il_keys_made(const char *name, const char *path)
{
    char         text[] = "0000-00-00T00:00:00Z";
    size_t       i, k;
    int64_t      ms;
    struct stat  st;

    static const char  digits[] = "dddd-dd-ddTdd:dd:ddZ";

    /* 20261129T213238.123456Z.seed */

    for (i = 0, k = 0; digits[i] != 'Z'; i++) {
        if (digits[i] == 'd') {
            text[i] = name[k];
            k += (name[k] != '\0');

        } else if (digits[i] == 'T' && name[k++] != 'T') {
            break;
        }
    }

    if (digits[i] == 'Z' && name[k] == '.'
        && il_rfc3339_parse(il_cstr(text), &ms) == 0)
    {
        return ms / 1000;
    }

    return stat(path, &st) == 0 ? (int64_t) st.st_mtime : -1;
}


static void
il_keys_time(il_buf_t *b, const char *name, int64_t seconds)
{
    char  text[IL_RFC3339_CAP];

    il_buf_printf(b, ",\"%s\":", name);

    if (seconds < 0
        || il_rfc3339_format(text, sizeof(text), seconds * 1000) == 0)
    {
        il_buf_puts(b, "null");

    } else {
        il_buf_json(b, il_cstr(text));
    }
}


static void
il_keys_print(const il_keys_file_t *f, int64_t now, int json)
{
    int64_t   age;
    il_buf_t  b;

    age = now > f->made ? now - f->made : 0;

    if (!json) {
        (void) printf("%s %s %s %lld%s %s\n", f->name, f->key.pid,
                      f->key.paserk,
                      (long long) (age < 172800 ? age / 3600 : age / 86400),
                      age < 172800 ? "h" : "d",
                      f->signs ? "signs" : "verifies");
        return;
    }

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, "{\"file\":");
    il_buf_json(&b, il_cstr(f->name));
    il_buf_puts(&b, ",\"kid\":");
    il_buf_json(&b, il_cstr(f->key.pid));
    il_buf_puts(&b, ",\"public\":");
    il_buf_json(&b, il_cstr(f->key.paserk));
    il_buf_puts(&b, f->signs ? ",\"signs\":true" : ",\"signs\":false");
    il_keys_time(&b, "made_at", f->made);
    il_buf_printf(&b, ",\"age_seconds\":%lld", (long long) age);
    il_keys_time(&b, "replaced_at", f->replaced);
    il_buf_puts(&b, "}");
    (void) fwrite(b.data, 1, b.len, stdout);
    il_buf_free(&b);
}


static void
il_keys_close(il_keys_dir_t *d)
{
    for (size_t i = 0; i < d->n; i++) {
        sodium_memzero(&d->v[i], sizeof(d->v[i]));
    }

    free(d->v);
    il_names_free(&d->names[0]);
    il_names_free(&d->names[1]);
}


/* Names only: a broken file must not keep anybody from making a good one. */
static int
il_keys_names(il_keys_dir_t *d, const char *dir)
{
    memset(d, 0, sizeof(*d));

    if (il_dir_names(&d->names[0], dir, ".seed") != 0
        || il_dir_names(&d->names[1], dir, ".pub") != 0)
    {
        il_err("cannot read %s: %s", dir, strerror(errno));
        il_keys_close(d);
        return errno == EACCES ? EX_NOPERM : EX_NOINPUT;
    }

    d->seeds = d->names[0].n;

    return 0;
}


/* Reads every key.  0, or exit code with a message. */
static int
il_keys_open(il_keys_dir_t *d, const char *dir)
{
    int              rc;
    char            *path;
    size_t           i, all;
    il_keys_file_t  *f;

    rc = il_keys_names(d, dir);

    if (rc != 0) {
        return rc;
    }

    d->now = (int64_t) time(NULL);
    all = d->seeds + d->names[1].n;
    d->v = il_xalloc(all + 1, sizeof(il_keys_file_t));

    for (i = 0; i < all && rc == 0; i++) {
        f = &d->v[d->n++];
        f->name = i < d->seeds ? d->names[0].v[i]
                               : d->names[1].v[i - d->seeds];
        f->signs = (i + 1 == d->seeds);
        f->replaced = -1;

        path = il_path_join(dir, f->name);
        rc = il_keys_load(&f->key, path);
        f->made = il_keys_made(f->name, path);
        free(path);

        if (i > 0 && i < d->seeds) {
            d->v[i - 1].replaced = f->made;
        }
    }

    if (rc != 0) {
        il_keys_close(d);
    }

    return rc;
}


static int
il_keys_make(const char *dir, const il_list_t *seeds, int json)
{
    int              rc;
    char             name[64], hex[2 * IL_SEED_BYTES + 2], *path;
    uint8_t          seed[IL_SEED_BYTES];
    struct tm        tm;
    il_keys_file_t   f;
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

    memset(&f, 0, sizeof(f));
    f.name = name;
    f.signs = 1;
    f.made = (int64_t) ts.tv_sec;
    f.replaced = -1;
    il_token_key_from_seed(&f.key, seed);

    path = il_path_join(dir, name);
    rc = il_file_create_for_dir(path, hex, 2 * IL_SEED_BYTES + 1);
    free(path);

    sodium_memzero(hex, sizeof(hex));
    sodium_memzero(seed, sizeof(seed));

    if (rc == 0) {
        il_keys_print(&f, f.made, json);
        if (json) {
            (void) fputc('\n', stdout);
        }
    }

    sodium_memzero(&f, sizeof(f));

    return rc;
}


static int
il_keys_init(void *opts, const il_args_t *args)
{
    int             rc, json;
    const char     *dir;
    il_keys_dir_t   d;

    json = ((il_keys_opts_t *) opts)->common.json;
    dir = args->pos.v[0];

    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        il_err("cannot make %s: %s", dir, strerror(errno));
        return EX_CANTCREAT;
    }

    rc = il_keys_open(&d, dir);

    if (rc != 0) {
        return rc;
    }

    if (d.seeds == 0) {
        rc = il_keys_make(dir, &d.names[0], json);

    } else {
        il_keys_print(&d.v[d.seeds - 1], d.now, json);
        if (json) {
            (void) fputc('\n', stdout);
        }
    }

    il_keys_close(&d);

    return rc == 0 ? il_out_end(rc) : rc;
}


static int
il_keys_rotate(void *opts, const il_args_t *args)
{
    int             rc;
    size_t          n;
    const char     *dir;
    il_keys_dir_t   d;

    dir = args->pos.v[0];
    rc = il_keys_names(&d, dir);

    if (rc != 0) {
        return rc;
    }

    n = d.seeds + d.names[1].n;

    if (n + 1 > IL_TOKEN_KEYS_MAX) {
        il_err("%s has %zu keys, and interlockd takes %d: remove those whose"
               " tokens have ended (interlock keys prune)", dir, n,
               IL_TOKEN_KEYS_MAX);
        rc = EX_CONFIG;

    } else {
        rc = il_keys_make(dir, &d.names[0],
                          ((il_keys_opts_t *) opts)->common.json);
    }

    il_keys_close(&d);

    return rc == 0 ? il_out_end(rc) : rc;
}


static int
il_keys_list(void *opts, const il_args_t *args)
{
    int             rc, json;
    size_t          i;
    il_keys_dir_t   d;

    json = ((il_keys_opts_t *) opts)->common.json;
    rc = il_keys_open(&d, args->pos.v[0]);

    if (rc != 0) {
        return rc;
    }

    if (json) {
        (void) fputs("{\"items\":[", stdout);
    }

    /* newest first: public keys have no place in that order */

    for (i = d.n; i-- > 0; ) {
        il_keys_print(&d.v[i], d.now, json);

        if (json && i != 0) {
            (void) fputc(',', stdout);
        }
    }

    if (json) {
        (void) fputs("],\"next\":null}\n", stdout);
    }

    il_keys_close(&d);

    return il_out_end(rc);
}


static int
il_keys_prune(void *opts, const il_args_t *args)
{
    int                    rc, json, first;
    char                  *path;
    size_t                 i;
    il_keys_dir_t          d;
    const il_keys_file_t  *f;
    il_keys_prune_opts_t  *o;

    o = opts;
    json = o->common.json;

    if (o->max_runtime == 0) {
        il_err("keys prune: --max-runtime is needed: the longest of a kind");
        return EX_USAGE;
    }

    rc = il_keys_open(&d, args->pos.v[0]);

    if (rc != 0) {
        return rc;
    }

    if (json) {
        (void) fputs("{\"items\":[", stdout);
    }

    first = 1;

    for (i = 0; i < d.seeds && rc == 0; i++) {
        f = &d.v[i];

        if (f->replaced < 0
            || d.now - f->replaced <= o->max_runtime + IL_KEYS_KEEP_S)
        {
            continue;
        }

        if (!o->dry_run) {
            path = il_path_join(args->pos.v[0], f->name);
            rc = il_file_remove(path);
            free(path);
        }

        if (rc == 0) {
            (void) fputs(json && !first ? "," : "", stdout);
            il_keys_print(f, d.now, json);
            first = 0;
        }
    }

    if (json) {
        (void) fputs("],\"next\":null}\n", stdout);
    }

    il_keys_close(&d);

    return rc == 0 ? il_out_end(rc) : rc;
}
