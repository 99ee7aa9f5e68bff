
/*
 * Copyright (C) the interlock authors
 */


#ifndef _NGX_HTTP_INTERLOCK_MODULE_H_INCLUDED_
#define _NGX_HTTP_INTERLOCK_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "il_answer.h"
#include "il_button.h"
#include "il_enc.h"
#include "il_hash.h"
#include "il_json.h"
#include "il_key.h"
#include "il_problem.h"
#include "il_shake.h"
#include "il_sig.h"
#include "il_ticket.h"
#include "il_time.h"
#include "il_token.h"

#include "ngx_http_interlock_zone.h"


/* without interlock_verify nobody knows who asks: answers live this long */
#define NGX_HTTP_INTERLOCK_UNVERIFIED_DONE  60

/* parts of a hash that say who asks: scheme, Authorization, Cookie */
#define NGX_HTTP_INTERLOCK_WHO              3

/* parts that say what the request is: method, source, URI, body */
#define NGX_HTTP_INTERLOCK_WHAT             4

/* the most that a hash has: these, and who asks for which kind of work */
#define NGX_HTTP_INTERLOCK_PARTS            (NGX_HTTP_INTERLOCK_WHAT          \
                                             + NGX_HTTP_INTERLOCK_WHO + 1)

#define NGX_HTTP_INTERLOCK_IDEM_REQUIRED    1
#define NGX_HTTP_INTERLOCK_IDEM_OPTIONAL    2
#define NGX_HTTP_INTERLOCK_IDEM_BODY        3

#define NGX_HTTP_INTERLOCK_REJECT           1
#define NGX_HTTP_INTERLOCK_FIRST            2

#define NGX_HTTP_INTERLOCK_STATUS_JSON      1
#define NGX_HTTP_INTERLOCK_STATUS_PROM      2

/* the length of a variable's value has 28 bits */
#define NGX_HTTP_INTERLOCK_VALUE_MAX        0x0fffffff


typedef struct ngx_http_interlock_edge_s    ngx_http_interlock_edge_t;
typedef struct ngx_http_interlock_record_s  ngx_http_interlock_record_t;


typedef struct {
    ngx_array_t                    *zones;      /* of ngx_shm_zone_t * */
    ngx_http_interlock_edge_t      *edge;       /* their numbers */

    /* indices of variables whose values, if asked for too early, are
     * forgotten: of the body when it is there, of the keys when they are
     * known, of the answer when it came */
    ngx_array_t                     body;       /* of ngx_int_t */
    ngx_array_t                     keys;       /* of ngx_int_t */
    ngx_array_t                     answer;     /* of ngx_int_t */

    ngx_array_t                     records;    /* of ..._record_t *: the
                                                 * sockets */

    ngx_array_t                     used;       /* of ..._used_t: variables
                                                 * in values of directives */

    ngx_module_t                   *fastcgi;    /* nginx's, or NULL */
} ngx_http_interlock_main_conf_t;


/* where a directive stands, for what is said of it when all was read */

typedef struct {
    ngx_str_t                       file;
    ngx_uint_t                      line;       /* 0: not known */
} ngx_http_interlock_place_t;


/* a variable in a value of a directive */

typedef struct {
    ngx_str_t                       name;
    ngx_str_t                       directive;
    ngx_http_interlock_place_t      place;
} ngx_http_interlock_used_t;


/* of "interlock_verify ticket" */

typedef struct {
    ngx_str_t                       origins;    /* others than the site, joined
                                                 * by commas */
} ngx_http_interlock_ticket_conf_t;


/* of a request with a ticket */

typedef struct {
    il_button_t                     in;
    il_ticket_claims_t              claims;     /* slices of memory of the
                                                 * request */
    ngx_str_t                       user;
} ngx_http_interlock_ticket_t;


typedef struct {
    il_sig_conf_t                   sig;        /* scheme NULL: a ticket */
    ngx_http_interlock_ticket_conf_t
                                   *ticket;     /* or NULL */
    ngx_http_complex_value_t       *url;        /* public URL, or NULL */
    il_shake_conf_t                 shake;
    il_shake_taken_t                taken;      /* if status: the scheme's
                                                 * own answer to deliveries */
    unsigned                        need_url:1;
    unsigned                        gunzip:1;   /* signed is what the body
                                                 * inflates to */

    /* for interlockd, of the schemes that it verifies */
    ngx_str_t                       key;
    ngx_str_t                       args;
} ngx_http_interlock_verify_t;


