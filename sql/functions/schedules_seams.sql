-- schedules_seams.sql: what interlockd calls about schedules, until each is
-- there: signatures and shapes hold.  who: requested_by and reason, which
-- acting steps demand (400 field-invalid without), and the token.
--
-- Schedule (doc of put, get, list, pause, resume): {name, version, cron, zone,
--   kind, work_key, subjects: [...] (left out above 1000 and in lists),
--   subject_count, payload, priority, grace, catch_up, catch_up_max,
--   approve_after, gap, fold, date_offset, jitter, start, end, skip_alarm,
--   paused, pause_note, next_at (null: never), skips_in_row, updated_at}.
--   put refuses: json-invalid, unknown-field, field-invalid, kind-unknown,
--   work-key-mismatch (all 400 but kind-unknown 404).  What doc leaves out
--   keeps its present value, or its default.
-- schedule_scan, gap_scan: sweeps, one row a schedule that was worked on;
--   again at once while a row says more.
-- schedule_slots: rows newest first, each doc {slot_at, until, slots,
--   business_date, subject, work_key, state: waiting | admitted | skipped |
--   run, reason, job_id, job_status, last_success, processed, failed,
--   delay_seconds, generated: bool, delivered: bool or null, tries, try_at,
--   gap_id, gap_state}; slots above 1: a row for all skipped from slot_at to
--   until.  An unknown schedule: one row with problem not-found.
-- gaps_list: oldest first, doc {gap_id, schedule, slot_at, business_date,
--   subject, work_key, since, why, state: open | approved | dismissed |
--   closed, job_id, opened_at, changed_at, requested_by, reason}; p_state null:
--   open.
-- gap_approve: runs the slot's work now; doc the gap with job_id.  Refuses:
--   not-found, field-invalid, decision-not-possible (409), work-active (409),
--   queue-full (429, retry_after).  gap_dismiss: likewise.
-- schedule_run, schedule_backfill, slot_rerun: act on the next p_limit works
--   of their plan; again while remaining > 0, with the same p_call (run,
--   rerun) or p_plan (backfill).  doc {plan_id, schedule, count, admitted,
--   jobs: [{business_date, subject, work_key, job_id, outcome}, at most 200],
--   skipped: [{business_date, subject, work_key, reason}, at most 200]}.
--   Refuse: not-found, field-invalid, plan-expired (409), impact-changed
--   (412: rerun).
-- schedule_backfill_plan: doc {plan_id, schedule, from, to, count, subjects,
--   works: [{business_date, subject, work_key}, at most 200], truncated,
--   expires_at}.
-- work_impact: doc {impact_id, work_key, kind, active, result, jobs: [...],
--   effects: [...], reached_outside, unsettled, would_do}.  Refuses:
--   not-found, work-pruned (410).
-- work_rerun: p_payload null: that of the job that is run again; doc {decision,
--   job_id, work_key, kind, status, status_url, rerun_of}.  Refuses: not-found,
--   work-pruned (410), field-invalid, impact-changed (412), work-active (409),
--   queue-full (429).
-- slot_impact: p_date is a business date, or a slot's time; doc {impact_id,
--   schedule, business_date, slots, subjects, succeeded, failed, missing,
--   active, effects: {confirmed, unknown, ...}, reached_outside,
--   works: [{subject, work_key, state, job_id, error, reached_outside}, at most
--   200, failed and missing first], truncated, would_do}.


create or replace function interlock.schedule_run(
    p_tenant int, p_name text, p_date date, p_subjects text[],
    p_requested_by text, p_reason text, p_token_id bigint, p_token_name
    text, p_call uuid, p_limit int)
returns table (problem text, detail text, doc text, remaining int, wake_kinds
    text[], ended_jobs uuid[])
language sql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select 'not-found','no such schedule',null::text,0,'{}'::text[],'{}'::uuid[]
$$;
revoke all on function interlock.schedule_run(int, text, date, text[], text, text, bigint,
    text, uuid, int) from public;
grant execute on function interlock.schedule_run(int, text, date, text[], text, text, bigint,
    text, uuid, int)
    to interlock_service;

create or replace function interlock.schedule_backfill_plan(
    p_tenant int, p_name text, p_from date, p_to date, p_subjects text[],
    p_requested_by text, p_reason text, p_token_id bigint, p_token_name text)
returns table (problem text, detail text, doc text)
language sql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select 'not-found','no such schedule',null::text
$$;
revoke all on function interlock.schedule_backfill_plan(int, text, date, date, text[], text,
    text, bigint, text) from public;
grant execute on function interlock.schedule_backfill_plan(int, text, date, date, text[], text,
    text, bigint, text)
    to interlock_service;

create or replace function interlock.schedule_backfill(
    p_tenant int, p_name text, p_plan uuid, p_requested_by text, p_reason
    text, p_token_id bigint, p_token_name text, p_limit int)
returns table (problem text, detail text, doc text, remaining int, wake_kinds
    text[], ended_jobs uuid[])
language sql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select 'not-found','no such plan',null::text,0,'{}'::text[],'{}'::uuid[]
$$;
revoke all on function interlock.schedule_backfill(int, text, uuid, text, text, bigint, text,
    int) from public;
grant execute on function interlock.schedule_backfill(int, text, uuid, text, text, bigint, text,
    int)
    to interlock_service;

create or replace function interlock.slot_impact(
    p_tenant int, p_name text, p_date text)
returns table (problem text, detail text, doc text)
language sql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select 'not-found','no such schedule',null::text
$$;
revoke all on function interlock.slot_impact(int, text, text) from public;
grant execute on function interlock.slot_impact(int, text, text)
    to interlock_service;

create or replace function interlock.slot_rerun(
    p_tenant int, p_name text, p_date text, p_only text, p_impact_id text,
    p_requested_by text, p_reason text, p_token_id bigint, p_token_name
    text, p_call uuid, p_limit int)
returns table (problem text, detail text, doc text, remaining int, wake_kinds
    text[], ended_jobs uuid[])
language sql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select 'not-found','no such schedule',null::text,0,'{}'::text[],'{}'::uuid[]
$$;
revoke all on function interlock.slot_rerun(int, text, text, text, text, text, text, bigint,
    text, uuid, int) from public;
grant execute on function interlock.slot_rerun(int, text, text, text, text, text, text, bigint,
    text, uuid, int)
    to interlock_service;
