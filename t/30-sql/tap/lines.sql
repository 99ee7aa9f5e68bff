-- lines.sql: what happens to those who wait: order, parking, retries that
-- meet a waiting twin, revocation, cancel, expiry.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

-- The jobs of a key by payload, in order of admission: A running, ...
create function pg_temp.jobs(p_key text) returns text language sql as $$
    select string_agg(convert_from(p.payload, 'UTF8') || ' '
        || coalesce(j.place, j.status), ', ' order by j.created_at)
    from interlock.jobs j join interlock.payloads p on p.job_id = j.id
    where j.work_key = p_key
$$;
create function pg_temp.id(p_key text, p_payload text) returns uuid
language sql as $$
    select j.id from interlock.jobs j
    join interlock.payloads p on p.job_id = j.id
    where j.work_key = p_key and p.payload = convert_to(p_payload, 'UTF8')
    order by j.created_at desc limit 1
$$;
create function pg_temp.cancel(p_key text, p_payload text)
returns text language sql as $$
    select coalesce(c.problem, (c.doc::json ->> 'status') || ' wakes '
        || array_to_string(c.wake_kinds, '+') || ' ended '
        || cardinality(c.ended_jobs))
    from interlock.job_cancel(t.demo(), pg_temp.id(p_key, p_payload), 'ann',
        'not needed', 7, 'ops') c
$$;

select t.kind('all', '{"overlap":"buffer_all","max_waiting":2,
    "overflow":"park","backoff":60}');

-- A line: order of arrival, whatever the priority; parked come in in order.
select t.submit('all', 'l:1', p, priority => case p when 'D' then 100 end)
from unnest(array['A', 'B', 'C', 'D', 'E', 'F']) p;
select is(pg_temp.jobs('l:1'),
    'A ready, B blocked, C blocked, D parked, E parked, F parked',
    'a line, and those parked behind it');
select is((select count(*)::int from t.claim('all', 9)), 1,
    'one of a key at a time');
insert into t.held select 'a', t.demo(), job_id, attempt_id, fence
from interlock.leases where work_key = 'l:1';
select results_eq($$select status, wake_kinds from t.finish('a', 'complete')$$,
    $$values ('succeeded', array['all'])$$, 'the head ends');
select is(pg_temp.jobs('l:1'),
    'A succeeded, B ready, C blocked, D blocked, E parked, F parked',
    'the next one goes on, and one is let in');
select is(pg_temp.cancel('l:1', 'C'), 'canceled wakes  ended 1',
    'one in the middle is canceled');
select is(pg_temp.jobs('l:1'), 'A succeeded, B ready, C canceled, '
    'D blocked, E blocked, F parked', 'and another one let in');

-- A head in backoff keeps those behind it waiting: the retry is first.
select is(t.take('b', 'all'), 'l:1 fence 2', 'B');
select is((select status from t.finish('b', 'fail')), 'queued',
    'is to be retried');
select is(pg_temp.jobs('l:1'), 'A succeeded, B delayed, C canceled, '
    'D blocked, E blocked, F parked', 'and keeps the head');
select is(t.take('x', 'all'), 'nothing', 'nothing overtakes it');
select t.due('l:1');
select is(t.take('b', 'all'), 'l:1 fence 3', 'it runs again');
select t.expire('b');
select is((select count(*)::int from interlock.recover(9)), 1, 'is lost');
select is(t.take('b', 'all'), 'l:1 fence 4', 'and again');
select t.finish('b', 'complete');

-- All the rest, one after the other, in order.
create temp table ran (n int generated always as identity, payload text);
do $$
begin
    for i in 1 .. 3 loop
        insert into ran (payload)
        select convert_from(c.payload, 'UTF8') from t.claim('all', 1) c;
        update t.held h set job = l.job_id, attempt = l.attempt_id,
            fence = l.fence
        from interlock.leases l where h.who = 'b';
        perform t.finish('b', 'complete');
    end loop;
end
$$;
select is((select string_agg(payload, '' order by n) from ran), 'DEF',
    'in order of arrival to the end');

