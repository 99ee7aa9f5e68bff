-- tenant_bound(tenant, max_queued): who: the administrator, as owner.  How
-- many jobs of the tenant may be queued at once; null: no bound.
-- Locks: the tenant's row.
create or replace function interlock.tenant_bound(
    p_tenant int, p_max_queued bigint)
returns void
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform set_config('synchronous_commit', 'on', true);

    update interlock.tenants t set max_queued = p_max_queued
    where t.id = p_tenant;
end
$$;

revoke all on function interlock.tenant_bound(int, bigint) from public;
