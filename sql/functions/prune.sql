-- prune.sql: what is no more needed goes, in passes of a bounded size.
--
-- What people decided (actions), definitions, and what is known of works and
-- their results stay.

-- prune(limit): who: the recovery loop of interlockd, now and then, again at
-- once while it returns limit or more.
-- Frees or removes at most limit of each of
--   idempotency keys whose time is over; one whose job is not ended stays, and
--     is looked at again later
--   slots with their gaps, skips, plans, events of alerts, samples (retain)
--   sessions whose time is over
-- and makes the parts of history that are to come (history_ahead) and drops
-- those that are too old (history_drop).
-- Locks: the rows that go, FOR UPDATE SKIP LOCKED.
-- Answers: how many rows went.
create or replace function interlock.prune(p_limit int) returns int
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_n  int;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_n := interlock.prune_keys(p_limit) + interlock.prune_slots(p_limit)
        + interlock.prune_skips(p_limit) + interlock.prune_plans(p_limit)
        + interlock.prune_redrives(p_limit)
        + interlock.prune_events(p_limit) + interlock.prune_series(p_limit)
        + interlock.prune_sessions(p_limit);

    -- Last, for what these lock nobody else gets until we commit.
    perform interlock.history_ahead();
    perform interlock.history_drop();

    return v_n;
end
$$;

-- retain(what): for how long what is over is kept.
--   slots    and their gaps, skips, and plans that somebody acted on
--   events   of alerts, from their delivery on
--   drafts   plans that nobody acted on, from their end on
--   series   samples
--   history  requests, payloads, attempts and ended jobs, by whole weeks
create or replace function interlock.retain(p_what text) returns interval
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select r.keep from interlock.retention r where r.what = p_what),
        case p_what
        when 'slots' then interval '400 days'
        when 'events' then interval '90 days'
        when 'drafts' then interval '1 day'
        when 'series' then interval '14 days'
        when 'history' then interval '400 days' end)
$$;

-- retain_set(what, keep): who: the administrator, as owner.  Keeps that for so
-- long from now on (a day at least); null: for as long as retain() says by
-- itself.
create or replace function interlock.retain_set(
    p_what text, p_keep interval)
returns void
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform set_config('synchronous_commit', 'on', true);

    if p_keep is null then
        delete from interlock.retention r where r.what = p_what;
    else
        insert into interlock.retention as r (what, keep)
        values (p_what, p_keep)
        on conflict (what) do update set keep = excluded.keep;
    end if;
end
$$;

