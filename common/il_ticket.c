/*
 * il_ticket.c: tickets of web pages.
 */

#include "il_json.h"
#include "il_ticket.h"
#include "il_token_int.h"


/* Bound by the signature and never sent: owner tokens have none. */

static const il_str_t  il_ticket_implicit = il_string("interlock-ticket.v1");


int
il_ticket_user_valid(il_str_t user)
{
    return user.len != 0
           && user.len <= IL_TICKET_USER_MAX
           && il_utf8_valid(user)
           && !il_has_control(user);
}


static int
il_ticket_claims_valid(const il_ticket_claims_t *c)
{
    return il_name_valid(c->tenant)
           && il_name_valid(c->kind)
           && il_key_check(c->work_key) == IL_KEY_OK
           && il_ticket_user_valid(c->user)
           && c->iat >= 0
           && c->iat < c->exp
           && c->exp - c->iat <= IL_TICKET_SECONDS_MAX;
}


int
il_ticket_issue(char *out, size_t cap, size_t *outlen,
    const il_ticket_claims_t *claims, const il_token_key_t *key)
{
    char      msg[IL_TOKEN_MAX], footer[IL_FOOTER_CAP];
    size_t    n, footerlen;
    il_out_t  o;

    *outlen = 0;

    if (!key->can_sign || !il_ticket_claims_valid(claims)) {
        return -1;
    }

    il_out_init(&o, msg, sizeof(msg));

    il_out_text(&o, "{\"iss\":\"interlock\",\"aud\":\"button\"");
    il_claim_text(&o, "tenant", claims->tenant);
    il_claim_text(&o, "kind", claims->kind);
    il_claim_text(&o, "work_key", claims->work_key);
    il_claim_text(&o, "user", claims->user);
    il_claim_time(&o, "iat", claims->iat);
    il_claim_time(&o, "exp", claims->exp);
    il_claim_uuid(&o, "jti", claims->id);
    il_out_text(&o, "}");

    n = il_out_len(&o);
    footerlen = il_token_footer(footer, key);

    if (n == 0 || footerlen == 0) {
        return -1;
    }

    return il_paseto_sign(out, cap, outlen, il_str(msg, n),
                          il_str(footer, footerlen), il_ticket_implicit,
                          key->sk);
}


static int
il_ticket_read(il_claims_t *r, il_ticket_claims_t *c)
{
    il_str_t         iss, aud;
    il_json_value_t  top;

    if (il_json_find(r->json, il_str("", 0), &top) != IL_JSON_OK
        || top.type != IL_JSON_OBJECT)
    {
        return -1;
    }

    if (il_claims_text(r, "/iss", &iss) != 0
        || !il_str_eq(iss, il_cstr("interlock"))
        || il_claims_text(r, "/aud", &aud) != 0
        || !il_str_eq(aud, il_cstr("button"))
        || il_claims_text(r, "/tenant", &c->tenant) != 0
        || il_claims_text(r, "/kind", &c->kind) != 0
        || il_claims_text(r, "/work_key", &c->work_key) != 0
        || il_claims_text(r, "/user", &c->user) != 0
        || il_claims_time(r, "/iat", &c->iat) != 0
        || il_claims_time(r, "/exp", &c->exp) != 0
        || il_claims_uuid(r, "/jti", c->id) != 0)
    {
        return -1;
    }

    return il_ticket_claims_valid(c) ? 0 : -1;
}


int
il_ticket_verify(il_ticket_claims_t *claims, char *buf, size_t cap,
    il_str_t token, const il_token_keys_t *keys, il_token_seen_t *seen,
    int64_t now)
{
    char         msg[IL_TOKEN_MAX];
    il_claims_t  r;

    memset(claims, 0, sizeof(*claims));

    if (il_token_open(msg, &r.json, token, il_ticket_implicit, keys, seen)
        != 0)
    {
        return -1;
    }

    r.buf = buf;
    r.cap = cap;
    r.used = 0;

    if (il_ticket_read(&r, claims) != 0 || now >= claims->exp) {
        memset(claims, 0, sizeof(*claims));
        return -1;
    }

    return 0;
}
