-- retention.sql: requests, payloads, attempts and ended jobs are kept by the
-- week, go by the week when they are older than history is kept, and stay
-- while something needs them.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

select t.kind('work', '{"overlap":"skip","idempotency_ttl":50000000}');
select t.kind('once', '{"overlap":"skip","when_completed":"return"}');

-- Monday of so many weeks ago, and an id of that week.
create function pg_temp.week(p_ago int) returns timestamptz language sql as $$
    select date_trunc('week', clock_timestamp(), 'UTC')
        - make_interval(days => 7 * p_ago)
$$;
create function pg_temp.id(p_ago int, n int) returns uuid language sql as $$
    select (left(interlock.id_at(pg_temp.week(p_ago)
                + interval '1 day')::text, 13)
        || '-7000-8000-' || lpad(n::text, 12, '0'))::uuid
$$;

create function pg_temp.put(p_id uuid, p_kind text, p_key text,
    p_idem text default null, p_version bigint default null)
returns text language sql as $$
    select concat_ws(' ', s.outcome, s.code, s.decision, s.reason, s.status,
        case when s.job_id <> p_id then s.job_id end)
    from interlock.submit(array[t.demo()], array[p_id], array['api'],
        array[p_idem], array['\x01'::bytea], array['reject'], array[p_kind],
        array[p_key], array[p_version], array['\x31'::bytea], array[null],
        array[null], array[null], array[null::int],
        array[null::timestamptz], array[null::timestamptz], array[false],
        array[null], array[null], true) s
$$;

create function pg_temp.run(p_kind text) returns text language sql as $$
    select t.take('w', p_kind);
    select f::text from t.finish('w', 'complete') f;
$$;

-- Where rows of an id are.
create function pg_temp.places(p_id uuid) returns text language sql as $$
    select concat_ws(' ',
        (select tableoid::regclass from interlock.requests where id = p_id),
        (select tableoid::regclass from interlock.payloads
         where job_id = p_id),
        (select tableoid::regclass from interlock.jobs where id = p_id))
$$;

create function pg_temp.weeks() returns text language sql as $$
    select string_agg(distinct x.n::text, ' ' order by x.n::text)
    from (select round(extract(epoch from pg_temp.week(0) - h.week)
                       / 604800) as n
          from interlock.history_weeks() h) x
    where x.n > 0
$$;

create function pg_temp.make(p_ago int) returns void language sql as $$
    select interlock.history_part(h.name, h.key, pg_temp.week(p_ago))
    from interlock.history_tables() h;
$$;

-- Drops now.  How many weeks went, and what was in the way of more.
create function pg_temp.drop() returns text language plpgsql as $$
declare
    v_n  int;
begin
    update interlock.history set next_at = '-infinity';
    v_n := interlock.history_drop();
    return v_n || coalesce(' ' || (
        select regexp_replace(why, '[0-9a-f]{8}-[0-9a-f-]{27}', 'ID', 'g')
        from interlock.history), '');
end
$$;


-- Made ahead.

select is((select string_agg(x.n, ' ' order by x.n)
           from (select h.parent || ':' || count(*) as n
                 from interlock.history_weeks() h
                 where h.week between pg_temp.week(0) and pg_temp.week(-4)
                 group by h.parent) x),
    'attempts:5 jobs_ended:5 payloads:5 requests:5',
    'this week and four more of each table are there');
select is((select count(*) from interlock.history_tables()),
    4::bigint, 'these are all of them');

savepoint ahead;
do $$
declare
    r  record;
begin
    for r in select * from interlock.history_weeks() h
             where h.week > pg_temp.week(-2)
    loop
        execute format('drop table interlock.%I', r.name);
    end loop;
end
$$;
select interlock.prune(10);
select is((select count(*) from interlock.history_weeks() h
           where h.week >= pg_temp.week(0)), 20::bigint,
    'prune makes those that are missing');
rollback to ahead;

select is(interlock.history_part('requests', 'id',
        pg_temp.week(0) + interval '1 hour'), false,
    'a week that is there is not made again');


-- Each row has its week.

select is(pg_temp.put(pg_temp.id(0, 1), 'work', 'n:1'),
    'ok 202 accepted queued', 'something of this week');
