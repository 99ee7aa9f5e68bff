-- finish(…): who: interlockd's completion batcher, for complete, fail and
-- release; one element a call.
--
-- Locks: works in key order (FOR NO KEY UPDATE), leases by id (FOR UPDATE),
-- both waiting; then the plain completions, all at once (finish_plain), each
-- of which is alone with its work; then every other call is judged on its own,
-- in order; at last the limit groups that got room, by name.
--
-- Answers one row a call.  ok with replayed: the same attempt made the same
-- call with the same content before; this is the first answer.
-- Complete, fail and release may come after the lease's end as long as the
-- attempt was not recovered.
-- Refuses, in this order: lease-lost (the attempt ended, or never was),
-- fence-stale, job-canceled (complete only: fail and release mean "I yield").
-- What a complete brought that was refused because its job was to end, or
-- because its attempt had been recovered, is kept in refused_results.
-- wake_kinds: kinds of which a job may start now, or soon at a time that
-- runnable() knows, by this call; the first row of a tenant tells those of
-- limit groups too.
create or replace function interlock.finish(
    p_tenant int[], p_job uuid[], p_attempt uuid[], p_fence bigint[],
    p_call text[], p_digest bytea[], p_result text[], p_result_url text[],
    p_processed bigint[], p_failed bigint[], p_error text[],
    p_retryable boolean[], p_user_message text[], p_log_url text[],
    p_retry_after int[])
