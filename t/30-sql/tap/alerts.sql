-- alerts.sql: what alerts are told of: once when it begins, once when it is
-- over, in order, under one id.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.put(p_doc text, p_name text default 'a')
returns table (problem text, detail text, doc json) language sql as $$
    select x.problem, x.detail, x.doc::json
    from interlock.alert_put(t.demo(), p_name, p_doc) x
$$;
create function pg_temp.scan() returns int language plpgsql as $$
begin
    update interlock.alert_scans
    set next_at = '-infinity', slow_at = '-infinity';
    return coalesce((select sum(s.events)::int
                     from interlock.alert_scan(500) s), 0);
end
$$;
-- What was told since the last look, in order.
create temp table told_to (seq bigint);
insert into told_to values (0);
create function pg_temp.told(p_alert text default 'a') returns text
language plpgsql as $$
declare
    v  text;
begin
    perform pg_temp.scan();
    select string_agg(concat_ws(' ', e.state, e.condition,
        regexp_replace(e.subject, '(job|effect|gap):.*', '\1')), ', '
        order by e.seq) into v
    from interlock.alert_events e, told_to x
    where e.alert = p_alert and e.seq > x.seq;
    update told_to set seq = (select coalesce(max(e.seq), 0)
                             from interlock.alert_events e);
    return v;
end
$$;
create function pg_temp.data() returns json language sql as $$
    select e.body::json -> 'data' from interlock.alert_events e
    order by e.seq desc limit 1
$$;

-- What an alert must be.
create temp table bad (n int generated always as identity, doc text,
    problem text, detail text);
copy bad (doc, problem, detail) from stdin with (delimiter '|');
[]|json-invalid|an alert is a JSON object
{"colour":1}|unknown-field|an alert has no field "colour"
{"secret":"whsec_c2VjcmV0LXRoYXQtaXMtbG9uZy1lbm91Z2gh"}|field-invalid|"url" is missing
{"url":"https://h/"}|field-invalid|"secret" is missing
{"url":"ftp://h/"}|field-invalid|"url" must begin with https:// or http://
{"url":"https://u:p@h/"}|field-invalid|"url" may not have a user or password
{"url":"https://h/{x}"}|field-invalid|"url" may not have a brace
{"url":7}|field-invalid|"url" must be a URL of at most 2048 printable ASCII characters
{"url":null}|field-invalid|"url" must be a URL of at most 2048 printable ASCII characters
{"secret":"whsec_c2hvcnQ="}|field-invalid|"secret" must be "whsec_" and 24 to 64 bytes in base64, or "@name", a file of the secrets' directory
{"secret":"plain"}|field-invalid|"secret" must be "whsec_" and 24 to 64 bytes in base64, or "@name", a file of the secrets' directory
{"secret":"whsec_a"}|field-invalid|"secret" must be "whsec_" and 24 to 64 bytes in base64, or "@name", a file of the secrets' directory
{"secret":"whsec_"}|field-invalid|"secret" must be "whsec_" and 24 to 64 bytes in base64, or "@name", a file of the secrets' directory
{"secret":"@../x"}|field-invalid|"secret" must name a file of the secrets' directory, "@name"
{"secret":null}|field-invalid|"secret" must be a string
{"conditions":[]}|field-invalid|"conditions" must be an array of 1 to 200 strings
{"conditions":null}|field-invalid|"conditions" must be an array of 1 to 200 strings
{"conditions":["gap","gap"]}|field-invalid|"conditions" names something twice
{"conditions":["rain"]}|field-invalid|"conditions" must be some of gap, check_exhausted, held, failed, skips, queue_age, stopped
{"kinds":"k"}|field-invalid|"kinds" must be an array of 1 to 200 strings
{"kinds":["A"]}|field-invalid|"kinds" must be names
{"kinds":["nosuch"]}|kind-unknown|"kinds": there is no kind "nosuch"
{"schedules":["nosuch"]}|field-invalid|"schedules": there is no schedule "nosuch"
{"url":"https://h:0/"}|field-invalid|"url" must have a port from 1 to 65535
{"url":"https://h:65536"}|field-invalid|"url" must have a port from 1 to 65535
{"url":"https://h/","url":"https://h/"}|field-invalid|"url" occurs twice
{"name":"b"}|field-invalid|"name" must be the name in the path
\.
select is((p.problem, p.detail)::text, (b.problem, b.detail)::text, b.doc)
from bad b, lateral pg_temp.put(b.doc) p order by b.n;
select is((select count(*)::int from interlock.alerts), 0,
    'none of them is there');

