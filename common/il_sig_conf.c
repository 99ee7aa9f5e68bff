/*
 * il_sig_conf.c: what a directive's arguments say about a signature scheme.
 */

#include <stdio.h>

#include "il_sig_int.h"
#include "il_time.h"


void
il_sig_error(char *err, size_t cap, const char *text, il_str_t value)
{
    char    shown[65];
    size_t  i, n;

    n = value.len < sizeof(shown) - 1 ? value.len : sizeof(shown) - 1;

    for (i = 0; i < n; i++) {
        shown[i] = value.data[i] >= 0x20 && value.data[i] < 0x7f
                   ? value.data[i] : '?';
    }

    shown[n] = '\0';

    if (value.data == NULL) {
        (void) snprintf(err, cap, "%s", text);
        return;
    }

    (void) snprintf(err, cap, "%s \"%s\"", text, shown);
}


static void
il_sig_conf_defaults(il_sig_conf_t *conf, const il_sig_scheme_t *scheme)
{
    conf->scheme = scheme;
    conf->tolerance = scheme->tolerance;

    if (scheme->header != NULL) {
        (void) snprintf(conf->header, sizeof(conf->header), "%s",
                        scheme->header);
    }
}


int
il_sig_conf_init(il_sig_conf_t *conf, il_str_t scheme, char *err, size_t cap)
{
    char    text[IL_SIG_ERR_CAP];
    int     n;
    size_t  i, used;

    memset(conf, 0, sizeof(*conf));

    conf->signed_template = il_cstr("{body}");

    used = 0;
    text[0] = '\0';

    for (i = 0; i < il_sig_nschemes; i++) {
        if (il_str_eq(il_sig_schemes[i].name, scheme)) {
            il_sig_conf_defaults(conf, &il_sig_schemes[i]);
            return 0;
        }

        n = snprintf(text + used, sizeof(text) - used, "%s%s",
                     i == 0 ? "" : ", ", il_sig_schemes[i].name.data);

        if (n > 0 && (size_t) n < sizeof(text) - used) {
            used += (size_t) n;
        }
    }

    (void) snprintf(err, cap, "unknown signature scheme \"%.*s\", known are: "
                    "%s", (int) (scheme.len < 64 ? scheme.len : 64),
                    scheme.len == 0 ? "" : scheme.data, text);

    return -1;
}


static int
il_sig_parse_tolerance(il_str_t value, int64_t *seconds)
{
    int64_t  n, unit;

    unit = 1;

    if (value.len > 1) {
        switch (value.data[value.len - 1]) {
        case 's':
            value.len--;
            break;
        case 'm':
            unit = 60;
            value.len--;
            break;
        case 'h':
            unit = 3600;
            value.len--;
            break;
        default:
            break;
        }
    }

    if (il_digits_parse(value, 5, &n) != 0) {
        return -1;
    }

    n *= unit;

    /* There is no way to turn the check off. */

    if (n < 1 || n > 86400) {
        return -1;
    }

    *seconds = n;

    return 0;
}


typedef struct {
    il_str_t  name;
    unsigned  arg;
} il_sig_arg_t;


static const il_sig_arg_t  il_sig_args[] = {
    { il_string("tolerance"), IL_SIG_ARG_TOLERANCE },
    { il_string("header"), IL_SIG_ARG_HEADER },
    { il_string("prefix"), IL_SIG_ARG_PREFIX },
    { il_string("algorithm"), IL_SIG_ARG_ALGORITHM },
    { il_string("encoding"), IL_SIG_ARG_ENCODING },
    { il_string("signed"), IL_SIG_ARG_SIGNED },
    { il_string("secret_encoding"), IL_SIG_ARG_SECRET },
    { il_string("signature"), IL_SIG_ARG_SIGNATURE },
};


/* 0 if the scheme has no argument of that name. */

static unsigned
il_sig_arg_find(const il_sig_scheme_t *scheme, il_str_t name)
{
    size_t    i;
    unsigned  arg;

    for (i = 0; i < sizeof(il_sig_args) / sizeof(il_sig_args[0]); i++) {
        if (!il_str_eq(il_sig_args[i].name, name)) {
            continue;
        }

        arg = il_sig_args[i].arg;

        if (arg == IL_SIG_ARG_ENCODING && !(scheme->args & arg)) {
            arg = IL_SIG_ARG_SECRET;
        }

        return arg & (scheme->args | IL_SIG_ARG_SECRET);
    }

    return 0;
}


static int
il_sig_arg_algorithm(il_sig_conf_t *conf, il_str_t value)
{
    if (il_str_eq(value, il_cstr("sha256"))) {
        conf->algorithm = IL_SIG_SHA256;

    } else if (il_str_eq(value, il_cstr("sha512"))) {
        conf->algorithm = IL_SIG_SHA512;

    } else if (il_str_eq(value, il_cstr("sha1"))) {
        conf->algorithm = IL_SIG_SHA1;

    } else {
        return -1;
    }

    return 0;
}


static int
il_sig_arg_encoding(il_sig_conf_t *conf, il_str_t value)
{
    if (il_str_eq(value, il_cstr("hex"))) {
        conf->encoding = IL_SIG_HEX;

    } else if (il_str_eq(value, il_cstr("base64"))) {
        conf->encoding = IL_SIG_BASE64;

    } else {
        return -1;
    }

    return 0;
}


