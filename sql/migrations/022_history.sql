-- 022_history.sql: live jobs apart from ended ones.
--
-- interlock.jobs is both.  Its parts are jobs_live, a small table with the
-- indexes that claims and decisions need, and jobs_ended, by week of the id (a
-- UUIDv7: when the job arrived), where rows are only put in: so what the queue
-- works on does not grow with what it has done, and history goes by dropping
-- a week.  A job that ends moves (job_end), one that is taken back too
-- (job_back).
--
-- Who wants live jobs, or ended ones, names that part: a plan over all parts
-- locks each of them.

-- Functions that take a job, for its type is made anew: by their files, too.
do $$
declare
    f  regprocedure;
begin
    for f in
        select p.oid::regprocedure from pg_proc p
        where p.pronamespace = 'interlock'::regnamespace
            and 'interlock.jobs'::regtype = any (p.prorettype
                || p.proargtypes::oid[]
                || coalesce(p.proallargtypes, '{}'))
    loop
        execute 'drop function ' || f;
    end loop;
end
$$;

drop view if exists interlock.audit_jobs;

alter table interlock.jobs rename to jobs_old;

create table interlock.jobs
    (like interlock.jobs_old including defaults including constraints)
    partition by list (status);

-- Claims and ends write each row of it three times, and no more.
create table interlock.jobs_live
    (like interlock.jobs including defaults including constraints)
    with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
          autovacuum_vacuum_threshold = 1000,
          autovacuum_vacuum_cost_delay = 0);

create table interlock.jobs_ended
    (like interlock.jobs including defaults including constraints)
    partition by range (id);

alter table interlock.jobs attach partition interlock.jobs_live
    for values in ('queued', 'running', 'checking', 'held', 'parked');
alter table interlock.jobs attach partition interlock.jobs_ended
    for values in ('succeeded', 'failed', 'canceled', 'superseded',
                   'expired');


-- history_part(table, by, week): the part of a table of history for the week
-- that begins then (UTC), made if it is not there: by id, of UUIDv7 (RFC 9562
-- section 5.7), or by a time.  Rows of that week that came before their part
-- are in the default one, and move.
-- Locks: as attach partition does, the default part (access exclusive).
-- Answers whether it was made.
create function interlock.history_part(
    p_table text, p_by text, p_week timestamptz)
returns boolean
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set timezone = 'UTC'
as $$
declare
    v_part  text := p_table || to_char(p_week, '_IYYY"w"IW');
    v_rest  text := p_table || '_default';
    v_from  text;
    v_to    text;
    v_some  boolean;
begin
    if to_regclass('interlock.' || v_part) is not null then
        return false;
    end if;

    select min(x.b), max(x.b) into v_from, v_to
    from (select case p_by when 'id' then (lpad(to_hex((extract(epoch
                from y.at) * 1000)::bigint), 12, '0') || repeat('0', 20))
                ::uuid::text
            else to_char(y.at, 'YYYY-MM-DD HH24:MI:SSOF') end as b
          from (values (p_week), (p_week + interval '7 days')) y (at)) x;

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


-- What there is.  A week for each that ended jobs are of, this one and those
-- to come; what has another sort of id goes into the default one.

create table interlock.jobs_ended_default
    partition of interlock.jobs_ended default;

do $$
declare
    v_now  timestamptz := date_trunc('week', clock_timestamp(), 'UTC');
    v_at   timestamptz;
begin
    for v_at in
        select distinct date_trunc('week', x.at, 'UTC')
        from (select to_timestamp(('x' || left(replace(j.id::text, '-', ''),
                  12))::bit(48)::bigint / 1000.0) as at
              from interlock.jobs_old j
              where j.finished_at is not null) x
        where x.at >= timestamptz '2020-01-01Z' and x.at < v_now
        union
        select v_now + make_interval(weeks => n) from generate_series(0, 4) n
        order by 1
    loop
        perform interlock.history_part('jobs_ended', 'id', v_at);
    end loop;
