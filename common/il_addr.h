/*
 * il_addr.h: which network addresses may be called.
 *
 * A look-up's URL comes from an operator and its host name from a resolver,
 * and neither may lead into the network that this machine stands in unless
 * the configuration says so.  Judged is the address that a socket is about
 * to connect to, never the name.
 */

#ifndef IL_ADDR_H
#define IL_ADDR_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

typedef enum {
    IL_ADDR_PUBLIC = 0,   /* global unicast */
    IL_ADDR_PRIVATE,      /* loopback, private, shared (CGNAT), unique local,
                             reserved for documentation or tests, and every
                             form of IPv6 that carries an IPv4 address: only
                             where the configuration allows it */
    IL_ADDR_NEVER         /* unspecified, link-local (also the metadata
                             services of clouds), multicast, broadcast,
                             unassigned */
} il_addr_class_e;

/* The class of an IPv4 address, 4 bytes in network order. */
il_addr_class_e il_addr_class4(const uint8_t a[4]);

/* The class of an IPv6 address, 16 bytes.  One that carries an IPv4 address
 * (mapped, compatible, NAT64, 6to4) is at best as good as that one, and never
 * public. */
il_addr_class_e il_addr_class6(const uint8_t a[16]);

#pragma GCC visibility pop

#endif /* IL_ADDR_H */
