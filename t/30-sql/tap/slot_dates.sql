-- slot_dates.sql: what a date of a schedule expects, when, and by which
-- definition.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

select t.kind('free', '{"overlap":"allow","max_attempts":1}');
select t.kind('skip', '{"overlap":"skip","max_attempts":1}');

-- A zone in which midnight is hours away.
select set_config('t.zone', case when extract(hour from clock_timestamp())
    between 4 and 19 then 'UTC' else 'Asia/Tokyo' end, true);

create function pg_temp.at(p_ago interval) returns timestamp
language sql as $$
    select (clock_timestamp() - p_ago) at time zone current_setting('t.zone')
$$;

create function pg_temp.cron(p_ago interval) returns text language sql as $$
    select to_char(pg_temp.at(p_ago), 'FMMI FMHH24 "* * *"')
$$;

create function pg_temp.plan(p_name text, p_cron text, p_more text default
    '', p_key text default '{date}:{time}', p_kind text default 'free')
returns void language sql as $$
    select t.schedule(p_name, format('{"cron":"%s","zone":"%s","kind":"%s",
        "work_key":"%s:{subject}:%s","subjects":["a","b"],"grace":1,
        "payload":"{date}"%s}', p_cron, current_setting('t.zone'), p_kind,
        p_name, p_key, p_more))
$$;

-- The impact of a day so many ago: works, and of these missing; not due yet.
create function pg_temp.impact(p_name text, p_days int default 0)
returns json language sql as $$
    select coalesce(i.doc::json, to_json(i.problem))
    from interlock.slot_impact(t.demo(), p_name, (pg_temp.at('0')
        - make_interval(days => p_days))::date::text) i
