-- button_work(tenant, kind, work_key): who: interlockd, GET /button/{kind}.
-- How a button's work stands, for a page that was loaded again.  Locks: none.
-- Answers one row; active is the job that is under way, or else is to be the
-- next, last the newest one that ended; both as job_doc() has them (interlockd
-- shows of that only what a browser may see), null if there is none.  A work
-- key of another kind has neither.
create or replace function interlock.button_work(
    p_tenant int, p_kind text, p_work_key text)
returns table (active text, last text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query select
        (select interlock.job_doc(j, l.progress, l.step)
         from interlock.jobs_live j
         left join lateral (
             select y.progress, y.step from interlock.leases y
             where y.tenant = j.tenant and y.job_id = j.id
             limit 1) l on true
         where j.tenant = p_tenant and j.work_key = p_work_key
             and j.kind = p_kind
             and j.status in ('queued', 'running', 'checking', 'held')
         order by j.status = 'queued', j.place is not distinct from 'blocked',
             j.created_at
         limit 1),
        (select interlock.job_doc(j, null, null)
         from (select y.id, y.arrived_at from interlock.requests y
               where y.tenant = p_tenant and y.work_key = p_work_key
                   and y.job_id = y.id
               order by y.arrived_at desc, y.id desc limit 20) q
         join interlock.jobs j on j.tenant = p_tenant and j.id = q.id
         where j.kind = p_kind and j.finished_at is not null
             and j.status <> 'superseded'
         order by j.finished_at desc
         limit 1);
end
$$;

revoke all on function interlock.button_work(int, text, text) from public;
grant execute on function interlock.button_work(int, text, text)
    to interlock_service;
