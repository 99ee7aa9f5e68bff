-- checks.sql: look-ups, from the loss of an owner to what the answer settles.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.lose(p_who text, p_key text, p_id bigint)
returns text language plpgsql as $$
declare
    v_status  text;
begin
    perform t.submit('k', p_key, id => p_id);
    perform t.take(p_who, 'k');
    perform t.expire(p_who);
    select r.status into strict v_status from interlock.recover(10) r
    where r.job_id = t.rid(p_id);
    return v_status;
end
$$;

create function pg_temp.due(p_id bigint) returns void language sql as $$
    update interlock.checks c
    set due_at = clock_timestamp() - interval '1 second'
    where c.target = t.rid(p_id)
$$;

create table pg_temp.taken (target uuid, id uuid, try int, started timestamptz);

create function pg_temp.take() returns text language plpgsql as $$
declare
    r  record;
begin
    select * into r from interlock.checks_take(1);
    if r.check_id is null then
        return 'nothing';
    end if;
    insert into pg_temp.taken values (
        (select c.target from interlock.checks c where c.id = r.check_id),
        r.check_id, r.try, r.started_at);
    return r.subject || ' try ' || r.try;
end
$$;

-- The answer to a try of the latest look-up of a job.
create function pg_temp.answer(
    p_id bigint, p_answer text, p_try int default null,
    p_detail text default 'status 200', p_result text default null)
returns text language sql as $$
    select a.outcome || ' ' || coalesce(a.target::text, '-')
        || ' ' || cardinality(a.ended_jobs) || ' ' || a.wake_kinds::text
    from (select * from pg_temp.taken x where x.target = t.rid(p_id)
          order by x.started desc limit 1) x,
        interlock.checks_answer(array[t.demo()], array[x.id],
            array[coalesce(p_try, x.try)], array[p_answer],
            array[p_detail], array['ref-1'], array[p_result]) a
$$;

create function pg_temp.job(p_id bigint) returns text language sql as $$
    select concat_ws(' ', j.status, j.place, j.waits_on, j.error)
    from interlock.jobs j where j.id = t.rid(p_id)
$$;

select t.kind('k', '{"overlap":"buffer_all","on_lost":"check","backoff":0,
    "max_attempts":3,"key_template":"r:{site}:{n}",
    "result_check":{"type":"http","url":"https://h/{site}?v={version}",
        "found":{"status":[200]},"not_found":{"status":[404]},
        "max_checks":2,"backoff":100,"delay":3}}');

-- Lost: the question is open, the job waits.
select is(pg_temp.lose('a', 'r:a%20b:1', 1), 'checking', 'lost: checking');
select results_eq(
    $$select subject, target, work_key, type, seq, tries, unclear, due_at
          between clock_timestamp() + interval '2 seconds'
              and clock_timestamp() + interval '3 seconds'
      from interlock.checks$$,
    $$values ('job', t.rid(1), 'r:a%20b:1', 'http', 1::bigint, 0, 0, true)$$,
    'a look-up after its delay');
select is((select vars::jsonb from interlock.checks),
    jsonb_build_object('tenant', 'demo', 'kind', 'k', 'work_key',
        'r:a%20b:1', 'job_id', t.rid(1), 'version', null, 'attempt', '1',
        '%site', 'a%20b', '%n', '1'), 'with the values of its fields');
select is(pg_temp.take(), 'nothing', 'not due yet');
select pg_temp.due(1);
select is(pg_temp.take(), 'job try 1', 'due: taken');
select is(pg_temp.take(), 'nothing', 'by one only');
select is((select due_at - started_at from interlock.checks),
    interval '25 seconds', 'for its timeout and 20 s');

-- Whoever took it was lost: again, and the late answer counts no more.
select pg_temp.due(1);
select is(pg_temp.take(), 'job try 2', 'taken again when that is over');
select is(pg_temp.answer(1, 'found', 1), 'gone ' || t.rid(1) || ' 0 {}',
    'the answer to the first try changes nothing');
select is(pg_temp.job(1), 'checking result check lease expired',
    'the job still waits');

-- Unclear: later once more.
select is(pg_temp.answer(1, 'unclear', p_detail => 'status 500'),
    'again ' || t.rid(1) || ' 0 {}', 'unclear: again');
select results_eq(
    $$select unclear, tries, started_at, due_at between
          clock_timestamp() + interval '70 seconds'
          and clock_timestamp() + interval '126 seconds'
      from interlock.checks$$,
    $$values (1, 2, null::timestamptz, true)$$, 'after the backoff');
select is(pg_temp.answer(1, 'found'), 'gone ' || t.rid(1) || ' 0 {}',
    'no answer counts between tries');

