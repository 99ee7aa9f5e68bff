-- 020_inbox.sql: what waits for a person, in one list; how queues stood and
-- what was decided, by the minute.

-- One row for each thing that a person has to see to, made and taken away by
-- what makes it so: triggers on the tables it is about, in the same
-- transaction (age of queues: alert_scan).  Nothing is decided by it.
--   id        what it is about: job:, effect:, gap: and an id; kind:, source:,
--             schedule:, queue: and a name
--   state     held, parked, failed (jobs); needs_human, unknown (effects);
--             missing (a gap), approval (a gap whose slot waits for it);
--             kind_paused, source_paused; skips; queue_age
--   kind      of jobs
--   since     from when on it is in the list: an unknown effect comes when
--             its look-ups should have settled it
--   assignee  who looks after it (of a job: a copy of the job's own)
--   due_at    until when
create table interlock.inbox (
    tenant    int not null,
    id        text not null,
    state     text not null
              check (state in ('held', 'parked', 'failed', 'needs_human',
                  'unknown', 'missing', 'approval', 'kind_paused',
                  'source_paused', 'skips', 'queue_age')),
    since     timestamptz not null,
    kind      text,
    schedule  text,
    work_key  text,
    assignee  text,
    due_at    timestamptz,
    primary key (tenant, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 500);

create index inbox_list on interlock.inbox (tenant, since, id)
    where since is not null;
create index inbox_state on interlock.inbox (tenant, state, since, id)
    where state is not null;
create index inbox_kind on interlock.inbox (tenant, kind, state, since, id)
    where kind is not null;
create index inbox_assignee on interlock.inbox (tenant, assignee, since, id)
    where assignee is not null;

-- How far the sweep of failed jobs has come (inbox_sweep): a page at a time,
-- and then from the beginning.
create table interlock.inbox_sweeps (
    tenant  int primary key references interlock.tenants (id),
    since   timestamptz not null default '-infinity',
    id      text not null default ''
) with (fillfactor = 50);


create function interlock.inbox_job() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform interlock.inbox_set_job(new, tg_op = 'INSERT'
        or new.status is distinct from old.status);
    return null;
end
$$;

create function interlock.inbox_effect() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform interlock.inbox_set_effect(new);
    return null;
end
$$;

create function interlock.inbox_gap() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        perform interlock.inbox_over(old.tenant, 'gap:' || old.id);
    else
        perform interlock.inbox_set_gap(new);
    end if;
    return null;
end
$$;

create function interlock.inbox_pause() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        perform interlock.inbox_over(old.tenant, old.what || ':' || old.name);
    else
        perform interlock.inbox_set_pause(new);
    end if;
    return null;
end
$$;

create function interlock.inbox_schedule() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform interlock.inbox_set_schedule(new);
    return null;
end
$$;

revoke all on function interlock.inbox_job() from public;
revoke all on function interlock.inbox_effect() from public;
revoke all on function interlock.inbox_gap() from public;
revoke all on function interlock.inbox_pause() from public;
revoke all on function interlock.inbox_schedule() from public;

-- A comparison for most changes of a row.
create trigger jobs_inbox after update on interlock.jobs
    for each row
    when (new.status is distinct from old.status
              and (new.status in ('held', 'parked', 'failed')
                   or old.status in ('held', 'parked', 'failed'))
          or new.assignee is distinct from old.assignee)
    execute function interlock.inbox_job();
create trigger jobs_inbox_new after insert on interlock.jobs
    for each row
    when (new.status in ('held', 'parked', 'failed'))
    execute function interlock.inbox_job();
create trigger effects_inbox after update on interlock.effects
    for each row
    when ((new.state in ('unknown', 'needs_human')
           or old.state in ('unknown', 'needs_human'))
          and (new.state is distinct from old.state
               or new.human_at is distinct from old.human_at))
    execute function interlock.inbox_effect();
create trigger gaps_inbox after update on interlock.gaps
    for each row
    when (new.state is distinct from old.state
          or new.why is distinct from old.why)
    execute function interlock.inbox_gap();
create trigger gaps_inbox_new after insert on interlock.gaps
    for each row
    execute function interlock.inbox_gap();
create trigger gaps_inbox_gone after delete on interlock.gaps
    for each row
    when (old.state = 'open')
    execute function interlock.inbox_gap();
create trigger pauses_inbox after insert or delete on interlock.pauses
    for each row
    execute function interlock.inbox_pause();
create trigger schedules_inbox after update on interlock.schedules
    for each row
    when (new.skips is distinct from old.skips
          or new.version is distinct from old.version
          or new.deleted is distinct from old.deleted)
    execute function interlock.inbox_schedule();

-- What there is already.
insert into interlock.inbox (tenant, id, state, since, kind, work_key,
    assignee)
select j.tenant, 'job:' || j.id, j.status, coalesce(j.finished_at,
        (select max(a.ended_at) from interlock.attempts a
         where a.tenant = j.tenant and a.job_id = j.id), j.created_at),
    j.kind, j.work_key, j.assignee
from interlock.jobs j
where j.status in ('held', 'parked', 'failed')
    and not (j.status = 'failed' and exists (
        select from interlock.works w
        where w.tenant = j.tenant and w.work_key = j.work_key
            and w.published_at > j.finished_at));

insert into interlock.inbox (tenant, id, state, since, kind, work_key)
select e.tenant, 'effect:' || e.id, e.state, e.changed_at
        + case e.state when 'unknown' then interval '1 hour'
          else interval '0' end, w.kind, e.work_key
from interlock.effects e
join interlock.works w on w.tenant = e.tenant and w.work_key = e.work_key
where e.state = 'needs_human' or (e.state = 'unknown' and e.human_at is null);

insert into interlock.inbox (tenant, id, state, since, kind, schedule,
    work_key)
select g.tenant, 'gap:' || g.id, case when exists (
            select from interlock.slots s
            where s.tenant = g.tenant and s.schedule = g.schedule
                and s.slot_at = g.slot_at and s.subject = g.subject
                and s.state = 'waiting' and s.reason = 'approval')
        then 'approval' else 'missing' end, g.since, v.kind, g.schedule,
    g.work_key
from interlock.gaps g
join interlock.schedules s on s.tenant = g.tenant and s.name = g.schedule
join interlock.schedule_versions v on v.tenant = s.tenant
    and v.name = s.name and v.version = s.version
where g.state = 'open';

insert into interlock.inbox (tenant, id, state, since, kind)
select p.tenant, p.what || ':' || p.name, p.what || '_paused', p.paused_at,
    case p.what when 'kind' then p.name end
from interlock.pauses p;

insert into interlock.inbox (tenant, id, state, since, kind, schedule)
select s.tenant, 'schedule:' || s.name, 'skips', clock_timestamp(), v.kind,
    s.name
from interlock.schedules s
join interlock.schedule_versions v on v.tenant = s.tenant
    and v.name = s.name and v.version = s.version
where not s.deleted and s.skips >= v.skip_alarm;


-- What an overview counts, where nothing else finds it.
create index attempts_lost on interlock.attempts (tenant, ended_at, id)
    where call = 'lost';


-- Samples, once a minute whoever makes them.  A kind of which nothing waits or
-- runs has no row: 0 is then what it had, if there is a row of the minute.
--   oldest  the age in seconds of the oldest job that could run
create table interlock.series_minutes (
    minute    timestamptz primary key,
    taken_at  timestamptz not null default clock_timestamp()
);

create table interlock.series_queue (
    tenant   int not null,
    kind     text not null,
    minute   timestamptz not null,
    queued   bigint not null,
    running  bigint not null,
    waiting  bigint not null,
    parked   bigint not null,
    oldest   float8,
    primary key (tenant, kind, minute)
);
create index series_queue_minute on interlock.series_queue (minute)
    where minute is not null;

-- What arrived lately, for next to nothing: rows come in the order of their
-- arrival.  Ranges are so large that autovacuum, which sums them up once a
-- minute, is asked for few at a time (it takes 256, and logs each one more).
create index requests_arrived on interlock.requests using brin (arrived_at)
    with (pages_per_range = 512, autosummarize = on);

-- How many requests of a minute (of their arrival) got which decision;
-- by the edge alone, or not.
create table interlock.series_decisions (
    tenant    int not null,
    kind      text not null,
    minute    timestamptz not null,
    source    text not null,
    decision  text not null,
    alone     boolean not null,
    n         bigint not null,
    primary key (tenant, kind, minute, source, decision, alone)
);
create index series_decisions_minute on interlock.series_decisions (minute)
    where minute is not null;
