-- alert_set.sql: from a condition that begins to hold, or is over, to the
-- event that tells so.

-- alert_set(a, opened, condition, subject, kind, schedule, work_key, at,
-- info): lets a condition hold for an alert, or not any more.  What it knows
-- already changes nothing.  Of one condition of a group (the jobs of a kind,
-- the gaps of a schedule) at most 50 are told one by one; those beyond are
-- told together, once, and are over when the last of them is.
-- Caller holds the tenant's scan.  Answers how many events that made.
create or replace function interlock.alert_set(
    a interlock.alerts, p_opened boolean, p_condition text, p_subject text,
    p_kind text, p_schedule text, p_work_key text, p_at timestamptz,
    p_info json)
returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_group  text := coalesce('schedule:' || p_schedule, 'kind:' || p_kind,
                              p_subject);
    v_many   bigint;
    s        interlock.alert_states;
begin
    if not p_opened then
        delete from interlock.alert_states x
        where x.tenant = a.tenant and x.alert = a.name
            and x.condition = p_condition and x.subject = p_subject
        returning * into s;
        if not found then
            return 0;
        end if;
        if s.event_id is not null then
            perform interlock.alert_emit(a, s, false, p_at, p_info);
            return 1;
        end if;
        return interlock.alert_rest(a, s, p_at);
    end if;

    perform from interlock.alert_states x
    where x.tenant = a.tenant and x.alert = a.name
        and x.condition = p_condition and x.subject = p_subject;
    if found then
        return 0;
    end if;

    select count(*) into v_many from (
        select from interlock.alert_states x
        where x.tenant = a.tenant and x.alert = a.name
            and x.condition = p_condition and x.grouped = v_group
        limit 51) y;

    s.tenant := a.tenant;
    s.alert := a.name;
    s.condition := p_condition;
    s.subject := p_subject;
    s.grouped := v_group;
    s.kind := p_kind;
    s.schedule := p_schedule;
    s.work_key := p_work_key;
    s.since := p_at;
    s.info := p_info;

    if v_many < 50 then
        s.event_id := interlock.alert_emit(a, s, true, p_at, p_info);
        insert into interlock.alert_states select s.*;
        return 1;
    end if;

    insert into interlock.alert_states select s.*;
    return interlock.alert_rest(a, s, p_at);
end
$$;

-- alert_rest(a, s, at): those of the group of s that are told together: there
-- are some, or none any more.
create or replace function interlock.alert_rest(
    a interlock.alerts, s interlock.alert_states, p_at timestamptz)
returns int
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_subject  text := 'more:' || s.grouped;
    v_some     boolean;
    m          interlock.alert_states;
begin
    select true into v_some from interlock.alert_states x
    where x.tenant = a.tenant and x.alert = a.name
        and x.condition = s.condition and x.grouped = s.grouped
        and x.event_id is null
    limit 1;

    select * into m from interlock.alert_states x
    where x.tenant = a.tenant and x.alert = a.name
        and x.condition = s.condition and x.subject = v_subject;

    if (v_some is not null) = (m.subject is not null) then
        return 0;
    end if;

    if v_some then
        m := s;
        m.subject := v_subject;
        m.grouped := v_subject;
        m.work_key := null;
        m.info := null;
        m.since := p_at;
        m.event_id := interlock.alert_emit(a, m, true, p_at, null);
        insert into interlock.alert_states select m.*;
    else
        delete from interlock.alert_states x
        where x.tenant = a.tenant and x.alert = a.name
            and x.condition = s.condition and x.subject = v_subject;
        perform interlock.alert_emit(a, m, false, p_at, null);
    end if;

    return 1;
end
$$;

-- alert_emit(a, s, opened, at, info): makes the event, as it will be sent
-- each time, and its delivery.  Answers its id.
create or replace function interlock.alert_emit(
    a interlock.alerts, s interlock.alert_states, p_opened boolean,
    p_at timestamptz, p_info json)
returns uuid
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_id     uuid := gen_random_uuid();
    v_state  text := case when p_opened then 'opened' else 'recovered' end;
    v_now    timestamptz := clock_timestamp();
    v_seq    bigint;
