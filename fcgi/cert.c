/*
 * cert.c: see cert.h.
 */

#include <stdio.h>

#include "cert.h"
#include "clock.h"


/* Intermediates that are fetched for one certificate. */
#define IL_CERT_ISSUERS_MAX  3


/*
 * One GET.  The URL was judged by il_sig_pk.h's rules; its host alone is the
 * list of hosts, so that a redirect leads nowhere else.  0 and an answer of
 * status 2xx in call; or -1, *rc and why.  Free call in any case.
 */

static int
il_cert_get(const il_cert_rules_t *rules, il_str_t url, const il_url_t *parsed,
    int64_t deadline, il_outcall_t *call, il_pk_rc_e *rc, char *why,
    size_t cap)
{
    int            six;
    char           host[300], bad[IL_PK_WHY_CAP - 16];
    il_outrules_t  out;

    memset(call, 0, sizeof(*call));

    six = (parsed->family == 6);

    (void) snprintf(host, sizeof(host), "%s%.*s%s:%u", six ? "[" : "",
                    (int) parsed->host.len, parsed->host.data,
                    six ? "]" : "", parsed->port);

    out.setting = "cert_hosts";
    out.hosts = host;
    out.private = rules->private;
    out.ca = rules->ca;
    out.agent = "interlock-cert";
    out.stopping = rules->stopping;

    *rc = IL_PK_UNAVAILABLE;

    if (url.len >= sizeof(call->url)) {
        (void) snprintf(why, cap, "the URL is too long");
        return -1;
    }

    memcpy(call->url, url.data, url.len);
    call->deadline = deadline;

    if (il_outcall_url(&out, il_str(call->url, url.len), &call->parsed, bad,
                       sizeof(bad)) != 0)
    {
        *rc = IL_PK_INVALID;
        (void) snprintf(why, cap, "the URL %s", bad);
        return -1;
    }

    if (il_outcall(&out, call) != 0) {
        (void) snprintf(why, cap, "%s", call->why);
        return -1;
    }

    if (call->status < 200 || call->status > 299) {

        /* there is no such thing there: the sender made it up; what is
         * refused for another reason may be there later */

        if (call->status == 404 || call->status == 410) {
            *rc = IL_PK_INVALID;
        }

        (void) snprintf(why, cap, "status %d", call->status);
        return -1;
    }

    return 0;
}


/* Adds the intermediate of this URL.  0, or -1 with *rc. */

static int
il_cert_issuer(const il_cert_rules_t *rules, il_pk_chain_t *chain,
    const char *url, int64_t deadline, il_pk_rc_e *rc)
{
    int           ok;
    char          why[IL_PK_WHY_CAP];
    il_url_t      parsed;
    il_outcall_t  call;

    if (il_sig_pk_issuer_url(il_cstr(url), il_cstr(rules->hosts), &parsed)
        != NULL)
    {
        return -1;
    }

    ok = il_cert_get(rules, il_cstr(url), &parsed, deadline, &call, rc, why,
                     sizeof(why)) == 0
         && il_pk_chain_add(chain, il_str(call.answer, call.answer_len)) == 0;

    il_outcall_free(&call);

    return ok ? 0 : -1;
}


static il_pk_key_t *
il_cert_verify(const il_cert_rules_t *rules, const il_sig_scheme_t *scheme,
    il_str_t file, int64_t deadline, int64_t *until, il_pk_rc_e *rc,
    char *why, size_t cap)
{
    char            issuer[IL_URL_MAX + 1];
    unsigned        n;
    il_pk_key_t    *key;
    il_pk_chain_t  *chain;

    *rc = IL_PK_INVALID;

    chain = il_pk_chain_new(file, why, cap);
    if (chain == NULL) {
        return NULL;
    }

    for (n = 0; /* void */ ; n++) {
        key = il_pk_chain_verify(chain, scheme, rules->ca,
                                 rules->now != 0 ? rules->now
                                                 : il_wall_ms() / 1000,
                                 until, issuer, sizeof(issuer), why, cap);

        if (key != NULL || issuer[0] == '\0' || n == IL_CERT_ISSUERS_MAX
            || il_cert_issuer(rules, chain, issuer, deadline, rc) != 0)
        {
            break;
        }

        *rc = IL_PK_INVALID;
    }

    il_pk_chain_free(chain);

    return key;
}


il_pk_key_t *
il_cert_fetch(const il_cert_rules_t *rules, const il_sig_scheme_t *scheme,
    il_str_t url, int64_t *until, il_pk_rc_e *rc, char *why, size_t cap)
{
    char           got[IL_PK_WHY_CAP];
    int64_t        deadline;
    il_url_t       parsed;
    const char    *bad;
    il_pk_key_t   *key;
    il_outcall_t   call;

    bad = il_sig_pk_cert_url(scheme, url, il_cstr(rules->hosts), &parsed);

    if (bad != NULL) {
        *rc = IL_PK_INVALID;
        (void) snprintf(why, cap, "the certificate's URL %s", bad);
        return NULL;
    }

    deadline = il_now_ms() + IL_CERT_TIMEOUT_MS;
    key = NULL;

    if (il_cert_get(rules, url, &parsed, deadline, &call, rc, got,
                    sizeof(got)) != 0)
    {
        (void) snprintf(why, cap, "the certificate could not be fetched: "
                        "%.*s", (int) cap - 64, got);

    } else {
        key = il_cert_verify(rules, scheme,
                             il_str(call.answer, call.answer_len), deadline,
                             until, rc, why, cap);
    }

    il_outcall_free(&call);

    return key;
}


il_pk_key_t *
il_cert_read(const il_cert_rules_t *rules, const il_sig_scheme_t *scheme,
    il_str_t file, int64_t *until, il_pk_rc_e *rc, char *why, size_t cap)
{
    return il_cert_verify(rules, scheme, file,
                          il_now_ms() + IL_CERT_TIMEOUT_MS, until, rc, why,
                          cap);
}


il_pk_rc_e
il_cert_confirm(const il_cert_rules_t *rules, il_str_t url, char *why,
    size_t cap)
{
    int            ok;
    char           got[IL_PK_WHY_CAP];
    il_url_t       parsed;
    il_pk_rc_e     rc;
    const char    *bad;
    il_outcall_t   call;

    bad = il_sig_pk_confirm_url(url, il_cstr(rules->hosts), &parsed);

    if (bad != NULL) {
        (void) snprintf(why, cap, "SubscribeURL %s", bad);
        return IL_PK_INVALID;
    }

    ok = il_cert_get(rules, url, &parsed, il_now_ms() + IL_CERT_TIMEOUT_MS,
                     &call, &rc, got, sizeof(got)) == 0;

    il_outcall_free(&call);

    if (!ok) {
        (void) snprintf(why, cap, "the subscription could not be confirmed: "
                        "%.*s", (int) cap - 64, got);

        /* the message itself was good: whoever sent it may send it again */

        return IL_PK_UNAVAILABLE;
    }

    return IL_PK_OK;
}
