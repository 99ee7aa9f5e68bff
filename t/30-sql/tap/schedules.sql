-- schedules.sql: definitions, and the slots that come of them.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'Pacific/Auckland';    -- nobody's, on purpose
select * from no_plan();

select t.kind('daily', '{"overlap":"skip","when_completed":"return"}');
select t.kind('free', '{"overlap":"allow","max_queued":1000000}');
select t.kind('once', '{"overlap":"skip"}');
select t.kind('tight', '{"overlap":"skip","max_queued":2}');
select t.kind('form', '{"overlap":"skip","key_template":"x:{site}"}');

create function pg_temp.put(p_doc text, p_name text default 's')
returns table (problem text, detail text, doc json) language sql as $$
    select p.problem, p.detail, p.doc::json
    from interlock.schedule_put(t.demo(), p_name, p_doc) p
$$;

-- Bad input.  Each is the good one but for one field.
select results_eq(
    format('select problem, detail from pg_temp.put(%L)',
        coalesce(x.whole, (jsonb '{"cron":"0 9 * * *","zone":"Asia/Seoul",
            "kind":"daily","work_key":"org:{subject}:{date}",
            "subjects":["a","b"]}' || x.field::jsonb)::text)),
    format('values (%L::text, %L::text)', x.problem, x.detail), x.detail)
from (values
    (null, '{"cron":"0 25 * * *"}', 'field-invalid', '"cron": hour: 25 is not between 0 and 23'),
    (null, '{"cron":"0 9 * *"}', 'field-invalid', '"cron": it has 4 fields, not five (minute, hour, day of month, month, day of week)'),
    (null, '{"cron":9}', 'field-invalid', '"cron" must be a string of 1 to 1024 bytes'),
    (null, '{"zone":"Mars/Olympus"}', 'field-invalid', '"zone": there is no zone "Mars/Olympus"; zones have names like Europe/Berlin'),
    (null, '{"zone":"KST"}', 'field-invalid', '"zone": there is no zone "KST"; zones have names like Europe/Berlin'),
    (null, '{"zone":"UTC+9"}', 'field-invalid', '"zone": there is no zone "UTC+9"; zones have names like Europe/Berlin'),
    (null, '{"zone":"posix/Asia/Seoul"}', 'field-invalid', '"zone": there is no zone "posix/Asia/Seoul"; zones have names like Europe/Berlin'),
    (null, '{"kind":"none"}', 'kind-unknown', 'no kind "none"'),
    (null, '{"kind":"form"}', 'work-key-mismatch', 'a work key of kind "form" is of the form x:{site}'),
    (null, '{"work_key":"org:{customer}:{date}"}', 'field-invalid', '"work_key" names the field {customer}; there are {subject}, {date}, {time}, {slot} and {schedule}'),
    (null, '{"payload":{"a":["{Subject}"]}}', 'field-invalid', '"payload" names the field {Subject}; there are {subject}, {date}, {time}, {slot} and {schedule}'),
    (null, '{"work_key":"org::{subject}"}', 'field-invalid', '"work_key" has an empty part'),
    (null, '{"work_key":"org:{subject}: x"}', 'field-invalid', '"work_key": the part " x" must be text and fields like {subject}, without spaces; "%" is followed by two hex digits'),
    (null, '{"work_key":"org:{subject"}', 'field-invalid', '"work_key": the part "{subject" must be text and fields like {subject}, without spaces; "%" is followed by two hex digits'),
    (null, '{"work_key":"org:{date}"}', 'field-invalid', '"work_key" must name {subject}: there are 2 of them, and each is work of its own'),
    (null, '{"subjects":[]}', 'field-invalid', '"work_key" or "payload" names {subject}, but there are no "subjects"'),
    (null, '{"subjects":["a","b","a"]}', 'field-invalid', '"subjects" names "a" twice'),
    (null, '{"subjects":["a",""]}', 'field-invalid', '"subjects": "" is not a name of 1 to 128 bytes without control characters'),
    (null, '{"subjects":["a",1]}', 'field-invalid', '"subjects" must be an array of strings'),
    (null, '{"subjects":"a"}', 'field-invalid', '"subjects" must be an array of strings'),
    (null, '{"start":"2026-07-01T00:00:00Z","end":"2026-07-01T00:00:00+02:00"}', 'field-invalid', '"end" must be after "start"'),
    (null, '{"start":"2026-07-01"}', 'field-invalid', '"start" must be a time (RFC 3339)'),
    (null, '{"catch_up":"some"}', 'field-invalid', '"catch_up" must be one of latest, all, skip'),
    (null, '{"gap":"later"}', 'field-invalid', '"gap" must be one of run_after, skip'),
    (null, '{"fold":"none"}', 'field-invalid', '"fold" must be one of first, second, both'),
    (null, '{"grace":-1}', 'field-invalid', '"grace" must be between 0 and 31536000'),
    (null, '{"jitter":1.5}', 'field-invalid', '"jitter" must be a whole number'),
    (null, '{"priority":101}', 'field-invalid', '"priority" must be between -100 and 100'),
    (null, '{"crontab":"x"}', 'unknown-field', 'a schedule has no field "crontab"'),
    (null, '{"name":"other"}', 'field-invalid', '"name" must be the name in the path'),
    (null, '{"version":1}', 'field-invalid', '"version" is not the present one (none)'),
    ('{"cron":"0 9 * * *","cron":"0 9 * * *"}', null, 'field-invalid', '"cron" occurs twice'),
    ('{"cron":"0 9 * * *"}', null, 'field-invalid', '"zone" is missing'),
    ('{}', null, 'field-invalid', '"cron" is missing'),
    ('[]', null, 'json-invalid', 'a schedule is a JSON object')
) x (whole, field, problem, detail);
select is((pg_temp.put(format('{"cron":"0 9 * * *","zone":"UTC",
    "kind":"daily","work_key":"{subject}{subject}:x","subjects":["a","%s"]}',
    repeat('%', 100)))).detail, '"work_key" is too long for the subject "'
    || repeat('%', 64) || '": a part has at most 512 bytes, a key 2048',
    'a key that is too long for a subject');
select is((pg_temp.put('{}', 'A')).detail, 'a schedule''s name has 1 to 64 '
    'of a-z, 0-9, ".", "_", "-", the first a letter or digit', 'its name');
select is((pg_temp.put(format('{"cron":"0 9 * * *","zone":"UTC",
    "kind":"daily","work_key":"k","subjects":%s}', (
        select json_agg(x) from generate_series(1, 100001) x)))).detail,
    '"subjects" has at most 100000 entries', 'and how many subjects');
