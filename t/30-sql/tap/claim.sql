-- claim.sql: which jobs are claimed, by whom, in which order.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('free', '{"overlap":"allow","lease_seconds":10}');
select t.kind('brief', '{"overlap":"allow","lease_seconds":60,"max_runtime":20}');
select t.kind('skip', '{"overlap":"skip"}');
select t.kind('late', '{"overlap":"skip"}');

select is_empty($$select * from t.claim('free,skip', 5)$$,
    'nothing there: no row');

-- Order: age, bent by priority.
select submit.ord from t.submit('free', 'c:1', id => 1);
select submit.ord from t.submit('free', 'c:2', id => 2);
select submit.ord from t.submit('free', 'c:3', id => 3, priority => 1);
select submit.ord from t.submit('free', 'c:4', id => 4, priority => -1);
create temp table g as select * from t.claim('free', 10);
select results_eq('select job_id from g',
    'select t.rid(x) from unnest(array[3, 1, 2, 4]) x',
    'by priority, then by age');
select is_empty($$select * from t.claim('free', 10)$$, 'claimed once');

-- What a grant says.
select ok((select bool_and(fence = 1 and attempt = 1 and lease_seconds = 10
    and remaining_ms between 9000 and 10000
    and token_exp between expires_at + interval '7 days'
                      and expires_at + interval '8 days'
    and payload = convert_to('{}', 'UTF8') and waited_ms >= 0) from g),
    'fence, attempt, lease, token''s end, payload');
select ok((select bool_and(status = 'running' and attempts = 1
    and started_at is not null and place is null) from interlock.jobs
    where kind = 'free'), 'the jobs run');
select submit.ord from t.submit('brief', 'c:b', id => 5);
select ok((select remaining_ms <= 20000 and lease_seconds = 60
    from t.claim('brief')), 'no lease reaches beyond max_runtime');

-- The same claim again.
select submit.ord from t.submit('free', 'c:5', id => 6);
create temp table h as select * from t.claim('free', 5, claim => 77);
create temp table i as select * from t.claim('free', 5, claim => 77);
select submit.ord from t.submit('free', 'c:6', id => 7);
create temp table j as select * from t.claim('free', 5, claim => 77);
select results_eq('select attempt_id, fence from i',
    'select attempt_id, fence from h', 'the same claim id: the same leases');
select results_eq('select attempt_id, fence from j',
    'select attempt_id, fence from h', 'and no others');
select is((select count(*)::int from h), 1, 'one');

-- Several jobs of one key, overlap allow.
select submit.ord from t.submit('free', 'c:7', 'x', id => 8);
select submit.ord from t.submit('free', 'c:7', 'y', id => 9);
select submit.ord from t.submit('free', 'c:7', 'z', id => 10);
select results_eq(
    $$select work_key, fence from t.claim('free', 10)$$,
    $$values ('c:6', 1::bigint), ('c:7', 1), ('c:7', 2), ('c:7', 3)$$,
    'jobs of one key run side by side, each with its own fence');

-- The floor that pruning leaves.
update interlock.tenants set fence_floor = 40 where name = 'demo';
select submit.ord from t.submit('skip', 'c:8', id => 11);
select is((select fence from t.claim('skip')), 41::bigint,
    'a fence is above the tenant''s floor');

-- Delayed jobs come when they are due.
select submit.ord from t.submit('late', 'c:9', id => 12,
    run_after => clock_timestamp() + interval '1 hour');
select is_empty($$select * from t.claim('late', 5)$$, 'not before');
select results_eq(
    $$select ready, next_at > clock_timestamp()
      from interlock.runnable(array[interlock.tenant_create('demo')],
                              array['late'])$$,
    $$values (0::bigint, true)$$, 'runnable tells when');
select t.due('c:9');
select results_eq(
    $$select ready, next_at is null
      from interlock.runnable(array[interlock.tenant_create('demo')],
                              array['late'])$$,
    $$values (1::bigint, true)$$, 'and that it is time');
select is((select job_id from t.claim('late', 5)), t.rid(12), 'then');

-- Sharing out: three ask for free, one of them for late too; each gets its
-- turn, none more than its max.
select submit.ord from generate_series(101, 107) x,
    t.submit('free', 'd:' || x, id => x);