typedef struct {
    ngx_int_t                       index;      /* of the variable; first */
    ngx_str_t                       pointer;
} ngx_http_interlock_json_t;


typedef struct ngx_http_interlock_keys_s  ngx_http_interlock_keys_t;


typedef struct {
    ngx_shm_zone_t                 *shm_zone;   /* NULL: off */
    ngx_http_complex_value_t       *tenant;
    ngx_http_complex_value_t       *source;
    ngx_http_complex_value_t       *kind;
    ngx_http_interlock_verify_t    *verify;
    ngx_array_t                    *work_key;   /* of complex values */
    ngx_http_complex_value_t       *idem;
    ngx_uint_t                      idem_mode;
    ngx_array_t                    *idem_headers;   /* of ngx_str_t */
    ngx_array_t                    *work_headers;   /* of ngx_str_t */
    ngx_array_t                    *json;       /* of ..._json_t */
    ngx_str_t                      *split;      /* pointer to the elements */
    ngx_array_t                    *form;       /* of ..._form_t */
    ngx_array_t                    *date;       /* of ..._date_t */
    ngx_uint_t                      mismatch;
    ngx_msec_t                      wait;
    ngx_flag_t                      dry_run;
    ngx_uint_t                      status;
    ngx_http_interlock_record_t    *record;     /* NULL: off */

    /* the fencing proxy's */

    struct ngx_http_interlock_effect_conf_s
                                   *effect;     /* NULL: none here */
    ngx_str_t                       effect_uri;
    ngx_http_interlock_keys_t      *keys;

    /* made at the end of configuration */

    ngx_http_interlock_counters_t  *counters;
    ngx_array_t                    *work_headers_only; /* of ngx_str_t: that
                                                 * are not idem_headers, too */
    ngx_uint_t                      on_mismatch;
    ngx_str_t                       verified;   /* scheme, or empty */

    ngx_http_interlock_place_t      place;      /* of the location's first
                                                 * directive of a gate or an
                                                 * effect */
    ngx_http_interlock_place_t      zone_place; /* of "interlock" */

    unsigned                        zone_here:1;    /* not inherited */
    unsigned                        gate:1;     /* the handler has work */
    unsigned                        provider:1; /* verified, a provider's */
} ngx_http_interlock_loc_conf_t;


typedef enum {
    NGX_HTTP_INTERLOCK_READING = 0, /* the body is being read */
    NGX_HTTP_INTERLOCK_READ,        /* it is there, nothing is decided */
    NGX_HTTP_INTERLOCK_WAITING,     /* the same request is in flight */
    NGX_HTTP_INTERLOCK_PASSED,      /* on its way to the content handler */
    NGX_HTTP_INTERLOCK_ANSWERED     /* here */
} ngx_http_interlock_state_e;


/*
 * The request's own state; lives in a cleanup of the request's pool, where it
 * is found again after nginx zeroed r->ctx in an internal redirect.
 */

