-- effects.sql: begin and outcome: what they do, what they refuse, and what a
-- repeated call gets.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.providers();
select t.kind('k', '{"overlap":"allow","lease_seconds":20,"cancel_grace":9}');
select t.kind('w', '{"overlap":"allow","effect_scope":"work"}');
select t.kind('r', '{"overlap":"allow","when_completed":"return"}');

select submit.ord from t.submit('k', 'e:1');
select t.take('a', 'k');

-- A begin.
select results_eq(
    $$select outcome, decision, state, key_header, outcome_map, work_key,
          deadline_ms between 4000 and 5000, send_id is not null,
          idempotency_key = effect_id || '-1'
      from t.begin('a', 'charge', 'keys', 'd1', 'cus_1')$$,
    $$values ('ok', 'send', 'intended', 'Idempotency-Key', null::text,
              'e:1', true, true, true)$$, 'the first begin may send');
select results_eq(
    $$select state, scope_kind, target, sends, round, seq,
          digest = convert_to('d1', 'UTF8') from t.effect('charge')$$,
    $$values ('intended', 'job', 'cus_1', 1, 1, 1::bigint, true)$$,
    'the intent is stored');

-- A lost answer.
create temp table first as select * from t.sent;
select is((select send_id from t.begin('a', 'charge', 'keys', 'd1')),
    (select send from first), 'the answer was lost: the same send');
select is((select count(*)::int from interlock.sends), 1, 'there is one');
select is((select repeats from interlock.sends), 1,
    'which may have gone out twice');
select is((select decision from t.begin('a', 'charge', 'keys', 'd1',
    p_call => t.rid(1))), 'in_progress',
    'but not for a call that sends by itself');
select is((select decision from t.begin('a', 'mail', 'mute',
    p_call => t.rid(2))), 'send', 'which has its own');
select is((select decision from t.begin('a', 'mail', 'mute',
    p_call => t.rid(2))), 'send', 'and gets it again after a lost COMMIT');
select is((select decision from t.begin('a', 'mail', 'mute',
    p_call => t.rid(3))), 'in_progress', 'another call does not');
select is((select decision from t.begin('a', 'mail', 'mute')), 'in_progress',
    'nor the worker itself');
select is((select decision from t.begin('a', 'letter', 'mute')), 'send',
    'without keys, a begin that nobody named');
select is((select decision from t.begin('a', 'letter', 'mute')),
    'in_progress', 'is not repeated: its worker may have sent already');
select t.older('charge', '6 s');
select is((select state || ' ' || decision from t.begin('a', 'charge',
    'keys', 'd1')), 'intended send', 'after the deadline: sent again');
select results_eq(
    $$select n, round, outcome, ended_by, id = (select send from first)
      from interlock.sends where effect_id = (select effect from first)
      order by n$$,
    $$values (1, 1, 'unknown', 'deadline', true),
             (2, 1, null, null, false)$$,
    'as another send of the same round');

-- Another worker of the same job's effects: there is none while it lives.
select submit.ord from t.submit('w', 'e:2', '1');
select submit.ord from t.submit('w', 'e:2', '2');
select t.take('w1', 'w'), t.take('w2', 'w');
select is((select decision from t.begin('w1', 'x')), 'send', 'a work''s');
select is((select decision from t.begin('w2', 'x')), 'in_progress',
    'its other job waits');
select is((select outcome || ' ' || detail from t.begin('w2', 'x', 'mute')),
    'effect-mismatch the effect of this name is of kind "keys"',
    'another kind');
select is((select decision from t.begin('w1', 'y', 'keys', 'A')), 'send',
    'with a digest');
select is((select outcome from t.begin('w2', 'y', 'keys', 'B')),
    'effect-mismatch', 'another request under the same name');
select is((select outcome from t.outcome('w1', 'y', 'failed')), 'ok',
    'refused by the provider');
select results_eq(
    $$select decision, idempotency_key = effect_id || '-2'
      from t.begin('w2', 'y', 'keys', 'B')$$, $$values ('send', true)$$,
    'another round may be another request, and has another key');
select t.outcome('w2', 'y', 'confirmed', 'ref-y', p_status => 201,
    p_response => 'made');