select is((select doc ->> 'conditions' from pg_temp.put('{"url":"https://h/x",
    "secret":"whsec_c2VjcmV0LXRoYXQtaXMtbG9uZy1lbm91Z2gh"}')),
    '["gap","check_exhausted","held","failed","skips","queue_age","stopped"]',
    'by default it is told of everything');
select is((select p.problem from pg_temp.put('{"url":"https://h/",
    "secret":"@f","kinds":["gone"],"schedules":["gone"]}', 'g') p),
    'kind-unknown', 'an alert of kinds');
select t.kind('gone', '{"overlap":"skip"}');
select t.plan_slots('gone', 'gone', '0 0 1 1 *', 'a');
select is((select p.problem from pg_temp.put('{"url":"https://h/",
    "secret":"@f","kinds":["gone"],"schedules":["gone"]}', 'g') p), null,
    'and schedules that are there');
select interlock.schedule_delete(t.demo(), 'gone'),
    interlock.kind_delete(t.demo(), 'gone');
select is((select p.problem from interlock.alert_get(t.demo(), 'g') g,
    pg_temp.put(g.doc, 'g') p), null, 'may be put back when they went');
select interlock.alert_delete(t.demo(), 'g');
select is((select doc ->> 'secret' from pg_temp.put(
    '{"url":"https://h/","secret":"@file"}', 'f')), '@file',
    'the name of a file is shown');
select ok(x::text not like '%c2VjcmV0%' and x::text not like '%secret%',
    'a secret is not')
from interlock.alert_get(t.demo(), 'a') x;
select is((select p.problem from interlock.alert_get(t.demo(), 'a') g,
    pg_temp.put(g.doc) p), null, 'what is shown may be put back');
select is((select s.secret from interlock.alert_secrets s
           where s.alert = 'a'), 'secret-that-is-long-enough!'::bytea,
    'which leaves the secret as it was');
select is((select count(*)::int from interlock.alert_list(t.demo())), 2,
    'both are listed');
select is((select count(*)::int from interlock.alert_delete(t.demo(), 'f')),
    1, 'one goes');
select is((select count(*)::int from interlock.alert_delete(t.demo(), 'f')),
    0, 'once');
select is((select count(*)::int from interlock.alert_secrets), 1,
    'with its secret');

-- Jobs.
select is(pg_temp.told(), null, 'nothing to tell');
select t.kind('k', '{"overlap":"buffer_one","max_attempts":1}');
select t.kind('hold', '{"overlap":"skip","on_lost":"hold"}');
select t.submit('k', 'k:1', id => 1);
select t.take('w', 'k');
select t.finish('w', 'fail', p_error => 'no paper', p_retryable => false);
select is(pg_temp.told(), 'opened failed job', 'a failed job');
select is(pg_temp.data() ->> 'summary',
    'a job of kind k failed (k:1): no paper', 'in words');
select is(pg_temp.data() ->> 'job_id', t.rid(1)::text, 'with its id');
select is(pg_temp.told(), null, 'is told once');
select interlock.job_decide(t.demo(), t.rid(1), 'retry', null, 'dana', 'x',
    1, 'c');
select is(pg_temp.told(), 'recovered failed job', 'taken back');
select is(pg_temp.data() ->> 'opened_event', (
    select e.id::text from interlock.alert_events e
    where e.state = 'opened' order by e.seq desc limit 1),
    'which names the event that opened it');
select t.take('w', 'k');
select t.finish('w', 'fail', p_retryable => false);
select interlock.job_decide(t.demo(), t.rid(1), 'retry', null, 'dana', 'x',
    1, 'c');
select t.take('w', 'k');
select t.finish('w', 'fail', p_retryable => false);
select is(pg_temp.told(), 'opened failed job, recovered failed job, '
    'opened failed job', 'nothing that happened between two looks is lost');
select t.submit('k', 'k:1', 'B', id => 2);
select t.take('w', 'k');
select is(pg_temp.told(), null, 'while a later job of its key runs');
select t.finish('w', 'complete');
select is(pg_temp.told(), 'recovered failed job', 'a later one succeeded');

select t.submit('hold', 'h:1', id => 3);
select t.take('w', 'hold');
select t.expire('w');
select interlock.recover(9);
select is(pg_temp.told(), 'opened held job', 'a held job');
select interlock.job_decide(t.demo(), t.rid(3), 'fail', null, 'dana', 'x', 1,
    'c');
select is(pg_temp.told(), 'recovered held job, opened failed job',
    'decided so that it failed');
select interlock.job_decide(t.demo(), t.rid(3), 'succeed', null, 'dana', 'x',
    1, 'c');
select is(pg_temp.told(), 'recovered failed job', 'decided otherwise');

-- Look-ups.
select t.kind('chk', '{"on_lost":"check","key_template":"c:{n}",
    "result_check":{"type":"http","url":"https://h/{n}","max_checks":1,
        "found":{"status":[200]}}}');
select t.submit('chk', 'c:1', id => 4);
select t.take('w', 'chk');
select t.expire('w');
select interlock.recover(9);
select interlock.checks_answer(array[c.tenant], array[c.check_id],
    array[c.try], array['unclear'], array['x'], array[null], array[null])
from interlock.checks_take(1) c;
select is(pg_temp.told(), 'opened held job, opened check_exhausted job',
    'a result that nobody could look up');
select interlock.job_decide(t.demo(), t.rid(4), 'succeed', null, 'dana', 'x',
    1, 'c');
select is(pg_temp.told(), 'recovered held job, recovered check_exhausted job',
    'decided');

select t.providers();
select t.kind('eff', '{"overlap":"buffer_all","effect_scope":"work"}');
select t.submit('eff', 'e:1', id => 5);
select t.take('w', 'eff');
select t.begin('w', 'letter', 'mute');
select t.expire('w');
select interlock.recover(9);
select t.older('letter', '6 s');
select t.overdue();
select is(pg_temp.told(), 'opened check_exhausted effect',
    'an effect that nobody can look up');
select is(pg_temp.data() ->> 'effect_kind', 'mute', 'and of which kind');
select t.resolve('letter', 'happened');
select is(pg_temp.told(), 'recovered check_exhausted effect', 'resolved');

-- Queues.
select t.kind('q', '{"overlap":"allow","alert_at":60,"stop_at":600}');
select t.submit('q', 'q:1', id => 6);
select is(pg_temp.told(), null, 'a young queue');
create function pg_temp.older(p_key text, p_by interval) returns void
language sql as $$
    update interlock.jobs set run_at = run_at - p_by where work_key = p_key
$$;
select pg_temp.older('q:1', '61 s');
select is(pg_temp.told(), 'opened queue_age kind:q', 'older than alert_at');
select is((pg_temp.data() ->> 'age_seconds')::int between 61 and 70, true,
    'how old');
select pg_temp.older('q:1', '600 s');
select is(pg_temp.told(), null, 'older than stop_at');
select is(pg_temp.told(), 'opened stopped kind:q', 'stops it');
select is(x.doc::json #>> '{paused,requested_by}', 'interlock', 'by itself')
from interlock.kind_get(t.demo(), 'q') x;
select is((select count(*)::int from t.claim('q', 5)), 0,
    'nothing is claimed');
select interlock.resume(t.demo(), 'kind', 'q', 'dana', 'go', 1, 'c');
select is(pg_temp.told(), 'recovered stopped kind:q', 'resumed');
select pg_temp.scan();
select is(pg_temp.told(), null, 'it is not stopped again for what is old');
select t.take('w', 'q');
select is(pg_temp.told(), 'recovered queue_age kind:q', 'and catches up');
select t.submit('q', 'q:2');
select pg_temp.older('q:2', '601 s');
select pg_temp.scan();
select is(pg_temp.told(), 'opened queue_age kind:q, opened stopped kind:q',
    'the next time it is stopped again');
select t.kind('q', '{"alert_at":null,"stop_at":null}');
select is(pg_temp.told(), 'recovered queue_age kind:q',
    'no alert_at any more');
select interlock.resume(t.demo(), 'kind', 'q', 'dana', 'go', 1, 'c');
select is(pg_temp.told(), 'recovered stopped kind:q', 'resumed again');
select is((select string_agg(a.what || ' ' || a.requested_by, ', '
                             order by a.id)
           from interlock.actions a where a.target = 'q'),
    'kind_pause interlock, kind_resume dana, kind_pause interlock, '
    'kind_resume dana', 'each is an action');

-- Schedules: a gap, and slots that are skipped.
select x.problem from interlock.schedule_put(t.demo(), 'daily', '{
    "cron":"0 0 1 1 *","zone":"UTC","kind":"k","work_key":"d:{subject}:{date}",
    "subjects":["x","y"],"grace":60,"skip_alarm":3}') x;
insert into interlock.gaps (tenant, id, schedule, slot_at, subject,
    business_date, work_key, since, why, state, opened_at, changed_at)
select t.demo(), t.rid(900 + ascii(s)), 'daily', '2026-01-01', s,
    '2026-01-01', 'd:' || s || ':2026-01-01', now(), 'failed', 'open', now(),
    now()
from unnest(array['x', 'y']) s;
select is(pg_temp.told(), 'opened gap gap, opened gap gap',
    'a gap of each subject');
select is((pg_temp.data() ->> 'slot_subject', pg_temp.data() ->> 'schedule',
    pg_temp.data() ->> 'work_key')::text, '(y,daily,d:y:2026-01-01)',
    'which one');
update interlock.gaps set state = 'dismissed', requested_by = 'd',
    reason = 'x'
where subject = 'x';
update interlock.gaps set state = 'closed' where subject = 'y';
select is(pg_temp.told(), 'recovered gap gap, recovered gap gap',
    'dismissed, and closed');
select is(pg_temp.data() ->> 'gap_state', 'closed', 'how it ended');
update interlock.schedules set skips = 2 where name = 'daily';
select is(pg_temp.told(), null, 'two slots skipped');
update interlock.schedules set skips = 3 where name = 'daily';
select is(pg_temp.told(), 'opened skips schedule:daily', 'three in a row');
update interlock.schedules set skips = 4 where name = 'daily';
select is(pg_temp.told(), null, 'four');
update interlock.schedules set skips = 0 where name = 'daily';
select is(pg_temp.told(), 'recovered skips schedule:daily', 'and one ran');

-- Which kinds.
select pg_temp.put('{"url":"https://h/","secret":"@f","kinds":["k"],
    "conditions":["failed"]}', 'b');
select t.submit('q', 'q:3', id => 7);
select t.submit('k', 'k:9', id => 8);
select t.take('w', 'q');
select t.take('w', 'q');
select t.finish('w', 'fail', p_retryable => false);
select t.take('w', 'k');
select t.finish('w', 'fail', p_retryable => false);
select pg_temp.scan();
select is((select string_agg(e.alert || ' ' || e.subject, ', '
                             order by e.alert, e.seq)
           from interlock.alert_events e, told_to x where e.seq > x.seq),
    format('a job:%s, a job:%s, b job:%s', t.rid(7), t.rid(8), t.rid(8)),
    'an alert of some kinds is told of these');
select is((select count(distinct e.id)::int = count(*)
           from interlock.alert_events e), true, 'each has an id of its own');
select pg_temp.put('{"conditions":["held"]}', 'b');
select is((select count(*)::int from interlock.alert_states s
           where s.alert = 'b'), 0, 'what it is not told of any more');
select interlock.alert_delete(t.demo(), 'b');
update told_to set seq = (select coalesce(max(e.seq), 0)
                             from interlock.alert_events e);

-- Many at once.
select t.kind('many', '{"overlap":"allow"}');
select pg_temp.put('{"url":"https://h/","secret":"@f","kinds":["many"]}',
    'm');
do $$
begin
    for i in 1 .. 60 loop
        perform t.submit('many', 'many:' || i, id => 1000 + i);
        perform t.take('w', 'many');
        perform t.finish('w', 'fail', p_retryable => false);
    end loop;
end
$$;
select pg_temp.scan();
select is((select count(*)::int from interlock.alert_events e
           where e.alert = 'm'), 51, '60 at once are 50 events and one');
select is((select e.subject from interlock.alert_events e
           where e.alert = 'm' order by e.seq desc limit 1),
    'more:kind:many', 'for the rest of them');
do $$
begin
    for i in 1 .. 60 loop
        perform interlock.job_decide(t.demo(), j.id, 'succeed', null, 'd',
            'x', 1, 'c')
        from interlock.jobs j where j.work_key = 'many:' || i;
    end loop;
end
$$;
select pg_temp.scan();
select is((select count(*)::int from interlock.alert_events e
           where e.alert = 'm' and e.state = 'recovered'), 51,
    'and as many when all is well');
select is((select count(*)::int from interlock.alert_states s
           where s.alert = 'm'), 0, 'nothing is left over');
select interlock.alert_delete(t.demo(), 'm');

-- What is not well formed is never on its way.
select is((select count(*)::int from interlock.alert_events e
           where e.body::json #>> '{data,event_id}' <> e.id::text
               or e.body::json ->> 'type' <> 'alert.' || e.state), 0,
    'bodies say what their events are');
select is((select count(*)::int from interlock.alert_queue), 0,
    'nothing waits');

-- Sending.
delete from interlock.alert_deliveries;
update interlock.alerts set due_at = null;
select t.submit('k', 'k:20', id => 20);
select t.take('w', 'k');
select t.finish('w', 'fail', p_retryable => false);
select interlock.job_decide(t.demo(), t.rid(20), 'succeed', null, 'd', 'x',
    1, 'c');
select pg_temp.scan();
create temp table taken as select * from interlock.alert_take(9);
select is((select count(*)::int from taken), 1, 'one at a time');
select is((select body::json ->> 'type' from taken), 'alert.opened',
    'the first one first');
select is((select secret from taken), 'secret-that-is-long-enough!'::bytea,
    'with the secret to sign it');
select is((select count(*)::int from interlock.alert_take(9)), 0,
    'none while that one is under way');
create function pg_temp.answer(p_status int, p_try int default 0)
returns text language sql as $$
    select a.outcome from (select * from taken order by at desc, try desc
                           limit 1) x,
        interlock.alert_answer(array[x.tenant], array[x.event_id],
            array[x.try + p_try], array[p_status], array['why']) a
$$;
select is(pg_temp.answer(200, -1), 'gone', 'an older try''s answer');
select is(pg_temp.answer(503), 'again', 'refused');
select is(pg_temp.answer(200), 'gone', 'answered already');
select is((select count(*)::int from interlock.alert_take(9)), 0,
    'nothing is sent for a while');
update interlock.alert_deliveries set due_at = '-infinity';
update interlock.alerts set due_at = '-infinity', hold_until = null;
truncate taken;
insert into taken select * from interlock.alert_take(9);
select is(pg_temp.answer(410), 'again', 'a receiver that says it is gone');
select ok((select d.due_at between clock_timestamp() + interval '3 minutes'
        and clock_timestamp() + interval '7 minutes'
    from interlock.alert_deliveries d order by d.seq limit 1),
    'is asked again after the longest pause');
select ok((select a.hold_until > clock_timestamp() + interval '3 minutes'
    and a.last_error = 'why' from interlock.alerts a where a.name = 'a'),
    'with all that is meant for it');
select is((select (e.last_status, e.dropped_at)::text
    from interlock.alert_events e join taken x on x.event_id = e.id),
    '(410,)', 'and is seen to have said so');
update interlock.alert_deliveries set tries = 1;
update interlock.alert_deliveries set due_at = '-infinity';
update interlock.alerts set due_at = '-infinity', hold_until = null;
create temp table again as select * from interlock.alert_take(9);
select is((select (a.event_id, a.body, a.try)::text from again a),
    (select (x.event_id, x.body, 2)::text from taken x),
    'then the same once more');
truncate taken;
insert into taken select * from again;

-- Its sender dies: another one takes it.
update interlock.alert_deliveries
set due_at = clock_timestamp() - interval '1 second';
update interlock.alerts set busy_until = clock_timestamp()
    - interval '1 second';
truncate again;
insert into again select * from interlock.alert_take(9);
select is((select a.try from again a), 3, 'a sender that died');
select is(pg_temp.answer(200), 'gone', 'its answer comes too late');
truncate taken;
insert into taken select * from again;
select is(pg_temp.answer(204), 'delivered', 'taken');
truncate taken;
insert into taken select * from interlock.alert_take(9);
select is((select body::json ->> 'type' from taken), 'alert.recovered',
    'then what happened after it');
update interlock.alert_deliveries
set created_at = clock_timestamp() - interval '25 hours';
select is(pg_temp.answer(null), 'dropped', 'after a day it is given up');
select is((select (e.dropped_at is not null, e.last_error)::text
           from interlock.alert_events e order by e.seq desc limit 1),
    '(t,why)', 'which stays visible');
select is((select a.due_at from interlock.alerts a), null,
    'nothing more to send');

select * from finish();
rollback;
