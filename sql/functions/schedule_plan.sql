-- schedule_plan.sql: works of a schedule that somebody wants beside its
-- slots; helpers of schedule_run, schedule_backfill and slot_rerun.

-- date_works(v, date, subjects, max): the works of a business date: one for
-- each subject, or one for each slot of it too if slots have keys of their
-- own; in that order, and not many more than max are looked at.
-- slot_at is null if the date has no slot; timed schedules then have no work
-- of it.  subjects null: all.  Locks: none.
create or replace function interlock.date_works(
    v interlock.schedule_versions, p_date date, p_subjects text[],
    p_max int default null)
returns table (slot_at timestamptz, subject text, work_key text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_slots  timestamptz[];
begin
    v_slots := case when interlock.slots_timed(v)
        then interlock.date_slots(v, p_date)
        else array[interlock.date_first(v, p_date)] end;
    if p_max is not null then
        v_slots := v_slots[:1 + p_max
            / greatest(1, interlock.subjects_count(v, p_subjects))];
    end if;

    -- What a subject or a time is in a key is found once for all of its works.
    return query
    with s as materialized (
        select u.n, u.at, interlock.slot_fill(v, p_date, u.at, v.work_key)
            as key
        from unnest(v_slots) with ordinality u (at, n)),
    e as materialized (
        select x.n, x.subject, interlock.key_encode(x.subject) as word
        from interlock.schedule_subjects x
        where x.tenant = v.tenant and x.name = v.name and x.list = v.list
            and (p_subjects is null or x.subject = any (p_subjects)))
    select s.at, e.subject, replace(s.key, '{subject}', e.word)
    from s cross join e
    order by s.n, e.n
    limit p_max;
end
$$;

-- slots_timed(v): is each slot of a date work of its own?
create or replace function interlock.slots_timed(
    v interlock.schedule_versions)
returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select (v).work_key || (v).payload ~ '\{(time|slot)\}'
$$;

-- subjects_count(v, subjects): how many these are; null: all of them.
create or replace function interlock.subjects_count(
    v interlock.schedule_versions, p_subjects text[])
returns int
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case when p_subjects is null then (v).subjects
        else (select count(distinct x)::int from unnest(p_subjects) x) end
$$;

-- works_least(v, from, to, subjects): at least so many works has a range of
-- business dates; of long ones not many less.  Looks at no slot of a day on
-- which no clock moves.
create or replace function interlock.works_least(
    v interlock.schedule_versions, p_from date, p_to date,
    p_subjects text[])
returns bigint
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    -- Whole days of the wall clock that are within it, whatever comes at
    -- either end.
    v_first  date := greatest(p_from - v.date_offset,
                         (v.start_at at time zone v.zone)::date) + 1;
    v_last   date := least(p_to - v.date_offset,
                         (v.end_at at time zone v.zone)::date) - 1;
    v_n      bigint;
begin
    if v_last < v_first then
        return 0;
    elsif interlock.slots_timed(v) then
        v_n := interlock.cron_count(v.masks, v.zone,
            (v_first::timestamp at time zone v.zone)
                - interval '1 microsecond',
            ((v_last + 1)::timestamp at time zone v.zone)
                - interval '1 microsecond', v.gap, v.fold);
    else
        select count(*) into v_n
        from generate_series(0, v_last - v_first) x
        where interlock.cron_on(v.masks, v_first + x)
            and interlock.day_offset(v.zone, v_first + x) is not null;
    end if;

    return v_n * interlock.subjects_count(v, p_subjects);
end
$$;

-- subjects_unknown(v, subjects): the first that the schedule has not.
create or replace function interlock.subjects_unknown(
    v interlock.schedule_versions, p_subjects text[])
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (
        select u.s from unnest(p_subjects) u (s)
        where u.s is null or u.s not in (
            select x.subject from interlock.schedule_subjects x
            where x.tenant = v.tenant and x.name = v.name
                and x.list = v.list)
        limit 1);
end
$$;

-- plan_act(tenant, plan, limit): acts on the next works of a plan, at most
-- limit of them.  What has no job yet is submitted like any request; what has
-- one runs again (work_again).  A refusal that is not a work's own (its kind or
-- the tenant has no room) is that of the rest, too, which then is not tried.
-- Locks: the plan (FOR UPDATE), for a rerun its schedule's row (FOR NO KEY
-- UPDATE), then as submit with p_wait, or the works of these items in key
-- order, queue_looks, limit groups.
-- Answers: the plan's doc, how many works are still to be seen to, the kinds
-- of which jobs may start, and the jobs that ended.
create or replace function interlock.plan_act(
    p_tenant int, p_plan uuid, p_limit int, out doc text, out remaining int,
    out wake_kinds text[], out ended_jobs uuid[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    p        interlock.schedule_plans;
    v_items  interlock.schedule_plan_items[];
    r        record;
begin
    wake_kinds := '{}';
    ended_jobs := '{}';

    perform from interlock.schedule_plans x
    where x.tenant = p_tenant and x.id = p_plan for update;
    select * into strict p from interlock.schedule_plans x
    where x.tenant = p_tenant and x.id = p_plan;

    -- Of one sort a call: each sort locks in an order of its own.
    select array_agg(x) into v_items
    from (select y.* from interlock.schedule_plan_items y
          where y.tenant = p_tenant and y.plan_id = p_plan
              and y.outcome is null
              and y.again = (
                  select z.again from interlock.schedule_plan_items z
                  where z.tenant = p_tenant and z.plan_id = p_plan
                      and z.outcome is null
                  order by z.n limit 1)
          order by y.n
          limit greatest(p_limit, 1)) x;

    if v_items is not null then
        if p.what = 'rerun' then
            perform from interlock.schedules s
            where s.tenant = p_tenant and s.name = p.schedule
            for no key update;
        end if;

        if v_items[1].again then
            select * into r from interlock.plan_again(p, v_items);
        else
            select * into r from interlock.plan_submit(p, v_items);
        end if;
        wake_kinds := r.wake_kinds;
        ended_jobs := r.ended_jobs;

        if p.what = 'rerun' then
            perform interlock.plan_slots(p, v_items[1].n,
                v_items[cardinality(v_items)].n);
        end if;
    end if;

    select x.doc, x.remaining into doc, remaining
    from interlock.plan_doc(p) x;
end
$$;

-- plan_submit(p, items): submits works that have no job yet.  What got its
-- result meanwhile stays as it is, unless somebody wants just this date run.
create or replace function interlock.plan_submit(
    p interlock.schedule_plans, p_items interlock.schedule_plan_items[],
    out wake_kinds text[], out ended_jobs uuid[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_go    interlock.schedule_plan_items[] := '{}';
    v_ans   interlock.submit_answer[];
    v_i     int := 0;
    v_kind  text;
    v_none  text[] := '{}';     -- kinds that have no room; '': nobody has
    i       interlock.schedule_plan_items;
    a       interlock.submit_answer;
begin
    wake_kinds := '{}';
    ended_jobs := '{}';

    foreach i in array p_items loop
        if p.what <> 'run' and interlock.item_done(p, i) then
            perform interlock.plan_outcome(i, 'done already', null);
        else
            v_go := v_go || i;
        end if;
    end loop;

    select interlock.works_submit(array_agg(p.tenant), case p.what
            when 'run' then 'schedule' else p.what end,
        array_agg(null::text), array_agg(v.kind), array_agg(x.work_key),
        array_agg(interlock.slot_payload(interlock.slot_fill(v,
            x.business_date, x.slot_at, v.payload), x.subject)),
        array_agg(v.priority), array_agg(null::timestamptz),
        array_agg(p.requested_by), array_agg(p.reason))
    into v_ans
    from unnest(v_go) x
    cross join lateral interlock.schedule_version(p.tenant, p.schedule,
        coalesce(x.version, p.version)) v;

    foreach i in array v_go loop
        v_i := v_i + 1;
        a := v_ans[v_i];
        perform interlock.plan_outcome(i, case
            when a.outcome = 'problem' then a.problem
            when a.code = 202 then a.decision
            else concat_ws(': ', coalesce(a.decision, a.outcome), a.reason) end,
            a.job_id);
        wake_kinds := wake_kinds || coalesce(a.wake_kinds, '{}');
        ended_jobs := ended_jobs || a.ended_jobs;

        if interlock.refused_for_all(a) then
            v_kind := case when a.reason is distinct from 'tenant_full'
                    and a.problem is distinct from 'source-paused'
                then (interlock.schedule_version(p.tenant, p.schedule,
                    coalesce(i.version, p.version))).kind else '' end;
            if v_kind <> all (v_none) then
                v_none := v_none || v_kind;
                perform interlock.plan_rest(p, false, v_kind,
                    coalesce(a.problem, a.outcome));
            end if;
        end if;
    end loop;

    wake_kinds := (select coalesce(array_agg(distinct x), '{}')
                   from unnest(wake_kinds) x);
end
$$;

-- plan_again(p, items): runs works again that had a job.
create or replace function interlock.plan_again(
    p interlock.schedule_plans, p_items interlock.schedule_plan_items[],
    out wake_kinds text[], out ended_jobs uuid[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_groups  text[] := '{}';
    v_kind    text;
    v_none    text[] := '{}';   -- kinds that have no room
    i         interlock.schedule_plan_items;
    a         record;
begin
    wake_kinds := '{}';
    ended_jobs := '{}';

    perform from (
        select distinct x.work_key from unnest(p_items) x
        order by x.work_key) k
    cross join lateral (
        select from interlock.works w
        where w.tenant = p.tenant and w.work_key = k.work_key
        for no key update) w;

    foreach i in array p_items loop
        if p.detail ->> 'only' = 'failed' and interlock.item_done(p, i) then
            perform interlock.plan_outcome(i, 'done already', null);
            continue;
        end if;

        select w.kind into v_kind from interlock.works w
        where w.tenant = p.tenant and w.work_key = i.work_key;
        continue when v_kind = any (v_none);    -- plan_rest has told it

        select * into a from interlock.work_again(p.tenant, i.work_key, null,
            p.requested_by, p.reason, i.rerun_of);
        perform interlock.plan_outcome(i, coalesce(a.problem, 'accepted'),
                                       (a.job).id);
        if a.problem in ('queue-full', 'kind-unknown') then
            v_none := v_none || v_kind;
            perform interlock.plan_rest(p, true, v_kind, a.problem);
        end if;

        v_groups := v_groups || a.groups;
        if a.runnable and (a.job).kind <> all (wake_kinds) then
            wake_kinds := wake_kinds || (a.job).kind;
        end if;
    end loop;

    wake_kinds := interlock.groups_done(p.tenant, (
        select coalesce(array_agg(distinct x), '{}')
        from unnest(v_groups) x), wake_kinds);
end
$$;

-- plan_rest(p, again, kind, outcome): tells the next works of a plan that
-- nobody has seen to, of this sort and kind ('': any), what one of them was
-- told: so many that a plan without room is soon at its end, and no call long.
create or replace function interlock.plan_rest(
    p interlock.schedule_plans, p_again boolean, p_kind text,
    p_outcome text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    update interlock.schedule_plan_items x
    set outcome = p_outcome
    from (select y.ctid as tid
          from (select z.ctid, z.work_key, z.version
                from interlock.schedule_plan_items z
                where z.tenant = p.tenant and z.plan_id = p.id
                    and z.outcome is null and z.again = p_again
                order by z.n
                limit 10000) y
          where p_kind = case when p_kind = '' then ''
              when p_again then (
                  select w.kind from interlock.works w
                  where w.tenant = p.tenant and w.work_key = y.work_key
                  limit 1)
              else (
                  select v.kind from interlock.schedule_versions v
                  where v.tenant = p.tenant and v.name = p.schedule
                      and v.version = coalesce(y.version, p.version)
                  limit 1) end) r
    where x.ctid = r.tid;
end
$$;

-- work_done(tenant, key): has the key a result that stands?
create or replace function interlock.work_done(p_tenant int, p_key text)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return exists (
        select from interlock.works w
        where w.tenant = p_tenant and w.work_key = p_key
            and w.published_revision is not null);
end
$$;

-- item_done(p, i), date_done(v, date, at, subject, key): has the work of an
-- item, or of a date, a result?  That of its key is not its own if other slots
-- have the key too.
create or replace function interlock.item_done(
    p interlock.schedule_plans, i interlock.schedule_plan_items)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return interlock.date_done(interlock.schedule_version(p.tenant,
        p.schedule, coalesce(i.version, p.version)), i.business_date,
        i.slot_at, i.subject, i.work_key);
end
$$;

create or replace function interlock.date_done(
    v interlock.schedule_versions, p_date date, p_at timestamptz,
    p_subject text, p_key text)
returns boolean
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    x  interlock.slots;
begin
    if not interlock.work_done(v.tenant, p_key) then
        return false;
    end if;

    x := interlock.slot_of(v, p_date, p_at, p_subject, p_key);
    return interlock.slot_only(x)
        or ((interlock.slot_work(x)).result).revision is not null;
end
$$;

-- slot_of(v, date, at, subject, key): that slot; where there is none, as it
-- would be that was skipped.
create or replace function interlock.slot_of(
    v interlock.schedule_versions, p_date date, p_at timestamptz,
    p_subject text, p_key text)
returns interlock.slots
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    x  interlock.slots;
begin
    select * into x from interlock.slots s
    where s.tenant = v.tenant and s.schedule = v.name and s.slot_at = p_at
        and s.subject = p_subject and s.work_key = p_key;
    if not found then
        x.tenant := v.tenant;
        x.schedule := v.name;
        x.slot_at := p_at;
        x.subject := p_subject;
        x.version := v.version;
        x.business_date := p_date;
        x.work_key := p_key;
        x.state := 'skipped';
        x.reason := 'none';
    end if;
    return x;
end
$$;

-- plan_outcome(i, outcome, job): what became of an item.
create or replace function interlock.plan_outcome(
    i interlock.schedule_plan_items, p_outcome text, p_job uuid)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    update interlock.schedule_plan_items x
    set outcome = p_outcome, job_id = p_job
    where x.tenant = i.tenant and x.plan_id = i.plan_id and x.n = i.n;
end
$$;

-- plan_slots(p, from, to): slots whose work was run again by these items are
-- that job's from now on, and looked at again: the one that is the item's, and
-- (of a rerun of a date) those of its date and key that are not done either.
create or replace function interlock.plan_slots(
    p interlock.schedule_plans, p_from int, p_to int)
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
    update interlock.slots s
    set state = 'admitted', reason = null, job_id = y.job_id, lane = null,
        check_at = v_now + interval '15 seconds'
    from (select x.job_id, z.ctid as tid
          from interlock.schedule_plan_items x
          cross join lateral (
              select w.ctid from interlock.slots w
              where w.tenant = x.tenant and w.work_key = x.work_key
                  and w.schedule = p.schedule and w.state <> 'run'
                  and w.business_date = x.business_date
                  and (w.slot_at = x.slot_at
                       or (p.detail ->> 'slot_at' is null
                           and w.state in ('waiting', 'admitted')))) z
          where x.tenant = p.tenant and x.plan_id = p.id
              and x.n >= p_from and x.n <= p_to
              and x.job_id is not null) y
    where s.ctid = y.tid;
end
$$;

-- plan_doc(p): {plan_id, schedule, what, count, admitted, jobs, skipped}, and
-- how many items have no outcome yet.  jobs: {business_date, subject,
-- work_key, job_id, outcome} of what was admitted; skipped: {business_date,
-- subject, work_key, job_id, reason} of the rest; at most 200 of each.
create or replace function interlock.plan_doc(
    p interlock.schedule_plans, out doc text, out remaining int)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    select json_build_object('plan_id', p.id, 'schedule', p.schedule,
        'what', p.what, 'count', p.count,
        'admitted', count(*) filter (where x.ok),
        'jobs', coalesce(json_agg(json_build_object(
            'business_date', x.business_date, 'subject', x.subject,
            'work_key', x.work_key, 'job_id', x.job_id,
            'outcome', x.outcome) order by x.n)
            filter (where x.ok and x.rank <= 200), '[]'),
        'skipped', coalesce(json_agg(json_build_object(
            'business_date', x.business_date, 'subject', x.subject,
            'work_key', x.work_key, 'job_id', x.job_id,
            'reason', x.outcome) order by x.n)
            filter (where not x.ok and x.rank <= 200), '[]'),
        'truncated', coalesce(bool_or(x.rank > 200), false))::text,
        (p.count - count(*))::int
    into doc, remaining
    from (select y.*, row_number() over (partition by y.ok order by y.n)
              as rank
          from (select z.*, z.outcome in ('accepted', 'buffered', 'replaced',
                    'parked') as ok
                from interlock.schedule_plan_items z
                where z.tenant = p.tenant and z.plan_id = p.id
                    and z.outcome is not null) y) x;
end
$$;

revoke all on function interlock.date_works(interlock.schedule_versions,
    date, text[], int) from public;
revoke all on function interlock.slots_timed(interlock.schedule_versions)
    from public;
revoke all on function interlock.subjects_count(interlock.schedule_versions,
    text[]) from public;
revoke all on function interlock.works_least(interlock.schedule_versions,
    date, date, text[]) from public;
revoke all on function interlock.subjects_unknown(
    interlock.schedule_versions, text[]) from public;
revoke all on function interlock.plan_act(int, uuid, int) from public;
revoke all on function interlock.plan_submit(interlock.schedule_plans,
    interlock.schedule_plan_items[]) from public;
revoke all on function interlock.plan_again(interlock.schedule_plans,
    interlock.schedule_plan_items[]) from public;
revoke all on function interlock.plan_rest(interlock.schedule_plans,
    boolean, text, text) from public;
revoke all on function interlock.work_done(int, text) from public;
revoke all on function interlock.item_done(interlock.schedule_plans,
    interlock.schedule_plan_items) from public;
revoke all on function interlock.date_done(interlock.schedule_versions, date,
    timestamptz, text, text) from public;
revoke all on function interlock.slot_of(interlock.schedule_versions, date,
    timestamptz, text, text) from public;
revoke all on function interlock.plan_outcome(interlock.schedule_plan_items,
    text, uuid) from public;
revoke all on function interlock.plan_slots(interlock.schedule_plans, int,
    int) from public;
revoke all on function interlock.plan_doc(interlock.schedule_plans)
    from public;
