/*
 * il_key.h: work keys, idempotency keys, kind names.
 *
 * A work key is its parts joined by ":", each part with "%", ":", space and
 * control characters percent-encoded (upper-case hex), and the dots of a "."
 * or ".." between slashes too (a URL cannot carry those), so that two different
 * lists of parts never make the same key.
 */

#ifndef IL_KEY_H
#define IL_KEY_H

#include "il_str.h"

#pragma GCC visibility push(hidden)

#define IL_KEY_PART_MAX   512      /* bytes of one part, before encoding */
#define IL_KEY_PARTS_MAX  16
#define IL_KEY_MAX        2048     /* bytes of a whole key, encoded */
#define IL_IDEM_MAX       255      /* bytes of an idempotency key */
#define IL_NAME_MAX       64       /* bytes of a kind, source, tenant name */

typedef enum {
    IL_KEY_OK = 0,
    IL_KEY_INCOMPLETE,             /* a part is empty, or there is none */
    IL_KEY_PART_TOO_LONG,
    IL_KEY_TOO_LONG,               /* whole key, cap, or number of parts */
    IL_KEY_MALFORMED,              /* not UTF-8; "%" without two hex digits;
                                      a raw control character or space */
    IL_KEY_DOT_SEGMENT             /* "." or ".." between slashes, which a
                                      URL cannot carry */
} il_key_rc_e;

/* Encodes and joins n parts into out (cap >= IL_KEY_MAX is always enough). */
il_key_rc_e il_key_build(char *out, size_t cap, size_t *len,
    const il_str_t *parts, size_t n) IL_MUST_CHECK;

/* Checks a key given as a whole, by the bounds of il_key_build; it is taken
 * as it stands ("%2f", "%2F" and "/" are three different texts). */
il_key_rc_e il_key_check(il_str_t key) IL_MUST_CHECK;

/* One short English sentence for a problem's detail. */
const char *il_key_strerror(il_key_rc_e rc);

/* Reads an Idempotency-Key header: bare, or a structured-field string
 * (draft-ietf-httpapi-idempotency-key-header-07, RFC 8941 section 3.3.3);
 * both spellings give the same key.  White space around is not part of it.
 * out has IL_IDEM_MAX bytes.  0, or -1 (empty, too long, control characters,
 * not UTF-8, or a broken quotation: other than printable ASCII between the
 * quotes, anything behind them). */
int il_idem_parse(il_str_t header, char *out, size_t *len) IL_MUST_CHECK;

/* 1 if s is a name: [a-z0-9] then [a-z0-9._-], at most IL_NAME_MAX. */
int il_name_valid(il_str_t s);

#pragma GCC visibility pop

#endif /* IL_KEY_H */