select is((select concat_ws(' ', outcome, decision, state, provider_ref,
        response_status, response_type, convert_from(response, 'UTF8'))
    from t.begin('w1', 'y', 'keys', 'B')), 'ok already_confirmed confirmed '
    'ref-y 201 text/plain made', 'confirmed: its answer');
select is((select outcome from t.begin('w1', 'y', 'keys', 'A')),
    'effect-mismatch', 'but not for another request');

-- The default scope.
select submit.ord from t.submit('r', 'e:3');
select t.take('r', 'r');
select t.begin('r', 'z');
select is((t.effect('z')).scope, 'work::e:3', 'when_completed return: work');
select submit.ord from t.submit('r', 'e:3v', version => 7);
select t.take('r', 'r');
select t.begin('r', 'z7');
select is((t.effect('z7')).scope, 'work:7:e:3v', 'with its version');
select matches((t.effect('charge')).scope, '^job:0', 'else the job');

-- Refusals, in order.
select is((select outcome from t.begin('a', '', p_fence => 9)),
    'fence-stale', 'the fence before the name');
select is((select b.outcome from t.held h, interlock.effect_begin(
    array[h.tenant], array[t.rid(9)], array[h.attempt], array[h.fence],
    array['n'], array['keys'], array[null], array[null::bytea],
    array[null::uuid]) b where h.who = 'a'), 'lease-lost', 'another job');
select is((select b.outcome from t.held h, interlock.effect_begin(
    array[interlock.tenant_create('other')], array[h.job],
    array[h.attempt], array[h.fence], array['n'], array['keys'],
    array[null], array[null::bytea], array[null::uuid]) b
    where h.who = 'a'), 'lease-lost', 'another tenant');
select is((select outcome || ': ' || detail from t.begin('a', n)),
    'effect-name-invalid: an effect''s name has 1 to 256 bytes and no '
    'controls', format('a name of %s bytes', octet_length(n)))
from (values (''), (repeat('x', 257)), (E'a\nb'), (E'a\x7f')) v (n);
select is((select outcome from t.begin('a', repeat('x', 256))), 'ok',
    '256 bytes will do');
select is((select outcome || ': ' || detail from t.begin('a', 'n', 'nix')),
    'effect-kind-unknown: no effect kind "nix"', 'an unknown kind');
select is((select outcome from t.begin('a', 'n', p_compensates => t.rid(5))),
    'compensates-unknown', 'compensating what is not there');
select is((select outcome from t.begin('a', 'undo', p_compensates =>
    (t.effect('charge')).id)), 'ok', 'compensating an effect');
select is((t.effect('undo')).compensates, (t.effect('charge')).id,
    'is stored');
select is((select outcome || ': ' || detail from t.begin('a', 'undo',
    p_compensates => (t.effect('mail')).id)), 'effect-mismatch: the effect '
    'of this name compensates another one', 'it keeps which');
select is((select count(*)::int from interlock.effects
    where name in ('n', '')), 0, 'refusals leave nothing');

-- Time.
update interlock.leases set expires_at = clock_timestamp()
    + interval '4 s' where attempt_id = (select attempt from t.held
    where who = 'a');
select is((select outcome from t.begin('a', 'late')), 'lease-too-short',
    'less of the lease remains than the send deadline');
select is((t.effect('late')).id, null, 'nothing is left of it');
select is((select decision from t.begin('a', 'charge')), 'send',
    'the send that it has it keeps');
select t.outcome('a', 'charge', 'failed');
select is((t.effect('charge')).state, 'unknown',
    'refused, but not as the round''s only send');
select is((select outcome || coalesce(decision, '-')
    from t.begin('a', 'charge')), 'lease-too-short-',
    'nor is there time for another send of an old effect');
select t.expire('a');
select is((select outcome from t.begin('a', 'late')), 'lease-expired',
    'the lease is over');
update interlock.leases set expires_at = clock_timestamp()
    + interval '9 s', cancel_requested = true, cancel_deadline =
    clock_timestamp() + interval '9 s'
