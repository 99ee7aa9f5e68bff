-- reruns.sql: impact first, then the rerun: of one work, of a business date,
-- of one date by hand, of a range.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

select t.providers();
select t.kind('day', '{"overlap":"skip","effect_scope":"job"}');
select t.kind('work', '{"overlap":"skip","when_completed":"return"}');
select t.kind('tight', '{"overlap":"skip","max_queued":1,"max_payload":50}');
select t.kind('lim', '{"overlap":"skip","limits":["crm"]}');
select interlock.limit_put(t.demo(), 'crm', '{"capacity":1}');

create function pg_temp.impact(p_key text) returns json language sql as $$
    select coalesce(i.doc::json, to_json(i.problem || ': ' || i.detail))
    from interlock.work_impact(t.demo(), p_key) i
$$;

create function pg_temp.rerun(p_key text, p_impact text,
    p_payload text default null, p_call bigint default null,
    p_by text default 'me')
returns table (problem text, detail text, doc json, retry_after int,
    wake_kinds text[]) language sql as $$
    select r.problem, r.detail, r.doc::json, r.retry_after, r.wake_kinds
    from interlock.work_rerun(t.demo(), p_key, p_impact, p_payload, p_by,
        'they asked', 7, 'op', t.rid(p_call)) r
$$;

-- One work.
select is(pg_temp.impact('k:1') #>> '{}', 'not-found: no such work',
    'no such work');
select t.submit('day', 'k:1', '{"n": 1.10}', id => 1, version => 5);
select t.take('w', 'day');
select is(pg_temp.impact('k:1') -> 'would_do' ->> 'why_not',
    'work of this key is active: job ' || t.rid(1), 'active');
select is((pg_temp.rerun('k:1', 'x')).problem, 'work-active',
    'so it is not run again');
select t.begin('w', 'mail', 'keys', 'd');
select t.outcome('w', 'mail', 'confirmed', 'ref-1');
select t.begin('w', 'pay', 'mute', 'd');
select t.finish('w', 'fail', p_error => 'crashed', p_retryable => false);
select results_eq(
    $$select i ->> 'work_key', i ->> 'kind', i ->> 'active', i ->> 'result',
          i -> 'jobs' -> 0 ->> 'status', i -> 'jobs' -> 0 ->> 'error',
          i ->> 'reached_outside', i ->> 'unsettled',
          i -> 'would_do' ->> 'possible', i -> 'would_do' ->> 'rerun_of',
          i -> 'would_do' ->> 'effect_scope',
          i -> 'would_do' ->> 'not_sent_again',
          (select string_agg(concat_ws(' ', e ->> 'name', e ->> 'state',
                  e ->> 'provider_ref'), ', ' order by e ->> 'name')
           from json_array_elements(i -> 'effects') e)
      from pg_temp.impact('k:1') i$$,
    $$values ('k:1', 'day', '0', null, 'failed', 'crashed', '1', '1',
        'true', t.rid(1)::text, 'job', '["mail"]',
        'mail confirmed ref-1, pay unknown')$$,
    'what happened, and what a rerun would do');
select pg_temp.impact('k:1') ->> 'impact_id' as i1 \gset
select is(pg_temp.impact('k:1') ->> 'impact_id', :'i1',
    'its id stays while nothing happens');
select results_eq(
    $$select problem, detail from pg_temp.rerun('k:1', null)$$,
    $$values ('field-invalid', '"impact_id" is missing: the one that the '
        'impact was shown with')$$, 'without it');
select is((pg_temp.rerun('k:1', :'i1', p_by => ' ')).problem,
    'field-invalid', 'or by nobody');
select t.resolve('pay', 'not_happened');
select isnt(pg_temp.impact('k:1') ->> 'impact_id', :'i1',
    'and changes with what happens');
select results_eq(
    format('select problem, detail from pg_temp.rerun(%L, %L)', 'k:1', :'i1'),
    $$values ('impact-changed', 'something has happened since the impact '
        'was shown; look at it again')$$, 'then the rerun is refused');
select pg_temp.impact('k:1') ->> 'impact_id' as i2 \gset
select results_eq(
    format('select doc ->> %L, doc ->> %L, doc ->> %L, doc ->> %L, '
        'doc ->> %L, wake_kinds::text from pg_temp.rerun(%L, %L, p_call => 3)',
        'decision', 'work_key', 'kind', 'status', 'rerun_of', 'k:1', :'i2'),
    $$values ('accepted', 'k:1', 'day', 'queued', t.rid(1)::text,
        '{day}')$$, 'with the present one it runs');
