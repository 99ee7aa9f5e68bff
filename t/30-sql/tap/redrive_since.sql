-- redrive_since.sql: a plan leaves out jobs whose work has succeeded since;
-- their old payloads would run over newer results.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.plan(p_filter text)
returns table (problem text, detail text, doc json) language sql as $$
    select p.problem, p.detail, p.doc::json
    from interlock.redrive_plan(t.demo(), p_filter, null, null, 7, 'op') p
$$;

create function pg_temp.redrive(p_plan text)
returns table (doc json, remaining int) language sql as $$
    select r.doc::json, r.remaining
    from interlock.redrive(t.demo(), p_plan::uuid, 'who', 'why', 7, 'op',
        500) r
$$;

create function pg_temp.n(p_ids json) returns text language sql as $$
    select string_agg(right(x, 3)::int::text, ' ' order by n)
    from json_array_elements_text(p_ids) with ordinality y (x, n)
$$;

-- What a plan takes, and what it leaves out: "takes 1 3, leaves out 1: 2".
create function pg_temp.sifted(p_filter text) returns text language sql as $$
    select format('takes %s, leaves out %s: %s',
        (select coalesce(string_agg(right(x ->> 'job_id', 3)::int::text, ' '
             order by n), '-')
         from json_array_elements(p.doc -> 'jobs') with ordinality y (x, n)),
        p.doc -> 'succeeded_since' ->> 'count',
        coalesce(pg_temp.n(p.doc -> 'succeeded_since' -> 'job_ids'), '-'))
    from pg_temp.plan(p_filter) p
$$;

create function pg_temp.run(p_kind text, p_key text, p_id bigint,
    p_call text) returns void language plpgsql as $$
begin
    perform t.submit(p_kind, p_key, 'P' || p_id, id => p_id);
    perform t.take('w', p_kind);
    perform t.finish('w', p_call, p_retryable => false);
end
$$;

-- Per overlap: 1 failed, 2 succeeded, 3 failed; and 4 of another key failed.
create function pg_temp.story(p_kind text, p_from bigint) returns text
language plpgsql as $$
begin
    perform pg_temp.run(p_kind, p_kind || ':1', p_from + 1, 'fail');
    perform pg_temp.run(p_kind, p_kind || ':1', p_from + 2, 'complete');
    perform pg_temp.run(p_kind, p_kind || ':1', p_from + 3, 'fail');
    perform pg_temp.run(p_kind, p_kind || ':2', p_from + 4, 'fail');
    return pg_temp.sifted(format('{"kind":"%s"}', p_kind));
end
$$;

select t.kind(replace(x, '_', ''), format('{"overlap":"%s"}', x))
from unnest(array['skip', 'buffer_one', 'buffer_first', 'replace',
    'buffer_all', 'allow']) x;

select is(pg_temp.story('skip', 10), 'takes 13 14, leaves out 1: 11', 'skip');
select is(pg_temp.story('bufferone', 20), 'takes 23 24, leaves out 1: 21',
    'buffer_one');
select is(pg_temp.story('bufferfirst', 30), 'takes 33 34, leaves out 1: 31',
    'buffer_first');
select is(pg_temp.story('replace', 40), 'takes 43 44, leaves out 1: 41',
    'replace');
select is(pg_temp.story('bufferall', 50), 'takes 51 53 54, leaves out 0: -',
    'buffer_all: each is work of its own');
select is(pg_temp.story('allow', 60), 'takes 61 63 64, leaves out 0: -',
    'so with allow');

-- Asked for.
select is(pg_temp.sifted('{"kind":"skip","succeeded_since":true}'),
    'takes 11 13 14, leaves out 0: -', 'all of them, if that is meant');
select is(pg_temp.sifted('{"kind":"skip","succeeded_since":false}'),
    'takes 13 14, leaves out 1: 11', 'or not');
select results_eq(
    $$select problem, detail from pg_temp.plan('{"succeeded_since":1}')$$,
    $$values ('field-invalid', '"succeeded_since" must be true or false')$$,
    'yes or no');

-- What is left out takes no place, and is no "more".
select is(pg_temp.sifted('{"kind":"skip","max":1}'),
    'takes 13, leaves out 1: 11', 'max is of those taken');
select is((select doc ->> 'truncated' from
    pg_temp.plan('{"kind":"skip","max":2}')), 'false', 'there are two');
select is((select doc ->> 'truncated' from
    pg_temp.plan('{"kind":"skip","max":1}')), 'true', 'more than one');
select is(pg_temp.sifted('{"work_key":"skip:1"}'),
    'takes 13, leaves out 1: 11', 'by its key');
