/*
 * doctor_sources.c: the secrets of the sources, in their providers' forms.
 *
 * nginx refuses a bad file when it starts or reloads; this says so before, and
 * of a file that was changed since.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "il_sig.h"

#define IL_DOCTOR_SECRET_MAX  65536


/* 1 if the file is as its scheme wants it; else a line was written. */
static int
il_doctor_source(il_doctor_t *d, il_sig_conf_t *conf, const char *path)
{
    int       good;
    char      err[IL_SIG_ERR_CAP];
    il_buf_t  text;

    memset(&text, 0, sizeof(text));
    good = 0;

    if (il_file_read(&text, path, IL_DOCTOR_SECRET_MAX) != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "sources", NULL, "%s cannot be read",
                      path);

    } else if (il_sig_conf_secrets(conf, il_buf_str(&text), err, sizeof(err))
               != 0)
    {
        il_doctor_say(d, IL_DOCTOR_FAIL, "sources",
                      "nginx will refuse it at its next start or reload",
                      "%s: %s", path, err);

    } else {
        good = 1;
    }

    il_sig_conf_wipe(conf);
    il_buf_free(&text);

    return good;
}


void
il_doctor_sources(il_doctor_t *d, const char *dir)
{
    int             good;
    char            err[IL_SIG_ERR_CAP], *path;
    size_t          n;
    il_list_t       names;
    il_sig_conf_t   conf;

    if (dir == NULL) {
        il_doctor_say(d, IL_DOCTOR_SKIP, "sources", "give --dir",
                      "no directory was named");
        return;
    }

    if (il_dir_names(&names, dir, "") != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "sources", NULL, "%s: %s", dir,
                      strerror(errno));
        return;
    }

    good = 1;
    n = 0;

    for (size_t i = 0; i < names.n; i++) {

        /* a file of another name may be of any scheme */

        if (il_sig_conf_init(&conf, il_cstr(names.v[i]), err, sizeof(err))
            != 0)
        {
            continue;
        }

        path = il_path_join(dir, names.v[i]);
        good &= il_doctor_source(d, &conf, path);
        free(path);
        n++;
    }

    if (good) {
        il_doctor_say(d, IL_DOCTOR_OK, "sources", NULL,
                      "%zu secrets in %s are in the form of their provider",
                      n, dir);
    }

    il_names_free(&names);
}
