-- alert_scan.sql: finds out what alerts are to be told: what begins to hold
-- and what is over.  One scan of a tenant at a time, whoever makes it; so
-- that each is told once, under one id.

-- alert_scan(limit): who: the sweep of every interlockd, each second, and
-- again at once while a row says that there is more.
-- Looks at those tenants that were not looked at within the last second: at
-- what triggers have noted since (jobs, effects, gaps; at most limit of it),
-- at skips and pauses, and every 5 s at the age of queues and at what has
-- come right by itself.  Stops kinds whose queue is older than stop_at.
-- Locks: the tenants' rows in alert_scans, skipping those that somebody
-- holds, until its end; alerts' rows.
-- Answers: one row a tenant of which something is told.
create or replace function interlock.alert_scan(p_limit int)
returns table (tenant int, events int, more boolean)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_n     int;
    v_read  int;
    r       record;
begin
    perform set_config('synchronous_commit', 'on', true);

    for r in
        select s.tenant, s.slow_at <= clock_timestamp() as slow
        from interlock.alert_scans s
        where s.next_at <= clock_timestamp()
        order by s.next_at limit 50
        for no key update skip locked
    loop
        select x.events, x.read into v_n, v_read
        from interlock.alert_scan_queue(r.tenant, p_limit) x;

        v_n := v_n + interlock.alert_scan_levels(r.tenant);
        if r.slow then
            v_n := v_n + interlock.alert_scan_kinds(r.tenant)
                + interlock.alert_scan_righted(r.tenant);
        end if;

        update interlock.alert_scans s
        set next_at = clock_timestamp() + case when v_read < p_limit
                then interval '1 second' else interval '0' end,
            slow_at = case when r.slow
                then clock_timestamp() + interval '5 seconds'
                else s.slow_at end
        where s.tenant = r.tenant;

        if v_n > 0 or v_read >= p_limit then
            tenant := r.tenant;
            events := v_n;
            more := v_read >= p_limit;
            return next;
        end if;
    end loop;
end
$$;

-- alert_scan_queue(tenant, limit): what was noted, in its order.  Caller holds
-- the tenant's scan; so the rows that it does not see yet come later for each
-- subject, too.
create or replace function interlock.alert_scan_queue(
    p_tenant int, p_limit int, out events int, out read int)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    q  interlock.alert_queue;
    a  interlock.alerts;
begin
    events := 0;
    read := 0;

    for q in
        select x.* from interlock.alert_queue x
        where x.tenant = p_tenant and x.id > 0
        order by x.id limit p_limit
    loop
        read := read + 1;

        for a in
            select x.* from interlock.alerts x
            where x.tenant = p_tenant and x.created_at <= q.at
                and q.condition = any (x.conditions)
                and coalesce(q.kind = any (x.kinds), true)
                and coalesce(q.schedule = any (x.schedules), true)
            order by x.name
        loop
            events := events + interlock.alert_set(a, q.opened, q.condition,
                q.subject, q.kind, q.schedule, q.work_key, q.at, q.info);
        end loop;

        delete from interlock.alert_queue x
        where x.tenant = p_tenant and x.id = q.id;
    end loop;
end
$$;

-- alert_scan_levels(tenant): what can be seen to hold, or not: kinds that are
-- paused, schedules that skip.
create or replace function interlock.alert_scan_levels(p_tenant int)
returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now  timestamptz := clock_timestamp();
    v_n    int := 0;
    a      interlock.alerts;
    s      interlock.alert_states;
    r      record;
begin
    for a in
        select x.* from interlock.alerts x
        where x.tenant = p_tenant
            and x.conditions && array['stopped', 'skips']
        order by x.name
    loop
        for r in
            select y.* from interlock.alert_levels(p_tenant) y
            where y.condition = any (a.conditions)
                and coalesce(y.kind = any (a.kinds), true)
                and coalesce(y.schedule = any (a.schedules), true)
        loop
            v_n := v_n + interlock.alert_set(a, true, r.condition, r.subject,
                r.kind, r.schedule, null, v_now, r.info);
        end loop;

        for s in
            select x.* from interlock.alert_states x
            where x.tenant = p_tenant and x.alert = a.name
                and x.condition in ('stopped', 'skips')
                and (x.condition, x.subject) not in (
                    select y.condition, y.subject
                    from interlock.alert_levels(p_tenant) y)
        loop
            v_n := v_n + interlock.alert_set(a, false, s.condition,
                s.subject, s.kind, s.schedule, null, v_now, null);
        end loop;
    end loop;

    return v_n;
end
$$;

-- alert_levels(tenant): of skips and stopped, what holds now.
create or replace function interlock.alert_levels(p_tenant int)
returns table (condition text, subject text, kind text, schedule text,
    info json)
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select 'stopped', 'kind:' || p.name, p.name, null::text,
        json_build_object('paused', interlock.pause_doc(p.tenant, p.what,
            p.name))
    from interlock.pauses p
    where p.tenant = p_tenant and p.what = 'kind'
    union all
    select 'skips', 'schedule:' || s.name, v.kind, s.name,
        json_build_object('skipped', s.skips, 'skip_alarm', v.skip_alarm)
    from interlock.schedules s
    cross join lateral (
        select x.kind, x.skip_alarm from interlock.schedule_versions x
        where x.tenant = s.tenant and x.name = s.name
            and x.version = s.version
        limit 1) v
    where s.tenant = p_tenant and not s.deleted and s.skips >= v.skip_alarm
$$;

