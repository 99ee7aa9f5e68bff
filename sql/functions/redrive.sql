-- redrive_plan(…): who: interlockd, POST /v1/redrive without plan_id.
-- Which failed jobs (dead letters) a filter means, and how many: stores the
-- plan, changes no job.  redrive then acts on just those.
-- filter is a JSON object; what it names must all hold:
--   kind, work_key  as they are       error         a part of jobs.error
--   since, until    of the job's end  job_ids       just these
--   max             at most so many, the oldest first (1 to 10000, and that is
--                   the default)
--   succeeded_since true: also those that job_succeeded_since means, whose old
--                   payload would run over a newer success; else they are left
--                   out, and counted
-- Locks: none.
-- Answers: one row; problem null and doc {plan_id, count, jobs: [at most 200
-- of {job_id, kind, work_key, error, finished_at}], succeeded_since: {count,
-- job_ids: [at most 200]} (those left out on the way), truncated (more are
-- meant), expires_at (an hour from now)}.
-- Refuses: json-invalid, unknown-field, field-invalid.
create or replace function interlock.redrive_plan(
    p_tenant int, p_filter text, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    f        record;
    p        interlock.redrive_plans;
    v        record;
    v_jobs   json;
begin
    perform set_config('synchronous_commit', 'on', true);

    select * into f from interlock.redrive_filter(p_filter);
    if f.problem is not null then
        return query select f.problem, f.detail, null::text;
        return;
    end if;

    select * into v from interlock.redrive_sift(p_tenant,
        interlock.redrive_find(p_tenant, f.kind, f.work_key, f.error, f.since,
            f.until, f.job_ids, f.max + case when f.succeeded_since then 1
                else 50001 end), f.max, f.succeeded_since);

    insert into interlock.redrive_plans (tenant, expires_at, filter, count,
        requested_by, reason, token_id, token_name)
    values (p_tenant, clock_timestamp() + interval '1 hour', p_filter,
        cardinality(v.ids), p_requested_by, p_reason, p_token_id,
        p_token_name)
    returning * into p;

    insert into interlock.redrive_jobs (tenant, plan_id, n, job_id)
    select p_tenant, p.id, u.n, u.id
    from unnest(v.ids) with ordinality u (id, n);

    select json_agg(json_build_object('job_id', j.id, 'kind', j.kind,
            'work_key', j.work_key, 'error', j.error,
            'finished_at', interlock.ts(j.finished_at)) order by u.n)
    into v_jobs
    from unnest(v.ids[:200]) with ordinality u (id, n)
    cross join lateral (
        select x.* from interlock.jobs x
        where x.tenant = p_tenant and x.id = u.id
        limit 1) j;

    return query select null::text, null::text, json_build_object(
        'plan_id', p.id,
        'count', p.count,
        'jobs', coalesce(v_jobs, '[]'::json),
        'succeeded_since', json_build_object(
            'count', cardinality(v.left_out),
            'job_ids', v.left_out[:200]),
        'truncated', v.more,
        'expires_at', interlock.ts(p.expires_at))::text;
end
$$;

-- redrive(…): who: interlockd, POST /v1/redrive with plan_id, again and again
-- while remaining is above 0.
-- Acts on the next limit jobs of a plan: each that is still failed, and has no
-- later success (succeeded_since) unless the plan takes those too, is queued
-- again as job_decide's retry does; the others are skipped, each with its
-- reason.
-- Locks: the plan (FOR UPDATE), the works of these jobs in key order (FOR NO
-- KEY UPDATE, waiting), limit groups by name.
-- Answers: one row; problem null and doc {plan_id, count, redriven, skipped:
-- [{job_id, reason}]} for the plan as a whole; how many are still to be seen
-- to; the kinds of which jobs may start now or soon.  A plan that is done
-- answers the same again.
-- filter: null, or it must mean the same as the plan's.
-- Refuses: not-found; field-invalid (requested_by or reason missing, or the
-- filter is another one); json-invalid, unknown-field (of the filter);
-- plan-expired (409: it was never begun, and its time is over).
create or replace function interlock.redrive(
    p_tenant int, p_plan uuid, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_limit int,
    p_filter text default null)
returns table (problem text, detail text, doc text, remaining int,
    wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    p         interlock.redrive_plans;
    v_n       int[];
    v_id      uuid[];
    v_all     boolean;
    v_detail  text;
    v_kinds   text[] := '{}';
    v_groups  text[] := '{}';
    f         record;
    r         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_detail := interlock.who_trouble(p_requested_by, p_reason);
    if v_detail is not null then
        return query select 'field-invalid', v_detail, null::text, 0,
            '{}'::text[];
        return;
    end if;

    perform from interlock.redrive_plans x
    where x.tenant = p_tenant and x.id = p_plan for update;
    select * into p from interlock.redrive_plans x
    where x.tenant = p_tenant and x.id = p_plan;
    if not found then
        return query select 'not-found', 'no such plan', null::text, 0,
            '{}'::text[];
        return;
    end if;

    if p_filter is not null then
        select * into f from interlock.redrive_filter(p_filter);
        if f.problem is null and f is distinct from (
            select x from interlock.redrive_filter(p.filter) x)
        then
            f.problem := 'field-invalid';
            f.detail := '"filter" is not that of the plan';
        end if;
        if f.problem is not null then
            return query select f.problem, f.detail, null::text, 0,
                '{}'::text[];
            return;
        end if;
    end if;

    if p.expires_at <= clock_timestamp() and p.count > 0
        and not exists (
            select from interlock.redrive_jobs x
            where x.tenant = p_tenant and x.plan_id = p_plan
                and x.outcome is not null)
    then
        return query select 'plan-expired',
            'this plan was made more than an hour ago; make a new one',
            null::text, 0, '{}'::text[];
        return;
    end if;

    v_all := (interlock.redrive_filter(p.filter)).succeeded_since;
    update interlock.redrive_plans x
    set prune_at = clock_timestamp() + interlock.retain('slots')
    where x.tenant = p_tenant and x.id = p_plan;

    select array_agg(x.n order by x.n), array_agg(x.job_id order by x.n)
    into v_n, v_id
    from (select y.n, y.job_id from interlock.redrive_jobs y
          where y.tenant = p_tenant and y.plan_id = p_plan
              and y.outcome is null
          order by y.n limit greatest(p_limit, 1)) x;

    perform from (
        select distinct j.work_key
        from unnest(v_id) u (id)
        cross join lateral (
            select x.work_key from interlock.jobs x
            where x.tenant = p_tenant and x.id = u.id
            limit 1) j
        order by j.work_key) k
    cross join lateral (
        select from interlock.works w
        where w.tenant = p_tenant and w.work_key = k.work_key
        for no key update) w;

    for i in 1 .. coalesce(cardinality(v_n), 0) loop
        select * into r from interlock.redrive_one(p_tenant, v_id[i],
            v_all, json_build_object('plan_id', p_plan), p_requested_by, p_reason,
            p_token_id, p_token_name);
        update interlock.redrive_jobs x set outcome = r.outcome
        where x.tenant = p_tenant and x.plan_id = p_plan and x.n = v_n[i];
        v_groups := v_groups || r.groups;
        if r.runnable and r.kind <> all (v_kinds) then
            v_kinds := v_kinds || r.kind;
        end if;
    end loop;

    return query
    select null::text, null::text, json_build_object(
        'plan_id', p_plan,
        'count', p.count,
        'redriven', count(*) filter (where x.outcome = 'redriven'),
        'skipped', coalesce(json_agg(json_build_object('job_id', x.job_id,
            'reason', x.outcome) order by x.n)
            filter (where x.outcome <> 'redriven'), '[]'::json))::text,
        (count(*) filter (where x.outcome is null))::int,
        interlock.groups_wake(p_tenant, v_groups, v_kinds)
    from interlock.redrive_jobs x
    where x.tenant = p_tenant and x.plan_id = p_plan;
end
$$;

-- redrive_one(tenant, job, all, …): one job of a plan, whatever succeeded since
-- if all; the caller holds its work.
create or replace function interlock.redrive_one(
    p_tenant int, p_job uuid, p_all boolean, p_detail json, p_requested_by text,
    p_reason text, p_token_id bigint, p_token_name text,
    out outcome text, out runnable boolean, out groups text[],
    out kind text)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    j  interlock.jobs;
    r  record;
begin
    runnable := false;
    groups := '{}';

    select * into j from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_job;
    kind := j.kind;

    if j.status is distinct from 'failed' then
        outcome := coalesce('the job is ' || j.status, 'no such job');
        return;
    end if;

    if not p_all and interlock.job_succeeded_since(j) then
        outcome := 'succeeded_since';
        return;
    end if;

    select * into r from interlock.job_revive(j, clock_timestamp());
    if r.problem is not null then
        outcome := r.problem || ': ' || r.detail;
        return;
    end if;

    outcome := 'redriven';
    runnable := r.runnable;
    groups := r.groups;

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, detail, work_key)
    values (p_tenant, 'redrive', p_job::text, p_token_id, p_token_name,
        p_requested_by, p_reason, p_detail, j.work_key);
end
$$;

-- redrive_sift(tenant, ids, max, all): the first max of these jobs, without
-- those that succeeded since unless all; and those left out before these were
-- found.  more: there are others.  Locks: none.
create or replace function interlock.redrive_sift(
    p_tenant int, p_ids uuid[], p_max int, p_all boolean,
    out ids uuid[], out left_out uuid[], out more boolean)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_id  uuid;
    j     interlock.jobs;
begin
    ids := '{}';
    left_out := '{}';
    more := false;

    foreach v_id in array p_ids loop
        if not p_all then
            select * into j from interlock.jobs x
            where x.tenant = p_tenant and x.id = v_id;
            if interlock.job_succeeded_since(j) then
                left_out := left_out || v_id;
                more := cardinality(left_out) > 50000;
                exit when more;
                continue;
            end if;
        end if;

        more := cardinality(ids) = p_max;
        exit when more;
        ids := ids || v_id;
    end loop;
end
$$;

-- job_succeeded_since(j): has a later job of the key of this failed one
-- succeeded (a revision of a higher fence than its last attempt's)?  Then to
-- run it again would put what was asked for earlier in the place of what was
-- asked for later.  Not under allow and buffer_all, where each job is work of
-- its own.  Reads only.
--
-- The highest fence is among the newest revisions: back to the newest that an
-- attempt brought, for one key's attempts complete in the order of their
-- fences; or it is the published one's, where attempts were side by side.
create or replace function interlock.job_succeeded_since(j interlock.jobs)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_fence  bigint;
    r        record;
begin
    perform from interlock.kind_versions v
    where v.tenant = j.tenant and v.name = j.kind
        and v.version = j.kind_version
        and v.overlap in ('allow', 'buffer_all');
    if found then
        return false;
    end if;

    select a.fence into v_fence from interlock.attempts a
    where a.tenant = j.tenant and a.job_id = j.id
        and a.ended_at >= interlock.job_from(j.id)
    order by a.fence desc limit 1;
    v_fence := coalesce(v_fence, 0);

    for r in
        select x.fence, x.attempt_id from interlock.results x
        where x.tenant = j.tenant and x.work_key = j.work_key
        order by x.revision desc
    loop
        if r.fence > v_fence then
            return true;
        end if;
        exit when r.attempt_id is not null;
    end loop;

    return exists (
        select from interlock.works w
        cross join lateral (
            select x.fence from interlock.results x
            where x.tenant = w.tenant and x.work_key = w.work_key
                and x.revision = w.published_revision
            limit 1) y
        where w.tenant = j.tenant and w.work_key = j.work_key
            and y.fence > v_fence);
end
$$;

-- redrive_find(…): the failed jobs that a filter means, the oldest end first,
-- at most so many.  Locks: none.
create or replace function interlock.redrive_find(
    p_tenant int, p_kind text, p_key text, p_error text,
    p_since timestamptz, p_until timestamptz, p_ids uuid[], p_max int)
returns uuid[]
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    if p_ids is not null then
        return (
            select coalesce(array_agg(y.id), '{}')
            from (select j.id
                  from (select distinct u.id from unnest(p_ids) u (id)) u
                  cross join lateral (
                      select x.* from interlock.jobs x
                      where x.tenant = p_tenant and x.id = u.id
                      limit 1) j
                  where j.status = 'failed'
                      and (p_kind is null or j.kind = p_kind)
                      and (p_key is null or j.work_key = p_key)
                      and (p_error is null or strpos(j.error, p_error) > 0)
                      and (p_since is null or j.finished_at >= p_since)
                      and (p_until is null or j.finished_at < p_until)
                  order by j.finished_at, j.id
                  limit p_max) y);
    end if;

    if p_key is not null then
        return (
            select coalesce(array_agg(y.id), '{}')
            from (select j.id
                  from interlock.requests q
                  cross join lateral (
                      select x.* from interlock.jobs x
                      where x.tenant = q.tenant and x.id = q.id
                      limit 1) j
                  where q.tenant = p_tenant and q.work_key = p_key
                      and q.job_id = q.id and j.status = 'failed'
                      and (p_kind is null or j.kind = p_kind)
                      and (p_error is null or strpos(j.error, p_error) > 0)
                      and (p_since is null or j.finished_at >= p_since)
                      and (p_until is null or j.finished_at < p_until)
                  order by j.finished_at, j.id
                  limit p_max) y);
    end if;

    -- Kind by kind: the index of the failed ones is theirs.
    return (
        select coalesce(array_agg(y.id), '{}')
        from (select z.id
              from interlock.kinds k
              cross join lateral (
                  select j.id, j.finished_at from interlock.jobs_ended j
                  where j.tenant = p_tenant and j.kind = k.name
                      and j.status = 'failed'
                      and (p_error is null or strpos(j.error, p_error) > 0)
                      and j.finished_at >= coalesce(p_since, '-infinity')
                      and j.finished_at < coalesce(p_until, 'infinity')
                  order by j.finished_at, j.id
                  limit p_max) z
              where k.tenant = p_tenant
                  and (p_kind is null or k.name = p_kind)
              order by z.finished_at, z.id
              limit p_max) y);
end
$$;

-- redrive_filter(text): reads a filter; helper of redrive_plan.
create or replace function interlock.redrive_filter(
    p_filter text, out problem text, out detail text, out kind text,
    out work_key text, out error text, out since timestamptz,
    out until timestamptz, out job_ids uuid[], out max int,
    out succeeded_since boolean)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_json  json := interlock.json_object_of(p_filter);
    v_type  text;
    v_text  text;
    v_seen  text[] := '{}';
    r       record;
begin
    if v_json is null then
        problem := 'json-invalid';
        detail := 'a filter is a JSON object';
        return;
    end if;

    max := 10000;
    succeeded_since := false;
    problem := 'field-invalid';

    for r in select e.key, e.value from json_each(v_json) e loop
        v_type := json_typeof(r.value);
        v_text := r.value #>> '{}';

        if r.key = any (v_seen) then
            detail := format('"%s" occurs twice', left(r.key, 64));
            return;
        end if;
        v_seen := v_seen || r.key;

        if r.key in ('kind', 'work_key', 'error') then
            if v_type <> 'string' or v_text = ''
                or octet_length(v_text) > 2048
            then
                detail := format('"%s" must be a string of 1 to 2048 bytes',
                                 r.key);
                return;
            end if;
            if r.key = 'kind' then
                kind := v_text;
            elsif r.key = 'work_key' then
                work_key := v_text;
            else
                error := v_text;
            end if;
        elsif r.key in ('since', 'until') then
            if v_type <> 'string' or not interlock.is_rfc3339(v_text) then
                detail := format('"%s" must be a time (RFC 3339)', r.key);
                return;
            elsif r.key = 'since' then
                since := v_text::timestamptz;
            else
                until := v_text::timestamptz;
            end if;
        elsif r.key = 'max' then
            if v_type <> 'number' or v_text !~ '^[1-9][0-9]{0,4}$'
                or v_text::int > 10000
            then
                detail := '"max" must be a whole number from 1 to 10000';
                return;
            end if;
            max := v_text::int;
        elsif r.key = 'succeeded_since' then
            if v_type <> 'boolean' then
                detail := '"succeeded_since" must be true or false';
                return;
            end if;
            succeeded_since := v_text::boolean;
        elsif r.key = 'job_ids' then
            if v_type <> 'array' or json_array_length(r.value) > 10000
                or exists (
                    select from json_array_elements(r.value) x
                    where json_typeof(x) <> 'string' or x #>> '{}' !~*
                        '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
            then
                detail := '"job_ids" must be an array of at most 10000 ids';
                return;
            end if;
            select coalesce(array_agg(x::uuid), '{}') into job_ids
            from json_array_elements_text(r.value) x;
        else
            problem := 'unknown-field';
            detail := format('a filter has no field "%s"',
                             left(r.key, 64));
            return;
        end if;
    end loop;

    problem := null;
end
$$;

revoke all on function interlock.redrive_one(int, uuid, boolean, json, text,
    text, bigint, text) from public;
revoke all on function interlock.redrive_sift(int, uuid[], int, boolean)
    from public;
revoke all on function interlock.job_succeeded_since(interlock.jobs)
    from public;
revoke all on function interlock.redrive_find(int, text, text, text,
    timestamptz, timestamptz, uuid[], int) from public;
revoke all on function interlock.redrive_filter(text) from public;
revoke all on function interlock.redrive_plan(int, text, text, text, bigint,
    text) from public;
revoke all on function interlock.redrive(int, uuid, text, text, bigint, text,
    int, text) from public;
grant execute on function interlock.redrive_plan(int, text, text, text,
    bigint, text) to interlock_service;
grant execute on function interlock.redrive(int, uuid, text, text, bigint,
    text, int, text) to interlock_service;
