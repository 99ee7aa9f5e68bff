/*
 * ui.h: what the parts of the pages' door share.
 *
 * What a browser shows is files that nginx has; interlockd says which
 * (X-Accel-Redirect), so that there is no text of a page in here.  The
 * internal locations are in nginx.conf.
 */

#ifndef IL_UI_H
#define IL_UI_H

#include "req.h"

#define IL_UI_HOME    "/ui/"
#define IL_UI_LOGIN   "/ui/login"
#define IL_UI_FILES   "/_interlock/ui/"

/* 1 if that is a path of the pages, and nothing that a browser could take for
 * more: another host ("//", "\"), a step out of /ui/, a line of a header. */
int il_ui_next_valid(il_str_t s);

/* What ?next= asks for, if that is a page; else the first one.  In the pool,
 * or static. */
il_str_t il_ui_next(il_req_t *r);

/* 1 if the body is JSON: it is a program that asks. */
int il_ui_is_json(const il_req_t *r);

/* All that follow answer and end the request. */

/* Leads to another path, which is copied. */
void il_ui_go(il_req_t *r, int status, il_str_t where);

/* The page that says that interlock is away. */
void il_ui_away(il_req_t *r);

/* Refuses: a program gets a problem, a browser the login page with words;
 * `said` names the internal location that has them. */
void il_ui_refuse(il_req_t *r, int json, il_problem_e p, const char *said,
    const char *detail);
void il_ui_refuse_origin(il_req_t *r, int json);

/* Adds the cookie to the answer.  seconds 0: the browser forgets it. */
void il_ui_cookie(il_req_t *r, const char *value, int64_t seconds,
    int secure);

/* 1 if the browser came by https; of a request that has passed
 * il_origin_same. */
int il_ui_secure(const il_req_t *r);

/* A session as JSON, from a result's first row (columns tenant_name, role,
 * token_name, idle_end, absolute_end). */
void il_ui_session_doc(il_buf_t *b, const il_db_result_t *res);

#endif /* IL_UI_H */
