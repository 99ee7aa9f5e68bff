/*
 * route.c: the table of routes.
 *
 * Paths are matched raw, segment by segment, and decoded once afterwards, so
 * that an encoded slash stays inside its parameter.
 */

#include <stdlib.h>

#include "il_enc.h"
#include "route.h"
#include "session.h"


static const il_route_t  il_routes[] = {
    { IL_M_POST, "/in/{}", IL_ACCESS_INGRESS, il_submit_ingress },
    { IL_M_HEAD, "/in/{}", IL_ACCESS_NONE, il_submit_ingress_head },

    { IL_M_POST, "/v1/tickets", IL_ROLE_SUBMIT, il_ticket_post },
    { IL_M_POST, "/button/{}", IL_ACCESS_TICKET, il_button_post },
    { IL_M_GET, "/button/{}", IL_ACCESS_TICKET, il_button_get },
    { IL_M_GET, "/button/jobs/{}", IL_ACCESS_TICKET, il_button_job },
    { IL_M_POST, "/button/jobs/{}", IL_ACCESS_TICKET, il_button_job },

    { IL_M_POST, "/v1/jobs", IL_ROLE_SUBMIT, il_submit_job },
    { IL_M_POST, "/v1/jobs:batch", IL_ROLE_SUBMIT, il_submit_jobs },
    { IL_M_GET, "/v1/jobs", IL_ROLE_ANY, il_list_jobs },
    { IL_M_GET, "/v1/jobs/{}", IL_ROLE_ANY, il_look_job },
    { IL_M_POST, "/v1/jobs/{}/cancel", IL_ROLE_OPERATOR, il_act_cancel },
    { IL_M_POST, "/v1/jobs/{}/revoke", IL_ROLE_OPERATOR, il_act_revoke },
    { IL_M_GET, "/v1/jobs/{}/payload", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_find_payload },
    { IL_M_POST, "/v1/jobs/{}/decide", IL_ROLE_OPERATOR, il_act_decide },
    { IL_M_POST, "/v1/redrive", IL_ROLE_OPERATOR, il_act_redrive },
    { IL_M_GET, "/v1/audit", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_audit_get },
    { IL_M_GET, "/v1/requests", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_list_requests },
    { IL_M_GET, "/v1/actions", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_list_actions },
    { IL_M_GET, "/v1/search", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_find_search },
    { IL_M_GET, "/v1/works", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_list_works },
    { IL_M_GET, "/v1/works/{}", IL_ROLE_ANY, il_look_work },
    { IL_M_GET, "/v1/works/{}/result", IL_ROLE_ANY, il_look_result },
    { IL_M_GET, "/v1/works/{}/revisions", IL_ROLE_ANY, il_list_revisions },
    { IL_M_POST, "/v1/works/{}/publish", IL_ROLE_OPERATOR, il_act_publish },
    { IL_M_GET, "/v1/works/{}/impact", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_work_impact },
    { IL_M_POST, "/v1/works/{}/rerun", IL_ROLE_OPERATOR, il_work_rerun },
    { IL_M_GET, "/v1/results", IL_ROLE_ANY, il_list_results },

    { IL_M_POST, "/v1/leases", IL_ROLE_WORKER, il_claim_post },
    { IL_M_GET, "/v1/leases", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_list_leases },
    { IL_M_POST, "/v1/lease/batch", IL_ROLE_WORKER, il_lease_batch },
    { IL_M_POST, "/v1/lease/renew", IL_ACCESS_OWNER, il_lease_renew },
    { IL_M_POST, "/v1/lease/progress", IL_ACCESS_OWNER, il_lease_progress },
    { IL_M_POST, "/v1/lease/complete", IL_ACCESS_OWNER, il_finish_complete },
    { IL_M_POST, "/v1/lease/fail", IL_ACCESS_OWNER, il_finish_fail },
    { IL_M_POST, "/v1/lease/release", IL_ACCESS_OWNER, il_finish_release },

    { IL_M_POST, "/v1/effects", IL_ACCESS_OWNER, il_effect_post },
    { IL_M_POST, "/v1/effects/{}/outcome", IL_ACCESS_OWNER,
      il_effect_outcome_post },
    { IL_M_GET, "/v1/effects", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_effect_list },
    { IL_M_GET, "/v1/effects/{}", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_effect_get },
    { IL_M_POST, "/v1/effects/{}/check", IL_ROLE_OPERATOR, il_effect_check },
    { IL_M_POST, "/v1/effects/{}/resolve", IL_ROLE_OPERATOR,
      il_effect_resolve },
    { IL_M_POST, "/internal/effect", IL_ACCESS_EDGE, il_effect_edge },

    { IL_M_GET, "/v1/effect-kinds", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_effect_kind_list },
    { IL_M_GET, "/v1/effect-kinds/{}", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_effect_kind_get },
    { IL_M_PUT, "/v1/effect-kinds/{}", IL_ROLE_OPERATOR, il_effect_kind_put },
    { IL_M_DELETE, "/v1/effect-kinds/{}", IL_ROLE_OPERATOR,
      il_effect_kind_delete },

    { IL_M_GET, "/v1/keys", IL_ACCESS_NONE, il_health_keys },

    { IL_M_GET, "/v1/kinds", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_kind_list },
    { IL_M_GET, "/v1/kinds/{}", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_kind_get },
    { IL_M_PUT, "/v1/kinds/{}", IL_ROLE_OPERATOR, il_kind_put },
    { IL_M_DELETE, "/v1/kinds/{}", IL_ROLE_OPERATOR, il_kind_delete },
    { IL_M_POST, "/v1/kinds/{}/explain", IL_ROLE_OPERATOR, il_kind_explain },
    { IL_M_GET, "/v1/kinds/{}/advice", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_audit_advice },
    { IL_M_POST, "/v1/kinds/{}/pause", IL_ROLE_OPERATOR, il_pause_kind },
    { IL_M_POST, "/v1/kinds/{}/resume", IL_ROLE_OPERATOR,
      il_pause_kind_resume },
    { IL_M_GET, "/v1/sources", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_pause_sources },
    { IL_M_POST, "/v1/sources/{}/pause", IL_ROLE_OPERATOR,
      il_pause_source },
    { IL_M_POST, "/v1/sources/{}/resume", IL_ROLE_OPERATOR,
      il_pause_source_resume },

    { IL_M_GET, "/v1/limits", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_limit_list },
    { IL_M_GET, "/v1/limits/{}", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_limit_get },
    { IL_M_PUT, "/v1/limits/{}", IL_ROLE_OPERATOR, il_limit_put },
    { IL_M_DELETE, "/v1/limits/{}", IL_ROLE_OPERATOR, il_limit_delete },

    { IL_M_GET, "/v1/schedules", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_schedule_list },
    { IL_M_GET, "/v1/schedules/{}", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_schedule_get },
    { IL_M_PUT, "/v1/schedules/{}", IL_ROLE_OPERATOR, il_schedule_put },
    { IL_M_DELETE, "/v1/schedules/{}", IL_ROLE_OPERATOR, il_schedule_delete },
    { IL_M_POST, "/v1/schedules/{}/pause", IL_ROLE_OPERATOR,
      il_schedule_pause },
    { IL_M_POST, "/v1/schedules/{}/resume", IL_ROLE_OPERATOR,
      il_schedule_resume },
    { IL_M_GET, "/v1/schedules/{}/slots", IL_ROLE_ANY, il_schedule_slots },
    { IL_M_GET, "/v1/schedules/{}/days", IL_ROLE_ANY, il_schedule_days },
    { IL_M_GET, "/v1/schedules/{}/slots/{}/impact",
      IL_ROLE_OPERATOR | IL_ROLE_AUDITOR, il_slot_impact },
    { IL_M_POST, "/v1/schedules/{}/slots/{}/rerun", IL_ROLE_OPERATOR,
      il_slot_rerun },
    { IL_M_POST, "/v1/schedules/{}/run", IL_ROLE_OPERATOR, il_schedule_run },
    { IL_M_POST, "/v1/schedules/{}/backfill", IL_ROLE_OPERATOR,
      il_schedule_backfill },
    { IL_M_GET, "/v1/gaps", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR, il_gap_list },
    { IL_M_POST, "/v1/gaps/{}/approve", IL_ROLE_OPERATOR, il_gap_approve },
    { IL_M_POST, "/v1/gaps/{}/dismiss", IL_ROLE_OPERATOR, il_gap_dismiss },

    { IL_M_GET, "/v1/alerts", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_alert_list },
    { IL_M_GET, "/v1/alerts/{}", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_alert_get },
    { IL_M_PUT, "/v1/alerts/{}", IL_ROLE_OPERATOR, il_alert_put },
    { IL_M_DELETE, "/v1/alerts/{}", IL_ROLE_OPERATOR, il_alert_delete },

    { IL_M_GET, "/v1/overview", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_overview_get },
    { IL_M_GET, "/v1/series", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_series_get },
    { IL_M_GET, "/v1/inbox", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_inbox_list },
    { IL_M_POST, "/v1/inbox/{}/assign", IL_ROLE_OPERATOR, il_inbox_assign },
    { IL_M_POST, "/v1/inbox/{}/dismiss", IL_ROLE_OPERATOR, il_inbox_dismiss },
    { IL_M_GET, "/v1/config", IL_ROLE_OPERATOR | IL_ROLE_AUDITOR,
      il_config_get },

    { IL_M_POST, "/ui/login", IL_ACCESS_NONE, il_ui_login },
    { IL_M_GET, "/ui/login", IL_ACCESS_NONE, il_ui_login_page },
    { IL_M_POST, "/ui/logout", IL_ACCESS_NONE, il_ui_logout },
    { IL_M_GET, "/ui/session", IL_ACCESS_NONE, il_ui_session },
    { IL_M_GET, "/ui/*", IL_ACCESS_NONE, il_ui_page },

    { IL_M_GET, "/v1/events", IL_ROLE_ANY, il_events_get },

    { IL_M_GET, "/metrics", IL_ACCESS_NONE, il_health_metrics },
    { IL_M_GET, "/livez", IL_ACCESS_NONE, il_health_live },
    { IL_M_GET, "/readyz", IL_ACCESS_NONE, il_health_ready },

    { IL_M_OTHER, NULL, 0, NULL }
};