select is((pg_temp.rerun('k:1', :'i2', p_call => 3)).doc ->> 'job_id',
    (select id::text from interlock.jobs where rerun_of = t.rid(1)),
    'the same call again has the same answer');
select is((pg_temp.rerun('k:1', :'i2')).problem, 'work-active',
    'another one has not');
select results_eq(
    $$select j.source, j.version, j.requested_by, j.reason, j.priority,
          encode(p.payload, 'escape'), q.decision
      from interlock.jobs j join interlock.payloads p on p.job_id = j.id
      join interlock.requests q on q.id = j.id
      where j.rerun_of = t.rid(1)$$,
    $$values ('rerun', 5::bigint, 'me', 'they asked', 0, '{"n": 1.10}',
        'accepted')$$, 'with the same payload, who and why');
select is((select work_key || ' ' || (detail ->> 'impact_id')
    from interlock.actions where what = 'work_rerun'), 'k:1 ' || :'i2',
    'and what was seen is kept');
select t.take('w', 'day');
select is((t.begin('w', 'mail', 'keys', 'd')).decision, 'already_confirmed',
    'what is confirmed is not sent again');
select is((t.begin('w', 'pay', 'mute', 'd')).decision, 'send',
    'what did not happen is');
select t.outcome('w', 'pay', 'confirmed', 'ref-2');
select t.finish('w', 'complete', '{}');
select is((select count(*) from interlock.effects), 2::bigint,
    'they are the same effects');
select is(pg_temp.impact('k:1') -> 'would_do' ->> 'not_sent_again',
    '["mail", "pay"]', 'neither would be sent a third time');
select is(pg_temp.impact('k:1') -> 'result' ->> 'revision', '1',
    'there is a result now');
select is((pg_temp.rerun('k:1', pg_temp.impact('k:1') ->> 'impact_id',
    '{"n":2}')).doc ->> 'rerun_of', (select id::text from interlock.jobs
        where rerun_of = t.rid(1)),
    'what succeeded may be run again too, with another payload');
select is((select encode(p.payload, 'escape') from interlock.payloads p
    join interlock.jobs j on j.id = p.job_id and j.status = 'queued'),
    '{"n":2}', 'which it gets');
select is((select published_version from interlock.works), 5::bigint,
    'its result is of the same version');

-- No room, and a limit.
select t.submit('tight', 'q:1', id => 11);
select t.take('w', 'tight');
select t.finish('w', 'fail', p_retryable => false);
select t.submit('tight', 'q:2', id => 12);
select is((select problem || (retry_after > 0)::text from pg_temp.rerun(
    'q:1', pg_temp.impact('q:1') ->> 'impact_id')), 'queue-fulltrue',
    'a full queue refuses a rerun too');
select is((pg_temp.rerun('q:1', pg_temp.impact('q:1') ->> 'impact_id',
    repeat('x', 51))).detail, 'a payload of kind "tight" has at most 50 '
    'bytes', 'so does the bound of its payload');
select is((select count(*) from interlock.jobs where rerun_of = t.rid(11)),
    0::bigint, 'nothing is stored of it');
select t.submit('lim', 'l:1', id => 21);
select t.take('w', 'lim');
select t.finish('w', 'fail', p_retryable => false);
select t.submit('lim', 'l:2', id => 22);
select t.take('w', 'lim');
select is((pg_temp.rerun('l:1', pg_temp.impact('l:1') ->> 'impact_id'))
    .wake_kinds, '{}', 'a rerun waits for its limit');
select is((select place from interlock.jobs where rerun_of = t.rid(21)),
    'limited', 'like any job');
select t.finish('w', 'complete', '{}');
select is((select place from interlock.jobs where rerun_of = t.rid(21)),
    'ready', 'and gets its turn');

-- Pruned.
select t.submit('work', 'p:1', id => 31);
select t.take('w', 'work');
select t.finish('w', 'fail', p_retryable => false);
set local session_replication_role = replica;
create temp table payload as
select * from interlock.payloads where job_id = t.rid(31);
delete from interlock.payloads where job_id = t.rid(31);
set local session_replication_role = origin;
select is(pg_temp.impact('p:1') #>> '{}', 'pruned: what this work was made '
    'of is not kept any more', 'what was pruned has no impact');
