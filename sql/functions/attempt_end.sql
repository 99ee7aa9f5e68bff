-- attempt_end(l, call, …): the one way in which an attempt ends, whatever
-- ends it: complete, fail, release (its owner), unclaim (an answer that could
-- not be written), lost (recovery).  Helper of finish, unclaim and recover,
-- which hold the locks on the row in works and on the lease and have judged.
-- Takes no other lock than those of the rows of this key, its effects last.
--
-- What becomes of the job:
--   complete  succeeded; a new revision, published only if its fence is above
--             the published one and its version not below (G9)
--   fail      permanent, or out of attempts or time: failed.  Else it waits
--             (backoff with full jitter, or retry_after) as delayed.
--   release   ready again, the attempt uncounted
--   unclaim   as it was before the claim, the attempt uncounted
--   lost      as its kind's on_lost says.  retry: ready again at once (a
--             lease was waited for already), counted; hold: held until
--             somebody decides; check: checking until the result check says
--             whether the result is there
-- A job that would run again while another one of its key waits under
-- buffer_one or replace does not: the waiting one takes over and it ends
-- superseded (not for unclaim, which undoes).  In a line (buffer_all) and
-- before the one of buffer_first it keeps the head; so it does where only its
-- own retry can go on: the waiting one is held back by an effect that the
-- retry may send again under the same key.  One that would run again
-- while effects of it are unsettled that its own retry may not repeat is
-- checking until they are settled.  A job asked to end ends canceled instead
-- of any of this, a replaced one superseded.
-- Then the key goes on: see key_advance.  The answer's groups are those whose
-- room changed; the caller ends with groups_settle.
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
    f          record;
    v_over     boolean;
    v_place    text;
    v_by       text;
    v_publish  boolean := false;
    v_more     uuid[];
    v_groups   text[];
begin
    select * into strict j from interlock.jobs_live x
    where x.tenant = l.tenant and x.id = l.job_id;
    select * into strict k from interlock.kind_versions x
    where x.tenant = j.tenant and x.name = j.kind
        and x.version = j.kind_version;

    perform from interlock.sends x
    where x.tenant = l.tenant and x.attempt_id = l.attempt_id
        and x.outcome is null
    limit 1;
    if found then
        perform interlock.effects_end(l.tenant, l);
    end if;

    select * into f from interlock.attempt_fate(l, j, k, p_call, p_error,
        p_retryable, p_retry_after, v_now);

    a.status := f.status;
    a.runnable := false;
    a.groups := coalesce(l.groups, '{}');
    a.run_ms := floor(extract(epoch from v_now - l.granted_at) * 1000);

    delete from interlock.leases x
    where x.tenant = l.tenant and x.attempt_id = l.attempt_id;

    if l.groups is not null then
        delete from interlock.lease_groups x
        where x.tenant = l.tenant and x.group_name = any (l.groups)
            and x.attempt_id = l.attempt_id;
    end if;

    if a.status = 'queued' then
        select x.place, x.held_by into v_place, v_by
        from interlock.place_of(j, f.run_at, v_now) x;
    elsif a.status = 'succeeded' then
        select x.revision, x.published into a.revision, v_publish
        from interlock.result_store(j, l.fence, 'complete', l.attempt_id,
            p_result, p_result_url, p_processed, p_failed, v_now) x;
    end if;

    v_over := a.status not in ('queued', 'checking', 'held');
    if v_place = 'delayed' then
        a.retry_at := f.run_at;
    end if;

    j.status := a.status;
    j.place := v_place;
    j.run_at := f.run_at;
    j.retry_at := a.retry_at;
    j.attempts := f.attempts;
    j.started_at := f.started_at;
    j.progress := l.progress;
    j.step := l.step;
    j.checkpoint := l.checkpoint;
    j.error := case when a.status = 'succeeded' then null
        when p_call in ('fail', 'lost') then coalesce(f.error, p_call)
        when a.status = 'canceled' then coalesce(j.error, 'canceled')
        else j.error end;
    j.user_message := case when p_call = 'fail' then p_user_message
        when a.status = 'succeeded' then null
        else j.user_message end;
    j.log_url := coalesce(p_log_url, j.log_url);
    j.result_url := p_result_url;
    j.revision := a.revision;
    j.superseded_by := f.successor;
    j.limited_by := v_by;
    j.waits_on := f.waits_on;

    if v_over then
        j.finished_at := v_now;
        perform interlock.job_end(j);
    else
        update interlock.jobs_live x
        set status = j.status, place = j.place, run_at = j.run_at,
            retry_at = j.retry_at, attempts = j.attempts,
            started_at = j.started_at, progress = j.progress, step = j.step,
            checkpoint = j.checkpoint, error = j.error,
            user_message = j.user_message, log_url = j.log_url,
            result_url = j.result_url, revision = j.revision,
            superseded_by = j.superseded_by, limited_by = j.limited_by,
            waits_on = j.waits_on, changed = pg_current_xact_id()
        where x.tenant = j.tenant and x.id = j.id;
    end if;

    if f.waits_on = 'result check' then
        perform interlock.check_job(j, k);
    end if;

    a.runnable := coalesce(v_place = 'ready', false);
    a.ended_jobs := case when v_over then array[j.id] else '{}' end;

    if v_over and exists (
        select from interlock.jobs_live x
        where x.tenant = j.tenant and x.work_key = j.work_key
            and (x.place = 'blocked' or x.status = 'parked'))
    then
        select x.ended, x.runnable, x.groups, x.blocked_ms
        into v_more, a.runnable, v_groups, a.blocked_ms
        from interlock.key_advance(j.tenant, j.work_key, v_now,
            case when v_publish then j.id end, a.revision) x;
        a.ended_jobs := a.ended_jobs || v_more;
        a.groups := a.groups || v_groups;
    end if;

    if j.kind in ('result-check', 'effect-check') and v_over then
        select a.ended_jobs || x.ended_jobs, a.groups || x.groups
        into a.ended_jobs, a.groups
        from interlock.check_job_ended(l, j, p_call, p_result) x;
    end if;

    insert into interlock.attempts (tenant, id, job_id, kind, work_key,
        fence, attempt, worker, granted_at, ended_at, renewals, call, digest,
        status, revision, retry_at, ended_jobs, error, retryable,
        user_message, log_url, progress, step, max_gap_ms, waited_ms)
    values (l.tenant, l.attempt_id, l.job_id, l.kind, l.work_key, l.fence,
        l.attempt, l.worker, l.granted_at, greatest(v_now, l.granted_at),
        l.renewals, p_call, p_digest, a.status, a.revision, a.retry_at,
        a.ended_jobs, p_error, p_retryable, p_user_message, p_log_url,
        l.progress, l.step, l.max_gap_ms, l.waited_ms);

    return a;
