/*
 * seal.h: makes a chain of the history of effects (il_chain.h).
 */

#ifndef IL_SEAL_H
#define IL_SEAL_H

#include "lane.h"

/* Seals what can be sealed now, in bounded passes; in the sweeper's thread. */
void il_seal(il_link_t *link);

#endif /* IL_SEAL_H */
