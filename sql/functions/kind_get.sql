-- kind_get(tenant, name): who: interlockd, GET /v1/kinds/{name}.
-- Locks: none.  Answers: the policy in force, or no row if there is none.
create or replace function interlock.kind_get(p_tenant int, p_name text)
returns table (doc text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select interlock.kind_doc(v) from interlock.kind_row(p_tenant, p_name) v
$$;

revoke all on function interlock.kind_get(int, text) from public;
grant execute on function interlock.kind_get(int, text) to interlock_service;
