-- 003_recovery.sql: what becomes of a job whose owner was lost (checking,
-- held), people's decisions about it, redriving, and what a later attempt and
-- an operator are told of earlier ones.

-- Functions whose answers gain columns: they are made anew by their files.
drop function if exists interlock.claim(uuid[], int[], text[], text[],
    int[]);
drop function if exists interlock.is_time(text);


-- Jobs.
--   waits_on       what a checking job waits for: effects, or result check;
--                  and effects for one that stands first in its key's line,
--                  held back by those of an earlier attempt of the key
--   attempts_base  attempts that do not count against max_attempts: those
--                  before somebody renewed its budget, or let go uncounted
--   retry_since    from when retry_for counts, if not from the first start
--   revivals       how often somebody took it back from failed
--   assignee       who looks after it

alter table interlock.jobs drop constraint jobs_valid;
drop function interlock.jobs_valid(text, text, text, int, timestamptz,
    timestamptz, timestamptz, text, int, uuid, bigint, text, text[], uuid,
    boolean);

alter table interlock.jobs
    add column waits_on text,
    add column attempts_base int not null default 0,
    add column retry_since timestamptz,
    add column revivals int not null default 0,
    add column assignee text;

create function interlock.jobs_valid(
    status text, place text, decision text, attempts int,
    started_at timestamptz, finished_at timestamptz, retry_at timestamptz,
    error text, revision int, superseded_by uuid, turn bigint,
    limited_by text, groups text[], revoked_by uuid, ending boolean,
    waits_on text, attempts_base int)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when status not in ('queued', 'running', 'checking', 'held',
            'parked', 'succeeded', 'failed', 'canceled', 'superseded',
            'expired')
        then interlock.refuse_row('jobs', 'no such status')
        when place not in ('ready', 'delayed', 'blocked', 'limited')
        then interlock.refuse_row('jobs', 'no such place')
        when decision not in ('accepted', 'buffered', 'replaced', 'parked')
        then interlock.refuse_row('jobs', 'no such decision')
        when attempts_base < 0 or attempts < attempts_base
        then interlock.refuse_row('jobs', 'no negative attempts')
        when (status = 'queued') <> (place is not null)
        then interlock.refuse_row('jobs',
            'a queued job has its place, no other one has')
        when (status in ('succeeded', 'failed', 'canceled', 'superseded',
                'expired')) <> (finished_at is not null)
        then interlock.refuse_row('jobs',
            'an ended job has its end, no other one has')
        when (status = 'superseded') <> (superseded_by is not null)
        then interlock.refuse_row('jobs',
            'a superseded job has its successor, no other one has')
        when (status = 'succeeded') <> (revision is not null)
        then interlock.refuse_row('jobs',
            'a succeeded job has its revision, no other one has')
        when status = 'running' and (started_at is null or attempts = 0)
        then interlock.refuse_row('jobs',
            'a running job has its start and its attempt')
        when status in ('failed', 'expired', 'held') and error is null
        then interlock.refuse_row('jobs',
            'a failed, expired or held job has its reason')
        when retry_at is not null and place is distinct from 'delayed'
        then interlock.refuse_row('jobs',
            'only a delayed job waits for its retry')
        when (place = 'blocked' or status = 'parked') and turn is null
        then interlock.refuse_row('jobs', 'who stands in line has a turn')
        when place = 'limited'
            and (limited_by is null or groups is null
                 or limited_by <> all (groups))
        then interlock.refuse_row('jobs',
            'a limited job is so by one of its groups')
        when revoked_by is not null and not ending
        then interlock.refuse_row('jobs', 'a replaced job is ending')
        when status in ('expired', 'parked') and attempts > 0
        then interlock.refuse_row('jobs',
            'what has started neither expires nor is parked')
        when status = 'checking'
            and coalesce(waits_on not in ('effects', 'result check'), true)
        then interlock.refuse_row('jobs',
            'a checking job waits for its effects or its result check')
        when status in ('checking', 'held')
            and (started_at is null or ending)
        then interlock.refuse_row('jobs',
            'only what has run, and is not to end, is checked or held')
        else true end;
end
$$;

revoke all on function interlock.jobs_valid(text, text, text, int,
    timestamptz, timestamptz, timestamptz, text, int, uuid, bigint, text,
    text[], uuid, boolean, text, int) from public;

