/*
 * il_sig_secret.c: secret files, in the providers' own forms.
 */

#include <stdio.h>

#include "il_enc.h"
#include "il_sig_int.h"


static int
il_sig_starts(il_str_t s, const char *with)
{
    size_t  n;

    n = strlen(with);

    return s.len >= n && memcmp(s.data, with, n) == 0;
}


/* A key that is shorter was cut off, or made up: those that a provider hands
 * out as binary have 24 bytes at least. */
#define IL_SIG_SECRET_MIN  16


/* The line in an encoding, IL_SIG_SECRET_OWN excepted. */

static const char *
il_sig_secret_decode(il_sig_secret_t *secret, il_str_t line,
    il_sig_secret_enc_e encoding)
{
    if (encoding == IL_SIG_SECRET_AS_BASE64) {
        if (il_b64_decode(secret->data, sizeof(secret->data), &secret->len,
                          line, IL_B64_STD) != 0)
        {
            return "the secret is not base64, or longer than 512 bytes";
        }

    } else if (encoding == IL_SIG_SECRET_AS_HEX) {
        secret->len = line.len / 2;

        if (secret->len > sizeof(secret->data)
            || il_hex_decode(secret->data, secret->len, line) != 0)
        {
            return "the secret is not hex, or longer than 512 bytes";
        }

    } else {
        if (line.len > sizeof(secret->data)) {
            return "the secret is longer than 512 bytes";
        }

        memcpy(secret->data, line.data, line.len);
        secret->len = line.len;
    }

    return secret->len == 0 ? "the secret is empty" : NULL;
}


IL_SIG_SECRET_FN(il_sig_secret_text)
{
    return il_sig_secret_decode(secret, line, encoding);
}


static const char *
il_sig_secret_is_long(const il_sig_secret_t *secret)
{
    return secret->len >= IL_SIG_SECRET_MIN
           ? NULL : "the key is shorter than 16 bytes";
}


IL_SIG_SECRET_FN(il_sig_secret_hex)
{
    return il_sig_secret_decode(secret, line, encoding == IL_SIG_SECRET_OWN
                                              ? IL_SIG_SECRET_AS_HEX
                                              : encoding);
}


IL_SIG_SECRET_FN(il_sig_secret_adyen)
{
    const char  *wrong;

    wrong = il_sig_secret_hex(secret, line, encoding);

    return wrong != NULL ? wrong : il_sig_secret_is_long(secret);
}


static const char *
il_sig_secret_is_key(const il_sig_secret_t *secret)
{
    return secret->len == crypto_sign_PUBLICKEYBYTES
           ? NULL : "the public key is not 32 bytes long";
}


IL_SIG_SECRET_FN(il_sig_secret_ed25519)
{
    const char  *wrong;

    secret->kind = IL_SIG_KIND_V1A;
    wrong = il_sig_secret_hex(secret, line, encoding);

    return wrong != NULL ? wrong : il_sig_secret_is_key(secret);
}


/* As text the line is the key itself, whatever it starts with. */

IL_SIG_SECRET_FN(il_sig_secret_standard)
{
    const char  *wrong;

    secret->kind = IL_SIG_KIND_V1;

    if (il_sig_starts(line, "v1,") || il_sig_starts(line, "v1a,")) {
        return "the secret has a signature's version before it: it must "
               "start with \"whsec_\" or \"whpk_\"";
    }

    if (il_sig_starts(line, "whsk_")) {
        return "this is the sender's private key: the receiver needs the "
               "public one, \"whpk_\"";
    }

    if (encoding == IL_SIG_SECRET_AS_TEXT) {
        wrong = il_sig_secret_decode(secret, line, encoding);

        return wrong != NULL ? wrong : il_sig_secret_is_long(secret);
    }

    if (il_sig_strip(&line, il_cstr("whpk_")) == 0) {
        secret->kind = IL_SIG_KIND_V1A;

    } else {
        (void) il_sig_strip(&line, il_cstr("whsec_"));
    }

    wrong = il_sig_secret_decode(secret, line, encoding == IL_SIG_SECRET_OWN
                                               ? IL_SIG_SECRET_AS_BASE64
                                               : encoding);

    if (wrong != NULL) {
        return wrong;
    }

    return secret->kind == IL_SIG_KIND_V1A ? il_sig_secret_is_key(secret)
                                           : il_sig_secret_is_long(secret);
}


