-- slot_works.sql: which works a business date of a schedule has, and how they
-- stand; helpers of slot_impact and slot_rerun.

-- date_known(tenant, name, date, at): what there is of a business date, or of
-- its slot at that time, by the definitions that held then:
--   slots that came up, each with its row or one of many in schedule_skips
--   what somebody ran of the date by hand or in a backfill, by the definition
--   that he did it by, if its time has come
--   slots that are still to come up, by the present definition: due is false
-- Nothing was expected before a definition, beyond its start and end, or after
-- it was changed or deleted.  at null: the whole date.  state and job_id are
-- those of its row, or null.  Locks: none.
create or replace function interlock.date_known(
    p_tenant int, p_name text, p_date date, p_at timestamptz)
returns table (subject text, work_key text, slot_at timestamptz,
    version int, due boolean, state text, job_id uuid)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    s     interlock.schedules;
    v     interlock.schedule_versions;
    v_at  timestamptz;
begin
    return query
    select x.subject, x.work_key, x.slot_at, x.version, true, x.state,
        x.job_id
    from interlock.slots x
    where x.tenant = p_tenant and x.schedule = p_name
        and x.business_date = p_date
        and (p_at is null or x.slot_at = p_at)
    union all
    select x.subject, x.work_key, x.slot_at, x.version, true, null::text,
        null::uuid
    from interlock.date_passed(p_tenant, p_name, p_date, p_at) x;

    v := interlock.date_planned(p_tenant, p_name, p_date);
    if v.name is not null then
        return query
        select x.subject, x.work_key, x.slot_at, v.version,
            coalesce(x.slot_at <= clock_timestamp(), true), null::text,
            null::uuid
        from interlock.date_works(v, p_date, null) x
        where p_at is null or x.slot_at = p_at;
    end if;

    select * into s from interlock.schedules x
    where x.tenant = p_tenant and x.name = p_name and not x.deleted;
    if not found then
        return;
    end if;

    v := interlock.schedule_version(p_tenant, p_name, s.version);
    foreach v_at in array interlock.date_slots(v, p_date) loop
        continue when v_at <= s.scanned_to or v_at <> p_at;
        return query
        select x.subject, interlock.slot_key(interlock.slot_fill(v, p_date,
                v_at, v.work_key), x.subject), v_at, v.version, false, null::text,
            null::uuid
        from interlock.schedule_subjects x
        where x.tenant = p_tenant and x.name = p_name and x.list = v.list
            and x.n > case when v_at = s.slot_at then s.slot_n else 0 end;
    end loop;
end
$$;

-- date_passed(tenant, name, date, at): those of its slots that are in
-- schedule_skips.
create or replace function interlock.date_passed(
    p_tenant int, p_name text, p_date date, p_at timestamptz)
returns table (subject text, work_key text, slot_at timestamptz,
    version int)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_from  timestamptz;
    v_to    timestamptz;
    v_at    timestamptz;
    v       interlock.schedule_versions;
    k       interlock.schedule_skips;
begin
    -- Between which times a slot of that date can be, whatever its zone.
    select (p_date - max(x.date_offset) - 2)::timestamp at time zone 'UTC',
        (p_date - min(x.date_offset) + 2)::timestamp at time zone 'UTC'
    into v_from, v_to
    from interlock.schedule_versions x
    where x.tenant = p_tenant and x.name = p_name;

    -- They do not overlap: of those that end later, only the first may begin
    -- before that.
    for k in
        (select x.* from interlock.schedule_skips x
         where x.tenant = p_tenant and x.schedule = p_name
             and x.to_at >= v_from and x.to_at <= v_to)
        union all
        (select x.* from interlock.schedule_skips x
         where x.tenant = p_tenant and x.schedule = p_name
             and x.to_at > v_to
         order by x.to_at, x.id limit 1)
    loop
        continue when k.from_at > v_to or p_at not between k.from_at
            and k.to_at;
        v := interlock.schedule_version(p_tenant, p_name, k.version);

        foreach v_at in array interlock.date_slots(v, p_date) loop
            continue when v_at < k.from_at or v_at > k.to_at
                or v_at <> p_at;
            -- Of a slot that had begun, the last subjects.
            return query
            select x.subject, interlock.slot_key(interlock.slot_fill(v,
                    p_date, v_at, v.work_key), x.subject), v_at, v.version
            from interlock.schedule_subjects x
            where x.tenant = p_tenant and x.name = p_name
                and x.list = v.list and x.n > v.subjects - k.subjects;
        end loop;
    end loop;
end
$$;

-- date_planned(tenant, name, date): the definition by which somebody ran that
-- date last, by hand or in a backfill; nulls if nobody did.
create or replace function interlock.date_planned(
    p_tenant int, p_name text, p_date date)
returns interlock.schedule_versions
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_version  int;
begin
    select p.version into v_version
    from interlock.schedule_plans p
    where p.tenant = p_tenant and p.schedule = p_name
        and p.what in ('run', 'backfill') and p.count > 0
        and p_date between coalesce(p.detail ->> 'date',
            p.detail ->> 'from')::date and coalesce(p.detail ->> 'date',
            p.detail ->> 'to')::date
        and interlock.plan_begun(p)
    order by p.created_at desc limit 1;

    return case when found then interlock.schedule_version(p_tenant, p_name,
        v_version) end;
