-- schedule_run(…): who: interlockd, POST /v1/schedules/{name}/run, again and
-- again with the same p_call while remaining is above 0.
-- Runs the works of one business date, of these subjects (null: all), by the
-- present definition, at once and beside the slots: it takes that date's work
-- keys, and no slot is thereby done or left out.  A paused schedule may be
-- run so.  Acts on the next limit works.
-- Locks: the plan that keeps it (FOR UPDATE), its schedule's row (FOR SHARE),
-- then as submit with p_wait.
-- Answers: one row; problem null and plan_doc's doc; how many works are still
-- to be seen to; the kinds of which jobs may start; the jobs that ended.
-- Refuses: field-invalid (requested_by, reason or date missing, a date after
-- today and after that of the next slot, an unknown subject, no slot on that
-- date whose time the work key names); not-found; plan-expired (its schedule
-- was changed before all of it was run).
create or replace function interlock.schedule_run(
    p_tenant int, p_name text, p_date date, p_subjects text[],
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
    v_plan    uuid := coalesce(p_call, interlock.new_id());
    v_detail  text;
    v         interlock.schedule_versions;
    t         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_detail := interlock.who_trouble(p_requested_by, p_reason);
    if not interlock.plan_there(p_tenant, v_plan, 'run') then
        v := interlock.schedule_newest(p_tenant, p_name, false);
        if v.name is null then
            return query select 'not-found', 'no such schedule', null::text,
                0, '{}'::text[], '{}'::uuid[];
            return;
        end if;

        v_detail := coalesce(v_detail, interlock.range_trouble(v, p_date,
            p_date, p_subjects), interlock.run_trouble(v, p_date));
        if v_detail is null then
            v_detail := interlock.plan_make(v, 'run', v_plan,
                json_build_object('date', p_date), p_date, p_date,
                p_subjects, p_requested_by, p_reason, p_token_id,
                p_token_name);
        end if;
        if v_detail is null then
            perform interlock.plan_noted(p_tenant, v_plan, p_requested_by,
                p_reason, p_token_id, p_token_name);
        end if;
    end if;

    if v_detail is not null then
        return query select 'field-invalid', v_detail, null::text, 0,
            '{}'::text[], '{}'::uuid[];
        return;
    end if;

    select * into t from interlock.plan_stale(p_tenant, v_plan);
    if t.problem is not null then
        return query select t.problem, t.detail, null::text, 0,
            '{}'::text[], '{}'::uuid[];
        return;
    end if;

    return query select null::text, null::text, a.doc, a.remaining,
        a.wake_kinds, a.ended_jobs
    from interlock.plan_act(p_tenant, v_plan, p_limit) a;
end
$$;

-- schedule_backfill_plan(…): who: interlockd, POST
-- /v1/schedules/{name}/backfill without plan_id.
-- Which works of a range of business dates, by the present definition, have
-- no result yet: stores the plan, runs nothing.  Dates without a slot have no
-- work, and what is still to come up is left to its slot.
-- Locks: none.
-- Answers: one row; problem null and doc {plan_id, schedule, from, to, count,
-- done (works that have their result already), works: [at most 200 of
-- {business_date, subject, work_key}], truncated, expires_at}.
-- Refuses: field-invalid (no range, an end before its start or in the future,
-- more than 3660 days or 100000 works, an unknown subject); not-found.
create or replace function interlock.schedule_backfill_plan(
    p_tenant int, p_name text, p_from date, p_to date, p_subjects text[],
    p_requested_by text, p_reason text, p_token_id bigint,
    p_token_name text)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_plan    uuid := interlock.new_id();
    v_detail  text;
    v         interlock.schedule_versions;
begin
    perform set_config('synchronous_commit', 'on', true);

    v := interlock.schedule_newest(p_tenant, p_name, false);
    if v.name is null then
        return query select 'not-found', 'no such schedule', null::text;
        return;
    end if;

    v_detail := interlock.range_trouble(v, p_from, p_to, p_subjects);
    if v_detail is null
        and p_to > interlock.slot_date(v, clock_timestamp())
    then
        v_detail := '"to" is in the future';
    end if;
    if v_detail is null then
        v_detail := interlock.plan_make(v, 'backfill', v_plan,
            json_build_object('from', p_from, 'to', p_to), p_from, p_to,
            p_subjects, p_requested_by, p_reason, p_token_id, p_token_name);
    end if;
    if v_detail is not null then
        return query select 'field-invalid', v_detail, null::text;
        return;
    end if;

    return query
    select null::text, null::text, json_build_object('plan_id', p.id,
        'schedule', p_name, 'from', p_from, 'to', p_to, 'count', p.count,
        'done', (p.detail ->> 'done')::int, 'works', coalesce((
            select json_agg(json_build_object(
                'business_date', x.business_date, 'subject', x.subject,
                'work_key', x.work_key) order by x.n)
            from interlock.schedule_plan_items x
            where x.tenant = p_tenant and x.plan_id = p.id
                and x.n <= 200), '[]'),
        'truncated', p.count > 200,
        'expires_at', interlock.ts(p.expires_at))::text
    from interlock.schedule_plans p
    where p.tenant = p_tenant and p.id = v_plan;
end
$$;

-- schedule_backfill(…): who: interlockd, POST /v1/schedules/{name}/backfill
-- with plan_id, again and again while remaining is above 0.
-- Acts on the next limit works of a plan; a plan that is done answers the
-- same again.
-- Locks and answers: as schedule_run.
-- Refuses: field-invalid (requested_by or reason missing); not-found (no such
-- plan, or its schedule was deleted); plan-expired (it was never begun, and
-- its hour is over, or its schedule was changed before all of it was done).
create or replace function interlock.schedule_backfill(
    p_tenant int, p_name text, p_plan uuid, p_requested_by text,
    p_reason text, p_token_id bigint, p_token_name text, p_limit int)
returns table (problem text, detail text, doc text, remaining int,
    wake_kinds text[], ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_problem  text;
    v_detail   text;
    p          interlock.schedule_plans;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_detail := interlock.who_trouble(p_requested_by, p_reason);
    if v_detail is not null then
        v_problem := 'field-invalid';
    else
        perform from interlock.schedule_plans x
        where x.tenant = p_tenant and x.id = p_plan for update;
        select * into p from interlock.schedule_plans x
        where x.tenant = p_tenant and x.id = p_plan
            and x.schedule = p_name and x.what = 'backfill';
        if not found then
            v_problem := 'not-found';
            v_detail := 'no such plan';
        else
            select x.problem, x.detail into v_problem, v_detail
            from interlock.plan_stale(p_tenant, p_plan) x;
            if v_problem is null and not interlock.plan_begun(p) then
                update interlock.schedule_plans x
                set requested_by = p_requested_by, reason = p_reason,
                    token_id = p_token_id, token_name = p_token_name
                where x.tenant = p_tenant and x.id = p_plan;
                perform interlock.plan_noted(p_tenant, p_plan,
                    p_requested_by, p_reason, p_token_id, p_token_name);
            end if;
        end if;
    end if;

    if v_problem is not null then
        return query select v_problem, v_detail, null::text, 0,
            '{}'::text[], '{}'::uuid[];
        return;
    end if;

    return query select null::text, null::text, a.doc, a.remaining,
        a.wake_kinds, a.ended_jobs
    from interlock.plan_act(p_tenant, p_plan, p_limit) a;
end
$$;

-- range_trouble(v, from, to, subjects): what is wrong with a range.
create or replace function interlock.range_trouble(
    v interlock.schedule_versions, p_from date, p_to date,
    p_subjects text[])
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_name  text := interlock.subjects_unknown(v, p_subjects);
begin
    return case
        when p_from is null or p_to is null
        then 'a business date is missing'
        when not isfinite(p_from) or not isfinite(p_to)
            or p_from < date '1900-01-01' or p_to > date '2999-12-31'
        then 'a business date must be from 1900-01-01 to 2999-12-31'
        when p_to < p_from then '"to" is before "from"'
        when p_to - p_from >= 3660 then 'a range has at most 3660 days'
        when p_subjects = '{}' then '"subjects" names nobody'
        when v_name is not null
        then format('"subjects": the schedule has no "%s"',
                    left(v_name, 64)) end;
end
$$;

-- run_trouble(v, date): what is wrong with a date that is to be run.  The next
-- slot's may be, and any until today.
create or replace function interlock.run_trouble(
    v interlock.schedule_versions, p_date date)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_now   timestamptz := clock_timestamp();
    v_next  timestamptz;
begin
    if p_date <= interlock.slot_date(v, v_now) then
        return null;
    end if;

    v_next := interlock.schedule_next(v, v_now);
    return case when v_next is null
            or p_date > interlock.slot_date(v, v_next)
        then '"date" is in the future, and beyond the next slot''s' end;
end
$$;

-- plan_stale(tenant, plan): why a plan may not be acted on any more, while
-- something of it is left to do: nobody began it within its hour, or what was
-- planned is not what its schedule means now.
-- Locks: the plan (FOR UPDATE), its schedule's row (FOR SHARE).
create or replace function interlock.plan_stale(
    p_tenant int, p_plan uuid, out problem text, out detail text)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    p  interlock.schedule_plans;
    s  interlock.schedules;
begin
    perform from interlock.schedule_plans x
    where x.tenant = p_tenant and x.id = p_plan for update;
    select * into strict p from interlock.schedule_plans x
    where x.tenant = p_tenant and x.id = p_plan;

    perform from interlock.schedules x
    where x.tenant = p_tenant and x.name = p.schedule for share;
    select * into strict s from interlock.schedules x
    where x.tenant = p_tenant and x.name = p.schedule;

    if interlock.plan_begun(p) then
        perform from interlock.schedule_plan_items x
        where x.tenant = p_tenant and x.plan_id = p_plan
            and x.outcome is null
        limit 1;
        if not found then
            return;    -- it is done, and says so again
        end if;
    elsif p.expires_at <= clock_timestamp() then
        problem := 'plan-expired';
        detail := 'this plan was made more than an hour ago; make a new one';
        return;
    end if;

    if s.deleted then
        problem := 'not-found';
        detail := 'the schedule was deleted since this plan was made';
    elsif s.version <> p.version then
        problem := 'plan-expired';
        detail := 'the schedule was changed since this plan was made; make '
            'a new one';
    end if;
end
$$;

-- plan_there(tenant, plan, what): is there such a plan?
create or replace function interlock.plan_there(
    p_tenant int, p_plan uuid, p_what text)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return exists (
        select from interlock.schedule_plans x
        where x.tenant = p_tenant and x.id = p_plan and x.what = p_what);
end
$$;

-- plan_begun(p): has somebody acted on it?
create or replace function interlock.plan_begun(p interlock.schedule_plans)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return exists (
        select from interlock.actions a
        where a.tenant = p.tenant and a.call_id = p.id);
end
$$;

-- plan_make(v, what, id, detail, from, to, subjects, who): stores a plan of
-- the works of a range; of a backfill without those that are done, or whose
-- slots are not accounted for yet, and will fire themselves.  Answers
-- what is wrong with it, as a sentence, and then has stored nothing.
create or replace function interlock.plan_make(
    v interlock.schedule_versions, p_what text, p_id uuid, p_detail json,
    p_from date, p_to date, p_subjects text[], p_requested_by text,
    p_reason text, p_token_id bigint, p_token_name text)
returns text
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    d       date := p_from;
    v_n     int := 0;
    v_done  int := 0;
    v_all   int := 0;
    v_many  text := 'these are more than 100000 works; take a smaller range, '
                    'or some "subjects"';
    v_alone  boolean;
    v_to    timestamptz := (
        select s.scanned_to from interlock.schedules s
        where s.tenant = v.tenant and s.name = v.name);
    r       record;
begin
    if interlock.works_least(v, p_from, p_to, p_subjects) > 100000 then
        return v_many;
    end if;

    insert into interlock.schedule_plans (tenant, id, what, schedule,
        version, expires_at, count, detail, requested_by, reason, token_id,
        token_name)
    values (v.tenant, p_id, p_what, v.name, v.version,
        clock_timestamp() + interval '1 hour', 0, p_detail, p_requested_by,
        p_reason, p_token_id, p_token_name)
    on conflict do nothing;
    if not found then
        return null;    -- the same call made it just now
    end if;

    while d <= p_to and v_all <= 100000 loop
        v_alone := interlock.slots_alone(v, d);
        with w as materialized (
            select x.*, row_number() over () as i,
                p_what = 'backfill' and k.done and case
                    when coalesce(v_alone, count(*) over (
                        partition by x.work_key) = 1) and not k.other
                    then true
                    else interlock.date_done(v, d, x.slot_at, x.subject,
                                             x.work_key) end as done
            from interlock.date_works(v, d, p_subjects, 100001 - v_all) x
            left join lateral (
                select y.published_revision is not null as done, exists (
                    select from interlock.slots z
                    where z.tenant = v.tenant and z.work_key = x.work_key
                        and z.schedule = v.name and z.slot_at <> x.slot_at)
                    as other
                from interlock.works y
                where y.tenant = v.tenant and y.work_key = x.work_key
                limit 1) k on p_what = 'backfill'
            where p_what <> 'backfill' or x.slot_at <= v_to),
        ins as (
            insert into interlock.schedule_plan_items (tenant, plan_id, n,
                business_date, slot_at, subject, work_key, again)
            select v.tenant, p_id, v_n + row_number() over (order by w.i), d,
                w.slot_at, w.subject, w.work_key, false
            from w where w.done is not true)
        select count(*) as n, count(*) filter (where w.done) as done into r
        from w;
        v_n := v_n + r.n - r.done;
        v_done := v_done + r.done;
        v_all := v_all + r.n;
        d := d + 1;
    end loop;

    if v_all > 100000 or (v_all = 0 and p_what = 'run') then
        delete from interlock.schedule_plan_items x
        where x.tenant = v.tenant and x.plan_id = p_id;
        delete from interlock.schedule_plans x
        where x.tenant = v.tenant and x.id = p_id;
        return case when v_all > 100000 then v_many
            else format('%s has no slot, whose time the work key names',
                        p_from) end;
    end if;

    update interlock.schedule_plans x
    set count = v_n,
        detail = (p_detail::jsonb || jsonb_build_object('done', v_done))::json
    where x.tenant = v.tenant and x.id = p_id;
    return null;
end
$$;

-- slots_alone(v, date): has each slot of a date a work key that no other slot
-- of the schedule has (slot_alone)?  Null: it has, unless another one of the
-- same date has it.
create or replace function interlock.slots_alone(
    v interlock.schedule_versions, p_date date)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return case
        when strpos(v.work_key, '{slot}') > 0 then true
        when strpos(v.work_key, '{date}') = 0 then false
        when interlock.slots_timed(v) then null
        else interlock.slot_alone(v, interlock.date_first(v, p_date))
        end;
end
$$;

-- plan_noted(tenant, plan, …): the action that a plan's first step is; its
-- call is the plan, so that there is one.  From now on it is kept (prune).
create or replace function interlock.plan_noted(
    p_tenant int, p_plan uuid, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, detail, call_id)
    select p_tenant, 'schedule_' || p.what, p.schedule, p_token_id,
        p_token_name, p_requested_by, p_reason, (p.detail::jsonb
            || jsonb_build_object('plan_id', p.id, 'count', p.count))::json,
        p.id
    from interlock.schedule_plans p
    where p.tenant = p_tenant and p.id = p_plan
    on conflict do nothing;

    update interlock.schedule_plans x
    set prune_at = clock_timestamp() + interlock.retain('slots')
    where x.tenant = p_tenant and x.id = p_plan;
end
$$;

revoke all on function interlock.range_trouble(interlock.schedule_versions,
    date, date, text[]) from public;
revoke all on function interlock.run_trouble(interlock.schedule_versions,
    date) from public;
revoke all on function interlock.plan_stale(int, uuid) from public;
revoke all on function interlock.plan_there(int, uuid, text) from public;
revoke all on function interlock.plan_begun(interlock.schedule_plans)
    from public;
revoke all on function interlock.plan_make(interlock.schedule_versions, text,
    uuid, json, date, date, text[], text, text, bigint, text) from public;
revoke all on function interlock.slots_alone(interlock.schedule_versions,
    date) from public;
revoke all on function interlock.plan_noted(int, uuid, text, text, bigint,
    text) from public;
revoke all on function interlock.schedule_run(int, text, date, text[], text,
    text, bigint, text, uuid, int) from public;
revoke all on function interlock.schedule_backfill_plan(int, text, date,
    date, text[], text, text, bigint, text) from public;
revoke all on function interlock.schedule_backfill(int, text, uuid, text,
    text, bigint, text, int) from public;
grant execute on function interlock.schedule_run(int, text, date, text[],
    text, text, bigint, text, uuid, int) to interlock_service;
grant execute on function interlock.schedule_backfill_plan(int, text, date,
    date, text[], text, text, bigint, text) to interlock_service;
grant execute on function interlock.schedule_backfill(int, text, uuid, text,
    text, bigint, text, int) to interlock_service;
