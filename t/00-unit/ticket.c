/*
 * ticket.c: tickets, and what else tells one press of a button from another.
 */

#include "unit.h"
#include "il_enc.h"
#include "il_hash.h"
#include "il_ticket.h"


#define NOW  1784883600                          /* 2026-07-24T09:00:00Z */


static void
make_keys(il_token_keys_t *keys, int which)
{
    uint8_t  seed[32];

    memset(keys, 0, sizeof(*keys));
    memset(seed, which, sizeof(seed));
    il_token_key_from_seed(&keys->keys[0], seed);
    keys->n = 1;
}


static void
make_claims(il_ticket_claims_t *c)
{
    memset(c, 0, sizeof(*c));
    memset(c->id, 0x33, IL_UUID_BYTES);
    c->tenant = il_lit("demo");
    c->kind = il_lit("daily-sales");
    c->work_key = il_lit("sales:a%3Ab:\"<&'>\xc3\xa9");
    c->user = il_lit("kim \"<script>\" \xec\x9d\xb4");
    c->iat = NOW;
    c->exp = NOW + 900;
}


static il_str_t
issue(char *out, const il_ticket_claims_t *c, const il_token_keys_t *keys)
{
    size_t  n;

    assert_int_equal(il_ticket_issue(out, IL_TOKEN_MAX + 1, &n, c,
                                     &keys->keys[0]), 0);

    return il_str(out, n);
}


static int
verify(il_str_t ticket, const il_token_keys_t *keys, il_token_seen_t *seen,
    int64_t now)
{
    int                  rc;
    il_str_t             s;
    il_ticket_claims_t   c;

    static char  buf[IL_TOKEN_MAX];

    s = il_exact(ticket);
    rc = il_ticket_verify(&c, buf, sizeof(buf), s, keys, seen, now);
    il_drop(s);

    return rc;
}


static void
round_trip(void **state)
{
    char                 out[IL_TOKEN_MAX + 1], buf[IL_TOKEN_MAX];
    il_str_t             ticket;
    il_token_keys_t      keys;
    il_ticket_claims_t   want, got;

    (void) state;

    make_keys(&keys, 1);
    make_claims(&want);
    ticket = issue(out, &want, &keys);

    assert_int_equal(il_ticket_verify(&got, buf, sizeof(buf), ticket, &keys,
                                      NULL, NOW), 0);
    assert_true(il_str_eq(got.tenant, want.tenant));
    assert_true(il_str_eq(got.kind, want.kind));
    assert_true(il_str_eq(got.work_key, want.work_key));
    assert_true(il_str_eq(got.user, want.user));
    assert_memory_equal(got.id, want.id, IL_UUID_BYTES);
    assert_int_equal(got.iat, NOW);
    assert_int_equal(got.exp, NOW + 900);

    assert_int_equal(verify(ticket, &keys, NULL, NOW + 899), 0);
    assert_int_equal(verify(ticket, &keys, NULL, NOW + 900), -1);
    assert_int_equal(verify(ticket, &keys, NULL, NOW + 90000), -1);
}


/* Each byte of a ticket counts, with a memory of good ones and without. */

static void
tampered(void **state)
{
    char              out[IL_TOKEN_MAX + 1], bad[IL_TOKEN_MAX + 1];
    size_t            i;
    il_str_t          ticket;
    il_token_keys_t   keys, other;
    il_ticket_claims_t   c;

    static il_token_seen_t  seen;

    (void) state;

    make_keys(&keys, 1);
    make_keys(&other, 2);
    make_claims(&c);
    ticket = issue(out, &c, &keys);
    il_token_seen_init(&seen);

    assert_int_equal(verify(ticket, &keys, &seen, NOW), 0);
    assert_int_equal(verify(ticket, &other, NULL, NOW), -1);

    for (i = 0; i < ticket.len; i++) {
        memcpy(bad, ticket.data, ticket.len);
        bad[i] = bad[i] == 'A' ? 'B' : 'A';

        assert_int_equal(verify(il_str(bad, ticket.len), &keys, &seen, NOW),
                         -1);
        assert_int_equal(verify(il_str(ticket.data, i), &keys, &seen, NOW),
                         -1);
    }

    assert_int_equal(verify(il_str(NULL, 0), &keys, &seen, NOW), -1);
    assert_int_equal(verify(ticket, &keys, &seen, NOW), 0);
}


