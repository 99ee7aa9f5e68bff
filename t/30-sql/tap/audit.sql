-- audit.sql: what is shown of a key, and what is measured of a kind.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

create function pg_temp.audit(p_key text, p_limit int default 200,
    p_cursor text default null)
returns table (doc json, next text) language sql as $$
    select a.doc::json, a.next
    from interlock.audit(t.demo(), p_key, p_limit, p_cursor) a
$$;

select t.kind('k', '{"overlap":"buffer_one","on_lost":"hold","when_completed":"return"}');
select is_empty($$select * from pg_temp.audit('a:0')$$, 'no such key');

select submit.ord from t.submit('k', 'a:1', 'A', 'idem', id => 1);
select submit.ord from t.submit('k', 'a:1', 'A', 'idem', id => 2);
select t.take('w1', 'k');
select t.renew('w1', p_step => 'half');
select submit.ord from t.submit('k', 'a:1', 'B', id => 3);
select t.expire('w1');
select r.status from interlock.recover(9) r;
select f.outcome from t.finish('w1', 'complete', '{"late":true}') f;
select d.problem from interlock.job_decide(t.demo(), t.rid(1), 'retry', 'the day''s desk',
    'who', 'looked', 7, 'op') d;
select t.take('w2', 'k');
select f.outcome from t.finish('w2', 'complete', '{"n":1}') f;
select t.take('w3', 'k');
select c.problem from interlock.job_cancel(t.demo(), t.rid(3), 'who', 'no', 7,
    'op') c;
select p.problem from interlock.work_publish(t.demo(), 'a:1', 1, 'who',
    'again', 7, 'op') p;

select results_eq(
    $$select x ->> 'what', coalesce(x ->> 'decision', x ->> 'call',
          x ->> 'action', x ->> 'by', x ->> 'fence')
      from pg_temp.audit('a:1') a, json_array_elements(a.doc -> 'timeline')
          with ordinality y (x, n)
      order by n$$,
    $$values ('request', 'accepted'), ('request', 'duplicate'),
        ('claimed', '1'), ('request', 'buffered'), ('ended', 'lost'),
        ('refused', 'complete'), ('action', 'job_decide'), ('claimed', '2'),
        ('ended', 'complete'), ('published', 'complete'), ('claimed', '3'),
        ('action', 'job_cancel'), ('published', 'publish'),
        ('action', 'work_publish')$$,
    'one time line of requests, decisions, attempts, losses, refusals, people');
select is((select string_agg(x ->> 'at', ',' order by n)
           from pg_temp.audit('a:1') a,
               json_array_elements(a.doc -> 'timeline')
               with ordinality y (x, n)),
    (select string_agg(x ->> 'at', ',' order by x ->> 'at')
     from pg_temp.audit('a:1') a,
         json_array_elements(a.doc -> 'timeline') y (x)),
    'in order of time');
select results_eq(
    $$select x ->> 'requested_by', x ->> 'reason', x ->> 'token_name',
          x ->> 'token_id'
      from pg_temp.audit('a:1') a, json_array_elements(a.doc -> 'timeline') x
      where x ->> 'action' = 'job_decide'$$,
    $$values ('who', 'looked', 'op', '7')$$, 'who, why, and by which token');
select results_eq(
    $$select x ->> 'error', x ->> 'step', x ->> 'worker', x ->> 'status'
      from pg_temp.audit('a:1') a, json_array_elements(a.doc -> 'timeline') x
      where x ->> 'call' = 'lost'$$,
    $$values ('lease expired', 'half', 'w1', 'held')$$, 'a loss, with its reason');
select results_eq(
    $$select x -> 'result' ->> 'late', x ->> 'refusal'
      from pg_temp.audit('a:1') a, json_array_elements(a.doc -> 'timeline') x
      where x ->> 'what' = 'refused'$$,
    $$values ('true', 'lease-lost')$$, 'what came late');

-- final.
select is((select doc -> 'final' -> 'result' ->> 'revision'
           from pg_temp.audit('a:1')), '1', 'the result that stands');