end
$$;

insert into interlock.jobs select * from interlock.jobs_old;
drop table interlock.jobs_old;


-- Live jobs.

alter table interlock.jobs_live add primary key (tenant, id);

-- A kind's ready jobs in order, and what a bound counts.
create index jobs_queued on interlock.jobs_live (tenant, kind, place,
    order_key, id) where place is not null;
create index jobs_delayed on interlock.jobs_live (tenant, kind, run_at, id)
    where place = 'delayed';
-- What waits for a limit group, and what was let go for it.
create index jobs_limited on interlock.jobs_live (tenant, limited_by, place,
    order_key, id) where limited_by is not null and place is not null;
create index jobs_fair on interlock.jobs_live (tenant, kind, fair_value, tag)
    where tag is not null and place is not null;
create index jobs_expiry on interlock.jobs_live (expire_at)
    where started_at is null and finished_at is null;

create index jobs_active on interlock.jobs_live (tenant, work_key,
    created_at) where status in ('queued', 'running', 'checking', 'held');
-- G3 for jobs: at most one exclusive job of a key stands before the others ...
create unique index jobs_one_head on interlock.jobs_live (tenant, work_key)
    where exclusive and (status in ('running', 'checking', 'held')
                         or place in ('ready', 'delayed', 'limited'));
-- ... each in its line has a turn, and of those that a later request
-- supersedes there is one.
create unique index jobs_line on interlock.jobs_live (tenant, work_key, turn)
    where place = 'blocked' or status = 'parked';
create unique index jobs_one_waiting on interlock.jobs_live
    (tenant, work_key) where place = 'blocked' and not in_line;

create index jobs_changed on interlock.jobs_live (tenant, changed, id)
    where changed is not null and status <> 'running';
create index jobs_status on interlock.jobs_live (tenant, (status || ''), id)
    where status || '' in ('checking', 'held', 'parked', 'failed',
        'canceled', 'superseded', 'expired');
create index jobs_reruns on interlock.jobs_live (tenant, rerun_of,
    created_at) where rerun_of is not null;


-- Ended jobs.  Most succeed, and have two entries.

alter table interlock.jobs_ended add primary key (tenant, id);
create index jobs_ended_changed on interlock.jobs_ended (tenant, changed, id)
    where changed is not null and status <> 'running';
create index jobs_ended_status on interlock.jobs_ended
    (tenant, (status || ''), id)
    where status || '' in ('checking', 'held', 'parked', 'failed',
        'canceled', 'superseded', 'expired');
create index jobs_ended_reruns on interlock.jobs_ended (tenant, rerun_of,
    created_at) where rerun_of is not null;
create index jobs_failed on interlock.jobs_ended (tenant, kind, finished_at,
    id) where status = 'failed';
create index jobs_expired on interlock.jobs_ended (tenant, work_key,
    finished_at) where status = 'expired';


-- What no function may do, and what others are told of a job.  A row that
-- moves is deleted in one part and inserted in the other.

create trigger jobs_start before update on interlock.jobs_live
    for each row
    when (new.status = 'running' and old.status <> 'running'
          and old.place is distinct from 'ready'
          and old.place is distinct from 'delayed')
    execute function interlock.refuse_change(
        'only a ready or delayed job starts');

create trigger jobs_final before update on interlock.jobs_ended
    for each row
    when (new.status <> old.status
          and not (old.status = 'failed'
                   and new.status in ('queued', 'succeeded')
                   and new.revivals = old.revivals + 1))
    execute function interlock.refuse_change('a final status stays');
create trigger jobs_stay before delete on interlock.jobs_ended
    for each row
    when (old.status <> 'failed')
    execute function interlock.refuse_change('a final status stays');

create trigger jobs_changed before update on interlock.jobs_live
    for each row
    when (new.changed = old.changed)
    execute function interlock.job_changed();
create trigger jobs_changed before update on interlock.jobs_ended
    for each row
    when (new.changed = old.changed)
    execute function interlock.job_changed();

