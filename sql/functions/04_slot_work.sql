-- slot_work(x): how the work of a slot stands.  Locks: none.
--   job      its job, or the one that took that one's place
--   result   the newest result of its key, if it is this slot's: made since
--            its time, or by its job before (then a job that was asked for
--            earlier did the slot's work)
--   delivery as job_delivery, of that result's job
--   done_at  when all of it was done, or null: then why says what is missing
create or replace function interlock.slot_work(
    x interlock.slots, out job interlock.jobs, out result interlock.results,
    out delivery text, out done_at timestamptz, out why text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_id   uuid := x.job_id;
    maker  interlock.jobs;
begin
    for i in 1 .. 100 loop
        exit when v_id is null;
        select * into job from interlock.jobs j
        where j.tenant = x.tenant and j.id = v_id;
        v_id := job.superseded_by;
    end loop;

    select * into result from interlock.results r
    where r.tenant = x.tenant and r.work_key = x.work_key
    order by r.revision desc limit 1;

    if result.created_at >= x.slot_at
        or job.status = 'succeeded' and x.state <> 'skipped'
    then
        select * into maker from interlock.jobs j
        where j.tenant = x.tenant and j.id = result.job_id;
        job := maker;
        delivery := interlock.job_delivery(maker);
        if delivery is distinct from 'pending' then
            done_at := result.created_at;
        else
            why := 'its job succeeded, but not all of its effects are '
                'confirmed';
        end if;
        return;
    end if;

    result := null;
    why := case
        when x.state = 'waiting' and x.reason = 'approval'
        then 'it is older than approve_after and waits for approval'
        when x.state = 'waiting' then 'it was not admitted: ' || x.reason
        when x.state = 'skipped' then 'it was skipped: ' || x.reason
        when job.id is null then 'its job is not there any more'
        when job.status in ('failed', 'expired', 'held', 'canceled')
        then format('its job is %s: %s', job.status,
                    coalesce(job.error, 'no reason given'))
        when job.place = 'limited'
        then 'its job waits for limit ' || job.limited_by
        when job.place = 'blocked' then 'its job waits behind another one'
        when job.status = 'checking'
        then format('its job is checking: %s', job.waits_on)
        else format('its job is %s', job.status) end;
end
$$;

revoke all on function interlock.slot_work(interlock.slots) from public;
