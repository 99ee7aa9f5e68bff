/*
 * il_token.c: PASETO v4.public framing, PASERK key ids, owner tokens.
 *
 * Nothing of a token is believed before its signature holds.  The one
 * exception is the footer's key id, and it only selects among keys that are
 * already trusted: the footer is compared as a whole with the footer that
 * interlock would have written for each of them.
 */

#include <sodium.h>

#include "il_enc.h"
#include "il_json.h"
#include "il_out.h"
#include "il_time.h"
#include "il_token.h"
#include "il_token_int.h"


#define IL_PASETO_HEADER    "v4.public."
#define IL_PASERK_K4PUBLIC  "k4.public."
#define IL_PASERK_K4PID     "k4.pid."

#define IL_PASETO_HLEN      (sizeof(IL_PASETO_HEADER) - 1)
#define IL_PASETO_IMPLICIT  1024
#define IL_PASETO_SIG       crypto_sign_BYTES

/* The number of pieces, four lengths, the header, and the pieces: message
 * and footer are parts of a token, hence together shorter than one. */
#define IL_PAE_CAP                                                            \
    (5 * 8 + IL_PASETO_HLEN + IL_TOKEN_MAX + IL_PASETO_IMPLICIT)

static void
il_pae_number(il_out_t *o, uint64_t n)
{
    char    le[8];
    size_t  i;

    for (i = 0; i < sizeof(le); i++) {
        le[i] = (char) (n & 0xff);
        n >>= 8;
    }

    /* "to be interoperable": the top bit is always clear. */

    le[7] &= 0x7f;

    il_out_put(o, il_str(le, sizeof(le)));
}


static void
il_pae_piece(il_out_t *o, il_str_t piece)
{
    il_pae_number(o, piece.len);
    il_out_put(o, piece);
}


/* Pre-authentication encoding of header, message, footer, implicit: the
 * length, or 0 if they are too long. */

static size_t
il_pae(char out[IL_PAE_CAP], il_str_t msg, il_str_t footer, il_str_t implicit)
{
    il_out_t  o;

    il_out_init(&o, out, IL_PAE_CAP);

    il_pae_number(&o, 4);
    il_pae_piece(&o, il_str(IL_PASETO_HEADER, IL_PASETO_HLEN));
    il_pae_piece(&o, msg);
    il_pae_piece(&o, footer);
    il_pae_piece(&o, implicit);

    return il_out_len(&o);
}


int
il_paseto_sign(char *out, size_t cap, size_t *outlen, il_str_t msg,
    il_str_t footer, il_str_t implicit, const uint8_t sk[64])
{
    char     pae[IL_PAE_CAP];
    size_t   n, used;
    uint8_t  body[IL_TOKEN_MAX];

    *outlen = 0;

    if (msg.len > sizeof(body) - IL_PASETO_SIG || footer.len > IL_TOKEN_MAX
        || implicit.len > IL_PASETO_IMPLICIT)
    {
        return -1;
    }

    n = il_pae(pae, msg, footer, implicit);

    if (n == 0 || cap <= IL_PASETO_HLEN) {
        return -1;
    }

    if (msg.len != 0) {
        memcpy(body, msg.data, msg.len);
    }

    (void) crypto_sign_detached(body + msg.len, NULL,
                                (const unsigned char *) pae, n, sk);

    memcpy(out, IL_PASETO_HEADER, IL_PASETO_HLEN);
    used = IL_PASETO_HLEN;

    n = il_b64_encode(out + used, cap - used, body,
                      msg.len + IL_PASETO_SIG, IL_B64_URL_NOPAD);
    if (n == 0) {
        return -1;
    }

    used += n;

    if (footer.len != 0) {
        out[used++] = '.';

        n = il_b64_encode(out + used, cap - used,
                          (const uint8_t *) footer.data, footer.len,
                          IL_B64_URL_NOPAD);
        if (n == 0) {
            return -1;
        }

        used += n;
    }

    if (used > IL_TOKEN_MAX) {
        return -1;
    }

    *outlen = used;

    return 0;
}


/* Splits a token into its encoded body and footer: 0, or -1. */

static int
il_paseto_split(il_str_t token, il_str_t *body, il_str_t *footer)
{
    const char  *dot;

    if (token.len > IL_TOKEN_MAX || token.len <= IL_PASETO_HLEN
        || memcmp(token.data, IL_PASETO_HEADER, IL_PASETO_HLEN) != 0)
    {
        return -1;
    }

    *body = il_str(token.data + IL_PASETO_HLEN, token.len - IL_PASETO_HLEN);
    *footer = il_str(NULL, 0);

    dot = memchr(body->data, '.', body->len);

    if (dot == NULL) {
        return 0;
    }

    *footer = il_str(dot + 1, (size_t) (body->data + body->len - dot - 1));
    body->len = (size_t) (dot - body->data);

    /* A dot with nothing behind would be a second spelling of no footer; a
     * further dot fails as base64. */

    return footer->len == 0 ? -1 : 0;
}


