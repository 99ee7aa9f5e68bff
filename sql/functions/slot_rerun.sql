-- slot_rerun.sql: what a rerun of a business date (or of one slot) of a
-- schedule would meet and do, and the rerun.

-- slot_when(tenant, name, date): reads what the path names: a business date
-- (YYYY-MM-DD), or a slot's time (RFC 3339).
create or replace function interlock.slot_when(
    p_tenant int, p_name text, p_date text, out problem text,
    out detail text, out day date, out at timestamptz)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v  interlock.schedule_versions;
begin
    v := interlock.schedule_newest(p_tenant, p_name, true);
    if v.name is null then
        problem := 'not-found';
        detail := 'no such schedule';
        return;
    end if;

    if p_date ~ '^\d{4}-\d\d-\d\d$'
        and interlock.is_rfc3339(p_date || 'T00:00:00Z')
    then
        day := p_date::date;
    elsif interlock.is_rfc3339(p_date) then
        at := p_date::timestamptz;
        select s.business_date into day from interlock.slots s
        where s.tenant = p_tenant and s.schedule = p_name
            and s.slot_at = at
        limit 1;
        day := coalesce(day, interlock.slot_date(v, at));
    else
        problem := 'field-invalid';
        detail := 'a slot is named by its business date (YYYY-MM-DD) or its '
            'time (RFC 3339)';
    end if;
end
$$;

-- slot_impact(tenant, name, date): who: interlockd, GET
-- /v1/schedules/{name}/slots/{date}/impact.  date: see slot_when.
-- Locks: none.
-- Answers: one row; problem null and doc {impact_id (a digest of how each work
-- stands), schedule, business_date, slots (how many times), subjects (how
-- many works), succeeded, failed, missing, active, not_due (works, beside
-- these, whose slots are still to come up), reached_outside (confirmed
-- effects of all of them), unsettled (those that may have happened), works:
-- [at most 200 of {subject, work_key, state, job_id, error, reached_outside},
-- the failed and missing first], truncated, would_do: {failed, missing, all:
-- {works, reached_outside}, which are not sent again}}.
-- Refuses: not-found (no such schedule, or nothing on that date);
-- field-invalid.
create or replace function interlock.slot_impact(
    p_tenant int, p_name text, p_date text)
