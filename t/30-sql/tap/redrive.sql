-- redrive.sql: dead letters, planned and then taken back.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.plan(p_filter text)
returns table (problem text, detail text, doc json) language sql as $$
    select p.problem, p.detail, p.doc::json
    from interlock.redrive_plan(t.demo(), p_filter, null, null, 7, 'op') p
$$;

create function pg_temp.redrive(p_plan text, p_limit int default 500,
    p_by text default 'who', p_reason text default 'the API is back')
returns table (problem text, detail text, doc json, remaining int,
    wake_kinds text[]) language sql as $$
    select r.problem, r.detail, r.doc::json, r.remaining, r.wake_kinds
    from interlock.redrive(t.demo(), p_plan::uuid, p_by, p_reason, 7, 'op',
        p_limit) r
$$;

-- Fails a job of that kind for good.
create function pg_temp.dead(p_kind text, p_key text, p_id bigint,
    p_error text default 'boom') returns void language plpgsql as $$
begin
    perform t.submit(p_kind, p_key, 'P' || p_id, id => p_id);
    perform t.take('dead', p_kind);
    perform t.finish('dead', 'fail', p_error => p_error,
        p_retryable => false);
end
$$;

select t.kind('k', '{"overlap":"skip","max_attempts":2}');
select t.kind('l', '{"overlap":"buffer_all","max_waiting":1}');
select pg_temp.dead('k', 'k:' || x, x, case when x % 2 = 0
    then 'HTTP 503 of the CRM' else 'no such customer' end)
from generate_series(1, 9) x;
select pg_temp.dead('l', 'l:1', 21), pg_temp.dead('l', 'l:1', 22),
    pg_temp.dead('l', 'l:1', 23);

select results_eq(
    $$select labels::json ->> 'kind', value from interlock.stats()
      where name = 'dead_letters' order by 1$$,
    $$values ('k', 9::float8), ('l', 3)$$, 'dead letters are counted');

-- Filters.
create function pg_temp.found(p_filter text) returns text language sql as $$
    select string_agg((regexp_replace(x ->> 'job_id', '^.*-', ''))::int::text,
        ' ' order by n)
    from pg_temp.plan(p_filter) p,
        json_array_elements(p.doc -> 'jobs') with ordinality y (x, n)
$$;

select is(pg_temp.found('{}'), '1 2 3 4 5 6 7 8 9 21 22 23',
    'all, the oldest end first');
select is(pg_temp.found('{"kind":"l"}'), '21 22 23', 'of a kind');
select is(pg_temp.found('{"work_key":"k:3"}'), '3', 'of a key');
select is(pg_temp.found('{"error":"503","kind":"k"}'), '2 4 6 8', 'by error');
select is(pg_temp.found('{"error":"503","max":2}'), '2 4', 'at most so many');
select results_eq(
    $$select doc ->> 'truncated', doc ->> 'count'
      from pg_temp.plan('{"error":"503","max":2}')$$,
    $$values ('true', '2')$$, 'and says that there are more');
select results_eq(
    $$select doc ->> 'truncated', doc ->> 'count'
      from pg_temp.plan('{"error":"503","max":4}')$$,
    $$values ('false', '4')$$, 'or not');
select is(pg_temp.found(format('{"job_ids":["%s","%s","%s"]}', t.rid(22),
    t.rid(3), t.rid(999))), '3 22', 'by their ids');
select is(pg_temp.found(format('{"job_ids":["%s","%s"],"kind":"k"}',
    t.rid(22), t.rid(3))), '3', 'all of a filter holds');
select is(pg_temp.found(format('{"since":"%s"}', interlock.ts(
    clock_timestamp() + interval '1 minute'))), null, 'since');
select is(pg_temp.found(format('{"until":"%s"}', interlock.ts(
    clock_timestamp() + interval '1 minute'))), '1 2 3 4 5 6 7 8 9 21 22 23',
    'until');
select is(pg_temp.found('{"work_key":"k:none"}'), null, 'none');

select results_eq(
    $$select f, p.problem
      from unnest(array['[]', 'x', '{"kinds":"k"}', '{"kind":1}',
          '{"kind":""}', '{"max":0}', '{"max":10001}', '{"max":1.5}',
          '{"since":"yesterday"}', '{"until":"2026-02-31T00:00:00Z"}',
          '{"job_ids":["x"]}', '{"job_ids":"x"}',
          '{"kind":"k","kind":"k"}']) with ordinality u (f, n),
          pg_temp.plan(f) p
      order by n$$,
    $$values ('[]', 'json-invalid'), ('x', 'json-invalid'),
        ('{"kinds":"k"}', 'unknown-field'), ('{"kind":1}', 'field-invalid'),
        ('{"kind":""}', 'field-invalid'), ('{"max":0}', 'field-invalid'),
        ('{"max":10001}', 'field-invalid'),
        ('{"max":1.5}', 'field-invalid'),
        ('{"since":"yesterday"}', 'field-invalid'),
        ('{"until":"2026-02-31T00:00:00Z"}', 'field-invalid'),
        ('{"job_ids":["x"]}', 'field-invalid'),
        ('{"job_ids":"x"}', 'field-invalid'),
        ('{"kind":"k","kind":"k"}', 'field-invalid')$$,
    'a filter that cannot be read is refused');
