/*
 * il_url.h: URLs that a program calls by itself, and the list of hosts that
 * it may call.
 *
 * The grammar is far narrower than that of RFC 3986, so that two parsers
 * cannot differ about whom a URL names: no user, no fragment, no backslash,
 * host names of letters, digits and "-", addresses in their usual form only
 * (no decimal, octal, hexadecimal or short IPv4), ports in digits.
 */

#ifndef IL_URL_H
#define IL_URL_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_URL_MAX  8192

typedef struct {
    int        https;
    il_str_t   host;        /* slice of the URL, without brackets */
    int        family;      /* 0: a name; 4, 6: an address */
    uint8_t    addr[16];
    unsigned   port;        /* the scheme's own if none is given */
    il_str_t   target;      /* path and query; empty, or begins with / or ? */
} il_url_t;

/* NULL, and *url filled with slices of s; or what is wrong with it, as the
 * end of an English sentence ("has a fragment"). */
const char *il_url_parse(il_str_t s, il_url_t *url);

/* 1 if both name the same scheme, host and port. */
int il_url_same_host(const il_url_t *a, const il_url_t *b);

/* 1 if a list of hosts, "api.example:8443, [2001:db8::1], 10.1.2.3", names
 * the host of the URL.  An entry without a port stands for the scheme's own
 * port, one that ends in ":*" for every port. */
int il_hosts_match(il_str_t list, const il_url_t *url);

/* 1 if each entry of the list is well-formed; else *bad is the first that is
 * not. */
int il_hosts_valid(il_str_t list, il_str_t *bad);

#pragma GCC visibility pop

#endif /* IL_URL_H */
