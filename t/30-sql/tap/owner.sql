-- owner.sql: renew, progress, complete, fail, release: what they do, what
-- they refuse and in which order, and what a repeated call gets.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('k', '{"overlap":"buffer_one","lease_seconds":20,"max_attempts":3,"backoff":4,"max_backoff":6,"retry_for":1000}');
select t.kind('r', '{"overlap":"buffer_one","when_completed":"return","allow_fresh":true}');
select t.kind('cap', '{"overlap":"skip","lease_seconds":50,"max_runtime":60}');

-- Renew and progress.
select submit.ord from t.submit('k', 'w:1');
select t.take('w', 'k');
update interlock.leases set expires_at = expires_at - interval '15 s';
select results_eq(
    $$select outcome, remaining_ms, cancel_requested, kind from t.renew('w')$$,
    $$values ('ok', 20000::bigint, false, 'k')$$, 'renew extends');
select is((select outcome from t.renew('w', '{"done":1,"total":3}', 'load',
    '{"at": 1.10}')), 'ok', 'progress');
select is((select outcome from t.renew('w', '{"done":2,"total":3}')), 'ok',
    'progress without a step');
select ok((select progress::text = '{"done":2,"total":3}' and step = 'load'
    and checkpoint::text = '{"at": 1.10}' and renewals = 3
    from interlock.leases), 'what is left out stays; JSON stays as sent');
select matches((select doc from interlock.job_get(
        array[interlock.tenant_create('demo')],
        (select array[job] from t.held where who = 'w'))),
    '"progress" : \{"done":2,"total":3\}, "step" : "load"',
    'a running job shows its lease''s progress');

-- Refusals, in order.
select is((select outcome from t.renew('w', p_fence => 9)), 'fence-stale',
    'renew: another fence');
select is((select outcome from t.finish('w', 'complete', p_fence => 9)),
    'fence-stale', 'complete: another fence');
select is((select u.outcome from t.held h, interlock.renew(array[h.tenant],
    array[t.rid(1)], array[h.attempt], array[h.fence], array[null],
    array[null], array[null]) u), 'lease-lost', 'renew: another job');
select is((select u.outcome from t.held h, interlock.renew(
    array[interlock.tenant_create('other')], array[h.job],
    array[h.attempt], array[h.fence], array[null], array[null],
    array[null]) u), 'lease-lost', 'renew: another tenant');

-- Asked to end (cancel has its own call later; the flags are honoured now).
update interlock.leases set cancel_requested = true,
    cancel_deadline = clock_timestamp() + interval '5 s';
select results_eq(
    $$select outcome, cancel_requested, remaining_ms between 4000 and 5000
      from t.renew('w')$$, $$values ('ok', true, true)$$,
    'renew of a canceled job: told so, capped at the deadline');
select is((select outcome from t.renew('w', '{}')), 'job-canceled',
    'progress of a canceled job');
select is((select outcome from t.finish('w', 'complete')), 'job-canceled',
    'complete of a canceled job');
select is((select outcome from t.finish('w', 'complete', p_fence => 9)),
    'fence-stale', 'fence before cancel');
select results_eq($$select outcome, status from t.finish('w', 'fail')$$,
    $$values ('ok', 'canceled')$$, 'fail means "I yield"');
select is((select outcome from t.renew('w', p_fence => 9)), 'lease-lost',
    'lease before fence');

-- After the lease's end: no renewal, but a completion.
select submit.ord from t.submit('k', 'w:2');
select t.take('w', 'k');
select t.expire('w');
select is((select outcome from t.renew('w')), 'lease-expired',
    'no renewal after the end');
select is((select outcome from t.renew('w', p_fence => 9)), 'fence-stale',
    'fence before expiry');
select results_eq(
    $$select outcome, status, replayed, revision, runnable
      from t.finish('w', 'complete', '{"n": 1.10}')$$,
    $$values ('ok', 'succeeded', false, 1, false)$$,
    'complete may come after the end, before recovery');
select is((select result::text from interlock.results
           where work_key = 'w:2'), '{"n": 1.10}', 'its result as sent');

