-- decisions.sql: what becomes of a second request for one work key.
--
-- overlap, completed   the kind's overlap and when_completed
-- first                what became of the first request (payload A, and so on)
--     -             there was none
--     queued        waits for a worker
--     delayed       failed once, waits for its next try
--     running       is run by a worker
--     lost          its worker's lease ended and was recovered: queued again
--     run+wait      is run, and a request with payload B came since
--     succeeded, failed
--     expired-ttl   succeeded, but longer ago than result_ttl
-- payload              of this request
-- fresh                asked for?
-- decision, code, reason, answers with (new job, or the job of the first or
-- of the waiting request), the new job's place, what it supersedes

begin;
set local search_path = tap, t, pg_catalog;

create temp table tab (n int generated always as identity, overlap text,
    completed text, first text, payload text, fresh text, decision text,
    code text, reason text, job text, place text, supersedes text);

copy tab (overlap, completed, first, payload, fresh, decision, code, reason,
    job, place, supersedes) from stdin with (delimiter '|');
allow      | run    | -           | A | no  | accepted  | 202 | -           | new   | ready   | -
allow      | run    | queued      | A | no  | accepted  | 202 | -           | new   | ready   | -
allow      | run    | delayed     | A | no  | accepted  | 202 | -           | new   | ready   | -
allow      | run    | running     | A | no  | accepted  | 202 | -           | new   | ready   | -
allow      | run    | running     | B | no  | accepted  | 202 | -           | new   | ready   | -
allow      | run    | lost        | A | no  | accepted  | 202 | -           | new   | ready   | -
allow      | run    | succeeded   | A | no  | accepted  | 202 | -           | new   | ready   | -
allow      | run    | failed      | A | no  | accepted  | 202 | -           | new   | ready   | -
allow      | return | queued      | A | no  | skipped   | 200 | same_work   | first | -       | -
allow      | return | queued      | B | no  | accepted  | 202 | -           | new   | ready   | -
allow      | return | running     | A | no  | skipped   | 200 | same_work   | first | -       | -
allow      | return | running     | A | yes | accepted  | 202 | -           | new   | ready   | -
allow      | return | running     | B | no  | accepted  | 202 | -           | new   | ready   | -
allow      | return | succeeded   | A | no  | completed | 200 | -           | first | -       | -
allow      | return | succeeded   | A | yes | accepted  | 202 | -           | new   | ready   | -
allow      | return | expired-ttl | A | no  | accepted  | 202 | -           | new   | ready   | -
skip       | run    | -           | A | no  | accepted  | 202 | -           | new   | ready   | -
skip       | run    | queued      | A | no  | skipped   | 200 | work_active | first | -       | -
skip       | run    | queued      | B | no  | skipped   | 200 | work_active | first | -       | -
skip       | run    | delayed     | A | no  | skipped   | 200 | work_active | first | -       | -
skip       | run    | delayed     | B | no  | skipped   | 200 | work_active | first | -       | -
skip       | run    | running     | A | no  | skipped   | 200 | work_active | first | -       | -
skip       | run    | running     | B | no  | skipped   | 200 | work_active | first | -       | -
skip       | run    | running     | A | yes | skipped   | 200 | work_active | first | -       | -
skip       | run    | lost        | A | no  | skipped   | 200 | work_active | first | -       | -
skip       | run    | succeeded   | A | no  | accepted  | 202 | -           | new   | ready   | -
skip       | run    | succeeded   | B | no  | accepted  | 202 | -           | new   | ready   | -
skip       | run    | failed      | A | no  | accepted  | 202 | -           | new   | ready   | -
skip       | return | queued      | A | no  | skipped   | 200 | same_work   | first | -       | -
skip       | return | queued      | B | no  | skipped   | 200 | work_active | first | -       | -
skip       | return | running     | A | no  | skipped   | 200 | same_work   | first | -       | -
skip       | return | running     | B | no  | skipped   | 200 | work_active | first | -       | -
skip       | return | running     | A | yes | skipped   | 200 | work_active | first | -       | -
skip       | return | succeeded   | A | no  | completed | 200 | -           | first | -       | -
skip       | return | succeeded   | B | no  | completed | 200 | -           | first | -       | -
skip       | return | succeeded   | A | yes | accepted  | 202 | -           | new   | ready   | -
skip       | return | failed      | A | no  | accepted  | 202 | -           | new   | ready   | -
skip       | return | expired-ttl | A | no  | accepted  | 202 | -           | new   | ready   | -
buffer_one | run    | -           | A | no  | accepted  | 202 | -           | new   | ready   | -
buffer_one | run    | queued      | A | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | run    | queued      | B | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | run    | delayed     | A | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | run    | delayed     | B | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | run    | running     | A | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | run    | running     | B | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | run    | lost        | B | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | run    | run+wait    | A | no  | buffered  | 202 | -           | new   | blocked | wait
buffer_one | run    | run+wait    | B | no  | buffered  | 202 | -           | new   | blocked | wait
buffer_one | run    | run+wait    | C | no  | buffered  | 202 | -           | new   | blocked | wait
buffer_one | run    | succeeded   | A | no  | accepted  | 202 | -           | new   | ready   | -
buffer_one | run    | failed      | A | no  | accepted  | 202 | -           | new   | ready   | -
buffer_one | return | queued      | A | no  | skipped   | 200 | same_work   | first | -       | -
buffer_one | return | queued      | B | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | return | delayed     | A | no  | skipped   | 200 | same_work   | first | -       | -
buffer_one | return | delayed     | B | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | return | running     | A | no  | skipped   | 200 | same_work   | first | -       | -
buffer_one | return | running     | A | yes | buffered  | 202 | -           | new   | blocked | -
buffer_one | return | running     | B | no  | buffered  | 202 | -           | new   | blocked | -
buffer_one | return | lost        | A | no  | skipped   | 200 | same_work   | first | -       | -
buffer_one | return | run+wait    | A | no  | buffered  | 202 | -           | new   | blocked | wait
buffer_one | return | run+wait    | B | no  | skipped   | 200 | same_work   | wait  | -       | -
buffer_one | return | run+wait    | B | yes | buffered  | 202 | -           | new   | blocked | wait
buffer_one | return | run+wait    | C | no  | buffered  | 202 | -           | new   | blocked | wait
buffer_one | return | succeeded   | A | no  | completed | 200 | -           | first | -       | -
buffer_one | return | succeeded   | B | no  | completed | 200 | -           | first | -       | -
buffer_one | return | succeeded   | A | yes | accepted  | 202 | -           | new   | ready   | -
buffer_one | return | succeeded   | B | yes | accepted  | 202 | -           | new   | ready   | -
buffer_one | return | failed      | A | no  | accepted  | 202 | -           | new   | ready   | -
buffer_one | return | expired-ttl | A | no  | accepted  | 202 | -           | new   | ready   | -
\.

