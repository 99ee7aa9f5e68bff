/*
 * auth_cache.h: a bounded memory of who somebody is, by a digest of what they
 * showed.  Four places a set, the one that ends first gives way.  Any thread;
 * it locks by itself.
 */

#ifndef IL_AUTH_CACHE_H
#define IL_AUTH_CACHE_H

#include <pthread.h>

#include "auth.h"

#define IL_CACHE_SETS  1024
#define IL_CACHE_WAYS  4

typedef struct {
    uint8_t        digest[32];
    int64_t        until;          /* 0: empty */
    int            known;
    int            over;           /* nothing may take its place */
    il_identity_t  who;
} il_cache_entry_t;

typedef struct {
    pthread_mutex_t    lock;
    il_cache_entry_t   entries[IL_CACHE_SETS][IL_CACHE_WAYS];
} il_cache_t;

#define IL_CACHE_EMPTY  { .lock = PTHREAD_MUTEX_INITIALIZER }

/* 1: known, *who is filled; 0: known not to be; -1: not here. */
int il_cache_get(il_cache_t *cache, const uint8_t digest[32],
    il_identity_t *who) IL_MUST_CHECK;

/* Remembers who (NULL: nobody) for ms milliseconds, but not what
 * il_cache_over has ended. */
void il_cache_put(il_cache_t *cache, const uint8_t digest[32],
    const il_identity_t *who, int64_t ms);

/* From now on and for ms milliseconds this is nobody, whatever an answer that
 * was under way then says. */
void il_cache_over(il_cache_t *cache, const uint8_t digest[32], int64_t ms);

#endif /* IL_AUTH_CACHE_H */
