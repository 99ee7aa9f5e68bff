-- limit_check(name): what is wrong with the name of a limit, or null.  Its
-- fields are tenant, kind, or fields of a kind's key_template.
create or replace function interlock.limit_check(p_name text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when p_name is null or octet_length(p_name) not between 1 and 255
            then 'a limit''s name has 1 to 255 bytes'
        when regexp_replace(p_name, '\{[a-z][a-z0-9_]*\}', '', 'g')
                !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]*$'
            and regexp_replace(p_name, '\{[a-z][a-z0-9_]*\}', 'f', 'g')
                !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]*$'
            then 'a limit''s name is made of letters, digits, ".", "_", '
                '":", "/", "-" and fields like {tenant}' end
$$;

-- limit_doc(l): the JSON object that the API shows.  active counts live
-- attempts; with fields, those of the fullest group.  Locks: none.
create or replace function interlock.limit_doc(l interlock.limits)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object('name', l.name, 'capacity', l.capacity,
        'start_rate', l.start_rate, 'active', coalesce(
            (select max(x.n) from (
                select count(*) as n from interlock.lease_groups g
                where g.tenant = l.tenant
                    and interlock.limit_of(g.group_name) = l.name
                group by g.group_name) x), 0))::text
$$;

-- limit_put(tenant, name, doc): who: interlockd, PUT /v1/limits/{name}.
-- doc is {capacity, start_rate}; what it leaves out keeps its present value;
-- a new limit needs a capacity.  "name" and "active" may stand in it as GET
-- shows them.  Takes effect with the next claim: a lower capacity stops
-- grants and ends nothing; a higher one lets jobs go at once (100 groups;
-- more by limits_sweep).
-- Locks: the limit's row, then its groups by name.
-- Answers: one row, problem null and doc what holds now, and the kinds of
-- which jobs may start.
-- Refuses: json-invalid, unknown-field, field-invalid.
create or replace function interlock.limit_put(
    p_tenant int, p_name text, p_doc text)
