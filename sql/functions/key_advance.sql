-- key_advance.sql: how a key goes on, once what stood before its line is gone.

-- place_of(j, run_at, now): where j stands that may run from run_at on, and
-- by which limit group it is (or would be) held back; a look without locks.
create or replace function interlock.place_of(
    j interlock.jobs, p_run_at timestamptz, p_now timestamptz,
    out place text, out held_by text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    place := case when p_run_at > p_now then 'delayed' else 'ready' end;

    if place = 'ready' and j.groups is not null then
        held_by := interlock.groups_busy(j.tenant, j.groups);
        if held_by is not null then
            place := 'limited';
        else
            held_by := j.groups[1];
        end if;
    end if;
end
$$;

-- key_advance(tenant, key, now, source, revision): lets the line of a key go
-- on: the first of it, once nothing stands before it and no effect of an
-- earlier attempt holds it back (effects_hold_key; key_go_on comes later);
-- then parked ones come in, in order, as far as there is room.  source is the
-- job whose result was just published as revision, or null: under
-- when_completed return those first in line with the same payload bytes (and
-- no higher version, and not fresh) end with that result instead.  Caller
-- holds the work.
-- Answers: the jobs that ended; whether one became ready; the limit groups of
-- the one that went on, and how long it had been blocked.
create or replace function interlock.key_advance(
    p_tenant int, p_key text, p_now timestamptz, p_source uuid,
    p_revision int, out ended uuid[], out runnable boolean,
    out groups text[], out blocked_ms bigint)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    b          interlock.jobs;
    src        interlock.jobs;
    v_return   boolean;
    v_run_at   timestamptz;
    v_place    text;
    v_by       text;
begin
    ended := '{}';
    runnable := false;
    groups := '{}';

    loop
        perform from interlock.jobs_live x
        where x.tenant = p_tenant and x.work_key = p_key
            and x.status in ('queued', 'running', 'checking', 'held')
            and x.place is distinct from 'blocked'
        limit 1;
        exit when found;

        perform interlock.line_admit(p_tenant, p_key);

        select * into b from interlock.jobs_live x
        where x.tenant = p_tenant and x.work_key = p_key
            and x.place = 'blocked'
        order by x.turn limit 1;
        exit when not found;

        if p_source is not null and not b.fresh then
            select * into strict src from interlock.jobs x
            where x.tenant = p_tenant and x.id = p_source;
            select v.when_completed = 'return' into strict v_return
            from interlock.kind_versions v
            where v.tenant = b.tenant and v.name = b.kind
                and v.version = b.kind_version;

            if v_return
                and b.payload_hash is not distinct from src.payload_hash
                and (b.version is null or b.version = src.version)
            then
                b.status := 'succeeded';
                b.place := null;
                b.finished_at := p_now;
                b.revision := p_revision;
                b.result_url := src.result_url;
                b.waits_on := null;
                perform interlock.job_end(b);
                ended := ended || b.id;
                continue;
            end if;
        end if;

        if interlock.effects_hold_key(p_tenant, p_key, b) then
            update interlock.jobs_live x set waits_on = 'effects'
            where x.tenant = b.tenant and x.id = b.id
                and x.waits_on is null;
            exit;
        end if;

        v_run_at := greatest(b.run_at, p_now);
        select x.place, x.held_by into v_place, v_by
        from interlock.place_of(b, v_run_at, p_now) x;

        update interlock.jobs_live x
        set place = v_place, run_at = v_run_at, limited_by = v_by,
            waits_on = null
        where x.tenant = b.tenant and x.id = b.id;

        groups := coalesce(b.groups, '{}');
        runnable := v_place = 'ready';
        blocked_ms := floor(extract(epoch from p_now - b.created_at) * 1000);
        exit;
    end loop;

    perform interlock.line_admit(p_tenant, p_key);
end
$$;

-- line_admit(tenant, key): lets parked jobs of a key into its line, in order,
-- as far as max_waiting of the first of them allows.  Caller holds the work.
create or replace function interlock.line_admit(p_tenant int, p_key text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_room  bigint;
begin
    select v.max_waiting into v_room
    from (select x.kind, x.kind_version from interlock.jobs_live x
          where x.tenant = p_tenant and x.work_key = p_key
              and x.status = 'parked'
          order by x.turn limit 1) j
    cross join lateral (
        select y.max_waiting from interlock.kind_versions y
        where y.tenant = p_tenant and y.name = j.kind
            and y.version = j.kind_version
        limit 1) v;
    if not found then
        return;
    end if;

    select v_room - count(*) into v_room from (
        select from interlock.jobs_live x
        where x.tenant = p_tenant and x.work_key = p_key
            and x.place = 'blocked'
        limit v_room) y;
    if v_room <= 0 then
        return;
    end if;

    update interlock.jobs_live j set status = 'queued', place = 'blocked'
    where j.ctid = any (array(
        select x.ctid from interlock.jobs_live x
        where x.tenant = p_tenant and x.work_key = p_key
            and x.status = 'parked'
        order by x.turn
        limit v_room));
end
$$;

-- job_end(j): a job ends as j says (status, finished_at and what goes with
-- them): its row goes from the live ones to the ended ones.  By a delete and
-- an insert, not by an update of its status: whoever waits for the row, or
-- meets it, without its work (groups_settle) then finds it gone, where a row
-- that moved would be an error to him.  Caller holds the work, and has read j
-- under it.
create or replace function interlock.job_end(j interlock.jobs) returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    j.changed := pg_current_xact_id();
    with gone as (
        delete from interlock.jobs_live x
        where x.tenant = j.tenant and x.id = j.id
        returning x.id)
    insert into interlock.jobs_ended select (j).* from gone;
    if not found then
        raise exception 'job % is not live', j.id;
    end if;
end
$$;

-- job_back(j): a failed job lives again, as j says; as job_end.
create or replace function interlock.job_back(j interlock.jobs) returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    j.changed := pg_current_xact_id();
    with gone as (
        delete from interlock.jobs_ended x
        where x.tenant = j.tenant and x.id = j.id
        returning x.id)
    insert into interlock.jobs_live select (j).* from gone;
    if not found then
        raise exception 'job % has not ended', j.id;
    end if;
end
$$;

-- job_drop(j, status, error, now): ends a job that does not run, canceled,
-- expired or failed, and lets its key go on.  Caller holds the work and has
-- judged.  Answers as key_advance does.
create or replace function interlock.job_drop(
    j interlock.jobs, p_status text, p_error text, p_now timestamptz,
    out ended uuid[], out runnable boolean, out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if j.waits_on = 'result check' then
        perform interlock.check_over(j);
    end if;

    select * into strict j from interlock.jobs_live x
    where x.tenant = j.tenant and x.id = j.id;
    j.status := p_status;
    j.place := null;
    j.retry_at := null;
    j.error := p_error;
    j.finished_at := p_now;
    j.waits_on := null;
    perform interlock.job_end(j);

    select k.ended, k.runnable, k.groups into ended, runnable, groups
    from interlock.key_advance(j.tenant, j.work_key, p_now, null, null) k;

    ended := j.id || ended;
    if j.limited_by is not null then
        groups := groups || j.groups;
    end if;
end
$$;

-- job_again(j, run_at, now): a job that stands at the head of its key (it was
-- checking or held) may run again from run_at on.  Caller holds the work.
-- Answers as key_advance does.
create or replace function interlock.job_again(
    j interlock.jobs, p_run_at timestamptz, p_now timestamptz,
    out ended uuid[], out runnable boolean, out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_place  text;
    v_by     text;
begin
    select x.place, x.held_by into v_place, v_by
    from interlock.place_of(j, p_run_at, p_now) x;

    update interlock.jobs_live x
    set status = 'queued', place = v_place, run_at = p_run_at,
        retry_at = case when v_place = 'delayed' then p_run_at end,
        limited_by = v_by, waits_on = null, attempts_base = j.attempts_base,
        retry_since = j.retry_since
    where x.tenant = j.tenant and x.id = j.id;

    ended := '{}';
    runnable := v_place = 'ready';
    groups := coalesce(j.groups, '{}');
end
$$;

-- job_resume(tenant, job): a job that was checking for its effects' sake goes
-- on, once they are settled: as attempt_end would have let it, at the time
-- that it had found.  For whoever settles an effect, after that.
-- Locks: the work (FOR NO KEY UPDATE), which the caller has locked before the
-- effects.
-- Answers: the jobs that ended, the kinds of which one may start now, and the
-- limit groups that the caller settles in the end (groups_wake); empty ones
-- if the job is in another state or not all is settled.
create or replace function interlock.job_resume(
    p_tenant int, p_job uuid, out ended_jobs uuid[], out wake_kinds text[],
    out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now   timestamptz;
    v_twin  uuid;
    j       interlock.jobs;
    r       record;
begin
    ended_jobs := '{}';
    wake_kinds := '{}';
    groups := '{}';

    perform from interlock.works w
    where w.tenant = p_tenant and w.work_key = (
        select x.work_key from interlock.jobs_live x
        where x.tenant = p_tenant and x.id = p_job)
    for no key update;

    v_now := clock_timestamp();
    select * into j from interlock.jobs_live x
    where x.tenant = p_tenant and x.id = p_job;

    if not found or j.status <> 'checking' or j.waits_on <> 'effects'
        or interlock.effects_unsettled(p_tenant, j)
    then
        return;
    end if;

    v_twin := interlock.twin_of(j);
    if v_twin is null then
        select * into r
        from interlock.job_again(j, greatest(j.run_at, v_now), v_now);
    else
        select * into r from interlock.job_supersede(j, v_twin, v_now);
    end if;

    ended_jobs := r.ended;
    groups := r.groups;
    if r.runnable then
        wake_kinds := array[j.kind];
    end if;
end
$$;

-- job_supersede(j, successor, now): ends a job that does not run, for another
-- one takes over, and lets its key go on.  Caller holds the work.  Answers as
-- key_advance does.
create or replace function interlock.job_supersede(
    j interlock.jobs, p_successor uuid, p_now timestamptz,
    out ended uuid[], out runnable boolean, out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    select * into strict j from interlock.jobs_live x
    where x.tenant = j.tenant and x.id = j.id;
    j.status := 'superseded';
    j.place := null;
    j.retry_at := null;
    j.finished_at := p_now;
    j.superseded_by := p_successor;
    j.waits_on := null;
    perform interlock.job_end(j);

    select k.ended, k.runnable, k.groups into ended, runnable, groups
    from interlock.key_advance(j.tenant, j.work_key, p_now, null, null) k;
    ended := j.id || ended;
end
$$;

-- key_go_on(tenant, key): key_advance again, for a key whose line was held
-- back by effects.  For whoever settles an effect, after that; a key that has
-- a job before its line, or still is held back, stays as it is.
-- Locks and answers: as job_resume.
create or replace function interlock.key_go_on(
    p_tenant int, p_key text, out ended_jobs uuid[], out wake_kinds text[],
    out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    w  interlock.works;
    r  record;
begin
    ended_jobs := '{}';
    wake_kinds := '{}';
    groups := '{}';

    perform from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key
    for no key update;

    select * into w from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key;
    if not found then
        return;
    end if;

    select * into r from interlock.key_advance(p_tenant, p_key,
        clock_timestamp(), null, null);
    ended_jobs := r.ended;
    groups := r.groups;
    if r.runnable then
        wake_kinds := array[w.kind];
    end if;
end
$$;

-- groups_wake(tenant, groups, kinds): the last step of a call about one
-- tenant: settles these limit groups (groups_settle) and answers the kinds
-- that may start now, with those given.
create or replace function interlock.groups_wake(
    p_tenant int, p_group text[], p_kinds text[])
returns text[]
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return (
        select coalesce(array_agg(distinct x.kind order by x.kind), '{}')
        from (select u.kind from unnest(p_kinds) u (kind)
              union all
              select g.kind
              from interlock.groups_settle(array_fill(p_tenant,
                  array[cardinality(p_group)]), p_group) g) x);
end
$$;

revoke all on function interlock.place_of(interlock.jobs, timestamptz,
    timestamptz) from public;
revoke all on function interlock.key_advance(int, text, timestamptz, uuid,
    int) from public;
revoke all on function interlock.line_admit(int, text) from public;
revoke all on function interlock.job_end(interlock.jobs) from public;
revoke all on function interlock.job_back(interlock.jobs) from public;
revoke all on function interlock.job_drop(interlock.jobs, text, text,
    timestamptz) from public;
revoke all on function interlock.job_again(interlock.jobs, timestamptz,
    timestamptz) from public;
revoke all on function interlock.job_resume(int, uuid) from public;
revoke all on function interlock.job_supersede(interlock.jobs, uuid,
    timestamptz) from public;
revoke all on function interlock.key_go_on(int, text) from public;
revoke all on function interlock.groups_wake(int, text[], text[])
    from public;
