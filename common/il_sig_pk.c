/*
 * il_sig_pk.c: what requests of sendgrid, paypal and sns look like, and which
 * of their bytes are signed.
 */

#include <stdio.h>

#include "il_enc.h"
#include "il_json.h"
#include "il_sig_int.h"
#include "il_sig_pk.h"
#include "il_time.h"


/* Messages are 256 kB at most, and JSON makes six bytes of one at worst. */
#define IL_SNS_MAX    (2 << 20)

#define IL_PAYPAL_ID  128


static const char *
il_sig_pk_header(const il_sig_request_t *req, const char *name,
    il_str_t *value)
{
    il_sig_why_e  why;

    why = il_sig_get(req, name, value);

    return why == IL_SIG_WHY_OK ? NULL : il_sig_strwhy(why);
}


static void
il_sig_pk_piece(il_sig_pk_t *pk, il_str_t piece)
{
    if (pk->npieces < IL_SIG_PK_PIECES) {
        pk->pieces[pk->npieces++] = piece;
    }
}


static const char *
il_sig_pk_signature(il_sig_pk_t *pk, il_str_t text)
{
    if (il_b64_decode(pk->signature, sizeof(pk->signature),
                      &pk->signature_len, text, IL_B64_STD) != 0
        || pk->signature_len == 0)
    {
        return "the signature is not base64";
    }

    return NULL;
}


/* ----------------------------------------------------------------- sendgrid
 *
 * ECDSA with P-256 and SHA-256 over timestamp and body, DER in base64. */

static const char *
il_sig_pk_sendgrid(const il_sig_request_t *req, il_sig_pk_t *pk)
{
    il_str_t     at, signature;
    const char  *why;

    why = il_sig_pk_header(req, "x-twilio-email-event-webhook-signature",
                           &signature);
    if (why != NULL) {
        return why;
    }

    why = il_sig_pk_header(req, "x-twilio-email-event-webhook-timestamp", &at);
    if (why != NULL) {
        return why;
    }

    if (il_digits_parse(at, 18, &pk->at) != 0) {
        return "the timestamp is not a number";
    }

    pk->ec = 1;
    pk->algorithm = IL_SIG_SHA256;
    il_sig_pk_piece(pk, at);
    il_sig_pk_piece(pk, req->body);

    return il_sig_pk_signature(pk, signature);
}


int
il_sig_pk_spki(const il_sig_secret_t *secret, uint8_t der[IL_SIG_PK_SPKI])
{
    size_t  n;

    /* id-ecPublicKey, prime256v1, a point that is not compressed */

    static const uint8_t  head[] = {
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d,
        0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01,
        0x07, 0x03, 0x42, 0x00, 0x04
    };

    return il_b64_decode(der, IL_SIG_PK_SPKI, &n,
                         il_str((const char *) secret->data, secret->len),
                         IL_B64_STD) == 0
           && n == IL_SIG_PK_SPKI && memcmp(der, head, sizeof(head)) == 0
           ? 0 : -1;
}


/* ------------------------------------------------------------------- paypal
 *
 * RSA with SHA-256 over "id|time|webhook id|CRC-32 of the body".  A CRC binds
 * nobody to a body: whoever has one signed request could send another body
 * with it.  What stands against that is the time. */


/* CRC-32 as in zlib (ISO 3309), four bits at a time. */

static uint32_t
il_sig_pk_crc32(il_str_t s)
{
    size_t    i;
    uint32_t  c;

    static const uint32_t  table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
        0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c
    };

    c = 0xffffffff;

    for (i = 0; i < s.len; i++) {
        c ^= (uint8_t) s.data[i];
        c = table[c & 15] ^ (c >> 4);
        c = table[c & 15] ^ (c >> 4);
    }

    return c ^ 0xffffffff;
}


static const char *
il_sig_pk_paypal(const il_sig_request_t *req, il_sig_pk_t *pk)
{
    size_t       i;
    int64_t      ms;
    il_str_t     v[5];
    const char  *why;

    static const char *const  names[] = {
        "paypal-transmission-id", "paypal-transmission-time",
        "paypal-transmission-sig", "paypal-cert-url", "paypal-auth-algo"
    };

    for (i = 0; i < 5; i++) {
        why = il_sig_pk_header(req, names[i], &v[i]);
        if (why != NULL) {
            return why;
        }
    }

    /* "|" would let the signed fields be cut in another way */

    if (v[0].len == 0 || v[0].len > IL_PAYPAL_ID || il_has_control(v[0])
        || memchr(v[0].data, '|', v[0].len) != NULL)
    {
        return "the transmission id is malformed";
    }

    if (il_rfc3339_parse(v[1], &ms) != 0) {
        return "the transmission time is not RFC 3339";
    }

    if (!il_str_eq(v[4], il_cstr("SHA256withRSA"))) {
        return "the algorithm is not SHA256withRSA";
    }

    (void) snprintf(pk->crc, sizeof(pk->crc), "%lu",
                    (unsigned long) il_sig_pk_crc32(req->body));

    pk->at = ms / 1000;
    pk->algorithm = IL_SIG_SHA256;
    pk->cert_url = v[3];

    il_sig_pk_piece(pk, v[0]);
    il_sig_pk_piece(pk, il_cstr("|"));
    il_sig_pk_piece(pk, v[1]);
    il_sig_pk_piece(pk, il_cstr("|"));
    pk->blank = pk->npieces;
    il_sig_pk_piece(pk, il_str("", 0));
    il_sig_pk_piece(pk, il_cstr("|"));
    il_sig_pk_piece(pk, il_cstr(pk->crc));

    return il_sig_pk_signature(pk, v[2]);
}


