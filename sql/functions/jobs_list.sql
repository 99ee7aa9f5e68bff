-- jobs_list(…): who: interlockd, GET /v1/jobs.
-- Jobs of a tenant, newest first (by id: ids of jobs grow with time), as the
-- filters say that are not null: kind, status, work_key, source, since (the
-- job's admission).  Locks: none.
-- Answers at most limit rows, each with the cursor from which the next page
-- goes on; as that is the last row's id, newer jobs move no page.
-- A cursor that is none gives no row.
create or replace function interlock.jobs_list(
    p_tenant int, p_kind text, p_status text, p_work_key text,
    p_source text, p_since timestamptz, p_limit int, p_cursor text)
returns table (doc text, cursor text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_from   uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    v_limit  int := greatest(0, least(p_limit, 1000));
begin
    if p_cursor is not null then
        if p_cursor !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
            return;
        end if;
        v_from := p_cursor::uuid;
    end if;

    if p_work_key is not null then
        -- A key's jobs by its requests: few, as a rule.
        return query
        select interlock.job_doc(y.j, l.progress, l.step), (y.j).id::text
        from (select j
              from interlock.requests q
              cross join lateral (
                  select x as j from interlock.jobs x
                  where x.tenant = q.tenant and x.id = q.id
                  limit 1) x
              where q.tenant = p_tenant and q.work_key = p_work_key
                  and q.id < v_from and q.job_id = q.id
                  and (p_kind is null or (j).kind = p_kind)
                  and (p_status is null or (j).status = p_status)
                  and (p_source is null or (j).source = p_source)
                  and (p_since is null or (j).created_at >= p_since)
              order by q.id desc
              limit v_limit) y
        left join lateral (
            select x.progress, x.step from interlock.leases x
            where x.tenant = p_tenant and x.job_id = (y.j).id
            limit 1) l on true
        order by (y.j).id desc;
        return;
    end if;

    return query
    select interlock.job_doc(y.j, l.progress, l.step), (y.j).id::text
    from (select x as j from interlock.jobs x
          where x.tenant = p_tenant and x.id < v_from
              and (p_kind is null or x.kind = p_kind)
              and (p_status is null or x.status = p_status)
              and (p_source is null or x.source = p_source)
              and (p_since is null or x.created_at >= p_since)
          order by x.id desc
          limit v_limit) y
    left join lateral (
        select x.progress, x.step from interlock.leases x
        where x.tenant = p_tenant and x.job_id = (y.j).id
        limit 1) l on true
    order by (y.j).id desc;
end
$$;

revoke all on function interlock.jobs_list(int, text, text, text, text,
    timestamptz, int, text) from public;
grant execute on function interlock.jobs_list(int, text, text, text, text,
    timestamptz, int, text) to interlock_service;
