-- lost.sql: on_lost hold and check, and what is decided about such jobs.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.decide(p_job bigint, p_action text,
    p_by text default 'who', p_reason text default 'I looked',
    p_assignee text default null)
returns table (problem text, detail text, status text, place text,
    wake_kinds text[], ended_jobs uuid[])
language plpgsql as $$
begin
    select d.problem, d.detail, d.wake_kinds, d.ended_jobs
    into problem, detail, wake_kinds, ended_jobs
    from interlock.job_decide(t.demo(), t.rid(p_job), p_action, p_assignee,
        p_by, p_reason, 7, 'op') d;
    select x.status, x.place into status, place from interlock.jobs x
    where x.tenant = t.demo() and x.id = t.rid(p_job);
    return next;
end
$$;

create function pg_temp.lose(p_who text) returns text language sql as $$
    select t.expire(p_who);
    select r.status from interlock.recover(10) r
$$;

create function pg_temp.job(p_job bigint) returns json language sql as $$
    select g.doc::json
    from interlock.job_get(array[t.demo()], array[t.rid(p_job)]) g
$$;

select t.kind('hold', '{"overlap":"skip","on_lost":"hold","max_attempts":2}');
select t.kind('one', '{"overlap":"buffer_one","on_lost":"hold"}');

-- Hold.
select submit.ord from t.submit('hold', 'h:1', id => 1);
select t.take('w1', 'hold');
select is(pg_temp.lose('w1'), 'held', 'on_lost hold: held');
select results_eq(
    $$select status, place, error, finished_at is null
      from interlock.jobs where id = t.rid(1)$$,
    $$values ('held', null, 'lease expired', true)$$, 'with the reason');
select is(pg_temp.job(1) ->> 'waits_for', 'decision', 'for a decision');
select is((select s.decision || '/' || s.active_job_id
           from t.submit('hold', 'h:1') s),
    'skipped/' || t.rid(1), 'it occupies its key');
select is(t.take('w2', 'hold'), 'nothing', 'nobody claims it');

-- The lost owner comes late.
select is((select outcome from t.finish('w1', 'complete', '{"n":1}')),
    'lease-lost', 'the late complete is refused');
select is((select outcome from t.finish('w1', 'complete', '{"n":1}')),
    'lease-lost', 'as often as it comes');
select results_eq(
    'select job_id, fence, refusal, result::text from interlock.refused_results',
    $$values (t.rid(1), 1::bigint, 'lease-lost', '{"n":1}')$$,
    'but what it brought is kept, once');
select is((select outcome from t.finish('w1', 'complete', '{"n":1}',
    p_fence => 9)), 'lease-lost', 'another fence');
select is((select count(*)::int from interlock.refused_results), 1,
    'brings nothing');

-- Refusals of decide.
select results_eq($$select problem, detail from pg_temp.decide(1, 'again')$$,
    $$values ('field-invalid',
      '"action" must be one of retry, succeed, fail, release')$$, 'actions');
select is((select problem from pg_temp.decide(1, null)), 'field-invalid',
    'none');
select is((select problem from pg_temp.decide(1, 'retry', ' ')),
    'field-invalid', 'not without a name');
select is((select problem from pg_temp.decide(1, 'retry', 'who', null)),
    'field-invalid', 'nor without a reason');
select is((select problem from pg_temp.decide(999, 'retry')), 'not-found',
    'no such job');
select is((select problem from interlock.job_decide(
    interlock.tenant_create('other'), t.rid(1), 'retry', null, 'a', 'b', 1,
    'c')), 'not-found', 'another tenant''s job');
select is((select count(*)::int from interlock.actions), 0,
    'what is refused is no action');

-- Retry: the same job, its budget anew, its fence higher.
select results_eq(
    $$select problem, status, place, wake_kinds
      from pg_temp.decide(1, 'retry', p_assignee => 'the day''s desk')$$,
    $$values (null, 'queued', 'ready', array['hold'])$$, 'retry');
select is(pg_temp.job(1) ->> 'assignee', 'the day''s desk', 'with whom to ask');
select is(t.take('w2', 'hold'), 'h:1 fence 2', 'claimed');
select is((select status from t.finish('w2', 'fail', p_retry_after => 0)),
    'queued', 'attempt 2 of the job is the first of its new budget');
select t.due('h:1');
select is(t.take('w2', 'hold'), 'h:1 fence 3', 'again');
select is((select status from t.finish('w2', 'fail')), 'failed',
    'and the second is the last');
select is(pg_temp.job(1) ->> 'error', 'boom (attempt 2 of 2)', 'so it says');
select is((pg_temp.job(1) ->> 'attempt')::int, 3, 'attempts go on counting');
select results_eq(
    $$select x ->> 'call', x ->> 'error'
      from json_array_elements(pg_temp.job(1) -> 'attempts') x$$,
    $$values ('lost', 'lease expired'), ('fail', 'boom'), ('fail', 'boom')$$,
    'the job shows its attempts and their errors');