-- alert_scan_kinds(tenant): how long the kinds' jobs have waited: those that
-- could run, and those that a limit holds back.  What is told is in the inbox,
-- whether or not there is an alert that tells it.
create or replace function interlock.alert_scan_kinds(p_tenant int)
returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_now   timestamptz;
    v_n     int := 0;
    v_over  text[] := '{}';
    v_age   int;
    a       interlock.alerts;
    s       interlock.alert_states;
    k       record;
begin
    for k in
        select x.name, v.alert_at, v.stop_at
        from interlock.kinds x
        cross join lateral (
            select y.alert_at, y.stop_at from interlock.kind_versions y
            where y.tenant = x.tenant and y.name = x.name
                and y.version = x.version
            limit 1) v
        where x.tenant = p_tenant and not x.deleted
            and (v.alert_at is not null or v.stop_at is not null)
    loop
        v_now := clock_timestamp();
        v_age := floor(extract(epoch from v_now
            - interlock.queue_since(p_tenant, k.name, v_now)));

        perform interlock.kind_stop(p_tenant, k.name, k.stop_at, v_age);

        continue when coalesce(v_age < k.alert_at, true);
        v_over := v_over || k.name;
        perform interlock.inbox_put(p_tenant, 'queue:' || k.name,
            'queue_age', v_now, k.name, null, null);

        for a in
            select x.* from interlock.alerts x
            where x.tenant = p_tenant and 'queue_age' = any (x.conditions)
                and coalesce(k.name = any (x.kinds), true)
        loop
            v_n := v_n + interlock.alert_set(a, true, 'queue_age',
                'kind:' || k.name, k.name, null, null, v_now,
                json_build_object('age_seconds', v_age,
                    'alert_at', k.alert_at));
        end loop;
    end loop;

    delete from interlock.inbox b
    where b.tenant = p_tenant and b.state = 'queue_age'
        and b.kind <> all (v_over);

    for a in
        select x.* from interlock.alerts x where x.tenant = p_tenant
    loop
        for s in
            select x.* from interlock.alert_states x
            where x.tenant = p_tenant and x.alert = a.name
                and x.condition = 'queue_age' and x.kind <> all (v_over)
        loop
            v_n := v_n + interlock.alert_set(a, false, 'queue_age',
                s.subject, s.kind, null, null, clock_timestamp(), null);
        end loop;
    end loop;

    return v_n;
end
$$;

-- queue_since(tenant, kind, now): from when the oldest job waits that could
-- run, or could if a limit had room; null if there is none.
create or replace function interlock.queue_since(
    p_tenant int, p_kind text, p_now timestamptz)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return least(
        (select min(j.run_at) from interlock.jobs_live j
         where j.tenant = p_tenant and j.kind = p_kind
             and j.place = 'ready'),
        (select min(j.run_at) from interlock.jobs_live j
         where j.tenant = p_tenant and j.kind = p_kind
             and j.place = 'limited'),
        (select j.run_at from interlock.jobs_live j
         where j.tenant = p_tenant and j.kind = p_kind
             and j.place = 'delayed' and j.run_at <= p_now
         order by j.run_at limit 1));
end
$$;

-- kind_stop(tenant, kind, stop_at, age): pauses a kind whose queue is older
-- than its stop_at; once, until the queue has been younger (or stop_at is
-- changed to what is older).  Leaves a row in actions.
create or replace function interlock.kind_stop(
    p_tenant int, p_kind text, p_stop_at int, p_age int)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_reason  text;
begin
    if p_stop_at is null or p_age is null or p_age < p_stop_at then
        delete from interlock.kind_stops x
        where x.tenant = p_tenant and x.kind = p_kind;
        return;
    end if;

    insert into interlock.kind_stops (tenant, kind)
    values (p_tenant, p_kind)
    on conflict do nothing;
    if not found then
        return;
    end if;

    v_reason := format('a job that could run had waited for %s s; stop_at '
        'is %s', p_age, p_stop_at);

    insert into interlock.pauses (tenant, what, name, requested_by, reason)
    values (p_tenant, 'kind', p_kind, 'interlock', v_reason)
    on conflict do nothing;
    if found then
        insert into interlock.actions (tenant, what, target, requested_by,
            reason)
        values (p_tenant, 'kind_pause', p_kind, 'interlock', v_reason);
    end if;
end
$$;

-- alert_scan_righted(tenant): failed jobs whose work was done by a later one.
create or replace function interlock.alert_scan_righted(p_tenant int)
returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_n  int := 0;
    a    interlock.alerts;
    s    interlock.alert_states;
begin
    for a in
        select x.* from interlock.alerts x
        where x.tenant = p_tenant and 'failed' = any (x.conditions)
    loop
        for s in
            select x.* from interlock.alert_states x
            where x.tenant = p_tenant and x.alert = a.name
                and x.condition = 'failed' and exists (
                    select from interlock.works w
                    where w.tenant = x.tenant and w.work_key = x.work_key
                        and w.published_at > x.since)
            limit 1000
        loop
            v_n := v_n + interlock.alert_set(a, false, 'failed', s.subject,
                s.kind, null, s.work_key, clock_timestamp(),
                json_build_object('why',
                    'a later job of its work key has succeeded'));
        end loop;
    end loop;

    return v_n;
end
$$;

revoke all on function interlock.alert_scan(int) from public;
revoke all on function interlock.alert_scan_queue(int, int) from public;
revoke all on function interlock.alert_scan_levels(int) from public;
revoke all on function interlock.alert_levels(int) from public;
revoke all on function interlock.alert_scan_kinds(int) from public;
revoke all on function interlock.queue_since(int, text, timestamptz)
    from public;
revoke all on function interlock.kind_stop(int, text, int, int) from public;
revoke all on function interlock.alert_scan_righted(int) from public;
grant execute on function interlock.alert_scan(int) to interlock_service;