select is((pg_temp.rerun('p:1', 'x')).problem, 'pruned', 'and no rerun');
insert into interlock.payloads select * from payload;

-- A date of a schedule: some succeeded, some failed, one never ran.
create function pg_temp.date(p_name text) returns text language sql as $$
    select max(business_date)::text from interlock.slots
    where schedule = p_name
$$;
create function pg_temp.slot(p_date text default null) returns json
language sql as $$
    select coalesce(i.doc::json, to_json(i.problem || ': ' || i.detail))
    from interlock.slot_impact(t.demo(), 's',
        coalesce(p_date, pg_temp.date('s'))) i
$$;
create function pg_temp.again(p_only text, p_impact text default null,
    p_call bigint default null, p_limit int default 500,
    p_date text default null, p_reason text default 'they asked')
returns table (problem text, detail text, doc json, remaining int,
    wake_kinds text[]) language sql as $$
    select r.problem, r.detail, r.doc::json, r.remaining, r.wake_kinds
    from interlock.slot_rerun(t.demo(), 's', coalesce(p_date,
            pg_temp.date('s')), p_only, coalesce(p_impact,
            pg_temp.slot() ->> 'impact_id'), 'me', p_reason, 7, 'op',
        t.rid(p_call), p_limit) r
$$;

select t.schedule('s', format('{"cron":"%s","zone":"UTC","kind":"day",
    "work_key":"s:{subject}:{date}","payload":"{subject}",
    "subjects":["a","b","c","d","e"]}', t.cron_ago('5 minutes')));
select t.behind('s', '10 minutes');
select t.scan(4);
select is((select count(*) from interlock.slots where schedule = 's'),
    4::bigint, 'four of five were admitted');
select t.schedule('s', '{"grace":1}');

-- a succeeds with its mail; b sends its mail and fails; c fails before; d is
-- still queued; e never ran.
create function pg_temp.work(p_mail boolean, p_end text) returns text
language plpgsql as $$
declare
    v_subject  text;
begin
    perform t.take('w', 'day');
    select work_key into v_subject from interlock.jobs j, t.held h
    where j.id = h.job and h.who = 'w';
    if p_mail then
        perform t.begin('w', 'mail', 'keys', 'd');
        perform t.outcome('w', 'mail', 'confirmed', 'ref');
    end if;
    perform t.finish('w', p_end, '{}', p_retryable => false);
    return split_part(v_subject, ':', 2);
end
$$;
select interlock.job_cancel(t.demo(), id, 'x', 'x', 1, 'x')
from interlock.jobs where work_key = 'k:1' and status = 'queued';
create temp table who as select x.n, null::text as subject
from generate_series(1, 3) x (n);
update who set subject = pg_temp.work(true, 'complete') where n = 1;
update who set subject = pg_temp.work(true, 'fail') where n = 2;
update who set subject = pg_temp.work(false, 'fail') where n = 3;

select results_eq(
    $$select i ->> 'subjects', i ->> 'slots', i ->> 'succeeded',
          i ->> 'failed', i ->> 'missing', i ->> 'active',
          i ->> 'reached_outside', i ->> 'unsettled', i ->> 'truncated',
          i -> 'would_do' -> 'failed' ->> 'works',
          i -> 'would_do' -> 'failed' ->> 'reached_outside',
          i -> 'would_do' -> 'missing' ->> 'works',
          i -> 'would_do' -> 'all' ->> 'works',
          i -> 'works' -> 0 ->> 'state', i -> 'works' -> 2 ->> 'state',
          i -> 'works' -> 2 ->> 'subject'
      from pg_temp.slot() i$$,
    $$values ('5', '1', '1', '2', '1', '1', '2', '0', 'false', '2', '1',
        '1', '4', 'failed', 'missing', 'e')$$, 'the impact of a date');
select is(pg_temp.slot(interlock.ts((select max(slot_at)
        from interlock.slots where schedule = 's'))) ->> 'impact_id',
    pg_temp.slot() ->> 'impact_id', 'or of a slot, by its time');
select is(pg_temp.slot('yesterday') #>> '{}', 'field-invalid: a slot is '
    'named by its business date (YYYY-MM-DD) or its time (RFC 3339)',
    'or of neither');
select is(pg_temp.slot('2026-02-30') #>> '{}', 'field-invalid: a slot is '
    'named by its business date (YYYY-MM-DD) or its time (RFC 3339)',
    'there is no such day');
select is((select problem from interlock.slot_impact(t.demo(), 'none',
    '2026-07-24')), 'not-found', 'no such schedule');

select is((pg_temp.again('some')).detail, '"only" must be one of failed, '
    'missing, all', 'only what');
select is((pg_temp.again('failed', p_reason => '')).problem,
    'field-invalid', 'and why');
select is((pg_temp.again('failed', 'x')).problem, 'impact-changed',
    'and seeing what');
select pg_temp.slot() ->> 'impact_id' as s1 \gset
select results_eq(
    format($$select remaining, doc ->> 'count', doc ->> 'admitted',
        wake_kinds::text from pg_temp.again('failed', %L, 41, 1)$$, :'s1'),
    $$values (1, '2', '1', '{day}')$$, 'only what failed, one a call');
select results_eq(
    format($$select remaining, doc ->> 'count', doc ->> 'admitted'
        from pg_temp.again('failed', %L, 41, 1)$$, :'s1'),
    $$values (0, '2', '2')$$, 'then the other one');
select results_eq(
    format($$select remaining, doc ->> 'admitted'
        from pg_temp.again('failed', %L, 41, 1)$$, :'s1'),
    $$values (0, '2')$$, 'and no more');
select is((pg_temp.again('failed', :'s1', 42)).problem, 'impact-changed',
    'another call sees that something happened');
select results_eq(
    $$select split_part(j.work_key, ':', 2), j.source, f.status
      from interlock.jobs j join interlock.jobs f on f.id = j.rerun_of
      where j.work_key like 's:%' order by 1$$,
    $$select subject, 'rerun', 'failed' from who where n > 1 order by 1$$,
    'just the failed ones run again');
select is((select count(*) from interlock.slots s
    join interlock.jobs j on j.id = s.job_id and j.source = 'rerun'),
    2::bigint, 'their slots follow');

-- Run all that is queued: the mail of b goes out once.
select pg_temp.work(true, 'complete') from generate_series(1, 3);
select is((select count(*) || '/' || count(distinct e.id)
    from interlock.sends x join interlock.effects e on e.id = x.effect_id
    where e.work_key like 's:%'), '4/4',
    'each subject''s mail was sent once');
select is(pg_temp.slot() ->> 'succeeded', '4', 'all but the missing one');

select results_eq(
    $$select doc ->> 'admitted', doc -> 'jobs' -> 0 ->> 'subject'
      from pg_temp.again('missing')$$, $$values ('1', 'e')$$,
    'what is missing runs for the first time');
select results_eq(
    $$select j.source, encode(p.payload, 'escape'), j.rerun_of
      from interlock.jobs j join interlock.payloads p on p.job_id = j.id
      where j.work_key like 's:e:%'$$,
    $$values ('rerun', '"e"', null::uuid)$$, 'with a payload of its own');
select pg_temp.work(true, 'complete');
select results_eq(
    $$select doc ->> 'admitted', remaining from pg_temp.again('all')$$,
    $$values ('5', 0)$$, 'or all of them');
select pg_temp.work(true, 'complete') from generate_series(1, 5);
select is((select count(*) || '/' || count(distinct e.id)
    from interlock.sends x join interlock.effects e on e.id = x.effect_id
    where e.work_key like 's:%'), '5/5', 'still nothing is sent twice');

-- What waits for approval runs by a rerun too, and not once more after it.
select t.schedule('s', format('{"cron":"%s","approve_after":60,
    "work_key":"s2:{subject}:{slot}"}', t.cron_ago('4 minutes')));
select t.behind('s', '10 minutes');
select t.scan();
select is((pg_temp.slot() ->> 'missing')::int, 5, 'five wait for approval');
select is((pg_temp.again('missing')).doc ->> 'admitted', '5', 'they run');
select is((select count(*) from interlock.slots
    where schedule = 's' and state = 'waiting'), 0::bigint,
    'and wait no more');
select is_empty('select * from t.violations', 'all is accounted for');

-- One date by hand.
create function pg_temp.run(p_date date, p_subjects text[] default null,
    p_call bigint default null, p_reason text default 'the boss asked')
returns table (problem text, detail text, doc json, remaining int,
    wake_kinds text[]) language sql as $$
    select r.problem, r.detail, r.doc::json, r.remaining, r.wake_kinds
    from interlock.schedule_run(t.demo(), 'r', p_date, p_subjects, 'me',
        p_reason, 7, 'op', t.rid(p_call), 500) r
$$;
select t.schedule('r', format('{"cron":"%s","zone":"UTC","kind":"work",
    "work_key":"r:{subject}:{date}","payload":{"d":"{date}"},
    "subjects":["a","b"]}', to_char((clock_timestamp() + interval '5 hours')
        at time zone 'UTC', 'FMMI FMHH24 "* * *"')));
