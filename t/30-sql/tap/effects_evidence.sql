-- effects_evidence.sql: what providers' webhooks say of effects.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('hook', '{"overlap":"allow"}');
select t.kind('k', '{"overlap":"allow"}');
select t.effect_kind('charge', '{"send_deadline":5,"idempotent":true,
    "evidence":{"source":"stripe","match":{"idempotency_key":
        "/request/idempotency_key"},"ref":"/data/object/id",
        "confirmed":{"pointer":"/type","equals":["charge.succeeded"]},
        "failed":{"pointer":"/type","equals":["charge.failed"]}}}');
select t.effect_kind('mail', '{"send_deadline":5,
    "evidence":[{"source":"sendgrid","match":{"provider_ref":"/sg_id"},
        "confirmed":{"pointer":"/event","equals":["delivered","open"]},
        "failed":{"pointer":"/event","equals":["dropped"]}},
        {"source":"other","each":"/events","match":{"effect_id":"/a~1b/0"},
        "confirmed":{"pointer":"/ok","equals":[true]}}]}');
select t.effect_kind('plain', '{}');
select bag_eq('select source, effect_kind from interlock.evidence_sources',
    $$values ('stripe', 'charge'), ('sendgrid', 'mail'), ('other', 'mail')$$,
    'who learns from where');

create function pg_temp.hook(p_source text, p_body text) returns bigint
language plpgsql as $$
begin
    perform t.submit('hook', p_source || ':' || nextval('t.ids'), p_body,
                     source => p_source);
    return (select count(*) from interlock.effects_evidence(100));
end
$$;
create function pg_temp.stripe(p_type text, p_key text, p_ref text)
returns bigint language sql as $$
    select pg_temp.hook('stripe', json_build_object('type', p_type,
        'request', json_build_object('idempotency_key', p_key),
        'data', json_build_object('object',
            json_build_object('id', p_ref)))::text)
$$;

select submit.ord from t.submit('k', 'v:1');
select t.take('a', 'k');

-- An unknown charge, settled by the provider's own word.
select t.begin('a', 'c1', 'charge');
select t.outcome('a', 'c1', 'unknown');
select is((select status from t.finish('a', 'complete')), 'succeeded',
    'its job has ended');
select is(pg_temp.stripe('charge.updated', interlock.effect_key(
    (t.effect('c1')).id, 1), 'ch_1'), 0::bigint, 'an event of another type');
select is(pg_temp.stripe('charge.succeeded', 'x', 'ch_1'), 0::bigint,
    'somebody else''s key');
select is(pg_temp.stripe('charge.succeeded', interlock.effect_key(
    (t.effect('c1')).id, 1), 'ch_1'), 1::bigint, 'the charge happened');
select results_eq($$select state, provider_ref from t.effect('c1')$$,
    $$values ('confirmed', 'ch_1')$$, 'it is settled, with its reference');
select is((select what || ' ' || said || ' ' || (detail like 'webhook, job %')
    from interlock.effects_history where effect_id = (t.effect('c1')).id
    order by id desc limit 1), 'evidence confirmed true', 'and says by what');
select is(pg_temp.stripe('charge.succeeded', interlock.effect_key(
    (t.effect('c1')).id, 1), 'ch_1'), 1::bigint, 'told again');
select is((select count(*)::int from interlock.effects_history
    where contradiction is not null), 0, 'it is the same one');
select pg_temp.stripe('charge.succeeded', interlock.effect_key(
    (t.effect('c1')).id, 1), 'ch_2');
select results_eq(
    $$select contradiction, provider_ref from interlock.effects_history
      where contradiction is not null$$,
    $$values ('confirmed_twice', 'ch_2')$$, 'a real second charge is shown');

-- Before its owner says so.
select submit.ord from t.submit('k', 'v:2');
select t.take('a', 'k');
select t.begin('a', 'c2', 'charge');
select pg_temp.stripe('charge.succeeded', interlock.effect_key(
    (t.effect('c2')).id, 1), 'ch_3');
select is(t.state('c2'), 'confirmed round 1', 'the webhook was faster');
select results_eq(
    $$select outcome, state from t.outcome('a', 'c2', 'confirmed', 'ch_3',
      p_status => 200, p_response => 'ok')$$,
    $$values ('ok', 'confirmed')$$, 'its owner agrees');
select is((select response_status from t.effect('c2')), 200,
    'and brings the answer to be replayed');

-- Failed.
select t.begin('a', 'c3', 'charge');
select t.outcome('a', 'c3', 'unknown');
select t.begin('a', 'c3', 'charge');
select t.outcome('a', 'c3', 'unknown');
select pg_temp.stripe('charge.failed', interlock.effect_key(
    (t.effect('c3')).id, 1), null);
select is(t.state('c3'), 'failed round 1',
    'said of the key of both its sends: neither happened');
select t.begin('a', 'c3', 'charge');
select pg_temp.stripe('charge.failed', interlock.effect_key(
    (t.effect('c3')).id, 1), null);
select is(t.state('c3'), 'intended round 2', 'not of the next round');

