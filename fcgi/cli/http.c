/*
 * http.c: requests by libcurl, problems as one line.
 *
 * Redirects are not followed: a bearer token must not travel to another
 * host.  Only http and https are spoken.
 */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http.h"
#include "il_problem.h"
#include "il_time.h"


static size_t
il_http_on_body(char *data, size_t size, size_t n, void *ctx)
{
    il_http_t  *h;

    h = ctx;
    n *= size;
    il_buf_add(&h->answer.body, data, n);

    return h->answer.body.full ? 0 : n;
}


/* The value of a header line if its name is `name` (with the colon). */
static int
il_http_value(il_str_t line, const char *name, il_str_t *value)
{
    size_t  n;

    n = strlen(name);

    if (line.len < n || strncasecmp(line.data, name, n) != 0) {
        return 0;
    }

    *value = il_str(line.data + n, line.len - n);

    while (value->len != 0 && (value->data[0] == ' '
                               || value->data[0] == '\t'))
    {
        value->data++;
        value->len--;
    }

    while (value->len != 0
           && strchr("\r\n \t", value->data[value->len - 1]) != NULL)
    {
        value->len--;
    }

    return 1;
}


static size_t
il_http_on_header(char *data, size_t size, size_t n, void *ctx)
{
    char               text[64];
    il_str_t           line, v;
    il_answer_http_t  *a;

    a = &((il_http_t *) ctx)->answer;
    line = il_str(data, n * size);

    if (il_http_value(line, "Idempotency-Replayed:", &v)) {
        a->replayed = (v.len == 4 && strncasecmp(v.data, "true", 4) == 0);

    } else if (il_http_value(line, "Retry-After:", &v)) {
        if (il_digits_parse(v, 9, &a->retry_after) != 0) {
            a->retry_after = -1;
        }

    } else if (il_http_value(line, "Interlock-Decision:", &v)) {
        if (v.len < sizeof(a->decision)) {
            memcpy(a->decision, v.data, v.len);
            a->decision[v.len] = '\0';
        }

    } else if (il_http_value(line, "Interlock-Next:", &v)) {
        if (v.len < sizeof(a->next)) {
            memcpy(a->next, v.data, v.len);
            a->next[v.len] = '\0';
        }

    } else if (il_http_value(line, "Date:", &v) && v.len < sizeof(text)) {
        memcpy(text, v.data, v.len);
        text[v.len] = '\0';
        a->date = (int64_t) curl_getdate(text, NULL);
    }

    return n * size;
}


int
il_http_open_bearer(il_http_t *h, const char *base, il_str_t token)
{
    size_t  n;

    memset(h, 0, sizeof(*h));

    if (strncmp(base, "http://", 7) != 0 && strncmp(base, "https://", 8) != 0) {
        il_err("the address must begin with http:// or https://: %s", base);
        return EX_USAGE;
    }

    n = strlen(base);

    while (n != 0 && base[n - 1] == '/') {
        n--;
    }

    h->curl = curl_easy_init();

    if (h->curl == NULL) {
        il_err("cannot initialize libcurl");
        return EX_SOFTWARE;
    }

    h->base = il_xstrndup(base, n);

    if (token.len != 0) {
        il_buf_puts(&h->token, "Authorization: Bearer ");
        il_buf_add(&h->token, token.data, token.len);
    }

    return 0;
}


int
il_http_open(il_http_t *h, const il_common_t *c, int need_token)
{
    int       rc;
    il_buf_t  token;

    memset(&token, 0, sizeof(token));
    memset(h, 0, sizeof(*h));

    if (c->token_file != NULL && c->token_file[0] != '\0') {
        rc = il_file_secret(&token, c->token_file);
        if (rc != 0) {
            il_buf_free(&token);
            return rc;
        }

    } else if (need_token) {
        il_err("an API token is needed: --token-file FILE or"
               " INTERLOCK_TOKEN_FILE");
        return EX_USAGE;
    }

    rc = il_http_open_bearer(h, c->url, il_buf_str(&token));
    il_buf_free(&token);

    return rc;
}


