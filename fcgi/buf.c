/*
 * buf.c: buffers, pools, the clock.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sodium.h>

#include "buf.h"
#include "il_enc.h"
#include "il_time.h"
#include "il_uuid.h"


/* With its head it is one of those that malloc() keeps at hand, which calloc()
 * does not ask for. */
#define IL_CHUNK  960


struct il_chunk_s {
    il_chunk_t  *next;
    size_t       used;
    size_t       size;
    char         data[] __attribute__((aligned(16)));
};


void
il_buf_free(il_buf_t *b)
{
    free(b->data);
    memset(b, 0, sizeof(*b));
}


char *
il_buf_room(il_buf_t *b, size_t n)
{
    char    *data;
    size_t   cap;

    if (b->failed) {
        return NULL;
    }

    /* room for nothing is there, too, and is not NULL */

    if (b->data == NULL || b->cap - b->len < n) {

        if (n > SIZE_MAX / 4 - b->len) {
            b->failed = 1;
            return NULL;
        }

        cap = b->cap * 2;

        if (cap < b->len + n) {
            cap = b->len + n;
        }

        if (cap < 256) {
            cap = 256;
        }

        data = realloc(b->data, cap);
        if (data == NULL) {
            b->failed = 1;
            return NULL;
        }

        b->data = data;
        b->cap = cap;
    }

    return b->data + b->len;
}


void
il_buf_add(il_buf_t *b, il_str_t s)
{
    char  *p;

    p = il_buf_room(b, s.len);
    if (p == NULL || s.len == 0) {
        return;
    }

    memcpy(p, s.data, s.len);
    b->len += s.len;
}


void
il_buf_puts(il_buf_t *b, const char *s)
{
    il_buf_add(b, il_cstr(s));
}


void
il_buf_int(il_buf_t *b, int64_t v)
{
    char  num[24];

    (void) snprintf(num, sizeof(num), "%lld", (long long) v);
    il_buf_puts(b, num);
}


void
il_buf_json(il_buf_t *b, il_str_t s)
{
    char    *p;
    size_t   cap, n;

    cap = il_json_escaped_cap(s.len) + 2;

    p = il_buf_room(b, cap);
    if (p == NULL) {
        return;
    }

    *p++ = '"';

    n = il_json_escape(p, cap - 2, s);
    if (n == (size_t) -1) {
        b->failed = 1;
        return;
    }

    p[n] = '"';
    b->len += n + 2;
}


void
il_buf_json_null(il_buf_t *b, il_str_t s)
{
    if (s.data == NULL) {
        il_buf_puts(b, "null");
        return;
    }

    il_buf_json(b, s);
}


void
il_buf_time(il_buf_t *b, int64_t unix_ms)
{
    char    text[IL_RFC3339_CAP];
    size_t  n;

    n = il_rfc3339_format(text, sizeof(text), unix_ms);
    il_buf_puts(b, "\"");
    il_buf_add(b, il_str(text, n));
    il_buf_puts(b, "\"");
}


void *
il_pool_get(il_pool_t *p, size_t n)
{
    size_t       size;
    void        *data;
    il_chunk_t  *c;

    if (n > SIZE_MAX / 4) {
        return NULL;
    }

    n = (n + 15) & ~(size_t) 15;
    c = p->head;

    if (c == NULL || c->size - c->used < n) {
        size = n > IL_CHUNK ? n : IL_CHUNK;

        c = malloc(sizeof(il_chunk_t) + size);
        if (c == NULL) {
            return NULL;
        }

        memset(c, 0, sizeof(il_chunk_t) + size);
        c->size = size;

        /* a big piece goes behind the chunk that still has room */

        if (p->head != NULL && n > IL_CHUNK) {
            c->next = p->head->next;
            p->head->next = c;

        } else {
            c->next = p->head;
            p->head = c;
        }
    }

    data = c->data + c->used;
    c->used += n;

    return data;
}


void
il_pool_free(il_pool_t *p)
{
    il_chunk_t  *c;

    while (p->head != NULL) {
        c = p->head;
        p->head = c->next;
        free(c);
    }
}


il_str_t
il_pool_dup(il_pool_t *p, il_str_t s)
{
    char  *data;

    data = il_pool_get(p, s.len + 1);
    if (data == NULL) {
        return il_str(NULL, 0);
    }

    if (s.len > 0) {
        memcpy(data, s.data, s.len);
    }

    return il_str(data, s.len);
}


int64_t
il_random(int64_t n)
{
    return (int64_t) randombytes_uniform((uint32_t) n);
}
