/*
 * button.c: what a page sends, and the page that answers it.  Six texts, each
 * up to the next NUL byte, are the headers in the order of il_fuzz_names; the
 * rest is the body.
 */

#include "fuzz.h"
#include "il_button.h"
#include "il_enc.h"
#include "il_href.h"
#include "il_origin.h"
#include "il_page.h"


#define NAMES  6

static const char *const  il_fuzz_names[NAMES] = {
    "content-type", "interlock-ticket", "idempotency-key", "interlock-fresh",
    "accept", "origin"
};


/* One that is empty is not there; "*" in front means twice. */

static il_str_t
header(void *ctx, const char *name, size_t *count)
{
    size_t           i;
    const il_str_t  *h = ctx;

    for (i = 0; i < NAMES; i++) {
        if (strcmp(name, il_fuzz_names[i]) == 0 && h[i].len > 0) {
            *count = h[i].data[0] == '*' ? 2 : 1;
            return h[i];
        }
    }

    *count = 0;

    return il_str(NULL, 0);
}


static size_t
count(il_str_t s, char c)
{
    size_t  i, n;

    for (i = 0, n = 0; i < s.len; i++) {
        n += (s.data[i] == c);
    }

    return n;
}


/* However strange the texts, the page has the same tags and quotes as one
 * with plain texts in the same places. */

static void
page(const il_page_t *p)
{
    char       *out, *plain;
    size_t      n, m, cap;
    il_page_t   q;

    cap = il_page_cap(p);
    out = malloc(cap);
    plain = malloc(cap + 64);
    IL_HOLDS(out != NULL && plain != NULL);

    n = il_page_build(out, cap, p);
    IL_HOLDS(n > 0);

    q = *p;

#define PLAIN(field)                                                          \
    if (q.field.len > 0) {                                                    \
        q.field = il_cstr("x");                                               \
    }

    PLAIN(title)
    PLAIN(text)
    PLAIN(note)
    PLAIN(action)
    PLAIN(label)
    PLAIN(ticket)
    PLAIN(key)

    q.link = il_href_safe(p->link) ? il_cstr("x") : il_str(NULL, 0);

    m = il_page_build(plain, cap + 64, &q);
    IL_HOLDS(m > 0);

    IL_HOLDS(count(il_str(out, n), '<') == count(il_str(plain, m), '<'));
    IL_HOLDS(count(il_str(out, n), '>') == count(il_str(plain, m), '>'));
    IL_HOLDS(count(il_str(out, n), '"') == count(il_str(plain, m), '"'));
    IL_HOLDS(count(il_str(out, n), '\'') == count(il_str(plain, m), '\''));
    IL_HOLDS(count(il_str(out, n), '\0') == 0);

    free(out);
    free(plain);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char         *buf;
    size_t        i;
    il_str_t      rest, body, h[NAMES], bad;
    il_page_t     p;
    il_button_t   b;
    il_origin_t   o;

    rest = il_str((const char *) data, size);

    for (i = 0; i < NAMES; i++) {
        h[i] = il_fuzz_field(&rest);
    }

    body = il_fuzz_copy((const uint8_t *) rest.data, rest.len);

    /* as much as the fields need, and no more */

    buf = malloc(body.len == 0 ? 1 : body.len);
    IL_HOLDS(buf != NULL);

    il_button_read(&b, header, h, body, buf, body.len);

    IL_HOLDS(b.fresh == 0 || b.fresh == 1);
    IL_HOLDS((b.problem == IL_P_NONE) == (b.detail == NULL));
    IL_HOLDS(b.ticket.data == NULL || b.ticket.len > 0);
    IL_HOLDS(!(b.page && h[0].len == 0));

    memset(&p, 0, sizeof(p));
    p.title = h[0];
    p.text = h[1];
    p.note = body;
    p.link = h[2];
    p.action = h[3];
    p.label = h[4];
    p.ticket = b.ticket;
    p.key = b.key;
    p.fresh = b.fresh;
    page(&p);

    memset(&o, 0, sizeof(o));
    o.scheme = il_cstr("https");
    o.host = h[1];
    o.allowed = h[2];
    o.origin = h[5];
    o.origins = 1;

    if (il_origins_check(o.allowed, &bad) == NULL && il_origin_ok(&o)) {
        IL_HOLDS(o.origin.len > 0);
        IL_HOLDS(memchr(o.origin.data, ',', o.origin.len) == NULL
                 || memchr(o.host.data, ',', o.host.len) != NULL);
    }

    free(buf);
    il_fuzz_drop(body);

    for (i = 0; i < NAMES; i++) {
        il_fuzz_drop(h[i]);
    }

    return 0;
}
