/*
 * il_mac_key.h: a key that many messages are signed with by HMAC-SHA256: what
 * that makes of it before it sees any of them, which is half of the work for
 * a short one.
 *
 * SHA-256 is OpenSSL's where it is built in (IL_HAVE_OPENSSL): that one uses
 * the processor's instructions for it; libsodium's is plain C and takes
 * several times as long.
 */

#ifndef IL_MAC_KEY_H
#define IL_MAC_KEY_H

#include <sodium.h>

#if (IL_HAVE_OPENSSL)
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#endif

/* As secret as the key itself; il_mac_key() of il_mac.h makes it.  Copied by
 * assignment. */
typedef struct {
#if (IL_HAVE_OPENSSL)
    SHA256_CTX                    inner;
    SHA256_CTX                    outer;
#else
    crypto_auth_hmacsha256_state  state;
#endif
} il_mac_key_t;

#endif /* IL_MAC_KEY_H */
