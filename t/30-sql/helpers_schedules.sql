-- helpers_schedules.sql: short forms of the calls about schedules, for tests
-- only.

create function t.schedule(p_name text, p_doc text) returns void
language plpgsql as $$
declare
    r  record;
begin
    select * into strict r
    from interlock.schedule_put(t.demo(), p_name, p_doc);
    if r.problem is not null then
        raise exception '%: %', r.problem, r.detail;
    end if;
end
$$;

-- A schedule by its cron expression and subjects ('a b'), whose slots have work
-- keys of their own; p_more are further fields.  Isolation specs cannot have
-- braces.
create function t.plan_slots(p_name text, p_kind text, p_cron text,
    p_subjects text, p_more text default '') returns void
language sql as $$
    select t.schedule(p_name, '{"cron":' || to_json(p_cron)
        || ',"zone":"UTC","kind":"' || p_kind || '","work_key":"' || p_name
        || ':{subject}:{slot}","subjects":'
        || to_json(string_to_array(p_subjects, ' ')) || p_more || '}')
$$;

-- Puts a schedule back in time: as if it had been defined, or last been
-- scanned, so long ago, and nobody had looked since.
create function t.behind(p_name text, p_ago interval) returns void
language plpgsql as $$
declare
    v  interlock.schedule_versions;
begin
    select x.* into strict v
    from interlock.schedules s
    join interlock.schedule_versions x using (tenant, name, version)
    where s.name = p_name;

    perform set_config('session_replication_role', 'replica', true);
    update interlock.schedules s
    set since = least(s.since, clock_timestamp() - p_ago),
        scanned_to = clock_timestamp() - p_ago,
        next_at = interlock.schedule_next(v, clock_timestamp() - p_ago)
    where s.name = p_name;
    perform set_config('session_replication_role', 'origin', true);
end
$$;

create function t.scan(p_limit int default 500)
returns table (schedule text, slots int, waiting int, skipped bigint,
    more boolean)
language sql as $$
    select s.schedule, s.slots, s.waiting, s.skipped, s.more
    from interlock.schedule_scan(p_limit) s order by 1
$$;

-- What became of a schedule's slots: how many in each state, and why.
create function t.slots(p_name text) returns text
language sql as $$
    select coalesce(string_agg(format('%s %s%s', x.n, x.state,
        ' (' || x.reason || ')'), ', ' order by x.state, x.reason), 'none')
    from (select s.state, s.reason, count(*) as n from interlock.slots s
          where s.schedule = p_name group by 1, 2
          union all
          select 'passed', k.reason, sum(k.slots) from interlock.schedule_skips k
          where k.schedule = p_name group by 1, 2) x
$$;

create function t.lines_due(p_name text) returns void
language sql as $$
    update interlock.slot_lines l
    set try_at = clock_timestamp() - interval '1 ms'
    where l.schedule = p_name;
    update interlock.schedules s
    set try_at = (select min(l.try_at) from interlock.slot_lines l
                  where l.schedule = p_name)
    where s.name = p_name and s.try_at is not null;
$$;

-- Makes what waits be tried, and what is looked at be looked at, now.
create function t.now_due(p_name text) returns void
language sql as $$
    update interlock.slots s
    set check_at = clock_timestamp() - interval '1 ms'
    where s.schedule = p_name and s.check_at is not null;
    select t.lines_due(p_name);
$$;

-- The daily time that was so long ago, in UTC, as a cron expression.
create function t.cron_ago(p_ago interval) returns text language sql as $$
    select to_char((clock_timestamp() - p_ago) at time zone 'UTC',
        'FMMI FMHH24 "* * *"')
$$;

-- Runs the date of a schedule's next slot by hand.
create function t.run(p_name text)
returns table (problem text, admitted text, skipped text, remaining int)
language sql as $$
    select r.problem, r.doc::json ->> 'admitted',
        r.doc::json -> 'skipped' -> 0 ->> 'reason', r.remaining
    from interlock.schedules s
    join interlock.schedule_versions v using (tenant, name, version)
    cross join lateral interlock.schedule_run(s.tenant, s.name,
        interlock.slot_date(v, s.next_at), null, 'me', 'why', 1, 'op',
        t.rid(nextval('t.ids') + 1000000), 500) r
    where s.name = p_name
$$;

-- Reruns a key with the impact that it has now.
create function t.rerun(p_key text)
returns table (problem text, decision text)
language sql as $$
    select r.problem, r.doc::json ->> 'decision'
    from interlock.work_impact(t.demo(), p_key) i
    cross join lateral interlock.work_rerun(t.demo(), p_key,
        i.doc::json ->> 'impact_id', null, 'me', 'why', 1, 'op') r
