/*
 * sig.h: a request made of a list of headers, for the signature tests.
 */

#ifndef IL_UNIT_SIG_H
#define IL_UNIT_SIG_H

#include "unit.h"

#include <strings.h>

#include "il_enc.h"
#include "il_mac.h"
#include "il_sig.h"

#define SIG_HEADERS  16

typedef struct {
    const char        *names[SIG_HEADERS];
    const char        *values[SIG_HEADERS];
    size_t             n;
    void              *scratch;            /* what alloc() gave */
    size_t             allocs;
    int                no_memory;
    il_sig_request_t   req;
} sig_t;


static il_str_t
sig_header(void *ctx, const char *name, size_t *count)
{
    sig_t     *s;
    size_t     i;
    il_str_t   value;

    s = ctx;
    *count = 0;
    value = il_str(NULL, 0);

    for (i = 0; i < s->n; i++) {
        if (strcasecmp(s->names[i], name) == 0) {
            value = il_cstr(s->values[i]);
            (*count)++;
        }
    }

    return value;
}


static void *
sig_alloc(void *ctx, size_t n)
{
    sig_t  *s;

    s = ctx;
    s->allocs++;

    if (s->no_memory) {
        return NULL;
    }

    assert_null(s->scratch);
    s->scratch = malloc(n);

    return s->scratch;
}


static inline void
sig_init(sig_t *s, il_str_t body, int64_t now)
{
    memset(s, 0, sizeof(*s));
    s->req.header = sig_header;
    s->req.alloc = sig_alloc;
    s->req.ctx = s;
    s->req.method = il_lit("POST");
    s->req.url = il_lit("https://hooks.example/in/x?a=1");
    s->req.body = body;
    s->req.now = now;
}


static inline void
sig_add(sig_t *s, const char *name, const char *value)
{
    assert_true(s->n < SIG_HEADERS);
    s->names[s->n] = name;
    s->values[s->n] = value;
    s->n++;
}


static inline void
sig_conf(il_sig_conf_t *conf, const char *scheme, const char *secrets)
{
    char  err[IL_SIG_ERR_CAP];

    if (il_sig_conf_init(conf, il_cstr(scheme), err, sizeof(err)) != 0
        || il_sig_conf_secrets(conf, il_cstr(secrets), err, sizeof(err)) != 0)
    {
        fail_msg("%s: %s", scheme, err);
    }
}


static inline void
sig_arg(il_sig_conf_t *conf, const char *name, const char *value)
{
    char  err[IL_SIG_ERR_CAP];

    if (il_sig_conf_arg(conf, il_cstr(name), il_cstr(value), err, sizeof(err))
        != 0)
    {
        fail_msg("%s=%s: %s", name, value, err);
    }
}


/* Verifies, and releases what was allocated. */

static inline void
sig_expect(const il_sig_conf_t *conf, sig_t *s, il_sig_rc_e rc,
    il_sig_why_e why)
{
    il_sig_rc_e   got;
    il_sig_why_e  got_why;

    got = il_sig_verify(conf, &s->req, &got_why);
    free(s->scratch);
    s->scratch = NULL;

    if (got != rc || got_why != why) {
        fail_msg("got %d \"%s\", want %d \"%s\"", got, il_sig_strwhy(got_why),
                 rc, il_sig_strwhy(why));
    }
}


/* Hex or base64 of an HMAC over some texts; signs as a sender does. */

static inline void
sig_sign(char *out, size_t cap, il_sig_alg_e alg, il_sig_enc_e enc,
    il_str_t key, const il_str_t *pieces, size_t n)
{
    size_t    i;
    uint8_t   mac[IL_MAC_MAX];
    il_mac_t  m;

    il_mac_init(&m, alg, (const uint8_t *) key.data, key.len);

    for (i = 0; i < n; i++) {
        il_mac_update(&m, pieces[i]);
    }

    il_mac_final(&m, mac);

    if (enc == IL_SIG_HEX) {
        assert_true(cap > 2 * il_mac_len(alg));
        il_hex_encode(out, mac, il_mac_len(alg));
        return;
    }

    assert_true(il_b64_encode(out, cap, mac, il_mac_len(alg), IL_B64_STD)
                > 0);
}

#endif /* IL_UNIT_SIG_H */
