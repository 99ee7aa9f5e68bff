-- 02_job_doc.sql: how a job, live or ended, is shown; before the files that
-- use it.

-- job_attempts(tenant, job): a JSON array of the job's last ten attempts that
-- ended, oldest first; without those whose answer never reached a worker.
-- Locks: none.
create or replace function interlock.job_attempts(p_tenant int, p_job uuid)
returns json
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (
        select json_agg(json_build_object(
            'attempt', x.attempt, 'fence', x.fence, 'worker', x.worker,
            'started_at', interlock.ts(x.granted_at),
            'ended_at', interlock.ts(x.ended_at),
            'call', x.call, 'error', x.error, 'step', x.step,
            'log_url', x.log_url) order by x.fence)
        from (select a.* from interlock.attempts a
              where a.tenant = p_tenant and a.job_id = p_job
                  and a.ended_at >= interlock.job_from(p_job)
                  and a.call <> 'unclaim'
              order by a.fence desc limit 10) x);
end
$$;

-- job_doc(j, progress, step): the JSON object of the API.  progress and step
-- are those of its lease, if it runs.
create or replace function interlock.job_doc(
    j interlock.jobs, p_progress json, p_step text)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object(
        'job_id', j.id,
        'kind', j.kind,
        'work_key', j.work_key,
        'version', j.version,
        'status', j.status,
        'decision', j.decision,
        'attempt', j.attempts,
        'priority', j.priority,
        'progress', case when j.status = 'running' then p_progress
                    else j.progress end,
        'step', case when j.status = 'running' then p_step else j.step end,
        'created_at', interlock.ts(j.created_at),
        'started_at', interlock.ts(j.started_at),
        'finished_at', interlock.ts(j.finished_at),
        'retry_at', interlock.ts(j.retry_at),
        'error', j.error,
        'user_message', j.user_message,
        'log_url', j.log_url,
        'result_url', case when j.status = 'succeeded'
            then interlock.result_link(j.result_url, j.work_key) end,
        'generated', j.status = 'succeeded',
        'delivery', interlock.job_delivery(j),
        'superseded_by', j.superseded_by,
        'rerun_of', j.rerun_of,
        'source', j.source,
        'requested_by', j.requested_by,
        'reason', j.reason,
        'cancel_requested', j.ending and j.finished_at is null,
        'assignee', j.assignee,
        'paused', case when j.status = 'queued' then interlock.pause_doc(
            j.tenant, 'kind', j.kind) end,
        'waits_for', case
            when j.status = 'parked' then 'room in its line'
            when j.status = 'checking' then j.waits_on
            when j.status = 'held' then 'decision'
            when j.place = 'blocked' and j.waits_on is not null
                then j.waits_on
            when j.place = 'blocked' then 'work key'
            when j.place = 'limited' then 'limit ' || j.limited_by
            when j.place = 'delayed' then 'time'
            when j.place = 'ready' and exists (
                select from interlock.pauses p
                where p.tenant = j.tenant and p.what = 'kind'
                    and p.name = j.kind)
                then 'resumption of its kind'
            when j.place = 'ready' then 'worker' end)::text
$$;

-- lease_doc(l): an attempt that runs now.  Nothing in it lets anybody act as
-- its owner.
create or replace function interlock.lease_doc(l interlock.leases)
returns json
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object(
        'attempt_id', l.attempt_id,
        'job_id', l.job_id,
        'kind', l.kind,
        'work_key', l.work_key,
        'worker', l.worker,
        'attempt', l.attempt,
        'fence', l.fence,
        'granted_at', interlock.ts(l.granted_at),
        'expires_at', interlock.ts(l.expires_at),
        'runtime_end', interlock.ts(l.runtime_end),
        'lease_seconds', l.lease_seconds,
        'renewed_at', interlock.ts(l.renewed_at),
        'renewals', l.renewals,
        'cancel_requested', l.cancel_requested,
        'progress', l.progress,
        'step', l.step)
$$;

revoke all on function interlock.lease_doc(interlock.leases) from public;
revoke all on function interlock.job_attempts(int, uuid) from public;
revoke all on function interlock.job_doc(interlock.jobs, json, text)
    from public;
