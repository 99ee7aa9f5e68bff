-- work_revisions(tenant, key, limit, cursor): who: interlockd,
-- GET /v1/works/{key}/revisions.  The results that a work key had, the newest
-- revision first; cursor is the revision before which the page begins.
-- Locks: none.
-- Answers at most limit rows, problem null, each with the cursor from which
-- the next page goes on; doc {revision, version, job_id, fence, current (it is
-- the one that stands), origin (complete, or how else it came), result_url,
-- counts, created_at, published_at (since when it stands; or, of one that
-- published itself, since when it did)}.  The results themselves are asked for
-- one by one.
-- Refuses: not-found.
create or replace function interlock.work_revisions(
    p_tenant int, p_key text, p_limit int, p_cursor int)
returns table (problem text, detail text, doc text, cursor text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_limit  int := greatest(0, least(p_limit, 1000));
    w        interlock.works;
begin
    select * into w from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key;
    if not found then
        return query select 'not-found', 'there is no such work',
            null::text, null::text;
        return;
    end if;

    return query
    select null::text, null::text, json_build_object(
        'revision', r.revision,
        'version', r.version,
        'job_id', r.job_id,
        'fence', r.fence,
        'current', r.revision is not distinct from w.published_revision,
        'origin', r.origin,
        'result_url', r.result_url,
        'counts', case when r.processed is not null or r.failed is not null
            then json_build_object('processed', r.processed,
                                   'failed', r.failed) end,
        'created_at', interlock.ts(r.created_at),
        'published_at', interlock.ts(case
            when r.revision = w.published_revision then w.published_at
            when r.published then r.created_at end))::text,
        r.revision::text
    from interlock.results r
    where r.tenant = p_tenant and r.work_key = p_key
        and r.revision < coalesce(p_cursor, 2147483647)
    order by r.revision desc
    limit v_limit;
end
$$;

revoke all on function interlock.work_revisions(int, text, int, int)
    from public;
grant execute on function interlock.work_revisions(int, text, int, int)
    to interlock_service;
