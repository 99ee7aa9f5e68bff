-- slot_lines.sql: slots that wait for room: the oldest first, and nobody else
-- waits for them.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

select t.kind('tight', '{"overlap":"skip","max_queued":1}');
select t.kind('other', '{"overlap":"skip","max_queued":1}');
select t.kind('line', '{"overlap":"buffer_all","max_waiting":1}');
select t.kind('free', '{"overlap":"allow","max_queued":200}');

create function pg_temp.asked(p_name text) returns bigint language sql as $$
    select count(*) from interlock.requests q
    where q.idempotency_key like 'slot:' || p_name || ':%'
$$;

-- The ages in days of the slots of a state, the oldest first.
create function pg_temp.days(p_name text, p_state text) returns text
language sql as $$
    select string_agg(extract(day from clock_timestamp() - s.slot_at)::text,
        ' ' order by s.slot_at)
    from interlock.slots s
    where s.schedule = p_name and s.state = p_state
$$;

create function pg_temp.line(p_name text) returns text language sql as $$
    select string_agg(format('%s %s', l.tries, l.step), ', '
        order by l.lane)
    from interlock.slot_lines l where l.schedule = p_name
$$;

-- So many passes: how many slots each saw to, while there is more.
create function pg_temp.scans(p_n int) returns text language plpgsql as $$
declare
    v_out  text := '';
    r      record;
begin
    for i in 1 .. p_n loop
        select sum(s.slots) as slots, bool_or(s.more) as more into r
        from t.scan() s;
        exit when r.more is not true;
        v_out := v_out || r.slots || ' ';
    end loop;
    return v_out;
end
$$;

-- In turn.
select t.plan_slots('s', 'tight', t.cron_ago('5 minutes'), 'a',
    ',"catch_up":"all"');
select t.behind('s', '100 hours');
select t.scan();
select is(pg_temp.days('s', 'admitted') || ', ' || pg_temp.days('s',
    'waiting'), '4, 3 2 1 0', 'the oldest has room, the others wait');
select is(pg_temp.line('s'), '1 1', 'in one line');
select is(pg_temp.asked('s'), 5::bigint, 'each was submitted');
select t.lines_due('s');
select is((select waiting from t.scan()), 1, 'tried again in vain');
select is(pg_temp.asked('s'), 6::bigint, 'by the first of them alone');
select is(pg_temp.line('s'), '2 1', 'later and later');
select ok((select max(l.try_at - clock_timestamp()) between '0.5 s' and '15 s'
    from interlock.slot_lines l), 'but not too late');

-- What comes due meanwhile is behind them, even if there is room.
select t.take('w', 'tight');
set local session_replication_role = replica;
update interlock.schedules set scanned_to = x.at,
    next_at = x.at + interval '1 day'
from (select max(slot_at) - interval '1 day' as at from interlock.slots) x;
delete from interlock.slots
where slot_at = (select max(slot_at) from interlock.slots);
set local session_replication_role = origin;
select t.scan();
select is(pg_temp.days('s', 'waiting'), '3 2 1 0',
    'who comes due while others wait joins them');
select is((select tries || reason from interlock.slots
    order by slot_at desc limit 1), '0queue-full', 'and was not tried');
select is((select count(*) from t.violations), 0::bigint, 'all is well');
select t.lines_due('s');
select results_eq('select waiting, more from t.scan()',
    'values (0, true)', 'there was room, and it looks for more at once');
select is(pg_temp.days('s', 'waiting'), '2 1 0', 'for the oldest');
select is(pg_temp.line('s'), '0 2', 'two of them');
select results_eq('select waiting, more from t.scan()',
    'values (2, false)', 'which have none');
select is(pg_temp.line('s'), '1 1', 'so that it waits again');
select t.take('v', 'tight');
select t.lines_due('s');
select t.scan();
select is(pg_temp.days('s', 'waiting'), '1 0', 'one after the other');

-- A line that shrinks some other way.
select interlock.schedule_run(t.demo(), 's', business_date, null, 'me', 'why',
    1, 'op', null, 9)
from interlock.slots where state = 'waiting' order by slot_at limit 1;
select t.take('u', 'tight');
select interlock.schedule_run(t.demo(), 's', business_date, null, 'me', 'why',
    1, 'op', null, 9)
from interlock.slots where state = 'waiting' order by slot_at limit 1;
select t.take('x', 'tight'), t.finish('x', 'complete', '{}');
select t.lines_due('s');
select t.scan();
select is((select state from interlock.slots order by slot_at desc
    offset 1 limit 1), 'run', 'what is done meanwhile has run');
