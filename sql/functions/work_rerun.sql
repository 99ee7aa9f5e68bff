-- work_again(tenant, key, payload, requested_by, reason, of): runs the work of a
-- key once more: a new job, of its kind's present policy, with the payload
-- (or the one given) of the job of it, null: the key's newest, which it is a
-- rerun of, so that it has that one's effects: what is confirmed is not sent
-- again.  Helper of
-- work_rerun, slot_rerun and gap_approve.
-- Locks: the work (FOR NO KEY UPDATE), queue_looks near a bound.  Limit groups
-- are the caller's last step (groups_ensure, groups_wake).
-- Answers: problem (work-active, pruned, not-found, kind-unknown,
-- body-too-large, queue-full with retry_after) and nothing stored; or the job,
-- whether it may start now, and its limit groups.
create or replace function interlock.work_again(
    p_tenant int, p_key text, p_payload bytea, p_requested_by text,
    p_reason text, p_of uuid, out problem text, out detail text,
    out job interlock.jobs,
    out runnable boolean, out groups text[], out retry_after int)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    w     interlock.works;
    j     interlock.jobs;
    p     interlock.payloads;
    k     interlock.kind_versions;
    s     interlock.submission;
    d     interlock.decision;
    v_full  text;
    r     record;
begin
    groups := '{}';
    runnable := false;

    perform from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key for no key update;
    select * into w from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key;

    select x.problem, x.detail into problem, detail
    from interlock.rerun_trouble(p_tenant, p_key, p_of) x;
    if problem is not null then
        return;
    end if;

    j := interlock.newest_job(p_tenant, p_key);
    if p_of is not null then
        select * into strict j from interlock.jobs x
        where x.tenant = p_tenant and x.id = p_of;
    end if;
    select * into p from interlock.payloads x
    where x.tenant = p_tenant and x.job_id = j.id;
    select * into k from interlock.kind_row(p_tenant, w.kind);

    s.tenant := p_tenant;
    s.request_id := interlock.new_id();
    s.source := 'rerun';
    s.kind := w.kind;
    s.kind_version := k.version;
    s.work_key := p_key;
    s.version := j.version;
    s.payload := coalesce(p_payload, p.payload);
    s.content_type := case when p_payload is null then p.content_type
                      else 'application/json' end;
    s.headers := p.headers;
    s.priority := j.priority;
    s.fresh := false;
    s.requested_by := p_requested_by;
    s.reason := p_reason;

    if octet_length(s.payload) > k.max_payload then
        problem := 'body-too-large';
        detail := format('a payload of kind "%s" has at most %s bytes',
                         k.name, k.max_payload);
        return;
    end if;

    v_full := interlock.rerun_full(p_tenant, k);
    if v_full is not null then
        problem := 'queue-full';
        detail := interlock.full_detail(v_full);
        retry_after := interlock.queue_retry(p_tenant, w.kind, p_key, v_full);
        return;
    end if;

    d.decision := 'accepted';
    d.status := 'queued';
    select * into r
    from interlock.job_insert(s, k, d, clock_timestamp());
    runnable := r.place = 'ready';
    groups := coalesce(r.groups, '{}');

    update interlock.jobs_live x set rerun_of = j.id
    where x.tenant = p_tenant and x.id = s.request_id;
    update interlock.works x set max_version_job = s.request_id
    where x.tenant = p_tenant and x.work_key = p_key
        and x.max_version = j.version;

    insert into interlock.requests (tenant, id, source, kind, work_key,
        version, decision, code, job_id, status, requested_by,
        request_reason)
    values (p_tenant, s.request_id, s.source, s.kind, p_key, s.version,
        'accepted', 202, s.request_id, 'queued', p_requested_by, p_reason);

    select * into job from interlock.jobs_live x
    where x.tenant = p_tenant and x.id = s.request_id;
end
$$;