create or replace function interlock.prune_keys(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n    int;
    v_now  timestamptz := clock_timestamp();
begin
    with old as (
        select i.tenant, i.source, i.key
        from interlock.idempotency i
        where i.expires_at <= v_now
            and not interlock.request_open(i.tenant, i.request_id)
        order by i.expires_at
        limit p_limit
        for update skip locked)
    delete from interlock.idempotency i
    using old o
    where i.tenant = o.tenant and i.source = o.source and i.key = o.key;

    get diagnostics v_n = row_count;
    return v_n;
end
$$;

-- prune_slots(limit): slots that are run, skipped or given up, with what was
-- a gap of theirs.  What is looked at still stays, however old.
create or replace function interlock.prune_slots(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n    int;
    v_end  timestamptz := clock_timestamp() - interlock.retain('slots');
begin
    with old as (
        select s.tenant, s.schedule, s.slot_at, s.subject
        from interlock.slots s
        where s.slot_at <= v_end and s.check_at is null
            and s.state <> 'waiting'
            and not exists (
                select from interlock.gaps g
                where g.tenant = s.tenant and g.schedule = s.schedule
                    and g.slot_at = s.slot_at and g.subject = s.subject
                    and (g.state = 'open' or g.changed_at > v_end))
        order by s.slot_at
        limit p_limit
        for update of s skip locked),
    gone as (
        delete from interlock.gaps g
        using old o
        where g.tenant = o.tenant and g.schedule = o.schedule
            and g.slot_at = o.slot_at and g.subject = o.subject)
    delete from interlock.slots s
    using old o
    where s.tenant = o.tenant and s.schedule = o.schedule
        and s.slot_at = o.slot_at and s.subject = o.subject;

    get diagnostics v_n = row_count;
    return v_n;
end
$$;

create or replace function interlock.prune_skips(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n    int;
    v_end  timestamptz := clock_timestamp() - interlock.retain('slots');
begin
    with old as (
        select k.tenant, k.schedule, k.to_at, k.id
        from interlock.schedule_skips k
        where k.to_at <= v_end
        order by k.to_at
        limit p_limit
        for update skip locked)
    delete from interlock.schedule_skips k
    using old o
    where k.tenant = o.tenant and k.schedule = o.schedule
        and k.to_at = o.to_at and k.id = o.id;

    get diagnostics v_n = row_count;
    return v_n;
end
$$;

-- prune_plans(limit), prune_redrives(limit): a plan goes with the last of its
-- items, of which a pass takes at most limit.
create or replace function interlock.prune_plans(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n    int := 0;
    v_now  timestamptz := clock_timestamp();
    v_did  int;
    p      interlock.schedule_plans;
begin
    for p in
        select x.* from interlock.schedule_plans x
        where x.prune_at <= v_now
        order by x.prune_at limit p_limit
        for update skip locked
    loop
        with old as (
            select i.n from interlock.schedule_plan_items i
            where i.tenant = p.tenant and i.plan_id = p.id
            order by i.n limit p_limit - v_n)
        delete from interlock.schedule_plan_items i
        using old o
        where i.tenant = p.tenant and i.plan_id = p.id and i.n = o.n;
        get diagnostics v_did = row_count;

        v_n := v_n + v_did;
        if v_n >= p_limit then
            update interlock.schedule_plans x set count = p.count - v_did
            where x.tenant = p.tenant and x.id = p.id;
            exit;
        end if;

        delete from interlock.schedule_plans x
        where x.tenant = p.tenant and x.id = p.id;
        v_n := v_n + 1;
        exit when v_n >= p_limit;
    end loop;

    return v_n;
end
$$;

create or replace function interlock.prune_redrives(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n    int := 0;
    v_now  timestamptz := clock_timestamp();
    v_did  int;
    p      interlock.redrive_plans;
begin
    for p in
        select x.* from interlock.redrive_plans x
        where x.prune_at <= v_now
        order by x.prune_at limit p_limit
        for update skip locked
    loop
        with old as (
            select j.n from interlock.redrive_jobs j
            where j.tenant = p.tenant and j.plan_id = p.id
            order by j.n limit p_limit - v_n)
        delete from interlock.redrive_jobs j
        using old o
        where j.tenant = p.tenant and j.plan_id = p.id and j.n = o.n;
        get diagnostics v_did = row_count;

        v_n := v_n + v_did;
        if v_n >= p_limit then
            update interlock.redrive_plans x set count = p.count - v_did
            where x.tenant = p.tenant and x.id = p.id;
            exit;
        end if;

        delete from interlock.redrive_plans x
        where x.tenant = p.tenant and x.id = p.id;
        v_n := v_n + 1;
        exit when v_n >= p_limit;
    end loop;

    return v_n;
end
$$;

-- prune_events(limit): events of alerts that were taken or dropped.  What
-- holds still keeps the event that told so, and an event that told that
-- something was over goes together with the one that had opened it.
create or replace function interlock.prune_events(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n    int;
    v_end  timestamptz := clock_timestamp() - interlock.retain('events');
begin
    with old as (
        select e.tenant, e.id, e.opened_event
        from interlock.alert_events e
        where coalesce(e.delivered_at, e.dropped_at) <= v_end
            and (e.state = 'recovered' or not exists (
                    select from interlock.alert_events r
                    where r.tenant = e.tenant and r.opened_event = e.id)
                and not exists (
                    select from interlock.alert_states s
                    where s.tenant = e.tenant and s.alert = e.alert
                        and s.condition = e.condition
                        and s.subject = e.subject and s.event_id = e.id))
        order by coalesce(e.delivered_at, e.dropped_at)
        limit p_limit
        for update skip locked),
    pair as (
        select o.tenant, o.id from old o
        union
        select o.tenant, o.opened_event from old o
        where o.opened_event is not null)
    delete from interlock.alert_events e
    using pair b
    where e.tenant = b.tenant and e.id = b.id;

    get diagnostics v_n = row_count;
    return v_n;
end
$$;

create or replace function interlock.prune_sessions(p_limit int) returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_n    int;
    v_now  timestamptz := clock_timestamp();
begin
    with old as (
        select s.hash
        from interlock.sessions s
        where s.ends_at <= v_now
        order by s.ends_at
        limit p_limit
        for update skip locked)
    delete from interlock.sessions s
    using old o
    where s.hash = o.hash;

    get diagnostics v_n = row_count;
    return v_n;
end
$$;

revoke all on function interlock.retain(text) from public;
revoke all on function interlock.retain_set(text, interval) from public;
revoke all on function interlock.prune_keys(int) from public;
revoke all on function interlock.prune_slots(int) from public;
revoke all on function interlock.prune_skips(int) from public;
revoke all on function interlock.prune_plans(int) from public;
revoke all on function interlock.prune_redrives(int) from public;
revoke all on function interlock.prune_events(int) from public;
revoke all on function interlock.prune_sessions(int) from public;
revoke all on function interlock.prune(int) from public;
grant execute on function interlock.prune(int) to interlock_service;