begin
    insert into interlock.alert_events (tenant, id, alert, condition,
        subject, state, opened_event, at, body)
    values (a.tenant, v_id, a.name, s.condition, s.subject, v_state,
        case when not p_opened then s.event_id end, p_at,
        jsonb_build_object(
            'type', 'alert.' || v_state,
            'timestamp', interlock.ts(p_at),
            'data', jsonb_strip_nulls(coalesce(p_info::jsonb, '{}')
                || jsonb_build_object('event_id', v_id, 'alert', a.name,
                    'condition', s.condition, 'state', v_state,
                    'subject', s.subject, 'since', interlock.ts(s.since),
                    'opened_event', case when not p_opened
                        then s.event_id end,
                    'kind', s.kind, 'schedule', s.schedule,
                    'work_key', s.work_key,
                    'summary', interlock.alert_summary(s, p_opened,
                        p_info))))::text)
    returning seq into v_seq;

    insert into interlock.alert_deliveries (tenant, event_id, seq, alert,
        condition, subject, due_at, created_at)
    values (a.tenant, v_id, v_seq, a.name, s.condition, s.subject, v_now,
        v_now);

    update interlock.alerts x
    set due_at = least(x.due_at, greatest(v_now, x.hold_until))
    where x.tenant = a.tenant and x.name = a.name;

    return v_id;
end
$$;

-- alert_summary(s, opened, info): an event as one line, for people.
create or replace function interlock.alert_summary(
    s interlock.alert_states, p_opened boolean, p_info json)
returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select left(case when p_opened then '' else 'over: ' end
        || case
        when s.subject like 'more:%'
            then format('more of %s (%s) than are told one by one',
                s.condition, substr(s.subject, 6))
        when s.condition = 'gap'
            then format('schedule %s: the work of its slot at %s is not '
                'done (%s)', s.schedule, coalesce(p_info ->> 'slot_at', '?'),
                s.work_key)
        when s.condition = 'check_exhausted'
            then format('nobody could find out what became of %s of %s',
                s.subject, s.work_key)
        when s.condition = 'held'
            then format('a job of kind %s waits for a decision (%s)', s.kind,
                s.work_key)
        when s.condition = 'failed'
            then format('a job of kind %s failed (%s)', s.kind, s.work_key)
        when s.condition = 'skips'
            then format('schedule %s has skipped %s slots in a row',
                s.schedule, coalesce(p_info ->> 'skipped', 'some'))
        when s.condition = 'queue_age'
            then format('jobs of kind %s wait for too long', s.kind)
        else format('the claims of kind %s are paused', s.kind) end
        || case when p_opened and p_info ->> 'error' is not null
            then ': ' || (p_info ->> 'error') else '' end, 1000)
$$;

revoke all on function interlock.alert_set(interlock.alerts, boolean, text,
    text, text, text, text, timestamptz, json) from public;
revoke all on function interlock.alert_rest(interlock.alerts,
    interlock.alert_states, timestamptz) from public;
revoke all on function interlock.alert_emit(interlock.alerts,
    interlock.alert_states, boolean, timestamptz, json) from public;
revoke all on function interlock.alert_summary(interlock.alert_states,
    boolean, json) from public;

-- alert_exhausted(tenant, job): notes that nobody could look up whether the
-- job's result is there, and that it does not go on by itself.  Helper of
-- check_tell; caller holds the work.
create or replace function interlock.alert_exhausted(
    p_tenant int, p_job uuid)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    perform from interlock.alerts a where a.tenant = p_tenant limit 1;
    if not found then
        return;
    end if;

    insert into interlock.alert_queue (tenant, condition, opened, subject,
        kind, work_key, info)
    select j.tenant, 'check_exhausted', true, 'job:' || j.id, j.kind,
        j.work_key, json_build_object('job_id', j.id, 'status', j.status,
            'attempt', j.attempts, 'error', left(j.error, 1000))
    from interlock.jobs j
    where j.tenant = p_tenant and j.id = p_job
        and j.status in ('held', 'failed');
end
$$;

revoke all on function interlock.alert_exhausted(int, uuid) from public;
