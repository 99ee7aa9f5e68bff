-- search(tenant, text): who: interlockd, GET /v1/search.
-- What a text may be that somebody has at hand: the id of a job, a request, an
-- attempt, an effect or a send; the key under which an effect was sent; a work
-- key, whole or its beginning; an idempotency key; a provider's reference.
-- Each is one look into an index.
-- Locks: none.  Answers at most 20 rows, doc {what, id, label, why}, the
-- surest first, none twice.
create or replace function interlock.search(p_tenant int, p_q text)
returns table (doc text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_max  int := 20;
begin
    return query
    select json_build_object('what', z.what, 'id', z.id, 'label', z.label,
        'why', z.why)::text
    from (select distinct on (y.what, y.id) y.*
          from (select 0 as rank, x.* from interlock.search_ids(p_tenant,
                    interlock.list_uuid(lower(p_q))) x
                union all
                select 1, x.* from interlock.search_ids(p_tenant,
                    interlock.list_uuid(left(p_q, 36))) x
                where p_q ~ '^[0-9a-f-]{36}-[0-9]{1,9}$'
                    and x.what = 'effect'
                union all
                select x.* from interlock.search_names(p_tenant, p_q,
                    v_max) x) y
          order by y.what, y.id, y.rank) z
    order by z.rank, z.what, z.id
    limit v_max;
end
$$;

-- search_ids(tenant, id): what has that id.
create or replace function interlock.search_ids(p_tenant int, p_id uuid)
returns table (what text, id text, label text, why text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    if p_id is null then
        return;
    end if;

    return query
    select 'job', x.id::text, x.kind || ' ' || x.work_key || ', ' || x.status,
        'job id'
    from interlock.jobs x
    where x.tenant = p_tenant and x.id = p_id;

    return query
    select 'request', x.id::text, x.source || ' ' || x.work_key || ', '
        || x.decision, 'request id'
    from interlock.requests x
    where x.tenant = p_tenant and x.id = p_id;

    return query
    select 'effect', x.id::text, x.kind || ' ' || x.name || ', ' || x.state,
        'effect id'
    from interlock.effects x
    where x.tenant = p_tenant and x.id = p_id;

    return query
    select 'effect', e.id::text, e.kind || ' ' || e.name || ', ' || e.state,
        'send id'
    from interlock.sends s
    cross join lateral (
        select x.* from interlock.effects x
        where x.tenant = s.tenant and x.id = s.effect_id
        limit 1) e
    where s.tenant = p_tenant and s.id = p_id;

    return query
    select 'job', j.id::text, j.kind || ' ' || j.work_key || ', ' || j.status,
        'attempt id'
    from (select x.job_id from interlock.leases x
          where x.tenant = p_tenant and x.attempt_id = p_id
          union all
          select x.job_id from interlock.attempts x
          where x.tenant = p_tenant and x.id = p_id) a
    cross join lateral (
        select x.* from interlock.jobs x
        where x.tenant = p_tenant and x.id = a.job_id
        limit 1) j;
end
$$;

-- search_names(tenant, text, max): what has that name, of each sort at most
-- so many.
create or replace function interlock.search_names(
    p_tenant int, p_q text, p_max int)
returns table (rank int, what text, id text, label text, why text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
begin
    return query
    select 2, 'work', x.work_key, x.kind, 'work key'
    from interlock.works x
    where x.tenant = p_tenant and x.work_key = p_q;

    -- The first that had it, and, of its repeats, the latest.
    return query
    select 3, 'request', x.id::text, x.source || ' ' || x.work_key || ', '
        || x.decision, 'idempotency key'
    from interlock.requests x
    where x.tenant = p_tenant
        and hashtext(x.idempotency_key) = hashtext(p_q)
        and x.idempotency_key = p_q
    order by x.arrived_at limit 5;

    return query
    select 4, 'request', x.id::text, x.source || ' ' || x.work_key || ', '
        || x.decision, 'idempotency key'
    from interlock.requests x
    where x.tenant = p_tenant
        and hashtext(x.idempotency_key) = hashtext(p_q)
        and x.idempotency_key = p_q
    order by x.arrived_at desc limit 3;

    return query
    select 3, 'effect', x.id::text, x.kind || ' ' || x.name || ', '
        || x.state, 'provider reference'
    from interlock.effects x
    where x.tenant = p_tenant and x.provider_ref = p_q
    limit p_max;

    return query
    select 5, 'work', x.work_key, x.kind, 'work key begins so'
    from interlock.works x
    where x.tenant = p_tenant and x.work_key > p_q
        and x.work_key < p_q || U&'\+10FFFF'
    order by x.work_key limit p_max;
end
$$;

revoke all on function interlock.search_ids(int, uuid) from public;
revoke all on function interlock.search_names(int, text, int) from public;
revoke all on function interlock.search(int, text) from public;
grant execute on function interlock.search(int, text) to interlock_service;
