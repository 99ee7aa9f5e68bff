-- session_find(hash, idle_ms, use): who: interlockd, for a cookie that it
-- does not remember.  A session ends idle_ms after it was last used, and at
-- ends_at at the latest; it is not there while its token is revoked.  With
-- `use` this is a use of it, which is written at most once a minute, or in a
-- thirtieth of idle_ms if that is less.
-- Locks: the session's row, when it writes.
-- Answers: whose it is, when it ends unused (idle_end) and in any case
-- (absolute_end), and in how many milliseconds the earlier of them is; or no
-- row.
create or replace function interlock.session_find(
    p_hash bytea, p_idle_ms bigint, p_use boolean)
returns table (tenant int, tenant_name text, token_id bigint, token_name text,
               role text, idle_end timestamptz, absolute_end timestamptz,
               left_ms bigint)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_now   timestamptz := clock_timestamp();
    v_idle  interval := p_idle_ms * interval '1 millisecond';
    v_seen  timestamptz;
    v_end   timestamptz;
    v_open  interlock.sessions;
    v_who   record;
begin
    -- one after the other: joined, a plan made while the tables were empty
    -- reads a tenant's tokens by the tenant alone
    select * into v_open
    from interlock.sessions s
    where s.hash = p_hash;

    if not found or v_open.ends_at <= v_now
        or v_open.seen_at + v_idle <= v_now
    then
        return;
    end if;

    select n.name as tenant_name, t.name, t.role into v_who
    from interlock.api_tokens t
    join interlock.tenants n on n.id = t.tenant
    where t.tenant = v_open.tenant and t.id = v_open.token_id
        and t.revoked_at is null;

    if not found then
        return;
    end if;

    v_seen := v_open.seen_at;

    if p_use and v_now - v_seen >= least(v_idle / 30, interval '1 minute')
    then
        perform set_config('synchronous_commit', 'on', true);

        update interlock.sessions s set seen_at = v_now
        where s.hash = p_hash and s.seen_at < v_now;

        v_seen := v_now;
    end if;

    v_end := least(v_seen + v_idle, v_open.ends_at);

    return query select v_open.tenant, v_who.tenant_name, v_open.token_id,
        v_who.name, v_who.role, v_end, v_open.ends_at,
        floor(extract(epoch from v_end - v_now) * 1000)::bigint;
end
$$;

revoke all on function interlock.session_find(bytea, bigint, boolean)
    from public;
grant execute on function interlock.session_find(bytea, bigint, boolean)
    to interlock_service;