static const char *const  il_method_names[] = {
    "", "GET", "HEAD", "POST", "PUT", "DELETE"
};


/* 1 if path is of that pattern; args are then the raw parameters.  A "*" is
 * the rest of the path, whatever it is. */

static int
il_route_match(const char *pattern, il_str_t path, il_str_t *args)
{
    size_t  i, n, start;

    i = 0;
    n = 0;

    while (*pattern != '\0') {

        if (pattern[0] == '*') {
            return 1;
        }

        if (pattern[0] == '{' && n < IL_REQ_ARGS) {
            start = i;

            while (i < path.len && path.data[i] != '/') {
                i++;
            }

            if (i == start) {
                return 0;
            }

            args[n++] = il_str(path.data + start, i - start);
            pattern += 2;
            continue;
        }

        if (i >= path.len || path.data[i] != *pattern) {
            return 0;
        }

        i++;
        pattern++;
    }

    return i == path.len;
}


il_str_t
il_route_decode(il_req_t *r, il_str_t s)
{
    char      *out;
    size_t     i, n;
    uint8_t    c;
    il_str_t   d;

    out = il_pool_get(&r->pool, s.len + 1);
    if (out == NULL) {
        return il_str(NULL, 0);
    }

    for (i = 0, n = 0; i < s.len; i++) {

        if (s.data[i] != '%') {
            out[n++] = s.data[i];
            continue;
        }

        if (s.len - i < 3
            || il_hex_decode(&c, 1, il_str(s.data + i + 1, 2)) != 0
            || c == 0)
        {
            return il_str(NULL, 0);
        }

        out[n++] = (char) c;
        i += 2;
    }

    d = il_str(out, n);

    return il_utf8_valid(d) ? d : il_str(NULL, 0);
}


