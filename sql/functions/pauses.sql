-- pauses.sql: kinds whose claims, and sources whose requests, stand still
-- until a named person resumes them.

-- pause(tenant, what, name, …): who: interlockd, POST
-- /v1/kinds/{name}/pause and /v1/sources/{name}/pause.
-- A paused kind is submitted to as ever, and none of its jobs is claimed; a
-- claim that was under way may still grant one.  What runs goes on, and what
-- waits goes on waiting, max_wait included.  A paused source's requests are
-- refused (503) and leave no trace.  Schedules have a pause of their own.
-- Paused already: stays as it is, with its first reason.  p_call: see
-- action_made.
-- Locks: the row in pauses.  Leaves a row in actions.
-- Answers: one row; problem null, doc the kind, or the source.
-- Refuses: field-invalid (no name of a person, no reason; a source that is
-- none of requests), kind-unknown.
create or replace function interlock.pause(
    p_tenant int, p_what text, p_name text, p_requested_by text,
    p_reason text, p_token_id bigint, p_token_name text,
    p_call uuid default null)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    c  record;
begin
    perform set_config('synchronous_commit', 'on', true);

    select * into c from interlock.pause_trouble(p_tenant, p_what, p_name,
        p_requested_by, p_reason);
    if c.problem is not null then
        return query select c.problem, c.detail, null::text;
        return;
    end if;

    insert into interlock.pauses (tenant, what, name, requested_by, reason,
        token_id, token_name)
    values (p_tenant, p_what, p_name, p_requested_by, p_reason, p_token_id,
        p_token_name)
    on conflict do nothing;

    perform interlock.pause_noted(p_tenant, p_what || '_pause', p_name,
        p_requested_by, p_reason, p_token_id, p_token_name, p_call);

    return query select null::text, null::text,
        interlock.pause_shown(p_tenant, p_what, p_name);
end
$$;

-- resume(tenant, what, name, …): who: interlockd, …/resume.  As pause; what
-- is not paused stays so.
-- Answers beside: the kind, of which jobs may start now.
create or replace function interlock.resume(
    p_tenant int, p_what text, p_name text, p_requested_by text,
    p_reason text, p_token_id bigint, p_token_name text,
    p_call uuid default null)
returns table (problem text, detail text, doc text, wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    c  record;
begin
    perform set_config('synchronous_commit', 'on', true);

    select * into c from interlock.pause_trouble(p_tenant, p_what, p_name,
        p_requested_by, p_reason);
    if c.problem is not null then
        return query select c.problem, c.detail, null::text, '{}'::text[];
        return;
    end if;

    delete from interlock.pauses p
    where p.tenant = p_tenant and p.what = p_what and p.name = p_name;

    perform interlock.pause_noted(p_tenant, p_what || '_resume', p_name,
        p_requested_by, p_reason, p_token_id, p_token_name, p_call);

    return query select null::text, null::text,
        interlock.pause_shown(p_tenant, p_what, p_name),
        case p_what when 'kind' then array[p_name] else '{}'::text[] end;
end
$$;

-- pause_trouble(…): what is wrong with a call of pause or resume.
create or replace function interlock.pause_trouble(
    p_tenant int, p_what text, p_name text, p_requested_by text,
    p_reason text, out problem text, out detail text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    problem := 'field-invalid';

    if coalesce(btrim(p_requested_by), '') = '' then
        detail := '"requested_by" is missing';
    elsif coalesce(btrim(p_reason), '') = '' then
        detail := '"reason" is missing';
    elsif p_what = 'kind' then
        perform from interlock.kind_row(p_tenant, p_name);
        if not found then
            problem := 'kind-unknown';
            detail := format('no kind "%s"', left(p_name, 64));
        end if;
    elsif p_name !~ '^[a-z0-9][a-z0-9._-]{0,63}$' then
        detail := 'a source''s name has 1 to 64 of a-z, 0-9, ".", "_", "-", '
            'the first a letter or digit';
    elsif p_name in ('schedule', 'backfill', 'rerun') then
        detail := format('"%s" is not paused as a source: pause the '
            'schedules, or the kind', p_name);
    end if;

    if detail is null then
        problem := null;
    end if;
end
$$;

create or replace function interlock.pause_noted(
    p_tenant int, p_what text, p_name text, p_requested_by text,
    p_reason text, p_token_id bigint, p_token_name text, p_call uuid)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if interlock.action_made(p_tenant, p_call) then
        return;
    end if;

    insert into interlock.actions (tenant, what, target, token_id,
        token_name, requested_by, reason, call_id)
    values (p_tenant, p_what, p_name, p_token_id, p_token_name,
        p_requested_by, p_reason, p_call);
end
$$;

create or replace function interlock.pause_shown(
    p_tenant int, p_what text, p_name text)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select case p_what
        when 'kind' then (select interlock.kind_doc(v)
                          from interlock.kind_row(p_tenant, p_name) v)
        else json_build_object('name', p_name, 'paused',
            interlock.pause_doc(p_tenant, p_what, p_name))::text end
$$;

-- source_list(tenant): who: interlockd, GET /v1/sources.
-- Locks: none.  Answers: the sources that are paused, by name.
create or replace function interlock.source_list(p_tenant int)
returns table (doc text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select interlock.pause_shown(p.tenant, p.what, p.name)
    from interlock.pauses p
    where p.tenant = p_tenant and p.what = 'source'
    order by p.name
$$;

revoke all on function interlock.pause(int, text, text, text, text, bigint,
    text, uuid) from public;
revoke all on function interlock.resume(int, text, text, text, text, bigint,
    text, uuid) from public;
revoke all on function interlock.source_list(int) from public;
revoke all on function interlock.pause_trouble(int, text, text, text, text)
    from public;
revoke all on function interlock.pause_noted(int, text, text, text, text,
    bigint, text, uuid) from public;
revoke all on function interlock.pause_shown(int, text, text) from public;
grant execute on function interlock.pause(int, text, text, text, text,
    bigint, text, uuid) to interlock_service;
grant execute on function interlock.resume(int, text, text, text, text,
    bigint, text, uuid) to interlock_service;
grant execute on function interlock.source_list(int) to interlock_service;
