/*
 * il_url.c: see il_url.h.
 */

#include <arpa/inet.h>

#include "il_url.h"


#define IL_HOST_MAX   253
#define IL_LABEL_MAX  63


static int
il_url_digit(char c)
{
    return c >= '0' && c <= '9';
}


static char
il_url_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char) (c - 'A' + 'a') : c;
}


static int
il_url_hex(char c)
{
    c = il_url_lower(c);

    return il_url_digit(c) || (c >= 'a' && c <= 'f');
}


static int
il_url_letter(char c)
{
    c = il_url_lower(c);

    return c >= 'a' && c <= 'z';
}


static int
il_url_eq_nocase(il_str_t a, il_str_t b)
{
    size_t  i;

    if (a.len != b.len) {
        return 0;
    }

    for (i = 0; i < a.len; i++) {
        if (il_url_lower(a.data[i]) != il_url_lower(b.data[i])) {
            return 0;
        }
    }

    return 1;
}


/* Four numbers up to 255 without leading zeros. */

static int
il_url_quad(il_str_t s, uint8_t out[16])
{
    size_t    i, start;
    unsigned  n, v;

    i = 0;

    for (n = 0; n < 4; n++) {
        if (n != 0) {
            if (i == s.len || s.data[i++] != '.') {
                return -1;
            }
        }

        v = 0;
        start = i;

        while (i < s.len && il_url_digit(s.data[i]) && i - start < 3) {
            v = v * 10 + (unsigned) (s.data[i++] - '0');
        }

        if (i == start || v > 255 || (s.data[start] == '0' && i - start > 1)) {
            return -1;
        }

        out[n] = (uint8_t) v;
    }

    return i == s.len ? 0 : -1;
}


/* What some reader could take for a number: digits, or 0x and hex digits. */

static int
il_url_numeric(il_str_t label)
{
    size_t  i;

    i = 0;

    if (label.len >= 2 && label.data[0] == '0'
        && il_url_lower(label.data[1]) == 'x')
    {
        for (i = 2; i < label.len && il_url_hex(label.data[i]); i++) {
            /* void */
        }

        return i == label.len;
    }

    while (i < label.len && il_url_digit(label.data[i])) {
        i++;
    }

    return i == label.len;
}


/* A name, or an IPv4 address. */

static const char *
il_url_name(il_str_t s, il_url_t *url)
{
    size_t    i, start;
    il_str_t  label;

    if (s.len == 0 || s.len > IL_HOST_MAX) {
        return "has no host";
    }

    label = il_str("", 0);
    start = 0;

    for (i = 0; i <= s.len; i++) {
        if (i < s.len && s.data[i] != '.') {
            if (!il_url_letter(s.data[i]) && !il_url_digit(s.data[i])
                && s.data[i] != '-')
            {
                return "has a host with an odd character";
            }

            continue;
        }

        label = il_str(s.data + start, i - start);
        start = i + 1;

        if (label.len == 0) {
            return "has a host with a dot too many";
        }

        if (label.len > IL_LABEL_MAX || label.data[0] == '-'
            || label.data[label.len - 1] == '-')
        {
            return "has a host that is no name";
        }
    }

    url->host = s;
    url->family = 0;

    if (il_url_numeric(label)) {
        if (il_url_quad(s, url->addr) != 0) {
            return "has an address that is not in its usual form";
        }

        url->family = 4;
    }

    return NULL;
}


/* host[:port]; *used is how much of s it takes. */

static const char *
il_url_host(il_str_t s, il_url_t *url, unsigned port, size_t *used)
{
    char         text[INET6_ADDRSTRLEN];
    size_t       i, n;
    const char  *why;

    if (s.len != 0 && s.data[0] == '[') {
        for (n = 1; n < s.len && s.data[n] != ']'; n++) {
            /* void */
        }

        if (n >= s.len || n < 3 || n - 1 >= sizeof(text)) {
            return "has an address that is not in its usual form";
        }

        memcpy(text, s.data + 1, n - 1);
        text[n - 1] = '\0';

        if (memchr(text, '\0', n - 1) != NULL
            || inet_pton(AF_INET6, text, url->addr) != 1)
        {
            return "has an address that is not in its usual form";
        }

        url->host = il_str(s.data + 1, n - 1);
        url->family = 6;
        i = n + 1;

    } else {
        for (i = 0; i < s.len && s.data[i] != ':' && s.data[i] != '/'
             && s.data[i] != '?'; i++)
        {
            /* void */
        }

        why = il_url_name(il_str(s.data, i), url);
        if (why != NULL) {
            return why;
        }
    }

    url->port = port;

    if (i < s.len && s.data[i] == ':') {
        n = ++i;
        port = 0;

        while (i < s.len && il_url_digit(s.data[i]) && i - n < 5) {
            port = port * 10 + (unsigned) (s.data[i++] - '0');
        }

        if (i == n || s.data[n] == '0' || port > 65535) {
            return "has a port that is none";
        }

        url->port = port;
    }

    *used = i;

    return NULL;
}


