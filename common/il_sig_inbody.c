/*
 * il_sig_inbody.c: schemes that carry the signature in the body, which
 * therefore cannot be covered as a whole.
 *
 * mailgun (documentation.mailgun.com, "Securing webhooks") covers a timestamp
 * and a token only: whoever has seen one request can put any event behind its
 * signature while the timestamp is fresh, if the token is not used as the
 * idempotency key.
 *
 * adyen (docs.adyen.com, "Verify HMAC signatures") covers eight fields of
 * each notification; its platform webhooks have an HMAC over the whole body
 * in a header instead, made with the same key (`signature=header`).
 */

#include "il_enc.h"
#include "il_json.h"
#include "il_sig_int.h"
#include "il_time.h"


#define IL_SIG_FIELD_MAX   256        /* bytes of a field of mailgun's */
#define IL_SIG_JOINED_MAX  4096       /* bytes of adyen's fields together */

/* Notifications in one body; Adyen's documents speak of up to six. */
#define IL_SIG_ADYEN_ITEMS  1000

/* Bytes of one of them: it is read once for each field, before the sender is
 * known. */
#define IL_SIG_ADYEN_ITEM_MAX  (1024 * 1024)


/* The text of a scalar in a document that has been checked; an empty one if
 * it is missing or null.  0, or -1. */

static int
il_sig_scalar(il_str_t doc, const char *pointer, char *out, size_t cap,
    il_str_t *text)
{
    size_t           n;
    il_json_rc_e     rc;
    il_json_value_t  value;

    *text = il_str("", 0);
    rc = il_json_lookup(doc, il_cstr(pointer), &value);

    if (rc == IL_JSON_MISSING
        || (rc == IL_JSON_OK && value.type == IL_JSON_NULL))
    {
        return 0;
    }

    if (rc != IL_JSON_OK || il_json_scalar(&value, out, cap, &n) != 0) {
        return -1;
    }

    *text = il_str(out, n);

    return 0;
}


/* Decodes a signature that may be missing, behind those that list has. */

static int
il_sig_mailgun_signature(il_str_t doc, const char *pointer,
    il_sig_list_t *list)
{
    char      text[IL_SIG_FIELD_MAX];
    il_str_t  value;

    if (il_sig_scalar(doc, pointer, text, sizeof(text), &value) != 0) {
        return -1;
    }

    if (value.len == 0) {
        return 0;
    }

    return il_hex_decode(list->bytes[list->n++], IL_SIG_SHA256_BYTES, value);
}


/* Events of a subaccount have a second signature, by the main account. */

il_sig_why_e
il_sig_mailgun(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    char           text[2][IL_SIG_FIELD_MAX];
    int64_t        at;
    il_str_t       pieces[2];
    il_sig_list_t  list;

    list.n = 0;

    if (il_json_check(req->body) != IL_JSON_OK
        || il_sig_scalar(req->body, "/signature/timestamp", text[0],
                         sizeof(text[0]), &pieces[0]) != 0
        || il_sig_scalar(req->body, "/signature/token", text[1],
                         sizeof(text[1]), &pieces[1]) != 0
        || il_sig_mailgun_signature(req->body, "/signature/signature", &list)
           != 0
        || il_sig_mailgun_signature(req->body, "/signature/parent-signature",
                                    &list) != 0)
    {
        return IL_SIG_WHY_BODY;
    }

    /* Time and token are not divided: a digit that is taken from one and
     * given to the other makes a time that is far out of range. */

    if (pieces[1].len == 0 || list.n == 0
        || il_digits_parse(pieces[0], 18, &at) != 0)
    {
        return IL_SIG_WHY_BODY;
    }

    if (!il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, pieces, 2)) {
        return IL_SIG_WHY_MISMATCH;
    }

    return il_sig_judge_time(conf, req, at);
}


static const char *const  il_sig_adyen_fields[] = {
    "/pspReference", "/originalReference", "/merchantAccountCode",
    "/merchantReference", "/amount/value", "/amount/currency", "/eventCode",
    "/success",
};

#define IL_SIG_ADYEN_REFERENCE  3     /* merchantReference */