-- newest_job(tenant, key): the last job that was admitted for a key.
create or replace function interlock.newest_job(p_tenant int, p_key text)
returns interlock.jobs
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    j  interlock.jobs;
begin
    select x.* into j
    from (select q.id from interlock.requests q
          where q.tenant = p_tenant and q.work_key = p_key
              and q.job_id = q.id
          order by q.arrived_at desc, q.id desc limit 1) q
    cross join lateral (
        select y.* from interlock.jobs y
        where y.tenant = p_tenant and y.id = q.id
        limit 1) x;
    return j;
end
$$;

-- rerun_trouble(tenant, key, of): why the work of a key cannot be run again.
create or replace function interlock.rerun_trouble(
    p_tenant int, p_key text, p_of uuid, out problem text, out detail text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    w     interlock.works;
    v_id  uuid;
begin
    select * into w from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key;

    if not found then
        perform from interlock.requests q
        where q.tenant = p_tenant and q.work_key = p_key limit 1;
        if not found then
            problem := 'not-found';
            detail := 'no such work';
            return;
        end if;
    end if;

    v_id := coalesce(p_of, (interlock.newest_job(p_tenant, p_key)).id);
    perform from interlock.payloads x
    where x.tenant = p_tenant and x.job_id = v_id;
    if not found or w.kind is null then
        problem := 'pruned';
        detail := 'what this work was made of is not kept any more';
        return;
    end if;

    select j.id into v_id from interlock.jobs_live j
    where j.tenant = p_tenant and j.work_key = p_key
        and j.status in ('queued', 'running', 'checking', 'held')
    order by j.created_at limit 1;
    if found then
        problem := 'work-active';
        detail := format('work of this key is active: job %s', v_id);
        return;
    end if;

    perform from interlock.kind_row(p_tenant, w.kind);
    if not found then
        problem := 'kind-unknown';
        detail := format('no kind "%s"', w.kind);
    end if;
end
$$;

-- rerun_full(tenant, k): by which bound there is no room for one job more, or
-- null.  Takes its place: see queue_room.
create or replace function interlock.rerun_full(
    p_tenant int, k interlock.kind_versions)
returns text
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_bound  bigint;
begin
    if interlock.queue_room(p_tenant, k.name, k.max_queued, 1) <= 0 then
        return 'kind_full';
    end if;

    select t.max_queued into v_bound from interlock.tenants t
    where t.id = p_tenant;
    if v_bound is not null
        and interlock.queue_room(p_tenant, '', v_bound, 1) <= 0
    then
        return 'tenant_full';
    end if;

    return null;
end
$$;

-- groups_done(tenant, groups, limited, kinds): the last step of whoever
-- admitted jobs: makes their limit groups, settles those that held one back,
-- and answers the kinds that may start.
create or replace function interlock.groups_done(
    p_tenant int, p_group text[], p_kinds text[])
returns text[]
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if p_group <> '{}' then
        perform interlock.groups_ensure(array_fill(p_tenant,
            array[cardinality(p_group)]), p_group);
    end if;
    return interlock.groups_wake(p_tenant, p_group, p_kinds);
end
$$;

-- work_impact(tenant, key): who: interlockd, GET /v1/works/{key}/impact.
-- What a rerun of a key would meet and do.  Locks: none.
-- Answers: one row; problem null and doc {impact_id (a digest of all the
-- rest), work_key, kind, active (how many jobs of it are), result: {revision,
-- job_id, published_at, result_url} or null, jobs: the last ten {job_id,
-- status, source, created_at, finished_at, attempt, error, rerun_of}, newest
-- first, effects: at most 200 {effect_id, name, kind, state, target,
-- provider_ref}, reached_outside (how many of all are confirmed), unsettled
-- (how many may have happened), would_do: {possible, why_not, rerun_of,
-- effect_scope, not_sent_again: names of what is confirmed in its scope}}.
-- Refuses: not-found; pruned.
create or replace function interlock.work_impact(p_tenant int, p_key text)
returns table (problem text, detail text, doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_doc  text;
    t      record;
begin
    select * into t from interlock.rerun_trouble(p_tenant, p_key, null);
    if t.problem in ('not-found', 'pruned') then
        return query select t.problem, t.detail, null::text;
        return;
    end if;

    v_doc := interlock.impact_of(p_tenant, p_key, t.detail);
    return query select null::text, null::text,
        '{"impact_id" : "' || interlock.digest_of(v_doc) || '", '
        || substr(v_doc, 2);
end
$$;

-- digest_of(text): what an impact is known by.
create or replace function interlock.digest_of(p_text text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select encode(sha256(convert_to(p_text, 'UTF8')), 'hex')
$$;

-- impact_of(tenant, key, why_not): work_impact's doc without its digest.
create or replace function interlock.impact_of(
    p_tenant int, p_key text, p_why text)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    w          interlock.works;
    j          interlock.jobs;
    v_scope    record;
    v_active   bigint;
    v_result   json;
    v_jobs     json;
    v_effects  record;
begin
    select * into w from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key;

    select count(*) into v_active from interlock.jobs_live x
    where x.tenant = p_tenant and x.work_key = p_key
        and x.status in ('queued', 'running', 'checking', 'held');

    select json_build_object('revision', r.revision, 'job_id', r.job_id,
        'published_at', interlock.ts(w.published_at),
        'result_url', interlock.result_link(r.result_url, p_key))
    into v_result
    from interlock.results r
    where r.tenant = p_tenant and r.work_key = p_key
        and r.revision = w.published_revision;

    select coalesce(json_agg(json_build_object('job_id', x.id,
            'status', x.status, 'source', x.source,
            'created_at', interlock.ts(x.created_at),
            'finished_at', interlock.ts(x.finished_at),
            'attempt', x.attempts, 'error', x.error,
            'rerun_of', x.rerun_of) order by q.n), '[]')
    into v_jobs
    from (select y.id, row_number() over (
              order by y.arrived_at desc, y.id desc) as n
          from interlock.requests y
          where y.tenant = p_tenant and y.work_key = p_key
              and y.job_id = y.id
          order by y.arrived_at desc, y.id desc limit 10) q
    cross join lateral (
        select z.* from interlock.jobs z
        where z.tenant = p_tenant and z.id = q.id
        limit 1) x;

    -- The scope that the new job would have.
    j := interlock.newest_job(p_tenant, p_key);
    j.rerun_of := j.id;
    j.kind_version := coalesce((
        select x.version from interlock.kind_row(p_tenant, w.kind) x),
        j.kind_version);
    select * into v_scope from interlock.effect_scope_of(j);

    select coalesce(json_agg(json_build_object('effect_id', e.id,
            'name', e.name, 'kind', e.kind, 'state', e.state,
            'target', e.target, 'provider_ref', e.provider_ref)
            order by e.n) filter (where e.n <= 200), '[]') as list,
        count(*) filter (where e.state = 'confirmed') as confirmed,
        count(*) filter (where e.state in ('intended', 'unknown',
            'needs_human')) as unsettled,
        coalesce(json_agg(e.name order by e.n) filter (
            where e.state = 'confirmed' and e.scope = v_scope.scope
                and e.n <= 1000), '[]') as kept
    into v_effects
    from (select x.*, row_number() over (order by x.created_at, x.id) as n
          from interlock.effects x
          where x.tenant = p_tenant and x.work_key = p_key) e;

    return json_build_object('work_key', p_key, 'kind', w.kind,
        'active', v_active, 'result', v_result, 'jobs', v_jobs,
        'effects', v_effects.list, 'reached_outside', v_effects.confirmed,
        'unsettled', v_effects.unsettled,
        'would_do', json_build_object('possible', p_why is null,
            'why_not', p_why, 'rerun_of', j.id,
            'effect_scope', v_scope.scope_kind,
            'not_sent_again', v_effects.kept))::text;
end
$$;

-- work_rerun(…): who: interlockd, POST /v1/works/{key}/rerun.
-- Runs the work of a key again, if its impact is still the one that was
-- shown.  p_payload: a JSON text instead of the payload of the job that is run
-- again, or null.  p_call: see action_made.
-- Locks: the work (FOR NO KEY UPDATE), queue_looks near a bound, limit groups.
-- Answers: one row; problem null and doc {decision: accepted, job_id,
-- work_key, kind, status, status_url, rerun_of}; the kinds of which jobs may
-- start now or soon.
-- Refuses: field-invalid (requested_by, reason or impact_id missing);
-- not-found; pruned; impact-changed; work-active; kind-unknown;
-- body-too-large; queue-full, with retry_after.
create or replace function interlock.work_rerun(
    p_tenant int, p_key text, p_impact_id text, p_payload text,
    p_requested_by text, p_reason text, p_token_id bigint,
    p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text, retry_after int,
    wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_detail  text;
    v_kinds   text[] := '{}';
    a         record;
    t         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_detail := coalesce(interlock.who_trouble(p_requested_by, p_reason),
        case when p_impact_id is null
        then '"impact_id" is missing: the one that the impact was shown '
             'with' end);
    if v_detail is not null then
        return query select 'field-invalid', v_detail, null::text,
            null::int, v_kinds;
        return;
    end if;

    perform from interlock.works w
    where w.tenant = p_tenant and w.work_key = p_key for no key update;

    if interlock.action_made(p_tenant, p_call) then
        return query select null::text, null::text,
            interlock.rerun_doc(interlock.newest_job(p_tenant, p_key)),
            null::int, array[(interlock.newest_job(p_tenant, p_key)).kind];
        return;
    end if;

    -- What is active now was not when its impact was shown, or was shown.
    select * into t from interlock.rerun_trouble(p_tenant, p_key, null);
    if t.problem is null and p_impact_id <> interlock.digest_of(
        interlock.impact_of(p_tenant, p_key, null))
    then
        t.problem := 'impact-changed';
        t.detail := 'something has happened since the impact was shown; '
            'look at it again';
    end if;
    if t.problem is not null then
        return query select t.problem, t.detail, null::text, null::int,
            v_kinds;
        return;
    end if;

    select * into a from interlock.work_again(p_tenant, p_key,
        convert_to(p_payload, 'UTF8'), p_requested_by, p_reason, null);
    if a.problem is not null then
        return query select a.problem, a.detail, null::text, a.retry_after,
            v_kinds;
        return;
    end if;

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, detail, call_id, work_key)
    values (p_tenant, 'work_rerun', (a.job).id::text, p_token_id,
        p_token_name, p_requested_by, p_reason, json_build_object(
            'impact_id', p_impact_id, 'rerun_of', (a.job).rerun_of), p_call,
        p_key);

    if a.runnable then
        v_kinds := array[(a.job).kind];
    end if;
    v_kinds := interlock.groups_done(p_tenant, a.groups, v_kinds);

    return query select null::text, null::text, interlock.rerun_doc(a.job),
        null::int, v_kinds;
end
$$;

-- rerun_doc(j): the answer to a rerun, in the form of a submission's.
create or replace function interlock.rerun_doc(j interlock.jobs)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object('decision', (j).decision, 'job_id', (j).id,
        'work_key', (j).work_key, 'kind', (j).kind, 'status', (j).status,
        'status_url', '/v1/jobs/' || (j).id,
        'rerun_of', (j).rerun_of)::text
$$;

revoke all on function interlock.work_again(int, text, bytea, text, text, uuid)
    from public;
revoke all on function interlock.newest_job(int, text) from public;
revoke all on function interlock.rerun_trouble(int, text, uuid) from public;
revoke all on function interlock.rerun_full(int, interlock.kind_versions)
    from public;
revoke all on function interlock.groups_done(int, text[], text[])
    from public;
revoke all on function interlock.digest_of(text) from public;
revoke all on function interlock.impact_of(int, text, text) from public;
revoke all on function interlock.rerun_doc(interlock.jobs) from public;
revoke all on function interlock.work_impact(int, text) from public;
revoke all on function interlock.work_rerun(int, text, text, text, text,
    text, bigint, text, uuid) from public;
grant execute on function interlock.work_impact(int, text)
    to interlock_service;
grant execute on function interlock.work_rerun(int, text, text, text, text,
    text, bigint, text, uuid) to interlock_service;