select interlock.slot_date(v, (select next_at from interlock.schedules
    where name = 'r')) as next from interlock.schedule_versions v
where name = 'r' \gset
select is((pg_temp.run(:'next', p_reason => '')).problem, 'field-invalid',
    'not without a reason');
select is((pg_temp.run(null)).detail, 'a business date is missing',
    'nor without a date');
select is((pg_temp.run(:'next'::date + 1)).detail, '"date" is in the '
    'future, and beyond the next slot''s', 'nor for what nobody can know');
select is((pg_temp.run(:'next', '{a,x}')).detail,
    '"subjects": the schedule has no "x"', 'nor for who is not there');
select results_eq(
    format($$select doc ->> 'admitted', remaining, wake_kinds::text
        from pg_temp.run(%L, '{a}', 51)$$, :'next'),
    $$values ('1', 0, '{work}')$$, 'the date of the next slot');
select is((pg_temp.run(:'next', '{a}', 51)).doc ->> 'admitted', '1', 'once');
select results_eq(
    $$select j.work_key, j.source, j.requested_by, j.reason,
          encode(p.payload, 'escape')
      from interlock.jobs j join interlock.payloads p on p.job_id = j.id
      where j.work_key like 'r:%'$$,
    format($$values ('r:a:%1$s', 'schedule', 'me', 'the boss asked',
        '{"d":"%1$s"}')$$, :'next'), 'has that date''s key');
