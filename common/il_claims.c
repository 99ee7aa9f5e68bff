/*
 * il_claims.c: what tokens of all sorts have in common: the footer with the
 * key's id, claims written and read, and the memory of tokens that were good.
 */

#include <sodium.h>

#include "il_json.h"
#include "il_time.h"
#include "il_token_int.h"


size_t
il_token_footer(char out[IL_FOOTER_CAP], const il_token_key_t *key)
{
    il_out_t  o;

    il_out_init(&o, out, IL_FOOTER_CAP);

    il_out_text(&o, "{\"kid\":\"");
    il_out_put(&o, il_str(key->pid, IL_PASERK_PID));
    il_out_text(&o, "\"}");

    return il_out_len(&o);
}


void
il_claim_text(il_out_t *o, const char *name, il_str_t value)
{
    il_out_text(o, ",\"");
    il_out_text(o, name);
    il_out_text(o, "\":\"");
    il_out_json(o, value);
    il_out_text(o, "\"");
}


void
il_claim_uuid(il_out_t *o, const char *name, const uint8_t *id)
{
    char  text[IL_UUID_TEXT + 1];

    il_uuid_format(text, id);
    il_claim_text(o, name, il_str(text, IL_UUID_TEXT));
}


void
il_claim_time(il_out_t *o, const char *name, int64_t seconds)
{
    char    text[IL_RFC3339_CAP];
    size_t  n;

    /* The bound keeps the product from overflowing; the year is checked by
     * il_rfc3339_format(). */

    n = seconds > INT64_MAX / 1000 || seconds < 0
        ? 0 : il_rfc3339_format(text, sizeof(text), seconds * 1000);

    if (n == 0) {
        o->failed = 1;
        return;
    }

    il_claim_text(o, name, il_str(text, n));
}


void
il_claim_number(il_out_t *o, const char *name, int64_t value)
{
    char    digits[20];
    size_t  i;

    i = sizeof(digits);

    do {
        digits[--i] = (char) ('0' + value % 10);
        value /= 10;
    } while (value != 0);

    il_out_text(o, ",\"");
    il_out_text(o, name);
    il_out_text(o, "\":");
    il_out_put(o, il_str(digits + i, sizeof(digits) - i));
}


int
il_claims_text(il_claims_t *r, const char *pointer, il_str_t *text)
{
    size_t           n;
    il_json_value_t  v;

    if (il_json_lookup(r->json, il_cstr(pointer), &v) != IL_JSON_OK
        || v.type != IL_JSON_STRING
        || il_json_unescape(v.raw, r->buf + r->used, r->cap - r->used, &n)
           != 0)
    {
        return -1;
    }

    *text = il_str(r->buf + r->used, n);
    r->used += n;

    return 0;
}


int
il_claims_uuid(il_claims_t *r, const char *pointer, uint8_t *id)
{
    il_str_t  text;

    return il_claims_text(r, pointer, &text) == 0 ? il_uuid_parse(id, text) : -1;
}


int
il_claims_time(il_claims_t *r, const char *pointer, int64_t *seconds)
{
    int64_t   ms;
    il_str_t  text;

    if (il_claims_text(r, pointer, &text) != 0
        || il_rfc3339_parse(text, &ms) != 0 || ms < 0)
    {
        return -1;
    }

    *seconds = ms / 1000;

    return 0;
}


int
il_claims_number(il_claims_t *r, const char *pointer, int64_t *value)
{
    il_json_value_t  v;

    if (il_json_lookup(r->json, il_cstr(pointer), &v) != IL_JSON_OK
        || v.type != IL_JSON_NUMBER)
    {
        return -1;
    }

    return il_digits_parse(v.raw, 18, value);
}


/* ------------------------------------------------------------------- seen */


static void
il_seen_digest(const il_token_seen_t *seen, il_str_t token, il_str_t implicit,
    uint8_t digest[IL_SEEN_DIGEST])
{
    uint8_t                   len;
    crypto_generichash_state  st;

    /* the sort of the token first: one is never taken for another */

    len = (uint8_t) implicit.len;

    (void) crypto_generichash_init(&st, seen->key, sizeof(seen->key),
                                   IL_SEEN_DIGEST);
    (void) crypto_generichash_update(&st, &len, 1);
    (void) crypto_generichash_update(&st, (const uint8_t *) implicit.data,
                                     implicit.len);
    (void) crypto_generichash_update(&st, (const uint8_t *) token.data,
                                     token.len);
    (void) crypto_generichash_final(&st, digest, IL_SEEN_DIGEST);
}


static il_seen_set_t *
il_seen_set(il_token_seen_t *seen, const uint8_t digest[IL_SEEN_DIGEST])
{
    return &seen->sets[((size_t) digest[0] << 8 | digest[1]) % IL_SEEN_SETS];
}


void
il_token_seen_init(il_token_seen_t *seen)
{
    memset(seen, 0, sizeof(*seen));
    randombytes_buf(seen->key, sizeof(seen->key));
}


static int
il_seen_has(il_token_seen_t *seen, const uint8_t digest[IL_SEEN_DIGEST])
{
    int             found;
    size_t          i;
    il_seen_set_t  *set;

    set = il_seen_set(seen, digest);
    found = 0;

    for (i = 0; i < IL_SEEN_WAYS; i++) {
        found |= (sodium_memcmp(set->digests[i], digest, IL_SEEN_DIGEST) == 0);
    }

    return found;
}


static void
il_seen_add(il_token_seen_t *seen, const uint8_t digest[IL_SEEN_DIGEST])
{
    il_seen_set_t  *set;

    set = il_seen_set(seen, digest);

    memcpy(set->digests[set->next], digest, IL_SEEN_DIGEST);
    set->next = (uint8_t) ((set->next + 1) % IL_SEEN_WAYS);
}


int
il_token_open(char msg[IL_TOKEN_MAX], il_str_t *json, il_str_t token,
    il_str_t implicit, const il_token_keys_t *keys, il_token_seen_t *seen)
{
    char      footer[IL_TOKEN_MAX], expected[IL_FOOTER_CAP];
    size_t    i, n, len, footerlen;
    uint8_t   digest[IL_SEEN_DIGEST];
    il_str_t  given;

    if (token.len == 0 || token.len > IL_TOKEN_MAX) {
        return -1;
    }

    if (seen != NULL) {
        il_seen_digest(seen, token, implicit, digest);

        if (il_seen_has(seen, digest)
            && il_paseto_message(msg, IL_TOKEN_MAX, &len, token) == 0)
        {
            *json = il_str(msg, len);
            return 0;
        }
    }

    if (il_paseto_footer(footer, sizeof(footer), &footerlen, token) != 0) {
        return -1;
    }

    given = il_str(footer, footerlen);

    for (i = 0; i < keys->n; i++) {
        n = il_token_footer(expected, &keys->keys[i]);

        if (il_str_eq(given, il_str(expected, n))) {
            break;
        }
    }

    if (i == keys->n
        || il_paseto_verify(msg, IL_TOKEN_MAX, &len, footer, sizeof(footer),
                            &footerlen, token, implicit, keys->keys[i].pk)
           != 0)
    {
        return -1;
    }

    *json = il_str(msg, len);

    if (seen != NULL) {
        il_seen_add(seen, digest);
    }

    return 0;
}
