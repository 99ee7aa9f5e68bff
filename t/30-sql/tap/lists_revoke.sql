-- lists_revoke.sql: a lease that is taken away by a person is lost.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.providers();
select t.kind('one', '{"overlap":"skip"}');
select t.kind('few', '{"overlap":"skip","max_attempts":1}');
select t.kind('hold', '{"overlap":"skip","on_lost":"hold"}');
select t.kind('all', '{"overlap":"buffer_all"}');
select t.kind('lim', '{"overlap":"skip","limits":["r"]}');
select interlock.limit_put(t.demo(), 'r', '{"capacity":1}');

create function pg_temp.revoke(p_job bigint, p_call bigint default null,
    p_tenant text default 'demo', p_by text default 'dana')
returns table (problem text, detail text, status text, wake text[],
    ended uuid[]) language sql as $$
    select r.problem, r.detail, r.doc::json ->> 'status', r.wake_kinds,
        r.ended_jobs
    from interlock.job_revoke(interlock.tenant_create(p_tenant),
        t.rid(p_job), p_by, 'it hangs', 7, 'desk', t.rid(p_call)) r
$$;

-- What is refused.
select t.submit('one', 'k:1', id => 1);
select results_eq($$select problem, detail from pg_temp.revoke(99)$$,
    $$values ('not-found', 'no such job')$$, 'no such job');
select results_eq($$select problem, detail, status from pg_temp.revoke(1)$$,
    $$values ('job-not-running', 'the job is queued', 'queued')$$,
    'nobody has it');
select is((select problem from pg_temp.revoke(1, p_by => ' ')),
    'field-invalid', 'by nobody');
select is((select count(*)::int from interlock.actions), 0,
    'and leaves no word');

-- The lease goes; the job runs again.
select t.take('w', 'one');
select is((select problem from pg_temp.revoke(1, p_tenant => 'other')),
    'not-found', 'not from another tenant');
select results_eq($$select * from pg_temp.revoke(1, 800)$$,
    $$values (null::text, null::text, 'queued', array['one'], '{}'::uuid[])$$,
    'it is queued again, and a worker may be told');
select results_eq($$select call, status, error, retryable, fence
    from interlock.attempts$$,
    $$values ('lost', 'queued', 'lease taken away by dana: it hangs', true,
      1::bigint)$$, 'its attempt was lost');
select is((select count(*)::int from interlock.leases), 0, 'no lease');
select is((select outcome from t.finish('w', 'complete', '{"late":true}')),
    'lease-lost', 'its owner is refused');
select is((select result ->> 'late' from interlock.refused_results), 'true',
    'what it brought is kept as evidence');
select is((select outcome from t.renew('w')), 'lease-lost', 'always');
select results_eq(
    $$select what, target, token_id, token_name, requested_by, reason,
          work_key, detail ->> 'worker', detail ->> 'fence'
      from interlock.actions$$,
    $$values ('job_revoke', t.rid(1)::text, 7::bigint, 'desk', 'dana',
      'it hangs', 'k:1', 'w', '1')$$, 'who did it, and why');
select results_eq($$select * from pg_temp.revoke(1, 800)$$,
    $$values (null::text, null::text, 'queued', array['one'], '{}'::uuid[])$$,
    'the same call again');
select is(t.take('v', 'one'), 'k:1 fence 2', 'another one takes it');
select is((select status from pg_temp.revoke(1, 800)), 'running',
    'whom that call does no harm');
select is((select count(*)::int from interlock.actions), 1, 'once');
select t.finish('v', 'complete');
select results_eq($$select problem, detail from pg_temp.revoke(1)$$,
    $$values ('job-final', 'the job is succeeded')$$, 'it is over');

-- What its kind says about a loss.
select t.submit('few', 'f:1', id => 2);
select t.take('w', 'few');
select results_eq($$select status, ended from pg_temp.revoke(2)$$,
    $$values ('failed', array[t.rid(2)])$$, 'the last attempt');
select t.submit('hold', 'h:1', id => 3);
select t.take('w', 'hold');
select results_eq($$select status, wake from pg_temp.revoke(3)$$,
    $$values ('held', '{}'::text[])$$, 'a person decides');

-- One that was asked to end is over, and the next one goes on.
select t.submit('all', 'a:1', 'A', id => 4);
select t.submit('all', 'a:1', 'B', id => 5);
select t.take('w', 'all');
select interlock.job_cancel(t.demo(), t.rid(4), 'a', 'b', 1, 'c');
select results_eq($$select status, wake, ended from pg_temp.revoke(4)$$,
    $$values ('canceled', array['all'], array[t.rid(4)])$$, 'canceled');
select is(t.take('w', 'all'), 'a:1 fence 2', 'the next one runs');

-- What it was sending is unknown; what was settled stays.
select t.begin('w', 'told', 'mute');
select t.outcome('w', 'told', 'confirmed', 'ref');
select t.begin('w', 'mail', 'ask');
select is((select status from pg_temp.revoke(5)), 'checking',
    'it waits until that is settled');
select is(t.state('mail'), 'unknown round 1', 'what was under way is unknown');
select is(t.state('told'), 'confirmed round 1',
    'what was confirmed is');
select is((select count(*)::int from interlock.checks
    where target = (t.effect('mail')).id), 1, 'and looked up');

-- Room in a limit goes to who waits for it.
select t.submit('lim', 'l:' || x, id => 10 + x) from generate_series(1, 2) x;
select t.take('w', 'lim');
select is(t.take('v', 'lim'), 'nothing', 'one at a time');
select is((select wake from pg_temp.revoke(11)), array['lim'],
    'there is room');
select is(t.take('v', 'lim') ~ '^l:', true, 'for the next');

-- A look-up by a worker that hangs.
select t.kind('result-check', '{"overlap":"skip"}');
select t.lost('c:1', 30, 'worker');
select count(*) from interlock.checks_hand_out(9);
select is(t.take('w', 'result-check') ~ '^result-check:', true,
    'a worker looks');
select is((select problem from interlock.job_revoke(t.demo(),
    (select job from t.held where who = 'w'), 'dana', 'slow', 7, 'desk')),
    null, 'and is sent away');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
