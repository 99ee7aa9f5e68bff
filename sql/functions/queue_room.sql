-- queue_room.sql: how many more jobs a queue may take; helpers of submit and
-- explain.

-- queue_look(tenant, kind, bound): bound less the queued jobs of the kind, or
-- of the tenant for kind ''; reads at most bound entries of an index.
create or replace function interlock.queue_look(
    p_tenant int, p_kind text, p_bound bigint)
returns bigint
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_n  bigint;
begin
    if p_kind = '' then
        select count(*) into v_n from (
            select from interlock.jobs_live j
            where j.tenant = p_tenant and j.place is not null
            limit p_bound) x;
    else
        select count(*) into v_n from (
            select from interlock.jobs_live j
            where j.tenant = p_tenant and j.kind = p_kind
                and j.place is not null
            limit p_bound) x;
    end if;

    return p_bound - v_n;
end
$$;

-- queue_room(tenant, kind, bound, want): room for a batch that wants so many
-- places.  Far from the bound it answers from what somebody saw lately, less
-- what could have come since at 50,000 a second, and locks nothing.  Near it
-- (less than a tenth, or than wanted) submitters take turns on the row in
-- queue_looks: each takes its places off before the next looks.  A big queue
-- is counted again at most ten times a second.
-- Locks: the row in queue_looks, waiting; after works, before limit groups.
create or replace function interlock.queue_room(
    p_tenant int, p_kind text, p_bound bigint, p_want bigint)
returns bigint
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    q       interlock.queue_looks;
    v_now   timestamptz := clock_timestamp();
    v_room  bigint;
begin
    select * into q from interlock.queue_looks x
    where x.tenant = p_tenant and x.kind = p_kind;

    if found and q.bound = p_bound then
        v_room := q.room - (50000 * greatest(0,
            extract(epoch from v_now - q.looked_at)))::bigint;
        if v_room >= greatest(p_want, p_bound / 10) then
            return v_room;
        end if;
    elsif not found then
        insert into interlock.queue_looks (tenant, kind, bound, room,
            looked_at)
        values (p_tenant, p_kind, p_bound, 0, '-infinity')
        on conflict do nothing;
    end if;

    perform from interlock.queue_looks x
    where x.tenant = p_tenant and x.kind = p_kind for update;

    select * into strict q from interlock.queue_looks x
    where x.tenant = p_tenant and x.kind = p_kind;

    if q.bound <> p_bound or p_bound <= 1000
        or q.looked_at < clock_timestamp() - interval '100 ms'
    then
        q.looked_at := clock_timestamp();
        q.room := interlock.queue_look(p_tenant, p_kind, p_bound);
    end if;

    update interlock.queue_looks x
    set bound = p_bound, looked_at = q.looked_at,
        room = greatest(0, q.room - p_want)
    where x.tenant = p_tenant and x.kind = p_kind;

    return q.room;
end
$$;

-- queue_retry(tenant, kind, work_key, reason): after how many seconds one
-- place should be free: from the last ends of that key, or those of the kind
-- (or tenant) in the last minute; the kind's lease if there were none.
create or replace function interlock.queue_retry(
    p_tenant int, p_kind text, p_key text, p_reason text)
returns int
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now   timestamptz := clock_timestamp();
    v_secs  float8;
begin
    if p_reason = 'key_full' then
        select extract(epoch from v_now - min(x.ended_at)) / count(*)
        into v_secs
        from (select a.ended_at from interlock.attempts a
              where a.tenant = p_tenant and a.work_key = p_key
              order by a.fence desc limit 10) x;

        if v_secs is null then
            -- Nothing of this key has ended yet: as long as it runs already.
            select extract(epoch from v_now - l.granted_at) into v_secs
            from interlock.leases l
            where l.tenant = p_tenant and l.work_key = p_key and l.exclusive
            limit 1;
        end if;
    else
        select 1 / nullif(sum(p.rate * exp(
            -extract(epoch from v_now - p.rated_at) / 60)), 0)
        into v_secs
        from interlock.kind_pace p
        where p.tenant = p_tenant
            and (p.kind = p_kind or p_reason = 'tenant_full');
    end if;

    if v_secs is null then
        select v.lease_seconds into v_secs
        from interlock.kinds k, interlock.kind_versions v
        where k.tenant = p_tenant and k.name = p_kind
            and v.tenant = k.tenant and v.name = k.name
            and v.version = k.version;
    end if;

    return greatest(1, least(3600, ceil(coalesce(v_secs, 30))))::int;
end
$$;

revoke all on function interlock.queue_look(int, text, bigint) from public;
revoke all on function interlock.queue_room(int, text, bigint, bigint)
    from public;
revoke all on function interlock.queue_retry(int, text, text, text)
    from public;