-- Repeated calls.
select results_eq(
    $$select outcome, status, replayed, revision, runnable, ended_jobs
      from t.finish('w', 'complete', '{"n": 1.10}')$$,
    $$select 'ok', 'succeeded', true, 1, true, array[a.job_id]
      from interlock.attempts a where a.work_key = 'w:2'
          and a.call = 'complete'$$,
    'the same call with the same content: the first answer, and once more '
    'what it woke and ended');
select is((select outcome from t.finish('w', 'complete', '{"n": 2}')),
    'lease-lost', 'other content');
select is((select outcome from t.finish('w', 'fail')), 'lease-lost',
    'another call');
select is((select outcome from t.finish('w', 'complete', '{"n": 1.10}',
    p_fence => 7)), 'lease-lost', 'another fence');
select is((select count(*)::int from interlock.results
           where work_key = 'w:2'), 1, 'one result');
select is((select outcome from t.renew('w')), 'lease-lost',
    'an ended attempt renews nothing');

-- max_runtime caps a renewal.
select submit.ord from t.submit('cap', 'w:c');
select t.take('w', 'cap');
select t.finish('w', 'release');
select t.take('w', 'cap');
alter table interlock.leases disable trigger leases_fixed;
update interlock.leases set runtime_end = clock_timestamp() + interval '9 s',
    expires_at = clock_timestamp() + interval '1 s';
alter table interlock.leases enable trigger leases_fixed;
select ok((select remaining_ms between 8000 and 9000 from t.renew('w')),
    'a renewal ends with max_runtime');
select t.finish('w', 'complete');

-- Retry: backoff with full jitter, bounded; attempts; time.
select submit.ord from t.submit('k', 'w:3');
select t.take('w', 'k');
create temp table f1 as select * from t.finish('w', 'fail');
select ok((select status = 'queued' and not runnable
    and retry_at <= clock_timestamp() + interval '4 s' from f1),
    'first failure: within backoff');
select results_eq('select status, retry_at from f1',
    $$select status, retry_at from t.finish('w', 'fail')$$,
    'a repeated fail gets the first answer');
select is((select retry_at from interlock.jobs where work_key = 'w:3'),
    (select retry_at from f1), 'as the job shows');
select t.due('w:3');
select is((select t.take('w', 'k')), 'w:3 fence 2', 'second attempt');
create temp table f2 as
select * from t.finish('w', 'fail', p_retry_after => 77);
select ok((select retry_at between clock_timestamp() + interval '76 s'
    and clock_timestamp() + interval '77 s' from f2),
    'the worker''s retry_after counts, beyond max_backoff too');
select t.due('w:3');
select is((select t.take('w', 'k')), 'w:3 fence 3', 'third attempt');
select is((select status from t.finish('w', 'fail')), 'failed',
    'max_attempts: failed');
select matches((select error from interlock.jobs where work_key = 'w:3'),
    'boom \(attempt 3 of 3\)', 'with the reason');

select ok((select bool_and(d <= interval '6 s')
        and max(d) > interval '5 s' and min(d) < interval '1 s'
    from (select interlock.backoff_delay(9, 4, 6) as d
          from generate_series(1, 400)) x), 'jitter fills 0 to max_backoff');
select ok((select max(d) <= interval '8 s' and max(d) > interval '7 s'
    from (select interlock.backoff_delay(2, 4, 600) as d
          from generate_series(1, 400)) x), 'the bound doubles');

select submit.ord from t.submit('k', 'w:4');
select t.take('w', 'k');
select is((select status from t.finish('w', 'fail', p_retryable => false)),
    'failed', 'a permanent error fails at once');
select submit.ord from t.submit('k', 'w:5');
select t.take('w', 'k');
select is((select status from t.finish('w', 'fail', p_retry_after => 2000)),
    'failed', 'a retry_after beyond retry_for fails');
select submit.ord from t.submit('k', 'w:6');
select t.take('w', 'k');
update interlock.jobs set started_at = clock_timestamp() - interval '1001 s'
where work_key = 'w:6';
select is((select status from t.finish('w', 'fail')), 'failed',
    'nothing is tried after retry_for');

