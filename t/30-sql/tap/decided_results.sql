-- decided_results.sql: which result stands after one that no owner brought:
-- that somebody decided (succeed), or that a look-up found.  Its revision has
-- the fence of its job's last attempt, so G9 decides as for that attempt.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.succeed(p_job bigint) returns text language sql as $$
    select coalesce(d.problem, d.doc::json ->> 'status')
    from interlock.job_decide(t.demo(), t.rid(p_job), 'succeed', null, 'ann',
        'seen there', 1, 'op') d
$$;

-- A job of that kind that failed for good.
create function pg_temp.failed(p_kind text, p_key text, p_id bigint,
    p_version bigint default null) returns text language plpgsql as $$
begin
    perform t.submit(p_kind, p_key, 'P' || p_id, id => p_id,
        version => p_version);
    perform t.take('f', p_kind);
    return (select f.status
            from t.finish('f', 'fail', p_retryable => false) f);
end
$$;

-- What stands, with whose it is: "job 3, fence 2: {...}".
create function pg_temp.stands(p_key text) returns text language sql as $$
    select format('job %s, fence %s: %s', right(r.job_id::text, 3)::int,
        w.published_fence, coalesce(r.result::text, 'null'))
    from interlock.works w
    join interlock.results r on r.tenant = w.tenant
        and r.work_key = w.work_key and r.revision = w.published_revision
    where w.work_key = p_key
$$;

-- Its revision: "revision 2, fence 1, kept".
create function pg_temp.revision(p_id bigint) returns text language sql as $$
    select format('revision %s, fence %s, %s', r.revision, r.fence,
        case when r.published then 'published' else 'kept' end)
    from interlock.results r where r.job_id = t.rid(p_id)
$$;

select t.kind('ret', '{"overlap":"skip","when_completed":"return"}');
select t.kind('all', '{"overlap":"buffer_all"}');
select t.kind('allow', '{"overlap":"allow"}');
select t.kind('hold', '{"overlap":"allow","on_lost":"hold"}');

-- A later job has succeeded: its result goes on standing.
select is(pg_temp.failed('ret', 'r:1', 1), 'failed', 'a failed');
select t.submit('ret', 'r:1', 'B', id => 2);
select t.take('c', 'ret');
select t.finish('c', 'complete', '{"good":1}');
select is(pg_temp.stands('r:1'), 'job 2, fence 2: {"good":1}', 'c succeeded');
select is(pg_temp.succeed(1), 'succeeded', 'a is decided');
select is(pg_temp.stands('r:1'), 'job 2, fence 2: {"good":1}',
    'what c brought stands');
select is(pg_temp.revision(1), 'revision 2, fence 1, kept',
    'the revision of a is kept');
select results_eq(
    $$select decision, job_id from t.submit('ret', 'r:1', 'B')$$,
    $$values ('completed', t.rid(2))$$, 'who asks gets that of c');
select is((select x.doc::json ->> 'revision' from interlock.work_publish(
    t.demo(), 'r:1', 2, 'ann', 'that one', 1, 'op') x), '2',
    'a person may put it forward');
select is(pg_temp.stands('r:1'), 'job 1, fence 3: null', 'then it stands');

-- A later job runs: what it brings stands afterwards.
select is(pg_temp.failed('ret', 'r:2', 3), 'failed', 'a failed');
select t.submit('ret', 'r:2', 'B', id => 4);
select is(t.take('c', 'ret'), 'r:2 fence 2', 'c runs');
select is(pg_temp.succeed(3), 'succeeded', 'a is decided meanwhile');
select is(pg_temp.stands('r:2'), 'job 3, fence 1: null',
    'which stands while there is no other');
select results_eq(
    $$select outcome, status from t.finish('c', 'complete', '{"new":1}')$$,
    $$values ('ok', 'succeeded')$$, 'c completes');
select is(pg_temp.stands('r:2'), 'job 4, fence 2: {"new":1}',
    'and its result stands');
select results_eq(
    $$select decision, job_id from t.submit('ret', 'r:2', 'B')$$,
    $$values ('completed', t.rid(4))$$, 'who asks gets that of c');

-- The same with a restore by hand: nobody overrides the operator.
select is(pg_temp.failed('all', 'l:1', 5), 'failed', 'a failed');
select t.submit('all', 'l:1', 'B', id => 6);
select t.take('c', 'all');
select t.finish('c', 'complete', '{"v":1}');
select t.submit('all', 'l:1', 'C', id => 7);
select t.take('c', 'all');
select t.finish('c', 'complete', '{"v":2}');
select interlock.work_publish(t.demo(), 'l:1', 1, 'ann', 'bad', 1, 'op');
select is(pg_temp.succeed(5), 'succeeded', 'a is decided');
select is(pg_temp.stands('l:1'), 'job 6, fence 4: {"v":1}',
    'what was restored stands');

