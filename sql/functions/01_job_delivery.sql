-- 01_job_delivery.sql: before the files that show a job.

-- job_delivery(j): has the job reached those for whom it was made: delivered
-- once each of its kind's delivery_effects is confirmed, pending before that;
-- null if the kind names none.  Locks: none.
create or replace function interlock.job_delivery(j interlock.jobs)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select null::text
$$;

revoke all on function interlock.job_delivery(interlock.jobs) from public;
