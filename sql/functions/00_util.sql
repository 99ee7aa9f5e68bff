-- 00_util.sql: small helpers of the other functions; nobody else calls them.

-- ts(t): RFC 3339 in UTC, milliseconds.  No locks.
create or replace function interlock.ts(p_at timestamptz) returns text
language sql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- path_encode(s): a work key as one path segment, as il_path_encode() does:
-- RFC 3986 unreserved characters and ":" stay.  No locks.
create or replace function interlock.path_encode(p_s text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes  bytea;
    v_out    text := '';
    b        int;
begin
    if p_s ~ '^[A-Za-z0-9._~:-]*$' then
        return p_s;
    end if;

    v_bytes := convert_to(p_s, 'UTF8');

    for i in 0 .. octet_length(v_bytes) - 1 loop
        b := get_byte(v_bytes, i);
        if b between 48 and 58 or b between 65 and 90 or b between 97 and 122
           or b in (45, 46, 95, 126)
        then
            v_out := v_out || chr(b);
        else
            v_out := v_out || '%' || upper(lpad(to_hex(b), 2, '0'));
        end if;
    end loop;

    return v_out;
end
$$;

-- result_link(own, work_key): the worker's own link, else where the result
-- can be read.  No locks.
create or replace function interlock.result_link(p_own text, p_key text)
returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(nullif(p_own, ''),
        '/v1/works/' || interlock.path_encode(p_key) || '/result')
$$;

-- backoff_delay(n, backoff, max): the pause after the n-th counted attempt:
-- exponential, full jitter (random between 0 and the bound), bounded.
create or replace function interlock.backoff_delay(
    p_attempt int, p_backoff int, p_max int)
returns interval
language plpgsql volatile parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return make_interval(secs => random()
        * least(p_max::float8,
                p_backoff::float8 * 2 ^ least(p_attempt - 1, 30)));
end $$;

-- json_object_of(text): the text as json, or null if it is not a JSON object
-- that can be taken apart: json itself lets pass half a surrogate pair and a
-- NUL, which none of its functions can read.  A subtransaction, but for an
-- operator's rare calls only.
create or replace function interlock.json_object_of(p_text text)
returns json
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_json  json;
begin
    v_json := p_text::json;
    if json_typeof(v_json) <> 'object' then
        return null;
    end if;

    perform from json_each(v_json);
    return v_json;
exception when data_exception or statement_too_complex then
    return null;
end
$$;

-- is_blank(text): is there nothing in it that one can see?  No locks.
create or replace function interlock.is_blank(p_text text) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(p_text, '') ~ ('^[\s\u0001-\u0020\u007f-\u00a0\u00ad'
        '\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f'
        '\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164'
        '\ufe00-\ufe0f\ufeff\uffa0]*$')
$$;

-- is_rfc3339(text): is it a time that may be cast to timestamptz?  The form
-- first, then what the form cannot say (the 31st of February).
create or replace function interlock.is_rfc3339(p_text text)
returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_text !~ '^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?'
        '([Zz]|[+-]\d\d:\d\d)$'
    then
        return false;
    end if;

    perform p_text::timestamptz;
    return true;
exception when data_exception then
    return false;
end
$$;

-- pause_doc(tenant, what, name): who paused it, since when and why, as JSON;
-- null if it is not paused.  Locks: none.
create or replace function interlock.pause_doc(
    p_tenant int, p_what text, p_name text)
returns json
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object('since', interlock.ts(p.paused_at),
        'requested_by', p.requested_by, 'reason', p.reason,
        'token_name', p.token_name)
    from interlock.pauses p
    where p.tenant = p_tenant and p.what = p_what and p.name = p_name
$$;

revoke all on function interlock.is_rfc3339(text) from public;
revoke all on function interlock.json_object_of(text) from public;
revoke all on function interlock.is_blank(text) from public;
revoke all on function interlock.ts(timestamptz) from public;
revoke all on function interlock.path_encode(text) from public;
revoke all on function interlock.result_link(text, text) from public;
revoke all on function interlock.backoff_delay(int, int, int) from public;
revoke all on function interlock.pause_doc(int, text, text) from public;
