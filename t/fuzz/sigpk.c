/*
 * sigpk.c: requests of the schemes whose keys are public, and the addresses
 * that they name.  The first byte chooses the scheme; the texts between NUL
 * bytes are the headers' values, then the body.
 */

#include "fuzz.h"
#include "il_sig_pk.h"

#define NHEADERS  7


typedef struct {
    il_str_t  values[NHEADERS];
    char     *room;
} fuzz_t;


static const char *const  names[NHEADERS] = {
    "x-twilio-email-event-webhook-signature",
    "x-twilio-email-event-webhook-timestamp",
    "paypal-transmission-id", "paypal-transmission-time",
    "paypal-transmission-sig", "paypal-cert-url", "paypal-auth-algo"
};


static il_str_t
header(void *data, const char *name, size_t *count)
{
    size_t   i;
    fuzz_t  *f = data;

    for (i = 0; i < NHEADERS; i++) {
        if (strcmp(names[i], name) == 0) {
            *count = 1;
            return f->values[i];
        }
    }

    *count = 0;

    return il_str(NULL, 0);
}


static void *
alloc(void *data, size_t n)
{
    fuzz_t  *f = data;

    IL_HOLDS(f->room == NULL);
    f->room = malloc(n);

    return f->room;
}


/* What was taken must be within its bounds, and all of it readable. */

static void
taken(const il_sig_conf_t *conf, const il_sig_request_t *req,
    const il_sig_pk_t *pk)
{
    char       sum;
    size_t     i, k, n, way;
    il_str_t   pieces[IL_SIG_PK_PIECES];
    il_url_t   url;

    IL_HOLDS(pk->signature_len >= 1 && pk->signature_len <= IL_SIG_PK_BYTES);
    IL_HOLDS(il_sig_pk_ways(conf, pk) >= 1
             && il_sig_pk_ways(conf, pk) <= conf->nsecrets);

    sum = 0;

    for (way = 0; way < il_sig_pk_ways(conf, pk); way++) {
        n = il_sig_pk_signed(conf, pk, way, pieces);
        IL_HOLDS(n >= 2 && n <= IL_SIG_PK_PIECES);

        for (i = 0; i < n; i++) {
            for (k = 0; k < pieces[i].len; k++) {
                sum ^= pieces[i].data[k];
            }
        }
    }

    IL_HOLDS(sum == sum);
    (void) il_sig_pk_time(conf, req, pk);

    if (!pk->ec
        && il_sig_pk_cert_url(conf->scheme, pk->cert_url, il_str("", 0), &url)
           == NULL)
    {
        IL_HOLDS(url.https && url.family == 0 && url.port == 443);
    }

    if (il_sig_pk_confirm_url(pk->subscribe_url, il_str("", 0), &url) == NULL)
    {
        IL_HOLDS(url.https && url.family == 0 && url.port == 443);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char               err[IL_SIG_ERR_CAP];
    size_t             i;
    fuzz_t             f;
    il_str_t           rest;
    il_url_t           url;
    il_sig_pk_t        pk;
    il_sig_conf_t      conf;
    il_sig_request_t   req;

    static const char *const  schemes[3][2] = {
        { "sendgrid", "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4m"
                      "dBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpigl"
                      "SI8eNEc6wEA3F+g==" },
        { "paypal", "1JE4291016473214C\nWH2" },
        { "sns", "arn:aws:sns:us-west-2:123456789012:My*" },
    };

    if (size == 0) {
        return 0;
    }

    i = data[0] % 3;

    IL_HOLDS(il_sig_conf_init(&conf, il_cstr(schemes[i][0]), err, sizeof(err))
             == 0);
    IL_HOLDS(il_sig_conf_secrets(&conf, il_cstr(schemes[i][1]), err,
                                 sizeof(err)) == 0);

    rest = il_str((const char *) data + 1, size - 1);
    memset(&f, 0, sizeof(f));
    memset(&req, 0, sizeof(req));

    for (i = 0; i < NHEADERS; i++) {
        f.values[i] = il_fuzz_field(&rest);
    }

    req.header = header;
    req.alloc = alloc;
    req.ctx = &f;
    req.now = 1600112502;
    req.body = il_fuzz_copy((const uint8_t *) rest.data, rest.len);

    if (il_sig_pk_read(&conf, &req, &pk) == NULL) {
        taken(&conf, &req, &pk);
    }

    for (i = 0; i < NHEADERS; i++) {
        (void) il_sig_pk_name(conf.scheme, f.values[i]);

        if (il_sig_pk_issuer_url(f.values[i], il_str("", 0), &url) == NULL) {
            IL_HOLDS(url.family == 0);
        }

        il_fuzz_drop(f.values[i]);
    }

    il_fuzz_drop(req.body);
    free(f.room);

    return 0;
}
