/*
 * seen.c: tokens that were good, by digest.
 */

#include <pthread.h>

#include <sodium.h>

#include "seen.h"


/* Powers of 2; together 32,768 tokens, and memory is used as they come. */
#define IL_SEEN_STRIPES  32
#define IL_SEEN_LINES    256
#define IL_SEEN_PLACES   4

#define IL_SEEN_BYTES    32


typedef struct {
    uint8_t    digest[IL_SEEN_BYTES];
    il_seen_t  who;                    /* exp 0: nobody */
} il_seen_place_t;

typedef struct {
    il_seen_place_t  places[IL_SEEN_PLACES];
    uint8_t          next;
} il_seen_line_t;


static uint8_t  il_seen_key[32];

static struct {
    pthread_mutex_t  lock;
    il_seen_line_t   lines[IL_SEEN_LINES];
} il_seen[IL_SEEN_STRIPES];


void
il_seen_init(void)
{
    size_t  i;

    randombytes_buf(il_seen_key, sizeof(il_seen_key));

    for (i = 0; i < IL_SEEN_STRIPES; i++) {
        (void) pthread_mutex_init(&il_seen[i].lock, NULL);
    }
}


void
il_seen_forget(void)
{
    size_t           i, k;
    il_seen_line_t  *line;

    for (i = 0; i < IL_SEEN_STRIPES; i++) {
        (void) pthread_mutex_lock(&il_seen[i].lock);

        for (k = 0; k < IL_SEEN_LINES; k++) {
            line = &il_seen[i].lines[k];

            /* what was never written takes no memory yet, and does not now */

            if (line->places[0].who.exp != 0) {
                sodium_memzero(line, sizeof(*line));
            }
        }

        (void) pthread_mutex_unlock(&il_seen[i].lock);
    }
}


static void
il_seen_digest(uint8_t digest[IL_SEEN_BYTES], il_str_t token)
{
    (void) crypto_generichash(digest, IL_SEEN_BYTES,
                              (const uint8_t *) token.data, token.len,
                              il_seen_key, sizeof(il_seen_key));
}


static void
il_seen_name(char out[IL_NAME_MAX + 1], il_str_t name)
{
    size_t  n;

    n = name.len > IL_NAME_MAX ? IL_NAME_MAX : name.len;

    memcpy(out, name.data, n);
    out[n] = '\0';
}


void
il_seen_of(il_seen_t *who, const il_owner_claims_t *claims)
{
    memset(who, 0, sizeof(*who));

    memcpy(who->job_id, claims->job_id, IL_UUID_BYTES);
    memcpy(who->attempt_id, claims->attempt_id, IL_UUID_BYTES);
    who->fence = claims->fence;
    who->exp = claims->exp;
    il_seen_name(who->tenant, claims->tenant);
    il_seen_name(who->kind, claims->kind);
}


int
il_seen_get(il_seen_t *who, il_str_t token, int64_t now)
{
    int                     found;
    size_t                  i, stripe;
    uint8_t                 digest[IL_SEEN_BYTES];
    const il_seen_line_t   *line;
    const il_seen_place_t  *place;

    found = 0;

    if (token.len == 0 || token.len > IL_TOKEN_MAX) {
        return -1;
    }

    il_seen_digest(digest, token);

    stripe = digest[0] % IL_SEEN_STRIPES;
    line = &il_seen[stripe].lines[digest[1] % IL_SEEN_LINES];

    (void) pthread_mutex_lock(&il_seen[stripe].lock);

    for (i = 0; i < IL_SEEN_PLACES; i++) {
        place = &line->places[i];

        if (sodium_memcmp(place->digest, digest, IL_SEEN_BYTES) == 0) {
            *who = place->who;
            found = 1;
            break;
        }
    }

    (void) pthread_mutex_unlock(&il_seen[stripe].lock);

    return found && now < who->exp ? 0 : -1;
}


void
il_seen_put(il_str_t token, const il_owner_claims_t *claims)
{
    size_t            stripe;
    uint8_t           digest[IL_SEEN_BYTES];
    il_seen_line_t   *line;
    il_seen_place_t  *place;

    il_seen_digest(digest, token);

    stripe = digest[0] % IL_SEEN_STRIPES;
    line = &il_seen[stripe].lines[digest[1] % IL_SEEN_LINES];

    (void) pthread_mutex_lock(&il_seen[stripe].lock);

    place = &line->places[line->next];
    line->next = (uint8_t) ((line->next + 1) % IL_SEEN_PLACES);

    memcpy(place->digest, digest, IL_SEEN_BYTES);
    il_seen_of(&place->who, claims);

    (void) pthread_mutex_unlock(&il_seen[stripe].lock);
}