select results_eq(
    $$select x ->> 'what', x ->> 'id', x ->> 'state', x ->> 'why'
      from pg_temp.audit('a:1') a,
          json_array_elements(a.doc -> 'final' -> 'open') x$$,
    $$values ('job', t.rid(3)::text, 'running', 'attempt 1, asked to end')$$,
    'and what is open');
select is((select doc -> 'final' ->> 'confirmed_effects'
           from pg_temp.audit('a:1')), '[]', 'no effects');

-- Pages: each entry once, in the same order.
create function pg_temp.pages(p_key text, p_limit int) returns text[]
language plpgsql as $$
declare
    v_next  text;
    v_out   text[] := '{}';
    a       record;
begin
    loop
        select * into a from pg_temp.audit(p_key, p_limit, v_next);
        v_out := v_out || array(
            select x::text from json_array_elements(a.doc -> 'timeline') x);
        v_next := a.next;
        if a.doc ->> 'next' is distinct from v_next then
            raise exception 'next in the answer and beside it differ';
        end if;
        exit when v_next is null;
    end loop;
    return v_out;
end
$$;

select is(pg_temp.pages('a:1', n), pg_temp.pages('a:1', 200), 'pages of ' || n)
from generate_series(1, 15) n;
select is((select next from pg_temp.audit('a:1', 14)), null,
    'a page that holds the rest is the last');
select is_empty($$select * from pg_temp.audit('a:1', 9, '1; drop')$$,
    'a cursor that is none');

-- A hundred entries of one moment.
select t.kind('free', '{"overlap":"allow"}');
select submit.ord from generate_series(101, 150) x, t.submit('free', 'f:1', id => x);
alter table interlock.requests disable trigger requests_insert_only;
update interlock.requests set arrived_at = '2026-11-01' where work_key = 'f:1';
alter table interlock.requests enable trigger requests_insert_only;
select is(cardinality(pg_temp.pages('f:1', 7)), 50, 'all of one moment, once');

select is_empty($$select * from interlock.audit(
    interlock.tenant_create('other'), 'a:1', 9, null)$$,
    'nothing of another tenant''s');

-- Expired.
select t.kind('short', '{"overlap":"skip","max_wait":1}');
select submit.ord from t.submit('short', 'e:1', id => 201);
update interlock.jobs set expire_at = clock_timestamp() where id = t.rid(201);
select e.status from interlock.expire(9) e;
select results_eq(
    $$select x ->> 'what', x ->> 'error'
      from pg_temp.audit('e:1') a, json_array_elements(a.doc -> 'timeline') x$$,
    $$values ('request', null),
        ('expired', 'waited longer than max_wait (1 s)')$$, 'a wait too long');

-- A result check that is exhausted: held from then on, not from the loss.
create function pg_temp.open(p_key text) returns json language sql as $$
    select a.doc -> 'final' -> 'open' -> 0 from pg_temp.audit(p_key) a
$$;
select is(t.lost('c:1', 61), 'checking', 'a lost job is looked for');
select is((select o ->> 'since' from pg_temp.open('c:1') o),
    (select interlock.ts(max(a.ended_at)) from interlock.attempts a
     where a.job_id = t.rid(61)), 'checking since its loss');
select pg_sleep(0.002);
select t.look_up();
select is((select s.outcome from t.say(61, 'unclear') s), 'again', 'unclear');
select is((select o ->> 'state' || ' since the loss' from pg_temp.open('c:1') o
           where (o ->> 'since') = (select interlock.ts(max(a.ended_at))
               from interlock.attempts a where a.job_id = t.rid(61))),
    'checking since the loss', 'still so');
update interlock.checks set due_at = clock_timestamp();
select pg_sleep(0.002);
select t.look_up();
select is((select s.outcome from t.say(61, 'unclear') s), 'exhausted',
    'unclear for the last time');
select results_eq(
    $$select o ->> 'state', o ->> 'since' from pg_temp.open('c:1') o$$,
    $$select 'held', interlock.ts(max(c.at)) from interlock.check_answers c
      where c.target = t.rid(61) and c.outcome = 'exhausted'$$,
    'held since the last look-up');