/* A signing key in the form of Standard Webhooks, or else a token. */

IL_SIG_SECRET_FN(il_sig_secret_gitlab)
{
    if (encoding == IL_SIG_SECRET_OWN
        && (il_sig_starts(line, "whsec_") || il_sig_starts(line, "v1,")))
    {
        return il_sig_secret_standard(secret, line, encoding);
    }

    secret->kind = IL_SIG_KIND_TOKEN;

    return il_sig_secret_decode(secret, line, encoding);
}


/* What people write into such a file that is no secret, of the lines that a
 * scheme would take.  Each would be one that anybody can guess. */

static const char *
il_sig_secret_is_other(il_str_t line)
{
    size_t  i;

    /* what providers put before theirs; a prefix alone is what is left when
     * the rest was not pasted */

    static const char *const  prefixes[] = {
        "whsec_", "whpk_", "shpss_", "lin_wh_", "pdl_ntfset_"
    };

    if (il_sig_starts(line, "-----BEGIN")) {
        return "this is a key in PEM: a secret is one line, in the "
               "provider's form";
    }

    if (il_sig_starts(line, "v1,whsec_")) {
        return "the secret has a signature's version before it: it must "
               "start with \"whsec_\"";
    }

    for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (il_str_eq(line, il_cstr(prefixes[i]))) {
            return "the secret is empty behind its prefix";
        }
    }

    return NULL;
}


static const char *
il_sig_secret_line(il_sig_conf_t *conf, il_str_t line)
{
    const char  *wrong;

    if (line.data[0] == ' ' || line.data[line.len - 1] == ' ') {
        return "there is white space around the secret";
    }

    if (il_has_control(line)) {
        return "there is a control character in the secret";
    }

    if (il_sig_starts(line, "\xef\xbb\xbf")) {
        return "the file starts with a byte order mark";
    }

    if (il_str_eq(line, il_cstr("#")) || il_sig_starts(line, "# ")
        || il_sig_starts(line, "#!"))
    {
        return "this is a comment: every line of the file is a secret";
    }

    if (conf->nsecrets == IL_SIG_SECRETS_MAX) {
        return "there are more than 8 secrets";
    }

    wrong = conf->scheme->secret(&conf->secrets[conf->nsecrets], line,
                                 conf->secret_encoding);

    return wrong != NULL ? wrong : il_sig_secret_is_other(line);
}


int
il_sig_conf_secrets(il_sig_conf_t *conf, il_str_t text, char *err, size_t cap)
{
    size_t            i, start, number;
    il_str_t          line;
    const char       *wrong;
    il_sig_secret_t  *secret;

    il_sig_conf_wipe(conf);

    start = 0;
    number = 0;

    for (i = 0; i <= text.len; i++) {
        if (i < text.len && text.data[i] != '\n') {
            continue;
        }

        line = il_str(text.data + start, i - start);
        start = i + 1;
        number++;

        if (line.len != 0 && line.data[line.len - 1] == '\r') {
            line.len--;
        }

        if (line.len == 0) {
            continue;
        }

        wrong = il_sig_secret_line(conf, line);

        if (wrong != NULL) {
            il_sig_conf_wipe(conf);
            (void) snprintf(err, cap, "line %zu: %s", number, wrong);
            return -1;
        }

        secret = &conf->secrets[conf->nsecrets++];
        il_mac_key(&secret->mac, secret->data, secret->len);
    }

    if (conf->nsecrets == 0) {
        (void) snprintf(err, cap, "there is no secret in the file");
        return -1;
    }

    return 0;
}
