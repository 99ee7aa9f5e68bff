-- jobs_list(…): who: interlockd, GET /v1/jobs.
-- Jobs of a tenant, newest first (by id: ids of jobs grow with time; with a
-- work key: by the time of their requests), as the filters say that are not
-- null: kind, status, work_key, source, since (the job's admission).
-- Locks: none.  Answers a page, see 05_list_scan.sql; a cursor is a job's id,
-- and one that is none gives no row.
create or replace function interlock.jobs_list(
    p_tenant int, p_kind text, p_status text, p_work_key text,
    p_source text, p_since timestamptz, p_limit int, p_cursor text)
returns table (doc text, next text)
language plpgsql stable security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    v_limit  int := greatest(1, least(p_limit, 1000));
    v_from   uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    v_low    uuid := interlock.id_at(p_since - interlock.id_slack());
    v_since  timestamptz := coalesce(p_since, '-infinity');
    v_ids    uuid[];
    v_next   uuid;
begin
    if p_cursor is not null then
        v_from := interlock.list_uuid(p_cursor);
        if v_from is null then
            return;
        end if;
    end if;

    if p_work_key is not null then
        select x.ids, x.next into v_ids, v_next
        from interlock.jobs_of_key(p_tenant, p_work_key, p_kind, p_status,
            p_source, v_since, v_limit,
            case when p_cursor is not null then v_from end) x;
    elsif p_status = 'running' then
        select x.ids, x.next into v_ids, v_next
        from interlock.jobs_running(p_tenant, p_kind, p_source, v_since,
            v_limit, v_from, v_low) x;
    elsif p_status in ('checking', 'held', 'parked', 'failed', 'canceled',
        'superseded', 'expired')
    then
        select x.ids, x.next into v_ids, v_next
        from interlock.jobs_in_state(p_tenant, p_status, p_kind, p_source,
            v_since, v_limit, v_from, v_low) x;
    else
        if p_status = 'queued' then
            select x.ids, x.next into v_ids, v_next
            from interlock.jobs_waiting(p_tenant, p_kind, p_source, v_since,
                v_limit, v_from) x;
        end if;

        if v_ids is null then
            select x.ids, x.next into v_ids, v_next
            from interlock.jobs_by_id(p_tenant, p_status, p_kind, p_source,
                v_since, v_limit, v_from, v_low) x;
        end if;
    end if;

    if cardinality(v_ids) > v_limit then
        v_ids := v_ids[:v_limit];
        v_next := v_ids[v_limit];
    end if;

    return query
    select interlock.job_doc(j.j, l.progress, l.step), null::text
    from unnest(v_ids) with ordinality k (id, n)
    cross join lateral (
        select x as j from interlock.jobs x
        where x.tenant = p_tenant and x.id = k.id
        limit 1) j
    left join lateral (
        select x.progress, x.step from interlock.leases x
        where x.tenant = p_tenant and x.job_id = k.id
        limit 1) l on true
    order by k.n;

    if v_next is not null then
        return query select null::text, v_next::text;
    end if;
end
$$;

-- All that follow: ids, at most limit + 1 of those that match; next, where to
-- go on if the rows that a page looks at were used up before.

-- jobs_of_key(…): by the key's requests, behind the one of that id.
create or replace function interlock.jobs_of_key(
    p_tenant int, p_key text, p_kind text, p_status text, p_source text,
    p_since timestamptz, p_limit int, p_after uuid,
    out ids uuid[], out next uuid)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    v_span  int := interlock.list_span() / 5;
    v_at    timestamptz := 'infinity';
    v_id    uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
begin
    if p_after is not null then
        v_id := p_after;
        select x.arrived_at into v_at from interlock.requests x
        where x.tenant = p_tenant and x.id = p_after;
    end if;

    select array_agg(y.id order by y.arrived_at desc, y.id desc) into ids
    from (select s.id, s.arrived_at
          from (select x.id, x.arrived_at, x.job_id
                from interlock.requests x
                where x.tenant = p_tenant and x.work_key = p_key
                    and (x.arrived_at, x.id) < (v_at, v_id)
                order by x.arrived_at desc, x.id desc
                limit v_span) s
          cross join lateral (
              select from interlock.jobs x
              where x.tenant = p_tenant and x.id = s.id
                  and s.job_id = s.id
                  and (p_kind is null or x.kind = p_kind)
                  and (p_status is null or x.status = p_status)
                  and (p_source is null or x.source = p_source)
                  and x.created_at >= p_since
              limit 1) j
          limit p_limit + 1) y;

    if coalesce(cardinality(ids), 0) <= p_limit then
        select x.id into next from interlock.requests x
        where x.tenant = p_tenant and x.work_key = p_key
            and (x.arrived_at, x.id) < (v_at, v_id)
        order by x.arrived_at desc, x.id desc
        offset v_span - 1 limit 1;
    end if;
end
$$;

-- jobs_running(…): by the leases there are.
create or replace function interlock.jobs_running(
    p_tenant int, p_kind text, p_source text, p_since timestamptz,
    p_limit int, p_from uuid, p_low uuid, out ids uuid[], out next uuid)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    v_span  int := interlock.list_span();
begin
    select array_agg(y.job_id order by y.job_id desc) into ids
    from (select s.job_id
          from (select x.job_id from interlock.leases x
                where x.tenant = p_tenant and x.job_id < p_from
                    and x.job_id >= p_low
                order by x.job_id desc
                limit v_span) s
          cross join lateral (
              select from interlock.jobs_live x
              where x.tenant = p_tenant and x.id = s.job_id
                  and (p_kind is null or x.kind = p_kind)
                  and (p_source is null or x.source = p_source)
                  and x.created_at >= p_since
              limit 1) j
          limit p_limit + 1) y;

    if coalesce(cardinality(ids), 0) <= p_limit then
        select x.job_id into next from interlock.leases x
        where x.tenant = p_tenant and x.job_id < p_from and x.job_id >= p_low
        order by x.job_id desc
        offset v_span - 1 limit 1;
    end if;
end
$$;

-- jobs_in_state(…): those of a status that jobs_status knows.
create or replace function interlock.jobs_in_state(
    p_tenant int, p_status text, p_kind text, p_source text,
    p_since timestamptz, p_limit int, p_from uuid, p_low uuid,
    out ids uuid[], out next uuid)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    v_span  int := interlock.list_span();
begin
    select array_agg(y.id order by y.id desc) into ids
    from (select s.id
          from (select x.* from interlock.jobs x
                where x.tenant = p_tenant and x.status || '' = p_status
                    and x.status || '' in ('checking', 'held', 'parked',
                        'failed', 'canceled', 'superseded', 'expired')
                    and x.id < p_from and x.id >= p_low
                order by x.id desc
                limit v_span) s
          where (p_kind is null or s.kind = p_kind)
              and (p_source is null or s.source = p_source)
              and s.created_at >= p_since
          limit p_limit + 1) y;

    if coalesce(cardinality(ids), 0) <= p_limit then
        select x.id into next from interlock.jobs x
        where x.tenant = p_tenant and x.status || '' = p_status
            and x.status || '' in ('checking', 'held', 'parked', 'failed',
                'canceled', 'superseded', 'expired')
            and x.id < p_from and x.id >= p_low
        order by x.id desc
        offset v_span - 1 limit 1;
    end if;
end
$$;

-- jobs_waiting(…): what is queued, if that is not much; else ids is null: then
-- one of them is among the next jobs by their id.
create or replace function interlock.jobs_waiting(
    p_tenant int, p_kind text, p_source text, p_since timestamptz,
    p_limit int, p_from uuid, out ids uuid[], out next uuid)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    v_bound  int := interlock.list_span() / 5;
    v_all    uuid[];
begin
    if p_kind is null then
        select array_agg(y.id) into v_all
        from (select x.id from interlock.jobs_live x
              where x.tenant = p_tenant and x.place is not null
              limit v_bound) y;
    else
        select array_agg(y.id) into v_all
        from (select x.id from interlock.jobs_live x
              where x.tenant = p_tenant and x.kind = p_kind
                  and x.place is not null
              limit v_bound) y;
    end if;

    if cardinality(v_all) = v_bound then
        return;
    end if;

    select coalesce(array_agg(y.id order by y.id desc), '{}') into ids
    from (select k.id
          from (select u.id from unnest(v_all) u (id)
                where u.id < p_from
                order by u.id desc) k
          cross join lateral (
              select from interlock.jobs_live x
              where x.tenant = p_tenant and x.id = k.id
                  and x.status = 'queued'
                  and (p_source is null or x.source = p_source)
                  and x.created_at >= p_since
              limit 1) j
          limit p_limit + 1) y;
end
$$;

-- jobs_by_id(…): all jobs, in the order of their ids.
create or replace function interlock.jobs_by_id(
    p_tenant int, p_status text, p_kind text, p_source text,
    p_since timestamptz, p_limit int, p_from uuid, p_low uuid,
    out ids uuid[], out next uuid)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    v_span  int := interlock.list_span();
begin
    select array_agg(y.id order by y.id desc) into ids
    from (select s.id
          from (select x.* from interlock.jobs x
                where x.tenant = p_tenant and x.id < p_from and x.id >= p_low
                order by x.id desc
                limit v_span) s
          where (p_status is null or s.status = p_status)
              and (p_kind is null or s.kind = p_kind)
              and (p_source is null or s.source = p_source)
              and s.created_at >= p_since
          limit p_limit + 1) y;

    if coalesce(cardinality(ids), 0) <= p_limit then
        select x.id into next from interlock.jobs x
        where x.tenant = p_tenant and x.id < p_from and x.id >= p_low
        order by x.id desc
        offset v_span - 1 limit 1;
    end if;
end
$$;

revoke all on function interlock.jobs_of_key(int, text, text, text, text,
    timestamptz, int, uuid) from public;
revoke all on function interlock.jobs_running(int, text, text, timestamptz,
    int, uuid, uuid) from public;
revoke all on function interlock.jobs_in_state(int, text, text, text,
    timestamptz, int, uuid, uuid) from public;
revoke all on function interlock.jobs_waiting(int, text, text, timestamptz,
    int, uuid) from public;
revoke all on function interlock.jobs_by_id(int, text, text, text,
    timestamptz, int, uuid, uuid) from public;
revoke all on function interlock.jobs_list(int, text, text, text, text,
    timestamptz, int, text) from public;
grant execute on function interlock.jobs_list(int, text, text, text, text,
    timestamptz, int, text) to interlock_service;
