-- attempt_end(l, call, …): the one way in which an attempt ends, whatever
-- ends it: complete, fail, release (its owner), unclaim (an answer that could
-- not be written), lost (recovery).  Helper of finish, unclaim and recover,
-- which hold the locks on the row in works and on the lease and have judged.
-- Takes no other lock than those of the rows of this key.
--
-- What becomes of the job:
--   complete  succeeded; a new revision, published only if its fence is above
--             the published one and its version not below (G9)
--   fail      permanent, or out of attempts or time: failed.  Else it waits
--             (backoff with full jitter, or retry_after) as delayed.
--   release   ready again, the attempt uncounted
--   unclaim   as it was before the claim, the attempt uncounted
--   lost      ready again at once (a lease was waited for already), counted
-- A job that would run again while another one of its key waits does not: the
-- waiting one takes over and it ends superseded (not for unclaim, which
-- undoes).  A job asked to end ends canceled instead of running again.
-- Then the key goes on: see key_advance.
create or replace function interlock.attempt_end(
    l interlock.leases, p_call text, p_digest bytea, p_result text,
    p_result_url text, p_processed bigint, p_failed bigint, p_error text,
    p_retryable boolean, p_user_message text, p_log_url text,
    p_retry_after int)
returns interlock.attempt_answer
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_now      timestamptz := clock_timestamp();
    a          interlock.attempt_answer;
    j          interlock.jobs;
    k          interlock.kind_versions;
    w          interlock.works;
    v_attempts int;
    v_error    text := p_error;
    v_until    timestamptz;
    v_place    text;
    v_run_at   timestamptz;
    v_started  timestamptz;
    v_super    uuid;
    v_publish  boolean := false;
    v_more     uuid[];
begin
    select * into strict j from interlock.jobs x
    where x.tenant = l.tenant and x.id = l.job_id;
    select * into strict k from interlock.kind_versions x
    where x.tenant = j.tenant and x.name = j.kind
        and x.version = j.kind_version;

    v_attempts := j.attempts;
    v_run_at := j.run_at;
    v_started := j.started_at;
    a.runnable := false;
    a.ended_jobs := '{}';
    a.run_ms := floor(extract(epoch from v_now - l.granted_at) * 1000);

    if p_call = 'complete' then
        a.status := 'succeeded';

    elsif j.ending or l.cancel_requested then
        a.status := 'canceled';

    elsif p_call in ('release', 'unclaim') then
        a.status := 'queued';
        v_attempts := v_attempts - 1;
        if p_call = 'release' then
            v_run_at := v_now;
        elsif v_attempts = 0 then
            v_started := null;
        end if;

    else
        v_until := j.started_at + make_interval(secs => k.retry_for);

        if p_call = 'lost' then
            v_run_at := v_now;
        elsif p_retry_after is not null then
            v_run_at := v_now + make_interval(
                            secs => greatest(p_retry_after, 0));
        else
            v_run_at := least(greatest(v_now, v_until), v_now
                + interlock.backoff_delay(v_attempts, k.backoff,
                                          k.max_backoff));
        end if;

        a.status := 'failed';
        if p_call = 'fail' and not coalesce(p_retryable, true) then
            v_error := coalesce(v_error, 'permanent error');
        elsif v_attempts >= k.max_attempts then
            v_error := coalesce(v_error, 'error') || format(
                ' (attempt %s of %s)', v_attempts, k.max_attempts);
        elsif v_now >= v_until or v_run_at > v_until then
            v_error := coalesce(v_error, 'error') || format(
                ' (not again within %s s)', k.retry_for);
        else
            a.status := 'queued';
        end if;
    end if;

    if a.status = 'queued' then
        v_place := case when v_run_at > v_now then 'delayed'
                   else 'ready' end;

        if p_call <> 'unclaim' and j.exclusive then
            select x.id into v_super from interlock.jobs x
            where x.tenant = j.tenant and x.work_key = j.work_key
                and x.status in ('queued', 'running', 'checking', 'held')
                and x.place = 'blocked'
            order by x.created_at limit 1;
            if found then
                a.status := 'superseded';
                v_place := null;
            end if;
        end if;
    end if;

    delete from interlock.leases x
    where x.tenant = l.tenant and x.attempt_id = l.attempt_id;

    if a.status = 'succeeded' then
        select * into strict w from interlock.works x
        where x.tenant = j.tenant and x.work_key = j.work_key;

        a.revision := w.last_revision + 1;
        v_publish := (w.published_fence is null
                      or l.fence > w.published_fence)
            and not coalesce(j.version < w.published_version, false);

        insert into interlock.results (tenant, work_key, revision, job_id,
            attempt_id, fence, version, result, result_url, processed,
            failed, published, created_at)
        values (j.tenant, j.work_key, a.revision, j.id, l.attempt_id,
            l.fence, j.version, p_result::json, p_result_url, p_processed,
            p_failed, v_publish, v_now);

        update interlock.works x
        set last_revision = a.revision,
            published_revision = case when v_publish then a.revision
                                 else x.published_revision end,
            published_fence = case when v_publish then l.fence
                              else x.published_fence end,
            published_version = case when v_publish
                then coalesce(j.version, x.published_version)
                else x.published_version end,
            published_at = case when v_publish then v_now
                           else x.published_at end
        where x.tenant = j.tenant and x.work_key = j.work_key;
    end if;

    update interlock.jobs x
    set status = a.status,
        place = v_place,
        run_at = v_run_at,
        retry_at = case when v_place = 'delayed' then v_run_at end,
        attempts = v_attempts,
        started_at = v_started,
        finished_at = case when v_place is null then v_now end,
        progress = l.progress,
        step = l.step,
        checkpoint = l.checkpoint,
        error = case when a.status = 'succeeded' then null
                when p_call in ('fail', 'lost')
                    then coalesce(v_error, p_call)
                else x.error end,
        user_message = case when p_call = 'fail' then p_user_message
                       when a.status = 'succeeded' then null
                       else x.user_message end,
        log_url = coalesce(p_log_url, x.log_url),
        result_url = p_result_url,
        revision = a.revision,
        superseded_by = v_super
    where x.tenant = j.tenant and x.id = j.id;

    if v_place = 'delayed' then
        a.retry_at := v_run_at;
    end if;
    a.runnable := coalesce(v_place = 'ready', false);

    if v_place is null then
        a.ended_jobs := array[j.id];
    end if;

    if v_place is null and exists (
        select from interlock.jobs x
        where x.tenant = j.tenant and x.work_key = j.work_key
            and x.place = 'blocked')
    then
        select x.ended, x.runnable, x.blocked_ms
        into v_more, a.runnable, a.blocked_ms
        from interlock.key_advance(j.tenant, j.work_key, v_now,
            case when v_publish then j.id end, a.revision) x;
        a.ended_jobs := a.ended_jobs || v_more;
    end if;

    insert into interlock.attempts (tenant, id, job_id, kind, work_key,
        fence, attempt, worker, granted_at, ended_at, renewals, call, digest,
        status, revision, retry_at, ended_jobs, error, retryable,
        user_message, log_url, progress, step)
    values (l.tenant, l.attempt_id, l.job_id, l.kind, l.work_key, l.fence,
        l.attempt, l.worker, l.granted_at, greatest(v_now, l.granted_at),
        l.renewals, p_call, p_digest, a.status, a.revision, a.retry_at,
        a.ended_jobs, p_error, p_retryable, p_user_message, p_log_url,
        l.progress, l.step);

    return a;
