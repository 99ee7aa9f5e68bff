-- token_revoke(tenant, id): who: the administrator's commands, as owner.
-- Locks: the token's row.  Answers: true if it was live until now.
create or replace function interlock.token_revoke(p_tenant int, p_id bigint)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform set_config('synchronous_commit', 'on', true);

    update interlock.api_tokens t
    set revoked_at = clock_timestamp()
    where t.tenant = p_tenant and t.id = p_id and t.revoked_at is null;

    return found;
end
$$;

revoke all on function interlock.token_revoke(int, bigint) from public;
