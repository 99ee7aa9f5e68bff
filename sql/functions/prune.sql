-- prune(limit): who: the recovery loop of interlockd, now and then, again at
-- once while it returns limit.
-- Locks: rows of idempotency whose time is over, FOR UPDATE SKIP LOCKED.
-- Answers: how many idempotency keys it freed.  A key whose job is not ended
-- stays, and is looked at again later.
create or replace function interlock.prune(p_limit int) returns int
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n    int;
    v_now  timestamptz := clock_timestamp();
begin
    perform set_config('synchronous_commit', 'on', true);

    with old as (
        select i.tenant, i.source, i.key
        from interlock.idempotency i
        where i.expires_at <= v_now
            and not interlock.request_open(i.tenant, i.request_id)
        order by i.expires_at
        limit p_limit
        for update skip locked)
    delete from interlock.idempotency i
    using old o
    where i.tenant = o.tenant and i.source = o.source and i.key = o.key;

    get diagnostics v_n = row_count;
    return v_n;
end
$$;

revoke all on function interlock.prune(int) from public;
grant execute on function interlock.prune(int) to interlock_service;