-- Release.
select submit.ord from t.submit('k', 'w:7');
select t.take('w', 'k');
select results_eq(
    $$select outcome, status, runnable, ended_jobs
      from t.finish('w', 'release')$$,
    $$values ('ok', 'queued', true, '{}'::uuid[])$$, 'release');
select ok((select replayed from t.finish('w', 'release')),
    'a repeated release gets the first answer');
select is((select attempts from interlock.jobs where work_key = 'w:7'), 0,
    'the attempt is not counted');
select is((select t.take('w', 'k')), 'w:7 fence 2', 'but its fence is used');

-- A waiting twin (buffer_one).
create function pg_temp.twin(p_key text) returns uuid language sql as $$
    select submit.job_id from t.submit('k', p_key, 'second')
$$;
create temp table tw as select pg_temp.twin('w:7') as id;
select results_eq(
    $$select status, runnable from t.finish('w', 'release')$$,
    $$values ('superseded', true)$$,
    'released with another waiting: that one takes over');
select is((select superseded_by from interlock.jobs
           where work_key = 'w:7' and status = 'superseded'),
    (select id from tw), 'linked to its successor');
select t.take('w', 'k');
update tw set id = pg_temp.twin('w:7');
select results_eq($$select status, runnable from t.finish('w', 'fail')$$,
    $$values ('superseded', true)$$, 'so with a failure to be retried');
select t.take('w', 'k');
update tw set id = pg_temp.twin('w:7');
select results_eq(
    $$select status, runnable from t.finish('w', 'fail',
      p_retryable => false)$$,
    $$values ('failed', true)$$, 'a final failure ends failed');
select t.take('w', 'k');
update tw set id = pg_temp.twin('w:7');
select t.expire('w');
select results_eq(
    'select status, runnable_kind from interlock.recover(10)',
    $$values ('superseded', 'k')$$, 'so with a lost attempt');
select t.take('w', 'k');
update tw set id = pg_temp.twin('w:7');
select is((select u.ok from t.held h, interlock.unclaim(array[h.tenant],
    array[h.attempt]) u where h.who = 'w'), true, 'unclaim');
select is((select string_agg(place, ',' order by created_at)
           from interlock.jobs where work_key = 'w:7' and place is not null),
    'ready,blocked', 'undoes, and leaves the order as it was');

-- Completion and the waiting job, when_completed return.
select submit.ord from t.submit('r', 'x:1', 'A', id => 1);
select t.take('w', 'r');
select submit.ord from t.submit('r', 'x:1', 'B', id => 2);
select submit.ord from t.submit('r', 'x:1', 'A', id => 3);
select results_eq(
    $$select status, runnable, ended_jobs from t.finish('w', 'complete')$$,
    $$values ('succeeded', false, array[t.rid(1), t.rid(3)])$$,
    'a waiting job with the payload that made the result ends with it');
select results_eq(
    $$select status, revision, attempts from interlock.jobs
      where id = t.rid(3)$$,
    $$values ('succeeded', 1, 0)$$, 'with that revision, without running');
select submit.ord from t.submit('r', 'x:2', 'A', id => 4);
select t.take('w', 'r');
select submit.ord from t.submit('r', 'x:2', 'B', id => 5);
select results_eq(
    $$select runnable, ended_jobs from t.finish('w', 'complete')$$,
    $$values (true, array[t.rid(4)])$$, 'one with another payload runs');
select t.take('w', 'r');
select submit.ord from t.submit('r', 'x:2', 'B', id => 6, fresh => true);
select results_eq(
    $$select runnable, ended_jobs from t.finish('w', 'complete')$$,
    $$values (true, array[t.rid(5)])$$, 'a fresh one runs');
select t.take('w', 'r');
select submit.ord from t.submit('r', 'x:2', 'B', id => 7, version => 3);
select results_eq(
    $$select runnable, ended_jobs from t.finish('w', 'complete')$$,
    $$values (true, array[t.rid(6)])$$, 'one with a higher version runs');

-- Asked to end, and the deadline is over: job-canceled comes before
-- lease-expired, for renew as for progress.
select t.kind('end', '{"overlap":"skip","max_attempts":3}');
select submit.ord from t.submit('end', 'y:1', id => 31);
select t.take('w', 'end');
select c.problem from interlock.job_cancel(t.demo(), t.rid(31), 'who', 'no', 7,
    'op') c;
