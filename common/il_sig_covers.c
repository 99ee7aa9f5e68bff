/*
 * il_sig_covers.c: how much of a body a scheme's signature covers.
 */

#include "il_sig_int.h"


/* Where a notification of adyen's stands in a body that is not split. */
#define IL_SIG_ADYEN_AT  "/notificationItems/"


typedef struct {
    il_str_t            scheme;
    const char *const  *members;      /* pointers, up to NULL */
} il_sig_signed_t;


/* Not the signatures themselves: hex has two cases. */

static const char *const  il_sig_signed_adyen[] = {
    "/NotificationRequestItem/pspReference",
    "/NotificationRequestItem/originalReference",
    "/NotificationRequestItem/merchantAccountCode",
    "/NotificationRequestItem/merchantReference",
    "/NotificationRequestItem/amount/value",
    "/NotificationRequestItem/amount/currency",
    "/NotificationRequestItem/eventCode",
    "/NotificationRequestItem/success", NULL
};

static const char *const  il_sig_signed_mailgun[] = {
    "/signature/token", "/signature/timestamp", NULL
};

static const char *const  il_sig_signed_sns[] = {
    "/Message", "/MessageId", "/Subject", "/SubscribeURL", "/Timestamp",
    "/Token", "/TopicArn", "/Type", NULL
};

static const il_sig_signed_t  il_sig_signed[] = {
    { il_string("adyen"), il_sig_signed_adyen },
    { il_string("mailgun"), il_sig_signed_mailgun },
    { il_string("sns"), il_sig_signed_sns },
};


static const char *const *
il_sig_signed_members(const il_sig_conf_t *conf)
{
    size_t  i;

    if (conf->place == IL_SIG_IN_HEADER) {
        return NULL;
    }

    for (i = 0; i < sizeof(il_sig_signed) / sizeof(il_sig_signed[0]); i++) {
        if (il_str_eq(il_sig_signed[i].scheme, conf->scheme->name)) {
            return il_sig_signed[i].members;
        }
    }

    return NULL;
}


il_sig_covers_e
il_sig_conf_covers(const il_sig_conf_t *conf)
{
    if (il_sig_signed_members(conf) != NULL) {
        return IL_SIG_COVERS_MEMBERS;
    }

    return il_str_eq(conf->scheme->name, il_cstr("twilio"))
           ? IL_SIG_COVERS_FIELDS : IL_SIG_COVERS_BODY;
}


int
il_sig_conf_covers_member(const il_sig_conf_t *conf, il_str_t pointer)
{
    size_t              i;
    il_str_t            item;
    const char *const  *members;

    members = il_sig_signed_members(conf);

    if (members == NULL) {
        return 1;
    }

    item = pointer;

    if (members == il_sig_signed_adyen
        && il_sig_strip(&item, il_cstr(IL_SIG_ADYEN_AT)) == 0)
    {
        for (i = 0; i < item.len; i++) {
            if (item.data[i] < '0' || item.data[i] > '9') {
                break;
            }
        }

        pointer = il_str(item.data + i, item.len - i);
    }

    for ( /* void */ ; *members != NULL; members++) {
        if (il_str_eq(pointer, il_cstr(*members))) {
            return 1;
        }
    }

    return 0;
}
