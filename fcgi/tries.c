/*
 * tries.c: a leaky bucket an address, kept as the time at which it is empty.
 */

#include <arpa/inet.h>
#include <pthread.h>

#include "clock.h"
#include "il_hash.h"
#include "tries.h"


#define IL_TRIES_SETS   1024
#define IL_TRIES_WAYS   4
#define IL_TRIES_EACH   6000
#define IL_TRIES_ROOM   (10 * IL_TRIES_EACH)


typedef struct {
    uint8_t   who[IL_ENTRY_BYTES];
    int64_t   empty;               /* at il_now_ms() */
} il_tries_t;


static struct {
    pthread_mutex_t  lock;
    int              keyed;
    uint8_t          key[IL_ENTRY_KEY];
    il_tries_t       slots[IL_TRIES_SETS][IL_TRIES_WAYS];
} il_tries = {
    .lock = PTHREAD_MUTEX_INITIALIZER
};


/* A network of IPv6 is one subscriber; all else is taken as it stands. */

static il_str_t
il_tries_net(il_str_t address, char *text, struct in6_addr *net)
{
    if (address.len == 0 || address.len >= INET6_ADDRSTRLEN) {
        return address;
    }

    memcpy(text, address.data, address.len);
    text[address.len] = '\0';

    if (inet_pton(AF_INET6, text, net) != 1 || IN6_IS_ADDR_V4MAPPED(net)) {
        return address;
    }

    return il_str((const char *) net->s6_addr, 8);
}


/* With the lock held: the address's slot, or the one that it may have. */

static il_tries_t *
il_tries_slot(il_str_t address)
{
    int              i;
    char             text[INET6_ADDRSTRLEN];
    uint8_t          who[IL_ENTRY_BYTES];
    il_str_t         net;
    il_tries_t      *set, *best;
    struct in6_addr  in6;

    if (!il_tries.keyed) {
        randombytes_buf(il_tries.key, sizeof(il_tries.key));
        il_tries.keyed = 1;
    }

    net = il_tries_net(address, text, &in6);
    il_entry_hash(who, il_tries.key, &net, 1);

    set = il_tries.slots[((size_t) who[0] << 8 | who[1]) % IL_TRIES_SETS];
    best = &set[0];

    for (i = 0; i < IL_TRIES_WAYS; i++) {
        if (memcmp(set[i].who, who, sizeof(who)) == 0) {
            return &set[i];
        }

        if (set[i].empty < best->empty) {
            best = &set[i];
        }
    }

    memcpy(best->who, who, sizeof(who));
    best->empty = 0;

    return best;
}


int64_t
il_tries_take(il_str_t address)
{
    int64_t      now, empty, over;
    il_tries_t  *slot;

    now = il_now_ms();

    (void) pthread_mutex_lock(&il_tries.lock);

    slot = il_tries_slot(address);
    empty = (slot->empty > now ? slot->empty : now) + IL_TRIES_EACH;
    over = empty - now - IL_TRIES_ROOM;

    if (over <= 0) {
        slot->empty = empty;
    }

    (void) pthread_mutex_unlock(&il_tries.lock);

    return over <= 0 ? 0 : (over + 999) / 1000;
}


void
il_tries_give(il_str_t address)
{
    il_tries_t  *slot;

    (void) pthread_mutex_lock(&il_tries.lock);

    slot = il_tries_slot(address);
    slot->empty -= slot->empty > IL_TRIES_EACH ? IL_TRIES_EACH : slot->empty;

    (void) pthread_mutex_unlock(&il_tries.lock);
}
