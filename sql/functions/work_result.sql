-- work_result(tenant, key, revision): who: interlockd,
-- GET /v1/works/{key}/result.  Locks: none.  Answers: the published result,
-- or the revision asked for; no row if there is none.  published_at is null
-- for a revision that did not publish itself and is not the published one.
create or replace function interlock.work_result(
    p_tenant int, p_key text, p_revision int)
returns table (doc text)
language sql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object(
        'work_key', r.work_key,
        'revision', r.revision,
        'version', r.version,
        'job_id', r.job_id,
        'fence', r.fence,
        'result', r.result,
        'result_url', r.result_url,
        'counts', case when r.processed is not null or r.failed is not null
            then json_build_object('processed', r.processed,
                                   'failed', r.failed) end,
        'published_at', interlock.ts(case
            when r.revision = w.published_revision then w.published_at
            when r.published then r.created_at end))::text
    from interlock.works w
    join interlock.results r on r.tenant = w.tenant
        and r.work_key = w.work_key
        and r.revision = coalesce(p_revision, w.published_revision)
    where w.tenant = p_tenant and w.work_key = p_key
$$;

revoke all on function interlock.work_result(int, text, int) from public;
grant execute on function interlock.work_result(int, text, int)
    to interlock_service;
