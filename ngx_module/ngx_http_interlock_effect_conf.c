
/*
 * Copyright (C) the interlock authors
 */


/*
 * Directives of the fencing proxy, and what its locations must look like.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_effect.h"


#define NGX_HTTP_INTERLOCK_KEY_FILE  256


static ngx_int_t ngx_http_interlock_effect_dir(ngx_conf_t *cf,
    ngx_str_t *path, il_token_keys_t *keys);
static ngx_int_t ngx_http_interlock_effect_key(ngx_conf_t *cf,
    ngx_str_t *path, il_token_keys_t *keys);
static ngx_uint_t ngx_http_interlock_ends(const u_char *name, size_t len,
    const char *end);
static char *ngx_http_interlock_effect_upstream(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf);


/* interlock_effect name=value [kind=value] */

char *
ngx_http_interlock_effect(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t                         *value, s;
    ngx_uint_t                         i;
    ngx_http_complex_value_t         **cv;
    ngx_http_interlock_effect_conf_t  *effect;

    if (ilcf->effect != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0 && cf->args->nelts == 2) {
        ilcf->effect = NULL;
        return NGX_CONF_OK;
    }

    effect = ngx_pcalloc(cf->pool, sizeof(ngx_http_interlock_effect_conf_t));
    if (effect == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "name=", 5) == 0) {
            cv = &effect->name;

        } else if (ngx_strncmp(value[i].data, "kind=", 5) == 0) {
            cv = &effect->kind;

        } else {
            cv = NULL;
        }

        s.data = value[i].data + 5;
        s.len = value[i].len - 5;

        if (cv == NULL || *cv || value[i].len == 5) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in "
                               "\"interlock_effect\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        if (cv == &effect->kind
            && ngx_http_script_variables_count(&s) == 0
            && !il_name_valid(ngx_http_interlock_str(&s)))
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid kind \"%V\" in \"interlock_effect\": "
                               "a name has only a-z, 0-9, \".\", \"_\" and "
                               "\"-\", and at most %d of them", &s,
                               IL_NAME_MAX);
            return NGX_CONF_ERROR;
        }

        *cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
        if (*cv == NULL) {
            return NGX_CONF_ERROR;
        }

        if (ngx_http_interlock_compile(cf, &s, *cv) != NGX_OK
            || (cv == &effect->name
                && ngx_http_interlock_find_headers(cf, &s, &effect->headers)
                   != NGX_OK))
        {
            return NGX_CONF_ERROR;
        }
    }

    if (effect->name == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_effect\" must have the \"name\" "
                           "parameter");
        return NGX_CONF_ERROR;
    }

    ilcf->effect = effect;

    return NGX_CONF_OK;
}


/* interlock_effect_uri /uri */

char *
ngx_http_interlock_effect_uri(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t  *value;

    if (ilcf->effect_uri.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len < 2 || value[1].data[0] != '/') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid URI \"%V\" in \"interlock_effect_uri\": "
                           "it is a path that names an internal location",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    ilcf->effect_uri = value[1];

    return NGX_CONF_OK;
}


/* interlock_keys file | directory */

char *
ngx_http_interlock_effect_keys(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_interlock_loc_conf_t  *ilcf = conf;

    ngx_str_t        *value, path;
    ngx_file_info_t   fi;

    if (ilcf->keys) {
        return "is duplicate";
    }

    value = cf->args->elts;
    path = value[1];

    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_file_info(path.data, &fi) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "\"%V\" in \"interlock_keys\" can not be read",
                           &path);
        return NGX_CONF_ERROR;
    }

    ilcf->keys = ngx_pcalloc(cf->pool, sizeof(il_token_keys_t));
    if (ilcf->keys == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_is_dir(&fi)
        ? ngx_http_interlock_effect_dir(cf, &path, ilcf->keys) != NGX_OK
        : ngx_http_interlock_effect_key(cf, &path, ilcf->keys) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (ilcf->keys->n == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no *.pub and no *.seed in directory \"%V\" of "
                           "\"interlock_keys\"", &path);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_interlock_effect_dir(ngx_conf_t *cf, ngx_str_t *path,
    il_token_keys_t *keys)
{
    size_t      len;
    u_char     *name;
    ngx_dir_t   dir;
    ngx_int_t   rc;
    ngx_str_t   file;

    if (ngx_open_dir(path, &dir) == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_open_dir_n " \"%V\" of \"interlock_keys\" "
                           "failed", path);
        return NGX_ERROR;
    }

    rc = NGX_OK;

    while (rc == NGX_OK && ngx_read_dir(&dir) == NGX_OK) {

        name = ngx_de_name(&dir);
        len = ngx_de_namelen(&dir);

        if (name[0] == '.'
            || (!ngx_http_interlock_ends(name, len, ".pub")
                && !ngx_http_interlock_ends(name, len, ".seed")))
        {
            continue;
        }

        file.data = ngx_pnalloc(cf->pool, path->len + 1 + len + 1);
        if (file.data == NULL) {
            rc = NGX_ERROR;
            break;
        }

        file.len = ngx_sprintf(file.data, "%V/%s%Z", path, name)
                   - file.data - 1;

        rc = ngx_http_interlock_effect_key(cf, &file, keys);
    }

    if (ngx_close_dir(&dir) == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_dir_n " \"%V\" failed", path);
    }

    return rc;
}


/* One key a file: "k4.public...", or a seed, of which only the public half is
 * kept. */

