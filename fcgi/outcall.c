/*
 * outcall.c: the one file that touches libcurl: a single bounded request over
 * HTTP.
 *
 * Nothing of the environment has a say (no proxy, .netrc, cookies or cached
 * names), every socket's address is judged when it is opened, so that a name
 * may resolve to whatever it likes, and redirects are followed here, one by
 * one, to the same host only.
 */

#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <curl/curl.h>
#include <sodium.h>

#include "clock.h"
#include "il_addr.h"
#include "outcall.h"


#define IL_OUTCALL_HEADERS_MAX  65536


typedef struct {
    const il_outrules_t  *rules;
    il_outcall_t         *call;
    int                   private;  /* this host may be a private address */
    int                   refused;  /* an address was */
    int                   large;
    size_t                headers;
} il_outcall_state_t;


int
il_outcall_init(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -1;
}


void
il_outcall_end(void)
{
    curl_global_cleanup();
}


static il_addr_class_e
il_outcall_class(const struct curl_sockaddr *address)
{
    const char          *raw;
    struct sockaddr_in   in;
    struct sockaddr_in6  in6;

    raw = (const char *) address + offsetof(struct curl_sockaddr, addr);

    if (address->family == AF_INET && address->addrlen >= sizeof(in)) {
        memcpy(&in, raw, sizeof(in));
        return il_addr_class4((const uint8_t *) &in.sin_addr);
    }

    if (address->family == AF_INET6 && address->addrlen >= sizeof(in6)) {
        memcpy(&in6, raw, sizeof(in6));
        return il_addr_class6(in6.sin6_addr.s6_addr);
    }

    return IL_ADDR_NEVER;
}


static curl_socket_t
il_outcall_open(void *data, curlsocktype purpose,
    struct curl_sockaddr *address)
{
    il_addr_class_e      class;
    il_outcall_state_t  *s;

    s = data;
    class = il_outcall_class(address);

    if (purpose != CURLSOCKTYPE_IPCXN || class == IL_ADDR_NEVER
        || (class == IL_ADDR_PRIVATE && !s->private))
    {
        s->refused = 1;
        return CURL_SOCKET_BAD;
    }

    return socket(address->family, address->socktype | SOCK_CLOEXEC,
                  address->protocol);
}


static size_t
il_outcall_body(char *data, size_t size, size_t n, void *arg)
{
    il_outcall_t        *call;
    il_outcall_state_t  *s;

    s = arg;
    call = s->call;
    n *= size;

    if (n > IL_OUTCALL_BODY_MAX - call->answer_len) {
        s->large = 1;
        return 0;
    }

    memcpy(call->answer + call->answer_len, data, n);
    call->answer_len += n;

    return n;
}


static size_t
il_outcall_head(char *data, size_t size, size_t n, void *arg)
{
    il_outcall_state_t  *s;

    (void) data;

    s = arg;
    s->headers += size * n;

    if (s->headers > IL_OUTCALL_HEADERS_MAX) {
        s->large = 1;
        return 0;
    }

    return size * n;
}


static int
il_outcall_progress(void *arg, curl_off_t dl_total, curl_off_t dl_now,
    curl_off_t ul_total, curl_off_t ul_now)
{
    il_outcall_state_t  *s = arg;

    (void) dl_total;
    (void) dl_now;
    (void) ul_total;
    (void) ul_now;

    return s->rules->stopping();
}


/* The callbacks' types are checked by curl's own macros in typecheck-gcc.h. */