select is(pg_temp.sifted(format('{"job_ids":["%s","%s"]}', t.rid(11),
    t.rid(21))), 'takes -, leaves out 2: 11 21', 'by its id, too');

-- Judged anew when it acts.
select doc ->> 'plan_id' as plan from pg_temp.plan('{"kind":"skip"}') \gset
select pg_temp.run('skip', 'skip:2', 15, 'complete');
select results_eq(
    $$select doc ->> 'redriven', (doc -> 'skipped')::text, remaining
      from pg_temp.redrive($$ || quote_literal(:'plan') || $$)$$,
    $$values ('1', '[{"job_id" : "$$ || t.rid(14)
        || $$", "reason" : "succeeded_since"}]', 0)$$,
    'one succeeded meanwhile: skipped');
select is((select status from interlock.jobs where id = t.rid(14)), 'failed',
    'it stays');
select is((select status from interlock.jobs where id = t.rid(11)), 'failed',
    'as does who was left out');
select t.take('w', 'skip');
select t.finish('w', 'complete');

select doc ->> 'plan_id' as plan
from pg_temp.plan('{"kind":"skip","succeeded_since":true}') \gset
select results_eq(
    $$select doc ->> 'redriven', (doc ->> 'skipped')
      from pg_temp.redrive($$ || quote_literal(:'plan') || $$)$$,
    $$values ('2', '[]')$$, 'a plan that takes them runs them again');

-- One by one it is possible: a person looked at it.
select is((select d.doc::json ->> 'status' from interlock.job_decide(t.demo(),
    t.rid(21), 'retry', null, 'who', 'why', 1, 'op') d), 'queued',
    'decide retry: also of one that succeeded since');

-- A result that somebody decided counts by the fence of its own job.
select t.kind('d', '{"overlap":"skip"}');
select pg_temp.run('d', 'd:1', 71, 'fail'), pg_temp.run('d', 'd:1', 72, 'fail'),
    pg_temp.run('d', 'd:1', 73, 'fail');
select interlock.job_decide(t.demo(), t.rid(72), 'succeed', null, 'who',
    'why', 1, 'op');
select is(pg_temp.sifted('{"kind":"d"}'), 'takes 73, leaves out 1: 71',
    'the second of three was decided: the first is left out');
select pg_temp.run('d', 'd:1', 74, 'complete');
select interlock.job_decide(t.demo(), t.rid(71), 'succeed', null, 'who',
    'why', 1, 'op');
select is(pg_temp.sifted('{"kind":"d"}'), 'takes -, leaves out 1: 73',
    'behind an older one that was decided later');

-- A restore is no success.
select t.kind('r', '{"overlap":"skip"}');
select pg_temp.run('r', 'r:1', 81, 'complete'), pg_temp.run('r', 'r:1', 82,
    'fail');
select interlock.work_publish(t.demo(), 'r:1', 1, 'who', 'why', 1, 'op');
select is(pg_temp.sifted('{"kind":"r"}'), 'takes 82, leaves out 0: -',
    'publishing by hand is no later success');

-- Of attempts that were side by side the later one's result is not the newest.
select t.kind('side', '{"overlap":"allow"}');
select t.submit('side', 's:1', 'A', id => 91);
select t.submit('side', 's:1', 'B', id => 92);
select t.submit('side', 's:1', 'C', id => 93);
select t.take('a', 'side');
select t.take('b', 'side');
select t.take('c', 'side');
select t.finish('c', 'complete');
select t.finish('a', 'complete');
select t.finish('b', 'fail', p_retryable => false);
select is(pg_temp.sifted('{"kind":"side"}'), 'takes 92, leaves out 0: -',
    'under allow nothing is left out');
-- (the same as if its kind had been another when it came)
select t.kind('side', '{"overlap":"skip"}');
update interlock.jobs set kind_version = kind_version + 1
where id = t.rid(92);
select is(pg_temp.sifted('{"kind":"side"}'), 'takes -, leaves out 1: 92',
    'else the one published is, though it is not the newest');

-- Very many that are left out: up to 200 are named, all are counted.
select t.kind('many', '{"overlap":"skip"}');
select pg_temp.run('many', 'm:1', 1000 + x, 'fail')
from generate_series(1, 210) x;
select pg_temp.run('many', 'm:1', 1500, 'complete');
select results_eq(
    $$select doc ->> 'count', doc -> 'succeeded_since' ->> 'count',
          json_array_length(doc -> 'succeeded_since' -> 'job_ids')
      from pg_temp.plan('{"kind":"many"}')$$,
    $$values ('0', '210', 200)$$, '210 left out, 200 named');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
