/*
 * token.c: owner tokens.  With an even first byte the rest is a token as it
 * stands; with an odd one it is signed as a message first, so that the
 * reader of the claims is reached.
 */

#include "fuzz.h"
#include "il_enc.h"
#include "il_time.h"
#include "il_token.h"


#define NOW  1784883600


static void
keys_init(il_token_keys_t *keys)
{
    uint8_t  seed[32];

    memset(seed, 1, sizeof(seed));
    il_token_key_from_seed(&keys->keys[0], seed);
    memset(seed, 2, sizeof(seed));
    il_token_key_from_seed(&keys->keys[1], seed);
    keys->n = 2;
}


static size_t
sign(char *out, size_t cap, il_str_t msg, const il_token_key_t *key)
{
    char    footer[128];
    int     n;
    size_t  len;

    n = snprintf(footer, sizeof(footer), "{\"kid\":\"%s\"}", key->pid);
    IL_HOLDS(n > 0);

    return il_paseto_sign(out, cap, &len, msg, il_str(footer, (size_t) n),
                          il_str(NULL, 0), key->sk) == 0 ? len : 0;
}


static void
claims_hold(const il_owner_claims_t *c)
{
    IL_HOLDS(il_name_valid(c->tenant) && il_name_valid(c->kind));
    IL_HOLDS(il_key_check(c->work_key) == IL_KEY_OK);
    IL_HOLDS(c->worker.len > 0 && c->worker.len <= IL_WORKER_MAX);
    IL_HOLDS(il_utf8_valid(c->worker) && !il_has_control(c->worker));
    IL_HOLDS(c->fence > 0 && c->exp > NOW && c->iat <= c->exp);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char                token[IL_TOKEN_MAX + 1], *buf, *other;
    size_t              n;
    int64_t             ms;
    uint8_t             pk[32];
    il_str_t            text, made;
    il_token_keys_t     keys;
    il_owner_claims_t   c, again;

    if (size == 0) {
        return 0;
    }

    keys_init(&keys);
    text = il_fuzz_copy(data + 1, size - 1);
    buf = malloc(IL_TOKEN_MAX);
    IL_HOLDS(buf != NULL);

    if (data[0] % 2 == 0) {
        IL_HOLDS(il_owner_verify(&c, buf, IL_TOKEN_MAX, text, &keys, NOW)
                 == -1);

    } else {
        n = sign(token, sizeof(token), text, &keys.keys[data[0] / 2 % 2]);
        made = il_fuzz_copy((const uint8_t *) token, n);

        if (il_owner_verify(&c, buf, IL_TOKEN_MAX, made, &keys, NOW) == 0) {
            claims_hold(&c);

            /* What was read can be issued and says the same. */

            IL_HOLDS(il_owner_issue(token, sizeof(token), &n, &c,
                                    &keys.keys[0]) == 0);
            other = malloc(IL_TOKEN_MAX);
            IL_HOLDS(other != NULL);
            IL_HOLDS(il_owner_verify(&again, other, IL_TOKEN_MAX,
                                     il_str(token, n), &keys, NOW) == 0);
            IL_HOLDS(again.fence == c.fence && again.exp == c.exp);
            IL_HOLDS(il_str_eq(again.work_key, c.work_key));
            IL_HOLDS(il_str_eq(again.worker, c.worker));
            free(other);
        }

        il_fuzz_drop(made);
    }

    (void) !il_paserk_public_parse(pk, text);
    (void) !il_rfc3339_parse(text, &ms);
    (void) !il_uuid_parse(pk, text);

    free(buf);
    il_fuzz_drop(text);

    return 0;
}