select submit.ord from t.submit('late', 'd:8', id => 108);
create temp table k as
select * from interlock.claim(
    array[t.rid(901), t.rid(902), t.rid(903), t.rid(904)],
    array_fill(interlock.tenant_create('demo'), array[4]),
    array['a', 'b', 'c', 'd'],
    array['free', 'free,late', 'nope', 'free'], array[9, 9, 9, 1]);
select results_eq(
    $$select ord, string_agg(ltrim(right(job_id::text, 3), '0'), ','
          order by job_id)
      from k group by ord order by ord$$,
    $$values (1, '101,104,106'), (2, '102,105,107,108'), (4, '103')$$,
    'shared out in turn');

-- Tenants apart.
select interlock.kind_put(interlock.tenant_create('two'), 'free',
    '{"overlap":"allow"}') is not null;
select submit.ord from t.submit('free', 'e:1', id => 201);
select submit.ord from t.submit('free', 'e:1', id => 202, tenant => 'two');
select results_eq(
    $$select job_id from t.claim('free', 9, tenant => 'two')$$,
    'select t.rid(202)', 'a worker gets its own tenant''s jobs only');

-- Handed back because the answer could not be written.
create temp table l as select * from t.claim('free', 1);
select results_eq(
    $$select u.ok, u.kind from interlock.unclaim(
        array[interlock.tenant_create('demo')],
        (select array_agg(attempt_id) from l)) u$$,
    $$values (true, 'free')$$, 'unclaim');
select ok((select status = 'queued' and place = 'ready' and attempts = 0
    and started_at is null from interlock.jobs where id = t.rid(201)),
    'the job is as before, the attempt not counted');
select ok((select not u.ok from interlock.unclaim(
    array[interlock.tenant_create('demo')],
    (select array_agg(attempt_id) from l)) u), 'once');
select is((select fence from t.claim('free')), 42::bigint,
    'its fence stays used');

-- What the next attempt is told.
select t.kind('hist', '{"overlap":"allow","max_attempts":99}');
select submit.ord from t.submit('hist', 'h:1', id => 301);
create function pg_temp.told() returns table (attempt int, step text,
    checkpoint text, earlier int, effects text) language sql as $$
    select c.attempt, c.step, c.checkpoint,
        json_array_length(c.earlier::json), c.effects
    from t.claim('hist') c
$$;
select results_eq('select * from pg_temp.told()',
    $$values (1, null, null, 0, '[]')$$, 'a first attempt has no history');
insert into t.held select 'h', tenant, job_id, attempt_id, fence
from interlock.leases where job_id = t.rid(301)
on conflict (who) do update set job = excluded.job,
    attempt = excluded.attempt, fence = excluded.fence;
select is((select outcome from t.renew('h', '{"done":1}', 'half',
    '{"at": [1.10]}')), 'ok', 'a step and a checkpoint');
select t.expire('h');
select r.status from interlock.recover(9) r;
select results_eq('select * from pg_temp.told()',
    $$values (2, 'half', '{"at": [1.10]}', 1, '[]')$$,
    'the next one has them, and the attempt that was lost');
select u.ok from interlock.leases l, interlock.unclaim(array[l.tenant],
    array[l.attempt_id]) u where l.job_id = t.rid(301);
create temp table replay as select * from t.claim('hist', claim => 7707);
select results_eq(
    $$select x ->> 'call', x ->> 'error', x ->> 'step', x ->> 'worker',
          (x ->> 'attempt')::int, (x ->> 'fence')::int,
          x ->> 'started_at' <= x ->> 'ended_at'
      from replay r, json_array_elements(r.earlier::json) x$$,
    $$values ('lost', 'lease expired', 'half', 'w', 1, 41, true)$$,
    'an answer that nobody had is no attempt');
select results_eq(
    $$select attempt_id, step, checkpoint, earlier
      from t.claim('hist', claim => 7707)$$,
    'select attempt_id, step, checkpoint, earlier from replay',
    'the same claim again tells the same');
do $$
begin
    for i in 1 .. 12 loop
        update t.held h set attempt = l.attempt_id, fence = l.fence
        from interlock.leases l where h.who = 'h' and l.job_id = h.job;
        perform t.finish('h', 'fail', p_error => 'e' || i,
            p_retry_after => 0);
        perform t.due('h:1');
        exit when i = 12;
        perform t.claim('hist');
    end loop;