-- By the provider's reference; many events in one webhook.
select t.begin('a', 'm1', 'mail'), t.begin('a', 'm2', 'mail'),
    t.begin('a', 'm3', 'plain'), t.begin('a', 'm4', 'mail');
select t.outcome('a', 'm1', 'unknown', 'sg1');
select t.outcome('a', 'm2', 'unknown', 'sg2');
select t.outcome('a', 'm3', 'unknown', 'sg3');
select is((t.effect('m1')).provider_ref, 'sg1',
    'what is unclear may have a reference');
select is(pg_temp.hook('sendgrid', '[{"event":"processed","sg_id":"sg1"},
    {"event":"delivered","sg_id":"sg1"}, {"event":"dropped","sg_id":"sg2"},
    {"event":"delivered","sg_id":"sg3"}, {"event":"open"}, 7]'), 2::bigint,
    'events of two effects; that of another kind does not learn from it');
select is(t.state('m1') || ', ' || t.state('m2') || ', ' || t.state('m3'),
    'confirmed round 1, failed round 1, unknown round 1', 'delivered, dropped');
select pg_temp.hook('sendgrid', '[{"event":"dropped","sg_id":"sg1"}]');
select is(t.state('m1'), 'confirmed round 1', 'what was confirmed stays so');
select is((select count(*)::int from interlock.effects_history
    where contradiction is not null), 1,
    'and that it went wrong later is no second one');
select is(pg_temp.hook('other', json_build_object('events',
    json_build_array(json_build_object('a/b', json_build_array(
        (t.effect('m4')).id), 'ok', true)))::text), 1::bigint,
    'by the effect''s id');
select is(t.state('m4'), 'confirmed round 1', 'settled');

-- It did not happen, said while the send is under way: its end uses that.
select t.begin('a', 'n1', 'charge');
select pg_temp.stripe('charge.failed', interlock.effect_key(
    (t.effect('n1')).id, 1), null);
select is(t.state('n1'), 'intended round 1', 'its owner may still speak');
select is((select state from t.outcome('a', 'n1', 'unknown')), 'unknown',
    'he does not know');
select is((select x from t.overdue() x where x like 'n1%'), 'n1 failed',
    'but the provider has said so');
select is((select what || ' ' || said || ' ' || detail
    from interlock.effects_history where effect_id = (t.effect('n1')).id
    order by id desc limit 1), 'evidence failed a webhook said so while the '
    'send was under way', 'by what is kept');
select t.begin('a', 'n2', 'charge');
select pg_temp.stripe('charge.failed', interlock.effect_key(
    (t.effect('n2')).id, 1), null);
select t.older('n2', '6 s');
select is((select x from t.overdue() x where x like 'n2%'), 'n2 failed',
    'at its deadline, too');
select t.begin('a', 'n3', 'charge');
select pg_temp.stripe('charge.failed', interlock.effect_key(
    (t.effect('n3')).id, 1), null);
select is((select state from t.outcome('a', 'n3', 'confirmed')), 'confirmed',
    'its owner''s word counts more');
select t.begin('a', 'n4', 'charge');
select pg_temp.stripe('charge.failed', interlock.effect_key(
    (t.effect('n4')).id, 1), null);
select is((select decision from t.begin('a', 'n4', 'charge')), 'send',
    'what may go out once more');
select t.outcome('a', 'n4', 'unknown');
select t.overdue();
select is(t.state('n4'), 'unknown round 1', 'was not meant');
select t.begin('a', 'n5', 'charge');
select t.outcome('a', 'n5', 'unknown');
select t.begin('a', 'n5', 'charge');
select pg_temp.stripe('charge.failed', interlock.effect_key(
    (t.effect('n5')).id, 1), null);
select t.outcome('a', 'n5', 'unknown');
select is((select decision from t.begin('a', 'n5', 'charge')), 'send',
    'sent again before it is settled');
select t.outcome('a', 'n5', 'unknown');
select t.overdue();
select is(t.state('n5'), 'unknown round 1', 'nor was that send');

-- Of a job that waits for it.
select t.kind('job', '{"overlap":"buffer_all","backoff":0}');
select submit.ord from t.submit('job', 'n:6');
select t.take('b', 'job');
select t.begin('b', 'n6', 'mail');
update interlock.effects set provider_ref = 'sg6' where name = 'n6';
select pg_temp.hook('sendgrid', '[{"event":"dropped","sg_id":"sg6"}]');
select is((select status from t.finish('b', 'release')), 'checking',
    'ended without a word');
select results_eq(
    $$select wake_kinds from interlock.effects_overdue(9)
      where effect_id = (t.effect('n6')).id$$,
    $$values (array['job'])$$, 'settled, it goes on');
select t.take('b', 'job');
select is((select idempotency_key like '%-2' from t.begin('b', 'n6', 'mail')),
    true, 'in the next round');
select t.outcome('b', 'n6', 'confirmed');

