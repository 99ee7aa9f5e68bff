-- owner_lock(tenants, attempts): locks what an attempt's end touches: the
-- works of these attempts in key order, and with them those of the jobs and
-- effects that they look up; then their leases by id, then the effects that
-- they are sending, in order; all waiting.  Helper of finish and unclaim;
-- they judge in later statements.
-- Attempts that have no lease any more lock nothing.
create or replace function interlock.owner_lock(
    p_tenant int[], p_attempt uuid[])
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    perform from (
        select distinct l.tenant, y.work_key
        from unnest(p_tenant, p_attempt) u (tenant, attempt)
        cross join lateral (
            select x.tenant, x.work_key, x.kind, x.job_id
            from interlock.leases x
            where x.tenant = u.tenant and x.attempt_id = u.attempt
            limit 1) l
        cross join lateral (
            select l.work_key
            union all
            select c.work_key from interlock.checks c
            where l.kind in ('result-check', 'effect-check')
                and c.tenant = l.tenant and c.job_id = l.job_id) y
        order by l.tenant, y.work_key) k
    cross join lateral (
        select from interlock.works w
        where w.tenant = k.tenant and w.work_key = k.work_key
        for no key update) w;

    perform from (
        select distinct u.tenant, u.attempt
        from unnest(p_tenant, p_attempt) u (tenant, attempt)
        order by u.tenant, u.attempt) k
    cross join lateral (
        select from interlock.leases x
        where x.tenant = k.tenant and x.attempt_id = k.attempt
        for update) l;

    perform interlock.effects_lock(p_tenant, p_attempt);
end
$$;

revoke all on function interlock.owner_lock(int[], uuid[]) from public;
