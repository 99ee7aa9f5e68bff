-- effect_kind.sql: what is known of the providers that effects go to.

-- effect_kind_row(tenant, name): the present version of an effect kind, or
-- the last one of a deleted kind: what was sent is settled all the same.
-- No row if there never was one.  Locks: none.
create or replace function interlock.effect_kind_row(
    p_tenant int, p_name text)
returns setof interlock.effect_kind_versions
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return query
    select v.*
    from interlock.effect_kinds k
    cross join lateral (
        select x.* from interlock.effect_kind_versions x
        where x.tenant = k.tenant and x.name = k.name
            and x.version = k.version
        limit 1) v
    where k.tenant = p_tenant and k.name = p_name;
end $$;

-- effect_kind_doc(v): the JSON object that the API shows.
create or replace function interlock.effect_kind_doc(
    v interlock.effect_kind_versions)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object(
        'name', v.name, 'version', v.version,
        'idempotent', v.idempotent, 'key_window', v.key_window,
        'send_deadline', v.send_deadline, 'lookup', v.lookup::json,
        'authoritative', v.authoritative, 'settle_after', v.settle_after,
        'check_delay', v.check_delay, 'check_backoff', v.check_backoff,
        'max_checks', v.max_checks, 'on_exhausted', v.on_exhausted,
        'evidence', v.evidence::json, 'outcome_map', v.outcome_map::json,
        'key_header', v.key_header)::text
$$;

