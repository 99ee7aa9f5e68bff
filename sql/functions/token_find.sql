-- token_find(hash): who: interlockd, for a bearer token it does not remember.
-- Locks: none.  Answers: whose it is, or no row (unknown or revoked).
create or replace function interlock.token_find(p_hash bytea)
returns table (tenant int, tenant_name text, token_id bigint,
               token_name text, role text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select t.tenant, n.name, t.id, t.name, t.role
    from interlock.api_tokens t
    join interlock.tenants n on n.id = t.tenant
    where t.hash = p_hash and t.revoked_at is null
$$;

revoke all on function interlock.token_find(bytea) from public;
grant execute on function interlock.token_find(bytea) to interlock_service;
