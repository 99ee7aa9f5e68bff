/*
 * il_addr.c: the special-purpose registries of IANA (RFC 6890, 8190) as two
 * tables, the first match decides.
 */

#include "il_addr.h"


typedef struct {
    uint8_t          net[16];
    unsigned         bits;
    il_addr_class_e  class;
    int              at;         /* where an IPv4 address is in it, or 0 */
} il_addr_net_t;


static const il_addr_net_t  il_addr_nets4[] = {
    { { 0 },             8, IL_ADDR_NEVER, 0 },      /* this network */
    { { 10 },            8, IL_ADDR_PRIVATE, 0 },
    { { 100, 64 },      10, IL_ADDR_PRIVATE, 0 },    /* shared, CGNAT */
    { { 127 },           8, IL_ADDR_PRIVATE, 0 },
    { { 169, 254 },     16, IL_ADDR_NEVER, 0 },      /* link-local */
    { { 172, 16 },      12, IL_ADDR_PRIVATE, 0 },
    { { 192, 0, 0 },    24, IL_ADDR_PRIVATE, 0 },    /* protocols */
    { { 192, 0, 2 },    24, IL_ADDR_PRIVATE, 0 },    /* documentation */
    { { 192, 88, 99 },  24, IL_ADDR_PRIVATE, 0 },    /* 6to4 relays */
    { { 192, 168 },     16, IL_ADDR_PRIVATE, 0 },
    { { 198, 18 },      15, IL_ADDR_PRIVATE, 0 },    /* benchmarks */
    { { 198, 51, 100 }, 24, IL_ADDR_PRIVATE, 0 },    /* documentation */
    { { 203, 0, 113 },  24, IL_ADDR_PRIVATE, 0 },    /* documentation */
    { { 224 },           4, IL_ADDR_NEVER, 0 },      /* multicast */
    { { 240 },           4, IL_ADDR_NEVER, 0 },      /* reserved, broadcast */
    { { 0 },             0, IL_ADDR_PUBLIC, 0 }
};


static const il_addr_net_t  il_addr_nets6[] = {
    { { 0 },                                  128, IL_ADDR_NEVER, 0 },
    { { [15] = 1 },                           128, IL_ADDR_PRIVATE, 0 },
    { { [10] = 0xff, [11] = 0xff },            96, IL_ADDR_PRIVATE, 12 },
    { { 0 },                                   96, IL_ADDR_PRIVATE, 12 },
    { { 0x00, 0x64, 0xff, 0x9b },              96, IL_ADDR_PRIVATE, 12 },
    { { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 },  48, IL_ADDR_PRIVATE, 0 },
    { { 0x20, 0x02 },                          16, IL_ADDR_PRIVATE, 2 },
    { { 0x20, 0x01, 0x0d, 0xb8 },              32, IL_ADDR_PRIVATE, 0 },
    { { 0x20, 0x01 },                          23, IL_ADDR_PRIVATE, 0 },
    { { 0x3f, 0xff },                          20, IL_ADDR_PRIVATE, 0 },
    { { 0x20 },                                 3, IL_ADDR_PUBLIC, 0 },
    { { 0xfc },                                 7, IL_ADDR_PRIVATE, 0 },
    { { 0xfe, 0xc0 },                          10, IL_ADDR_PRIVATE, 0 },
    { { 0 },                                    0, IL_ADDR_NEVER, 0 }
};


static int
il_addr_in(const uint8_t *a, const il_addr_net_t *net)
{
    size_t    n;
    unsigned  rest, mask;

    n = net->bits / 8;
    rest = net->bits % 8;

    if (n != 0 && memcmp(a, net->net, n) != 0) {
        return 0;
    }

    mask = (0xff00U >> rest) & 0xff;

    return rest == 0 || (a[n] & mask) == (net->net[n] & mask);
}


il_addr_class_e
il_addr_class4(const uint8_t a[4])
{
    const il_addr_net_t  *net;

    for (net = il_addr_nets4; net->bits != 0; net++) {
        if (il_addr_in(a, net)) {
            break;
        }
    }

    return net->class;
}


il_addr_class_e
il_addr_class6(const uint8_t a[16])
{
    il_addr_class_e       inner;
    const il_addr_net_t  *net;

    for (net = il_addr_nets6; net->bits != 0; net++) {
        if (il_addr_in(a, net)) {
            break;
        }
    }

    if (net->at == 0) {
        return net->class;
    }

    inner = il_addr_class4(a + net->at);

    return inner > net->class ? inner : net->class;
}
