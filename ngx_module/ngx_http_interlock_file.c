
/*
 * Copyright (C) the interlock authors
 */


/*
 * Files of interlock_verify's parameters: secrets, tokens and public keys.
 * They are read by the master process at start and at each reload.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <sodium.h>

#include "ngx_http_interlock_module.h"


#define NGX_HTTP_INTERLOCK_FILE_MAX  65536


static ngx_int_t ngx_http_interlock_check_file(ngx_conf_t *cf,
    const char *parameter, ngx_str_t *name, ngx_file_info_t *fi);


ngx_int_t
ngx_http_interlock_read_file(ngx_conf_t *cf, const char *parameter,
    ngx_str_t *file, ngx_str_t *text)
{
    ssize_t           n;
    ngx_fd_t          fd;
    ngx_str_t         name;
    ngx_file_info_t   fi;

    ngx_str_null(text);
    name = *file;

    if (ngx_conf_full_name(cf->cycle, &name, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    fd = ngx_open_file(name.data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "can not read \"%s=%V\" in "
                           "\"interlock_verify\": " ngx_open_file_n
                           " \"%V\" failed", parameter, file, &name);
        return NGX_ERROR;
    }

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_fd_info_n " \"%V\" failed", &name);
        goto failed;
    }

    if (ngx_http_interlock_check_file(cf, parameter, &name, &fi) != NGX_OK) {
        goto failed;
    }

    text->len = (size_t) ngx_file_size(&fi);
    text->data = ngx_alloc(text->len, cf->log);
    if (text->data == NULL) {
        goto failed;
    }

    n = ngx_read_fd(fd, text->data, text->len);

    if (n == -1 || (size_t) n != text->len) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_read_fd_n " \"%V\" failed", &name);
        goto failed;
    }

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%V\" failed", &name);
    }

    return NGX_OK;

failed:

    ngx_http_interlock_free_file(text);

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%V\" failed", &name);
    }

    return NGX_ERROR;
}


void
ngx_http_interlock_free_file(ngx_str_t *text)
{
    if (text->data) {
        sodium_memzero(text->data, text->len);
        ngx_free(text->data);
    }

    ngx_str_null(text);
}


static ngx_int_t
ngx_http_interlock_check_file(ngx_conf_t *cf, const char *parameter,
    ngx_str_t *name, ngx_file_info_t *fi)
{
    const char  *wrong;

    wrong = NULL;

    if (!ngx_is_file(fi)) {
        wrong = "is not a regular file";

    } else if (ngx_file_size(fi) == 0) {
        wrong = "is empty";

    } else if (ngx_file_size(fi) > NGX_HTTP_INTERLOCK_FILE_MAX) {
        wrong = "is too large";

    } else if (fi->st_mode & S_IWOTH) {
        wrong = "may be written by everybody";
    }

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s file \"%V\" in \"interlock_verify\" %s",
                           parameter, name, wrong);
        return NGX_ERROR;
    }

    if (fi->st_mode & S_IROTH) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "%s file \"%V\" in \"interlock_verify\" may be "
                           "read by everybody; its mode should be 0600",
                           parameter, name);
    }

    return NGX_OK;
}
