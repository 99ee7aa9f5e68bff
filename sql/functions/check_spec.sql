-- check_spec_trouble(spec, for, fields): what is wrong with the description
-- of a look-up, as an English sentence without its subject ('"url" must …'),
-- or null.  for is 'job' (a kind's result_check) or 'effect' (an effect
-- kind's lookup); fields are names that its templates may use besides those
-- that every look-up has (check_fields).  Helper of kind_put and
-- effect_kind_put; the backend judges the URL once more, by its
-- configuration.  Locks: none.
--
--   {"type": "http", "method", "url", "headers", "body", "timeout",
--    "found": {"status": [200], "pointer", "equals": [...] | "missing": true},
--    "not_found": {...}, "ref_pointer", "result_pointer"}
--   {"type": "worker"}    a job of kind result-check or effect-check
--   {"type": "none"}      effects only: nobody can look, a human decides
-- and for jobs: delay, backoff, max_backoff, max_checks, on_exhausted.
-- What matches neither found nor not_found, or both, is unclear.
create or replace function interlock.check_spec_trouble(
    p_spec json, p_for text, p_fields text[] default '{}')
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_type    text;
    v_fields  text[] := interlock.check_fields(p_for) || p_fields;
    v_bad     text;
    r         record;
begin
    if json_typeof(p_spec) <> 'object' then
        return 'must be an object';
    end if;

    select x.key into v_bad from json_object_keys(p_spec) x (key)
    group by x.key having count(*) > 1 limit 1;
    if found then
        return format('has "%s" twice', left(v_bad, 64));
    end if;

    v_type := interlock.check_word(p_spec -> 'type');
    if v_type is null or v_type not in ('http', 'worker', 'none')
        or (v_type = 'none' and p_for = 'job')
    then
        return '"type" must be one of http, worker'
            || case when p_for = 'effect' then ', none' else '' end;
    end if;

    for r in select x.key, x.value from json_each(p_spec) x loop
        continue when json_typeof(r.value) = 'null';

        if r.key = 'type' then
            continue;
        elsif p_for = 'job' and r.key in ('delay', 'backoff', 'max_backoff')
        then
            v_bad := interlock.check_int(r.value, 0, 604800);
        elsif p_for = 'job' and r.key = 'max_checks' then
            v_bad := interlock.check_int(r.value, 1, 1000);
        elsif p_for = 'job' and r.key = 'on_exhausted' then
            v_bad := case when coalesce(interlock.check_word(r.value), '')
                not in ('hold', 'retry', 'fail')
                then 'must be one of hold, retry, fail' end;
        elsif v_type <> 'http' then
            return format('"%s" is not a field of a look-up of type %s',
                left(r.key, 64), v_type);
        elsif r.key = 'timeout' then
            v_bad := interlock.check_int(r.value, 1, 30);
        elsif r.key in ('found', 'not_found') then
            v_bad := interlock.check_match(r.value);
        elsif r.key = 'ref_pointer'
            or (r.key = 'result_pointer' and p_for = 'job')
        then
            v_bad := interlock.check_pointer(r.value);
        elsif r.key not in ('url', 'method', 'headers', 'body') then
            return format('"%s" is not a field of a look-up',
                left(r.key, 64));
        end if;

        if v_bad is not null then
            return format('"%s" %s', r.key, v_bad);
        end if;
    end loop;

    if v_type = 'http' then
        return interlock.check_http(p_spec, v_fields);
    end if;

    return null;
end
$$;

-- check_fields(for): the names that a template may use.
create or replace function interlock.check_fields(p_for text)
returns text[]
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case p_for
        when 'job' then array['tenant', 'kind', 'work_key', 'job_id',
            'version', 'attempt']
        else array['tenant', 'kind', 'name', 'target', 'effect_id', 'round',
            'idempotency_key', 'provider_ref', 'work_key', 'job_id'] end
$$;

-- check_word(value): a JSON string's text, else null.
create or replace function interlock.check_word(p_value json) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case when json_typeof(p_value) = 'string'
        then p_value #>> '{}' end
$$;

create or replace function interlock.check_int(
    p_value json, p_low bigint, p_high bigint)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when json_typeof(p_value) <> 'number'
            or p_value #>> '{}' !~ '^(0|[1-9][0-9]{0,9})$'
        then 'must be a whole number'
        when (p_value #>> '{}')::bigint not between p_low and p_high
        then format('must be between %s and %s', p_low, p_high) end;
end
$$;

create or replace function interlock.check_pointer(p_value json)
returns text
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v  text := interlock.check_word(p_value);
begin
    return case
        when v is null or octet_length(v) > 256
            or v !~ '^(/([^~/]|~[01])*)*$'
        then 'must be a JSON pointer (RFC 6901) of at most 256 bytes' end;
end
$$;

-- check_match(value): one way to answer: by status, and by what the body has
-- at a pointer.
create or replace function interlock.check_match(p_value json)
returns text
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_bad  text;
    r      record;
begin
    if json_typeof(p_value) <> 'object' then
        return 'must be an object';
    end if;

    select x.key into v_bad from json_object_keys(p_value) x (key)
    where x.key not in ('status', 'pointer', 'equals', 'missing') limit 1;
    if found then
        return format('has no field "%s"', left(v_bad, 64));
    end if;

    select x.key into v_bad from json_object_keys(p_value) x (key)
    group by x.key having count(*) > 1 limit 1;
    if found then
        return format('has "%s" twice', v_bad);
    end if;

    if coalesce(json_typeof(p_value -> 'status'), '') <> 'array'
        or json_array_length(p_value -> 'status') not between 1 and 20
    then
        return 'needs "status", an array of 1 to 20 status codes';
    end if;

    -- What a gateway or a server in trouble says of itself proves nothing.
    for r in select x.value from json_array_elements(p_value -> 'status') x
    loop
        if interlock.check_int(r.value, 200, 499) is not null
            or (r.value #>> '{}')::int between 300 and 399
            or (r.value #>> '{}')::int in (407, 408, 429)
        then
            return format('has a "status" %s: a definite answer has 2xx or '
                '4xx, but not 407, 408 or 429', left(r.value::text, 32));
        end if;
    end loop;

    if p_value -> 'pointer' is null then
        if p_value -> 'equals' is not null
            or p_value -> 'missing' is not null
        then
            return 'needs "pointer" for "equals" and "missing"';
        end if;
        return null;
    end if;

    v_bad := interlock.check_pointer(p_value -> 'pointer');
    if v_bad is not null then
        return format('has a "pointer" that %s', v_bad);
    end if;

    if p_value -> 'missing' is not null then
        if p_value ->> 'missing' <> 'true'
            or json_typeof(p_value -> 'missing') <> 'boolean'
        then
            return 'has "missing", which can only be true';
        elsif p_value -> 'equals' is not null then
            return 'has "equals" and "missing": only one of them';
        end if;
    end if;

    if p_value -> 'equals' is not null then
        if json_typeof(p_value -> 'equals') <> 'array'
            or json_array_length(p_value -> 'equals') not between 1 and 20
        then
            return 'has "equals", which must be an array of 1 to 20 values';
        elsif exists (
            select from json_array_elements(p_value -> 'equals') x
            where json_typeof(x.value) in ('object', 'array')
                or octet_length(x.value::text) > 256)
        then
            return 'has "equals" with something that is no short string, '
                'number, true, false or null';
        end if;
    end if;

    return null;
end
$$;

-- check_template(text, fields, loose): the fields that it names must be
-- known; loose text may have braces that enclose no name.
create or replace function interlock.check_template(
    p_text text, p_fields text[], p_loose boolean)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name  text;
begin
    for v_name in
        select x[1]
        from regexp_matches(p_text, '\{([a-z][a-z0-9_]*)\}', 'g') x
    loop
        if v_name <> all (p_fields) then
            return format('names the field {%s}, which there is not; one of '
                '%s', left(v_name, 64), array_to_string(p_fields, ', '));
        end if;
    end loop;

    if not p_loose and regexp_replace(p_text, '\{[a-z][a-z0-9_]*\}', '', 'g')
        ~ '[{}]'
    then
        return 'has a brace that is not part of a {field}';
    end if;

    return null;
end
$$;

-- url_trouble(url): what is wrong with a URL that interlockd is to call, by
-- its form; null is none.  Who is called is never up to a field.
create or replace function interlock.url_trouble(p_url text)
returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when p_url is null or octet_length(p_url) not between 1 and 2048
            or p_url !~ '^[\x21-\x7e]+$'
        then 'must be a URL of at most 2048 printable ASCII characters'
        when p_url !~* '^https?://'
        then 'must begin with https:// or http://'
        when p_url ~ '[#\\]'
        then 'may not have a fragment or a backslash'
        when substring(p_url from '^[a-zA-Z]+://([^/?]*)') ~ '@'
        then 'may not have a user or password'
        when substring(p_url from '^[a-zA-Z]+://([^/?]*)') ~ '[{}]'
        then 'may have fields behind the host only'
        when p_url !~* '^https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?([/?]|$)'
        then 'must have a host name or an address, and a port at most'
        when substring(p_url from '^[a-zA-Z]+://[^/?]*:([0-9]{1,5})([/?]|$)')
            ::int not between 1 and 65535
        then 'must have a port from 1 to 65535' end
$$;

-- check_http(spec, fields): the fields of type http that need each other.
create or replace function interlock.check_http(
    p_spec json, p_fields text[])
returns text
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_url     text := interlock.check_word(p_spec -> 'url');
    v_method  text := 'GET';
    v_body    text;
    v_bad     text;
    v_same    text;
begin
    v_bad := coalesce(interlock.url_trouble(v_url),
        interlock.check_template(v_url, p_fields, false));
    if v_bad is not null then
        return '"url" ' || v_bad;
    end if;

    if json_typeof(p_spec -> 'method') <> 'null' then
        v_method := interlock.check_word(p_spec -> 'method');
        if v_method is null or v_method not in ('GET', 'HEAD', 'POST') then
            return '"method" must be one of GET, HEAD, POST';
        end if;
    end if;

    v_bad := interlock.check_headers(p_spec -> 'headers', p_fields);
    if v_bad is not null then
        return v_bad;
    end if;

    if json_typeof(p_spec -> 'body') <> 'null' then
        v_body := interlock.check_word(p_spec -> 'body');
        if v_method <> 'POST' then
            return '"body" goes with the method POST only';
        elsif v_body is null or octet_length(v_body) > 8192 then
            return '"body" must be a string of at most 8192 bytes';
        end if;
        v_bad := interlock.check_template(v_body, p_fields, true);
        if v_bad is not null then
            return '"body" ' || v_bad;
        end if;
    end if;

    if coalesce(json_typeof(p_spec -> 'found'), 'null') = 'null' then
        return '"found" is needed: which answer says that it is there';
    end if;

    if v_method = 'HEAD' and (p_spec #> '{found,pointer}' is not null
        or p_spec #> '{not_found,pointer}' is not null
        or coalesce(json_typeof(p_spec -> 'ref_pointer'), 'null') <> 'null'
        or coalesce(json_typeof(p_spec -> 'result_pointer'), 'null')
           <> 'null')
    then
        return '"method" HEAD brings no body for a pointer to look at';
    end if;

    if json_typeof(p_spec -> 'not_found') = 'object'
        and p_spec #> '{found,pointer}' is null
        and p_spec #> '{not_found,pointer}' is null
    then
        select f.value into v_same
        from json_array_elements_text(p_spec #> '{found,status}') f
        join json_array_elements_text(p_spec #> '{not_found,status}') n
            on n.value = f.value
        limit 1;
        if found then
            return format('"found" and "not_found" both take status %s',
                v_same);
        end if;
    end if;

    return null;
end
$$;

-- check_headers(headers, fields): a header's value is text with fields, or
-- "@name": the first line of that file among the backend's secrets.  What
-- proves an identity is never stored here.
create or replace function interlock.check_headers(
    p_headers json, p_fields text[])
returns text
language plpgsql immutable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_value  text;
    v_bad    text;
    r        record;
begin
    if p_headers is null or json_typeof(p_headers) = 'null' then
        return null;
    elsif json_typeof(p_headers) <> 'object'
        or (select count(*) from json_object_keys(p_headers)) > 16
    then
        return '"headers" must be an object of at most 16 strings';
    elsif (select count(*) <> count(distinct lower(x.key))
           from json_object_keys(p_headers) x (key))
    then
        return '"headers" names one twice';
    end if;

    for r in select x.key, x.value from json_each(p_headers) x loop
        v_value := interlock.check_word(r.value);

        if r.key !~ '^[A-Za-z0-9-]{1,64}$' then
            return format('"headers": "%s" is no name for one (letters, '
                'digits and "-")', left(r.key, 64));
        elsif lower(r.key) in ('host', 'content-length', 'connection',
                'transfer-encoding', 'expect', 'upgrade', 'te', 'trailer',
                'keep-alive', 'cookie', 'range', 'accept-encoding')
            or lower(r.key) like 'proxy-%'
        then
            return format('"headers": %s may not be set', r.key);
        elsif v_value is null or octet_length(v_value) > 1024
            or v_value !~ '^[\x20-\x7e]*$'
        then
            return format('"headers": %s must be at most 1024 printable '
                'ASCII characters', r.key);
        elsif v_value like '@%' then
            if v_value !~ '^@[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' then
                return format('"headers": %s must name a file of the '
                    'secrets'' directory, "@name"', r.key);
            end if;
        elsif lower(r.key) ~ 'auth|token|secret|passw|api-?key|signature'
        then
            return format('"headers": %s must be "@name", a file of the '
                'secrets'' directory: secrets are not kept here', r.key);
        else
            v_bad := interlock.check_template(v_value, p_fields, false);
            if v_bad is not null then
                return format('"headers": %s %s', r.key, v_bad);
            end if;
        end if;
    end loop;

    return null;
end
$$;

revoke all on function interlock.check_spec_trouble(json, text, text[])
    from public;
revoke all on function interlock.check_fields(text) from public;
revoke all on function interlock.check_word(json) from public;
revoke all on function interlock.check_int(json, bigint, bigint)
    from public;
revoke all on function interlock.check_pointer(json) from public;
revoke all on function interlock.check_match(json) from public;
revoke all on function interlock.check_template(text, text[], boolean)
    from public;
revoke all on function interlock.url_trouble(text) from public;
revoke all on function interlock.check_http(json, text[]) from public;
revoke all on function interlock.check_headers(json, text[]) from public;