void
il_http_close(il_http_t *h)
{
    if (h->curl != NULL) {
        curl_easy_cleanup(h->curl);
    }

    curl_slist_free_all(h->headers);
    free(h->base);
    il_buf_free(&h->token);
    il_buf_free(&h->request);
    il_buf_free(&h->answer.body);
    memset(h, 0, sizeof(*h));
}


void
il_http_header(il_http_t *h, const char *line)
{
    struct curl_slist  *l;

    l = curl_slist_append(h->headers, line);

    if (l == NULL) {
        il_err("out of memory");
        exit(EX_OSERR);
    }

    h->headers = l;
}


#define il_http_set(h, option, value)                                         \
    do {                                                                      \
        CURLcode  c_ = curl_easy_setopt((h)->curl, option, value);            \
        if (c_ != CURLE_OK) {                                                 \
            (void) snprintf((h)->answer.error, sizeof((h)->answer.error),     \
                            "%s", curl_easy_strerror(c_));                    \
            return -1;                                                        \
        }                                                                     \
    } while (0)


int
il_http_prepare(il_http_t *h, const char *method, const char *path,
    il_str_t body, long timeout_ms)
{
    il_buf_t  url;

    il_buf_free(&h->answer.body);
    memset(&h->answer, 0, sizeof(h->answer));
    h->answer.retry_after = -1;
    h->answer.date = -1;
    h->answer.body.max = IL_HTTP_ANSWER_MAX;
    il_buf_add(&h->answer.body, "", 0);

    il_buf_free(&h->request);
    il_buf_add(&h->request, body.data, body.len);

    curl_easy_reset(h->curl);           /* connections are kept */

    memset(&url, 0, sizeof(url));
    il_buf_puts(&url, h->base);
    il_buf_puts(&url, path);
    il_http_set(h, CURLOPT_URL, url.data);

    /* names are percent-encoded already; nothing in them is a way up */

    il_http_set(h, CURLOPT_PATH_AS_IS, 1L);
    il_buf_free(&url);

    if (h->token.len != 0) {
        il_http_header(h, h->token.data);
    }

    if (body.len != 0 || strcmp(method, "POST") == 0
        || strcmp(method, "PUT") == 0)
    {
        il_http_set(h, CURLOPT_POSTFIELDS, h->request.data);
        il_http_set(h, CURLOPT_POSTFIELDSIZE_LARGE,
                    (curl_off_t) h->request.len);
        il_http_header(h, "Content-Type: application/json");
        il_http_header(h, "Expect:");   /* no pause before a large body */
    }

    il_http_set(h, CURLOPT_CUSTOMREQUEST, method);
    il_http_set(h, CURLOPT_HTTPHEADER, h->headers);
    il_http_set(h, CURLOPT_USERAGENT, "interlock");
    il_http_set(h, CURLOPT_NOSIGNAL, 1L);
    il_http_set(h, CURLOPT_PROTOCOLS_STR, "http,https");
    il_http_set(h, CURLOPT_CONNECTTIMEOUT_MS,
                timeout_ms < 5000 ? timeout_ms : 5000L);
    il_http_set(h, CURLOPT_TIMEOUT_MS, timeout_ms);
    il_http_set(h, CURLOPT_TCP_KEEPALIVE, 1L);
    il_http_set(h, CURLOPT_ERRORBUFFER, h->answer.error);
    il_http_set(h, CURLOPT_WRITEFUNCTION, il_http_on_body);
    il_http_set(h, CURLOPT_WRITEDATA, h);
    il_http_set(h, CURLOPT_HEADERFUNCTION, il_http_on_header);
    il_http_set(h, CURLOPT_HEADERDATA, h);

    return 0;
}


