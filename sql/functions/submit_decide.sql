-- submit_decide(s, k, room, full): what a request is to become: DESIGN's
-- table of overlaps, for one request against the present state of its key.
-- Reads only, so that submit_one (which holds the lock on the work and, for
-- replace, on the lease, and acts) and explain (which does not) decide alike.
-- room is how many more jobs the kind and tenant may queue, full the reason
-- to give when none.
create or replace function interlock.submit_decide(
    s interlock.submission, k interlock.kind_versions, p_room bigint,
    p_full text)
returns interlock.decision
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    d         interlock.decision;
    w         interlock.works;
    v_now     timestamptz := clock_timestamp();
    head      interlock.jobs;    -- runs, or is next to
    newest    interlock.jobs;    -- the last admitted of those not ending
    waiting   interlock.jobs;    -- waits, and gives way to a later one
    last      interlock.jobs;    -- the last in line
    target    interlock.jobs;    -- the answer, if there is no new job
    v_result  interlock.results;
    v_first   bigint;
    v_full    boolean := false;
begin
    d.outcome := 'ok';
    d.turn := 0;

    select * into w from interlock.works x
    where x.tenant = s.tenant and x.work_key = s.work_key;

    if w.kind <> s.kind then
        d.outcome := 'problem';
        d.code := 409;
        d.problem := 'work-kind';
        d.detail := format('this work key belongs to kind "%s"', w.kind);
        return d;
    end if;

    if found then
        select * into head from interlock.jobs_live j
        where j.tenant = s.tenant and j.work_key = s.work_key
            and j.status in ('queued', 'running', 'checking', 'held')
            and j.place is distinct from 'blocked'
        order by j.created_at limit 1;

        -- Effects of an earlier attempt may hold back the first in line.
        if head.id is null then
            select * into head from interlock.jobs_live j
            where j.tenant = s.tenant and j.work_key = s.work_key
                and j.place = 'blocked'
            order by j.turn limit 1;
        end if;
    end if;

    if head.id is not null then
        select * into newest from interlock.jobs_live j
        where j.tenant = s.tenant and j.work_key = s.work_key
            and j.status in ('queued', 'running', 'checking', 'held')
            and not j.ending
        order by j.created_at desc limit 1;

        select * into last from interlock.jobs_live j
        where j.tenant = s.tenant and j.work_key = s.work_key
            and (j.place = 'blocked' or j.status = 'parked')
        order by j.turn desc limit 1;

        if last.id is not null then
            d.turn := last.turn;
            if last.status = 'parked' then
                newest := last;
            end if;

            select * into waiting from interlock.jobs_live j
            where j.tenant = s.tenant and j.work_key = s.work_key
                and j.place = 'blocked' and not j.in_line
            limit 1;
        end if;
    end if;

    d.active := head.id;

    -- Versions: older is skipped whatever the order of arrival, an equal one
    -- that is still under way is the same work.
    if s.version <= w.max_version then
        select * into target from interlock.jobs j
        where j.tenant = s.tenant and j.id = w.max_version_job;
        if not found then
            target := interlock.job_gone(s.tenant, w.max_version_job);
        end if;
        if s.version = w.max_version and (s.fresh or target.ending
            or target.finished_at is not null)
        then
            target := null;
        end if;
    end if;

    if target.id is not null then
        d.decision := 'skipped';
        d.reason := case when s.version = w.max_version then 'same_work'
                    else 'older_version' end;

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
            select * into target from interlock.jobs j
            where j.tenant = s.tenant and j.id = v_result.job_id;
            if not found then
                target := interlock.job_gone(s.tenant, v_result.job_id);
            end if;
            d.decision := 'completed';
        else
            d.decision := 'accepted';
        end if;

    elsif newest.id is not null and not s.fresh
        and k.when_completed = 'return'
        and (s.version is null or s.version = newest.version)
        and newest.payload_hash is not distinct from sha256(s.payload)
    then
        target := newest;
        d.decision := 'skipped';
        d.reason := 'same_work';

    elsif k.overlap = 'allow' then
        d.decision := 'accepted';

    elsif k.overlap = 'skip' and newest.id is not null then
        target := case when head.ending then newest else head end;
        d.decision := 'skipped';
        d.reason := 'work_active';

    elsif k.overlap = 'skip' then
        d.decision := 'buffered';
        d.reason := 'active_ending';

    elsif k.overlap = 'buffer_first' and last.id is not null then
        target := last;
        d.decision := 'skipped';
        d.reason := 'already_waiting';

    elsif k.overlap = 'buffer_first' then
        d.decision := 'buffered';
        d.reason := case when head.ending then 'active_ending' end;

    elsif k.overlap = 'buffer_one' then
        d.decision := 'buffered';
        d.supersede := waiting.id;

    elsif k.overlap = 'replace' then
        d.decision := 'replaced';
        if head.status = 'queued' and last.id is null then
            d.supersede := head.id;
        else
            d.supersede := waiting.id;
            if head.ending then
                null;    -- revoked, or asked to end, already
            elsif head.status = 'running' and head.exclusive
                and not interlock.effects_started(s.tenant, head.id)
            then
                d.revoke := head.id;
            else
                d.decision := 'buffered';
                d.reason := case head.status
                    when 'queued' then 'others_waiting'
                    when 'running' then 'effects_started'
                    else 'active_' || head.status end;
            end if;
        end if;

    elsif k.overlap = 'buffer_all' then
        d.decision := 'buffered';

        if last.status = 'parked' then
            v_full := true;
        elsif last.id is not null then
            select j.turn into v_first from interlock.jobs_live j
            where j.tenant = s.tenant and j.work_key = s.work_key
                and j.place = 'blocked'
            order by j.turn limit 1;
            -- Turns may have gaps; counted only if they look full.
            if last.turn - v_first + 1 >= k.max_waiting then
                perform from interlock.jobs_live j
                where j.tenant = s.tenant and j.work_key = s.work_key
                    and j.place = 'blocked'
                offset k.max_waiting - 1 limit 1;
                v_full := found;
            end if;
        end if;

        if v_full and coalesce(k.overflow, case when s.source in ('api',
            'button', 'schedule', 'backfill', 'rerun') then 'reject'
            else 'park' end) = 'park'
        then
            d.decision := 'parked';
            d.reason := 'key_full';
        elsif v_full then
            d.decision := 'rejected';
            d.reason := 'key_full';
        end if;

    else
        raise exception 'overlap % has no decision', k.overlap;
    end if;

    -- What ends another queued job takes that one's place.
    if d.decision in ('accepted', 'buffered', 'replaced')
        and d.supersede is null and p_room <= 0
    then
        d.decision := 'rejected';
        d.reason := p_full;
        d.revoke := null;
    end if;

    if d.decision = 'rejected' then
        d.outcome := 'problem';
        d.code := 429;
        d.problem := 'queue-full';
        d.detail := interlock.full_detail(d.reason);
        d.retry_after := interlock.queue_retry(s.tenant, s.kind, s.work_key,
                                               d.reason);

    elsif target.id is not null then
        d.code := 200;
        d.job_id := target.id;
        d.status := target.status;
        if target.status = 'succeeded' then
            d.result_url := coalesce(target.result_url, '');
        end if;

        if d.decision = 'skipped' and k.on_busy = 'error'
            and head.id is not null
        then
            d.outcome := 'problem';
            d.code := 409;
            d.problem := 'work-active';
            d.detail := 'work of this key is active';
        end if;

    else
        d.code := 202;
        d.status := case when d.decision = 'parked' then 'parked'
                    else 'queued' end;
        d.place := case when d.decision = 'buffered'
            or (d.decision = 'replaced'
                and d.supersede is distinct from head.id)
            then 'blocked' end;
    end if;

    return d;
end
$$;

-- job_gone(tenant, job): what is known of a job that is no more kept: that it
-- ended, and whether there is a result of it.
create or replace function interlock.job_gone(p_tenant int, p_job uuid)
returns interlock.jobs
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    j  interlock.jobs;
begin
    j.tenant := p_tenant;
    j.id := p_job;
    j.status := 'failed';
    j.ending := false;

    select 'succeeded', r.created_at, r.result_url
    into j.status, j.finished_at, j.result_url
    from interlock.results r
    where r.tenant = p_tenant and r.job_id = p_job;
    if not found then
        j.status := 'failed';
        j.finished_at := '-infinity';
    end if;

    return j;
end
$$;

-- full_detail(reason): the sentence of a 429.
create or replace function interlock.full_detail(p_reason text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case p_reason
        when 'key_full' then 'too many jobs of this work key are waiting'
        when 'kind_full' then 'too many jobs of this kind are queued'
        else 'too many jobs of this tenant are queued' end
$$;

revoke all on function interlock.submit_decide(interlock.submission,
    interlock.kind_versions, bigint, text) from public;
revoke all on function interlock.job_gone(int, uuid) from public;
revoke all on function interlock.full_detail(text) from public;
