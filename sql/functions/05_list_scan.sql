-- 05_list_scan.sql: what lists have in common.
--
-- A page of a list is at most p_limit rows of (doc, null), and then, if there
-- is more, one row (null, next): the cursor from which the next page goes on.
-- A cursor names a row's place in the order of the list, so that what is new
-- moves no page.  A filter that no index knows is looked for in at most
-- list_span() rows; so a page may have fewer rows than were asked for, or
-- none, and all the same a next one.

-- list_span(): how many rows a page looks at.
create or replace function interlock.list_span() returns int
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select 25000
$$;

-- id_at(t): the least id (UUIDv7, RFC 9562 section 5.7) of that time.  Null
-- and what is before 1970: the least of all.
create or replace function interlock.id_at(p_at timestamptz) returns uuid
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select case when p_at > timestamptz 'epoch'
        then (lpad(to_hex(least(floor(extract(epoch from p_at) * 1000),
                281474976710655)::bigint), 12, '0')
            || '00000000000000000000')::uuid
        else '00000000-0000-0000-0000-000000000000'::uuid end
$$;

-- id_slack(): ids come from the clocks of interlockd's hosts and of edges, the
-- times of rows from the database's: so far apart they may be.
create or replace function interlock.id_slack() returns interval
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select interval '1 hour'
$$;

-- list_uuid(cursor): the id that it is; null if it is none.
create or replace function interlock.list_uuid(p_cursor text) returns uuid
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select case when p_cursor
            ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then p_cursor::uuid end
$$;

revoke all on function interlock.list_span() from public;
revoke all on function interlock.id_at(timestamptz) from public;
revoke all on function interlock.id_slack() from public;
revoke all on function interlock.list_uuid(text) from public;
