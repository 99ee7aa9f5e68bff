-- constraints.sql: what the schema refuses, whatever a function would do; and
-- that each check of check.sql fires.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('one', '{"overlap":"buffer_one"}');
select t.kind('free', '{"overlap":"allow"}');
select submit.ord from t.submit('one', 'c:1', 'a', 'k', id => 1, version => 4);
select t.take('w', 'one');
select submit.ord from t.submit('one', 'c:1', 'b', id => 2);
select submit.ord from t.submit('one', 'c:2', 'a', id => 3);
select t.take('w3', 'one');
select t.finish('w3', 'complete', '1');

select throws_ok(
    $$insert into interlock.leases select tenant, gen_random_uuid(),
        claim_id, t.rid(2), kind, work_key, exclusive, fence + 1, attempt,
        'thief', granted_at, expires_at, runtime_end, lease_seconds
      from interlock.leases$$, '23505', null,
    'G3: no second exclusive lease of a key');
select throws_ok(
    $$update interlock.jobs set place = 'ready' where id = t.rid(2)$$,
    '23505', null, 'nor a second exclusive job at its head');
select throws_ok(
    $$insert into interlock.jobs (tenant, id, kind, kind_version, work_key,
        status, place, exclusive, decision, source, priority, order_key,
        run_at, created_at, turn)
      select tenant, t.rid(99), kind, kind_version, work_key, status, place,
        exclusive, decision, source, priority, order_key, run_at, created_at,
        turn + 1
      from interlock.jobs where id = t.rid(2)$$, '23505', null,
    'nor a second one waiting');
select throws_ok(
    $$update interlock.jobs set status = 'running', place = null,
        attempts = 1, started_at = now() where id = t.rid(2)$$, '23000',
    null, 'a blocked job does not start');
select throws_ok(
    $$update interlock.jobs set status = 'queued', place = 'ready',
        finished_at = null, revision = null where id = t.rid(3)$$, '23000',
    null, 'a final status stays');
select throws_ok(
    $$update interlock.jobs set status = 'superseded', place = null,
        finished_at = now() where id = t.rid(2)$$, '23514', null,
    'superseded has its successor');
select throws_ok(
    $$update interlock.jobs set place = null where id = t.rid(2)$$, '23514',
    null, 'a queued job has its place');
select throws_ok(
    $$update interlock.jobs set status = 'failed', finished_at = now()
      where id = t.rid(1)$$, '23514', null, 'failed has its reason');
select throws_ok('update interlock.works set fence = fence - 1', '23000',
    null, 'a fence never falls');
select throws_ok(
    $$update interlock.works set max_version = 3 where work_key = 'c:1'$$,
    '23000', null, 'nor the newest version');
select throws_ok(
    $$update interlock.works set kind = 'free'$$, '23000', null,
    'a key keeps its kind');
select throws_ok(
    $$update interlock.works set published_fence = fence + 5
      where work_key = 'c:2'$$, '23514', null,
    'nothing is published above the fence');
select throws_ok('update interlock.leases set fence = fence + 1', '23000',
    null, 'a lease keeps its fence');
select throws_ok(
    $$update interlock.leases set expires_at = runtime_end
      + interval '1 s'$$, '23514', null,
    'no lease reaches beyond max_runtime');
select throws_ok('update interlock.requests set decision = ''skipped''',
    '23000', null, 'requests are insert-only');
select throws_ok('delete from interlock.attempts', '23000', null,
    'attempts are');
select throws_ok('update interlock.results set fence = 9', '23000', null,
    'results are');
select throws_ok('delete from interlock.payloads', '23000', null,
    'payloads are');
