-- overlaps.sql: every overlap against every state of the active job, and what
-- explain said just before.  (decisions.sql has allow, skip and buffer_one
-- under both values of when_completed.)
--
-- active        what became of the first request (payload A)
--     -         there was none
--     queued    waits for a worker        delayed   failed, waits for a retry
--     running   is run by a worker        lost      was, and is queued again
--     cancel    runs, asked to end        replaced  runs, revoked by payload B
--     wait      runs, payload B waits     cancel+w  asked to end, B waits
--     full      runs, B and C wait (max_waiting is 2)
--     parked    as full, and payload D is parked
--     succeeded, failed, canceled, superseded, expired: it is over
-- payload       of this request
-- decision, code, reason, answers with (new job, or the first or waiting
-- one), place of the new job, what it supersedes, and what the first one is
-- after it ("ending": it runs, but may complete nothing any more)

begin;
set local search_path = tap, t, pg_catalog;

create temp table tab (n int generated always as identity, overlap text,
    active text, payload text, decision text, code text, reason text,
    job text, place text, supersedes text, after text);

copy tab (overlap, active, payload, decision, code, reason, job, place,
    supersedes, after) from stdin with (delimiter '|');
allow        | cancel     | A | accepted | 202 | -               | new   | ready   | -     | ending
allow        | cancel     | B | accepted | 202 | -               | new   | ready   | -     | ending
allow        | canceled   | A | accepted | 202 | -               | new   | ready   | -     | canceled
allow        | expired    | A | accepted | 202 | -               | new   | ready   | -     | expired
skip         | cancel     | A | buffered | 202 | active_ending   | new   | blocked | -     | ending
skip         | cancel     | B | buffered | 202 | active_ending   | new   | blocked | -     | ending
skip         | cancel+w   | B | skipped  | 200 | work_active     | wait  | -       | -     | ending
skip         | canceled   | A | accepted | 202 | -               | new   | ready   | -     | canceled
skip         | expired    | B | accepted | 202 | -               | new   | ready   | -     | expired
buffer_one   | cancel     | A | buffered | 202 | -               | new   | blocked | -     | ending
buffer_one   | cancel     | B | buffered | 202 | -               | new   | blocked | -     | ending
buffer_one   | cancel+w   | C | buffered | 202 | -               | new   | blocked | wait  | ending
buffer_one   | canceled   | A | accepted | 202 | -               | new   | ready   | -     | canceled
buffer_one   | expired    | B | accepted | 202 | -               | new   | ready   | -     | expired
buffer_first | -          | A | accepted | 202 | -               | new   | ready   | -     | -
buffer_first | queued     | A | buffered | 202 | -               | new   | blocked | -     | queued
buffer_first | queued     | B | buffered | 202 | -               | new   | blocked | -     | queued
buffer_first | delayed    | A | buffered | 202 | -               | new   | blocked | -     | queued
buffer_first | running    | A | buffered | 202 | -               | new   | blocked | -     | running
buffer_first | running    | B | buffered | 202 | -               | new   | blocked | -     | running
buffer_first | lost       | B | buffered | 202 | -               | new   | blocked | -     | queued
buffer_first | wait       | A | skipped  | 200 | already_waiting | wait  | -       | -     | running
buffer_first | wait       | B | skipped  | 200 | already_waiting | wait  | -       | -     | running
buffer_first | wait       | C | skipped  | 200 | already_waiting | wait  | -       | -     | running
buffer_first | cancel     | A | buffered | 202 | active_ending   | new   | blocked | -     | ending
buffer_first | cancel     | B | buffered | 202 | active_ending   | new   | blocked | -     | ending
buffer_first | cancel+w   | C | skipped  | 200 | already_waiting | wait  | -       | -     | ending
buffer_first | succeeded  | A | accepted | 202 | -               | new   | ready   | -     | succeeded
buffer_first | failed     | A | accepted | 202 | -               | new   | ready   | -     | failed
buffer_first | canceled   | A | accepted | 202 | -               | new   | ready   | -     | canceled
buffer_first | expired    | A | accepted | 202 | -               | new   | ready   | -     | expired
buffer_all   | -          | A | accepted | 202 | -               | new   | ready   | -     | -
buffer_all   | queued     | A | buffered | 202 | -               | new   | blocked | -     | queued
buffer_all   | queued     | B | buffered | 202 | -               | new   | blocked | -     | queued
buffer_all   | delayed    | B | buffered | 202 | -               | new   | blocked | -     | queued
buffer_all   | running    | A | buffered | 202 | -               | new   | blocked | -     | running
buffer_all   | running    | B | buffered | 202 | -               | new   | blocked | -     | running
buffer_all   | lost       | A | buffered | 202 | -               | new   | blocked | -     | queued
buffer_all   | wait       | B | buffered | 202 | -               | new   | blocked | -     | running
buffer_all   | wait       | C | buffered | 202 | -               | new   | blocked | -     | running
buffer_all   | full       | A | rejected | 429 | key_full        | none  | -       | -     | running
buffer_all   | full       | E | rejected | 429 | key_full        | none  | -       | -     | running
buffer_all   | cancel     | A | buffered | 202 | -               | new   | blocked | -     | ending
buffer_all   | cancel+w   | C | buffered | 202 | -               | new   | blocked | -     | ending
buffer_all   | succeeded  | A | accepted | 202 | -               | new   | ready   | -     | succeeded
buffer_all   | failed     | A | accepted | 202 | -               | new   | ready   | -     | failed
buffer_all   | canceled   | A | accepted | 202 | -               | new   | ready   | -     | canceled
buffer_all   | expired    | A | accepted | 202 | -               | new   | ready   | -     | expired
and park     | wait       | C | buffered | 202 | -               | new   | blocked | -     | running
and park     | full       | A | parked   | 202 | key_full        | new   | -       | -     | running
and park     | full       | E | parked   | 202 | key_full        | new   | -       | -     | running
and park     | parked     | E | parked   | 202 | key_full        | new   | -       | -     | running
replace      | -          | A | accepted | 202 | -               | new   | ready   | -     | -
replace      | queued     | A | replaced | 202 | -               | new   | ready   | first | superseded
replace      | queued     | B | replaced | 202 | -               | new   | ready   | first | superseded
replace      | delayed    | A | replaced | 202 | -               | new   | ready   | first | superseded
replace      | delayed    | B | replaced | 202 | -               | new   | ready   | first | superseded
replace      | running    | A | replaced | 202 | -               | new   | blocked | -     | ending
replace      | running    | B | replaced | 202 | -               | new   | blocked | -     | ending
replace      | lost       | B | replaced | 202 | -               | new   | ready   | first | superseded
replace      | replaced   | A | replaced | 202 | -               | new   | blocked | wait  | ending
replace      | replaced   | B | replaced | 202 | -               | new   | blocked | wait  | ending
replace      | replaced   | C | replaced | 202 | -               | new   | blocked | wait  | ending
replace      | cancel     | A | replaced | 202 | -               | new   | blocked | -     | ending
replace      | cancel     | B | replaced | 202 | -               | new   | blocked | -     | ending
replace      | cancel+w   | C | replaced | 202 | -               | new   | blocked | wait  | ending
replace      | succeeded  | A | accepted | 202 | -               | new   | ready   | -     | succeeded
replace      | failed     | A | accepted | 202 | -               | new   | ready   | -     | failed
replace      | canceled   | A | accepted | 202 | -               | new   | ready   | -     | canceled
replace      | superseded | C | accepted | 202 | -               | new   | ready   | -     | superseded
replace      | expired    | A | accepted | 202 | -               | new   | ready   | -     | expired
\.

