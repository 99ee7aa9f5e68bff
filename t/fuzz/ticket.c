/*
 * ticket.c: tickets.  With an even first byte the rest is a ticket as it
 * stands; with an odd one it is signed as a message first, so that the reader
 * of the claims is reached.
 */

#include "fuzz.h"
#include "il_enc.h"
#include "il_ticket.h"


#define NOW  1784883600


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int                  n;
    char                 token[IL_TOKEN_MAX + 1], footer[128], *buf, *other;
    size_t               len;
    uint8_t              seed[32];
    il_str_t             text, made;
    il_token_keys_t      keys;
    il_ticket_claims_t   c, again;

    static il_token_seen_t  seen;

    if (size == 0) {
        return 0;
    }

    memset(&keys, 0, sizeof(keys));
    memset(seed, 1, sizeof(seed));
    il_token_key_from_seed(&keys.keys[0], seed);
    keys.n = 1;

    if (seen.key[0] == 0) {
        il_token_seen_init(&seen);
        seen.key[0] |= 1;
    }

    text = il_fuzz_copy(data + 1, size - 1);
    buf = malloc(IL_TOKEN_MAX);
    IL_HOLDS(buf != NULL);

    if (data[0] % 2 == 0) {
        IL_HOLDS(il_ticket_verify(&c, buf, IL_TOKEN_MAX, text, &keys, &seen,
                                  NOW) == -1);
        goto done;
    }

    n = snprintf(footer, sizeof(footer), "{\"kid\":\"%s\"}",
                 keys.keys[0].pid);
    IL_HOLDS(n > 0);

    if (il_paseto_sign(token, sizeof(token), &len, text,
                       il_str(footer, (size_t) n),
                       il_cstr("interlock-ticket.v1"), keys.keys[0].sk)
        != 0)
    {
        goto done;
    }

    made = il_fuzz_copy((const uint8_t *) token, len);

    if (il_ticket_verify(&c, buf, IL_TOKEN_MAX, made, &keys, &seen, NOW)
        == 0)
    {
        IL_HOLDS(il_name_valid(c.tenant) && il_name_valid(c.kind));
        IL_HOLDS(il_key_check(c.work_key) == IL_KEY_OK);
        IL_HOLDS(il_ticket_user_valid(c.user));
        IL_HOLDS(c.exp > NOW && c.exp - c.iat <= IL_TICKET_SECONDS_MAX);

        /* the second time it is remembered, and says the same */

        other = malloc(IL_TOKEN_MAX);
        IL_HOLDS(other != NULL);
        IL_HOLDS(il_ticket_verify(&again, other, IL_TOKEN_MAX, made, &keys,
                                  &seen, NOW) == 0);
        IL_HOLDS(il_str_eq(again.user, c.user));
        IL_HOLDS(il_ticket_verify(&again, other, IL_TOKEN_MAX, made, &keys,
                                  &seen, c.exp) == -1);

        /* what was read can be issued */

        IL_HOLDS(il_ticket_issue(token, sizeof(token), &len, &c,
                                 &keys.keys[0]) == 0);
        free(other);
    }

    il_fuzz_drop(made);

done:

    free(buf);
    il_fuzz_drop(text);

    return 0;
}
