-- requests_list(…): who: interlockd, GET /v1/requests.
-- Arrivals of a tenant with the decisions they got, newest first (by id: ids
-- of requests grow with time; of a work key or an idempotency key: by the time
-- at which they arrived), as the filters say that are not null: source, decision, kind,
-- work_key, idempotency_key, since (included), until (not included).
-- Locks: none.  Answers a page, see 05_list_scan.sql; a cursor is a request's
-- id, and one that is none gives no row.
create or replace function interlock.requests_list(
    p_tenant int, p_source text, p_decision text, p_kind text,
    p_work_key text, p_idem text, p_since timestamptz, p_until timestamptz,
    p_limit int, p_cursor text)
returns table (doc text, next text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    v_span   int := interlock.list_span();
    v_limit  int := greatest(1, least(p_limit, 1000));
    v_since  timestamptz := coalesce(p_since, '-infinity');
    v_until  timestamptz := coalesce(p_until, 'infinity');
    v_low    uuid := interlock.id_at(p_since - interlock.id_slack());
    v_from   uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    v_at     timestamptz := 'infinity';
    v_ids    uuid[];
    v_next   uuid;
begin
    if p_cursor is not null then
        v_from := interlock.list_uuid(p_cursor);
        if v_from is null then
            return;
        end if;
    end if;

    if p_cursor is not null and coalesce(p_work_key, p_idem) is not null then
        select x.arrived_at into v_at from interlock.requests x
        where x.tenant = p_tenant and x.id = v_from;
    end if;

    if p_work_key is not null then
        v_span := v_span / 2;

        select array_agg(y.id order by y.arrived_at desc, y.id desc)
        into v_ids
        from (select s.id, s.arrived_at
              from (select x.* from interlock.requests x
                    where x.tenant = p_tenant and x.work_key = p_work_key
                        and (x.arrived_at, x.id) < (v_at, v_from)
                        and x.arrived_at >= v_since
                        and x.arrived_at < v_until
                    order by x.arrived_at desc, x.id desc
                    limit v_span) s
              where (p_idem is null or s.idempotency_key = p_idem)
                  and (p_source is null or s.source = p_source)
                  and (p_decision is null or s.decision = p_decision)
                  and (p_kind is null or s.kind = p_kind)
              limit v_limit + 1) y;

        if coalesce(cardinality(v_ids), 0) <= v_limit then
            select x.id into v_next from interlock.requests x
            where x.tenant = p_tenant and x.work_key = p_work_key
                and (x.arrived_at, x.id) < (v_at, v_from)
                and x.arrived_at >= v_since and x.arrived_at < v_until
            order by x.arrived_at desc, x.id desc
            offset v_span - 1 limit 1;
        end if;

    elsif p_idem is not null then
        v_span := v_span / 2;

        select array_agg(y.id order by y.arrived_at desc, y.id desc)
        into v_ids
        from (select s.id, s.arrived_at
              from (select x.* from interlock.requests x
                    where x.tenant = p_tenant
                        and hashtext(x.idempotency_key) = hashtext(p_idem)
                        and x.idempotency_key = p_idem
                        and (x.arrived_at, x.id) < (v_at, v_from)
                        and x.arrived_at >= v_since
                        and x.arrived_at < v_until
                    order by x.arrived_at desc, x.id desc
                    limit v_span) s
              where (p_source is null or s.source = p_source)
                  and (p_decision is null or s.decision = p_decision)
                  and (p_kind is null or s.kind = p_kind)
              limit v_limit + 1) y;

        if coalesce(cardinality(v_ids), 0) <= v_limit then
            select x.id into v_next from interlock.requests x
            where x.tenant = p_tenant
                and hashtext(x.idempotency_key) = hashtext(p_idem)
                and x.idempotency_key = p_idem
                and (x.arrived_at, x.id) < (v_at, v_from)
                and x.arrived_at >= v_since and x.arrived_at < v_until
            order by x.arrived_at desc, x.id desc
            offset v_span - 1 limit 1;
        end if;

    else
        if p_until is not null then
            v_from := least(v_from,
                interlock.id_at(p_until + interlock.id_slack()));
        end if;

        select array_agg(y.id order by y.id desc) into v_ids
        from (select s.id
              from (select x.* from interlock.requests x
                    where x.tenant = p_tenant
                        and x.id < v_from and x.id >= v_low
                    order by x.id desc
                    limit v_span) s
              where s.arrived_at >= v_since and s.arrived_at < v_until
                  and (p_source is null or s.source = p_source)
                  and (p_decision is null or s.decision = p_decision)
                  and (p_kind is null or s.kind = p_kind)
              limit v_limit + 1) y;

        if coalesce(cardinality(v_ids), 0) <= v_limit then
            select x.id into v_next from interlock.requests x
            where x.tenant = p_tenant and x.id < v_from and x.id >= v_low
            order by x.id desc
            offset v_span - 1 limit 1;
        end if;
    end if;

    if cardinality(v_ids) > v_limit then
        v_ids := v_ids[:v_limit];
        v_next := v_ids[v_limit];
    end if;

    return query
    select q.doc, null::text
    from unnest(v_ids) with ordinality k (id, n)
    cross join lateral (
        select interlock.request_doc(x) as doc from interlock.requests x
        where x.tenant = p_tenant and x.id = k.id
        limit 1) q
    order by k.n;

    if v_next is not null then
        return query select null::text, v_next::text;
    end if;
end
$$;

-- request_doc(q): a request as lists show it.
create or replace function interlock.request_doc(q interlock.requests)
returns text
language sql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
    select json_build_object(
        'request_id', q.id,
        'at', interlock.ts(q.arrived_at),
        'source', q.source,
        'decision', q.decision,
        'reason', q.reason,
        'code', q.code,
        'kind', q.kind,
        'work_key', q.work_key,
        'version', q.version,
        'idempotency_key', q.idempotency_key,
        'job_id', q.job_id,
        'active_job_id', q.active_job_id,
        'superseded_job_id', q.superseded_job_id,
        'first_request', q.first_request,
        'requested_by', q.requested_by,
        'request_reason', q.request_reason,
        'edge', coalesce(q.edge, false))::text
$$;

revoke all on function interlock.request_doc(interlock.requests) from public;
revoke all on function interlock.requests_list(int, text, text, text, text,
    text, timestamptz, timestamptz, int, text) from public;
grant execute on function interlock.requests_list(int, text, text, text,
    text, text, timestamptz, timestamptz, int, text) to interlock_service;
