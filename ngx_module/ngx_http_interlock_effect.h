
/*
 * Copyright (C) the interlock authors
 */


#ifndef _NGX_HTTP_INTERLOCK_EFFECT_H_INCLUDED_
#define _NGX_HTTP_INTERLOCK_EFFECT_H_INCLUDED_


/*
 * The fencing proxy.  The worker's request is the main request; it makes
 * three subrequests, one after the other:
 *
 *     begin    to the backend: may this be sent, and under which key?
 *     send     a clone that goes on to the location's proxy_pass
 *     record   to the backend: what became of it
 *
 * None of them writes to the client: what they answer is caught by the
 * filters and held here.  The main request waits in its phase, with no timer
 * of its own, and answers when the record was made.
 */


#include "ngx_http_interlock_module.h"


/* of an answer, this much is kept in the ledger; and held in memory */
#define NGX_HTTP_INTERLOCK_ANSWER_MAX   65536

/* bytes of an effect's name */
#define NGX_HTTP_INTERLOCK_EFFECT_NAME  256


typedef struct ngx_http_interlock_effect_conf_s {
    ngx_http_complex_value_t       *name;
    ngx_http_complex_value_t       *kind;       /* or NULL */
    ngx_array_t                    *headers;    /* of ngx_str_t: in name */
} ngx_http_interlock_effect_conf_t;


struct ngx_http_interlock_keys_s {
    il_token_keys_t                 set;
    il_token_seen_t                 seen;       /* of this process */
    ngx_str_t                       path;       /* full, with a NUL behind */
    struct timespec                 changed;    /* mtime of path */
    time_t                          looked;
};


/* a subrequest, and what came of it */

typedef struct {
    ngx_http_request_t             *request;    /* NULL: never made */
    ngx_int_t                       rc;         /* that it ended with */
    ngx_uint_t                      status;     /* 0: no header came */

    u_char                         *data;       /* the body, if it is short */
    size_t                          len;
    size_t                          cap;

    ngx_temp_file_t                *file;       /* or else all of it */
    off_t                           size;

    unsigned                        done:1;
    unsigned                        complete:1; /* the body's end was seen */
    unsigned                        spool:1;    /* a long one to a file */
    unsigned                        too_long:1;
    unsigned                        over:1;     /* its time was: it was ended */
} ngx_http_interlock_call_t;


typedef enum {
    NGX_HTTP_INTERLOCK_EFFECT_READING = 0,      /* the worker's body */
    NGX_HTTP_INTERLOCK_EFFECT_READ,
    NGX_HTTP_INTERLOCK_EFFECT_BEGIN,
    NGX_HTTP_INTERLOCK_EFFECT_SEND,
    NGX_HTTP_INTERLOCK_EFFECT_RECORD,
    NGX_HTTP_INTERLOCK_EFFECT_PAUSE,            /* before asking again */
    NGX_HTTP_INTERLOCK_EFFECT_ANSWERED
} ngx_http_interlock_effect_state_e;


typedef struct ngx_http_interlock_effect_s  ngx_http_interlock_effect_t;

struct ngx_http_interlock_effect_s {
    ngx_http_interlock_effect_state_e  state;
    ngx_http_interlock_effect_conf_t  *conf;

    ngx_str_t                       token;
    il_owner_claims_t               claims;     /* slices of buf */
    char                           *buf;

    ngx_str_t                       name;
    ngx_str_t                       kind;
    ngx_str_t                       compensates;
    u_char                          request_id[IL_UUID_BYTES];

    ngx_http_interlock_call_t      *call;       /* the one under way */
    ngx_http_interlock_call_t       begin;
    ngx_http_interlock_call_t       send;
    ngx_http_interlock_call_t       record;

    ngx_str_t                       what;       /* told to the backend */

    /* what the begin said */

    ngx_str_t                       id;
    ngx_str_t                       send_id;
    ngx_str_t                       key;
    ngx_str_t                       key_header;
    ngx_str_t                       map;        /* JSON, for the record */
    ngx_msec_t                      first;      /* begun for the first time */
    ngx_msec_t                      begun;
    ngx_msec_t                      deadline;   /* from begun on; 0: none */
    ngx_msec_t                      ended;      /* first told how it ended */

