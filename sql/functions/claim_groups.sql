-- claim_groups.sql: what claim does about limit groups; helpers of it.

-- claim_groups(tenants, jobs, mine, held, skip): locks the limit groups of the
-- candidates at the places mine, by name, save those that are held already;
-- skip leaves out what others hold.  Answers the groups locked.
create or replace function interlock.claim_groups(
    p_tenant int[], p_job uuid[], p_mine int[], p_held text[],
    p_skip boolean)
returns table (tenant int, name text)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_ten   int[];
    v_name  text[];
begin
    select array_agg(y.tenant order by y.tenant, y.name),
        array_agg(y.name order by y.tenant, y.name)
    into v_ten, v_name
    from (select distinct j.tenant, j.name
          from unnest(p_mine) m (pos)
          cross join lateral (
              select x.tenant, g.name
              from interlock.jobs_live x, unnest(x.groups) g (name)
              where x.tenant = p_tenant[m.pos] and x.id = p_job[m.pos]
              limit 1000) j
          where j.tenant || '/' || j.name <> all (p_held)) y;

    if p_skip then
        return query
        select u.tenant, u.name
        from unnest(v_ten, v_name) u (tenant, name)
        cross join lateral (
            select from interlock.limit_groups x
            where x.tenant = u.tenant and x.name = u.name
            for update skip locked) l;
    else
        return query
        select u.tenant, u.name
        from unnest(v_ten, v_name) u (tenant, name)
        cross join lateral (
            select from interlock.limit_groups x
            where x.tenant = u.tenant and x.name = u.name
            for update) l;
    end if;
end
$$;

-- claim_room(tenant, group): how many more attempts a group may have, counted
-- from its live ones (null: no limit of that name); when the next is to start,
-- the time between two, and by how much one may come early (null: no rate).
-- Caller holds the group.
create or replace function interlock.claim_room(
    p_tenant int, p_group text, out room bigint, out next_start timestamptz,
    out step interval, out slack interval)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_limit  interlock.limits;
begin
    select * into v_limit from interlock.limits l
    where l.tenant = p_tenant and l.name = interlock.limit_of(p_group);
    if not found then
        return;
    end if;

    select v_limit.capacity - count(*) into room from (
        select from interlock.lease_groups x
        where x.tenant = p_tenant and x.group_name = p_group
        limit v_limit.capacity) y;

    if v_limit.start_rate is not null then
        step := interlock.rate_step(v_limit.start_rate);
        slack := interlock.rate_slack(v_limit.start_rate);
        select g.next_start into next_start
        from interlock.limit_groups g
        where g.tenant = p_tenant and g.name = p_group;
        next_start := coalesce(next_start, '-infinity');
    end if;
end
$$;

-- claim_hold(tenants, jobs, groups): makes each of these jobs limited by its
-- group.  Caller holds the works and the groups.
create or replace function interlock.claim_hold(
    p_tenant int[], p_job uuid[], p_group text[])
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    update interlock.jobs_live j
    set place = 'limited', limited_by = y.name, retry_at = null,
        changed = pg_current_xact_id()
    from (select x.ctid as tid, u.name
          from unnest(p_tenant, p_job, p_group) as u (tenant, job, name)
          cross join lateral (
              select z.ctid from interlock.jobs_live z
              where z.tenant = u.tenant and z.id = u.job
              limit 1) x) y
    where j.ctid = y.tid;
end
$$;

-- claim_settle(tenants, tenant/group, next): keeps the next start of those
-- that have one, and promotes what the groups have room for.  Caller holds
-- the groups.
create or replace function interlock.claim_settle(
    p_tenant int[], p_held text[], p_next timestamptz[])
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_group  text;
begin
    for i in 1 .. cardinality(p_held) loop
        v_group := substr(p_held[i], strpos(p_held[i], '/') + 1);

        if p_next[i] is not null then
            update interlock.limit_groups g set next_start = p_next[i]
            where g.tenant = p_tenant[i] and g.name = v_group
                and g.next_start <> p_next[i];
        end if;

        perform interlock.group_promote(p_tenant[i], v_group);
    end loop;
end
$$;

revoke all on function interlock.claim_groups(int[], uuid[], int[], text[],
    boolean) from public;
revoke all on function interlock.claim_room(int, text) from public;
revoke all on function interlock.claim_hold(int[], uuid[], text[])
    from public;
revoke all on function interlock.claim_settle(int[], text[], timestamptz[])
    from public;
