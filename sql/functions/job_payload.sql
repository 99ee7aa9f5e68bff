-- job_payload(tenant, job): who: interlockd, GET /v1/jobs/{id}/payload.
-- What came with a job, byte for byte, and the type that its sender named.
-- Locks: none.  Answers: no row if there is no such job.
create or replace function interlock.job_payload(p_tenant int, p_job uuid)
returns table (payload bytea, content_type text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query
    select coalesce(x.payload, ''), x.content_type from interlock.payloads x
    where x.tenant = p_tenant and x.job_id = p_job;
end
$$;

revoke all on function interlock.job_payload(int, uuid) from public;
grant execute on function interlock.job_payload(int, uuid)
    to interlock_service;
