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


/* Puts another value into header i and verifies. */

static inline void
sig_expect_with(const il_sig_conf_t *conf, sig_t *s, size_t i,
    const char *value, il_sig_rc_e rc, il_sig_why_e why)
{
    const char  *kept;

    kept = s->values[i];
    s->values[i] = value;
    sig_expect(conf, s, rc, why);
    s->values[i] = kept;
}


/* Any refusal that is not about the time. */

static inline void
sig_refused(const il_sig_conf_t *conf, sig_t *s)
{
    il_sig_why_e  why;

    if (il_sig_verify(conf, &s->req, &why) != IL_SIG_INVALID
        || why == IL_SIG_WHY_OK)
    {
        fail_msg("taken: \"%s\"", il_sig_strwhy(why));
    }

    free(s->scratch);
    s->scratch = NULL;
}


/* Header i must be there, once. */

static inline void
sig_needs_header(const il_sig_conf_t *conf, sig_t *s, size_t i)
{
    const char  *kept;

    kept = s->names[i];
    s->names[i] = "X-Nothing";
    sig_expect(conf, s, IL_SIG_INVALID, IL_SIG_WHY_NO_HEADER);
    s->names[i] = kept;

    sig_add(s, kept, s->values[i]);
    sig_expect(conf, s, IL_SIG_INVALID, IL_SIG_WHY_REPEATED_HEADER);
    s->n--;
}


/*
 * What must be refused of a request that is valid, for the signature in
 * header i: missing, repeated, empty, cut short at every place, with
 * something behind it, with any character changed.
 */

static inline void
sig_abuse_signature(const il_sig_conf_t *conf, sig_t *s, size_t i)
{
    char         text[256];
    size_t       k, n;
    const char  *kept;

    static const char *const  behind[] = {
        " ", "\t", "0", "00", "A", "=", "==", "\n", ";", ",", ",v0=", " v1,",
    };

    sig_expect(conf, s, IL_SIG_OK, IL_SIG_WHY_OK);
    sig_needs_header(conf, s, i);

    kept = s->values[i];
    n = strlen(kept);
    assert_true(n + 16 < sizeof(text));

    for (k = 0; k < n; k++) {
        (void) snprintf(text, sizeof(text), "%.*s", (int) k, kept);
        sig_expect_with(conf, s, i, text, IL_SIG_INVALID,
                        IL_SIG_WHY_MALFORMED);
    }

    for (k = 0; k < il_rows(behind); k++) {
        (void) snprintf(text, sizeof(text), "%s%s", kept, behind[k]);
        sig_expect_with(conf, s, i, text, IL_SIG_INVALID,
                        IL_SIG_WHY_MALFORMED);
    }

    (void) snprintf(text, sizeof(text), " %s", kept);
    sig_expect_with(conf, s, i, text, IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);

    for (k = 0; k < n; k++) {
        (void) snprintf(text, sizeof(text), "%s", kept);
        text[k] = text[k] == '1' ? '2' : '1';
        s->values[i] = text;
        sig_refused(conf, s);
    }

    s->values[i] = kept;
    sig_expect(conf, s, IL_SIG_OK, IL_SIG_WHY_OK);
}


/* For schemes that cover the body: any change of it is refused. */

static inline void
sig_abuse_body(const il_sig_conf_t *conf, sig_t *s)
{
    char      *copy;
    size_t     k, n;
    il_str_t   kept;

    kept = s->req.body;
    n = kept.len;
    copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, kept.data, n);

    for (k = 0; k < n; k++) {
        copy[k] = (char) (kept.data[k] ^ 1);
        s->req.body = il_str(copy, n);
        sig_refused(conf, s);
        copy[k] = kept.data[k];

        s->req.body = il_str(copy, k);
        sig_refused(conf, s);
    }

    copy[n] = '\n';
    s->req.body = il_str(copy, n + 1);
    sig_refused(conf, s);
    copy[n] = '\0';
    sig_refused(conf, s);

    free(copy);
    s->req.body = kept;
    sig_expect(conf, s, IL_SIG_OK, IL_SIG_WHY_OK);
}


/* Now is the time at which the request is valid: how far it may be off. */

static inline void
sig_abuse_clock(const il_sig_conf_t *conf, sig_t *s, int64_t tolerance)
{
    int64_t  now;

    now = s->req.now;

    s->req.now = now + tolerance;
    sig_expect(conf, s, IL_SIG_OK, IL_SIG_WHY_OK);
    s->req.now++;
    sig_expect(conf, s, IL_SIG_TIMESTAMP, IL_SIG_WHY_TOO_OLD);
    s->req.now = now - tolerance;
    sig_expect(conf, s, IL_SIG_OK, IL_SIG_WHY_OK);
    s->req.now--;
    sig_expect(conf, s, IL_SIG_TIMESTAMP, IL_SIG_WHY_IN_FUTURE);
    s->req.now = now;
}


/* The timestamp in header i: other spellings, and another time. */

static inline void
sig_abuse_timestamp(const il_sig_conf_t *conf, sig_t *s, size_t i)
{
    char    text[64];
    size_t  k;

    static const char *const  spellings[] = {
        "%s ", " %s", "+%s", "-%s", "%s.0", "0x%s", "%se0", "%s,%s", "%ss",
    };

    sig_needs_header(conf, s, i);
    sig_expect_with(conf, s, i, "", IL_SIG_INVALID, IL_SIG_WHY_MALFORMED);
    sig_expect_with(conf, s, i, "1000000000000000000", IL_SIG_INVALID,
                    IL_SIG_WHY_MALFORMED);
    sig_expect_with(conf, s, i, "1", IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);

    for (k = 0; k < il_rows(spellings); k++) {
        const char  *at;
        size_t       used;

        /* "%s" stands for the time. */

        used = 0;

        for (at = spellings[k]; *at != '\0'; at++) {
            if (at[0] == '%') {
                used += (size_t) snprintf(text + used, sizeof(text) - used,
                                          "%s", s->values[i]);
                at++;
            } else {
                text[used++] = *at;
            }
        }

        text[used] = '\0';
        sig_expect_with(conf, s, i, text, IL_SIG_INVALID,
                        IL_SIG_WHY_MALFORMED);
    }

    /* The same number spelled otherwise is not what was signed. */

    (void) snprintf(text, sizeof(text), "0%s", s->values[i]);
    sig_expect_with(conf, s, i, text, IL_SIG_INVALID, IL_SIG_WHY_MISMATCH);
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
