-- schedule_stats(): the gauges of schedules; helper of stats().  Locks: none.
--   schedule_gaps{schedule}            open gaps
--   last_success_timestamp_seconds{schedule}
--                                      when the work of a slot was last done
--   schedule_skips_in_row{schedule}    slots skipped since one was not
create or replace function interlock.schedule_stats()
returns table (name text, tenant text, labels text, value double precision)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query
    select g.name, t.name, json_build_object('schedule', s.name)::text,
        g.value
    from interlock.schedules s
    join interlock.tenants t on t.id = s.tenant
    cross join lateral (
        select count(*) as n from interlock.gaps x
        where x.tenant = s.tenant and x.schedule = s.name
            and x.state = 'open') o
    left join lateral (
        select x.done_at from interlock.slots x
        where x.tenant = s.tenant and x.schedule = s.name
            and x.done_at is not null
        order by x.done_at desc limit 1) d on true
    cross join lateral (values
        ('schedule_gaps', o.n::float8),
        ('last_success_timestamp_seconds',
            extract(epoch from d.done_at)::float8),
        ('schedule_skips_in_row', s.skips::float8)) g (name, value)
    where (not s.deleted or o.n > 0) and g.value is not null;
end
$$;

revoke all on function interlock.schedule_stats() from public;
