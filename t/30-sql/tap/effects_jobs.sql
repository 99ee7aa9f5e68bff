-- effects_jobs.sql: what effects mean for jobs, keys and lines: waiting for
-- them, going on, scopes, delivery, and what is shown of them.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.providers();
select t.kind('one', '{"overlap":"buffer_one","effect_scope":"work","delivery_effects":["mail"]}');
select t.kind('all', '{"overlap":"buffer_all"}');
select t.kind('rep', '{"overlap":"replace"}');
select t.kind('ret', '{"overlap":"buffer_one","when_completed":"return","allow_fresh":true}');
select t.kind('few', '{"overlap":"skip","max_attempts":1}');

create function pg_temp.job(p_key text) returns text language sql as $$
    select concat_ws(' ', status, place, waits_on) from interlock.jobs
    where work_key = p_key order by created_at desc limit 1
$$;

-- Waiting for a human, and going on.
select submit.ord from t.submit('all', 'j:1', 'A', id => 1);
select t.take('a', 'all');
select submit.ord from t.submit('all', 'j:1', 'B', id => 2);
select t.begin('a', 'mail', 'mute');
select t.outcome('a', 'mail', 'unknown');
select is((select status from t.finish('a', 'release')), 'checking',
    'what it sent is unclear: it waits');
select is((select status from t.finish('a', 'release')), 'checking',
    'a repeated call gets the first answer');
select t.overdue();
select is(t.take('b', 'all'), 'nothing', 'nobody runs meanwhile');
select results_eq(
    $$select problem, wake_kinds, ended_jobs
      from t.resolve('mail', 'send_again')$$,
    $$values (null::text, array['all'], '{}'::uuid[])$$,
    'a human lets it send again');
select is(t.take('b', 'all'), 'j:1 fence 2', 'it goes on before the other');
select is((select idempotency_key like '%-2' from t.begin('b', 'mail',
    'mute')), true, 'in a new round');
select t.outcome('b', 'mail', 'confirmed');
select is((select wake_kinds from t.finish('b', 'complete')),
    array['all'], 'then the other');
select is(t.take('c', 'all'), 'j:1 fence 3', 'which has effects of its own');
select is((select decision from t.begin('c', 'mail', 'mute')), 'send',
    'two orders of one customer: two mails');
select t.outcome('c', 'mail', 'confirmed');
select t.finish('c', 'complete');

-- A rerun of either sends none: its scope is the first job.
select submit.ord from t.submit('all', 'j:1', 'A', id => 3);
update interlock.jobs set rerun_of = t.rid(1) where id = t.rid(3);
select t.take('a', 'all');
select is((select decision from t.begin('a', 'mail', 'mute')),
    'already_confirmed', 'a rerun sends nothing again');
select t.finish('a', 'complete');
select submit.ord from t.submit('all', 'j:1', 'A', id => 4);
update interlock.jobs set rerun_of = t.rid(3) where id = t.rid(4);
select t.take('a', 'all');
select is((select decision from t.begin('a', 'mail', 'mute')),
    'already_confirmed', 'nor does the rerun of a rerun');
select t.finish('a', 'complete');

-- The scope of a work: reruns, fresh runs and later jobs share it.
select submit.ord from t.submit('ret', 'r:1', 'A');
select t.take('a', 'ret');
select t.begin('a', 'post', 'keys');
select t.outcome('a', 'post', 'confirmed', 'p1');
select t.finish('a', 'complete');
select submit.ord from t.submit('ret', 'r:1', 'A', fresh => true);
select t.take('a', 'ret');
select is((select decision || ' ' || provider_ref from t.begin('a', 'post',
    'keys')), 'already_confirmed p1', 'a fresh run sends nothing again');
select t.finish('a', 'complete');
select submit.ord from t.submit('ret', 'r:1', 'A', version => 2);
select t.take('a', 'ret');
select is((select decision from t.begin('a', 'post', 'keys')), 'send',
    'another version of the work does');
select t.finish('a', 'complete');

-- A line is held while its scope has an unsettled effect.
select submit.ord from t.submit('one', 'h:1', 'A', id => 11);
select t.take('a', 'one');
select submit.ord from t.submit('one', 'h:1', 'B', id => 12);
select t.begin('a', 'mail', 'keys');
select is((select status from t.finish('a', 'complete')), 'succeeded',
    'generated');
