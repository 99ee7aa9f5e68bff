-- gaps.sql: expected slots against completed work.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

select t.providers();
select t.kind('day', '{"overlap":"skip","when_completed":"return"}');
select t.kind('mail', '{"overlap":"skip","effect_scope":"job",
    "delivery_effects":["mail"]}');
select t.kind('line', '{"overlap":"buffer_one","max_attempts":1}');
select t.kind('tight', '{"overlap":"skip","max_queued":1}');

create function pg_temp.gap_scan(p_name text)
returns table (opened int, closed int, done int) language plpgsql as $$
begin
    perform t.now_due(p_name);
    return query select g.opened, g.closed, g.done
    from interlock.gap_scan(500) g where g.schedule = p_name;
end
$$;

create function pg_temp.gaps(p_name text) returns text language sql as $$
    select string_agg(concat_ws(' ', g.subject, g.state, g.why), '; '
        order by g.subject)
    from interlock.gaps g where g.schedule = p_name
$$;

create function pg_temp.gap(p_name text, p_subject text) returns uuid
language sql as $$
    select g.id from interlock.gaps g
    where g.schedule = p_name and g.subject = p_subject
$$;

create function pg_temp.approve(p_gap uuid, p_call bigint default null,
    p_reason text default 'the API is back') returns text language sql as $$
    select coalesce(a.problem || ': ' || a.detail, a.doc::json ->> 'state')
        || ' ' || a.wake_kinds::text
    from interlock.gap_approve(t.demo(), p_gap, 'me', p_reason, 7, 'op',
        t.rid(p_call)) a
$$;

create function pg_temp.dismiss(p_gap uuid, p_reason text default 'a holiday')
returns text language sql as $$
    select coalesce(a.problem || ': ' || a.detail, a.doc::json ->> 'state')
    from interlock.gap_dismiss(t.demo(), p_gap, 'me', p_reason, 7, 'op') a
$$;

create function pg_temp.seen(p_name text, p_subject text, p_field text)
returns text language sql as $$
    select s.doc::json ->> p_field
    from interlock.schedule_slots(t.demo(), p_name, null, null, 100, null) s
    where s.doc::json ->> 'subject' = p_subject
$$;

-- Five subjects, each with a fate of its own, an hour and a half ago.
select t.plan_slots('d', 'day', t.cron_ago('90 minutes'), 'a b c d e',
    ',"grace":3600');
select t.behind('d', '100 minutes');
select t.scan();
select t.take('a', 'day'), t.take('b', 'day'), t.take('c', 'day');
select t.finish('a', 'complete', '{}');
select t.finish('b', 'fail', p_error => 'no such customer',
    p_retryable => false);
select interlock.job_cancel(t.demo(), id, 'x', 'not today', 1, 'op')
from interlock.jobs where work_key like 'd:%' and status = 'queued'
order by work_key limit 1;

select results_eq($$select * from pg_temp.gap_scan('d')$$,
    'values (4, 0, 1)', 'what is done has run, the rest are gaps');
select is(pg_temp.gaps('d'),
    (select string_agg(concat_ws(' ', s.subject, 'open', case
        when j.status = 'failed' then 'its job is failed: no such customer'
        when j.status = 'canceled'
        then 'its job is canceled: canceled: not today'
        else 'its job is ' || j.status end), '; ' order by s.subject)
     from interlock.slots s join interlock.jobs j on j.id = s.job_id
     where s.schedule = 'd' and j.status <> 'succeeded'),
    'each says why');
select results_eq(
    $$select g.since - s.slot_at, s.slot_at < clock_timestamp()
      from interlock.gaps g join interlock.slots s using (tenant, schedule,
          slot_at, subject) limit 1$$,
    $$values (interval '1 hour', true)$$, 'since its grace is over');
select is((select value from interlock.stats() where name = 'schedule_gaps'),
    4::float8, 'they are counted');
select results_eq($$select * from pg_temp.gap_scan('d')$$,
    'values (0, 0, 0)', 'a gap opens once');
select is((select count(*) from interlock.gap_scan(9)), 0::bigint,
    'and is looked at now and then');

-- The list.
select is((select count(*) from interlock.gaps_list(t.demo(), null, null, 9,
    null)), 4::bigint, 'listed');
select is((select count(*) from interlock.gaps_list(t.demo(), 'd', null, 9,
    null)), 4::bigint, 'by schedule');
select is((select count(*) from interlock.gaps_list(t.demo(), 'x', null, 9,
    null)), 0::bigint, 'of another');
select is((select count(*) from interlock.gaps_list(t.demo(), 'd', 'closed',
    9, null)), 0::bigint, 'by state');
