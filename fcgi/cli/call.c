/*
 * call.c: one call with the API token, its answer printed.
 */

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backoff.h"
#include "call.h"
#include "il_answer.h"


void
il_call_print(const il_common_t *c, il_str_t json)
{
    if (json.len == 0) {
        return;
    }

    if (c->json) {
        il_out_line(stdout, json);

    } else {
        il_out_human(stdout, json);
    }
}


int
il_call_on(il_http_t *h, const il_common_t *c, const char *method,
    const char *path, il_str_t body)
{
    int  rc;

    rc = il_http_call(h, method, path, body, IL_CALL_TIMEOUT);

    return il_http_check(h, rc, c->json);
}


int
il_call(const il_common_t *c, const char *method, const char *path,
    il_str_t body)
{
    int        rc;
    il_http_t  h;

    rc = il_http_open(&h, c, 1);

    if (rc == 0) {
        rc = il_call_on(&h, c, method, path, body);

        if (rc == 0) {
            il_call_print(c, il_buf_str(&h.answer.body));
        }
    }

    il_http_close(&h);

    return il_out_end(rc);
}


int
il_call_name(il_buf_t *path, const char *name, const char *what)
{
    char    enc[3 * IL_CALL_NAME_MAX];
    size_t  len;

    len = il_path_encode(enc, sizeof(enc), il_cstr(name));

    if (len == 0 || strlen(name) > IL_CALL_NAME_MAX) {
        il_err("not a name of %s (1 to %d bytes): %s", what, IL_CALL_NAME_MAX,
               name);
        return EX_USAGE;
    }

    il_buf_puts(path, "/");
    il_buf_add(path, enc, len);

    return 0;
}


void
il_call_query(il_buf_t *path, const char *name, const char *value)
{
    char    *enc;
    size_t   len, cap;

    if (value == NULL) {
        return;
    }

    cap = 3 * strlen(value) + 1;
    enc = il_xalloc(cap, 1);
    len = il_path_encode(enc, cap, il_cstr(value));

    il_buf_puts(path, strchr(path->data, '?') == NULL ? "?" : "&");
    il_buf_puts(path, name);
    il_buf_puts(path, "=");
    il_buf_add(path, enc, len);
    free(enc);
}


void
il_call_member(il_buf_t *body, const char *name, const char *value)
{
    if (value == NULL) {
        return;
    }

    il_buf_puts(body, body->data[body->len - 1] == '{' ? "\"" : ",\"");
    il_buf_puts(body, name);
    il_buf_puts(body, "\":");
    il_buf_json(body, il_cstr(value));
}


void
il_call_strings(il_buf_t *body, const char *name, const il_list_t *list)
{
    if (list->n == 0) {
        return;
    }

    il_buf_puts(body, body->data[body->len - 1] == '{' ? "\"" : ",\"");
    il_buf_puts(body, name);
    il_buf_puts(body, "\":[");

    for (size_t i = 0; i < list->n; i++) {
        il_buf_puts(body, i == 0 ? "" : ",");
        il_buf_json(body, il_cstr(list->v[i]));
    }

    il_buf_puts(body, "]");
}


int
il_call_retried(il_http_t *h, const il_common_t *c, const char *path,
    il_str_t body, int64_t ms)
{
    int            rc;
    int64_t        end;
    il_backoff_t   backoff;

    il_backoff_init(&backoff, 200, 5000);
    end = il_boottime_ms() + ms;

    for ( ;; ) {
        rc = il_http_call(h, "POST", path, body, IL_CALL_TIMEOUT);

        if ((rc == 0 && h->answer.status < 500) || il_boottime_ms() >= end) {
            return il_http_check(h, rc, c->json);
        }

        il_backoff_sleep(&backoff, h->answer.retry_after, 10000);
    }
}


const char *
il_call_login(void)
{
    const struct passwd  *pw;

    static char  name[256];

    /* the login's, also under another user's rights; a name that the
     * environment sets would say less */

    if (getlogin_r(name, sizeof(name)) == 0 && name[0] != '\0') {
        return name;
    }

    pw = getpwuid(getuid());

    return pw == NULL ? NULL : pw->pw_name;
}


int
il_call_who(il_buf_t *body, const char *command, const char *requested_by,
    const char *reason)
{
    if (requested_by == NULL) {
        requested_by = il_call_login();
    }

    if (requested_by == NULL || requested_by[0] == '\0') {
        il_err("%s: --requested-by is needed: this user has no name",
               command);
        return EX_USAGE;
    }

    if (reason == NULL || reason[0] == '\0') {
        il_err("%s: --reason is needed", command);
        return EX_USAGE;
    }

    il_call_member(body, "requested_by", requested_by);
    il_call_member(body, "reason", reason);

    return 0;
}


int
il_call_id(char id[IL_UUID_TEXT + 1], const char *text, const char *what)
{
    uint8_t  uuid[IL_UUID_BYTES];

    if (il_uuid_parse(uuid, il_cstr(text)) != 0) {
        il_err("not %s id: %s", what, text);
        return EX_USAGE;
    }

    il_uuid_format(id, uuid);

    return 0;
}


int
il_call_plan(il_http_t *h, const il_common_t *c, const char *command,
    const char *path, const char *plan, const char *requested_by,
    const char *reason, int64_t ms)
{
    int       rc;
    char      id[IL_UUID_TEXT + 1];
    il_buf_t  body;

    rc = il_call_id(id, plan, "a plan's");
    if (rc != 0) {
        return rc;
    }

    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{");
    il_call_member(&body, "plan_id", id);
    rc = il_call_who(&body, command, requested_by, reason);
    il_buf_puts(&body, "}");

    if (rc == 0) {
        rc = il_call_retried(h, c, path, il_buf_str(&body), ms);
    }

    il_buf_free(&body);

    return rc;
}
