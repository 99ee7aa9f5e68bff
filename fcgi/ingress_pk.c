/*
 * ingress_pk.c: see ingress_pk.h.
 *
 * Verifying comes before everything else that the request asks for: nothing
 * is looked up or remembered of one that is not signed.
 */

#include <stdlib.h>

#include "certs.h"
#include "ingress_pk.h"
#include "log.h"
#include "metrics.h"
#include "submit.h"
#include "work.h"


typedef struct {
    il_certs_wait_t   wait;           /* first: done() gets it */
    il_req_t         *r;
    void            (*next)(il_req_t *r);
    il_sig_conf_t     conf;
    il_sig_request_t  req;
    il_sig_pk_t       pk;
    void             *room;           /* of pk */
} il_ingress_pk_t;


static void il_ingress_pk_verify(il_req_t *r);


int
il_ingress_pk_wanted(const il_req_t *r)
{
    return il_req_param(r, "INTERLOCK_VERIFIED").len == 0
           && il_req_param(r, "INTERLOCK_VERIFY").len != 0;
}


/* il_sig_header_pt */

static il_str_t
il_ingress_pk_header(void *ctx, const char *lowcase_name, size_t *count)
{
    il_ingress_pk_t  *op = ctx;

    return il_req_sig_header(op->r, lowcase_name, count);
}


/* il_sig_alloc_pt: given back as soon as the request is verified */

static void *
il_ingress_pk_alloc(void *ctx, size_t size)
{
    il_ingress_pk_t  *op = ctx;

    free(op->room);
    op->room = malloc(size);

    return op->room;
}


static void
il_ingress_pk_count(const il_ingress_pk_t *op, const char *outcome)
{
    il_metric_add_str(IL_MT_SIGNATURES, 1,
                      il_sig_scheme_name(op->conf.scheme), il_cstr(outcome),
                      il_str("", 0));
}


/* The same words whatever was wrong, and the same as the edge's: the reason
 * is for the operator. */

static void
il_ingress_pk_refuse(il_ingress_pk_t *op, il_pk_rc_e rc, const char *why)
{
    il_req_t    *r = op->r;
    il_str_t     scheme, source;
    const char  *name;

    free(op->room);
    op->room = NULL;

    name = rc == IL_PK_TIMESTAMP ? "timestamp-out-of-range"
           : rc == IL_PK_INVALID ? "signature-invalid" : "unavailable";

    scheme = il_sig_scheme_name(op->conf.scheme);
    source = il_req_param(r, "INTERLOCK_SOURCE");

    il_ingress_pk_count(op, name);
    il_log(IL_LOG_WARN, "%s: %s, scheme \"%.*s\", source \"%.*s\"", name, why,
           (int) scheme.len, scheme.data, (int) source.len, source.data);

    switch (rc) {

    case IL_PK_TIMESTAMP:
        il_req_problem(r, IL_P_TIMESTAMP_OUT_OF_RANGE,
                       "The signed time is too far from now.");
        return;

    case IL_PK_INVALID:
        il_req_problem(r, IL_P_SIGNATURE_INVALID, "The request is not signed "
                       "with a secret of this source.");
        return;

    case IL_PK_OK:
    case IL_PK_UNAVAILABLE:
        break;
    }

    il_req_header(r, "Retry-After", il_cstr("5"));
    il_req_problem(r, IL_P_UNAVAILABLE, "The signature cannot be verified at "
                   "the moment. Try again shortly.");
}


/* What the edge says about the scheme.  0, or -1: it is configured wrongly,
 * or its words come from somewhere else. */

static int
il_ingress_pk_conf(il_ingress_pk_t *op)
{
    char         err[IL_SIG_ERR_CAP];
    size_t       i, start;
    il_str_t     args, arg;
    il_req_t    *r = op->r;
    const char  *eq;

    err[0] = '\0';

    if (il_sig_conf_init(&op->conf, il_req_param(r, "INTERLOCK_VERIFY"), err,
                         sizeof(err)) != 0)
    {
        goto failed;
    }

    args = il_req_param(r, "INTERLOCK_VERIFY_ARGS");
    start = 0;

    for (i = 0; i <= args.len; i++) {
        if (i < args.len && args.data[i] != ' ') {
            continue;
        }

        arg = il_str(args.data + start, i - start);
        start = i + 1;

        eq = arg.len == 0 ? NULL : memchr(arg.data, '=', arg.len);

        if (eq != NULL
            && il_sig_conf_arg(&op->conf,
                               il_str(arg.data, (size_t) (eq - arg.data)),
                               il_str(eq + 1, arg.len
                                      - (size_t) (eq + 1 - arg.data)),
                               err, sizeof(err)) != 0)
        {
            goto failed;
        }
    }

    if (!il_sig_scheme_backend(op->conf.scheme)
        || il_sig_conf_secrets(&op->conf,
                               il_req_param(r, "INTERLOCK_VERIFY_KEY"), err,
                               sizeof(err)) != 0
        || il_sig_conf_done(&op->conf, err, sizeof(err)) != 0)
    {
        goto failed;
    }

    return 0;

failed:

    il_log(IL_LOG_ERROR, "INTERLOCK_VERIFY: %s", err[0] == '\0'
           ? "the scheme is not one that interlockd verifies" : err);

    return -1;
}


