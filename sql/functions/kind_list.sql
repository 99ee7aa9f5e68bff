-- kind_list(tenant, limit, cursor): who: interlockd, GET /v1/kinds.
-- Every kind that is not deleted, by name.  Locks: none.
-- Answers a page, see 05_list_scan.sql; a cursor is a kind's name.
create or replace function interlock.kind_list(
    p_tenant int, p_limit int, p_cursor text)
returns table (doc text, next text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_limit  int := greatest(1, least(p_limit, 1000));
    v_names  text[];
    v_next   text;
begin
    select array_agg(y.name order by y.name) into v_names
    from (select x.name from interlock.kinds x
          where x.tenant = p_tenant and x.name > coalesce(p_cursor, '')
              and not x.deleted
          order by x.name
          limit v_limit + 1) y;

    if cardinality(v_names) > v_limit then
        v_names := v_names[:v_limit];
        v_next := v_names[v_limit];
    end if;

    return query
    select v.doc, null::text
    from unnest(v_names) with ordinality k (name, n)
    cross join lateral (
        select x.version from interlock.kinds x
        where x.tenant = p_tenant and x.name = k.name
        limit 1) c
    cross join lateral (
        select interlock.kind_doc(x) as doc from interlock.kind_versions x
        where x.tenant = p_tenant and x.name = k.name
            and x.version = c.version
        limit 1) v
    order by k.n;

    if v_next is not null then
        return query select null::text, v_next;
    end if;
end
$$;

revoke all on function interlock.kind_list(int, int, text) from public;
grant execute on function interlock.kind_list(int, int, text)
    to interlock_service;
