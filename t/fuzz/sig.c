/*
 * sig.c: signatures.  The first byte chooses the scheme, the second which
 * headers are missing or repeated; the texts between NUL bytes are the header
 * values (one of them may be the URL), the last is the body.
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

#define SECRET  "s3cret of the fuzzer\nsecond"
#define NONE    { { NULL, NULL } }

/* In the place of a header: the text is the URL. */
#define URL     "url:"


static const scheme_t  schemes[] = {
    { "github", SECRET,
      { "x-hub-signature-256", "x-github-delivery", "x-github-event" },
      NONE },
    { "stripe", "whsec_fuzz",
      { "stripe-signature", "", "" }, NONE },
    { "standard", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"
      "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
      { "webhook-signature", "webhook-id", "webhook-timestamp" },
      NONE },
    { "standard", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
      { "svix-signature", "svix-id", "svix-timestamp" },
      NONE },
    { "token", "long enough not to be guessed by a fuzzer",
      { "x-token", "", "" },
      { { "header", "X-Token" }, { "prefix", "T " }, { NULL, NULL } } },
    { "hmac", "fuzz",
      { "x-sig", "x-time", "x-other" },
      { { "header", "x-sig" }, { "prefix", "v0=" },
        { "signed", "{method}{url}{timestamp:x-time}{header:x-other}{body}" },
        { "encoding", "base64" }, { "algorithm", "sha512" } } },

    { "adyen", "00112233445566778899aabbccddeeff",
      { "hmacsignature", "", "" }, NONE },
    { "discord",
      "d52880e28f61caa4c2a48a82e55f4751a92289a78009ea9f6532270c16ce8abe",
      { "x-signature-ed25519", "x-signature-timestamp", "" }, NONE },
    { "gitlab", SECRET "\nwhsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
      { "x-gitlab-token", "webhook-signature", "webhook-id" }, NONE },
    { "hubspot", SECRET,
      { "x-hubspot-signature-v3", "x-hubspot-request-timestamp", URL },
      NONE },
    { "intercom", SECRET, { "x-hub-signature", "", "" }, NONE },
    { "linear", SECRET,
      { "linear-signature", "linear-delivery", "linear-event" }, NONE },
    { "mailgun", SECRET, { "", "", "" }, NONE },
    { "meta", SECRET, { "x-hub-signature-256", "", "" }, NONE },
    { "paddle", SECRET, { "paddle-signature", "", "" }, NONE },
    { "shopify", SECRET,
      { "x-shopify-hmac-sha256", "shopify-hmac-sha256", "x-shopify-topic" },
      NONE },
    { "slack", SECRET,
      { "x-slack-signature", "x-slack-request-timestamp", "" }, NONE },
    { "square", SECRET, { "x-square-hmacsha256-signature", URL, "" }, NONE },
    { "twilio", SECRET,
      { "x-twilio-signature", "content-type", URL }, NONE },
    { "twilio", SECRET,
      { "x-twilio-signature", "content-type",
        "x-twilio-webhooks-signature-settings" }, NONE },
    { "x", SECRET, { "x-twitter-webhooks-signature", "", "" }, NONE },
    { "zoom", SECRET,
      { "x-zm-signature", "x-zm-request-timestamp", "" }, NONE },
    { "sns", "arn:aws:sns:eu-west-1:123456789012:topic", { "", "", "" },
      NONE },
    { "adyen", "00112233445566778899aabbccddeeff",
      { "hmacsignature", "", "" }, { { "signature", "header" } } },
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

    for (i = 0; i < FIELDS - 1; i++) {
        if (strcmp(ctx.scheme->headers[i], URL) == 0) {
            req.url = ctx.values[i];
        }
    }

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
