-- 02_job_doc.sql: how a job is shown; before the files that use it.

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
        'delivery', null,
        'superseded_by', j.superseded_by,
        'rerun_of', j.rerun_of,
        'source', j.source,
        'requested_by', j.requested_by,
        'reason', j.reason,
        'cancel_requested', j.ending and j.finished_at is null,
        'waits_for', case
            when j.status = 'parked' then 'room in its line'
            when j.place = 'blocked' then 'work key'
            when j.place = 'limited' then 'limit ' || j.limited_by
            when j.place = 'delayed' then 'time'
            when j.place = 'ready' then 'worker' end)::text
$$;

revoke all on function interlock.job_doc(interlock.jobs, json, text)
    from public;