static int
il_sig_arg_signature(il_sig_conf_t *conf, il_str_t value)
{
    if (il_str_eq(value, il_cstr("items"))) {
        conf->place = IL_SIG_IN_ITEMS;

    } else if (il_str_eq(value, il_cstr("header"))) {
        conf->place = IL_SIG_IN_HEADER;

    } else {
        return -1;
    }

    return 0;
}


static const char *
il_sig_arg_secret(il_sig_conf_t *conf, il_str_t value)
{
    if (conf->nsecrets != 0) {
        return "the secret's encoding comes too late, the secret is read:";
    }

    if (il_str_eq(value, il_cstr("text"))) {
        conf->secret_encoding = IL_SIG_SECRET_AS_TEXT;

    } else if (il_str_eq(value, il_cstr("base64"))) {
        conf->secret_encoding = IL_SIG_SECRET_AS_BASE64;

    } else if (il_str_eq(value, il_cstr("hex"))) {
        conf->secret_encoding = IL_SIG_SECRET_AS_HEX;

    } else {
        return "the secret's encoding must be text, base64 or hex, not";
    }

    return NULL;
}


int
il_sig_conf_arg(il_sig_conf_t *conf, il_str_t name, il_str_t value, char *err,
    size_t cap)
{
    unsigned     arg;
    const char  *wrong;

    arg = il_sig_arg_find(conf->scheme, name);

    if (arg == 0) {
        (void) snprintf(err, cap, "scheme \"%s\" has no argument \"%.*s\"",
                        conf->scheme->name.data,
                        (int) (name.len < 64 ? name.len : 64),
                        name.len == 0 ? "" : name.data);
        return -1;
    }

    /* the one with two names; of others the caller sees it */

    if (arg == IL_SIG_ARG_SECRET && (conf->given & arg)) {
        il_sig_error(err, cap, "there is more than one argument", name);
        return -1;
    }

    wrong = NULL;

    switch (arg) {

    case IL_SIG_ARG_TOLERANCE:
        if (il_sig_parse_tolerance(value, &conf->tolerance) != 0) {
            wrong = "tolerance must be from 1s to 24h, not";
        }

        break;

    case IL_SIG_ARG_HEADER:
        if (il_sig_header_name(conf->header, sizeof(conf->header), value)
            != 0)
        {
            wrong = "invalid header name";

        } else if (il_sig_header_own(conf->header)) {
            wrong = "HTTP has a meaning of its own for header";
        }

        break;

    case IL_SIG_ARG_PREFIX:
        conf->prefix = value;
        break;

    case IL_SIG_ARG_ALGORITHM:
        if (il_sig_arg_algorithm(conf, value) != 0) {
            wrong = "algorithm must be sha256, sha512 or sha1, not";
        }

        break;

    case IL_SIG_ARG_ENCODING:
        if (il_sig_arg_encoding(conf, value) != 0) {
            wrong = "encoding must be hex or base64, not";
        }

        break;

    case IL_SIG_ARG_SIGNED:
        wrong = il_sig_template_check(value);

        if (wrong == NULL) {
            conf->signed_template = value;
        }

        break;

    case IL_SIG_ARG_SIGNATURE:
        if (il_sig_arg_signature(conf, value) != 0) {
            wrong = "signature must be items or header, not";
        }

        break;

    case IL_SIG_ARG_SECRET:
        wrong = il_sig_arg_secret(conf, value);
        break;

    default:
        break;
    }

    if (wrong != NULL) {
        il_sig_error(err, cap, wrong, value);
        return -1;
    }

    conf->given |= arg;

    return 0;
}


int
il_sig_conf_done(const il_sig_conf_t *conf, char *err, size_t cap)
{
    if (conf->nsecrets == 0) {
        il_sig_error(err, cap, "no secret for scheme", conf->scheme->name);
        return -1;
    }

    if ((conf->scheme->args & IL_SIG_ARG_HEADER) && conf->header[0] == '\0') {
        il_sig_error(err, cap, "header= is missing for scheme",
                     conf->scheme->name);
        return -1;
    }

    if ((conf->scheme->args & IL_SIG_ARG_SIGNED)
        && (conf->given & IL_SIG_ARG_TOLERANCE)
        && !il_sig_template_timed(conf->signed_template))
    {
        il_sig_error(err, cap, "tolerance= says nothing where signed= has no "
                     "{timestamp:NAME}:", conf->signed_template);
        return -1;
    }

    return 0;
}


int
il_sig_conf_underscore(const il_sig_conf_t *conf, il_str_t *name)
{
    size_t         pos;
    il_sig_part_e  part;

    *name = il_cstr(conf->header);

    if (name->len != 0 && memchr(name->data, '_', name->len) != NULL) {
        return 1;
    }

    pos = 0;

    do {
        part = il_sig_template_next(conf->signed_template, &pos, name);

        if ((part == IL_SIG_PART_HEADER || part == IL_SIG_PART_TIMESTAMP)
            && memchr(name->data, '_', name->len) != NULL)
        {
            return 1;
        }

    } while (part != IL_SIG_PART_END && part != IL_SIG_PART_BAD);

    return 0;
}


void
il_sig_conf_wipe(il_sig_conf_t *conf)
{
    sodium_memzero(conf->secrets, sizeof(conf->secrets));
    conf->nsecrets = 0;
}
