-- submit_one(s, k): the decision for one request whose work key is known
-- already, or wanted more than once in a batch.  Helper of submit, which
-- holds the lock on the row in works (FOR NO KEY UPDATE); so nothing about
-- this key changes under it, and each statement here sees the newest state.
-- Takes no other lock than those of the rows it writes: all of them belong to
-- this key.  Answers: one submit_answer.
-- Refuses (stores nothing): work-kind.  Refuses (stores the request):
-- work-active under on_busy error.
create or replace function interlock.submit_one(
    s interlock.submission, k interlock.kind_versions)
returns interlock.submit_answer
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    a         interlock.submit_answer;
    w         interlock.works;
    v_now     timestamptz := clock_timestamp();
    v_hash    bytea := sha256(s.payload);
    head      interlock.jobs;    -- runs, or is next to
    newest    interlock.jobs;    -- the last admitted of those not ending
    waiting   interlock.jobs;
    target    interlock.jobs;    -- the answer, if there is no new job
    v_place   text;
    v_result  interlock.results;
    v_prio    int := coalesce(s.priority, k.priority);
    v_run_at  timestamptz;
begin
    -- After a lost COMMIT the same request comes again; the first try may
    -- have committed while we waited for the lock.
    perform from interlock.requests q
    where q.tenant = s.tenant and q.id = s.request_id;
    if found then
        return interlock.submit_replay(s);
    end if;

    a.ord := s.ord;
    a.outcome := 'ok';
    a.kind := s.kind;
    a.work_key := s.work_key;
    a.replayed := false;
    a.runnable := false;
    a.ended_jobs := '{}';
    a.policy := k.overlap;

    select * into strict w from interlock.works x
    where x.tenant = s.tenant and x.work_key = s.work_key;

    if w.kind <> s.kind then
        a.outcome := 'problem';
        a.code := 409;
        a.problem := 'work-kind';
        a.detail := format('this work key belongs to kind "%s"', w.kind);
        return a;
    end if;

    select * into head from interlock.jobs j
    where j.tenant = s.tenant and j.work_key = s.work_key
        and j.status in ('queued', 'running', 'checking', 'held')
        and j.place is distinct from 'blocked'
    order by j.created_at limit 1;

    if head.id is not null then
        select * into newest from interlock.jobs j
        where j.tenant = s.tenant and j.work_key = s.work_key
            and j.status in ('queued', 'running', 'checking', 'held')
            and not j.ending
        order by j.created_at desc limit 1;

        select * into waiting from interlock.jobs j
        where j.tenant = s.tenant and j.work_key = s.work_key
            and j.status in ('queued', 'running', 'checking', 'held')
            and j.place = 'blocked'
        order by j.created_at desc limit 1;
    end if;

    a.active_job_id := head.id;

    -- Versions: older is skipped whatever the order of arrival.
    if s.version < w.max_version then
        select * into strict target from interlock.jobs j
        where j.tenant = s.tenant and j.id = w.max_version_job;
        a.decision := 'skipped';
        a.reason := 'older_version';

    elsif head.id is null then
        -- Not active.  A result for an older version is not this one's.
        if k.when_completed = 'return' and not s.fresh
            and w.published_revision is not null
            and (k.result_ttl is null or v_now
                 < w.published_at + make_interval(secs => k.result_ttl))
            and (s.version is null or s.version <= w.published_version)
        then
            select * into strict v_result from interlock.results r
            where r.tenant = s.tenant and r.work_key = s.work_key
                and r.revision = w.published_revision;
            select * into strict target from interlock.jobs j
            where j.tenant = s.tenant and j.id = v_result.job_id;
            a.decision := 'completed';
        else
            a.decision := 'accepted';
        end if;

    elsif newest.id is not null and not s.fresh
        and ((s.version is not null
              and s.version is not distinct from newest.version)
             or (k.when_completed = 'return'
                 and (s.version is null or s.version = newest.version)
                 and newest.payload_hash is not distinct from v_hash))
    then
        target := newest;
        a.decision := 'skipped';
        a.reason := 'same_work';

    elsif k.overlap = 'allow' then
        a.decision := 'accepted';

    elsif k.overlap = 'skip' and newest.id is not null then
        target := case when head.ending then newest else head end;
        a.decision := 'skipped';
        a.reason := 'work_active';

    elsif k.overlap = 'skip' then
        a.decision := 'buffered';
        a.reason := 'active_ending';

    elsif k.overlap = 'buffer_one' then
        a.decision := 'buffered';

    else
        raise exception 'overlap % has no decision', k.overlap;
    end if;

    a.code := case a.decision when 'accepted' then 202
              when 'buffered' then 202 else 200 end;

    if target.id is not null then
        a.job_id := target.id;
        a.status := target.status;
        if target.status = 'succeeded' then
            a.result_url := coalesce(target.result_url, '');
        end if;

        if a.decision = 'skipped' and k.on_busy = 'error'
            and head.id is not null
        then
            a.outcome := 'problem';
            a.code := 409;
            a.problem := 'work-active';
            a.detail := 'work of this key is active';
        end if;

    else
        a.job_id := s.request_id;
        a.status := 'queued';
        v_run_at := greatest(v_now, s.run_after);
        v_place := case when a.decision = 'buffered' then 'blocked'
                   when v_run_at > v_now then 'delayed' else 'ready' end;
        a.runnable := v_place = 'ready';

        if v_place = 'blocked' and waiting.id is not null then
            update interlock.jobs j
            set status = 'superseded', place = null, retry_at = null,
                superseded_by = s.request_id, finished_at = v_now
            where j.tenant = s.tenant and j.id = waiting.id;
            a.superseded_job_id := waiting.id;
            a.ended_jobs := array[waiting.id];
        end if;

        insert into interlock.payloads (tenant, job_id, payload,
            content_type, headers, traceparent)
        values (s.tenant, s.request_id, s.payload, s.content_type,
            s.headers, s.traceparent);

        insert into interlock.jobs (tenant, id, kind, kind_version, work_key,
            version, status, place, exclusive, fresh, decision, source,
            requested_by, reason, payload_hash, priority, order_key, run_at,
            deadline, created_at)
        values (s.tenant, s.request_id, s.kind, k.version, s.work_key,
            s.version, 'queued', v_place, k.overlap <> 'allow', s.fresh,
            a.decision, s.source, s.requested_by, s.reason, v_hash, v_prio,
            v_now - make_interval(secs => v_prio * k.aging), v_run_at,
            s.deadline, v_now);

        if s.version is not null then
            update interlock.works x
            set max_version = s.version, max_version_job = s.request_id
            where x.tenant = s.tenant and x.work_key = s.work_key;
        end if;
    end if;

    insert into interlock.requests (tenant, id, source, idempotency_key,
        fingerprint, kind, work_key, version, decision, code, reason, job_id,
        status, active_job_id, superseded_job_id, result_url, requested_by,
        request_reason)
    values (s.tenant, s.request_id, s.source, s.idem, s.fingerprint, s.kind,
        s.work_key, s.version, a.decision, a.code, a.reason, a.job_id,
        a.status, a.active_job_id, a.superseded_job_id, a.result_url,
        s.requested_by, s.reason);

    if s.idem is not null and a.outcome = 'ok' then
        a.done_for := k.idempotency_ttl;
    end if;

    return a;
end
$$;

revoke all on function interlock.submit_one(interlock.submission,
    interlock.kind_versions) from public;
