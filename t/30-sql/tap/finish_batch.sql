-- finish_batch.sql: completions that need no judgement are done all at once,
-- the others of the same batch one by one; each gets the answer, and leaves
-- the rows, that it would have alone.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select interlock.limit_put(interlock.tenant_create('demo'), 'two',
    '{"capacity": 2}');
select t.kind('free', '{"overlap":"allow"}');
select t.kind('grouped', '{"overlap":"allow","limits":["two"]}');
select t.kind('line', '{"overlap":"buffer_one"}');

-- calls(who, …): several calls in one batch, in that order
create function t.calls(p_who text[], p_call text[], p_fence bigint[])
returns table (who text, outcome text, replayed boolean, status text,
    revision int, runnable boolean, ended int)
language sql as $$
    select p_who[f.ord], f.outcome, f.replayed, f.status, f.revision,
        f.runnable, cardinality(f.ended_jobs)
    from (select array_agg(h.tenant order by u.n) as tenant,
              array_agg(h.job order by u.n) as job,
              array_agg(h.attempt order by u.n) as attempt,
              array_agg(coalesce(p_fence[u.n], h.fence) order by u.n)
                  as fence,
              array_agg(sha256(convert_to(u.who, 'UTF8')) order by u.n)
                  as digest,
              array_agg(format('{"of": "%s"}', u.who) order by u.n)
                  as result,
              count(*)::int as n
          from unnest(p_who) with ordinality u (who, n)
          join t.held h on h.who = u.who) x,
        interlock.finish(x.tenant, x.job, x.attempt, x.fence, p_call,
            x.digest, x.result, array_fill('https://r.example/1'::text,
            array[x.n]), array_fill(3::bigint, array[x.n]),
            array_fill(1::bigint, array[x.n]),
            array_fill('boom'::text, array[x.n]),
            array_fill(true, array[x.n]), array_fill(null::text, array[x.n]),
            array_fill('https://l.example/1'::text, array[x.n]),
            array_fill(null::int, array[x.n])) f
    order by f.ord
$$;

select count(submit.ord) from generate_series(1, 4) n,
    t.submit('free', 'free:' || n);
select count(t.take('p' || n, 'free')) from generate_series(1, 4) n;
select submit.ord from t.submit('free', 'both');
select submit.ord from t.submit('free', 'both');
select t.take('b1', 'free'), t.take('b2', 'free');
select submit.ord from t.submit('free', 'asked');
select t.take('asked', 'free');
select c.problem from t.held h, interlock.job_cancel(h.tenant, h.job, 'me',
    'no more', 1, 'op') c where h.who = 'asked';
select submit.ord from t.submit('grouped', 'in:1');
select t.take('grouped', 'grouped');
select submit.ord from t.submit('line', 'line:1');
select t.take('head', 'line');
select submit.ord from t.submit('line', 'line:1', '{"second": true}');

select results_eq(
    $$select * from t.calls(
        '{p1,b2,p1,asked,b1,p2,grouped,p3,head,p4}',
        '{complete,complete,complete,complete,complete,complete,complete,fail,complete,complete}',
        '{null,null,null,null,null,9,null,null,null,null}')$$,
    $$values
        ('p1', 'ok', false, 'succeeded', 1, false, 1),
        ('b2', 'ok', false, 'succeeded', 1, false, 1),
        ('p1', 'ok', true, 'succeeded', 1, true, 1),
        ('asked', 'job-canceled', false, null, null, false, 0),
        ('b1', 'ok', false, 'succeeded', 2, false, 1),
        ('p2', 'fence-stale', false, null, null, false, 0),
        ('grouped', 'ok', false, 'succeeded', 1, false, 1),
        ('p3', 'ok', false, 'queued', null, false, 0),
        ('head', 'ok', false, 'succeeded', 1, true, 1),
        ('p4', 'ok', false, 'succeeded', 1, false, 1)$$,
    'each its own answer');

select results_eq($$select work_key, status, place from interlock.jobs
    order by created_at$$,
    $$values ('free:1', 'succeeded', null), ('free:2', 'running', null),
        ('free:3', 'queued', 'delayed'), ('free:4', 'succeeded', null),
        ('both', 'succeeded', null), ('both', 'succeeded', null),
        ('asked', 'running', null), ('in:1', 'succeeded', null),
        ('line:1', 'succeeded', null), ('line:1', 'queued', 'ready')$$,
    'each its job');
select is((select count(*)::int from interlock.refused_results), 1,
    'what the one brought that was asked to end is kept');

-- Plain ones leave what one by one they would: the same rows of one that is
-- not plain (it is in a group) but for keys, kinds, fences and times.
select is((select count(*)::int from (
    select distinct j.status, j.place, j.attempts, j.finished_at is null,
        j.retry_at, j.error, j.user_message, j.log_url, j.result_url,
        j.revision, j.superseded_by, j.limited_by, j.waits_on,
        a.call, a.status, a.revision, a.retry_at, a.error, a.retryable,
        a.user_message, a.log_url, a.renewals, a.ended_jobs = array[j.id],
        a.ended_at = j.finished_at, r.attempt_id = a.id, r.fence = a.fence,
        r.version, r.result_url, r.processed, r.failed, r.published,
        r.origin, r.created_at = j.finished_at, w.last_revision,
        w.published_revision, w.published_fence = r.fence,
        w.published_version, w.published_at = r.created_at
    from interlock.jobs j
    join interlock.attempts a on a.job_id = j.id
    join interlock.results r on r.job_id = j.id
    join interlock.works w on w.work_key = j.work_key
    where j.work_key in ('free:1', 'free:4', 'in:1')) x), 1,
    'one sort of rows, whichever way');
select is((select count(*)::int from interlock.attempts), 7,
    'an attempt of each that ended');
select is((select result::text from interlock.results
    where work_key = 'free:4'), '{"of": "p4"}', 'the result as sent');

-- A version that is below the published one, and an older fence.
select submit.ord from t.submit('free', 'v', version => 5);
select t.take('v5', 'free');
select submit.ord from t.submit('free', 'v', version => 6);
select t.take('v6', 'free');
select results_eq($$select outcome, revision
    from t.calls('{v6}', '{complete}', '{null}')$$,
    $$values ('ok', 1)$$, 'the later claim completes first');
select results_eq($$select outcome, revision
    from t.calls('{v5}', '{complete}', '{null}')$$,
    $$values ('ok', 2)$$, 'then the earlier one');
select results_eq($$select last_revision, published_revision,
        published_version from interlock.works where work_key = 'v'$$,
    $$values (2, 1, 6::bigint)$$, 'which publishes nothing');

select is_empty('select * from t.violations', 'check.sql finds nothing');

select * from finish();
rollback;
