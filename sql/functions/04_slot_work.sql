-- slot_owns(x, job): is that job's work the work of slot x?  A work key alone
-- does not say so, for other slots may have it too.  What does, is what is
-- known of the request that made the job (of a rerun: the job that it
-- repeats):
--   a slot of the schedule       the work of that slot
--   a run, backfill or rerun of  the work of that date's slot of that time, or
--   a date of the schedule       of the only slot that has its key
--   anything else                the work of the only slot that has its key
-- and what somebody made the slot's job (a decided gap, a rerun) is its own.
-- Locks: none.
create or replace function interlock.slot_owns(
    x interlock.slots, p_job uuid)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_id    uuid := p_job;
    v_up    uuid;
    v_idem  text;
    i       interlock.schedule_plan_items;
begin
    for n in 1 .. 100 loop
        if v_id = x.job_id and x.state in ('admitted', 'run') then
            return true;
        end if;
        select j.rerun_of into v_up from interlock.jobs j
        where j.tenant = x.tenant and j.id = v_id;
        exit when v_up is null;
        v_id := v_up;
    end loop;

    select q.idempotency_key into v_idem from interlock.requests q
    where q.tenant = x.tenant and q.id = v_id and q.source = 'schedule';
    if starts_with(v_idem, 'slot:' || x.schedule || ':') then
        return v_idem = interlock.slot_ref(x.schedule, x.slot_at, x.subject);
    end if;

    select y.* into i from interlock.schedule_plan_items y
    where y.tenant = x.tenant and y.work_key = x.work_key
        and y.job_id = v_id and interlock.plan_admitted(y.outcome)
        and exists (
            select from interlock.schedule_plans p
            where p.tenant = y.tenant and p.id = y.plan_id
                and p.schedule = x.schedule)
    limit 1;
    if i.plan_id is not null then
        return i.business_date = x.business_date
            and (i.slot_at is not distinct from x.slot_at
                 or interlock.slot_only(x));
    end if;

    return interlock.slot_only(x);
end
$$;

-- slot_only(x): has no other slot of its schedule its work key, neither by its
-- definition nor by one that was before?
create or replace function interlock.slot_only(x interlock.slots)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return interlock.slot_alone(interlock.schedule_version(x.tenant,
            x.schedule, x.version), x.slot_at)
        and not exists (
            select from interlock.slots y
            where y.tenant = x.tenant and y.work_key = x.work_key
                and y.schedule = x.schedule and y.slot_at <> x.slot_at);
end
$$;

-- plan_admitted(outcome): did an item of a plan make a job?
create or replace function interlock.plan_admitted(p_outcome text)
returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select p_outcome in ('accepted', 'buffered', 'replaced', 'parked')
$$;

-- slot_job(x): the job that does, or did, the work of a slot: the one it was
-- admitted as, or what took that one's place or ran it again; else the newest
-- that a plan made for it; live or ended.  taken: that of another slot, or of nobody's, took
-- the place of its own.
create or replace function interlock.slot_job(
    x interlock.slots, out job interlock.jobs, out taken boolean)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_id  uuid;
begin
    taken := false;

    if x.state in ('admitted', 'run') then
        v_id := x.job_id;
    else
        select y.job_id into v_id from interlock.schedule_plan_items y
        where y.tenant = x.tenant and y.work_key = x.work_key
            and y.business_date = x.business_date and y.job_id is not null
            and interlock.plan_admitted(y.outcome)
            and interlock.slot_owns(x, y.job_id)
        order by y.job_id desc limit 1;
    end if;

    for n in 1 .. 100 loop
        exit when v_id is null;
        select * into job from interlock.jobs j
        where j.tenant = x.tenant and j.id = v_id;
        exit when job.status = 'succeeded';

        v_id := job.superseded_by;
        if v_id is not null and not interlock.slot_owns(x, v_id) then
            taken := true;
            return;
        elsif v_id is null then
            select j.id into v_id from interlock.jobs j
            where j.tenant = x.tenant and j.rerun_of = job.id
            order by j.created_at desc limit 1;
        end if;
    end loop;
end
$$;

-- slot_repeats(x): the job that a rerun of a slot's work repeats; null: the
-- newest of its key, which is its own then.
create or replace function interlock.slot_repeats(x interlock.slots)
returns uuid
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return case when not interlock.slot_only(x)
        then ((interlock.slot_job(x)).job).id end;
end
$$;

-- slot_work(x): how the work of a slot stands.  Locks: none.
--   job      as slot_job
--   result   the result of its work: the newest of its key, if made since its
--            time by a job that was the slot's work too, or that of its job
--   delivery as job_delivery, of that result's job
--   done_at  when all of it was done, or null: then why says what is missing
--   taken    as slot_job: it is not done, and will not be
create or replace function interlock.slot_work(
    x interlock.slots, out job interlock.jobs, out result interlock.results,
    out delivery text, out done_at timestamptz, out why text,
    out taken boolean)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    own    record;
    maker  interlock.jobs;
begin
    select * into own from interlock.slot_job(x);
    job := own.job;
    taken := own.taken;

    select * into result from interlock.results r
    where r.tenant = x.tenant and r.work_key = x.work_key
    order by r.revision desc limit 1;

    if not coalesce((result.created_at >= x.slot_at
            or job.status = 'succeeded')
        and interlock.slot_owns(x, result.job_id), false)
    then
        result := null;
        if job.status = 'succeeded' then
            select * into result from interlock.results r
            where r.tenant = x.tenant and r.work_key = x.work_key
                and r.revision = job.revision;
        end if;
    end if;

    if result.revision is null then
        why := case when taken
            then 'another job took the place of its own'
            else interlock.slot_why(x, job) end;
        return;
    end if;

    taken := false;
    select * into maker from interlock.jobs j
    where j.tenant = x.tenant and j.id = result.job_id;
    job := maker;
    delivery := interlock.job_delivery(maker);
    if delivery is distinct from 'pending' then
        done_at := result.created_at;
    else
        why := 'its job succeeded, but not all of its effects are confirmed';
    end if;
end
$$;

-- slot_why(x, j): why a slot, whose job is j, has no result.
create or replace function interlock.slot_why(
    x interlock.slots, j interlock.jobs)
returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when (x).state = 'waiting' and (x).reason = 'approval'
        then 'it is older than approve_after and waits for approval'
        when (x).state = 'waiting' then 'it was not admitted: ' || (x).reason
        when (x).state = 'skipped' then 'it was skipped: ' || (x).reason
        when (j).id is null then 'its job is not there any more'
        when (j).status in ('failed', 'expired', 'held', 'canceled')
        then format('its job is %s: %s', (j).status,
                    coalesce((j).error, 'no reason given'))
        when (j).place = 'limited'
        then 'its job waits for limit ' || (j).limited_by
        when (j).place = 'blocked' then 'its job waits behind another one'
        when (j).status = 'checking'
        then format('its job is checking: %s', (j).waits_on)
        else format('its job is %s', (j).status) end
$$;

revoke all on function interlock.slot_owns(interlock.slots, uuid)
    from public;
revoke all on function interlock.slot_only(interlock.slots) from public;
revoke all on function interlock.plan_admitted(text) from public;
revoke all on function interlock.slot_job(interlock.slots) from public;
revoke all on function interlock.slot_repeats(interlock.slots) from public;
revoke all on function interlock.slot_work(interlock.slots) from public;
revoke all on function interlock.slot_why(interlock.slots, interlock.jobs)
    from public;
