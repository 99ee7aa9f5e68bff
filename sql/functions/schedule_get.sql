-- schedule_get(tenant, name): who: interlockd, GET /v1/schedules/{name}.
-- Locks: none.  Answers: one row, the schedule (schedule_doc), with its
-- subjects if there are at most 1000; none if it is unknown or deleted.
create or replace function interlock.schedule_get(p_tenant int, p_name text)
returns table (doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query
    select interlock.schedule_doc(s, interlock.schedule_version(s.tenant,
        s.name, s.version), true)
    from interlock.schedules s
    where s.tenant = p_tenant and s.name = p_name and not s.deleted;
end
$$;

-- schedule_list(tenant): who: interlockd, GET /v1/schedules.
-- Locks: none.  Answers: every schedule that is not deleted, by name, without
-- the names of its subjects; with last_slot_at, the newest slot that came up
-- (skipped or not), and open_gaps, of which 1000 are counted.
create or replace function interlock.schedule_list(p_tenant int)
returns table (name text, doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query
    select s.name, left(interlock.schedule_doc(s,
            interlock.schedule_version(s.tenant, s.name, s.version), false),
            -1) || ', ' || substr(json_build_object(
                'last_slot_at', interlock.ts(greatest(x.at, k.at)),
                'open_gaps', g.n)::text, 2)
    from interlock.schedules s
    left join lateral (
        select y.slot_at as at from interlock.slots y
        where y.tenant = s.tenant and y.schedule = s.name
        order by y.slot_at desc limit 1) x on true
    left join lateral (
        select y.to_at as at from interlock.schedule_skips y
        where y.tenant = s.tenant and y.schedule = s.name
        order by y.to_at desc limit 1) k on true
    cross join lateral (
        select count(*) as n from (
            select from interlock.gaps y
            where y.tenant = s.tenant and y.schedule = s.name
                and y.state = 'open' limit 1000) z) g
    where s.tenant = p_tenant and not s.deleted
    order by s.name;
end
$$;

-- schedule_delete(tenant, name): who: interlockd, DELETE
-- /v1/schedules/{name}.
-- From now on no slot of it fires: what is due, or waits, is skipped (reason
-- deleted).  Its slots and gaps stay, and so do its versions.
-- Locks: the schedule's row (FOR NO KEY UPDATE).  Answers: one row, problem
-- null if done.  Refuses: not-found.
create or replace function interlock.schedule_delete(
    p_tenant int, p_name text)
returns table (problem text, detail text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    s  interlock.schedules;
begin
    perform set_config('synchronous_commit', 'on', true);

    s := interlock.schedule_lock(p_tenant, p_name);
    if s.name is null then
        return query select 'not-found', 'no such schedule';
        return;
    end if;

    s := (interlock.schedule_pass(s, interlock.schedule_version(p_tenant,
        p_name, s.version), clock_timestamp(),
        case when s.paused then 'paused' else 'deleted' end)).s;

    s.deleted := true;
    s.paused := false;
    s.pause_note := null;
    s.next_at := null;
    s.skips := 0;
    s.updated_at := clock_timestamp();
    perform interlock.schedule_store(s);

    return query select null::text, null::text;
end
$$;

-- schedule_lock(tenant, name): the row of a schedule that is not deleted,
-- locked and as it is then; nulls if there is none.
create or replace function interlock.schedule_lock(
    p_tenant int, p_name text)
returns interlock.schedules
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    s  interlock.schedules;
begin
    perform from interlock.schedules x
    where x.tenant = p_tenant and x.name = p_name for no key update;

    select * into s from interlock.schedules x
    where x.tenant = p_tenant and x.name = p_name and not x.deleted;
    return s;
end
$$;

-- schedule_pause(…), schedule_resume(…): who: interlockd, POST
-- /v1/schedules/{name}/pause and /resume.
-- What comes up while a schedule is paused is skipped (reason paused); what
-- waits for room goes on waiting.  p_reason is the note that is shown.
-- p_call: see action_made.
-- Locks: the schedule's row (FOR NO KEY UPDATE).
-- Answers: one row; problem null and doc the schedule.  Paused twice, or
-- resumed without being paused, it is as it was.
-- Refuses: field-invalid (requested_by or reason missing); not-found.
create or replace function interlock.schedule_pause(
    p_tenant int, p_name text, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return query select * from interlock.schedule_paused(p_tenant, p_name,
        true, p_requested_by, p_reason, p_token_id, p_token_name, p_call);
end
$$;

create or replace function interlock.schedule_resume(
    p_tenant int, p_name text, p_requested_by text, p_reason text,
    p_token_id bigint, p_token_name text, p_call uuid default null)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return query select * from interlock.schedule_paused(p_tenant, p_name,
        false, p_requested_by, p_reason, p_token_id, p_token_name, p_call);
end
$$;

-- schedule_paused(…): both of them.
create or replace function interlock.schedule_paused(
    p_tenant int, p_name text, p_paused boolean, p_requested_by text,
    p_reason text, p_token_id bigint, p_token_name text, p_call uuid)
returns table (problem text, detail text, doc text)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    s         interlock.schedules;
    v_detail  text;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_detail := interlock.who_trouble(p_requested_by, p_reason);
    if v_detail is not null then
        return query select 'field-invalid', v_detail, null::text;
        return;
    end if;

    s := interlock.schedule_lock(p_tenant, p_name);
    if s.name is null then
        return query select 'not-found', 'no such schedule', null::text;
        return;
    end if;

    if s.paused <> p_paused
        and not interlock.action_made(p_tenant, p_call)
    then
        s := interlock.schedule_set_pause(s, jsonb_build_object(
            'paused', p_paused, 'pause_note', p_reason), clock_timestamp());
        perform interlock.schedule_store(s);

        insert into interlock.actions (tenant, what, target, token_id,
            token_name, requested_by, reason, call_id)
        values (p_tenant, case when p_paused then 'schedule_pause'
                else 'schedule_resume' end, p_name, p_token_id, p_token_name,
            p_requested_by, p_reason, p_call);
    end if;

    return query select null::text, null::text, interlock.schedule_doc(s,
        interlock.schedule_version(p_tenant, p_name, s.version), true);
end
$$;

revoke all on function interlock.schedule_lock(int, text) from public;
revoke all on function interlock.schedule_paused(int, text, boolean, text,
    text, bigint, text, uuid) from public;
revoke all on function interlock.schedule_get(int, text) from public;
revoke all on function interlock.schedule_list(int) from public;
revoke all on function interlock.schedule_delete(int, text) from public;
revoke all on function interlock.schedule_pause(int, text, text, text,
    bigint, text, uuid) from public;
revoke all on function interlock.schedule_resume(int, text, text, text,
    bigint, text, uuid) from public;
grant execute on function interlock.schedule_get(int, text)
    to interlock_service;
grant execute on function interlock.schedule_list(int) to interlock_service;
grant execute on function interlock.schedule_delete(int, text)
    to interlock_service;
grant execute on function interlock.schedule_pause(int, text, text, text,
    bigint, text, uuid) to interlock_service;
grant execute on function interlock.schedule_resume(int, text, text, text,
    bigint, text, uuid) to interlock_service;