-- Expiry of one who waits, and of the head; each has its reason.
select t.submit('all', 'l:2', p) from unnest(array['A', 'B', 'C', 'D']) p;
update interlock.jobs set expire_at = clock_timestamp()
where work_key = 'l:2'
    and id in (pg_temp.id('l:2', 'A'), pg_temp.id('l:2', 'B'));
select results_eq($$select kind, status, wake_kinds, cardinality(ended_jobs)
    from interlock.expire(1)$$,
    $$values ('all', 'expired', array['all'], 1)$$, 'one at a time: A');
select is((select count(*)::int from interlock.expire(9)), 1, 'B');
select is((select count(*)::int from interlock.expire(9)), 0, 'no more');
select is(pg_temp.jobs('l:2'),
    'A expired, B expired, C ready, D blocked', 'the line goes on');
select is((select error from interlock.jobs where id = pg_temp.id('l:2', 'A')),
    'waited longer than max_wait (86400 s)', 'with a reason');
select is((select count(*)::int from t.claim('all', 1)), 1, 'C starts');
update interlock.jobs set expire_at = clock_timestamp()
where work_key = 'l:2' and finished_at is null;
select is((select count(*)::int from interlock.expire(9)), 1,
    'only what was never claimed expires');
select is(pg_temp.jobs('l:2'),
    'A expired, B expired, C running, D expired', 'so C runs on');

-- What is over its time is not claimed, even before the sweep.
select t.submit('all', 'l:3', 'A');
update interlock.jobs set expire_at = clock_timestamp()
where work_key = 'l:3';
select is(t.take('x', 'all'), 'nothing', 'over its time: not claimed');
select interlock.expire(9);
-- run_after counts: it waits from then on.
select t.submit('all', 'l:4', 'A',
    run_after => clock_timestamp() + interval '2 days');
select cmp_ok((select expire_at from interlock.jobs where work_key = 'l:4'),
    '>', clock_timestamp() + interval '2.9 days', 'run_after comes first');
select pg_temp.cancel('l:4', 'A');

-- Under return, those first in line with the same payload end with the
-- result; the first other one runs, and what is behind it stays.
select t.kind('ret', '{"overlap":"buffer_all","when_completed":"return",
    "allow_fresh":true}');
select t.submit('ret', 'r:1', p, fresh => p = 'A')
from unnest(array['A', 'B']) p;
select t.take('r', 'ret');
select t.submit('ret', 'r:1', 'A', fresh => true);
select t.submit('ret', 'r:1', 'A');
select is(pg_temp.jobs('r:1'), 'A running, B blocked, A blocked',
    'equal to the newest: skipped');
select t.finish('r', 'complete');
select is(pg_temp.jobs('r:1'), 'A succeeded, B ready, A blocked',
    'behind another one even the same payload waits for its turn');
select t.take('r', 'ret');
select t.finish('r', 'complete');
select is(pg_temp.jobs('r:1'), 'A succeeded, B succeeded, A ready',
    'asked for fresh, it runs');

-- A retry meets a waiting twin.
create temp table twin (overlap text, call text, expected text);
insert into twin values
    ('buffer_one', 'fail', 'A superseded, B ready'),
    ('buffer_one', 'release', 'A superseded, B ready'),
    ('buffer_one', 'lost', 'A superseded, B ready'),
    ('buffer_one', 'unclaim', 'A ready, B blocked'),
    ('buffer_one', 'last', 'A failed, B ready'),
    ('buffer_one', 'complete', 'A succeeded, B ready'),
    ('buffer_first', 'fail', 'A delayed, B blocked'),
    ('buffer_first', 'release', 'A ready, B blocked'),
    ('buffer_first', 'lost', 'A ready, B blocked'),
    ('buffer_first', 'last', 'A failed, B ready'),
    ('buffer_all', 'fail', 'A delayed, B blocked'),
    ('buffer_all', 'release', 'A ready, B blocked'),
    ('buffer_all', 'lost', 'A ready, B blocked'),
    ('buffer_all', 'unclaim', 'A ready, B blocked'),
    ('buffer_all', 'last', 'A failed, B ready'),
    ('replace', 'fail', 'A superseded, B ready'),
    ('replace', 'release', 'A superseded, B ready'),
    ('replace', 'lost', 'A superseded, B ready'),
    ('replace', 'unclaim', 'A superseded, B ready'),
    ('replace', 'last', 'A superseded, B ready'),
    ('replace', 'complete', 'A running, B blocked');