select is(pg_temp.job('h:1'), 'queued blocked effects',
    'the next one is held, although the key would be known again');
select is(t.take('b', 'one'), 'nothing', 'nobody runs');
select results_eq(
    $$select doc::json ->> 'generated', doc::json ->> 'delivery'
      from interlock.job_get(array[t.demo()], array[t.rid(11)])$$,
    $$values ('true', 'pending')$$, 'generated, not delivered');
select results_eq(
    $$select outcome, wake_kinds from t.outcome('a', 'mail', 'confirmed')$$,
    $$values ('ok', array['one'])$$, 'settled: the line goes on');
select is(t.take('b', 'one'), 'h:1 fence 2', 'it runs');
select is((select doc::json ->> 'delivery' from interlock.job_get(
    array[t.demo()], array[t.rid(11)])), 'delivered', 'delivered');
select is((select decision from t.begin('b', 'mail', 'keys')),
    'already_confirmed', 'and does not send it again');
select t.finish('b', 'complete');
select is((select interlock.job_delivery(j) from interlock.jobs j
    where j.id = t.rid(1)), null, 'no list: not applicable');

-- buffer_one: the waiting one takes over, but not before it is settled.
select submit.ord from t.submit('one', 'h:2', 'A', id => 21);
select t.take('a', 'one');
select t.begin('a', 'mail', 'ask');
select submit.ord from t.submit('one', 'h:2', 'B', id => 22);
select t.expire('a');
select results_eq('select status, runnable_kind from interlock.recover(9)',
    $$values ('superseded', null::text)$$, 'the lost one gives way');
select is(pg_temp.job('h:2'), 'queued blocked effects', 'the other is held');
select results_eq(
    $$select outcome, wake_kinds, ended_jobs from
      interlock.effect_looked_up(t.demo(), (t.effect('mail')).id,
          (t.effect('mail')).seq, 'found', null, 'm', clock_timestamp())$$,
    $$values ('found', array['one'], '{}'::uuid[])$$, 'found');
select is(pg_temp.job('h:2'), 'queued ready', 'it goes on');
select t.take('a', 'one');
select t.finish('a', 'complete');

-- At the last attempt it fails, and what it sent is looked up all the same.
select submit.ord from t.submit('few', 'f:1');
select t.take('a', 'few');
select t.begin('a', 'last', 'ask');
select t.expire('a');
select is((select status from interlock.recover(9)), 'failed', 'failed');
select is((select count(*)::int from interlock.checks c where c.target =
    (t.effect('last')).id), 1, 'its effect is looked up');
select is(t.look('last', 'found'), 'found', 'and found');
select is(pg_temp.job('f:1'), 'failed', 'a failed job stays so');
select is((select count(*)::int from interlock.checks c where c.target =
    (t.effect('last')).id), 0, 'nobody asks any more');

-- Canceled while checking.
select submit.ord from t.submit('all', 'c:1', id => 31);
select t.take('a', 'all');
select t.begin('a', 'cm', 'ask');
select t.expire('a');
select interlock.recover(9);
select is((select problem from interlock.job_cancel(t.demo(), t.rid(31),
    'me', 'why', 1, 't')), null, 'cancel while it is checked');
select is(pg_temp.job('c:1') || ' ' || t.state('cm'),
    'canceled unknown round 1', 'the effect is looked up all the same');
select is(t.look('cm', 'found'), 'found', 'and settled');
select is(pg_temp.job('c:1'), 'canceled', 'which changes nothing for it');

-- Replace, once the running job has begun something.
select submit.ord from t.submit('rep', 'p:1', 'A');
select t.take('a', 'rep');
select is((select decision from t.submit('rep', 'p:1', 'B')), 'replaced',
    'nothing was begun: replaced');
select is((select outcome from t.begin('a', 'x')), 'job-canceled',
    'and nothing begins any more');
select is((select count(*)::int from interlock.effects where name = 'x'),
    0, 'nothing left');
select t.finish('a', 'fail');
select t.take('a', 'rep');
select t.begin('a', 'x');
select t.outcome('a', 'x', 'failed');
select is((select decision from t.submit('rep', 'p:1', 'C')), 'replaced',
    'what was begun has definitely failed: replaced');
