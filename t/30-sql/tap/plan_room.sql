-- plan_room.sql: plans whose kind or tenant has no room: it is found once, and
-- the rest is told the same.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

select t.kind('tight', '{"overlap":"skip","max_queued":50,"max_attempts":1}');
select t.kind('other', '{"overlap":"skip"}');
select t.schedule('s', format('{"cron":"%s","zone":"UTC","kind":"tight",
    "work_key":"s:{subject}:{date}","subjects":%s}', t.cron_ago('5 minutes'),
    (select json_agg('s' || x) from generate_series(101, 130) x)));
select t.behind('s', '10 minutes');
select t.scan();

-- How many items of a plan have each outcome.
create function pg_temp.items(p_call bigint) returns text language sql as $$
    select string_agg(x.n || ' ' || coalesce(x.outcome, 'none'), ', '
        order by x.outcome)
    from (select i.outcome, count(*) as n
          from interlock.schedule_plan_items i
          where i.plan_id = t.rid(p_call) group by 1) x
$$;

create function pg_temp.again(p_call bigint, p_limit int)
returns table (problem text, count text, admitted text, refused bigint,
    remaining int) language sql as $$
    select r.problem, r.doc::json ->> 'count', r.doc::json ->> 'admitted',
        (select count(*)
         from json_array_elements(r.doc::json -> 'skipped') x
         where x ->> 'reason' = 'queue-full'), r.remaining
    from t.seen x, interlock.slot_rerun(t.demo(), 's', x.day, 'failed',
        x.impact, 'me', 'why', 1, 'op', t.rid(p_call), p_limit) r
    where x.name = 's'
$$;

-- A rerun: all have failed.
do $$
begin
    for i in 1 .. 30 loop
        perform t.take('w', 'tight');
        perform t.finish('w', 'fail', p_retryable => false);
    end loop;
end
$$;
select is((select count(*) from interlock.jobs where status = 'failed'),
    30::bigint, 'all have failed');
select t.kind('tight', '{"overlap":"skip","max_queued":3,"max_attempts":1}');
select t.see('s');
select results_eq('select * from pg_temp.again(1, 5)',
    $$values (null::text, '30', '3', 27::bigint, 0)$$,
    'a rerun without room for more than three is done in one call');
select is(pg_temp.items(1), '3 accepted, 27 queue-full',
    'and says of each what became of it');
select results_eq('select * from pg_temp.again(1, 5)',
    $$values (null::text, '30', '3', 27::bigint, 0)$$, 'again and again');
select is((select string_agg(i.subject, ' ' order by i.n)
    from interlock.schedule_plan_items i
    where i.plan_id = t.rid(1) and i.outcome = 'accepted'),
    's101 s102 s103', 'the first had the room');
select is_empty('select * from t.violations', 'all is accounted for');

-- Who is of another kind has room.
set local session_replication_role = replica;
update interlock.works set kind = 'other' where work_key in (
    select work_key from interlock.slots where subject = 's120');
set local session_replication_role = origin;
select t.see('s');
select results_eq('select admitted, refused, remaining
    from pg_temp.again(2, 5)', $$values ('0', 5::bigint + 21, 1)$$,
    'one of another kind is not told');
select results_eq('select admitted, refused, remaining
    from pg_temp.again(2, 5)', $$values ('1', 26::bigint, 0)$$,
    'but tried');

-- The same of what never ran.
select interlock.job_cancel(t.demo(), id, 'me', 'why', 1, 'op')
from interlock.jobs where status = 'queued';
create function pg_temp.run(p_call bigint)
returns table (admitted text, refused bigint, remaining int)
language sql as $$
    select r.doc::json ->> 'admitted', (select count(*)
         from json_array_elements(r.doc::json -> 'skipped') x
         where x ->> 'reason' = 'queue-full'), r.remaining
    from interlock.schedule_run(t.demo(), 's', current_date - 7, null, 'me',
        'why', 1, 'op', t.rid(p_call), 5) r
$$;
select results_eq('select * from pg_temp.run(3)',
    $$values ('3', 27::bigint, 0)$$, 'a date that is run by hand');
select is((select count(*) from interlock.requests
    where decision = 'rejected'), 2::bigint, 'of which few were tried');

select interlock.job_cancel(t.demo(), id, 'me', 'why', 1, 'op')
from interlock.jobs where status = 'queued';
select t.kind('tight', '{"overlap":"skip","max_queued":50}');
update interlock.tenants set max_queued = 4 where id = t.demo();
select p.doc::json ->> 'plan_id' as plan
from interlock.schedule_backfill_plan(t.demo(), 's', current_date - 30,
    current_date - 28, null, 'me', 'why', 1, 'op') p \gset
select set_config('t.plan', :'plan', true);
select results_eq($$select r.doc::json ->> 'count',
        r.doc::json ->> 'admitted', r.remaining
    from interlock.schedule_backfill(t.demo(), 's',
        current_setting('t.plan')::uuid, 'me', 'why', 1, 'op', 10) r$$,
    $$values ('90', '4', 0)$$, 'a backfill of a tenant without room');

select * from finish();
rollback;
