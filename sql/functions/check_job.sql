-- check_job.sql: looking whether a lost job's result is there already.

-- check_spec_trouble(spec, for): what is wrong with the description of a
-- look-up, of a job's result (for: job) or of an effect (effect), as an
-- English sentence, or null.  Locks: none.
create or replace function interlock.check_spec_trouble(
    p_spec json, p_for text)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    if json_typeof(p_spec) <> 'object' then
        return 'it must be an object';
    end if;
    return null;
end
$$;

-- check_job(j, k): the job was lost and is checking now: schedules its kind's
-- result_check.  The caller holds the work.
create or replace function interlock.check_job(
    j interlock.jobs, k interlock.kind_versions)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return;
end
$$;

-- check_over(j): the job was checking and goes on without its check's answer
-- (canceled, decided): what check_job scheduled is not wanted any more.  The
-- caller holds the work.
create or replace function interlock.check_over(j interlock.jobs)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    return;
end
$$;

revoke all on function interlock.check_spec_trouble(json, text) from public;
revoke all on function interlock.check_job(interlock.jobs,
    interlock.kind_versions) from public;
revoke all on function interlock.check_over(interlock.jobs) from public;