create function pg_temp.twin(w twin) returns text language plpgsql as $$
declare
    v_kind  text := replace(format('t-%s-%s', w.overlap, w.call), '_', '-');
begin
    perform t.kind(v_kind, json_build_object('overlap', w.overlap,
        'backoff', 60, 'max_backoff', 3600)::text);
    perform t.submit(v_kind, v_kind, 'A');
    perform t.take('t', v_kind);
    perform t.submit(v_kind, v_kind, 'B');
    case w.call
    when 'lost' then
        perform t.expire('t');
        perform interlock.recover(9);
    when 'unclaim' then
        perform interlock.unclaim(array[tenant], array[attempt])
        from t.held where who = 't';
    when 'last' then
        perform t.finish('t', 'fail', p_retryable => false);
    else
        perform t.finish('t', w.call, p_retry_after => 60);
    end case;
    return pg_temp.jobs(v_kind);
end
$$;
select is(pg_temp.twin(w), w.expected, w.overlap || ': ' || w.call
    || ' while another one waits') from twin w;
select is_empty($$select j.id from interlock.jobs j
    where j.status = 'superseded' and j.superseded_by is distinct from (
        select x.id from interlock.jobs x where x.work_key = j.work_key
            and x.place = 'ready')$$, 'each one with a link to its successor');

-- replace: from that instant on the old one completes nothing.
select t.kind('rep', '{"overlap":"replace","cancel_grace":20,
    "lease_seconds":60,"backoff":0}');
select t.submit('rep', 'p:1', 'A');
select t.take('p', 'rep');
select results_eq($$select decision, status, superseded_job_id
    from t.submit('rep', 'p:1', 'B')$$,
    $$values ('replaced', 'queued', null::uuid)$$, 'replaced');
select is((select round(extract(epoch from cancel_deadline
        - clock_timestamp())) from interlock.leases where work_key = 'p:1'),
    20::numeric, 'the old one has cancel_grace');
select results_eq($$select outcome, cancel_requested,
        remaining_ms between 19000 and 20000 from t.renew('p')$$,
    $$values ('ok', true, true)$$, 'renew says so, and ends there');
select is((select outcome from t.renew('p', '{"done":1}')), 'job-canceled',
    'progress is refused');
select is((select outcome from t.finish('p', 'complete', '{"r":1}')),
    'job-canceled', 'complete is refused');
select is((select outcome from t.finish('p', 'complete', '{"r":1}')),
    'job-canceled', 'again');
select results_eq('select result::text, job_id from interlock.refused_results
    where fence = 1 and attempt_id in (
        select attempt from t.held where who = ''p'')',
    $$values ('{"r":1}', pg_temp.id('p:1', 'A'))$$,
    'what it brought is kept, once');
select is(t.take('q', 'rep'), 'nothing', 'the new one waits');
-- Its deadline, asked again to cancel, stays.
select is(pg_temp.cancel('p:1', 'A'), 'running wakes  ended 0',
    'canceling what is replaced changes nothing');
-- A further request supersedes the waiting one.
select is((select superseded_job_id from t.submit('rep', 'p:1', 'C')),
    pg_temp.id('p:1', 'B'), 'a further request supersedes the one waiting');
-- The grace ends.
update interlock.leases set expires_at = clock_timestamp(),
    cancel_deadline = clock_timestamp() where work_key = 'p:1';
select is((select outcome from t.renew('p')), 'job-canceled',
    'after the deadline nothing is renewed');
select results_eq($$select status, wake_kinds, cardinality(ended_jobs)
    from interlock.recover(9)$$,
    $$values ('superseded', array['rep'], 1)$$, 'recovery ends it');
select is(pg_temp.jobs('p:1'), 'A superseded, B superseded, C ready',
    'and the last one is next');
