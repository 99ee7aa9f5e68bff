
/*
 * Copyright (C) the interlock authors
 */


/*
 * Values of directives: with variables, which must exist, and the places of
 * directives in the configuration's files.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_interlock_module.h"


static ngx_int_t ngx_http_interlock_note_variables(ngx_conf_t *cf,
    ngx_str_t *value);
static ngx_uint_t ngx_http_interlock_known(ngx_http_core_main_conf_t *cmcf,
    ngx_str_t *name);


ngx_int_t
ngx_http_interlock_compile(ngx_conf_t *cf, ngx_str_t *value,
    ngx_http_complex_value_t *cv)
{
    ngx_http_compile_complex_value_t  ccv;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = value;
    ccv.complex_value = cv;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_interlock_note_variables(cf, value);
}


/* what nginx takes as a part of a regular expression ($1) is no variable */

ngx_uint_t
ngx_http_interlock_next_variable(u_char **p, u_char *last, ngx_str_t *name)
{
    u_char      *s, c;
    ngx_uint_t   braces;

    for (s = *p; s < last; /* void */) {

        if (*s++ != '$') {
            continue;
        }

        braces = (s < last && *s == '{');

        if (braces) {
            s++;

        } else if (s < last && *s >= '1' && *s <= '9') {
            continue;
        }

        name->data = s;

        for ( /* void */ ; s < last; s++) {
            c = ngx_tolower(*s);

            if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
                  || c == '_'))
            {
                break;
            }
        }

        name->len = s - name->data;

        if (name->len) {
            *p = s;
            return 1;
        }
    }

    *p = last;

    return 0;
}


/*
 * nginx itself finds out only at the very end that a variable is defined
 * nowhere, and then knows neither the directive nor its place.
 */

static ngx_int_t
ngx_http_interlock_note_variables(ngx_conf_t *cf, ngx_str_t *value)
{
    u_char                          *p;
    ngx_str_t                       *args, name;
    ngx_http_interlock_used_t       *used;
    ngx_http_interlock_main_conf_t  *imcf;

    imcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_interlock_module);
    args = cf->args->elts;
    p = value->data;

    while (ngx_http_interlock_next_variable(&p, value->data + value->len,
                                            &name))
    {
        used = ngx_array_push(&imcf->used);
        if (used == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(used, sizeof(ngx_http_interlock_used_t));

        used->name = name;
        used->directive = args[0];
        ngx_http_interlock_place(cf, &used->place);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_interlock_check_variables(ngx_conf_t *cf)
{
    ngx_uint_t                       i;
    ngx_conf_file_t                 *saved, file;
    ngx_http_core_main_conf_t       *cmcf;
    ngx_http_interlock_used_t       *used;
    ngx_http_interlock_main_conf_t  *imcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    imcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_interlock_module);

    used = imcf->used.elts;

    for (i = 0; i < imcf->used.nelts; i++) {

        if (ngx_http_interlock_known(cmcf, &used[i].name)) {
            continue;
        }

        saved = ngx_http_interlock_at(cf, &used[i].place, &file);

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown \"%V\" variable in \"%V\"",
                           &used[i].name, &used[i].directive);

        cf->conf_file = saved;

        return NGX_ERROR;
    }

    return NGX_OK;
}


/* as ngx_http_variables_init_vars() finds the handlers of variables */

static ngx_uint_t
ngx_http_interlock_known(ngx_http_core_main_conf_t *cmcf, ngx_str_t *name)
{
    ngx_uint_t            i;
    ngx_hash_key_t       *key;
    ngx_http_variable_t  *v;

    key = cmcf->variables_keys->keys.elts;

    for (i = 0; i < cmcf->variables_keys->keys.nelts; i++) {
        v = key[i].value;

        if (v->get_handler
            && key[i].key.len == name->len
            && ngx_strncasecmp(key[i].key.data, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    v = cmcf->prefix_variables.elts;

    for (i = 0; i < cmcf->prefix_variables.nelts; i++) {

        if (name->len >= v[i].name.len
            && ngx_strncasecmp(name->data, v[i].name.data, v[i].name.len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/*
 * nginx shows the first of repeated headers; a key must not be taken from one
 * of two, so these are counted at request time.
 */

ngx_int_t
ngx_http_interlock_find_headers(ngx_conf_t *cf, ngx_str_t *value,
    ngx_array_t **headers)
{
    u_char     *p;
    ngx_str_t  *header, name;

    p = value->data;

    while (ngx_http_interlock_next_variable(&p, value->data + value->len,
                                            &name))
    {
        if (name.len <= 5
            || ngx_strncasecmp(name.data, (u_char *) "http_", 5) != 0)
        {
            continue;
        }

        name.data += 5;
        name.len -= 5;

        if (*headers == NULL) {
            *headers = ngx_array_create(cf->pool, 2, sizeof(ngx_str_t));
            if (*headers == NULL) {
                return NGX_ERROR;
            }
        }

        header = ngx_array_push(*headers);
        if (header == NULL) {
            return NGX_ERROR;
        }

        header->len = name.len;
        header->data = ngx_pnalloc(cf->pool, name.len);
        if (header->data == NULL) {
            return NGX_ERROR;
        }

        ngx_strlow(header->data, name.data, name.len);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_interlock_check_pointer(ngx_conf_t *cf, ngx_str_t *value)
{
    ngx_str_t  *args;

    if (il_json_pointer_valid(ngx_http_interlock_str(value))) {
        return NGX_OK;
    }

    args = cf->args->elts;

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid JSON pointer \"%V\" in \"%V\": it is empty or "
                       "begins with \"/\", and \"~\" is written \"~0\", \"/\" "
                       "in a name \"~1\"", value, &args[0]);

    return NGX_ERROR;
}


/* One that is written twice is a mistake: nobody sees which of them counts. */

ngx_int_t
ngx_http_interlock_check_once(ngx_conf_t *cf, ngx_uint_t n)
{
    size_t       len;
    u_char      *p;
    ngx_str_t   *args;
    ngx_uint_t   i;

    args = cf->args->elts;

    p = ngx_strlchr(args[n].data, args[n].data + args[n].len, '=');
    if (p == NULL) {
        return NGX_OK;
    }

    len = p + 1 - args[n].data;

    for (i = 1; i < n; i++) {

        if (args[i].len >= len
            && ngx_strncmp(args[i].data, args[n].data, len) == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\" in \"%V\"",
                               &args[n], &args[0]);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_http_interlock_place(ngx_conf_t *cf, ngx_http_interlock_place_t *place)
{
    if (place->line || cf->conf_file == NULL) {
        return;
    }

    place->file = cf->conf_file->file.name;
    place->line = cf->conf_file->line;
}


ngx_conf_file_t *
ngx_http_interlock_at(ngx_conf_t *cf, ngx_http_interlock_place_t *place,
    ngx_conf_file_t *file)
{
    ngx_conf_file_t  *saved;

    saved = cf->conf_file;

    if (place->line && saved) {
        *file = *saved;
        file->file.name = place->file;
        file->line = place->line;
        cf->conf_file = file;
    }

    return saved;
}
