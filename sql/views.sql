-- views.sql: what interlock_audit may read.  Nothing else is granted to it.
-- No secret is in them: token hashes, payloads and idempotency keys' owners
-- stay behind.  Of what is kept in parts (jobs, live and ended ones) it is the
-- whole.

create or replace view interlock.audit_tenants as
select t.id as tenant, t.name, t.fence_floor, t.created_at
from interlock.tenants t;

create or replace view interlock.audit_tokens as
select t.tenant, t.id, t.name, t.role, t.created_at, t.revoked_at
from interlock.api_tokens t;

create or replace view interlock.audit_kinds as
select k.tenant, k.name, k.version, k.deleted, v.overlap, v.when_completed,
    v.lease_seconds, v.max_runtime, v.max_attempts, v.retry_for, v.on_lost
from interlock.kinds k
left join interlock.kind_versions v on v.tenant = k.tenant
    and v.name = k.name and v.version = k.version;

create or replace view interlock.audit_works as
select w.tenant, w.work_key, w.kind, w.fence, w.max_version, w.last_revision,
    w.published_revision, w.published_fence, w.published_version,
    w.published_at, w.created_at
from interlock.works w;

create or replace view interlock.audit_requests as
select q.tenant, q.id, q.arrived_at, q.source, q.idempotency_key,
    encode(q.fingerprint, 'hex') as fingerprint, q.kind, q.work_key,
    q.version, q.decision, q.code, q.reason, q.job_id, q.status,
    q.active_job_id, q.superseded_job_id, q.first_request, q.requested_by,
    q.request_reason
from interlock.requests q;

create or replace view interlock.audit_jobs as
select j.tenant, j.id, j.kind, j.kind_version, j.work_key, j.version,
    j.status, j.place, j.decision, j.source, j.requested_by, j.reason,
    j.priority, j.run_at, j.deadline, j.attempts, j.created_at, j.started_at,
    j.finished_at, j.retry_at, j.error, j.user_message, j.log_url,
    j.result_url, j.revision, j.superseded_by, j.rerun_of, j.ending,
    j.revoked_by, j.groups, j.limited_by, j.expire_at, j.waits_on,
    j.attempts_base, j.retry_since, j.revivals, j.assignee
from interlock.jobs j;

create or replace view interlock.audit_leases as
select l.tenant, l.attempt_id, l.job_id, l.kind, l.work_key, l.fence,
    l.attempt, l.worker, l.granted_at, l.expires_at, l.runtime_end,
    l.renewals, l.cancel_requested, l.step
from interlock.leases l;

create or replace view interlock.audit_attempts as
select a.tenant, a.id, a.job_id, a.kind, a.work_key, a.fence, a.attempt,
    a.worker, a.granted_at, a.ended_at, a.renewals, a.call, a.status,
    a.revision, a.retry_at, a.error, a.retryable, a.user_message, a.log_url,
    a.step, a.max_gap_ms, a.waited_ms
from interlock.attempts a;

create or replace view interlock.audit_results as
select r.tenant, r.work_key, r.revision, r.job_id, r.attempt_id, r.fence,
    r.version, r.result_url, r.processed, r.failed, r.published,
    r.created_at, r.origin
from interlock.results r;

create or replace view interlock.audit_limits as
select l.tenant, l.name, l.capacity, l.start_rate, l.created_at, l.updated_at
from interlock.limits l;

create or replace view interlock.audit_actions as
select a.tenant, a.id, a.at, a.what, a.target, a.token_id, a.token_name,
    a.requested_by, a.reason, a.detail, a.work_key
from interlock.actions a;

create or replace view interlock.audit_publications as
select p.tenant, p.work_key, p.fence, p.revision, p.action_id, p.at
from interlock.publications p;

create or replace view interlock.audit_effect_kinds as
select k.tenant, k.name, k.version, k.deleted, v.idempotent, v.key_window,
    v.send_deadline, v.lookup is not null as has_lookup, v.authoritative,
    v.settle_after, v.max_checks, v.on_exhausted
from interlock.effect_kinds k
left join interlock.effect_kind_versions v on v.tenant = k.tenant
    and v.name = k.name and v.version = k.version;

create or replace view interlock.audit_effects as
select e.tenant, e.id, e.scope, e.scope_kind, e.name, e.kind, e.work_key,
    e.job_id, e.state, e.round, e.seq, e.target, e.compensates, e.sends,
    e.first_sent, e.last_sent, e.provider_ref, e.response_status,
    e.unknown_since, e.human_at, e.changed_at, e.created_at
from interlock.effects e;

create or replace view interlock.audit_sends as
select s.tenant, s.id, s.effect_id, s.n, s.round, s.attempt_id, s.job_id,
    s.fence, s.kind_version, s.begun_at, s.deadline, s.outcome, s.ended_at,
    s.ended_by, s.heard, s.heard_at, s.provider_ref