int
il_http_take(il_http_t *h, CURLcode code)
{
    /* the list may hold the token: gone as soon as it is not needed */

    curl_slist_free_all(h->headers);
    h->headers = NULL;

    if (code == CURLE_OK
        && curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE,
                             &h->answer.status) == CURLE_OK
        && h->answer.status != 0)
    {
        return 0;
    }

    h->answer.status = 0;

    if (h->answer.body.full) {
        (void) snprintf(h->answer.error, sizeof(h->answer.error),
                        "the answer is larger than %u bytes",
                        IL_HTTP_ANSWER_MAX);

    } else if (h->answer.error[0] == '\0') {
        (void) snprintf(h->answer.error, sizeof(h->answer.error), "%s",
                        curl_easy_strerror(code));
    }

    return -1;
}


int
il_http_call(il_http_t *h, const char *method, const char *path,
    il_str_t body, long timeout_ms)
{
    if (il_http_prepare(h, method, path, body, timeout_ms) != 0) {
        curl_slist_free_all(h->headers);
        h->headers = NULL;
        return -1;
    }

    return il_http_take(h, curl_easy_perform(h->curl));
}


char *
il_http_problem(const il_answer_http_t *a)
{
    char    *type, *name;
    size_t   n;

    type = il_json_text(il_buf_str(&a->body), "/type");

    if (type == NULL) {
        return NULL;
    }

    n = sizeof(IL_PROBLEM_TYPE) - 1;
    name = NULL;

    if (strncmp(type, IL_PROBLEM_TYPE, n) == 0) {
        name = il_xstrndup(type + n, strlen(type + n));
    }

    free(type);
    return name;
}


char *
il_http_explain(const il_answer_http_t *a)
{
    char      *title, *detail;
    il_buf_t   b;

    memset(&b, 0, sizeof(b));

    if (a->status == 0) {
        il_buf_puts(&b, "no answer: ");
        il_buf_puts(&b, a->error);
        return b.data;
    }

    title = il_json_text(il_buf_str(&a->body), "/title");
    detail = il_json_text(il_buf_str(&a->body), "/detail");

    if (title == NULL) {
        il_buf_printf(&b, "HTTP %ld", a->status);

    } else {
        il_buf_puts(&b, title);
    }

    if (detail != NULL) {
        il_buf_puts(&b, ": ");
        il_buf_puts(&b, detail);
    }

    if (title != NULL) {
        il_buf_printf(&b, " (HTTP %ld)", a->status);
    }

    free(title);
    free(detail);

    return b.data;
}


static int
il_http_exit(const il_answer_http_t *a)
{
    int    rc;
    char  *name;

    switch (a->status) {

    case 0:
        return EX_UNAVAILABLE;

    case 401:
    case 403:
        return EX_NOPERM;

    case 404:
    case 410:
        return EX_NOINPUT;

    case 409:
        name = il_http_problem(a);
        rc = (name != NULL && strcmp(name, "work-kind") == 0)
             ? EX_DATAERR : EX_TEMPFAIL;
        free(name);
        return rc;

    case 408:
    case 412:
    case 429:
    case 503:
        return EX_TEMPFAIL;
    }

    if (a->status >= 500) {
        return EX_UNAVAILABLE;
    }

    return a->status >= 400 ? EX_DATAERR : EX_PROTOCOL;
}


int
il_http_check(const il_http_t *h, int rc, int json)
{
    char  *line;

    if (rc == 0 && h->answer.status >= 200 && h->answer.status < 300) {
        return 0;
    }

    line = il_http_explain(&h->answer);

    if (h->answer.status == 0) {
        il_err("%s: %s", h->base, line);

    } else {
        il_err("%s", line);

        if (json && h->answer.body.len != 0) {
            il_out_line(stdout, il_buf_str(&h->answer.body));
        }
    }

    free(line);

    return il_http_exit(&h->answer);
}