select is((select count(*)::int from interlock.jobs
           where status <> 'failed'), 0, 'a plan changes no job');
select is((select count(*)::int from interlock.actions), 0, 'and is no action');

-- Acting on a plan.
select doc ->> 'plan_id' as plan from pg_temp.plan('{"kind":"k"}') \gset
select is((select problem from pg_temp.redrive(:'plan', p_by => '')),
    'field-invalid', 'not without a name');
select is((select problem from pg_temp.redrive(:'plan', p_reason => null)),
    'field-invalid', 'nor without a reason');
select is((select problem from pg_temp.redrive(t.rid(1)::text)), 'not-found',
    'a plan that is none');
select is((select problem from interlock.redrive(
    interlock.tenant_create('other'), :'plan', 'a', 'b', 1, 'c', 5)),
    'not-found', 'another tenant''s plan');

-- Meanwhile: one was decided about, one's key is busy, one failed later.
select d.problem from interlock.job_decide(t.demo(), t.rid(2), 'succeed', null,
    'who', 'done by hand', 7, 'op') d;
select pg_temp.dead('k', 'k:later', 10);
select submit.ord from t.submit('k', 'k:4', 'other', id => 44);

select results_eq(
    $$select problem, doc ->> 'redriven', (doc ->> 'skipped')::jsonb,
          remaining, wake_kinds
      from pg_temp.redrive($$ || quote_literal(:'plan') || $$, 3)$$,
    $$values (null, '2', jsonb_build_array(jsonb_build_object('job_id',
        t.rid(2), 'reason', 'the job is succeeded')), 6, array['k'])$$,
    'the first three of it');
select results_eq(
    $$select doc ->> 'redriven', doc ->> 'count', remaining
      from pg_temp.redrive($$ || quote_literal(:'plan') || $$)$$,
    $$values ('7', '9', 0)$$, 'the others');
select is((select json_array_length(doc -> 'skipped')
           from pg_temp.redrive(:'plan')), 2, 'one was busy, one succeeded');
select results_eq(
    $$select doc ->> 'redriven', doc -> 'skipped' -> 1 ->> 'reason', remaining
      from pg_temp.redrive($$ || quote_literal(:'plan') || $$)$$,
    $$values ('7', 'work-active: other work of its key is active', 0)$$,
    'a plan that is done answers the same');
select results_eq(
    $$select status, count(*)::int from interlock.jobs where kind = 'k'
      group by 1 order by 1$$,
    $$values ('failed', 2), ('queued', 8), ('succeeded', 1)$$,
    'just those of the plan are queued');
select results_eq(
    $$select target, requested_by, reason, token_id, token_name, work_key,
          detail ->> 'plan_id'
      from interlock.actions where what = 'redrive' and target = t.rid(3)::text$$,
    $$values (t.rid(3)::text, 'who', 'the API is back', 7::bigint, 'op',
        'k:3', $$ || quote_literal(:'plan') || ')', 'who and why, at each job');

-- It runs again, with all its attempts.
select results_eq(
    $$select job_id, attempt, fence, earlier::json -> 0 ->> 'error'
      from t.claim('k')$$,
    $$values (t.rid(1), 2, 2::bigint, 'no such customer')$$,
    'claimed, with a higher fence and its history');

-- In line: two of one key; the line has room for one behind the head.
select doc ->> 'plan_id' as plan from pg_temp.plan('{"kind":"l"}') \gset
select results_eq(
    $$select doc ->> 'redriven', doc -> 'skipped' -> 0 ->> 'reason'
      from pg_temp.redrive($$ || quote_literal(:'plan') || $$)$$,
    $$values ('2', 'work-active: the line of its work key is full')$$,
    'as far as its line has room');
select results_eq(
    $$select id, place from interlock.jobs where work_key = 'l:1' order by id$$,
    $$values (t.rid(21), 'ready'), (t.rid(22), 'blocked'), (t.rid(23), null)$$,
    'in their order');

-- Plans do not last.
select doc ->> 'plan_id' as plan from pg_temp.plan('{}') \gset
update interlock.redrive_plans set expires_at = clock_timestamp()
where id = :'plan';
select is((select problem from pg_temp.redrive(:'plan')), 'plan-expired',
    'a plan is for an hour');
select doc ->> 'plan_id' as plan from pg_temp.plan('{"kind":"none"}') \gset
select results_eq(
    $$select problem, doc ->> 'redriven', remaining
      from pg_temp.redrive($$ || quote_literal(:'plan') || $$)$$,
    $$values (null, '0', 0)$$, 'an empty one is done at once');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
