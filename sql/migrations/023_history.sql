-- 023_history.sql: requests, payloads and attempts by the week, so that what
-- is older than it is kept goes by dropping tables (history_drop), not rows.
--
-- requests and payloads go by id: ids are UUIDv7, and begin with their time.
-- Attempts go by ended_at, which is known to who looks for them more often
-- than when they were granted.  What lies in no week (an id that is no UUIDv7,
-- a clock far off) is in the default partition.
--
-- An index over partitions cannot be unique without the column that they go
-- by.  So attempts_fence only finds, and that a fence is given once is held by
-- the lock on its work; an attempt ends once, because its lease is deleted in
-- the transaction that makes this row.

-- Functions with a row of these tables as their argument: they are made anew
-- by their files.
drop function if exists interlock.request_doc(interlock.requests);
drop function if exists interlock.audit_ended(interlock.attempts);
drop view if exists interlock.audit_requests;
drop view if exists interlock.audit_attempts;

-- One row: up to where history is gone (what has an id before gone_id may be
-- named, and is not there), when dropping more of it is to be tried again, and
-- what was in the way the last time.
create table interlock.history (
    one      boolean primary key default true check (one),
    gone_to  timestamptz not null default '-infinity',
    gone_id  uuid not null default '00000000-0000-0000-0000-000000000000',
    next_at  timestamptz not null default clock_timestamp(),
    why      text
);

insert into interlock.history default values;

-- How long is kept what is kept otherwise than retain() says by itself.
create table interlock.retention (
    what  text primary key
          check (what in ('slots', 'events', 'drafts', 'series', 'history')),
    keep  interval not null check (keep >= interval '1 day')
);

-- It looks that up now, so it is no constant any more.
drop function if exists interlock.retain(text);

-- history_part(table, by, week): the part of a table of history for the week
-- that begins then (UTC), made if it is not there: by ids, of UUIDv7 (RFC 9562
-- section 5.7), or by a time.  Rows of that week that came before their part
-- are in the default one, and move.
-- A time that is not quite the week's begin is taken for it, as where a day is
-- added in a zone whose clocks change.
-- Locks: as attach partition does, the default part (access exclusive).
-- Answers whether it was made.
create or replace function interlock.history_part(
    p_table text, p_by text, p_week timestamptz)
returns boolean
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set timezone = 'UTC'
as $$
declare
    v_week  timestamptz := date_trunc('week', p_week + interval '1 day');
    v_part  text := p_table || to_char(v_week, '_IYYY"w"IW');
    v_rest  text := p_table || '_default';
    v_from  text;
    v_to    text;
    v_some  boolean;
begin
    if to_regclass('interlock.' || v_part) is not null then
        return false;
    end if;

    select min(x.b), max(x.b) into v_from, v_to
    from (select case when p_by in ('id', 'job_id') then (lpad(to_hex((extract(epoch
                from y.at) * 1000)::bigint), 12, '0') || repeat('0', 20))
                ::uuid::text
            else to_char(y.at, 'YYYY-MM-DD HH24:MI:SSOF') end as b
          from (values (v_week), (v_week + interval '7 days')) y (at)) x;

    execute format('create table interlock.%I (like interlock.%I '
        'including defaults including constraints) '
        'with (autovacuum_vacuum_insert_scale_factor = 0.1)',
        v_part, p_table);

    execute format('select exists (select from interlock.%I '
        'where %I >= %L and %I < %L)', v_rest, p_by, v_from, p_by, v_to)
    into v_some;

    if v_some then
        execute format('alter table interlock.%I disable trigger user',
            v_rest);
        execute format('with x as (delete from interlock.%I '
            'where %I >= %L and %I < %L returning *) '
            'insert into interlock.%I select * from x',
            v_rest, p_by, v_from, p_by, v_to, v_part);
        execute format('alter table interlock.%I enable trigger user',
            v_rest);
    end if;

    execute format('alter table interlock.%I attach partition interlock.%I '
        'for values from (%L) to (%L)', p_table, v_part, v_from, v_to);
    return true;
end
$$;

revoke all on function interlock.history_part(text, text, timestamptz)
    from public;

alter table interlock.requests rename to requests_old;
alter table interlock.payloads rename to payloads_old;
alter table interlock.attempts rename to attempts_old;

create table interlock.requests (like interlock.requests_old
    including defaults including constraints) partition by range (id);
