-- finish_plain(…): the completions of a batch that need no judgement beside
-- that of their lease, all at once.  Helper of finish, whose arguments these
-- are, and which holds the locks (owner_lock) and does the others one by one.
--
-- Plain is a complete by the owner of a live lease that was not asked to end,
-- of a job that is in no limit group, with no send still open and nobody
-- behind it in its key's line, of a work that no other call of the batch is
-- about.  What becomes of it is what attempt_end does: succeeded, a new
-- revision, published if it may be (may_publish).
--
-- By ctid, which nobody moves while we hold works and leases: a join on the
-- keys, planned while the tables were empty, would read them whole.
--
-- Answers: one row a plain call, ord its place.
create or replace function interlock.finish_plain(
    p_tenant int[], p_job uuid[], p_attempt uuid[], p_fence bigint[],
    p_call text[], p_digest bytea[], p_result text[], p_result_url text[],
    p_processed bigint[], p_failed bigint[], p_error text[],
    p_retryable boolean[], p_user_message text[], p_log_url text[])
returns setof interlock.finish_answer
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_now  timestamptz := clock_timestamp();
begin
    return query
    with c as materialized (
        select u.*, l.*,
            count(*) over (partition by l.tenant, l.work_key) as calls
        from unnest(p_tenant, p_job, p_attempt, p_fence, p_call, p_digest,
                    p_result, p_result_url, p_processed, p_failed, p_error,
                    p_retryable, p_user_message, p_log_url)
            with ordinality as u (by_tenant, job, attempt_no, by_fence, call,
                digest, result, result_url, processed, failed, error,
                retryable, user_message, log_url, ord)
        cross join lateral (
            select x.ctid as l_tid, x.*
            from interlock.leases x
            where x.tenant = u.by_tenant and x.attempt_id = u.attempt_no
            limit 1) l),
    p as materialized (
        select c.*, j.j_tid, j.version, w.w_tid, w.revision,
            -- (may_publish, which costs more than the row)
            (w.published_fence is null or c.fence > w.published_fence)
                and not coalesce(j.version < w.published_version, false)
                as publish
        from c
        cross join lateral (
            select x.ctid as j_tid, x.version
            from interlock.jobs_live x
            where x.tenant = c.tenant and x.id = c.job_id
            limit 1) j
        cross join lateral (
            select x.ctid as w_tid, x.last_revision + 1 as revision,
                x.published_fence, x.published_version
            from interlock.works x
            where x.tenant = c.tenant and x.work_key = c.work_key
            limit 1) w
        where c.call = 'complete' and c.calls = 1 and c.job_id = c.job
            and c.fence = c.by_fence and not c.cancel_requested
            and c.groups is null
            and c.kind not in ('result-check', 'effect-check')
            and not exists (
                select from interlock.sends x
                where x.tenant = c.tenant and x.attempt_id = c.attempt_id
                    and x.outcome is null)
            and not exists (
                select from interlock.jobs_live x
                where x.tenant = c.tenant and x.work_key = c.work_key
                    and (x.place = 'blocked' or x.status = 'parked'))),
    lease as (
        delete from interlock.leases x using p where x.ctid = p.l_tid),
    work as (
        update interlock.works x
        set fence = greatest(x.fence, p.fence),
            last_revision = p.revision,
            published_revision = case when p.publish then p.revision
                                 else x.published_revision end,
            published_fence = case when p.publish then p.fence
                              else x.published_fence end,
            published_version = case when p.publish
                then coalesce(p.version, x.published_version)
                else x.published_version end,
            published_at = case when p.publish then v_now
                           else x.published_at end
        from p where x.ctid = p.w_tid),
    gone as (
        delete from interlock.jobs_live x using p where x.ctid = p.j_tid
        returning x.*, p.progress as p_progress, p.step as p_step,
            p.checkpoint as p_checkpoint, p.log_url as p_log,
            p.result_url as p_url, p.revision as p_revision),
    job as (
        insert into interlock.jobs_ended (tenant, id, kind, kind_version,
            work_key, version, status, exclusive, ending, fresh, decision,
            source, requested_by, reason, payload_hash, priority, order_key,
            run_at, deadline, attempts, created_at, started_at, finished_at,
            progress, step, checkpoint, log_url, result_url, revision,
            rerun_of, turn, in_line, revoked_by, groups, fair_value, tag,
            expire_at, attempts_base, retry_since, revivals, assignee)
        select x.tenant, x.id, x.kind, x.kind_version, x.work_key, x.version,
            'succeeded', x.exclusive, x.ending, x.fresh, x.decision,
            x.source, x.requested_by, x.reason, x.payload_hash, x.priority,
            x.order_key, x.run_at, x.deadline, x.attempts, x.created_at,
            x.started_at, v_now, x.p_progress, x.p_step, x.p_checkpoint,
            coalesce(x.p_log, x.log_url), x.p_url, x.p_revision, x.rerun_of,
            x.turn, x.in_line, x.revoked_by, x.groups, x.fair_value, x.tag,
            x.expire_at, x.attempts_base, x.retry_since, x.revivals,
            x.assignee
        from gone x),
    result as (
        insert into interlock.results (tenant, work_key, revision, job_id,
            attempt_id, fence, version, result, result_url, processed,
            failed, published, created_at, origin)
        select p.tenant, p.work_key, p.revision, p.job_id, p.attempt_id,
            p.fence, p.version, p.result::json, p.result_url, p.processed,
            p.failed, p.publish, v_now, 'complete'
        from p),
    attempt as (
        insert into interlock.attempts (tenant, id, job_id, kind, work_key,
            fence, attempt, worker, granted_at, ended_at, renewals, call,
            digest, status, revision, ended_jobs, error, retryable,
            user_message, log_url, progress, step, max_gap_ms, waited_ms)
        select p.tenant, p.attempt_id, p.job_id, p.kind, p.work_key, p.fence,
            p.attempt, p.worker, p.granted_at, greatest(v_now, p.granted_at),
            p.renewals, p.call, p.digest, 'succeeded', p.revision,
            array[p.job_id], p.error, p.retryable, p.user_message, p.log_url,
            p.progress, p.step, p.max_gap_ms, p.waited_ms
        from p)
    select p.ord::int, 'ok', false, p.job_id, 'succeeded', p.kind,
        p.work_key, p.revision, null::timestamptz, false, array[p.job_id],
        floor(extract(epoch from v_now - p.granted_at) * 1000)::bigint,
        null::bigint
    from p;
end
$$;

revoke all on function interlock.finish_plain(int[], uuid[], uuid[],
    bigint[], text[], bytea[], text[], text[], bigint[], bigint[], text[],
    boolean[], text[], text[]) from public;
