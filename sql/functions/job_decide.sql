-- job_decide(…): who: interlockd, POST /v1/jobs/{id}/decide.
-- What a person decides about a job that cannot go on, or did not, by itself:
--   retry    held, checking, failed: queued again, the same job, with the
--            attempts and the time of its policy anew (attempts go on
--            counting, its next fence is higher).  A failed one whose key is
--            busy joins the end of its line under buffer_all.
--   succeed  held, checking, failed: succeeded, with a revision whose result
--            is null and whose fence is that of the job's last attempt: it
--            stands only if nothing of a later fence does (job_succeed), and
--            what runs now publishes over it
--   fail     held, checking, parked: failed, for that reason
--   release  held, checking: queued again without counting its last attempt;
--            parked: let into its line now, before the others that are parked
-- assignee (may be null) is who looks after the job from now on.  p_call: see
-- action_made.
-- Locks: the work (FOR NO KEY UPDATE), limit groups that got room.
-- Answers: one row; problem null and doc the job as it is now; the kinds of
-- which jobs may start now or soon; the jobs that ended.
-- Refuses: not-found; field-invalid (no such action; requested_by or reason
-- missing); decision-not-possible (409: detail names the status and what is
-- possible); work-active (409: retry of a failed job whose key is busy, or
-- whose line is full).
create or replace function interlock.job_decide(
    p_tenant int, p_job uuid, p_action text, p_assignee text,
    p_requested_by text, p_reason text, p_token_id bigint,
    p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text, wake_kinds text[],
    ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_now       timestamptz;
    v_can       text[];
    v_problem   text;
    v_detail    text;
    v_ended     uuid[];
    v_runnable  boolean;
    v_groups    text[];
    j           interlock.jobs;
    v_was       text;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_detail := interlock.who_trouble(p_requested_by, p_reason);
    if v_detail is null
        and coalesce(p_action not in ('retry', 'succeed', 'fail', 'release'),
                     true)
    then
        v_detail := '"action" must be one of retry, succeed, fail, release';
    end if;
    if v_detail is not null then
        return query select 'field-invalid', v_detail, null::text,
            '{}'::text[], '{}'::uuid[];
        return;
    end if;

    perform from interlock.works w
    where w.tenant = p_tenant and w.work_key = (
        select x.work_key from interlock.jobs x
        where x.tenant = p_tenant and x.id = p_job)
    for no key update;

    v_now := clock_timestamp();
    select * into j from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_job;
    if not found then
        return query select 'not-found', 'no such job', null::text,
            '{}'::text[], '{}'::uuid[];
        return;
    end if;

    if interlock.action_made(p_tenant, p_call) then
        return query select null::text, null::text,
            interlock.job_doc(j, null, null), array[j.kind],
            case when j.finished_at is null then '{}'::uuid[]
            else array[j.id] end;
        return;
    end if;

    v_was := j.status;
    v_can := case
        when j.status in ('held', 'checking')
        then array['retry', 'succeed', 'fail', 'release']
        when j.status = 'failed' then array['retry', 'succeed']
        when j.status = 'parked' then array['fail', 'release']
        else '{}' end;

    if p_action <> all (v_can) then
        return query select 'decision-not-possible', format(
            'the job is %s; %s', j.status, case when v_can = '{}'
                then 'no decision about it is possible'
                else 'possible: ' || array_to_string(v_can, ', ') end),
            interlock.job_doc(j, null, null), '{}'::text[], '{}'::uuid[];
        return;
    end if;

    select x.problem, x.detail, x.ended, x.runnable, x.groups
    into v_problem, v_detail, v_ended, v_runnable, v_groups
    from interlock.job_decided(j, p_action, format('failed by %s: %s',
        p_requested_by, p_reason), v_now) x;

    if v_problem is not null then
        return query select v_problem, v_detail,
            interlock.job_doc(j, null, null), '{}'::text[], '{}'::uuid[];
        return;
    end if;

    update interlock.jobs x
    set assignee = coalesce(nullif(p_assignee, ''), x.assignee)
    where x.tenant = p_tenant and x.id = p_job
    returning * into strict j;

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, call_id, detail, work_key)
    values (p_tenant, 'job_decide', p_job::text, p_token_id, p_token_name,
        p_requested_by, p_reason, p_call, json_build_object(
            'action', p_action,
            'was', v_was, 'status', j.status,
            'assignee', nullif(p_assignee, '')), j.work_key);

    return query select null::text, null::text,
        interlock.job_doc(j, null, null),
        interlock.groups_wake(p_tenant, v_groups,
            case when v_runnable then array[j.kind] else '{}' end),
        v_ended;
end
$$;

