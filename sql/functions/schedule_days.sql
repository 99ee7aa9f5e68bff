-- schedule_days(tenant, name, from, to): who: interlockd,
-- GET /v1/schedules/{name}/days.
-- What became of a schedule's slots, counted by business date, the newest
-- first: for a calendar, also of a schedule with very many subjects.  to: null
-- is the newest date that has a slot; from: null is 30 days before to; of a
-- longer range the last 92 days.  Locks: none.
-- Answers a row for each date that has a slot; doc {business_date, slots (its
-- first 10000 are counted), more (there are others), done (their work was done
-- in time or later), waiting (for room in its line), admitted (its job runs, or
-- has ended without a result), skipped, gaps (open ones), reasons (why some
-- were skipped)}.  done is what was found so far: a slot is
-- looked at when its grace time is over.
-- Refuses: not-found.
create or replace function interlock.schedule_days(
    p_tenant int, p_name text, p_from date, p_to date)
returns table (problem text, detail text, doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_to    date := p_to;
    v_from  date := p_from;
    v       interlock.schedule_versions;
begin
    v := interlock.schedule_newest(p_tenant, p_name, true);
    if v.name is null then
        return query select 'not-found', 'There is no such schedule.',
            null::text;
        return;
    end if;

    if v_to is null then
        v_to := greatest(
            (select s.business_date from interlock.slots s
             where s.tenant = p_tenant and s.schedule = p_name
                 and s.business_date is not null
             order by s.business_date desc limit 1),
            (select interlock.slot_date(v, k.to_at)
             from interlock.schedule_skips k
             where k.tenant = p_tenant and k.schedule = p_name
             order by k.to_at desc limit 1));
    end if;
    v_from := greatest(coalesce(v_from, v_to - 30), v_to - 91);

    return query
    select null::text, null::text, json_build_object(
        'business_date', d.day, 'slots', s.n + coalesce(k.n, 0),
        'more', s.more,
        'done', s.done, 'waiting', s.waiting, 'admitted', s.admitted,
        'skipped', s.skipped + coalesce(k.n, 0), 'gaps', coalesce(g.n, 0),
        'reasons', interlock.skip_reasons(s.reasons, k.reasons))::text
    from (select v_to - i as day
          from generate_series(0, v_to - v_from) i) d
    cross join lateral (
        select count(*) filter (where y.i <= 10000) as n,
            count(*) > 10000 as more,
            count(*) filter (where y.done_at is not null
                or y.state = 'run') as done,
            count(*) filter (where y.done_at is null
                and y.state = 'waiting') as waiting,
            count(*) filter (where y.done_at is null
                and y.state = 'admitted') as admitted,
            count(*) filter (where y.done_at is null
                and y.state = 'skipped') as skipped,
            array_agg(distinct y.reason) filter (where y.done_at is null
                and y.state = 'skipped') as reasons
        from (select x.state, x.reason, x.done_at,
                  row_number() over () as i
              from interlock.slots x
              where x.tenant = p_tenant and x.schedule = p_name
                  and x.business_date = d.day
              limit 10001) y) s
    left join lateral (
        select sum(x.slots * x.subjects) as n,
            array_agg(distinct x.reason) as reasons
        from interlock.schedule_skips x
        where x.tenant = p_tenant and x.schedule = p_name
            and x.to_at >= (d.day - v.date_offset - 1)::timestamp
                at time zone v.zone
            and interlock.slot_date(v, x.from_at) <= d.day
            and interlock.slot_date(v, x.to_at) = d.day) k on true
    left join (
        select y.business_date, count(*) as n
        from (select x.business_date from interlock.gaps x
              where x.tenant = p_tenant and x.schedule = p_name
                  and x.state = 'open'
              limit 100000) y
        group by y.business_date) g on g.business_date = d.day
    where s.n > 0 or k.n > 0
    order by d.day desc;
end
$$;

-- skip_reasons(a, b): the reasons of both, each once, as an array of JSON.
create or replace function interlock.skip_reasons(a text[], b text[])
returns json
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(json_agg(distinct x.reason), '[]'::json)
    from unnest(coalesce(a, '{}') || coalesce(b, '{}')) x (reason)
    where x.reason is not null
$$;

revoke all on function interlock.skip_reasons(text[], text[]) from public;
revoke all on function interlock.schedule_days(int, text, date, date)
    from public;
grant execute on function interlock.schedule_days(int, text, date, date)
    to interlock_service;
