-- token_list(tenant): who: the administrator's commands, as owner.
-- Locks: none.  Answers: every token, revoked ones too, without hashes.
create or replace function interlock.token_list(p_tenant int)
returns table (id bigint, name text, role text, created_at timestamptz,
               revoked_at timestamptz)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select t.id, t.name, t.role, t.created_at, t.revoked_at
    from interlock.api_tokens t
    where t.tenant = p_tenant
    order by t.id
$$;

revoke all on function interlock.token_list(int) from public;
