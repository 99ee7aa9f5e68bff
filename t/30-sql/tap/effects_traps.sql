-- effects_traps.sql: what goes wrong between a worker and a provider, case by
-- case.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.providers();
select t.kind('k', '{"overlap":"allow","lease_seconds":60}');

create function pg_temp.job(p_key text, p_who text) returns text
language sql as $$
    select decision from t.submit('k', p_key);
    select t.take(p_who, 'k')
$$;
-- The worker is lost, and another one takes its job.
create function pg_temp.lost(p_who text, p_next text) returns text
language sql as $$
    select t.expire(p_who);
    select status from interlock.recover(10);
    select t.take(p_next, 'k')
$$;
create function pg_temp.wrong() returns bigint language sql as $$
    select count(*) from interlock.effects_history
    where contradiction is not null
$$;

-- Round 1 acted, its answer was lost, and what was sent again is refused: a
-- gateway's 429 says nothing about the first.
select pg_temp.job('t:1', 'a');
select t.begin('a', 'charge');
select is((select state from t.outcome('a', 'charge', 'unknown')),
    'unknown', 'a timeout');
select results_eq(
    $$select decision, idempotency_key = effect_id || '-1'
      from t.begin('a', 'charge')$$, $$values ('send', true)$$,
    'keys honoured: sent again under the same key');
select is((select state from t.outcome('a', 'charge', 'failed',
    p_status => 429)), 'unknown', 'a refusal of that one settles nothing');
select results_eq(
    $$select decision, idempotency_key = effect_id || '-1'
      from t.begin('a', 'charge')$$, $$values ('send', true)$$,
    'and again under the same key');
select is((select state from t.outcome('a', 'charge', 'confirmed', 'ch_1')),
    'confirmed', 'which the provider answers for the first');
select is(pg_temp.wrong(), 0::bigint, 'it happened once');

-- A sole send that was refused is a definite no, however late.
select pg_temp.job('t:2', 'a');
select t.begin('a', 'c2');
select is((select state from t.outcome('a', 'c2', 'failed',
    p_status => 402)), 'failed', 'the only send was refused');
select t.begin('a', 'c2');
select t.older('c2', '6 s');
select results_eq('select * from t.overdue()', $$values ('c2 unknown')$$,
    'the second round''s deadline passed, under a live owner');
select is((select state from t.outcome('a', 'c2', 'failed')), 'failed',
    'its late word settles it: it was the only one of its round');

-- A paused sender of round 1 confirms after round 2 was confirmed.
select pg_temp.job('t:3', 'a');
select t.begin('a', 'c3', 'sure');
select is(pg_temp.lost('a', 'b'), 'nothing', 'its job waits for the effect');
select t.older('c3', '100 s');
select is(t.look('c3', 'not_found'), 'not_found', 'nothing is there');
select is(t.state('c3'), 'failed round 1', 'the provider is believed');
select is(t.take('b', 'k'), 't:3 fence 2', 'the job goes on');
select results_eq(
    $$select decision, idempotency_key = effect_id || '-2'
      from t.begin('b', 'c3', 'sure')$$, $$values ('send', true)$$,
    'a new round, under another key');
select t.outcome('b', 'c3', 'confirmed', 'ch_2');
select results_eq(
    $$select outcome, state from t.outcome('a', 'c3', 'confirmed', 'ch_1')$$,
    $$values ('ok', 'confirmed')$$, 'the paused one is heard');
select results_eq(
    $$select contradiction, provider_ref, round from
      interlock.effects_history where contradiction is not null$$,
    $$values ('confirmed_twice', 'ch_1', 2)$$, 'as a duplicate, shown');
select t.outcome('a', 'c3', 'confirmed', 'ch_1');
select is(pg_temp.wrong(), 1::bigint, 'counted once');
select is((t.effect('c3')).provider_ref, 'ch_2',
    'what was confirmed first stands');
select is((select value from interlock.stats() where name =
    'duplicate_side_effect_total' and labels::json ->> 'effect_kind' =
    'sure'), 1::float8, 'the metric has moved');
select matches((select doc from interlock.effect_get(t.demo(),
    (t.effect('c3')).id)), '"duplicates" : 1', 'the effect shows it');

-- The same, but round 2 is under way: how it ends decides.
select pg_temp.job('t:4', 'a');
select t.begin('a', 'c4', 'sure');
select pg_temp.lost('a', 'b');
select t.older('c4', '100 s');
select t.look('c4', 'not_found');
select t.take('b', 'k');
select t.begin('b', 'c4', 'sure');
select is((select state from t.outcome('a', 'c4', 'confirmed', 'ch_1')),
    'intended', 'round 1 did happen, while round 2 is under way');
select is((select decision from t.begin('b', 'c4', 'sure')), 'in_progress',
    'which may have left already');
select is((select state from t.outcome('b', 'c4', 'failed')), 'confirmed',
    'refused: then it happened in round 1');
