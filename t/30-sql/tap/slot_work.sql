-- slot_work.sql: whose work a job is, where slots share work keys.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

select t.kind('skip', '{"overlap":"skip","max_attempts":1}');
select t.kind('fail', '{"overlap":"skip","max_attempts":1}');
select t.kind('ret', '{"overlap":"skip","when_completed":"return"}');
select t.kind('one', '{"overlap":"buffer_one","max_attempts":1}');
select t.kind('first', '{"overlap":"buffer_first"}');

-- A zone in which midnight is hours away.
select case when extract(hour from clock_timestamp()) between 4 and 19
    then 'UTC' else 'Asia/Tokyo' end as zone \gset
select set_config('t.zone', :'zone', true);

create function pg_temp.plan(p_name text, p_kind text, p_cron text,
    p_key text, p_more text default '') returns void language sql as $$
    select t.schedule(p_name, format('{"cron":"%s","zone":"%s","kind":"%s",
        "work_key":"%s:%s","catch_up":"all","grace":60,
        "payload":"{date} {time}"%s}', p_cron, current_setting('t.zone'),
        p_kind, p_name, p_key, p_more))
$$;

-- The daily time that was so long ago, in that zone.
create function pg_temp.daily(p_ago interval) returns text
language sql as $$
    select to_char((clock_timestamp() - p_ago) at time zone
        current_setting('t.zone'), 'FMMI FMHH24 "* * *"')
$$;

create function pg_temp.states(p_name text) returns text language sql as $$
    select string_agg(concat_ws(' ', s.state, s.reason), ', '
        order by s.slot_at, s.subject)
    from interlock.slots s where s.schedule = p_name
$$;

create function pg_temp.look(p_name text) returns text
language plpgsql as $$
begin
    perform t.now_due(p_name);
    perform interlock.gap_scan(500);
    return pg_temp.states(p_name);
end
$$;

create function pg_temp.open(p_name text) returns bigint language sql as $$
    select count(*) from interlock.gaps g
    where g.schedule = p_name and g.state = 'open'
$$;

create function pg_temp.by_hand(p_name text, p_days int) returns text
language sql as $$
    select r.doc::json ->> 'admitted'
    from interlock.schedule_run(t.demo(), p_name, ((clock_timestamp()
            - interval '5 minutes') at time zone current_setting('t.zone')
            - make_interval(days => p_days))::date, null, 'me', 'why', 1,
        'op', t.rid(nextval('t.ids') + 1000000), 50) r
$$;

-- Each day the same key.
select pg_temp.plan('hand', 'skip', pg_temp.daily('5 minutes'), '{time}');
select is(pg_temp.by_hand('hand', 1), '1', 'yesterday is run by hand');
select t.behind('hand', '10 minutes');
select t.scan();
select is(pg_temp.states('hand'), 'skipped work_active',
    'whose job is not the work of today''s slot');
select t.take('w', 'skip'), t.finish('w', 'complete', '{}');
select is(pg_temp.look('hand'), 'skipped work_active', 'nor its result');
select results_eq(
    $$select doc::json ->> 'state', doc::json ->> 'generated'
      from interlock.schedule_slots(t.demo(), 'hand', null, null, 9, null)$$,
    $$values ('skipped', 'false')$$, 'as is shown');

select pg_temp.plan('same', 'skip', pg_temp.daily('5 minutes'), '{time}');
select is(pg_temp.by_hand('same', 0), '1', 'today is run by hand');
select t.behind('same', '10 minutes');
select t.scan();
select is(pg_temp.states('same'), 'admitted work_active',
    'that is the work of today''s slot');
select t.take('w', 'skip'), t.finish('w', 'complete', '{}');
select is(pg_temp.look('same'), 'run', 'which it does');

select pg_temp.plan('late', 'skip', pg_temp.daily('5 minutes'), '{time}');
select t.behind('late', '26 hours');
select t.scan();
select is(pg_temp.states('late'), 'admitted, skipped work_active',
    'a job that is a day late is that day''s');
select t.take('w', 'skip'), t.finish('w', 'complete', '{}');
select is(pg_temp.look('late'), 'run, skipped work_active',
    'done, too');

