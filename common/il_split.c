/*
 * il_split.c: the list of the elements of a body, written and read.
 */

#include "il_split.h"


#define IL_SPLIT_TEXTS  5
#define IL_SPLIT_FIXED  (4 + 4 + IL_SPLIT_TEXTS * 2)


static const char  il_split_magic[4] = { 'i', 'l', 's', '1' };


static void
il_split_put32(char *out, size_t v)
{
    out[0] = (char) (v >> 24 & 0xff);
    out[1] = (char) (v >> 16 & 0xff);
    out[2] = (char) (v >> 8 & 0xff);
    out[3] = (char) (v & 0xff);
}


static size_t
il_split_get(const char *p, size_t bytes)
{
    size_t  i, v;

    v = 0;

    for (i = 0; i < bytes; i++) {
        v = v << 8 | (unsigned char) p[i];
    }

    return v;
}


void
il_split_head(char out[IL_SPLIT_HEAD], size_t n)
{
    memcpy(out, il_split_magic, sizeof(il_split_magic));
    il_split_put32(out + 4, n);
}


static void
il_split_texts(const il_split_t *e, il_str_t texts[IL_SPLIT_TEXTS])
{
    texts[0] = e->problem;
    texts[1] = e->detail;
    texts[2] = e->kind;
    texts[3] = e->work_key;
    texts[4] = e->idem;
}


size_t
il_split_size(const il_split_t *e)
{
    size_t    i, n;
    il_str_t  texts[IL_SPLIT_TEXTS];

    if (e->offset > UINT32_MAX || e->length > UINT32_MAX) {
        return 0;
    }

    il_split_texts(e, texts);
    n = IL_SPLIT_FIXED;

    for (i = 0; i < IL_SPLIT_TEXTS; i++) {
        if (texts[i].len > UINT16_MAX) {
            return 0;
        }

        n += texts[i].len;
    }

    return n;
}


size_t
il_split_put(char *out, const il_split_t *e)
{
    char      *p;
    size_t     i;
    il_str_t   texts[IL_SPLIT_TEXTS];

    il_split_texts(e, texts);

    il_split_put32(out, e->offset);
    il_split_put32(out + 4, e->length);
    p = out + 8;

    for (i = 0; i < IL_SPLIT_TEXTS; i++) {
        *p++ = (char) (texts[i].len >> 8 & 0xff);
        *p++ = (char) (texts[i].len & 0xff);

        if (texts[i].len > 0) {
            memcpy(p, texts[i].data, texts[i].len);
            p += texts[i].len;
        }
    }

    return (size_t) (p - out);
}


int
il_split_count(il_str_t list)
{
    size_t  n;

    if (list.len < IL_SPLIT_HEAD
        || memcmp(list.data, il_split_magic, sizeof(il_split_magic)) != 0)
    {
        return -1;
    }

    n = il_split_get(list.data + 4, 4);

    return n > IL_SPLIT_MAX ? -1 : (int) n;
}


int
il_split_next(il_str_t list, size_t *pos, size_t body, il_split_t *e)
{
    size_t       i, n;
    il_str_t     texts[IL_SPLIT_TEXTS];
    const char  *p, *end;

    if (*pos >= list.len) {
        return 0;
    }

    p = list.data + *pos;
    end = list.data + list.len;

    if ((size_t) (end - p) < IL_SPLIT_FIXED) {
        return -1;
    }

    e->offset = il_split_get(p, 4);
    e->length = il_split_get(p + 4, 4);
    p += 8;

    if (e->offset > body || e->length == 0 || e->length > body - e->offset) {
        return -1;
    }

    for (i = 0; i < IL_SPLIT_TEXTS; i++) {

        if (end - p < 2) {
            return -1;
        }

        n = il_split_get(p, 2);
        p += 2;

        if (n > (size_t) (end - p)) {
            return -1;
        }

        texts[i] = il_str(p, n);
        p += n;
    }

    e->problem = texts[0];
    e->detail = texts[1];
    e->kind = texts[2];
    e->work_key = texts[3];
    e->idem = texts[4];

    *pos = (size_t) (p - list.data);

    return 1;
}