typedef struct {
    ngx_http_request_t             *request;
    ngx_http_interlock_loc_conf_t  *lcf;        /* of the deciding location */
    ngx_http_interlock_state_e      state;

    il_str_t                        body;       /* raw, in one piece: what
                                                 * is stored and what the
                                                 * fingerprint is of */
    il_str_t                        content;    /* what signatures, JSON and
                                                 * forms are read from: the
                                                 * body, or it inflated */
    void                           *map;        /* munmap()ed at the end */
    size_t                          map_len;

    ngx_str_t                       tenant;
    ngx_str_t                       source;
    ngx_str_t                       kind;
    ngx_str_t                       work_key;
    ngx_str_t                       idem;
    u_char                          fp[IL_FP_BYTES];    /* if fp_known */
    il_json_rc_e                    json_rc;    /* worst of the variables */
    il_problem_e                    value_problem;  /* of other variables */
    il_str_t                        value_detail;

    ngx_http_interlock_id_t         id;
    ngx_http_interlock_id_t         work;       /* if holdable */
    uint64_t                        owner;      /* 0: no claim is held */
    ngx_http_interlock_answer_t     answer;

    ngx_msec_t                      wait_end;
    ngx_msec_t                      wait_step;

    struct ngx_http_interlock_effect_s
                                   *effect;     /* of the fencing proxy */
    ngx_http_interlock_ticket_t    *ticket;     /* of a web page; or NULL */

    ngx_chain_t                    *split_bufs; /* the body as it came */
    size_t                          split_list; /* bytes before it; or 0 */
    size_t                          split_size; /* of both */

    il_problem_e                    problem;
    ngx_str_t                       decision;
    ngx_str_t                       job_id;
    ngx_str_t                       backend_problem;
    uint64_t                        number;     /* answered alone; else 0 */

    unsigned                        body_ready:1;
    unsigned                        body_read:1;
    unsigned                        keyed:1;    /* variables have values */
    unsigned                        verified:1;
    unsigned                        fp_known:1;
    unsigned                        redirected:1;
    unsigned                        counted:1;
    unsigned                        waited:1;
    unsigned                        holdable:1; /* by its work key */
    unsigned                        coalesced:1;
    unsigned                        dry:1;      /* would have been answered */
    unsigned                        taking:1;   /* the provider's own answer
                                                 * is on its way */
} ngx_http_interlock_ctx_t;


#pragma GCC visibility push(hidden)

extern ngx_module_t  ngx_http_interlock_module;

/* ngx_http_interlock_conf.c: directives */

