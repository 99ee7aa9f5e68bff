/*
 * il_sig_twilio.c: Twilio signs the URL that it requested, and behind it the
 * form's fields in order of name, each name and value joined without any
 * separator.  A body that is not a form is covered by its SHA-256, which is
 * in the URL as bodySHA256.
 *
 * Sources: twilio.com/docs, "Webhooks security", and what twilio-node does
 * where the document is silent: the URL is tried with and without a port, a
 * value that a field has several times counts once, and the header
 * X-Twilio-Webhooks-Signature-Settings names the algorithm.
 */

#include <strings.h>

#include "il_enc.h"
#include "il_form.h"
#include "il_sig_int.h"


/* Sorting costs a multiple of the form's length before the sender is known.
 */
#define IL_SIG_TWILIO_FORM_MAX  (1024 * 1024)


typedef struct {
    il_str_t  host;             /* "https://user@host", no port */
    il_str_t  port;             /* ":8443", or the scheme's own */
    il_str_t  rest;             /* from the path on */
} il_sig_twilio_url_t;


static void
il_sig_twilio_split(il_str_t url, il_sig_twilio_url_t *u)
{
    int     colon;
    size_t  i, start, host, port;

    u->host = url;
    u->port = il_str(NULL, 0);
    u->rest = il_str(NULL, 0);

    for (start = 0; start + 3 <= url.len; start++) {
        if (memcmp(url.data + start, "://", 3) == 0) {
            break;
        }
    }

    if (start + 3 > url.len) {
        return;
    }

    host = start + 3;

    for (i = host; i < url.len; i++) {
        if (url.data[i] == '/' || url.data[i] == '?' || url.data[i] == '#') {
            break;
        }

        /* what is before the last one is a user's name and password */

        if (url.data[i] == '@') {
            host = i + 1;
        }
    }

    u->rest = il_str(url.data + i, url.len - i);
    colon = 0;
    port = i;

    for ( /* void */ ; host < i; host++) {
        if (url.data[host] == ']') {
            colon = 0;
            port = i;

        } else if (url.data[host] == ':' && !colon) {
            colon = 1;
            port = host;
        }
    }

    u->host.len = port;

    if (port != i) {
        u->port = il_str(url.data + port, i - port);

    } else if (start == 5 && strncasecmp(url.data, "https", 5) == 0) {
        u->port = il_cstr(":443");

    } else {
        u->port = il_cstr(":80");
    }
}


/* "key=…,algorithm=HMAC_SHA256"; without it the algorithm is SHA-1. */

static il_sig_why_e
il_sig_twilio_algorithm(const il_sig_request_t *req, il_sig_alg_e *alg)
{
    int           present;
    size_t        pos;
    il_str_t      settings, item;
    il_sig_why_e  why;

    *alg = IL_SIG_SHA1;

    why = il_sig_get_optional(req, "x-twilio-webhooks-signature-settings",
                              &settings, &present);

    if (why != IL_SIG_WHY_OK || !present) {
        return why;
    }

    pos = 0;

    while (il_sig_item(settings, ',', &pos, &item)) {
        item = il_str_trim(item);

        if (il_sig_strip(&item, il_cstr("algorithm=")) != 0) {
            continue;
        }

        if (il_str_eq(item, il_cstr("HMAC_SHA256"))) {
            *alg = IL_SIG_SHA256;

        } else if (il_str_eq(item, il_cstr("HMAC_SHA1"))) {
            *alg = IL_SIG_SHA1;

        } else {
            return IL_SIG_WHY_MALFORMED;
        }
    }

    return IL_SIG_WHY_OK;
}


/* The hash of the body that the URL has; *present is 0 if it has none. */

static il_sig_why_e
il_sig_twilio_hash(il_str_t url, uint8_t hash[crypto_hash_sha256_BYTES],
    int *present)
{
    size_t            pos;
    const char       *p;
    il_str_t          query;
    il_form_field_t   field;

    *present = 0;
    p = memchr(url.data, '?', url.len);

    if (p == NULL) {
        return IL_SIG_WHY_OK;
    }

    p++;
    query = il_str(p, url.len - (size_t) (p - url.data));
    pos = 0;

    while (il_form_next(query, &pos, &field)) {
        if (!il_str_eq(field.name, il_cstr("bodySHA256"))) {
            continue;
        }

        if (*present
            || il_hex_decode(hash, crypto_hash_sha256_BYTES, field.value)
               != 0)
        {
            return IL_SIG_WHY_MALFORMED;
        }

        *present = 1;
    }

    return IL_SIG_WHY_OK;
}


static int
il_sig_twilio_cmp(const il_form_field_t *a, const il_form_field_t *b)
{
    int  rc;

    rc = il_form_cmp(a->name, b->name);

    return rc != 0 ? rc : il_form_cmp(a->value, b->value);
}


static void
il_sig_twilio_sift(il_form_field_t *fields, size_t i, size_t n)
{
    size_t           child;
    il_form_field_t  f;

    f = fields[i];

    for ( ;; ) {
        child = 2 * i + 1;

        if (child >= n) {
            break;
        }

        if (child + 1 < n
            && il_sig_twilio_cmp(&fields[child], &fields[child + 1]) < 0)
        {
            child++;
        }

        if (il_sig_twilio_cmp(&f, &fields[child]) >= 0) {
            break;
        }

        fields[i] = fields[child];
        i = child;
    }

    fields[i] = f;
}