select is((select count(*) from interlock.schedules), 0::bigint,
    'nothing of these is stored');

-- Definitions.
select results_eq(
    $$select (doc ->> 'version')::int, doc ->> 'next_at' is not null,
          doc ->> 'subjects', doc ->> 'payload', doc ->> 'catch_up',
          doc ->> 'grace', (doc ->> 'subject_count')::int
      from pg_temp.put('{"cron":"0 9 * * *","zone":"Asia/Seoul",
          "kind":"daily","work_key":"org:{subject}:{date}",
          "payload":{"n": 1.10},"subjects":["a","b"]}')$$,
    $$values (1, true, '["a", "b"]', '{"n": 1.10}', 'latest', '3600', 2)$$,
    'a new one has defaults');
select is((pg_temp.put('{}')).doc ->> 'version', '1',
    'nothing said, nothing changed');
select is((pg_temp.put((select doc from interlock.schedule_get(t.demo(),
    's')))).doc ->> 'version', '1', 'what GET shows may be put again');
select results_eq(
    $$select doc ->> 'version', doc ->> 'grace', doc ->> 'subjects'
      from pg_temp.put('{"grace":60,"version":1}')$$,
    $$values ('2', '60', '["a", "b"]')$$,
    'a change is a new version; the rest stays');
select is((pg_temp.put('{"grace":60,"version":1}')).detail,
    '"version" is not the present one (2)', 'seen by whoever was late');
