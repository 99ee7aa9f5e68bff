-- runnable(tenants, kinds): who: interlockd, when workers wait: is there
-- something to claim, and when will there be?
-- Locks: none.  Answers one row each: how many jobs could be claimed now
-- (capped at 1000) and when the next delayed one is due (null: none).  Of a
-- paused kind nothing is.
create or replace function interlock.runnable(p_tenant int[], p_kind text[])
returns table (ord int, ready bigint, next_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_now  timestamptz := clock_timestamp();
begin
    -- By group, for a start rate may hold back what is due: then its next
    -- start is the time.
    return query
    select u.ord::int, least(1000, coalesce(r.n, 0))::bigint,
        least(r.at, f.at)
    from (select x.tenant, x.kind, x.ord, exists (
              select from interlock.pauses p
              where p.tenant = x.tenant and p.what = 'kind'
                  and p.name = x.kind) as paused
          from unnest(p_tenant, p_kind) with ordinality
              as x (tenant, kind, ord)
          offset 0) u
    cross join lateral (
        select sum(y.n) filter (where y.at is null or y.at <= v_now) as n,
            min(y.at) filter (where y.at > v_now) as at
        from (
            select count(*) as n,
                case when x.limited_by is not null then
                    interlock.group_start(u.tenant, x.limited_by) end as at
            from (
                (select j.limited_by from interlock.jobs_live j
                 where j.tenant = u.tenant and j.kind = u.kind
                     and j.place = 'ready' and not u.paused
                 limit 1000)
                union all
                (select j.limited_by from interlock.jobs_live j
                 where j.tenant = u.tenant and j.kind = u.kind
                     and j.place = 'delayed' and j.run_at <= v_now
                     and not u.paused
                 limit 1000)) x
            group by x.limited_by) y) r
    cross join lateral (
        select min(j.run_at) as at
        from interlock.jobs_live j
        where j.tenant = u.tenant and j.kind = u.kind
            and j.place = 'delayed' and j.run_at > v_now
            and not u.paused) f
    order by u.ord;
end
$$;

revoke all on function interlock.runnable(int[], text[]) from public;
grant execute on function interlock.runnable(int[], text[])
    to interlock_service;