select results_eq(
    $$select x ->> 'what', coalesce(x ->> 'status', x ->> 'outcome',
          x ->> 'error')
      from pg_temp.audit('c:1') a, json_array_elements(a.doc -> 'timeline')
          with ordinality y (x, n) where n > 2 order by n$$,
    $$values ('ended', 'checking'), ('checked', 'again'),
        ('checked', 'exhausted'),
        ('held', 'its result could not be checked: said')$$,
    'the time line says that it is held');
select results_eq(
    $$select b.doc -> 'timeline' -> 0 ->> 'what'
      from pg_temp.audit('c:1', 5) a, pg_temp.audit('c:1', 5, a.next) b$$,
    $$values ('held')$$, 'on a page of its own, too');
select pg_sleep(0.002);
select d.problem from interlock.job_decide(t.demo(), t.rid(61), 'release', null,
    'who', 'looked', 7, 'op') d;
select results_eq(
    $$select o ->> 'state', o ->> 'since' from pg_temp.open('c:1') o$$,
    $$select 'queued', interlock.ts(max(a.at)) from interlock.actions a
      where a.target = t.rid(61)::text$$, 'queued since the decision');
select t.take('c', 'chk');
select is((select o ->> 'since' from pg_temp.open('c:1') o),
    (select interlock.ts(l.granted_at) from interlock.leases l
     where l.job_id = t.rid(61)), 'running since its claim');
select t.finish('c', 'release');
select t.take('c', 'chk');
select t.finish('c', 'fail', p_retry_after => 0);
select t.due('c:1');
select t.take('c', 'chk');
select t.finish('c', 'complete');
select results_eq(
    $$select x ->> 'call', x ->> 'retryable',
          x::jsonb ? 'retryable'
      from pg_temp.audit('c:1') a, json_array_elements(a.doc -> 'timeline')
          with ordinality y (x, n) where x ->> 'what' = 'ended' order by n$$,
    $$values ('lost', 'true', true), ('release', null, false),
        ('fail', 'true', true), ('complete', null, false)$$,
    'only what failed is retryable or not');

-- One whose check says fail when it is exhausted is not held.
select t.kind('chk', '{"on_lost":"check","result_check":{"type":"http",
    "url":"https://h/","found":{"status":[200]},"max_checks":1,
    "on_exhausted":"fail"}}');
select submit.ord from t.submit('chk', 'c:2', id => 62);
select t.take('c', 'chk');
select t.expire('c');
select r.status from interlock.recover(9) r;
select t.look_up();
select is((select s.outcome from t.say(62, 'unclear') s), 'exhausted', 'unclear');
select is((select count(*)::int from pg_temp.audit('c:2') a,
    json_array_elements(a.doc -> 'timeline') x where x ->> 'what' = 'held'), 0,
    'failed, not held');

-- Advice.
create function pg_temp.advice(p_goal int default null) returns json
language sql as $$
    select a.doc::json from interlock.kind_advice(t.demo(), 'adv', p_goal) a
$$;
select is_empty($$select * from interlock.kind_advice(t.demo(), 'none', null)$$,
    'no such kind');
select t.kind('adv', '{"overlap":"allow","lease_seconds":40}');
select results_eq(
    $$select a ->> 'samples', a -> 'proposed' ->> 'lease_seconds',
          a -> 'run_seconds' ->> 'p50', a -> 'current' ->> 'lease_seconds'
      from pg_temp.advice() a$$,
    $$values ('0', '40', null, '40')$$, 'nothing measured, nothing proposed');

-- As if 100 attempts had run 10, 20, … 1000 s, renewed every 12 s at most.
select submit.ord from generate_series(1001, 1100) x, t.submit('adv', 'v:' || x, id => x);
select t.take('v' || x, 'adv') from generate_series(1, 100) x;
select is((select count(*)::int from t.renew('v1')), 1, 'a renewal');
select cmp_ok((select max_gap_ms from interlock.leases l, t.held h
               where h.who = 'v1' and l.attempt_id = h.attempt), '>=', 0,
    'is measured');
