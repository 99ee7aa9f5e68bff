-- 01_job_from.sql: in which weeks of history to look.

-- job_from(job): the time since when attempts of a job may have ended, whatever
-- the clocks say (id_slack): so that who looks for them leaves out the weeks of
-- history before.
create or replace function interlock.job_from(p_job uuid)
returns timestamptz
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select case when substr(p_job::text, 15, 1) = '7'
        then to_timestamp((('x' || left(p_job::text, 8)
            || substr(p_job::text, 10, 4))::bit(48)::bigint / 1000.0)
            ::float8) - interval '1 hour'
        else '-infinity'::timestamptz end
$$;

revoke all on function interlock.job_from(uuid) from public;