il_str_t
il_route_query(const il_req_t *r, const char *name)
{
    size_t       n;
    il_str_t     rest, part;
    const char  *amp;

    n = strlen(name);
    rest = r->query;

    while (rest.len > 0) {
        amp = memchr(rest.data, '&', rest.len);
        part = il_str(rest.data, amp == NULL ? rest.len
                                             : (size_t) (amp - rest.data));

        if (part.len > n && memcmp(part.data, name, n) == 0
            && part.data[n] == '=')
        {
            return il_str(part.data + n + 1, part.len - n - 1);
        }

        if (amp == NULL) {
            break;
        }

        rest = il_str(amp + 1, rest.len - part.len - 1);
    }

    return il_str(NULL, 0);
}


static int
il_route_method(const il_route_t *route, il_method_e method)
{
    return route->method == method
           || (method == IL_M_HEAD && route->method == IL_M_GET);
}


static void
il_route_not_allowed(il_req_t *r)
{
    il_str_t           args[IL_REQ_ARGS];
    il_buf_t           allow;
    const il_route_t  *route;

    memset(&allow, 0, sizeof(allow));

    for (route = il_routes; route->pattern != NULL; route++) {
        if (!il_route_match(route->pattern, r->path, args)) {
            continue;
        }

        il_buf_puts(&allow, allow.len == 0 ? "" : ", ");
        il_buf_puts(&allow, il_method_names[route->method]);

        if (route->method == IL_M_GET) {
            il_buf_puts(&allow, ", HEAD");
        }
    }

    il_req_header(r, "Allow", il_buf_str(&allow));
    il_buf_free(&allow);

    il_req_problem(r, IL_P_METHOD_NOT_ALLOWED,
                   "This resource does not know that method.");
}