-- Failed: retry, then succeed.
select results_eq(
    $$select problem, detail from pg_temp.decide(1, 'release')$$,
    $$values ('decision-not-possible',
      'the job is failed; possible: retry, succeed')$$,
    'a failed one is not released');
select is((select status from pg_temp.decide(1, 'retry')), 'queued',
    'taken back from failed');
select results_eq($$select problem, detail from pg_temp.decide(1, 'retry')$$,
    $$values ('decision-not-possible',
      'the job is queued; no decision about it is possible')$$, 'once');
select t.take('w3', 'hold');
select is((select problem from pg_temp.decide(1, 'fail')),
    'decision-not-possible', 'nor about a running one');
select is((select status from t.finish('w3', 'fail', p_retryable => false)),
    'failed', 'failed again');
select results_eq(
    $$select status, ended_jobs from pg_temp.decide(1, 'succeed')$$,
    $$values ('succeeded', array[t.rid(1)])$$, 'succeed: the work was done');
select results_eq(
    $$select revision, fence, origin, attempt_id is null, result is null,
          published
      from interlock.results where job_id = t.rid(1)$$,
    $$values (1, 4::bigint, 'decide', true, true, true)$$,
    'with a revision, of the fence of its last attempt');
select is((select problem from pg_temp.decide(1, 'fail')),
    'decision-not-possible', 'a succeeded one stays');
select throws_ok(
    $$update interlock.jobs set status = 'queued', place = 'ready',
      revision = null, finished_at = null, revivals = revivals + 1
      where id = t.rid(1)$$, '23000', null, 'whatever a function does');
select results_eq(
    $$select what, target, token_id, token_name, requested_by, reason,
          detail ->> 'action', detail ->> 'was'
      from interlock.actions order by id$$,
    $$values ('job_decide', t.rid(1)::text, 7::bigint, 'op', 'who',
          'I looked', 'retry', 'held'),
      ('job_decide', t.rid(1)::text, 7, 'op', 'who', 'I looked', 'retry',
          'failed'),
      ('job_decide', t.rid(1)::text, 7, 'op', 'who', 'I looked', 'succeed',
          'failed')$$, 'who decided what, and why');

-- Fail and release of a held one; a release does not count the attempt.
select submit.ord from t.submit('hold', 'h:2', id => 2);
select t.take('w1', 'hold');
select pg_temp.lose('w1');
select is((select status from pg_temp.decide(2, 'release')), 'queued',
    'release');
select t.take('w1', 'hold');
select is((select status from t.finish('w1', 'fail', p_retry_after => 0)),
    'queued', 'the lost attempt did not count');
select t.due('h:2');
select t.take('w1', 'hold');
select pg_temp.lose('w1');
select results_eq(
    $$select status, ended_jobs from pg_temp.decide(2, 'fail')$$,
    $$values ('failed', array[t.rid(2)])$$, 'fail');
select is(pg_temp.job(2) ->> 'error',
    'lease expired; failed by who: I looked', 'with both reasons');

-- One waits behind a held one: it goes on when that is decided.
select submit.ord from t.submit('one', 'o:1', 'A', id => 11);
select t.take('w1', 'one');
select submit.ord from t.submit('one', 'o:1', 'B', id => 12);
select is(pg_temp.lose('w1'), 'held', 'held, though another one waits');
select results_eq(
    $$select decision, superseded_job_id
      from t.submit('one', 'o:1', 'C', id => 13)$$,
    $$values ('buffered', t.rid(12))$$, 'the latest waits');
select is((select place from interlock.jobs where id = t.rid(13)), 'blocked',
    'behind the held one');
select is((select status from pg_temp.decide(11, 'retry')), 'queued',
    'which keeps the head when somebody says so');
select is(t.take('w1', 'one'), 'o:1 fence 2', 'runs');
select pg_temp.lose('w1');
select results_eq(
    $$select status, wake_kinds, ended_jobs from pg_temp.decide(11, 'fail')$$,
    $$values ('failed', array['one'], array[t.rid(11)])$$,
    'failed: the waiting one goes on');
select is(t.take('w1', 'one'), 'o:1 fence 3', 'now');
select is((select problem from pg_temp.decide(11, 'retry')), 'work-active',
    'its key is busy now');
select is((select status from t.finish('w1', 'complete')), 'succeeded', 'done');
select is((select status from pg_temp.decide(11, 'retry')), 'queued',
    'and now it is not');
select is((select status from interlock.job_cancel(t.demo(), t.rid(11), 'a',
    'b', 1, 'c') c, lateral (select c.doc::json ->> 'status' as status) s),
    'canceled', 'canceled while it waits');