create trigger jobs_evidence after insert on interlock.jobs_live
    for each row
    when (new.source not in ('api', 'button', 'schedule', 'backfill',
        'rerun') and new.attempts = 0 and new.revivals = 0)
    execute function interlock.evidence_note();


-- alert_job(j, from, to): a job left one of the statuses that are told, or
-- came into one (null: no such).
create function interlock.alert_job(
    j interlock.jobs, p_from text, p_to text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_now  timestamptz := clock_timestamp();
begin
    perform from interlock.alerts a where a.tenant = j.tenant limit 1;
    if not found then
        return;
    end if;

    insert into interlock.alert_queue (tenant, at, condition, opened,
        subject, kind, work_key, info)
    select j.tenant, v_now, x.condition, x.opened, 'job:' || j.id,
        j.kind, j.work_key, json_build_object('job_id', j.id,
            'status', j.status, 'attempt', j.attempts,
            'error', left(j.error, 1000))
    from (values (1, p_from, false), (2, p_to, true)) x (n, condition, opened)
    where x.condition in ('held', 'failed')
    order by x.n;

    -- Whatever it was that could not be looked up has been decided.
    insert into interlock.alert_queue (tenant, at, condition, opened,
        subject, kind, work_key, info)
    select j.tenant, v_now, 'check_exhausted', false, 'job:' || j.id,
        j.kind, j.work_key, json_build_object('job_id', j.id,
            'status', j.status)
    where p_from in ('held', 'failed');
end
$$;

create or replace function interlock.alert_note_job() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform interlock.alert_job(new, old.status, new.status);
    return null;
end
$$;

-- A job that failed.
create function interlock.job_failed() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform interlock.inbox_set_job(new, true);
    perform interlock.alert_job(new, null, new.status);
    return null;
end
$$;

-- A job that people were told of went into the other part; it has its new
-- status there, or is gone altogether.
create function interlock.job_left() returns trigger
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    j  interlock.jobs;
begin
    select * into j from interlock.jobs x
    where x.tenant = old.tenant and x.id = old.id;
    if not found then
        perform interlock.inbox_over(old.tenant, 'job:' || old.id);
    else
        perform interlock.inbox_set_job(j, true);
        perform interlock.alert_job(j, old.status, null);
    end if;
    return null;
end
$$;

revoke all on function interlock.alert_job(interlock.jobs, text, text)
    from public;
revoke all on function interlock.job_failed() from public;
revoke all on function interlock.job_left() from public;

create trigger jobs_alerts after update on interlock.jobs_live
    for each row
    when (new.status is distinct from old.status
          and 'held' in (new.status, old.status))
    execute function interlock.alert_note_job();
create trigger jobs_alerts after update on interlock.jobs_ended
    for each row
    when (new.status is distinct from old.status)
    execute function interlock.alert_note_job();

create trigger jobs_inbox after update on interlock.jobs_live
    for each row
    when (new.status is distinct from old.status
              and (new.status in ('held', 'parked')
                   or old.status in ('held', 'parked'))
          or new.assignee is distinct from old.assignee)
    execute function interlock.inbox_job();
create trigger jobs_inbox after update on interlock.jobs_ended
    for each row
    when (new.status is distinct from old.status
          or new.assignee is distinct from old.assignee)
    execute function interlock.inbox_job();
create trigger jobs_inbox_new after insert on interlock.jobs_live
    for each row
    when (new.status in ('held', 'parked'))
    execute function interlock.inbox_job();
create trigger jobs_failed after insert on interlock.jobs_ended
    for each row
    when (new.status = 'failed')
    execute function interlock.job_failed();
create trigger jobs_left after delete on interlock.jobs_live
    for each row
    when (old.status in ('held', 'parked'))
    execute function interlock.job_left();
create trigger jobs_left after delete on interlock.jobs_ended
    for each row
    when (old.status = 'failed')
    execute function interlock.job_left();
