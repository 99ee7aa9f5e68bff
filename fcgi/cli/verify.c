/*
 * verify.c: says what the edge would say about a webhook's signature, and
 * why, for people whose signatures fail.  The check itself is il_sig_verify,
 * the same that the module calls.
 */

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cmds.h"
#include "il_enc.h"
#include "il_sig.h"
#include "il_time.h"
#include "verify.h"

#define IL_VERIFY_SECRET_MAX  65536


typedef struct {
    il_common_t  common;
    const char  *scheme;
    const char  *secret_file;
    const char  *method;
    const char  *url;
    const char  *body;
    const char  *at;
    il_list_t    headers;
    int64_t      tolerance;
    const char  *cert;
    const char  *ca;
    const char  *cert_hosts;
    int          gunzip;            /* content=gunzip */
} il_verify_opts_t;


static int il_verify(void *opts, const il_args_t *args);


#define il_verify_str(field)  IL_OPT_STR, offsetof(il_verify_opts_t, field)

static const il_opt_t  il_verify_opts[] = {
    { "scheme", il_verify_str(scheme), "NAME",
      "as in the directive interlock_verify", 0, 0, 0 },
    { "secret-file", il_verify_str(secret_file), "FILE",
      "one secret a line; the first is current, the others are accepted too",
      0, 0, 0 },
    { "method", il_verify_str(method), "METHOD",
      "request method (POST)", 0, 0, 0 },
    { "url", il_verify_str(url), "URL",
      "public URL as it was requested, for schemes that sign it", 0, 0, 0 },
    { "header", IL_OPT_LIST, offsetof(il_verify_opts_t, headers), "'K: V'",
      "a request header; may be repeated", 0, 0, 0 },
    { "body", il_verify_str(body), "FILE",
      "the raw body (- for standard input; none: empty)", 0, 0, 0 },
    { "at", il_verify_str(at), "TIME",
      "time of arrival: RFC 3339 or Unix seconds (now)", 0, 0, 0 },
    { "tolerance", IL_OPT_INT, offsetof(il_verify_opts_t, tolerance),
      "SECONDS", "how far a timestamp may be off", 0, 31536000, -1 },
    { "cert", il_verify_str(cert), "FILE",
      "the signer's certificate, for paypal and sns (fetched)", 0, 0, 0 },
    { "ca", il_verify_str(ca), "FILE",
      "certificates to trust (the system's)", 0, 0, 0 },
    { "cert-hosts", il_verify_str(cert_hosts), "LIST",
      "as cert_hosts and cert_private of interlockd.conf", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_verify = {
    "verify", il_verify, "tell why a webhook's signature is valid or not",
    "--scheme S --secret-file F [options] [name=value...]",
    "Checks a request as the edge would, and says why.  name=value are the\n"
    "further arguments of the directive interlock_verify (encoding=, header=,\n"
    "prefix=, algorithm=, signed=, ...).  Exit code 0 valid, 1 not.",
    il_verify_opts, sizeof(il_verify_opts_t), 0, 0, 64
};


/* What the schemes get as their context. */
typedef struct {
    const il_list_t  *headers;
    il_verify_pk_t    pk;
    il_str_t          came;         /* the body, before it was inflated */
    il_list_t         memory;       /* freed when the command ends */
    il_buf_t          form;         /* what is wrong with a header */
} il_verify_ctx_t;


static void *
il_verify_alloc(void *ctx, size_t size)
{
    il_list_t  *m;

    m = &((il_verify_ctx_t *) ctx)->memory;
    m->v = realloc(m->v, (m->n + 1) * sizeof(char *));

    if (m->v == NULL) {
        il_err("out of memory");
        exit(EX_OSERR);
    }

    m->v[m->n] = il_xalloc(size, 1);

    return m->v[m->n++];
}


static il_str_t
il_verify_header(void *ctx, const char *lowcase_name, size_t *count)
{
    size_t            n;
    il_str_t          value;
    const char       *line, *colon;
    const il_list_t  *headers;

    headers = ((il_verify_ctx_t *) ctx)->headers;
    value = il_str(NULL, 0);
    *count = 0;

    for (size_t i = 0; i < headers->n; i++) {
        line = headers->v[i];
        colon = strchr(line, ':');
        n = (size_t) (colon - line);

        if (n != strlen(lowcase_name)
            || strncasecmp(line, lowcase_name, n) != 0)
        {
            continue;
        }

        (*count)++;

        do { colon++; } while (*colon == ' ' || *colon == '\t');

        value = il_cstr(colon);

        while (value.len != 0 && (value.data[value.len - 1] == ' '
                                  || value.data[value.len - 1] == '\t'))
        {
            value.len--;
        }
    }

    return value;
}


static int
il_verify_time(const char *text, int64_t *now)
{
    int64_t  ms;

    if (text == NULL) {
        *now = (int64_t) time(NULL);
        return 0;
    }

    if (il_digits_parse(il_cstr(text), 12, now) == 0) {
        return 0;
    }

    if (il_rfc3339_parse(il_cstr(text), &ms) == 0) {
        *now = (ms >= 0) ? ms / 1000 : (ms - 999) / 1000;
        return 0;
    }

    il_err("--at takes RFC 3339 or Unix seconds: %s", text);

    return EX_USAGE;
}


/* Arguments of the directive that say nothing about signatures. */
static int
il_verify_ignores(il_str_t name)
{
    static const char *const  names[] = {
        "verify_token", "allowed_origin", "allowed_rate",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (il_str_eq(name, il_cstr(names[i]))) {
            return 1;
        }
    }

    return 0;
}


static int
il_verify_arg(il_sig_conf_t *conf, il_verify_opts_t *o, const char *arg)
{
    char         err[IL_SIG_ERR_CAP];
    il_str_t     name;
    const char  *eq;

    eq = strchr(arg, '=');

    if (eq == NULL || eq == arg) {
        il_err("verify: not name=value: %s", arg);
        return EX_USAGE;
    }

    name = il_str(arg, (size_t) (eq - arg));

    if (il_str_eq(name, il_cstr("secret"))) {
        il_err("verify: use --secret-file, not secret=");
        return EX_USAGE;
    }

    if (il_str_eq(name, il_cstr("url"))) {
        o->url = eq + 1;
        return 0;
    }

    if (il_str_eq(name, il_cstr("content"))) {
        o->gunzip = strcmp(eq + 1, "gunzip") == 0;

        if (!o->gunzip && strcmp(eq + 1, "raw") != 0) {
            il_err("verify: content= is raw or gunzip, not %s", eq + 1);
            return EX_USAGE;
        }

        return 0;
    }

    if (il_verify_ignores(name)) {
        return 0;
    }

    if (il_sig_conf_arg(conf, name, il_cstr(eq + 1), err, sizeof(err)) != 0) {
        il_err("verify: %s", err);
        return EX_USAGE;
    }

    return 0;
}


static int
il_verify_conf(il_sig_conf_t *conf, il_verify_opts_t *o,
    const il_args_t *args)
{
    int       rc;
    char      err[IL_SIG_ERR_CAP];
    il_buf_t  b;

    if (o->scheme == NULL || o->secret_file == NULL) {
        il_err("verify: --scheme and --secret-file are needed");
        return EX_USAGE;
    }

    if (il_sig_conf_init(conf, il_cstr(o->scheme), err, sizeof(err)) != 0) {
        il_err("verify: %s", err);
        return EX_USAGE;
    }

    for (size_t i = 0; i < args->pos.n; i++) {
        rc = il_verify_arg(conf, o, args->pos.v[i]);
        if (rc != 0) {
            return rc;
        }
    }

    if (o->tolerance >= 0) {
        conf->tolerance = o->tolerance;
    }

    memset(&b, 0, sizeof(b));
    rc = il_file_read(&b, o->secret_file, IL_VERIFY_SECRET_MAX);

    if (rc == 0
        && il_sig_conf_secrets(conf, il_buf_str(&b), err, sizeof(err)) != 0)
    {
        il_err("%s: %s", o->secret_file, err);
        rc = EX_CONFIG;
    }

    il_buf_free(&b);

    if (rc == 0 && il_sig_conf_done(conf, err, sizeof(err)) != 0) {
        il_err("verify: %s", err);
        rc = EX_USAGE;
    }

    return rc;
}


int
il_verify_fits(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    il_sig_why_e      why;
    il_verify_ctx_t  *ctx;

    ctx = req->ctx;

    if (il_sig_scheme_backend(conf->scheme)) {
        return il_verify_pk_fits(&ctx->pk, conf, req);
    }

    return il_sig_verify(conf, req, &why) == IL_SIG_OK;
}


/* Which header it is, as a hint; or another one. */
static const char *
il_verify_which(const il_sig_conf_t *conf, const il_sig_request_t *req,
    const char *otherwise)
{
    il_buf_t  *b;

    b = &((il_verify_ctx_t *) req->ctx)->form;
    b->len = 0;

    if (!il_verify_form(conf, req, b)) {
        if (otherwise != NULL) {
            return otherwise;
        }

        il_verify_form_all(conf, b);
    }

    if (b->len == 0) {
        return NULL;
    }

    il_buf_add(b, "", 1);

    return b->data;
}


static const char *
il_verify_advice(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_sig_why_e why)
{
    size_t       n;
    const char  *hint;

    switch (why) {

    case IL_SIG_WHY_MISMATCH:
        hint = il_verify_hint(conf, req,
                              ((il_verify_ctx_t *) req->ctx)->came);

        return hint != NULL ? hint
               : "another secret, or the body is not byte for byte what was"
                 " signed (or the URL, for schemes that sign it)";

    case IL_SIG_WHY_NO_HEADER:
        return il_verify_which(conf, req, "was it given with --header"
                               " 'Name: value'?");

    case IL_SIG_WHY_MALFORMED:
        return il_verify_which(conf, req, NULL);

    case IL_SIG_WHY_REPEATED_HEADER:
        return il_verify_which(conf, req, "the edge refuses two of them: a"
                               " proxy may have added one");

    case IL_SIG_WHY_TOO_OLD:
    case IL_SIG_WHY_IN_FUTURE:
        return "the time of arrival can be given with --at";

    case IL_SIG_WHY_BODY:
        n = 0;
        (void) req->header(req->ctx, "hmacsignature", &n);

        if (n != 0 && conf->place == IL_SIG_IN_ITEMS
            && il_str_eq(il_sig_scheme_name(conf->scheme), il_cstr("adyen")))
        {
            return "a platform webhook, which is signed in its header, needs"
                   " signature=header";
        }

        return "the body is not the JSON or the form that the scheme wants,"
               " or lacks a signature or a time in it; whether it is a form"
               " tells its Content-Type, to be given with --header, too";

    case IL_SIG_WHY_NO_URL:
        return "give it with --url, as it was requested";

    default:
        return NULL;
    }
}


static void
il_verify_say(const il_verify_opts_t *o, il_sig_rc_e rc, const char *why,
    const char *advice)
{
    il_buf_t     b;
    const char  *problem;

    problem = (rc == IL_SIG_TIMESTAMP) ? "timestamp-out-of-range"
                                       : "signature-invalid";

    if (!o->common.json) {
        if (rc == IL_SIG_OK) {
            (void) puts("valid");
            return;
        }

        (void) printf("invalid: %s\n", why);

        if (advice != NULL) {
            (void) printf("hint: %s\n", advice);
        }

        (void) printf("the edge answers 401 %s\n", problem);
        return;
    }

    memset(&b, 0, sizeof(b));
    il_buf_puts(&b, rc == IL_SIG_OK ? "{\"valid\":true" : "{\"valid\":false");

    if (rc != IL_SIG_OK) {
        il_buf_printf(&b, ",\"status\":401,\"problem\":\"%s\",\"why\":",
                      problem);
        il_buf_json(&b, il_cstr(why));

        if (advice != NULL) {
            il_buf_puts(&b, ",\"hint\":");
            il_buf_json(&b, il_cstr(advice));
        }
    }

    il_buf_puts(&b, "}");
    il_out_line(stdout, il_buf_str(&b));
    il_buf_free(&b);
}


static int
il_verify_check_headers(const il_list_t *headers)
{
    const char  *colon;

    for (size_t i = 0; i < headers->n; i++) {
        colon = strchr(headers->v[i], ':');

        if (colon == NULL || colon == headers->v[i]
            || il_has_control(il_cstr(headers->v[i])))
        {
            il_err("verify: not a header 'Name: value': %s", headers->v[i]);
            return EX_USAGE;
        }
    }

    return 0;
}


/* What the signature is over: with content=gunzip what the body inflates to,
 * if it came as gzip.  0 or the exit code. */
static int
il_verify_content(const il_verify_opts_t *o, il_verify_ctx_t *ctx,
    il_sig_request_t *req, il_buf_t *inflated)
{
    size_t    count;
    il_str_t  encoding;

    ctx->came = req->body;
    encoding = il_verify_header(ctx, "content-encoding", &count);

    if (!o->gunzip || encoding.len == 0
        || (encoding.len == 8
            && strncasecmp(encoding.data, "identity", 8) == 0))
    {
        return 0;
    }

    if (count != 1
        || !((encoding.len == 4
              && strncasecmp(encoding.data, "gzip", 4) == 0)
             || (encoding.len == 6
                 && strncasecmp(encoding.data, "x-gzip", 6) == 0)))
    {
        il_err("verify: with content=gunzip the edge answers 415"
               " encoding-unsupported to this Content-Encoding");
        return IL_EXIT_NO;
    }

    if (il_verify_gunzip(req->body, inflated) != 0) {
        il_err("verify: the body is not one piece of gzip: the edge answers"
               " 400 bad-request");
        return IL_EXIT_NO;
    }

    req->body = il_buf_str(inflated);

    return 0;
}


/* What is found, and said.  Returns the exit code. */
static int
il_verify_tell(const il_verify_opts_t *o, const il_sig_conf_t *conf,
    const il_sig_request_t *req, il_verify_ctx_t *ctx)
{
    int            rc, mismatch;
    const char    *text, *advice;
    il_sig_rc_e    sig;
    il_sig_why_e   why;

    if (il_sig_scheme_backend(conf->scheme)) {
        ctx->pk.cert = o->cert;
        ctx->pk.ca = o->ca;
        ctx->pk.hosts = o->cert_hosts;

        rc = il_verify_pk(&ctx->pk, conf, req, &sig, &text, &mismatch);
        if (rc != 0) {
            return rc;
        }

        advice = (sig == IL_SIG_TIMESTAMP)
                 ? il_verify_advice(conf, req, IL_SIG_WHY_TOO_OLD)
                 : mismatch
                 ? il_verify_advice(conf, req, IL_SIG_WHY_MISMATCH)
                 : sig == IL_SIG_INVALID
                 ? il_verify_which(conf, req, "") : NULL;

        if (advice != NULL && advice[0] == '\0') {
            advice = NULL;
        }

    } else {
        sig = il_sig_verify(conf, req, &why);
        text = il_sig_strwhy(why);
        advice = (sig == IL_SIG_OK) ? NULL
                                    : il_verify_advice(conf, req, why);
    }

    il_verify_say(o, sig, text, advice);

    return (sig == IL_SIG_OK) ? 0 : IL_EXIT_NO;
}


static int
il_verify(void *opts, const il_args_t *args)
{
    int                rc;
    il_buf_t           body, inflated;
    il_sig_conf_t      conf;
    il_verify_ctx_t    ctx;
    il_sig_request_t   req;
    il_verify_opts_t  *o;

    o = opts;
    memset(&ctx, 0, sizeof(ctx));
    ctx.headers = &o->headers;
    memset(&body, 0, sizeof(body));
    memset(&inflated, 0, sizeof(inflated));
    memset(&conf, 0, sizeof(conf));
    memset(&req, 0, sizeof(req));
    rc = il_verify_check_headers(&o->headers);

    if (rc == 0) {
        rc = il_verify_conf(&conf, o, args);
    }

    if (rc == 0) {
        rc = il_verify_time(o->at, &req.now);
    }

    if (rc == 0 && o->body != NULL) {
        rc = il_file_read(&body, o->body, IL_VERIFY_BODY_MAX);
    }

    if (rc == 0) {
        req.header = il_verify_header;
        req.alloc = il_verify_alloc;
        req.ctx = &ctx;
        req.method = il_cstr(o->method == NULL ? "POST" : o->method);
        req.url = il_cstr(o->url == NULL ? "" : o->url);
        req.body = il_buf_str(&body);

        rc = il_verify_content(o, &ctx, &req, &inflated);
    }

    if (rc == 0) {
        rc = il_verify_tell(o, &conf, &req, &ctx);
    }

    il_sig_conf_wipe(&conf);
    il_pk_key_free(ctx.pk.key);
    il_names_free(&ctx.memory);
    il_buf_free(&ctx.form);
    il_buf_free(&inflated);
    il_buf_free(&body);

    return il_out_end(rc);
}
