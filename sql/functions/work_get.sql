-- work_get(tenant, key): who: interlockd, GET /v1/works/{key}.
-- Locks: none.  Answers: the key's fence, its active, waiting and parked jobs
-- (at most 100 of each), the published result and how many requests got which
-- decision; no row if the key is unknown.
create or replace function interlock.work_get(p_tenant int, p_key text)
returns table (doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    w            interlock.works;
    v_active     json;
    v_waiting    json;
    v_parked     json;
    v_decisions  json;
    v_result     text;
begin
    select * into w from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_key;
    if not found then
        return;
    end if;

    select json_agg(json_build_object('job_id', x.id, 'status', x.status,
            'version', x.version, 'attempt', x.attempts,
            'fence', x.fence, 'worker', x.worker,
            'created_at', interlock.ts(x.created_at),
            'started_at', interlock.ts(x.started_at),
            'retry_at', interlock.ts(x.retry_at),
            'error', x.error, 'waits_on', x.waits_on,
            'expires_at', interlock.ts(x.expires_at))
        order by x.created_at)
    into v_active
    from (select j.*, l.fence, l.worker, l.expires_at
          from interlock.jobs_live j
          left join lateral (
              select y.fence, y.worker, y.expires_at
              from interlock.leases y
              where y.tenant = j.tenant and y.job_id = j.id
              limit 1) l on true
          where j.tenant = p_tenant and j.work_key = p_key
              and j.status in ('queued', 'running', 'checking', 'held')
              and j.place is distinct from 'blocked'
          order by j.created_at limit 100) x;

    select json_agg(json_build_object('job_id', x.id, 'status', x.status,
            'version', x.version,
            'created_at', interlock.ts(x.created_at))
        order by x.turn)
    into v_waiting
    from (select j.* from interlock.jobs_live j
          where j.tenant = p_tenant and j.work_key = p_key
              and j.place = 'blocked'
          order by j.turn limit 100) x;

    select json_agg(json_build_object('job_id', x.id, 'status', x.status,
            'version', x.version,
            'created_at', interlock.ts(x.created_at))
        order by x.turn)
    into v_parked
    from (select j.* from interlock.jobs_live j
          where j.tenant = p_tenant and j.work_key = p_key
              and j.status = 'parked'
          order by j.turn limit 100) x;

    select json_object_agg(x.decision, x.n order by x.decision)
    into v_decisions
    from (select q.decision, count(*) as n from interlock.requests q
          where q.tenant = p_tenant and q.work_key = p_key
          group by q.decision) x;

    if w.published_revision is not null then
        select r.doc into v_result
        from interlock.work_result(p_tenant, p_key, null) r;
    end if;

    return query select json_build_object(
        'work_key', w.work_key,
        'kind', w.kind,
        'paused', interlock.pause_doc(w.tenant, 'kind', w.kind),
        'fence', w.fence,
        'max_version', w.max_version,
        'active', coalesce(v_active, '[]'::json),
        'waiting', coalesce(v_waiting, '[]'::json),
        'parked', coalesce(v_parked, '[]'::json),
        'result', v_result::json,
        'effects', interlock.effects_summary(p_tenant, p_key),
        'decisions', coalesce(v_decisions, '{}'::json))::text;
end
$$;

revoke all on function interlock.work_get(int, text) from public;
grant execute on function interlock.work_get(int, text) to interlock_service;
