
/*
 * Copyright (C) the interlock authors
 */


#ifndef _NGX_HTTP_INTERLOCK_DEFINE_H_INCLUDED_
#define _NGX_HTTP_INTERLOCK_DEFINE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Variables that a directive defines: "interlock_form $variable ...".  One
 * variable may be defined in several places, each time by the same directive;
 * the nearest definition counts.  A definition is a struct that begins with
 * the index of its variable (ngx_int_t); those of one place are an array of
 * such structs, NGX_CONF_UNSET_PTR as long as there is none.
 */

#pragma GCC visibility push(hidden)

/*
 * For the directive's handler: adds a definition to *defs, of size bytes and
 * zeroed but for its index.  The variable's name is the first argument, its
 * value is got by handler, which is given the index as data, and is forgotten
 * when the body is there.  NULL, and the error logged, if this is no
 * variable's name, or the variable is defined here already or otherwise.
 */

void *ngx_http_interlock_define(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_array_t **defs, size_t size, ngx_http_get_variable_pt handler);

/* The definition of a variable that holds in a location (defs may be NULL);
 * NULL if there is none. */
void *ngx_http_interlock_defined(ngx_array_t *defs, uintptr_t index);

/* Adds to *conf what it inherits and does not define itself; afterwards
 * neither of them is NGX_CONF_UNSET_PTR. */
ngx_int_t ngx_http_interlock_merge_defined(ngx_array_t **prev,
    ngx_array_t **conf);


/* ngx_http_interlock_form.c, ngx_http_interlock_date.c: the directives */

char *ngx_http_interlock_form(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_interlock_business_date(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

#pragma GCC visibility pop


#endif /* _NGX_HTTP_INTERLOCK_DEFINE_H_INCLUDED_ */