int
il_paseto_footer(char *footer, size_t cap, size_t *len, il_str_t token)
{
    il_str_t  b, f;

    *len = 0;

    if (il_paseto_split(token, &b, &f) != 0) {
        return -1;
    }

    return il_b64_decode((uint8_t *) footer, cap, len, f, IL_B64_URL_NOPAD);
}


int
il_paseto_message(char *msg, size_t cap, size_t *len, il_str_t token)
{
    size_t    n;
    uint8_t   body[IL_TOKEN_MAX];
    il_str_t  b, f;

    *len = 0;

    if (il_paseto_split(token, &b, &f) != 0
        || il_b64_decode(body, sizeof(body), &n, b, IL_B64_URL_NOPAD) != 0
        || n < IL_PASETO_SIG
        || n - IL_PASETO_SIG > cap)
    {
        return -1;
    }

    *len = n - IL_PASETO_SIG;
    memcpy(msg, body, *len);

    return 0;
}


int
il_paseto_verify(char *msg, size_t msg_cap, size_t *msglen, char *footer,
    size_t footer_cap, size_t *footerlen, il_str_t token, il_str_t implicit,
    const uint8_t pk[32])
{
    char      pae[IL_PAE_CAP];
    size_t    n, len;
    uint8_t   body[IL_TOKEN_MAX];
    il_str_t  b, f;

    *msglen = 0;
    *footerlen = 0;

    if (il_paseto_split(token, &b, &f) != 0
        || implicit.len > IL_PASETO_IMPLICIT
        || il_b64_decode(body, sizeof(body), &len, b, IL_B64_URL_NOPAD) != 0
        || len < IL_PASETO_SIG
        || len - IL_PASETO_SIG > msg_cap
        || il_b64_decode((uint8_t *) footer, footer_cap, &n, f,
                         IL_B64_URL_NOPAD) != 0)
    {
        return -1;
    }

    len -= IL_PASETO_SIG;
    *footerlen = n;

    n = il_pae(pae, il_str((const char *) body, len), il_str(footer, n),
               implicit);

    if (n == 0
        || crypto_sign_verify_detached(body + len,
                                       (const unsigned char *) pae, n, pk)
           != 0)
    {
        sodium_memzero(footer, *footerlen);
        *footerlen = 0;
        return -1;
    }

    memcpy(msg, body, len);
    *msglen = len;

    return 0;
}


/*
 * PASERK: "k4.public." and the key; the id is BLAKE2b-264 over the id's own
 * header and the whole of that.
 */

void
il_token_key_from_public(il_token_key_t *key, const uint8_t pk[32])
{
    uint8_t                   id[33], public[32];
    crypto_generichash_state  state;

    /* pk may be key's own, when a signing key is turned into a public one. */

    memcpy(public, pk, sizeof(public));
    sodium_memzero(key, sizeof(*key));
    memcpy(key->pk, public, sizeof(key->pk));

    memcpy(key->paserk, IL_PASERK_K4PUBLIC, sizeof(IL_PASERK_K4PUBLIC) - 1);
    (void) il_b64_encode(key->paserk + sizeof(IL_PASERK_K4PUBLIC) - 1,
                         sizeof(key->paserk) - sizeof(IL_PASERK_K4PUBLIC) + 1,
                         public, sizeof(public), IL_B64_URL_NOPAD);

    (void) crypto_generichash_init(&state, NULL, 0, sizeof(id));
    (void) crypto_generichash_update(&state,
                                     (const unsigned char *) IL_PASERK_K4PID,
                                     sizeof(IL_PASERK_K4PID) - 1);
    (void) crypto_generichash_update(&state,
                                     (const unsigned char *) key->paserk,
                                     IL_PASERK_PUBLIC);
    (void) crypto_generichash_final(&state, id, sizeof(id));

    memcpy(key->pid, IL_PASERK_K4PID, sizeof(IL_PASERK_K4PID) - 1);
    (void) il_b64_encode(key->pid + sizeof(IL_PASERK_K4PID) - 1,
                         sizeof(key->pid) - sizeof(IL_PASERK_K4PID) + 1,
                         id, sizeof(id), IL_B64_URL_NOPAD);
}


void
il_token_key_from_seed(il_token_key_t *key, const uint8_t seed[32])
{
    uint8_t  pk[32], sk[64];

    (void) crypto_sign_seed_keypair(pk, sk, seed);

    il_token_key_from_public(key, pk);

    memcpy(key->sk, sk, sizeof(key->sk));
    key->can_sign = 1;

    sodium_memzero(sk, sizeof(sk));
}