static void
il_route_run(il_req_t *r, const il_route_t *route)
{
    size_t   i;
    uint8_t  digest[32];

    r->route = route;

    for (i = 0; i < IL_REQ_ARGS && r->args[i].len > 0; i++) {
        r->args[i] = il_route_decode(r, r->args[i]);

        if (r->args[i].data == NULL) {
            il_req_problem(r, IL_P_BAD_REQUEST, "The path is not "
                           "percent-encoded UTF-8.");
            return;
        }
    }

    if (route->access & IL_ROLE_ANY) {
        /* a cookie is worth less than a token: it comes by itself */

        if (il_req_param(r, "HTTP_AUTHORIZATION").data == NULL
            && il_session_cookie(r, digest) != 0)
        {
            il_session_auth(r, route->access, route->handler);
            return;
        }

        il_auth_token(r, route->access, route->handler);
        return;
    }

    route->handler(r);
}


void
il_route(il_req_t *r)
{
    int                known;
    il_str_t           args[IL_REQ_ARGS];
    const il_route_t  *route;

    known = 0;

    for (route = il_routes; route->pattern != NULL; route++) {

        memset(args, 0, sizeof(args));

        if (!il_route_match(route->pattern, r->path, args)) {
            continue;
        }

        known = 1;

        if (il_route_method(route, r->method)) {
            memcpy(r->args, args, sizeof(args));
            il_route_run(r, route);
            return;
        }
    }

    if (known) {
        il_route_not_allowed(r);
        return;
    }

    il_req_problem(r, IL_P_NOT_FOUND, "There is nothing at this path.");
}