alter table interlock.leases disable trigger leases_fixed;
update interlock.leases l
set granted_at = clock_timestamp() - interval '10 seconds' * substr(h.who, 2)::int,
    renewals = 3, max_gap_ms = 120 * substr(h.who, 2)::int, waited_ms = 500
from t.held h where h.attempt = l.attempt_id and h.who ~ '^v';
alter table interlock.leases enable trigger leases_fixed;
select f.outcome from generate_series(1, 100) x, t.finish('v' || x, 'complete') f;
select results_eq(
    $$select a ->> 'samples', a ->> 'lost',
          round((a -> 'run_seconds' ->> 'p50')::numeric / 10),
          round((a -> 'run_seconds' ->> 'p90')::numeric / 10),
          round((a -> 'run_seconds' ->> 'max')::numeric / 10),
          a -> 'renewal_gap_seconds' ->> 'p99',
          a -> 'renewal_gap_seconds' ->> 'max', a -> 'wait_seconds' ->> 'p95'
      from pg_temp.advice() a$$,
    $$values ('100', '0', 50::numeric, 90::numeric, 100::numeric, '11.880',
        '12.000', '0.500')$$, 'percentiles');
select results_eq(
    $$select (a -> 'proposed' ->> 'lease_seconds')::int,
          a -> 'proposed' ->> 'why'
      from pg_temp.advice() a$$,
    $$values (36, 'three times the renewal gap of 11.9 s (p99), so that two '
        'renewals may fail')$$, 'three renewal gaps');
select is((pg_temp.advice(61) -> 'proposed' ->> 'lease_seconds')::int, 60,
    'a recovery goal that leaves room is used');
select matches(pg_temp.advice(20) -> 'proposed' ->> 'why',
    'recovery goal of 20 s would need workers that renew at least every 6 s',
    'one that does not is told so');

-- Attempts that were lost in silence: how long is not known.
select results_eq(
    $$select v.lost, v.mute, a.lease, a.why
      from (values (0, 0), (1, 0), (1, 1), (10, 5)) v (lost, mute),
          interlock.kind_row(t.demo(), 'adv') k,
          interlock.lease_advice(k, 100, v.lost, v.mute, 1.0, 2.0, null) a$$,
    $$values (0, 0, 15, 'no worker was silent for longer than 5 s'),
        (1, 0, 15, 'no worker was silent for longer than 5 s, of those that '
            'were not lost; 1 of 100 attempts were lost, 0 of them without '
            'any renewal: their workers were silent for at least their lease, '
            'how long is not known'),
        (1, 1, 15, 'no worker was silent for longer than 5 s, of those that '
            'were not lost; 1 of 100 attempts were lost, 1 of them without '
            'any renewal: their workers were silent for at least their lease, '
            'how long is not known'),
        (10, 5, 40, 'nothing speaks for less than the present lease; 10 of '
            '100 attempts were lost, 5 of them without any renewal: their '
            'workers were silent for at least their lease, how long is not '
            'known')$$,
    'lost in silence: at least the lease');
select submit.ord from generate_series(1, 25) x,
    t.submit('adv', 'u:' || x, id => 2000 + x);
select t.take('u' || x, 'adv') from generate_series(1, 25) x;
select t.expire('u' || x) from generate_series(1, 25) x;
alter table interlock.leases disable trigger leases_fixed;
update interlock.leases set runtime_end = expires_at
where job_id = t.rid(2025);
alter table interlock.leases enable trigger leases_fixed;
select count(*) from interlock.recover(99);
select results_eq(
    $$select a ->> 'samples', a ->> 'lost',
          (a -> 'proposed' ->> 'lease_seconds')::int,
          a -> 'proposed' ->> 'why'
      from pg_temp.advice() a$$,
    $$values ('125', '25', 40, 'nothing speaks for less than the present '
        'lease; 24 of 125 attempts were lost, 24 of them without any renewal: '
        'their workers were silent for at least their lease, how long is not '
        'known')$$, 'max_runtime is no silence');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