end
$$;

-- key_advance(tenant, key, now, source, revision): lets the waiting job of a
-- key go on once nothing stands before it.  source is the job whose result
-- was just published as revision, or null: under when_completed return a
-- waiting job with the same payload bytes (and no higher version, and not
-- fresh) ends with that result instead.  Caller holds the work.
-- Answers: the jobs that ended; whether one became ready; how long it had
-- been blocked.
create or replace function interlock.key_advance(
    p_tenant int, p_key text, p_now timestamptz, p_source uuid,
    p_revision int, out ended uuid[], out runnable boolean,
    out blocked_ms bigint)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    b         interlock.jobs;
    src       interlock.jobs;
    v_return  boolean;
    v_place   text;
begin
    ended := '{}';
    runnable := false;

    if exists (
        select from interlock.jobs x
        where x.tenant = p_tenant and x.work_key = p_key
            and x.status in ('queued', 'running', 'checking', 'held')
            and x.place is distinct from 'blocked')
    then
        return;
    end if;

    select * into b from interlock.jobs x
    where x.tenant = p_tenant and x.work_key = p_key
        and x.status in ('queued', 'running', 'checking', 'held')
        and x.place = 'blocked'
    order by x.created_at limit 1;

    if not found then
        return;
    end if;

    if p_source is not null and not b.fresh then
        select * into strict src from interlock.jobs x
        where x.tenant = p_tenant and x.id = p_source;
        select v.when_completed = 'return' into strict v_return
        from interlock.kind_versions v
        where v.tenant = b.tenant and v.name = b.kind
            and v.version = b.kind_version;

        if v_return and b.payload_hash is not distinct from src.payload_hash
            and (b.version is null or b.version = src.version)
        then
            update interlock.jobs x
            set status = 'succeeded', place = null, finished_at = p_now,
                revision = p_revision, result_url = src.result_url
            where x.tenant = b.tenant and x.id = b.id;
            ended := array[b.id];
            return;
        end if;
    end if;

    v_place := case when b.run_at > p_now then 'delayed' else 'ready' end;

    update interlock.jobs x
    set place = v_place, run_at = greatest(x.run_at, p_now)
    where x.tenant = b.tenant and x.id = b.id;

    runnable := v_place = 'ready';
    blocked_ms := floor(extract(epoch from p_now - b.created_at) * 1000);
end
$$;

revoke all on function interlock.attempt_end(interlock.leases, text, bytea,
    text, text, bigint, bigint, text, boolean, text, text, int) from public;
revoke all on function interlock.key_advance(int, text, timestamptz, uuid,
    int) from public;
