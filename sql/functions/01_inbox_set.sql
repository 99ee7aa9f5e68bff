-- 01_inbox_set.sql: what puts things into the inbox and takes them out.  The
-- callers are triggers (and alert_scan), in the transaction that makes it so;
-- each holds the lock under which its subject changes.  Locks: the row in
-- inbox, after all others.

create or replace function interlock.inbox_over(p_tenant int, p_id text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    delete from interlock.inbox b
    where b.tenant = p_tenant and b.id = p_id;
end
$$;

-- inbox_put(…): it waits for a person since then, in that state.  What is in
-- the inbox already keeps who looks after it and until when, and, in the same
-- state, since when it is there.
create or replace function interlock.inbox_put(
    p_tenant int, p_id text, p_state text, p_since timestamptz, p_kind text,
    p_schedule text, p_work_key text)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    insert into interlock.inbox as b (tenant, id, state, since, kind,
        schedule, work_key)
    values (p_tenant, p_id, p_state, p_since, p_kind, p_schedule, p_work_key)
    on conflict (tenant, id) do update
    set state = excluded.state, since = excluded.since
    where b.state <> excluded.state;
end
$$;

-- inbox_set_job(j, moved): its status has just become what it is, or only its
-- assignee has; j is live or has ended.
create or replace function interlock.inbox_set_job(
    j interlock.jobs, p_moved boolean)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_id  text := 'job:' || j.id;
begin
    if j.status not in ('held', 'parked', 'failed') then
        perform interlock.inbox_over(j.tenant, v_id);
        return;
    end if;

    if not p_moved then
        -- (a failed one that was dismissed is not there)
        update interlock.inbox b set assignee = j.assignee
        where b.tenant = j.tenant and b.id = v_id;
        return;
    end if;

    insert into interlock.inbox as b (tenant, id, state, since, kind,
        work_key, assignee)
    values (j.tenant, v_id, j.status, coalesce(j.finished_at,
        clock_timestamp()), j.kind, j.work_key, j.assignee)
    on conflict (tenant, id) do update
    set state = excluded.state, assignee = excluded.assignee,
        since = case when b.state = excluded.state then b.since
                else excluded.since end;
end
$$;

-- inbox_set_effect(e): one that needs a human is there at once; an unknown
-- one when its look-ups should have settled it (effect_patience), unless it
-- goes to a human of itself (human_at).
create or replace function interlock.inbox_set_effect(e interlock.effects)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_kind   text;
    v_since  timestamptz;
begin
    if e.state = 'needs_human' then
        v_since := e.changed_at;
    elsif e.state = 'unknown' and e.human_at is null then
        v_since := e.changed_at
            + interlock.effect_patience(e.tenant, e.kind);
    else
        perform interlock.inbox_over(e.tenant, 'effect:' || e.id);
        return;
    end if;

    select w.kind into v_kind from interlock.works w
    where w.tenant = e.tenant and w.work_key = e.work_key;

    perform interlock.inbox_put(e.tenant, 'effect:' || e.id, e.state,
        v_since, v_kind, null, e.work_key);
end
$$;

-- effect_patience(tenant, effect kind): how long its look-ups may take, all of
-- them, with the pauses between them and time for each answer.
create or replace function interlock.effect_patience(
    p_tenant int, p_kind text)
returns interval
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_secs  float8;
    v_max   float8;
    k       interlock.effect_kind_versions;
begin
    select * into k from interlock.effect_kind_row(p_tenant, p_kind);
    if k.lookup is null then
        return interval '0';
    end if;

    v_max := coalesce((k.lookup::json ->> 'max_backoff')::int, 600);
    -- (a pause has doubled to its most after a few)
    select sum(least(v_max, k.check_backoff * 2.0 ^ least(i - 1, 30)))
    into v_secs
    from generate_series(1, least(k.max_checks, 40)) i;

    v_secs := v_secs + v_max * greatest(0, k.max_checks - 40)
        + k.max_checks * (25 + coalesce((k.lookup::json ->> 'timeout')::int,
                                        5));

    return make_interval(secs => k.check_delay + k.settle_after + v_secs);
end
$$;

-- inbox_set_gap(g): an open gap; approval if all that it waits for is a yes.
create or replace function interlock.inbox_set_gap(g interlock.gaps)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_kind   text;
    v_state  text;
begin
    if g.state <> 'open' then
        perform interlock.inbox_over(g.tenant, 'gap:' || g.id);
        return;
    end if;

    v_kind := (interlock.schedule_newest(g.tenant, g.schedule, true)).kind;

    select case when s.state = 'waiting' and s.reason = 'approval'
        then 'approval' end into v_state
    from interlock.slots s
    where s.tenant = g.tenant and s.schedule = g.schedule
        and s.slot_at = g.slot_at and s.subject = g.subject;

    perform interlock.inbox_put(g.tenant, 'gap:' || g.id,
        coalesce(v_state, 'missing'), g.since, v_kind, g.schedule,
        g.work_key);
end
$$;

create or replace function interlock.inbox_set_pause(p interlock.pauses)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform interlock.inbox_put(p.tenant, p.what || ':' || p.name,
        p.what || '_paused', p.paused_at,
        case p.what when 'kind' then p.name end, null, null);
end
$$;

-- inbox_set_schedule(s): one that has skipped its skip_alarm in a row.
create or replace function interlock.inbox_set_schedule(
    s interlock.schedules)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_kind   text;
    v_alarm  int;
begin
    select v.kind, v.skip_alarm into v_kind, v_alarm
    from interlock.schedule_versions v
    where v.tenant = s.tenant and v.name = s.name and v.version = s.version;

    if s.deleted or coalesce(s.skips < v_alarm, true) then
        perform interlock.inbox_over(s.tenant, 'schedule:' || s.name);
    else
        perform interlock.inbox_put(s.tenant, 'schedule:' || s.name,
            'skips', clock_timestamp(), v_kind, s.name, null);
    end if;
end
$$;

revoke all on function interlock.inbox_over(int, text) from public;
revoke all on function interlock.inbox_put(int, text, text, timestamptz,
    text, text, text) from public;
revoke all on function interlock.inbox_set_job(interlock.jobs, boolean)
    from public;
revoke all on function interlock.inbox_set_effect(interlock.effects)
    from public;
revoke all on function interlock.effect_patience(int, text) from public;
revoke all on function interlock.inbox_set_gap(interlock.gaps) from public;
revoke all on function interlock.inbox_set_pause(interlock.pauses)
    from public;
revoke all on function interlock.inbox_set_schedule(interlock.schedules)
    from public;
