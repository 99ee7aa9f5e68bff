-- unclaim(tenants, attempts): who: interlockd, when the answer with the owner
-- token could not be written: the worker never had it.
-- Locks: works in key order, leases by id (owner_lock), limit groups by name.
-- Answers one row each: ok false if the attempt has ended meanwhile.  The job
-- is ready as before, the attempt is not counted; the fence stays used.
-- wake_kinds as in finish.
create or replace function interlock.unclaim(
    p_tenant int[], p_attempt uuid[])
returns table (ord int, ok boolean, kind text, wake_kinds text[])
language plpgsql security definer
set search_path = pg_catalog, interlock, pg_temp
as $$
#variable_conflict use_column
declare
    r  record;
    l  interlock.leases;
    a  interlock.attempt_answer;
    v_tenant  int[] := '{}';
    v_group   text[] := '{}';
    v_ok      boolean[] := '{}';
    v_kind    text[] := '{}';
    v_run     boolean[] := '{}';
    v_wake    jsonb := '{}';
begin
    perform set_config('synchronous_commit', 'on', true);

    perform interlock.owner_lock(p_tenant, p_attempt);

    for r in
        select u.* from unnest(p_tenant, p_attempt) with ordinality
            as u (tenant, attempt, ord)
        order by u.ord
    loop
        select * into l from interlock.leases x
        where x.tenant = r.tenant and x.attempt_id = r.attempt;

        v_ok := v_ok || found;
        v_kind := v_kind || l.kind;
        v_run := v_run || false;

        if found then
            a := interlock.attempt_end(l, 'unclaim', null, null, null, null,
                null, null, null, null, null, null);
            v_run[r.ord] := a.runnable;
            if a.groups <> '{}' then
                v_group := v_group || a.groups;
                v_tenant := v_tenant || array_fill(r.tenant,
                    array[cardinality(a.groups)]);
            end if;
        end if;
    end loop;

    if cardinality(v_group) > 0 then
        select coalesce(jsonb_object_agg(x.tenant, x.kinds), '{}')
        into v_wake
        from (select g.tenant, string_agg(distinct g.kind, ',') as kinds
              from interlock.groups_settle(v_tenant, v_group) g
              group by g.tenant) x;
    end if;

    return query
    select u.ord::int, u.ok, u.kind, string_to_array(concat_ws(',',
        case when u.run then u.kind end,
        case when u.ord = array_position(p_tenant, p_tenant[u.ord::int])
            then v_wake ->> p_tenant[u.ord::int]::text end), ',')
    from unnest(v_ok, v_kind, v_run) with ordinality
        as u (ok, kind, run, ord);
end
$$;

revoke all on function interlock.unclaim(int[], uuid[]) from public;
grant execute on function interlock.unclaim(int[], uuid[])
    to interlock_service;