$$;
create function pg_temp.seen(p_name text, p_days int default 0)
returns text language sql as $$
    select coalesce(format('%s works, %s missing, %s not due',
        i ->> 'subjects', i ->> 'missing', i ->> 'not_due'), i #>> '{}')
    from pg_temp.impact(p_name, p_days) i
    where json_typeof(i) = 'object'
    union all
    select i #>> '{}' from pg_temp.impact(p_name, p_days) i
    where json_typeof(i) = 'string'
$$;
create function pg_temp.rerun(p_name text, p_only text, p_days int default 0)
returns text language sql as $$
    select coalesce(r.problem, format('%s of %s', r.doc::json ->> 'admitted',
        r.doc::json ->> 'count'))
    from interlock.slot_rerun(t.demo(), p_name, (pg_temp.at('0')
        - make_interval(days => p_days))::date::text, p_only,
        coalesce(pg_temp.impact(p_name, p_days) ->> 'impact_id', 'x'), 'me',
        'why', 1, 'op', null, 5000) r
$$;
create function pg_temp.jobs(p_name text) returns bigint language sql as $$
    select count(*) from interlock.jobs where work_key like p_name || ':%'
$$;

-- Before its time.
select pg_temp.plan('later', pg_temp.cron('-2 hours'));
select is(pg_temp.seen('later'), '0 works, 0 missing, 2 not due',
    'what is to come up is not missing');
select is(pg_temp.impact('later') -> 'would_do' -> 'all' ->> 'works', '0',
    'and would not be run');
select is(pg_temp.impact('later') -> 'works' -> 0 ->> 'state', 'not_due',
    'as is shown of each');
select is(pg_temp.rerun('later', 'missing') || ', ' || pg_temp.rerun('later',
    'all'), '0 of 0, 0 of 0', 'a rerun leaves it alone');
select is(pg_temp.jobs('later'), 0::bigint, 'nothing has run');
select is(pg_temp.seen('later', -200), '0 works, 0 missing, 2 not due',
    'nor is what is months away');
select is(pg_temp.rerun('later', 'missing', -200), '0 of 0',
    'which is not run either');
select is(pg_temp.seen('later', 1), 'not-found',
    'nothing was expected before there was the schedule');
select is(pg_temp.rerun('later', 'missing', 1), 'not-found',
    'so there is nothing to rerun');
select is((select doc::json ->> 'count' from interlock.schedule_backfill_plan(
    t.demo(), 'later', pg_temp.at('2 days')::date, pg_temp.at('0')::date,
    null, 'me', 'why', 1, 'op')), '4',
    'a backfill up to today leaves today''s slot alone');

-- A minute's schedule of an hour ago.
select pg_temp.plan('min', '* * * * *', ',"catch_up":"all"');
select t.behind('min', '3 minutes');
select t.scan();
select matches(pg_temp.seen('min'), '^[68] works, 0 missing, [0-9]+ not due$',
    'of a date only what has come up counts');
select is(pg_temp.rerun('min', 'missing'), '0 of 0', 'nothing is missing');
select pg_temp.jobs('min') as jobs \gset
select pg_temp.plan('min', '0 0 1 1 *');
select matches(pg_temp.seen('min'), '^[68] works, 0 missing, 0 not due$',
    'the old definition expects nothing more');
select is(pg_temp.rerun('min', 'missing'), '0 of 0', 'nor does a rerun');
select is((select problem from interlock.schedule_delete(t.demo(), 'min')),
    null, 'deleted');
select matches(pg_temp.seen('min'), '^[68] works, 0 missing, 0 not due$',
    'nor a deleted one');
select is(pg_temp.rerun('min', 'missing') || ' ' || pg_temp.jobs('min'),
    '0 of 0 ' || :jobs, 'nothing has run of it');

-- Start and end.
select pg_temp.plan('ends', pg_temp.cron('5 minutes'), format(
    ',"catch_up":"all","start":"%s","end":"%s"',
    interlock.ts(clock_timestamp() - interval '73 hours'),
    interlock.ts(clock_timestamp() - interval '1 day')));
select t.behind('ends', '10 days');
select t.scan();
select is(pg_temp.seen('ends', 3) || ', ' || pg_temp.seen('ends', 2),
    '2 works, 0 missing, 0 not due, 2 works, 0 missing, 0 not due',
    'from its start ...');
select is(pg_temp.seen('ends', 4) || ', ' || pg_temp.seen('ends', 0),
    'not-found, not-found', '... to its end');

-- Under way.
select pg_temp.plan('half', pg_temp.cron('5 minutes'));
select t.behind('half', '10 minutes');
select t.scan(1) from generate_series(1, 1);
select is((select slot_n from interlock.schedules where name = 'half'), 1,
    'one of two subjects was admitted');
select is(pg_temp.seen('half'), '1 works, 0 missing, 1 not due',
    'the other one is still to come');
select is(pg_temp.rerun('half', 'missing'), '0 of 0', 'by itself');
select t.scan();
select is(pg_temp.seen('half'), '2 works, 0 missing, 0 not due',
    'and then is there');

-- What was passed over was expected, and may be run.
select pg_temp.plan('rest', pg_temp.cron('5 minutes'), ',"paused":true');
select t.behind('rest', '10 days');
select t.scan();
select is((select sum(slots) from interlock.schedule_skips
    where schedule = 'rest'), 10::numeric, 'ten days of pause');
select is(pg_temp.seen('rest', 3) || ', ' || pg_temp.seen('rest', 12),
    '2 works, 2 missing, 0 not due, not-found', 'have their works');
select is(pg_temp.rerun('rest', 'missing', 3), '2 of 2',
    'which a rerun runs');
select is((select string_agg(work_key, ' ' order by work_key)
    from interlock.jobs where work_key like 'rest:%'), (
    select string_agg(format('rest:%s:%s:%s', s, to_char(pg_temp.at('3 days'),
        'YYYY-MM-DD'), to_char(pg_temp.at('5 minutes'), 'HH24MI')), ' ')
    from unnest(array['a', 'b']) s), 'of that date');
select is(pg_temp.seen('rest', 3), '2 works, 0 missing, 0 not due',
    'and then it is not missing any more');
select is(pg_temp.seen('rest', 4), '2 works, 2 missing, 0 not due',
    'another one is');
select t.schedule('rest', format('{"cron":"%s","subjects":["a","b","c"]}',
    pg_temp.cron('6 minutes')));
select is(pg_temp.seen('rest', 4), '2 works, 2 missing, 0 not due',
    'by the definition of then');

-- A date that somebody runs by hand.
select is((select doc::json ->> 'admitted' from interlock.schedule_run(
    t.demo(), 'later', pg_temp.at('9 days')::date, array['a'], 'me', 'why',
    1, 'op', null, 9)), '1', 'an earlier date is run, of one subject');
select is(pg_temp.seen('later', 9), '2 works, 1 missing, 0 not due',
    'the date counts, then');
select is((select doc::json ->> 'admitted' from interlock.schedule_run(
    t.demo(), 'later', pg_temp.at('0')::date, array['a'], 'me', 'why', 1,
    'op', null, 9)), '1', 'today''s is run ahead of its slot');
select is(pg_temp.seen('later'), '1 works, 0 missing, 1 not due',
    'the other one is not missing yet');

-- The same key each day: each date has its own work all the same.
select pg_temp.plan('key', pg_temp.cron('5 minutes'), ',"catch_up":"all"',
    '{time}', 'skip');
select t.behind('key', '50 hours');
create function pg_temp.work(p_subject text, p_end text) returns text
language plpgsql as $$
declare
    v_key  text;
begin
    for i in 1 .. 2 loop
        perform t.take('w', 'skip');
        select split_part(j.work_key, ':', 2) into v_key
        from interlock.jobs j, t.held h where j.id = h.job and h.who = 'w';
        perform t.finish('w', case v_key when p_subject then p_end
            else 'complete' end, '{}', p_retryable => false);
    end loop;
    return p_subject;
end
$$;
select t.scan(2), pg_temp.work('a', 'fail');
select t.scan(2), pg_temp.work('b', 'fail');
select t.scan(2), pg_temp.work('', 'fail');
select is((select string_agg(format('%s/%s', i ->> 'succeeded',
        i ->> 'failed'), ' ' order by d) from generate_series(0, 2) d,
    pg_temp.impact('key', d) i), '2/0 1/1 1/1', 'one failed on each of two');
select is(pg_temp.rerun('key', 'failed', 2), '1 of 1', 'one runs again');
select is((select convert_from(p.payload, 'UTF8') from interlock.jobs j
    join interlock.payloads p on p.job_id = j.id
    where j.source = 'rerun' and j.work_key like 'key:%'), '"' || to_char(
    pg_temp.at('2 days'), 'YYYY-MM-DD') || '"', 'with that date''s payload');
select is((select count(*) from interlock.slots s join interlock.jobs j
    on j.id = s.job_id where s.schedule = 'key' and j.source = 'rerun'),
    1::bigint, 'for that date''s slot');
select is((select string_agg(format('%s/%s/%s', i ->> 'succeeded',
        i ->> 'failed', i ->> 'active'), ' ' order by d)
    from generate_series(0, 2) d, pg_temp.impact('key', d) i),
    '2/0/0 1/1/0 1/0/1', 'the others stand as before');
select pg_temp.work('', 'fail');
select is((select string_agg(format('%s/%s', i ->> 'succeeded',
        i ->> 'failed'), ' ' order by d) from generate_series(0, 2) d,
    pg_temp.impact('key', d) i), '2/0 1/1 2/0', 'and so they do after it');
select t.now_due('key');
select interlock.gap_scan(500);
select is((select count(*) from interlock.gaps where schedule = 'key'
    and state = 'open'), 1::bigint, 'one is missing');

-- Two reruns of one impact.
select pg_temp.impact('key', 1) ->> 'impact_id' as seen \gset
create function pg_temp.twice(p_impact text, p_call bigint) returns text
language sql as $$
    select coalesce(r.problem, r.doc::json ->> 'admitted')
    from interlock.slot_rerun(t.demo(), 'key', (pg_temp.at('1 day'))::date
        ::text, 'failed', p_impact, 'me', 'why', 1, 'op', t.rid(p_call), 9) r
$$;
select is(pg_temp.twice(:'seen', 501) || ' ' || pg_temp.twice(:'seen', 502)
    || ' ' || pg_temp.twice(:'seen', 501), '1 impact-changed 1',
    'the second is refused, the same call is not');

-- The slots of a date, and the first of them, are found by shorter ways where
-- no clock moves: the same as by looking at each time of two days.
create temp table zones as
select 'z' || z.n || 'c' || c.n as name, z.zone, c.cron, c.more
from unnest(array['UTC', 'America/Sao_Paulo', 'Asia/Beirut',
        'Australia/Lord_Howe', 'Europe/Berlin', 'Pacific/Kiritimati'])
    with ordinality z (zone, n)
cross join (values (1, '*/45 * * * *', ''), (2, '30 0,23 * * 0,1', ''),
        (3, '59 23 29 2 *', ''), (4, '0 0,2 * * *',
            ',"start":"2018-03-09T23:30:00Z","end":"2018-11-04T02:59:00Z"'))
    c (n, cron, more);
select count(t.schedule(z.name, format('{"cron":"%s","zone":"%s",
    "kind":"free","work_key":"%s:{subject}:{date}","subjects":["a"]%s}',
    z.cron, z.zone, z.name, z.more))) from zones z;
select is_empty($$
    select v.name, d.day, interlock.date_slots(v, d.day), x.slots
    from interlock.schedule_versions v
    join zones z on z.name = v.name
    cross join (select date '2016-02-28' + n as day
                from generate_series(0, 2) n
                union all
                select date '2018-02-10' + n
                from generate_series(0, 270) n) d
    cross join lateral (
        select coalesce(array_agg(distinct i.at order by i.at), '{}') as slots
        from generate_series(-1, 1) n
        cross join unnest(interlock.cron_day(v.masks, v.zone, d.day + n,
            v.gap, v.fold)) i (at)
        where (i.at at time zone v.zone)::date = d.day
            and (v.start_at is null or i.at >= v.start_at)
            and (v.end_at is null or i.at < v.end_at)) x
    where interlock.date_slots(v, d.day) <> x.slots
        or interlock.date_first(v, d.day) is distinct from x.slots[1]
    limit 5$$, 'the slots of a date, and its first, in each zone');

select is_empty('select * from t.violations', 'all is accounted for');

select * from finish();
rollback;