select is((select count(*) from interlock.slots where schedule = 'r'),
    0::bigint, 'and takes no slot');
set local session_replication_role = replica;
update interlock.schedules set next_at = next_at - interval '6 hours',
    scanned_to = next_at - interval '7 hours' where name = 'r';
update interlock.schedule_versions set cron = t.cron_ago('1 hours'),
    masks = (interlock.cron_parse(t.cron_ago('1 hours'))).cron
where name = 'r';
set local session_replication_role = origin;
select t.behind('r', '2 hours');
select t.scan();
select is((select count(*) from interlock.slots where schedule = 'r'
    and state = 'admitted'), 2::bigint, 'when its time comes, it fires');
select is((pg_temp.run('2026-07-24')).doc ->> 'admitted', '2',
    'any other date');
select is((select count(*) from interlock.jobs
    where work_key like 'r:%:2026-07-24'), 2::bigint, 'has its own key');
select t.schedule('r', '{"work_key":"r:{subject}:{slot}","cron":"0 9 1 * *"}');
select is((pg_temp.run('2026-07-24')).detail, '2026-07-24 has no slot, '
    'whose time the work key names', 'a date without a slot has no time');
select is((pg_temp.run('2026-07-01')).doc -> 'jobs' -> 0 ->> 'work_key',
    'r:a:20260701T090000Z', 'one with a slot has');
select t.schedule('r', '{"cron":"0 9,10 * * *"}');
select is((pg_temp.run('2026-07-02')).doc ->> 'admitted', '4',
    'two slots of two subjects each');

-- A range.
create function pg_temp.plan(p_from date, p_to date,
    p_subjects text[] default null)
returns table (problem text, detail text, doc json) language sql as $$
    select r.problem, r.detail, r.doc::json
    from interlock.schedule_backfill_plan(t.demo(), 'r', p_from, p_to,
        p_subjects, null, null, 7, 'op') r
$$;
create function pg_temp.fill(p_plan text, p_limit int default 500,
    p_reason text default 'they were away')
returns table (problem text, detail text, doc json, remaining int,
    wake_kinds text[]) language sql as $$
    select r.problem, r.detail, r.doc::json, r.remaining, r.wake_kinds
    from interlock.schedule_backfill(t.demo(), 'r', p_plan::uuid, 'me',
        p_reason, 7, 'op', p_limit) r
