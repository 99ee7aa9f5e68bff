/*
 * buf.h: a growing buffer, a pool for what lives as long as one request, and
 * the monotonic clock.  None of it locks.
 */

#ifndef IL_BUF_H
#define IL_BUF_H

#include "clock.h"
#include "il_str.h"

/* After a failed allocation `failed` stays set and nothing more is added;
 * callers look at it once, at the end. */
typedef struct {
    char    *data;
    size_t   len;
    size_t   cap;
    int      failed;
} il_buf_t;

void il_buf_free(il_buf_t *b);

/* Makes room for n bytes more; NULL if there is none. */
char *il_buf_room(il_buf_t *b, size_t n);

void il_buf_add(il_buf_t *b, il_str_t s);
void il_buf_puts(il_buf_t *b, const char *s);
void il_buf_int(il_buf_t *b, int64_t v);

/* A quoted, escaped JSON string. */
void il_buf_json(il_buf_t *b, il_str_t s);

/* The same, or null if data is NULL. */
void il_buf_json_null(il_buf_t *b, il_str_t s);

/* A time (RFC 3339) in quotes. */
void il_buf_time(il_buf_t *b, int64_t unix_ms);

static inline il_str_t
il_buf_str(const il_buf_t *b)
{
    return il_str(b->data, b->len);
}


typedef struct il_chunk_s  il_chunk_t;

typedef struct {
    il_chunk_t  *head;
} il_pool_t;

/* Zeroed memory, aligned for anything, freed by il_pool_free; NULL if there
 * is none. */
void *il_pool_get(il_pool_t *p, size_t n);
void il_pool_free(il_pool_t *p);

/* A copy with a NUL behind; data is NULL if there is no memory. */
il_str_t il_pool_dup(il_pool_t *p, il_str_t s);


/* A random number below n (n > 0); for jitter. */
int64_t il_random(int64_t n);

#endif /* IL_BUF_H */