-- Found: the job succeeds, and nobody runs it again.
select pg_temp.due(1);
select pg_temp.take();
select is(pg_temp.answer(1, 'found', p_result => '{"n": 1.10}'),
    'found ' || t.rid(1) || ' 1 {}', 'found');
select is(pg_temp.job(1), 'succeeded', 'the job succeeded');
select results_eq(
    $$select r.result::text, r.origin, r.fence, w.published_revision
      from interlock.results r
      join interlock.works w using (tenant, work_key)$$,
    $$values ('{"n": 1.10}', 'check', 1::bigint, 1)$$,
    'with the result that was found, under the fence of the lost attempt');
select is_empty('select * from interlock.checks', 'nobody asks any more');
select results_eq(
    'select try, answer, detail, outcome from interlock.check_answers order by id',
    $$values (2, 'unclear', 'status 500', 'again'),
             (3, 'found', 'status 200', 'found')$$,
    'what was answered is kept');
select is((select outcome from t.finish('a', 'complete', '{}')),
    'lease-lost', 'the lost owner is not heard');

-- Not found: it runs again.
select pg_temp.lose('a', 'r:b:1', 2);
select pg_temp.due(2);
select pg_temp.take();
select is(pg_temp.answer(2, 'not_found', p_detail => 'status 404'),
    'not_found ' || t.rid(2) || ' 0 {k}', 'not found');
select is(pg_temp.job(2),
    'queued ready lease expired; no result found: status 404',
    'the job runs again');
select is(t.take('a', 'k'), 'r:b:1 fence 2', 'is claimed');
select t.expire('a');
select interlock.recover(10);
select is((select count(*)::int || '/' || max(seq) from interlock.checks),
    '1/2', 'lost again: a look-up of its own');
select pg_temp.due(2);
select pg_temp.take();

-- A later one in line starts only after it.
select t.submit('k', 'r:b:1', id => 3);
select is(pg_temp.job(3), 'queued blocked', 'the line waits');

-- Exhausted: a human.
select is(pg_temp.answer(2, 'unclear'), 'again ' || t.rid(2) || ' 0 {}',
    'unclear');
select pg_temp.due(2);
select pg_temp.take();
select is(pg_temp.answer(2, 'unclear', p_detail => 'timeout'),
    'exhausted ' || t.rid(2) || ' 0 {}', 'unclear for the last time');
select is(pg_temp.job(2), 'held lease expired; its result could not be '
    'checked: timeout', 'held');
select is((select problem from interlock.job_decide(t.demo(), t.rid(2),
    'succeed', null, 'ann', 'seen there', 1, 'op')), null, 'decided');
select is(pg_temp.job(3), 'queued ready', 'the line goes on');
select t.take('b', 'k');
select t.finish('b', 'complete');

-- Canceled or decided while it waits: the look-up is gone, late answers too.
select pg_temp.lose('b', 'r:c:1', 4);
select pg_temp.due(4);
select pg_temp.take();
select interlock.job_cancel(t.demo(), t.rid(4), 'ann', 'x', 1, 'op');
select is_empty('select * from interlock.checks', 'canceled: nobody asks');
select is(pg_temp.answer(4, 'found'), 'gone - 0 {}',
    'and no answer is taken');
select is(pg_temp.job(4), 'canceled canceled: x', 'canceled it stays');
select pg_temp.lose('b', 'r:c:2', 5);
select interlock.job_decide(t.demo(), t.rid(5), 'retry', null, 'ann', 'x', 1,
    'op');
select is_empty('select * from interlock.checks', 'decided: nobody asks');
select t.take('b', 'k');
select t.finish('b', 'complete');

-- on_exhausted fail and retry.
select t.kind('k', '{"result_check":{"type":"http","url":"https://h/{n}",
    "found":{"status":[200]},"max_checks":1,"on_exhausted":"fail"}}');
select pg_temp.lose('c', 'r:d:1', 6);
select pg_temp.take();
select is(pg_temp.answer(6, 'unclear', p_detail => null),
    'exhausted ' || t.rid(6) || ' 1 {}', 'exhausted');
select is(pg_temp.job(6),
    'failed lease expired; its result could not be checked', 'failed');

-- By a worker.
select t.kind('k', '{"result_check":{"type":"worker","max_checks":2,
    "backoff":0}}');
select pg_temp.lose('d', 'r:e%2F:1', 7);
select is(pg_temp.take(), 'nothing', 'no look-up over HTTP');
select is_empty('select * from interlock.checks_unanswered(10)',
    'nothing to see to yet');

create function pg_temp.hand_out() returns text language sql as $$
    select string_agg(concat_ws(' ', h.kind, h.wake_kinds::text), ', ')
    from interlock.checks_hand_out(10) h