select results_eq(
    $$select confirmed_round, (select contradiction from
          interlock.effects_history h where h.effect_id = e.id
          and contradiction is not null) from t.effect('c4') e$$,
    $$values (1, 'confirmed_after_failed')$$, 'against what was settled');

-- A look-up that started before what was sent again, and ends after it.
select t.effect_kind('both', '{"idempotent":true,"key_window":3600,
    "send_deadline":5,"authoritative":true,"settle_after":5,
    "lookup":{"type":"worker"}}');
select pg_temp.job('t:5', 'a');
select t.begin('a', 'c5', 'both');
select t.outcome('a', 'c5', 'unknown');
select t.older('c5', '100 s');
create temp table seq as select (t.effect('c5')).seq as n;
select t.begin('a', 'c5', 'both');
select is(t.look('c5', 'not_found', p_seq => (select n from seq)), 'gone',
    'settles nothing');
select is(t.state('c5'), 'intended round 1', 'while it is under way');
select t.outcome('a', 'c5', 'unknown');
select is(t.look('c5', 'not_found', p_seq => (select n from seq)), 'gone',
    'nor after it');
select is(t.look('c5', 'found', 'ref', p_seq => (select n from seq)),
    'gone', 'whatever it says');
select is(t.look('c5', 'not_found'), 'again',
    'one of now does not either: settle_after has not passed');
select t.older('c5', '6 s');
select is(t.look('c5', 'not_found', p_started => clock_timestamp()
    - interval '3 s'), 'again', 'nor one that began before it had');
select is(t.look('c5', 'not_found'), 'not_found', 'one that begins now does');

-- "Not there", where it proves nothing.
select pg_temp.job('t:6', 'a');
select t.begin('a', 'c6', 'ask');
select t.outcome('a', 'c6', 'unknown');
select t.older('c6', '1 day');
select is(t.look('c6', 'not_found'), 'again', 'not there: not believed');
select is((select decision from t.begin('a', 'c6', 'ask')), 'check_first',
    'it is being looked up');
select is(t.look('c6', 'unclear'), 'again', 'unclear');
select is(t.look('c6', 'exhausted'), 'exhausted', 'the last one');
select is((select decision from t.begin('a', 'c6', 'ask')), 'needs_human',
    'a human decides');
select is(t.look('c6', 'found', 'm_1', p_seq => (t.effect('c6')).seq - 1),
    'gone', 'what was asked before that says nothing any more');
select is(t.look('c6', 'found', 'm_1'), 'found',
    'but a look-up after it may find it');
select is((t.effect('c6')).provider_ref, 'm_1', 'with its reference');

-- Complete, fail, release and cancel with an open send.
select pg_temp.job('o:complete', 'a');
select t.begin('a', 'o1', 'mute');
select t.finish('a', 'complete');
select is(t.state('o1'), 'unknown round 1', 'complete');
select pg_temp.job('o:fail', 'a');
select t.begin('a', 'o2', 'mute');
select is((select status from t.finish('a', 'fail')), 'checking',
    'fail: the job waits');
select is(t.state('o2'), 'unknown round 1', 'fail');
select pg_temp.job('o:release', 'a');
select t.begin('a', 'o3', 'mute');
select is((select status from t.finish('a', 'release')), 'checking',
    'release: the job waits');
select is(t.state('o3'), 'unknown round 1', 'release');
select pg_temp.job('o:cancel', 'a');
select t.begin('a', 'o4', 'mute');
select interlock.job_cancel(t.demo(), job, 'me', 'why', 1, 't')
from t.held where who = 'a';
select is(t.state('o4'), 'intended round 1',
    'cancel: what has begun may be told');
select is((select outcome from t.begin('a', 'o5', 'mute')), 'job-canceled',
    'nothing more begins');
select is((select status from t.finish('a', 'fail')), 'canceled', 'it ends');
select is(t.state('o4'), 'unknown round 1', 'cancel');
select is((select state from t.outcome('a', 'o4', 'confirmed')),
    'confirmed', 'and is told after that');
select is((select count(*)::int from interlock.sends
    where outcome is null), 0, 'no send is open');
select pg_temp.job('o:keys', 'a');
select t.begin('a', 'o6');
select is((select status from t.finish('a', 'release')), 'queued',
    'keys honoured: its own retry may repeat it');

-- Lost, late, and lost for good.
select t.take('x', 'k');
select t.finish('x', 'complete');
select pg_temp.job('l:1', 'a');
select t.begin('a', 'l1', 'mute');
select t.expire('a');
select is((select status from interlock.recover(10)), 'checking', 'lost');
select is_empty($$select * from t.overdue() where overdue like 'l1%'$$,
    'its owner may speak until the deadline');
select is((select decision from t.begin('a', 'l1', 'mute')), null,
    'but begin nothing');