select is((select superseded_by from interlock.jobs
    where id = pg_temp.id('p:1', 'A')), pg_temp.id('p:1', 'C'),
    'the first with a link to the last');
select is(t.take('p', 'rep'), 'p:1 fence 2', 'it starts');
-- The one that waits is canceled: the old one ends all the same.
select t.submit('rep', 'p:1', 'D');
select pg_temp.cancel('p:1', 'D');
select is((select status from t.finish('p', 'fail')), 'superseded',
    'no replaced job is retried');
select is(pg_temp.jobs('p:1'), 'A superseded, B superseded, C superseded, '
    'D canceled', 'even if its successor came to nothing');
select is((select decision from t.submit('rep', 'p:1', 'E')), 'accepted',
    'the key is free');
select pg_temp.cancel('p:1', 'E');

-- Effects have begun: the request waits instead.
create or replace function interlock.effects_started(p_tenant int,
    p_job uuid) returns boolean language sql stable as 'select true';
select t.submit('rep', 'p:2', 'A');
select t.take('p', 'rep');
select results_eq($$select decision, reason from t.submit('rep', 'p:2', 'B')$$,
    $$values ('buffered', 'effects_started')$$, 'effects: buffered');
select results_eq($$select decision, reason, superseded_job_id
    from t.submit('rep', 'p:2', 'C')$$,
    $$values ('buffered', 'effects_started', pg_temp.id('p:2', 'B'))$$,
    'as under buffer_one');
select results_eq($$select (e.doc::json) ->> 'decision',
        (e.doc::json) ->> 'reason' from interlock.explain(t.demo(), 'rep',
            '{"work_key":"p:2"}') e$$,
    $$values ('buffered', 'effects_started')$$, 'explain knows');
select is((select outcome from t.finish('p', 'complete')), 'ok',
    'and the running one completes');
select is(pg_temp.jobs('p:2'), 'A succeeded, B superseded, C ready', 'so');
create or replace function interlock.effects_started(p_tenant int,
    p_job uuid) returns boolean language sql stable as 'select false';

-- Cancel in every state.
select t.kind('can', '{"overlap":"buffer_all","max_waiting":1,
    "overflow":"park","cancel_grace":5}');
select t.submit('can', 'c:1', p) from unnest(array['A', 'B', 'C']) p;
select is(pg_temp.cancel('c:1', 'C'), 'canceled wakes  ended 1', 'parked');
select is(pg_temp.cancel('c:1', 'A'), 'canceled wakes can ended 1',
    'ready: the next one is');
select is(pg_temp.jobs('c:1'), 'A canceled, B ready, C canceled', 'so');
select is(pg_temp.cancel('c:1', 'A'), 'job-final', 'it ends once');
select t.take('c', 'can');
select is(pg_temp.cancel('c:1', 'B'), 'running wakes  ended 0', 'running');
select is((select cancel_requested from t.renew('c')), true,
    'its owner is told');
select is((select status from t.finish('c', 'release')), 'canceled',
    'yields');
select is((select count(*)::int from interlock.actions
    where what = 'job_cancel' and token_name = 'ops'
        and requested_by = 'ann' and reason = 'not needed'
        and target = pg_temp.id('c:1', 'B')::text), 1,
    'who did it and why');
select is((select error from interlock.jobs
    where id = pg_temp.id('c:1', 'A')), 'canceled: not needed', 'the reason');
select is((select problem from interlock.job_cancel(t.demo(),
    t.rid(424242), 'a', 'b', 1, 'c')), 'not-found', 'an unknown job');
select is((select problem from interlock.job_cancel(0,
    pg_temp.id('c:1', 'B'), 'a', 'b', 1, 'c')), 'not-found',
    'another tenant''s');
select t.submit('can', 'c:2', 'A');
select t.take('c', 'can');
select pg_temp.cancel('c:2', 'A');
select t.finish('c', 'fail', p_error => 'gave up');
select results_eq($$select status, error from interlock.jobs
    where work_key = 'c:2'$$, $$values ('canceled', 'gave up')$$,
    'a fail after it is a yield, with its error kept');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
