/*
 * verify_hint.c: usual mistakes of people whose signatures fail.  When no
 * secret fits, a few of them are tried: each is a change of the request under
 * which the signature would have fitted.  That tells nothing to anybody who
 * does not have the secret file.
 */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "il_gunzip.h"
#include "verify.h"


int
il_verify_gunzip(il_str_t in, il_buf_t *out)
{
    char    *p;
    size_t   size;

    if (il_gunzip_size(in, &size) != 0 || size > IL_VERIFY_BODY_MAX) {
        return -1;
    }

    p = il_xalloc(size + 1, 1);

    if (il_gunzip(in, p, size) != IL_GUNZIP_OK) {
        free(p);
        return -1;
    }

    out->len = 0;
    il_buf_add(out, p, size);
    free(p);

    return 0;
}


/* The body as it came, or what it inflates to, whichever was not taken. */
static const char *
il_verify_hint_gzip(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_str_t came, il_buf_t *b)
{
    il_sig_request_t  r;

    r = *req;

    if (came.data != req->body.data) {
        r.body = came;

        if (il_verify_fits(conf, &r)) {
            return "it fits the compressed body: without content=gunzip";
        }

    } else if (il_verify_gunzip(came, b) == 0) {
        r.body = il_buf_str(b);

        if (il_verify_fits(conf, &r)) {
            return "it fits what the body inflates to: the directive needs"
                   " content=gunzip, and the request Content-Encoding: gzip";
        }
    }

    return NULL;
}


/* The URL with another end or beginning; a hint, or NULL.  b is scratch. */
static const char *
il_verify_hint_url(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_buf_t *b)
{
    size_t            n;
    const char       *query;
    il_str_t          url;
    il_sig_request_t  r;

    r = *req;
    url = req->url;
    query = memchr(url.data, '?', url.len);
    n = query == NULL ? url.len : (size_t) (query - url.data);

    if (n > 8 && strncasecmp(url.data, "https://", 8) == 0) {
        b->len = 0;
        il_buf_puts(b, "http://");
        il_buf_add(b, url.data + 8, url.len - 8);
        r.url = il_buf_str(b);

        if (il_verify_fits(conf, &r)) {
            return "it fits the URL with http for https";
        }

    } else if (n > 7 && strncasecmp(url.data, "http://", 7) == 0) {
        b->len = 0;
        il_buf_puts(b, "https://");
        il_buf_add(b, url.data + 7, url.len - 7);
        r.url = il_buf_str(b);

        if (il_verify_fits(conf, &r)) {
            return "it fits the URL with https for http: TLS ends before"
                   " nginx, which needs url= to know";
        }
    }

    b->len = 0;

    if (n != 0 && url.data[n - 1] == '/') {
        il_buf_add(b, url.data, n - 1);
    } else {
        il_buf_add(b, url.data, n);
        il_buf_puts(b, "/");
    }

    il_buf_add(b, url.data + n, url.len - n);
    r.url = il_buf_str(b);

    if (il_verify_fits(conf, &r)) {
        return "it fits the URL with a slash more or less at its end";
    }

    if (query != NULL) {
        r.url = il_str(url.data, n);

        if (il_verify_fits(conf, &r)) {
            return "it fits the URL without its query";
        }
    }

    return NULL;
}


const char *
il_verify_hint(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_str_t came)
{
    size_t             i, n;
    il_buf_t           b;
    const char        *hint;
    il_sig_request_t   r;

    r = *req;
    memset(&b, 0, sizeof(b));
    hint = req->url.len == 0 ? NULL : il_verify_hint_url(conf, req, &b);

    if (hint == NULL) {
        hint = il_verify_hint_gzip(conf, req, came, &b);
    }

    if (hint != NULL) {
        goto done;
    }

    if (r.body.len != 0 && r.body.data[r.body.len - 1] == '\n') {
        r.body.len--;

        if (il_verify_fits(conf, &r)) {
            hint = "it fits the body without its last newline: the file was"
                   " saved with one that was not sent";
            goto done;
        }

        if (r.body.len != 0 && r.body.data[r.body.len - 1] == '\r') {
            r.body.len--;

            if (il_verify_fits(conf, &r)) {
                hint = "it fits the body without its last CR LF";
                goto done;
            }
        }
    }

    b.len = 0;
    il_buf_add(&b, req->body.data, req->body.len);
    il_buf_add(&b, "\n", 1);
    r.body = il_buf_str(&b);

    if (il_verify_fits(conf, &r)) {
        hint = "it fits the body with a newline behind: the last one was lost"
               " on the way";
        goto done;
    }

    b.len = 0;

    for (i = 0, n = req->body.len; i < n; i++) {
        if (req->body.data[i] != '\r') {
            il_buf_add(&b, req->body.data + i, 1);
        }
    }

    r.body = il_buf_str(&b);

    if (b.len != n && il_verify_fits(conf, &r)) {
        hint = "it fits the body with LF for CR LF";
        goto done;
    }

    if (n >= 3 && memcmp(req->body.data, "\xef\xbb\xbf", 3) == 0) {
        r.body = il_str(req->body.data + 3, n - 3);

        if (il_verify_fits(conf, &r)) {
            hint = "it fits the body without its byte order mark";
        }
    }

done:

    il_buf_free(&b);

    return hint;
}
