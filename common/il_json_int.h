/*
 * il_json_int.h: what il_json.c and il_json_find.c share; for them only.
 */

#ifndef IL_JSON_INT_H
#define IL_JSON_INT_H

#include "il_json.h"

#pragma GCC visibility push(hidden)

static inline int
il_json_is_space(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r';
}

/* Four hex digits at p: the code unit, or -1. */
int32_t il_json_unit(const char *p, const char *end);

/* The byte that a two-character escape stands for, or -1. */
int il_json_short(char ch);

/* The type of a well-formed value by its first character. */
il_json_type_e il_json_type(char first);

#pragma GCC visibility pop

#endif /* IL_JSON_INT_H */
