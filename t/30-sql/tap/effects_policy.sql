-- effects_policy.sql: an effect kind is changed while effects of it are
-- unsettled: what was sent under an earlier version is not made safe by a
-- later one.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('k', '{"overlap":"allow","lease_seconds":600,"backoff":0}');

create function pg_temp.job(p_key text) returns text language sql as $$
    select decision from t.submit('k', p_key);
    select t.take('a', 'k')
$$;
create function pg_temp.put(p_name text, p_doc text) returns void
language sql as $$
    select t.effect_kind(p_name, p_doc)
$$;
create function pg_temp.again(p_name text, p_kind text) returns text
language sql as $$
    select coalesce(decision, outcome) from t.begin('a', p_name, p_kind)
$$;

-- Sent without a key that is honoured; then the kind says that keys are.
select pg_temp.put('look', '{"send_deadline":5,"lookup":{"type":"worker"}}');
select pg_temp.job('p:1');
select t.begin('a', 'c1', 'look');
select t.outcome('a', 'c1', 'unknown', null, 'timeout');
select is(pg_temp.again('c1', 'look'), 'check_first', 'it is looked up');
select pg_temp.put('look', '{"idempotent":true}');
select is(pg_temp.again('c1', 'look'), 'check_first',
    'keys from now on: nothing that was sent before is sent again');
select is((select count(*)::int from interlock.sends), 1, 'one send');
select is(pg_temp.again('c2', 'look'), 'send', 'what is begun now');
select t.outcome('a', 'c2', 'unknown');
select is(pg_temp.again('c2', 'look'), 'send', 'is sent again by its key');
select t.outcome('a', 'c2', 'unknown');
select is((select status from t.finish('a', 'fail')), 'checking',
    'its job waits for the first one');

-- Another header: the provider never saw the key in it.
select pg_temp.put('pay', '{"idempotent":true,"send_deadline":5}');
select pg_temp.job('p:2');
select t.begin('a', 'c3', 'pay');
select t.outcome('a', 'c3', 'unknown');
select is(pg_temp.again('c3', 'pay'), 'send', 'the same key');
select t.outcome('a', 'c3', 'unknown');
select ok((t.effect('c3')).human_at > clock_timestamp() + interval '1 h',
    'nobody is asked while it may be sent again');
select pg_temp.put('pay', '{"key_header":"idempotency-KEY"}');
select is(pg_temp.again('c3', 'pay'), 'send', 'headers know no case');
select t.outcome('a', 'c3', 'unknown');
select pg_temp.put('pay', '{"key_header":"X-Other"}');
select is(pg_temp.again('c3', 'pay'), 'needs_human', 'in another header: no');
select results_eq('select * from t.overdue()', $$values ('c3 needs_human')$$,
    'a human is asked at once, not when the window ends');
select pg_temp.put('pay', '{"key_header":"Idempotency-Key"}');
select t.begin('a', 'c4', 'pay');
select t.outcome('a', 'c4', 'unknown');
select pg_temp.put('pay', '{"idempotent":false}');
select pg_temp.put('pay', '{"idempotent":true}');
select is(pg_temp.again('c4', 'pay'), 'needs_human',
    'nor if keys were not honoured for a while');
select is((select status from t.finish('a', 'fail')), 'checking',
    'the job''s own retry waits, too');

-- The shorter window holds.
select pg_temp.put('win', '{"idempotent":true,"send_deadline":5,
    "key_window":100}');
select pg_temp.job('p:3');
select t.begin('a', 'c5', 'win');
select t.outcome('a', 'c5', 'unknown');
select pg_temp.put('win', '{"key_window":86400}');
select t.older('c5', '90 s');
select is(pg_temp.again('c5', 'win'), 'send', 'within the first window');
select t.outcome('a', 'c5', 'unknown');
select t.older('c5', '6 s');
select is(pg_temp.again('c5', 'win'), 'needs_human',
    'a longer one is not believed of what was sent before');
select t.begin('a', 'c6', 'win');
select t.outcome('a', 'c6', 'unknown');
select pg_temp.put('win', '{"key_window":50}');
select t.older('c6', '46 s');
select is(pg_temp.again('c6', 'win'), 'needs_human', 'a shorter one is');
select results_eq(
    $$select problem from t.resolve('c6', 'send_again')$$,
    $$values (null::text)$$, 'a human sends it again');
select is(t.state('c6'), 'failed round 1', 'under another key');

-- A call whose answer was lost gets what it was permitted.
select pg_temp.put('map', '{"idempotent":true,"send_deadline":5,
    "outcome_map":{"202":"confirmed"}}');
select pg_temp.job('p:4');
select t.begin('a', 'c7', 'map', p_call => t.rid(77));
select pg_temp.put('map', '{"key_header":"X-Key","outcome_map":null}');
select results_eq(
    $$select decision, key_header, outcome_map
      from t.begin('a', 'c7', 'map', p_call => t.rid(77))$$,
    $$values ('send', 'Idempotency-Key', '{"202":"confirmed"}')$$,
    'by the kind as it was');
select t.begin('a', 'c8', 'map');
select pg_temp.put('map', '{"key_header":"Y-Key"}');
select is(pg_temp.again('c8', 'map'), 'in_progress',
    'what may have gone out is not repeated under another header');

-- Deleted, and made again.
select pg_temp.put('gone', '{"idempotent":true,"send_deadline":5}');
select t.begin('a', 'c9', 'gone');
select t.outcome('a', 'c9', 'unknown');
select problem from interlock.effect_kind_delete(t.demo(), 'gone');
select pg_temp.put('gone', '{"idempotent":true,"send_deadline":5,
    "key_header":"X-Key"}');
select is(pg_temp.again('c9', 'gone'), 'needs_human', 'another kind');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
