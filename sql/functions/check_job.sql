-- check_job.sql: looking whether a lost job's result is there already.  The
-- look-up is a row of checks; its answer comes to job_checked.

-- check_job(j, k): asks whether the result of a job that was lost is there
-- already, by its kind's result_check: it is live still.  The job's fields may be asked for,
-- those of its kind's key_template too.  Caller holds the work.
create or replace function interlock.check_job(
    j interlock.jobs, k interlock.kind_versions)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_vars    jsonb;
    v_tenant  text;
    r         record;
begin
    select t.name into strict v_tenant from interlock.tenants t
    where t.id = j.tenant;

    v_vars := jsonb_build_object('tenant', v_tenant, 'kind', j.kind,
        'work_key', j.work_key, 'job_id', j.id, 'version',
        j.version::text, 'attempt', j.attempts::text);

    for r in
        select btrim(x.part, '{}') as name,
            split_part(j.work_key, ':', x.i::int) as value
        from unnest(string_to_array(k.key_template, ':')) with ordinality
            x (part, i)
        where x.part like '{%'
    loop
        v_vars := v_vars || jsonb_build_object('%' || r.name, r.value);
    end loop;

    perform interlock.check_make(j.tenant, 'job', j.id,
        k.result_check::json, v_vars::json, j.attempts, null);
end
$$;

-- check_over(j): the job was checking and goes on without its check's answer
-- (canceled, decided).  Caller holds the work.
create or replace function interlock.check_over(j interlock.jobs)
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
as $$
begin
    perform interlock.check_drop(j.tenant, j.id);
end
$$;

revoke all on function interlock.check_job(interlock.jobs,
    interlock.kind_versions) from public;
revoke all on function interlock.check_over(interlock.jobs) from public;
