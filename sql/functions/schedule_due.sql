-- schedule_due(): who: interlockd, behind its sweeps, so that a slot fires at
-- its time and not with the sweep after it.  Locks: none.  Answers: one row;
-- wait_ms is how long it is until the next slot of any schedule is due, 0 if
-- one has just become so, null if there is none.  What has been due for longer
-- is under way, or held back, and is the next sweep's.
create or replace function interlock.schedule_due()
returns table (wait_ms bigint)
language sql volatile security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select greatest(0, ceil(1000 * extract(epoch from
        x.next_at - clock_timestamp())))::bigint
    from (select null) one
    left join lateral (
        select s.next_at
        from interlock.schedules s
        where s.next_at > clock_timestamp() - interval '50 ms'
            and not s.paused and not s.deleted
        order by s.next_at
        limit 1) x on true
$$;

revoke all on function interlock.schedule_due() from public;
grant execute on function interlock.schedule_due() to interlock_service;