end
$$;
select results_eq(
    $$select c.attempt, (select string_agg(x ->> 'error', ' ' order by n)
          from json_array_elements(c.earlier::json) with ordinality y (x, n))
      from t.claim('hist') c$$,
    $$values (14, 'e3 e4 e5 e6 e7 e8 e9 e10 e11 e12')$$,
    'the last ten, the oldest first');

-- More wanted than there are pages of: 300 jobs, batches of 50.
select count(*) from generate_series(1001, 1300) x,
    t.submit('late', 'f:' || x, id => x);
select is((select count(*)::int from t.claim('late', 50)), 50, '50 of 300');
select is((select count(*)::int from t.claim('late', 500)), 250, 'the rest');

-- Many in one call.  Of one kind: in turn; what one has from before (claim
-- 9901) it gets again, and nothing else.
select t.kind('many', '{"overlap":"skip"}');
select submit.ord from generate_series(1, 12) x,
    t.submit('many', 'm:' || lpad(x::text, 2, '0'), id => 900 + x);
create function pg_temp.many(p_claims int[], p_kinds text[], p_max int[])
returns table (ord int, keys text) language sql as $$
    select c.ord, string_agg(c.work_key, ' ' order by c.n)
    from (select x.*, row_number() over () as n
          from interlock.claim(array(select t.rid(y) from unnest(p_claims) y),
              array_fill(t.demo(), array[cardinality(p_claims)]),
              array_fill('w'::text, array[cardinality(p_claims)]),
              p_kinds, p_max) x) c
    group by 1
$$;
select results_eq(
    $$select * from pg_temp.many('{9901}', '{many}', '{2}')$$,
    $$values (1, 'm:01 m:02')$$, 'one claim: in order');
select results_eq(
    $$select * from pg_temp.many('{9902,9901,9903,9904}',
        '{many,many,many,many}', '{3,5,1,2}')$$,
    $$values (1, 'm:03 m:06 m:08'), (2, 'm:01 m:02'), (3, 'm:04'),
        (4, 'm:05 m:07')$$,
    'several: each in its turn as many as it wants');
select results_eq(
    $$select * from pg_temp.many('{9902,9901,9903,9904}',
        '{many,many,many,many}', '{3,5,1,2}')$$,
    $$values (1, 'm:03 m:06 m:08'), (2, 'm:01 m:02'), (3, 'm:04'),
        (4, 'm:05 m:07')$$, 'the same again');
select results_eq(
    $$select * from pg_temp.many('{9905,9906}', '{many,many}', '{3,3}')$$,
    $$values (1, 'm:09 m:11'), (2, 'm:10 m:12')$$,
    'fewer than wanted: shared out');
select is((select count(distinct l.attempt_id)::int from interlock.leases l
    where l.kind = 'many' and l.fence = 41 and l.attempt = 1), 12,
    'a lease each');

-- Of several kinds, one whose time has come, one that ran before, one whose
-- key's history has effects to tell of.
select t.kind('many2', '{"overlap":"skip"}');
select submit.ord from t.submit('many2', 'm:21', id => 921);
select submit.ord from t.submit('many2', 'm:22', id => 922,
    run_after => clock_timestamp() + interval '1 hour');
select submit.ord from t.submit('many', 'm:23', id => 923);
select t.due('m:22');
select results_eq(
    $$select * from pg_temp.many('{9907}', '{"many,many2"}', '{9}')$$,
    $$values (1, 'm:21 m:22 m:23')$$, 'one claim of several kinds');
select t.kind('back', '{"overlap":"skip","backoff":0}');
select submit.ord from t.submit('back', 'm:24', id => 924);
select t.take('b', 'back');
select t.renew('b', p_step => 'half', p_checkpoint => '{"at":5}');
select t.finish('b', 'release');
select results_eq(
    $$select attempt, fence, step, checkpoint, earlier::json -> 0 ->> 'call'
      from t.claim('back')$$,
    $$values (1, 42::bigint, 'half', '{"at":5}', 'release')$$,
    'what ran before is told of it');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
