/*
 * il_chain.c: see il_chain.h.
 */

#include <sodium.h>

#include "il_chain.h"


void
il_chain_hash(uint8_t hash[IL_CHAIN_BYTES],
    const uint8_t prev[IL_CHAIN_BYTES], uint64_t n, il_str_t canonical)
{
    size_t                    i;
    uint8_t                   count[8];
    crypto_generichash_state  state;

    for (i = 0; i < 8; i++) {
        count[i] = (uint8_t) (n >> (56 - 8 * i));
    }

    (void) crypto_generichash_init(&state, NULL, 0, IL_CHAIN_BYTES);
    (void) crypto_generichash_update(&state, prev, IL_CHAIN_BYTES);
    (void) crypto_generichash_update(&state, count, sizeof(count));
    (void) crypto_generichash_update(&state,
                                     (const uint8_t *) canonical.data,
                                     canonical.len);
    (void) crypto_generichash_final(&state, hash, IL_CHAIN_BYTES);
}