-- Cancel a held one.
select submit.ord from t.submit('hold', 'h:3', id => 3);
select t.take('w1', 'hold');
select pg_temp.lose('w1');
select results_eq(
    $$select c.doc::json ->> 'status', ended_jobs
      from interlock.job_cancel(t.demo(), t.rid(3), 'who', 'no', 1, 'op') c$$,
    $$values ('canceled', array[t.rid(3)])$$, 'a held one is canceled at once');

-- What is held is not replaced.
select t.kind('rep', '{"overlap":"replace","on_lost":"hold"}');
select submit.ord from t.submit('rep', 'x:1', 'A', id => 51);
select t.take('w1', 'rep');
select pg_temp.lose('w1');
select results_eq(
    $$select e.doc::json ->> 'decision', e.doc::json ->> 'reason',
          e.doc::json ->> 'why'
      from interlock.explain(t.demo(), 'rep', '{"work_key":"x:1"}') e$$,
    $$values ('buffered', 'active_held', 'overlap replace, but what became '
        'of the active job is not known yet (held): this one waits for that')$$,
    'explain says so');
select results_eq(
    $$select decision, reason from t.submit('rep', 'x:1', 'B', id => 52)$$,
    $$values ('buffered', 'active_held')$$, 'a replacement waits');
select results_eq(
    $$select x ->> 'status', x ->> 'error' from interlock.work_get(t.demo(),
          'x:1') g, json_array_elements(g.doc::json -> 'active') x$$,
    $$values ('held', 'lease expired')$$, 'as the work shows');
select is((select count(*)::int from interlock.jobs_list(t.demo(), null,
    'held', null, null, null, 99, null)), 1, 'and the list of held jobs');

-- A job asked to end, or replaced, is neither held nor checked.
select submit.ord from t.submit('hold', 'h:4', id => 4);
select t.take('w1', 'hold');
select count(*) from interlock.job_cancel(t.demo(), t.rid(4), 'who', 'no', 1, 'op');
select is(pg_temp.lose('w1'), 'canceled', 'asked to end: canceled');

-- The line of buffer_all: a failed one joins its end.
select t.kind('line', '{"overlap":"buffer_all","max_waiting":2,"overflow":"park","on_lost":"hold"}');
select submit.ord from t.submit('line', 'l:1', 'A', id => 21);
select t.take('w1', 'line');
select status from t.finish('w1', 'fail', p_retryable => false);
select submit.ord from t.submit('line', 'l:1', 'B', id => 22);
select submit.ord from t.submit('line', 'l:1', 'C', id => 23);
select is((select place from pg_temp.decide(21, 'retry')), 'blocked',
    'at the end of the line');
select results_eq(
    $$select id from interlock.jobs where work_key = 'l:1'
          and place = 'blocked' order by turn$$,
    $$values (t.rid(23)), (t.rid(21))$$, 'behind who was there');
select t.take('w1', 'line');
select status from t.finish('w1', 'fail', p_retryable => false);
select submit.ord from t.submit('line', 'l:1', 'D', id => 24);
select results_eq($$select problem, detail from pg_temp.decide(22, 'retry')$$,
    $$values ('work-active', 'the line of its work key is full')$$,
    'a full line takes nobody');

-- Parked: let in before its turn, or failed.
select submit.ord from t.submit('line', 'l:1', 'E', id => 25);
select submit.ord from t.submit('line', 'l:1', 'F', id => 26);
select submit.ord from t.submit('line', 'l:1', 'G', id => 27);
select results_eq(
    $$select status, place from pg_temp.decide(27, 'release')$$,
    $$values ('queued', 'blocked')$$, 'let in');
select results_eq(
    $$select id from interlock.jobs where work_key = 'l:1'
          and turn is not null and (place = 'blocked' or status = 'parked')
      order by turn$$,
    $$values (t.rid(21)), (t.rid(24)), (t.rid(27)), (t.rid(25)),
          (t.rid(26))$$, 'the others keep their order');
select is((select problem from pg_temp.decide(25, 'retry')),
    'decision-not-possible', 'a parked one is not retried');
select is((select status from pg_temp.decide(25, 'fail')), 'failed', 'failed');
select is_empty('select * from t.violations', 'nothing is violated');

-- Deciding about a failed one that never ran.
select is((select problem from pg_temp.decide(25, 'retry')), 'work-active',
    'the line is still full');

-- A job is recovered by the policy that is stored.
select submit.ord from t.submit('hold', 'h:9', id => 9);
select t.take('w1', 'hold');
update interlock.kinds set deleted = true where name = 'hold';
select is(pg_temp.lose('w1'), 'held', 'whatever became of the kind since');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
