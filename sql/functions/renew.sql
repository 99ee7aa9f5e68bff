-- renew(…): who: interlockd's lease batcher, for renew (progress, step and
-- checkpoint all null) and progress; one element a call.
--
-- Locks: leases by id, FOR NO KEY UPDATE, waiting; no work.  Judged in the
-- next statement, with the clock read after the last wait: a lease whose end
-- passed while we waited for its row is not renewed.
--
-- Answers one row a call; ok with the new end: now + lease, capped at the end
-- of max_runtime and at the deadline of a requested cancel.  What a progress
-- call leaves out stays.
-- Refuses, in this order: lease-lost, fence-stale, job-canceled (progress; and
-- renew once the lease is over, whether by the cancel's deadline or of itself:
-- before that it says cancel_requested), lease-expired.
create or replace function interlock.renew(
    p_tenant int[], p_job uuid[], p_attempt uuid[], p_fence bigint[],
    p_progress text[], p_step text[], p_checkpoint text[])
returns table (ord int, outcome text, expires_at timestamptz,
    remaining_ms bigint, cancel_requested boolean, kind text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now     timestamptz;
    v_end     timestamptz;
    r         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    perform from (
        select distinct u.tenant, u.attempt
        from unnest(p_tenant, p_attempt) u (tenant, attempt)
        order by u.tenant, u.attempt) k
    cross join lateral (
        select from interlock.leases x
        where x.tenant = k.tenant and x.attempt_id = k.attempt
        for no key update) l;

    v_now := clock_timestamp();

    -- All at once, unless one is there twice.
    if (select count(distinct (u.tenant, u.attempt)) = count(*)
        from unnest(p_tenant, p_attempt) u (tenant, attempt))
    then
        return query
        select * from interlock.renew_all(p_tenant, p_job, p_attempt,
            p_fence, p_progress, p_step, p_checkpoint, v_now);
        return;
    end if;

    for r in
        select u.ord::int as ord, u.tenant, u.job, u.attempt, u.fence,
            u.progress, u.step, u.checkpoint,
            u.progress is null and u.step is null
                and u.checkpoint is null as plain,
            l.job_id, l.fence as has_fence, l.kind, l.expires_at,
            l.runtime_end, l.lease_seconds, l.cancel_requested,
            l.cancel_deadline, greatest(l.max_gap_ms, least(2147483647,
                floor(extract(epoch from v_now - l.renewed_at) * 1000))::int)
                as gap
        from unnest(p_tenant, p_job, p_attempt, p_fence, p_progress, p_step,
                    p_checkpoint)
            with ordinality as u (tenant, job, attempt, fence, progress,
                step, checkpoint, ord)
        left join lateral (
            select x.* from interlock.leases x
            where x.tenant = u.tenant and x.attempt_id = u.attempt
            limit 1) l on true
        order by u.ord
    loop
        ord := r.ord;
        expires_at := null;
        remaining_ms := null;
        cancel_requested := coalesce(r.cancel_requested, false);
        kind := r.kind;

        if r.job_id is distinct from r.job then
            outcome := 'lease-lost';
        elsif r.has_fence <> r.fence then
            outcome := 'fence-stale';
        elsif r.cancel_requested and (not r.plain or r.expires_at <= v_now)
        then
            outcome := 'job-canceled';
        elsif r.expires_at <= v_now then
            outcome := 'lease-expired';
        else
            v_end := least(v_now + make_interval(secs => r.lease_seconds),
                r.runtime_end,
                case when r.cancel_requested then r.cancel_deadline end);

            if r.plain then
                update interlock.leases x
                set expires_at = v_end, renewals = x.renewals + 1,
                    renewed_at = v_now, max_gap_ms = r.gap
                where x.tenant = r.tenant and x.attempt_id = r.attempt;
            else
                update interlock.leases x
                set expires_at = v_end, renewals = x.renewals + 1,
                    renewed_at = v_now, max_gap_ms = r.gap,
                    progress = coalesce(r.progress::json, x.progress),
                    step = coalesce(r.step, x.step),
                    checkpoint = coalesce(r.checkpoint::json, x.checkpoint),
                    told = pg_current_xact_id()
                where x.tenant = r.tenant and x.attempt_id = r.attempt;
            end if;

            outcome := 'ok';
            expires_at := v_end;
            remaining_ms := floor(extract(epoch from v_end - v_now) * 1000);
        end if;

        return next;
    end loop;
end
$$;

-- renew_all(…, now): renew, of which no attempt is there twice, judged at that
-- time.  Helper of renew, which holds the leases.
create or replace function interlock.renew_all(
    p_tenant int[], p_job uuid[], p_attempt uuid[], p_fence bigint[],
    p_progress text[], p_step text[], p_checkpoint text[],
    p_now timestamptz)
returns table (ord int, outcome text, expires_at timestamptz,
    remaining_ms bigint, cancel_requested boolean, kind text)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    with c as materialized (
        select u.*, l.tid, l.cancel_requested, l.kind, l.gap,
            least(p_now + make_interval(secs => l.lease_seconds),
                l.runtime_end, case when l.cancel_requested
                    then l.cancel_deadline end) as ends,
            case when l.job_id is distinct from u.job then 'lease-lost'
                when l.fence <> u.fence then 'fence-stale'
                when l.cancel_requested
                    and (not u.plain or l.expires_at <= p_now)
                then 'job-canceled'
                when l.expires_at <= p_now then 'lease-expired'
                else 'ok' end as outcome
        from (select x.*, x.progress is null and x.step is null
                  and x.checkpoint is null as plain
              from unnest(p_tenant, p_job, p_attempt, p_fence, p_progress,
                          p_step, p_checkpoint)
                  with ordinality as x (tenant, job, attempt, fence,
                      progress, step, checkpoint, ord)) u
        left join lateral (
            select x.ctid as tid, x.job_id, x.fence, x.kind, x.expires_at,
                x.runtime_end, x.lease_seconds, x.cancel_requested,
                x.cancel_deadline, greatest(x.max_gap_ms, least(2147483647,
                    floor(extract(epoch from p_now - x.renewed_at) * 1000)
                    )::int) as gap
            from interlock.leases x
            where x.tenant = u.tenant and x.attempt_id = u.attempt
            limit 1) l on true),
    renewed as (
        update interlock.leases x
        set expires_at = c.ends, renewals = x.renewals + 1,
            renewed_at = p_now, max_gap_ms = c.gap,
            progress = coalesce(c.progress::json, x.progress),
            step = coalesce(c.step, x.step),
            checkpoint = coalesce(c.checkpoint::json, x.checkpoint),
            told = case when c.plain then x.told
                   else pg_current_xact_id() end
        from c where x.ctid = c.tid and c.outcome = 'ok')
    select c.ord::int, c.outcome,
        case when c.outcome = 'ok' then c.ends end,
        case when c.outcome = 'ok' then floor(extract(epoch
            from c.ends - p_now) * 1000)::bigint end,
        coalesce(c.cancel_requested, false), c.kind
    from c
    order by c.ord;
end
$$;

revoke all on function interlock.renew_all(int[], uuid[], uuid[], bigint[],
    text[], text[], text[], timestamptz) from public;
revoke all on function interlock.renew(int[], uuid[], uuid[], bigint[],
    text[], text[], text[]) from public;
grant execute on function interlock.renew(int[], uuid[], uuid[], bigint[],
    text[], text[], text[]) to interlock_service;
