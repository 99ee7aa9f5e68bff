/*
 * doctor_http.c: the server as its clients see it, and the edge.
 */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "doctor.h"
#include "http.h"
#include "il_json.h"

#define IL_DOCTOR_TIMEOUT  10000    /* ms */

/* A job that cannot exist: 404 to whom the server knows, else 401. */
#define IL_DOCTOR_NOBODY  "/v1/jobs/00000000-0000-0000-0000-000000000000"


/* 1 if the server answered at all. */
static int
il_doctor_readyz(il_doctor_t *d, il_http_t *h)
{
    int      rc;
    char    *text;
    int64_t  before;

    before = (int64_t) time(NULL);
    rc = il_http_call(h, "GET", "/readyz", il_str("", 0), IL_DOCTOR_TIMEOUT);

    if (rc == 0 && h->answer.status == 200) {
        il_doctor_say(d, IL_DOCTOR_OK, "server", NULL, "%s is ready", h->base);

    } else {
        text = il_http_explain(&h->answer);
        il_doctor_say(d, rc == 0 && h->answer.status == 403 ? IL_DOCTOR_SKIP
                                                            : IL_DOCTOR_FAIL,
                      "server",
                      h->answer.status == 0
                          ? "is nginx running, and is --url right?"
                          : (h->answer.status == 403
                             ? "/readyz is for the host itself"
                             : "is interlockd running? see its log"),
                      "%s/readyz: %s", h->base, text);
        free(text);
    }

    if (rc == 0 && h->answer.date >= 0) {
        il_doctor_clock(d, "server", (h->answer.date - before) * 1000);
    }

    return rc == 0;
}


static void
il_doctor_token(il_doctor_t *d, const char *url, const char *name,
    const char *path)
{
    int        rc;
    char      *text;
    il_buf_t   token;
    il_http_t  h;

    memset(&token, 0, sizeof(token));

    if (il_file_secret(&token, path) != 0
        || il_http_open_bearer(&h, url, il_buf_str(&token)) != 0)
    {
        il_doctor_say(d, IL_DOCTOR_FAIL, "token", NULL, "%s cannot be used",
                      path);
        il_buf_free(&token);
        return;
    }

    rc = il_http_call(&h, "GET", IL_DOCTOR_NOBODY, il_str("", 0),
                      IL_DOCTOR_TIMEOUT);

    if (rc == 0 && (h.answer.status == 404 || h.answer.status == 403)) {
        il_doctor_say(d, IL_DOCTOR_OK, "token", NULL, "%s is known", name);

    } else {
        text = il_http_explain(&h.answer);
        il_doctor_say(d, IL_DOCTOR_FAIL, "token",
                      h.answer.status == 401
                          ? "revoked, or of another database: make a new one"
                            " by interlock token create" : NULL,
                      "%s: %s", name, text);
        free(text);
    }

    il_http_close(&h);
    il_buf_free(&token);
}


static void
il_doctor_edge(il_doctor_t *d, il_http_t *h, const char *path)
{
    int  rc;

    if (path[0] != '/') {
        il_doctor_say(d, IL_DOCTOR_FAIL, "edge", NULL,
                      "--status-path must begin with /");
        return;
    }

    rc = il_http_call(h, "GET", path, il_str("", 0), IL_DOCTOR_TIMEOUT);

    if (rc == 0 && h->answer.status == 200
        && il_json_check(il_buf_str(&h->answer.body)) == IL_JSON_OK)
    {
        il_doctor_say(d, IL_DOCTOR_OK, "edge", NULL,
                      "%s shows the module's counters", path);
        return;
    }

    il_doctor_say(d, rc == 0 && h->answer.status == 200 ? IL_DOCTOR_FAIL
                                                        : IL_DOCTOR_SKIP,
                  "edge",
                  "a location with `interlock_status json;`, named by"
                  " --status-path, shows whether the module works",
                  "%s%s: HTTP %ld", h->base, path, h->answer.status);
}


void
il_doctor_http(il_doctor_t *d, const il_common_t *c, const char *tokens,
    const char *status_path)
{
    char       *path;
    il_list_t   names;
    il_http_t   h;

    if (il_http_open_bearer(&h, c->url, il_str("", 0)) != 0) {
        il_doctor_say(d, IL_DOCTOR_FAIL, "server", NULL,
                      "%s is not an address", c->url);
        return;
    }

    if (!il_doctor_readyz(d, &h)) {
        il_http_close(&h);
        return;
    }

    il_doctor_edge(d, &h, status_path == NULL ? "/edge/status" : status_path);

    if (tokens != NULL && il_dir_names(&names, tokens, "") == 0) {
        for (size_t i = 0; i < names.n; i++) {
            path = il_path_join(tokens, names.v[i]);
            il_doctor_token(d, h.base, names.v[i], path);
            free(path);
        }

        il_names_free(&names);

    } else if (c->token_file != NULL) {
        il_doctor_token(d, h.base, c->token_file, c->token_file);

    } else {
        il_doctor_say(d, IL_DOCTOR_SKIP, "token", "give --token-file",
                      "no token was named");
    }

    il_http_close(&h);
}