update tab set overlap = trim(overlap), active = trim(active),
    payload = trim(payload), decision = trim(decision), code = trim(code),
    reason = trim(reason), job = trim(job), place = trim(place),
    supersedes = trim(supersedes), after = trim(after);

create function pg_temp.row_of_table(r tab) returns text
language plpgsql as $$
declare
    v_tenant int := interlock.tenant_create('demo');
    v_kind   text := format('o%s', r.n);
    v_key    text := format('o:%s', r.n);
    v_first  uuid;
    v_wait   uuid;
    v_jobs   bigint;
    a        record;
    e        json;
    v_place  text;
    v_after  text;
begin
    perform t.kind(v_kind, json_build_object('overlap',
        case r.overlap when 'and park' then 'buffer_all' else r.overlap end,
        'overflow', case r.overlap when 'and park' then 'park'
            else 'reject' end,
        'max_waiting', 2)::text);

    if r.active <> '-' then
        select job_id into v_first from t.submit(v_kind, v_key, 'A');
    end if;
    if r.active not in ('-', 'queued', 'expired', 'canceled') then
        perform t.take('w', v_kind);
    end if;

    if r.active in ('wait', 'full', 'parked', 'replaced', 'superseded') then
        select job_id into v_wait from t.submit(v_kind, v_key, 'B');
    end if;
    if r.active in ('full', 'parked') then
        perform t.submit(v_kind, v_key, 'C');
    end if;

    case r.active
    when 'delayed' then perform t.finish('w', 'fail', p_retry_after => 60);
    when 'failed' then perform t.finish('w', 'fail', p_retryable => false);
    when 'succeeded' then perform t.finish('w', 'complete');
    when 'lost' then
        perform t.expire('w');
        perform interlock.recover(10);
    when 'cancel', 'canceled', 'cancel+w' then
        perform interlock.job_cancel(v_tenant, v_first, 'me', 'why', 1, 't');
    when 'parked' then
        perform t.submit(v_kind, v_key, 'D');
    when 'superseded' then
        -- the replaced one yields, its successor completes
        perform t.finish('w', 'release');
        perform t.take('w', v_kind);
        perform t.finish('w', 'complete');
    when 'expired' then
        update interlock.jobs set expire_at = clock_timestamp()
        where id = v_first;
        perform interlock.expire(10);
    else null;
    end case;
    if r.active = 'cancel+w' then
        select job_id into v_wait from t.submit(v_kind, v_key, 'B');
    end if;

    select count(*) into v_jobs from interlock.jobs;
    select doc::json into e from interlock.explain(v_tenant, v_kind,
        json_build_object('work_key', v_key, 'payload', 1)::text);
    select * into a from t.submit(v_kind, v_key, r.payload);

    select coalesce(j.place, '-') into v_place from interlock.jobs j
    where j.id = a.job_id;
    select coalesce(case when j.status = 'running' and j.ending then 'ending'
        end, j.status) into v_after
    from interlock.jobs j where j.id = v_first;

    return concat_ws(' | ', a.decision, a.code, coalesce(a.reason, '-'),
        case when a.job_id is null then 'none'
            when a.job_id = v_first then 'first'
            when a.job_id = v_wait then 'wait' else 'new' end,
        case when a.job_id in (v_first, v_wait) then '-'
            else coalesce(v_place, '-') end,
        case a.superseded_job_id when v_wait then 'wait'
            when v_first then 'first' else '-' end,
        coalesce(v_after, '-'),
        case when a.active_job_id is distinct from case
                when r.active in ('queued', 'delayed', 'running', 'lost',
                    'wait', 'full', 'parked', 'cancel', 'cancel+w',
                    'replaced') then v_first end
            then 'wrong active_job_id' end,
        case when (e ->> 'decision', e ->> 'code', e ->> 'reason',
                   e ->> 'superseded_job_id')
            is distinct from (a.decision, a.code::text, a.reason,
                              a.superseded_job_id::text)
            then 'explain says ' || e end,
        case when (select count(*) from interlock.jobs) - v_jobs
                <> (a.code = 202)::int then 'wrong number of jobs' end,
        case when (select count(*) from interlock.requests q
                   where q.id = a.job_id or a.code <> 202) = 0
            then 'no request' end);