    ngx_str_t                       outcome;    /* the effect's state */
    const char                     *failure;    /* NULL: it was answered */

    ngx_uint_t                      tries;
    ngx_event_t                     timer;
    unsigned                        late:1;     /* not sent at all */
    unsigned                        sent:1;     /* what is paused is a record */
    unsigned                        gone:1;     /* the worker is */
};


#pragma GCC visibility push(hidden)

/* ngx_http_interlock_effect_conf.c: directives, and their checks */

char *ngx_http_interlock_effect(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_interlock_effect_uri(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_interlock_effect_merge(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *prev, ngx_http_interlock_loc_conf_t *conf);

/* ngx_http_interlock_effect_keys.c: who signs owner tokens and tickets; buf
 * holds what claims points into, and lives as long */

char *ngx_http_interlock_effect_keys(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_interlock_keys_verify(ngx_http_request_t *r,
    ngx_http_interlock_keys_t *keys, ngx_str_t *token,
    il_owner_claims_t *claims, char *buf, size_t cap);
ngx_int_t ngx_http_interlock_keys_ticket(ngx_http_request_t *r,
    ngx_http_interlock_keys_t *keys, il_str_t ticket,
    il_ticket_claims_t *claims, char *buf, size_t cap);

/* ngx_http_interlock_effect.c: the phase handler of such locations */

ngx_int_t ngx_http_interlock_effect_handler(ngx_http_request_t *r,
    ngx_http_interlock_loc_conf_t *ilcf);

/* ngx_http_interlock_effect_time.c: pauses, and the ends of calls */

/* what is left of a time that began then; 0: nothing */
ngx_msec_t ngx_http_interlock_effect_left(ngx_msec_t since, ngx_msec_t time);

/* The handler runs again after a while; returns NGX_AGAIN. */
ngx_int_t ngx_http_interlock_effect_pause(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e);

/* The call that was just made is ended after that time. */
void ngx_http_interlock_effect_limit(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_msec_t time);

/* No timer from here on. */
void ngx_http_interlock_effect_cleanup(ngx_http_interlock_ctx_t *ctx);

/* ngx_http_interlock_call.c: subrequests whose answers are caught */

ngx_int_t ngx_http_interlock_call_backend(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_call_t *call,
    ngx_str_t *body);
ngx_int_t ngx_http_interlock_call_provider(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_http_interlock_call_t *call);
ngx_http_interlock_call_t *ngx_http_interlock_call_of(ngx_http_request_t *r);
void ngx_http_interlock_call_settings(ngx_http_request_t *r);

/* Ends a call that is under way as if its upstream had timed out.  The main
 * request is posted, for the caller to run. */
void ngx_http_interlock_call_end(ngx_http_interlock_call_t *call);

ngx_int_t ngx_http_interlock_call_header(ngx_http_request_t *r,
    ngx_http_interlock_call_t *call);
void ngx_http_interlock_call_filter_init(void);

/* The value of a header of the call's answer; NULL if there is none. */
ngx_str_t *ngx_http_interlock_call_answer(ngx_http_interlock_call_t *call,
    const char *name);

/* ngx_http_interlock_effect_headers.c: what the provider gets: a list of its
 * own, because the main request's is the worker's, and stays */

ngx_int_t ngx_http_interlock_effect_headers(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_list_t *headers);

/* ngx_http_interlock_effect_tell.c: what is told to the backend, and heard */

ngx_int_t ngx_http_interlock_effect_tell_begin(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
ngx_int_t ngx_http_interlock_effect_tell_outcome(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
ngx_int_t ngx_http_interlock_effect_hear_begin(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e);

/* ngx_http_interlock_effect_answer.c: what the worker gets; they finalize
 * the request and return NGX_DONE */

ngx_int_t ngx_http_interlock_effect_relay(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, ngx_http_interlock_call_t *call);
ngx_int_t ngx_http_interlock_effect_problem(ngx_http_request_t *r,
    ngx_http_interlock_effect_t *e, il_problem_e problem, const char *detail);

#pragma GCC visibility pop


#endif /* _NGX_HTTP_INTERLOCK_EFFECT_H_INCLUDED_ */
