/*
 * sigform.c: forms as Twilio signs them.  What the scheme makes of a form
 * must be what a simple reader makes of it: that one decodes all fields first
 * and sorts then, and signs the result.
 */

#include "fuzz.h"
#include "il_enc.h"
#include "il_form.h"
#include "il_mac.h"
#include "il_sig.h"


#define URL     "https://h.example/a"
#define SECRET  "s3cret of the fuzzer"

typedef struct {
    il_str_t  name;
    il_str_t  value;
} pair_t;

typedef struct {
    char   signature[64];
    void  *scratch;
} ctx_t;


static int
cmp_str(il_str_t a, il_str_t b)
{
    int     rc;
    size_t  n;

    n = a.len < b.len ? a.len : b.len;
    rc = n == 0 ? 0 : memcmp(a.data, b.data, n);

    return rc != 0 ? rc : (a.len > b.len) - (a.len < b.len);
}


static int
cmp(const void *a, const void *b)
{
    int            rc;
    const pair_t  *x, *y;

    x = a;
    y = b;
    rc = cmp_str(x->name, y->name);

    return rc != 0 ? rc : cmp_str(x->value, y->value);
}


static il_str_t
decode(il_str_t raw)
{
    char    *out;
    size_t   n;

    out = malloc(raw.len + 1);

    if (out == NULL) {
        abort();
    }

    IL_HOLDS(il_form_decode(raw, out, raw.len, &n) == 0);

    return il_str(out, n);
}


/* Signs the form, of n fields. */

static void
sign(il_str_t form, size_t n, ctx_t *ctx)
{
    size_t            i, pos;
    pair_t           *pairs;
    uint8_t           mac[IL_MAC_MAX];
    il_mac_t          m;
    il_form_field_t   field;

    pairs = calloc(n + 1, sizeof(*pairs));

    if (pairs == NULL) {
        abort();
    }

    pos = 0;

    for (i = 0; i < n; i++) {
        IL_HOLDS(il_form_next(form, &pos, &field) == 1);
        pairs[i].name = decode(field.name);
        pairs[i].value = decode(field.value);
    }

    IL_HOLDS(il_form_next(form, &pos, &field) == 0);
    qsort(pairs, n, sizeof(*pairs), cmp);

    il_mac_init(&m, IL_SIG_SHA1, (const uint8_t *) SECRET,
                sizeof(SECRET) - 1);
    il_mac_update(&m, il_cstr(URL));

    for (i = 0; i < n; i++) {
        if (i == 0 || cmp(&pairs[i], &pairs[i - 1]) != 0) {
            il_mac_update(&m, pairs[i].name);
            il_mac_update(&m, pairs[i].value);
        }
    }

    il_mac_final(&m, mac);
    IL_HOLDS(il_b64_encode(ctx->signature, sizeof(ctx->signature), mac,
                           il_mac_len(IL_SIG_SHA1), IL_B64_STD) > 0);

    for (i = 0; i < n; i++) {
        il_fuzz_drop(pairs[i].name);
        il_fuzz_drop(pairs[i].value);
    }

    free(pairs);
}


static il_str_t
header(void *data, const char *name, size_t *count)
{
    ctx_t  *ctx;

    ctx = data;
    *count = 1;

    if (strcmp(name, "x-twilio-signature") == 0) {
        return il_cstr(ctx->signature);
    }

    if (strcmp(name, "content-type") == 0) {
        return il_cstr("application/x-www-form-urlencoded");
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


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char              err[IL_SIG_ERR_CAP];
    ctx_t             ctx;
    size_t            n;
    il_str_t          form;
    il_sig_why_e      why;
    il_form_rc_e      rc;
    il_sig_conf_t     conf;
    il_sig_request_t  req;

    memset(&ctx, 0, sizeof(ctx));
    memset(&req, 0, sizeof(req));
    form = il_fuzz_copy(data, size);

    IL_HOLDS(il_sig_conf_init(&conf, il_cstr("twilio"), err, sizeof(err))
             == 0);
    IL_HOLDS(il_sig_conf_secrets(&conf, il_cstr(SECRET), err, sizeof(err))
             == 0);

    rc = il_form_check(form, &n);

    if (rc == IL_FORM_OK) {
        sign(form, n, &ctx);
    } else {
        /* (any that has the length) */
        (void) snprintf(ctx.signature, sizeof(ctx.signature), "%s",
                        "AAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    }

    req.header = header;
    req.alloc = scratch;
    req.ctx = &ctx;
    req.url = il_cstr(URL);
    req.body = form;

    if (rc == IL_FORM_OK) {
        IL_HOLDS(il_sig_verify(&conf, &req, &why) == IL_SIG_OK);
    } else {
        IL_HOLDS(il_sig_verify(&conf, &req, &why) == IL_SIG_INVALID);
        IL_HOLDS(why == IL_SIG_WHY_BODY);
    }

    free(ctx.scratch);
    il_fuzz_drop(form);

    return 0;
}
