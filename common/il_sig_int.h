/*
 * il_sig_int.h: what the il_sig_*.c files share; for them only.
 */

#ifndef IL_SIG_INT_H
#define IL_SIG_INT_H

#include "il_mac.h"
#include "il_sig.h"

#pragma GCC visibility push(hidden)

/* Arguments that a scheme has. */
#define IL_SIG_ARG_TOLERANCE  0x01
#define IL_SIG_ARG_HEADER     0x02
#define IL_SIG_ARG_PREFIX     0x04
#define IL_SIG_ARG_ALGORITHM  0x08
#define IL_SIG_ARG_ENCODING   0x10
#define IL_SIG_ARG_SIGNED     0x20

#define IL_SIG_TOLERANCE      300

/* Decodes one line of a secret file.  NULL, or what is wrong with it. */
typedef const char *(*il_sig_secret_pt)(il_sig_secret_t *secret,
    il_str_t line);

typedef il_sig_why_e (*il_sig_verify_pt)(const il_sig_conf_t *conf,
    const il_sig_request_t *req);

struct il_sig_scheme_s {
    il_str_t          name;
    int               provider;
    unsigned          args;
    il_sig_secret_pt  secret;
    il_sig_verify_pt  verify;
};

extern const il_sig_scheme_t  il_sig_schemes[];
extern const size_t           il_sig_nschemes;

/* il_sig_secret.c */
const char *il_sig_secret_text(il_sig_secret_t *secret, il_str_t line);
const char *il_sig_secret_standard(il_sig_secret_t *secret, il_str_t line);

#define IL_SIG_KIND_V1   0
#define IL_SIG_KIND_V1A  1

/* Pieces of a template. */
#define IL_SIG_PARTS_MAX  16

/* il_sig_template.c: `signed`.  NULL, or what is wrong with it. */
const char *il_sig_template_check(il_str_t t);

/* The parts of a template, one at a time. */
typedef enum {
    IL_SIG_PART_END = 0,
    IL_SIG_PART_TEXT,
    IL_SIG_PART_BODY,
    IL_SIG_PART_METHOD,
    IL_SIG_PART_URL,
    IL_SIG_PART_HEADER,
    IL_SIG_PART_TIMESTAMP,
    IL_SIG_PART_BAD
} il_sig_part_e;

/* Takes the next part at *pos; text is literal text, or a header's name. */
il_sig_part_e il_sig_template_next(il_str_t t, size_t *pos, il_str_t *text);

/* Lower-cases a header name, with a NUL; cap counts the NUL.  0, or -1 (too
 * long, empty, or not a header name). */
int il_sig_header_name(char *out, size_t cap, il_str_t name);

/* il_sig_util.c */

#define IL_SIG_SHA256_BYTES  32

/* The signatures that a request lists, decoded to the exact length. */
typedef struct {
    uint8_t  bytes[IL_SIG_LISTED_MAX][IL_MAC_MAX];
    size_t   n;
} il_sig_list_t;

/* The value of a header that must be there, once; its data is never NULL. */
il_sig_why_e il_sig_get(const il_sig_request_t *req, const char *name,
    il_str_t *value);

/* The same for a header that may be missing. */
il_sig_why_e il_sig_get_optional(const il_sig_request_t *req,
    const char *name, il_str_t *value, int *present);

/* Compares with the tolerance; at is at most 18 digits. */
il_sig_why_e il_sig_judge_time(const il_sig_conf_t *conf,
    const il_sig_request_t *req, int64_t at);

/* HMAC over the pieces with every secret of this kind: 1 if any result is
 * in the list.  All are computed and compared in any case. */
int il_sig_try_secrets(const il_sig_conf_t *conf, int kind, il_sig_alg_e alg,
    const il_sig_list_t *list, const il_str_t *pieces, size_t npieces);

/* Takes prefix off value: 0, or -1 if it does not start with it. */
int il_sig_strip(il_str_t *value, il_str_t prefix);

/* Takes the text up to the next separator at *pos: 1, or 0 at the end. */
int il_sig_item(il_str_t s, char separator, size_t *pos, il_str_t *item);

/* The schemes. */
il_sig_why_e il_sig_github(const il_sig_conf_t *conf,
    const il_sig_request_t *req);
il_sig_why_e il_sig_stripe(const il_sig_conf_t *conf,
    const il_sig_request_t *req);
il_sig_why_e il_sig_standard(const il_sig_conf_t *conf,
    const il_sig_request_t *req);
il_sig_why_e il_sig_token(const il_sig_conf_t *conf,
    const il_sig_request_t *req);
il_sig_why_e il_sig_hmac(const il_sig_conf_t *conf,
    const il_sig_request_t *req);

#pragma GCC visibility pop

#endif /* IL_SIG_INT_H */