select is((pg_temp.put('{"paused":true,"pause_note":"move"}')).doc
    ->> 'version', '2', 'a pause is no change of the definition');
select results_eq(
    $$select doc::json ->> 'paused', doc::json ->> 'pause_note',
          doc::json ->> 'next_at'
      from interlock.schedule_get(t.demo(), 's')$$,
    $$values ('true', 'move', null)$$, 'but shows');
select is((pg_temp.put('{"paused":false}')).doc ->> 'pause_note', null,
    'and goes');
select is((pg_temp.put('{"subjects":["b","a"]}')).doc ->> 'version', '3',
    'subjects have an order');
select is((select string_agg(subject, '' order by list, n)
    from interlock.schedule_subjects), 'abba', 'each list is kept once');
select is((select string_agg(name, ' ') from interlock.schedule_list(
    t.demo())), 's', 'the list');
select is((select doc from interlock.schedule_get(t.demo(), 'none')), null,
    'no such one');
select is((pg_temp.put('{"cron":"0 0 31 2 *"}')).doc ->> 'next_at', null,
    'a date that never comes');
select is((pg_temp.put('{"start":"2999-01-01T00:00:00Z","cron":"0 9 * * *"}'))
    .doc ->> 'next_at', '2999-01-01T00:00:00.000Z', 'it starts');
select is((pg_temp.put('{"start":null,"end":"2001-01-01T00:00:00Z"}')).doc
    ->> 'next_at', null, 'and ends');

-- What a slot is.
select t.schedule('tmpl', format('{"cron":"%s","zone":"Asia/Tokyo",
    "kind":"daily","work_key":"{schedule}:x{date}:{subject}:{time}:{slot}",
    "subjects":["a:b c","100%%","..","{date}","\"q\\"],"date_offset":-1,
    "payload":{"s":"<{subject}>","d":"{date} {time} {slot} {schedule}"}}',
    to_char((clock_timestamp() - interval '5 minutes')
        at time zone 'Asia/Tokyo', 'FMMI FMHH24 "* * *"')));
select t.behind('tmpl', '10 minutes');
select is((select slots from t.scan()), 5, 'a slot of five subjects fires');
create temp view slot as
select to_char(slot_at at time zone 'Asia/Tokyo' - interval '1 day',
        'YYYY-MM-DD') as d,
    to_char(slot_at at time zone 'Asia/Tokyo', 'HH24MI') as t,
    to_char(slot_at at time zone 'UTC', 'YYYYMMDD"T"HH24MISS"Z"') as z
from interlock.slots where schedule = 'tmpl' limit 1;
select results_eq(
    $$select work_key from interlock.jobs where source = 'schedule'
      order by work_key collate "C"$$,
    $$select format('tmpl:x%s:%s:%s:%s', d, s, t, z)
      from slot, unnest(array['"q\', '%2E%2E', '100%25', 'a%3Ab%20c',
                              '{date}']) s$$,
    'work keys by template, their parts encoded');
