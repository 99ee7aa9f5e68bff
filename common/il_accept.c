/*
 * il_accept.c: the header Accept.
 */

#include <strings.h>

#include "il_accept.h"


/* What the header says of one type: the most exact range that covers it. */
typedef struct {
    int     q;              /* 0 to 1000 */
    int     exact;          /* 0: nothing; 1: all types; 2: text/..; 3: it */
    size_t  at;             /* which range of the list */
} il_accept_word_t;


/* The part before the next separator, trimmed; s goes on behind it.  Quoted
 * strings, which a parameter may have, are passed over. */
static il_str_t
il_accept_part(il_str_t *s, char sep)
{
    int       quoted;
    size_t    i;
    il_str_t  part;

    quoted = 0;

    for (i = 0; i < s->len; i++) {

        if (s->data[i] == '"') {
            quoted = !quoted;

        } else if (quoted && s->data[i] == '\\') {
            i++;

        } else if (!quoted && s->data[i] == sep) {
            break;
        }
    }

    if (i >= s->len) {
        part = *s;
        *s = il_str(s->data + s->len, 0);

    } else {
        part = il_str(s->data, i);
        *s = il_str(s->data + i + 1, s->len - i - 1);
    }

    return il_str_trim(part);
}


/* "0.25" as 250; -1: not a weight. */
static int
il_accept_q(il_str_t s)
{
    int     q;
    int     unit;
    size_t  i;

    if (s.len == 0 || s.len > 5 || (s.data[0] != '0' && s.data[0] != '1')
        || (s.len > 1 && s.data[1] != '.'))
    {
        return -1;
    }

    q = (s.data[0] - '0') * 1000;
    unit = 100;

    for (i = 2; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return -1;
        }

        q += (s.data[i] - '0') * unit;
        unit /= 10;
    }

    return q > 1000 ? -1 : q;
}


static int
il_accept_same(il_str_t a, const char *b, size_t n)
{
    return a.len == n && strncasecmp(a.data, b, n) == 0;
}


/* How exactly a range names a type. */
static int
il_accept_exact(il_str_t range, const char *type)
{
    size_t  main;

    main = (size_t) (strchr(type, '/') - type) + 1;

    if (il_accept_same(range, type, strlen(type))) {
        return 3;
    }

    if (range.len == main + 1 && range.data[main] == '*'
        && strncasecmp(range.data, type, main) == 0)
    {
        return 2;
    }

    return il_accept_same(range, "*/*", 3) ? 1 : 0;
}


static void
il_accept_hear(il_accept_word_t *w, int exact, int q, size_t at)
{
    if (exact > w->exact) {
        w->exact = exact;
        w->q = q;
        w->at = at;
    }
}


int
il_accept_prefers(il_str_t accept, const char *type, const char *usual)
{
    int                q, given;
    size_t             at;
    il_str_t           range, name, param;
    il_accept_word_t   want, other;

    memset(&want, 0, sizeof(want));
    memset(&other, 0, sizeof(other));

    for (at = 0; accept.len > 0; at++) {
        range = il_accept_part(&accept, ',');
        name = il_accept_part(&range, ';');
        q = 1000;

        while (range.len > 0) {
            param = il_accept_part(&range, ';');

            if (param.len >= 2 && strncasecmp(param.data, "q=", 2) == 0) {
                given = il_accept_q(il_str(param.data + 2, param.len - 2));
                q = given < 0 ? 0 : given;
            }
        }

        il_accept_hear(&want, il_accept_exact(name, type), q, at);
        il_accept_hear(&other, il_accept_exact(name, usual), q, at);
    }

    if (want.q != other.q) {
        return want.q > other.q;
    }

    if (want.q == 0 || want.exact != other.exact) {
        return want.q > 0 && want.exact > other.exact;
    }

    return want.at < other.at;
}
