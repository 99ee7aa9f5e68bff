/*
 * check.h: look-ups over HTTP: is the result of a lost job there already, did
 * an unclear effect happen?
 *
 * Threads of their own take look-ups from the database, one each at a time,
 * so that no more than check_threads are under way.  Who may be called is up
 * to the configuration, and what is there is up to nobody else: an answer
 * that is not clear settles nothing.
 */

#ifndef IL_CHECK_H
#define IL_CHECK_H

#include "conf.h"
#include "il_lookup.h"
#include "il_url.h"

#define IL_CHECK_BODY_MAX   65536
#define IL_CHECK_HOPS_MAX   3

typedef struct curl_slist  il_check_headers_t;


/* One request over HTTP, and what came of it. */
typedef struct {
    char                 url[IL_URL_MAX + 1];
    il_url_t             parsed;            /* slices of url */
    int                  head;
    int                  post;
    il_check_headers_t  *headers;
    char                 body[IL_URL_MAX + 1];
    size_t               body_len;
    int64_t              deadline;          /* il_now_ms() */

    int                  status;
    char                *answer;            /* IL_CHECK_BODY_MAX bytes */
    size_t               answer_len;
    char                 why[IL_LOOKUP_DETAIL_CAP];   /* if it came to nothing */
} il_check_call_t;


/* Are the settings about look-ups well-formed?  0, or -1 with a message. */
int il_check_conf(const il_conf_t *conf, char *err, size_t cap)
    IL_MUST_CHECK;

/* May a look-up call this URL, as far as can be told before its name is
 * resolved?  0 and *url filled with slices of text, or -1 and the end of a
 * sentence in why. */
int il_check_url(const il_conf_t *conf, il_str_t text, il_url_t *url,
    char *why, size_t cap) IL_MUST_CHECK;

/* The member of a policy that describes a look-up ("result_check", "lookup"):
 * what an operator is told if it may not be called.  0, or -1 with a detail
 * in why.  What is no such description is left to the database. */
int il_check_policy(const il_conf_t *conf, il_str_t body, const char *member,
    char *why, size_t cap) IL_MUST_CHECK;

/* Makes the request of a description, secrets included.  0 (free the headers
 * with il_check_call_free), or -1 with a reason in call->why. */
int il_check_build(const il_conf_t *conf, il_str_t spec, il_str_t vars,
    il_check_call_t *call) IL_MUST_CHECK;
void il_check_call_free(il_check_call_t *call);

/* Once, before any thread and after all of them. */
int il_check_http_init(void) IL_MUST_CHECK;
void il_check_http_free(void);

/* Makes the call.  0 and status and answer are set; or -1, call->why. */
int il_check_http(const il_conf_t *conf, il_check_call_t *call) IL_MUST_CHECK;

/* Starts the threads, if any; stop makes them give up what is under way and
 * waits for them.  0 or -1. */
int il_check_start(void) IL_MUST_CHECK;
void il_check_stop(void);

/* There may be something to look up: look now.  Any thread. */
void il_check_hint(void);

/* 1 once il_check_stop has begun. */
int il_check_stopping(void);

#endif /* IL_CHECK_H */