-- A round that was never sent, or that is not named.
select t.begin('a', 'q1', 'charge');
select t.outcome('a', 'q1', 'unknown');
select is(pg_temp.stripe(x, interlock.effect_key((t.effect('q1')).id, 9),
    'ch_x'), 1::bigint, x)
from (values ('charge.failed'), ('charge.succeeded')) v (x);
select is(t.state('q1'), 'unknown round 1', 'says nothing of this one');
select results_eq(
    $$select said, detail like 'webhook, job %: round 9 was never sent'
      from interlock.effects_history
      where effect_id = (t.effect('q1')).id and what = 'evidence'
      order by id$$,
    $$values ('failed', true), ('confirmed', true)$$, 'but it is kept');
select t.effect_kind('any', '{"send_deadline":5,"evidence":{
    "source":"any","match":{"effect_id":"/e"},
    "confirmed":{"pointer":"/ok","equals":[true]},
    "failed":{"pointer":"/ok","equals":[false]}}}');
create function pg_temp.any(p_name text, p_ok boolean) returns bigint
language sql as $$
    select pg_temp.hook('any', json_build_object('e', (t.effect(p_name)).id,
        'ok', p_ok)::text)
$$;
select t.begin('a', 'q2', 'any');
select t.outcome('a', 'q2', 'unknown');
select pg_temp.any('q2', false);
select is(t.state('q2'), 'failed round 1', 'of the first round a no counts');
select t.begin('a', 'q2', 'any');
select t.outcome('a', 'q2', 'unknown');
select pg_temp.any('q2', false);
select is(t.state('q2'), 'unknown round 2',
    'of a later one it may be the first''s, told again');
select pg_temp.any('q2', true);
select is(t.state('q2'), 'confirmed round 2', 'a yes counts');

-- A reference that two effects have.
select t.begin('a', 'r1', 'mail'), t.begin('a', 'r2', 'mail'),
    t.begin('a', 'r3', 'mail');
select t.outcome('a', 'r1', 'unknown', 'E-500'),
    t.outcome('a', 'r2', 'unknown', 'E-500'),
    t.outcome('a', 'r3', 'unknown', 'E-501');
select is(pg_temp.hook('sendgrid', '[{"event":"delivered","sg_id":"E-500"},
    {"event":"delivered","sg_id":"E-501"}]'), 3::bigint, 'told to all');
select is(t.state('r1') || ', ' || t.state('r2') || ', ' || t.state('r3'),
    'unknown round 1, unknown round 1, confirmed round 1',
    'it settles only what it surely means');
select is((select count(*)::int from interlock.effects_history
    where detail like '%: other effects have this reference, too'), 2,
    'and is kept with both');
select pg_temp.hook('sendgrid', '[{"event":"dropped","sg_id":"E-500"}]');
select is(t.state('r1') || ', ' || t.state('r2'),
    'unknown round 1, unknown round 1', 'nor is either refused by it');

-- Bodies that are none.
select is(pg_temp.hook('stripe', b), 0::bigint, left(b, 20)) from (values
    (''), ('x'), ('"\u0000"'), ('{"type":"charge.succeeded"}'), ('[]'),
    ('{"type":"charge.succeeded","request":7}'),
    (repeat('[', 20000)), ('{"type":"\ud800"}')
) v (b);
select is(pg_temp.hook('github', '{}'), 0::bigint,
    'a source that nobody learns from');
select is((select count(*)::int from interlock.evidence_queue), 0,
    'nothing is left to look into');

-- Another tenant's.
select interlock.kind_put(interlock.tenant_create('other'), 'hook',
    '{"overlap":"allow"}');
select interlock.effect_kind_put(interlock.tenant_create('other'), 'charge',
    '{"evidence":{"source":"stripe","match":{"effect_id":"/e"},
        "confirmed":{"pointer":"/t","equals":["y"]}}}');
select submit.ord from t.submit('hook', 'o:1', json_build_object('e',
    (t.effect('c3')).id, 't', 'y')::text, source => 'stripe',
    tenant => 'other');
select is_empty('select * from interlock.effects_evidence(9)',
    'another tenant''s effect');

-- The line goes on.
select t.kind('one', '{"overlap":"buffer_one","effect_scope":"work"}');
select submit.ord from t.submit('one', 'l:1', 'A');
select t.take('a', 'one');
select submit.ord from t.submit('one', 'l:1', 'B');
select t.begin('a', 'last', 'charge');
select t.finish('a', 'complete');
select submit.ord from t.submit('hook', 'l:2', json_build_object('type',
    'charge.succeeded', 'request', json_build_object('idempotency_key',
    interlock.effect_key((t.effect('last')).id, 1)))::text,
    source => 'stripe');
select results_eq(
    $$select wake_kinds, effect_id = (t.effect('last')).id
      from interlock.effects_evidence(9)$$,
    $$values (array['one'], true)$$, 'what waited for it goes on');

select is((select problem from interlock.effect_kind_delete(t.demo(),
    'mail')), null, 'an effect kind goes');
select bag_eq('select source from interlock.evidence_sources
    where tenant = t.demo()', $$values ('stripe'), ('any')$$, 'with its sources');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
