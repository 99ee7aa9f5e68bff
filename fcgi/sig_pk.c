/*
 * sig_pk.c: the one file that touches OpenSSL.
 */

#include <stdio.h>
#include <stdlib.h>

#include "sig_pk.h"


il_pk_rc_e
il_pk_early(const il_sig_conf_t *conf, const il_sig_request_t *req,
    const il_sig_pk_t *pk, const char **why)
{
    il_sig_why_e  w;

    w = pk->ec ? IL_SIG_WHY_OK : il_sig_pk_time(conf, req, pk);
    *why = il_sig_strwhy(w);

    return w == IL_SIG_WHY_OK ? IL_PK_OK : IL_PK_TIMESTAMP;
}


#if (IL_HAVE_OPENSSL)

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>


#define IL_PK_CERTS_MAX  8          /* in one file */
#define IL_PK_RSA_MIN    2048
#define IL_PK_RSA_MAX    (IL_SIG_PK_BYTES * 8)


struct il_pk_key_s {
    EVP_PKEY  *pkey;
    unsigned   refs;
};


struct il_pk_chain_s {
    X509            *leaf;
    STACK_OF(X509)  *others;
};


const char *
il_pk_missing(void)
{
    return NULL;
}


il_pk_key_t *
il_pk_key_ref(il_pk_key_t *key)
{
    if (key != NULL) {
        (void) __atomic_add_fetch(&key->refs, 1, __ATOMIC_RELAXED);
    }

    return key;
}


void
il_pk_key_free(il_pk_key_t *key)
{
    if (key != NULL
        && __atomic_sub_fetch(&key->refs, 1, __ATOMIC_ACQ_REL) == 0)
    {
        EVP_PKEY_free(key->pkey);
        free(key);
    }
}


/* --------------------------------------------------------------- signatures */


static int
il_pk_check(EVP_PKEY *pkey, const il_sig_pk_t *pk, const il_str_t *pieces,
    size_t n)
{
    int            ok;
    size_t         i;
    EVP_MD_CTX    *ctx;
    const EVP_MD  *md;

    if (EVP_PKEY_get_base_id(pkey) != (pk->ec ? EVP_PKEY_EC : EVP_PKEY_RSA)) {
        return 0;
    }

    md = pk->algorithm == IL_SIG_SHA1 ? EVP_sha1() : EVP_sha256();

    ctx = EVP_MD_CTX_new();
    ok = (ctx != NULL
          && EVP_DigestVerifyInit(ctx, NULL, md, NULL, pkey) == 1);

    for (i = 0; ok && i < n; i++) {
        ok = (EVP_DigestVerifyUpdate(ctx, pieces[i].data, pieces[i].len) == 1);
    }

    ok = (ok && EVP_DigestVerifyFinal(ctx, pk->signature, pk->signature_len)
                == 1);

    EVP_MD_CTX_free(ctx);
    ERR_clear_error();

    return ok;
}


/* With one of the secrets for a key. */

static int
il_pk_check_secret(const il_sig_secret_t *secret, const il_sig_pk_t *pk,
    const il_str_t *pieces, size_t n)
{
    int             ok;
    uint8_t         der[IL_SIG_PK_SPKI];
    EVP_PKEY       *pkey;
    const uint8_t  *p;

    if (il_sig_pk_spki(secret, der) != 0) {
        return 0;
    }

    p = der;
    pkey = d2i_PUBKEY(NULL, &p, sizeof(der));

    ok = (pkey != NULL && il_pk_check(pkey, pk, pieces, n));

    EVP_PKEY_free(pkey);
    ERR_clear_error();

    return ok;
}


