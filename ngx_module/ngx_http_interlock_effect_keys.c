
/*
 * Copyright (C) the interlock authors
 */


/*
 * The public keys of owner tokens.  They are read at start; and again, at most
 * once a second, when a token does not verify and the files have changed, so
 * that a new key need not wait for a reload.  A worker process that may not
 * read them keeps those it has.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


#define NGX_HTTP_INTERLOCK_KEY_FILE  256


static ngx_int_t ngx_http_interlock_keys_read(ngx_log_t *log, ngx_uint_t level,
    ngx_http_interlock_keys_t *keys, il_token_keys_t *set);
static ngx_int_t ngx_http_interlock_keys_dir(ngx_log_t *log, ngx_uint_t level,
    ngx_str_t *path, il_token_keys_t *set);
static ngx_int_t ngx_http_interlock_keys_file(ngx_log_t *log,
    ngx_uint_t level, u_char *path, il_token_keys_t *set);
static ngx_int_t ngx_http_interlock_keys_parse(u_char *path, il_str_t text,
    il_token_key_t *key);
static ngx_uint_t ngx_http_interlock_keys_again(ngx_http_interlock_keys_t *keys,
    ngx_log_t *log);
static ngx_uint_t ngx_http_interlock_ends(const u_char *name,
    const char *end);


/* interlock_keys file | directory */