select throws_ok('update interlock.idempotency set fingerprint = ''''',
    '23000', null, 'idempotency keys are');
select throws_ok('update interlock.kind_versions set lease_seconds = 9',
    '23000', null, 'policies are');

select is_empty('select * from t.violations', 'nothing is violated');

-- Each check fires: break it, look, undo.
create function pg_temp.fires(p_check text, p_sql text) returns text
language plpgsql as $$
declare
    v_found  text;
begin
    begin
        set local session_replication_role = replica;   -- no triggers
        execute p_sql;
        select string_agg(distinct check_name, '; ') into v_found
        from t.violations where check_name = p_check;
        raise exception 'undo' using errcode = 'UNDO0';
    exception when sqlstate 'UNDO0' then
        null;
    end;
    return is(v_found, p_check, 'fires: ' || p_check);
end
$$;

select submit.ord from t.submit('free', 'c:3', id => 4);
select t.take('wf', 'free');
select t.finish('wf', 'fail', p_retry_after => 60);

select pg_temp.fires('request admitted without its job',
    'delete from interlock.jobs where id = t.rid(2)');
select pg_temp.fires('job without its request',
    'delete from interlock.requests where id = t.rid(2)');
select pg_temp.fires('job without its payload row',
    'delete from interlock.payloads where job_id = t.rid(2)');
select pg_temp.fires('answer names a job that is not there',
    'update interlock.requests set active_job_id = t.rid(77)
     where id = t.rid(2)');
select submit.ord from t.submit('one', 'c:1', 'a', 'k', id => 5);
select pg_temp.fires('duplicate of what is no first request',
    'update interlock.requests set first_request = id
     where id = t.rid(5)');
select pg_temp.fires(
    'idempotency key held by a request that failed or is not there',
    'update interlock.idempotency set request_id = t.rid(77)');
select pg_temp.fires('more than one exclusive job at the head of a key',
    'drop index interlock.jobs_one_head;
     update interlock.jobs set place = ''ready'' where id = t.rid(2)');
select pg_temp.fires('two exclusive attempts of one key at once',
    'drop index interlock.leases_one_owner;
     insert into interlock.leases select tenant, gen_random_uuid(),
        claim_id, t.rid(2), kind, work_key, exclusive, fence + 1, attempt,
        ''thief'', granted_at, expires_at, runtime_end, lease_seconds
     from interlock.leases where work_key = ''c:1''');
select pg_temp.fires('running job without its lease',
    'delete from interlock.leases');
select pg_temp.fires('lease without its running job',
    'update interlock.leases set job_id = t.rid(2)');
select pg_temp.fires('fence given twice',
    'drop index interlock.attempts_fence;
     insert into interlock.attempts (tenant, id, job_id, kind, work_key,
        fence, attempt, worker, granted_at, ended_at, renewals, call, status)
     select tenant, gen_random_uuid(), job_id, kind, work_key, fence, 1,
        ''w'', granted_at, granted_at, 0, ''lost'', ''queued''
     from interlock.leases');
select pg_temp.fires('work behind its fences',
    'update interlock.works set fence = 0, published_revision = null,
        published_fence = null, published_at = null');
select pg_temp.fires('job or attempt of a key that is not there',
    'delete from interlock.works where work_key = ''c:1''');
select pg_temp.fires('attempt both live and ended',
    'insert into interlock.attempts (tenant, id, job_id, kind, work_key,
        fence, attempt, worker, granted_at, ended_at, renewals, call, status)
     select tenant, attempt_id, job_id, kind, work_key, fence + 9, 1,
        ''w'', granted_at, granted_at, 0, ''lost'', ''queued''
     from interlock.leases');
select pg_temp.fires('waits behind nothing (a wake-up was lost)',
    'update interlock.jobs set status = ''failed'', error = ''x'',
        finished_at = now() where id = t.rid(1)');
select pg_temp.fires('attempts miscounted',
    'update interlock.jobs set attempts = 3 where id = t.rid(4)');
select pg_temp.fires('more attempts than its policy allows',
    'update interlock.jobs set attempts = 6 where id = t.rid(4)');
select pg_temp.fires('superseded by no later job of its key',
    'update interlock.jobs set status = ''superseded'', place = null,
        retry_at = null, finished_at = now(), superseded_by = t.rid(1)
     where id = t.rid(4)');
select pg_temp.fires('job of no known policy',
    'update interlock.jobs set kind_version = 9 where id = t.rid(2)');
select pg_temp.fires('published result is not there',
    'delete from interlock.results');
select pg_temp.fires('a later published result has a lower fence or version',
    'insert into interlock.results select tenant, work_key, revision + 1,
        gen_random_uuid(), attempt_id, fence, version, result, result_url,
        processed, failed, published, created_at from interlock.results');
select pg_temp.fires('revisions have a gap',
    'update interlock.works set last_revision = 2 where work_key = ''c:2''');
select pg_temp.fires('succeeded without a result',
    'update interlock.jobs set revision = 5 where id = t.rid(3)');
select pg_temp.fires('result of an attempt that did not complete',
    'update interlock.attempts set call = ''fail'' where job_id = t.rid(3)');
select pg_temp.fires('newest version is not that of its jobs',
    'update interlock.works set max_version = 9 where work_key = ''c:1''');

select is_empty('select * from t.violations', 'all undone');
select * from finish();
rollback;