il_pk_rc_e
il_pk_verify(const il_sig_conf_t *conf, const il_sig_request_t *req,
    const il_sig_pk_t *pk, const il_pk_key_t *key, const char **why)
{
    int           ok;
    size_t        i, n;
    il_str_t      pieces[IL_SIG_PK_PIECES];
    il_sig_why_e  w;

    ok = 0;

    for (i = 0; !ok && i < il_sig_pk_ways(conf, pk); i++) {
        n = il_sig_pk_signed(conf, pk, i, pieces);

        ok = pk->ec ? il_pk_check_secret(&conf->secrets[i], pk, pieces, n)
                    : key != NULL && il_pk_check(key->pkey, pk, pieces, n);
    }

    w = ok ? il_sig_pk_time(conf, req, pk) : IL_SIG_WHY_MISMATCH;
    *why = w == IL_SIG_WHY_MISMATCH ? "the signature does not fit"
                                    : il_sig_strwhy(w);

    return w == IL_SIG_WHY_OK ? IL_PK_OK
           : w == IL_SIG_WHY_MISMATCH ? IL_PK_INVALID : IL_PK_TIMESTAMP;
}


/* ------------------------------------------------------------- certificates */


/* Pushes the certificates of a file in PEM; how many there were. */

static int
il_pk_read_pem(STACK_OF(X509) *certs, il_str_t file)
{
    int    n;
    BIO   *bio;
    X509  *x;

    bio = BIO_new_mem_buf(file.data, (int) file.len);
    if (bio == NULL) {
        return 0;
    }

    for (n = 0; n < IL_PK_CERTS_MAX; n++) {
        x = PEM_read_bio_X509(bio, NULL, NULL, NULL);

        if (x == NULL) {
            break;
        }

        if (sk_X509_push(certs, x) <= 0) {
            X509_free(x);
            break;
        }
    }

    (void) BIO_free(bio);
    ERR_clear_error();

    return n;
}


il_pk_chain_t *
il_pk_chain_new(il_str_t file, char *why, size_t cap)
{
    il_pk_chain_t  *chain;

    chain = calloc(1, sizeof(il_pk_chain_t));

    if (chain != NULL) {
        chain->others = sk_X509_new_null();
    }

    if (chain == NULL || chain->others == NULL) {
        il_pk_chain_free(chain);
        (void) snprintf(why, cap, "out of memory");
        return NULL;
    }

    if (file.len == 0 || file.len > INT32_MAX
        || il_pk_read_pem(chain->others, file) == 0)
    {
        il_pk_chain_free(chain);
        (void) snprintf(why, cap, "there is no certificate in PEM");
        return NULL;
    }

    chain->leaf = sk_X509_shift(chain->others);

    return chain;
}


int
il_pk_chain_add(il_pk_chain_t *chain, il_str_t file)
{
    X509           *x;
    const uint8_t  *p;

    if (file.len == 0 || file.len > INT32_MAX
        || sk_X509_num(chain->others) >= IL_PK_CERTS_MAX)
    {
        return -1;
    }

    if (il_pk_read_pem(chain->others, file) != 0) {
        return 0;
    }

    p = (const uint8_t *) file.data;
    x = d2i_X509(NULL, &p, (long) file.len);
    ERR_clear_error();

    if (x == NULL || sk_X509_push(chain->others, x) <= 0) {
        X509_free(x);
        return -1;
    }

    return 0;
}


void
il_pk_chain_free(il_pk_chain_t *chain)
{
    if (chain == NULL) {
        return;
    }

    X509_free(chain->leaf);
    sk_X509_pop_free(chain->others, X509_free);
    free(chain);
}


static il_str_t
il_pk_asn1(const ASN1_STRING *s)
{
    return il_str((const char *) ASN1_STRING_get0_data(s),
                  (size_t) ASN1_STRING_length(s));
}


/* Its names: those of the extension, or, without any, the common one. */