create table interlock.payloads (like interlock.payloads_old
    including defaults including constraints) partition by range (job_id);
create table interlock.attempts (like interlock.attempts_old
    including defaults including constraints) partition by range (ended_at);

-- The names of indexes and constraints go over to the new ones.
do $$
declare
    r  record;
begin
    for r in
        select c.relname from pg_index i
        join pg_class c on c.oid = i.indexrelid
        where i.indrelid in ('interlock.requests_old'::regclass,
            'interlock.payloads_old'::regclass,
            'interlock.attempts_old'::regclass)
    loop
        execute format('alter index interlock.%I rename to %I', r.relname,
                       r.relname || '_old');
    end loop;
end
$$;

alter table interlock.requests add primary key (tenant, id);
create index requests_work on interlock.requests
    (tenant, work_key, arrived_at) where work_key is not null;
create index requests_idem on interlock.requests
    (tenant, hashtext(idempotency_key), arrived_at)
    where hashtext(idempotency_key) is not null;
create index requests_arrived on interlock.requests using brin (arrived_at)
    with (pages_per_range = 512, autosummarize = on);

alter table interlock.payloads add primary key (tenant, job_id);

alter table interlock.attempts add primary key (tenant, id, ended_at);
create index attempts_fence on interlock.attempts
    (tenant, work_key, fence) where work_key is not null;
create index attempts_job on interlock.attempts (tenant, job_id, fence)
    where job_id is not null;
create index attempts_kind on interlock.attempts (tenant, kind, ended_at)
    where kind is not null;
create index attempts_lost on interlock.attempts (tenant, ended_at, id)
    where call = 'lost';

create trigger requests_insert_only before update or delete
    on interlock.requests for each statement
    execute function interlock.refuse_change('insert-only');
create trigger payloads_insert_only before update or delete
    on interlock.payloads for each statement
    execute function interlock.refuse_change('insert-only');
create trigger attempts_insert_only before update or delete
    on interlock.attempts for each statement
    execute function interlock.refuse_change('insert-only');

create table interlock.requests_default partition of interlock.requests
    default;
create table interlock.payloads_default partition of interlock.payloads
    default;
create table interlock.attempts_default partition of interlock.attempts
    default;

-- A week for each that there is something of, and those to come.
do $$
declare
    v_now  timestamptz := date_trunc('week', clock_timestamp(), 'UTC');
    v_at   timestamptz;
begin
    for v_at in
        select distinct date_trunc('week', x.at, 'UTC')
        from (select q.arrived_at as at from interlock.requests_old q
              union all
              select a.ended_at from interlock.attempts_old a) x
        where x.at >= timestamptz '2020-01-01Z' and x.at < v_now
        union
        select v_now + make_interval(weeks => n) from generate_series(0, 4) n
        order by 1
    loop
        perform interlock.history_part('requests', 'id', v_at);
        perform interlock.history_part('payloads', 'job_id', v_at);
        perform interlock.history_part('attempts', 'ended_at', v_at);
    end loop;
end
$$;

insert into interlock.requests select * from interlock.requests_old;
insert into interlock.payloads select * from interlock.payloads_old;
insert into interlock.attempts select * from interlock.attempts_old;

drop table interlock.requests_old;
drop table interlock.payloads_old;
drop table interlock.attempts_old;


-- Rows that change often are vacuumed soon, and without pauses: a table that
-- everybody looks at all the time had better stay small.

do $$
declare
    v_t  text;
begin
    foreach v_t in array array['works', 'kind_pace', 'queue_looks',
        'limit_groups', 'effects', 'sends', 'checks', 'inbox', 'edge_zones',
        'alert_queue', 'alert_states', 'slots']
    loop
        execute format('alter table interlock.%I set ('
            'autovacuum_vacuum_scale_factor = 0.02, '
            'autovacuum_vacuum_threshold = 1000, '
            'autovacuum_vacuum_cost_delay = 0)', v_t);
    end loop;

    -- Keys come and go in the order of their age.
    execute 'alter table interlock.idempotency set ('
        'autovacuum_vacuum_scale_factor = 0.02, '
        'autovacuum_vacuum_threshold = 5000, '
        'autovacuum_vacuum_insert_scale_factor = 0.1, '
        'autovacuum_vacuum_cost_delay = 0)';
end
$$;
