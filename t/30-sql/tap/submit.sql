-- submit.sql: versions, problems, answers' other fields, batches.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('vs', '{"overlap":"skip","when_completed":"return","allow_fresh":true}');
select t.kind('vb', '{"overlap":"buffer_one","when_completed":"run"}');
select t.kind('small', '{"max_payload":3}');
select t.kind('one', '{"overlap":"buffer_one"}');

-- Versions 7 and 8 in both orders.
select submit.outcome from t.submit('vb', 'v:1', 'a', version => 7);
select is((select decision from t.submit('vb', 'v:1', 'b', version => 8)),
    'buffered', 'a higher version meets the overlap');
select results_eq(
    $$select decision, reason, status from t.submit('vb', 'v:1', 'c',
      version => 7)$$,
    $$values ('skipped', 'older_version', 'queued')$$,
    'an older one is skipped');
select results_eq(
    $$select decision, reason from t.submit('vb', 'v:1', 'd', version => 8)$$,
    $$values ('skipped', 'same_work')$$, 'an equal one is the same work');
select submit.outcome from t.submit('vb', 'v:2', 'a', version => 8);
select results_eq(
    $$select decision, reason, code from t.submit('vb', 'v:2', 'a',
      version => 7)$$,
    $$values ('skipped', 'older_version', 200)$$,
    'the older after the newer is skipped');
select t.take('w1', 'vb');
select t.take('w2', 'vb');
select t.finish('w1', 'complete');
select t.finish('w2', 'complete');
select t.take('w1', 'vb');
select t.finish('w1', 'complete');
select is((select published_version from interlock.works
           where work_key = 'v:1'), 8::bigint, '8 stays published');
select results_eq(
    $$select decision, reason, status, result_url
      from t.submit('vb', 'v:2', 'a', version => 7)$$,
    $$values ('skipped', 'older_version', 'succeeded', '')$$,
    'older than a completed one: skipped, with that one''s job');

select submit.outcome from t.submit('vs', 'v:3', 'a', version => 1);
select t.take('w1', 'vs');
select t.finish('w1', 'complete');
select is((select decision from t.submit('vs', 'v:3', 'a', version => 1)),
    'completed', 'the completed version is returned');
select is((select decision from t.submit('vs', 'v:3', 'a', version => 2)),
    'accepted', 'a higher one than the result''s runs');
select is((select decision from t.submit('vs', 'v:3', 'a')),
    'skipped', 'none: as the policy says');
select t.take('w1', 'vs');
select t.finish('w1', 'fail', p_retryable => false);
select is((select decision from t.submit('vs', 'v:3', 'a', version => 2)),
    'accepted', 'a failed job never blocks its key, nor its version');

-- The worker's own link.
select t.take('w1', 'vs');
select t.finish('w1', 'complete', p_url => 'https://x/1');
select is((select result_url from t.submit('vs', 'v:3', 'a')),
    'https://x/1', 'completed answers carry the worker''s own link');
select is((select result_url from t.submit('vb', 'v:9', 'a')), null,
    'accepted ones carry none');

-- Problems.
select is((select code from t.submit('nope', 'p:1')), 404,
    'an unknown kind is 404');
select is((select problem from t.submit('small', 'p:1', '1234')),
    'body-too-large', 'a payload over max_payload');
select is((select outcome from t.submit('small', 'p:1', '123')), 'ok',
    'one at it');
select is((select outcome from t.submit('small', 'p:2', null)), 'ok',
    'none at all');

-- Place and order.
select is((select runnable from t.submit('one', 'o:1',
    run_after => clock_timestamp() + interval '1 hour')), false,
    'run_after: not runnable yet');
select is((select place from interlock.jobs where work_key = 'o:1'),
    'delayed', 'but delayed');
select submit.outcome from t.submit('one', 'o:2', priority => 3);
select submit.outcome from t.submit('one', 'o:3');
select is((select extract(epoch from created_at - order_key)::int
           from interlock.jobs where work_key = 'o:2'), 180,
    'three levels of priority are three minutes of age');
select is((select priority from interlock.jobs where work_key = 'o:3'), 0,
    'the kind''s priority by default');

-- A buffered run_after stays: it is kept until the key is free, and then
-- until its time.
select submit.outcome from t.submit('one', 'o:4');
select submit.outcome from t.submit('one', 'o:4', 'later',
    run_after => clock_timestamp() + interval '1 hour');
select t.take('w1', 'one');
select is((select runnable from t.finish('w1', 'complete')), false,
    'a waiting job that is to run later does not become runnable');

-- One batch of many: new keys, one key thrice, another tenant.
select t.kind('one', '{"overlap":"buffer_one"}');
select interlock.kind_put(interlock.tenant_create('two'), 'one',
    '{"overlap":"buffer_one"}') is not null;
create temp table m as
select s.* from interlock.submit(
    array[interlock.tenant_create('demo'), interlock.tenant_create('demo'),
          interlock.tenant_create('demo'), interlock.tenant_create('demo'),
          interlock.tenant_create('two')],
    array[t.rid(21), t.rid(22), t.rid(23), t.rid(24), t.rid(25)],
    array_fill('api'::text, array[5]), array_fill(null::text, array[5]),
    array_fill('\x01'::bytea, array[5]),
    array_fill('reject'::text, array[5]),
    array_fill('one'::text, array[5]),
    array['m:1', 'm:2', 'm:1', 'm:1', 'm:1'],
    array[null, 5, null, null, null]::bigint[],
    array['\x31', '\x32', '\x33', '\x34', '\x35']::bytea[],
    array_fill(null::text, array[5]), array_fill(null::text, array[5]),
    array_fill(null::text, array[5]), array_fill(null::int, array[5]),
    array_fill(null::timestamptz, array[5]),
    array_fill(null::timestamptz, array[5]),
    array_fill(false, array[5]), array_fill(null::text, array[5]),
    array_fill(null::text, array[5]), true) s;
select results_eq(
    'select ord, decision, superseded_job_id from m order by ord',
    $$values (1, 'accepted', null), (2, 'accepted', null),
             (3, 'buffered', null), (4, 'buffered', t.rid(23)),
             (5, 'accepted', null)$$,
    'rows of one key are decided in order, tenants apart');
select is((select ended_jobs from m where ord = 4), array[t.rid(23)],
    'what ended is told');
select is((select superseded_by from interlock.jobs where id = t.rid(23)),
    t.rid(24), 'with a link to its successor');
select is((select max_version from interlock.works where work_key = 'm:2'),
    5::bigint, 'a version in a batch counts');

select results_eq(
    $$select sum(x.n)::bigint, (select count(*) from interlock.requests)
      from (select decision, count(*) as n from interlock.requests
            group by 1) x$$,
    'select count(*), count(*) from interlock.requests',
    'the decisions add up to the requests');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