select is((select string_agg(x.doc::json ->> 'subject', '') from (
    select * from interlock.gaps_list(t.demo(), null, null, 3, null)) x)
    || (select string_agg(y.doc::json ->> 'subject', '')
        from (select cursor from interlock.gaps_list(t.demo(), null, null, 3,
                null) offset 2) c,
        interlock.gaps_list(t.demo(), null, null, 9, c.cursor) y),
    (select string_agg(subject, '' order by since, id) from interlock.gaps),
    'page by page');
select is((select count(*) from interlock.gaps_list(t.demo(), null, null, 9,
    'x')), 0::bigint, 'no such cursor');
select results_eq(
    $$select array_agg(k order by k collate "C")
      from (select doc from interlock.gaps_list(t.demo(), null, null, 1,
              null)) d, json_object_keys(d.doc::json) k$$,
    $$values ('{business_date,changed_at,gap_id,job_id,opened_at,reason,
      requested_by,schedule,since,slot_at,state,subject,why,work_key}'
      ::text[])$$, 'what is shown of one');

-- Closed by itself.
select t.finish('c', 'complete', '{}');
select results_eq($$select * from pg_temp.gap_scan('d')$$,
    'values (0, 1, 1)', 'done after all, a gap closes');
select is((select state || ' ' || why from interlock.gaps
    where state <> 'open'), 'closed done', 'by itself');

-- Decided.
create function pg_temp.of_status(p_status text) returns uuid
language sql as $$
    select g.id from interlock.gaps g
    join interlock.slots s using (tenant, schedule, slot_at, subject)
    join interlock.jobs j on j.id = s.job_id
    where g.schedule = 'd' and j.status = p_status and g.state = 'open'
    limit 1
$$;
select pg_temp.of_status('failed') as failed,
    pg_temp.of_status('canceled') as canceled,
    pg_temp.of_status('queued') as queued \gset

select is(pg_temp.approve(:'failed', p_reason => ''), 'field-invalid: '
    '"reason" is missing: why it is decided so {}', 'not without a reason');
select is(pg_temp.approve(t.rid(9)), 'not-found: no such gap {}',
    'nor one that is not there');
select matches(pg_temp.approve(:'queued'),
    '^work-active: work of this key is active: job [0-9a-f-]+ \{\}$',
    'nor one whose job has not ended');
select is(pg_temp.approve(:'failed', 5), 'approved {day}',
    'what failed runs again');
select is(pg_temp.approve(:'failed', 5), 'approved {}',
    'the same call again has its answer');
select is(pg_temp.approve(:'failed'), 'gap-closed: the gap is approved {}',
    'another one has not');
select results_eq(
    $$select j.source, f.status, j.requested_by, j.reason
      from interlock.jobs j join interlock.jobs f on f.id = j.rerun_of$$,
    $$values ('rerun', 'failed', 'me', 'the API is back')$$,
    'as a rerun of the failed job');
select is((select count(*) from interlock.slots s
    join interlock.jobs j on j.id = s.job_id where j.source = 'rerun'),
    1::bigint, 'which is the slot''s job now');
select is(pg_temp.dismiss(:'canceled'), 'dismissed', 'dismissed');
select is(pg_temp.dismiss(:'canceled'), 'gap-closed: the gap is dismissed',
    'once');
select is(pg_temp.dismiss(:'canceled', null), 'field-invalid: "reason" is '
    'missing: why it is decided so', 'never without a reason');
select results_eq(
    $$select what, requested_by, reason, token_name from interlock.actions
      where what like 'gap%' order by id$$,
    $$values ('gap_approve', 'me', 'the API is back', 'op'),
             ('gap_dismiss', 'me', 'a holiday', 'op')$$,
    'who and why is kept');
select results_eq($$select * from pg_temp.gap_scan('d')$$,
    'values (0, 0, 0)', 'an approved one has another grace time');
update interlock.gaps set changed_at = changed_at - interval '2 hours'
where state = 'approved';
select results_eq($$select * from pg_temp.gap_scan('d')$$,
    'values (1, 0, 0)', 'and is open again after it');
select is(pg_temp.approve(:'failed'), 'work-active: work of this key is '
    'active: job ' || (select id from interlock.jobs
        where source = 'rerun') || ' {}', 'its rerun still waits');
select t.take('w', 'day'), t.take('v', 'day');
select t.finish('w', 'complete', '{}'), t.finish('v', 'complete', '{}');
select results_eq($$select * from pg_temp.gap_scan('d')$$,
    'values (0, 2, 2)', 'until it is done');
select is((select string_agg(state, ' ' order by state) from interlock.gaps
    where schedule = 'd'), 'closed closed closed dismissed',
    'the dismissed one stays');
select is((select value from interlock.stats() where name = 'schedule_gaps'),
    0::float8, 'no gap is open');
