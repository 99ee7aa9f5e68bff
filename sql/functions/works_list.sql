-- works_list(…): who: interlockd, GET /v1/works.
-- Work keys of a tenant, in the order of their bytes, as the filters say that
-- are not null: prefix, kind, state (see work_state).
-- Locks: none.  Answers a page, see 05_list_scan.sql; a cursor is a work key.
create or replace function interlock.works_list(
    p_tenant int, p_prefix text, p_kind text, p_state text, p_limit int,
    p_cursor text)
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
    v_limit  int := greatest(1, least(p_limit, 1000));
    v_keys   text[];
    v_next   text;
begin
    if p_state in ('queued', 'running', 'checking', 'held') then
        select x.keys, x.next into v_keys, v_next
        from interlock.works_active(p_tenant, coalesce(p_prefix, ''), p_kind,
            p_state, v_limit, coalesce(p_cursor, '')) x;
    elsif p_state = 'parked' then
        select x.keys, x.next into v_keys, v_next
        from interlock.works_parked(p_tenant, coalesce(p_prefix, ''), p_kind,
            v_limit, coalesce(p_cursor, '')) x;
    else
        select x.keys, x.next into v_keys, v_next
        from interlock.works_all(p_tenant, coalesce(p_prefix, ''), p_kind,
            p_state, v_limit, coalesce(p_cursor, '')) x;
    end if;

    if cardinality(v_keys) > v_limit then
        v_keys := v_keys[:v_limit];
        v_next := v_keys[v_limit];
    end if;

    return query
    select w.doc, null::text
    from unnest(v_keys) with ordinality k (work_key, n)
    cross join lateral (
        select interlock.work_line(x) as doc from interlock.works x
        where x.tenant = p_tenant and x.work_key = k.work_key
        limit 1) w
    order by k.n;

    if v_next is not null then
        return query select null::text, v_next;
    end if;
end
$$;

-- All that follow: keys, at most limit + 1 of those that match and stand
-- behind a key; next, where to go on if the rows that a page looks at were used
-- up before.  Keys with a prefix stand together (the collation is C).

-- works_all(…): among all keys; state is null or idle.
create or replace function interlock.works_all(
    p_tenant int, p_prefix text, p_kind text, p_state text, p_limit int,
    p_after text, out keys text[], out next text)
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
    v_span  int := interlock.list_span() / case when p_state is null then 1
                                           else 5 end;
begin
    select array_agg(y.work_key order by y.work_key) into keys
    from (select s.work_key
          from (select x.tenant, x.work_key, x.kind from interlock.works x
                where x.tenant = p_tenant
                    and x.work_key >= p_prefix and x.work_key > p_after
                    and x.work_key < p_prefix || U&'\+10FFFF'
                order by x.work_key
                limit v_span) s
          where (p_kind is null or s.kind = p_kind)
              and (p_state is null or not exists (
                      select from interlock.jobs_live x
                      where x.tenant = s.tenant and x.work_key = s.work_key
                          and x.status in ('queued', 'running', 'checking',
                                           'held'))
                  and not exists (
                      select from interlock.jobs_live x
                      where x.tenant = s.tenant and x.work_key = s.work_key
                          and (x.place = 'blocked' or x.status = 'parked')))
          limit p_limit + 1) y;

    if coalesce(cardinality(keys), 0) <= p_limit then
        select x.work_key into next from interlock.works x
        where x.tenant = p_tenant
            and x.work_key >= p_prefix and x.work_key > p_after
            and x.work_key < p_prefix || U&'\+10FFFF'
        order by x.work_key
        offset v_span - 1 limit 1;
    end if;
end
$$;

