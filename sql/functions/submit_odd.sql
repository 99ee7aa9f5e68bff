-- submit_odd(…): one request of a batch that is known already, or that its
-- kind or source does not take: submit has seen that something is so, this
-- says what.  Helper of submit.  Locks: none.
-- Answers: its answer; or first, the request that has its idempotency key.
-- Whose key is known gets its answer, whatever became of the kind since.
create or replace function interlock.submit_odd(
    p_ord int, p_tenant int, p_request_id uuid, p_source text, p_idem text,
    p_fingerprint bytea, p_kind text, p_work_key text, p_priority int,
    p_fresh boolean, p_size int, out a interlock.submit_answer,
    out first uuid)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    s  interlock.submission;
    k  interlock.kind_versions;
begin
    perform from interlock.requests x
    where x.tenant = p_tenant and x.id = p_request_id;
    if found then
        s.ord := p_ord;
        s.tenant := p_tenant;
        s.request_id := p_request_id;
        s.kind := p_kind;
        s.work_key := p_work_key;
        s.fingerprint := p_fingerprint;
        a := interlock.submit_replay(s);
        return;
    end if;

    select v.* into k
    from interlock.kinds x, interlock.kind_versions v
    where x.tenant = p_tenant and x.name = p_kind and not x.deleted
        and v.tenant = x.tenant and v.name = x.name
        and v.version = x.version;

    perform from interlock.pauses x
    where x.tenant = p_tenant and x.what = 'source' and x.name = p_source;
    if found then
        a.problem := 'source-paused';
    else
        select i.request_id into first
        from interlock.idempotency i
        where i.tenant = p_tenant and i.source = p_source
            and i.key = p_idem and i.expires_at > clock_timestamp();
        if found then
            return;
        end if;

        a.problem := case
            when k.version is null then 'kind-unknown'
            when p_fresh and not k.allow_fresh then 'fresh-not-allowed'
            when p_priority not between -100 and 100 then 'field-invalid'
            when p_work_key !~ k.key_pattern then 'work-key-mismatch'
            when p_size > k.max_payload then 'body-too-large'
            else 'field-invalid' end;
    end if;

    a.ord := p_ord;
    a.outcome := 'problem';
    select x.code, x.detail, x.retry_after
    into a.code, a.detail, a.retry_after
    from interlock.submit_refusal(a.problem, p_kind, k.max_payload,
        k.key_template, p_source) x;
    a.policy := k.overlap;
    a.wake_kinds := '{}';
    a.kind := p_kind;
    a.work_key := p_work_key;
    a.replayed := false;
    a.runnable := false;
    a.ended_jobs := '{}';
end
$$;

revoke all on function interlock.submit_odd(int, int, uuid, text, text,
    bytea, text, text, int, boolean, int) from public;