static const char *
il_url_chars(il_str_t s)
{
    size_t  i;

    for (i = 0; i < s.len; i++) {
        if (s.data[i] == '#') {
            return "has a fragment";
        }

        if (s.data[i] <= 0x20 || s.data[i] >= 0x7f
            || memchr("\"<>\\^`{|}", s.data[i], 9) != NULL)
        {
            return "has a character that must be percent-encoded";
        }

        if (s.data[i] == '%'
            && (s.len - i < 3 || !il_url_hex(s.data[i + 1])
                || !il_url_hex(s.data[i + 2])))
        {
            return "has a \"%\" without two hex digits";
        }
    }

    return NULL;
}


const char *
il_url_parse(il_str_t s, il_url_t *url)
{
    size_t       n, used;
    const char  *why;

    memset(url, 0, sizeof(*url));

    if (s.len > IL_URL_MAX) {
        return "is too long";
    }

    if (s.len >= 8 && il_url_eq_nocase(il_str(s.data, 8), il_cstr("https://")))
    {
        url->https = 1;
        n = 8;

    } else if (s.len >= 7
               && il_url_eq_nocase(il_str(s.data, 7), il_cstr("http://")))
    {
        n = 7;

    } else {
        return "does not begin with https:// or http://";
    }

    why = il_url_chars(s);
    if (why != NULL) {
        return why;
    }

    s = il_str(s.data + n, s.len - n);

    for (n = 0; n < s.len && s.data[n] != '/' && s.data[n] != '?'; n++) {
        if (s.data[n] == '@') {
            return "has a user or password";
        }
    }

    why = il_url_host(s, url, url->https ? 443 : 80, &used);
    if (why != NULL) {
        return why;
    }

    if (used != n) {
        return "has something odd behind its host";
    }

    url->target = il_str(s.data + n, s.len - n);

    return NULL;
}


static int
il_url_host_eq(const il_url_t *a, const il_url_t *b)
{
    if (a->family != b->family) {
        return 0;
    }

    return a->family == 0 ? il_url_eq_nocase(a->host, b->host)
                          : memcmp(a->addr, b->addr,
                                   a->family == 4 ? 4 : 16) == 0;
}


int
il_url_same_host(const il_url_t *a, const il_url_t *b)
{
    return a->https == b->https && a->port == b->port
           && il_url_host_eq(a, b);
}


/* The next entry of a list, without what separates it; 0 at the end. */

static int
il_hosts_next(il_str_t *list, il_str_t *entry)
{
    size_t  n;

    while (list->len != 0
           && memchr(" \t,", list->data[0], 3) != NULL)
    {
        list->data++;
        list->len--;
    }

    for (n = 0; n < list->len && memchr(" \t,", list->data[n], 3) == NULL; n++)
    {
        /* void */
    }

    *entry = il_str(list->data, n);
    *list = il_str(list->data + n, list->len - n);

    return n != 0;
}


static int
il_hosts_entry(il_str_t entry, il_url_t *host, unsigned port, int *any)
{
    size_t  used;

    memset(host, 0, sizeof(*host));

    *any = (entry.len > 2
            && memcmp(entry.data + entry.len - 2, ":*", 2) == 0);

    if (*any) {
        entry.len -= 2;
    }

    if (il_url_host(entry, host, port, &used) != NULL || used != entry.len) {
        return -1;
    }

    /* "a:80:*" has a port already */

    return *any && entry.data[entry.len - 1] != ']'
           && memchr(entry.data, ':', entry.len) != NULL ? -1 : 0;
}


int
il_hosts_match(il_str_t list, const il_url_t *url)
{
    int       any;
    il_str_t  entry;
    il_url_t  host;

    while (il_hosts_next(&list, &entry)) {
        if (il_hosts_entry(entry, &host, url->https ? 443 : 80, &any) == 0
            && (any || host.port == url->port) && il_url_host_eq(&host, url))
        {
            return 1;
        }
    }

    return 0;
}


int
il_hosts_valid(il_str_t list, il_str_t *bad)
{
    int       any;
    il_url_t  host;

    while (il_hosts_next(&list, bad)) {
        if (il_hosts_entry(*bad, &host, 443, &any) != 0) {
            return 0;
        }
    }

    return 1;
}
