/*
 * shake.c: handshakes.  The first byte chooses the scheme and how it is
 * asked, the rest is a query or a body.
 *
 * Whoever does not know Meta's token gets no answer, and nothing is signed
 * that could be a delivery.
 */

#include "fuzz.h"
#include "il_json.h"
#include "il_shake.h"


static const char *const  schemes[] = {
    "slack", "meta", "zoom", "x", "discord", "adyen", "github"
};

#define SCHEMES  (sizeof(schemes) / sizeof(schemes[0]))


static void
configure(const char *scheme, il_sig_conf_t *sig, il_shake_conf_t *conf)
{
    char         err[IL_SIG_ERR_CAP];
    const char  *secret;

    static const char  hex[] =
        "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29";

    secret = strcmp(scheme, "discord") == 0 || strcmp(scheme, "adyen") == 0
             ? hex : "s3cret of the fuzzer";

    IL_HOLDS(il_sig_conf_init(sig, il_cstr(scheme), err, sizeof(err)) == 0);
    IL_HOLDS(il_sig_conf_secrets(sig, il_cstr(secret), err, sizeof(err)) == 0);

    memset(conf, 0, sizeof(*conf));

    IL_HOLDS(il_shake_conf_set(conf, IL_SHAKE_ARG_VERIFY_TOKEN,
                               il_cstr("long enough not to be guessed"))
             == NULL);
    IL_HOLDS(il_shake_conf_set(conf, IL_SHAKE_ARG_ALLOWED_ORIGIN,
                               il_cstr("a.example,b.example")) == NULL);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t             i;
    il_str_t           text, origin, allowed, granted;
    const char        *scheme;
    il_shake_rc_e      rc;
    il_sig_conf_t      sig;
    il_shake_conf_t    conf;
    il_shake_answer_t  answer;

    if (size < 1) {
        return 0;
    }

    scheme = schemes[(data[0] & 0x3f) % SCHEMES];
    configure(scheme, &sig, &conf);
    memset(&answer, 0, sizeof(answer));

    text = il_fuzz_copy(data + 1, size - 1);

    if (data[0] & 0x80) {
        origin = il_str(text.data, text.len / 2);
        rc = il_shake_options(&conf, origin,
                              il_str(text.data + origin.len,
                                     text.len - origin.len),
                              &allowed, &granted);

        IL_HOLDS(rc != IL_SHAKE_ANSWER || allowed.len == 9);
        il_fuzz_drop(text);

        return 0;
    }

    rc = data[0] & 0x40 ? il_shake_get(&conf, &sig, text, &answer)
                        : il_shake_post(&sig, text, &answer);

    if (rc == IL_SHAKE_ANSWER) {
        IL_HOLDS(answer.len <= sizeof(answer.body));
        IL_HOLDS(strcmp(scheme, "meta") != 0);
        IL_HOLDS((answer.type == NULL) == (answer.status == 204));

        for (i = 0; i < answer.len; i++) {
            IL_HOLDS(answer.body[i] >= 0x20 && answer.body[i] < 0x7f);
        }

        if (strcmp(answer.type == NULL ? "" : answer.type,
                   "application/json") == 0)
        {
            IL_HOLDS(il_json_check(il_str(answer.body, answer.len))
                     == IL_JSON_OK);
        }
    }

    il_fuzz_drop(text);

    return 0;
}
