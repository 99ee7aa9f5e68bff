-- effects_started(tenant, job): has a running job begun an effect that is
-- intended, confirmed or unknown?  Then it may not be replaced any more.
-- There are no effects yet.  Read in a statement after the work and the lease
-- of the job are locked, so that nothing can begin meanwhile.  Locks: none.
create or replace function interlock.effects_started(p_tenant int, p_job uuid)
returns boolean
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select false
$$;

revoke all on function interlock.effects_started(int, uuid) from public;
