-- edge.sql: what the edge answered alone becomes rows, and is counted.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select t.kind('tally', '{"overlap":"skip"}');

create temp table a as select * from t.submit('tally', 'e:1', '{}', 'k1');

create function t.numbers(p_zone bigint default 1) returns text
language sql as $$
    select format('high %s received %s missing %s', high, received, missing)
    from interlock.edge_zones where zone = t.rid(9000 + p_zone)
$$;

create function t.told() returns text
language sql as $$
    select string_agg(format('%s=%s', name, value), ' ' order by name desc)
    from interlock.stats() where name like 'edge%'
$$;

-- So many seconds pass for a zone.
create function t.pass(p_seconds int) returns void
language sql as $$
    update interlock.edge_zones
    set marked_at = marked_at - make_interval(secs => p_seconds),
        changed_at = changed_at - make_interval(secs => p_seconds)
$$;

select is(t.told(), 'edge_audit_received_total=0 edge_audit_missing_total=0',
    'before any edge was heard of, both are there and 0');

-- A duplicate.
select is(t.edge(1, 'duplicate', 'k1', 'tally', 'e:1', job_id), 'recorded',
    'a duplicate is recorded') from a;
select is((select q.requested_by from interlock.requests q
           where q.decision = 'duplicate'), 'somebody', '... and whose it was');
select is(t.edge(1, 'duplicate', 'k1', 'tally', 'e:1', job_id), 'known',
    'the same number again changes nothing') from a;
select results_eq(
    $$select q.decision, q.code, q.job_id, q.status, q.first_request,
          q.idempotency_key, q.fingerprint, q.arrived_at >= f.arrived_at
      from interlock.requests q
      join interlock.requests f on f.id = q.first_request
      where q.decision = 'duplicate'$$,
    $$select 'duplicate', 202, job_id, 'queued', job_id, 'k1',
          sha256('{}'), true from a$$,
    'its row has the first one''s answer, and is linked to it');
select is((select doc::json -> 'decisions' ->> 'duplicate'
           from interlock.work_get(t.demo(), 'e:1')), '1',
    'the work counts it');
select is((select count(*)::int
           from interlock.audit(t.demo(), 'e:1', 100, null) x,
               json_array_elements(x.doc::json -> 'timeline') e
           where e ->> 'decision' = 'duplicate'
               and e ->> 'idempotency_key' = 'k1'), 1,
    'the time line shows it');
select is(t.numbers(), 'high 1 received 1 missing 0', 'one of one');

-- The edge's clock may be wrong.
select is(t.edge(2, 'duplicate', 'k1', 'tally', 'e:1', job_id,
    at => '2001-01-01'), 'recorded', 'by a clock that is late') from a;
select is(t.edge(3, 'duplicate', 'k1', 'tally', 'e:1', job_id,
    at => '2101-01-01'), 'recorded', 'by a clock that is ahead') from a;
select ok(bool_and(q.arrived_at between f.arrived_at and clock_timestamp()),
    'no repeat is before its first, none is in the future')
from interlock.requests q
join interlock.requests f on f.id = q.first_request;

-- What nothing is known of.
select is(t.edge(4, 'duplicate', 'other', 'tally', 'e:1', job_id),
    'unmatched', 'a key that has no first') from a;
select is(t.edge(5, 'duplicate', 'k1', 'tally', 'e:1', job_id,
    source => 'button'), 'unmatched', 'another source is another key') from a;
select is(t.edge(6, 'duplicate', 'k1', 'tally', 'e:1', job_id,
    tenant => 'nobody'), 'unmatched', 'no such tenant') from a;
select is(t.edge(7, 'duplicate', 'k1', 'tally', 'e:1', t.rid(1)),
    'unmatched', 'another job than the key''s') from a;
select is(t.edge(8, 'skipped', 'k8', 'tally', 'e:1', t.rid(1)),
    'unmatched', 'skipped for no job');
select is(t.edge(9, 'skipped', 'k9', 'tally', 'e:2', job_id),
    'unmatched', 'skipped for the job of another key') from a;
select is((select count(*)::int from interlock.requests
           where idempotency_key in ('other', 'k8', 'k9')), 0,
    'none of them has a row');
select is(t.numbers(), 'high 9 received 3 missing 0',
    'and none counts as received');

-- Skipped within the hold: its own key has that answer from now on.
select is(t.edge(10, 'skipped', 'k2', 'tally', 'e:1', job_id, fp => '{}'),
    'recorded', 'a request that was coalesced is recorded') from a;
select results_eq(
    $$select q.decision, q.code, q.reason, q.job_id, q.active_job_id
      from interlock.requests q where q.idempotency_key = 'k2'$$,
    $$select 'skipped', 200, 'same_work', job_id, job_id from a$$,
    'as skipped, the same work, with the job');
select is(t.edge(11, 'duplicate', 'k2', 'tally', 'e:1', job_id), 'recorded',
    'and a duplicate of it is linked to it') from a;
select is((select f.idempotency_key || ' ' || f.decision
           from interlock.requests q
           join interlock.requests f on f.id = q.first_request
           where q.id = t.rid(8001011)), 'k2 skipped', 'to itself');