end
$$;

select * from no_plan();

select is(pg_temp.row_of_table(x),
    concat_ws(' | ', x.decision, x.code, x.reason, x.job, x.place,
              x.supersedes, x.after),
    concat_ws(' ', x.overlap, 'after', x.active, 'payload', x.payload))
from tab x order by x.n;

select is_empty('select * from t.violations', 'nothing is violated');
select is((select sum(n)::int from (select count(*) as n
        from interlock.requests group by decision) x),
    (select count(*)::int from interlock.requests),
    'decisions add up to the requests');

-- Under return, with the active job's payload: the same work, in every state
-- but where the active one is to end.
create temp table ret (overlap text, active text, decision text, reason text);
insert into ret
select o, x.active, x.decision, x.reason
from unnest(array['buffer_first', 'buffer_all', 'replace']) o,
    (values ('queued', 'skipped', 'same_work'),
            ('running', 'skipped', 'same_work'),
            ('cancel', null, null),
            ('succeeded', 'completed', null)) x (active, decision, reason);
update ret set decision = case overlap when 'replace' then 'replaced'
    else 'buffered' end, reason = case overlap when 'buffer_first'
    then 'active_ending' end
where active = 'cancel';

create function pg_temp.ret_row(r ret) returns text language plpgsql as $$
declare
    v_kind  text := 'r-' || replace(r.overlap, '_', '-') || r.active;
    v_job   uuid;
    a       record;
begin
    perform t.kind(v_kind, json_build_object('overlap', r.overlap,
        'when_completed', 'return')::text);
    select job_id into v_job from t.submit(v_kind, v_kind, 'A');
    if r.active <> 'queued' then
        perform t.take('w', v_kind);
    end if;
    if r.active = 'cancel' then
        perform interlock.job_cancel(t.demo(), v_job, 'me', 'why', 1, 't');
    elsif r.active = 'succeeded' then
        perform t.finish('w', 'complete');
    end if;
    select * into a from t.submit(v_kind, v_kind, 'A');
    return concat_ws(' ', a.decision, coalesce(a.reason, '-'),
        case when a.code = 200 and a.job_id <> v_job then 'other job' end);
end
$$;

select is(pg_temp.ret_row(r), r.decision || ' ' || coalesce(r.reason, '-'),
    concat_ws(' ', r.overlap, 'return after', r.active))
from ret r;

select is_empty('select * from t.violations', 'nothing is violated');

select * from finish();
rollback;