select is((select count(*) from interlock.requests q
    join (select slot_at from interlock.slots order by slot_at desc
          offset 1 limit 1) x on q.idempotency_key
        = interlock.slot_ref('s', x.slot_at, 'a')
    where q.decision = 'accepted'), 0::bigint,
    'and is not submitted any more');

-- A long line beside a short one.
select t.clean();
select t.kind('tight', '{"overlap":"skip","max_queued":1}');
select t.kind('other', '{"overlap":"skip","max_queued":1}');
select t.plan_slots('long', 'tight', t.cron_ago('5 minutes'), (
    select string_agg('s' || x, ' ') from generate_series(1, 3000) x));
select t.plan_slots('short', 'other', t.cron_ago('4 minutes'), 'a b');
select t.behind('long', '10 minutes');
select t.behind('short', '10 minutes');
select pg_temp.scans(20);
select t.scan();
select is(t.slots('long') || '; ' || t.slots('short'), '1 admitted, 2999 '
    'waiting (queue-full); 1 admitted, 1 waiting (queue-full)',
    'both wait, one of them with thousands');
select cmp_ok(pg_temp.asked('long'), '<=', 600::bigint,
    'which did not all ask in vain');
select t.take('w', 'other');
select t.lines_due('long'), t.lines_due('short');
update interlock.schedules set try_at = try_at + interval '0.5 ms'
where name = 'short';
select t.scan(4);
select is(t.slots('short'), '2 admitted',
    'the short one has its turn in the next pass');
select cmp_ok((select count(*) from interlock.slot_lines), '=', 1::bigint,
    'and is gone');

-- Deleted.
select interlock.schedule_delete(t.demo(), 'long');
select t.lines_due('long');
select results_eq('select schedule, skipped, more from t.scan()',
    $$values ('long', 500::bigint, true)$$,
    'what waits of a deleted one goes, many at a time');
select is(pg_temp.scans(20), '0 0 0 0 ', 'it is bounded');
select is(t.slots('long'), '1 admitted, 2999 skipped (deleted)', 'all of it');
select is((select count(*) from interlock.slot_lines), 0::bigint,
    'and its line');
select is((select count(*) from interlock.schedules
    where try_at is not null), 0::bigint, 'nobody looks any more');
select is_empty('select * from t.violations', 'all is accounted for');

-- Room for many.
select t.kind('free', '{"overlap":"allow","max_queued":10}');
select t.plan_slots('many', 'free', t.cron_ago('5 minutes'), (
    select string_agg('s' || x, ' ') from generate_series(1, 150) x));
select t.behind('many', '10 minutes');
select t.scan();
select is(t.slots('many'), '10 admitted, 140 waiting (queue-full)',
    'no room for many');
select t.kind('free', '{"overlap":"allow","max_queued":130}');
select t.lines_due('many');
select is(pg_temp.scans(20), '1 2 4 8 16 32 ',
    'while there is more, more are tried at once');
select is(t.slots('many'), '130 admitted, 20 waiting (queue-full)',
    'as there is room, it is used');
select cmp_ok((select max(tries) from interlock.slots), '<=', 5,
    'at few tries');

-- A work key that is refused for itself.
select t.clean();
select t.kind('line', '{"overlap":"buffer_all","max_waiting":1}');
select t.schedule('k', format('{"cron":"%s","zone":"UTC","kind":"line",
    "work_key":"k:{subject}","subjects":["a","b"],"payload":"{date}",
    "catch_up":"all"}', t.cron_ago('5 minutes')));
select t.submit('line', 'k:a', id => 1);
select t.submit('line', 'k:a', 'B', id => 2);
select t.behind('k', '26 hours');
select t.scan();
select is((select string_agg(subject || ' ' || state, ', '
        order by slot_at, subject) from interlock.slots),
    'a waiting, b admitted, a waiting, b admitted',
    'keeps only its own slots waiting');
select is((select string_agg(lane || ' ' || tries, ', ')
    from interlock.slot_lines), 'k:a 1', 'in a line of theirs');
update interlock.slot_lines set tries = 20;
select t.lines_due('k');
select t.scan();
select ok((select max(l.try_at - clock_timestamp()) between '20 s' and '60 s'
        and max(l.tries) = 21 from interlock.slot_lines l),
    'which is tried within a minute, however often it was in vain');
select ok((select max(interlock.line_pause('k:a', 20)) > '3 minutes'
    from generate_series(1, 9)), 'unlike one whose work cannot be taken');
select interlock.job_cancel(t.demo(), t.rid(2), 'me', 'why', 1, 'op');
select t.lines_due('k');
select t.scan();
select is((select string_agg(subject || ' ' || state, ', '
        order by slot_at, subject) from interlock.slots),
    'a admitted, b admitted, a waiting, b admitted', 'the older first');
select is_empty('select * from t.violations', 'all is accounted for');

select * from finish();
rollback;