$$;
select t.schedule('r', '{"work_key":"r:{subject}:{date}","cron":"0 9 * * 1-5"}');
select is((pg_temp.plan('2026-08-02', '2026-08-01')).detail,
    '"to" is before "from"', 'a range has an order');
select is((pg_temp.plan('2026-08-01', '2999-08-01')).detail,
    'a range has at most 3660 days', 'and a bound');
select is((pg_temp.plan('2026-08-01', (clock_timestamp()
    + interval '3 days')::date)).detail, '"to" is in the future',
    'and is past');
select is((pg_temp.plan(null, '2026-08-01')).detail,
    'a business date is missing', 'and has both ends');
select is((pg_temp.plan('2026-08-01', '2026-08-02')).doc ->> 'count', '0',
    'a weekend has no slots');
select t.take('f', 'work') from interlock.jobs
where work_key = 'r:a:2026-07-24';
create temp table p as select doc ->> 'plan_id' as id, doc
from pg_temp.plan('2026-07-20', '2026-07-31');
select results_eq(
    $$select doc ->> 'count', doc ->> 'done', doc ->> 'truncated',
          doc ->> 'from', doc -> 'works' -> 0 ->> 'work_key'
      from p$$,
    $$values ('20', '0', 'false', '2026-07-20', 'r:a:2026-07-20')$$,
    'ten weekdays of two subjects');
select is((select count(*) from interlock.jobs where source = 'backfill'),
    0::bigint, 'planned, nothing runs');
select is((pg_temp.fill((select id from p), p_reason => '')).problem,
    'field-invalid', 'not without a reason');
select is((pg_temp.fill(t.rid(1)::text)).problem, 'not-found', 'no plan');
select is((pg_temp.fill((select id from p), 7)).remaining, 13, 'seven');
select is((select state || ' ' || coalesce(rerun_of::text, 'first') from (
    select status as state, rerun_of from interlock.jobs
    where source = 'backfill' limit 1) x), 'queued first', 'first runs');
select results_eq(
    $$select remaining, doc ->> 'count', doc ->> 'admitted',
          json_array_length(doc -> 'skipped'),
          doc -> 'skipped' -> 0 ->> 'reason',
          doc -> 'skipped' -> 0 ->> 'business_date'
      from pg_temp.fill((select id from p))$$,
    $$values (0, '20', '18', 2, 'skipped: same_work', '2026-07-24')$$,
    'all; what ran already by hand meets the rules of its kind');
select is((pg_temp.fill((select id from p))).doc ->> 'admitted', '18',
    'a plan that is done answers the same');
select is((select what || ' ' || reason || ' ' || (detail ->> 'count')
    from interlock.actions where what = 'schedule_backfill'),
    'schedule_backfill they were away 20', 'who and why is kept, once');
create temp table q as select doc ->> 'plan_id' as id
from pg_temp.plan('2026-06-01', '2026-06-05');
update interlock.schedule_plans set expires_at = clock_timestamp()
where id = (select id::uuid from q);
select is((pg_temp.fill((select id from q))).problem, 'plan-expired',
    'a plan has an hour');

-- A plan is of what its schedule meant when it was made.
create temp table c as select n, doc ->> 'plan_id' as id
from generate_series(1, 4) n
cross join lateral pg_temp.plan('2026-06-01', date '2026-06-05' + 0 * n);
create function pg_temp.planned(p_n int, p_limit int default 500)
returns text language sql as $$
    select coalesce(f.problem || ': ' || f.detail, f.remaining::text)
    from pg_temp.fill((select id from c where n = p_n), p_limit) f
$$;
select is(pg_temp.planned(1, 3), '7', 'one was begun');
select is(pg_temp.planned(2), '0', 'one is done');
select t.schedule('r', '{"paused":true}');
select is(pg_temp.planned(1, 3), '4', 'a pause is no change of it');
select t.schedule('r', '{"payload":{"d":"x"}}');
create temp table changed as select 'plan-expired: the schedule was changed '
    'since this plan was made; make a new one' as why;
select is(pg_temp.planned(3), (select why from changed),
    'a plan of another definition is refused');
select is(pg_temp.planned(1), (select why from changed),
    'so is the rest of one that was begun');
select is(pg_temp.planned(2), '0', 'what was done is answered again');
select is((select count(*) from interlock.jobs
    where work_key ~ '^r:.:2026-06-0'), 10::bigint, 'nothing of it ran');
