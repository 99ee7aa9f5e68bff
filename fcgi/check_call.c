/*
 * check_call.c: from a look-up's description to the request that is made,
 * and whom such a request may go to.
 */

#include <stdio.h>

#include <sodium.h>

#include "buf.h"
#include "check.h"
#include "il_enc.h"
#include "il_json.h"


#define IL_SECRET_MAX    4096
#define IL_HEADER_CAP    6144
#define IL_TIMEOUT_MAX   30


void
il_check_rules(const il_conf_t *conf, il_outrules_t *rules)
{
    rules->setting = "check_hosts";
    rules->hosts = conf->check_hosts;
    rules->private = conf->check_private;
    rules->ca = conf->check_ca;
    rules->agent = "interlock-check";
    rules->stopping = il_check_stopping;
}


int
il_check_conf(const il_conf_t *conf, char *err, size_t cap)
{
    return il_outcall_hosts("check_hosts", conf->check_hosts, err, cap) == 0
           && il_outcall_hosts("check_private", conf->check_private, err,
                               cap) == 0
           && il_outcall_ca("check_ca", conf->check_ca, err, cap) == 0
           ? 0 : -1;
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
    il_outrules_t    rules;
    il_json_value_t  spec;

    (void) snprintf(pointer, sizeof(pointer), "/%s", member);

    if (il_json_find(body, il_cstr(pointer), &spec) != IL_JSON_OK
        || spec.type != IL_JSON_OBJECT
        || il_lookup_text(spec.raw, "url", url, sizeof(url), &len) != 1)
    {
        return 0;
    }

    il_check_fill(url, &len);
    il_check_rules(conf, &rules);

    if (il_outcall_url(&rules, il_str(url, len), &parsed, bad, sizeof(bad))
        != 0)
    {
        (void) snprintf(why, cap, "\"%s\": \"url\" %s.", member, bad);
        return -1;
    }

    return 0;
}


static int
il_check_header(const il_conf_t *conf, il_str_t name, il_str_t value,
    il_str_t vars, il_outcall_t *call)
{
    int     rc;
    char    line[IL_HEADER_CAP];
    size_t  at, len;

    at = (size_t) snprintf(line, sizeof(line), "%.*s: ", (int) name.len,
                           name.data);

    if (at >= 128) {
        (void) snprintf(call->why, sizeof(call->why),
                        "a header's name is too long");
        return -1;
    }

    if (value.len != 0 && value.data[0] == '@') {
        rc = il_outcall_secret("check_secrets_dir", conf->check_secrets_dir,
                               il_str(value.data + 1, value.len - 1),
                               line + at, IL_SECRET_MAX, &len, call->why,
                               sizeof(call->why));
    } else {
        rc = il_lookup_expand(value, vars, IL_LOOKUP_HEADER, line + at,
                              sizeof(line) - at - 1, &len, call->why,
                              sizeof(call->why));
    }

    if (rc == 0) {
        line[at + len] = '\0';
        rc = il_outcall_header(call, line);
    }

    sodium_memzero(line, sizeof(line));

    return rc;
}


static int
il_check_headers(const il_conf_t *conf, il_str_t spec, il_str_t vars,
    il_outcall_t *call, int *json)
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
    int            rc;
    char           tmpl[IL_URL_MAX + 1];
    size_t         len;
    il_outcall_t  *out = &call->out;

    rc = il_lookup_text(spec, "body", tmpl, sizeof(tmpl), &len);

    if (rc == 0) {
        return 0;
    }

    if (rc != 1) {
        (void) snprintf(out->why, sizeof(out->why), "\"body\" is not fit");
        return -1;
    }

    if (il_lookup_expand(il_str(tmpl, len), vars,
                         json ? IL_LOOKUP_JSON : IL_LOOKUP_FORM, call->body,
                         sizeof(call->body), &len, out->why,
                         sizeof(out->why)) != 0)
    {
        return -1;
    }

    out->body = il_str(call->body, len);

    return 0;
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
    int            json;
    char           tmpl[IL_URL_MAX + 1], method[16];
    char           why[IL_LOOKUP_DETAIL_CAP - 16];
    size_t         len, mlen;
    il_outcall_t  *out = &call->out;
    il_outrules_t  rules;

    if (il_lookup_text(spec, "url", tmpl, sizeof(tmpl), &len) != 1
        || il_lookup_text(spec, "method", method, sizeof(method), &mlen) < 0)
    {
        (void) snprintf(out->why, sizeof(out->why),
                        "the description has no URL");
        return -1;
    }

    out->head = (strcmp(method, "HEAD") == 0);
    out->post = (strcmp(method, "POST") == 0);
    out->deadline = il_now_ms() + 1000 * il_check_timeout(spec);

    if (il_lookup_expand(il_str(tmpl, len), vars, IL_LOOKUP_URL, out->url,
                         sizeof(out->url) - 1, &len, out->why,
                         sizeof(out->why)) != 0)
    {
        return -1;
    }

    out->url[len] = '\0';
    il_check_rules(conf, &rules);

    if (il_outcall_url(&rules, il_str(out->url, len), &out->parsed, why,
                       sizeof(why)) != 0)
    {
        (void) snprintf(out->why, sizeof(out->why), "the URL %s", why);
        return -1;
    }

    if (il_check_headers(conf, spec, vars, out, &json) != 0) {
        return -1;
    }

    return out->post ? il_check_body(spec, vars, json, call) : 0;
}
