-- gap_doc(g): the JSON object of the API.  Locks: none.
create or replace function interlock.gap_doc(g interlock.gaps) returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_job  uuid;
begin
    select s.job_id into v_job from interlock.slots s
    where s.tenant = g.tenant and s.schedule = g.schedule
        and s.slot_at = g.slot_at and s.subject = g.subject;

    return json_build_object('gap_id', g.id, 'schedule', g.schedule,
        'slot_at', interlock.ts(g.slot_at),
        'business_date', g.business_date, 'subject', g.subject,
        'work_key', g.work_key, 'since', interlock.ts(g.since),
        'why', g.why, 'state', g.state, 'job_id', v_job,
        'opened_at', interlock.ts(g.opened_at),
        'changed_at', interlock.ts(g.changed_at),
        'requested_by', g.requested_by, 'reason', g.reason)::text;
end
$$;

-- gaps_list(…): who: interlockd, GET /v1/gaps.
-- Gaps of a tenant, or of one schedule, in one state (null: open), the longest
-- missing first.  Locks: none.
-- Answers at most limit rows, each with the cursor from which the next page
-- goes on.  A cursor that is none gives no row.  doc {gap_id, schedule,
-- slot_at, business_date, subject, work_key, since, why, state (open,
-- approved, dismissed, closed), job_id, opened_at, changed_at, requested_by,
-- reason}.
create or replace function interlock.gaps_list(
    p_tenant int, p_schedule text, p_state text, p_limit int,
    p_cursor text)
