-- edge_record(…): who: interlockd's batcher of what edges tell; arrays of
-- equal length, one element a request that an edge answered alone, ord its
-- place (from 1).  Without an id (p_id null) an element says only how far the
-- zone's numbers have come.
--
-- A row in requests for each: a duplicate is linked to the first request of
-- its idempotency key, one that was skipped within a job's hold to that job,
-- and its own key has that answer from now on.  The id comes from the zone and
-- the number, so whoever is told twice has one row.
--
-- Locks: rows of idempotency (new ones inserted in key order) → rows of
-- edge_zones, in order of the zone.
-- Answers one row an element:
--   recorded   there is a row now
--   known      there was one already
--   unmatched  there is no first request, or no job, that it could be about:
--              no row, and the number counts as missing
--   seen       an element without id
create or replace function interlock.edge_record(
    p_zone uuid[], p_seq bigint[], p_id uuid[], p_at timestamptz[],
    p_tenant text[], p_source text[], p_idem text[], p_fingerprint bytea[],
    p_kind text[], p_work_key text[], p_decision text[], p_code int[],
    p_reason text[], p_status text[], p_job uuid[], p_active uuid[])
returns table (ord int, outcome text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    n         int := cardinality(p_zone);
    v_now     timestamptz := clock_timestamp();
    v_tenant  int[] := array_fill(null::int, array[n]);
    v_match   boolean[] := array_fill(false, array[n]);
    v_new     boolean[] := array_fill(false, array[n]);
    r         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    for r in
        select u.ord, t.id
        from unnest(p_tenant) with ordinality as u (name, ord)
        cross join lateral (
            select x.id from interlock.tenants x where x.name = u.name
            limit 1) t
    loop
        v_tenant[r.ord] := r.id;
    end loop;

    -- Those that were skipped come first: a duplicate may be one of theirs.
    for r in
        select u.ord, u.tenant, u.source, u.idem, u.id, u.fingerprint, k.ttl
        from unnest(v_tenant, p_source, p_idem, p_id, p_fingerprint, p_kind,
                    p_work_key, p_decision, p_job)
            with ordinality as u (tenant, source, idem, id, fingerprint,
                kind, work_key, decision, job, ord)
        cross join lateral (
            select from interlock.jobs j
            where j.tenant = u.tenant and j.id = u.job
                and j.work_key = u.work_key and j.kind = u.kind
            limit 1) j
        left join lateral (
            select v.idempotency_ttl as ttl
            from interlock.kinds x, interlock.kind_versions v
            where x.tenant = u.tenant and x.name = u.kind
                and v.tenant = x.tenant and v.name = x.name
                and v.version = x.version
            limit 1) k on true
        where u.decision = 'skipped' and u.id is not null
        order by u.tenant, u.source, u.idem, u.ord
    loop
        v_match[r.ord] := true;

        if r.idem is not null and r.ttl is not null then
            insert into interlock.idempotency (tenant, source, key,
                request_id, fingerprint, expires_at)
            values (r.tenant, r.source, r.idem, r.id, r.fingerprint,
                v_now + make_interval(secs => r.ttl))
            on conflict do nothing;
        end if;
    end loop;

    for r in
        insert into interlock.requests (tenant, id, arrived_at, source,
            idempotency_key, fingerprint, kind, work_key, decision, code,
            reason, job_id, status, active_job_id, edge)
        select u.tenant, u.id, interlock.edge_time(u.at, j.created_at, v_now),
            u.source, u.idem, u.fingerprint, u.kind, u.work_key, 'skipped',
            u.code, u.reason, u.job, u.status, a.id, true
        from unnest(v_tenant, p_id, p_at, p_source, p_idem, p_fingerprint,
                    p_kind, p_work_key, p_code, p_reason, p_job, p_status,
                    p_active, v_match)
            with ordinality as u (tenant, id, at, source, idem, fingerprint,
                kind, work_key, code, reason, job, status, active, match, ord)
        cross join lateral (
            select x.created_at from interlock.jobs x
            where x.tenant = u.tenant and x.id = u.job
            limit 1) j
        left join lateral (
            select x.id from interlock.jobs x
            where x.tenant = u.tenant and x.id = u.active
            limit 1) a on true
        where u.match
        order by u.ord
        on conflict do nothing
        returning id
    loop
        v_new[array_position(p_id, r.id)] := true;
    end loop;

    -- Duplicates have the first one's answer, and were asked for by the same
    -- one: who it was is a part of the content, or not known at all.
    for r in
        insert into interlock.requests (tenant, id, arrived_at, source,
            idempotency_key, fingerprint, kind, work_key, version, decision,
            code, job_id, status, first_request, edge, requested_by)
        select f.tenant, u.id,
            interlock.edge_time(u.at, f.arrived_at, v_now), f.source,
            f.idempotency_key, coalesce(u.fingerprint, f.fingerprint),
            u.kind, u.work_key, f.version, 'duplicate', f.code, f.job_id,
            f.status, f.id, true, f.requested_by
        from unnest(v_tenant, p_id, p_at, p_source, p_idem, p_fingerprint,
                    p_kind, p_work_key, p_decision, p_job)
            with ordinality as u (tenant, id, at, source, idem, fingerprint,
                kind, work_key, decision, job, ord)
        left join lateral (
            select x.request_id from interlock.idempotency x
            where x.tenant = u.tenant and x.source = u.source
                and x.key = u.idem
            limit 1) k on true
        left join lateral (
            select q.id from interlock.requests q
            where q.tenant = u.tenant and q.id = k.request_id
                and q.code < 400 and q.decision <> 'duplicate'
                and q.job_id is not distinct from u.job
            limit 1) i on true
        left join lateral (
            select q.id from interlock.requests q
            where q.tenant = u.tenant and q.id = u.job and i.id is null
                and q.source = u.source and q.idempotency_key = u.idem
                and q.code < 400 and q.decision <> 'duplicate'
            limit 1) j on true
        cross join lateral (
            select q.* from interlock.requests q
            where q.tenant = u.tenant and q.id = coalesce(i.id, j.id)
            limit 1) f
        where u.decision = 'duplicate' and u.id is not null
        order by u.ord
        on conflict do nothing
        returning id
    loop
        v_new[array_position(p_id, r.id)] := true;
    end loop;

    perform interlock.edge_zones_count(p_zone, p_seq, v_new, v_now);

    return query
    select u.ord::int,
        case when u.id is null then 'seen'
             when u.new then 'recorded'
             when exists (select from interlock.requests q
                          where q.tenant = u.tenant and q.id = u.id)
             then 'known'
             else 'unmatched' end
    from unnest(v_tenant, p_id, v_new)
        with ordinality as u (tenant, id, new, ord);
end
$$;

-- edge_time(at, after, now): when a request arrived, by the edge's clock, but
-- neither before what it is a repeat of nor in the future.
create or replace function interlock.edge_time(
    p_at timestamptz, p_after timestamptz, p_now timestamptz)
returns timestamptz
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select least(p_now, greatest(p_at, p_after))
$$;

-- edge_zones_count(zone, seq, new, now): counts for each zone; new are those
-- numbers of which there is a row since this call.  What was the greatest
-- number 5 s ago is settled: nothing up to it is on its way any more.
create or replace function interlock.edge_zones_count(
    p_zone uuid[], p_seq bigint[], p_new boolean[], p_now timestamptz)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    r  record;
    z  interlock.edge_zones;
begin
    for r in
        select u.zone, max(u.seq) as high, count(*) filter (where u.new) as n
        from unnest(p_zone, p_seq, p_new) as u (zone, seq, new)
        group by u.zone order by u.zone
    loop
        insert into interlock.edge_zones (zone) values (r.zone)
        on conflict do nothing;
        if found then
            perform interlock.edge_zones_fold(p_now);
        end if;

        perform from interlock.edge_zones x where x.zone = r.zone for update;
        select * into strict z from interlock.edge_zones x
        where x.zone = r.zone;

        -- Heard of again, if only to say that it is there still: all that
        -- was under way came long ago.
        if z.changed_at < p_now - interval '1 hour' then
            z.missing := greatest(z.missing, z.high - z.received);
            z.changed_at := p_now;
        end if;

        z.received := z.received + r.n;
        z.marked := z.marked + (
            select count(*) from unnest(p_zone, p_seq, p_new)
                as u (zone, seq, new)
            where u.zone = r.zone and u.new and u.seq <= z.mark);
        if r.n > 0 or r.high > z.high then
            z.changed_at := p_now;
        end if;
        z.high := greatest(z.high, r.high);

        if z.marked_at <= p_now - interval '5 seconds' then
            z.missing := greatest(z.missing, z.mark - z.marked);
            z.mark := z.high;
            z.marked := z.received;
            z.marked_at := p_now;
        end if;

        update interlock.edge_zones x
        set high = z.high, received = z.received, mark = z.mark,
            marked = z.marked, marked_at = z.marked_at,
            missing = z.missing, changed_at = z.changed_at
        where x.zone = r.zone;
    end loop;
end
$$;

-- edge_zones_fold(now): zones that nobody has heard of for a week (interlockd
-- tells of those that are there twice a day, whether they count or not) become
-- one row, so that there are few and the sums stay.
create or replace function interlock.edge_zones_fold(p_now timestamptz)
returns void
language sql
set search_path = pg_catalog, interlock, pg_temp
as $$
    with old as (
        delete from interlock.edge_zones x
        where x.zone in (
            select y.zone from interlock.edge_zones y
            where y.changed_at < p_now - interval '7 days'
                and y.zone <> '00000000-0000-0000-0000-000000000000'
            order by y.zone for update skip locked)
        returning x.high, x.received)
    insert into interlock.edge_zones as z (zone, high, received, mark, marked,
        missing)
    select '00000000-0000-0000-0000-000000000000', o.high, o.received,
        o.high, o.received, o.high - o.received
    from (select sum(old.high) as high, sum(old.received) as received
          from old) o
    where o.high is not null
    on conflict (zone) do update
    set high = z.high + excluded.high,
        received = z.received + excluded.received,
        mark = z.mark + excluded.mark, marked = z.marked + excluded.marked,
        missing = z.missing + excluded.missing
$$;

-- edge_stats(): rows of stats().
--   edge_audit_received_total  what edges answered alone and is in requests
--   edge_audit_missing_total   what they answered alone, by their numbers, and
--                              is not, 5 s later
create or replace function interlock.edge_stats()
returns table (name text, tenant text, labels text, value double precision)
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select x.name, null, '{}', x.value::float8
    from (select coalesce(sum(z.received), 0) as received,
              coalesce(sum(greatest(z.missing,
                  case when z.marked_at <= c.settled
                       then z.mark - z.marked end,
                  case when z.changed_at <= c.settled
                       then z.high - z.received end)), 0) as missing
          from interlock.edge_zones z
          cross join (select clock_timestamp() - interval '5 seconds'
                          as settled) c) s
    cross join lateral (values ('edge_audit_received_total', s.received),
        ('edge_audit_missing_total', s.missing)) x (name, value)
$$;

revoke all on function interlock.edge_time(timestamptz, timestamptz,
    timestamptz) from public;
revoke all on function interlock.edge_zones_count(uuid[], bigint[],
    boolean[], timestamptz) from public;
revoke all on function interlock.edge_zones_fold(timestamptz) from public;
revoke all on function interlock.edge_stats() from public;
revoke all on function interlock.edge_record(uuid[], bigint[], uuid[],
    timestamptz[], text[], text[], text[], bytea[], text[], text[], text[],
    int[], text[], text[], uuid[], uuid[]) from public;
grant execute on function interlock.edge_record(uuid[], bigint[], uuid[],
    timestamptz[], text[], text[], text[], bytea[], text[], text[], text[],
    int[], text[], text[], uuid[], uuid[]) to interlock_service;
