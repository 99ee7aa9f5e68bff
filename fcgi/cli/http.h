/*
 * http.h: one HTTP client (libcurl) for all commands.
 *
 * A client is used by one thread at a time.  Calls block, up to their
 * timeout; the parts (prepare, take) serve those that drive a multi handle.
 */

#ifndef IL_CLI_HTTP_H
#define IL_CLI_HTTP_H

#include <curl/curl.h>

#include "cli.h"

#define IL_HTTP_ANSWER_MAX  (64u * 1024 * 1024)

typedef struct {
    long      status;               /* 0: no answer */
    il_buf_t  body;
    int       replayed;             /* Idempotency-Replayed: true */
    int64_t   retry_after;          /* seconds; -1: not said */
    int64_t   date;                 /* Unix seconds of Date; -1: not said */
    char      decision[32];         /* Interlock-Decision */
    char      next[80];             /* Interlock-Next */
    char      error[CURL_ERROR_SIZE + 64];  /* if status is 0 */
} il_answer_http_t;

typedef struct {
    CURL               *curl;
    struct curl_slist  *headers;
    char               *base;       /* without trailing slash */
    il_buf_t            token;      /* Authorization header's line */
    il_buf_t            request;    /* body under way */
    il_answer_http_t    answer;
} il_http_t;

/* Opens a client for the address and the token file of c.  need_token: 1 if
 * a missing token file is an error, 0 if none is sent.  0 or exit code. */
int il_http_open(il_http_t *h, const il_common_t *c, int need_token);

/* Opens a client for a base URL with a bearer token (empty: none). */
int il_http_open_bearer(il_http_t *h, const char *base, il_str_t token);

void il_http_close(il_http_t *h);

/* Adds a header line to the next request only. */
void il_http_header(il_http_t *h, const char *line);

/* One request; body is copied (empty: none is sent unless method is POST or
 * PUT).  Returns 0 if any HTTP answer came (see h->answer), else -1 with
 * h->answer.error. */
int il_http_call(il_http_t *h, const char *method, const char *path,
    il_str_t body, long timeout_ms);

/* Sets h->curl up for a request without performing it; il_http_take() reads
 * its end.  The same results as il_http_call(). */
int il_http_prepare(il_http_t *h, const char *method, const char *path,
    il_str_t body, long timeout_ms);
int il_http_take(il_http_t *h, CURLcode code);

/* 0 if the answer is 2xx; else writes one line (a problem's title and
 * detail) to standard error, with json also the body to standard output, and
 * returns the exit code that fits. */
int il_http_check(const il_http_t *h, int rc, int json);

/* The problem's name ("kind-unknown"), or NULL; a new string. */
char *il_http_problem(const il_answer_http_t *a);

/* One line about a failed call: a new string. */
char *il_http_explain(const il_answer_http_t *a);

#endif /* IL_CLI_HTTP_H */
