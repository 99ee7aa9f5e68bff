-- expire(limit): who: the sweep of every interlockd, each second, and again
-- at once while it returns limit rows.
-- Ends jobs that waited longer than max_wait and never were claimed, at most
-- limit of them.
-- Locks: works FOR NO KEY UPDATE SKIP LOCKED, judged again in the next
-- statement; then the limit groups that got room, by name.
-- Answers: one row a job, with its reason stored in jobs.error.
create or replace function interlock.expire(p_limit int)
returns table (tenant int, job_id uuid, kind text, status text,
    wake_kinds text[], ended_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now      timestamptz := clock_timestamp();
    v_tenant   int[];
    v_job      uuid[];
    v_key      text[];
    v_mine     int[];
    v_i        int;
    j          interlock.jobs;
    d          record;
    o          interlock.recovered;
    v_out      interlock.recovered[] := '{}';
    v_gten     int[] := '{}';
    v_group    text[] := '{}';
    v_wake     jsonb := '{}';
begin
    perform set_config('synchronous_commit', 'on', true);

    select array_agg(x.tenant), array_agg(x.id), array_agg(x.work_key)
    into v_tenant, v_job, v_key
    from (select j.tenant, j.id, j.work_key
          from interlock.jobs_live j
          where j.expire_at <= v_now and j.started_at is null
              and j.finished_at is null
          order by j.expire_at
          limit p_limit) x;

    select array_agg(u.i::int order by u.i) into v_mine
    from unnest(v_tenant, v_key) with ordinality as u (tenant, key, i)
    cross join lateral (
        select from interlock.works x
        where x.tenant = u.tenant and x.work_key = u.key
        for no key update skip locked) w;

    foreach v_i in array coalesce(v_mine, '{}') loop
        select * into j from interlock.jobs_live x
        where x.tenant = v_tenant[v_i] and x.id = v_job[v_i];

        continue when not found or j.started_at is not null
            or j.finished_at is not null
            or j.expire_at > clock_timestamp();

        select * into d from interlock.job_drop(j, 'expired', format(
            'waited longer than max_wait (%s s)', (
                select v.max_wait from interlock.kind_versions v
                where v.tenant = j.tenant and v.name = j.kind
                    and v.version = j.kind_version)), v_now);

        o.tenant := j.tenant;
        o.job_id := j.id;
        o.kind := j.kind;
        o.status := 'expired';
        o.runnable_kind := case when d.runnable then j.kind end;
        o.ended_jobs := d.ended;
        v_out := v_out || o;
        if d.groups <> '{}' then
            v_group := v_group || d.groups;
            v_gten := v_gten
                || array_fill(j.tenant, array[cardinality(d.groups)]);
        end if;
    end loop;

    if cardinality(v_group) > 0 then
        select coalesce(jsonb_object_agg(x.tenant, x.kinds), '{}')
        into v_wake
        from (select g.tenant, string_agg(distinct g.kind, ',') as kinds
              from interlock.groups_settle(v_gten, v_group) g
              group by g.tenant) x;
    end if;

    return query
    select p.tenant, p.job_id, p.kind, p.status, string_to_array(concat_ws(
        ',', p.runnable_kind, case when p.first
            then v_wake ->> p.tenant::text end), ','), p.ended_jobs
    from (select x.*, row_number() over (
              partition by x.tenant order by x.ord) = 1 as first
          from unnest(v_out) with ordinality as x (tenant, job_id,
              attempt_id, kind, status, runnable_kind, ended_jobs,
              blocked_ms, wake_kinds, ord)) p
    order by p.ord;
end
$$;

-- limits_sweep(limit): who: the sweep of every interlockd, each second, and
-- again at once while it returns a row for which there is more to do
-- Lets limited jobs go wherever there is room for them that nobody saw (a
-- capacity raised, a start rate's next seconds, a job ended in between), at
-- most about limit of them.
-- Locks: the groups with room, by name; skips those that somebody holds, who
-- will settle them himself.
-- Answers: one row a tenant of which kinds may start now or soon.
create or replace function interlock.limits_sweep(p_limit int)
returns table (tenant int, wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_tenant  int := -2147483648;
    v_name    text := '';
    v_left    int := p_limit;
    v_kinds   text[];
    v_all     jsonb := '{}';
    r         record;
begin
    perform set_config('synchronous_commit', 'on', true);

    -- From one group to the next by the index, not through all its jobs.
    loop
        select j.tenant, j.limited_by into r
        from interlock.jobs_live j
        where (j.tenant, j.limited_by) > (v_tenant, v_name)
            and j.limited_by is not null and j.place is not null
        order by j.tenant, j.limited_by limit 1;
        exit when not found or v_left <= 0;

        v_tenant := r.tenant;
        v_name := r.limited_by;

        select * into r from interlock.group_room(v_tenant, v_name);
        continue when r.room <= 0;

        perform from interlock.limit_groups g
        where g.tenant = v_tenant and g.name = v_name
        for update skip locked;
        continue when not found;

        v_kinds := interlock.group_promote(v_tenant, v_name);
        if v_kinds <> '{}' then
            v_left := v_left - 200;
            v_all := jsonb_set(v_all, array[v_tenant::text],
                coalesce(v_all -> v_tenant::text, '[]') || to_jsonb(v_kinds));
        end if;
    end loop;

    return query
    select e.key::int, (select array_agg(distinct x)
        from jsonb_array_elements_text(e.value) x)
    from jsonb_each(v_all) e;
end
$$;

revoke all on function interlock.expire(int) from public;
revoke all on function interlock.limits_sweep(int) from public;
grant execute on function interlock.expire(int) to interlock_service;
grant execute on function interlock.limits_sweep(int) to interlock_service;
