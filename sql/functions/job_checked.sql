-- job_checked(tenant, job, found, detail, result, seq): what the look-up of a
-- lost job's result (on_lost check) found out.  For whoever holds the answer
-- of the check that check_job scheduled.
--   found      the result is there: succeeded, with a revision of the lost
--              attempt's fence; result is its JSON text, or null
--   not_found  it is not: the retry rules decide, as if the kind's on_lost
--              were retry; that its attempt was lost counts
--   exhausted  no clear answer: as the check's on_exhausted says: hold
--              (default), retry or fail
-- seq is the fence of the lost attempt that the check was made for; an answer
-- for an earlier one settles nothing.  Null: not compared.
-- Locks: the work (FOR NO KEY UPDATE).
-- Answers: the job's status now (null: no such job), the jobs that ended, the
-- kinds of which one may start now, and the limit groups that the caller
-- settles in the end (groups_wake).  A job that waits for no result check (any
-- more) stays as it is.
create or replace function interlock.job_checked(
    p_tenant int, p_job uuid, p_found text, p_detail text, p_result text,
    p_seq bigint default null, out status text, out ended_jobs uuid[],
    out wake_kinds text[], out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_now    timestamptz;
    v_error  text;
    v_do     text := p_found;
    j        interlock.jobs;
    k        interlock.kind_versions;
    r        record;
begin
    ended_jobs := '{}';
    wake_kinds := '{}';
    groups := '{}';

    perform from interlock.works w
    where w.tenant = p_tenant and w.work_key = (
        select x.work_key from interlock.jobs x
        where x.tenant = p_tenant and x.id = p_job)
    for no key update;

    v_now := clock_timestamp();
    select * into j from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_job;
    status := j.status;

    if not found or j.status <> 'checking' or j.waits_on <> 'result check'
        or p_seq <> (
            select a.fence from interlock.attempts a
            where a.tenant = p_tenant and a.job_id = p_job
            order by a.fence desc limit 1)
    then
        return;
    end if;

    select * into strict k from interlock.kind_versions x
    where x.tenant = j.tenant and x.name = j.kind
        and x.version = j.kind_version;

    v_error := concat_ws('; ', j.error, case p_found
        when 'not_found' then 'no result found'
        else 'its result could not be checked' end
        || coalesce(': ' || nullif(p_detail, ''), ''));

    perform interlock.check_over(j);

    if v_do = 'exhausted' then
        v_do := coalesce(k.result_check::json ->> 'on_exhausted', 'hold');
    end if;

    if v_do = 'found' then
        select * into r
        from interlock.job_succeed(j, 'check', p_result, v_now);
    elsif v_do in ('not_found', 'retry') then
        select * into r from interlock.job_retry(j, k, v_error, v_now);
    elsif v_do = 'fail' then
        select * into r
        from interlock.job_drop(j, 'failed', v_error, v_now);
    else
        update interlock.jobs_live x
        set status = 'held', waits_on = null, error = v_error
        where x.tenant = p_tenant and x.id = p_job;
        select '{}'::uuid[] as ended, false as runnable, '{}'::text[]
            as groups into r;
    end if;

    ended_jobs := r.ended;
    groups := r.groups;
    if r.runnable then
        wake_kinds := array[j.kind];
    end if;

    select x.status into status from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_job;
end
$$;

-- job_succeed(j, origin, result, now): a job that does not run succeeds
-- without its owner, with a revision that carries the fence of its own last
-- attempt, for that is whose work is said to be done; then its key goes on, if
-- it stood at its head.  So the revision publishes itself only where that
-- attempt's own would have (G9): not over the result of a later fence, and
-- whoever runs now, later than it, publishes over it.  It is no publish by
-- hand; work_publish may still put it forward.  A job that never ran has
-- fence 0, below all others.  The caller holds the work and has judged.
-- Answers as key_advance does.
create or replace function interlock.job_succeed(
    j interlock.jobs, p_origin text, p_result text, p_now timestamptz,
    out ended uuid[], out runnable boolean, out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_fence  bigint;
    r        record;
begin
    select a.fence into v_fence from interlock.attempts a
    where a.tenant = j.tenant and a.job_id = j.id
    order by a.fence desc limit 1;

    select * into r from interlock.result_store(j, coalesce(v_fence, 0),
        p_origin, null, p_result, null, null, null, p_now);

    if j.finished_at is null then
        select * into strict j from interlock.jobs_live x
        where x.tenant = j.tenant and x.id = j.id;
        j.status := 'succeeded';
        j.place := null;
        j.error := null;
        j.user_message := null;
        j.finished_at := p_now;
        j.revision := r.revision;
        j.waits_on := null;
        perform interlock.job_end(j);
    else
        update interlock.jobs_ended x
        set status = 'succeeded', error = null, user_message = null,
            finished_at = p_now, revision = r.revision,
            revivals = x.revivals + 1
        where x.tenant = j.tenant and x.id = j.id;
    end if;

    select k.ended, k.runnable, k.groups into ended, runnable, groups
    from interlock.key_advance(j.tenant, j.work_key, p_now,
        case when r.published then j.id end, r.revision) k;
    ended := j.id || ended;
end
$$;

-- job_retry(j, k, error, now): a lost job that was checking may run again as
-- far as the retry rules allow, else it fails.  The caller holds the work and
-- has judged.  Answers as key_advance does.
create or replace function interlock.job_retry(
    j interlock.jobs, k interlock.kind_versions, p_error text,
    p_now timestamptz, out ended uuid[], out runnable boolean,
    out groups text[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    f       record;
    v_twin  uuid;
begin
    select * into f from interlock.retry_fate(j, k, 'lost', p_error, true,
        null, p_now);

    if f.status = 'failed' then
        select x.ended, x.runnable, x.groups into ended, runnable, groups
        from interlock.job_drop(j, 'failed', f.error, p_now) x;
        return;
    end if;

    v_twin := interlock.twin_of(j);
    if v_twin is not null then
        select x.ended, x.runnable, x.groups into ended, runnable, groups
        from interlock.job_supersede(j, v_twin, p_now) x;
        return;
    end if;

    update interlock.jobs_live x set error = p_error
    where x.tenant = j.tenant and x.id = j.id;

    if interlock.effects_unsettled(j.tenant, j) then
        update interlock.jobs_live x set waits_on = 'effects', run_at = f.run_at
        where x.tenant = j.tenant and x.id = j.id;
        ended := '{}';
        runnable := false;
        groups := '{}';
        return;
    end if;

    select x.ended, x.runnable, x.groups into ended, runnable, groups
    from interlock.job_again(j, f.run_at, p_now) x;
end
$$;

revoke all on function interlock.job_checked(int, uuid, text, text, text,
    bigint) from public;
revoke all on function interlock.job_succeed(interlock.jobs, text, text,
    timestamptz) from public;
revoke all on function interlock.job_retry(interlock.jobs,
    interlock.kind_versions, text, timestamptz) from public;