-- Many slots of one date, and its key.
select pg_temp.plan('many', 'skip', '* * * * *', '{date}');
select t.behind('many', '4 minutes');
select t.scan();
select matches(pg_temp.states('many'),
    '^admitted(, skipped work_active){3,4}$',
    'the job of a date''s first slot is not the work of those after it');
select t.take('w', 'skip'), t.finish('w', 'complete', '{}');
select matches(pg_temp.look('many'), '^run(, skipped work_active){3,4}$',
    'nor have they run with it');

select pg_temp.plan('done', 'ret', '* * * * *', '{date}');
select t.behind('done', '4 minutes');
select t.scan(1);
select t.take('w', 'ret'), t.finish('w', 'complete', '{}');
select t.scan();
select matches(pg_temp.look('done'), '^run(, skipped completed){3,4}$',
    'nor if it had succeeded before they came');

-- What somebody else asked for.
create function pg_temp.click(p_name text, p_kind text, p_more text)
returns text language plpgsql as $$
declare
    v_key  text;
begin
    select p_name || ':' || interlock.slot_fill(v, interlock.slot_date(v,
            x.at), x.at, p_more) into v_key
    from interlock.schedules s
    join interlock.schedule_versions v using (tenant, name, version)
    cross join lateral (select interlock.schedule_next(v,
        clock_timestamp() - interval '6 minutes') as at) x
    where s.name = p_name;
    perform t.submit(p_kind, v_key, 'click');
    perform t.behind(p_name, '6 minutes');
    perform t.scan();
    return pg_temp.states(p_name);
end
$$;
select pg_temp.plan('c1', 'skip', pg_temp.daily('5 minutes'),
    '{date}');
select is(pg_temp.click('c1', 'skip', '{date}'), 'admitted work_active',
    'a click for the date is the work of its only slot');
select pg_temp.plan('c2', 'skip', '*/2 * * * *', '{date}:{time}');
select matches(pg_temp.click('c2', 'skip', '{date}:{time}'),
    '^admitted work_active(, admitted){1,2}$',
    'or of the one whose time it names');
select pg_temp.plan('c3', 'skip', '*/2 * * * *', '{slot}');
select matches(pg_temp.click('c3', 'skip', '{slot}'),
    '^admitted work_active(, admitted){1,2}$', 'or instant');
select pg_temp.plan('c4', 'skip', '*/2 * * * *', '{date}');
select matches(pg_temp.click('c4', 'skip', '{date}'),
    '^skipped work_active(, skipped work_active){1,2}$',
    'but of none of many of that date');
select pg_temp.plan('c5', 'skip', pg_temp.daily('5 minutes'), '{time}');
select is(pg_temp.click('c5', 'skip', '{time}'), 'skipped work_active',
    'nor of one of the same time each day');
select pg_temp.plan('c6', 'skip', pg_temp.daily('5 minutes'), 'all');
select is(pg_temp.click('c6', 'skip', 'all'), 'skipped work_active',
    'nor of one without a date');
-- A new definition whose slot has the key of one that was before.
select pg_temp.plan('moved', 'skip', pg_temp.daily('8 minutes'), '{date}');
select t.behind('moved', '10 minutes');
select t.scan();
select pg_temp.plan('moved', 'skip', pg_temp.daily('3 minutes'), '{date}');
select t.behind('moved', '4 minutes');
select t.scan();
select is(pg_temp.states('moved'), 'admitted, skipped work_active',
    'the slot of before has that job');

-- Who takes a waiting one's place.
select pg_temp.plan('line', 'one', '* * * * *', 'all');
select t.behind('line', '3 minutes');
select t.scan();
select matches(pg_temp.states('line'), '^admitted(, admitted){2,3}$',
    'each had a job');
select matches(pg_temp.look('line'), '^admitted(, skipped superseded){1,2}, '
    'admitted$', 'those that gave way do not run');
select t.take('w', 'one'), t.finish('w', 'complete', '{"n":1}');
select t.take('w', 'one'), t.finish('w', 'complete', '{"n":2}');
select matches(pg_temp.look('line'), '^run(, skipped superseded){1,2}, run$',
    'the others do');
select is(pg_temp.open('line'), 0::bigint, 'and nothing is missing');

select pg_temp.plan('first', 'first', '* * * * *', 'all');
select t.behind('first', '4 minutes');
select t.scan();
select matches(pg_temp.states('first'), '^admitted, admitted(, skipped '
    'already_waiting){2,3}$', 'what waits already is the work of the slot '
    'that made it');

