/*
 * doctor_files.c: files with secrets, and signing keys.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sodium.h>

#include "doctor.h"
#include "keys.h"


/* 1 if only its owner may read the file; else a line was written. */
static int
il_doctor_mode(il_doctor_t *d, const char *check, const char *path)
{
    struct stat  st;

    if (lstat(path, &st) != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, check, NULL, "%s: %s", path,
                      strerror(errno));
        return 0;
    }

    if (!S_ISREG(st.st_mode)) {
        il_doctor_say(d, IL_DOCTOR_FAIL, check, "put the file itself there",
                      "%s is not a regular file", path);
        return 0;
    }

    if ((st.st_mode & 077) != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, check,
                      "chmod 600, and replace the secret if others could"
                      " have read it",
                      "%s has mode %04o", path,
                      (unsigned) (st.st_mode & 07777));
        return 0;
    }

    if (st.st_size == 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, check, NULL, "%s is empty", path);
        return 0;
    }

    return 1;
}


/* 1 if nobody else may put files there; else a line was written. */
static int
il_doctor_dir_mode(il_doctor_t *d, const char *check, const char *dir)
{
    struct stat  st;

    if (stat(dir, &st) != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, check, NULL, "%s: %s", dir,
                      strerror(errno));
        return 0;
    }

    if ((st.st_mode & 022) != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, check, "chmod go-w",
                      "others may write to %s", dir);
        return 0;
    }

    return 1;
}


void
il_doctor_private(il_doctor_t *d, const char *check, const char *dir)
{
    int         good;
    char       *path;
    il_list_t   names;

    if (dir == NULL) {
        il_doctor_say(d, IL_DOCTOR_SKIP, check, "give --dir",
                      "no directory was named");
        return;
    }

    if (!il_doctor_dir_mode(d, check, dir)) {
        return;
    }

    if (il_dir_names(&names, dir, "") != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, check, NULL, "%s: %s", dir,
                      strerror(errno));
        return;
    }

    good = 1;

    for (size_t i = 0; i < names.n; i++) {
        path = il_path_join(dir, names.v[i]);
        good &= il_doctor_mode(d, check, path);
        free(path);
    }

    if (good) {
        il_doctor_say(d, names.n == 0 ? IL_DOCTOR_WARN : IL_DOCTOR_OK, check,
                      NULL, "%zu files in %s, none readable by others",
                      names.n, dir);
    }

    il_names_free(&names);
}


void
il_doctor_keys(il_doctor_t *d, const char *dir)
{
    int              good;
    char            *path;
    il_list_t        seeds;
    il_token_key_t   key;

    if (dir == NULL || dir[0] == '\0') {
        il_doctor_say(d, IL_DOCTOR_SKIP, "keys", "give --dir or --config",
                      "no directory was named");
        return;
    }

    if (!il_doctor_dir_mode(d, "keys", dir)) {
        return;
    }

    if (il_dir_names(&seeds, dir, ".seed") != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "keys", NULL, "%s: %s", dir,
                      strerror(errno));
        return;
    }

    good = 1;

    for (size_t i = 0; i < seeds.n; i++) {
        path = il_path_join(dir, seeds.v[i]);
        good &= il_doctor_mode(d, "keys", path);

        if (good && il_keys_load(&key, path) != 0) {
            il_doctor_say(d, IL_DOCTOR_FAIL, "keys", NULL,
                          "%s cannot be read as a key", path);
            good = 0;
        }

        free(path);
    }

    if (seeds.n == 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "keys", "run interlock keys init",
                      "no signing key in %s", dir);

    } else if (seeds.n > IL_TOKEN_KEYS_MAX) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "keys",
                      "remove the oldest whose tokens have ended",
                      "%zu keys in %s, at most %d are taken", seeds.n, dir,
                      IL_TOKEN_KEYS_MAX);

    } else if (good) {
        il_doctor_say(d, IL_DOCTOR_OK, "keys", NULL, "%zu in %s, %s signs",
                      seeds.n, dir, key.pid);
    }

    sodium_memzero(&key, sizeof(key));
    il_names_free(&seeds);
}
