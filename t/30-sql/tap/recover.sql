-- recover.sql: leases that ended without their owner.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('k', '{"overlap":"skip","max_attempts":2}');
select t.kind('rt', '{"overlap":"skip","max_attempts":9,"lease_seconds":5,"max_runtime":5}');
select t.kind('free', '{"overlap":"allow"}');

select submit.ord from t.submit('k', 'r:1', id => 1);
select t.take('w1', 'k');
select is_empty('select * from interlock.recover(10)',
    'a live lease is left alone');

select t.expire('w1');
select results_eq(
    $$select job_id, kind, status, runnable_kind, ended_jobs
      from interlock.recover(10)$$,
    $$values (t.rid(1), 'k', 'queued', 'k', '{}'::uuid[])$$,
    'an expired one is recovered, its job ready at once');
select is_empty('select * from interlock.recover(10)', 'once');
select results_eq(
    'select call, status, error from interlock.attempts',
    $$values ('lost', 'queued', 'lease expired')$$, 'with its history');

-- The late owner.
select is((select outcome from t.finish('w1', 'complete')), 'lease-lost',
    'the late owner''s complete is refused');
select is((select outcome from t.renew('w1')), 'lease-lost', 'its renew');
select is((select outcome from t.renew('w1', '{}')), 'lease-lost',
    'its progress');
select is((select t.take('w2', 'k')), 'r:1 fence 2',
    'the next owner has a higher fence');
select is((select outcome from t.finish('w1', 'fail')), 'lease-lost',
    'the late owner''s fail is refused while another one runs');
select is((select count(*)::int from interlock.leases), 1,
    'and harms it in nothing');

select t.expire('w2');
select results_eq(
    'select status, runnable_kind, ended_jobs from interlock.recover(10)',
    $$values ('failed', null, array[t.rid(1)])$$,
    'lost at the last attempt: failed');
select is((select error from interlock.jobs where id = t.rid(1)),
    'lease expired (attempt 2 of 2)', 'with the reason');

-- max_runtime.
select submit.ord from t.submit('rt', 'r:2', id => 2);
select t.take('w1', 'rt');
alter table interlock.leases disable trigger leases_fixed;
update interlock.leases l set runtime_end = x.now, expires_at = x.now
from (select clock_timestamp() as now offset 0) x;
alter table interlock.leases enable trigger leases_fixed;
select is((select outcome from t.renew('w1')), 'lease-expired',
    'a renewing owner is ended by max_runtime');
select is((select status from interlock.recover(10)), 'queued', 'recovered');
select is((select error from interlock.attempts where job_id = t.rid(2)),
    'max_runtime reached', 'with that reason');

-- Bounded passes.
select submit.ord from generate_series(11, 17) x,
    t.submit('free', 'r:' || x, id => x);
select count(*) from t.claim('free', 9);
update interlock.leases set expires_at = clock_timestamp();
select is((select count(*)::int from interlock.recover(3)), 3, 'three');
select is((select count(*)::int from interlock.recover(3)), 3, 'three more');
select is((select count(*)::int from interlock.recover(3)), 1, 'the last');

-- One poisoned row (its policy is gone, which no constraint allows).
select count(*) from t.claim('free', 9);
update interlock.leases set expires_at = clock_timestamp();
update interlock.jobs set kind_version = 99 where id = t.rid(13);
select is((select count(*)::int from interlock.recover(20)), 6,
    'one row''s trouble does not stop the others');
select results_eq(
    $$select l.job_id, r.times, r.sqlstate
      from interlock.recovery_troubles r
      join interlock.leases l using (tenant, attempt_id)$$,
    $$values (t.rid(13), 1, 'P0002')$$, 'it is noted');
select is((select value::int from interlock.stats()
           where name = 'recovery_troubles'), 1, 'and shown');
select is_empty('select * from interlock.recover(20)',
    'and left alone for a while');
update interlock.recovery_troubles set next_try = clock_timestamp();
select is_empty('select * from interlock.recover(20)', 'tried again');
select is((select times from interlock.recovery_troubles), 2, 'counted');
update interlock.recovery_troubles set next_try = clock_timestamp();
update interlock.jobs set kind_version = 1 where id = t.rid(13);
select is((select count(*)::int from interlock.recover(20)), 1,
    'recovered once its trouble is gone');
select is_empty('select * from interlock.recovery_troubles',
    'and the note too');

-- Many of them, wherever they stand: one pass does all the others.
select submit.ord from generate_series(101, 140) x,
    t.submit('free', 'p:' || x, id => x);
select count(*) from t.claim('free', 99);
update interlock.leases set expires_at = clock_timestamp();
update interlock.jobs set kind_version = 99
where id between t.rid(101) and t.rid(140)
    and ascii(substr(md5(id::text), 1, 1)) % 3 = 0;
create temp table done as select * from interlock.recover(99);
select is((select count(*)::int from done),
    (select count(*)::int from interlock.jobs
     where kind = 'free' and status = 'queued' and attempts > 0),
    'all but the poisoned ones are recovered');
select cmp_ok((select count(*)::int from interlock.leases), '>', 5,
    'which are several');
select is((select count(*)::int from interlock.recovery_troubles
           where times = 1), (select count(*)::int from interlock.leases),
    'each is noted once');
update interlock.recovery_troubles set next_try = clock_timestamp();
update interlock.jobs set kind_version = 1 where kind_version = 99;
select cmp_ok((select count(*)::int from interlock.recover(99)), '>', 5,
    'and recovered later');
select is_empty('select * from interlock.leases', 'all of them');

-- A server that came up just now: what ended before waits, what ends later
-- does not.
delete from interlock.server_seen;
select t.kind('seen', '{"overlap":"allow"}');
select submit.ord from generate_series(1, 3) x, t.submit('seen', 's:' || x);
select t.take('before', 'seen');
select t.expire('before');
select is((select count(*)::int from interlock.recover(10)), 0,
    'ended while the server was away: left alone');
select results_eq(
    $$select start = pg_postmaster_start_time(),
          clock_timestamp() - seen_at < interval '1 minute'
      from interlock.server_seen$$, $$values (true, true)$$,
    'from when it was seen first');
select t.take('after', 'seen');
update interlock.leases l set expires_at = clock_timestamp()
from t.held h where h.who = 'after' and h.attempt = l.attempt_id;
select results_eq(
    $$select r.job_id from interlock.recover(10) r$$,
    $$select job from t.held where who = 'after'$$,
    'ended since: recovered at once');
create temp table seen as select * from interlock.server_seen;
select is((select count(*)::int from interlock.recover(10)), 0,
    'the first one still waits');
select results_eq('select * from interlock.server_seen', 'select * from seen',
    'that is noted once');
update interlock.server_seen set seen_at = seen_at - interval '5 seconds';
select results_eq(
    $$select r.job_id from interlock.recover(10) r$$,
    $$select job from t.held where who = 'before'$$,
    '5 s later it is recovered, too');
update interlock.server_seen set start = start - interval '1 day';
select is((select count(*)::int from interlock.recover(10)), 0,
    'another server');
select results_eq('select start from interlock.server_seen',
    'select start from seen', 'is noted anew');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