alter table interlock.jobs add constraint jobs_valid
    check (interlock.jobs_valid(status, place, decision, attempts,
        started_at, finished_at, retry_at, error, revision, superseded_by,
        turn, limited_by, groups, revoked_by, ending, waits_on,
        attempts_base));

-- A final status stays, but for a failed job that somebody takes back: then
-- its revivals say so, by one.
drop trigger jobs_final on interlock.jobs;
create trigger jobs_final before update on interlock.jobs
    for each row
    when (old.finished_at is not null and new.status <> old.status
          and not (old.status = 'failed'
                   and new.status in ('queued', 'succeeded')
                   and new.revivals = old.revivals + 1))
    execute function interlock.refuse_change('a final status stays');

-- Dead letters.
create index jobs_failed on interlock.jobs (tenant, kind, finished_at, id)
    where status = 'failed';


-- What is measured of an attempt: the longest time between two signs of life
-- of its owner, and how long it was due before it was claimed.

alter table interlock.leases
    add column renewed_at timestamptz,
    add column max_gap_ms int,
    add column waited_ms int;

alter table interlock.attempts
    add column max_gap_ms int,
    add column waited_ms int;

create index attempts_kind on interlock.attempts (tenant, kind, ended_at)
    where kind is not null;


-- Results that no owner brought: a result check found them (check), or
-- somebody decided so (decide).  They have a fence of their own.

alter table interlock.results drop constraint results_valid;
drop function interlock.results_valid(int, bigint, bigint);

alter table interlock.results
    alter column attempt_id drop not null,
    add column origin text not null default 'complete';

create function interlock.results_valid(
    revision int, processed bigint, failed bigint, origin text,
    attempt_id uuid)
returns boolean
language plpgsql immutable
as $$
begin
    return case
        when revision < 1
        then interlock.refuse_row('results', 'revisions count from 1')
        when processed < 0 or failed < 0
        then interlock.refuse_row('results', 'no negative counts')
        when origin not in ('complete', 'check', 'decide')
            or (origin = 'complete') <> (attempt_id is not null)
        then interlock.refuse_row('results',
            'a completed result has its attempt, no other one has')
        else true end;
end
$$;

revoke all on function interlock.results_valid(int, bigint, bigint, text,
    uuid) from public;

alter table interlock.results add constraint results_valid
    check (interlock.results_valid(revision, processed, failed, origin,
        attempt_id));

-- Why the result was refused: job-canceled, or lease-lost (it came after its
-- attempt had been recovered).
alter table interlock.refused_results
    add column refusal text not null default 'job-canceled'
        check (refusal in ('job-canceled', 'lease-lost')),
    add column work_key text;

-- The audit finds by the work key what was done about it.
alter table interlock.actions add column work_key text;

alter table interlock.refused_results
    disable trigger refused_results_insert_only;
update interlock.refused_results r set work_key = j.work_key
from interlock.jobs j where j.tenant = r.tenant and j.id = r.job_id;
alter table interlock.refused_results
    enable trigger refused_results_insert_only,
    alter column work_key set not null;

alter table interlock.actions disable trigger actions_insert_only;
update interlock.actions a set work_key = a.target
where a.what = 'work_publish';
update interlock.actions a set work_key = j.work_key
from interlock.jobs j
where a.what = 'job_cancel' and j.tenant = a.tenant
    and j.id::text = a.target;
alter table interlock.actions enable trigger actions_insert_only;

create index refused_results_work on interlock.refused_results
    (tenant, work_key, at) where work_key is not null;
create index actions_work on interlock.actions (tenant, work_key, at)
    where work_key is not null;
create index jobs_expired on interlock.jobs (tenant, work_key, finished_at)
    where status = 'expired';


-- Redriving failed jobs: a plan says which, and what became of each.

create table interlock.redrive_plans (
    tenant        int not null,
    id            uuid not null default gen_random_uuid(),
    created_at    timestamptz not null default clock_timestamp(),
    expires_at    timestamptz not null,
    filter        text not null,
    count         int not null check (count >= 0),
    requested_by  text,
    reason        text,
    token_id      bigint,
    token_name    text,
    primary key (tenant, id)
);

create table interlock.redrive_jobs (
    tenant   int not null,
    plan_id  uuid not null,
    n        int not null,
    job_id   uuid not null,
    outcome  text,    -- null: not yet; redriven; else why it was skipped
    primary key (tenant, plan_id, n)
) with (fillfactor = 70);
