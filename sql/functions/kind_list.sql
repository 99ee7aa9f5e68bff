-- kind_list(tenant): who: interlockd, GET /v1/kinds.
-- Locks: none.  Answers: every kind that is not deleted, by name.
create or replace function interlock.kind_list(p_tenant int)
returns table (name text, doc text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select v.name, interlock.kind_doc(v)
    from interlock.kinds k
    join interlock.kind_versions v
        on v.tenant = k.tenant and v.name = k.name and v.version = k.version
    where k.tenant = p_tenant and not k.deleted
    order by v.name
$$;

revoke all on function interlock.kind_list(int) from public;
grant execute on function interlock.kind_list(int) to interlock_service;