/* ---------------------------------------------------------------------- sns
 *
 * RSA with SHA-1 (version 1) or SHA-256 (version 2) over "Name\nValue\n" of
 * the fields that the type of message has, in order of name. */

typedef enum {
    IL_SNS_MESSAGE = 0,
    IL_SNS_ID,
    IL_SNS_SUBJECT,
    IL_SNS_SUBSCRIBE,
    IL_SNS_TIME,
    IL_SNS_TOKEN,
    IL_SNS_TOPIC,
    IL_SNS_TYPE,
    IL_SNS_SIGNED,                  /* those below are not */
    IL_SNS_VERSION = IL_SNS_SIGNED,
    IL_SNS_SIGNATURE,
    IL_SNS_CERT,
    IL_SNS_MAX_FIELD
} il_sns_field_e;


_Static_assert(4 * IL_SNS_SIGNED <= IL_SIG_PK_PIECES,
               "a message has more pieces than there is room for");


static const char *const  il_sns_names[] = {
    "Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token",
    "TopicArn", "Type", "SignatureVersion", "Signature", "SigningCertURL"
};


/* Unescapes the fields into room, which has space for the whole body.  A
 * field that is missing, or null, has data NULL. */

static const char *
il_sns_fields(il_str_t body, char *room, il_str_t *f)
{
    char             pointer[32];
    size_t           i, n;
    il_json_rc_e     rc;
    il_json_value_t  v;

    if (il_json_check(body) != IL_JSON_OK) {
        return "the body is not JSON (is raw message delivery on? that is "
               "not signed)";
    }

    for (i = 0; i < IL_SNS_MAX_FIELD; i++) {
        f[i] = il_str(NULL, 0);

        (void) snprintf(pointer, sizeof(pointer), "/%s", il_sns_names[i]);
        rc = il_json_lookup(body, il_cstr(pointer), &v);

        if (rc == IL_JSON_MISSING
            || (rc == IL_JSON_OK && v.type == IL_JSON_NULL))
        {
            continue;
        }

        if (rc != IL_JSON_OK || v.type != IL_JSON_STRING
            || il_json_unescape(v.raw, room, v.raw.len, &n) != 0)
        {
            return "a field of the message is there twice, or is no string";
        }

        f[i] = il_str(room, n);
        room += n;
    }

    return NULL;
}


static const char *
il_sns_type(const il_str_t *f, il_sig_pk_t *pk)
{
    if (f[IL_SNS_TYPE].data == NULL || f[IL_SNS_SIGNATURE].data == NULL
        || f[IL_SNS_CERT].data == NULL)
    {
        return "the body has no Type, Signature or SigningCertURL (is raw "
               "message delivery on? that is not signed)";
    }

    if (il_str_eq(f[IL_SNS_TYPE], il_cstr("Notification"))) {
        pk->type = IL_SIG_PK_MESSAGE;

    } else if (il_str_eq(f[IL_SNS_TYPE],
                         il_cstr("SubscriptionConfirmation")))
    {
        pk->type = IL_SIG_PK_SUBSCRIBE;

    } else if (il_str_eq(f[IL_SNS_TYPE], il_cstr("UnsubscribeConfirmation"))) {
        pk->type = IL_SIG_PK_UNSUBSCRIBE;

    } else {
        return "the message's Type is unknown";
    }

    if (il_str_eq(f[IL_SNS_VERSION], il_cstr("1"))) {
        pk->algorithm = IL_SIG_SHA1;

    } else if (il_str_eq(f[IL_SNS_VERSION], il_cstr("2"))) {
        pk->algorithm = IL_SIG_SHA256;

    } else {
        return "the message's SignatureVersion is neither 1 nor 2";
    }

    return NULL;
}


/* Which fields are signed, which of them may be missing. */

