-- prune.sql: what is over goes when it is due, in bounded passes, and not a
-- day before; what is open stays.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

select t.kind('work', '{"overlap":"skip"}');
select interlock.alert_put(t.demo(), 'a', '{"url":"https://h/","secret":"@f"}');

-- Makes rows older, whatever guards them.
create function pg_temp.older(p_sql text) returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    execute p_sql;
    set local session_replication_role = origin;
end
$$;

-- Prunes until nothing is left that is due.  How many rows, in how many
-- passes.
create function pg_temp.prune(p_limit int default 100, out rows int,
    out passes int) language plpgsql as $$
declare
    v_n  int;
begin
    rows := 0;
    passes := 0;
    loop
        v_n := interlock.prune(p_limit);
        rows := rows + v_n;
        passes := passes + 1;
        exit when v_n < p_limit;
    end loop;
end
$$;

select is(interlock.prune(100), 0, 'nothing is due');

-- Slots: one of each state, with gaps of each.
select t.plan_slots('s', 'work', '0 0 1 1 *', 'a b c d e f g h i');
select t.submit('work', 'w:1', id => 1);
insert into interlock.slots (tenant, schedule, slot_at, subject, version,
    business_date, work_key, state, reason, job_id, check_at, done_at)
select t.demo(), 's', '2020-01-01Z', x.subject, 1, '2020-01-01', 'w:1',
    x.state, case when x.state in ('waiting', 'skipped') then 'approval' end,
    case when x.state in ('run', 'admitted') then t.rid(1) end,
    case when x.look then clock_timestamp() + interval '1 hour' end,
    case when x.state = 'run' then timestamptz '2020-01-01Z' end
from (values ('a', 'run', false), ('b', 'skipped', false),
    ('c', 'admitted', false), ('d', 'admitted', true),
    ('e', 'waiting', true), ('f', 'run', false), ('g', 'run', false),
    ('h', 'admitted', true)) x (subject, state, look);
insert into interlock.slots
select (jsonb_populate_record(s, jsonb_build_object('slot_at',
    clock_timestamp() - interval '400 days' + interval '1 minute',
    'subject', 'i'))).*
from interlock.slots s where s.subject = 'a';
insert into interlock.gaps (tenant, id, schedule, slot_at, subject,
    business_date, work_key, since, why, state, opened_at, changed_at,
    requested_by, reason)
select t.demo(), interlock.new_id(), 's', '2020-01-01Z', x.subject,
    '2020-01-01', 'w:1', '2020-01-01Z', 'x', x.state, '2020-01-01Z', x.at,
    'me', 'why'
from (values ('c', 'dismissed', timestamptz '2020-01-02Z'),
    ('d', 'open', '2020-01-02Z'), ('f', 'closed', '2020-01-02Z'),
    ('g', 'closed', clock_timestamp()), ('h', 'approved', '2020-01-02Z'))
    x (subject, state, at);
select results_eq('select * from pg_temp.prune(3)', 'values (4, 2)',
    'slots that are run, skipped or given up go, in bounded passes');
select is((select string_agg(s.subject, ' ' order by s.subject)
    from interlock.slots s where s.schedule = 's'), 'd e g h i',
    'those that are looked at, decided lately or younger stay');
select is((select string_agg(g.subject, ' ' order by g.subject)
    from interlock.gaps g), 'd g h', 'their gaps go and stay with them');
select pg_temp.older($$update interlock.slots
    set slot_at = slot_at - interval '2 minutes' where subject = 'i'$$);
select pg_temp.older($$update interlock.gaps
    set changed_at = clock_timestamp() - interval '400 days'
    where subject = 'g'$$);
select is((pg_temp.prune()).rows, 2, 'in time they go, too');
select pg_temp.older('delete from interlock.slots');
select pg_temp.older('delete from interlock.gaps');

-- Skips, by their end.
insert into interlock.schedule_skips (tenant, schedule, from_at, to_at,
    version, slots, subjects, reason)
select t.demo(), 's', '2020-01-01Z', clock_timestamp() - interval '400 days'
    + x * interval '1 minute', 1, 2, 9, 'paused'
from generate_series(-3, 1) x where x <> 0;
select results_eq('select * from pg_temp.prune(2)', 'values (3, 2)',
    'skips go');
select is((select count(*) from interlock.schedule_skips), 1::bigint,
    'but for the younger one');
select pg_temp.older('delete from interlock.schedule_skips');

-- What a schedule skipped, and its invariant, across the bound.
select t.schedule('m', '{"cron":"0 0 * * *","zone":"UTC","kind":"work",'
    '"work_key":"m:{date}","catch_up":"skip"}');
select t.behind('m', '900 days');
select t.scan();
select is((pg_temp.prune()).rows, 0, 'a row of many slots is as old as its '
    'youngest');
select is_empty('select * from t.violations', 'it accounts for all of them');
select pg_temp.older($$update interlock.schedule_skips
    set to_at = from_at + interval '399 days', slots = 400
    where schedule = 'm'$$);
insert into interlock.schedule_skips (tenant, schedule, from_at, to_at,
    version, slots, subjects, reason)
select k.tenant, k.schedule, k.to_at + interval '1 day', s.scanned_to, 1,
    extract(day from s.scanned_to - k.to_at), 1, k.reason
