-- tenant_find(name): who: interlockd, once a name and connection.
-- Locks: none.  Answers: the tenant's number, or no row if unknown.
create or replace function interlock.tenant_find(p_name text)
returns table (tenant int)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select t.id from interlock.tenants t where t.name = p_name
$$;

revoke all on function interlock.tenant_find(text) from public;
grant execute on function interlock.tenant_find(text) to interlock_service;