-- A later slot's success does not make good for one that failed.
select pg_temp.plan('fail', 'fail', pg_temp.daily('5 minutes'), 'all');
select t.behind('fail', '26 hours');
select t.scan(1);
select t.take('w', 'fail');
select t.finish('w', 'fail', p_error => 'no paper', p_retryable => false);
select t.scan();
select t.take('w', 'fail'), t.finish('w', 'complete', '{}');
select is(pg_temp.look('fail'), 'admitted, run', 'only the second ran');
select is((select state || ' ' || why from interlock.gaps
    where schedule = 'fail'), 'open its job is failed: no paper',
    'the first is missing');
select is((select a.doc::json ->> 'state' from interlock.gaps g,
    interlock.gap_approve(t.demo(), g.id, 'me', 'why', 1, 'op') a
    where g.schedule = 'fail'), 'approved', 'until it is run again');
select results_eq(
    $$select convert_from(p.payload, 'UTF8') = convert_from(o.payload,
          'UTF8'), j.rerun_of = s.first
      from interlock.jobs j
      join interlock.payloads p on p.job_id = j.id
      join (select min(q.job_id::text)::uuid as first
            from interlock.requests q
            where q.idempotency_key like 'slot:fail:%'
                and q.job_id = q.id) s on true
      join interlock.payloads o on o.job_id = s.first
      where j.work_key = 'fail:all' and j.source = 'rerun'$$,
    'values (true, true)', 'as itself, not as the newest of its key');
select t.take('w', 'fail'), t.finish('w', 'complete', '{}');
select is(pg_temp.look('fail'), 'run, run', 'then both have run');
select is(pg_temp.open('fail'), 0::bigint, 'and nothing is missing any more');

-- By which template a slot has a key of its own.
create function pg_temp.alone(p_cron text, p_zone text, p_key text,
    p_at timestamptz, p_fold text default 'first') returns boolean
language plpgsql as $$
declare
    v  interlock.schedule_versions;
begin
    v.cron := p_cron;
    v.masks := (interlock.cron_parse(p_cron)).cron;
    v.zone := p_zone;
    v.work_key := p_key;
    v.name := 'x';
    v.gap := 'run_after';
    v.fold := p_fold;
    v.date_offset := -1;
    return interlock.slot_alone(v, p_at);
end
$$;
select is(pg_temp.alone(x.cron, 'Europe/Berlin', x.key, x.at,
    coalesce(x.fold, 'first')), x.alone, format('%s %s %s %s', x.cron, x.key,
    x.at, x.fold))
from (values
    ('0 9 * * *', 'k:{date}', timestamptz '2026-07-01T07:00:00Z', null, true),
    ('0 9,18 * * *', 'k:{date}', '2026-07-01T07:00:00Z', null, false),
    ('0 9,18 * * *', 'k:{date}', '2026-07-01T16:00:00Z', null, false),
    ('0 9,18 * * *', 'k:{date}:{time}', '2026-07-01T16:00:00Z', null, true),
    ('0 9 * * *', 'k:{time}', '2026-07-01T07:00:00Z', null, false),
    ('0 9 * * *', 'k', '2026-07-01T07:00:00Z', null, false),
    ('0 9 * * *', 'k:{subject}', '2026-07-01T07:00:00Z', null, false),
    ('* * * * *', 'k:{slot}', '2026-07-01T07:00:00Z', null, true),
    ('* * * * *', 'k:{date}{time}', '2026-07-01T07:00:00Z', 'both', true),
    ('30 2 * * *', 'k:{date}', '2026-10-25T00:30:00Z', 'first', true),
    ('30 2 * * *', 'k:{date}', '2026-10-25T00:30:00Z', 'both', false),
    ('30 2 * * *', 'k:{date}{time}', '2026-10-25T01:30:00Z', 'both', false),
    ('30 2 * * *', 'k:{date}{time}', '2026-10-24T00:30:00Z', 'both', true),
    ('30 2 * * *', 'k:{slot}', '2026-10-25T01:30:00Z', 'both', true)
) x (cron, key, at, fold, alone);

select is_empty('select * from t.violations', 'all is accounted for');

select * from finish();
rollback;
