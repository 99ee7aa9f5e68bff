-- 002_overlaps_limits.sql: lines of waiting jobs, revocation, bounds, limit
-- groups, fair order, publishing by hand.

-- Functions whose answers gain columns: they are made anew by their files.
drop function if exists interlock.submit(int[], uuid[], text[], text[],
    bytea[], text[], text[], text[], bigint[], bytea[], text[], text[],
    text[], int[], timestamptz[], timestamptz[], boolean[], text[], text[],
    boolean);
drop function if exists interlock.submit_one(interlock.submission,
    interlock.kind_versions);
drop function if exists interlock.finish(int[], uuid[], uuid[], bigint[],
    text[], bytea[], text[], text[], bigint[], bigint[], text[], boolean[],
    text[], text[], int[]);
drop function if exists interlock.unclaim(int[], uuid[]);
drop function if exists interlock.recover(int);
drop function if exists interlock.key_advance(int, text, timestamptz, uuid,
    int);
drop function if exists interlock.claim_grant(int[], int[], uuid[], uuid[],
    text[]);

alter type interlock.submit_answer add attribute wake_kinds text[];
alter type interlock.attempt_answer add attribute groups text[];
alter type interlock.recovered add attribute wake_kinds text[];


-- Policies

alter table interlock.tenants
    add column max_queued bigint check (max_queued >= 1);

-- A null overflow parks what webhook sources bring and rejects the rest.
-- key_pattern, fair_part and limit_fields are made from key_template by
-- kind_put, so that no submission parses a template.
alter table interlock.kind_versions
    alter column overflow drop not null,
    alter column overflow drop default,
    add column key_pattern text,
    add column fair_part int check (fair_part >= 1),
    drop constraint kind_versions_order_check,
    add constraint kind_versions_order_check
        check ("order" in ('oldest', 'newest', 'deadline'));


-- Limits.  A limit is named as kinds name it, with its fields
-- ("crm:{site}"); a group is one setting of these ("crm:{site=17}") and has
-- the limit's capacity for itself.  A group's row is the lock under which its
-- live attempts (lease_groups) are counted, and holds the time at which the
-- next start is allowed.

create table interlock.limits (
    tenant      int not null references interlock.tenants (id),
    name        text not null
                check (name <> '' and octet_length(name) <= 255),
    capacity    int not null check (capacity >= 1),
    start_rate  float8 check (start_rate > 0 and start_rate <= 1000000),
    created_at  timestamptz not null default clock_timestamp(),
    updated_at  timestamptz not null default clock_timestamp(),
    primary key (tenant, name)
);

create table interlock.limit_groups (
    tenant      int not null,
    name        text not null,
    limit_name  text not null,
    next_start  timestamptz not null default '-infinity',
    primary key (tenant, name)
) with (fillfactor = 50);

create table interlock.lease_groups (
    tenant      int not null,
    group_name  text not null,
    attempt_id  uuid not null,
    primary key (tenant, group_name, attempt_id)
) with (autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);