static int
il_pk_named(X509 *leaf, const il_sig_scheme_t *scheme)
{
    int              i, n, found;
    GENERAL_NAME    *name;
    GENERAL_NAMES   *names;
    ASN1_STRING     *cn;
    const X509_NAME *subject;

    names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    found = 0;
    n = 0;

    for (i = 0; names != NULL && i < sk_GENERAL_NAME_num(names); i++) {
        name = sk_GENERAL_NAME_value(names, i);

        if (name->type == GEN_DNS) {
            n++;
            found |= il_sig_pk_name(scheme, il_pk_asn1(name->d.dNSName));
        }
    }

    GENERAL_NAMES_free(names);

    if (n != 0) {
        return found;
    }

    subject = X509_get_subject_name(leaf);
    i = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

    if (i < 0) {
        return 0;
    }

    cn = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i));

    return cn != NULL && il_sig_pk_name(scheme, il_pk_asn1(cn));
}


/* Where the issuer's certificate can be had (RFC 5280, section 4.2.2.1). */

static void
il_pk_issuer(X509 *x, char *url, size_t cap)
{
    int                     i;
    il_str_t                s;
    ACCESS_DESCRIPTION     *d;
    AUTHORITY_INFO_ACCESS  *info;

    info = X509_get_ext_d2i(x, NID_info_access, NULL, NULL);

    for (i = 0; info != NULL && i < sk_ACCESS_DESCRIPTION_num(info); i++) {
        d = sk_ACCESS_DESCRIPTION_value(info, i);

        if (OBJ_obj2nid(d->method) != NID_ad_ca_issuers
            || d->location->type != GEN_URI)
        {
            continue;
        }

        s = il_pk_asn1(d->location->d.uniformResourceIdentifier);

        if (s.len < cap && memchr(s.data, '\0', s.len) == NULL) {
            (void) snprintf(url, cap, "%.*s", (int) s.len, s.data);
            break;
        }
    }

    AUTHORITY_INFO_ACCESS_free(info);
}


/* When the first of the chain ends. */

static int64_t
il_pk_until(STACK_OF(X509) *chain, int64_t now)
{
    int         i, days, seconds;
    int64_t     until, end;
    ASN1_TIME  *from;

    from = ASN1_TIME_set(NULL, (time_t) now);
    until = INT64_MAX;

    for (i = 0; i < sk_X509_num(chain); i++) {

        if (from == NULL
            || ASN1_TIME_diff(&days, &seconds, from,
                              X509_get0_notAfter(sk_X509_value(chain, i)))
               != 1)
        {
            until = now;
            break;
        }

        end = now + (int64_t) days * 86400 + seconds;
        until = end < until ? end : until;
    }

    ASN1_TIME_free(from);

    return until;
}


/* 1: the chain is trusted. */

static int
il_pk_trusted(il_pk_chain_t *chain, X509_STORE *store, int64_t now,
    int64_t *until, char *issuer, size_t issuer_cap, char *why, size_t cap)
{
    int                 ok, error;
    X509               *last;
    X509_STORE_CTX     *ctx;
    X509_VERIFY_PARAM  *param;

    ctx = X509_STORE_CTX_new();

    if (ctx == NULL
        || X509_STORE_CTX_init(ctx, store, chain->leaf, chain->others) != 1)
    {
        X509_STORE_CTX_free(ctx);
        (void) snprintf(why, cap, "out of memory");
        return 0;
    }

    /* an intermediate that the operator trusts need not have its root there;
     * level 2: nothing below 112 bits, so no SHA-1 below the root */

    param = X509_STORE_CTX_get0_param(ctx);
    X509_VERIFY_PARAM_set_time(param, (time_t) now);
    X509_VERIFY_PARAM_set_depth(param, IL_PK_CERTS_MAX);
    X509_VERIFY_PARAM_set_auth_level(param, 2);

    ok = (X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN) == 1
          && X509_verify_cert(ctx) == 1);

    if (ok) {
        *until = il_pk_until(X509_STORE_CTX_get0_chain(ctx), now);

    } else {
        error = X509_STORE_CTX_get_error(ctx);
        last = X509_STORE_CTX_get_current_cert(ctx);

        if ((error == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
             || error == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT
             || error == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE)
            && last != NULL)
        {
            il_pk_issuer(last, issuer, issuer_cap);
        }

        (void) snprintf(why, cap, "the certificate is not trusted: %s",
                        X509_verify_cert_error_string(error));
    }

    X509_STORE_CTX_free(ctx);
    ERR_clear_error();

    return ok;
}