select results_eq('select outcome, cancel_requested from t.renew(''w'')',
    $$values ('ok', true)$$, 'before the deadline: renewed, and told');
select t.expire('w');
select results_eq('select outcome, cancel_requested from t.renew(''w'')',
    $$values ('job-canceled', true)$$, 'after it: renew is job-canceled');
select is((select outcome from t.renew('w', p_step => 's')), 'job-canceled',
    'so is progress');
select is((select outcome from t.renew('w', p_fence => 99)), 'fence-stale',
    'but another fence comes first');
select is((select status from t.finish('w', 'fail')), 'canceled',
    'it can still yield');
select is((select outcome from t.renew('w')), 'lease-lost', 'then it is lost');
select submit.ord from t.submit('end', 'y:2', id => 32);
select t.take('w', 'end');
select t.expire('w');
select is((select outcome from t.renew('w')), 'lease-expired',
    'nobody asked: lease-expired');
select t.finish('w', 'complete');

-- A release is bounded by nothing: neither attempts nor time are counted.
select submit.ord from t.submit('end', 'y:3', id => 33);
select t.take('w', 'end');
update interlock.jobs set started_at = clock_timestamp() - interval '9 days'
where id = t.rid(33);
create function pg_temp.again() returns text language plpgsql as $$
begin
    perform t.finish('w', 'release');
    return t.take('w', 'end');
end
$$;
select is((select count(pg_temp.again())::int from generate_series(1, 9)), 9,
    'handed back nine times, days after retry_for, under max_attempts 3');
select results_eq(
    $$select j.status, j.attempts, count(a.id)::int
      from interlock.jobs j join interlock.attempts a on a.job_id = j.id
      where j.id = t.rid(33) group by 1, 2$$,
    $$values ('running', 1, 9)$$, 'it runs again, and each attempt is kept');

-- Many renewals in one call: each judged for itself; one that is there twice
-- counts twice.
select t.kind('many', '{"overlap":"allow","lease_seconds":20}');
select submit.ord from generate_series(1, 4) x,
    t.submit('many', 'm:' || x, id => 800 + x);
select t.take('m' || x, 'many') from generate_series(1, 4) x;
select t.expire('m3');
create function pg_temp.renew(p_who text[], p_step text[])
returns table (outcome text, ms bigint, kind text) language sql as $$
    select r.outcome, r.remaining_ms, r.kind
    from interlock.renew(
        array(select h.tenant from unnest(p_who) with ordinality u (w, n)
              join t.held h on h.who = u.w order by u.n),
        array(select h.job from unnest(p_who) with ordinality u (w, n)
              join t.held h on h.who = u.w order by u.n),
        array(select h.attempt from unnest(p_who) with ordinality u (w, n)
              join t.held h on h.who = u.w order by u.n),
        array(select case when u.w = 'm2' then 7 else h.fence end
              from unnest(p_who) with ordinality u (w, n)
              join t.held h on h.who = u.w order by u.n),
        array_fill(null::text, array[cardinality(p_who)]), p_step,
        array_fill(null::text, array[cardinality(p_who)])) r
    order by r.ord
$$;
select results_eq(
    $$select * from pg_temp.renew('{m1,m2,m3,m4}', '{null,null,null,"s"}')$$,
    $$values ('ok', 20000::bigint, 'many'), ('fence-stale', null, 'many'),
        ('lease-expired', null, 'many'), ('ok', 20000, 'many')$$,
    'many in one call');
select results_eq(
    $$select * from pg_temp.renew('{m4,m1,m4}', '{null,"a","b"}')$$,
    $$values ('ok', 20000::bigint, 'many'), ('ok', 20000, 'many'),
        ('ok', 20000, 'many')$$, 'and one of them twice');
select results_eq(
    $$select h.who, l.renewals, l.step from interlock.leases l
      join t.held h on h.attempt = l.attempt_id
      where h.who in ('m1', 'm2', 'm3', 'm4') order by 1$$,
    $$values ('m1', 2, 'a'), ('m2', 0, null), ('m3', 0, null),
        ('m4', 3, 'b')$$, 'those that were renewed, and no others');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