update tab set overlap = trim(overlap), completed = trim(completed),
    first = trim(first), payload = trim(payload), fresh = trim(fresh),
    decision = trim(decision), code = trim(code), reason = trim(reason),
    job = trim(job), place = trim(place), supersedes = trim(supersedes);

create function pg_temp.row_of_table(r tab) returns text
language plpgsql as $$
declare
    v_kind  text := format('d%s', r.n);
    v_key   text := format('d:%s', r.n);
    v_first uuid;
    v_wait  uuid;
    a       interlock.submit_answer;
    v_place text;
begin
    perform t.kind(v_kind, json_build_object('overlap', r.overlap,
        'when_completed', r.completed, 'allow_fresh', true,
        'result_ttl', case when r.first = 'expired-ttl' then 0 end)::text);

    if r.first <> '-' then
        select job_id into v_first from t.submit(v_kind, v_key, 'A');
    end if;
    if r.first not in ('-', 'queued') then
        perform t.take('w', v_kind);
    end if;

    case r.first
    when 'delayed' then perform t.finish('w', 'fail', p_retry_after => 60);
    when 'failed' then perform t.finish('w', 'fail', p_retryable => false);
    when 'succeeded', 'expired-ttl' then perform t.finish('w', 'complete');
    when 'lost' then
        perform t.expire('w');
        perform interlock.recover(10);
    when 'run+wait' then
        select job_id into v_wait from t.submit(v_kind, v_key, 'B');
    else null;
    end case;

    select * into a from t.submit(v_kind, v_key, r.payload,
        fresh => r.fresh = 'yes');

    select coalesce(j.place, '-') into v_place from interlock.jobs j
    where j.id = a.job_id;

    return concat_ws(' | ', a.decision, a.code, coalesce(a.reason, '-'),
        case a.job_id when v_first then 'first' when v_wait then 'wait'
            else 'new' end,
        case when a.job_id in (v_first, v_wait) then '-' else v_place end,
        case a.superseded_job_id when v_wait then 'wait' else '-' end,
        case when a.active_job_id is distinct from case
                when r.first in ('queued', 'delayed', 'running', 'lost',
                                 'run+wait') then v_first end
            then 'wrong active_job_id' end);
end
$$;

select * from no_plan();

select is(pg_temp.row_of_table(x),
    concat_ws(' | ', x.decision, x.code, x.reason, x.job, x.place,
              x.supersedes),
    concat_ws(' ', x.overlap, x.completed, 'after', x.first,
              'payload', x.payload, case x.fresh when 'yes' then 'fresh' end))
from tab x order by x.n;

select is_empty('select * from t.violations', 'nothing is violated');

select * from finish();
rollback;