static il_pk_key_t *
il_pk_key_of(X509 *leaf, char *why, size_t cap)
{
    EVP_PKEY     *pkey;
    il_pk_key_t  *key;

    pkey = X509_get0_pubkey(leaf);

    if (pkey == NULL || EVP_PKEY_get_base_id(pkey) != EVP_PKEY_RSA
        || EVP_PKEY_get_bits(pkey) < IL_PK_RSA_MIN
        || EVP_PKEY_get_bits(pkey) > IL_PK_RSA_MAX)
    {
        (void) snprintf(why, cap, "the certificate's key is not RSA of %d to "
                        "%d bits", IL_PK_RSA_MIN, IL_PK_RSA_MAX);
        return NULL;
    }

    key = calloc(1, sizeof(il_pk_key_t));

    if (key == NULL || EVP_PKEY_up_ref(pkey) != 1) {
        free(key);
        (void) snprintf(why, cap, "out of memory");
        return NULL;
    }

    key->pkey = pkey;
    key->refs = 1;

    return key;
}


il_pk_key_t *
il_pk_chain_verify(il_pk_chain_t *chain, const il_sig_scheme_t *scheme,
    const char *ca, int64_t now, int64_t *until, char *issuer,
    size_t issuer_cap, char *why, size_t cap)
{
    int          ok;
    X509_STORE  *store;

    issuer[0] = '\0';

    if (!il_pk_named(chain->leaf, scheme)) {
        (void) snprintf(why, cap, "the certificate is for another name than "
                        "those of the provider");
        return NULL;
    }

    store = X509_STORE_new();

    ok = (store != NULL
          && (ca[0] != '\0' ? X509_STORE_load_file(store, ca)
                            : X509_STORE_set_default_paths(store)) == 1);

    if (!ok) {
        (void) snprintf(why, cap, "the trusted certificates cannot be read");

    } else {
        ok = il_pk_trusted(chain, store, now, until, issuer, issuer_cap, why,
                           cap);
    }

    X509_STORE_free(store);
    ERR_clear_error();

    return ok ? il_pk_key_of(chain->leaf, why, cap) : NULL;
}


#else /* !IL_HAVE_OPENSSL */


static const char  il_pk_without[] = "this program was built without OpenSSL";


const char *
il_pk_missing(void)
{
    return il_pk_without;
}


il_pk_key_t *
il_pk_key_ref(il_pk_key_t *key)
{
    return key;
}


void
il_pk_key_free(il_pk_key_t *key)
{
    (void) key;
}


il_pk_rc_e
il_pk_verify(const il_sig_conf_t *conf, const il_sig_request_t *req,
    const il_sig_pk_t *pk, const il_pk_key_t *key, const char **why)
{
    (void) conf;
    (void) req;
    (void) pk;
    (void) key;

    *why = il_pk_without;

    return IL_PK_UNAVAILABLE;
}


il_pk_chain_t *
il_pk_chain_new(il_str_t file, char *why, size_t cap)
{
    (void) file;
    (void) snprintf(why, cap, "%s", il_pk_without);

    return NULL;
}


int
il_pk_chain_add(il_pk_chain_t *chain, il_str_t file)
{
    (void) chain;
    (void) file;

    return -1;
}


il_pk_key_t *
il_pk_chain_verify(il_pk_chain_t *chain, const il_sig_scheme_t *scheme,
    const char *ca, int64_t now, int64_t *until, char *issuer,
    size_t issuer_cap, char *why, size_t cap)
{
    (void) chain;
    (void) scheme;
    (void) ca;
    (void) now;
    (void) until;
    (void) issuer_cap;

    issuer[0] = '\0';
    (void) snprintf(why, cap, "%s", il_pk_without);

    return NULL;
}


void
il_pk_chain_free(il_pk_chain_t *chain)
{
    (void) chain;
}


#endif
