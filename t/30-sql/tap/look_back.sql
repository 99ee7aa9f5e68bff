-- look_back.sql: what a person looks back at: the revisions of a result, the
-- dates of a schedule, what a provider answered.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

select t.providers();
select t.kind('free', '{"overlap":"allow"}');
select t.kind('day', '{"overlap":"skip","when_completed":"return"}');

create function pg_temp.revisions(p_limit int, p_cursor int)
returns text language sql as $$
    select string_agg(coalesce(r.problem, concat_ws(' ',
        r.doc::json ->> 'revision', r.doc::json ->> 'current',
        r.doc::json ->> 'origin', r.doc::json -> 'counts' ->> 'failed',
        r.cursor)), ', ')
    from interlock.work_revisions(t.demo(), 'p:1', p_limit, p_cursor) r
$$;

-- Revisions

select is(pg_temp.revisions(10, null), 'not-found', 'no such work');
select submit.ord from t.submit('free', 'p:1', 'a', id => 1);
select submit.ord from t.submit('free', 'p:1', 'b', id => 2);
select submit.ord from t.submit('free', 'p:1', 'c', id => 3);
select is(pg_temp.revisions(10, null), null, 'a work without a result');
select t.take('w1', 'free'), t.take('w2', 'free'), t.take('w3', 'free');
select t.finish('w1', 'complete', '"first"');
select t.finish('w3', 'complete', '"third"');
select t.finish('w2', 'complete', '"second"');
select is(pg_temp.revisions(10, null),
    '3 false complete 0 3, 2 true complete 0 2, 1 false complete 0 1',
    'the newest first; the one that stands is said');
select is(pg_temp.revisions(2, null),
    '3 false complete 0 3, 2 true complete 0 2', 'a page');
select is(pg_temp.revisions(2, 2), '1 false complete 0 1', 'and the next');
select is((select r.doc::json ->> 'published_at' is null
           from interlock.work_revisions(t.demo(), 'p:1', 1, null) r), true,
    'what never stood says so');
select is((select count(*)::int
           from interlock.work_revisions(interlock.tenant_create('other'),
               'p:1', 9, null) r
           where r.problem = 'not-found'), 1, 'another tenant has none of it');

-- Dates

create function pg_temp.days(p_name text, p_from date, p_to date)
returns text language sql as $$
    select string_agg(coalesce(d.problem, concat_ws(' ',
        (d.doc::json ->> 'business_date')::date - current_date,
        d.doc::json ->> 'slots', d.doc::json ->> 'done',
        d.doc::json ->> 'admitted', d.doc::json ->> 'skipped',
        d.doc::json ->> 'gaps', d.doc::json ->> 'reasons')), '; ')
    from interlock.schedule_days(t.demo(), p_name, p_from, p_to) d
$$;

select is(pg_temp.days('d', null, null), 'not-found', 'no such schedule');
select t.plan_slots('d', 'day', t.cron_ago('90 minutes'), 'a b c',
    ',"grace":60');
select is(pg_temp.days('d', null, null), null, 'no slot came up yet');
select t.behind('d', '100 minutes');
select t.scan();
select t.take('a', 'day'), t.take('b', 'day');
select t.finish('a', 'complete', '{}');
select t.finish('b', 'fail', p_retryable => false);
select t.now_due('d');
select * from interlock.gap_scan(500);

prepare day as
    select (d.doc::json ->> 'slots')::int, (d.doc::json ->> 'done')::int,
        (d.doc::json ->> 'admitted')::int, (d.doc::json ->> 'gaps')::int,
        (d.doc::json ->> 'more')::boolean
    from interlock.schedule_days(t.demo(), 'd', null, null) d;
select results_eq('day', $$values (3, 1, 2, 2, false)$$,
    'the three slots of a date by what became of them');
select is((select count(*)::int from interlock.schedule_days(t.demo(), 'd',
    current_date - 400, current_date - 300)), 0,
    'nothing in a range without a slot');
select is((select l.doc::json ->> 'open_gaps' from interlock.schedule_list(
    t.demo()) l where l.name = 'd'), '2', 'the list counts open gaps');
select is((select (l.doc::json ->> 'last_slot_at')::timestamptz
           from interlock.schedule_list(t.demo()) l where l.name = 'd'),
    (select max(s.slot_at) from interlock.slots s where s.schedule = 'd'),
    'and has the newest slot');

-- What is no text

select is(interlock.bytes_text('\xc3a4'), 'ä', 'bytes that are text');
select is(interlock.bytes_text('\xff00'), null, 'and some that are none');
select is(interlock.bytes_text('\x6100'), null, 'nor is a zero byte');
select is(interlock.bytes_text(null), null, 'nothing is nothing');

select * from finish();
rollback;