/* Heapsort: whatever is sent, it takes n log n steps and no memory. */

static void
il_sig_twilio_sort(il_form_field_t *fields, size_t n)
{
    size_t           i;
    il_form_field_t  f;

    for (i = n / 2; i > 0; i--) {
        il_sig_twilio_sift(fields, i - 1, n);
    }

    for (i = n; i > 1; i--) {
        f = fields[0];
        fields[0] = fields[i - 1];
        fields[i - 1] = f;
        il_sig_twilio_sift(fields, 0, i - 1);
    }
}


/* Writes names and values, decoded; out has room for the whole form. */

static il_sig_why_e
il_sig_twilio_join(const il_form_field_t *fields, size_t n, char *out,
    size_t cap, il_str_t *params)
{
    size_t  i, len, used;

    used = 0;

    for (i = 0; i < n; i++) {

        if (i != 0 && il_sig_twilio_cmp(&fields[i], &fields[i - 1]) == 0) {
            continue;
        }

        if (il_form_decode(fields[i].name, out + used, cap - used, &len)
            != 0)
        {
            return IL_SIG_WHY_BODY;
        }

        used += len;

        if (il_form_decode(fields[i].value, out + used, cap - used, &len)
            != 0)
        {
            return IL_SIG_WHY_BODY;
        }

        used += len;
    }

    *params = il_str(out, used);

    return IL_SIG_WHY_OK;
}


static il_sig_why_e
il_sig_twilio_form(const il_sig_request_t *req, il_str_t *params)
{
    size_t            i, n, pos;
    il_form_field_t  *fields;

    *params = il_str(NULL, 0);

    if (req->body.len > IL_SIG_TWILIO_FORM_MAX
        || il_form_check(req->body, &n) != IL_FORM_OK)
    {
        return IL_SIG_WHY_BODY;
    }

    if (n == 0) {
        return IL_SIG_WHY_OK;
    }

    fields = req->alloc == NULL ? NULL
             : req->alloc(req->ctx, n * sizeof(*fields) + req->body.len);

    if (fields == NULL) {
        return IL_SIG_WHY_MALFORMED;
    }

    pos = 0;

    for (i = 0; i < n && il_form_next(req->body, &pos, &fields[i]); i++) {
        /* void */
    }

    il_sig_twilio_sort(fields, i);

    return il_sig_twilio_join(fields, i, (char *) (fields + n),
                              req->body.len, params);
}


/* A body that no hash covers must be a form: anything else would pass with
 * the signature of a form whose fields it spells. */

static il_sig_why_e
il_sig_twilio_params(const il_sig_request_t *req, il_str_t *params)
{
    int           present;
    size_t        n;
    il_str_t      type;
    il_sig_why_e  why;

    static const char  form[] = "application/x-www-form-urlencoded";

    *params = il_str(NULL, 0);

    if (req->body.len == 0) {
        return IL_SIG_WHY_OK;
    }

    why = il_sig_get_optional(req, "content-type", &type, &present);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    n = sizeof(form) - 1;

    if (!present || type.len < n || strncasecmp(type.data, form, n) != 0
        || (type.len > n && type.data[n] != ';' && type.data[n] != ' '))
    {
        return IL_SIG_WHY_BODY;
    }

    return il_sig_twilio_form(req, params);
}


il_sig_why_e
il_sig_twilio(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    int                  hashed, found;
    uint8_t              hash[crypto_hash_sha256_BYTES];
    uint8_t              known[crypto_hash_sha256_BYTES];
    il_str_t             value, pieces[4];
    il_sig_alg_e         alg;
    il_sig_why_e         why;
    il_sig_list_t        list;
    il_sig_twilio_url_t  url;

    why = il_sig_get(req, "x-twilio-signature", &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    why = il_sig_twilio_algorithm(req, &alg);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_sig_decode(&list, alg, IL_SIG_BASE64, value) != 0
        || il_sig_twilio_hash(req->url, hash, &hashed) != IL_SIG_WHY_OK)
    {
        return IL_SIG_WHY_MALFORMED;
    }

    pieces[3] = il_str(NULL, 0);

    if (!hashed) {
        why = il_sig_twilio_params(req, &pieces[3]);
        if (why != IL_SIG_WHY_OK) {
            return why;
        }
    }

    il_sig_twilio_split(req->url, &url);

    pieces[0] = url.host;
    pieces[1] = il_str(NULL, 0);
    pieces[2] = url.rest;
    found = il_sig_try_secrets(conf, 0, alg, &list, pieces, 4);

    pieces[1] = url.port;
    found |= il_sig_try_secrets(conf, 0, alg, &list, pieces, 4);

    if (found && hashed) {
        (void) crypto_hash_sha256(known, (const uint8_t *) req->body.data,
                                  req->body.len);
        found = sodium_memcmp(hash, known, sizeof(known)) == 0;
    }

    return found ? IL_SIG_WHY_OK : IL_SIG_WHY_MISMATCH;
}