-- job_decided(j, action, error, now): does what job_decide has found
-- possible; error is what a failed job shows.  The caller holds the work.
-- Answers as key_advance does, or a problem.
create or replace function interlock.job_decided(
    j interlock.jobs, p_action text, p_error text, p_now timestamptz,
    out problem text, out detail text, out ended uuid[],
    out runnable boolean, out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    ended := '{}';
    runnable := false;
    groups := '{}';

    -- (job_drop sees to it itself)
    if j.waits_on = 'result check' and p_action <> 'fail' then
        perform interlock.check_over(j);
    end if;

    if p_action = 'succeed' then
        select x.ended, x.runnable, x.groups into ended, runnable, groups
        from interlock.job_succeed(j, 'decide', null, p_now) x;

    elsif p_action = 'fail' then
        select x.ended, x.runnable, x.groups into ended, runnable, groups
        from interlock.job_drop(j, 'failed', concat_ws('; ', j.error,
            p_error), p_now) x;

    elsif j.status = 'parked' then
        perform interlock.line_let_in(j);
        select x.ended, x.runnable, x.groups into ended, runnable, groups
        from interlock.key_advance(j.tenant, j.work_key, p_now, null,
                                   null) x;

    elsif j.status = 'failed' then
        select x.problem, x.detail, x.runnable, x.groups
        into problem, detail, runnable, groups
        from interlock.job_revive(j, p_now) x;

    else
        if p_action = 'retry' then
            j.attempts_base := j.attempts;
            j.retry_since := p_now;
        else
            j.attempts_base := least(j.attempts, j.attempts_base + 1);
        end if;
        select x.ended, x.runnable, x.groups into ended, runnable, groups
        from interlock.job_again(j, p_now, p_now) x;
    end if;
end
$$;

-- job_revive(j, now): a failed job is queued again, with the attempts and the
-- time of its policy anew.  The caller holds the work.  Answers whether it is
-- ready, and its limit groups, or a problem: work-active.
create or replace function interlock.job_revive(
    j interlock.jobs, p_now timestamptz, out problem text, out detail text,
    out runnable boolean, out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    k         interlock.kind_versions;
    v_last    interlock.jobs;
    v_place   text;
    v_by      text;
    v_turn    bigint;
    v_room    boolean;
begin
    select * into strict k from interlock.kind_versions x
    where x.tenant = j.tenant and x.name = j.kind
        and x.version = j.kind_version;

    select x.place, x.held_by into v_place, v_by
    from interlock.place_of(j, p_now, p_now) x;

    if j.exclusive then
        select * into v_last from interlock.jobs_live x
        where x.tenant = j.tenant and x.work_key = j.work_key
            and (x.place = 'blocked' or x.status = 'parked')
        order by x.turn desc limit 1;

        perform from interlock.jobs_live x
        where x.tenant = j.tenant and x.work_key = j.work_key
            and x.status in ('queued', 'running', 'checking', 'held')
        limit 1;

        if found or v_last.id is not null then
            perform from interlock.jobs_live x
            where x.tenant = j.tenant and x.work_key = j.work_key
                and x.place = 'blocked'
            offset k.max_waiting - 1 limit 1;
            v_room := not found and v_last.status is distinct from 'parked';

            if k.overlap <> 'buffer_all' or not v_room then
                problem := 'work-active';
                detail := case when k.overlap = 'buffer_all'
                    then 'the line of its work key is full'
                    else 'other work of its key is active' end;
                return;
            end if;

            v_place := 'blocked';
            v_by := null;
            v_turn := coalesce(v_last.turn, 0) + 1;
        end if;
    end if;

    select * into strict j from interlock.jobs_ended x
    where x.tenant = j.tenant and x.id = j.id;
    j.status := 'queued';
    j.place := v_place;
    j.run_at := p_now;
    j.finished_at := null;
    j.limited_by := v_by;
    j.turn := coalesce(v_turn, j.turn);
    j.attempts_base := j.attempts;
    j.retry_since := p_now;
    j.revivals := j.revivals + 1;
    if j.started_at is null then
        j.expire_at := p_now + make_interval(secs => k.max_wait);
    end if;
    perform interlock.job_back(j);

    runnable := v_place = 'ready';
    groups := coalesce(j.groups, '{}');
end
$$;

-- line_let_in(j): a parked job comes into the line of its key, whether it has
-- room or not; the others that are parked stay behind it, in their order.
-- The caller holds the work.
create or replace function interlock.line_let_in(j interlock.jobs)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_id    uuid[];
    v_turn  bigint[];
begin
    -- Those parked before it, and it: the same turns, it first.
    select array_agg(x.id order by x.turn), array_agg(x.turn order by x.turn)
    into v_id, v_turn
    from interlock.jobs_live x
    where x.tenant = j.tenant and x.work_key = j.work_key
        and x.status = 'parked' and x.turn <= j.turn;

    -- (out of the way: a turn that no other one has)
    update interlock.jobs_live x set turn = -x.turn - 1
    where x.tenant = j.tenant and x.id = j.id;

    for i in reverse cardinality(v_id) - 1 .. 1 loop
        update interlock.jobs_live x set turn = v_turn[i + 1]
        where x.tenant = j.tenant and x.id = v_id[i];
    end loop;

    update interlock.jobs_live x
    set turn = v_turn[1], status = 'queued', place = 'blocked'
    where x.tenant = j.tenant and x.id = j.id;
end
$$;

-- who_trouble(requested_by, reason): what is wrong with them where a decision
-- demands both, as a sentence, or null.  Spaces are neither a name nor a
-- reason.
create or replace function interlock.who_trouble(
    p_requested_by text, p_reason text)
returns text
language sql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select case
        when interlock.is_blank(p_requested_by)
        then '"requested_by" is missing: who decides so'
        when interlock.is_blank(p_reason)
        then '"reason" is missing: why it is decided so' end
$$;

revoke all on function interlock.job_decided(interlock.jobs, text, text,
    timestamptz) from public;
revoke all on function interlock.job_revive(interlock.jobs, timestamptz)
    from public;
revoke all on function interlock.line_let_in(interlock.jobs) from public;
revoke all on function interlock.who_trouble(text, text) from public;
revoke all on function interlock.job_decide(int, uuid, text, text, text,
    text, bigint, text, uuid) from public;
grant execute on function interlock.job_decide(int, uuid, text, text, text,
    text, bigint, text, uuid) to interlock_service;