where attempt_id = (select attempt from t.held where who = 'a');
update interlock.jobs set ending = true where work_key = 'e:1';
select is((select outcome from t.begin('a', 'late')), 'job-canceled',
    'asked to end');
select is((select outcome from t.begin('a', 'late', p_fence => 9)),
    'fence-stale', 'the fence before that');

-- Outcomes.
select results_eq(
    $$select outcome, replayed, state, job_id = (select job from t.held
          where who = 'w1') from t.outcome('w1', 'x', 'confirmed', 'r1')$$,
    $$values ('ok', false, 'confirmed', true)$$, 'an outcome');
select results_eq(
    $$select outcome, replayed, state
      from t.outcome('w1', 'x', 'confirmed', 'r1')$$,
    $$values ('ok', true, 'confirmed')$$, 'the same again');
select results_eq(
    $$select outcome, state from t.outcome('w1', 'x', 'failed')$$,
    $$values ('effect-conflict', 'confirmed')$$, 'the opposite');
select results_eq(
    $$select outcome, state from t.outcome('w1', 'x', 'unknown')$$,
    $$values ('ok', 'confirmed')$$, 'that it is not sure any more');
create function pg_temp.wrong(p_name text) returns text language sql as $$
    select string_agg(contradiction, ' ' order by id)
    from interlock.effects_history
    where effect_id = (t.effect(p_name)).id and contradiction is not null
$$;
select is(pg_temp.wrong('x'), 'failed_after_confirmed',
    'the opposite is counted, once');
select is((select outcome from t.outcome('w1', 'x', 'failed')),
    'effect-conflict', 'and said again');
select results_eq(
    $$select outcome, state from t.outcome('w1', 'x', 'confirmed', 'r2')$$,
    $$values ('ok', 'confirmed')$$, 'another reference is heard');
select results_eq(
    $$select outcome, replayed from t.outcome('w1', 'x', 'confirmed', 'r2')$$,
    $$values ('ok', true)$$, 'repeated, it is the same');
select t.outcome('w1', 'x', 'confirmed', 'r1');
select is(pg_temp.wrong('x'), 'failed_after_confirmed confirmed_twice',
    'it is counted: there are two');
select results_eq(
    $$select e.provider_ref, s.provider_ref
      from t.effect('x') e, interlock.sends s where s.effect_id = e.id$$,
    $$values ('r1', 'r1')$$, 'the first one stands');

-- Who said failed, and finds out that it happened.
select t.begin('w1', 'f1');
select is((select state from t.outcome('w1', 'f1', 'failed')), 'failed',
    'refused');
select results_eq(
    $$select outcome, state from t.outcome('w1', 'f1', 'confirmed', 'c1')$$,
    $$values ('ok', 'confirmed')$$, 'no, it happened');
select is((select outcome || ' ' || ended_by from interlock.sends
    where effect_id = (t.effect('f1')).id), 'confirmed owner',
    'the send, too');
select is((select decision from t.begin('w1', 'f1')), 'already_confirmed',
    'it is not sent again');
select is(pg_temp.wrong('f1'), 'confirmed_after_failed', 'a contradiction');
select is((select outcome from t.outcome('w1', 'f1', 'failed')),
    'effect-conflict', 'back again: no');

-- The same, once the next round has been sent: under way, and over.
select t.begin('w1', 'f2', 'mute');
select t.outcome('w1', 'f2', 'failed');
select t.begin('w2', 'f2', 'mute');
select results_eq(
    $$select outcome, state from t.outcome('w1', 'f2', 'confirmed', 'c1')$$,
    $$values ('ok', 'intended')$$, 'the first round happened');
select is((select state from t.outcome('w2', 'f2', 'confirmed', 'c2')),
    'confirmed', 'and the second');
select is(pg_temp.wrong('f2'), 'confirmed_twice', 'two charges are shown');
select t.begin('w1', 'f3', 'mute');
select t.outcome('w1', 'f3', 'failed');
select t.begin('w2', 'f3', 'mute');
select t.outcome('w2', 'f3', 'confirmed', 'c2');
select results_eq(
    $$select outcome, state from t.outcome('w1', 'f3', 'confirmed', 'c1')$$,
    $$values ('ok', 'confirmed')$$, 'the first round is told last');