-- works_active(…): among the jobs that have not ended.
create or replace function interlock.works_active(
    p_tenant int, p_prefix text, p_kind text, p_state text, p_limit int,
    p_after text, out keys text[], out next text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
set enable_hashagg = off
as $$
#variable_conflict use_column
declare
    v_span  int := interlock.list_span();
begin
    select array_agg(y.work_key order by y.work_key) into keys
    from (select s.work_key
          from (select x.work_key, x.kind, x.status, x.place
                from interlock.jobs_live x
                where x.tenant = p_tenant
                    and x.status in ('queued', 'running', 'checking', 'held')
                    and x.work_key >= p_prefix and x.work_key > p_after
                    and x.work_key < p_prefix || U&'\+10FFFF'
                order by x.work_key
                limit v_span) s
          where s.status = p_state and s.place is distinct from 'blocked'
              and (p_kind is null or s.kind = p_kind)
          group by s.work_key
          having (interlock.work_state(p_tenant, s.work_key)).state = p_state
          order by s.work_key
          limit p_limit + 1) y;

    if coalesce(cardinality(keys), 0) <= p_limit then
        select x.work_key into next from interlock.jobs_live x
        where x.tenant = p_tenant
            and x.status in ('queued', 'running', 'checking', 'held')
            and x.work_key >= p_prefix and x.work_key > p_after
            and x.work_key < p_prefix || U&'\+10FFFF'
        order by x.work_key
        offset v_span - 1 limit 1;
    end if;
end
$$;

-- works_parked(…): among the jobs that wait in a line.
create or replace function interlock.works_parked(
    p_tenant int, p_prefix text, p_kind text, p_limit int, p_after text,
    out keys text[], out next text)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
set enable_hashagg = off
as $$
#variable_conflict use_column
declare
    v_span  int := interlock.list_span();
begin
    select array_agg(y.work_key order by y.work_key) into keys
    from (select s.work_key
          from (select x.work_key, x.kind, x.status from interlock.jobs_live x
                where x.tenant = p_tenant
                    and (x.place = 'blocked' or x.status = 'parked')
                    and x.work_key >= p_prefix and x.work_key > p_after
                    and x.work_key < p_prefix || U&'\+10FFFF'
                order by x.work_key
                limit v_span) s
          where s.status = 'parked'
              and (p_kind is null or s.kind = p_kind)
          group by s.work_key
          having (interlock.work_state(p_tenant, s.work_key)).state
              = 'parked'
          order by s.work_key
          limit p_limit + 1) y;

    if coalesce(cardinality(keys), 0) <= p_limit then
        select x.work_key into next from interlock.jobs_live x
        where x.tenant = p_tenant
            and (x.place = 'blocked' or x.status = 'parked')
            and x.work_key >= p_prefix and x.work_key > p_after
            and x.work_key < p_prefix || U&'\+10FFFF'
        order by x.work_key
        offset v_span - 1 limit 1;
    end if;
end
$$;

-- work_state(tenant, key): how the key stands, and the job because of which:
-- that of its jobs which has come furthest (running, checking, held, queued),
-- of several the oldest; a key with none of these is parked if something is,
-- else idle.  Of very many jobs (overlap allow) the oldest are looked at.
create or replace function interlock.work_state(
    p_tenant int, p_key text, out state text, out job_id uuid)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    select y.status, y.id into state, job_id
    from (select x.status, x.id, x.place, x.created_at
          from interlock.jobs_live x
          where x.tenant = p_tenant and x.work_key = p_key
              and x.status in ('queued', 'running', 'checking', 'held')
          order by x.created_at limit 200) y
    order by array_position(array['running', 'checking', 'held', 'queued'],
            y.status), coalesce(y.place, '') = 'blocked', y.created_at
    limit 1;

    if not found then
        select x.status, x.id into state, job_id
        from interlock.jobs_live x
        where x.tenant = p_tenant and x.work_key = p_key
            and (x.place = 'blocked' or x.status = 'parked')
        order by x.turn limit 1;
    end if;

    state := coalesce(state, 'idle');
end
$$;

-- work_line(w): a work as lists show it.  waiting counts the jobs behind the
-- active ones, at most 1000.  last_status is that of the job that an attempt
-- was last ended of, or of the key's first one; updated_at the last arrival,
-- claim or end.
create or replace function interlock.work_line(w interlock.works)
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    s          record;
    v_waiting  int;
    v_last     uuid;
    v_status   text;
    v_ended    timestamptz;
    v_arrived  timestamptz;
    v_granted  timestamptz;
begin
    select * into s from interlock.work_state(w.tenant, w.work_key);

    select count(*) into v_waiting
    from (select from interlock.jobs_live x
          where x.tenant = w.tenant and x.work_key = w.work_key
              and (x.place = 'blocked' or x.status = 'parked')
          limit 1000) y;

    select x.job_id, x.ended_at into v_last, v_ended
    from interlock.attempts x
    where x.tenant = w.tenant and x.work_key = w.work_key
    order by x.fence desc limit 1;

    select x.status into v_status from interlock.jobs x
    where x.tenant = w.tenant and x.id = coalesce(v_last, w.first_request);

    select x.arrived_at into v_arrived from interlock.requests x
    where x.tenant = w.tenant and x.work_key = w.work_key
    order by x.arrived_at desc limit 1;

    if s.state = 'running' then
        select x.granted_at into v_granted from interlock.leases x
        where x.tenant = w.tenant and x.job_id = s.job_id;
    end if;

    return json_build_object(
        'work_key', w.work_key,
        'kind', w.kind,
        'fence', w.fence,
        'state', s.state,
        'active_job_id', s.job_id,
        'waiting', v_waiting,
        'last_status', v_status,
        'last_job_id', coalesce(v_last, w.first_request),
        'published_revision', w.published_revision,
        'created_at', interlock.ts(w.created_at),
        'updated_at', interlock.ts(greatest(w.created_at, w.published_at,
            v_ended, v_arrived, v_granted)))::text;
end
$$;

revoke all on function interlock.works_all(int, text, text, text, int, text)
    from public;
revoke all on function interlock.works_active(int, text, text, text, int,
    text) from public;
revoke all on function interlock.works_parked(int, text, text, int, text)
    from public;
revoke all on function interlock.work_state(int, text) from public;
revoke all on function interlock.work_line(interlock.works) from public;
revoke all on function interlock.works_list(int, text, text, text, int, text)
    from public;
grant execute on function interlock.works_list(int, text, text, text, int,
    text) to interlock_service;
