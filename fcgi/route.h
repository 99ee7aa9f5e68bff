/*
 * route.h: from method and path to a handler.
 */

#ifndef IL_ROUTE_H
#define IL_ROUTE_H

#include "req.h"

/* Finds the route, decodes its path parameters, authenticates, runs the
 * handler; or answers 400, 401, 403, 404, 405. */
void il_route(il_req_t *r);

/* Decodes %XX once into the pool; data NULL if it is malformed, or not UTF-8,
 * or has a NUL. */
il_str_t il_route_decode(il_req_t *r, il_str_t s);

/* The raw value of a query parameter, or data NULL. */
il_str_t il_route_query(const il_req_t *r, const char *name);


/* Handlers. */

void il_submit_ingress(il_req_t *r);
void il_submit_ingress_head(il_req_t *r);
void il_ticket_post(il_req_t *r);
void il_button_post(il_req_t *r);
void il_button_get(il_req_t *r);
void il_button_job(il_req_t *r);
void il_submit_job(il_req_t *r);
void il_submit_jobs(il_req_t *r);
void il_claim_post(il_req_t *r);
void il_lease_batch(il_req_t *r);
void il_lease_renew(il_req_t *r);
void il_lease_progress(il_req_t *r);
void il_finish_complete(il_req_t *r);
void il_finish_fail(il_req_t *r);
void il_finish_release(il_req_t *r);
void il_effect_post(il_req_t *r);
void il_effect_outcome_post(il_req_t *r);
void il_effect_edge(il_req_t *r);
void il_effect_list(il_req_t *r);
void il_effect_get(il_req_t *r);
void il_effect_check(il_req_t *r);
void il_effect_resolve(il_req_t *r);
void il_effect_kind_list(il_req_t *r);
void il_effect_kind_get(il_req_t *r);
void il_effect_kind_put(il_req_t *r);
void il_effect_kind_delete(il_req_t *r);
void il_look_job(il_req_t *r);
void il_look_work(il_req_t *r);
void il_look_result(il_req_t *r);
void il_list_jobs(il_req_t *r);
void il_list_results(il_req_t *r);
void il_list_revisions(il_req_t *r);
void il_list_requests(il_req_t *r);
void il_list_works(il_req_t *r);
void il_list_leases(il_req_t *r);
void il_list_actions(il_req_t *r);
void il_find_search(il_req_t *r);
void il_find_payload(il_req_t *r);
void il_act_cancel(il_req_t *r);
void il_act_revoke(il_req_t *r);
void il_act_decide(il_req_t *r);
void il_act_redrive(il_req_t *r);
void il_act_publish(il_req_t *r);
void il_pause_kind(il_req_t *r);
void il_pause_kind_resume(il_req_t *r);
void il_pause_source(il_req_t *r);
void il_pause_source_resume(il_req_t *r);
void il_pause_sources(il_req_t *r);
void il_audit_get(il_req_t *r);
void il_audit_advice(il_req_t *r);
void il_kind_list(il_req_t *r);
void il_kind_get(il_req_t *r);
void il_kind_put(il_req_t *r);
void il_kind_delete(il_req_t *r);
void il_kind_explain(il_req_t *r);
void il_limit_list(il_req_t *r);
void il_limit_get(il_req_t *r);
void il_limit_put(il_req_t *r);
void il_limit_delete(il_req_t *r);
void il_schedule_list(il_req_t *r);
void il_schedule_get(il_req_t *r);
void il_schedule_put(il_req_t *r);
void il_schedule_delete(il_req_t *r);
void il_schedule_pause(il_req_t *r);
void il_schedule_resume(il_req_t *r);
void il_schedule_slots(il_req_t *r);
void il_schedule_days(il_req_t *r);
void il_schedule_run(il_req_t *r);
void il_schedule_backfill(il_req_t *r);
void il_slot_impact(il_req_t *r);
void il_slot_rerun(il_req_t *r);
void il_gap_list(il_req_t *r);
void il_gap_approve(il_req_t *r);
void il_gap_dismiss(il_req_t *r);
void il_work_impact(il_req_t *r);
void il_work_rerun(il_req_t *r);
void il_alert_list(il_req_t *r);
void il_alert_get(il_req_t *r);
void il_alert_put(il_req_t *r);
void il_alert_delete(il_req_t *r);
void il_inbox_list(il_req_t *r);
void il_inbox_assign(il_req_t *r);
void il_inbox_dismiss(il_req_t *r);
void il_overview_get(il_req_t *r);
void il_series_get(il_req_t *r);
void il_config_get(il_req_t *r);
void il_ui_login(il_req_t *r);
void il_ui_login_page(il_req_t *r);
void il_ui_logout(il_req_t *r);
void il_ui_session(il_req_t *r);
void il_ui_page(il_req_t *r);
void il_events_get(il_req_t *r);
void il_health_keys(il_req_t *r);
void il_health_live(il_req_t *r);
void il_health_ready(il_req_t *r);
void il_health_metrics(il_req_t *r);

/* Event thread: answers probes that the database keeps waiting. */
void il_health_tick(int64_t now);

/* At exit. */
void il_health_free(void);

#endif /* IL_ROUTE_H */