static int
il_outcall_setup(CURL *curl, il_outcall_state_t *s, long left)
{
    int            rc;
    il_outcall_t  *call;

    call = s->call;
    rc = 0;

#define il_set(option, value)                                                 \
    rc |= (curl_easy_setopt(curl, option, value) != CURLE_OK)

    il_set(CURLOPT_URL, call->url);
    il_set(CURLOPT_PROTOCOLS_STR, "http,https");
    il_set(CURLOPT_PATH_AS_IS, 1L);
    il_set(CURLOPT_FOLLOWLOCATION, 0L);
    il_set(CURLOPT_PROXY, "");
    il_set(CURLOPT_NOPROXY, "*");
    il_set(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
    il_set(CURLOPT_NOSIGNAL, 1L);
    il_set(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
    il_set(CURLOPT_TIMEOUT_MS, left);
    il_set(CURLOPT_CONNECTTIMEOUT_MS, left);
    il_set(CURLOPT_USERAGENT, s->rules->agent);
    il_set(CURLOPT_HTTPHEADER, call->headers);
    il_set(CURLOPT_SSL_VERIFYPEER, 1L);
    il_set(CURLOPT_SSL_VERIFYHOST, 2L);
    il_set(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
    il_set(CURLOPT_OPENSOCKETFUNCTION, il_outcall_open);
    il_set(CURLOPT_OPENSOCKETDATA, s);
    il_set(CURLOPT_WRITEFUNCTION, il_outcall_body);
    il_set(CURLOPT_WRITEDATA, s);
    il_set(CURLOPT_HEADERFUNCTION, il_outcall_head);
    il_set(CURLOPT_HEADERDATA, s);
    il_set(CURLOPT_NOPROGRESS, 0L);
    il_set(CURLOPT_XFERINFOFUNCTION, il_outcall_progress);
    il_set(CURLOPT_XFERINFODATA, s);

    if (s->rules->ca[0] != '\0') {
        il_set(CURLOPT_CAINFO, s->rules->ca);
        il_set(CURLOPT_CAPATH, NULL);
    }

    if (call->head) {
        il_set(CURLOPT_NOBODY, 1L);

    } else if (call->post) {
        il_set(CURLOPT_POST, 1L);
        il_set(CURLOPT_POSTFIELDS, call->body.data);
        il_set(CURLOPT_POSTFIELDSIZE, (long) call->body.len);

    } else {
        il_set(CURLOPT_HTTPGET, 1L);
    }

#undef il_set

    return rc == 0 ? 0 : -1;
}


/* Why it came to nothing, without anything of the answer or the request. */

static void
il_outcall_failed(il_outcall_state_t *s, CURLcode code)
{
    const char    *text;
    il_outcall_t  *call;

    call = s->call;

    if (s->refused) {
        text = "the host's address may not be called from here (private, "
               "link-local or reserved)";
    } else if (s->large) {
        text = "the answer is larger than 64 KiB";
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        text = "no answer within the timeout";
    } else if (code == CURLE_ABORTED_BY_CALLBACK) {
        text = "interlockd is ending";
    } else {
        text = curl_easy_strerror(code);
    }

    (void) snprintf(call->why, sizeof(call->why), "%s", text);
}


/* One request.  1 and call->url changed: a redirect; 0: an answer; -1. */

static int
il_outcall_hop(const il_outrules_t *rules, il_outcall_t *call)
{
    int                  rc;
    char                *to;
    long                 status;
    CURL                *curl;
    int64_t              left;
    CURLcode             code;
    il_url_t             next;
    il_outcall_state_t   s;

    left = call->deadline - il_now_ms();
    if (left <= 0) {
        (void) snprintf(call->why, sizeof(call->why),
                        "no answer within the timeout");
        return -1;
    }

    memset(&s, 0, sizeof(s));
    s.rules = rules;
    s.call = call;
    s.private = il_hosts_match(il_cstr(rules->private), &call->parsed);
    call->answer_len = 0;

    curl = curl_easy_init();
    if (curl == NULL || il_outcall_setup(curl, &s, (long) left) != 0) {
        curl_easy_cleanup(curl);
        (void) snprintf(call->why, sizeof(call->why), "out of memory");
        return -1;
    }

    code = curl_easy_perform(curl);
    rc = 0;
    to = NULL;
    status = 0;

    /* there may be a status without the rest of an answer */

    if (curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK
        || code != CURLE_OK || s.refused
        || curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &to) != CURLE_OK)
    {
        il_outcall_failed(&s, code);
        rc = -1;

    } else if (to != NULL && status >= 300 && status < 400) {

        /* judged as the first one was, and no other host's */

        if (call->post
            || il_outcall_url(rules, il_cstr(to), &next, call->why,
                              sizeof(call->why)) != 0
            || !il_url_same_host(&next, &call->parsed))
        {
            (void) snprintf(call->why, sizeof(call->why), "status %ld, a "
                            "redirect that is not followed: to another host, "
                            "or of a POST", status);
            rc = -1;

        } else {
            (void) snprintf(call->url, sizeof(call->url), "%s", to);
            rc = il_outcall_url(rules, il_cstr(call->url), &call->parsed,
                                call->why, sizeof(call->why)) == 0 ? 1 : -1;
        }
    }

    call->status = (int) status;
    curl_easy_cleanup(curl);

    return rc;
}


int
il_outcall(const il_outrules_t *rules, il_outcall_t *call)
{
    int       rc;
    unsigned  hops;

    call->answer = malloc(IL_OUTCALL_BODY_MAX);
    if (call->answer == NULL) {
        (void) snprintf(call->why, sizeof(call->why), "out of memory");
        return -1;
    }

    for (hops = 0; hops <= IL_OUTCALL_HOPS_MAX; hops++) {
        rc = il_outcall_hop(rules, call);

        if (rc != 1) {
            return rc;
        }
    }

    (void) snprintf(call->why, sizeof(call->why), "more than %d redirects",
                    IL_OUTCALL_HOPS_MAX);

    return -1;
}


int
il_outcall_header(il_outcall_t *call, const char *line)
{
    struct curl_slist  *more;

    more = curl_slist_append(call->headers, line);
    if (more == NULL) {
        (void) snprintf(call->why, sizeof(call->why), "out of memory");
        return -1;
    }

    call->headers = more;

    return 0;
}


void
il_outcall_free(il_outcall_t *call)
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
