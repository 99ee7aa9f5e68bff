/*
 * il_chain.h: the chain over a history: each row's hash covers the hash of
 * the row before it, so that a row that is changed, removed or put in between
 * afterwards is found.
 *
 * hash = BLAKE2b-256 (previous hash, number of the row as 8 bytes big endian,
 * its canonical bytes); before the first row, number 1, stand 32 zero bytes.
 */

#ifndef IL_CHAIN_H
#define IL_CHAIN_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_CHAIN_BYTES  32

/* hash and prev may be the same. */
void il_chain_hash(uint8_t hash[IL_CHAIN_BYTES],
    const uint8_t prev[IL_CHAIN_BYTES], uint64_t n, il_str_t canonical);

#pragma GCC visibility pop

#endif /* IL_CHAIN_H */
