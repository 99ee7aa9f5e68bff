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
-- A job that would run again while another one of its key waits under
-- buffer_one or replace does not: the waiting one takes over and it ends
-- superseded (not for unclaim, which undoes).  In a line (buffer_all) and
-- before the one of buffer_first it keeps the head.  A job asked to end ends
-- canceled instead of running again, a replaced one superseded.
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
    w          interlock.works;
    v_attempts int;
    v_error    text := p_error;
    v_until    timestamptz;
    v_place    text;
    v_run_at   timestamptz;
    v_started  timestamptz;
    v_super    uuid;
    v_by       text;
    v_publish  boolean := false;
    v_more     uuid[];
    v_groups   text[];
begin
    select * into strict j from interlock.jobs x
    where x.tenant = l.tenant and x.id = l.job_id;
    select * into strict k from interlock.kind_versions x
    where x.tenant = j.tenant and x.name = j.kind
        and x.version = j.kind_version;

    v_attempts := j.attempts;
    v_run_at := j.run_at;
    v_started := j.started_at;

    if p_call in ('release', 'unclaim') then
        v_attempts := v_attempts - 1;
        if p_call = 'unclaim' and v_attempts = 0 then
            v_started := null;
        end if;
    end if;

    a.runnable := false;
    a.ended_jobs := '{}';
    a.groups := coalesce(l.groups, '{}');
    a.run_ms := floor(extract(epoch from v_now - l.granted_at) * 1000);

    if p_call = 'complete' then
        a.status := 'succeeded';

    elsif j.revoked_by is not null then
        -- By the last that came to replace it, if that one still waits.
        a.status := 'superseded';
        select x.id into v_super from interlock.jobs x
        where x.tenant = j.tenant and x.work_key = j.work_key
            and x.place = 'blocked' and not x.in_line
        limit 1;
        v_super := coalesce(v_super, j.revoked_by);

    elsif j.ending or l.cancel_requested then
        a.status := 'canceled';

    elsif p_call in ('release', 'unclaim') then
        a.status := 'queued';
        if p_call = 'release' then
            v_run_at := v_now;
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

    if a.status = 'queued' and p_call <> 'unclaim' and j.exclusive then
        select x.id into v_super from interlock.jobs x
        where x.tenant = j.tenant and x.work_key = j.work_key
            and x.place = 'blocked' and not x.in_line
            and not exists (
                select from interlock.jobs y
                where y.tenant = x.tenant and y.work_key = x.work_key
                    and y.place = 'blocked' and y.turn < x.turn)
            and (select v.overlap <> 'buffer_first'
                 from interlock.kind_versions v
                 where v.tenant = x.tenant and v.name = x.kind
                     and v.version = x.kind_version)
        limit 1;
        if found then
            a.status := 'superseded';
        end if;
    end if;

    delete from interlock.leases x
    where x.tenant = l.tenant and x.attempt_id = l.attempt_id;

    if l.groups is not null then
        delete from interlock.lease_groups x
        where x.tenant = l.tenant and x.group_name = any (l.groups)
            and x.attempt_id = l.attempt_id;
    end if;

    if a.status = 'queued' then
        v_place := case when v_run_at > v_now then 'delayed'
                   else 'ready' end;
        if v_place = 'ready' and j.groups is not null then
            v_by := interlock.groups_busy(j.tenant, j.groups);
            if v_by is not null then
                v_place := 'limited';
            else
                v_by := j.groups[1];
            end if;
        end if;
    end if;

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
                when a.status = 'canceled' then coalesce(x.error, 'canceled')
                else x.error end,
        user_message = case when p_call = 'fail' then p_user_message
                       when a.status = 'succeeded' then null
                       else x.user_message end,
        log_url = coalesce(p_log_url, x.log_url),
        result_url = p_result_url,
        revision = a.revision,
        superseded_by = v_super,
        limited_by = v_by
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
            and (x.place = 'blocked' or x.status = 'parked'))
    then
        select x.ended, x.runnable, x.groups, x.blocked_ms
        into v_more, a.runnable, v_groups, a.blocked_ms
        from interlock.key_advance(j.tenant, j.work_key, v_now,
            case when v_publish then j.id end, a.revision) x;
        a.ended_jobs := a.ended_jobs || v_more;
        a.groups := a.groups || v_groups;
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

-- key_advance(tenant, key, now, source, revision): lets the line of a key go
-- on: the first of it, once nothing stands before it; then parked ones come
-- in, in order, as far as there is room.  source is the job whose result was
-- just published as revision, or null: under when_completed return those
-- first in line with the same payload bytes (and no higher version, and not
-- fresh) end with that result instead.  Caller holds the work.
-- Answers: the jobs that ended; whether one became ready; the limit groups of
-- the one that went on, and how long it had been blocked.
create or replace function interlock.key_advance(
    p_tenant int, p_key text, p_now timestamptz, p_source uuid,
    p_revision int, out ended uuid[], out runnable boolean,
    out groups text[], out blocked_ms bigint)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    b          interlock.jobs;
    src        interlock.jobs;
    v_return   boolean;
    v_place    text;
    v_by       text;
