-- job_cancel(…): who: interlockd, POST /v1/jobs/{id}/cancel.
-- What waits (queued in any place, parked) is canceled at once.  What runs is
-- asked to end: from now on it completes nothing, renew tells its owner so
-- and ends at the deadline (cancel_grace), where recovery takes it; asked
-- again, it gets no other deadline.  p_call: see action_made.
-- Locks: the work (FOR NO KEY UPDATE), the lease, limit groups that got room.
-- Answers: one row; problem null and doc the job as it is now; the kinds of
-- which jobs may start now or soon; the jobs that ended.
-- Refuses: not-found; job-final.
create or replace function interlock.job_cancel(
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
    v_now    timestamptz;
    v_grace  int;
    v_kinds  text[] := '{}';
    v_ended  uuid[] := '{}';
    j        interlock.jobs;
    l        interlock.leases;
    v_group  text[] := '{}';
    v_run    boolean;
begin
    perform set_config('synchronous_commit', 'on', true);

    select * into j from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_job;
    if not found then
        return query select 'not-found', 'no such job', null::text,
            '{}'::text[], '{}'::uuid[];
        return;
    end if;

    perform from interlock.works w
    where w.tenant = p_tenant and w.work_key = j.work_key
    for no key update;

    perform from interlock.leases x
    where x.tenant = p_tenant and x.job_id = p_job
    for no key update;

    v_now := clock_timestamp();
    select * into strict j from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_job;

    if interlock.action_made(p_tenant, p_call) then
        select * into l from interlock.leases x
        where x.tenant = p_tenant and x.job_id = p_job;
        return query select null::text, null::text,
            interlock.job_doc(j, l.progress, l.step), array[j.kind],
            case when j.finished_at is null then '{}'::uuid[]
            else array[j.id] end;
        return;
    end if;

    if j.finished_at is not null then
        return query select 'job-final', format('the job is %s', j.status),
            interlock.job_doc(j, null, null), '{}'::text[], '{}'::uuid[];
        return;
    end if;

    if j.status = 'running' then
        if not j.ending then
            select v.cancel_grace into strict v_grace
            from interlock.kind_versions v
            where v.tenant = j.tenant and v.name = j.kind
                and v.version = j.kind_version;

            update interlock.leases x
            set cancel_requested = true,
                cancel_deadline = v_now + make_interval(secs => v_grace),
                expires_at = least(x.expires_at,
                    v_now + make_interval(secs => v_grace)),
                told = pg_current_xact_id()
            where x.tenant = p_tenant and x.job_id = p_job;

            update interlock.jobs_live x set ending = true
            where x.tenant = p_tenant and x.id = p_job;
        end if;
    else
        select x.ended, x.runnable, x.groups into v_ended, v_run, v_group
        from interlock.job_drop(j, 'canceled',
            'canceled' || coalesce(': ' || nullif(p_reason, ''), ''),
            v_now) x;
        if v_run then
            v_kinds := array[j.kind];
        end if;
    end if;

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, call_id, work_key)
    values (p_tenant, 'job_cancel', p_job::text, p_token_id, p_token_name,
        p_requested_by, p_reason, p_call, j.work_key);

    if v_group <> '{}' then
        v_kinds := v_kinds || (
            select coalesce(array_agg(g.kind), '{}')
            from interlock.groups_settle(array_fill(p_tenant,
                array[cardinality(v_group)]), v_group) g);
    end if;

    select * into strict j from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_job;
    select * into l from interlock.leases x
    where x.tenant = p_tenant and x.job_id = p_job;

    return query select null::text, null::text,
        interlock.job_doc(j, l.progress, l.step),
        (select coalesce(array_agg(distinct x), '{}')
         from unnest(v_kinds) x), v_ended;
end
$$;

revoke all on function interlock.job_cancel(int, uuid, text, text, bigint,
    text, uuid) from public;
grant execute on function interlock.job_cancel(int, uuid, text, text, bigint,
    text, uuid) to interlock_service;
