-- history.sql: live jobs and ended ones are kept apart; the parts of history.

begin;
set local search_path = tap, t, pg_catalog;
select * from no_plan();

select policy('one', 'overlap buffer_all');
select policy('rep', 'overlap replace');

create function pg_temp.parts(p_id int) returns text
language sql stable as $$
    select string_agg(j.tableoid::regclass || ' ' || j.status, ', ')
    from interlock.jobs j where j.id = rid(p_id)
$$;

-- A job moves when it ends, and when it is taken back.

select submit('one', 'h:1', 'A', id => 1);
select submit('one', 'h:1', 'B', id => 2);
select is(pg_temp.parts(1), 'interlock.jobs_live queued', 'queued: live');
select take('w', 'one');
select is(pg_temp.parts(1), 'interlock.jobs_live running', 'running: live');
select finish('w', 'complete');
select is(pg_temp.parts(1), 'interlock.jobs_ended_default succeeded',
    'succeeded: ended; an id that is no UUIDv7 of our time in the rest');
select take('w', 'one');
select finish('w', 'fail', p_retryable => false);
select is(pg_temp.parts(2), 'interlock.jobs_ended_default failed',
    'failed: ended');
select is((select state from interlock.inbox where id = 'job:' || rid(2)),
    'failed', 'and in the inbox');
select interlock.job_decide(demo(), rid(2), 'retry', null, 'a', 'b', 1, 'c');
select is(pg_temp.parts(2), 'interlock.jobs_live queued',
    'taken back: live again');
select is_empty($$select from interlock.inbox$$, 'and not in the inbox');
select take('w', 'one');
select finish('w', 'fail', p_retryable => false);
select interlock.job_decide(demo(), rid(2), 'succeed', null, 'a', 'b', 1,
    'c');
select is(pg_temp.parts(2), 'interlock.jobs_ended_default succeeded',
    'decided: it stays among the ended ones');

select submit('rep', 'h:2', 'A', id => 3);
select submit('rep', 'h:2', 'B', id => 4);
select is(pg_temp.parts(3), 'interlock.jobs_ended_default superseded',
    'superseded: ended');
select interlock.job_cancel(demo(), rid(4), 'a', 'b', 1, 'c', rid(77));
select is(pg_temp.parts(4), 'interlock.jobs_ended_default canceled',
    'canceled: ended');

-- What no function may do.

select throws_ok($$delete from interlock.jobs where id = t.rid(1)$$,
    '23000', null, 'an ended job is not deleted');
select throws_ok($$update interlock.jobs set status = 'queued',
    place = 'ready', finished_at = null, revision = null
    where id = t.rid(1)$$, '23000', null, 'nor does it live again');
select submit('one', 'h:3', 'A', id => 5);
select throws_ok($$update interlock.jobs_live set status = 'canceled',
    place = null, finished_at = now() where id = t.rid(5)$$,
    '23514', null, 'a row that ended is not among the live ones');
update interlock.jobs set status = 'canceled', place = null,
    finished_at = now() where id = rid(5);
select is(pg_temp.parts(5), 'interlock.jobs_ended_default canceled',
    'an update of the whole moves it, too');

-- Parts: this week's and four more.

select is((select count(*)::int from pg_inherits
           where inhparent = 'interlock.jobs_ended'::regclass), 6,
    'five weeks and the rest');
select lives_ok('select interlock.history_ahead()', 'made already');
select is((select count(*)::int from pg_inherits
           where inhparent = 'interlock.jobs_ended'::regclass), 6,
    'nothing more');

create function pg_temp.id_of(p_at timestamptz) returns uuid
language sql as $$
    select overlay(interlock.id_at(p_at)::text placing '7000-8000'
                   from 15 for 9)::uuid
$$;

create function pg_temp.old(p_at timestamptz, p_key text) returns void
language sql as $$
    insert into interlock.jobs (tenant, id, kind, kind_version, work_key,
        status, exclusive, decision, source, priority, order_key, run_at,
        created_at, finished_at, error)
    values (demo(), pg_temp.id_of(p_at), 'one', 1, p_key, 'failed', true,
        'accepted', 'api', 0, p_at, p_at, p_at, p_at, 'x')
$$;

-- Sunday's last and Monday's first millisecond, in a week without a part.
select pg_temp.old('2027-06-06 23:59:59.999Z', 'h:4');
select pg_temp.old('2027-06-07 00:00:00.000Z', 'h:5');
select pg_temp.old('2027-06-13 23:59:59.999Z', 'h:6');
select pg_temp.old('2027-06-14 00:00:00.000Z', 'h:7');
select is((select count(*)::int from interlock.jobs_ended_default
           where created_at > '2027-01-01Z'), 4, 'all in the rest');
select is((select count(*)::int from interlock.inbox where state = 'failed'),
    4, 'all in the inbox');
select ok(interlock.history_part('jobs_ended', 'id', '2027-06-07Z'),
    'a part made late');
select results_eq(
    $$select work_key, tableoid::regclass::text from interlock.jobs
      where created_at > '2027-01-01Z' order by 1$$,
    $$values ('h:4', 'interlock.jobs_ended_default'),
        ('h:5', 'interlock.jobs_ended_2027w23'),
        ('h:6', 'interlock.jobs_ended_2027w23'),
        ('h:7', 'interlock.jobs_ended_default')$$,
    'has the rows of its week');
select is((select count(*)::int from interlock.inbox where state = 'failed'),
    4, 'which are in the inbox as before');
select ok(not interlock.history_part('jobs_ended', 'id', '2027-06-07Z'),
    'made once');
select throws_ok($$update interlock.jobs_ended_2027w23 set status = 'expired'$$,
    '23000', null, 'and its triggers are those of the others');
select is((select status from interlock.jobs
           where id = pg_temp.id_of('2027-06-13 23:59:59.999Z')), 'failed',
    'found by its id');
select is((select count(*)::int from pg_indexes
           where tablename = 'jobs_ended_2027w23'), (
        select count(*)::int from pg_indexes
        where tablename = 'jobs_ended'), 'and has their indexes');

select * from finish();
rollback;
