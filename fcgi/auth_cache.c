/*
 * auth_cache.c: who somebody is, remembered for a short while.
 */

#include <string.h>

#include <sodium.h>

#include "auth_cache.h"
#include "clock.h"


static il_cache_entry_t *
il_cache_set(il_cache_t *cache, const uint8_t digest[32])
{
    return cache->entries[((size_t) digest[0] << 8 | digest[1])
                          % IL_CACHE_SETS];
}


int
il_cache_get(il_cache_t *cache, const uint8_t digest[32], il_identity_t *who)
{
    int                rc, i;
    int64_t            now;
    il_cache_entry_t  *e;

    rc = -1;
    now = il_now_ms();

    (void) pthread_mutex_lock(&cache->lock);

    e = il_cache_set(cache, digest);

    for (i = 0; i < IL_CACHE_WAYS; i++) {
        if (e[i].until > now && sodium_memcmp(e[i].digest, digest, 32) == 0) {
            rc = e[i].known;
            *who = e[i].who;
            break;
        }
    }

    (void) pthread_mutex_unlock(&cache->lock);

    return rc;
}


static void
il_cache_write(il_cache_t *cache, const uint8_t digest[32],
    const il_identity_t *who, int over, int64_t ms)
{
    int                i, at;
    int64_t            now;
    il_cache_entry_t  *e;

    now = il_now_ms();

    (void) pthread_mutex_lock(&cache->lock);

    e = il_cache_set(cache, digest);
    at = 0;

    for (i = 0; i < IL_CACHE_WAYS; i++) {
        if (memcmp(e[i].digest, digest, 32) == 0) {
            at = i;
            break;
        }

        if (e[i].until < e[at].until) {
            at = i;
        }
    }

    if (i == IL_CACHE_WAYS || over || !e[at].over || e[at].until <= now) {
        memset(&e[at], 0, sizeof(e[at]));
        memcpy(e[at].digest, digest, 32);
        e[at].until = now + ms;
        e[at].known = (who != NULL);
        e[at].over = over;

        if (who != NULL) {
            e[at].who = *who;
        }
    }

    (void) pthread_mutex_unlock(&cache->lock);
}


void
il_cache_put(il_cache_t *cache, const uint8_t digest[32],
    const il_identity_t *who, int64_t ms)
{
    il_cache_write(cache, digest, who, 0, ms);
}


void
il_cache_over(il_cache_t *cache, const uint8_t digest[32], int64_t ms)
{
    il_cache_write(cache, digest, NULL, 1, ms);
}
