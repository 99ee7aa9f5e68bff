-- leases_list(…): who: interlockd, GET /v1/leases.
-- The attempts of a tenant that run now, as the filters say that are not null
-- (kind, worker), in the order in which their jobs were admitted.
-- Locks: none.  Answers a page, see 05_list_scan.sql; a cursor is a job's id,
-- and one that is none gives no row.
create or replace function interlock.leases_list(
    p_tenant int, p_kind text, p_worker text, p_limit int, p_cursor text)
returns table (doc text, next text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    v_span   int := interlock.list_span();
    v_limit  int := greatest(1, least(p_limit, 1000));
    v_after  uuid := '00000000-0000-0000-0000-000000000000';
    v_ids    uuid[];
    v_next   uuid;
begin
    if p_cursor is not null then
        v_after := interlock.list_uuid(p_cursor);
    end if;

    select array_agg(y.job_id order by y.job_id) into v_ids
    from (select s.job_id
          from (select x.* from interlock.leases x
                where x.tenant = p_tenant and x.job_id > v_after
                order by x.job_id
                limit v_span) s
          where (p_kind is null or s.kind = p_kind)
              and (p_worker is null or s.worker = p_worker)
          limit v_limit + 1) y;

    if cardinality(v_ids) > v_limit then
        v_ids := v_ids[:v_limit];
        v_next := v_ids[v_limit];
    else
        select x.job_id into v_next from interlock.leases x
        where x.tenant = p_tenant and x.job_id > v_after
        order by x.job_id
        offset v_span - 1 limit 1;
    end if;

    return query
    select l.doc, null::text
    from unnest(v_ids) with ordinality k (id, n)
    cross join lateral (
        select interlock.lease_doc(x)::text as doc from interlock.leases x
        where x.tenant = p_tenant and x.job_id = k.id
        limit 1) l
    order by k.n;

    if v_next is not null then
        return query select null::text, v_next::text;
    end if;
end
$$;

revoke all on function interlock.leases_list(int, text, text, int, text)
    from public;
grant execute on function interlock.leases_list(int, text, text, int, text)
    to interlock_service;