$$;
select is(pg_temp.hand_out(), 'result-check {}', 'handed out');
select is((select (job_id is not null, tries, due_at <= clock_timestamp())
    ::text from interlock.checks), '(t,1,t)',
    'but there is no such kind');
select is((select count(*)::int from interlock.checks_unanswered(10)), 1,
    'which is found');
select is((select answer || ' ' || outcome || ' ' || detail
           from interlock.check_answers order by id desc limit 1),
    'unclear again no job could be made for the look-up: is there such a '
    'kind?', 'unclear, and why');

select t.kind('result-check', '{"overlap":"skip","max_attempts":2}');
select is((select concat_ws(' ', code, problem, detail)
    from t.submit('result-check', 'w:x')), '400 field-invalid jobs of kind '
    '"result-check" are look-ups: only interlock makes them',
    'nobody else makes its jobs');
select is((select problem from t.submit('result-check', 'w:x',
    source => 'rerun')), 'field-invalid', 'from wherever');
select is((select doc::json ->> 'problem' from interlock.explain(t.demo(),
    'result-check', '{"work_key":"w:x"}')), 'field-invalid',
    'and explain says so');
select is((select concat_ws(' ', problem, detail)
    from t.submit('k', 'w:x', priority => 999)), 'field-invalid '
    '"priority" must be between -100 and 100', '(not so of any other kind)');
select is(pg_temp.hand_out(), 'result-check {result-check}', 'with it');
select is(pg_temp.hand_out(), null, 'once');
select t.take('w', 'result-check');
select is((select convert_from(p.payload, 'UTF8')::jsonb
           from interlock.payloads p join t.held h on p.job_id = h.job
           where h.who = 'w'),
    (select jsonb_build_object('check_id', c.id, 'try', 2, 'subject', 'job',
         'target', t.rid(7), 'job', jsonb_build_object('tenant', 'demo',
         'kind', 'k', 'work_key', 'r:e%2F:1', 'job_id', t.rid(7), 'attempt',
         '1', 'site', 'e%2F', 'n', '1'))
     from interlock.checks c), 'the worker is told what to look for');
select is((select status from t.finish('w', 'complete',
        '{"answer":"found","detail":"seen","result":{"rows":3}}')),
    'succeeded', 'it answers');
select is(pg_temp.job(7), 'succeeded', 'in the same transaction');
select is((select result::text from interlock.results
           where job_id = t.rid(7)), '{"rows":3}', 'with the result');
select is((select started_at = granted_at from interlock.check_answers c,
               interlock.attempts a
           where a.kind = 'result-check' order by c.id desc limit 1), true,
    'the look began with the attempt');

-- A worker that says nothing useful; one that fails; one that is lost.
select pg_temp.lose('d', 'r:e:2', 8);
select pg_temp.hand_out();
select t.take('w', 'result-check');
select t.finish('w', 'complete', '{"answer":"maybe"}');
select is((select answer || ' ' || detail
           from interlock.check_answers order by id desc limit 1),
    'unclear the worker''s result has no "answer" that is found, not_found '
    'or unclear', 'no answer is unclear');
select is(pg_temp.hand_out(), 'result-check {result-check}',
    'handed out again');
select t.take('w', 'result-check');
select t.finish('w', 'fail', null, 'no access', false);
select is((select status from interlock.jobs where id = t.rid(8)),
    'checking', 'its job failed: still open');
select is((select count(*)::int from interlock.checks_unanswered(10)), 1,
    'found at once');
select is(pg_temp.job(8), 'held lease expired; its result could not be '
    'checked: the worker''s look-up ended failed: no access',
    'unclear for the last time: held');

select pg_temp.lose('d', 'r:e:3', 9);
select pg_temp.hand_out();
select t.take('w', 'result-check');
select t.expire('w');
select interlock.recover(10);
select pg_temp.due(9);
select is((select count(*)::int from interlock.checks_unanswered(10)), 0,
    'a worker that is lost: its job goes on');
select t.take('w', 'result-check');
select t.finish('w', 'complete', '{"answer":"not_found"}');
select is((select status || '/' || place from interlock.jobs
           where id = t.rid(9)), 'queued/ready', 'and the next one answers');

-- A look-up that was decided meanwhile.
select t.take('x', 'k');
select pg_temp.lose('d', 'r:e:4', 10);
select pg_temp.hand_out();
select t.take('w', 'result-check');
select interlock.job_cancel(t.demo(), t.rid(10), 'ann', 'x', 1, 'op');
select is((select status from t.finish('w', 'complete',
    '{"answer":"found"}')), 'succeeded', 'an answer that nobody waits for');
select is(pg_temp.job(10), 'canceled canceled: x', 'changes nothing');

select throws_ok('delete from interlock.check_answers', null,
    'refused on check_answers: insert-only', 'answers stay');

select * from finish();
rollback;
