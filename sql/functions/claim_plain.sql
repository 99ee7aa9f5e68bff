-- claim_plain(…): grants of candidates that need no judgement beside that
-- they still are ones, all at once.  Helper of claim, which has locked their
-- works (each of these keys is there once), and whose answers these are.
--
-- Plain is a job in no limit group, of a kind without virtual times.  The rest
-- claim_grant does, after claim's own judgement.
--   p_job     candidates, in order, and their tenants
--   p_work    ctid and ...
--   p_fence   ... fence of each one's work, read under its lock
--   p_deal    whose turn it is: the ord that gets the first of them that is
--             granted, the second, and so on; no more than these are
--
-- By ctid, which nobody moves while we hold the works.
create or replace function interlock.claim_plain(
    p_tenant int[], p_job uuid[], p_work tid[], p_fence bigint[],
    p_deal int[], p_claim_id uuid[], p_worker text[])
returns table (ord int, attempt_id uuid, job_id uuid, attempt int, kind text,
    work_key text, fence bigint, expires_at timestamptz, remaining_ms bigint,
    lease_seconds int, token_exp timestamptz, payload bytea,
    content_type text, headers text, traceparent text, waited_ms bigint,
    step text, checkpoint text, earlier text, effects text)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now  timestamptz := clock_timestamp();
begin
    return query
    with j as materialized (
        select x.*, u.w_tid, u.w_fence,
            p_deal[row_number() over (order by u.n)] as ord
        from unnest(p_tenant, p_job, p_work, p_fence) with ordinality
            as u (tenant, job, w_tid, w_fence, n)
        cross join lateral (
            select y.ctid as j_tid, y.tenant, y.id, y.kind, y.kind_version,
                y.work_key, y.exclusive, y.attempts, y.run_at, y.started_at,
                y.rerun_of, y.progress, y.step, y.checkpoint
            from interlock.jobs_live y
            where y.tenant = u.tenant and y.id = u.job
                and (y.place = 'ready'
                     or (y.place = 'delayed' and y.run_at <= v_now))
                and (y.started_at is not null
                     or coalesce(y.expire_at > v_now, true))
            limit 1) x
        order by u.n
        limit cardinality(p_deal)),
    -- What all of a kind have, once.
    k as materialized (
        select u.*, t.fence_floor, v.lease_seconds, v.max_runtime,
            interlock.effect_scope_of(v.effect_scope, v.when_completed)
                as scope
        from (select distinct x.tenant, x.kind, x.kind_version from j x) u
        cross join lateral (
            select x.fence_floor from interlock.tenants x
            where x.id = u.tenant limit 1) t
        cross join lateral (
            select x.lease_seconds, x.max_runtime, x.effect_scope,
                x.when_completed
            from interlock.kind_versions x
            where x.tenant = u.tenant and x.name = u.kind
                and x.version = u.kind_version
            limit 1) v),
    c as materialized (
        select j.*, k.lease_seconds, k.scope, gen_random_uuid() as attempt_id,
            greatest(j.w_fence, k.fence_floor) + 1 as fence,
            v_now + make_interval(secs => least(k.lease_seconds,
                k.max_runtime)) as expires_at,
            v_now + make_interval(secs => k.max_runtime) as runtime_end,
            least(2147483647, greatest(0, floor(extract(epoch from
                v_now - j.run_at) * 1000)))::int as waited_ms
        from j, k
        where k.tenant = j.tenant and k.kind = j.kind
            and k.kind_version = j.kind_version),
    lease as (
        insert into interlock.leases (tenant, attempt_id, claim_id, job_id,
            kind, work_key, exclusive, fence, attempt, worker, granted_at,
            expires_at, runtime_end, lease_seconds, step, progress,
            checkpoint, renewed_at, waited_ms)
        select c.tenant, c.attempt_id, p_claim_id[c.ord], c.id, c.kind,
            c.work_key, c.exclusive, c.fence, c.attempts + 1,
            p_worker[c.ord], v_now, c.expires_at, c.runtime_end,
            c.lease_seconds, c.step, c.progress, c.checkpoint, v_now,
            c.waited_ms
        from c),
    work as (
        update interlock.works w set fence = c.fence
        from c where w.ctid = c.w_tid),
    job as (
        update interlock.jobs_live x
        set status = 'running', place = null, retry_at = null,
            attempts = x.attempts + 1,
            started_at = coalesce(x.started_at, v_now),
            changed = pg_current_xact_id()
        from c where x.ctid = c.j_tid)
    select c.ord, c.attempt_id, c.id, c.attempts + 1, c.kind, c.work_key,
        c.fence, c.expires_at, floor(extract(epoch from
            c.expires_at - v_now) * 1000)::bigint,
        c.lease_seconds, c.runtime_end + interval '7 days', p.payload,
        p.content_type, p.headers, p.traceparent, c.waited_ms::bigint,
        c.step, c.checkpoint::text,
        coalesce(case when c.started_at is not null
            then interlock.job_attempts(c.tenant, c.id) end, '[]')::text,
        coalesce(case when c.rerun_of is not null
                or ((c.started_at is not null or c.scope = 'work') and (
                    select true from interlock.effects e
                    where e.tenant = c.tenant and e.work_key = c.work_key
                    limit 1))
            then interlock.effects_of_scope(c.tenant, c.id) end, '[]')::text
    from c
    cross join lateral (
        select x.* from interlock.payloads x
        where x.tenant = c.tenant and x.job_id = c.id
        limit 1) p;
end
$$;

-- claim_deal(ords, left, pairs): in which order ords get jobs of which each
-- may go to any of them, one in turn: so many as they want (left); null if
-- it depends on the job: several ords, and several kinds (pairs).
create or replace function interlock.claim_deal(
    p_ords int[], p_left int[], p_pairs int)
returns int[]
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_out  int[] := '{}';
begin
    if p_ords[1] = all (p_ords) then
        return array_fill(p_ords[1], array[p_left[p_ords[1]]]);
    elsif p_pairs > 1 then
        return null;
    end if;

    for v_turn in 1 .. (select max(p_left[o]) from unnest(p_ords) o) loop
        for i in 1 .. cardinality(p_ords) loop
            if p_left[p_ords[i]] >= v_turn then
                v_out := v_out || p_ords[i];
            end if;
        end loop;
    end loop;
    return v_out;
end
$$;

revoke all on function interlock.claim_deal(int[], int[], int) from public;
revoke all on function interlock.claim_plain(int[], uuid[], tid[], bigint[],
    int[], uuid[], text[]) from public;