insert into c select 5, doc ->> 'plan_id'
from pg_temp.plan('2026-06-08', '2026-06-09');
select interlock.schedule_delete(t.demo(), 'r');
select is(pg_temp.planned(5), 'not-found: the schedule was deleted since '
    'this plan was made', 'nor when it was deleted');
select t.schedule('r', '{"cron":"0 9 * * 1-5","zone":"UTC","kind":"work",'
    '"work_key":"r:{subject}:{date}","subjects":["a","b"],"payload":{"d":"x"}}');
select is(pg_temp.planned(5), (select why from changed),
    'nor when it was made anew');
select is((pg_temp.run('2026-06-10', '{a}', 61)).remaining, 0, 'a run');
select t.schedule('r', '{"grace":60}');
select is((pg_temp.run('2026-06-10', '{a}', 61)).doc ->> 'admitted', '1',
    'that is done is answered again');

-- What is done is left out: where the work key is a slot's own, by its result;
-- else only if that is of this very date.
select t.kind('done', '{"overlap":"skip"}');
select t.schedule('own', '{"cron":"0 9,21 * * *","zone":"UTC","kind":"done",'
    '"work_key":"own:{date}:{time}"}');
select t.schedule('both', '{"cron":"0 9,21 * * *","zone":"UTC","kind":"done",'
    '"work_key":"both:{date}","payload":{"at":"{time}"}}');
select t.schedule('one', '{"cron":"0 9 * * *","zone":"UTC","kind":"done",'
    '"work_key":"one:{date}"}');
select t.schedule('any', '{"cron":"0 9 * * *","zone":"UTC","kind":"done",'
    '"work_key":"any:x"}');
create function pg_temp.do_work(p_key text) returns void language sql as $$
    select t.submit('done', p_key);
    select t.take('w', 'done');
    select t.finish('w', 'complete');
$$;
select pg_temp.do_work(k) from unnest(array['own:2026-06-02:0900',
    'both:2026-06-02', 'one:2026-06-02', 'any:x']) k;
select results_eq($$select s, doc::json ->> 'done', doc::json ->> 'count'
    from unnest(array['own', 'both', 'one', 'any']) s
    cross join lateral interlock.schedule_backfill_plan(t.demo(), s,
        '2026-06-01', '2026-06-03', null, null, null, 7, 'op')$$,
    $$values ('own', '1', '5'), ('both', '0', '6'), ('one', '1', '2'),
        ('any', '0', '3')$$, 'what is done is no part of a plan');

-- Long ranges are counted before they are written down.
select t.schedule('r', '{"cron":"* * * * *","work_key":"r:{subject}:{slot}"}');
create function pg_temp.long(p_years int) returns text language sql as $$
    select p.detail from pg_temp.plan((current_date
        - make_interval(years => p_years))::date, current_date) p
$$;
select is(pg_temp.long(n), 'these are more than 100000 works; take a smaller '
    'range, or some "subjects"', n || ' years of minutes')
from unnest(array[1, 2, 10]) n;
select ok((select count(*) from interlock.schedule_plan_items) < 1000,
    'nothing is kept of them');
set local statement_timeout = '4s';
select isnt(pg_temp.long(10), null, 'nor is it looked at long');
reset statement_timeout;
select results_eq($$select interlock.works_least(v, '2026-03-27', f, null)
    from unnest(array[date '2026-03-27', '2026-03-29', '2026-03-31']) f
    cross join interlock.schedules s
    join interlock.schedule_versions v using (tenant, name, version)
    where s.name = 'r' order by f$$,
    'values (0::bigint), (1440::bigint * 2), (1440::bigint * 6)',
    'the days between the ends count');
select t.schedule('r', '{"zone":"Europe/Berlin"}');
select is((select interlock.works_least(v, '2026-03-28', '2026-03-30',
        '{a,a}')
    from interlock.schedules s
    join interlock.schedule_versions v using (tenant, name, version)
    where s.name = 'r'), 1380::bigint, 'of a day with a gap what it has');
select is((select problem from interlock.schedule_run(t.demo(), 'none',
    '2026-07-24', null, 'me', 'x', 1, 'x', null, 9)), 'not-found',
    'no such schedule');

select is_empty('select * from t.violations', 'all is accounted for');

select * from finish();
rollback;
