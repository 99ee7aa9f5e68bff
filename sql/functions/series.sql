-- series.sql: how queues stood and what was decided, minute by minute.

-- series_sweep(limit): who: the scheduler of every interlockd; whoever comes
-- first in a minute (of the database's clock) samples it, for all tenants.
-- A kind of which nothing waits or runs costs no row.  limit counts for
-- nothing.
-- Locks: an advisory one, without waiting; the minute's row.
-- Answers: one row if it sampled: how many rows that made.
create or replace function interlock.series_sweep(p_limit int)
returns table (sampled int)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_now     timestamptz := clock_timestamp();
    v_minute  timestamptz := date_trunc('minute', v_now);
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

    insert into interlock.series_queue (tenant, kind, minute, queued,
        running, waiting, parked, oldest)
    select x.tenant, x.kind, v_minute, sum(x.queued), sum(x.running),
        sum(x.waiting), sum(x.parked),
        greatest(0, extract(epoch from v_now - min(x.since)))
    from (select j.tenant, j.kind,
              count(*) filter (where j.place <> 'blocked') as queued,
              count(*) filter (where j.status = 'running') as running,
              count(*) filter (where j.place = 'blocked') as waiting,
              0 as parked,
              min(j.run_at) filter (where j.place in ('ready', 'limited')
                  or (j.place = 'delayed' and j.run_at <= v_now)) as since
          from interlock.jobs j
          where j.status in ('queued', 'running', 'checking', 'held')
          group by 1, 2
          union all
          select b.tenant, b.kind, 0, 0, 0, count(*), null
          from interlock.inbox b
          where b.state = 'parked'
          group by 1, 2) x
    group by x.tenant, x.kind;
    get diagnostics sampled = row_count;

    return next;
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

revoke all on function interlock.series_step(timestamptz, int) from public;
revoke all on function interlock.series_queue_points(int, text, timestamptz,
    int) from public;
revoke all on function interlock.series_decision_points(int, text,
    timestamptz, int) from public;
revoke all on function interlock.series_sweep(int) from public;
revoke all on function interlock.series(int, text, text, int) from public;
grant execute on function interlock.series_sweep(int) to interlock_service;
grant execute on function interlock.series(int, text, text, int)
    to interlock_service;
