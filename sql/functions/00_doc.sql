-- 00_doc.sql: what is the same in every document that an operator puts: its
-- name, its keys, and fields of the plain types.  Helpers; locks: none.

-- doc_trouble(what, name, body): what is wrong with a document as a whole:
-- its name in the path, or that body (of json_object_of) is no object.  what
-- is its sort, with its article: 'a kind'.
create or replace function interlock.doc_trouble(
    p_what text, p_name text, p_body json,
    out problem text, out detail text)
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_name is null or p_name !~ '^[a-z0-9][a-z0-9._-]{0,63}$' then
        problem := 'field-invalid';
        detail := p_what || '''s name has 1 to 64 of a-z, 0-9, ".", "_", '
            '"-", the first a letter or digit';
    elsif p_body is null then
        problem := 'json-invalid';
        detail := p_what || ' is a JSON object';
    end if;
end
$$;

-- doc_key_trouble(seen, key, value, name): what is wrong with a key of a
-- document, whatever it is: it was seen before, or it is "name" and not the
-- name in the path.  An English sentence, or null.
create or replace function interlock.doc_key_trouble(
    p_seen text[], p_key text, p_value json, p_name text)
returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select case
        when p_key = any (p_seen)
        then format('"%s" occurs twice', left(p_key, 64))
        when p_key = 'name' and p_value #>> '{}' is distinct from p_name
        then '"name" must be the name in the path' end
$$;

-- doc_field_trouble(name, value, type, nullable, low, high, words): what is
-- wrong with a field of type int (low to high), bool or enum (one of words),
-- or with a null.  An English sentence, or null.
create or replace function interlock.doc_field_trouble(
    p_name text, p_value json, p_type text, p_nullable boolean,
    p_low bigint, p_high bigint, p_words text[])
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_type  text := json_typeof(p_value);
    v_text  text := p_value #>> '{}';
begin
    if v_type = 'null' then
        return case when not p_nullable
            then format('"%s" may not be null', p_name) end;
    end if;

    case p_type
    when 'int' then
        if v_type <> 'number' or v_text !~ '^-?(0|[1-9][0-9]{0,17})$' then
            return format('"%s" must be a whole number', p_name);
        elsif v_text::bigint not between p_low and p_high then
            return format('"%s" must be between %s and %s', p_name, p_low,
                          p_high);
        end if;
    when 'bool' then
        if v_type <> 'boolean' then
            return format('"%s" must be true or false', p_name);
        end if;
    when 'enum' then
        if v_type <> 'string' or v_text <> all (p_words) then
            return format('"%s" must be one of %s', p_name,
                          array_to_string(p_words, ', '));
        end if;
    end case;

    return null;
end
$$;

revoke all on function interlock.doc_trouble(text, text, json) from public;
revoke all on function interlock.doc_key_trouble(text[], text, json, text)
    from public;
revoke all on function interlock.doc_field_trouble(text, json, text, boolean,
    bigint, bigint, text[]) from public;