select is(pg_temp.places(pg_temp.id(0, 1)),
    'interlock.requests' || to_char(pg_temp.week(0), '_IYYY"w"IW')
    || ' interlock.payloads' || to_char(pg_temp.week(0), '_IYYY"w"IW')
    || ' interlock.jobs_live', 'is in the parts of this week');
select pg_temp.run('work');
select is((select a.tableoid::regclass::text from interlock.attempts a
           where a.job_id = pg_temp.id(0, 1)),
    'interlock.attempts' || to_char(pg_temp.week(0), '_IYYY"w"IW'),
    'an attempt in the week that it ended in');

select is(pg_temp.put(pg_temp.id(70, 1), 'work', 'o:1', 'i:1'),
    'ok 202 accepted queued', 'an id of a week that has no part');
select is(pg_temp.places(pg_temp.id(70, 1)),
    'interlock.requests_default interlock.payloads_default '
    'interlock.jobs_live', 'is in the default ones');
select pg_temp.run('work');
select pg_temp.make(70);
select is(pg_temp.places(pg_temp.id(70, 1)),
    'interlock.requests' || to_char(pg_temp.week(70), '_IYYY"w"IW')
    || ' interlock.payloads' || to_char(pg_temp.week(70), '_IYYY"w"IW')
    || ' interlock.jobs_ended' || to_char(pg_temp.week(70), '_IYYY"w"IW'),
    'until there is a part for it');
select is((select count(*) from interlock.job_get(array[t.demo()],
                                                  array[pg_temp.id(70, 1)])),
    1::bigint, 'and is found');


-- What is needed stays, and so does what is newer.

select pg_temp.make(n) from unnest(array[69, 68, 67, 66, 50]) n;
select is(pg_temp.drop(), '0 the idempotency key of request ID lives',
    'a key that lives keeps its week');
set local session_replication_role = replica;
update interlock.idempotency set expires_at = '2020-01-01Z';
set local session_replication_role = origin;

savepoint live;
select is(pg_temp.put(pg_temp.id(69, 2), 'work', 'o:2'),
    'ok 202 accepted queued', 'a job of a later week');
select is(pg_temp.drop(), '1 job ID has not ended',
    'the oldest week goes; the next one has a job that is queued');
select is(pg_temp.weeks(), '50 66 67 68 69', 'and no newer week goes');
select is((select next_at > clock_timestamp() + interval '59 minutes'
           from interlock.history), true, 'which is looked at again later');
select is(interlock.history_drop(), 0, 'not before');
select pg_temp.run('work');
select is(pg_temp.drop(), '4', 'it has ended: all go that are old enough');
select is(pg_temp.weeks(), '50', 'those and no others');
rollback to live;

savepoint repeats;
select pg_temp.put(pg_temp.id(1, 3), 'work', 'r:1');
update interlock.jobs_live set rerun_of = pg_temp.id(70, 1)
where id = pg_temp.id(1, 3);
select is(pg_temp.drop(), '0 job ID repeats job ID',
    'a job that lives needs the one that it repeats');
rollback to repeats;

savepoint effects;
select t.effect_kind('mail', '{}');
select pg_temp.put(pg_temp.id(66, 4), 'work', 'e:1');
select t.take('w', 'work');
select t.begin('w', 'a', 'mail');
select t.finish('w', 'fail', p_retryable => false);
select is((select count(*) from interlock.jobs_live
           where id = pg_temp.id(66, 4)), 0::bigint, 'a job that failed');
select is(pg_temp.drop(), '4 effect ID is not settled',
    'an effect that is not settled keeps its job');
rollback to effects;


-- Retention is set.

savepoint setting;
select interlock.retain_set('history', interval '700 days');
select is(pg_temp.drop(), '0', 'kept for longer: nothing goes');
select interlock.retain_set('history', interval '300 days');
select is(pg_temp.drop(), '6', 'kept for less: more goes');
select interlock.retain_set('history', null);
select is(interlock.retain('history'), interval '400 days', 'the default');
select throws_ok($$ select interlock.retain_set('history', '1 hour') $$,
    '23514', null, 'not less than a day');
select throws_ok($$ select interlock.retain_set('works', '9 days') $$,
    '23514', null, 'not of what is kept for ever');