select t.finish('a', 'fail');
select t.take('a', 'rep');
select t.begin('a', 'y');
select results_eq(
    $$select decision, reason from t.submit('rep', 'p:1', 'D')$$,
    $$values ('buffered', 'effects_started')$$, 'begun: it waits');
select t.outcome('a', 'y', 'confirmed');
select results_eq(
    $$select decision, reason from t.submit('rep', 'p:1', 'E')$$,
    $$values ('buffered', 'effects_started')$$, 'so it does when confirmed');
select t.finish('a', 'complete');

-- What a human may say, and what not.
select submit.ord from t.submit('few', 'u:1');
select t.take('a', 'few');
select t.begin('a', 'u1', 'mute');
select results_eq(
    $$select problem from t.resolve('u1', 'happened')$$,
    $$values ('effect-in-progress')$$, 'a send is under way');
select t.older('u1', '6 s');
select is((select p.problem || ' ' || p.detail from interlock.effect_resolve(
    t.demo(), (t.effect('u1')).id, o, w, y, 1, 't') p),
    'field-invalid ' || d, coalesce(d, '')) from (values
    ('happened', '', 'why', '"requested_by" is missing: who decides so'),
    ('happened', null, 'why', '"requested_by" is missing: who decides so'),
    ('happened', '   ', 'why', '"requested_by" is missing: who decides so'),
    ('happened', U&'\00a0\200b\3000', 'why', '"requested_by" is missing: who decides so'),
    ('happened', 'me', '', '"reason" is missing: why it is decided so'),
    ('happened', 'me', E' \t\n', '"reason" is missing: why it is decided so'),
    ('maybe', 'me', 'why',
     '"outcome" must be one of happened, not_happened, send_again')
) v (o, w, y, d);
select is((select problem from interlock.effect_resolve(
    interlock.tenant_create('other'), (t.effect('u1')).id, 'happened', 'me',
    'why', 1, 't')), 'not-found', 'another tenant''s effect');
select is((select problem from interlock.effect_check_now(t.demo(),
    (t.effect('u1')).id, 'me', 'why', 1, 't')), 'check-not-possible',
    'nobody can look');
select is((select problem from t.resolve('u1', 'happened')), null,
    'after its deadline a human may');
select is(t.state('u1'), 'confirmed round 1', 'confirmed');
select is((select problem from t.resolve('u1', 'not_happened')),
    'effect-settled', 'once');
select is((select problem from interlock.effect_check_now(t.demo(),
    (t.effect('u1')).id, 'me', 'why', 1, 't')), 'effect-settled',
    'then there is nothing to check');
select results_eq(
    $$select what, requested_by, reason, token_id, token_name, said
      from interlock.effects_history where effect_id = (t.effect('u1')).id
          and what = 'resolve'$$,
    $$values ('resolve', 'somebody', 'because', 1::bigint, 'token',
              'happened')$$, 'who and why stay');
select results_eq(
    $$select what, requested_by, reason, detail::text from interlock.actions
      where target = (t.effect('u1')).id::text$$,
    $$values ('effect_resolve', 'somebody', 'because', '{"outcome" : '
        || '"happened", "before" : "intended", "after" : "confirmed"}')$$,
    'as an action');

-- Send again, while the provider would know the key: the same round.
select t.begin('a', 'u2', 'keys');
select t.outcome('a', 'u2', 'unknown');
select t.resolve('u2', 'send_again');
select is(t.state('u2'), 'unknown round 1', 'send again under the same key');
select is((select idempotency_key like '%-1' from t.begin('a', 'u2')), true,
    'which is safe');
select t.outcome('a', 'u2', 'unknown');
select t.older('u2', '1 hour');
select t.resolve('u2', 'send_again');
select is((select idempotency_key like '%-2' from t.begin('a', 'u2')), true,
    'later it is a new one');

-- Check now.
select t.begin('a', 'u3', 'ask');
select t.outcome('a', 'u3', 'unknown');
update interlock.checks set due_at = due_at + interval '1 hour'
where target = (t.effect('u3')).id;
select is((select problem from interlock.effect_check_now(t.demo(),
    (t.effect('u3')).id, null, null, 1, 't')), null, 'check now');