int
il_paserk_public_parse(uint8_t pk[32], il_str_t s)
{
    size_t  n;

    if (s.len != IL_PASERK_PUBLIC
        || memcmp(s.data, IL_PASERK_K4PUBLIC, sizeof(IL_PASERK_K4PUBLIC) - 1)
           != 0)
    {
        return -1;
    }

    s.data += sizeof(IL_PASERK_K4PUBLIC) - 1;
    s.len -= sizeof(IL_PASERK_K4PUBLIC) - 1;

    if (il_b64_decode(pk, 32, &n, s, IL_B64_URL_NOPAD) != 0 || n != 32) {
        return -1;
    }

    return 0;
}


static int
il_owner_claims_valid(const il_owner_claims_t *c)
{
    return il_name_valid(c->tenant)
           && il_name_valid(c->kind)
           && il_key_check(c->work_key) == IL_KEY_OK
           && c->worker.len != 0
           && c->worker.len <= IL_WORKER_MAX
           && !il_has_control(c->worker)
           && il_utf8_valid(c->worker)
           && c->fence > 0
           && c->iat <= c->exp;
}


int
il_owner_issue(char *out, size_t cap, size_t *outlen,
    const il_owner_claims_t *claims, const il_token_key_t *key)
{
    char      msg[IL_TOKEN_MAX], footer[IL_FOOTER_CAP];
    size_t    n, footerlen;
    il_out_t  o;

    *outlen = 0;

    if (!key->can_sign || !il_owner_claims_valid(claims)) {
        return -1;
    }

    il_out_init(&o, msg, sizeof(msg));

    il_out_text(&o, "{\"iss\":\"interlock\"");
    il_claim_uuid(&o, "sub", claims->job_id);
    il_claim_uuid(&o, "jti", claims->attempt_id);
    il_claim_text(&o, "tenant", claims->tenant);
    il_claim_text(&o, "kind", claims->kind);
    il_claim_text(&o, "work_key", claims->work_key);
    il_claim_number(&o, "fence", claims->fence);
    il_claim_text(&o, "worker", claims->worker);
    il_claim_time(&o, "iat", claims->iat);
    il_claim_time(&o, "exp", claims->exp);
    il_out_text(&o, "}");

    n = il_out_len(&o);
    footerlen = il_token_footer(footer, key);

    if (n == 0 || footerlen == 0) {
        return -1;
    }

    return il_paseto_sign(out, cap, outlen, il_str(msg, n),
                          il_str(footer, footerlen), il_str(NULL, 0),
                          key->sk);
}


static int
il_owner_read(il_claims_t *r, il_owner_claims_t *c)
{
    il_str_t         iss;
    il_json_value_t  top;

    if (il_json_find(r->json, il_str("", 0), &top) != IL_JSON_OK
        || top.type != IL_JSON_OBJECT)
    {
        return -1;
    }

    if (il_claims_text(r, "/iss", &iss) != 0
        || !il_str_eq(iss, il_cstr("interlock"))
        || il_claims_uuid(r, "/sub", c->job_id) != 0
        || il_claims_uuid(r, "/jti", c->attempt_id) != 0
        || il_claims_text(r, "/tenant", &c->tenant) != 0
        || il_claims_text(r, "/kind", &c->kind) != 0
        || il_claims_text(r, "/work_key", &c->work_key) != 0
        || il_claims_text(r, "/worker", &c->worker) != 0
        || il_claims_number(r, "/fence", &c->fence) != 0
        || il_claims_time(r, "/iat", &c->iat) != 0
        || il_claims_time(r, "/exp", &c->exp) != 0)
    {
        return -1;
    }

    return il_owner_claims_valid(c) ? 0 : -1;
}


int
il_owner_verify(il_owner_claims_t *claims, char *buf, size_t cap,
    il_str_t token, const il_token_keys_t *keys, int64_t now)
{
    return il_owner_verify_seen(claims, buf, cap, token, keys, NULL, now);
}


int
il_owner_verify_seen(il_owner_claims_t *claims, char *buf, size_t cap,
    il_str_t token, const il_token_keys_t *keys, il_token_seen_t *seen,
    int64_t now)
{
    char         msg[IL_TOKEN_MAX];
    il_claims_t  r;

    memset(claims, 0, sizeof(*claims));

    if (il_token_open(msg, &r.json, token, il_str(NULL, 0), keys, seen) != 0) {
        return -1;
    }

    r.buf = buf;
    r.cap = cap;
    r.used = 0;

    if (il_owner_read(&r, claims) != 0 || now >= claims->exp) {
        memset(claims, 0, sizeof(*claims));
        return -1;
    }

    return 0;
}