-- Jobs.  Two more places: limited (a limit group of it is full; limited_by is
-- the group), and, as a status of its own, parked (its key's line is full).
--   turn        its place in the line of its key, while blocked or parked
--   in_line     admitted under buffer_all: stays in line, whatever comes
--   revoked_by  the request that replaced it while it ran
--   groups      the limit groups that it takes a part of while it runs
--   limited_by  the group that it was last held back by
--   fair_value, tag   whose it is and its virtual time, see order_tag()
--   expire_at   end of max_wait, until the first claim

alter table interlock.jobs drop constraint jobs_valid;
drop function interlock.jobs_valid(text, text, text, int, timestamptz,
    timestamptz, timestamptz, text, int, uuid);

alter table interlock.jobs
    add column turn bigint,
    add column in_line boolean not null default false,
    add column revoked_by uuid,
    add column groups text[],
    add column limited_by text,
    add column fair_value text,
    add column tag timestamptz,
    add column expire_at timestamptz;

update interlock.jobs j
set turn = case when j.place = 'blocked' then 1 end,
    expire_at = j.created_at + make_interval(secs => v.max_wait)
from interlock.kind_versions v
where v.tenant = j.tenant and v.name = j.kind and v.version = j.kind_version
    and j.finished_at is null;

create function interlock.jobs_valid(
    status text, place text, decision text, attempts int,
    started_at timestamptz, finished_at timestamptz, retry_at timestamptz,
    error text, revision int, superseded_by uuid, turn bigint,
    limited_by text, groups text[], revoked_by uuid, ending boolean)
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
        when attempts < 0
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
        when status in ('failed', 'expired') and error is null
        then interlock.refuse_row('jobs',
            'a failed or expired job has its reason')
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
        else true end;
end
$$;

revoke all on function interlock.jobs_valid(text, text, text, int,
    timestamptz, timestamptz, timestamptz, text, int, uuid, bigint, text,
    text[], uuid, boolean) from public;

alter table interlock.jobs add constraint jobs_valid
    check (interlock.jobs_valid(status, place, decision, attempts,
        started_at, finished_at, retry_at, error, revision, superseded_by,
        turn, limited_by, groups, revoked_by, ending));

-- One index for the claim (a kind's ready jobs in order) and for the bounds
-- (all queued ones of a kind, or of a tenant).
drop index interlock.jobs_ready;
create index jobs_queued on interlock.jobs (tenant, kind, place, order_key,
    id) where place is not null;

-- What waits for a limit group, and what was let go for it and is not claimed
-- yet.
create index jobs_limited on interlock.jobs (tenant, limited_by, place,
    order_key, id) where limited_by is not null and place is not null;

create index jobs_fair on interlock.jobs (tenant, kind, fair_value, tag)
    where tag is not null and place is not null;

create index jobs_expiry on interlock.jobs (expire_at)
    where started_at is null and finished_at is null;

drop index interlock.jobs_one_head;
create unique index jobs_one_head on interlock.jobs (tenant, work_key)
    where exclusive and (status in ('running', 'checking', 'held')
                         or place in ('ready', 'delayed', 'limited'));

-- Nobody waits twice in one place of the line, and of those that a later
-- request supersedes there is one.
drop index interlock.jobs_one_waiting;
create unique index jobs_line on interlock.jobs (tenant, work_key, turn)
    where place = 'blocked' or status = 'parked';
create unique index jobs_one_waiting on interlock.jobs (tenant, work_key)
    where place = 'blocked' and not in_line;

-- Groups of a live attempt (null: none), so that its end need not look.
alter table interlock.leases add column groups text[];


-- What claim and finish learn of a kind on their way; lost updates of it cost
-- fairness for a moment, or an estimate, never a decision.
--   v             virtual time: the tag of the last claimed, plus one
--   rate, rated_at  ends per second, decaying over a minute

create table interlock.kind_pace (
    tenant    int not null,
    kind      text not null,
    v         timestamptz,
    rate      float8 not null default 0,
    rated_at  timestamptz not null default clock_timestamp(),
    primary key (tenant, kind)
) with (fillfactor = 50);

-- How much room a queue had when somebody last looked (kind '' is the
-- tenant's).  The row is the lock of those who submit near the bound.
create table interlock.queue_looks (
    tenant     int not null,
    kind       text not null,
    bound      bigint not null,
    room       bigint not null,
    looked_at  timestamptz not null,
    primary key (tenant, kind)
) with (fillfactor = 50);


-- What people did: who (the token, and the name they gave), why, to what.
create table interlock.actions (
    tenant        int not null,
    id            bigint generated always as identity,
    at            timestamptz not null default clock_timestamp(),
    what          text not null,
    target        text not null,
    token_id      bigint,
    token_name    text,
    requested_by  text,
    reason        text,
    detail        json,
    primary key (tenant, id)
);

create index actions_target on interlock.actions (tenant, target, at)
    where target is not null;

-- Publishing by hand: a fence of its own, and the revision that it put
-- forward.
create table interlock.publications (
    tenant     int not null,
    work_key   text not null,
    fence      bigint not null,
    revision   int not null,
    action_id  bigint not null,
    at         timestamptz not null,
    primary key (tenant, work_key, fence)
);

-- What an owner brought that was refused because its job had been asked to
-- end: evidence only.
create table interlock.refused_results (
    tenant      int not null,
    attempt_id  uuid not null,
    digest      bytea not null,
    job_id      uuid not null,
    fence       bigint not null,
    result      json,
    result_url  text,
    processed   bigint,
    failed      bigint,
    at          timestamptz not null default clock_timestamp(),
    primary key (tenant, attempt_id, digest)
);

create trigger actions_insert_only before update or delete
    on interlock.actions for each statement
    execute function interlock.refuse_change('insert-only');
create trigger publications_insert_only before update or delete
    on interlock.publications for each statement
    execute function interlock.refuse_change('insert-only');
create trigger refused_results_insert_only before update or delete
    on interlock.refused_results for each statement
    execute function interlock.refuse_change('insert-only');

-- A revocation is never taken back, and its deadline never put off.
create trigger leases_revoked before update on interlock.leases
    for each row
    when (old.cancel_requested
          and (not new.cancel_requested
               or new.cancel_deadline > old.cancel_deadline
               or new.expires_at > old.cancel_deadline))
    execute function interlock.refuse_change(
        'a revocation stays, and so does its deadline');


-- What a submission is to become, before anything of it is stored.
create type interlock.decision as (
    outcome     text,
    code        int,
    decision    text,
    reason      text,
    problem     text,
    detail      text,
    job_id      uuid,     -- the job that answers, if none is made
    status      text,
    result_url  text,
    active      uuid,     -- the head of the key
    supersede   uuid,     -- a waiting or queued job that ends for it
    revoke      uuid,     -- a running job that is to end for it
    place       text,     -- blocked, or null: as its time and limits say
    retry_after int,
    turn        bigint    -- the last in the key's line (0: none)
);

create type interlock.finish_answer as (
    ord         int,
    outcome     text,
    replayed    boolean,
    job_id      uuid,
    status      text,
    kind        text,
    work_key    text,
    revision    int,
    retry_at    timestamptz,
    runnable    boolean,
    ended_jobs  uuid[],
    run_ms      bigint,
    blocked_ms  bigint
);

insert into interlock.kind_pace (tenant, kind)
select k.tenant, k.name from interlock.kinds k;