select results_eq(
    $$select decision, reason, replayed, job_id
      from t.submit('tally', 'e:1', '{}', 'k2')$$,
    $$select 'skipped', 'same_work', true, job_id from a$$,
    'the backend gives the answer that the edge gave');

-- A key that the backend has decided meanwhile keeps its answer.
create temp table b as select * from t.submit('tally', 'e:3', '{}', 'k3');
select is(t.edge(12, 'skipped', 'k3', 'tally', 'e:1', job_id), 'recorded',
    'the arrival is a row') from a;
select is((select i.request_id from interlock.idempotency i
           where i.key = 'k3'), (select job_id from b), 'the key is not');

-- The first's key is gone: its job tells.
create temp table c as select * from t.submit('tally', 'e:4', '{}', 'k4');
delete from interlock.idempotency where key = 'k4';
select is(t.edge(13, 'duplicate', 'k4', 'tally', 'e:4', job_id), 'recorded',
    'a duplicate of a key that was pruned just now') from c;

-- What is missing.
select is(t.edge(14, null, null, null, null, null, seen => true), 'seen',
    'an edge says how far it is');
select is(t.numbers(), 'high 14 received 7 missing 0', 'seven of fourteen');
select is(t.told(), 'edge_audit_received_total=7 edge_audit_missing_total=0',
    'nothing is missing yet: it may be on its way');
select t.pass(6);
select is(t.told(), 'edge_audit_received_total=7 edge_audit_missing_total=7',
    'five seconds later it is');
select is(t.edge(20, 'duplicate', 'k1', 'tally', 'e:1', job_id), 'recorded',
    'number 20') from a;
select is(t.edge(19, 'duplicate', 'k1', 'tally', 'e:1', job_id), 'recorded',
    'and then 19') from a;
select t.pass(6);
select is(t.edge(21, 'duplicate', 'k1', 'tally', 'e:1', job_id), 'recorded',
    'traffic goes on') from a;
select t.pass(6);
select is(t.edge(22, 'duplicate', 'k1', 'tally', 'e:1', job_id), 'recorded',
    'and on') from a;
select is(t.numbers(), 'high 22 received 11 missing 11',
    'what is settled is stored, while the rest goes on');
select is(t.told(),
    'edge_audit_received_total=11 edge_audit_missing_total=11',
    'and told: with the rows it is what the edge has counted');

-- Two zones, one gone for long.
select is(t.edge(3, 'duplicate', 'k1', 'tally', 'e:1', job_id, zone => 2),
    'recorded', 'another zone, of which two are lost at once') from a;
update interlock.edge_zones set changed_at = changed_at - interval '8 days'
where zone = t.rid(9001);
select is(t.edge(1, 'duplicate', 'k1', 'tally', 'e:1', job_id, zone => 3),
    'recorded', 'a third') from a;
select is((select count(*)::int from interlock.edge_zones
           where zone = t.rid(9001)), 0, 'the old zone''s row is gone');
select t.pass(6);
select is(t.told(),
    'edge_audit_received_total=13 edge_audit_missing_total=13',
    'its sums are not');

-- One that counts no further is there still.
select is(t.edge(3, null, null, null, null, null, seen => true, zone => 2),
    'seen', 'a zone is there still');
update interlock.edge_zones set changed_at = changed_at - interval '6 days'
where zone = t.rid(9002);
select is(t.edge(3, null, null, null, null, null, seen => true, zone => 2),
    'seen', 'days later, too');
select is(t.told(),
    'edge_audit_received_total=13 edge_audit_missing_total=13',
    'to hear of a zone again changes no sum');
update interlock.edge_zones set changed_at = changed_at - interval '6 days'
where zone = t.rid(9002);
select interlock.edge_zones_fold(clock_timestamp());
select is((select count(*)::int from interlock.edge_zones
           where zone = t.rid(9002)), 1, 'and keeps its row');

-- Several at once, in one call.
select results_eq(
    $$select x.ord, x.outcome from a, interlock.edge_record(
          array[t.rid(9003), t.rid(9002), t.rid(9003), t.rid(9003)],
          array[3, 4, 2, 9]::bigint[],
          array[t.rid(7000001), t.rid(7000002), t.rid(7000003), null],
          array[clock_timestamp(), clock_timestamp(), clock_timestamp(),
                null],
          array['demo', 'demo', 'demo', null],
          array['api', 'api', 'api', null],
          array['n1', 'k1', 'n1', null],
          array[sha256('{}'), sha256('{}'), sha256('{}'), null],
          array['tally', 'tally', 'tally', null],
          array['e:1', 'e:1', 'e:1', null],
          array['duplicate', 'duplicate', 'skipped', null],
          array[200, 202, 200, null],
          array[null, null, 'same_work', null],
          array['queued', 'queued', 'queued', null],
          array[a.job_id, a.job_id, a.job_id, null],
          array[null, null, a.job_id, null]::uuid[]) x
      order by x.ord$$,
    $$values (1, 'recorded'), (2, 'recorded'), (3, 'recorded'), (4, 'seen')$$,
    'a duplicate before what it is a duplicate of, two zones, one that tells');
select is(t.numbers(3), 'high 9 received 3 missing 0', 'of the third zone');
select is(t.numbers(2), 'high 4 received 2 missing 2', 'of the second');

select is_empty('select * from t.violations', 'nothing is violated');
select * from finish();
rollback;
