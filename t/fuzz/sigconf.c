/*
 * sigconf.c: what an administrator writes about signatures: secret files and
 * arguments.  The first byte chooses the scheme; the texts between NUL bytes
 * are name and value of an argument, and the file.
 */

#include "fuzz.h"
#include "il_sig.h"


static il_str_t
header(void *data, const char *name, size_t *count)
{
    (void) data;
    (void) name;

    *count = 1;

    return il_str("1784883600", 10);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char              err[IL_SIG_ERR_CAP];
    il_str_t          rest, name, value, file;
    il_sig_conf_t     conf;
    il_sig_request_t  req;

    static const char *const  schemes[] = {
        "github", "stripe", "standard", "token", "hmac", "adyen", "discord",
        "gitlab", "hubspot", "intercom", "linear", "mailgun", "meta",
        "paddle", "paypal", "sendgrid", "shopify", "slack", "sns", "square",
        "twilio", "x", "zoom",
    };

#define NSCHEMES  (sizeof(schemes) / sizeof(schemes[0]))

    if (size == 0) {
        return 0;
    }

    rest = il_str((const char *) data + 1, size - 1);
    name = il_fuzz_field(&rest);
    value = il_fuzz_field(&rest);
    file = il_fuzz_copy((const uint8_t *) rest.data, rest.len);

    IL_HOLDS(il_sig_conf_init(&conf, il_cstr(schemes[data[0] % NSCHEMES]),
                              err, sizeof(err)) == 0);

    err[0] = '\0';

    if (il_sig_conf_arg(&conf, name, value, err, sizeof(err)) != 0) {
        IL_HOLDS(err[0] != '\0' && strlen(err) < sizeof(err));
    }

    err[0] = '\0';

    if (il_sig_conf_secrets(&conf, file, err, sizeof(err)) != 0) {
        IL_HOLDS(err[0] != '\0' && conf.nsecrets == 0);

    } else {
        IL_HOLDS(conf.nsecrets >= 1 && conf.nsecrets <= IL_SIG_SECRETS_MAX);
    }

    IL_HOLDS(conf.tolerance >= 1 && conf.tolerance <= 86400);

    /* Whatever was taken must be fit for use. */

    if (il_sig_conf_done(&conf, err, sizeof(err)) == 0) {
        memset(&req, 0, sizeof(req));
        req.header = header;
        req.now = 1784883600;
        req.method = il_cstr("POST");
        req.url = il_cstr("https://h.example/");
        (void) !il_sig_verify(&conf, &req, NULL);
    }

    il_fuzz_drop(name);
    il_fuzz_drop(value);
    il_fuzz_drop(file);

    return 0;
}