/* What was good is remembered, and ends all the same; a memory begun anew
 * knows nothing. */

static void
remembered(void **state)
{
    char                 out[IL_TOKEN_MAX + 1];
    size_t               i, n;
    il_str_t             ticket;
    il_token_keys_t      keys, none;
    il_ticket_claims_t   c;

    static char             many[2000][600];
    static il_token_seen_t  seen;

    (void) state;

    make_keys(&keys, 1);
    memset(&none, 0, sizeof(none));
    make_claims(&c);
    ticket = issue(out, &c, &keys);
    il_token_seen_init(&seen);

    assert_int_equal(verify(ticket, &none, &seen, NOW), -1);
    assert_int_equal(verify(ticket, &keys, &seen, NOW), 0);

    /* without a key it is the memory that knows it */

    assert_int_equal(verify(ticket, &none, &seen, NOW), 0);
    assert_int_equal(verify(ticket, &none, &seen, NOW + 900), -1);

    il_token_seen_init(&seen);
    assert_int_equal(verify(ticket, &none, &seen, NOW), -1);

    /* more than it has room for: those that it forgot are only verified */

    for (i = 0; i < 2000; i++) {
        c.id[0] = (uint8_t) i;
        c.id[1] = (uint8_t) (i >> 8);
        assert_int_equal(il_ticket_issue(many[i], sizeof(many[i]), &n, &c,
                                         &keys.keys[0]), 0);
        assert_int_equal(verify(il_str(many[i], n), &keys, &seen, NOW), 0);
    }

    for (i = 0, n = 0; i < 2000; i++) {
        assert_int_equal(verify(il_cstr(many[i]), &keys, &seen, NOW), 0);
    }

    for (i = 0; i < 2000; i++) {
        n += (verify(il_cstr(many[i]), &none, &seen, NOW) == 0);
    }

    assert_in_range(n, IL_SEEN_SETS, IL_SEEN_SETS * IL_SEEN_WAYS);
}


/* Neither sort of token is the other, whoever remembers it. */

static void
other_sort(void **state)
{
    char                 out[IL_TOKEN_MAX + 1], token[IL_TOKEN_MAX + 1];
    char                 buf[IL_TOKEN_MAX];
    size_t               n;
    il_str_t             ticket;
    il_token_keys_t      keys;
    il_owner_claims_t    o;
    il_ticket_claims_t   c;

    static il_token_seen_t  seen;

    (void) state;

    make_keys(&keys, 1);
    make_claims(&c);
    ticket = issue(out, &c, &keys);
    il_token_seen_init(&seen);

    memset(&o, 0, sizeof(o));
    o.tenant = c.tenant;
    o.kind = c.kind;
    o.work_key = c.work_key;
    o.worker = il_lit("w");
    o.fence = 1;
    o.iat = NOW;
    o.exp = NOW + 3600;

    assert_int_equal(il_owner_issue(token, sizeof(token), &n, &o,
                                    &keys.keys[0]), 0);

    assert_int_equal(il_owner_verify_seen(&o, buf, sizeof(buf),
                                          il_str(token, n), &keys, &seen,
                                          NOW), 0);
    assert_int_equal(verify(ticket, &keys, &seen, NOW), 0);

    assert_int_equal(verify(il_str(token, n), &keys, &seen, NOW), -1);
    assert_int_equal(il_owner_verify_seen(&o, buf, sizeof(buf), ticket, &keys,
                                          &seen, NOW), -1);
    assert_int_equal(il_owner_verify(&o, buf, sizeof(buf), ticket, &keys,
                                     NOW), -1);
}


/* Signed by the right key, and not a ticket all the same. */