returns table (doc text, cursor text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_state  text := coalesce(p_state, 'open');
    v_limit  int := greatest(0, least(p_limit, 1000));
    v_since  timestamptz := '-infinity';
    v_id     uuid := '00000000-0000-0000-0000-000000000000';
begin
    if p_cursor is not null then
        if p_cursor !~ '^\d{1,17}\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-'
            '[0-9a-f]{12}$'
        then
            return;
        end if;
        v_since := interlock.time_of(split_part(p_cursor, '.', 1));
        v_id := split_part(p_cursor, '.', 2)::uuid;
    end if;

    if p_schedule is null then
        return query
        select interlock.gap_doc(g), interlock.time_text(g.since) || '.'
            || g.id
        from interlock.gaps g
        where g.tenant = p_tenant and g.state = v_state
            and (g.since, g.id) > (v_since, v_id)
        order by g.since, g.id limit v_limit;
    else
        return query
        select interlock.gap_doc(g), interlock.time_text(g.since) || '.'
            || g.id
        from interlock.gaps g
        where g.tenant = p_tenant and g.schedule = p_schedule
            and g.state = v_state
            and (g.since, g.id) > (v_since, v_id)
        order by g.since, g.id limit v_limit;
    end if;
end
$$;

-- time_text(at), time_of(text): a time in microseconds, for cursors.
create or replace function interlock.time_text(p_at timestamptz)
returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select (extract(epoch from p_at) * 1000000)::bigint::text
$$;

create or replace function interlock.time_of(p_text text)
returns timestamptz
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select timestamptz 'epoch'
        + make_interval(secs => p_text::bigint / 1000000)
        + p_text::bigint % 1000000 * interval '1 microsecond'
$$;

-- gap_approve(…): who: interlockd, POST /v1/gaps/{id}/approve.
-- Runs the work of a gap now: what was not admitted (it waits for approval or
-- for room) is, and where there is still no room it is tried again like any
-- other; what was, and came to nothing, runs again (work_again).
-- p_call: see action_made.
-- Locks: the schedule's row (FOR NO KEY UPDATE), then as submit with p_wait,
-- or as work_rerun.
-- Answers: one row; problem null and doc the gap, with job_id; the kinds of
-- which jobs may start; the jobs that ended.
-- Refuses: field-invalid (requested_by or reason missing); not-found;
-- gap-closed (it is not open); work-active (its job has not ended: detail says
-- how it stands); and what work_again does.
create or replace function interlock.gap_approve(
    p_tenant int, p_gap uuid, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text, retry_after int,
    wake_kinds text[], ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    g        interlock.gaps;
    x        interlock.slots;
    t        record;
    v_kinds  text[] := '{}';
    v_ended  uuid[] := '{}';
begin
    perform set_config('synchronous_commit', 'on', true);

    select * into t from interlock.gap_decide(p_tenant, p_gap, p_call,
                                              p_requested_by, p_reason);
    if t.problem is null and not t.made then
        g := t.gap;
        select * into x from interlock.slots s
        where s.tenant = p_tenant and s.schedule = g.schedule
            and s.slot_at = g.slot_at and s.subject = g.subject;

        if x.state = 'waiting' and interlock.slot_void(x) is not null then
            perform interlock.slot_skip(x, interlock.slot_void(x));
            t.problem := 'gap-closed';
            t.detail := format('the gap is closed: its schedule was %s',
                               interlock.slot_void(x));
        elsif x.state = 'waiting' then
            select * into t from interlock.slot_run_now(x);
        else
            select * into t from interlock.slot_run_again(x, p_requested_by,
                                                          p_reason);
        end if;
        if t.problem is null then
            v_kinds := t.wake_kinds;
            v_ended := t.ended_jobs;
        end if;
    end if;

    if t.problem is not null then
        return query select t.problem, t.detail, null::text, t.retry_after,
            v_kinds, v_ended;
        return;
    end if;

    if g.id is not null then
        perform interlock.gap_decided(g, 'approved', p_requested_by,
            p_reason, p_token_id, p_token_name, p_call);
    end if;

    return query select null::text, null::text, interlock.gap_doc(y),
        null::int, v_kinds, v_ended
    from interlock.gaps y where y.tenant = p_tenant and y.id = p_gap;
end
$$;

-- gap_dismiss(…): who: interlockd, POST /v1/gaps/{id}/dismiss.
-- A gap that is to stay one: its slot is looked at no more, and what was not
-- admitted yet is skipped (reason dismissed).  p_call: see action_made.
-- Locks: the schedule's row (FOR NO KEY UPDATE).
-- Answers: one row; problem null and doc the gap.
-- Refuses: field-invalid (requested_by or reason missing); not-found;
-- gap-closed.
create or replace function interlock.gap_dismiss(
    p_tenant int, p_gap uuid, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    g  interlock.gaps;
    t  record;
begin
    perform set_config('synchronous_commit', 'on', true);

    select * into t from interlock.gap_decide(p_tenant, p_gap, p_call,
                                              p_requested_by, p_reason);
    if t.problem is not null then
        return query select t.problem, t.detail, null::text;
        return;
    end if;

    g := t.gap;
    if not t.made then
        perform interlock.gap_decided(g, 'dismissed', p_requested_by,
            p_reason, p_token_id, p_token_name, p_call);

        update interlock.slots s
        set check_at = null, lane = null,
            state = case s.state when 'waiting' then 'skipped'
                    else s.state end,
            reason = case s.state when 'waiting' then 'dismissed'
                     else s.reason end
        where s.tenant = p_tenant and s.schedule = g.schedule
            and s.slot_at = g.slot_at and s.subject = g.subject
            and s.state in ('waiting', 'admitted');
    end if;

    return query select null::text, null::text, interlock.gap_doc(y)
    from interlock.gaps y where y.tenant = p_tenant and y.id = p_gap;
end
$$;

-- gap_decide(…): locks a gap's schedule and looks whether it may be decided
-- on; made: the same call did so already.
create or replace function interlock.gap_decide(
    p_tenant int, p_gap uuid, p_call uuid, p_requested_by text,
    p_reason text, out problem text, out detail text, out retry_after int,
    out made boolean, out gap interlock.gaps)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    made := false;
    detail := interlock.who_trouble(p_requested_by, p_reason);
    if detail is not null then
        problem := 'field-invalid';
        return;
    end if;

    perform from interlock.schedules s
    where s.tenant = p_tenant and s.name = (
        select y.schedule from interlock.gaps y
        where y.tenant = p_tenant and y.id = p_gap)
    for no key update;

    select * into gap from interlock.gaps y
    where y.tenant = p_tenant and y.id = p_gap;
    if not found then
        problem := 'not-found';
        detail := 'no such gap';
        return;
    end if;

    made := interlock.action_made(p_tenant, p_call);
    if not made and gap.state <> 'open' then
        problem := 'gap-closed';
        detail := format('the gap is %s', gap.state);
    end if;
end
$$;

-- gap_decided(g, state, …): keeps a decision about a gap.
create or replace function interlock.gap_decided(
    g interlock.gaps, p_state text, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_call uuid)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    update interlock.gaps y
    set state = p_state, changed_at = clock_timestamp(),
        requested_by = p_requested_by, reason = p_reason,
        token_id = p_token_id, token_name = p_token_name
    where y.tenant = g.tenant and y.id = g.id;

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, detail, call_id, work_key)
    values (g.tenant, case p_state when 'approved' then 'gap_approve'
            else 'gap_dismiss' end, g.id::text, p_token_id, p_token_name,
        p_requested_by, p_reason, json_build_object('schedule', g.schedule,
            'slot_at', interlock.ts(g.slot_at), 'subject', g.subject),
        p_call, g.work_key);
end
$$;

-- slot_run_now(x): submits a slot that waits; helper of gap_approve.  Where
-- there is still no room it is tried again like any other.
create or replace function interlock.slot_run_now(
    x interlock.slots, out problem text, out detail text,
    out retry_after int, out wake_kinds text[], out ended_jobs uuid[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v  interlock.schedule_versions;
    b  interlock.slot_try;
    a  interlock.submit_answer;
    y  interlock.slots;
begin
    v := interlock.schedule_version(x.tenant, x.schedule, x.version);
    b := interlock.slot_try_of(x, v);
    a := (interlock.batch_submit(array[b]))[1];
    y := interlock.slot_after(b, a);
    perform interlock.slot_moved(y);
    perform interlock.lines_settle(array[b], array[y]);

    wake_kinds := coalesce(a.wake_kinds, '{}');
    ended_jobs := coalesce(a.ended_jobs, '{}');
end
$$;

-- slot_run_again(x, …): runs a slot's work again that came to nothing.
create or replace function interlock.slot_run_again(
    x interlock.slots, p_requested_by text, p_reason text, out problem text,
    out detail text, out retry_after int, out wake_kinds text[],
    out ended_jobs uuid[])
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    a  record;
begin
    wake_kinds := '{}';
    ended_jobs := '{}';
    select * into a from interlock.work_again(x.tenant, x.work_key, null,
        p_requested_by, p_reason, interlock.slot_repeats(x));
    problem := a.problem;
    detail := a.detail;
    retry_after := a.retry_after;
    if problem is not null then
        return;
    end if;

    update interlock.slots s
    set job_id = (a.job).id,
        check_at = clock_timestamp() + interval '15 seconds'
    where s.tenant = x.tenant and s.schedule = x.schedule
        and s.slot_at = x.slot_at and s.subject = x.subject;

    if a.runnable then
        wake_kinds := array[(a.job).kind];
    end if;
    wake_kinds := interlock.groups_done(x.tenant, a.groups, wake_kinds);
end
$$;

revoke all on function interlock.gap_doc(interlock.gaps) from public;
revoke all on function interlock.time_text(timestamptz) from public;
revoke all on function interlock.time_of(text) from public;
revoke all on function interlock.gap_decide(int, uuid, uuid, text, text)
    from public;
revoke all on function interlock.gap_decided(interlock.gaps, text, text,
    text, bigint, text, uuid) from public;
revoke all on function interlock.slot_run_now(interlock.slots) from public;
revoke all on function interlock.slot_run_again(interlock.slots, text, text)
    from public;
revoke all on function interlock.gaps_list(int, text, text, int, text)
    from public;
revoke all on function interlock.gap_approve(int, uuid, text, text, bigint,
    text, uuid) from public;
revoke all on function interlock.gap_dismiss(int, uuid, text, text, bigint,
    text, uuid) from public;
grant execute on function interlock.gaps_list(int, text, text, int, text)
    to interlock_service;
grant execute on function interlock.gap_approve(int, uuid, text, text,
    bigint, text, uuid) to interlock_service;
grant execute on function interlock.gap_dismiss(int, uuid, text, text,
    bigint, text, uuid) to interlock_service;
