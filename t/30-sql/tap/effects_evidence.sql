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
    where tenant = t.demo()', $$values ('stripe')$$, 'with its sources');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