-- Neither over a higher version.
select is(pg_temp.failed('allow', 'v:1', 8, 7), 'failed', 'version 7 failed');
select t.submit('allow', 'v:1', 'B', id => 9, version => 8);
select t.take('c', 'allow');
select t.finish('c', 'fail', p_retryable => false);
select is(pg_temp.succeed(9), 'succeeded', 'version 8 is decided');
select is(pg_temp.succeed(8), 'succeeded', 'and then version 7');
select is(pg_temp.stands('v:1'), 'job 9, fence 2: null', '8 stands');

-- A held one, beside others of its key that came after it.
select t.submit('hold', 'h:1', 'A', id => 10);
select t.take('a', 'hold');
select t.submit('hold', 'h:1', 'B', id => 11);
select t.take('b', 'hold');
select t.submit('hold', 'h:1', 'C', id => 12);
select t.take('c', 'hold');
select t.finish('b', 'complete', '{"b":1}');
select t.expire('a');
select is((select r.status from interlock.recover(10) r), 'held', 'a is held');
select is(pg_temp.succeed(10), 'succeeded', 'and decided');
select is(pg_temp.revision(10), 'revision 2, fence 1, kept', 'as a revision');
select is(pg_temp.stands('h:1'), 'job 11, fence 2: {"b":1}', 'b stands');
select t.finish('c', 'complete', '{"c":1}');
select is(pg_temp.stands('h:1'), 'job 12, fence 3: {"c":1}', 'then c');

-- One that stands alone publishes, under no new fence.
select t.kind('one', '{"overlap":"buffer_one","when_completed":"return",
    "on_lost":"hold"}');
select t.submit('one', 'o:1', 'A', id => 13);
select t.take('a', 'one');
select t.expire('a');
select count(*) from interlock.recover(10);
select is(pg_temp.succeed(13), 'succeeded', 'decided');
select is(pg_temp.stands('o:1'), 'job 13, fence 1: null', 'it stands');
select is((select w.fence from interlock.works w where w.work_key = 'o:1'),
    1::bigint, 'no fence was taken for it');

-- One that a look-up found, and one that it found too late.
select is(t.lost('k:1', 20), 'checking', 'a lost one is looked for');
select t.look_up();
select is((select s.outcome from t.say(20, 'found') s), 'found', 'it is there');
select is(pg_temp.stands('k:1'), 'job 20, fence 1: null',
    'it stands: nothing later does');
select t.submit('chk', 'k:1', 'B', id => 21);
select t.take('c', 'chk');
select t.finish('c', 'complete', '{"later":1}');
select is(pg_temp.stands('k:1'), 'job 21, fence 2: {"later":1}',
    'a later one publishes over it');

select is(t.lost('k:2', 22), 'checking', 'another one is lost');
select interlock.work_publish(t.demo(), 'k:1', 1, 'ann', 'back', 1, 'op');
select t.look_up();
select is((select s.outcome from t.say(22, 'found') s), 'found', 'found');
select is(pg_temp.revision(22), 'revision 1, fence 1, published',
    'one key''s restore is not another''s');

-- One that never ran is below all others.
select t.kind('park', '{"overlap":"buffer_all","max_waiting":1,
    "overflow":"park"}');
select t.submit('park', 'p:1', 'A', id => 30);
select t.submit('park', 'p:1', 'B', id => 31);
select t.submit('park', 'p:1', 'C', id => 32);
select t.submit('park', 'p:1', 'D', id => 33);
select interlock.job_decide(t.demo(), t.rid(32), 'fail', null, 'ann', 'no', 1,
    'op');
select interlock.job_decide(t.demo(), t.rid(33), 'fail', null, 'ann', 'no', 1,
    'op');
select is(pg_temp.succeed(32), 'succeeded', 'it was done elsewhere');
select is(pg_temp.stands('p:1'), 'job 32, fence 0: null',
    'it stands while there is no other');
select is(pg_temp.succeed(33), 'succeeded', 'so was the next');
select is(pg_temp.revision(33), 'revision 2, fence 0, kept',
    'which does not take its place');
select is(t.take('a', 'park'), 'p:1 fence 1', 'the first of the line runs');
select t.finish('a', 'complete', '{"a":1}');
select is(pg_temp.stands('p:1'), 'job 30, fence 1: {"a":1}',
    'and publishes over it');

select is_empty('select * from t.violations', 'nothing is violated');

-- check.sql sees one that took another fence.
set local session_replication_role = replica;
update interlock.results set fence = 9 where job_id = t.rid(33);
select results_eq('select check_name from t.violations',
    $$values ('result of no attempt, but not of its job''s last fence')$$,
    'another fence would be seen');

select * from finish();
rollback;
