-- idempotency.sql: the same request again.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('free', '{"overlap":"allow"}');
select t.kind('tally', '{"overlap":"skip"}');
select t.kind('short', '{"overlap":"allow","idempotency_ttl":100}');
select t.kind('strict', '{"overlap":"skip","on_busy":"error"}');

-- The first answer again, whatever happened since.
create temp table a as select * from t.submit('free', 'i:1', '1', 'k1');
select t.take('w', 'free');
select t.finish('w', 'complete');
create temp table b as select * from t.submit('free', 'i:1', '1', 'k1');

select ok((select not replayed and runnable and done_for = 604800 from a),
    'the first is no replay, runnable, and may be remembered for its ttl');
select ok((select replayed and not runnable from b),
    'the second is a replay and makes nothing runnable');
select results_eq(
    'select outcome, code, decision, reason, job_id, status, kind, work_key
     from b',
    'select outcome, code, decision, reason, job_id, status, kind, work_key
     from a', 'the replay is the first answer, although the job is done');
select ok((select b.done_for between 604790 and 604800 from b),
    'what remains of the ttl is granted to the edge');
select is((select count(*)::int from interlock.jobs
           where work_key = 'i:1'), 1, 'one job');
select results_eq(
    $$select decision, code from interlock.requests where work_key = 'i:1'
      order by arrived_at$$,
    $$values ('accepted', 202), ('duplicate', 202)$$,
    'two requests, each with its decision');

-- Scope: tenant and source.
select ok(not (select replayed from t.submit('free', 'i:2', '1', 'k1',
    source => 'button')), 'another source is another key');
select tenant_create.tenant_create is not null
    from interlock.tenant_create('other');
select interlock.kind_put(interlock.tenant_create('other'), 'free',
    '{"overlap":"allow"}') is not null;
select ok(not (select replayed from t.submit('free', 'i:1', '1', 'k1',
    tenant => 'other')), 'another tenant is another key');

-- Another fingerprint.
select results_eq(
    $$select outcome, code, decision, problem, replayed
      from t.submit('free', 'i:1', '2', 'k1')$$,
    $$values ('problem', 422, 'rejected', 'idempotency-key-reused', false)$$,
    'another fingerprint is refused with 422');
select results_eq(
    $$select outcome, code, decision, replayed, done_for
      from t.submit('free', 'i:1', '2', 'k1', mismatch => 'first')$$,
    $$values ('ok', 202, 'accepted', true, null::int)$$,
    'under mismatch first the first wins, and the edge may not remember');
select is((select reason from interlock.requests
           where decision = 'duplicate' order by arrived_at desc limit 1),
    'mismatch_recorded', 'the difference is recorded');
select is((select done_for from t.submit('free', 'i:other', '1', 'k1')),
    null, 'a repeat with another work key may not be remembered');

-- A problem does not occupy its key.
select is((select problem from t.submit('none', 'i:3', '1', 'k3')),
    'kind-unknown', 'unknown kind');
select is((select problem from t.submit('free', 'i:3', '1', 'k3',
    fresh => true)), 'fresh-not-allowed', 'fresh not allowed');
select is((select problem from t.submit('tally', 'i:1', '1', 'k3')),
    'work-kind', 'one key under two kinds');
select results_eq(
    $$select outcome, replayed from t.submit('free', 'i:3', '1', 'k3')$$,
    $$values ('ok', false)$$, 'the key was still free');
select is((select count(*)::int from interlock.requests
           where work_key in ('i:3') or kind = 'none'), 1,
    'the refused ones stored nothing');

select submit.outcome from t.submit('strict', 'i:4', '1', 'k4');
select results_eq(
    $$select outcome, code, decision, problem
      from t.submit('strict', 'i:4', '2', 'k5')$$,
    $$values ('problem', 409, 'skipped', 'work-active')$$,
    'on_busy error: 409, counted as skipped');
select is((select count(*)::int from interlock.idempotency
           where key = 'k5'), 0, 'and its idempotency key is free');
select is((select code from interlock.requests
           where idempotency_key = 'k5'), 409, 'its request is kept');

-- A kind that went away does not take the answers with it.
select t.take('w', 'short') from t.submit('short', 'i:5', '1', 'k6');
select t.finish('w', 'complete');
select is((select problem from interlock.kind_delete(
    interlock.tenant_create('demo'), 'short')), null, 'kind deleted');
select ok((select replayed from t.submit('short', 'i:5', '1', 'k6')),
    'a known key is answered all the same');
select is((select problem from t.submit('short', 'i:5', '1', 'k7')),
    'kind-unknown', 'a new one is not');
select t.kind('short', '{"overlap":"allow","idempotency_ttl":100}');

-- Time over.
create function pg_temp.age(p_key text) returns void language sql as $$
    alter table interlock.idempotency
        disable trigger idempotency_insert_only;
    update interlock.idempotency
    set expires_at = clock_timestamp() - interval '1 second'
    where key = p_key;
    alter table interlock.idempotency
        enable trigger idempotency_insert_only;
$$;

select pg_temp.age('k6');
select ok((select not replayed from t.submit('short', 'i:5', '1', 'k6')),
    'after its ttl a key is new again');
select pg_temp.age('k6');
select ok((select replayed from t.submit('short', 'i:5', '1', 'k6')),
    'but not while the job is open');
select is(interlock.prune(100), 0, 'nor is it pruned');
select t.take('w', 'short');
select t.finish('w', 'fail', p_retryable => false);
select is(interlock.prune(100), 1, 'it is once the job is ended');
select is((select count(*)::int from interlock.idempotency
           where key = 'k6'), 0, 'gone');

-- The same request id after a lost COMMIT.
create temp table c as
select * from t.submit('tally', 'i:7', '1', 'k8', id => 7);
create temp table d as
select * from t.submit('tally', 'i:7', '1', 'k8', id => 7);
select results_eq(
    'select outcome, code, decision, job_id, status, replayed from d',
    'select outcome, code, decision, job_id, status, replayed from c',
    'the same request id replays its answer, not as a duplicate');
select is((select count(*)::int from interlock.requests
           where work_key = 'i:7'), 1, 'and stays one request');
select ok((select replayed from t.submit('tally', 'i:7', '1', 'k8', id => 8)),
    'a duplicate');
select ok((select replayed from t.submit('tally', 'i:7', '1', 'k8', id => 8)),
    'and the same duplicate again');
select is((select problem from t.submit('tally', 'i:7', '2', 'k8', id => 9)),
    'idempotency-key-reused', 'a refused one');
select is((select problem from t.submit('tally', 'i:7', '2', 'k8', id => 9)),
    'idempotency-key-reused', 'and the same refused one again');
select is((select count(*)::int from interlock.requests
           where work_key = 'i:7'), 3, 'three requests in all');

-- Equal keys in one batch: the first wins, the rest are its duplicates; a
-- duplicate of one that came to nothing is to be tried again.
create temp table e as
select s.* from interlock.submit(
    array_fill(interlock.tenant_create('demo'), array[6]),
    array[t.rid(11), t.rid(12), t.rid(13), t.rid(14), t.rid(15), t.rid(16)],
    array_fill('api'::text, array[6]),
    array['z1', 'z1', 'a1', null, 'x1', 'x1'],
    array_fill('\x01'::bytea, array[6]),
    array_fill('reject'::text, array[6]),
    array['free', 'free', 'free', 'free', 'tally', 'tally'],
    array['b:1', 'b:1', 'b:0', 'b:9', 'b:0', 'b:0'],
    array_fill(null::bigint, array[6]), array_fill('\x31'::bytea, array[6]),
    array_fill(null::text, array[6]), array_fill(null::text, array[6]),
    array_fill(null::text, array[6]), array_fill(null::int, array[6]),
    array_fill(null::timestamptz, array[6]),
    array_fill(null::timestamptz, array[6]),
    array_fill(false, array[6]), array_fill(null::text, array[6]),
    array_fill(null::text, array[6]), true) s;
select results_eq(
    'select ord, outcome, replayed, problem from e order by ord',
    $$values (1, 'ok', false, null), (2, 'ok', true, null),
             (3, 'ok', false, null), (4, 'ok', false, null),
             (5, 'problem', false, 'work-kind'),
             (6, 'busy', false, null)$$,
    'equal keys within one batch');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
