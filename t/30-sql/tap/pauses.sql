-- pauses.sql: kinds whose claims, sources whose requests, stand still.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.pause(
    p_what text, p_name text, p_by text default 'dana',
    p_why text default 'the books', p_call uuid default null)
returns table (problem text, detail text, doc json) language sql as $$
    select x.problem, x.detail, x.doc::json
    from interlock.pause(t.demo(), p_what, p_name, p_by, p_why, 7, 'desk',
                         p_call) x
$$;
create function pg_temp.resume(
    p_what text, p_name text, p_by text default 'kim',
    p_why text default 'done', p_call uuid default null)
returns table (problem text, detail text, doc json, wake_kinds text[])
language sql as $$
    select x.problem, x.detail, x.doc::json, x.wake_kinds
    from interlock.resume(t.demo(), p_what, p_name, p_by, p_why, 7, 'desk',
                          p_call) x
$$;
create function pg_temp.job(n bigint) returns json language sql as $$
    select g.doc::json
    from interlock.job_get(array[t.demo()], array[t.rid(n)]) g
$$;

select t.kind('k', '{"overlap":"buffer_one"}');
select t.kind('other', '{"overlap":"buffer_one"}');

-- Who and why.
select is((select detail from pg_temp.pause('kind', 'k', null)),
    '"requested_by" is missing', 'a pause needs a name');
select is((select detail from pg_temp.pause('kind', 'k', 'dana', ' ')),
    '"reason" is missing', 'and a reason');
select is((select problem from pg_temp.pause('kind', 'nosuch')),
    'kind-unknown', 'and a kind that there is');
select is((select detail from pg_temp.resume('kind', 'k', 'kim', null)),
    '"reason" is missing', 'a resumption too');

-- A kind.
select t.submit('k', 'k:1', id => 1);
select is((select doc #>> '{paused,requested_by}'
           from pg_temp.pause('kind', 'k', p_call => t.rid(500))), 'dana',
    'paused: the kind says by whom');
select is((select doc #>> '{paused,reason}' from pg_temp.pause('kind', 'k',
    'eve', 'again')), 'the books', 'again: the first reason stays');
select pg_temp.pause('kind', 'k', p_call => t.rid(500));
select is((select count(*)::int from interlock.actions a
           where a.what = 'kind_pause' and a.target = 'k'), 2,
    'each call is one action, its repeat none');

select is((select decision from t.submit('k', 'k:2', id => 2)), 'accepted',
    'submissions go on');
select is((select count(*)::int from t.claim('k', 5)), 0,
    'nothing is claimed');
select is((select count(*)::int from t.claim('k,other', 5)), 0,
    'nor among other kinds');
select t.submit('other', 'o:1');
select is((select work_key from t.claim('k,other', 5)), 'o:1',
    'other kinds are');
select results_eq(
    $$select ready, next_at from interlock.runnable(
          array[t.demo(), t.demo()], array['k', 'other'])$$,
    $$values (0::bigint, null::timestamptz), (0, null)$$,
    'nothing of it is runnable');
select t.submit('k', 'k:3', run_after => clock_timestamp() + '1 hour');
select is((select next_at from interlock.runnable(array[t.demo()],
    array['k'])), null, 'nor will be');
select is(pg_temp.job(1) ->> 'waits_for', 'resumption of its kind',
    'a job says what it waits for');
select is(pg_temp.job(1) #>> '{paused,reason}', 'the books', 'and why');
select is((select w.doc::json #>> '{paused,requested_by}'
           from interlock.work_get(t.demo(), 'k:1') w), 'dana',
    'so does its work');
select alike((select x.doc::json ->> 'why' from interlock.explain(t.demo(),
    'k', '{"work_key":"k:9"}') x),
    'nothing of this work key is active; the claims of its kind are paused '
    'since %, by dana: the books', 'and an explanation');

-- What runs goes on.
select t.kind('run', '{"overlap":"buffer_one"}');
select t.submit('run', 'r:1');
select t.take('w', 'run');
select pg_temp.pause('kind', 'run');
select is((select outcome from t.renew('w')), 'ok', 'what runs renews');
select is((select status from t.finish('w', 'complete')), 'succeeded',
    'and ends');

-- A policy is put back as it was got.
select is((select problem from interlock.kind_put(t.demo(), 'k',
    (select g.doc from interlock.kind_get(t.demo(), 'k') g))), null,
    'the policy as it is shown may be put back');
select is((select detail from interlock.kind_put(t.demo(), 'k',
    '{"paused":null}')), '"paused" is not what it is: a kind is paused by '
    'POST …/pause, with a name and a reason', 'which resumes nothing');

select is((select array[doc #>> '{paused}', wake_kinds[1]]
           from pg_temp.resume('kind', 'k')), array[null, 'k'],
    'resumed: there may be something to start');
select is((select count(*)::int from t.claim('k', 5)), 2,
    'what waited is claimed');
select is((select problem from pg_temp.resume('kind', 'k')), null,
    'what is not paused may be resumed');

-- A source.
select is((select detail from pg_temp.pause('source', 'schedule')),
    '"schedule" is not paused as a source: pause the schedules, or the kind',
    'schedules are no source of requests');
select alike((select detail from pg_temp.pause('source', 'A b')),
    'a source''s name has %', 'nor is what has no name of one');
select t.submit('k', 'k:10', idem => 'i1', source => 'shop', id => 20);
select is((select doc #>> '{paused,requested_by}'
           from pg_temp.pause('source', 'shop')), 'dana', 'a source');
create temp table before as
select (select count(*) from interlock.requests) as requests,
    (select count(*) from interlock.jobs) as jobs,
    (select count(*) from interlock.works) as works,
    (select count(*) from interlock.idempotency) as keys;
select results_eq(
    $$select outcome, code, problem, detail, retry_after, decision
      from t.submit('k', 'k:11', idem => 'i2', source => 'shop')$$,
    $$values ('problem', 503, 'source-paused',
        'requests from "shop" are paused: nothing was stored', 60,
        null::text)$$, 'its requests are refused');
select is((select problem from t.submit('k', 'k:10', idem => 'i1',
    source => 'shop')), 'source-paused', 'repeats too');
select is((select decision from t.submit('k', 'k:10', idem => 'i1',
    source => 'shop', id => 20)), 'accepted',
    'but for the call whose answer was lost');
select results_eq(
    $$select (select count(*) from interlock.requests),
          (select count(*) from interlock.jobs),
          (select count(*) from interlock.works),
          (select count(*) from interlock.idempotency)$$,
    'select * from before', 'and leave no trace');
select is((select decision from t.submit('k', 'k:12', source => 'api')),
    'accepted', 'others go on');
select is((select x.doc::json ->> 'problem' from interlock.explain(t.demo(),
    'k', '{"work_key":"k:9","source":"shop"}') x), 'source-paused',
    'an explanation says so');
select is((select string_agg(x.doc::json ->> 'name', ',')
           from interlock.source_list(t.demo()) x), 'shop', 'it is listed');
select pg_temp.resume('source', 'shop');
select is((select decision from t.submit('k', 'k:11', idem => 'i2',
    source => 'shop')), 'accepted', 'resumed');

select * from finish();
rollback;
