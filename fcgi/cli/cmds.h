/*
 * cmds.h: the commands.
 */

#ifndef IL_CMDS_H
#define IL_CMDS_H

#include "cli.h"

extern const il_cmd_t  il_cmd_submit;
extern const il_cmd_t  il_cmd_ticket;
extern const il_cmd_t  il_cmd_job;
extern const il_cmd_t  il_cmd_result;
extern const il_cmd_t  il_cmd_show;
extern const il_cmd_t  il_cmd_cancel;
extern const il_cmd_t  il_cmd_decide;
extern const il_cmd_t  il_cmd_redrive;
extern const il_cmd_t  il_cmd_audit;
extern const il_cmd_t  il_cmd_audit_verify;
extern const il_cmd_t  il_cmd_work;
extern const il_cmd_t  il_cmd_progress;
extern const il_cmd_t  il_cmd_verify;
extern const il_cmd_t  il_cmd_kind_list;
extern const il_cmd_t  il_cmd_kind_get;
extern const il_cmd_t  il_cmd_kind_put;
extern const il_cmd_t  il_cmd_kind_delete;
extern const il_cmd_t  il_cmd_advice;
extern const il_cmd_t  il_cmd_effect_begin;
extern const il_cmd_t  il_cmd_effect_confirm;
extern const il_cmd_t  il_cmd_effect_fail;
extern const il_cmd_t  il_cmd_effect_unknown;
extern const il_cmd_t  il_cmd_effect_list;
extern const il_cmd_t  il_cmd_effect_show;
extern const il_cmd_t  il_cmd_effect_check;
extern const il_cmd_t  il_cmd_effect_resolve;
extern const il_cmd_t  il_cmd_effect_run;
extern const il_cmd_t  il_cmd_effect_kind_list;
extern const il_cmd_t  il_cmd_effect_kind_get;
extern const il_cmd_t  il_cmd_effect_kind_put;
extern const il_cmd_t  il_cmd_effect_kind_delete;
extern const il_cmd_t  il_cmd_kind_pause;
extern const il_cmd_t  il_cmd_kind_resume;
extern const il_cmd_t  il_cmd_source_list;
extern const il_cmd_t  il_cmd_source_pause;
extern const il_cmd_t  il_cmd_source_resume;
extern const il_cmd_t  il_cmd_alert_list;
extern const il_cmd_t  il_cmd_alert_get;
extern const il_cmd_t  il_cmd_alert_put;
extern const il_cmd_t  il_cmd_alert_delete;
extern const il_cmd_t  il_cmd_limit_list;
extern const il_cmd_t  il_cmd_limit_get;
extern const il_cmd_t  il_cmd_limit_put;
extern const il_cmd_t  il_cmd_limit_delete;
extern const il_cmd_t  il_cmd_schedule_list;
extern const il_cmd_t  il_cmd_schedule_get;
extern const il_cmd_t  il_cmd_schedule_put;
extern const il_cmd_t  il_cmd_schedule_delete;
extern const il_cmd_t  il_cmd_schedule_pause;
extern const il_cmd_t  il_cmd_schedule_resume;
extern const il_cmd_t  il_cmd_schedule_slots;
extern const il_cmd_t  il_cmd_schedule_run;
extern const il_cmd_t  il_cmd_schedule_backfill;
extern const il_cmd_t  il_cmd_gaps_list;
extern const il_cmd_t  il_cmd_gaps_approve;
extern const il_cmd_t  il_cmd_gaps_dismiss;
extern const il_cmd_t  il_cmd_inbox_list;
extern const il_cmd_t  il_cmd_inbox_assign;
extern const il_cmd_t  il_cmd_inbox_dismiss;
extern const il_cmd_t  il_cmd_impact;
extern const il_cmd_t  il_cmd_rerun;
extern const il_cmd_t  il_cmd_token_create;
extern const il_cmd_t  il_cmd_token_revoke;
extern const il_cmd_t  il_cmd_token_list;
extern const il_cmd_t  il_cmd_keys_init;
extern const il_cmd_t  il_cmd_keys_rotate;
extern const il_cmd_t  il_cmd_keys_list;
extern const il_cmd_t  il_cmd_keys_prune;
extern const il_cmd_t  il_cmd_migrate;
extern const il_cmd_t  il_cmd_doctor;

#endif /* IL_CMDS_H */