from interlock.sends s;

create or replace view interlock.audit_effects_history as
select h.tenant, h.id, h.at, h.effect_id, h.seq, h.moved, h.what,
    h.from_state, h.to_state, h.round, h.send_id, h.attempt_id, h.job_id,
    h.fence, h.said, h.provider_ref, h.detail, h.response_status,
    encode(h.response_hash, 'hex') as response_hash, h.requested_by,
    h.reason, h.token_id, h.token_name, h.contradiction
from interlock.effects_history h;

create or replace view interlock.audit_effects_chain as
select c.tenant, c.n, c.history_id, encode(c.prev, 'hex') as prev,
    encode(c.hash, 'hex') as link, c.sealed_at
from interlock.effects_chain c;

grant select on interlock.audit_effect_kinds, interlock.audit_effects,
    interlock.audit_sends, interlock.audit_effects_history,
    interlock.audit_effects_chain to interlock_audit;

create or replace view interlock.audit_refused_results as
select r.tenant, r.attempt_id, r.job_id, r.work_key, r.fence, r.refusal,
    r.result_url, r.processed, r.failed, r.at
from interlock.refused_results r;

create or replace view interlock.audit_redrives as
select p.tenant, p.id as plan_id, p.created_at, p.expires_at, p.filter,
    p.count, p.requested_by, p.reason, p.token_id, p.token_name, j.n,
    j.job_id, j.outcome
from interlock.redrive_plans p
left join interlock.redrive_jobs j on j.tenant = p.tenant
    and j.plan_id = p.id;

grant select on interlock.audit_refused_results, interlock.audit_redrives
    to interlock_audit;

grant select on interlock.audit_limits, interlock.audit_actions,
    interlock.audit_publications to interlock_audit;

grant select on interlock.audit_tenants, interlock.audit_tokens,
    interlock.audit_kinds, interlock.audit_works, interlock.audit_requests,
    interlock.audit_jobs, interlock.audit_leases, interlock.audit_attempts,
    interlock.audit_results to interlock_audit;

create or replace view interlock.audit_check_answers as
select c.tenant, c.id, c.check_id, c.subject, c.target, c.work_key, c.seq,
    c.try, c.started_at, c.at, c.answer, c.detail, c.ref, c.outcome
from interlock.check_answers c;

grant select on interlock.audit_check_answers to interlock_audit;

create or replace view interlock.audit_pauses as
select p.tenant, p.what, p.name, p.paused_at, p.requested_by, p.reason,
    p.token_id, p.token_name
from interlock.pauses p;

grant select on interlock.audit_pauses to interlock_audit;

create or replace view interlock.audit_schedules as
select s.tenant, s.name, s.version, s.deleted, s.paused, s.pause_note,
    s.since, s.scanned_to, s.next_at, s.skips, v.cron, v.zone, v.kind,
    v.work_key, v.subjects, v.grace, v.catch_up, v.gap, v.fold
from interlock.schedules s
left join interlock.schedule_versions v on v.tenant = s.tenant
    and v.name = s.name and v.version = s.version;

create or replace view interlock.audit_slots as
select s.tenant, s.schedule, s.slot_at, s.subject, s.version,
    s.business_date, s.work_key, s.state, s.reason, s.job_id, s.tries,
    s.done_at
from interlock.slots s;

create or replace view interlock.audit_schedule_skips as
select k.tenant, k.schedule, k.from_at, k.to_at, k.version, k.slots,
    k.subjects, k.reason
from interlock.schedule_skips k;

create or replace view interlock.audit_gaps as
select g.tenant, g.id, g.schedule, g.slot_at, g.subject, g.business_date,
    g.work_key, g.since, g.why, g.state, g.opened_at, g.changed_at,
    g.requested_by, g.reason, g.token_id, g.token_name
from interlock.gaps g;

grant select on interlock.audit_schedules, interlock.audit_slots,
    interlock.audit_schedule_skips, interlock.audit_gaps to interlock_audit;
create or replace view interlock.audit_alerts as
select a.tenant, a.name, a.url, a.conditions, a.kinds, a.schedules,
    a.secret_file, a.fails, a.last_sent_at, a.last_error, a.created_at,
    a.updated_at
from interlock.alerts a;

create or replace view interlock.audit_alert_events as
select e.tenant, e.id, e.seq, e.alert, e.condition, e.subject, e.state,
    e.opened_event, e.at, e.body, e.tries, e.delivered_at, e.dropped_at,
    e.last_status, e.last_error
from interlock.alert_events e;

grant select on interlock.audit_alerts, interlock.audit_alert_events
    to interlock_audit;