select ok((select abs(value - extract(epoch from clock_timestamp())) < 60
    from interlock.stats()
    where name = 'last_success_timestamp_seconds'),
    'the last success is a moment ago');
select is_empty('select * from t.violations', 'all is accounted for');

-- Approval.
select t.plan_slots('old', 'day', t.cron_ago('5 minutes'), 'a b',
    ',"approve_after":60');
select t.behind('old', '10 minutes');
select t.scan();
select results_eq($$select * from pg_temp.gap_scan('old')$$,
    'values (2, 0, 0)',
    'what waits for approval is a gap before its grace is over');
select is(pg_temp.gaps('old'), 'a open it is older than approve_after and '
    'waits for approval; b open it is older than approve_after and waits '
    'for approval', 'and says so');
select is(pg_temp.approve(pg_temp.gap('old', 'a'), 6), 'approved {day}',
    'approved, it runs');
select is(pg_temp.dismiss(pg_temp.gap('old', 'b')), 'dismissed',
    'dismissed, it does not');
select is(t.slots('old'), '1 admitted, 1 skipped (dismissed)', 'so it is');
select is((select source || ' ' || (rerun_of is null)::text
    from interlock.jobs where work_key like 'old:a:%'), 'schedule true',
    'it is the slot''s own job');

select t.plan_slots('void', 'day', t.cron_ago('5 minutes'), 'a b',
    ',"approve_after":60');
select t.behind('void', '10 minutes');
select t.scan();
select pg_temp.gap_scan('void');
select t.schedule('void', '{"jitter":1}');
select is(pg_temp.approve(pg_temp.gap('void', 'a')), 'gap-closed: the gap is '
    'closed: its schedule was changed {}',
    'what waits of an old definition is not approved');
select pg_temp.gap_scan('void');
select is(t.slots('void') || ' ' || pg_temp.gaps('void'),
    '2 skipped (changed) a closed skipped: changed; b closed skipped: '
    'changed', 'nor kept');

-- No room.
select t.plan_slots('t', 'tight', t.cron_ago('5 minutes'), 'a b',
    ',"grace":60');
select t.behind('t', '10 minutes');
select t.scan();
select t.now_due('t');
select results_eq($$select * from pg_temp.gap_scan('t')$$,
    'values (2, 0, 0)', 'who waits for room for too long is a gap');
select is(pg_temp.gaps('t'), 'a open its job is queued; b open it was not '
    'admitted: queue-full', 'and says so');
select is(pg_temp.approve(pg_temp.gap('t', 'b')), 'approved {}',
    'approved, it goes on waiting');
select is(t.slots('t'), '1 admitted, 1 waiting (queue-full)', 'for room');
select t.take('t', 'tight');
select t.now_due('t');
select t.scan();
select is(t.slots('t'), '2 admitted', 'and gets it');
select t.schedule('t', '{"grace":50}');
update interlock.slots set state = 'waiting', reason = 'queue-full',
    job_id = null, lane = '', tries = 1
where schedule = 't' and subject = 'b';
select interlock.line_settle(t.demo(), 't', '', 0, 0, 0, 'queue-full');
select interlock.lines_next(t.demo(), 't');
select t.scan();
select is((select state || ' ' || why from interlock.gaps
    where id = pg_temp.gap('t', 'b')), 'closed skipped: changed',
    'the gap of a slot that fires no more closes');
select t.finish('t', 'complete', '{}');

-- Generated and delivered.
select t.plan_slots('m', 'mail', t.cron_ago('5 minutes'), 'a',
    ',"grace":60');
select t.behind('m', '10 minutes');
select t.scan();
select t.take('w', 'mail');
select t.begin('w', 'mail', 'mute');
select is(pg_temp.seen('m', 'a', 'generated') || pg_temp.seen('m', 'a',
    'job_status'), 'falserunning', 'neither generated ...');
select t.finish('w', 'complete', '{}');
select results_eq($$select * from pg_temp.gap_scan('m')$$,
    'values (1, 0, 0)', 'generated, but not delivered, is a gap');
select is(pg_temp.gaps('m'), 'a open its job succeeded, but not all of its '
    'effects are confirmed', 'and says so');
select is(pg_temp.seen('m', 'a', 'generated') || ' ' || pg_temp.seen('m',
    'a', 'delivered'), 'true false', '... nor delivered');
select t.resolve('mail', 'happened');
select results_eq($$select * from pg_temp.gap_scan('m')$$,
    'values (0, 1, 1)', 'until somebody knows that it is');
select is(pg_temp.seen('m', 'a', 'generated') || ' ' || pg_temp.seen('m',
    'a', 'delivered') || ' ' || pg_temp.seen('m', 'a', 'state'),
    'true true run', 'then it is both, and has run');

