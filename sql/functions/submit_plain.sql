-- submit_plain(…): stores what a batch has of new work: keys that were not
-- known, each wanted once, so that nothing is active and everything is
-- accepted.  Helper of submit, whose arguments these are, which holds the
-- locks and has found the policies (kver … max_wait) and that there is room.
-- A request is stored if fast says so, its job and payload if plain does:
-- jobs with limits or an order of their own are made by submit (job_insert).
-- One statement: each row of the batch is taken apart once.  Settings of the
-- planner are the caller's.
-- Locks: those of its new rows.
create or replace function interlock.submit_plain(
    p_tenant int[], p_request_id uuid[], p_source text[], p_idem text[],
    p_fingerprint bytea[], p_kind text[], p_work_key text[],
    p_version bigint[], p_payload bytea[], p_content_type text[],
    p_headers text[], p_traceparent text[], p_run_after timestamptz[],
    p_deadline timestamptz[], p_fresh boolean[], p_requested_by text[],
    p_reason text[], p_kver int[], p_overlap text[], p_prio int[],
    p_age interval[], p_max_wait int[], p_fast boolean[], p_plain boolean[],
    p_now timestamptz)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    with u as materialized (
        select u.*, greatest(p_now, u.run_after) as run_at
        from unnest(p_tenant, p_request_id, p_source, p_idem, p_fingerprint,
                    p_kind, p_work_key, p_version, p_payload, p_content_type,
                    p_headers, p_traceparent, p_run_after, p_deadline,
                    p_fresh, p_requested_by, p_reason, p_kver, p_overlap,
                    p_prio, p_age, p_max_wait, p_fast, p_plain)
            as u (tenant, id, source, idem, fingerprint, kind, work_key,
                  version, payload, content_type, headers, traceparent,
                  run_after, deadline, fresh, requested_by, reason, kver,
                  overlap, prio, age, max_wait, fast, plain)
        where u.fast),
    payload as (
        insert into interlock.payloads (tenant, job_id, payload,
            content_type, headers, traceparent)
        select u.tenant, u.id, u.payload, u.content_type, u.headers,
            u.traceparent
        from u where u.plain),
    job as (
        insert into interlock.jobs_live (tenant, id, kind, kind_version, work_key,
            version, status, place, exclusive, fresh, decision, source,
            requested_by, reason, payload_hash, priority, order_key, run_at,
            deadline, created_at, in_line, expire_at)
        select u.tenant, u.id, u.kind, u.kver, u.work_key, u.version,
            'queued',
            case when u.run_after > p_now then 'delayed' else 'ready' end,
            u.overlap <> 'allow', u.fresh, 'accepted', u.source,
            u.requested_by, u.reason, sha256(u.payload), u.prio,
            p_now - u.age, u.run_at, u.deadline, p_now,
            u.overlap = 'buffer_all',
            u.run_at + make_interval(secs => u.max_wait)
        from u where u.plain)
    insert into interlock.requests (tenant, id, source, idempotency_key,
        fingerprint, kind, work_key, version, decision, code, job_id, status,
        requested_by, request_reason)
    select u.tenant, u.id, u.source, u.idem, u.fingerprint, u.kind,
        u.work_key, u.version, 'accepted', 202, u.id, 'queued',
        u.requested_by, u.reason
    from u;
end
$$;

revoke all on function interlock.submit_plain(int[], uuid[], text[], text[],
    bytea[], text[], text[], bigint[], bytea[], text[], text[], text[],
    timestamptz[], timestamptz[], boolean[], text[], text[], int[], text[],
    int[], interval[], int[], boolean[], boolean[], timestamptz) from public;
