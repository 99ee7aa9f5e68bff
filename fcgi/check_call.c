/*
 * check_call.c: from a look-up's description to the request that is made,
 * and whom such a request may go to.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>
#include <sodium.h>

#include "buf.h"
#include "check.h"
#include "il_addr.h"
#include "il_enc.h"
#include "il_json.h"


#define IL_SECRET_MAX    4096
#define IL_HEADER_CAP    6144
#define IL_TIMEOUT_MAX   30


static int
il_check_hosts(const char *name, const char *list, char *err, size_t cap)
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
il_check_conf(const il_conf_t *conf, char *err, size_t cap)
{
    if (il_check_hosts("check_hosts", conf->check_hosts, err, cap) != 0
        || il_check_hosts("check_private", conf->check_private, err, cap)
           != 0)
    {
        return -1;
    }

    if (conf->check_ca[0] != '\0' && access(conf->check_ca, R_OK) != 0) {
        (void) snprintf(err, cap, "check_ca \"%s\": %s", conf->check_ca,
                        strerror(errno));
        return -1;
    }

    return 0;
}


int
il_check_url(const il_conf_t *conf, il_str_t text, il_url_t *url, char *why,
    size_t cap)
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
                && !il_hosts_match(il_cstr(conf->check_private), url)))
        {
            (void) snprintf(why, cap, "has an address that may not be called "
                            "from here (private, link-local or reserved)");
            return -1;
        }
    }

    if (!il_hosts_match(il_cstr(conf->check_hosts), url)) {
        (void) snprintf(why, cap, "has a host that is not among check_hosts "
                        "of the configuration");
        return -1;
    }

    return 0;
}


/* Fields stand behind the host only, so they make no difference here. */

static void
il_check_fill(char *text, size_t *len)
{
    size_t  i, n;

    n = 0;

    for (i = 0; i < *len; i++) {
        if (text[i] != '{') {
            text[n++] = text[i];
            continue;
        }

        while (i + 1 < *len && text[i] != '}') {
            i++;
        }

        text[n++] = 'x';
    }

    *len = n;
}


int
il_check_policy(const il_conf_t *conf, il_str_t body, const char *member,
    char *why, size_t cap)
{
    char             pointer[64], url[IL_URL_MAX + 1], bad[256];
    size_t           len;
    il_url_t         parsed;
    il_json_value_t  spec;

    (void) snprintf(pointer, sizeof(pointer), "/%s", member);

    if (il_json_find(body, il_cstr(pointer), &spec) != IL_JSON_OK
        || spec.type != IL_JSON_OBJECT
        || il_lookup_text(spec.raw, "url", url, sizeof(url), &len) != 1)
    {
        return 0;
    }

    il_check_fill(url, &len);

    if (il_check_url(conf, il_str(url, len), &parsed, bad, sizeof(bad)) != 0)
    {
        (void) snprintf(why, cap, "\"%s\": \"url\" %s.", member, bad);
        return -1;
    }

    return 0;
}


/* The first line of a file among the secrets, which nobody else may read. */