select is((select count(*)
           from information_schema.role_routine_grants g
           where g.routine_name = 'retain_set'
               and g.grantee in ('PUBLIC', 'interlock_service',
                                 'interlock_audit')),
    0::bigint, 'by the administrator only');
rollback to setting;


-- What is gone.

select pg_temp.put(pg_temp.id(69, 5), 'work', 'g:1', 'i:5');
select pg_temp.run('work');
select pg_temp.put(pg_temp.id(69, 6), 'once', 'g:2');
select pg_temp.run('once');
select pg_temp.put(pg_temp.id(69, 7), 'work', 'g:3', null, 7);
select pg_temp.run('work');
select pg_temp.put(pg_temp.id(69, 8), 'work', 'g:4', null, 7);
select t.take('w', 'work');
select t.finish('w', 'fail', p_retryable => false);
select is((select count(*) from interlock.inbox), 1::bigint,
    'somebody is asked about a job that failed');
set local session_replication_role = replica;
update interlock.idempotency set expires_at = '2020-01-01Z';
set local session_replication_role = origin;
select is(pg_temp.drop(), '5', 'all that is old goes');

select is((select count(*) from interlock.inbox), 0::bigint,
    'nobody is asked about it any more');
select is(pg_temp.places(pg_temp.id(69, 5)), '', 'there are no rows of it');
select is((select count(*) from interlock.job_get(array[t.demo()],
                                                  array[pg_temp.id(69, 5)])),
    0::bigint, 'a look-up finds no job');
select is((select count(*) from interlock.job_payload(t.demo(),
                                                      pg_temp.id(69, 5))),
    0::bigint, 'and no payload');
select is((select count(*) from interlock.works where work_key = 'g:1'),
    1::bigint, 'its work is known still');
select is((select count(*) from interlock.work_get(t.demo(), 'g:1')),
    1::bigint, 'and can be looked up');
select is((select count(*) from interlock.work_result(t.demo(), 'g:1', null)),
    1::bigint, 'with its result');
select is((select problem from interlock.rerun_trouble(t.demo(), 'g:1',
                                                       null)),
    'pruned', 'a rerun of it is refused');
select is((select problem from interlock.rerun_trouble(t.demo(), 'g:1',
                                                       pg_temp.id(69, 5))),
    'pruned', 'of that job too');
select is((select problem from interlock.job_decide(t.demo(),
    pg_temp.id(69, 8), 'retry', null, 'a', 'b', 1, 'c')), 'not-found',
    'and what failed cannot be tried again');
select is(pg_temp.put(pg_temp.id(0, 11), 'once', 'g:2'),
    'ok 200 completed succeeded ' || pg_temp.id(69, 6),
    'a result that counts is answered with');
select is(pg_temp.put(pg_temp.id(0, 12), 'work', 'g:3', null, 6),
    'ok 200 skipped older_version succeeded ' || pg_temp.id(69, 7),
    'an older version is skipped');
select is(pg_temp.put(pg_temp.id(0, 13), 'work', 'g:4', null, 6),
    'ok 200 skipped older_version failed ' || pg_temp.id(69, 8),
    'also if the newer one came to nothing');
select is(pg_temp.put(pg_temp.id(0, 14), 'work', 'g:4', null, 7),
    'ok 202 accepted queued', 'the same version may run again');
select is(pg_temp.put(pg_temp.id(0, 15), 'work', 'g:1', 'i:5'),
    'ok 202 accepted queued', 'its idempotency key is free');
select is(pg_temp.put(pg_temp.id(0, 15), 'work', 'g:1', 'i:5'),
    'ok 202 accepted queued', 'and has its new answer');
select alike((select x::text from interlock.explain(t.demo(), 'once',
        '{"work_key":"g:2"}') x), '%completed%', 'explain says the same');

-- The fence goes on from where it was.
select is((select t.take('v', 'work') is not null), true, 'it is claimed');
select cmp_ok((select h.fence from t.held h where h.who = 'v'), '>',
    1::bigint, 'with a higher fence');

select is((select string_agg(v.check_name || ' ' || v.what, ', ')
           from t.violations v), null, 'all that must hold holds');

select * from finish();
rollback;
