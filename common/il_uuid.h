/*
 * il_uuid.h: UUID version 7 (RFC 9562 section 5.7).
 */

#ifndef IL_UUID_H
#define IL_UUID_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_UUID_BYTES  16
#define IL_UUID_TEXT   36

/* unix_ms goes into the first 48 bits, the rest is random. */
void il_uuid7(uint8_t out[IL_UUID_BYTES], uint64_t unix_ms);

/* Lower case, with a NUL: out has IL_UUID_TEXT + 1 bytes. */
void il_uuid_format(char *out, const uint8_t in[IL_UUID_BYTES]);

/* 8-4-4-4-12 hex digits, either case.  0 or -1. */
int il_uuid_parse(uint8_t out[IL_UUID_BYTES], il_str_t s) IL_MUST_CHECK;

#pragma GCC visibility pop

#endif /* IL_UUID_H */