static int
il_check_secret(const il_conf_t *conf, il_str_t name, char *out, size_t cap,
    size_t *len, char *why, size_t why_cap)
{
    int          fd;
    char         path[1024];
    ssize_t      n;
    struct stat  st;

    if (conf->check_secrets_dir[0] == '\0'
        || snprintf(path, sizeof(path), "%s/%.*s", conf->check_secrets_dir,
                    (int) name.len, name.data) >= (int) sizeof(path)
        || name.len == 0 || name.data[0] == '.'
        || memchr(name.data, '/', name.len) != NULL)
    {
        (void) snprintf(why, why_cap, "there is no secret of that name (see "
                        "check_secrets_dir)");
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


static int
il_check_header(const il_conf_t *conf, il_str_t name, il_str_t value,
    il_str_t vars, il_check_call_t *call)
{
    int                  rc;
    char                 line[IL_HEADER_CAP];
    size_t               at, len;
    il_check_headers_t  *more;

    at = (size_t) snprintf(line, sizeof(line), "%.*s: ", (int) name.len,
                           name.data);

    if (at >= 128) {
        (void) snprintf(call->why, sizeof(call->why),
                        "a header's name is too long");
        return -1;
    }

    if (value.len != 0 && value.data[0] == '@') {
        rc = il_check_secret(conf, il_str(value.data + 1, value.len - 1),
                             line + at, IL_SECRET_MAX, &len, call->why,
                             sizeof(call->why));
    } else {
        rc = il_lookup_expand(value, vars, IL_LOOKUP_HEADER, line + at,
                              sizeof(line) - at - 1, &len, call->why,
                              sizeof(call->why));
    }

    more = NULL;

    if (rc == 0) {
        line[at + len] = '\0';
        more = curl_slist_append(call->headers, line);

        if (more == NULL) {
            (void) snprintf(call->why, sizeof(call->why), "out of memory");
            rc = -1;
        } else {
            call->headers = more;
        }
    }

    sodium_memzero(line, sizeof(line));

    return rc;
}


static int
il_check_headers(const il_conf_t *conf, il_str_t spec, il_str_t vars,
    il_check_call_t *call, int *json)
{
    char             name[65], value[1025];
    size_t           pos, nlen, vlen;
    il_str_t         raw;
    il_json_value_t  headers, v;

    *json = 1;

    if (il_json_find(spec, il_cstr("/headers"), &headers) != IL_JSON_OK
        || headers.type != IL_JSON_OBJECT)
    {
        return 0;
    }

    pos = 0;

    while (il_json_next(headers, &pos, &raw, &v)) {
        if (v.type != IL_JSON_STRING
            || il_json_unescape(raw, name, sizeof(name) - 1, &nlen) != 0
            || il_json_unescape(v.raw, value, sizeof(value) - 1, &vlen) != 0
            || il_has_control(il_str(name, nlen))
            || il_has_control(il_str(value, vlen)))
        {
            (void) snprintf(call->why, sizeof(call->why),
                            "a header is not fit to be sent");
            return -1;
        }

        name[nlen] = '\0';
        value[vlen] = '\0';

        if (strcasecmp(name, "content-type") == 0) {
            *json = (strcasestr(value, "json") != NULL);
        }

        if (il_check_header(conf, il_str(name, nlen), il_str(value, vlen),
                            vars, call) != 0)
        {
            return -1;
        }
    }

    return 0;
}


static int
il_check_body(il_str_t spec, il_str_t vars, int json, il_check_call_t *call)
{
    int     rc;
    char    tmpl[IL_URL_MAX + 1];
    size_t  len;

    rc = il_lookup_text(spec, "body", tmpl, sizeof(tmpl), &len);

    if (rc == 0) {
        return 0;
    }

    if (rc != 1) {
        (void) snprintf(call->why, sizeof(call->why), "\"body\" is not fit");
        return -1;
    }

    return il_lookup_expand(il_str(tmpl, len), vars,
                            json ? IL_LOOKUP_JSON : IL_LOOKUP_FORM,
                            call->body, sizeof(call->body), &call->body_len,
                            call->why, sizeof(call->why));
}


static int
il_check_timeout(il_str_t spec)
{
    int              seconds;
    size_t           i;
    il_json_value_t  v;

    seconds = 0;

    if (il_json_find(spec, il_cstr("/timeout"), &v) == IL_JSON_OK
        && v.type == IL_JSON_NUMBER && v.raw.len <= 2)
    {
        for (i = 0; i < v.raw.len; i++) {
            seconds = seconds * 10 + (v.raw.data[i] - '0');
        }
    }

    return seconds > 0 && seconds <= IL_TIMEOUT_MAX ? seconds : 5;
}


int
il_check_build(const il_conf_t *conf, il_str_t spec, il_str_t vars,
    il_check_call_t *call)
{
    int     json;
    char    tmpl[IL_URL_MAX + 1], method[16], why[IL_LOOKUP_DETAIL_CAP - 16];
    size_t  len;

    if (il_lookup_text(spec, "url", tmpl, sizeof(tmpl), &len) != 1
        || il_lookup_text(spec, "method", method, sizeof(method),
                          &call->body_len) < 0)
    {
        (void) snprintf(call->why, sizeof(call->why),
                        "the description has no URL");
        return -1;
    }

    call->head = (strcmp(method, "HEAD") == 0);
    call->post = (strcmp(method, "POST") == 0);
    call->body_len = 0;
    call->deadline = il_now_ms() + 1000 * il_check_timeout(spec);

    if (il_lookup_expand(il_str(tmpl, len), vars, IL_LOOKUP_URL, call->url,
                         sizeof(call->url) - 1, &len, call->why,
                         sizeof(call->why)) != 0)
    {
        return -1;
    }

    call->url[len] = '\0';

    if (il_check_url(conf, il_str(call->url, len), &call->parsed, why,
                     sizeof(why)) != 0)
    {
        (void) snprintf(call->why, sizeof(call->why), "the URL %s", why);
        return -1;
    }

    if (il_check_headers(conf, spec, vars, call, &json) != 0) {
        return -1;
    }

    return call->post ? il_check_body(spec, vars, json, call) : 0;
}


void
il_check_call_free(il_check_call_t *call)
{
    struct curl_slist  *h;

    for (h = call->headers; h != NULL; h = h->next) {
        sodium_memzero(h->data, strlen(h->data));
    }

    curl_slist_free_all(call->headers);
    call->headers = NULL;
    free(call->answer);
    call->answer = NULL;
}
