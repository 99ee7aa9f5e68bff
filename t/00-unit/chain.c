/*
 * chain.c: the chain over a history, against values of another BLAKE2b
 * (Python's hashlib).
 */

#include "il_chain.h"
#include "il_enc.h"
#include "unit.h"


static void
test_chain(void **state)
{
    char      hex[2 * IL_CHAIN_BYTES + 1], bytes[5 * 256];
    size_t    i;
    uint8_t   hash[IL_CHAIN_BYTES];

    (void) state;

    for (i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char) (i & 0xff);
    }

    memset(hash, 0, sizeof(hash));

    il_chain_hash(hash, hash, 1, il_str(NULL, 0));
    il_hex_encode(hex, hash, sizeof(hash));
    assert_string_equal(hex, "53ab70c9205987ccac8cec0d5793acbe"
                        "b1a810051e8dfb45bd579d13b8b2bba8");

    il_chain_hash(hash, hash, 2, il_lit("4:paid,-"));
    il_hex_encode(hex, hash, sizeof(hash));
    assert_string_equal(hex, "d9521bbc559add80eb70a01683b0250c"
                        "e99e202ae2a720f673f9f649418616bf");

    il_chain_hash(hash, hash, 0x0102030405060708, il_str(bytes, sizeof(bytes)));
    il_hex_encode(hex, hash, sizeof(hash));
    assert_string_equal(hex, "919383c2a2d9ea0c0896939c1daff79e"
                        "08229655e7114e569cd6c78043739283");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_chain),
    };

    return il_unit_run(tests);
}