static const char *
il_sns_signed(const il_str_t *f, il_sig_pk_t *pk)
{
    size_t  i;

    for (i = 0; i < IL_SNS_SIGNED; i++) {

        if (pk->type == IL_SIG_PK_MESSAGE
            ? i == IL_SNS_SUBSCRIBE || i == IL_SNS_TOKEN
            : i == IL_SNS_SUBJECT)
        {
            continue;
        }

        if (f[i].data == NULL) {
            if (i == IL_SNS_SUBJECT) {
                continue;
            }

            return "a signed field of the message is missing";
        }

        il_sig_pk_piece(pk, il_cstr(il_sns_names[i]));
        il_sig_pk_piece(pk, il_cstr("\n"));
        il_sig_pk_piece(pk, f[i]);
        il_sig_pk_piece(pk, il_cstr("\n"));
    }

    return NULL;
}


/* One of the secrets: a topic, or the beginning of topics' names and "*". */

static int
il_sns_topic(const il_sig_conf_t *conf, il_str_t topic)
{
    size_t    i;
    il_str_t  known;

    for (i = 0; i < conf->nsecrets; i++) {
        known = il_str((const char *) conf->secrets[i].data,
                       conf->secrets[i].len);

        if (known.len != 0 && known.data[known.len - 1] == '*') {
            known.len--;

            if (topic.len > known.len
                && memcmp(topic.data, known.data, known.len) == 0)
            {
                return 1;
            }

            continue;
        }

        if (il_str_eq(topic, known)) {
            return 1;
        }
    }

    return 0;
}


static const char *
il_sig_pk_sns(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_sig_pk_t *pk)
{
    char        *room;
    int64_t      ms;
    il_str_t     f[IL_SNS_MAX_FIELD];
    const char  *why;

    if (req->body.len == 0 || req->body.len > IL_SNS_MAX) {
        return "the body is empty, or larger than a message can be";
    }

    room = req->alloc == NULL ? NULL : req->alloc(req->ctx, req->body.len);
    if (room == NULL) {
        return "out of memory";
    }

    why = il_sns_fields(req->body, room, f);

    if (why == NULL) {
        why = il_sns_type(f, pk);
    }

    if (why == NULL) {
        why = il_sns_signed(f, pk);
    }

    if (why != NULL) {
        return why;
    }

    if (il_rfc3339_parse(f[IL_SNS_TIME], &ms) != 0) {
        return "the message's Timestamp is not RFC 3339";
    }

    if (!il_sns_topic(conf, f[IL_SNS_TOPIC])) {
        return "the message's TopicArn is not of this source";
    }

    pk->at = ms / 1000;
    pk->topic = f[IL_SNS_TOPIC];
    pk->cert_url = f[IL_SNS_CERT];
    pk->subscribe_url = f[IL_SNS_SUBSCRIBE];

    return il_sig_pk_signature(pk, f[IL_SNS_SIGNATURE]);
}


/* ---------------------------------------------------------------------- all */


const char *
il_sig_pk_read(const il_sig_conf_t *conf, const il_sig_request_t *req,
    il_sig_pk_t *pk)
{
    il_str_t  name;

    memset(pk, 0, sizeof(*pk));
    pk->blank = IL_SIG_PK_PIECES;

    name = il_sig_scheme_name(conf->scheme);

    if (conf->nsecrets == 0) {
        return "there is no key for it";
    }

    if (il_str_eq(name, il_cstr("sendgrid"))) {
        return il_sig_pk_sendgrid(req, pk);
    }

    if (il_str_eq(name, il_cstr("paypal"))) {
        return il_sig_pk_paypal(req, pk);
    }

    if (il_str_eq(name, il_cstr("sns"))) {
        return il_sig_pk_sns(conf, req, pk);
    }

    return "the scheme has no public keys";
}


size_t
il_sig_pk_ways(const il_sig_conf_t *conf, const il_sig_pk_t *pk)
{
    return pk->ec || pk->blank != IL_SIG_PK_PIECES
           ? conf->nsecrets : 1;
}


size_t
il_sig_pk_signed(const il_sig_conf_t *conf, const il_sig_pk_t *pk, size_t i,
    il_str_t pieces[IL_SIG_PK_PIECES])
{
    memcpy(pieces, pk->pieces, sizeof(pk->pieces));

    if (pk->blank != IL_SIG_PK_PIECES) {
        pieces[pk->blank] = il_str((const char *) conf->secrets[i].data,
                                   conf->secrets[i].len);
    }

    return pk->npieces;
}


il_sig_why_e
il_sig_pk_time(const il_sig_conf_t *conf, const il_sig_request_t *req,
    const il_sig_pk_t *pk)
{
    return il_sig_judge_time(conf, req, pk->at);
}
