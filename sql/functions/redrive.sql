-- redrive_plan(…): who: interlockd, POST /v1/redrive without plan_id.
-- Which failed jobs (dead letters) a filter means, and how many: stores the
-- plan, changes no job.  redrive then acts on just those.
-- filter is a JSON object; what it names must all hold:
--   kind, work_key  as they are       error         a part of jobs.error
--   since, until    of the job's end  job_ids       just these
--   max             at most so many, the oldest first (1 to 10000, and that is
--                   the default)
-- Locks: none.
-- Answers: one row; problem null and doc {plan_id, count, jobs: [at most 200
-- of {job_id, kind, work_key, error, finished_at}], truncated (there are more
-- than max), expires_at (an hour from now)}.
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
    v_ids    uuid[];
    v_more   boolean;
    v_jobs   json;
begin
    perform set_config('synchronous_commit', 'on', true);

    select * into f from interlock.redrive_filter(p_filter);
    if f.problem is not null then
        return query select f.problem, f.detail, null::text;
        return;
    end if;

    v_ids := interlock.redrive_find(p_tenant, f.kind, f.work_key, f.error,
        f.since, f.until, f.job_ids, f.max + 1);
    v_more := cardinality(v_ids) > f.max;
    v_ids := v_ids[:f.max];

    insert into interlock.redrive_plans (tenant, expires_at, filter, count,
        requested_by, reason, token_id, token_name)
    values (p_tenant, clock_timestamp() + interval '1 hour', p_filter,
        cardinality(v_ids), p_requested_by, p_reason, p_token_id,
        p_token_name)
    returning * into p;

    insert into interlock.redrive_jobs (tenant, plan_id, n, job_id)
    select p_tenant, p.id, u.n, u.id
    from unnest(v_ids) with ordinality u (id, n);

    select json_agg(json_build_object('job_id', j.id, 'kind', j.kind,
            'work_key', j.work_key, 'error', j.error,
            'finished_at', interlock.ts(j.finished_at)) order by u.n)
    into v_jobs
    from unnest(v_ids[:200]) with ordinality u (id, n)
    cross join lateral (
        select x.* from interlock.jobs x
        where x.tenant = p_tenant and x.id = u.id
        limit 1) j;

    return query select null::text, null::text, json_build_object(
        'plan_id', p.id,
        'count', p.count,
        'jobs', coalesce(v_jobs, '[]'::json),
        'truncated', v_more,
        'expires_at', interlock.ts(p.expires_at))::text;
end
$$;

-- redrive(…): who: interlockd, POST /v1/redrive with plan_id, again and again
-- while remaining is above 0.
-- Acts on the next limit jobs of a plan: each that is still failed is queued
-- again as job_decide's retry does, the others are skipped, each with its
-- reason.
-- Locks: the plan (FOR UPDATE), the works of these jobs in key order (FOR NO
-- KEY UPDATE, waiting), limit groups by name.
-- Answers: one row; problem null and doc {plan_id, count, redriven, skipped:
-- [{job_id, reason}]} for the plan as a whole; how many are still to be seen
-- to; the kinds of which jobs may start now or soon.  A plan that is done
-- answers the same again.
-- Refuses: not-found; field-invalid (requested_by or reason missing);
-- plan-expired (409: it was never begun, and its time is over).
create or replace function interlock.redrive(
    p_tenant int, p_plan uuid, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_limit int)
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
    v_detail  text;
    v_kinds   text[] := '{}';
    v_groups  text[] := '{}';
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
            json_build_object('plan_id', p_plan), p_requested_by, p_reason,
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

-- redrive_one(tenant, job, …): one job of a plan; the caller holds its work.
create or replace function interlock.redrive_one(
    p_tenant int, p_job uuid, p_detail json, p_requested_by text,
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
                  select j.id, j.finished_at from interlock.jobs j
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
    out until timestamptz, out job_ids uuid[], out max int)
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

revoke all on function interlock.redrive_one(int, uuid, json, text, text,
    bigint, text) from public;
revoke all on function interlock.redrive_find(int, text, text, text,
    timestamptz, timestamptz, uuid[], int) from public;
revoke all on function interlock.redrive_filter(text) from public;
revoke all on function interlock.redrive_plan(int, text, text, text, bigint,
    text) from public;
revoke all on function interlock.redrive(int, uuid, text, text, bigint, text,
    int) from public;
grant execute on function interlock.redrive_plan(int, text, text, text,
    bigint, text) to interlock_service;
grant execute on function interlock.redrive(int, uuid, text, text, bigint,
    text, int) to interlock_service;
