-- job_get(tenants, jobs): who: interlockd, job look-ups and waits.
-- Locks: none.  Answers one row for each job that exists in that tenant:
-- final is true once the status cannot change any more; doc is the JSON
-- object of the API, with the job's last attempts that ended (job_attempts)
-- and the one that runs (lease_doc).
-- progress and step of a running job are its lease's.
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
    select u.ord::int, (j.j).status, (j.j).finished_at is not null,
        rtrim(interlock.job_doc(j.j, (l.l).progress, (l.l).step), '}')
        || ', "attempts" : ' || coalesce(
            case when (j.j).started_at is not null
                then interlock.job_attempts(u.tenant, u.job)::text end, '[]')
        || ', "lease" : ' || coalesce(
            case when (l.l).attempt_id is not null
                then interlock.lease_doc(l.l)::text end, 'null')
        || '}'
    from unnest(p_tenant, p_job) with ordinality as u (tenant, job, ord)
    cross join lateral (
        select x as j from interlock.jobs x
        where x.tenant = u.tenant and x.id = u.job
        limit 1) j
    left join lateral (
        select x as l from interlock.leases x
        where x.tenant = u.tenant and x.job_id = u.job
        limit 1) l on true
    order by u.ord;
end
$$;

revoke all on function interlock.job_get(int[], uuid[]) from public;
grant execute on function interlock.job_get(int[], uuid[])
    to interlock_service;
