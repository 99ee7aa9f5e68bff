-- limit_groups.sql: how limit groups hold jobs back and let them go; helpers
-- of submit, claim, attempt_end and the sweeps.
--
-- A job that may not start because of a group leaves the ready jobs: it is
-- 'limited', and stands in the group's own order (jobs_limited), so that what
-- is blocked costs nobody else's claim anything.  Whoever changes how much
-- room a group has ends its transaction with groups_settle, which, under the
-- group's lock, lets as many go as there is room for.  Whoever only looks
-- without the lock (submit) and finds no room puts the job among the limited
-- ones and settles too: so nothing waits beside room.
-- claim alone judges exactly, under the lock; all else is to find work well.
--
-- A group is known by its resolved name, "crm:{site=17}"; its limit is that
-- of the name without values, "crm:{site}".

-- limit_of(group): the name of its limit.
create or replace function interlock.limit_of(p_group text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select regexp_replace(p_group, '\{([a-z][a-z0-9_]*)=[^}]*\}', '{\1}',
                          'g')
$$;

-- key_part(template, field): which part of a work key the field is, or null.
create or replace function interlock.key_part(p_template text, p_field text)
returns int
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select min(x.i)::int
    from unnest(string_to_array(p_template, ':')) with ordinality x (part, i)
    where x.part = '{' || p_field || '}'
$$;

-- job_groups(tenant, k, work_key): the groups of a job of that kind and key,
-- in order, or null if there are none.
create or replace function interlock.job_groups(
    p_tenant int, k interlock.kind_versions, p_key text)
returns text[]
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
as $$
declare
    v_out    text[] := '{}';
    v_name   text;
    v_field  text;
    v_value  text;
begin
    foreach v_name in array k.limits loop
        for v_field in
            select x[1] from regexp_matches(v_name,
                '\{([a-z][a-z0-9_]*)\}', 'g') x
        loop
            if v_field = 'tenant' then
                select t.name into v_value from interlock.tenants t
                where t.id = p_tenant;
            elsif v_field = 'kind' then
                v_value := k.name;
            else
                v_value := split_part(p_key, ':',
                    interlock.key_part(k.key_template, v_field));
            end if;
            v_name := replace(v_name, '{' || v_field || '}', '{' || v_field
                || '=' || replace(v_value, '}', '%7D') || '}');
        end loop;
        v_out := v_out || v_name;
    end loop;

    return (select array_agg(distinct x order by x) from unnest(v_out) x);
end
$$;

-- group_room(tenant, group): how many more jobs of the group may go to the
-- ready ones now; null for no bound.  live are its live attempts, have what
-- was let go and is not claimed yet.  With a start rate, what may start within
-- a fiftieth of a second counts as room, and one at least: whoever was given a
-- time goes before all who come later, so that is for as few as may be.
-- Exact only under the group's lock.
create or replace function interlock.group_room(
    p_tenant int, p_group text, out room bigint, out have bigint,
    out start_rate float8, out next_start timestamptz)
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_limit  interlock.limits;
    v_live   bigint;
begin
    select * into v_limit from interlock.limits l
    where l.tenant = p_tenant and l.name = interlock.limit_of(p_group);
    if not found then
        return;
    end if;

    select count(*) into v_live from (
        select from interlock.lease_groups x
        where x.tenant = p_tenant and x.group_name = p_group
        limit v_limit.capacity) x;

    room := v_limit.capacity - v_live;
    if room <= 0 then
        return;
    end if;

    select count(*) into have from (
        select from interlock.jobs_live j
        where j.tenant = p_tenant and j.limited_by = p_group
            and j.place in ('ready', 'delayed')
        limit v_limit.capacity) x;

    room := room - have;

    if v_limit.start_rate is not null then
        start_rate := v_limit.start_rate;
        room := least(room,
                      greatest(1, ceil(v_limit.start_rate / 50)) - have);
        select g.next_start into next_start
        from interlock.limit_groups g
        where g.tenant = p_tenant and g.name = p_group;
    end if;
end
$$;

-- rate_step(rate), rate_slack(rate): the time between two starts, and by how
-- much one may come early, such that no second sees more than rate starts:
-- with fewer than a hundred a second each waits for its own time, beyond that
-- every hundredth may be caught up.
create or replace function interlock.rate_step(p_rate float8)
returns interval
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select make_interval(secs => 1 / (p_rate - floor(p_rate / 100)))
$$;

create or replace function interlock.rate_slack(p_rate float8)
returns interval
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select make_interval(secs => floor(p_rate / 100)
        / (p_rate - floor(p_rate / 100)))
$$;

-- group_start(tenant, group): when the group's rate lets its next job start;
-- null if it has no rate (or there is no group).  A look without locks.
create or replace function interlock.group_start(
    p_tenant int, p_group text)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return (
        select g.next_start - interlock.rate_slack(l.start_rate)
        from interlock.limit_groups g, interlock.limits l
        where g.tenant = p_tenant and g.name = p_group
            and l.tenant = g.tenant and l.name = g.limit_name
            and l.start_rate is not null);
end
$$;

-- groups_busy(tenant, groups): the first group that a job of these should
-- wait for, or null; a look without locks.
create or replace function interlock.groups_busy(
    p_tenant int, p_groups text[])
returns text
language plpgsql stable
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_group  text;
    r        record;
begin
    foreach v_group in array coalesce(p_groups, '{}') loop
        perform from interlock.jobs_live j
        where j.tenant = p_tenant and j.limited_by = v_group
            and j.place = 'limited'
        limit 1;
        if found then
            return v_group;
        end if;

        select * into r from interlock.group_room(p_tenant, v_group);
        if r.room <= 0 or (r.start_rate is not null and (r.have > 0
            or r.next_start - interlock.rate_slack(r.start_rate)
               > clock_timestamp()))
        then
            return v_group;
        end if;
    end loop;

    return null;
end
$$;

-- groups_ensure(tenants, groups): makes the rows that are missing, in order.
-- A transaction calls it once, before it locks any of them.
create or replace function interlock.groups_ensure(
    p_tenant int[], p_group text[])
returns void
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    insert into interlock.limit_groups (tenant, name, limit_name)
    select u.tenant, u.name, interlock.limit_of(u.name)
    from (select distinct x.tenant, x.name
          from unnest(p_tenant, p_group) x (tenant, name)
          order by x.tenant, x.name) u
    left join lateral (
        select true as there from interlock.limit_groups g
        where g.tenant = u.tenant and g.name = u.name
        limit 1) g on true
    where g.there is null
    order by u.tenant, u.name
    on conflict do nothing;
end
$$;

-- groups_settle(tenants, groups): locks these groups by name, then lets their
-- limited jobs go as far as there is room, the first in order first, at most
-- 200 of each.  With a start rate each goes for its own time.  The last step
-- of a transaction: waits for group rows, then for nothing more.
-- A job's own row is skipped if somebody who holds its work is changing it.
-- Answers: the kinds of which a job may start now or at a known time.
create or replace function interlock.groups_settle(
    p_tenant int[], p_group text[])
returns table (tenant int, kind text)
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_kinds  text[];
    g        record;
begin
    if cardinality(p_group) = 0 then
        return;
    end if;

    perform from (
        select distinct u.tenant, u.name
        from unnest(p_tenant, p_group) u (tenant, name)
        order by u.tenant, u.name) u
    cross join lateral (
        select from interlock.limit_groups x
        where x.tenant = u.tenant and x.name = u.name
        for update) l;

    for g in
        select distinct u.tenant, u.name
        from unnest(p_tenant, p_group) u (tenant, name)
        order by u.tenant, u.name
    loop
        v_kinds := interlock.group_promote(g.tenant, g.name);
        return query select g.tenant, x from unnest(v_kinds) x;
    end loop;
end
$$;

-- group_promote(tenant, group): the work of groups_settle for one group that
-- the caller has locked.
create or replace function interlock.group_promote(
    p_tenant int, p_group text)
returns text[]
language plpgsql
set search_path = pg_catalog, interlock, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_now    timestamptz := clock_timestamp();
    v_step   interval;
    v_kinds  text[];
    r        record;
begin
    perform from interlock.jobs_live j
    where j.tenant = p_tenant and j.limited_by = p_group
        and j.place = 'limited'
    limit 1;
    if not found then
        return '{}';
    end if;

    select * into r from interlock.group_room(p_tenant, p_group);
    if r.room <= 0 then
        return '{}';
    end if;

    if r.start_rate is not null then
        v_step := interlock.rate_step(r.start_rate);
        r.next_start := greatest(v_now,
            r.next_start - interlock.rate_slack(r.start_rate));
    end if;

    with next as (
        select j.ctid as tid, j.order_key, j.id
        from interlock.jobs_live j
        where j.tenant = p_tenant and j.limited_by = p_group
            and j.place = 'limited'
        order by j.order_key, j.id
        limit least(coalesce(r.room, 200), 200)
        for update skip locked),
    dealt as (
        select s.tid, case when v_step is null then v_now
            else r.next_start + v_step * (r.have + row_number() over (
                     order by s.order_key, s.id) - 1) end as at
        from next s),
    up as (
        update interlock.jobs_live j
        set place = case when d.at > v_now then 'delayed' else 'ready' end,
            run_at = greatest(j.run_at, d.at),
            changed = pg_current_xact_id()
        from dealt d
        where j.ctid = d.tid
        returning j.kind)
    select coalesce(array_agg(distinct u.kind), '{}') into v_kinds from up u;

    return v_kinds;
end
$$;

revoke all on function interlock.limit_of(text) from public;
revoke all on function interlock.key_part(text, text) from public;
revoke all on function interlock.job_groups(int, interlock.kind_versions,
    text) from public;
revoke all on function interlock.group_room(int, text) from public;
revoke all on function interlock.group_start(int, text) from public;
revoke all on function interlock.rate_step(float8) from public;
revoke all on function interlock.rate_slack(float8) from public;
revoke all on function interlock.groups_busy(int, text[]) from public;
revoke all on function interlock.groups_ensure(int[], text[]) from public;
revoke all on function interlock.groups_settle(int[], text[]) from public;
revoke all on function interlock.group_promote(int, text) from public;
