-- effects_started(tenant, job): has a running job begun an effect that is
-- intended, confirmed or unknown?  Then it may not be replaced any more.
-- Read in a statement after the work and the lease of the job are locked, so
-- that nothing can begin meanwhile.  Locks: none.
create or replace function interlock.effects_started(p_tenant int, p_job uuid)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    perform from (
        select s.effect_id from interlock.sends s
        where s.tenant = p_tenant and s.job_id = p_job) s
    cross join lateral (
        select e.state from interlock.effects e
        where e.tenant = p_tenant and e.id = s.effect_id
        limit 1) e
    where e.state <> 'failed'
    limit 1;
    return found;
end
$$;

revoke all on function interlock.effects_started(int, uuid) from public;