-- A waiting job that takes over.
select t.schedule('l', format('{"cron":"%s","zone":"UTC","kind":"line",
    "work_key":"l:{date}","grace":60,"payload":"S"}',
    t.cron_ago('5 minutes')));
select t.behind('l', '10 minutes');
select t.scan();
select t.take('w', 'line');
select t.submit('line', work_key, 'C') from interlock.slots
where schedule = 'l';
select t.finish('w', 'fail');
select results_eq($$select * from pg_temp.gap_scan('l')$$,
    'values (1, 0, 0)', 'its job ended');
select t.take('w', 'line');
select t.finish('w', 'complete', '{"n":1}');
select results_eq($$select * from pg_temp.gap_scan('l')$$,
    'values (0, 1, 1)', 'work of its key by another request is its work');

-- What is shown of slots.
-- (Which subject got which fate is up to the order of their jobs.)
select is(pg_temp.seen('d', (select subject from interlock.gaps
    where schedule = 'd' and state = 'closed' limit 1), 'state'), 'run',
    'state');
select results_eq(
    $$select array_agg(k order by k collate "C")
      from (select doc from interlock.schedule_slots(t.demo(), 'm', null,
              null, 1, null)) d, json_object_keys(d.doc::json) k$$,
    $$values ('{business_date,delay_seconds,delivered,failed,gap_id,
      gap_state,generated,job_id,job_status,last_success,processed,reason,
      slot_at,slots,state,subject,subjects,tries,try_at,until,work_key}'
      ::text[])$$, 'the fields of a slot');
select results_eq(
    $$select doc::json ->> 'processed', doc::json ->> 'failed',
          (doc::json ->> 'delay_seconds')::float8 between 299 and 420,
          doc::json ->> 'last_success' is not null
      from interlock.schedule_slots(t.demo(), 'm', null, null, 1, null)$$,
    $$values ('1', '0', true, true)$$, 'counts, delay and last success');
select is((select problem from interlock.schedule_slots(t.demo(), 'none',
    null, null, 9, null)), 'not-found', 'no such schedule');
select is((select count(*) from interlock.schedule_slots(t.demo(), 'd',
    null, null, 9, 'x')), 0::bigint, 'no such cursor');

select t.plan_slots('v', 'day', t.cron_ago('5 minutes'), 'a b',
    ',"catch_up":"all","catch_up_max":5');
select t.behind('v', '100 days');
select t.scan();
select results_eq(
    $$select count(*), sum((doc::json ->> 'slots')::int),
          min(doc::json ->> 'state'), min(doc::json ->> 'reason')
      from interlock.schedule_slots(t.demo(), 'v', null, null, 100, null)$$,
    $$values (11::bigint, 105::bigint, 'admitted', 'catch_up')$$,
    'what was skipped in a row is shown in one');
select is((select doc::json ->> 'state' from interlock.schedule_slots(
    t.demo(), 'v', null, null, 100, null) offset 10), 'skipped',
    'as the oldest');
create function pg_temp.pages(p_limit int) returns text
language plpgsql as $$
declare
    v_cursor  text;
    v_out     text := '';
    r         record;
begin
    loop
        select string_agg(x.doc::json ->> 'slot_at' || (x.doc::json
                ->> 'subject'), ',') as docs,
            (array_agg(x.cursor))[count(*)] as cursor
        into r
        from interlock.schedule_slots(t.demo(), 'v', null, null, p_limit,
            v_cursor) x;
        exit when r.cursor is null;
        v_out := v_out || coalesce(r.docs, '-');
        v_cursor := r.cursor;
    end loop;
    return replace(v_out, ',', '');
end
$$;
select is(pg_temp.pages(3), pg_temp.pages(100), 'page by page');
select is((select count(*) from interlock.schedule_slots(t.demo(), 'v',
    interlock.slot_date(x, clock_timestamp()
        - interval '24 hours 5 minutes'),
    interlock.slot_date(x, clock_timestamp()
        - interval '24 hours 5 minutes'), 9,
    null)), 2::bigint, 'by business dates')
from interlock.schedule_versions x where x.name = 'v';

-- A job that runs for long, within its grace, is not looked at late.
select t.plan_slots('z', 'day', t.cron_ago('90 minutes'), 'a',
    ',"grace":18000');
select t.behind('z', '100 minutes');
select t.scan();
select results_eq($$select * from pg_temp.gap_scan('z')$$,
    'values (0, 0, 0)', 'it is not done yet');
select ok((select check_at - clock_timestamp() between '10 s' and '30 s'
    from interlock.slots where schedule = 'z' and state = 'admitted'),
    'and is looked at again within half a minute');

select is_empty('select * from t.violations', 'all is accounted for');

select * from finish();
rollback;