select is(pg_temp.wrong('f3'), 'confirmed_twice', 'two charges are shown');

create function pg_temp.tell(p_tenant int, p_attempt uuid, p_effect uuid,
    p_send uuid, p_state text)
returns text language sql as $$
    select outcome from interlock.effect_outcome(array[p_tenant],
        array[p_attempt], array[p_effect], array[p_send], array[p_state],
        array[null], array[null], array[null::int], array[null],
        array[null::bytea])
$$;
select results_eq(
    $$select pg_temp.tell(h.tenant, h.attempt, t.rid(1), x.send,
          'confirmed'),
        pg_temp.tell(interlock.tenant_create('other'), h.attempt, x.effect,
            x.send, 'confirmed'),
        pg_temp.tell(h.tenant, h.attempt, x.effect, null, 'confirmed'),
        pg_temp.tell(h.tenant, h.attempt, x.effect, t.rid(1), 'confirmed'),
        pg_temp.tell(h.tenant, h.attempt, (t.effect('mail')).id, x.send,
            'confirmed'),
        pg_temp.tell(h.tenant, t.rid(1), x.effect, x.send, 'confirmed'),
        pg_temp.tell(h.tenant, h.attempt, x.effect, x.send, 'maybe'),
        pg_temp.tell(h.tenant, h.attempt, x.effect, x.send, null)
      from t.held h, t.sent x
      where h.who = 'w1' and x.who = 'w1' and x.name = 'x'$$,
    $$values ('not-found', 'not-found', 'send-unknown', 'send-unknown',
        'send-unknown', 'send-not-yours', 'state-invalid',
        'state-invalid')$$, 'outcomes that are none');

-- Unknown, then known.
select t.begin('w1', 'u', 'mute');
select is((select state from t.outcome('w1', 'u', 'unknown')), 'unknown',
    'unclear');
select is((select state from t.outcome('w1', 'u', 'confirmed', 'r')),
    'confirmed', 'its owner found out');
select t.begin('w1', 'big');
select is((select outcome from t.outcome('w1', 'big', 'confirmed',
    p_status => 200, p_response => repeat('x', 65537))), 'ok',
    'an answer that is too long to keep');
select results_eq(
    $$select response_status, response is null from t.effect('big')$$,
    $$values (200, true)$$, 'its status is kept');

-- A batch: in order, each on its own.
select results_eq(
    $$select b.ord, b.outcome, b.decision from t.held h,
          interlock.effect_begin(array_fill(h.tenant, array[4]),
              array_fill(h.job, array[4]), array_fill(h.attempt, array[4]),
              array[h.fence, 9, h.fence, h.fence], array['b', 'b', 'a', 'b'],
              array_fill('keys'::text, array[4]),
              array_fill(null::text, array[4]),
              array_fill(null::bytea, array[4]),
              array_fill(null::uuid, array[4]),
              array[t.rid(1), t.rid(2), t.rid(3), t.rid(4)]) b
      where h.who = 'w1'$$,
    $$values (1, 'ok', 'send'), (2, 'fence-stale', null), (3, 'ok', 'send'),
             (4, 'ok', 'in_progress')$$, 'a batch of begins');

-- What the schema holds, whatever a function does.
select throws_ok($$update interlock.effects_history set detail = 'x'$$,
    '23000', null, 'history stays');
select throws_ok('delete from interlock.effects_history', '23000', null,
    'all of it');
select throws_ok($$update interlock.effects set state = 'unknown',
    seq = seq + 1, unknown_since = now(), confirmed_round = null
    where name = 'x'$$, '23000', null, 'confirmed stays confirmed');
select throws_ok($$update interlock.effects set round = 2, seq = seq + 1
    where name = 'x'$$, '23000', null,
    'a round grows after a definite no only');
select throws_ok($$update interlock.sends set outcome = 'failed'
    where id = (select send from t.sent where name = 'x')$$, '23000', null,
    'a send keeps its outcome');
select throws_ok($$update interlock.effects set name = 'y'
    where name = 'x'$$, '23000', null, 'an effect keeps its name');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