char *ngx_http_interlock_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_interlock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_interlock_name(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_interlock_work_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_interlock_idempotency_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_interlock_json(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

char *ngx_http_interlock_mismatch(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_interlock_wait_time(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * ngx_http_interlock_value.c: values of directives.  Errors are logged with
 * the directive that is being read (cf->args) and its place.
 */

/* A value that may have variables; they must exist once all was read. */
ngx_int_t ngx_http_interlock_compile(ngx_conf_t *cf, ngx_str_t *value,
    ngx_http_complex_value_t *cv);

/* For the end of configuration: NGX_ERROR if a variable in a value that was
 * compiled is defined nowhere. */
ngx_int_t ngx_http_interlock_check_variables(ngx_conf_t *cf);

/* Finds the next variable of a value, as $name or ${name}, at or behind *p:
 * 1, and *p is then behind its name, a slice of the value; or 0. */
ngx_uint_t ngx_http_interlock_next_variable(u_char **p, u_char *last,
    ngx_str_t *name);

/* The request headers that are named in a value, lower case with "_". */
ngx_int_t ngx_http_interlock_find_headers(ngx_conf_t *cf, ngx_str_t *value,
    ngx_array_t **headers);

/* NGX_ERROR if the value is no JSON pointer. */
ngx_int_t ngx_http_interlock_check_pointer(ngx_conf_t *cf, ngx_str_t *value);

/* An error, which is logged, if argument n of the directive is name=value and
 * one before it has the same name. */
ngx_int_t ngx_http_interlock_check_once(ngx_conf_t *cf, ngx_uint_t n);

/* Notes where the directive that is being read stands, if nothing was noted
 * in *place before. */
void ngx_http_interlock_place(ngx_conf_t *cf,
    ngx_http_interlock_place_t *place);

/*
 * Makes nginx name that place, if it is known, in what is logged from now on,
 * instead of the line that it has come to.  *file is room for it; what is
 * returned is to be put back into cf->conf_file.
 */
ngx_conf_file_t *ngx_http_interlock_at(ngx_conf_t *cf,
    ngx_http_interlock_place_t *place, ngx_conf_file_t *file);

/*
 * ngx_http_interlock_edge.c: how far zones have counted.  _add makes the memory
 * when a configuration begins, _begin gives each zone its number there once
 * they have memory, _end keeps the numbers in a file; all in the master
 * process.  _value is $interlock_edge, in memory of the request.
 */

ngx_int_t ngx_http_interlock_edge_add(ngx_conf_t *cf,
    ngx_http_interlock_main_conf_t *imcf);
ngx_int_t ngx_http_interlock_edge_begin(ngx_cycle_t *cycle);
void ngx_http_interlock_edge_end(ngx_cycle_t *cycle);
ngx_int_t ngx_http_interlock_edge_value(ngx_http_request_t *r,
    ngx_str_t *value);

/*
 * ngx_http_interlock_record.c: "interlock_audit".  _record: puts a request
 * that was answered alone (ctx->number, decision and answer are set) on
 * record, if the location has it so.  In a worker process; never waits.
 */

char *ngx_http_interlock_record_conf(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
void ngx_http_interlock_record(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);

/* ngx_http_interlock_check.c: that there is the zone of "interlock"; what
 * goes with a gate */

char *ngx_http_interlock_check_zone(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf);
char *ngx_http_interlock_check(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf);

/* ngx_http_interlock_verify.c: signatures */

char *ngx_http_interlock_verify(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
il_problem_e ngx_http_interlock_verify_request(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);

/* ngx_http_interlock_ticket.c: "interlock_verify ticket"
 *
 * _conf: the directive.  _check: once a location is complete.
 * _start: before the body is read; NGX_OK to go on, else what the handler is
 * to return (preflights are answered here).
 * _verify: IL_P_NONE if the ticket is good and the request may come from where
 * it does, else the problem.
 * _keys: the names and keys of the request, from the ticket and what was sent;
 * tenant and kind of the location are known.
 * _headers: what other origins' pages need, in every answer. */

char *ngx_http_interlock_ticket_conf(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *ilcf, ngx_http_interlock_verify_t *verify);
char *ngx_http_interlock_ticket_check(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *conf);
ngx_int_t ngx_http_interlock_ticket_start(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
il_problem_e ngx_http_interlock_ticket_verify(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);
il_problem_e ngx_http_interlock_ticket_keys(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);
ngx_int_t ngx_http_interlock_ticket_headers(ngx_http_request_t *r);
ngx_int_t ngx_http_interlock_ticket_add_variables(ngx_conf_t *cf);

/* 1 if the location takes tickets. */
ngx_uint_t ngx_http_interlock_is_ticket(ngx_http_interlock_loc_conf_t *ilcf);

/* 1 if the zone has no part in the request: it asks for nothing, or the answer
 * is a page, which shows how things stand now. */
ngx_uint_t ngx_http_interlock_ticket_passes(ngx_http_interlock_ctx_t *ctx);

/* Answers a problem as a page: NGX_DECLINED if it is not to be one. */
ngx_int_t ngx_http_interlock_ticket_problem(ngx_http_request_t *r,
    il_problem_e problem, ngx_uint_t retry_after);

/* ngx_http_interlock_file.c: the text of a parameter's file, which is to be
 * freed (and is wiped then); what is wrong was logged. */

ngx_int_t ngx_http_interlock_read_file(ngx_conf_t *cf, const char *parameter,
    ngx_str_t *file, ngx_str_t *text);
void ngx_http_interlock_free_file(ngx_str_t *text);

/* ngx_http_interlock_shake.c: handshakes, and providers' own answers.
 *
 * _arg: NGX_OK, NGX_ERROR (logged), or NGX_DECLINED: no argument of these.
 * _conf: once all arguments are known.
 * _start, before the body is read, and _verified, after the signature was:
 * NGX_OK to go on, else what the handler is to return.
 * _own: how this request's provider wants it acknowledged, or NULL.
 * _taken: turns the backend's 2xx, of which no header was sent yet, into that;
 * _taken_status is the status of an answer in ctx that is given again. */

ngx_int_t ngx_http_interlock_shake_arg(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify, ngx_str_t *name, ngx_str_t *value);
ngx_int_t ngx_http_interlock_shake_conf(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify);
ngx_int_t ngx_http_interlock_shake_start(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
ngx_int_t ngx_http_interlock_shake_verified(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
il_shake_taken_t *ngx_http_interlock_own(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
void ngx_http_interlock_taken(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
ngx_uint_t ngx_http_interlock_taken_status(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
void ngx_http_interlock_taken_filter_init(void);

/* ngx_http_interlock_url.c: url= of interlock_verify, and what *url is for a
 * request; it lives as long as the request and stays as it is if the scheme
 * does not sign it. */

char *ngx_http_interlock_url_arg(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify, ngx_str_t *value);
char *ngx_http_interlock_url_check(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify);
ngx_int_t ngx_http_interlock_url(ngx_http_request_t *r,
    ngx_http_interlock_verify_t *verify, il_str_t *url);

/* How often a request header occurs; name is lower case with "_" for "-". */
ngx_uint_t ngx_http_interlock_header_count(ngx_http_request_t *r,
    ngx_str_t *name);

/* ngx_http_interlock_backend.c: schemes that interlockd verifies */

ngx_int_t ngx_http_interlock_backend_add_variables(ngx_conf_t *cf);
ngx_int_t ngx_http_interlock_backend_init(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify);

/* 1 if the request's location has such a scheme: then it is not verified
 * here, nothing may be remembered of it, and what is wrong with its keys is
 * interlockd's to tell. */
ngx_uint_t ngx_http_interlock_backend(ngx_http_interlock_ctx_t *ctx);
ngx_int_t ngx_http_interlock_backend_problem(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_problem_e problem, il_str_t detail);

/* il_sig_header_pt: the value of a request header, and how often it occurs;
 * ctx is the request */
il_str_t ngx_http_interlock_header(void *ctx, const char *lowcase_name,
    size_t *count);

/* ngx_http_interlock_content.c: content=gunzip, sets ctx->content.
 *
 * _arg: NGX_OK, NGX_ERROR (logged), or NGX_DECLINED: not this argument. */

ngx_int_t ngx_http_interlock_content_arg(ngx_conf_t *cf,
    ngx_http_interlock_verify_t *verify, ngx_str_t *name, ngx_str_t *arg);
il_problem_e ngx_http_interlock_content(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);

/* ngx_http_interlock_ctx.c: the request's own state.  _get finds it, too, after
 * an internal redirect; NULL if there is none.  _release gives up the claim, if
 * one is held, as the end of the request does. */

ngx_http_interlock_ctx_t *ngx_http_interlock_get_ctx(ngx_http_request_t *r);
ngx_http_interlock_ctx_t *ngx_http_interlock_create_ctx(ngx_http_request_t *r,
    ngx_http_interlock_loc_conf_t *ilcf);
void ngx_http_interlock_release(ngx_http_interlock_ctx_t *ctx);

/* ngx_http_interlock_handler.c: what happens to a request, in order */

ngx_int_t ngx_http_interlock_handler(ngx_http_request_t *r);
void ngx_http_interlock_count(ngx_http_interlock_ctx_t *ctx,
    ngx_http_interlock_outcome_e outcome);

/* What the handler returns for a request that it refuses, lets pass, or would
 * have answered with this status were it no dry run. */
ngx_int_t ngx_http_interlock_reject(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_problem_e problem, il_str_t detail);
ngx_int_t ngx_http_interlock_pass(ngx_http_interlock_ctx_t *ctx,
    ngx_http_interlock_outcome_e outcome);
ngx_int_t ngx_http_interlock_dry(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, ngx_uint_t status, const char *what);

/* ngx_http_interlock_body.c: makes ctx->body from the chain */

ngx_int_t ngx_http_interlock_body(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);

/* ngx_http_interlock_keys.c: names, keys, fingerprint, the entry's identity.
 * IL_P_NONE, or a problem with its detail; IL_P_INTERNAL if out of memory. */

il_problem_e ngx_http_interlock_keys(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);
ngx_int_t ngx_http_interlock_identity(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);

/* Who asks: NGX_HTTP_INTERLOCK_WHO parts of a hash, slices of the request's
 * memory.  NGX_ERROR if out of memory. */
ngx_int_t ngx_http_interlock_who(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *who);

/* What the request is: up to NGX_HTTP_INTERLOCK_WHAT parts of a hash, slices of
 * the request's memory; how many. */
ngx_uint_t ngx_http_interlock_what(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *parts);

/* ctx->fp, if it is not known yet: few need it, and it costs more than all of
 * the zone's hashes.  Where a body is split it must be asked for while the
 * body is the one that came. */
void ngx_http_interlock_fingerprint(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);

/* ngx_http_interlock_split.c: bodies of several requests */

char *ngx_http_interlock_split(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_interlock_split_merge(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *prev, ngx_http_interlock_loc_conf_t *conf);
ngx_int_t ngx_http_interlock_split_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);

/* Puts the list of the elements, each with its keys, before the body.
 * IL_P_NONE, or a problem of the whole with its detail; IL_P_INTERNAL if out
 * of memory. */
il_problem_e ngx_http_interlock_split_request(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx, il_str_t *detail);

/* Takes the list away again, if there is one. */
void ngx_http_interlock_split_undo(ngx_http_request_t *r);

/* ngx_http_interlock_reply.c: answers of the edge; they finalize the request
 * and return NGX_DONE. */

ngx_int_t ngx_http_interlock_reply_problem(ngx_http_request_t *r,
    il_problem_e problem, il_str_t detail, ngx_uint_t retry_after);
ngx_int_t ngx_http_interlock_reply_answer(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
ngx_int_t ngx_http_interlock_reply_empty(ngx_http_request_t *r);

/* What the zone keeps of an answer, as common/ takes it; the texts are empty. */
void ngx_http_interlock_unpack(ngx_http_interlock_answer_t *packed,
    il_answer_t *answer);

/* Of these: name and type live as long as the request; body is copied. */
ngx_int_t ngx_http_interlock_add_header(ngx_http_request_t *r,
    const char *name, ngx_str_t *value);
ngx_int_t ngx_http_interlock_send(ngx_http_request_t *r, ngx_uint_t status,
    const char *type, u_char *body, size_t len);

/* ngx_http_interlock_variables.c */

ngx_int_t ngx_http_interlock_add_variables(ngx_conf_t *cf);
ngx_int_t ngx_http_interlock_json_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);

/* Adds the variables of a table that ends with ngx_http_null_variable.  What
 * was asked of them too early is forgotten when what indices is for is known:
 * an array of the main configuration, or NULL if nothing is to be forgotten. */
ngx_int_t ngx_http_interlock_add_table(ngx_conf_t *cf,
    ngx_http_variable_t *table, ngx_array_t *indices);

/* Of a variable: this value, which lives as long as the request, or none if it
 * is NULL or empty.  It is computed once if it is known, else each time. */
void ngx_http_interlock_set_value(ngx_http_variable_value_t *v,
    ngx_str_t *value, ngx_uint_t known);

void ngx_http_interlock_forget_variables(ngx_http_request_t *r,
    ngx_array_t *indices);

/* ngx_http_interlock_audit.c: variables of what was answered alone */

ngx_int_t ngx_http_interlock_add_audit_variables(ngx_conf_t *cf);

/* ngx_http_interlock_status.c */

char *ngx_http_interlock_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_interlock_status_handler(ngx_http_request_t *r);

/* ngx_http_interlock_hold.c: work keys that are held.  _work_identity is of a
 * request whose own identity is known, once; NGX_ERROR if out of memory.
 * answer may be NULL; seconds is how long a repeat's own key may be
 * remembered. */

ngx_int_t ngx_http_interlock_work_identity(ngx_http_request_t *r,
    ngx_http_interlock_ctx_t *ctx);
void ngx_http_interlock_hold(ngx_http_interlock_ctx_t *ctx, ngx_str_t *value,
    ngx_http_interlock_answer_t *answer, time_t seconds);
void ngx_http_interlock_work_done(ngx_http_request_t *r,
    ngx_http_interlock_main_conf_t *imcf, ngx_str_t *value);

/* ngx_http_interlock_filter.c: settles a claim by the backend's answer */

/* The longest that an answer of this location may be kept, in seconds. */
time_t ngx_http_interlock_done_limit(ngx_http_interlock_ctx_t *ctx);

void ngx_http_interlock_filter_init(void);

#pragma GCC visibility pop


/* between nginx's strings and those of common/ */

static ngx_inline il_str_t
ngx_http_interlock_str(const ngx_str_t *s)
{
    return il_str((const char *) s->data, s->len);
}


#endif /* _NGX_HTTP_INTERLOCK_MODULE_H_INCLUDED_ */