returns table (problem text, detail text, doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    w  record;
    d  record;
begin
    select * into w from interlock.slot_when(p_tenant, p_name, p_date);
    if w.problem is not null then
        return query select w.problem, w.detail, null::text;
        return;
    end if;

    select * into d from interlock.slot_impact_of(p_tenant, p_name, w.day,
                                                  w.at);
    if d.doc is null then
        return query select 'not-found', 'there is no slot on that date',
            null::text;
        return;
    end if;

    return query select null::text, null::text, d.doc;
end
$$;

-- slot_impact_of(tenant, name, day, at): slot_impact's doc, and its id; nulls
-- if there is no work.
create or replace function interlock.slot_impact_of(
    p_tenant int, p_name text, p_day date, p_at timestamptz, out doc text,
    out id text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    r  record;
begin
    select count(*) as n, count(distinct x.slot_at) filter (
            where x.state <> 'not_due') as slots,
        count(*) filter (where x.state = 'not_due') as not_due,
        count(*) filter (where x.state = 'succeeded') as succeeded,
        count(*) filter (where x.state = 'failed') as failed,
        count(*) filter (where x.state = 'missing') as missing,
        count(*) filter (where x.state = 'active') as active,
        sum(x.confirmed) as confirmed, sum(x.unsettled) as unsettled,
        coalesce(sum(x.confirmed) filter (where x.state = 'failed'), 0)
            as failed_out,
        coalesce(sum(x.confirmed) filter (where x.state = 'missing'), 0)
            as missing_out,
        coalesce(sum(x.confirmed) filter (where x.state not in ('active',
            'not_due')), 0) as all_out,
        encode(sha256(convert_to(coalesce(string_agg(concat_ws('/',
            x.work_key, x.state, x.job_id, x.confirmed, x.unsettled), E'\n'
            order by x.work_key) filter (where x.state <> 'not_due'), ''),
            'UTF8')), 'hex') as id,
        json_agg(json_build_object('subject', x.subject,
            'work_key', x.work_key, 'state', x.state, 'job_id', x.job_id,
            'error', x.error, 'reached_outside', x.confirmed)
            order by x.rank) filter (where x.rank <= 200) as works
    into r
    from (select y.*, row_number() over (order by array_position(
              array['failed', 'missing', 'active', 'succeeded', 'not_due'],
              y.state),
              y.subject, y.work_key) as rank
          from interlock.slot_works(p_tenant, p_name, p_day, p_at) y) x;

    if r.n = 0 then
        return;
    end if;

    id := r.id;
    doc := json_build_object('impact_id', r.id, 'schedule', p_name,
        'business_date', p_day, 'slots', r.slots,
        'subjects', r.n - r.not_due,
        'succeeded', r.succeeded, 'failed', r.failed, 'missing', r.missing,
        'active', r.active, 'not_due', r.not_due,
        'reached_outside', r.confirmed,
        'unsettled', r.unsettled, 'works', r.works,
        'truncated', r.n > 200, 'would_do', json_build_object(
            'failed', json_build_object('works', r.failed,
                'reached_outside', r.failed_out),
            'missing', json_build_object('works', r.missing,
                'reached_outside', r.missing_out),
            'all', json_build_object('works', r.n - r.active - r.not_due,
                'reached_outside', r.all_out)))::text;
end
$$;

-- slot_rerun(…): who: interlockd, POST
-- /v1/schedules/{name}/slots/{date}/rerun, again and again with the same
-- p_call while remaining is above 0.
-- Runs works of a business date, if its impact is still the one that was
-- shown: only failed ones again, only missing ones for the first time, or all
-- that are not active; never one whose slot is still to come up.  What is run
-- again is a rerun of its newest job, so that what it confirmed is not sent
-- again.  Each is judged anew.  Their slots follow, whatever they waited for.
-- Of two with one impact, the second is refused.  Acts on the next limit works.
-- Locks: the plan that keeps it (FOR UPDATE, or inserted), the schedule's row
-- (FOR NO KEY UPDATE), then as submit with p_wait, or as work_rerun.
-- Answers: as schedule_run.
-- Refuses: field-invalid (requested_by, reason, impact_id or only missing);
-- not-found; impact-changed; field-invalid for more than 100000 works.
create or replace function interlock.slot_rerun(
    p_tenant int, p_name text, p_date text, p_only text, p_impact_id text,
    p_requested_by text, p_reason text, p_token_id bigint,
    p_token_name text, p_call uuid, p_limit int)
returns table (problem text, detail text, doc text, remaining int,
    wake_kinds text[], ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_plan  uuid := coalesce(p_call, interlock.new_id());
    t       record;
begin
    perform set_config('synchronous_commit', 'on', true);

    if not interlock.plan_there(p_tenant, v_plan, 'rerun') then
        select * into t from interlock.slot_rerun_plan(p_tenant, p_name,
            p_date, p_only, p_impact_id, v_plan, p_requested_by, p_reason,
            p_token_id, p_token_name);
        if t.problem is not null then
            return query select t.problem, t.detail, null::text, 0,
                '{}'::text[], '{}'::uuid[];
            return;
        end if;
    end if;

    return query select null::text, null::text, a.doc, a.remaining,
        a.wake_kinds, a.ended_jobs
    from interlock.plan_act(p_tenant, v_plan, p_limit) a;
end
$$;

-- slot_rerun_plan(…): the plan of a slot_rerun, or why there is none.
create or replace function interlock.slot_rerun_plan(
    p_tenant int, p_name text, p_date text, p_only text, p_impact_id text,
    p_plan uuid, p_requested_by text, p_reason text, p_token_id bigint,
    p_token_name text, out problem text, out detail text)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_n        int;
    v_version  int;
    w          record;
begin
    detail := interlock.who_trouble(p_requested_by, p_reason);
    if detail is null and coalesce(p_only, '') not in ('failed', 'missing',
                                                       'all')
    then
        detail := '"only" must be one of failed, missing, all';
    elsif detail is null and p_impact_id is null then
        detail := '"impact_id" is missing: the one that the impact was '
            'shown with';
    end if;
    if detail is not null then
        problem := 'field-invalid';
        return;
    end if;

    select * into w from interlock.slot_when(p_tenant, p_name, p_date);
    problem := w.problem;
    detail := w.detail;
    if problem is not null then
        return;
    end if;

    insert into interlock.schedule_plans (tenant, id, what, schedule,
        version, expires_at, count, detail, requested_by, reason, token_id,
        token_name)
    values (p_tenant, p_plan, 'rerun', p_name, 1, clock_timestamp(), 0,
        json_build_object('date', w.day, 'slot_at', interlock.ts(w.at),
            'only', p_only, 'impact_id', p_impact_id),
        p_requested_by, p_reason, p_token_id, p_token_name)
    on conflict do nothing;
    if not found then
        return;    -- the same call made it just now
    end if;

    -- One after the other, so that the second sees what the first did.
    perform from interlock.schedules s
    where s.tenant = p_tenant and s.name = p_name for no key update;

    select x.problem, x.detail into problem, detail
    from interlock.rerun_stale(p_tenant, p_name, w.day, w.at, p_impact_id)
        x;
    if problem is not null then
        delete from interlock.schedule_plans p
        where p.tenant = p_tenant and p.id = p_plan;
        return;
    end if;

    with x as (
        select y.*, row_number() over (order by y.state <> 'missing',
            y.subject, y.work_key) as n
        from interlock.slot_works(p_tenant, p_name, w.day, w.at) y
        where y.state = p_only or (p_only = 'all'
            and y.state not in ('active', 'not_due'))),
    ins as (
        insert into interlock.schedule_plan_items (tenant, plan_id, n,
            business_date, slot_at, subject, work_key, again, version,
            rerun_of)
        select p_tenant, p_plan, x.n, w.day, x.slot_at, x.subject,
            x.work_key, x.state <> 'missing', x.version, x.repeats
        from x)
    select count(*), max(x.version) into v_n, v_version from x;

    update interlock.schedule_plans p
    set count = v_n, version = coalesce(v_version, p.version)
    where p.tenant = p_tenant and p.id = p_plan;
    perform interlock.plan_noted(p_tenant, p_plan, p_requested_by, p_reason,
        p_token_id, p_token_name);
end
$$;

-- rerun_stale(tenant, name, day, at, impact_id): why what was seen is not so any
-- more.  A rerun with that impact that is not at its end yet counts, too.
create or replace function interlock.rerun_stale(
    p_tenant int, p_name text, p_day date, p_at timestamptz,
    p_impact_id text, out problem text, out detail text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    d  record;
begin
    select * into d from interlock.slot_impact_of(p_tenant, p_name, p_day,
                                                  p_at);
    if d.id is null then
        problem := 'not-found';
        detail := 'there is no slot on that date';
    elsif d.id <> p_impact_id then
        problem := 'impact-changed';
        detail := 'something has happened since the impact was shown; look '
            'at it again';
    elsif exists (
        select from interlock.schedule_plans p
        cross join lateral (
            select from interlock.schedule_plan_items i
            where i.tenant = p.tenant and i.plan_id = p.id
                and i.outcome is null
            limit 1) i
        where p.tenant = p_tenant and p.schedule = p_name
            and p.what = 'rerun' and p.count > 0
            and p.detail ->> 'impact_id' = p_impact_id)
    then
        problem := 'impact-changed';
        detail := 'a rerun with this impact is under way';
    end if;
end
$$;

revoke all on function interlock.slot_when(int, text, text) from public;
revoke all on function interlock.slot_impact_of(int, text, date,
    timestamptz) from public;
revoke all on function interlock.slot_rerun_plan(int, text, text, text, text,
    uuid, text, text, bigint, text) from public;
revoke all on function interlock.rerun_stale(int, text, date, timestamptz,
    text) from public;
revoke all on function interlock.slot_impact(int, text, text) from public;
revoke all on function interlock.slot_rerun(int, text, text, text, text,
    text, text, bigint, text, uuid, int) from public;
grant execute on function interlock.slot_impact(int, text, text)
    to interlock_service;
grant execute on function interlock.slot_rerun(int, text, text, text, text,
    text, text, bigint, text, uuid, int) to interlock_service;