returns table (ord int, outcome text, replayed boolean, job_id uuid,
    status text, kind text, work_key text, revision int,
    retry_at timestamptz, runnable boolean, ended_jobs uuid[], run_ms bigint,
    blocked_ms bigint, wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    r  record;
    l  interlock.leases;
    h  interlock.attempts;
    a  interlock.attempt_answer;
    v_tenant  int[] := '{}';
    v_group   text[] := '{}';
    v_wake    jsonb := '{}';
    v_out     interlock.finish_answer[];
    v_done    int[];            -- ords of those that finish_plain did
    o         interlock.finish_answer;
begin
    perform set_config('synchronous_commit', 'on', true);

    perform interlock.owner_lock(p_tenant, p_attempt);

    v_out := array(select x from interlock.finish_plain(p_tenant, p_job,
        p_attempt, p_fence, p_call, p_digest, p_result, p_result_url,
        p_processed, p_failed, p_error, p_retryable, p_user_message,
        p_log_url) x);
    v_done := array(select x.ord from unnest(v_out) x);

    for r in
        select u.*
        from unnest(p_tenant, p_job, p_attempt, p_fence, p_call, p_digest,
                    p_result, p_result_url, p_processed, p_failed, p_error,
                    p_retryable, p_user_message, p_log_url, p_retry_after)
            with ordinality as u (tenant, job, attempt, fence, call, digest,
                result, result_url, processed, failed, error, retryable,
                user_message, log_url, retry_after, ord)
        where u.ord <> all (v_done)
        order by u.ord
    loop
        o := null;
        o.ord := r.ord;
        o.replayed := false;
        o.job_id := r.job;
        o.runnable := false;
        o.ended_jobs := '{}';

        select * into l from interlock.leases x
        where x.tenant = r.tenant and x.attempt_id = r.attempt;

        if not found or l.job_id <> r.job then
            select * into h from interlock.attempts x
            where x.tenant = r.tenant and x.id = r.attempt
                and x.job_id = r.job
                and x.ended_at >= interlock.job_from(r.job);
            o.kind := h.kind;
            o.work_key := h.work_key;

            if h.call = r.call and h.digest = r.digest
                and h.fence = r.fence
            then
                o.outcome := 'ok';
                o.replayed := true;
                o.status := h.status;
                o.revision := h.revision;
                o.retry_at := h.retry_at;
                -- Nobody may have been told what the first one woke.
                o.runnable := true;
                o.ended_jobs := h.ended_jobs;
                o.run_ms := floor(extract(epoch from
                    h.ended_at - h.granted_at) * 1000);
            else
                o.outcome := 'lease-lost';
                if h.call = 'lost' and r.call = 'complete'
                    and h.fence = r.fence
                then
                    perform interlock.refused_keep(h.tenant, h.id, h.job_id,
                        h.work_key, h.fence, 'lease-lost', r.digest, r.result,
                        r.result_url, r.processed, r.failed);
                end if;
            end if;

            v_out := v_out || o;
            continue;
        end if;

        o.kind := l.kind;
        o.work_key := l.work_key;

        if l.fence <> r.fence then
            o.outcome := 'fence-stale';
        elsif r.call = 'complete' and l.cancel_requested then
            o.outcome := 'job-canceled';
            perform interlock.refused_keep(l.tenant, l.attempt_id, l.job_id,
                l.work_key, l.fence, 'job-canceled', r.digest, r.result, r.result_url,
                r.processed, r.failed);
        elsif r.call not in ('complete', 'fail', 'release') then
            raise exception 'no such call: %', r.call;
        else
            a := interlock.attempt_end(l, r.call, r.digest, r.result,
                r.result_url, r.processed, r.failed, r.error, r.retryable,
                r.user_message, r.log_url, r.retry_after);
            o.outcome := 'ok';
            o.status := a.status;
            o.revision := a.revision;
            o.retry_at := a.retry_at;
            o.runnable := a.runnable;
            o.ended_jobs := a.ended_jobs;
            o.run_ms := a.run_ms;
            o.blocked_ms := a.blocked_ms;
            if a.groups <> '{}' then
                v_group := v_group || a.groups;
                v_tenant := v_tenant || array_fill(r.tenant,
                    array[cardinality(a.groups)]);
            end if;
        end if;

        v_out := v_out || o;
    end loop;

    perform interlock.pace_ended(p_tenant, v_out);

    if cardinality(v_group) > 0 then
        select coalesce(jsonb_object_agg(x.tenant, x.kinds), '{}')
        into v_wake
        from (select g.tenant, string_agg(distinct g.kind, ',') as kinds
              from interlock.groups_settle(v_tenant, v_group) g
              group by g.tenant) x;
    end if;

    return query
    select x.ord, x.outcome, x.replayed, x.job_id, x.status, x.kind,
        x.work_key, x.revision, x.retry_at, x.runnable, x.ended_jobs,
        x.run_ms, x.blocked_ms, string_to_array(concat_ws(',',
            case when x.runnable then x.kind end,
            case when x.ord = array_position(p_tenant, p_tenant[x.ord])
                then v_wake ->> p_tenant[x.ord]::text end), ',')
    from unnest(v_out) x;
end
$$;

-- refused_keep(tenant, attempt, job, key, fence, refusal, …): keeps what a refused
-- complete brought, once.
create or replace function interlock.refused_keep(
    p_tenant int, p_attempt uuid, p_job uuid, p_key text, p_fence bigint,
    p_refusal text, p_digest bytea, p_result text, p_result_url text,
    p_processed bigint, p_failed bigint)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    insert into interlock.refused_results (tenant, attempt_id, digest,
        job_id, work_key, fence, refusal, result, result_url, processed,
        failed)
    values (p_tenant, p_attempt, p_digest, p_job, p_key, p_fence, p_refusal,
        p_result::json, p_result_url, p_processed, p_failed)
    on conflict do nothing;
end
$$;

-- pace_ended(tenants, answers): counts the attempts that ended in the pace of
-- their kinds: ends a second, decaying over a minute.  Whoever finds a kind's
-- row locked leaves it: an estimate waits for nobody.
create or replace function interlock.pace_ended(
    p_tenant int[], p_out interlock.finish_answer[])
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_now  timestamptz := clock_timestamp();
begin
    update interlock.kind_pace p
    set rate = p.rate * exp(-greatest(0, extract(epoch from
            v_now - p.rated_at)) / 60) + y.n / 60.0,
        rated_at = v_now
    from (select l.tid, u.n
          from (select p_tenant[x.ord] as tenant, x.kind, count(*) as n
                from unnest(p_out) x
                where x.outcome = 'ok' and not x.replayed
                group by 1, 2) u
          cross join lateral (
              select z.ctid as tid from interlock.kind_pace z
              where z.tenant = u.tenant and z.kind = u.kind
              limit 1
              for no key update skip locked) l) y
    where p.ctid = y.tid;
end
$$;

revoke all on function interlock.refused_keep(int, uuid, uuid, text, bigint,
    text, bytea, text, text, bigint, bigint) from public;
revoke all on function interlock.pace_ended(int[],
    interlock.finish_answer[]) from public;
revoke all on function interlock.finish(int[], uuid[], uuid[], bigint[],
    text[], bytea[], text[], text[], bigint[], bigint[], text[], boolean[],
    text[], text[], int[]) from public;
grant execute on function interlock.finish(int[], uuid[], uuid[], bigint[],
    text[], bytea[], text[], text[], bigint[], bigint[], text[], boolean[],
    text[], text[], int[]) to interlock_service;