-- effect_kind_field(name, value): what is wrong with one field of an effect
-- kind, as an English sentence, or null.  The table below is the whole truth
-- about the fields.  Locks: none.
create or replace function interlock.effect_kind_field(
    p_name text, p_value json, out problem text, out detail text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    f       record;
    v_type  text := json_typeof(p_value);
    v_text  text := p_value #>> '{}';
    v_bad   text;
begin
    select * into f from (values
        ('idempotent', 'bool', false, null::bigint, null::bigint,
            '{}'::text[]),
        ('key_window', 'int', false, 1, 315360000, '{}'),
        ('send_deadline', 'int', false, 1, 3600, '{}'),
        ('lookup', 'lookup', true, null, null, '{}'),
        ('authoritative', 'bool', false, null, null, '{}'),
        ('settle_after', 'int', false, 0, 31536000, '{}'),
        ('check_delay', 'int', false, 0, 604800, '{}'),
        ('check_backoff', 'int', false, 0, 604800, '{}'),
        ('max_checks', 'int', false, 1, 1000, '{}'),
        ('on_exhausted', 'enum', false, null, null,
            array['needs_human', 'keep_checking']),
        ('evidence', 'evidence', true, null, null, '{}'),
        ('outcome_map', 'map', true, null, null, '{}'),
        ('key_header', 'header', false, null, null, '{}')
    ) t (name, type, nullable, low, high, words)
    where t.name = p_name;

    if not found then
        problem := 'unknown-field';
        detail := format('an effect kind has no field "%s"',
                         left(p_name, 64));
        return;
    end if;

    if v_type = 'null' or f.type in ('int', 'bool', 'enum') then
        detail := interlock.doc_field_trouble(p_name, p_value, f.type,
            f.nullable, f.low, f.high, f.words);
    elsif f.type = 'header' then
        v_bad := case when v_type <> 'string'
            or v_text !~ '^[A-Za-z][A-Za-z0-9-]{0,63}$'
            or lower(v_text) ~ '^(interlock-.*|host|connection|cookie|te|'
                'content-length|transfer-encoding|authorization|upgrade|'
                'keep-alive|trailer|proxy-.*|expect)$'
            then 'must be the name of a header that is free for a key' end;
    elsif octet_length(p_value::text) > 16384 then
        v_bad := 'must be at most 16384 bytes';
    elsif f.type = 'lookup' then
        v_bad := interlock.check_spec_trouble(p_value, 'effect');
    elsif f.type = 'evidence' then
        v_bad := interlock.evidence_trouble(p_value);
    elsif f.type = 'map' then
        v_bad := interlock.outcome_map_trouble(p_value);
    end if;

    if v_bad ~ '^"' then
        detail := format('"%s": %s', p_name, v_bad);
    elsif v_bad is not null then
        detail := format('"%s" %s', p_name, v_bad);
    end if;

    if detail is not null then
        problem := 'field-invalid';
    end if;
end
$$;

-- outcome_map_trouble(map): what an answer of a provider means, by its
-- status: {"202": "unknown", "5xx": "failed", …}; and what it means that there
-- was none: connect (no connection was made), timeout, reset, truncated.
-- What is wrong, or null.
create or replace function interlock.outcome_map_trouble(p_map json)
returns text
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_seen  text[] := '{}';
    r       record;
begin
    if json_typeof(p_map) <> 'object' then
        return 'must be an object';
    end if;

    for r in select e.key, e.value from json_each(p_map) e loop
        if r.key !~ '^([2-5][0-9][0-9]|[2-5]xx|connect|timeout|reset|'
            'truncated)$'
        then
            return format('has "%s", which is neither a status (429) nor a '
                'class (4xx), nor connect, timeout, reset or truncated',
                left(r.key, 64));
        elsif r.key = any (v_seen) then
            return format('has "%s" twice', r.key);
        elsif json_typeof(r.value) <> 'string' or r.value #>> '{}'
            not in ('confirmed', 'failed', 'retry', 'unknown')
        then
            return format('must say for "%s" one of confirmed, failed, '
                'retry, unknown', r.key);
        end if;
        v_seen := v_seen || r.key;
    end loop;

    return null;
end
$$;

-- effect_kind_put(tenant, name, doc): who: interlockd, PUT
-- /v1/effect-kinds/{name}.
-- Locks: the effect kind's row (FOR UPDATE; made first if missing).
-- Answers, refuses: as kind_put.
create or replace function interlock.effect_kind_put(
    p_tenant int, p_name text, p_doc text)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    v_json    json;
    v_seen    text[] := '{}';
    v_expect  text;
    v_bad     text;
    k         interlock.effect_kinds;
    v_old     interlock.effect_kind_versions;
    v_new     interlock.effect_kind_versions;
    r         record;
    c         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_json := interlock.json_object_of(p_doc);
    select * into c
    from interlock.doc_trouble('an effect kind', p_name, v_json);
    if c.problem is not null then
        return query select c.problem, c.detail, null::text;
        return;
    end if;

    for r in select e.key, e.value from json_each(v_json) e loop
        v_bad := interlock.doc_key_trouble(v_seen, r.key, r.value, p_name);
        if v_bad is not null then
            return query select 'field-invalid', v_bad, null::text;
            return;
        end if;
        v_seen := v_seen || r.key;

        if r.key = 'version' then
            v_expect := coalesce(r.value #>> '{}', 'null');
        elsif r.key <> 'name' then
            select * into c
            from interlock.effect_kind_field(r.key, r.value);
            if c.problem is not null then
                return query select c.problem, c.detail, null::text;
                return;
            end if;
        end if;
    end loop;

    perform from interlock.effect_kinds x
    where x.tenant = p_tenant and x.name = p_name;
    if not found and v_expect is not null then
        return query select 'field-invalid',
            '"version" is not the present one (none)', null::text;
        return;
    end if;

    insert into interlock.effect_kinds (tenant, name, version, deleted)
    values (p_tenant, p_name, 1, true)
    on conflict do nothing;

    select * into strict k from interlock.effect_kinds x
    where x.tenant = p_tenant and x.name = p_name for update;

    select * into v_old from interlock.effect_kind_versions v
    where v.tenant = p_tenant and v.name = p_name and v.version = k.version;

    if v_expect is not null and (k.deleted or v_expect <> k.version::text)
    then
        return query select 'field-invalid',
            format('"version" is not the present one (%s)',
                   case when k.deleted then 'none'
                   else k.version::text end), null::text;
        return;
    end if;

    if k.deleted then
        v_new := interlock.effect_kind_defaults(p_tenant, p_name);
    else
        v_new := v_old;
    end if;

    v_new := interlock.effect_kind_change(v_new, v_json);

    v_bad := interlock.effect_kind_rules(v_new);
    if v_bad is not null then
        -- The row that was made above, and nothing else.
        delete from interlock.effect_kinds x
        where x.tenant = p_tenant and x.name = p_name
            and v_old.version is null;
        return query select 'field-invalid', v_bad, null::text;
        return;
    end if;

    if k.deleted or v_new is distinct from v_old then
        v_new.version := case when v_old.version is null then 1
                         else k.version + 1 end;
        v_new.created_at := clock_timestamp();
        insert into interlock.effect_kind_versions select v_new.*;
        update interlock.effect_kinds x
        set version = v_new.version, deleted = false
        where x.tenant = p_tenant and x.name = p_name;
        perform interlock.evidence_from(p_tenant, p_name, v_new.evidence);
    end if;

    return query select null::text, null::text,
        interlock.effect_kind_doc(v_new);
end
$$;

-- effect_kind_defaults(tenant, name): version 1 with every field at its
-- default: a provider of which nothing is known.
create or replace function interlock.effect_kind_defaults(
    p_tenant int, p_name text)
returns interlock.effect_kind_versions
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v  interlock.effect_kind_versions;
begin
    v.tenant := p_tenant;
    v.name := p_name;
    v.version := 1;
    v.idempotent := false;
    v.key_window := 86400;
    v.send_deadline := 10;
    v.authoritative := false;
    v.settle_after := 600;
    v.check_delay := 5;
    v.check_backoff := 10;
    v.max_checks := 10;
    v.on_exhausted := 'needs_human';
    v.key_header := 'Idempotency-Key';
    return v;
end
$$;

-- effect_kind_change(v, doc): v with what doc, which was judged, says.  JSON
-- values are kept as they were written; null and a look-up of type none are
-- the same.
create or replace function interlock.effect_kind_change(
    v interlock.effect_kind_versions, p_doc json)
returns interlock.effect_kind_versions
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    r       record;
    v_json  text;
begin
    for r in select e.key, e.value from json_each(p_doc) e loop
        v_json := case when json_typeof(r.value) <> 'null'
                  then r.value::text end;
        case r.key
        when 'idempotent' then v.idempotent := (r.value #>> '{}')::boolean;
        when 'key_window' then v.key_window := (r.value #>> '{}')::int;
        when 'send_deadline' then v.send_deadline := (r.value #>> '{}')::int;
        when 'lookup' then
            v.lookup := case when r.value ->> 'type' <> 'none'
                        then v_json end;
        when 'authoritative' then
            v.authoritative := (r.value #>> '{}')::boolean;
        when 'settle_after' then v.settle_after := (r.value #>> '{}')::int;
        when 'check_delay' then v.check_delay := (r.value #>> '{}')::int;
        when 'check_backoff' then v.check_backoff := (r.value #>> '{}')::int;
        when 'max_checks' then v.max_checks := (r.value #>> '{}')::int;
        when 'on_exhausted' then v.on_exhausted := r.value #>> '{}';
        when 'evidence' then v.evidence := v_json;
        when 'outcome_map' then v.outcome_map := v_json;
        when 'key_header' then v.key_header := r.value #>> '{}';
        else null;
        end case;
    end loop;

    return v;
end
$$;

-- effect_kind_rules(v): what is wrong between the fields, as an English
-- sentence, or null.
create or replace function interlock.effect_kind_rules(
    v interlock.effect_kind_versions, out detail text)
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    detail := case
        when v.idempotent and v.key_window <= v.send_deadline
        then format('"key_window" must be longer than send_deadline (%s)',
                    v.send_deadline)
        when v.authoritative and v.lookup is null
        then '"authoritative" is said of a look-up, and there is none'
        end;
end
$$;

-- effect_kind_get(tenant, name): who: interlockd, GET
-- /v1/effect-kinds/{name}.  Locks: none.  No row if there is none.
create or replace function interlock.effect_kind_get(
    p_tenant int, p_name text)
returns table (doc text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select interlock.effect_kind_doc(v)
    from interlock.effect_kinds k,
        lateral interlock.effect_kind_row(k.tenant, k.name) v
    where k.tenant = p_tenant and k.name = p_name and not k.deleted
$$;

-- effect_kind_list(tenant): who: interlockd, GET /v1/effect-kinds.
-- Locks: none.  Answers: every one that is not deleted, by name.
create or replace function interlock.effect_kind_list(p_tenant int)
returns table (name text, doc text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select v.name, interlock.effect_kind_doc(v)
    from interlock.effect_kinds k
    join interlock.effect_kind_versions v
        on v.tenant = k.tenant and v.name = k.name and v.version = k.version
    where k.tenant = p_tenant and not k.deleted
    order by v.name
$$;

-- effect_kind_delete(tenant, name): who: interlockd, DELETE
-- /v1/effect-kinds/{name}.  Locks: its row (FOR UPDATE).
-- Answers: one row, problem null if done.  Nothing of it begins any more;
-- what was begun is settled under its last version.
-- Refuses: effect-kind-unknown.
create or replace function interlock.effect_kind_delete(
    p_tenant int, p_name text)
returns table (problem text, detail text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
begin
    perform set_config('synchronous_commit', 'on', true);

    perform from interlock.effect_kinds k
    where k.tenant = p_tenant and k.name = p_name and not k.deleted
    for update;

    if not found then
        return query select 'effect-kind-unknown',
            format('no effect kind "%s"', left(p_name, 64));
        return;
    end if;

    update interlock.effect_kinds k set deleted = true
    where k.tenant = p_tenant and k.name = p_name;
    perform interlock.evidence_from(p_tenant, p_name, null);

    return query select null::text, null::text;
end
$$;

revoke all on function interlock.effect_kind_row(int, text) from public;
revoke all on function interlock.effect_kind_doc(
    interlock.effect_kind_versions) from public;
revoke all on function interlock.effect_kind_field(text, json) from public;
revoke all on function interlock.outcome_map_trouble(json) from public;
revoke all on function interlock.effect_kind_defaults(int, text) from public;
revoke all on function interlock.effect_kind_change(
    interlock.effect_kind_versions, json) from public;
revoke all on function interlock.effect_kind_rules(
    interlock.effect_kind_versions) from public;
revoke all on function interlock.effect_kind_put(int, text, text)
    from public;
revoke all on function interlock.effect_kind_get(int, text) from public;
revoke all on function interlock.effect_kind_list(int) from public;
revoke all on function interlock.effect_kind_delete(int, text) from public;
grant execute on function interlock.effect_kind_put(int, text, text)
    to interlock_service;
grant execute on function interlock.effect_kind_get(int, text)
    to interlock_service;
grant execute on function interlock.effect_kind_list(int)
    to interlock_service;
grant execute on function interlock.effect_kind_delete(int, text)
    to interlock_service;
