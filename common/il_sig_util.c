/*
 * il_sig_util.c: what the schemes have in common.
 */

#include <strings.h>

#include "il_enc.h"
#include "il_json.h"
#include "il_sig_int.h"


il_sig_why_e
il_sig_get(const il_sig_request_t *req, const char *name, il_str_t *value)
{
    size_t  count;

    count = 0;
    *value = req->header(req->ctx, name, &count);

    if (count == 0) {
        return IL_SIG_WHY_NO_HEADER;
    }

    if (value->data == NULL) {
        *value = il_str("", 0);
    }

    return count == 1 ? IL_SIG_WHY_OK : IL_SIG_WHY_REPEATED_HEADER;
}


il_sig_why_e
il_sig_get_optional(const il_sig_request_t *req, const char *name,
    il_str_t *value, int *present)
{
    il_sig_why_e  why;

    why = il_sig_get(req, name, value);
    *present = why != IL_SIG_WHY_NO_HEADER;

    return why == IL_SIG_WHY_NO_HEADER ? IL_SIG_WHY_OK : why;
}


il_sig_why_e
il_sig_get_either(const il_sig_request_t *req, const char *name,
    const char *other_name, il_str_t *value)
{
    int           has, has_other;
    il_str_t      other;
    il_sig_why_e  why;

    why = il_sig_get_optional(req, name, value, &has);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_get_optional(req, other_name, &other, &has_other);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (!has && !has_other) {
        return IL_SIG_WHY_NO_HEADER;
    }

    if (has && has_other && !il_str_eq(*value, other)) {
        return IL_SIG_WHY_REPEATED_HEADER;
    }

    if (!has) {
        *value = other;
    }

    return IL_SIG_WHY_OK;
}


il_sig_why_e
il_sig_once(const il_sig_request_t *req, const char *const *names)
{
    int           present;
    il_str_t      value;
    il_sig_why_e  why;

    for ( /* void */ ; *names != NULL; names++) {
        why = il_sig_get_optional(req, *names, &value, &present);

        if (why != IL_SIG_WHY_OK) {
            return why;
        }
    }

    return IL_SIG_WHY_OK;
}


il_sig_why_e
il_sig_judge_time(const il_sig_conf_t *conf, const il_sig_request_t *req,
    int64_t at)
{
    /* at has 18 digits at most: no overflow. */

    if (at < req->now - conf->tolerance) {
        return IL_SIG_WHY_TOO_OLD;
    }

    if (at > req->now + conf->tolerance) {
        return IL_SIG_WHY_IN_FUTURE;
    }

    return IL_SIG_WHY_OK;
}


int
il_sig_has_kind(const il_sig_conf_t *conf, int kind)
{
    size_t  i;

    for (i = 0; i < conf->nsecrets; i++) {
        if (conf->secrets[i].kind == kind) {
            return 1;
        }
    }

    return 0;
}


/* 1 if mac is in the list; looks at all of it. */

static int
il_sig_in_list(const il_sig_list_t *list, const uint8_t *mac, size_t len)
{
    int     found;
    size_t  i;

    found = 0;

    for (i = 0; i < list->n; i++) {
        found |= sodium_memcmp(list->bytes[i], mac, len) == 0;
    }

    return found;
}


int
il_sig_try_secrets(const il_sig_conf_t *conf, int kind, il_sig_alg_e alg,
    const il_sig_list_t *list, const il_str_t *pieces, size_t npieces)
{
    int       found;
    size_t    i, k;
    uint8_t   mac[IL_MAC_MAX];
    il_mac_t  m;

    found = 0;

    if (list->n == 0) {
        return 0;
    }

    for (i = 0; i < conf->nsecrets; i++) {
        if (conf->secrets[i].kind != kind) {
            continue;
        }

        if (alg == IL_SIG_SHA256) {
            il_mac_begin(&m, &conf->secrets[i].mac);

        } else {
            il_mac_init(&m, alg, conf->secrets[i].data, conf->secrets[i].len);
        }

        for (k = 0; k < npieces; k++) {
            il_mac_update(&m, pieces[k]);
        }

        il_mac_final(&m, mac);

        found |= il_sig_in_list(list, mac, il_mac_len(alg));
    }

    sodium_memzero(mac, sizeof(mac));

    return found;
}


int
il_sig_decode(il_sig_list_t *list, il_sig_alg_e alg, il_sig_enc_e enc,
    il_str_t value)
{
    size_t  n, want;

    want = il_mac_len(alg);
    n = want;

    if (enc == IL_SIG_HEX) {
        if (il_hex_decode(list->bytes[0], want, value) != 0) {
            return -1;
        }

    } else if (il_b64_decode(list->bytes[0], IL_MAC_MAX, &n, value,
                             IL_B64_STD) != 0)
    {
        return -1;
    }

    list->n = 1;

    return n == want ? 0 : -1;
}


int
il_sig_strip(il_str_t *value, il_str_t prefix)
{
    if (prefix.len == 0) {
        return 0;
    }

    if (value->len < prefix.len
        || memcmp(value->data, prefix.data, prefix.len) != 0)
    {
        return -1;
    }

    value->data += prefix.len;
    value->len -= prefix.len;

    return 0;
}


int
il_sig_strip_prefix(const il_sig_conf_t *conf, il_str_t *value)
{
    il_str_t  p;

    p = conf->prefix;

    if (p.len == 0 || p.data[p.len - 1] != ' '
        || strcmp(conf->header, "authorization") != 0)
    {
        return il_sig_strip(value, p);
    }

    if (value->len < p.len || strncasecmp(value->data, p.data, p.len) != 0) {
        return -1;
    }

    value->data += p.len;
    value->len -= p.len;

    while (value->len != 0 && value->data[0] == ' ') {
        value->data++;
        value->len--;
    }

    return 0;
}


int
il_sig_item(il_str_t s, char separator, size_t *pos, il_str_t *item)
{
    size_t  start;

    if (*pos > s.len) {
        return 0;
    }

    start = *pos;

    while (*pos < s.len && s.data[*pos] != separator) {
        (*pos)++;
    }

    *item = il_str(s.data + start, *pos - start);
    (*pos)++;

    return 1;
}


int
il_sig_is_object(il_str_t text)
{
    il_json_value_t  whole;

    return il_json_find(text, il_str("", 0), &whole) == IL_JSON_OK
           && whole.type == IL_JSON_OBJECT;
}