static void
signed_badly(void **state)
{
    char             out[IL_TOKEN_MAX + 1], footer[128], msg[4096];
    size_t           i, n;
    il_token_keys_t  keys;

    static const struct {
        const char  *claims;
        int          rc;
    } rows[] = {
#define ALL(iss, aud, tenant, kind, key, user, exp)                           \
        "{\"iss\":\"" iss "\",\"aud\":\"" aud "\",\"tenant\":\"" tenant       \
        "\",\"kind\":\"" kind "\",\"work_key\":\"" key "\",\"user\":\"" user  \
        "\",\"iat\":\"2026-07-24T09:00:00Z\",\"exp\":\"" exp "\",\"jti\":"    \
        "\"33333333-3333-3333-3333-333333333333\"}"
#define END  "2026-07-24T09:15:00Z"
        { ALL("interlock", "button", "demo", "k", "a", "u", END), 0 },
        { ALL("other", "button", "demo", "k", "a", "u", END), -1 },
        { ALL("interlock", "owner", "demo", "k", "a", "u", END), -1 },
        { ALL("interlock", "button", "De mo", "k", "a", "u", END), -1 },
        { ALL("interlock", "button", "demo", "../k", "a", "u", END), -1 },
        { ALL("interlock", "button", "demo", "k", "", "u", END), -1 },
        { ALL("interlock", "button", "demo", "k", "a b", "u", END), -1 },
        { ALL("interlock", "button", "demo", "k", "a", "", END), -1 },
        { ALL("interlock", "button", "demo", "k", "a", "\\u0000", END), -1 },
        { ALL("interlock", "button", "demo", "k", "a", "u",
              "2026-07-24T09:00:00Z"), -1 },
        { ALL("interlock", "button", "demo", "k", "a", "u",
              "2026-07-25T09:00:01Z"), -1 },
        { ALL("interlock", "button", "demo", "k", "a", "u",
              "2026-07-25T09:00:00Z"), 0 },
        { "{}", -1 },
        { "[]", -1 },
        { "", -1 }
    };

    (void) state;

    make_keys(&keys, 1);

    (void) snprintf(footer, sizeof(footer), "{\"kid\":\"%s\"}",
                    keys.keys[0].pid);

    for (i = 0; i < il_rows(rows); i++) {
        (void) snprintf(msg, sizeof(msg), "%s", rows[i].claims);

        assert_int_equal(il_paseto_sign(out, sizeof(out), &n, il_cstr(msg),
                                        il_cstr(footer),
                                        il_lit("interlock-ticket.v1"),
                                        keys.keys[0].sk), 0);

        if (verify(il_str(out, n), &keys, NULL, NOW) != rows[i].rc) {
            fail_msg("row %zu: %s", i, msg);
        }
    }
}


static void
not_issued(void **state)
{
    char                 out[IL_TOKEN_MAX + 1], longest[4096];
    size_t               n;
    il_token_keys_t      keys;
    il_ticket_claims_t   c;

    (void) state;

    make_keys(&keys, 1);
    memset(longest, 'x', sizeof(longest));

    make_claims(&c);
    c.user = il_str(longest, IL_TICKET_USER_MAX + 1);
    assert_int_equal(il_ticket_issue(out, sizeof(out), &n, &c,
                                     &keys.keys[0]), -1);

    make_claims(&c);
    c.exp = c.iat + IL_TICKET_SECONDS_MAX + 1;
    assert_int_equal(il_ticket_issue(out, sizeof(out), &n, &c,
                                     &keys.keys[0]), -1);

    make_claims(&c);
    c.exp = c.iat;
    assert_int_equal(il_ticket_issue(out, sizeof(out), &n, &c,
                                     &keys.keys[0]), -1);

    make_claims(&c);
    assert_int_equal(il_ticket_issue(out, 100, &n, &c, &keys.keys[0]), -1);

    il_token_key_from_public(&keys.keys[0], keys.keys[0].pk);
    assert_int_equal(il_ticket_issue(out, sizeof(out), &n, &c,
                                     &keys.keys[0]), -1);
}


/* The longest work key and user, each character escaped, still fit. */

static void
longest(void **state)
{
    char                 out[IL_TOKEN_MAX + 1];
    char                 key[IL_KEY_MAX], user[IL_TICKET_USER_MAX];
    size_t               i;
    il_token_keys_t      keys;
    il_ticket_claims_t   c;

    (void) state;

    make_keys(&keys, 1);
    memset(user, '"', sizeof(user));
    memset(key, '"', sizeof(key));

    /* parts are not longer than 512 bytes */

    for (i = 300; i < sizeof(key); i += 300) {
        key[i] = ':';
    }

    make_claims(&c);
    c.work_key = il_str(key, sizeof(key));
    c.user = il_str(user, sizeof(user));

    assert_int_equal(verify(issue(out, &c, &keys), &keys, NULL, NOW), 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(tampered),
        cmocka_unit_test(remembered),
        cmocka_unit_test(other_sort),
        cmocka_unit_test(signed_badly),
        cmocka_unit_test(not_issued),
        cmocka_unit_test(longest)
    };

    return il_unit_run(tests);
}
