/*
 * outcall.h: requests over HTTP that interlockd makes by itself, to look
 * something up or to tell somebody.
 *
 * Whom they may go to is up to the configuration alone, judged by the URL
 * before and by the address of each socket when it is opened.
 */

#ifndef IL_OUTCALL_H
#define IL_OUTCALL_H

#include "il_lookup.h"
#include "il_url.h"

#define IL_OUTCALL_BODY_MAX   65536
#define IL_OUTCALL_HOPS_MAX   3

typedef struct curl_slist  il_outcall_headers_t;


/* Whom a request may go to, and how it is made.  Strings are borrowed. */
typedef struct {
    const char  *setting;           /* that names the hosts, for messages */
    const char  *hosts;             /* that may be called */
    const char  *private;           /* of these, that may be private */
    const char  *ca;                /* a file of certificates, or "" */
    const char  *agent;             /* User-Agent */
    int        (*stopping)(void);   /* 1: give up what is under way */
} il_outrules_t;


/* One request, and what came of it.  Zeroed by the caller, who sets the first
 * part; url and parsed by il_outcall_url(). */
typedef struct {
    char                   url[IL_URL_MAX + 1];
    il_url_t               parsed;          /* slices of url */
    int                    head;
    int                    post;
    il_outcall_headers_t  *headers;         /* by il_outcall_header() */
    il_str_t               body;            /* of a POST; borrowed */
    int64_t                deadline;        /* il_now_ms() */

    int                    status;
    char                  *answer;          /* IL_OUTCALL_BODY_MAX bytes */
    size_t                 answer_len;
    char                   why[IL_LOOKUP_DETAIL_CAP];  /* came to nothing */
} il_outcall_t;


/* Once, before any thread and after all of them. */
int il_outcall_init(void) IL_MUST_CHECK;
void il_outcall_end(void);

/* Are the settings well-formed: a list of hosts, a readable file of
 * certificates (or "")?  0, or -1 with a message. */
int il_outcall_hosts(const char *name, const char *list, char *err,
    size_t cap) IL_MUST_CHECK;
int il_outcall_ca(const char *name, const char *path, char *err, size_t cap)
    IL_MUST_CHECK;

/* May this URL be called, as far as can be told before its name is resolved?
 * 0 and *url filled with slices of text, or -1 and the end of a sentence in
 * why. */
int il_outcall_url(const il_outrules_t *rules, il_str_t text, il_url_t *url,
    char *why, size_t cap) IL_MUST_CHECK;

/* The first line of the file `name` in the directory of secrets, which nobody
 * but its owner may read.  0, with at most cap - 1 bytes in out; or -1 and a
 * sentence in why that never has any of it; `setting` names the directory. */
int il_outcall_secret(const char *setting, const char *dir, il_str_t name,
    char *out, size_t cap, size_t *len, char *why, size_t why_cap)
    IL_MUST_CHECK;

/* Adds a header, "Name: value".  0, or -1 with call->why. */
int il_outcall_header(il_outcall_t *call, const char *line) IL_MUST_CHECK;

/* Makes the call.  0 and status and answer are set; or -1 and call->why: it
 * came to nothing, though status is set if the answer had begun (else 0). */
int il_outcall(const il_outrules_t *rules, il_outcall_t *call) IL_MUST_CHECK;

/* Frees headers and answer. */
void il_outcall_free(il_outcall_t *call);

#endif /* IL_OUTCALL_H */