select results_eq(
    $$select outcome, state, wake_kinds
      from t.outcome('a', 'l1', 'confirmed', 'x')$$,
    $$values ('ok', 'confirmed', array['k'])$$,
    'its late word settles it, and the job goes on');
select t.take('b', 'k');
select is((select decision from t.begin('b', 'l1', 'mute')),
    'already_confirmed', 'it is not sent again');
select t.begin('b', 'l2', 'mute');
select t.expire('b');
select interlock.recover(10);
select t.older('l2', '5 s');
select is((select string_agg(x, ',') from t.overdue() x
    where x like 'l2%'), 'l2 needs_human', 'never sent again by itself');
select is((select status from interlock.jobs where work_key = 'l:1'),
    'checking', 'its job waits for the human');

-- A human was wrong.
select is((select problem from t.resolve('l2', 'not_happened')), null,
    'a human says that it did not happen');
select is((select state from t.outcome('b', 'l2', 'confirmed', 'm1')),
    'confirmed', 'its sender says that it did');
select is((select contradiction from interlock.effects_history
    where effect_id = (t.effect('l2')).id and contradiction is not null),
    'confirmed_after_failed', 'a contradiction');
select t.take('c', 'k');
select is((select decision from t.begin('c', 'l2', 'mute')),
    'already_confirmed', 'and nobody sends it again');

-- The only send says no after it was found there.
select t.begin('c', 'l3', 'ask');
select t.outcome('c', 'l3', 'unknown');
select t.look('l3', 'found');
select is((select state from t.outcome('c', 'l3', 'failed')), 'confirmed',
    'refused, but it was found');
select is((select contradiction from interlock.effects_history
    where effect_id = (t.effect('l3')).id and contradiction is not null),
    'failed_after_confirmed', 'a contradiction');

-- The provider's memory of our key ends.
select t.begin('c', 'l4', 'keys');
select t.outcome('c', 'l4', 'unknown');
select is((select count(*)::int from t.overdue() x where x like 'l4%'), 0,
    'within the window nobody is asked');
select t.older('l4', '3596 s');
select is((select decision from t.begin('c', 'l4', 'keys')), 'needs_human',
    'too near its end it is not sent again');
select is((select x from t.overdue() x where x like 'l4%'),
    'l4 needs_human', 'a human is asked');

-- A paused sender, whose attempt has ended: until its deadline nobody may say
-- that nothing happened, for it may send yet.
create function pg_temp.say(p_name text, p_outcome text) returns text
language sql as $$
    select coalesce(problem || ': ' || detail, 'ok')
    from interlock.effect_resolve(t.demo(), (t.effect(p_name)).id, p_outcome,
        'me', 'why', 1, 't')
$$;
select pg_temp.job('s:1', 'a');
select t.begin('a', 's1', 'mute'), t.begin('a', 's2', 'mute'),
    t.begin('a', 's3', 'ask');
select t.expire('a');
select is((select status from interlock.recover(10)), 'checking', 'lost');
select is(t.state('s1'), 'unknown round 1', 'its sends are unclear');
select is(pg_temp.say('s1', x), 'effect-in-progress: a send may be under way '
    || 'until ' || (select interlock.ts(deadline) from interlock.sends
        where effect_id = (t.effect('s1')).id), x)
from (values ('not_happened'), ('send_again')) v (x);
select is(pg_temp.say('s2', 'happened'), 'ok',
    'that it happened may be said: nothing is sent after it');
select is((select state from t.outcome('a', 's2', 'failed')), 'confirmed',
    'but its owner says no');
select is((select contradiction from interlock.effects_history
    where effect_id = (t.effect('s2')).id and contradiction is not null),
    'failed_after_confirmed', 'a contradiction');
select t.outcome('a', 's1', 'unknown');
select is(pg_temp.say('s1', 'not_happened'), 'ok',
    'once its owner has spoken: he sends no more');
select t.look('s3', 'exhausted');
select is(t.state('s3'), 'needs_human round 1', 'looked up in vain');
select is(left(pg_temp.say('s3', 'not_happened'), 18), 'effect-in-progress',
    'a human''s already, and yet too early');
select t.older('s3', '6 s');
select is(pg_temp.say('s3', 'not_happened'), 'ok', 'after the deadline');

-- So it is with any send of the round, whatever deadline the last one has.
select t.effect_kind('slow', '{"idempotent":true,"send_deadline":60,
    "key_window":3600}');
select t.kind('long', '{"overlap":"allow","lease_seconds":600}');
select decision from t.submit('long', 's:2');
select t.take('a', 'long');
select t.begin('a', 's4', 'slow');
select t.expire('a');
select interlock.recover(10);
select t.take('b', 'long');
select t.effect_kind('slow', '{"send_deadline":5}');
select is((select decision from t.begin('b', 's4', 'slow')), 'send',
    'sent again under its key');
select t.outcome('b', 's4', 'unknown');
select is(left(pg_temp.say('s4', 'not_happened'), 18), 'effect-in-progress',
    'the first sender may still send');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
