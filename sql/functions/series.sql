-- series.sql: how queues stood and what was decided, minute by minute.

-- series_sweep(limit): who: the scheduler of every interlockd; whoever comes
-- first in a minute (of the database's clock) samples it, for all tenants, and
-- takes out of the inbox what need not be there any more (at most limit are
-- looked at).  A kind of which nothing waits or runs costs no row.
-- Locks: an advisory one, without waiting; the minute's row; rows of inbox,
-- skipping those that somebody holds.
-- Answers: one row if it sampled: how many rows that made.
create or replace function interlock.series_sweep(p_limit int)
returns table (sampled int)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_minute  timestamptz := date_trunc('minute', clock_timestamp());
begin
    perform from interlock.series_minutes m where m.minute = v_minute;
    if found or not pg_try_advisory_xact_lock(
        hashtextextended('interlock.series', 0))
    then
        return;
    end if;

    insert into interlock.series_minutes (minute) values (v_minute)
    on conflict do nothing;
    if not found then
        return;
    end if;

    sampled := interlock.series_sample_queue(v_minute)
        + interlock.series_sample_decisions(v_minute);
    perform interlock.inbox_sweep(p_limit);
    return next;
end
$$;

-- series_sample_queue(minute): how queues stand now, as that minute's: counted
-- in the index of what is queued.  oldest: oldest_of.
create or replace function interlock.series_sample_queue(
    p_minute timestamptz)
returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n        int;
    v_now      timestamptz := clock_timestamp();
    v_running  jsonb;
begin
    select coalesce(jsonb_object_agg(x.who, x.n), '{}') into v_running
    from (select l.tenant || ' ' || l.kind as who, count(*) as n
          from interlock.leases l group by 1) x;

    insert into interlock.series_queue (tenant, kind, minute, queued,
        running, waiting, parked, oldest)
    select k.tenant, k.name, p_minute, q.n - q.waiting, r.n, q.waiting, p.n,
        case when q.n > q.waiting
            then greatest(0, extract(epoch from v_now - (
                select o.run_at
                from interlock.oldest_of(k.tenant, k.name, v_now) o))) end
    from interlock.kinds k
    cross join lateral (
        select count(*) as n,
            count(*) filter (where j.place = 'blocked') as waiting
        from interlock.jobs_live j
        where j.tenant = k.tenant and j.kind = k.name
            and j.place >= '') q
    cross join lateral (
        select count(*) as n from interlock.inbox b
        where b.tenant = k.tenant and b.kind = k.name
            and b.state = 'parked') p
    cross join lateral (
        select coalesce((v_running ->> (k.tenant || ' ' || k.name))::bigint,
                        0) as n) r
    where q.n + p.n + r.n > 0;

    get diagnostics v_n = row_count;
    return v_n;
end
$$;

-- series_sample_decisions(minute): what was decided in the two minutes before,
-- of which the earlier one is counted anew: what an edge answered alone may
-- become a row some seconds later, and so may what was committed late.
-- Planned anew each time: the plan must go by the order of arrival, whatever
-- there was when this session began.
create or replace function interlock.series_sample_decisions(
    p_minute timestamptz)
returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_indexscan = off
as $$
declare
    v_n  int;
begin
    execute $q$
        insert into interlock.series_decisions as d (tenant, kind, minute,
            source, decision, alone, n)
        select q.tenant, q.kind, date_trunc('minute', q.arrived_at),
            q.source, q.decision, coalesce(q.edge, false), count(*)
        from interlock.requests q
        where q.arrived_at >= $1 - interval '2 minutes'
            and q.arrived_at < $1
        group by 1, 2, 3, 4, 5, 6
        on conflict (tenant, kind, minute, source, decision, alone)
        do update set n = excluded.n
    $q$ using p_minute;

    get diagnostics v_n = row_count;
    return v_n;
end
$$;

-- inbox_sweep(limit): looks on from where it was the last time at failed jobs,
-- at most limit of each tenant, and takes out those whose work a later job has
-- done (inbox_righted).
create or replace function interlock.inbox_sweep(p_limit int)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_seen  interlock.inbox[];
    t       record;
begin
    for t in
        select x.id from interlock.tenants x
        cross join lateral (
            select from interlock.inbox b
            where b.tenant = x.id and b.state = 'failed' limit 1) f
    loop
        insert into interlock.inbox_sweeps (tenant) values (t.id)
        on conflict do nothing;

        v_seen := array(
            select b from interlock.inbox_sweeps s
            cross join lateral (
                select y as b from interlock.inbox y
                where y.tenant = s.tenant and y.state = 'failed'
                    and (y.since, y.id) > (s.since, s.id)
                order by y.since, y.id limit p_limit) z
            where s.tenant = t.id);

        delete from interlock.inbox b
        using (select y.ctid as tid
               from unnest(v_seen) u
               cross join lateral (
                   select x.ctid from interlock.inbox x
                   where x.tenant = u.tenant and x.id = u.id
                       and interlock.inbox_righted(x)
                   for no key update skip locked) y) g
        where b.ctid = g.tid;

        update interlock.inbox_sweeps s
        set since = case when cardinality(v_seen) < p_limit
                then '-infinity' else (v_seen[p_limit]).since end,
            id = case when cardinality(v_seen) < p_limit
                then '' else (v_seen[p_limit]).id end
        where s.tenant = t.id;
    end loop;
end
$$;

-- series(tenant, what, kind, hours): who: interlockd, GET /v1/series.
-- what: queue (points {at, queued, running, waiting, parked,
-- oldest_age_seconds}: the most within a step) or decisions (points {at, a
-- number for each decision that there was, alone}: sums).  kind null: all
-- kinds together.  Locks: none.
-- Answers: one row.  doc {what, kind, since, step_seconds, points}; at most
-- about 360 points; a step in which nobody sampled has none.
create or replace function interlock.series(
    p_tenant int, p_what text, p_kind text, p_hours int)
returns table (doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $$
declare
    v_step    int := greatest(1, ceil(p_hours / 6.0)) * 60;
    v_from    timestamptz;
    v_points  json;
begin
    v_from := to_timestamp(floor(extract(epoch from clock_timestamp()
        - make_interval(hours => p_hours)) / v_step) * v_step);

    if p_what = 'queue' then
        v_points := interlock.series_queue_points(p_tenant, p_kind, v_from,
                                                  v_step);
    else
        v_points := interlock.series_decision_points(p_tenant, p_kind,
                                                     v_from, v_step);
    end if;

    doc := json_build_object('what', p_what, 'kind', p_kind,
        'since', interlock.ts(v_from), 'step_seconds', v_step,
        'points', coalesce(v_points, '[]'))::text;
    return next;
end
$$;

-- series_step(minute, step): the beginning of its step.
create or replace function interlock.series_step(
    p_minute timestamptz, p_step int)
returns timestamptz
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select to_timestamp(floor(extract(epoch from p_minute) / p_step)
                        * p_step)
$$;

create or replace function interlock.series_queue_points(
    p_tenant int, p_kind text, p_from timestamptz, p_step int)
returns json
language sql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $$
    with seen as (
        select q.minute, sum(q.queued) as queued, sum(q.running) as running,
            sum(q.waiting) as waiting, sum(q.parked) as parked,
            max(q.oldest) as oldest
        from interlock.kinds k
        cross join lateral (
            select y.* from interlock.series_queue y
            where y.tenant = k.tenant and y.kind = k.name
                and y.minute >= p_from) q
        where k.tenant = p_tenant and (p_kind is null or k.name = p_kind)
        group by q.minute)
    select json_agg(json_build_object('at', interlock.ts(p.at),
        'queued', p.queued, 'running', p.running, 'waiting', p.waiting,
        'parked', p.parked, 'oldest_age_seconds', floor(p.oldest))
        order by p.at)
    from (select interlock.series_step(m.minute, p_step) as at,
              max(coalesce(s.queued, 0)) as queued,
              max(coalesce(s.running, 0)) as running,
              max(coalesce(s.waiting, 0)) as waiting,
              max(coalesce(s.parked, 0)) as parked, max(s.oldest) as oldest
          from interlock.series_minutes m
          left join seen s on s.minute = m.minute
          where m.minute >= p_from
          group by 1) p
$$;

create or replace function interlock.series_decision_points(
    p_tenant int, p_kind text, p_from timestamptz, p_step int)
returns json
language sql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $$
    with seen as (
        select interlock.series_step(d.minute, p_step) as at, d.decision,
            sum(d.n) as n, sum(d.n) filter (where d.alone) as alone
        from interlock.kinds k
        cross join lateral (
            select y.* from interlock.series_decisions y
            where y.tenant = k.tenant and y.kind = k.name
                and y.minute >= p_from) d
        where k.tenant = p_tenant and (p_kind is null or k.name = p_kind)
        group by 1, 2)
    select json_agg(jsonb_build_object('at', interlock.ts(p.at),
        'alone', coalesce(s.alone, 0)) || coalesce(s.counts, '{}')
        order by p.at)
    from (select interlock.series_step(m.minute, p_step) as at
          from interlock.series_minutes m
          where m.minute >= p_from
          group by 1) p
    left join (
        select x.at, jsonb_object_agg(x.decision, x.n) as counts,
            sum(x.alone) as alone
        from seen x group by x.at) s on s.at = p.at
$$;

-- prune_series(limit): helper of prune: samples older than retain('series');
-- their minutes first, so that no minute is shown as sampled whose samples are
-- gone.
create or replace function interlock.prune_series(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n    int;
    v_all  int;
    v_end  timestamptz := clock_timestamp() - interlock.retain('series');
begin
    delete from interlock.series_minutes m
    using (select x.minute from interlock.series_minutes x
           where x.minute < v_end
           order by x.minute limit p_limit for update skip locked) o
    where m.minute = o.minute;
    get diagnostics v_all = row_count;

    delete from interlock.series_queue q
    using (select x.ctid as tid from interlock.series_queue x
           where x.minute < v_end
           order by x.minute limit p_limit for update skip locked) o
    where q.ctid = o.tid;
    get diagnostics v_n = row_count;
    v_all := greatest(v_all, v_n);

    delete from interlock.series_decisions d
    using (select x.ctid as tid from interlock.series_decisions x
           where x.minute < v_end
           order by x.minute limit p_limit for update skip locked) o
    where d.ctid = o.tid;
    get diagnostics v_n = row_count;

    return greatest(v_all, v_n);
end
$$;

revoke all on function interlock.prune_series(int) from public;
revoke all on function interlock.series_step(timestamptz, int) from public;
revoke all on function interlock.series_queue_points(int, text, timestamptz,
    int) from public;
revoke all on function interlock.series_decision_points(int, text,
    timestamptz, int) from public;
revoke all on function interlock.series_sample_queue(timestamptz)
    from public;
revoke all on function interlock.series_sample_decisions(timestamptz)
    from public;
revoke all on function interlock.inbox_sweep(int) from public;
revoke all on function interlock.series_sweep(int) from public;
revoke all on function interlock.series(int, text, text, int) from public;
grant execute on function interlock.series_sweep(int) to interlock_service;
grant execute on function interlock.series(int, text, text, int)
    to interlock_service;
