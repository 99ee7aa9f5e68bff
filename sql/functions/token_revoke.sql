-- token_revoke(tenant, id): who: the administrator's commands, as owner.
-- Ends the sessions that were opened with it, too.
-- Locks: the token's row, then its sessions'.  Answers: true if it was live
-- until now.
create or replace function interlock.token_revoke(p_tenant int, p_id bigint)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_live  boolean;
begin
    perform set_config('synchronous_commit', 'on', true);

    update interlock.api_tokens t
    set revoked_at = clock_timestamp()
    where t.tenant = p_tenant and t.id = p_id and t.revoked_at is null;
    v_live := found;

    delete from interlock.sessions s
    where s.tenant = p_tenant and s.token_id = p_id;

    return v_live;
end
$$;

revoke all on function interlock.token_revoke(int, bigint) from public;