select results_eq(
    $$select convert_from(p.payload, 'UTF8')::json ->> 's',
          convert_from(p.payload, 'UTF8')::json ->> 'd'
      from interlock.payloads p join interlock.jobs j on j.id = p.job_id
      order by convert_from(p.payload, 'UTF8') collate "C"$$,
    $$select '<' || s || '>', format('%s %s %s tmpl', d, t, z)
      from slot, unnest(array['..', '100%', '"q\', 'a:b c', '{date}']) s$$,
    'payloads too, with what JSON wants escaped');
select results_eq(
    $$select distinct business_date::text, state, source, requested_by
      from interlock.slots s join interlock.jobs j on j.id = s.job_id$$,
    $$select d, 'admitted', 'schedule', 'schedule tmpl' from slot$$,
    'the business date is a day back, as the schedule says');
select is((select count(*) from t.scan()), 0::bigint, 'and not again');
select is((select count(*) from interlock.requests where idempotency_key
    = 'slot:tmpl:' || (select z from slot) || ':a:b c'), 1::bigint,
    'the request has the slot''s key');

-- What was missed, by each rule: ten days at one time, five minutes ago.
create function pg_temp.missed(p_more text) returns text
language plpgsql as $$
begin
    perform interlock.schedule_delete(t.demo(), 'm');
    perform t.clean();
    perform t.kind('free', '{"overlap":"allow"}');
    perform t.plan_slots('m', 'free', t.cron_ago('5 minutes'), 'a b',
                         p_more);
    perform t.behind('m', '10 days');
    perform t.scan();
    return t.slots('m') || (select '; ' || count(*)
        from interlock.jobs where source = 'schedule');
end
$$;

select is(pg_temp.missed(''),
    '2 admitted, 18 skipped (catch_up); 2', 'latest, by default');
select is(pg_temp.missed(',"catch_up":"skip"'),
    '20 skipped (catch_up); 0', 'skip');
select is(pg_temp.missed(',"catch_up":"all"'), '20 admitted; 20', 'all');
select is(pg_temp.missed(',"catch_up":"all","catch_up_max":3'),
    '6 admitted, 14 skipped (catch_up); 6', 'all, but not more than three');
select is(pg_temp.missed(',"catch_up":"all","catch_up_max":4,'
    '"approve_after":86400'),
    '2 admitted, 12 skipped (catch_up), 6 waiting (approval); 2',
    'what is older than a day waits for approval');
select is(pg_temp.missed(',"approve_after":60'),
    '18 skipped (catch_up), 2 waiting (approval); 0',
    'so does the newest, if that is too old');
select is(pg_temp.missed(format(',"catch_up":"all","start":"%s"',
    interlock.ts(clock_timestamp() - interval '60 hours'))),
    '6 admitted; 6', 'nothing before the start');
select is(pg_temp.missed(format(',"catch_up":"all","end":"%s"',
    interlock.ts(clock_timestamp() - interval '60 hours'))),
    '14 admitted; 14', 'nor after the end');
select is((select next_at from interlock.schedules), null,
    'after which it has no slot any more');
select is((select skips from interlock.schedules), 0,
    'what ran ends the count of the skipped');

-- A month of minutes.
create function pg_temp.minutes(p_more text) returns text
language plpgsql as $$
declare
    v_calls  int := 0;
    v_more   boolean := true;
begin
    perform t.clean();
    perform t.kind('free', '{"overlap":"allow"}');
    perform t.plan_slots('m', 'free', '* * * * *', 'a', p_more);
    perform t.behind('m', '30 days');
    while v_more loop
        v_more := coalesce((select s.more from t.scan(40) s), false);
        v_calls := v_calls + 1;
    end loop;
    return v_calls || ' calls: ' || regexp_replace(t.slots('m'),
        '4[0-9]{4} passed', 'x passed');
end
$$;

select is(pg_temp.minutes(''),
    '1 calls: 1 admitted, x passed (catch_up)', 'latest of a month');
select is((select sum(slots) between 43198 and 43202
           from interlock.schedule_skips), true, 'the others in one row');
select cmp_ok((select skips from interlock.schedules), '<', 2,
    'skipped, but then one ran');
select is(pg_temp.minutes(',"catch_up":"all"'),
    '3 calls: 101 admitted, x passed (catch_up)',
    'the newest hundred, and the one that is on time');
select is(pg_temp.minutes(',"catch_up":"skip"'),
    '1 calls: 1 admitted, x passed (catch_up)', 'only what is on time');
select is_empty('select * from t.violations',
    'each of the 43,200 is accounted for');

-- A slot that takes more than one call, in turn with another schedule.
select t.clean();
select t.kind('free', '{"overlap":"allow"}');
select t.plan_slots('many', 'free', t.cron_ago('5 minutes'),
    'a b c d e f g', ',"catch_up":"all"');
select t.plan_slots('other', 'free', t.cron_ago('3 minutes'), 'x');
select t.behind('many', '25 hours');
select t.behind('other', '20 minutes');
select results_eq('select * from t.scan(3)',
    $$values ('many', 3, 0, 0::bigint, true)$$, 'the first three');
select is((select slot_n || ' of ' || (slot_at = next_at)::text
    from interlock.schedules where name = 'many'), '3 of true',
    'it knows where it stopped');
select results_eq('select schedule, slots, more from t.scan(3)',
    $$values ('many', 2, true), ('other', 1, false)$$,
    'it lets the other schedule pass');
select results_eq('select schedule, slots, more from t.scan(9)',
    $$values ('many', 9, false)$$, 'the rest, and the next slot');
select is((select count(*) from t.scan(9)), 0::bigint, 'and no more');
select is((select count(*) || '/' || count(distinct (slot_at, subject))
    from interlock.slots where schedule = 'many'), '14/14',
    'each subject of both slots once');

-- A new definition half-way.
select t.clean();
select t.kind('free', '{"overlap":"allow"}');
select t.plan_slots('s', 'free', t.cron_ago('5 minutes'), 'a b c d');
select t.behind('s', '10 minutes');
select t.scan(3);
select t.schedule('s', format('{"cron":"%s"}', t.cron_ago('4 minutes')));
select is(t.slots('s'), '3 admitted, 1 passed (changed)',
    'what was not admitted of the old one is not any more');
select is((select count(*) from t.scan()), 0::bigint,
    'and nothing of before is caught up by the new one');
select is_empty('select * from t.violations', 'all is accounted for');
select t.behind('s', '26 hours');
select t.schedule('s', '{"grace":5}');
select is(t.slots('s'), '3 admitted, 1 passed (changed), 8 skipped (changed)',
    'what was due but not scanned is skipped by the change');
select is((select count(*) from t.scan()), 0::bigint, 'for good');

-- Deleted, and there again.
select t.behind('s', '30 hours');
select is((select problem from interlock.schedule_delete(t.demo(), 's')),
    null, 'deleted');
select is((select count(*) from t.scan()), 0::bigint, 'nothing fires');
select is((select doc from interlock.schedule_get(t.demo(), 's')), null,
    'it is not shown');
select is((select problem from interlock.schedule_delete(t.demo(), 's')),
    'not-found', 'nor deleted twice');
select is((select count(*) from interlock.schedule_list(t.demo())),
    0::bigint, 'nor listed');
select t.plan_slots('s', 'free', t.cron_ago('5 minutes'), 'z');
select results_eq(
    $$select doc::json ->> 'version', doc::json ->> 'grace',
          doc::json ->> 'subjects'
      from interlock.schedule_get(t.demo(), 's')$$,
    $$values ('4', '3600', '["z"]')$$, 'a new one of that name goes on');
select is((select count(*) from t.scan()), 0::bigint,
    'and fires nothing of the old times');

-- Pause.
create function pg_temp.pause(p_on boolean, p_by text default 'me',
    p_call bigint default null) returns text language sql as $$
    select coalesce(p.problem || ': ' || p.detail, concat_ws(' ',
        p.doc::json ->> 'paused', p.doc::json ->> 'pause_note'))
    from interlock.schedule_pause(t.demo(), 's', p_by, 'a move', 1, 'op',
        t.rid(p_call)) p where p_on
    union all
    select coalesce(p.problem || ': ' || p.detail, concat_ws(' ',
        p.doc::json ->> 'paused', p.doc::json ->> 'pause_note'))
    from interlock.schedule_resume(t.demo(), 's', p_by, 'moved', 1, 'op',
        t.rid(p_call)) p where not p_on
$$;
select is(pg_temp.pause(true, ''), 'field-invalid: "requested_by" is '
    'missing: who decides so', 'not by nobody');
select is(pg_temp.pause(true, p_call => 4), 'true a move', 'paused');
select is(pg_temp.pause(true, p_call => 4), 'true a move', 'once');
select t.behind('s', '50 hours');
select is((select skipped from t.scan()), 3::bigint,
    'what comes up is passed over');
select is((select slots || ' ' || reason from interlock.schedule_skips
    where reason = 'paused'), '3 paused', 'in one row');
select is(pg_temp.pause(false), 'false', 'resumed');
select is((select count(*) from t.scan()), 0::bigint,
    'nothing of the pause is caught up');
select is((select string_agg(what, ' ' order by id) from interlock.actions
    where target = 's'), 'schedule_pause schedule_resume',
    'who, and why, is kept');
select is((select skips from interlock.schedules where name = 's'), 3,
    'three were skipped in a row');
select is((select value from interlock.stats()
    where name = 'schedule_skips_in_row'), 3::float8, 'as the gauge says');

-- No room.
select t.clean();
select t.kind('tight', '{"overlap":"skip","max_queued":2}');
select t.plan_slots('s', 'tight', t.cron_ago('5 minutes'), 'a b c');
select t.behind('s', '10 minutes');
select results_eq('select slots, waiting, more from t.scan()',
    $$values (3, 1, false)$$, 'the third has no room, and waits');
select is(t.slots('s'), '2 admitted, 1 waiting (queue-full)', 'so it says');
select ok((select l.try_at > clock_timestamp() and x.tries = 1
    from interlock.slots x join interlock.slot_lines l using (tenant,
        schedule, lane)
    where x.state = 'waiting'), 'until it is tried again');
select is((select count(*) from t.scan()), 0::bigint, 'not before');
select t.now_due('s');
select is((select waiting from t.scan()), 1, 'in vain');
select is((select tries from interlock.slots where state = 'waiting'), 2,
    'it counts');
select t.take('w', 'tight');
select t.now_due('s');
select results_eq('select slots, waiting from t.scan()', 'values (1, 0)',
    'once there is room it runs');
select is(t.slots('s'), '3 admitted', 'and is not forgotten');

select t.plan_slots('u', 'tight', t.cron_ago('5 minutes'), 'a b');
select t.behind('u', '10 minutes');
select t.scan();
select is(t.slots('u'), '2 waiting (queue-full)', 'again no room');
select t.schedule('u', '{"grace":1}');
select t.now_due('u');
select t.take('w2', 'tight');
select t.scan();
select is(t.slots('u'), '2 skipped (changed)',
    'what waits of an old definition never fires');
select is_empty('select * from t.violations', 'all is accounted for');

-- Work that is there already.
select t.clean();
select t.kind('daily', '{"overlap":"skip","when_completed":"return"}');
select t.kind('once', '{"overlap":"skip"}');
select t.schedule('d', format('{"cron":"%s","zone":"UTC","kind":"daily",
    "work_key":"d:{subject}:{date}","subjects":["a","b","c"]}',
    t.cron_ago('5 minutes')));
set local timezone = 'UTC';
select t.submit('daily', 'd:' || x || ':' || to_char(clock_timestamp()
    - interval '5 minutes', 'YYYY-MM-DD'), 'click')
from unnest(array['a', 'b']) x;
select t.take('w', 'daily');
select t.finish('w', 'complete', '{}');
select t.behind('d', '10 minutes');
select t.scan();
select is((select string_agg(state, ' ') from interlock.slots
    where schedule = 'd'), 'admitted admitted admitted',
    'a job that somebody else asked for is the slot''s, for it is the same '
    'work');
select is((select count(*) from interlock.jobs where source = 'schedule'),
    1::bigint, 'only the third made a job');

select t.schedule('o', format('{"cron":"%s","zone":"UTC","kind":"once",
    "work_key":"refresh","catch_up":"all"}', t.cron_ago('5 minutes')));
select t.behind('o', '50 hours');
select t.scan();
select is(t.slots('o'), '1 admitted, 2 skipped (work_active)',
    'with one work key for all slots, those that find it active are skipped');
select is((select skips from interlock.schedules where name = 'o'), 2,
    'two in a row');

-- A schedule that cannot be followed does not stop the others.
select t.plan_slots('bad', 'once', t.cron_ago('6 minutes'), 'a');
select t.plan_slots('good', 'once', t.cron_ago('5 minutes'), 'a');
select t.behind('bad', '10 minutes');
select t.behind('good', '10 minutes');
set local session_replication_role = replica;
update interlock.schedule_versions set zone = 'Mars/Olympus'
where name = 'bad';
set local session_replication_role = origin;
select results_eq('select schedule, slots from t.scan()',
    $$values ('good', 1)$$, 'an error leaves one schedule alone');
select matches((select doc::json ->> 'trouble' from interlock.schedule_get(
    t.demo(), 'bad')), '22023 time zone "Mars/Olympus" not recognized',
    'and shows');
set local session_replication_role = replica;
update interlock.schedule_versions set zone = 'UTC' where name = 'bad';
set local session_replication_role = origin;
select is((select count(*) from t.scan()), 0::bigint, 'for a minute');
update interlock.schedules set hold_until = clock_timestamp()
where name = 'bad';
select is((select schedule from t.scan()), 'bad', 'then it is tried again');
select is((select trouble from interlock.schedules where name = 'bad'), null,
    'and all is well');

-- Jitter.
select t.plan_slots('j', 'once', t.cron_ago('5 minutes'), (
    select string_agg('s' || x, ' ') from generate_series(1, 40) x),
    ',"jitter":86400,"priority":7');
select t.behind('j', '10 minutes');
select t.scan();
select ok((select min(run_at) >= (select min(slot_at) from interlock.slots
        where schedule = 'j') and max(run_at) <= (
        select min(slot_at) from interlock.slots where schedule = 'j')
        + interval '86400 s' and count(distinct run_at) > 30
        and count(*) filter (where place = 'delayed') > 30
    from interlock.jobs where work_key like 'j:%'),
    'jitter spreads the subjects');
select is((select distinct priority from interlock.jobs
    where work_key like 'j:%'), 7, 'priority is theirs');
select ok((select interlock.slot_jitter(v, s.slot_at, s.subject)
        = interlock.slot_jitter(v, s.slot_at, s.subject)
    from interlock.schedule_versions v, interlock.slots s
    where v.name = 'j' and s.schedule = 'j' limit 1), 'always the same way');

-- 100,000 subjects.
select t.kind('free', '{"overlap":"allow","max_queued":1000000}');
select is((pg_temp.put(format('{"cron":"%s","zone":"UTC","kind":"free",
    "work_key":"b:{subject}:{slot}","subjects":%s}', t.cron_ago('5 minutes'),
    (select json_agg('customer-' || x) from generate_series(1, 100000) x)),
    'big')).doc ->> 'subject_count', '100000', '100,000 subjects');
select is((select length(doc) < 1000 from interlock.schedule_get(t.demo(),
    'big')), true, 'are shown as a number');
select t.behind('big', '10 minutes');
select results_eq($$select slots, more from t.scan(100)
        where schedule = 'big'$$, $$values (100, true)$$,
    'and fire some at a time');
select t.plan_slots('small', 'once', t.cron_ago('2 minutes'), 'a');
select t.behind('small', '3 minutes');
select is((select slots from t.scan(100) where schedule = 'small'), 1,
    'which lets others pass');
select is((pg_temp.put('{"grace":1}', 'big')).doc ->> 'version', '2',
    'a change');
select is((select subjects from interlock.schedule_skips
    where schedule = 'big'), 99801, 'tells how many did not');
select is((select count(*) from interlock.schedule_subjects
    where name = 'big'), 100000::bigint, 'and copies no list');

select is_empty('select * from t.violations', 'all is accounted for');

select * from finish();
rollback;