$$;

create function t.approve(p_name text)
returns table (problem text, state text)
language sql as $$
    select a.problem, a.doc::json ->> 'state'
    from interlock.gaps g
    cross join lateral interlock.gap_approve(g.tenant, g.id, 'me', 'why', 1,
        'op') a
    where g.schedule = p_name
$$;

-- Keeps the impact of a schedule's newest date; reruns what failed of it with
-- the impact that was kept.
create table t.seen (name text primary key, day text, impact text);
create function t.see(p_name text) returns void language sql as $$
    insert into t.seen
    select p_name, x.d, i.doc::json ->> 'impact_id'
    from (select max(business_date)::text as d from interlock.slots
          where schedule = p_name) x,
        interlock.slot_impact(t.demo(), p_name, x.d) i
    on conflict (name) do update
    set day = excluded.day, impact = excluded.impact
$$;
create function t.again(p_name text, p_call bigint)
returns table (problem text, admitted text, remaining int) language sql as $$
    select r.problem, r.doc::json ->> 'admitted', r.remaining
    from t.seen x, interlock.slot_rerun(t.demo(), p_name, x.day, 'failed',
        x.impact, 'me', 'why', 1, 'op', t.rid(700 + p_call), 9) r
    where x.name = p_name
$$;

-- One random step of those who deal with schedules (stress.t).
create function t.step_slots() returns void language plpgsql as $$
declare
    v_tenant  int := t.demo();
    d         float8 := random();
    h         record;
    r         record;
begin
    select null::text as problem, null::text as detail into r;

    if d < 0.45 then
        perform interlock.schedule_scan(1 + floor(random() * 5)::int);
    elsif d < 0.6 then
        perform interlock.gap_scan(5);
    elsif d < 0.7 then
        -- As if time had gone by.
        update interlock.slots s
        set check_at = clock_timestamp()
        where s.ctid = any (array(
            select x.ctid from interlock.slots x
            where x.check_at is not null order by random() limit 9
            for update skip locked));
        select s.name into h from interlock.schedules s
        where s.try_at is not null order by random() limit 1
        for no key update skip locked;
        if found then
            perform t.lines_due(h.name);
        end if;
    elsif d < 0.8 then
        select g.id into h from interlock.gaps g
        where g.state = 'open' order by random() limit 1;
        if not found then
            return;
        elsif random() < 0.8 then
            select a.problem, a.detail into r
            from interlock.gap_approve(v_tenant, h.id, 'me', 'why', 1, 't') a;
        else
            select a.problem, a.detail into r
            from interlock.gap_dismiss(v_tenant, h.id, 'me', 'why', 1, 't') a;
        end if;
    elsif d < 0.9 then
        select j.work_key as key into h from interlock.jobs j
        order by random() limit 1;
        if not found then
            return;
        end if;
        select a.problem, a.detail into r
        from interlock.work_impact(v_tenant, h.key) i,
            interlock.work_rerun(v_tenant, h.key, i.doc::json
                ->> 'impact_id', null, 'me', 'why', 1, 't') a;
    elsif d < 0.94 then
        select a.problem, a.detail into r
        from (select s.schedule, max(s.business_date)::text as d
              from interlock.slots s group by 1 order by random() limit 1) x,
            interlock.slot_impact(v_tenant, x.schedule, x.d) i,
            interlock.slot_rerun(v_tenant, x.schedule, x.d,
                (array['failed', 'missing', 'all'])[
                    1 + floor(random() * 3)::int], i.doc::json
                ->> 'impact_id', 'me', 'why', 1, 't', null, 20) a;
    elsif d < 0.97 then
        select a.problem, a.detail into r
        from interlock.schedule_run(v_tenant, 'dated', current_date
            - floor(random() * 5)::int, null, 'me', 'why', 1, 't', null,
            9) a;
    elsif d < 0.98 then
        select a.problem, a.detail into r
        from interlock.schedule_put(v_tenant, 'changed', format(
            '{"grace":%s}', floor(random() * 3))) a;
    else
        select a.problem, a.detail into r
        from interlock.schedule_pause(v_tenant, 'shared', 'me', 'why', 1,
            't') a;
        perform interlock.schedule_resume(v_tenant, 'shared', 'me', 'why', 1,
            't');
    end if;

    if d >= 0.7 and r.problem not in ('work-active', 'queue-full',
        'impact-changed', 'gap-closed', 'not-found')
    then
        raise exception 'schedules: % %', r.problem, r.detail;
    end if;
end
$$;
