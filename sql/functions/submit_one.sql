-- submit_one(s, k, room, full): decides on and stores one request whose work
-- key is known already, or wanted more than once in a batch, or whose queue
-- may be full.  Helper of submit, which holds the lock on the row in works
-- (FOR NO KEY UPDATE) and, for replace, on the lease; so nothing about this
-- key changes under it, and each statement here sees the newest state.
-- Takes no other lock than those of the rows it writes: all of them belong to
-- this key.  Answers: one submit_answer; groups are the limit groups whose
-- queue it changed (submit settles them at its end), grew whether one more
-- job is queued.
-- Refuses (stores nothing): work-kind.  Refuses (stores the request):
-- work-active under on_busy error, queue-full.
create or replace function interlock.submit_one(
    s interlock.submission, k interlock.kind_versions, p_room bigint,
    p_full text, out a interlock.submit_answer, out groups text[],
    out held boolean, out grew boolean)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    d       interlock.decision;
    v_now   timestamptz := clock_timestamp();
    v_old   interlock.jobs;
    v_end   interlock.jobs;
    v_last  timestamptz;
    v_at    timestamptz;
    r       record;
begin
    groups := '{}';
    held := false;
    grew := false;

    -- After a lost COMMIT the same request comes again; the first try may
    -- have committed while we waited for the lock.
    perform from interlock.requests q
    where q.tenant = s.tenant and q.id = s.request_id;
    if found then
        a := interlock.submit_replay(s);
        return;
    end if;

    d := interlock.submit_decide(s, k, p_room, p_full);

    a.ord := s.ord;
    a.outcome := d.outcome;
    a.code := d.code;
    a.decision := d.decision;
    a.reason := d.reason;
    a.problem := d.problem;
    a.detail := d.detail;
    a.job_id := d.job_id;
    a.status := d.status;
    a.kind := s.kind;
    a.work_key := s.work_key;
    a.active_job_id := d.active;
    a.result_url := d.result_url;
    a.retry_after := d.retry_after;
    a.replayed := false;
    a.runnable := false;
    a.ended_jobs := '{}';
    a.policy := k.overlap;
    a.wake_kinds := '{}';

    if d.decision is null then
        return;
    end if;

    if d.code = 202 then
        a.job_id := s.request_id;

        -- Jobs of a key are admitted one after the other, whatever the clock.
        if d.active is not null then
            select max(j.created_at) into v_last from interlock.jobs_live j
            where j.tenant = s.tenant and j.work_key = s.work_key
                and j.status in ('queued', 'running', 'checking', 'held');
            v_now := greatest(v_now, v_last + interval '1 microsecond');
        end if;

        if d.supersede is not null then
            select * into strict v_old from interlock.jobs_live j
            where j.tenant = s.tenant and j.id = d.supersede;

            v_end := v_old;
            v_end.status := 'superseded';
            v_end.place := null;
            v_end.retry_at := null;
            v_end.superseded_by := s.request_id;
            v_end.finished_at := v_now;
            v_end.waits_on := null;
            perform interlock.job_end(v_end);

            a.superseded_job_id := d.supersede;
            a.ended_jobs := array[d.supersede];
            if v_old.limited_by is not null then
                groups := v_old.groups;
                held := true;
            end if;
        end if;

        if d.revoke is not null then
            v_at := v_now + make_interval(secs => (
                select v.cancel_grace
                from interlock.jobs_live j, interlock.kind_versions v
                where j.tenant = s.tenant and j.id = d.revoke
                    and v.tenant = j.tenant and v.name = j.kind
                    and v.version = j.kind_version));

            update interlock.leases l
            set cancel_requested = true, cancel_deadline = v_at,
                expires_at = least(l.expires_at, v_at),
                told = pg_current_xact_id()
            where l.tenant = s.tenant and l.job_id = d.revoke;

            update interlock.jobs_live j
            set ending = true, revoked_by = s.request_id
            where j.tenant = s.tenant and j.id = d.revoke;
        end if;

        select * into r from interlock.job_insert(s, k, d, v_now);
        if v_old.waits_on is not null and d.place = 'blocked' then
            update interlock.jobs_live j set waits_on = v_old.waits_on
            where j.tenant = s.tenant and j.id = s.request_id;
        end if;
        a.runnable := r.place = 'ready';
        groups := groups || coalesce(r.groups, '{}');
        held := held or r.place = 'limited';
        grew := d.supersede is null and d.status = 'queued';

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

    if a.outcome = 'ok' and not s.fresh
        and a.reason is distinct from 'older_version'
    then
        a.hold := interlock.hold_of(k.hold, k.overlap, k.when_completed,
                                    k.on_busy, a.decision);
    end if;
end
$$;

-- job_insert(s, k, d, now): stores the job that the decision d makes of s,
-- with its payload.  Answers where it stands and its limit groups.
create or replace function interlock.job_insert(
    s interlock.submission, k interlock.kind_versions, d interlock.decision,
    p_now timestamptz, out place text, out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_prio    int := coalesce(s.priority, k.priority);
    v_run_at  timestamptz := greatest(p_now, s.run_after);
    v_by      text;
    v_turn    bigint;
    r         record;
begin
    if k.limits <> '{}' then
        groups := interlock.job_groups(s.tenant, k, s.work_key);
    end if;

    if d.status = 'parked' or d.place = 'blocked' then
        place := case when d.status <> 'parked' then d.place end;
        v_turn := d.turn + 1;
    elsif v_run_at > p_now then
        place := 'delayed';
    else
        place := 'ready';
        if groups is not null then
            v_by := interlock.groups_busy(s.tenant, groups);
            if v_by is not null then
                place := 'limited';
            else
                v_by := groups[1];
            end if;
        end if;
    end if;

    select * into r from interlock.order_of(k, s.tenant, s.work_key, v_prio,
        p_now, s.deadline);

    insert into interlock.payloads (tenant, job_id, payload, content_type,
        headers, traceparent)
    values (s.tenant, s.request_id, s.payload, s.content_type, s.headers,
        s.traceparent);

    insert into interlock.jobs_live (tenant, id, kind, kind_version, work_key,
        version, status, place, exclusive, fresh, decision, source,
        requested_by, reason, payload_hash, priority, order_key, run_at,
        deadline, created_at, turn, in_line, groups, limited_by, fair_value,
        tag, expire_at)
    values (s.tenant, s.request_id, s.kind, k.version, s.work_key, s.version,
        d.status, job_insert.place, k.overlap <> 'allow', s.fresh,
        d.decision, s.source, s.requested_by, s.reason, sha256(s.payload),
        v_prio, r.order_key, v_run_at, s.deadline, p_now, v_turn,
        k.overlap = 'buffer_all', job_insert.groups, v_by, r.fair_value,
        r.tag, v_run_at + make_interval(secs => k.max_wait));

    if r.idle then
        update interlock.kind_pace p set v = r.tag
        where p.ctid = (
            select x.ctid from interlock.kind_pace x
            where x.tenant = s.tenant and x.kind = s.kind
            for update skip locked);
    end if;
end
$$;

revoke all on function interlock.submit_one(interlock.submission,
    interlock.kind_versions, bigint, text) from public;
revoke all on function interlock.job_insert(interlock.submission,
    interlock.kind_versions, interlock.decision, timestamptz) from public;