from interlock.schedule_skips k
join interlock.schedules s on s.name = k.schedule
where k.schedule = 'm';
select is((pg_temp.prune()).rows, 1, 'the older one of two goes');
select is_empty('select * from t.violations',
    'all that is kept is accounted for');

-- Plans that nobody began: a day after their hour.
create function pg_temp.plan(p_to date default '2026-07-10') returns uuid
language sql as $$
    select (p.doc::json ->> 'plan_id')::uuid
    from interlock.schedule_backfill_plan(t.demo(), 'm', '2026-07-01', p_to,
        null, null, null, 7, 'op') p
$$;
create temp table p as
select pg_temp.plan() as draft, pg_temp.plan('2026-07-02') as done;
select is((select remaining from interlock.schedule_backfill(t.demo(), 'm',
    (select done from p), 'me', 'why', 7, 'op', 9)), 0, 'one is acted on');
update interlock.schedule_plans set expires_at = expires_at - interval '24 hours',
    prune_at = prune_at - interval '24 hours';
select is((pg_temp.prune()).rows, 0, 'a draft is known for a day');
select is((select problem from interlock.schedule_backfill(t.demo(), 'm',
    (select draft from p), 'me', 'why', 7, 'op', 9)), 'plan-expired',
    'it says what has become of it');
update interlock.schedule_plans set prune_at = prune_at - interval '1 hour';
select is(interlock.prune(4), 4, 'then four of its works go');
select is_empty('select * from t.violations', '... it counts the rest');
select is((pg_temp.prune(4)).rows, 7, '... and the rest, and the plan');
select is((select problem from interlock.schedule_backfill(t.demo(), 'm',
    (select draft from p), 'me', 'why', 7, 'op', 9)), 'not-found', 'gone');
select is((select doc::json ->> 'admitted' from interlock.schedule_backfill(
    t.demo(), 'm', (select done from p), 'me', 'why', 7, 'op', 9)), '2',
    'what was acted on answers the same');
select ok((select prune_at > clock_timestamp() + interval '398 days'
           from interlock.schedule_plans), 'for as long as slots');
update interlock.schedule_plans set prune_at = clock_timestamp();
select is((pg_temp.prune()).rows, 3, 'then it goes');
select is((select count(*) from interlock.schedule_plan_items), 0::bigint,
    'with its works');
select is((select count(*) from interlock.jobs where source = 'backfill'),
    2::bigint, 'their jobs stay');

-- So do plans of a redrive.
select t.take('w', 'work');
select t.finish('w', 'fail', p_retryable => false);
select t.take('w', 'work');
select t.finish('w', 'fail', p_retryable => false);
select t.take('w', 'work');
select t.finish('w', 'fail', p_retryable => false);
create function pg_temp.redrive() returns uuid language sql as $$
    select (p.doc::json ->> 'plan_id')::uuid
    from interlock.redrive_plan(t.demo(), '{}', null, null, 7, 'op') p
$$;
truncate p;
insert into p values (pg_temp.redrive(), pg_temp.redrive());
select is((select count from interlock.redrive_plans limit 1), 3,
    'three jobs have failed');
select interlock.redrive(t.demo(), (select done from p), 'me', 'why', 7,
    'op', 9);
update interlock.redrive_plans set prune_at = prune_at - interval '25 hours';
select results_eq('select * from pg_temp.prune(2)', 'values (4, 3)',
    'a draft of a redrive goes');
select is((select array_agg(id) from interlock.redrive_plans),
    (select array[done] from p), 'one that was acted on stays');
select is_empty('select * from t.violations', 'and is what it was');

-- Events: by what became of them, a pair at once.
create function pg_temp.event(p_n int, p_state text, p_opened int,
    p_done text, p_ago interval) returns void language sql as $$
    insert into interlock.alert_events (tenant, id, alert, condition, subject,
        state, opened_event, at, body, delivered_at, dropped_at)
    values (t.demo(), t.rid(p_n), 'a', 'held', 's' || coalesce(p_opened, p_n),
        p_state, t.rid(p_opened), clock_timestamp() - p_ago, '{}',
        case p_done when 'taken' then clock_timestamp() - p_ago end,
        case p_done when 'dropped' then clock_timestamp() - p_ago end)
$$;
delete from interlock.alert_deliveries;
delete from interlock.alert_states;
delete from interlock.alert_events;
select pg_temp.event(901, 'opened', null, 'taken', '200 days'),
    pg_temp.event(902, 'recovered', 901, 'taken', '91 days'),
    pg_temp.event(903, 'opened', null, 'taken', '200 days'),
    pg_temp.event(904, 'recovered', 903, 'taken', '89 days'),
    pg_temp.event(905, 'opened', null, 'dropped', '91 days'),
    pg_temp.event(906, 'opened', null, 'taken', '91 days'),
    pg_temp.event(907, 'opened', null, null, '91 days');
insert into interlock.alert_states (tenant, alert, condition, subject,
    grouped, event_id, since)
values (t.demo(), 'a', 'held', 's906', 'kind', t.rid(906),
        clock_timestamp());
select is((pg_temp.prune()).rows, 3, 'events go 90 days after they were '
    'taken or dropped');
select is((select array_agg(id order by id) from interlock.alert_events),
    array[t.rid(903), t.rid(904), t.rid(906), t.rid(907)],
    'not what is over since lately, holds still, or is on its way');
delete from interlock.alert_states;
select is((pg_temp.prune()).rows, 1, 'what holds no more goes');

select * from finish();
rollback;