/* il_certs_wait_t: back to a worker */

static void
il_ingress_pk_woken(il_certs_wait_t *wait)
{
    il_ingress_pk_t  *op = (il_ingress_pk_t *) wait;

    il_work_step(op->r);
}


/* The answers about subscriptions create no job. */

static void
il_ingress_pk_told(il_req_t *r)
{
    il_ingress_pk_t  *op = r->op;

    if (op->wait.rc != IL_PK_OK) {
        il_ingress_pk_refuse(op, op->wait.rc, op->wait.why);
        return;
    }

    free(op->room);
    op->room = NULL;

    il_ingress_pk_count(op, "handshake");
    il_buf_puts(il_req_json(r, 200), op->pk.type == IL_SIG_PK_SUBSCRIBE
                ? "{\"subscription\":\"confirmed\"}"
                : "{\"subscription\":\"ended\"}");
    il_req_done(r);
}


/* What the edge found wrong with its keys, "name detail", is told only now.
 * 1 if it is answered. */

static int
il_ingress_pk_problem(il_req_t *r)
{
    size_t         n;
    il_str_t       s;
    il_problem_e   p;
    const char    *blank;

    s = il_req_param(r, "INTERLOCK_VERIFY_PROBLEM");
    if (s.len == 0) {
        return 0;
    }

    blank = memchr(s.data, ' ', s.len);
    n = blank == NULL ? s.len : (size_t) (blank - s.data);

    p = il_problem_find(il_str(s.data, n));

    il_req_problem_more(r, p == IL_P_NONE ? IL_P_BAD_REQUEST : p,
                        n < s.len ? il_str(s.data + n + 1, s.len - n - 1)
                                  : il_str(NULL, 0), il_str(NULL, 0));

    return 1;
}


static void
il_ingress_pk_verified(il_ingress_pk_t *op)
{
    il_req_t  *r = op->r;

    switch (op->pk.type) {

    case IL_SIG_PK_MESSAGE:
        free(op->room);
        op->room = NULL;
        il_ingress_pk_count(op, "valid");

        if (!il_ingress_pk_problem(r)) {
            op->next(r);
        }

        return;

    case IL_SIG_PK_SUBSCRIBE:
        r->step = il_ingress_pk_told;

        if (il_certs_confirm(op->pk.subscribe_url, &op->wait)) {
            il_ingress_pk_told(r);
        }

        return;

    case IL_SIG_PK_UNSUBSCRIBE:
        il_log(IL_LOG_WARN, "sns: the subscription to %.*s has ended",
               (int) op->pk.topic.len, op->pk.topic.data);
        op->wait.rc = IL_PK_OK;
        il_ingress_pk_told(r);
        return;
    }
}


/* The certificate is there, or is not needed. */

static void
il_ingress_pk_verify(il_req_t *r)
{
    il_pk_rc_e        rc;
    const char       *why;
    il_ingress_pk_t  *op = r->op;

    if (op->wait.rc != IL_PK_OK) {
        il_ingress_pk_refuse(op, op->wait.rc, op->wait.why);
        return;
    }

    rc = il_pk_verify(&op->conf, &op->req, &op->pk, op->wait.key, &why);

    il_pk_key_free(op->wait.key);
    op->wait.key = NULL;

    if (rc != IL_PK_OK) {
        il_ingress_pk_refuse(op, rc, why);
        return;
    }

    il_ingress_pk_verified(op);
}


void
il_ingress_pk(il_req_t *r, void (*next)(il_req_t *r))
{
    il_pk_rc_e        rc;
    const char       *why;
    il_ingress_pk_t  *op;

    op = il_pool_get(&r->pool, sizeof(il_ingress_pk_t));
    if (op == NULL) {
        il_req_internal(r);
        return;
    }

    r->op = op;
    op->r = r;
    op->next = next;
    op->wait.done = il_ingress_pk_woken;
    op->wait.rc = IL_PK_OK;

    op->req.header = il_ingress_pk_header;
    op->req.alloc = il_ingress_pk_alloc;
    op->req.ctx = op;
    op->req.now = il_wall_ms() / 1000;

    op->req.body = il_submit_raw(r);

    if (il_ingress_pk_conf(op) != 0) {
        il_req_internal(r);
        return;
    }

    why = il_pk_missing();

    if (why != NULL) {
        il_ingress_pk_refuse(op, IL_PK_UNAVAILABLE, why);
        return;
    }

    why = il_sig_pk_read(&op->conf, &op->req, &op->pk);

    if (why != NULL) {
        il_ingress_pk_refuse(op, IL_PK_INVALID, why);
        return;
    }

    /* whoever sends what is long past makes nobody call the outside */

    rc = il_pk_early(&op->conf, &op->req, &op->pk, &why);

    if (rc != IL_PK_OK) {
        il_ingress_pk_refuse(op, rc, why);
        return;
    }

    r->step = il_ingress_pk_verify;

    if (op->pk.ec
        || il_certs_get(op->conf.scheme, op->pk.cert_url, &op->wait))
    {
        il_ingress_pk_verify(r);
    }
}