begin
    ended := '{}';
    runnable := false;
    groups := '{}';

    loop
        perform from interlock.jobs x
        where x.tenant = p_tenant and x.work_key = p_key
            and x.status in ('queued', 'running', 'checking', 'held')
            and x.place is distinct from 'blocked'
        limit 1;
        exit when found;

        perform interlock.line_admit(p_tenant, p_key);

        select * into b from interlock.jobs x
        where x.tenant = p_tenant and x.work_key = p_key
            and x.place = 'blocked'
        order by x.turn limit 1;
        exit when not found;

        if p_source is not null and not b.fresh then
            select * into strict src from interlock.jobs x
            where x.tenant = p_tenant and x.id = p_source;
            select v.when_completed = 'return' into strict v_return
            from interlock.kind_versions v
            where v.tenant = b.tenant and v.name = b.kind
                and v.version = b.kind_version;

            if v_return
                and b.payload_hash is not distinct from src.payload_hash
                and (b.version is null or b.version = src.version)
            then
                update interlock.jobs x
                set status = 'succeeded', place = null, finished_at = p_now,
                    revision = p_revision, result_url = src.result_url
                where x.tenant = b.tenant and x.id = b.id;
                ended := ended || b.id;
                continue;
            end if;
        end if;

        v_place := case when b.run_at > p_now then 'delayed' else 'ready' end;
        groups := coalesce(b.groups, '{}');
        if v_place = 'ready' and b.groups is not null then
            v_by := interlock.groups_busy(b.tenant, b.groups);
            if v_by is not null then
                v_place := 'limited';
            else
                v_by := b.groups[1];
            end if;
        end if;

        update interlock.jobs x
        set place = v_place, run_at = greatest(x.run_at, p_now),
            limited_by = v_by
        where x.tenant = b.tenant and x.id = b.id;

        runnable := v_place = 'ready';
        blocked_ms := floor(extract(epoch from p_now - b.created_at) * 1000);
        exit;
    end loop;

    perform interlock.line_admit(p_tenant, p_key);
end
$$;

-- line_admit(tenant, key): lets parked jobs of a key into its line, in order,
-- as far as max_waiting of the first of them allows.  Caller holds the work.
create or replace function interlock.line_admit(p_tenant int, p_key text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_room  bigint;
begin
    select v.max_waiting into v_room
    from (select x.kind, x.kind_version from interlock.jobs x
          where x.tenant = p_tenant and x.work_key = p_key
              and x.status = 'parked'
          order by x.turn limit 1) j
    cross join lateral (
        select y.max_waiting from interlock.kind_versions y
        where y.tenant = p_tenant and y.name = j.kind
            and y.version = j.kind_version
        limit 1) v;
    if not found then
        return;
    end if;

    select v_room - count(*) into v_room from (
        select from interlock.jobs x
        where x.tenant = p_tenant and x.work_key = p_key
            and x.place = 'blocked'
        limit v_room) y;
    if v_room <= 0 then
        return;
    end if;

    update interlock.jobs j set status = 'queued', place = 'blocked'
    where j.ctid = any (array(
        select x.ctid from interlock.jobs x
        where x.tenant = p_tenant and x.work_key = p_key
            and x.status = 'parked'
        order by x.turn
        limit v_room));
end
$$;

-- job_drop(j, status, error, now): ends a job that does not run, canceled or
-- expired, and lets its key go on.  Caller holds the work and has judged.
-- Answers as key_advance does.
create or replace function interlock.job_drop(
    j interlock.jobs, p_status text, p_error text, p_now timestamptz,
    out ended uuid[], out runnable boolean, out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    update interlock.jobs x
    set status = p_status, place = null, retry_at = null, error = p_error,
        finished_at = p_now
    where x.tenant = j.tenant and x.id = j.id;

    select k.ended, k.runnable, k.groups into ended, runnable, groups
    from interlock.key_advance(j.tenant, j.work_key, p_now, null, null) k;

    ended := j.id || ended;
    if j.limited_by is not null then
        groups := groups || j.groups;
    end if;
end
$$;

revoke all on function interlock.attempt_end(interlock.leases, text, bytea,
    text, text, bigint, bigint, text, boolean, text, text, int) from public;
revoke all on function interlock.key_advance(int, text, timestamptz, uuid,
    int) from public;
revoke all on function interlock.line_admit(int, text) from public;
revoke all on function interlock.job_drop(interlock.jobs, text, text,
    timestamptz) from public;
