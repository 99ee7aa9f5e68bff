/*
 * sig.c: signature headers.  The first byte chooses the scheme, the texts
 * between NUL bytes are the header values, the last is the body.
 *
 * Nobody who does not know the secret may pass.
 */

#include "fuzz.h"
#include "il_sig.h"


#define FIELDS  4

typedef struct {
    const char  *scheme;
    const char  *secrets;
    const char  *headers[FIELDS - 1];
    const char  *args[5][2];
} scheme_t;


static const scheme_t  schemes[] = {
    { "github", "s3cret of the fuzzer\nsecond",
      { "x-hub-signature-256", "x-github-delivery", "x-github-event" },
      { { NULL, NULL } } },
    { "stripe", "whsec_fuzz",
      { "stripe-signature", "", "" }, { { NULL, NULL } } },
    { "standard", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"
      "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
      { "webhook-signature", "webhook-id", "webhook-timestamp" },
      { { NULL, NULL } } },
    { "standard", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
      { "svix-signature", "svix-id", "svix-timestamp" },
      { { NULL, NULL } } },
    { "token", "long enough not to be guessed by a fuzzer",
      { "x-token", "", "" },
      { { "header", "X-Token" }, { "prefix", "T " }, { NULL, NULL } } },
    { "hmac", "fuzz",
      { "x-sig", "x-time", "x-other" },
      { { "header", "x-sig" }, { "prefix", "v0=" },
        { "signed", "{method}{url}{timestamp:x-time}{header:x-other}{body}" },
        { "encoding", "base64" }, { "algorithm", "sha512" } } },
};

#define SCHEMES  (sizeof(schemes) / sizeof(schemes[0]))


typedef struct {
    const scheme_t  *scheme;
    il_str_t         values[FIELDS - 1];
    int              absent;              /* bit i: header i is missing */
    int              twice;               /* bit i: header i occurs twice */
    void            *scratch;
} ctx_t;


static il_str_t
header(void *data, const char *name, size_t *count)
{
    size_t  i;
    ctx_t  *ctx;

    ctx = data;

    for (i = 0; i < FIELDS - 1; i++) {
        if (strcmp(ctx->scheme->headers[i], name) == 0
            && !(ctx->absent >> i & 1))
        {
            *count = ctx->twice >> i & 1 ? 2 : 1;
            return ctx->values[i];
        }
    }

    *count = 0;

    return il_str(NULL, 0);
}


static void *
scratch(void *data, size_t n)
{
    ctx_t  *ctx;

    ctx = data;
    IL_HOLDS(ctx->scratch == NULL);
    ctx->scratch = malloc(n);

    return ctx->scratch;
}


static void
configure(const scheme_t *s, il_sig_conf_t *conf)
{
    char    err[IL_SIG_ERR_CAP];
    size_t  i;

    IL_HOLDS(il_sig_conf_init(conf, il_cstr(s->scheme), err, sizeof(err))
             == 0);
    IL_HOLDS(il_sig_conf_secrets(conf, il_cstr(s->secrets), err, sizeof(err))
             == 0);

    for (i = 0; i < 5 && s->args[i][0] != NULL; i++) {
        IL_HOLDS(il_sig_conf_arg(conf, il_cstr(s->args[i][0]),
                                 il_cstr(s->args[i][1]), err, sizeof(err))
                 == 0);
    }

    IL_HOLDS(il_sig_conf_done(conf, err, sizeof(err)) == 0);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ctx_t             ctx;
    size_t            i;
    il_str_t          rest;
    il_sig_rc_e       rc;
    il_sig_why_e      why;
    il_sig_conf_t     conf;
    il_sig_request_t  req;

    if (size < 2) {
        return 0;
    }

    memset(&ctx, 0, sizeof(ctx));
    memset(&req, 0, sizeof(req));

    ctx.scheme = &schemes[data[0] % SCHEMES];
    ctx.absent = data[1] & 7;
    ctx.twice = data[1] >> 3 & 7;

    rest = il_str((const char *) data + 2, size - 2);

    for (i = 0; i < FIELDS - 1; i++) {
        ctx.values[i] = il_fuzz_field(&rest);
    }

    req.header = header;
    req.alloc = data[1] >> 6 & 1 ? NULL : scratch;
    req.ctx = &ctx;
    req.method = il_cstr("POST");
    req.url = il_cstr("https://h.example/in/x");
    req.now = 1614265330;
    req.body = il_fuzz_copy((const uint8_t *) rest.data, rest.len);

    configure(ctx.scheme, &conf);

    rc = il_sig_verify(&conf, &req, &why);

    IL_HOLDS(rc == IL_SIG_INVALID);
    IL_HOLDS(why != IL_SIG_WHY_OK);
    IL_HOLDS(why != IL_SIG_WHY_TOO_OLD && why != IL_SIG_WHY_IN_FUTURE);

    free(ctx.scratch);
    il_fuzz_drop(req.body);

    for (i = 0; i < FIELDS - 1; i++) {
        il_fuzz_drop(ctx.values[i]);
    }

    return 0;
}
