-- finish(…): who: interlockd's completion batcher, for complete, fail and
-- release; one element a call.
--
-- Locks: works in key order (FOR NO KEY UPDATE), leases by id (FOR UPDATE),
-- both waiting; then each call is judged on its own, in order.
--
-- Answers one row a call.  ok with replayed: the same attempt made the same
-- call with the same content before; this is the first answer.
-- Complete, fail and release may come after the lease's end as long as the
-- attempt was not recovered.
-- Refuses, in this order: lease-lost (the attempt ended, or never was),
-- fence-stale, job-canceled (complete only: fail and release mean "I yield").
create or replace function interlock.finish(
    p_tenant int[], p_job uuid[], p_attempt uuid[], p_fence bigint[],
    p_call text[], p_digest bytea[], p_result text[], p_result_url text[],
    p_processed bigint[], p_failed bigint[], p_error text[],
    p_retryable boolean[], p_user_message text[], p_log_url text[],
    p_retry_after int[])
returns table (ord int, outcome text, replayed boolean, job_id uuid,
    status text, kind text, work_key text, revision int,
    retry_at timestamptz, runnable boolean, ended_jobs uuid[], run_ms bigint,
    blocked_ms bigint)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    r  record;
    l  interlock.leases;
    h  interlock.attempts;
    a  interlock.attempt_answer;
begin
    perform set_config('synchronous_commit', 'on', true);

    perform interlock.owner_lock(p_tenant, p_attempt);

    for r in
        select u.*
        from unnest(p_tenant, p_job, p_attempt, p_fence, p_call, p_digest,
                    p_result, p_result_url, p_processed, p_failed, p_error,
                    p_retryable, p_user_message, p_log_url, p_retry_after)
            with ordinality as u (tenant, job, attempt, fence, call, digest,
                result, result_url, processed, failed, error, retryable,
                user_message, log_url, retry_after, ord)
        order by u.ord
    loop
        ord := r.ord;
        outcome := null;
        replayed := false;
        job_id := r.job;
        status := null;
        kind := null;
        work_key := null;
        revision := null;
        retry_at := null;
        runnable := false;
        ended_jobs := '{}';
        run_ms := null;
        blocked_ms := null;

        select * into l from interlock.leases x
        where x.tenant = r.tenant and x.attempt_id = r.attempt;

        if not found or l.job_id <> r.job then
            select * into h from interlock.attempts x
            where x.tenant = r.tenant and x.id = r.attempt
                and x.job_id = r.job;
            kind := h.kind;
            work_key := h.work_key;

            if h.call = r.call and h.digest = r.digest
                and h.fence = r.fence
            then
                outcome := 'ok';
                replayed := true;
                status := h.status;
                revision := h.revision;
                retry_at := h.retry_at;
                run_ms := floor(extract(epoch from
                    h.ended_at - h.granted_at) * 1000);
            else
                outcome := 'lease-lost';
            end if;

            return next;
            continue;
        end if;

        kind := l.kind;
        work_key := l.work_key;

        if l.fence <> r.fence then
            outcome := 'fence-stale';
        elsif r.call = 'complete' and l.cancel_requested then
            outcome := 'job-canceled';
        elsif r.call not in ('complete', 'fail', 'release') then
            raise exception 'no such call: %', r.call;
        else
            a := interlock.attempt_end(l, r.call, r.digest, r.result,
                r.result_url, r.processed, r.failed, r.error, r.retryable,
                r.user_message, r.log_url, r.retry_after);
            outcome := 'ok';
            status := a.status;
            revision := a.revision;
            retry_at := a.retry_at;
            runnable := a.runnable;
            ended_jobs := a.ended_jobs;
            run_ms := a.run_ms;
            blocked_ms := a.blocked_ms;
        end if;

        return next;
    end loop;
end
$$;

revoke all on function interlock.finish(int[], uuid[], uuid[], bigint[],
    text[], bytea[], text[], text[], bigint[], bigint[], text[], boolean[],
    text[], text[], int[]) from public;
grant execute on function interlock.finish(int[], uuid[], uuid[], bigint[],
    text[], bytea[], text[], text[], bigint[], bigint[], text[], boolean[],
    text[], text[], int[]) to interlock_service;
