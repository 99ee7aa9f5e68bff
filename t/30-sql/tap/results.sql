-- results.sql: revisions and publication (G9), look-ups.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('free', '{"overlap":"allow"}');

-- Two jobs of one key side by side: the later fence completes first.
select submit.ord from t.submit('free', 'p:1', 'a', id => 1);
select submit.ord from t.submit('free', 'p:1', 'b', id => 2);
select t.take('w1', 'free');
select t.take('w2', 'free');
select is((select revision from t.finish('w2', 'complete', '"second"')), 1,
    'a revision');
select is((select revision from t.finish('w1', 'complete', '"first"')), 2,
    'a late one is kept as a revision');
select results_eq(
    $$select published_revision, published_fence from interlock.works
      where work_key = 'p:1'$$, $$values (1, 2::bigint)$$,
    'but not published: its fence is lower');
select is((select status from interlock.jobs where id = t.rid(1)),
    'succeeded', 'its job succeeded all the same');
select is((select doc::json ->> 'result' from interlock.work_result(
    interlock.tenant_create('demo'), 'p:1', null)), 'second',
    'the published result is shown');
select results_eq(
    $$select doc::json ->> 'result', doc::json ->> 'published_at'
      from interlock.work_result(interlock.tenant_create('demo'), 'p:1',
                                 2)$$,
    $$values ('first', null::text)$$, 'or the revision asked for');

-- Versions: a higher fence with a lower version is not published.
select submit.ord from t.submit('free', 'p:2', 'a', id => 3, version => 7);
select submit.ord from t.submit('free', 'p:2', 'b', id => 4, version => 8);
select t.take('w7', 'free');
select t.take('w8', 'free');
select t.finish('w8', 'complete', '8');
select t.expire('w7');
select interlock.recover(5);
select is(t.take('w7', 'free'), 'p:2 fence 3', '7 again, with a fence above');
select t.finish('w7', 'complete', '7');
select results_eq(
    $$select published_revision, published_version from interlock.works
      where work_key = 'p:2'$$, $$values (1, 8::bigint)$$,
    '8 stays published');

-- Look-ups.
select is_empty($$select * from interlock.work_get(
    interlock.tenant_create('demo'), 'nothing')$$, 'no such work');
select is_empty($$select * from interlock.work_result(
    interlock.tenant_create('demo'), 'p:1', 9)$$, 'no such revision');
select is_empty($$select * from interlock.job_get(
    array[interlock.tenant_create('other')], array[t.rid(1)])$$,
    'another tenant''s job is not there');
select results_eq(
    $$select status, final, doc::json ->> 'result_url'
      from interlock.job_get(array[interlock.tenant_create('demo')],
                             array[t.rid(1)])$$,
    $$values ('succeeded', true, '/v1/works/p:1/result')$$, 'a job');
select submit.ord from t.submit('free', 'a b%41:ü', id => 5);
select t.take('w', 'free');
select submit.ord from t.submit('free', 'a b%41:ü', id => 6);
select t.finish('w', 'complete');
select is((select doc::json ->> 'result_url' from interlock.job_get(
    array[interlock.tenant_create('demo')], array[t.rid(5)])),
    '/v1/works/a%20b%2541:%C3%BC/result', 'a key as one path segment');
select results_eq(
    $$select doc::json ->> 'work_key', doc::json ->> 'fence',
          json_array_length(doc::json -> 'active'),
          json_array_length(doc::json -> 'waiting'),
          doc::json #>> '{result,revision}',
          doc::json #>> '{decisions,accepted}'
      from interlock.work_get(interlock.tenant_create('demo'),
                              'a b%41:ü')$$,
    $$values ('a b%41:ü', '1', 1, 0, '1', '2')$$, 'a work');
select matches((select doc from interlock.job_get(
    array[interlock.tenant_create('demo')], array[t.rid(6)])),
    '"created_at" : "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"',
    'times are RFC 3339 in UTC');

set local timezone = 'Asia/Kolkata';
select is(interlock.ts('2026-07-24 00:00:00.5+00'),
    '2026-07-24T00:00:00.500Z', 'whatever the session''s time zone');

-- Gauges.
select results_eq(
    $$select name, tenant, labels::jsonb ->> 'kind',
          labels::jsonb ->> 'state', value::int
      from interlock.stats() where name = 'queue_depth'$$,
    $$values ('queue_depth', 'demo', 'free', 'ready', 1)$$, 'queue depth');
select ok((select value >= 0 and value < 60 from interlock.stats()
           where name = 'oldest_item_age_seconds'), 'oldest item''s age');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