end
$$;

-- slot_works(tenant, schedule, date, at): the works of a business date, or of
-- its slot at that time, one a work key.  Each with how it stands:
--   active     a job of it has not ended    succeeded  it has a result
--   failed     its jobs ended without one   missing    it never had a job
--   not_due    missing, and its slot is still to come up
-- by the jobs and results of its key, or, where other slots have that key
-- too, by those that were its own slots' (slot_work).  repeats is the job that
-- a rerun repeats, null: the newest of the key.  Locks: none.
create or replace function interlock.slot_works(
    p_tenant int, p_name text, p_date date, p_at timestamptz)
returns table (subject text, work_key text, slot_at timestamptz, state text,
    job_id uuid, error text, confirmed bigint, unsettled bigint,
    version int, repeats uuid)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    with known as materialized (
        select x.subject, x.work_key, x.slot_at, min(x.version) as version,
            bool_and(x.due) as due, min(x.state) as was,
            min(x.job_id::text)::uuid as of
        from interlock.date_known(p_tenant, p_name, p_date, p_at) x
        group by 1, 2, 3),
    times as materialized (
        select x.slot_at, x.version, interlock.slot_alone(
            interlock.schedule_version(p_tenant, p_name, x.version),
            x.slot_at) as alone
        from (select distinct y.slot_at, y.version from known y) x),
    k as materialized (
        select x.*, t.alone and not exists (
            select from interlock.slots y
            where y.tenant = p_tenant and y.work_key = x.work_key
                and y.schedule = p_name and y.slot_at <> x.slot_at) as own,
            -- Of most that did not come up there is nothing to look at.
            case when t.alone then exists (
                select from interlock.works y
                where y.tenant = p_tenant and y.work_key = x.work_key)
            else x.was = 'admitted' or exists (
                select from interlock.schedule_plan_items y
                where y.tenant = p_tenant and y.work_key = x.work_key
                    and y.job_id is not null) end as seen
        from known x
        join times t on t.version = x.version
            and t.slot_at is not distinct from x.slot_at)
    select z.subject, z.work_key, z.slot_at, case
            when z.state = 'missing' and not z.due then 'not_due'
            else z.state end, z.job_id,
        case when z.state = 'failed' then z.error end, e.confirmed,
        e.unsettled, z.version, case when not z.own then z.job_id end
    from (
        select distinct on (k.work_key) k.*, s.state, s.job_id, s.error
        from k
        cross join lateral (
            select case when k.was = 'run' then 'succeeded' else 'missing' end
                as state, case when k.was = 'run' then k.of end as job_id,
                null::text as error
            where k.seen is not true
            union all
            select x.* from interlock.key_state(p_tenant, k.work_key) x
            where k.seen and k.own
            union all
            select x.* from interlock.slot_state(interlock.slot_of(
                interlock.schedule_version(p_tenant, p_name, k.version),
                p_date, k.slot_at, k.subject, k.work_key)) x
            where k.seen and not k.own) s
        order by k.work_key, array_position(array['active', 'succeeded',
            'failed', 'missing'], s.state), k.due desc, k.slot_at) z
    cross join lateral (
        select count(*) filter (where y.state = 'confirmed') as confirmed,
            count(*) filter (where y.state in ('intended', 'unknown',
                'needs_human')) as unsettled
        from interlock.effects y
        where y.tenant = p_tenant and y.work_key = z.work_key) e;
end
$$;

-- key_state(tenant, key), slot_state(x): how the work of a key, or of a slot,
-- stands (see slot_works), and by which job.
create or replace function interlock.key_state(
    p_tenant int, p_key text, out state text, out job_id uuid,
    out error text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    j  interlock.jobs;
begin
    select y.id into job_id from interlock.jobs_live y
    where y.tenant = p_tenant and y.work_key = p_key
        and y.status in ('queued', 'running', 'checking', 'held')
    order by y.created_at desc limit 1;
    if found then
        state := 'active';
        return;
    end if;

    j := interlock.newest_job(p_tenant, p_key);
    job_id := j.id;
    error := j.error;
    state := case when j.status = 'parked' then 'active'
        when interlock.work_done(p_tenant, p_key) then 'succeeded'
        when j.id is not null then 'failed'
        else 'missing' end;
end
$$;

create or replace function interlock.slot_state(
    x interlock.slots, out state text, out job_id uuid, out error text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    w  record;
begin
    select * into w from interlock.slot_work(x);
    job_id := (w.job).id;
    error := (w.job).error;
    state := case
        when (w.result).revision is not null then 'succeeded'
        when (w.job).status in ('queued', 'running', 'checking', 'held',
                                'parked') then 'active'
        when job_id is not null then 'failed'
        else 'missing' end;
end
$$;

revoke all on function interlock.date_known(int, text, date, timestamptz)
    from public;
revoke all on function interlock.date_passed(int, text, date, timestamptz)
    from public;
revoke all on function interlock.date_planned(int, text, date) from public;
revoke all on function interlock.slot_works(int, text, date, timestamptz)
    from public;
revoke all on function interlock.key_state(int, text) from public;
revoke all on function interlock.slot_state(interlock.slots) from public;