/*
 * Joins the signed fields.  They are not escaped, so that "a:b" and "c" would
 * sign as "a" and "b:c" do.  Only the merchant's own reference may have a
 * colon (none of the others ever has): then there is one way only to read the
 * signed text.  A quote in the first field would let the body of a platform
 * webhook, signed with the same key, be presented as fields.
 */

static int
il_sig_adyen_join(il_str_t item, char *out, size_t cap, il_str_t *joined)
{
    size_t    i, used;
    il_str_t  text;

    used = 0;

    for (i = 0; i < sizeof(il_sig_adyen_fields)
                    / sizeof(il_sig_adyen_fields[0]); i++)
    {
        if (i != 0) {
            if (used == cap) {
                return -1;
            }

            out[used++] = ':';
        }

        if (il_sig_scalar(item, il_sig_adyen_fields[i], out + used,
                          cap - used, &text) != 0)
        {
            return -1;
        }

        if (i != IL_SIG_ADYEN_REFERENCE
            && memchr(text.data, ':', text.len) != NULL)
        {
            return -1;
        }

        if (i == 0 && memchr(text.data, '"', text.len) != NULL) {
            return -1;
        }

        used += text.len;
    }

    *joined = il_str(out, used);

    return 0;
}


static il_sig_why_e
il_sig_adyen_item(const il_sig_conf_t *conf, il_str_t element)
{
    char             text[IL_SIG_FIELD_MAX], joined[IL_SIG_JOINED_MAX];
    il_str_t         signature, piece;
    il_sig_list_t    list;
    il_json_value_t  item;

    if (element.len > IL_SIG_ADYEN_ITEM_MAX
        || il_json_lookup(element, il_cstr("/NotificationRequestItem"), &item)
           != IL_JSON_OK
        || item.type != IL_JSON_OBJECT
        || il_sig_scalar(item.raw, "/additionalData/hmacSignature", text,
                         sizeof(text), &signature) != 0
        || il_sig_adyen_join(item.raw, joined, sizeof(joined), &piece) != 0
        || il_sig_decode(&list, IL_SIG_SHA256, IL_SIG_BASE64, signature) != 0)
    {
        return IL_SIG_WHY_BODY;
    }

    return il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, &piece, 1)
           ? IL_SIG_WHY_OK : IL_SIG_WHY_MISMATCH;
}


/* Every notification must have its own signature, and there must be one. */

static il_sig_why_e
il_sig_adyen_items(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    size_t           n, pos;
    il_str_t         name;
    il_sig_why_e     why;
    il_json_value_t  items, element;

    if (il_json_find(req->body, il_cstr("/notificationItems"), &items)
        != IL_JSON_OK
        || items.type != IL_JSON_ARRAY)
    {
        return IL_SIG_WHY_BODY;
    }

    n = 0;
    pos = 0;

    while (il_json_next(items, &pos, &name, &element)) {

        if (++n > IL_SIG_ADYEN_ITEMS) {
            return IL_SIG_WHY_BODY;
        }

        why = il_sig_adyen_item(conf, element.raw);

        if (why != IL_SIG_WHY_OK) {
            return why;
        }
    }

    return n != 0 ? IL_SIG_WHY_OK : IL_SIG_WHY_BODY;
}


/*
 * The location says which of the two it gets.  If either would do, a
 * notification of which only some fields are signed could be sent to where
 * the whole body is taken for signed.
 */

il_sig_why_e
il_sig_adyen(const il_sig_conf_t *conf, const il_sig_request_t *req)
{
    il_str_t       value;
    il_sig_why_e   why;
    il_sig_list_t  list;

    if (conf->place == IL_SIG_IN_ITEMS) {
        return il_sig_adyen_items(conf, req);
    }

    why = il_sig_get(req, "hmacsignature", &value);
    if (why != IL_SIG_WHY_OK) {
        return why;
    }

    if (il_sig_decode(&list, IL_SIG_SHA256, IL_SIG_BASE64, value) != 0) {
        return IL_SIG_WHY_MALFORMED;
    }

    if (!il_sig_try_secrets(conf, 0, IL_SIG_SHA256, &list, &req->body, 1)) {
        return IL_SIG_WHY_MISMATCH;
    }

    /* The fields of a notification, joined, are signed with the same key:
     * they are no JSON object and must not pass for a body. */

    return il_sig_is_object(req->body) ? IL_SIG_WHY_OK : IL_SIG_WHY_BODY;
}