end
$$;

-- attempt_fate(l, j, k, call, …): what becomes of the job j by the end of its
-- attempt l, as attempt_end says.  Reads only; the caller holds the work, and
-- has ended the attempt's sends.
create or replace function interlock.attempt_fate(
    l interlock.leases, j interlock.jobs, k interlock.kind_versions,
    p_call text, p_error text, p_retryable boolean, p_retry_after int,
    p_now timestamptz, out status text,
    out run_at timestamptz, out attempts int, out started_at timestamptz,
    out error text, out successor uuid, out waits_on text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    attempts := j.attempts;
    run_at := j.run_at;
    started_at := j.started_at;
    error := p_error;

    if p_call in ('release', 'unclaim') then
        attempts := attempts - 1;
        if p_call = 'unclaim' and attempts = 0 then
            started_at := null;
        end if;
    end if;

    if p_call = 'complete' then
        status := 'succeeded';

    elsif j.revoked_by is not null then
        -- By the last that came to replace it, if that one still waits.
        status := 'superseded';
        select x.id into successor from interlock.jobs_live x
        where x.tenant = j.tenant and x.work_key = j.work_key
            and x.place = 'blocked' and not x.in_line
        limit 1;
        successor := coalesce(successor, j.revoked_by);

    elsif j.ending or l.cancel_requested then
        status := 'canceled';

    elsif p_call = 'unclaim' then
        status := 'queued';
        return;

    elsif p_call = 'release' then
        status := 'queued';
        run_at := p_now;

    elsif p_call = 'lost' and k.on_lost = 'hold' then
        status := 'held';

    elsif p_call = 'lost' and k.on_lost = 'check' then
        status := 'checking';
        waits_on := 'result check';

    else
        select x.status, x.run_at, x.error into status, run_at, error
        from interlock.retry_fate(j, k, p_call, p_error, p_retryable,
                                  p_retry_after, p_now) x;
    end if;

    if status = 'queued' then
        successor := interlock.twin_of(j);
        if successor is not null then
            status := 'superseded';
        elsif interlock.effects_unsettled(j.tenant, j) then
            status := 'checking';
            waits_on := 'effects';
        end if;
    end if;
end
$$;

-- retry_fate(j, k, call, error, retryable, retry_after, now): may a job that
-- failed (call fail), or was lost (lost), run again, and when?  Answers status
-- queued and run_at, or failed; error says why it fails for good.  Attempts
-- and time count from where somebody last renewed them.  Reads only.
create or replace function interlock.retry_fate(
    j interlock.jobs, k interlock.kind_versions, p_call text, p_error text,
    p_retryable boolean, p_retry_after int, p_now timestamptz,
    out status text, out run_at timestamptz, out error text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_until  timestamptz := coalesce(j.retry_since, j.started_at)
                            + make_interval(secs => k.retry_for);
    v_tries  int := j.attempts - j.attempts_base;
begin
    if p_call = 'lost' then
        run_at := p_now;
    elsif p_retry_after is not null then
        run_at := p_now + make_interval(secs => greatest(p_retry_after, 0));
    else
        run_at := least(greatest(p_now, v_until), p_now
            + interlock.backoff_delay(v_tries, k.backoff, k.max_backoff));
    end if;

    status := 'failed';
    error := coalesce(p_error, 'error');

    if p_call = 'fail' and not coalesce(p_retryable, true) then
        error := coalesce(p_error, 'permanent error');
    elsif v_tries >= k.max_attempts then
        error := error || format(' (attempt %s of %s)', v_tries,
                                 k.max_attempts);
    elsif p_now >= v_until or run_at > v_until then
        error := error || format(' (not again within %s s)', k.retry_for);
    else
        status := 'queued';
        error := p_error;
    end if;
end
$$;

-- twin_of(j): the job that takes over when j would run again: one that waits
-- first in line, under buffer_one or replace.  Null: j keeps the head; also if
-- the one that waits is held back by an effect that only j's own retry may
-- send again.  Reads only; the caller holds the work.
create or replace function interlock.twin_of(j interlock.jobs) returns uuid
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    b  interlock.jobs;
begin
    if not j.exclusive then
        return null;
    end if;

    select * into b from interlock.jobs_live x
    where x.tenant = j.tenant and x.work_key = j.work_key
        and x.place = 'blocked'
    order by x.turn limit 1;

    if not found or b.in_line or exists (
        select from interlock.kind_versions v
        where v.tenant = b.tenant and v.name = b.kind
            and v.version = b.kind_version and v.overlap = 'buffer_first')
    then
        return null;
    end if;

    if interlock.effects_hold_key(b.tenant, b.work_key, b)
        and not interlock.effects_unsettled(j.tenant, j)
    then
        return null;
    end if;

    return b.id;
end
$$;

-- may_publish(fence, version, published_fence, published_version): only above
-- the fence of what is published, and not below its version (G9).
create or replace function interlock.may_publish(
    p_fence bigint, p_version bigint, p_published_fence bigint,
    p_published_version bigint)
returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (p_published_fence is null or p_fence > p_published_fence)
        and not coalesce(p_version < p_published_version, false);
end $$;

-- result_store(j, fence, origin, attempt, …): a new revision of the key's
-- result, published if it may be (may_publish).  fence is that of the attempt
-- that brought it, or, where no attempt did, of the job's last one
-- (job_succeed).  The caller holds the work.
create or replace function interlock.result_store(
    j interlock.jobs, p_fence bigint, p_origin text, p_attempt uuid,
    p_result text, p_result_url text, p_processed bigint, p_failed bigint,
    p_now timestamptz, out revision int, out published boolean)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    w  interlock.works;
begin
    select * into strict w from interlock.works x
    where x.tenant = j.tenant and x.work_key = j.work_key;

    revision := w.last_revision + 1;
    published := interlock.may_publish(p_fence, j.version,
        w.published_fence, w.published_version);

    insert into interlock.results (tenant, work_key, revision, job_id,
        attempt_id, fence, version, result, result_url, processed,
        failed, published, created_at, origin)
    values (j.tenant, j.work_key, result_store.revision, j.id, p_attempt,
        p_fence, j.version, p_result::json, p_result_url, p_processed,
        p_failed, result_store.published, p_now, p_origin);

    update interlock.works x
    set fence = greatest(x.fence, p_fence),
        last_revision = result_store.revision,
        published_revision = case when result_store.published
            then result_store.revision else x.published_revision end,
        published_fence = case when result_store.published then p_fence
                          else x.published_fence end,
        published_version = case when result_store.published
            then coalesce(j.version, x.published_version)
            else x.published_version end,
        published_at = case when result_store.published then p_now
                       else x.published_at end
    where x.tenant = j.tenant and x.work_key = j.work_key;
end
$$;

revoke all on function interlock.attempt_end(interlock.leases, text, bytea,
    text, text, bigint, bigint, text, boolean, text, text, int) from public;
revoke all on function interlock.attempt_fate(interlock.leases,
    interlock.jobs, interlock.kind_versions, text, text, boolean, int,
    timestamptz) from public;
revoke all on function interlock.retry_fate(interlock.jobs,
    interlock.kind_versions, text, text, boolean, int, timestamptz)
    from public;
revoke all on function interlock.twin_of(interlock.jobs) from public;
revoke all on function interlock.may_publish(bigint, bigint, bigint, bigint)
    from public;
revoke all on function interlock.result_store(interlock.jobs, bigint, text,
    uuid, text, text, bigint, bigint, timestamptz) from public;