static ngx_int_t
ngx_http_interlock_effect_key(ngx_conf_t *cf, ngx_str_t *path,
    il_token_keys_t *keys)
{
    u_char           text[NGX_HTTP_INTERLOCK_KEY_FILE];
    uint8_t          raw[32];
    ssize_t          n;
    ngx_fd_t         fd;
    il_str_t         s;
    ngx_int_t        rc;
    il_token_key_t   seed, *key;

    if (keys->n == IL_TOKEN_KEYS_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "more than %d keys in \"interlock_keys\"",
                           IL_TOKEN_KEYS_MAX);
        return NGX_ERROR;
    }

    fd = ngx_open_file(path->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_open_file_n " \"%V\" of \"interlock_keys\" "
                           "failed", path);
        return NGX_ERROR;
    }

    n = ngx_read_fd(fd, text, sizeof(text));

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%V\" failed", path);
    }

    while (n > 0 && (text[n - 1] == LF || text[n - 1] == CR
                     || text[n - 1] == ' '))
    {
        n--;
    }

    s = il_str((char *) text, n > 0 ? (size_t) n : 0);
    rc = NGX_ERROR;
    key = &keys->keys[keys->n];

    if (ngx_http_interlock_ends(path->data, path->len, ".seed")) {

        if (il_hex_decode(raw, sizeof(raw), s) == 0) {
            il_token_key_from_seed(&seed, raw);
            il_token_key_from_public(key, seed.pk);
            sodium_memzero(&seed, sizeof(seed));
            rc = NGX_OK;
        }

    } else if (il_paserk_public_parse(raw, s) == 0) {
        il_token_key_from_public(key, raw);
        rc = NGX_OK;
    }

    sodium_memzero(text, sizeof(text));
    sodium_memzero(raw, sizeof(raw));

    if (rc != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" of \"interlock_keys\" holds no key: a "
                           "*.seed has 64 hex digits, any other file "
                           "\"k4.public...\"", path);
        return NGX_ERROR;
    }

    keys->n++;

    return NGX_OK;
}


static ngx_uint_t
ngx_http_interlock_ends(const u_char *name, size_t len, const char *end)
{
    size_t  n;

    n = ngx_strlen(end);

    return len > n && ngx_strncmp(name + len - n, end, n) == 0;
}


char *
ngx_http_interlock_effect_merge(ngx_conf_t *cf,
    ngx_http_interlock_loc_conf_t *prev, ngx_http_interlock_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    ngx_conf_merge_ptr_value(conf->effect, prev->effect, NULL);
    ngx_conf_merge_str_value(conf->effect_uri, prev->effect_uri, "");

    if (conf->keys == NULL) {
        conf->keys = prev->keys;
    }

    if (conf->effect == NULL) {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->verify || conf->work_key || conf->idem) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "location \"%V\" has \"interlock_effect\", for "
                           "calls of workers, and directives for requests "
                           "from outside", &clcf->name);
        return NGX_CONF_ERROR;
    }

    if (conf->effect_uri.len == 0 || conf->keys == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"interlock_effect\" in location \"%V\" needs "
                           "\"%s\"", &clcf->name,
                           conf->keys ? "interlock_effect_uri"
                                      : "interlock_keys");
        return NGX_CONF_ERROR;
    }

    return ngx_http_interlock_effect_upstream(cf, clcf);
}


/*
 * The proxy's settings that would undo what this is for.  Some have only one
 * right value, which is set; what somebody must have meant is refused.  (How
 * they are found: see ngx_http_interlock_check_upstream().)
 */

static char *
ngx_http_interlock_effect_upstream(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf)
{
    ngx_uint_t                 m;
    const char                *wrong;
    ngx_module_t              *module;
    ngx_http_conf_ctx_t       *ctx;
    ngx_http_upstream_conf_t  *ucf;

    ctx = cf->ctx;
    wrong = NULL;

    for (m = 0; cf->cycle->modules[m]; m++) {
        module = cf->cycle->modules[m];

        if (module->type != NGX_HTTP_MODULE
            || (ngx_strcmp(module->name, "ngx_http_proxy_module") != 0
                && ngx_strcmp(module->name, "ngx_http_fastcgi_module") != 0
                && ngx_strcmp(module->name, "ngx_http_scgi_module") != 0
                && ngx_strcmp(module->name, "ngx_http_uwsgi_module") != 0))
        {
            continue;
        }

        ucf = ctx->loc_conf[module->ctx_index];

        if (ngx_strcmp(module->name, "ngx_http_proxy_module") != 0) {
            if (clcf->handler && ucf->upstream) {
                wrong = "another handler than \"proxy_pass\"";
            }

            continue;
        }

        /* sent once, whatever becomes of the worker meanwhile; and what the
         * provider says is taken as it stands */

        ucf->ignore_client_abort = 1;
        ucf->next_upstream = NGX_CONF_BITMASK_SET|NGX_HTTP_UPSTREAM_FT_OFF;
        ucf->intercept_errors = 0;
        ucf->ignore_headers |= NGX_HTTP_UPSTREAM_IGN_XA_REDIRECT
                               |NGX_HTTP_UPSTREAM_IGN_XA_EXPIRES
                               |NGX_HTTP_UPSTREAM_IGN_XA_LIMIT_RATE
                               |NGX_HTTP_UPSTREAM_IGN_XA_BUFFERING
                               |NGX_HTTP_UPSTREAM_IGN_XA_CHARSET;

        if (clcf->handler == NULL) {
            continue;
        }

        if (ucf->request_buffering == 0) {
            wrong = "\"proxy_request_buffering off\"";

        } else if (ucf->store) {
            wrong = "\"proxy_store\"";

#if (NGX_HTTP_CACHE)
        } else if (ucf->cache) {
            wrong = "\"proxy_cache\"";
#endif
        }
    }

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "location \"%V\" has \"interlock_effect\" and %s",
                           &clcf->name, wrong);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}
