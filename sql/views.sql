-- views.sql: what interlock_audit may read.  Nothing else is granted to it.
-- No secret is in them: token hashes, payloads and idempotency keys' owners
-- stay behind.

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
    j.revoked_by, j.groups, j.limited_by, j.expire_at
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
    a.step
from interlock.attempts a;

create or replace view interlock.audit_results as
select r.tenant, r.work_key, r.revision, r.job_id, r.attempt_id, r.fence,
    r.version, r.result_url, r.processed, r.failed, r.published, r.created_at
from interlock.results r;

create or replace view interlock.audit_limits as
select l.tenant, l.name, l.capacity, l.start_rate, l.created_at, l.updated_at
from interlock.limits l;

create or replace view interlock.audit_actions as
select a.tenant, a.id, a.at, a.what, a.target, a.token_id, a.token_name,
    a.requested_by, a.reason, a.detail
from interlock.actions a;

create or replace view interlock.audit_publications as
select p.tenant, p.work_key, p.fence, p.revision, p.action_id, p.at
from interlock.publications p;

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
