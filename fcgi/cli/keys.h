/*
 * keys.h: reading a signing key's file (keys, doctor).
 */

#ifndef IL_CLI_KEYS_H
#define IL_CLI_KEYS_H

#include "il_token.h"

/* A *.seed or *.pub file.  0, or an exit code with the message written. */
int il_keys_load(il_token_key_t *key, const char *path);

#endif /* IL_CLI_KEYS_H */
