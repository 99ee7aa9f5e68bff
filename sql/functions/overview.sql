-- overview.sql: how a tenant's work stands at a glance, for little: counts go
-- up to a bound, and come from indexes of what is open.

-- overview(tenant): who: interlockd, GET /v1/overview.
-- Locks: none.  Answers: one row.  doc {cap (a count of so much means at
-- least so much), at, attention, kinds, edge}: see attention, kinds_now,
-- edge_hour.
create or replace function interlock.overview(p_tenant int)
returns table (doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_cap    int := 1000;
    v_kinds  jsonb := interlock.kinds_now(p_tenant, v_cap);
begin
    doc := json_build_object('at', interlock.ts(clock_timestamp()),
        'cap', v_cap,
        'attention', interlock.attention(p_tenant, v_cap, v_kinds),
        'kinds', v_kinds, 'edge', interlock.edge_hour(p_tenant))::text;
    return next;
end
$$;

-- kinds_now(tenant, cap): [{kind, queued, running, waiting (behind another
-- job of their key), parked, oldest_at, oldest_id, oldest_age_seconds (of what
-- could run, or could if a limit had room; null: nothing), paused,
-- max_queued}] by name, of kinds that are not deleted.
create or replace function interlock.kinds_now(p_tenant int, p_cap int)
returns jsonb
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_now      timestamptz := clock_timestamp();
    v_running  jsonb;
begin
    select coalesce(jsonb_object_agg(x.kind, x.n), '{}') into v_running
    from (select l.kind, count(*) as n from interlock.leases l
          where l.tenant = p_tenant group by l.kind) x;

    return coalesce((
        select jsonb_agg(jsonb_build_object('kind', k.name,
            'queued', q.n, 'running', coalesce((v_running ->> k.name)::int,
                                               0),
            'waiting', w.n, 'parked', p.n,
            'oldest_at', interlock.ts(o.run_at), 'oldest_id', o.id,
            'oldest_age_seconds', floor(extract(epoch
                from v_now - o.run_at)),
            'paused', exists (
                select from interlock.pauses x
                where x.tenant = k.tenant and x.what = 'kind'
                    and x.name = k.name),
            'max_queued', v.max_queued) order by k.name)
        from interlock.kinds k
        cross join lateral (
            select x.max_queued from interlock.kind_versions x
            where x.tenant = k.tenant and x.name = k.name
                and x.version = k.version
            limit 1) v
        cross join lateral (
            select count(*) as n from (
                select from (
                    select from interlock.jobs_live j
                    where j.tenant = k.tenant and j.kind = k.name
                        and j.place = 'ready'
                    union all
                    select from interlock.jobs_live j
                    where j.tenant = k.tenant and j.kind = k.name
                        and j.place = 'limited'
                    union all
                    select from interlock.jobs_live j
                    where j.tenant = k.tenant and j.kind = k.name
                        and j.place = 'delayed') y
                limit p_cap) x) q
        cross join lateral (
            select count(*) as n from (
                -- (said so that only the index of kinds will do)
                select from interlock.jobs_live j
                where j.tenant = k.tenant and j.kind = k.name
                    and j.place >= 'blocked' and j.place <= 'blocked'
                limit p_cap) x) w
        cross join lateral (
            select count(*) as n from (
                select from interlock.inbox b
                where b.tenant = k.tenant and b.kind = k.name
                    and b.state = 'parked'
                limit p_cap) x) p
        left join lateral interlock.oldest_of(k.tenant, k.name, v_now) o
            on o.id is not null
        where k.tenant = p_tenant and not k.deleted), '[]');
end
$$;

-- oldest_of(tenant, kind, now): which job has waited longest of those that
-- could run, or could if a limit had room.  Looks at the first and the last
-- 50 in their order, which has the oldest at one end, but for what priorities
-- and shares bend.
create or replace function interlock.oldest_of(
    p_tenant int, p_kind text, p_now timestamptz,
    out id uuid, out run_at timestamptz)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    select x.id, x.run_at into id, run_at
    from (
        (select j.id, j.run_at from interlock.jobs_live j
         where j.tenant = p_tenant and j.kind = p_kind
             and j.place = 'ready'
         order by j.order_key, j.id limit 50)
        union all
        (select j.id, j.run_at from interlock.jobs_live j
         where j.tenant = p_tenant and j.kind = p_kind
             and j.place = 'ready'
         order by j.order_key desc, j.id desc limit 50)
        union all
        (select j.id, j.run_at from interlock.jobs_live j
         where j.tenant = p_tenant and j.kind = p_kind
             and j.place = 'limited'
         order by j.order_key, j.id limit 50)
        union all
        (select j.id, j.run_at from interlock.jobs_live j
         where j.tenant = p_tenant and j.kind = p_kind
             and j.place = 'limited'
         order by j.order_key desc, j.id desc limit 50)
        union all
        (select j.id, j.run_at from interlock.jobs_live j
         where j.tenant = p_tenant and j.kind = p_kind
             and j.place = 'delayed' and j.run_at <= p_now
         order by j.run_at limit 1)) x
    order by x.run_at, x.id limit 1;
end
$$;

-- attention(tenant, cap, kinds): [{what, count, oldest_at, oldest_id, path}],
-- each what there is, with count 0 too.  path is that of the page about it.
--   effects_unknown, effects_needs_human, held, checking, parked, failed,
--   gaps, approvals, skips
--   lost_24h        attempts whose lease ended in the last 24 hours
--   full_queues     kinds that take no more
--   paused          kinds and sources
--   oldest_waiting  jobs that could run; the oldest of all kinds
create or replace function interlock.attention(
    p_tenant int, p_cap int, p_kinds jsonb)
returns jsonb
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_out  jsonb := '[]';
    v_day  timestamptz := clock_timestamp() - interval '1 day';
    r      record;
begin
    for r in
        select s.what, s.state, s.path from (values
            ('effects_unknown', 'unknown', '/ui/effects?state=unknown'),
            ('effects_needs_human', 'needs_human',
                '/ui/effects?state=needs_human')) s (what, state, path)
    loop
        v_out := v_out || (
            select jsonb_build_object('what', r.what, 'count', n.n,
                'oldest_at', interlock.ts(o.unknown_since),
                'oldest_id', o.id, 'path', r.path)
            from (select count(*) as n from (
                      select from interlock.effects e
                      where e.tenant = p_tenant and e.state = r.state
                      limit p_cap) y) n
            left join lateral (
                select e.id, e.unknown_since from interlock.effects e
                where e.tenant = p_tenant and e.state = r.state
                order by e.created_at, e.id limit 1) o on true);
    end loop;

    v_out := v_out || (
        select jsonb_build_object('what', 'checking', 'count', n.n,
            'oldest_at', interlock.ts(o.created_at), 'oldest_id', o.id,
            'path', '/ui/jobs?status=checking')
        from (select count(*) as n from (
                  select from interlock.jobs_live j
                  where j.tenant = p_tenant and j.status || '' = 'checking'
                  limit p_cap) y) n
        left join lateral (
            select j.id, j.created_at from interlock.jobs_live j
            where j.tenant = p_tenant and j.status || '' = 'checking'
            order by j.id limit 1) o on true);

    v_out := v_out || (
        select jsonb_build_object('what', 'lost_24h', 'count', n.n,
            'oldest_at', interlock.ts(o.ended_at), 'oldest_id', o.job_id,
            'path', '/ui/leases')
        from (select count(*) as n from (
                  select from interlock.attempts a
                  where a.tenant = p_tenant and a.call = 'lost'
                      and a.ended_at > v_day
                  limit p_cap) y) n
        left join lateral (
            select a.job_id, a.ended_at from interlock.attempts a
            where a.tenant = p_tenant and a.call = 'lost'
                and a.ended_at > v_day
            order by a.ended_at, a.id limit 1) o on true);

    return v_out || interlock.attention_inbox(p_tenant, p_cap)
        || interlock.attention_kinds(p_tenant, p_cap, p_kinds);
end
$$;

-- attention_inbox(…): of what is in the inbox (of what is paused, kinds first); without failed jobs whose work a
-- later one has done (inbox_righted).
create or replace function interlock.attention_inbox(
    p_tenant int, p_cap int)
returns jsonb
language sql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    select jsonb_agg(jsonb_build_object('what', s.what, 'count', n.n,
        'oldest_at', interlock.ts(o.since), 'oldest_id',
        substr(o.id, strpos(o.id, ':') + 1), 'path', case
            when s.what = 'paused' and o.id like 'source:%'
            then '/ui/inbox?state=source_paused' else s.path end)
        order by s.i)
    from (values
        (1, 'held', array['held'], '/ui/inbox?state=held'),
        (2, 'parked', array['parked'], '/ui/inbox?state=parked'),
        (3, 'failed', array['failed'], '/ui/inbox?state=failed'),
        (4, 'gaps', array['missing'], '/ui/gaps'),
        (5, 'approvals', array['approval'], '/ui/inbox?what=slot'),
        (6, 'skips', array['skips'], '/ui/inbox?what=schedule'),
        (7, 'paused', array['kind_paused', 'source_paused'],
            '/ui/inbox?state=kind_paused')) s (i, what, states, path)
    cross join lateral (
        select count(*) as n from unnest(s.states) st
        cross join lateral (
            select from interlock.inbox b
            where b.tenant = p_tenant and b.state = st
                and b.since <= clock_timestamp()
                and not (st = 'failed' and exists (
                    select from interlock.works w
                    where w.tenant = b.tenant and w.work_key = b.work_key
                        and w.published_at > b.since))
            limit p_cap) y) n
    left join lateral (
        select y.since, y.id from unnest(s.states) st
        cross join lateral (
            select b.since, b.id from interlock.inbox b
            where b.tenant = p_tenant and b.state = st
                and b.since <= clock_timestamp()
                and not (st = 'failed' and exists (
                    select from interlock.works w
                    where w.tenant = b.tenant and w.work_key = b.work_key
                        and w.published_at > b.since))
            order by b.since, b.id limit 1) y
        order by y.id like 'source:%', y.since limit 1) o on true
$$;

-- kind_full(tenant, kind, bound, seen, cap): whether a kind takes no more;
-- where seen is only the bound of the count, as the sample of the last
-- minutes has it.
create or replace function interlock.kind_full(
    p_tenant int, p_kind text, p_bound bigint, p_seen bigint, p_cap int)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    if p_seen >= p_bound then
        return true;
    elsif p_seen < p_cap then
        return false;
    end if;

    return exists (
        select from interlock.series_queue q
        where q.tenant = p_tenant and q.kind = p_kind
            and q.minute > clock_timestamp() - interval '3 minutes'
            and q.queued + q.waiting >= p_bound
        order by q.minute desc limit 1);
end
$$;

create or replace function interlock.attention_kinds(
    p_tenant int, p_cap int, p_kinds jsonb)
returns jsonb
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    with k as (
        select x.*, interlock.kind_full(p_tenant, x.kind, x.max_queued,
            x.queued + x.waiting, p_cap) as is_full
        from jsonb_to_recordset(p_kinds) x (kind text, queued bigint,
            waiting bigint, max_queued bigint, oldest_at text,
            oldest_id uuid))
    select jsonb_build_array(
        jsonb_build_object('what', 'full_queues',
            'count', (select count(*) from k where is_full),
            'oldest_at', null,
            'oldest_id', (select min(k.kind) from k where is_full),
            'path', '/ui/kinds'),
        (select jsonb_build_object('what', 'oldest_waiting',
             'count', (select least(p_cap, coalesce(sum(k.queued), 0))
                       from k where k.oldest_id is not null),
             'oldest_at', o.oldest_at, 'oldest_id', o.oldest_id,
             'path', coalesce('/ui/jobs/' || o.oldest_id, '/ui/jobs'))
         from (select) one
         left join lateral (
             select k.oldest_at, k.oldest_id from k
             where k.oldest_id is not null
             order by k.oldest_at limit 1) o on true))
$$;

-- edge_hour(tenant): {since, decisions {decision: n} of the last hour, alone
-- (of these what nginx answered alone), received, missing (of all edges, ever:
-- edge_stats)}.
create or replace function interlock.edge_hour(p_tenant int)
returns jsonb
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_since  timestamptz := date_trunc('minute', clock_timestamp())
        - interval '1 hour';
    v_doc    jsonb;
begin
    select jsonb_build_object('since', interlock.ts(v_since),
        'decisions', coalesce(jsonb_object_agg(x.decision, x.n)
            filter (where x.decision is not null), '{}'),
        'alone', coalesce(sum(x.alone), 0)) into v_doc
    from (select d.decision, sum(d.n) as n,
              sum(d.n) filter (where d.alone) as alone
          from interlock.kinds k
          cross join lateral (
              select y.decision, y.n, y.alone
              from interlock.series_decisions y
              where y.tenant = k.tenant and y.kind = k.name
                  and y.minute >= v_since) d
          where k.tenant = p_tenant
          group by d.decision) x;

    return v_doc || (
        select jsonb_object_agg(case s.name
            when 'edge_audit_received_total' then 'received'
            else 'missing' end, s.value::bigint)
        from interlock.edge_stats() s);
end
$$;

revoke all on function interlock.kinds_now(int, int) from public;
revoke all on function interlock.oldest_of(int, text, timestamptz)
    from public;
revoke all on function interlock.attention(int, int, jsonb) from public;
revoke all on function interlock.attention_inbox(int, int) from public;
revoke all on function interlock.attention_kinds(int, int, jsonb)
    from public;
revoke all on function interlock.kind_full(int, text, bigint, bigint, int)
    from public;
revoke all on function interlock.edge_hour(int) from public;
revoke all on function interlock.overview(int) from public;
grant execute on function interlock.overview(int) to interlock_service;
