-- job_get(tenants, jobs): who: interlockd, job look-ups and waits.
-- Locks: none.  Answers one row for each job that exists in that tenant:
-- final is true once the status cannot change any more; doc is the JSON
-- object of the API.  progress and step of a running job are its lease's.
create or replace function interlock.job_get(p_tenant int[], p_job uuid[])
returns table (ord int, status text, final boolean, doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    select u.ord::int, j.status, j.finished_at is not null,
        json_build_object(
            'job_id', j.id,
            'kind', j.kind,
            'work_key', j.work_key,
            'version', j.version,
            'status', j.status,
            'decision', j.decision,
            'attempt', j.attempts,
            'priority', j.priority,
            'progress', case when l.found then l.progress
                        else j.progress end,
            'step', case when l.found then l.step else j.step end,
            'created_at', interlock.ts(j.created_at),
            'started_at', interlock.ts(j.started_at),
            'finished_at', interlock.ts(j.finished_at),
            'retry_at', interlock.ts(j.retry_at),
            'error', j.error,
            'user_message', j.user_message,
            'log_url', j.log_url,
            'result_url', case when j.status = 'succeeded'
                then interlock.result_link(j.result_url, j.work_key) end,
            'delivery', null,
            'superseded_by', j.superseded_by,
            'rerun_of', j.rerun_of,
            'source', j.source,
            'requested_by', j.requested_by,
            'reason', j.reason)::text
    from unnest(p_tenant, p_job) with ordinality as u (tenant, job, ord)
    cross join lateral (
        select x.* from interlock.jobs x
        where x.tenant = u.tenant and x.id = u.job
        limit 1) j
    left join lateral (
        select true as found, x.progress, x.step from interlock.leases x
        where x.tenant = u.tenant and x.job_id = u.job
        limit 1) l on true
    order by u.ord;
end
$$;

revoke all on function interlock.job_get(int[], uuid[]) from public;
grant execute on function interlock.job_get(int[], uuid[])
    to interlock_service;