select is((select due_at <= clock_timestamp() from interlock.checks
    where target = (t.effect('u3')).id), true, 'is due');
select is((select vars::jsonb - 'effect_id' - 'idempotency_key' - 'job_id'
    from interlock.checks where target = (t.effect('u3')).id),
    '{"kind":"ask","name":"u3","round":"1","target":null,"tenant":"demo",
      "work_key":"u:1","provider_ref":null}', 'asks about it');

-- What is shown.
select is((select doc::json ->> 'effects' from interlock.work_get(t.demo(),
    'u:1')), '{ "confirmed" : 1, "intended" : 1, "unknown" : 1 }',
    'the work''s effects');
select is((select json_agg(x ->> 'name' || ' ' || (x ->> 'state'))::text
    from json_array_elements(interlock.effects_of_scope(t.demo(),
        (select job from t.held where who = 'a'))) x),
    '["u1 confirmed", "u2 intended", "u3 unknown"]', 'those of a scope');
select results_eq(
    $$select doc::json ->> 'name' from interlock.effects_list(t.demo(),
          'u:1', null, null, null, null, 2, null)$$,
    $$values ('u3'), ('u2')$$, 'the list, newest first');
select results_eq(
    $$select doc::json ->> 'name' from interlock.effects_list(t.demo(),
          'u:1', null, null, null, null, 2, (select min(cursor) from
          interlock.effects_list(t.demo(), 'u:1', null, null, null, null, 2,
              null)))$$,
    $$values ('u1')$$, 'its second page');
select is((select count(*)::int from interlock.effects_list(t.demo(), null,
    'confirmed', 'mute', null, null, 200, null)), 3, 'by state and kind');
select is((select count(*)::int from interlock.effects_list(t.demo(), null,
    null, null, now() - interval '1 h', now() + interval '1 h', 200, null)),
    (select count(*)::int from interlock.effects), 'by time');
select is_empty($$select * from interlock.effects_list(t.demo(), null, null,
    null, null, now() - interval '1 h', 9, null)$$, 'until');
select is_empty($$select * from interlock.effects_list(t.demo(), null, null,
    null, now() + interval '1 h', null, 9, null)$$, 'since');
select is_empty($$select * from interlock.effects_list(t.demo(), null, null,
    null, null, null, 9, 'x')$$, 'a cursor that is none');
select is_empty($$select * from interlock.effects_list(
    interlock.tenant_create('other'), 'u:1', null, null, null, null, 9,
    null)$$, 'tenants are apart');
select is_empty($$select * from interlock.effect_get(
    interlock.tenant_create('other'), (t.effect('u1')).id)$$,
    'so is one of them');
select is((select string_agg(x ->> 'state', ' ')
    from interlock.effect_get(t.demo(), (t.effect('u1')).id) d,
        json_array_elements(d.doc::json -> 'history') x),
    'intended unknown confirmed', 'one with its history');
select is((select string_agg(doc ->> 'what' || ' ' || (doc ->> 'name'), ', '
    order by at, doc ->> 'seq') from interlock.audit_effects(t.demo(),
    'u:1') where doc ->> 'name' = 'u1'), 'effect send u1, effect deadline '
    'u1, effect resolve u1', 'and its part of the audit');
select results_eq(
    $$select json_array_length(confirmed), (select string_agg(x ->> 'name',
          ' ') from json_array_elements(open) x)
      from interlock.audit_effects_final(t.demo(), 'u:1')$$,
    $$values (1, 'u2 u3')$$, 'which begins with what stands');
select results_eq(
    $$select labels::json ->> 'state', value from interlock.stats()
      where name = 'effects' and labels::json ->> 'effect_kind' = 'ask'
      and value > 0 order by 1$$,
    $$values ('confirmed', 3::float8), ('unknown', 1)$$, 'the gauges');
select ok((select value between 0 and 60 from interlock.stats() where
    name = 'effect_oldest_unknown_age_seconds'
    and labels::json ->> 'effect_kind' = 'ask'), 'the oldest unknown');
select is((select sum(value) from interlock.stats() where name =
    'duplicate_side_effect_total'), 0::float8, 'nothing happened twice');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
