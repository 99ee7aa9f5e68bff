-- session_begin(token_hash, hash, old, idle_ms, max_ms): who: interlockd, for a login.
-- Opens a session of the token's holder under a hash that is new, ends the one
-- that the browser had before (old; null: none), and those of the token beyond
-- its 200 newest.  The same call again finds the session that is there.
-- Locks: the token's row FOR KEY SHARE, then the sessions' rows.
-- Answers: outcome
--   ok       and whose it is, when it ends unused and in any case
--   unknown  no such token, or it is revoked
--   role     it is of a role for which there are no pages
create or replace function interlock.session_begin(
    p_token_hash bytea, p_hash bytea, p_old bytea, p_idle_ms bigint,
    p_max_ms bigint)
returns table (outcome text, tenant int, tenant_name text, token_id bigint,
               token_name text, role text, idle_end timestamptz,
               absolute_end timestamptz)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_now    timestamptz := clock_timestamp();
    v_end    timestamptz := v_now + p_max_ms * interval '1 millisecond';
    v_token  record;
begin
    perform set_config('synchronous_commit', 'on', true);

    select t.tenant, n.name as tenant_name, t.id, t.name, t.role into v_token
    from interlock.api_tokens t
    join interlock.tenants n on n.id = t.tenant
    where t.hash = p_token_hash and t.revoked_at is null
    for key share of t;

    if not found then
        return query select 'unknown', null::int, null::text, null::bigint,
            null::text, null::text, null::timestamptz, null::timestamptz;
        return;
    end if;

    if v_token.role not in ('operator', 'auditor') then
        return query select 'role', v_token.tenant, v_token.tenant_name,
            v_token.id, v_token.name, v_token.role, null::timestamptz,
            null::timestamptz;
        return;
    end if;

    delete from interlock.sessions s
    where s.hash = p_old and p_old <> p_hash;

    insert into interlock.sessions (hash, tenant, token_id, created_at,
        seen_at, ends_at)
    values (p_hash, v_token.tenant, v_token.id, v_now, v_now,
        v_end)
    on conflict (hash) do nothing;

    delete from interlock.sessions s
    where s.hash in (
        select x.hash from interlock.sessions x
        where x.tenant = v_token.tenant and x.token_id = v_token.id
        order by x.created_at desc
        offset 200);

    return query select 'ok', v_token.tenant, v_token.tenant_name, v_token.id,
        v_token.name, v_token.role,
        least(v_now + p_idle_ms * interval '1 millisecond', v_end), v_end;
end
$$;

revoke all on function interlock.session_begin(bytea, bytea, bytea, bigint,
    bigint) from public;
grant execute on function interlock.session_begin(bytea, bytea, bytea, bigint,
    bigint) to interlock_service;
