-- job_revoke(…): who: interlockd, POST /v1/jobs/{id}/revoke.
-- Takes a job's lease away now, as if it had been lost: its attempt ends as
-- recovery would end it (attempt_end), its sends without an outcome become
-- unknown, and what becomes of the job says its kind's on_lost; one that was
-- asked to end is over.  Its owner is refused from now on (lease-lost).
-- p_call: see action_made.
-- Locks: those of owner_lock (the works, the lease, its effects), then limit
-- groups that got room.
-- Answers: one row; problem null and doc the job as it is now; the kinds of
-- which jobs may start now or soon; the jobs that ended.
-- Refuses: not-found; field-invalid (requested_by or reason missing);
-- job-final; job-not-running (409: nobody has it).
create or replace function interlock.job_revoke(
    p_tenant int, p_job uuid, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text, wake_kinds text[],
    ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_detail   text;
    v_attempt  uuid;
    j          interlock.jobs;
    l          interlock.leases;
    a          interlock.attempt_answer;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_detail := interlock.who_trouble(p_requested_by, p_reason);
    if v_detail is not null then
        return query select 'field-invalid', v_detail, null::text,
            '{}'::text[], '{}'::uuid[];
        return;
    end if;

    -- Once its locks are there, an attempt may be over, and the next one under
    -- way.
    loop
        select x.attempt_id into v_attempt from interlock.leases x
        where x.tenant = p_tenant and x.job_id = p_job;
        if found then
            perform interlock.owner_lock(array[p_tenant], array[v_attempt]);
        end if;

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

        select * into l from interlock.leases x
        where x.tenant = p_tenant and x.attempt_id = v_attempt;
        exit when found;

        if v_attempt is null then
            return query select case when j.finished_at is null
                    then 'job-not-running' else 'job-final' end,
                format('the job is %s', j.status),
                interlock.job_doc(j, null, null), '{}'::text[],
                '{}'::uuid[];
            return;
        end if;
    end loop;

    a := interlock.attempt_end(l, 'lost', null, null, null, null, null,
        format('lease taken away by %s: %s', p_requested_by, p_reason),
        true, null, null, null);

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, call_id, work_key, detail)
    values (p_tenant, 'job_revoke', p_job::text, p_token_id, p_token_name,
        p_requested_by, p_reason, p_call, j.work_key, json_build_object(
            'attempt', l.attempt, 'fence', l.fence, 'worker', l.worker,
            'status', a.status));

    select * into strict j from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_job;

    return query select null::text, null::text,
        interlock.job_doc(j, null, null),
        interlock.groups_wake(p_tenant, a.groups, case when a.runnable
            then array[l.kind] else '{}' end), a.ended_jobs;
end
$$;

revoke all on function interlock.job_revoke(int, uuid, text, text, bigint,
    text, uuid) from public;
grant execute on function interlock.job_revoke(int, uuid, text, text, bigint,
    text, uuid) to interlock_service;
