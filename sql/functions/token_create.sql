-- token_create(tenant, name, role, hash): who: the administrator's commands,
-- as owner.  Only the hash (BLAKE2b-256 of the token) is ever here.
-- Locks: the new row.  Answers: the token's number.
-- Refuses: an unknown role, a hash that is there already (constraints).
create or replace function interlock.token_create(
    p_tenant int, p_name text, p_role text, p_hash bytea)
returns bigint
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_id  bigint;
begin
    perform set_config('synchronous_commit', 'on', true);

    insert into interlock.api_tokens (tenant, name, role, hash)
    values (p_tenant, p_name, p_role, p_hash)
    returning id into v_id;

    return v_id;
end
$$;

revoke all on function interlock.token_create(int, text, text, bytea)
    from public;
