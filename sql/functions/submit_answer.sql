-- submit_answer.sql: how submit answers what it need not decide anew.

-- submit_replay(s): the answer that the request s.request_id got, from its
-- row in requests; a duplicate's is the answer of the first.  Helper of
-- submit.  Locks: none; the caller holds what it needs.
-- done_for is null where the edge may not remember: no idempotency key, a
-- problem, another fingerprint, or another kind or work key than the first
-- (the edge would rebuild the body with this request's own).
-- Whoever asks again for its own answer may never have heard the first one,
-- so nobody may have been told what it woke and ended: it says so again.
create or replace function interlock.submit_replay(s interlock.submission)
returns interlock.submit_answer
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    q  interlock.requests;
    f  interlock.requests;
    a  interlock.submit_answer;
begin
    select * into strict q from interlock.requests x
    where x.tenant = s.tenant and x.id = s.request_id;

    if q.decision = 'duplicate' then
        select * into f from interlock.requests x
        where x.tenant = s.tenant and x.id = q.first_request;
        if not found then
            f := q;    -- it is no more kept
        end if;
    else
        f := q;
    end if;

    a.ord := s.ord;
    a.outcome := case when f.code < 400 then 'ok' else 'problem' end;
    a.code := f.code;
    a.decision := f.decision;
    a.reason := f.reason;
    a.job_id := f.job_id;
    a.status := f.status;
    a.kind := f.kind;
    a.work_key := f.work_key;
    a.active_job_id := f.active_job_id;
    a.superseded_job_id := f.superseded_job_id;
    a.result_url := f.result_url;
    a.replayed := q.id <> f.id;
    a.runnable := false;
    a.ended_jobs := '{}';

    if q.id = f.id and f.job_id is not null then
        a.runnable := exists (
            select from interlock.jobs_live x
            where x.tenant = s.tenant and x.id = f.job_id
                and x.place = 'ready');
        a.ended_jobs := array_remove(array[f.superseded_job_id], null);
    end if;

    if f.code = 429 then
        a.problem := 'queue-full';
        a.detail := interlock.full_detail(f.reason);
        a.retry_after := interlock.queue_retry(s.tenant, f.kind, f.work_key,
                                               f.reason);
    elsif f.code = 422 then
        a.reason := null;
        a.problem := 'idempotency-key-reused';
        a.detail := 'this idempotency key was used for another request';
    elsif f.code = 409 then
        a.problem := 'work-active';
        a.detail := 'work of this key is active';
    elsif q.idempotency_key is not null and f.kind = s.kind
        and f.work_key = s.work_key and f.fingerprint = s.fingerprint
    then
        select nullif(greatest(0, floor(extract(epoch
                   from i.expires_at - clock_timestamp())))::int, 0)
        into a.done_for
        from interlock.idempotency i
        where i.tenant = q.tenant and i.source = q.source
            and i.key = q.idempotency_key and i.request_id = f.id;
    end if;

    return a;
end
$$;

revoke all on function interlock.submit_replay(interlock.submission)
    from public;

-- submit_busy(ord, kind, work_key): the answer "try again".
create or replace function interlock.submit_busy(
    p_ord int, p_kind text, p_key text)
returns interlock.submit_answer
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    a  interlock.submit_answer;
begin
    a.ord := p_ord;
    a.outcome := 'busy';
    a.kind := p_kind;
    a.work_key := p_key;
    a.replayed := false;
    a.runnable := false;
    a.ended_jobs := '{}';
    return a;
end
$$;

-- submit_duplicate(s, first): records s as a repeat of the request that owns
-- its idempotency key and gives that one's answer, or 422 if s is another
-- request under the same key and its source wants that refused.  Busy if the
-- owner came to nothing meanwhile.  Helper of submit.  Locks: none but its
-- own new row.
create or replace function interlock.submit_duplicate(
    s interlock.submission, p_first uuid)
returns interlock.submit_answer
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    f       interlock.requests;
    v_same  boolean;
begin
    select * into f from interlock.requests x
    where x.tenant = s.tenant and x.id = p_first;

    if not found or f.code >= 400 then
        return interlock.submit_busy(s.ord, s.kind, s.work_key);
    end if;

    v_same := s.fingerprint is not distinct from f.fingerprint;

    if not v_same and s.mismatch <> 'first' then
        insert into interlock.requests (tenant, id, source, idempotency_key,
            fingerprint, kind, work_key, version, decision, code, reason,
            first_request, requested_by, request_reason)
        values (s.tenant, s.request_id, s.source, s.idem, s.fingerprint,
            s.kind, s.work_key, s.version, 'rejected', 422,
            'idempotency_key_reused', f.id, s.requested_by, s.reason)
        on conflict do nothing;
    else
        insert into interlock.requests (tenant, id, source, idempotency_key,
            fingerprint, kind, work_key, version, decision, code, reason,
            job_id, status, first_request, requested_by, request_reason)
        values (s.tenant, s.request_id, s.source, s.idem, s.fingerprint,
            s.kind, s.work_key, s.version, 'duplicate', f.code,
            case when not v_same then 'mismatch_recorded' end,
            f.job_id, f.status, f.id, s.requested_by, s.reason)
        on conflict do nothing;
    end if;

    return interlock.submit_replay(s);
end
$$;

-- idempotency_renew(…): gives an expired key to a new request, unless its job
-- is open still.  Helper of submit, called in key order.
-- Locks: the key's row (FOR UPDATE), then its replacement.
-- Answers: the request that owns the key now.
create or replace function interlock.idempotency_renew(
    p_tenant int, p_source text, p_key text, p_request uuid,
    p_fingerprint bytea, p_expires timestamptz)
returns uuid
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
as $$
declare
    i        interlock.idempotency;
    v_owner  uuid;
begin
    perform from interlock.idempotency x
    where x.tenant = p_tenant and x.source = p_source and x.key = p_key
    for update;

    select * into i from interlock.idempotency x
    where x.tenant = p_tenant and x.source = p_source and x.key = p_key;

    if found then
        if i.expires_at > clock_timestamp()
            or interlock.request_open(i.tenant, i.request_id)
        then
            return i.request_id;
        end if;

        delete from interlock.idempotency x
        where x.tenant = p_tenant and x.source = p_source and x.key = p_key;
    end if;

    insert into interlock.idempotency (tenant, source, key, request_id,
        fingerprint, expires_at)
    values (p_tenant, p_source, p_key, p_request, p_fingerprint, p_expires)
    on conflict do nothing;

    select x.request_id into v_owner from interlock.idempotency x
    where x.tenant = p_tenant and x.source = p_source and x.key = p_key;

    return v_owner;
end
$$;

-- request_open(tenant, request): true while the job that the request was
-- answered with is not ended.  Locks: none.
create or replace function interlock.request_open(
    p_tenant int, p_request uuid)
returns boolean
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select exists (
        select from interlock.requests q
        join interlock.jobs_live j on j.tenant = q.tenant and j.id = q.job_id
        where q.tenant = p_tenant and q.id = p_request
            and j.finished_at is null)
$$;

revoke all on function interlock.submit_busy(int, text, text) from public;
revoke all on function interlock.submit_duplicate(interlock.submission, uuid)
    from public;
revoke all on function interlock.idempotency_renew(int, text, text, uuid,
    bytea, timestamptz) from public;
revoke all on function interlock.request_open(int, uuid) from public;
