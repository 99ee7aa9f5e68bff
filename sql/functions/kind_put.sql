-- kind_check(name, value, type): what is wrong with one field of a kind, as
-- an English sentence, or null.  The table below is the whole truth about
-- the fields; helper of kind_put.  Locks: none.
create or replace function interlock.kind_check(
    p_name text, p_value json, out problem text, out detail text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    f       record;
    v_type  text := json_typeof(p_value);
    v_text  text := p_value #>> '{}';
begin
    -- type: int, bool, enum, text, names, json.
    select * into f from (values
        ('overlap', 'enum', false, null::bigint, null::bigint,
            array['allow', 'skip', 'buffer_one', 'buffer_first',
                'buffer_all', 'replace']),
        ('overflow', 'enum', true, null, null,
            array['reject', 'park']),
        ('on_busy', 'enum', false, null, null, array['skip', 'error']),
        ('allow_fresh', 'bool', false, null, null, '{}'),
        ('when_completed', 'enum', false, null, null,
            array['run', 'return']),
        ('result_ttl', 'int', true, 0, 3153600000, '{}'),
        ('idempotency_ttl', 'int', false, 1, 315360000, '{}'),
        ('hold', 'int', false, 0, 2, '{}'),
        ('lease_seconds', 'int', false, 1, 86400, '{}'),
        ('max_runtime', 'int', false, 1, 31536000, '{}'),
        ('cancel_grace', 'int', false, 0, 86400, '{}'),
        ('max_attempts', 'int', false, 1, 10000, '{}'),
        ('retry_for', 'int', false, 0, 31536000, '{}'),
        ('backoff', 'int', false, 0, 86400, '{}'),
        ('max_backoff', 'int', false, 0, 604800, '{}'),
        ('on_lost', 'enum', false, null, null,
            array['retry', 'check', 'hold']),
        ('result_check', 'json', true, null, null, '{}'),
        ('max_waiting', 'int', false, 1, 1000000, '{}'),
        ('max_queued', 'int', false, 1, 100000000, '{}'),
        ('max_wait', 'int', false, 1, 31536000, '{}'),
        ('limits', 'names', false, null, 8, '{}'),
        ('priority', 'int', false, -100, 100, '{}'),
        ('order', 'enum', false, null, null,
            array['oldest', 'newest', 'deadline']),
        ('fair_by', 'text', true, null, null, '{}'),
        ('aging', 'int', false, 0, 86400, '{}'),
        ('effect_scope', 'enum', true, null, null,
            array['work', 'job']),
        ('delivery_effects', 'names', false, null, 100, '{}'),
        ('max_payload', 'int', false, 0, 1073741824, '{}'),
        ('key_template', 'text', true, null, null, '{}'),
        ('protects', 'text', true, null, null, '{}'),
        ('examples', 'json', true, null, null, '{}'),
        ('alert_at', 'int', true, 1, 31536000, '{}'),
        ('stop_at', 'int', true, 1, 31536000, '{}')
    ) t (name, type, nullable, low, high, words)
    where t.name = p_name;

    if not found then
        problem := 'unknown-field';
        detail := format('a kind has no field "%s"', left(p_name, 64));
        return;
    end if;

    if v_type = 'null' or f.type in ('int', 'bool', 'enum') then
        detail := interlock.doc_field_trouble(p_name, p_value, f.type,
            f.nullable, f.low, f.high, f.words);

    elsif f.type = 'text' then
        if v_type <> 'string' or octet_length(v_text) > 4096 then
            detail := format('"%s" must be a string of at most 4096 bytes',
                             p_name);
        end if;

    elsif f.type = 'names' then
        if v_type <> 'array' then
            detail := format('"%s" must be an array', p_name);
        elsif json_array_length(p_value) > f.high then
            detail := format('"%s" has at most %s entries', p_name, f.high);
        elsif exists (select from json_array_elements(p_value) x
                      where json_typeof(x) <> 'string')
        then
            detail := format('"%s" must be an array of strings', p_name);
        elsif (select count(*) <> count(distinct x)
               from json_array_elements_text(p_value) x)
        then
            detail := format('"%s" names something twice', p_name);
        elsif p_name = 'delivery_effects' and exists (
            select from json_array_elements_text(p_value) x
            where octet_length(x) not between 1 and 256
                or x ~ '[[:cntrl:]]')
        then
            detail := '"delivery_effects" must be names of effects, of 1 to '
                '256 bytes, without control characters';
        end if;

    elsif octet_length(p_value::text) > 65536 then
        detail := format('"%s" must be at most 65536 bytes', p_name);
    end if;

    if detail is not null then
        problem := 'field-invalid';
    end if;
end
$$;

-- kind_rules(v): what is wrong between the fields of a policy, as an English
-- sentence, or null; and what is made of its template: the pattern that work
-- keys must match and the part that fair_by names.
--
-- A key_template has the form of a work key, parts joined by ":"; a part is a
-- word, or one field {name}.  limits and fair_by may name its fields; limits
-- also {tenant} and {kind}; fair_by also the number of a part, or "tenant",
-- which is what holds anyway.
create or replace function interlock.kind_rules(
    v interlock.kind_versions, out detail text, out pattern text,
    out fair_part int)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_fields  text[] := '{}';
    v_part    text;
    v_name    text;
    v_field   text;
begin
    if v.key_template is not null then
        pattern := '';
        if v.key_template = '' then
            detail := '"key_template" must have at least one part';
            return;
        end if;
        foreach v_part in array string_to_array(v.key_template, ':') loop
            if v_part ~ '^\{[a-z][a-z0-9_]{0,63}\}$' then
                v_field := btrim(v_part, '{}');
                if v_field in ('tenant', 'kind') then
                    detail := format('"key_template": {%s} has a meaning '
                        'of its own; name the field otherwise', v_field);
                    return;
                elsif v_field = any (v_fields) then
                    detail := format('"key_template" names {%s} twice',
                                     v_field);
                    return;
                end if;
                v_fields := v_fields || v_field;
                pattern := pattern || ':[^:]+';
            elsif v_part ~ '^[^{}[:cntrl:]\s]+$' then
                pattern := pattern || ':' || regexp_replace(v_part,
                    '([.*+?^$|()\[\]\\-])', '\\\1', 'g');
            else
                detail := format('"key_template": the part "%s" must be a '
                    'word or one field like {customer}', left(v_part, 64));
                return;
            end if;
        end loop;
        pattern := '^' || substr(pattern, 2) || '$';
    end if;

    foreach v_name in array v.limits loop
        detail := '"limits": ' || interlock.limit_check(v_name);
        if detail is not null then
            return;
        end if;
        for v_field in
            select x[1] from regexp_matches(v_name, '\{([^}]*)\}', 'g') x
        loop
            if v_field not in ('tenant', 'kind')
                and v_field <> all (v_fields)
            then
                detail := format('"limits": "%s" names the field {%s}, '
                    'which is not in key_template', v_name, v_field);
                return;
            end if;
        end loop;
    end loop;

    if v.fair_by is not null and v.fair_by <> 'tenant' then
        if v.fair_by ~ '^([1-9]|1[0-6])$' then
            fair_part := v.fair_by::int;
            if fair_part > cardinality(string_to_array(v.key_template, ':'))
            then
                detail := format('"fair_by": key_template has no part %s',
                                 v.fair_by);
            end if;
        else
            fair_part := interlock.key_part(v.key_template, v.fair_by);
            if fair_part is null then
                detail := format('"fair_by" must be "tenant", a field of '
                    'key_template, or the number of a part ("1" to "16"), '
                    'not "%s"', left(v.fair_by, 64));
            end if;
        end if;

        if detail is null and v."order" <> 'oldest' then
            detail := format('"order": "%s" does not go with fair_by, which '
                'has an order of its own', v."order");
        end if;
    end if;

    -- Here, for it may name the fields of key_template.
    if detail is null and v.result_check is not null then
        detail := '"result_check": ' || interlock.check_spec_trouble(
            v.result_check::json, 'job', v_fields);
    end if;

    if detail is null and v.on_lost = 'check' and v.result_check is null then
        detail := '"on_lost": "check" needs a result_check, which says how '
            'to look for a result';
    end if;
end
$$;

-- kind_put(tenant, name, doc): who: interlockd, PUT /v1/kinds/{name}.
-- Locks: the kind's row (FOR UPDATE; made first if missing).
-- Answers: one row, problem null and doc the policy now in force.  What doc
-- leaves out keeps its present value, or its default for a new kind.  The
-- version grows only if something changed; jobs keep theirs.
-- "name", "version" and "paused" may be given as GET shows them; a version
-- that is not the present one is refused, so that nobody overwrites what he
-- has not seen.
-- Refuses: json-invalid, unknown-field, field-invalid, each with a detail
-- that names the field and what it must be.
create or replace function interlock.kind_put(
    p_tenant int, p_name text, p_doc text)
returns table (problem text, detail text, doc text)
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    v_json     json;
    v_changes  jsonb := '{}';
    v_seen     text[] := '{}';
    v_expect   text;
    v_bad      text;
    v_kept     text[] := '{null,null}';    -- fields that keep their text
    k          interlock.kinds;
    v_old      interlock.kind_versions;
    v_new      interlock.kind_versions;
    r          record;
    c          record;
begin
    perform set_config('synchronous_commit', 'on', true);

    v_json := interlock.json_object_of(p_doc);
    select * into c from interlock.doc_trouble('a kind', p_name, v_json);
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
        continue when r.key = 'name';

        if r.key = 'version' then
            v_expect := coalesce(r.value #>> '{}', 'null');
            continue;
        end if;

        if r.key = 'paused' then
            if nullif(r.value::jsonb, 'null') is distinct from
                interlock.pause_doc(p_tenant, 'kind', p_name)::jsonb
            then
                return query select 'field-invalid', '"paused" is not what '
                    'it is: a kind is paused by POST …/pause, with a name '
                    'and a reason', null::text;
                return;
            end if;
            continue;
        end if;

        select * into c from interlock.kind_check(r.key, r.value);
        if c.problem is not null then
            return query select c.problem, c.detail, null::text;
            return;
        end if;

        if r.key in ('examples', 'result_check') then
            v_kept[case r.key when 'examples' then 1 else 2 end] :=
                case json_typeof(r.value) when 'null' then null
                else r.value::text end;
        else
            v_changes := v_changes || jsonb_build_object(r.key, r.value);
        end if;
    end loop;

    if v_expect is not null and not exists (
        select from interlock.kinds x
        where x.tenant = p_tenant and x.name = p_name)
    then
        return query select 'field-invalid',
            '"version" is not the present one (none)', null::text;
        return;
    end if;

    insert into interlock.kinds (tenant, name, version, deleted)
    values (p_tenant, p_name, 1, true)
    on conflict do nothing;

    insert into interlock.kind_pace (tenant, kind) values (p_tenant, p_name)
    on conflict do nothing;

    select * into strict k from interlock.kinds x
    where x.tenant = p_tenant and x.name = p_name for update;

    select * into v_old from interlock.kind_versions v
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
        v_new := interlock.kind_defaults(p_tenant, p_name);
    else
        v_new := v_old;
    end if;

    v_new := jsonb_populate_record(v_new, v_changes);
    if 'examples' = any (v_seen) then
        v_new.examples := v_kept[1];
    end if;
    if 'result_check' = any (v_seen) then
        v_new.result_check := v_kept[2];
    end if;

    select * into c from interlock.kind_rules(v_new);
    if c.detail is not null then
        -- The row that was made above, and nothing else.
        delete from interlock.kinds x
        where x.tenant = p_tenant and x.name = p_name
            and v_old.version is null;
        return query select 'field-invalid', c.detail, null::text;
        return;
    end if;
    v_new.key_pattern := c.pattern;
    v_new.fair_part := c.fair_part;

    if k.deleted or v_new is distinct from v_old then
        v_new.version := case when v_old.version is null then 1
                         else k.version + 1 end;
        v_new.created_at := clock_timestamp();
        insert into interlock.kind_versions select v_new.*;
        update interlock.kinds x
        set version = v_new.version, deleted = false
        where x.tenant = p_tenant and x.name = p_name;
    end if;

    if v_new.alert_at is not null or v_new.stop_at is not null then
        insert into interlock.alert_scans (tenant) values (p_tenant)
        on conflict do nothing;
    end if;

    return query select null::text, null::text, interlock.kind_doc(v_new);
end
$$;

-- kind_defaults(tenant, name): a version 0 with every field at its default.
create or replace function interlock.kind_defaults(
    p_tenant int, p_name text)
returns interlock.kind_versions
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v  interlock.kind_versions;
begin
    v.tenant := p_tenant;
    v.name := p_name;
    v.version := 1;
    v.overlap := 'skip';
    v.on_busy := 'skip';
    v.allow_fresh := false;
    v.when_completed := 'run';
    v.idempotency_ttl := 604800;
    v.hold := 1;
    v.lease_seconds := 30;
    v.max_runtime := 21600;
    v.cancel_grace := 30;
    v.max_attempts := 5;
    v.retry_for := 86400;
    v.backoff := 5;
    v.max_backoff := 600;
    v.on_lost := 'retry';
    v.max_waiting := 1000;
    v.max_queued := 100000;
    v.max_wait := 86400;
    v.limits := '{}';
    v.priority := 0;
    v."order" := 'oldest';
    v.aging := 60;
    v.delivery_effects := '{}';
    v.max_payload := 33554432;
    return v;
end
$$;

revoke all on function interlock.kind_check(text, json) from public;
revoke all on function interlock.kind_rules(interlock.kind_versions)
    from public;
revoke all on function interlock.kind_defaults(int, text) from public;
revoke all on function interlock.kind_put(int, text, text) from public;
grant execute on function interlock.kind_put(int, text, text)
    to interlock_service;