returns table (problem text, detail text, doc text, wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    v_json     json;
    v_problem  text;
    v_detail   text;
    v_text     text;
    l          interlock.limits;
    v_seen     text[] := '{}';
    r          record;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_detail := interlock.limit_check(p_name);
    if v_detail is not null then
        return query select 'field-invalid', v_detail, null::text,
            null::text[];
        return;
    end if;

    v_json := interlock.json_object_of(p_doc);

    if v_json is null then
        return query select 'json-invalid', 'a limit is a JSON object',
            null::text, null::text[];
        return;
    end if;

    select * into l from interlock.limits x
    where x.tenant = p_tenant and x.name = p_name for update;

    for r in select e.key, e.value from json_each(v_json) e loop
        v_problem := 'field-invalid';
        v_detail := interlock.doc_key_trouble(v_seen, r.key, r.value, p_name);
        v_text := r.value #>> '{}';

        if v_detail is not null or r.key in ('name', 'active') then
            null;
        elsif r.key = 'capacity' then
            if json_typeof(r.value) <> 'number'
                or v_text !~ '^-?(0|[1-9][0-9]{0,17})$'
            then
                v_detail := '"capacity" must be a whole number';
            elsif v_text::bigint not between 1 and 1000000 then
                v_detail := '"capacity" must be between 1 and 1000000';
            else
                l.capacity := v_text::int;
            end if;
        elsif r.key = 'start_rate' then
            if json_typeof(r.value) = 'null' then
                l.start_rate := null;
            elsif json_typeof(r.value) <> 'number'
                or length(v_text) > 30
            then
                v_detail := '"start_rate" must be a number or null';
            elsif v_text::numeric < 0.0001 or v_text::numeric > 1000000 then
                v_detail := '"start_rate" must be between 0.0001 and '
                    '1000000 a second';
            else
                l.start_rate := v_text::float8;
            end if;
        else
            v_problem := 'unknown-field';
            v_detail := format('a limit has no field "%s"', left(r.key, 64));
        end if;

        if v_detail is not null then
            return query select v_problem, v_detail, null::text,
                null::text[];
            return;
        end if;
        v_seen := v_seen || r.key;
    end loop;

    if l.capacity is null then
        return query select 'field-invalid', '"capacity" is missing',
            null::text, null::text[];
        return;
    end if;

    insert into interlock.limits as x (tenant, name, capacity, start_rate)
    values (p_tenant, p_name, l.capacity, l.start_rate)
    on conflict (tenant, name) do update
    set capacity = excluded.capacity, start_rate = excluded.start_rate,
        updated_at = clock_timestamp()
    returning * into l;

    return query select null::text, null::text, interlock.limit_doc(l),
        interlock.limit_wake(p_tenant, p_name);
end
$$;

-- limit_wake(tenant, name): takes back the times that a start rate gave out,
-- then settles up to 100 groups of a limit that have jobs waiting; the kinds
-- of these that may start.
create or replace function interlock.limit_wake(p_tenant int, p_name text)
returns text[]
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_now     timestamptz := clock_timestamp();
    v_groups  text[];
begin
    perform from (
        select x.name from interlock.limit_groups x
        where x.tenant = p_tenant and x.limit_name = p_name
        order by x.name
        for update) g;

    -- What was timed under the old rate is timed anew.  Rows that somebody is
    -- changing who holds their work are his.
    with due as (
        select j.ctid as tid
        from interlock.limit_groups x, interlock.jobs_live j
        where x.tenant = p_tenant and x.limit_name = p_name
            and j.tenant = x.tenant and j.limited_by = x.name
            and j.place = 'delayed' and j.retry_at is null
        for update of j skip locked)
    update interlock.jobs_live j
    set place = 'limited', run_at = least(j.run_at, v_now)
    from due d
    where j.ctid = d.tid;

    update interlock.limit_groups x
    set next_start = least(x.next_start, v_now + coalesce((
        select interlock.rate_step(l.start_rate) from interlock.limits l
        where l.tenant = p_tenant and l.name = p_name), interval '0'))
    where x.tenant = p_tenant and x.limit_name = p_name
        and x.next_start > v_now;

    select array_agg(g.name) into v_groups
    from (select x.name from interlock.limit_groups x
          where x.tenant = p_tenant and x.limit_name = p_name
              and exists (
                  select from interlock.jobs_live j
                  where j.tenant = x.tenant and j.limited_by = x.name
                      and j.place = 'limited')
          order by x.name limit 100) g;

    if v_groups is null then
        return '{}';
    end if;

    return (select coalesce(array_agg(distinct s.kind), '{}')
            from interlock.groups_settle(
                array_fill(p_tenant, array[cardinality(v_groups)]),
                v_groups) s);
end
$$;

-- limit_get(tenant, name), limit_list(tenant): who: interlockd,
-- GET /v1/limits/{name} and /v1/limits.  Locks: none.  No row: unknown.
create or replace function interlock.limit_get(p_tenant int, p_name text)
returns table (doc text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select interlock.limit_doc(l) from interlock.limits l
    where l.tenant = p_tenant and l.name = p_name
$$;

create or replace function interlock.limit_list(p_tenant int)
returns table (name text, doc text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select l.name, interlock.limit_doc(l) from interlock.limits l
    where l.tenant = p_tenant
    order by l.name
$$;

-- limit_delete(tenant, name): who: interlockd, DELETE /v1/limits/{name}.
-- From now on nothing limits what names it; what waited may start.
-- Locks: the limit's row, then its groups.  Refuses: not-found.
create or replace function interlock.limit_delete(p_tenant int, p_name text)
returns table (problem text, detail text, wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
begin
    perform set_config('synchronous_commit', 'on', true);

    delete from interlock.limits l
    where l.tenant = p_tenant and l.name = p_name;

    if not found then
        return query select 'not-found', format('no limit "%s"',
            left(p_name, 255)), null::text[];
        return;
    end if;

    return query select null::text, null::text,
        interlock.limit_wake(p_tenant, p_name);
end
$$;

revoke all on function interlock.limit_check(text) from public;
revoke all on function interlock.limit_doc(interlock.limits) from public;
revoke all on function interlock.limit_wake(int, text) from public;
revoke all on function interlock.limit_put(int, text, text) from public;
revoke all on function interlock.limit_get(int, text) from public;
revoke all on function interlock.limit_list(int) from public;
revoke all on function interlock.limit_delete(int, text) from public;
grant execute on function interlock.limit_put(int, text, text)
    to interlock_service;
grant execute on function interlock.limit_get(int, text)
    to interlock_service;
grant execute on function interlock.limit_list(int) to interlock_service;
grant execute on function interlock.limit_delete(int, text)
    to interlock_service;
