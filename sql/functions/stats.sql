-- stats(): who: interlockd, for /metrics, at most once in some seconds.
-- Locks: none.  Answers: gauges, one row each; labels is a JSON object of
-- strings without the tenant's.
--   queue_depth{kind,state}        state ready, delayed, waiting (behind
--                                  another job of its key), limited, parked,
--                                  running, checking, held
--   dead_letters{kind}             failed jobs, which redrive may take back
--   oldest_item_age_seconds{kind}  of the jobs that could be claimed now
--   active_concurrency{kind}       live attempts
--   active_concurrency{limit}      those of a limit's fullest group
--   configured_limit{limit}        the capacity of a group of it
--   kind_paused{kind}, source_paused{source}
--   alert_states{alert,condition}  what alerts are told of and is not over
--   alert_deliveries_pending{alert}
--   recovery_troubles              expired leases that raised an error
--   effects{effect_kind,state}
--   effect_oldest_unknown_age_seconds{effect_kind}
--                                  of those of which nobody knows, or a human
--                                  must say, whether they happened
--   duplicate_side_effect_total{effect_kind}
--                                  contradictions: what happened twice, or
--                                  after it was certain that it had not
-- and those of schedule_stats and edge_stats.
create or replace function interlock.stats()
returns table (name text, tenant text, labels text, value double precision)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    v_now  timestamptz := clock_timestamp();
begin
    return query
    select 'queue_depth', t.name, json_build_object('kind', x.kind,
            'state', x.state)::text, x.n::float8
    from (select j.tenant, j.kind,
              case j.place when 'blocked' then 'waiting'
                  when 'ready' then 'ready' when 'delayed' then 'delayed'
                  when 'limited' then 'limited'
                  else j.status end as state,
              count(*) as n
          from interlock.jobs_live j
          where j.status in ('queued', 'running', 'checking', 'held')
          group by 1, 2, 3
          union all
          select j.tenant, j.kind, 'parked', count(*)
          from interlock.jobs_live j
          where j.status = 'parked'
          group by 1, 2) x
    join interlock.tenants t on t.id = x.tenant;

    return query
    select 'dead_letters', t.name, json_build_object('kind', k.name)::text,
        x.n::float8
    from interlock.kinds k
    join interlock.tenants t on t.id = k.tenant
    cross join lateral (
        select count(*) as n from interlock.jobs_ended j
        where j.tenant = k.tenant and j.kind = k.name
            and j.status = 'failed') x
    where x.n > 0;

    return query
    select 'oldest_item_age_seconds', t.name,
        json_build_object('kind', x.kind)::text,
        greatest(0, extract(epoch from v_now - x.since))::float8
    from (select j.tenant, j.kind, min(j.run_at) as since
          from interlock.jobs_live j
          where j.status in ('queued', 'running', 'checking', 'held')
              and (j.place = 'ready'
                   or (j.place = 'delayed' and j.run_at <= v_now))
          group by 1, 2) x
    join interlock.tenants t on t.id = x.tenant;

    return query
    select 'active_concurrency', t.name,
        json_build_object('kind', x.kind)::text, x.n::float8
    from (select l.tenant, l.kind, count(*) as n
          from interlock.leases l group by 1, 2) x
    join interlock.tenants t on t.id = x.tenant;

    return query
    select 'active_concurrency', t.name,
        json_build_object('limit', l.name)::text,
        coalesce(x.n, 0)::float8
    from interlock.limits l
    join interlock.tenants t on t.id = l.tenant
    left join (
        select y.tenant, interlock.limit_of(y.group_name) as name,
            max(y.n) as n
        from (select g.tenant, g.group_name, count(*) as n
              from interlock.lease_groups g group by 1, 2) y
        group by 1, 2) x on x.tenant = l.tenant and x.name = l.name;

    return query
    select 'configured_limit', t.name,
        json_build_object('limit', l.name)::text, l.capacity::float8
    from interlock.limits l
    join interlock.tenants t on t.id = l.tenant;

    return query
    select 'recovery_troubles', t.name, '{}', x.n::float8
    from (select r.tenant, count(*) as n
          from interlock.recovery_troubles r group by 1) x
    join interlock.tenants t on t.id = x.tenant;

    return query
    select p.what || '_paused', t.name,
        json_build_object(p.what, p.name)::text, 1::float8
    from interlock.pauses p
    join interlock.tenants t on t.id = p.tenant;

    return query
    select 'alert_states', t.name, json_build_object('alert', x.alert,
        'condition', x.condition)::text, x.n::float8
    from (select s.tenant, s.alert, s.condition, count(*) as n
          from interlock.alert_states s group by 1, 2, 3) x
    join interlock.tenants t on t.id = x.tenant;

    return query
    select 'alert_deliveries_pending', t.name,
        json_build_object('alert', a.name)::text, x.n::float8
    from interlock.alerts a
    join interlock.tenants t on t.id = a.tenant
    cross join lateral (
        select count(*) as n from interlock.alert_deliveries d
        where d.tenant = a.tenant and d.alert = a.name) x;

    return query select * from interlock.effect_stats();
    return query select * from interlock.schedule_stats();
    return query select * from interlock.edge_stats();
end
$$;

revoke all on function interlock.stats() from public;
grant execute on function interlock.stats() to interlock_service;