char *
ngx_http_interlock_effect_keys(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t  *value;

    if (ilcf->keys) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ilcf->keys = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_keys_t));
    if (ilcf->keys == NULL) {
        return NGX_CONF_ERROR;
    }

    ilcf->keys->path = value[1];
    il_token_seen_init(&ilcf->keys->seen);

    if (ngx_conf_full_name(cf->cycle, &ilcf->keys->path, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_interlock_keys_read(cf->log, NGX_LOG_EMERG, ilcf->keys,
                                     &ilcf->keys->set)
        != NGX_OK)
    {
        /* why was said; at each reading, so without the directive's place */

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"interlock_keys\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* NGX_DECLINED: not a token of ours.  The keys are remembered, and so is, in
 * keys->seen, what they have verified. */

ngx_int_t
ngx_http_interlock_keys_verify(ngx_http_request_t *r,
    ngx_http_interlock_keys_t *keys, ngx_str_t *token,
    il_owner_claims_t *claims, char *buf, size_t cap)
{
    il_str_t  t;

    t = ngx_http_interlock_str(token);

    if (il_owner_verify_seen(claims, buf, cap, t, &keys->set, &keys->seen,
                             ngx_time())
        == 0)
    {
        return NGX_OK;
    }

    if (ngx_http_interlock_keys_again(keys, r->connection->log)
        && il_owner_verify_seen(claims, buf, cap, t, &keys->set, &keys->seen,
                                ngx_time())
           == 0)
    {
        return NGX_OK;
    }

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_interlock_keys_ticket(ngx_http_request_t *r,
    ngx_http_interlock_keys_t *keys, il_str_t ticket,
    il_ticket_claims_t *claims, char *buf, size_t cap)
{
    if (il_ticket_verify(claims, buf, cap, ticket, &keys->set, &keys->seen,
                         ngx_time())
        == 0)
    {
        return NGX_OK;
    }

    if (ngx_http_interlock_keys_again(keys, r->connection->log)
        && il_ticket_verify(claims, buf, cap, ticket, &keys->set, &keys->seen,
                            ngx_time())
           == 0)
    {
        return NGX_OK;
    }

    return NGX_DECLINED;
}


/* 1 if there are other keys now */

static ngx_uint_t
ngx_http_interlock_keys_again(ngx_http_interlock_keys_t *keys, ngx_log_t *log)
{
    il_token_keys_t  set;
    ngx_file_info_t  fi;

    if (keys->looked == ngx_time()) {
        return 0;
    }

    keys->looked = ngx_time();

    if (ngx_file_info(keys->path.data, &fi) == NGX_FILE_ERROR
        || (fi.st_mtim.tv_sec == keys->changed.tv_sec
            && fi.st_mtim.tv_nsec == keys->changed.tv_nsec))
    {
        return 0;
    }

    if (ngx_http_interlock_keys_read(log, NGX_LOG_WARN, keys, &set) != NGX_OK) {
        return 0;
    }

    keys->set = set;
    il_token_seen_init(&keys->seen);

    ngx_log_error(NGX_LOG_NOTICE, log, 0,
                  "interlock: the keys of \"%V\" were read again",
                  &keys->path);

    return 1;
}


static ngx_int_t
ngx_http_interlock_keys_read(ngx_log_t *log, ngx_uint_t level,
    ngx_http_interlock_keys_t *keys, il_token_keys_t *set)
{
    ngx_int_t        rc;
    ngx_file_info_t  fi;

    ngx_memzero(set, sizeof(il_token_keys_t));

    if (ngx_file_info(keys->path.data, &fi) == NGX_FILE_ERROR) {
        ngx_log_error(level, log, ngx_errno,
                      "\"%V\" of \"interlock_keys\" can not be read",
                      &keys->path);
        return NGX_ERROR;
    }

    /* before the files: what comes later is another change */

    keys->changed = fi.st_mtim;

    rc = ngx_is_dir(&fi)
         ? ngx_http_interlock_keys_dir(log, level, &keys->path, set)
         : ngx_http_interlock_keys_file(log, level, keys->path.data, set);

    if (rc == NGX_OK && set->n == 0) {
        ngx_log_error(level, log, 0,
                      "no *.pub and no *.seed in directory \"%V\" of "
                      "\"interlock_keys\"", &keys->path);
        return NGX_ERROR;
    }

    return rc;
}


static ngx_int_t
ngx_http_interlock_keys_dir(ngx_log_t *log, ngx_uint_t level, ngx_str_t *path,
    il_token_keys_t *set)
{
    u_char      file[NGX_MAX_PATH];
    u_char     *name, *p;
    ngx_dir_t   dir;
    ngx_int_t   rc;

    if (ngx_open_dir(path, &dir) == NGX_ERROR) {
        ngx_log_error(level, log, ngx_errno,
                      ngx_open_dir_n " \"%V\" of \"interlock_keys\" failed",
                      path);
        return NGX_ERROR;
    }

    rc = NGX_OK;

    while (rc == NGX_OK && ngx_read_dir(&dir) == NGX_OK) {

        name = ngx_de_name(&dir);

        if (name[0] == '.'
            || (!ngx_http_interlock_ends(name, ".pub")
                && !ngx_http_interlock_ends(name, ".seed")))
        {
            continue;
        }

        p = ngx_snprintf(file, sizeof(file), "%V/%s%Z", path, name);

        if (p == file + sizeof(file)) {
            rc = NGX_ERROR;
            break;
        }

        rc = ngx_http_interlock_keys_file(log, level, file, set);
    }

    if (ngx_close_dir(&dir) == NGX_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      ngx_close_dir_n " \"%V\" failed", path);
    }

    return rc;
}


static ngx_int_t
ngx_http_interlock_keys_file(ngx_log_t *log, ngx_uint_t level, u_char *path,
    il_token_keys_t *set)
{
    u_char     text[NGX_HTTP_INTERLOCK_KEY_FILE];
    ssize_t    n;
    ngx_fd_t   fd;
    ngx_int_t  rc;

    if (set->n == IL_TOKEN_KEYS_MAX) {
        ngx_log_error(level, log, 0,
                      "more than %d keys in \"interlock_keys\"",
                      IL_TOKEN_KEYS_MAX);
        return NGX_ERROR;
    }

    fd = ngx_open_file(path, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_log_error(level, log, ngx_errno,
                      ngx_open_file_n " \"%s\" of \"interlock_keys\" failed",
                      path);
        return NGX_ERROR;
    }

    n = ngx_read_fd(fd, text, sizeof(text));

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      ngx_close_file_n " \"%s\" failed", path);
    }

    while (n > 0 && (text[n - 1] == LF || text[n - 1] == CR
                     || text[n - 1] == ' '))
    {
        n--;
    }

    rc = (n > 0) ? ngx_http_interlock_keys_parse(path,
                                      il_str((char *) text, (size_t) n),
                                      &set->keys[set->n])
                 : NGX_ERROR;

    sodium_memzero(text, sizeof(text));

    if (rc != NGX_OK) {
        ngx_log_error(level, log, 0,
                      "\"%s\" of \"interlock_keys\" holds no key: a *.seed "
                      "has 64 hex digits, any other file \"k4.public...\"",
                      path);
        return NGX_ERROR;
    }

    set->n++;

    return NGX_OK;
}


/* of a seed only the public half is kept */

static ngx_int_t
ngx_http_interlock_keys_parse(u_char *path, il_str_t text, il_token_key_t *key)
{
    uint8_t         raw[32];
    ngx_int_t       rc;
    il_token_key_t  seed;

    rc = NGX_ERROR;

    if (ngx_http_interlock_ends(path, ".seed")) {

        if (il_hex_decode(raw, sizeof(raw), text) == 0) {
            il_token_key_from_seed(&seed, raw);
            il_token_key_from_public(key, seed.pk);
            sodium_memzero(&seed, sizeof(seed));
            rc = NGX_OK;
        }

    } else if (il_paserk_public_parse(raw, text) == 0) {
        il_token_key_from_public(key, raw);
        rc = NGX_OK;
    }

    sodium_memzero(raw, sizeof(raw));

    return rc;
}


static ngx_uint_t
ngx_http_interlock_ends(const u_char *name, const char *end)
{
    size_t  n, len;

    n = ngx_strlen(end);
    len = ngx_strlen(name);

    return len > n && ngx_strncmp(name + len - n, end, n) == 0;
}
